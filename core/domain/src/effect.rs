//! Effects: what the ledger has to do outside its log, as data.

use crate::{
    AttemptId, EffectId, MessageId, NativeId, ProviderTurnId, RequestId, RunId, request::Answer,
    run::RunError, state::EndedRun,
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// Something to be done outside the log. Stored in the same transaction as the events that ask for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Its id, derived from what caused it.
    pub id: EffectId,
    /// What is to be done.
    pub kind: EffectKind,
}

/// What is to be done. All but [`EffectKind::Revert`] and [`EffectKind::Import`] are *process-bound*: after a lost runtime they are not tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum EffectKind {
    /// Start a turn with a message; opens a session and a native conversation first where needed.
    SendTurn {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: AttemptId,
        /// The message; its text stands in its row.
        message: MessageId,
    },
    /// Put a message into the running turn.
    Steer {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: AttemptId,
        /// The turn it is meant for: never another, never a new one.
        turn: ProviderTurnId,
        /// The message; its text stands in its row.
        message: MessageId,
    },
    /// Stop the running turn.
    Interrupt {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: AttemptId,
        /// The turn, if the agent has named it.
        turn: Option<ProviderTurnId>,
    },
    /// Have the agent forget runs. *Replay-safe*: what is forgotten already is not forgotten twice.
    Revert {
        /// The first of them.
        before: RunId,
        /// All of them, oldest first.
        runs: Vec<RunId>,
        /// The last run that stands then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<EndedRun>,
    },
    /// Load the conversation that the thread was made of, and read it back. *Replay-safe*: what is known is not taken twice.
    Import,
    /// Have the agent shorten its context.
    Compact {
        /// The run that stands for it.
        run: RunId,
        /// Its attempt.
        attempt: AttemptId,
    },
    /// Have the agent begin to sign in. What a person does for it comes as a request.
    SignIn,
    /// Give an answer to the agent.
    Respond {
        /// The request.
        request: RequestId,
        /// The answer.
        answer: Answer,
    },
}

impl EffectKind {
    /// Whether it can be done again when it is not known whether it was done.
    pub fn is_replay_safe(&self) -> bool {
        matches!(self, Self::Revert { .. } | Self::Import)
    }
}

/// What came of an effect. Native ids in it are bound by `ingest` and appear in no event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum EffectOutcome {
    /// The agent took the turn.
    TurnAccepted {
        /// The native conversation.
        native_thread: NativeId,
        /// The native turn.
        native_turn: Option<NativeId>,
    },
    /// The agent took the steering message into the turn.
    Steered,
    /// The turn was over when it came.
    TurnEnded,
    /// The agent acknowledged; the terminal comes as an event.
    Acknowledged,
    /// The agent has shortened its context, and no event of its own says so.
    Compacted {
        /// What is left of it, if the agent tells; empty otherwise.
        summary: String,
    },
    /// An answer was written to the agent, or a stop to one that was gone before it said anything.
    Written,
    /// It was not done.
    Failed {
        /// Why.
        error: RunError,
    },
    /// It was cut between doing and recording.
    Unknown,
}
