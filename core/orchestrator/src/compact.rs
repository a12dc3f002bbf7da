//! Shortening the agent's context when a person asks for it: a run without a message, so that it is shown, stopped, lost
//! and waited for like any other.

use crate::{
    Verdict,
    decide::{Deciding, accepted, invalid},
    degrade::{self, Feature, Service},
    draft::StartIds,
};
use pilothouse_domain::{EffectKind, Event, Refusal, run::AttemptReason, run::Origin};

impl Deciding<'_> {
    pub(crate) fn compact(&mut self) -> Result<Verdict, Refusal> {
        self.check_rests()?;
        // Of a fork that the agent has not made yet there is nothing to shorten either.
        if self.draft.state.provider_thread.is_none() {
            return Err(invalid("thread", "nothing was said in it yet"));
        }
        if let Service::Refused(row) =
            degrade::serve(Feature::Compact, &self.draft.state, self.policy)
        {
            return Err(row.refusal());
        }
        let run = self.own_run();
        let ids = StartIds {
            attempt: self.command.id.derive("attempt"),
            node: self.command.id.derive("node"),
            effect: self.command.id.derive("effect"),
        };
        let ordinal = self.draft.state.next_ordinal;
        self.draft.emit(Event::RunStarted {
            run,
            message: None,
            ordinal,
            origin: Origin::Person,
            dispatch: None,
            supersedes: None,
        });
        self.draft.emit(Event::AttemptStarted {
            attempt: ids.attempt,
            run,
            ordinal: 1,
            reason: AttemptReason::Initial,
            root_node: ids.node,
            message: None,
        });
        self.draft.effect(
            ids.effect,
            EffectKind::Compact {
                run,
                attempt: ids.attempt,
            },
        );
        Ok(accepted())
    }
}
