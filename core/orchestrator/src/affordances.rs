//! What a person can be offered, computed from the same table of degradations by which `decide` acts.

use crate::{
    degrade::{self, Feature, Service, running_tools},
    sign_in,
};
use pilothouse_domain::{
    CapabilityFlag, ItemId, Policy, ThreadState, event::HoldReason, state::Cap, thread::Lifecycle,
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
    /// A thread that begins as this one stands after its last run.
    pub fork: Offer,
    /// A thread that begins as this one stood after an earlier run.
    pub fork_from_run: Offer,
    /// Taking back the last runs. Files stay as they are.
    pub rollback: Offer,
    /// Having the agent shorten its context.
    pub compact: Offer,
    /// Signing the agent in, where the thread is held for it.
    pub sign_in: Offer,
    /// Another model or effort from the next turn on.
    pub switch_model: Offer,
    /// Another mode from the next turn on.
    pub switch_mode: Offer,
    /// Pictures with a message.
    pub send_images: Offer,
    /// Other files with a message.
    pub send_files: Offer,
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
    /// The thread does not wait for its agent's sign-in.
    NotSignedOut,
    /// No run has ended yet.
    NothingEnded,
    /// A run is active: it has to end first.
    StopFirst,
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
            Self::NotYet => {
                "a run is just starting, restarting, ending or being taken back; in a moment"
            }
            Self::AskedAlready => "it was asked already",
            Self::QueueFull => "the queue is full",
            Self::NotHeld => "the queue is not held",
            Self::NotSignedOut => "it does not wait for a sign-in",
            Self::StopFirst => "a run is active; wait until it has ended, or stop it",
            Self::NothingEnded => "no run has ended yet",
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
            fork: no(reason),
            fork_from_run: no(reason),
            rollback: no(reason),
            compact: no(reason),
            sign_in: no(reason),
            switch_model: no(reason),
            switch_mode: no(reason),
            send_images: no(reason),
            send_files: no(reason),
        };
    }
    let queue_fits = !state.is_full(Cap::Queue);
    Affordances {
        start: match state.active {
            None if state.rests() => Offer::Available,
            None => no(Unavailable::NotYet),
            Some(_) => no(Unavailable::RunActive),
        },
        queue: if queue_fits || (state.rests() && state.held.is_none()) {
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
        fork: after_a_run(Feature::Fork, state, policy),
        fork_from_run: after_a_run(Feature::ForkFromRun, state, policy),
        rollback: at_rest(Feature::Rollback, state, policy),
        compact: at_rest(Feature::Compact, state, policy),
        sign_in: sign_in(state, policy),
        switch_model: switch(Feature::SwitchModel, state, policy),
        switch_mode: switch(Feature::SwitchMode, state, policy),
        send_images: native(Feature::SendImages, state, policy),
        send_files: native(Feature::SendFiles, state, policy),
    }
}

/// Before there is a conversation, it simply begins so.
fn switch(feature: Feature, state: &ThreadState, policy: &Policy) -> Offer {
    match state.provider_thread {
        None => Offer::Available,
        Some(_) => native(feature, state, policy),
    }
}

/// What is done with the conversation as a whole, while nothing is said in it.
fn at_rest(feature: Feature, state: &ThreadState, policy: &Policy) -> Offer {
    let no = |reason| Offer::Unavailable { reason };
    if state.active.is_some() {
        return no(Unavailable::StopFirst);
    }
    if state.rollback.is_some() {
        return no(Unavailable::NotYet);
    }
    let begun = match feature {
        Feature::Compact => state.provider_thread.is_some(),
        _ => state.last_run.is_some(),
    };
    if begun {
        native(feature, state, policy)
    } else {
        no(Unavailable::NothingEnded)
    }
}

fn sign_in(state: &ThreadState, policy: &Policy) -> Offer {
    let no = |reason| Offer::Unavailable { reason };
    if !state.rests() || state.held != Some(HoldReason::SignIn) {
        return no(Unavailable::NotSignedOut);
    }
    if sign_in::is_open(state) {
        return no(Unavailable::AskedAlready);
    }
    native(Feature::SignIn, state, policy)
}

/// What begins at a run that has ended.
fn after_a_run(feature: Feature, state: &ThreadState, policy: &Policy) -> Offer {
    if state.last_run.is_none() {
        let reason = Unavailable::NothingEnded;
        return Offer::Unavailable { reason };
    }
    match (feature, &state.active) {
        // Not what the conversation holds now: a run goes on in it.
        (Feature::Fork, Some(_)) => native(Feature::ForkFromRun, state, policy),
        _ => native(feature, state, policy),
    }
}

/// What the agent does or nobody.
fn native(feature: Feature, state: &ThreadState, policy: &Policy) -> Offer {
    match degrade::serve(feature, state, policy) {
        Service::Refused(row) => Offer::Unavailable {
            reason: Unavailable::Lacks {
                capability: row.needs,
                words: row.words,
            },
        },
        Service::Native | Service::Degraded(..) => Offer::Available,
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
