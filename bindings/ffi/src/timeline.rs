//! Rows of a timeline.

use pilothouse_domain::Position;
use pilothouse_domain::{
    BlobHash, ItemId, ItemStatus, MessageId, NodeId, RequestId, RequestStatus, RunId, ThreadId,
    item::{Anomaly, FileAction, TodoEntry},
    request::RequestKind,
    run::ErrorCode,
    thread::{Attachment, Delivery},
};
use pilothouse_engine::{ChangeRow, RequestOutline, RowContent, RowText, TimelineRow};

/// A place in a timeline: the run's ordinal, then arrival.
#[uniffi::remote(Record)]
pub struct Position {
    /// The run's ordinal; the first run is 1.
    pub run: u32,
    /// Grows over the whole thread.
    pub arrival: u64,
}

/// Something an agent should not have done.
#[uniffi::remote(Enum)]
pub enum Anomaly {
    /// It was done without asking, though the thread's mode is to ask for such things and nobody granted it.
    Unasked,
}

/// An entry of a timeline.
#[uniffi::remote(Record)]
pub struct TimelineRow {
    /// Its id; a predicted one has its message's.
    pub id: ItemId,
    /// Its place, given by the ledger; `None` for what is only predicted.
    pub position: Option<Position>,
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// The node it stands under.
    pub node: Option<NodeId>,
    /// Where it stands.
    pub status: ItemStatus,
    /// What it is.
    pub content: RowContent,
    /// Its main text: words, reasoning, output, result. What [`crate::AppendText`] appends to.
    pub text: RowText,
    /// Host time it was opened, Unix ms; 0 for what is only predicted.
    pub opened_at_ms: u64,
    /// Host time it was closed, Unix ms.
    pub closed_at_ms: Option<u64>,
    /// What its person should know of it, found by the host.
    pub anomaly: Option<Anomaly>,
    /// Whether it is only predicted.
    pub pending: bool,
    /// How far a message of a person got; `Saved` while it is in the outbox.
    pub delivery: Option<Delivery>,
}

/// A text that may be held in part.
#[uniffi::remote(Record)]
pub struct RowText {
    /// The part that is held: all of it, or its head, or (of an open item) its tail.
    pub text: String,
    /// Offset of `text` in the whole, UTF-8 bytes.
    pub from: u64,
    /// Size of the whole, UTF-8 bytes.
    pub bytes: u64,
    /// Its last bytes, where `text` is only its head.
    pub tail: Option<String>,
    /// Address of the whole, to be fetched by [`crate::Query::Body`].
    pub hash: Option<BlobHash>,
    /// Bytes that were dropped from its middle for good.
    pub dropped: u64,
}

/// What an entry of a timeline is; its main text stands in [`TimelineRow::text`].
#[uniffi::remote(Enum)]
pub enum RowContent {
    UserMessage {
        message: Option<MessageId>,
        attachments: Vec<Attachment>,
    },
    AssistantMessage,
    Reasoning,
    Command {
        command: String,
        cwd: String,
        exit_code: Option<i64>,
        duration_ms: Option<u64>,
        agent_output: Option<RowText>,
    },
    FileChange {
        changes: Vec<ChangeRow>,
    },
    FileSearch {
        query: String,
    },
    WebSearch {
        query: String,
    },
    Tool {
        server: Option<String>,
        name: String,
        arguments: RowText,
    },
    Plan,
    Todo {
        entries: Vec<TodoEntry>,
    },
    Question {
        request: RequestId,
        asked: Option<Box<RequestOutline>>,
    },
    Approval {
        request: RequestId,
        asked: Option<Box<RequestOutline>>,
    },
    Error {
        code: ErrorCode,
        message: String,
        will_retry: bool,
    },
    Compaction,
    Interrupt {
        note: String,
    },
    Fork {
        source: ThreadId,
        run: RunId,
    },
    Rollback {
        before: RunId,
        runs: u32,
    },
    Subagent {
        child: Option<NodeId>,
        title: String,
    },
    ModelRerouted {
        from: String,
        to: String,
    },
    Unknown {
        label: String,
    },
}

/// A request as its timeline entry shows it, open or closed.
#[uniffi::remote(Record)]
pub struct RequestOutline {
    /// What kind.
    pub kind: RequestKind,
    /// One line.
    pub title: String,
    /// Where it stands, with who answered what.
    pub status: RequestStatus,
}

/// A change of one file.
#[uniffi::remote(Record)]
pub struct ChangeRow {
    /// Its path as the agent names it.
    pub path: String,
    /// What happens to it.
    pub action: FileAction,
    /// Its new path.
    pub moved_to: Option<String>,
    /// The diff.
    pub diff: RowText,
}
