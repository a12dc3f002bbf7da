//! What a conversation may do without asking, told to opencode before a turn in a mode begins.

use super::{
    codec::Told,
    driver::OpencodeRuntime,
    outgoing::Call,
    replies::{CallError, Reply, Session},
    rules::{self, Rule},
};
use crate::rpc::{self, session::lock};
use pilothouse_domain::{Mode, NativeId, ProviderEvent, provider_event::NativePlace};

impl OpencodeRuntime {
    /// The rules of a conversation in a mode, in which another agent than that of the mode may work.
    pub(super) fn rules(&self, mode: Mode, other: Option<&str>) -> Vec<Rule> {
        let agent = self.choice.rules(mode, other);
        match self.process.is_far() {
            true => rules::without_floor(mode, agent, &self.choice.agents),
            false => rules::of_mode(mode, agent),
        }
    }

    /// Whether a conversation that is taken up has the rules of a mode, and of no other.
    pub(super) fn holds(&self, session: &Session, mode: Mode) -> bool {
        let rules = self.rules(mode, None);
        if !session.rules.ends_with(&rules) {
            return false;
        }
        lock(&self.permitted).insert(session.id.clone(), rules);
        Mode::ALL
            .into_iter()
            .filter(|other| *other != mode)
            .all(|other| !session.rules.ends_with(&self.rules(other, None)))
    }

    /// Brings a conversation's rules in line with the chosen mode and the agent that works.
    pub(super) async fn permit(
        &self,
        session: &NativeId,
        mode: Mode,
        agent: Option<&str>,
    ) -> Result<(), CallError> {
        let rules = self.rules(mode, agent);
        if lock(&self.permitted).get(session) != Some(&rules) {
            let call = Call::Permit {
                session: session.clone(),
                rules: rules.clone(),
            };
            let holds = self.link.call(call).await?;
            if !matches!(&holds, Reply::Session(session) if session.rules.ends_with(&rules)) {
                return Err(CallError::RulesNotTaken { mode });
            }
            lock(&self.permitted).insert(session.clone(), rules);
        }
        self.link.with_codec(|codec| codec.set_mode(session, mode));
        Ok(())
    }

    /// Says once in a conversation which rules hold, where they are not ours alone.
    pub(super) async fn tell_rules(&self, session: &NativeId, turn: &NativeId, mode: Mode) {
        if mode == Mode::FullAccess || !lock(&self.untold).remove(session) {
            return;
        }
        let unasking = self.choice.unasking(mode);
        let subagents = match unasking.is_empty() {
            true => "its subagents ask by its own configuration".to_owned(),
            false => format!(
                "its subagents {} would act without asking by its own configuration and are denied in this mode; start it \
                 with {} to have them",
                unasking.join(", "),
                rules::ADVISED
            ),
        };
        let told = ProviderEvent {
            place: NativePlace {
                thread: Some(session.clone()),
                root: None,
                turn: Some(turn.clone()),
            },
            kind: rpc::notice(format!("somebody else started this opencode: {subagents}")),
        };
        self.link.tell(|_| vec![Told::Event(told)]).await;
    }
}
