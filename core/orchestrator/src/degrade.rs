//! The one table of degradations: what a feature needs, what is done where the agent lacks it, and what its person is
//! told. `decide` acts by it and `affordances` shows it, so what is shown is what would happen.

use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, ItemId, Policy, ThreadState,
    state::{ActiveRun, ItemKind},
};

/// Something a person can do that needs the agent's help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Words into the running turn.
    Steer,
    /// Stopping the turn and starting another with the words.
    Restart,
    /// Stopping the turn.
    Interrupt,
}

/// What is done where the agent lacks the capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Another feature, which has a row of its own.
    Instead(Feature),
    /// Nothing: the command is refused.
    Refuse,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degradation {
    /// The feature.
    pub feature: Feature,
    /// What it needs.
    pub needs: CapabilityFlag,
    /// What is done without it.
    pub fallback: Fallback,
    /// What its person is told then.
    pub words: &'static str,
}

/// Every degradation.
pub const TABLE: &[Degradation] = &[
    Degradation {
        feature: Feature::Steer,
        needs: CapabilityFlag::ActiveSteering,
        fallback: Fallback::Instead(Feature::Restart),
        words: "This agent cannot be steered: the turn is stopped and started again with your words.",
    },
    Degradation {
        feature: Feature::Restart,
        needs: CapabilityFlag::Interrupt,
        fallback: Fallback::Refuse,
        words: "This agent cannot be stopped in a turn; your message can wait in the queue.",
    },
    Degradation {
        feature: Feature::Interrupt,
        needs: CapabilityFlag::Interrupt,
        fallback: Fallback::Refuse,
        words: "This agent cannot be stopped in a turn.",
    },
];

/// How a feature is served by an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// As asked.
    Native,
    /// By another feature; the row says what its person is told.
    Degraded(Feature, &'static Degradation),
    /// Not at all.
    Refused(&'static Degradation),
}

/// How a feature is served by the thread's agent. An unknown capability is never taken for a yes.
pub fn serve(feature: Feature, state: &ThreadState, policy: &Policy) -> Service {
    let mut asked = feature;
    let mut told: Option<&'static Degradation> = None;
    // The table is a chain: a feature's fallback has a row further down.
    for row in TABLE {
        if row.feature != asked {
            continue;
        }
        if capability(row.needs, state, policy) == CapabilityValue::Yes {
            return match told {
                None => Service::Native,
                Some(told) => Service::Degraded(asked, told),
            };
        }
        match row.fallback {
            Fallback::Instead(other) => {
                told = Some(row);
                asked = other;
            }
            Fallback::Refuse => return Service::Refused(row),
        }
    }
    // Unreachable with the table above: every feature has a row and every chain ends in a refusal.
    Service::Refused(&TABLE[TABLE.len() - 1])
}

/// What the thread's agent can, as its session said or, where that is silent, as its profile has it.
pub fn capability(flag: CapabilityFlag, state: &ThreadState, policy: &Policy) -> CapabilityValue {
    let Some(meta) = &state.meta else {
        return CapabilityValue::Unknown;
    };
    let agent = &meta.selection.agent;
    let said = state
        .session
        .as_ref()
        .filter(|session| session.agent == *agent)
        .map_or(CapabilityValue::Unknown, |session| {
            session.capabilities.value(flag)
        });
    match said {
        CapabilityValue::Unknown => policy
            .agents
            .get(agent)
            .map_or(CapabilityValue::Unknown, |declared| {
                declared.capabilities.value(flag)
            }),
        said => said,
    }
}

/// Tools of the active run that a stop of its turn would end.
pub(crate) fn running_tools(state: &ThreadState, active: &ActiveRun) -> Vec<ItemId> {
    state
        .items
        .iter()
        .filter(|slot| slot.kind == ItemKind::Tool && !slot.background)
        .filter(|slot| {
            state
                .node(slot.node)
                .is_some_and(|node| node.run == active.id)
        })
        .map(|slot| slot.id)
        .collect()
}
