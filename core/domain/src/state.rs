//! The state of a thread: what all events of its log fold into. Bounded at [`limits::STATE_BYTES`] whatever the
//! thread's length, because it holds ids, statuses and hashes only; bodies are rows. What there may be hundreds of is
//! written as tuples, not objects, to stay inside the bound.

use crate::{
    AgentName, AttemptId, CheckpointId, ContentMark, Cursor, Digest, Incarnation, ItemId,
    MessageId, NodeId, PlanId, ProviderThreadId, ProviderTurnId, RequestId, RunId, RunStatus,
    SessionId, ThreadId, TransferId, WorkspaceId,
    capability::CapabilitySet,
    command::DispatchMode,
    event::HoldReason,
    hash, limits,
    provider::{ProviderThreadStatus, TurnEnd},
    request::RequestKind,
    run::{AttemptStatus, BlockedOn, NodeKind, NodeStatus, Origin, RunError},
    thread::{Lifecycle, Lineage, Selection},
    transfer::TransferKind,
};
use serde::{Deserialize, Serialize};

/// Version of the state's shape; digests are compared only at equal versions.
pub const STATE_VERSION: u16 = 1;
/// Version of `decide`; with different ones a device shows no predictions beyond *saved* and *on host*.
pub const DECIDE_VERSION: u16 = 1;

/// The state of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadState {
    /// [`STATE_VERSION`] of the code that made it.
    pub version: u16,
    /// The thread.
    pub thread: ThreadId,
    /// `None` until `thread.created`.
    pub meta: Option<ThreadMeta>,
    /// The run that is being worked on.
    pub active: Option<ActiveRun>,
    /// Runs that wait, in order.
    pub queue: Vec<QueuedRun>,
    /// Grows with each change of the queue; queue edits name it.
    pub queue_revision: u64,
    /// Why the queue does not go on.
    pub held: Option<HoldReason>,
    /// Open requests.
    pub requests: Vec<RequestSlot>,
    /// Live nodes: root turn, subagents.
    pub nodes: Vec<NodeSlot>,
    /// Open and background items.
    pub items: Vec<ItemSlot>,
    /// The session that serves it.
    pub session: Option<SessionSlot>,
    /// Native conversations, most recent last.
    pub provider_threads: Vec<ProviderThreadSlot>,
    /// The conversation in use.
    pub provider_thread: Option<ProviderThreadId>,
    /// The current todo list or proposed plan of the root.
    pub plan: Option<PlanId>,
    /// The last run that ended.
    pub last_run: Option<EndedRun>,
    /// The last checkpoints (`draft`: none is made yet).
    pub checkpoints: Vec<CheckpointSlot>,
    /// Transfers to be resolved by the next run.
    pub transfers: Vec<TransferSlot>,
    /// The first of the runs that are being taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RunId>,
    /// Of a thread made of a conversation that its agent had already: whether that is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<Import>,
    /// Ordinal of the next run to start.
    pub next_ordinal: u32,
    /// Arrival of the next item.
    pub next_arrival: u64,
    /// Set by an event that this version may not skip: the thread is read-only until the app is updated.
    pub read_only: Option<String>,
}

/// How far a conversation is read that a thread was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Import {
    /// It is being read.
    Reading,
    /// It was read, as far as it could be.
    Done,
}

/// What a thread is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadMeta {
    /// Its title.
    pub title: String,
    /// Where it works.
    pub workspace: WorkspaceId,
    /// What it runs on.
    pub selection: Selection,
    /// Where it came from.
    pub lineage: Option<Lineage>,
    /// Whether it is in use.
    pub lifecycle: Lifecycle,
}

/// The run that is being worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveRun {
    /// The run.
    pub id: RunId,
    /// Its ordinal.
    pub ordinal: u32,
    /// Its message.
    pub message: Option<MessageId>,
    /// Where it came from.
    pub origin: Origin,
    /// Where it stands.
    pub status: RunStatus,
    /// What it waits for.
    pub blocked_on: BlockedOn,
    /// The attempt that counts; `None` only between two attempts.
    pub attempt: Option<AttemptSlot>,
    /// Attempts so far.
    pub attempts: u32,
    /// The attempt that somebody asked to stop.
    pub interrupting: Option<AttemptId>,
    /// Whether the interrupt came from a person's Stop, which holds the queue.
    pub stop_holds_queue: bool,
    /// The steering message that waits for the current attempt to end.
    pub restart_pending: Option<MessageId>,
    /// Steering messages handed to the agent and not yet echoed.
    pub steering: Vec<MessageId>,
    /// Whether the agent closed an assistant message with a visible character: a user-meaningful answer.
    pub answered: bool,
    /// How the turn ended, while the completion barrier closes what is open.
    pub barrier: Option<Barrier>,
    /// Whether somebody chose another mode since it began: which one its turn works in is then not certain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mode_changed: bool,
}

/// A turn's end, waiting for the completion barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    /// How the attempt ended.
    pub end: TurnEnd,
    /// Why it failed.
    pub error: Option<RunError>,
}

/// The attempt that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptSlot {
    /// The attempt.
    pub id: AttemptId,
    /// The message it sends; `None` for an external turn.
    pub message: Option<MessageId>,
    /// The root node of its tree.
    pub root_node: NodeId,
    /// Where it stands.
    pub status: AttemptStatus,
    /// The turn it is bound to.
    pub turn: Option<ProviderTurnId>,
}

/// A run in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "QueuedRunTuple", into = "QueuedRunTuple")]
pub struct QueuedRun {
    /// The run.
    pub run: RunId,
    /// Its message.
    pub message: MessageId,
    /// How it was asked for.
    pub dispatch: DispatchMode,
    /// Where it came from.
    pub origin: Origin,
}

type QueuedRunTuple = (RunId, MessageId, DispatchMode, Origin);

impl From<QueuedRun> for QueuedRunTuple {
    fn from(slot: QueuedRun) -> Self {
        (slot.run, slot.message, slot.dispatch, slot.origin)
    }
}

impl From<QueuedRunTuple> for QueuedRun {
    fn from((run, message, dispatch, origin): QueuedRunTuple) -> Self {
        Self {
            run,
            message,
            dispatch,
            origin,
        }
    }
}

/// An open request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RequestSlotTuple", into = "RequestSlotTuple")]
pub struct RequestSlot {
    /// The request.
    pub id: RequestId,
    /// Its kind.
    pub kind: RequestKind,
    /// Whether an answer was recorded.
    pub answering: bool,
    /// Mark of what is asked; the full hash stands in the request's row.
    pub content: ContentMark,
    /// The node that asks.
    pub node: NodeId,
    /// The item it is about.
    pub item: Option<ItemId>,
}

type RequestSlotTuple = (
    RequestId,
    RequestKind,
    bool,
    ContentMark,
    NodeId,
    Option<ItemId>,
);

impl From<RequestSlot> for RequestSlotTuple {
    fn from(slot: RequestSlot) -> Self {
        (
            slot.id,
            slot.kind,
            slot.answering,
            slot.content,
            slot.node,
            slot.item,
        )
    }
}

impl From<RequestSlotTuple> for RequestSlot {
    fn from((id, kind, answering, content, node, item): RequestSlotTuple) -> Self {
        Self {
            id,
            kind,
            answering,
            content,
            node,
            item,
        }
    }
}

/// A live node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "NodeSlotTuple", into = "NodeSlotTuple")]
pub struct NodeSlot {
    /// The node.
    pub id: NodeId,
    /// The node above.
    pub parent: Option<NodeId>,
    /// Its run.
    pub run: RunId,
    /// What it is.
    pub kind: NodeKind,
    /// Where it stands.
    pub status: NodeStatus,
    /// The native conversation of a subagent.
    pub provider_thread: Option<ProviderThreadId>,
}

type NodeSlotTuple = (
    NodeId,
    Option<NodeId>,
    RunId,
    NodeKind,
    NodeStatus,
    Option<ProviderThreadId>,
);

impl From<NodeSlot> for NodeSlotTuple {
    fn from(slot: NodeSlot) -> Self {
        (
            slot.id,
            slot.parent,
            slot.run,
            slot.kind,
            slot.status,
            slot.provider_thread,
        )
    }
}

impl From<NodeSlotTuple> for NodeSlot {
    fn from((id, parent, run, kind, status, provider_thread): NodeSlotTuple) -> Self {
        Self {
            id,
            parent,
            run,
            kind,
            status,
            provider_thread,
        }
    }
}

/// An open or background item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ItemSlotTuple", into = "ItemSlotTuple")]
pub struct ItemSlot {
    /// The item.
    pub id: ItemId,
    /// Its node; its run is the node's.
    pub node: NodeId,
    /// Whether it outlived its turn.
    pub background: bool,
    /// What it is: the tag of its content, for the barrier.
    pub kind: ItemKind,
}

type ItemSlotTuple = (ItemId, NodeId, bool, ItemKind);

impl From<ItemSlot> for ItemSlotTuple {
    fn from(slot: ItemSlot) -> Self {
        (slot.id, slot.node, slot.background, slot.kind)
    }
}

impl From<ItemSlotTuple> for ItemSlot {
    fn from((id, node, background, kind): ItemSlotTuple) -> Self {
        Self {
            id,
            node,
            background,
            kind,
        }
    }
}

/// What an open item is, as far as state needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// Words or reasoning of the agent.
    Text,
    /// Something that acts: a command, a change, a tool. It can outlive its turn.
    Tool,
    /// A subagent.
    Subagent,
    /// Anything else.
    Other,
}

/// The session that serves a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSlot {
    /// The session.
    pub id: SessionId,
    /// Which agent.
    pub agent: AgentName,
    /// Which life of its process.
    pub incarnation: Incarnation,
    /// Whether it can be used.
    pub live: bool,
    /// Version of the capabilities.
    pub capability_version: u32,
    /// What it can do.
    pub capabilities: CapabilitySet,
}

/// A native conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderThreadSlot {
    /// The conversation.
    pub id: ProviderThreadId,
    /// Which agent.
    pub agent: AgentName,
    /// Ordinal of the last run it has seen.
    pub coverage: u32,
    /// Where it stands.
    pub status: ProviderThreadStatus,
    /// The node that owns it.
    pub owner: Option<NodeId>,
}

/// The last run that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRun {
    /// The run.
    pub id: RunId,
    /// Its ordinal.
    pub ordinal: u32,
    /// How it ended.
    pub status: RunStatus,
}

/// A transfer that is to be resolved by the next run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TransferSlotTuple", into = "TransferSlotTuple")]
pub struct TransferSlot {
    /// The transfer.
    pub id: TransferId,
    /// What for.
    pub kind: TransferKind,
    /// The thread it comes from.
    pub source: ThreadId,
    /// The last run of it that is part of the context.
    pub run: Option<RunId>,
}

type TransferSlotTuple = (TransferId, TransferKind, ThreadId, Option<RunId>);

impl From<TransferSlot> for TransferSlotTuple {
    fn from(slot: TransferSlot) -> Self {
        (slot.id, slot.kind, slot.source, slot.run)
    }
}

impl From<TransferSlotTuple> for TransferSlot {
    fn from((id, kind, source, run): TransferSlotTuple) -> Self {
        Self {
            id,
            kind,
            source,
            run,
        }
    }
}

/// A checkpoint (`draft`: none is made yet).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointSlot {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The run after which it was taken.
    pub run: RunId,
    /// Whether it can be restored.
    pub captured: bool,
}

impl ThreadState {
    /// The state before the first entry.
    pub fn empty(thread: ThreadId) -> Self {
        Self {
            version: STATE_VERSION,
            thread,
            meta: None,
            active: None,
            queue: Vec::new(),
            queue_revision: 0,
            held: None,
            requests: Vec::new(),
            nodes: Vec::new(),
            items: Vec::new(),
            session: None,
            provider_threads: Vec::new(),
            provider_thread: None,
            plan: None,
            last_run: None,
            checkpoints: Vec::new(),
            transfers: Vec::new(),
            rollback: None,
            import: None,
            next_ordinal: 1,
            next_arrival: 1,
            read_only: None,
        }
    }

    /// H(state version, canonical state, chain): equal on host and device at the same place of the log.
    pub fn digest(&self, cursor: &Cursor) -> Digest {
        let state = hash::canonical_json(self);
        let chain = hash::canonical_json(cursor);
        Digest::from_bytes(hash::blake3_parts(&[
            &self.version.to_le_bytes(),
            &state,
            &chain,
        ]))
    }

    /// Whether a request, node or item more would pass a cap.
    pub fn is_full(&self, what: Cap) -> bool {
        match what {
            Cap::Requests => self.requests.len() >= limits::OPEN_REQUESTS,
            // The message of a restart may have to go back to the queue: its place is kept.
            Cap::Queue => {
                let restarts = self
                    .active
                    .as_ref()
                    .is_some_and(|a| a.restart_pending.is_some());
                self.queue.len() + usize::from(restarts) >= limits::QUEUED_RUNS
            }
            Cap::Nodes => self.nodes.len() >= limits::LIVE_TREE,
            Cap::Items => self.nodes.len() + self.items.len() >= limits::LIVE_NODES,
        }
    }

    /// Whether a run can start: none is active, none is being taken back, and none of an import is still to come.
    pub fn rests(&self) -> bool {
        self.active.is_none() && self.rollback.is_none() && self.import != Some(Import::Reading)
    }

    /// The open request of that id.
    pub fn request(&self, id: RequestId) -> Option<&RequestSlot> {
        self.requests.iter().find(|slot| slot.id == id)
    }

    /// The live item of that id.
    pub fn item(&self, id: ItemId) -> Option<&ItemSlot> {
        self.items.iter().find(|slot| slot.id == id)
    }

    /// The live node of that id.
    pub fn node(&self, id: NodeId) -> Option<&NodeSlot> {
        self.nodes.iter().find(|slot| slot.id == id)
    }
}

/// What has a cap in state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// Open requests.
    Requests,
    /// Queued runs.
    Queue,
    /// Live nodes of the tree.
    Nodes,
    /// Live nodes and items together.
    Items,
}
