//! What an agent does not offer at all, each with where that was seen. A row holds only as long as the run agrees: the agent
//! gives its model no such tool, and its host does not declare that it can.

use crate::{agent::Agent, way::Way};

/// A step that has nothing to be played on.
pub(crate) struct NotOffered {
    pub(crate) agent: Agent,
    pub(crate) step: &'static str,
    /// Why, for a person.
    pub(crate) reason: &'static str,
    /// Where it was seen.
    pub(crate) source: &'static str,
    /// Tools that would offer it.
    pub(crate) tools: &'static [&'static str],
}

const TABLE: &[NotOffered] = &[
    NotOffered {
        agent: Agent::Opencode,
        step: "plan",
        reason: "its plan agent writes its plan as a message and asks for no approval of it",
        source: "docs/agents-probes.md, section 11",
        tools: &["plan_exit", "exit_plan_mode"],
    },
    NotOffered {
        agent: Agent::Pi,
        step: "plan",
        reason: "it has no plans",
        source: "docs/agents-probes.md, section 9",
        tools: &["exit_plan_mode", "ExitPlanMode", "plan"],
    },
    NotOffered {
        agent: Agent::Pi,
        step: "todo list",
        reason: "it has no todo list",
        source: "docs/agents-probes.md, section 9",
        tools: &["todo", "todowrite", "TaskCreate", "update_plan"],
    },
    NotOffered {
        agent: Agent::Pi,
        step: "subagent",
        reason: "it has no subagents",
        source: "docs/agents-probes.md, section 9",
        tools: &["task", "agent", "Agent", "subagent", "spawn_agent"],
    },
];

/// The row for a step of an agent that is reached so.
pub(crate) fn row(agent: Agent, _way: Way, step: &str) -> Option<&'static NotOffered> {
    TABLE
        .iter()
        .find(|row| row.agent == agent && row.step == step)
}
