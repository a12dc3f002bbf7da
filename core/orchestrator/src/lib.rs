//! The orchestrator: pure functions from state and input to facts and effects.
//!
//! **Owns** every decision about a thread's life. **Must not know** a clock, randomness, I/O, an agent's protocol or a
//! database. A command passes `decide`, an agent's event passes `ingest`; both give [`Event`]s that everyone folds with
//! `apply` and turns into rows with `project`.
#![forbid(unsafe_code)]

mod affordances;
mod answer;
mod apply;
mod assess;
mod choose;
mod compact;
mod create;
mod decide;
pub mod degrade;
mod draft;
mod fork;
mod ingest;
mod internal;
pub mod memory;
mod project;
mod queue;
mod rollback;
mod select;
mod sign_in;
mod summary;

pub use affordances::{Affordances, Offer, Unavailable, affordances};
pub use answer::{MASK, masked};
pub use apply::{STEP_REFUSED, apply, apply_entry};
pub use assess::{Assessment, assess, is_hidden, is_marked, reveal_hidden};
pub use decide::{decide, lookups};
pub use draft::user_item;
pub use fork::{fork_item, source_of};
pub use ingest::{SessionContext, ingest, ingest_outcome, runtime_lost};
pub use internal::{decide_internal, next_internal};
pub use project::project;
pub use rollback::rollback_of;
pub use summary::summarise;

use pilothouse_domain::{
    AgentName, Body, ConversationKey, Cursor, Effect, Event, ItemId, MessageId, Refusal, RequestId,
    Row, RowKey, RunId, RuntimeRequest, SessionId, ThreadId, ThreadState, TurnItem,
    binding::{Binding, BindingKey, BindingTarget},
    command::Notice,
    provider::OfferedModel,
    request::LostReason,
    run::Run,
    thread::ConversationMessage,
};

/// What a decision leads to: facts to append and effects to run, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What happened.
    pub events: Vec<Event>,
    /// What is to be done outside the log.
    pub effects: Vec<Effect>,
    /// What its person is told.
    pub verdict: Verdict,
}

/// What the person who sent a command is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Taken.
    Accepted {
        /// With this to know.
        notice: Option<Notice>,
    },
    /// Not taken as asked, though something was appended (a steer that met an ended turn keeps its message).
    Refused(Refusal),
}

impl Default for Verdict {
    fn default() -> Self {
        Self::Accepted { notice: None }
    }
}

/// Rows that a decision needs besides the state; `lookups` says which.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LookupKeys {
    /// The request of an answer.
    pub request: Option<RequestId>,
    /// The run of a steer, interrupt or queue edit.
    pub run: Option<RunId>,
    /// Messages whose rows are needed.
    pub messages: Vec<MessageId>,
    /// The thread that a fork comes from, and the run it names; see [`source_of`].
    pub source: Option<(ThreadId, Option<RunId>)>,
    /// The first run that a rollback takes back; see [`rollback_of`].
    pub rollback: Option<RunId>,
    /// The conversation that an import names.
    pub conversation: Option<ConversationKey>,
    /// The session whose models a selection is checked against.
    pub session: Option<SessionId>,
}

/// The rows found for [`LookupKeys`]. A device that lacks one predicts only *saved*.
#[derive(Debug, Clone, Default)]
pub struct Lookups {
    /// The request, open or closed.
    pub request: Option<RuntimeRequest>,
    /// The run.
    pub run: Option<Run>,
    /// Messages found.
    pub messages: Vec<ConversationMessage>,
    /// The thread that a fork comes from.
    pub source: Option<Box<SourceThread>>,
    /// What a rollback takes back.
    pub rollback: Option<Box<RollbackRuns>>,
    /// The conversation that an import names, if the host has listed it.
    pub conversation: Option<ListedConversation>,
    /// Models that the thread's agent offers; empty if that is not known.
    pub models: Vec<OfferedModel>,
    /// Whether the agent's sign-in was refused elsewhere and is not known to be back.
    pub signed_out: bool,
}

/// A conversation that the host has listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedConversation {
    /// Whose it is.
    pub agent: AgentName,
    /// The thread that has it already.
    pub thread: Option<ThreadId>,
}

/// What a rollback takes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackRuns {
    /// The run that it names, and all that began after it and stand; at most one more than
    /// [`limits::ROLLED_BACK`](pilothouse_domain::limits::ROLLED_BACK).
    pub runs: Vec<Run>,
    /// The last run before them that stands.
    pub head: Option<Run>,
}

/// A thread that another is to begin from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceThread {
    /// Its state.
    pub state: ThreadState,
    /// The place of its log at which it stands so.
    pub cursor: Cursor,
    /// The run that is named, or the last that ended; `None` if there is none.
    pub run: Option<Run>,
    /// Whether the agent took that run up.
    pub taken_up: bool,
}

/// What the ledger does of its own accord (DESIGN section 4, *internal commands*).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Internal {
    /// The completion barrier is through: end the active run.
    FinishRun,
    /// The attempt that a steering restart waited for has ended: start the next.
    StartRestart,
    /// Nothing is active and the queue may go on: start its head.
    AdvanceQueue,
    /// The agent goes on after it was asked to stop: the next step is taken, or cannot be.
    InterruptStep {
        /// Which step: `sigint`, `sigterm`, `sigkill`, or [`STEP_REFUSED`].
        step: &'static str,
        /// What is done, in words for a person.
        note: String,
    },
    /// The runtime that served the thread is gone.
    RuntimeLost {
        /// Why.
        reason: LostReason,
        /// In words, secrets redacted.
        detail: String,
    },
}

impl Internal {
    /// Its name, as it stands in an entry's cause.
    pub fn name(&self) -> &'static str {
        match self {
            Self::FinishRun => "finish_run",
            Self::StartRestart => "start_restart",
            Self::AdvanceQueue => "advance_queue",
            Self::InterruptStep { .. } => "interrupt_step",
            Self::RuntimeLost { .. } => "runtime_lost",
        }
    }
}

/// The ledger's identity bindings and what else `ingest` has to look up. Reads see what was bound before in the batch.
pub trait Bindings {
    /// What a native id stands for.
    fn get(&self, key: &BindingKey) -> Option<BindingTarget>;
    /// The text streamed so far into an open item.
    fn streamed(&self, item: ItemId) -> Option<Body>;
    /// A request's row.
    fn request(&self, request: RequestId) -> Option<RuntimeRequest>;
    /// A row of the thread.
    fn row(&self, key: RowKey) -> Option<Row>;
    /// The items at the end of the thread, the last one first, at most `most`.
    fn last_items(&self, most: usize) -> Vec<TurnItem>;
}

/// What an agent's event leads to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ingested {
    /// What happened; may be empty.
    pub events: Vec<Event>,
    /// Bindings made or replaced.
    pub bindings: Vec<Binding>,
    /// Text that streams: appended to the item's open text, never an event.
    pub live: Vec<LiveAppend>,
    /// What is to be done outside the log (a recorded answer delivered again).
    pub effects: Vec<Effect>,
}

/// Text added to an open item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveAppend {
    /// The item.
    pub item: ItemId,
    /// The text.
    pub text: String,
}

/// Where rows are read and written by `project`: a database's transaction or a map in memory.
pub trait Rows {
    /// A row as it is now.
    fn get(&self, key: RowKey) -> Option<Row>;
    /// Puts a row in the place of one with the same key.
    fn put(&mut self, row: Row);
}
