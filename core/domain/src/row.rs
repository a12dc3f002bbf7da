//! Rows: what a screen reads. Made from events by the orchestrator's one `project`, on host and device alike.

use crate::{
    AgentName, Cursor, ItemId, Mode, RequestId, RunId, ThreadId, ThreadState, TurnItem,
    WorkspaceId,
    event::HoldReason,
    policy::Sandbox,
    provider::{ProviderSession, ProviderThread, ProviderTurn},
    request::RuntimeRequest,
    run::{BlockedOn, ExecutionNode, Run, RunAttempt, RunStatus},
    state::EndedRun,
    thread::{ConversationMessage, Lineage},
    transfer::PlanArtifact,
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// One row of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "row", content = "value", rename_all = "snake_case")]
#[expect(missing_docs, reason = "each wraps the type of its name")]
pub enum Row {
    Message(ConversationMessage),
    Run(Run),
    Attempt(RunAttempt),
    Node(ExecutionNode),
    Item(TurnItem),
    Request(Box<RuntimeRequest>),
    Session(ProviderSession),
    ProviderThread(ProviderThread),
    Turn(ProviderTurn),
    Plan(PlanArtifact),
}

/// Which row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RowKey {
    /// What kind.
    pub kind: RowKind,
    /// Its id's bytes.
    pub id: RowId,
}

/// The bytes of a row's id, whatever its kind.
pub type RowId = crate::ItemId;

/// What kind of row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the rows")]
pub enum RowKind {
    Message,
    Run,
    Attempt,
    Node,
    Item,
    Request,
    Session,
    ProviderThread,
    Turn,
    Plan,
}

impl RowKind {
    /// Its stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Run => "run",
            Self::Attempt => "attempt",
            Self::Node => "node",
            Self::Item => "item",
            Self::Request => "request",
            Self::Session => "session",
            Self::ProviderThread => "provider_thread",
            Self::Turn => "turn",
            Self::Plan => "plan",
        }
    }

    /// The key of a row of this kind.
    pub fn key(self, id: &[u8; 16]) -> RowKey {
        RowKey {
            kind: self,
            id: ItemId::from_bytes(*id),
        }
    }
}

impl Row {
    /// Its key.
    pub fn key(&self) -> RowKey {
        match self {
            Self::Message(row) => RowKind::Message.key(row.id.as_bytes()),
            Self::Run(row) => RowKind::Run.key(row.id.as_bytes()),
            Self::Attempt(row) => RowKind::Attempt.key(row.id.as_bytes()),
            Self::Node(row) => RowKind::Node.key(row.id.as_bytes()),
            Self::Item(row) => RowKind::Item.key(row.id.as_bytes()),
            Self::Request(row) => RowKind::Request.key(row.id.as_bytes()),
            Self::Session(row) => RowKind::Session.key(row.id.as_bytes()),
            Self::ProviderThread(row) => RowKind::ProviderThread.key(row.id.as_bytes()),
            Self::Turn(row) => RowKind::Turn.key(row.id.as_bytes()),
            Self::Plan(row) => RowKind::Plan.key(row.id.as_bytes()),
        }
    }
}

/// One line of the list of threads: all that a list or an inbox needs without opening the thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// The thread.
    pub thread: ThreadId,
    /// Its title.
    pub title: String,
    /// Where it works.
    pub workspace: WorkspaceId,
    /// Its agent.
    pub agent: AgentName,
    /// Its mode.
    pub mode: Mode,
    /// Its agent does not ask before it acts, and runs in this; `None` for one that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// The thread it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// The run being worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveSummary>,
    /// The last run that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<EndedRun>,
    /// What waits for a person.
    pub waiting: WaitingCounts,
    /// Runs in the queue.
    pub queued: u32,
    /// Why the queue does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HoldReason>,
    /// Why the last sign-in that was begun in it came to nothing: the agent's words or ours, at most 500 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in_problem: Option<String>,
    /// Last line of the agent's last words, at most 120 characters; [`NEWER`](crate::feed::NEWER) where a device could not read
    /// all that its host says.
    pub last_line: String,
    /// Whether it is put away.
    pub archived: bool,
    /// Host time it was made, Unix ms.
    pub created_at_ms: u64,
    /// Host time of its last entry, Unix ms.
    pub updated_at_ms: u64,
    /// Its log's last sequence number.
    pub seq: u64,
}

/// Where a thread stands, as lists sort it: the first that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Something in it waits for a person.
    Waiting,
    /// A run is worked on, or one waits in a queue that goes on.
    Running,
    /// It is put away.
    Archived,
    /// Its last run failed.
    Failed,
    /// Nothing goes on in it.
    Resting,
}

impl ThreadSummary {
    /// Where the thread stands.
    pub fn standing(&self) -> Standing {
        if self.waiting != WaitingCounts::default() {
            Standing::Waiting
        } else if self.active.is_some() || (self.queued > 0 && self.held.is_none()) {
            Standing::Running
        } else if self.archived {
            Standing::Archived
        } else if self
            .last_run
            .is_some_and(|run| run.status == RunStatus::Failed)
        {
            Standing::Failed
        } else {
            Standing::Resting
        }
    }
}

/// The run being worked on, as a list shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSummary {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// What it waits for.
    pub blocked_on: BlockedOn,
    /// Host time it started, Unix ms.
    pub since_ms: u64,
}

/// How much waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WaitingCounts {
    /// Approvals, pending (not those being answered).
    pub approvals: u32,
    /// Questions, pending.
    pub questions: u32,
}

/// A thread's state at a place of its log: at most 50 KB together with the rows sent beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The state.
    pub state: ThreadState,
    /// The place.
    pub cursor: Cursor,
}

/// The streamed text of an open item at a place of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenItem {
    /// The item.
    pub item: ItemId,
    /// Offset in UTF-8 bytes at which `text` begins; 0 unless the beginning was left out.
    pub from: u64,
    /// The text from there on.
    pub text: String,
}

/// Text that streams, outside the log: lost and late ones are healed by the item's close.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveText {
    /// The item.
    pub item: ItemId,
    /// Offset in UTF-8 bytes at which `text` begins.
    pub offset: u64,
    /// The text.
    pub text: String,
}

/// Which requests are open: a device's whole inbox for a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxEntry {
    /// The thread that waits.
    pub thread: ThreadId,
    /// The request.
    pub request: Box<RuntimeRequest>,
}

/// Names a request in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestRef {
    /// The thread.
    pub thread: ThreadId,
    /// The request.
    pub request: RequestId,
}
