//! What the effect runner needs to know to do an effect, read by the writer at the moment the effect's turn has come.

use pilothouse_domain::{
    Answer, AttemptId, Incarnation, MessageId, NativeId, RunId, Subject, WorkspaceId,
    request::RequestKind,
    thread::{Attachment, Selection},
};
use std::path::PathBuf;

/// An effect, ready to be done.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// Start a turn.
    Send(SendPlan),
    /// Put a message into a turn.
    Steer {
        incarnation: Incarnation,
        thread: NativeId,
        turn: NativeId,
        message: MessageId,
        text: String,
    },
    /// Stop a turn.
    Interrupt {
        incarnation: Incarnation,
        /// Conversation and turn; `None` while the agent has not said which turn it is, as one that answers nothing.
        turn: Option<(NativeId, NativeId)>,
        run: RunId,
        attempt: AttemptId,
    },
    /// Take back turns.
    Revert {
        open: OpenPlan,
        /// Those that the agent named, in their order; none if it never took up any of the runs.
        turns: Vec<NativeId>,
    },
    /// Load the conversation, and read it back.
    Import {
        /// Of which conversation.
        open: OpenPlan,
        /// Whether turns of it stand in the log.
        again: bool,
    },
    /// Shorten the context.
    Compact(OpenPlan),
    /// Begin to sign in.
    SignIn(OpenPlan),
    /// Give an answer.
    Respond {
        incarnation: Incarnation,
        thread: NativeId,
        native: NativeId,
        kind: RequestKind,
        subject: Box<Subject>,
        answer: Answer,
    },
    /// An interrupt of a turn whose agent is still being started.
    NotYet,
    /// It cannot be done (any more).
    Impossible { problem: String },
    /// What it was for is gone: the turn is over, or its runtime.
    Gone,
}

/// What starting a turn takes.
#[derive(Debug, Clone)]
pub(crate) struct SendPlan {
    pub(crate) open: OpenPlan,
    pub(crate) message: MessageId,
    pub(crate) text: String,
    pub(crate) attachments: Vec<Attachment>,
}

/// What it takes to have the thread's conversation loaded by its agent.
#[derive(Debug, Clone)]
pub(crate) struct OpenPlan {
    pub(crate) workspace: WorkspaceId,
    pub(crate) cwd: PathBuf,
    pub(crate) selection: Selection,
    /// The conversation to go on with, and whether it has seen a run.
    pub(crate) conversation: Option<Conversation>,
    /// What the conversation is to be a copy of, where there is none yet and the thread is a fork.
    pub(crate) fork: Option<ForkPlan>,
    /// The session the thread knows of, if it is live.
    pub(crate) session: Option<Incarnation>,
}

/// The point of another conversation at which a fork begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForkPlan {
    /// `None` if nothing is known of it any more.
    pub(crate) source: Option<NativeId>,
    /// Its last turn that is part of the copy, where the agent names turns.
    pub(crate) through: Option<NativeId>,
    /// Whether that is all there is.
    pub(crate) whole: bool,
}

/// A native conversation of the thread.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    pub(crate) native: NativeId,
    /// Whether it has seen a run: losing it would lose context.
    pub(crate) has_history: bool,
}
