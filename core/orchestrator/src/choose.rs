//! What a new thread runs on, as it asks for it and the host allows it.

use crate::decide::{Deciding, invalid};
use pilothouse_domain::{CommandBody, Refusal, policy::AgentPolicy, thread::Selection};

/// The selection of a new thread. Of an agent that does not ask, it holds in which sandbox it runs: the one it names, or the
/// first that the host allows.
pub(crate) fn chosen(agent: &AgentPolicy, selection: &Selection) -> Result<Selection, Refusal> {
    let name = &selection.agent;
    if !agent.modes.contains(&selection.mode) {
        return Err(Refusal::UnsupportedMode {
            agent: name.clone(),
            mode: selection.mode,
        });
    }
    let allowed = &agent.sandboxes;
    let sandbox = match selection.sandbox {
        None => allowed.first().copied(),
        Some(wanted) if allowed.contains(&wanted) => Some(wanted),
        Some(_) if allowed.is_empty() => {
            let problem = format!("agent `{name}` asks before it acts and runs in none");
            return Err(invalid("sandbox", problem));
        }
        Some(_) => {
            let names: Vec<_> = allowed.iter().map(|one| one.name()).collect();
            let problem = format!(
                "the host lets agent `{name}` run in {} only",
                names.join(", ")
            );
            return Err(invalid("sandbox", problem));
        }
    };
    Ok(Selection {
        sandbox,
        ..selection.clone()
    })
}

impl Deciding<'_> {
    /// Whether what makes the agent run may still do so in the sandbox that the thread chose.
    pub(crate) fn check_sandbox(&self, selection: &Selection) -> Result<(), Refusal> {
        let runs = matches!(
            self.command.body,
            CommandBody::MessageSend { .. }
                | CommandBody::ThreadRollback { .. }
                | CommandBody::ThreadCompact
                | CommandBody::ThreadSignIn
        );
        let name = &selection.agent;
        match (self.policy.agents.get(name), selection.sandbox) {
            (Some(agent), Some(chosen)) if runs && !agent.sandboxes.contains(&chosen) => {
                let problem = format!(
                    "the host no longer lets agent `{name}` run in {}; choose the thread's mode anew, and it runs as the host allows now",
                    chosen.name()
                );
                Err(invalid("sandbox", problem))
            }
            _ => Ok(()),
        }
    }
}
