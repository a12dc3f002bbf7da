//! Events: small facts in a log. Additive; each type's shape is held by a golden file.

use crate::{
    AttemptId, CommandId, ContentHash, DeviceId, DispatchMode, ItemContent, ItemId, ItemStatus,
    MessageId, NodeId, ProviderThreadId, ProviderTurnId, RequestId, RequestStatus, RunId,
    RunStatus, RuntimeRequest, SessionId, ThreadId, TransferId, TurnItem, WorkspaceId,
    capability::Capabilities,
    command::{Notice, Scope},
    item::{Anomaly, Body},
    provider::{
        AccountLimit, OfferedCommand, OfferedModel, ProviderSession, ProviderThread,
        ProviderThreadStatus, SessionStatus, TurnEnd,
    },
    request::{Answer, RiskHint},
    run::{
        AttemptReason, AttemptStatus, BackgroundOwner, BlockedOn, Correlation, ExecutionNode,
        NodeStatus, Origin, RunError, Usage,
    },
    state::EndedRun,
    thread::{Actor, ConversationMessage, Delivery, Lineage, Selection},
    transfer::{ContextTransfer, PlanArtifact, TransferStatus},
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// A fact. Made only by `decide` and `ingest`, appended only by the thread's ledger, applied by everyone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "type")]
pub enum Event {
    /// A thread exists. Nothing runs yet.
    #[serde(rename = "thread.created")]
    ThreadCreated {
        /// Its id.
        thread: ThreadId,
        /// Its title.
        title: String,
        /// Where it works.
        workspace: WorkspaceId,
        /// What it runs on.
        selection: Selection,
        /// Where it came from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lineage: Option<Lineage>,
        /// Who made it.
        actor: Actor,
    },
    /// Somebody chose what the thread runs on from the next turn on.
    #[serde(rename = "thread.selected")]
    ThreadSelected {
        /// What.
        selection: Selection,
        /// Who.
        actor: Actor,
    },
    /// A message was taken in.
    #[serde(rename = "message.added")]
    MessageAdded {
        /// The message.
        message: ConversationMessage,
    },
    /// A message got further, or failed.
    #[serde(rename = "message.delivery")]
    MessageDelivery {
        /// The message.
        message: MessageId,
        /// How far it is.
        delivery: Delivery,
    },
    /// A run waits in the queue.
    #[serde(rename = "run.queued")]
    RunQueued {
        /// The run.
        run: RunId,
        /// Its message.
        message: MessageId,
        /// How it was asked for.
        dispatch: DispatchMode,
        /// Where in the queue.
        place: QueuePlace,
        /// Where it came from.
        origin: Origin,
    },
    /// A run left the queue without starting.
    #[serde(rename = "run.dequeued")]
    RunDequeued {
        /// The run; it is `cancelled`.
        run: RunId,
        /// Who took it out.
        actor: Actor,
    },
    /// A run is the active one.
    #[serde(rename = "run.started")]
    RunStarted {
        /// The run.
        run: RunId,
        /// Its message, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// Given now, by the ledger.
        ordinal: u32,
        /// Where it came from.
        origin: Origin,
        /// How it was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dispatch: Option<DispatchMode>,
        /// The run it replaces.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supersedes: Option<RunId>,
    },
    /// The active run's status changed.
    #[serde(rename = "run.status")]
    RunStatusChanged {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
        /// What it waits for.
        blocked_on: BlockedOn,
    },
    /// Somebody asked the agent to stop. The run goes on until the agent says that it ended.
    #[serde(rename = "run.interrupt_requested")]
    InterruptRequested {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: AttemptId,
        /// Who.
        actor: Actor,
        /// Whether the queue waits once the run has ended.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hold_queue: bool,
    },
    /// A step of the interrupt was taken or reported.
    #[serde(rename = "run.interrupt_step")]
    InterruptStep {
        /// The run.
        run: RunId,
        /// Which step: `protocol`, `sigint`, `sigterm`, `sigkill`.
        step: String,
        /// What came of it, in words.
        note: String,
    },
    /// Steering by restart: once the current attempt has ended, the message starts the next.
    #[serde(rename = "run.restart_pending")]
    RestartPending {
        /// The run.
        run: RunId,
        /// The steering message.
        message: MessageId,
    },
    /// The run is over.
    #[serde(rename = "run.ended")]
    RunEnded {
        /// The run.
        run: RunId,
        /// A terminal status.
        status: RunStatus,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
    },
    /// Tokens used by the run so far.
    #[serde(rename = "run.usage")]
    UsageRecorded {
        /// The run.
        run: RunId,
        /// Totals of the run.
        usage: Usage,
    },
    /// A try at a run began; it is the one that counts.
    #[serde(rename = "attempt.started")]
    AttemptStarted {
        /// The attempt.
        attempt: AttemptId,
        /// Its run.
        run: RunId,
        /// 1 for the first.
        ordinal: u32,
        /// Why.
        reason: AttemptReason,
        /// The root node of its tree.
        root_node: NodeId,
        /// The message it sends, if another than the run's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
    },
    /// The agent took it up as a turn.
    #[serde(rename = "attempt.bound")]
    AttemptBound {
        /// The attempt.
        attempt: AttemptId,
        /// The conversation.
        provider_thread: ProviderThreadId,
        /// The turn.
        turn: ProviderTurnId,
    },
    /// A try ended.
    #[serde(rename = "attempt.ended")]
    AttemptEnded {
        /// The attempt.
        attempt: AttemptId,
        /// How.
        status: AttemptStatus,
        /// How sure that is.
        correlation: Correlation,
        /// Why it failed; its message is bounded, for it stands in state until the run has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
    },
    /// The queue is held or goes on.
    #[serde(rename = "queue.held")]
    QueueHeld {
        /// Why it is held; `None` when it goes on.
        reason: Option<HoldReason>,
    },
    /// A session exists or changed.
    #[serde(rename = "session.changed")]
    SessionChanged {
        /// The session as it is now.
        session: ProviderSession,
    },
    /// A session's status alone changed.
    #[serde(rename = "session.status")]
    SessionStatusChanged {
        /// The session.
        session: SessionId,
        /// Its status.
        status: SessionStatus,
    },
    /// What the session's agent can do, as known now.
    #[serde(rename = "session.capabilities")]
    CapabilitiesLearned {
        /// The session.
        session: SessionId,
        /// All facts.
        capabilities: Capabilities,
    },
    /// What the session's agent can run on, as it says itself.
    #[serde(rename = "session.models")]
    ModelsOffered {
        /// The session.
        session: SessionId,
        /// The models, in the agent's order.
        models: Vec<OfferedModel>,
    },
    /// What can be said to the session's agent as a command of its own, as it says itself.
    #[serde(rename = "session.commands")]
    CommandsOffered {
        /// The session.
        session: SessionId,
        /// All of them, in the agent's order.
        commands: Vec<OfferedCommand>,
    },
    /// How much of the account's limits is used, as the session's agent says.
    #[serde(rename = "session.limits")]
    LimitsReported {
        /// The session.
        session: SessionId,
        /// All limits it names.
        limits: Vec<AccountLimit>,
    },
    /// A native conversation exists or changed.
    #[serde(rename = "provider_thread.changed")]
    ProviderThreadChanged {
        /// The conversation as it is now.
        provider_thread: ProviderThread,
    },
    /// A native conversation's status alone changed.
    #[serde(rename = "provider_thread.status")]
    ProviderThreadStatusChanged {
        /// The conversation.
        provider_thread: ProviderThreadId,
        /// Its status.
        status: ProviderThreadStatus,
    },
    /// A turn ended, as the agent says.
    #[serde(rename = "turn.ended")]
    TurnEnded {
        /// The turn.
        turn: ProviderTurnId,
        /// How.
        end: TurnEnd,
    },
    /// An item exists.
    #[serde(rename = "item.opened")]
    ItemOpened {
        /// The item; an item that is complete at once has a terminal status here.
        item: TurnItem,
    },
    /// An open item's content changed otherwise than by a delta.
    #[serde(rename = "item.updated")]
    ItemUpdated {
        /// The item.
        item: ItemId,
        /// Its content now.
        content: ItemContent,
    },
    /// An item ended. Also sent for an item that we had closed and the agent ended later: the last one holds.
    #[serde(rename = "item.closed")]
    ItemClosed {
        /// The item.
        item: ItemId,
        /// A terminal status.
        status: ItemStatus,
        /// Its final content; `None` keeps what is there (with the text streamed so far).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<ItemContent>,
        /// The text streamed so far, where the agent gave no final one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        streamed: Option<Body>,
    },
    /// An item goes on after its turn ended.
    #[serde(rename = "item.background")]
    ItemBackground {
        /// The item.
        item: ItemId,
        /// Who holds it.
        owner: BackgroundOwner,
    },
    /// A node exists (subagents; root nodes come with their attempt).
    #[serde(rename = "node.opened")]
    NodeOpened {
        /// The node.
        node: ExecutionNode,
    },
    /// A node's status changed; a terminal one closes it.
    #[serde(rename = "node.status")]
    NodeStatusChanged {
        /// The node.
        node: NodeId,
        /// Its status.
        status: NodeStatus,
    },
    /// A request waits for a person.
    #[serde(rename = "request.opened")]
    RequestOpened {
        /// The request.
        request: Box<RuntimeRequest>,
    },
    /// What is asked changed; earlier answers to it are stale.
    #[serde(rename = "request.changed")]
    RequestChanged {
        /// The request.
        request: RequestId,
        /// What is asked now.
        subject: String,
        /// Its hash.
        content_hash: ContentHash,
        /// Whether one tap may approve it.
        one_tap_allowed: bool,
        /// Whether the safe default is to refuse.
        default_to_no: bool,
        /// Why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hints: Vec<RiskHint>,
    },
    /// An answer was recorded; first wins.
    #[serde(rename = "request.answering")]
    RequestAnswering {
        /// The request.
        request: RequestId,
        /// The answer.
        answer: Answer,
        /// Who gave it.
        by: DeviceId,
        /// By which command.
        command: CommandId,
    },
    /// A request is no longer open.
    #[serde(rename = "request.closed")]
    RequestClosed {
        /// The request.
        request: RequestId,
        /// Its final status.
        status: RequestStatus,
    },
    /// A plan, todo list or set of questions exists or changed.
    #[serde(rename = "plan.updated")]
    PlanUpdated {
        /// The artifact as it is now.
        plan: PlanArtifact,
    },
    /// Context is to pass from elsewhere to this thread.
    #[serde(rename = "transfer.recorded")]
    TransferRecorded {
        /// The transfer, pending.
        transfer: ContextTransfer,
    },
    /// A transfer was resolved, or failed.
    #[serde(rename = "transfer.status")]
    TransferStatusChanged {
        /// The transfer.
        transfer: TransferId,
        /// Its status.
        status: TransferStatus,
    },
    /// Somebody asked to take back runs; the agent comes first.
    #[serde(rename = "rollback.requested")]
    RollbackRequested {
        /// The first of them.
        before: RunId,
        /// How many there are.
        runs: u32,
        /// Who.
        actor: Actor,
    },
    /// Runs were taken back, or not.
    #[serde(rename = "rollback.ended")]
    RollbackEnded {
        /// The first of them.
        before: RunId,
        /// What came of it.
        outcome: RollbackOutcome,
    },
    /// The thread is made of a conversation that its agent had already; what was said in it is being read.
    #[serde(rename = "thread.imports")]
    ImportRequested {
        /// The conversation.
        provider_thread: ProviderThreadId,
        /// Who asked for it.
        actor: Actor,
    },
    /// What was said in it before is here, or could not be read.
    #[serde(rename = "thread.imported")]
    ImportEnded {
        /// Why it could not be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
    },
    /// A person is to be told something.
    #[serde(rename = "notice.raised")]
    NoticeRaised {
        /// What.
        notice: Notice,
    },
    /// A sign-in of the agent was asked for (docs/decisions/033).
    #[serde(rename = "sign_in.asked")]
    SignInAsked {
        /// An earlier version goes on without it.
        #[serde(default)]
        skippable: Skippable,
    },
    /// A sign-in of the agent came to nothing.
    #[serde(rename = "sign_in.failed")]
    SignInFailed {
        /// Why, bounded: the agent's words or ours.
        problem: String,
        /// An earlier version goes on without it.
        #[serde(default)]
        skippable: Skippable,
    },
    /// An agent did something without the request that its thread's mode demands (docs/decisions/024).
    #[serde(rename = "anomaly.found")]
    AnomalyFound {
        /// What it did.
        item: ItemId,
        /// What is wrong with it.
        anomaly: Anomaly,
        /// An earlier version goes on without it.
        #[serde(default)]
        skippable: Skippable,
    },
    /// Ingest failed on a frame; the log goes on (DESIGN section 4).
    #[serde(rename = "frame.unreadable")]
    FrameUnreadable {
        /// What failed, in words.
        detail: String,
    },
    /// Host log: a device was paired or its scopes changed.
    #[serde(rename = "device.paired")]
    DevicePaired {
        /// The device.
        device: DeviceId,
        /// Its name as it gave it.
        name: String,
        /// SHA-256 of its public key.
        spki_sha256: ContentHash,
        /// What it may do.
        scopes: Vec<Scope>,
    },
    /// Host log: a device may no longer connect.
    #[serde(rename = "device.revoked")]
    DeviceRevoked {
        /// The device.
        device: DeviceId,
    },
}

/// Marks an event that a version which does not know it may skip: always `true` in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub struct Skippable;

impl From<bool> for Skippable {
    fn from(_: bool) -> Self {
        Self
    }
}

impl From<Skippable> for bool {
    fn from(_: Skippable) -> Self {
        true
    }
}

/// What came of taking back runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum RollbackOutcome {
    /// The agent has forgotten them. Files are as they were.
    Applied {
        /// Which, oldest first; they are `rolled_back`.
        runs: Vec<RunId>,
        /// The last run that stands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<EndedRun>,
    },
    /// Nothing was taken back.
    Refused {
        /// Why.
        error: RunError,
    },
}

/// Where a queued run is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tagged)]
#[serde(rename_all = "snake_case", tag = "at")]
pub enum QueuePlace {
    /// First.
    Head,
    /// Last.
    Tail,
    /// Right behind a queued run.
    After {
        /// That run.
        run: RunId,
    },
}

/// Why a queue does not go on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// A run was interrupted by a person.
    Interrupted,
    /// A run failed.
    Failed,
    /// The runtime was lost.
    RuntimeLost,
    /// A steer met an ended turn; its message waits for its person's word.
    SteerMissed,
    /// A person held it.
    Person,
    /// The agent's sign-in was refused: all its threads wait until it is back, or a person says to try again.
    SignIn,
}
