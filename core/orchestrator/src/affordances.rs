//! What a person can be offered, computed from the same table of degradations by which `decide` acts.

use crate::degrade::{self, Feature, Service, running_tools};
use pilothouse_domain::{
    CapabilityFlag, ItemId, Policy, ThreadState, state::Cap, thread::Lifecycle,
};
use serde::Serialize;

/// What can be done with a thread now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Affordances {
    /// A message as a run of its own, now.
    pub start: Offer,
    /// A message after those before it.
    pub queue: Offer,
    /// A message into the active run.
    pub steer: Offer,
    /// A message into the active run, by stopping and starting it again.
    pub restart: Offer,
    /// Stopping the active run.
    pub interrupt: Offer,
    /// Letting a held queue go on.
    pub release_queue: Offer,
}

/// Whether something can be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "offer", rename_all = "snake_case")]
pub enum Offer {
    /// As asked.
    Available,
    /// It can, and it ends what is named: the command has to accept these items.
    Destructive {
        /// Running items that would be stopped; may be empty.
        items: Vec<ItemId>,
        /// What its person is told.
        words: &'static str,
    },
    /// Not now.
    Unavailable {
        /// Why.
        reason: Unavailable,
    },
}

/// Why something cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Unavailable {
    /// The thread is not there, deleted or archived.
    NotInUse,
    /// The thread holds events of a newer version.
    ReadOnly,
    /// A run is active: a message can be queued.
    RunActive,
    /// No run is active.
    NothingRunning,
    /// The agent has not taken up the turn yet, or the run is being restarted or is ending: shortly.
    NotYet,
    /// It was asked already.
    AskedAlready,
    /// The queue is full.
    QueueFull,
    /// The queue is not held.
    NotHeld,
    /// The agent cannot.
    Lacks {
        /// What it lacks.
        capability: CapabilityFlag,
        /// What its person is told.
        words: &'static str,
    },
}

impl Unavailable {
    /// Why, for a person.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotInUse => "the thread is not in use",
            Self::ReadOnly => "the thread holds events of a newer version; update this program",
            Self::RunActive => "a run is active; the message can be queued",
            Self::NothingRunning => "nothing is running",
            Self::NotYet => "the run is just starting, restarting or ending; in a moment",
            Self::AskedAlready => "it was asked already",
            Self::QueueFull => "the queue is full",
            Self::NotHeld => "the queue is not held",
            Self::Lacks { words, .. } => words,
        }
    }
}

/// What can be done with a thread now. A device shows it; the command may still be refused if the state has moved on.
pub fn affordances(state: &ThreadState, policy: &Policy) -> Affordances {
    let no = |reason| Offer::Unavailable { reason };
    let in_use = state
        .meta
        .as_ref()
        .is_some_and(|meta| meta.lifecycle == Lifecycle::Active);
    if state.read_only.is_some() || !in_use {
        let reason = if in_use {
            Unavailable::ReadOnly
        } else {
            Unavailable::NotInUse
        };
        return Affordances {
            start: no(reason),
            queue: no(reason),
            steer: no(reason),
            restart: no(reason),
            interrupt: no(reason),
            release_queue: no(reason),
        };
    }
    let queue_fits = !state.is_full(Cap::Queue);
    Affordances {
        start: match state.active {
            None => Offer::Available,
            Some(_) => no(Unavailable::RunActive),
        },
        queue: if queue_fits || (state.active.is_none() && state.held.is_none()) {
            Offer::Available
        } else {
            no(Unavailable::QueueFull)
        },
        steer: into_run(Feature::Steer, state, policy),
        restart: into_run(Feature::Restart, state, policy),
        interrupt: interrupt(state, policy),
        release_queue: match state.held {
            Some(_) => Offer::Available,
            None => no(Unavailable::NotHeld),
        },
    }
}

fn into_run(feature: Feature, state: &ThreadState, policy: &Policy) -> Offer {
    let no = |reason| Offer::Unavailable { reason };
    let Some(active) = &state.active else {
        return no(Unavailable::NothingRunning);
    };
    let turn = active.attempt.as_ref().map(|attempt| attempt.turn);
    let Some(turn) = turn else {
        return no(Unavailable::NotYet);
    };
    if active.barrier.is_some() || active.restart_pending.is_some() {
        return no(Unavailable::NotYet);
    }
    match degrade::serve(feature, state, policy) {
        Service::Refused(row) => no(Unavailable::Lacks {
            capability: row.needs,
            words: row.words,
        }),
        Service::Native if feature == Feature::Steer => match turn {
            Some(_) => Offer::Available,
            None => no(Unavailable::NotYet),
        },
        Service::Native | Service::Degraded(..) if state.is_full(Cap::Queue) => {
            no(Unavailable::QueueFull)
        }
        Service::Native => Offer::Destructive {
            items: running_tools(state, active),
            words: "The turn is stopped and started again with your words.",
        },
        Service::Degraded(_, row) => Offer::Destructive {
            items: running_tools(state, active),
            words: row.words,
        },
    }
}

fn interrupt(state: &ThreadState, policy: &Policy) -> Offer {
    let no = |reason| Offer::Unavailable { reason };
    let Some(active) = &state.active else {
        return no(Unavailable::NothingRunning);
    };
    let Some(attempt) = &active.attempt else {
        return no(Unavailable::NotYet);
    };
    if active.barrier.is_some() {
        return no(Unavailable::NotYet);
    }
    if active.interrupting == Some(attempt.id) && active.restart_pending.is_none() {
        return no(Unavailable::AskedAlready);
    }
    match degrade::serve(Feature::Interrupt, state, policy) {
        Service::Refused(row) => no(Unavailable::Lacks {
            capability: row.needs,
            words: row.words,
        }),
        Service::Native | Service::Degraded(..) => Offer::Available,
    }
}
