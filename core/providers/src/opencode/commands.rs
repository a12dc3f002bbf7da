//! opencode's own commands: which there are, and how a message that begins with one is said.
//!
//! opencode makes a text of a command's template and the words behind its name, and hands to a shell what stands in it between
//! `` !` `` and `` ` `` before anybody is asked (docs/agents-probes.md, section 13). So where a mode demands that commands are
//! asked for, one in which something could stand there is refused.

use super::{
    driver::OpencodeRuntime,
    link::Link,
    outgoing::{Call, Prompt},
    replies::{CallError, Reply},
    rules,
};
use crate::rpc::{commands::slash_command, frames::text_of};
use pilothouse_domain::{Mode, provider::OfferedCommand};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// How much longer a command may take until opencode shows its message: what its template has a shell do comes before.
const PREPARING: Duration = Duration::from_secs(120);

/// How long after its refusal of a command opencode may tell why.
const TOLD: Duration = Duration::from_secs(1);

/// A command of opencode's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// As it is offered.
    pub offered: OfferedCommand,
    /// What its text is made of; `None` where only a server of tools knows.
    pub template: Option<String>,
    /// The agent that does it, if not that of the conversation.
    pub agent: Option<String>,
    /// Whether a subagent does it, where the command says so.
    pub subagent: Option<bool>,
}

/// A command as a message names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its name, without a slash.
    pub name: String,
    /// The words behind it.
    pub arguments: String,
    /// The agent that does it in the conversation itself, if not that of the mode.
    pub agent: Option<String>,
}

/// Reads one; `None` if it has no name.
pub(super) fn read(command: &Value) -> Option<Command> {
    Some(Command {
        offered: slash_command(command)?,
        template: text_of(command, "template"),
        agent: text_of(command, "agent"),
        subagent: command.get("subtask").and_then(Value::as_bool),
    })
}

/// Whether something of the text that opencode makes of a template and words could be handed to a shell. What replaces a `$1` or
/// `$ARGUMENTS` can be nothing, and stands beside what the template has there.
fn may_run(template: Option<&str>, words: &str) -> bool {
    let Some(template) = template else {
        return true;
    };
    let closes = |after: &str| {
        let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
        digits.trim_start_matches("ARGUMENTS").starts_with('`')
    };
    template.contains("!`")
        || template.contains("!$")
        || words.contains('!')
            && (words.contains(['`', '$']) || template.split('$').skip(1).any(closes))
}

impl OpencodeRuntime {
    pub(super) async fn own_commands(&self) -> Result<Vec<Command>, CallError> {
        match self.link.call(Call::Commands).await {
            Ok(Reply::Commands(commands)) => Ok(commands),
            Err(error) if error.may_pass() => Err(error),
            // It has none, or is no version that says which.
            _ => Ok(Vec::new()),
        }
    }

    /// The command that a message begins with; `None` if it is words.
    ///
    /// # Errors
    /// In words, why it cannot be said in this mode or with files.
    pub(super) async fn named(
        &self,
        text: &str,
        mode: Mode,
        with_files: bool,
    ) -> Result<Option<Named>, String> {
        let Some(said) = text.strip_prefix('/') else {
            return Ok(None);
        };
        let (name, words) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
        let offered = self.own_commands().await;
        let offered = offered.map_err(|error| format!("{error}; nothing was sent"))?;
        let fits = |known: &Command| known.offered.name.strip_prefix('/') == Some(name);
        let Some(known) = offered.into_iter().find(fits) else {
            return Ok(None);
        };
        let refused = |why: &str| Err(format!("`/{name}` was not sent: {why}"));
        let agents = &self.choice.agents;
        let is_subagent = |named: &String| agents.get(named).is_some_and(|agent| !agent.primary);
        let apart = known
            .subagent
            .unwrap_or_else(|| known.agent.as_ref().is_some_and(is_subagent));
        if mode != Mode::FullAccess && may_run(known.template.as_deref(), words) {
            return refused(
                "opencode could run commands out of its text without asking (what stands between !` and `); say it in the mode \
                 full_access, or without these signs",
            );
        }
        // It is not asked whether the subagent may be used: without a floor of ours its own rules alone hold.
        if apart
            && self.process().is_far()
            && !agents.values().all(|agent| rules::asks(mode, &agent.rules))
        {
            return refused(&format!(
                "a subagent does it, and here some act without asking; start opencode with {}, or say it in the mode full_access",
                rules::ADVISED
            ));
        }
        if apart && with_files {
            return refused("a subagent does it, which opencode gives no files");
        }
        Ok(Some(Named {
            name: name.to_owned(),
            arguments: words.to_owned(),
            agent: known.agent.filter(|_| !apart),
        }))
    }
}

impl Link {
    /// Says a message. A command is answered only when its turn is over: it is taken once opencode shows its message.
    pub(super) async fn say(
        self: &Arc<Self>,
        prompt: Prompt,
        patience: Duration,
    ) -> Result<(), CallError> {
        let (session, is_command) = (prompt.session.clone(), prompt.command.is_some());
        let call = Call::Prompt(Box::new(prompt));
        if !is_command {
            return self.call_within(call, patience).await.map(|_| ());
        }
        let (method, deadline) = (call.name().to_owned(), patience + PREPARING);
        let link = Arc::clone(self);
        // The turn goes on whether or not anybody waits for its answer.
        let answer = tokio::spawn(async move { link.call_within(call, Duration::MAX).await });
        let shown = async {
            loop {
                let told = self.told.notified();
                if self.with_codec(|codec| codec.has_seen(&session)) {
                    return;
                }
                told.await;
            }
        };
        tokio::pin!(shown);
        tokio::select! {
            answer = answer => match answer.unwrap_or(Err(CallError::Lost)) {
                Ok(_) => Ok(()),
                // Why is told as the end of its turn, and only there.
                Err(error) => {
                    let told = tokio::time::timeout(TOLD, shown).await;
                    told.map_err(|_| error)
                }
            },
            () = &mut shown => Ok(()),
            () = tokio::time::sleep(deadline) => Err(CallError::Timeout {
                method,
                seconds: deadline.as_secs(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_run_what_its_template_or_its_words_put_between_the_signs() {
        for (template, words, runs) in [
            (Some("Review `$1` well!"), "a.rs", false),
            (Some("Review $ARGUMENTS"), "wow! it's great", false),
            (Some("Review $ARGUMENTS"), "`a.rs`", false),
            (Some("See !`git diff`"), "", true),
            (Some("See !$1"), "`id`", true),
            (Some("See !$9`id`"), "", true),
            (Some("See `$1` or `x`"), "!", true),
            (Some("See `$ARGUMENTS` or `x`"), "!", true),
            (Some("See $ARGUMENTS"), "!`id`", true),
            (Some("See $1$2"), "! `id`", true),
            (Some("No words"), "!`id`", true),
            (None, "", true),
        ] {
            assert_eq!(may_run(template, words), runs, "{template:?} {words}");
        }
    }
}
