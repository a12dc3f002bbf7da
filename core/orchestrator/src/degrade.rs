//! The one table of degradations: what a feature needs, what is done where the agent lacks it, and what its person is
//! told. `decide` acts by it and `affordances` shows it, so what is shown is what would happen.

use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, ItemId, Policy, Refusal, ThreadState, refusal,
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
    /// A thread that begins as this one stands.
    Fork,
    /// A thread that begins as this one stood after an earlier run.
    ForkFromRun,
    /// Taking back the last runs.
    Rollback,
    /// Shortening the agent's context.
    Compact,
    /// Signing the agent in from any device.
    SignIn,
    /// Another model or effort in a conversation that has begun.
    SwitchModel,
    /// Another mode in a conversation that has begun.
    SwitchMode,
    /// Pictures with a message.
    SendImages,
    /// Other files with a message.
    SendFiles,
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
    /// What its person can do instead where the command is refused.
    pub instead: Option<refusal::Fallback>,
}

impl Degradation {
    /// The refusal of a command for which there is no other way.
    pub(crate) fn refusal(&self) -> Refusal {
        Refusal::Unsupported {
            capability: self.needs,
            fallback: self.instead,
        }
    }
}

/// Every degradation.
pub const TABLE: &[Degradation] = &[
    Degradation {
        feature: Feature::Steer,
        needs: CapabilityFlag::ActiveSteering,
        fallback: Fallback::Instead(Feature::Restart),
        words: "This agent cannot be steered: the turn is stopped and started again with your words.",
        instead: None,
    },
    Degradation {
        feature: Feature::Restart,
        needs: CapabilityFlag::Interrupt,
        fallback: Fallback::Refuse,
        words: "This agent cannot be stopped in a turn; your message can wait in the queue.",
        instead: Some(refusal::Fallback::Queue),
    },
    Degradation {
        feature: Feature::Interrupt,
        needs: CapabilityFlag::Interrupt,
        fallback: Fallback::Refuse,
        words: "This agent cannot be stopped in a turn.",
        instead: None,
    },
    Degradation {
        feature: Feature::Fork,
        needs: CapabilityFlag::ForkThread,
        fallback: Fallback::Refuse,
        words: "This agent cannot copy a conversation; make a new thread and tell it what it has to know.",
        instead: Some(refusal::Fallback::NewThread),
    },
    Degradation {
        feature: Feature::ForkFromRun,
        needs: CapabilityFlag::ForkFromTurn,
        fallback: Fallback::Refuse,
        words: "This agent cannot copy a conversation as it was after an earlier run.",
        instead: Some(refusal::Fallback::ForkHead),
    },
    Degradation {
        feature: Feature::Rollback,
        needs: CapabilityFlag::RollbackThread,
        fallback: Fallback::Refuse,
        words: "This agent cannot forget what was said.",
        instead: Some(refusal::Fallback::ForkBefore),
    },
    Degradation {
        feature: Feature::Compact,
        needs: CapabilityFlag::CompactOnRequest,
        fallback: Fallback::Refuse,
        words: "This agent cannot be asked to shorten its context.",
        instead: None,
    },
    Degradation {
        feature: Feature::SignIn,
        needs: CapabilityFlag::SignIn,
        fallback: Fallback::Refuse,
        words: "This agent is signed in on its host only.",
        instead: Some(refusal::Fallback::OnHost),
    },
    Degradation {
        feature: Feature::SwitchModel,
        needs: CapabilityFlag::ModelSwitchInSession,
        fallback: Fallback::Refuse,
        words: "This agent keeps the model it began with; another one takes a new thread.",
        instead: Some(refusal::Fallback::NewThread),
    },
    Degradation {
        feature: Feature::SwitchMode,
        needs: CapabilityFlag::RuntimeModeSwitchInSession,
        fallback: Fallback::Refuse,
        words: "This agent keeps the mode it began with; another one takes a new thread.",
        instead: Some(refusal::Fallback::NewThread),
    },
    Degradation {
        feature: Feature::SendImages,
        needs: CapabilityFlag::ImageInput,
        fallback: Fallback::Refuse,
        words: "This agent takes no pictures, or not with the model that is chosen.",
        instead: Some(refusal::Fallback::NameFile),
    },
    Degradation {
        feature: Feature::SendFiles,
        needs: CapabilityFlag::FileInput,
        fallback: Fallback::Refuse,
        words: "This agent takes no files with a message.",
        instead: Some(refusal::Fallback::NameFile),
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
