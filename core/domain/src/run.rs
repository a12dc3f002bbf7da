//! Runs, their attempts, and the tree of what an agent does.

use crate::{
    AttemptId, DispatchMode, MessageId, NodeId, ProviderThreadId, ProviderTurnId, RunId,
    thread::Actor,
};
use serde::{Deserialize, Serialize};

/// One user message (or external turn) worked on until a terminal status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Given by the ledger when it starts; `None` while it is queued (DETAILS section 1).
    pub ordinal: Option<u32>,
    /// Where it stands.
    pub status: RunStatus,
    /// What it waits for.
    pub blocked_on: BlockedOn,
    /// Where it came from.
    pub origin: Origin,
    /// The message that started it; `None` for an external turn without one.
    pub message: Option<MessageId>,
    /// How it was asked for.
    pub dispatch: Option<DispatchMode>,
    /// The attempt that counts.
    pub attempt: Option<AttemptId>,
    /// The run it replaces, where a steering restart came after a user-meaningful answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<RunId>,
    /// Tokens used so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// Host time of start, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    /// Host time of its end, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// In the queue.
    Queued,
    /// Its context is being made ready (handoff, checkpoint).
    Preparing,
    /// Handed to the agent, which has not confirmed a turn yet.
    Starting,
    /// The agent works.
    Running,
    /// The agent waits; see [`BlockedOn`].
    Waiting,
    /// The turn is over; the completion barrier closes what is open.
    Finalizing,
    /// Ended well.
    Completed,
    /// Ended by an interrupt or by the loss of its runtime.
    Interrupted,
    /// Ended by an error.
    Failed,
    /// Taken out of the queue.
    Cancelled,
    /// Undone by a rollback.
    RolledBack,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 11] = [
        Self::Queued,
        Self::Preparing,
        Self::Starting,
        Self::Running,
        Self::Waiting,
        Self::Finalizing,
        Self::Completed,
        Self::Interrupted,
        Self::Failed,
        Self::Cancelled,
        Self::RolledBack,
    ];

    /// Whether nothing more can come, except a rollback.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Interrupted | Self::Failed | Self::Cancelled | Self::RolledBack
        )
    }
}

/// What a waiting run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockedOn {
    /// Nothing.
    None,
    /// An approval by a person.
    Approval,
    /// An answer by a person.
    Question,
    /// Background work.
    Background,
    /// A checkpoint being taken or restored.
    Checkpoint,
    /// A usage limit.
    Limit,
}

/// Where a run came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person's message.
    Person,
    /// The implementation of a proposed plan.
    Plan,
    /// A task delegated by another thread's agent.
    Delegate,
    /// A turn that nobody here started.
    External,
}

/// Why a run failed. `code` is ours and closed for branching; `message` is the agent's words, for showing only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// What kind of failure.
    pub code: ErrorCode,
    /// The agent's words.
    pub message: String,
}

/// Kinds of failure that a codec can tell apart; unknown text is [`ErrorCode::Agent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The agent or its model failed in a way it did not classify.
    Agent,
    /// The agent's sign-in was refused.
    SignIn,
    /// A rate or usage limit.
    Limit,
    /// The conversation no longer fits the model.
    ContextFull,
    /// The model's service could not be reached or failed.
    ModelService,
    /// The agent could not be started.
    Start,
    /// The agent's process ended.
    RuntimeLost,
    /// The agent could not resume the conversation.
    Resume,
    /// The agent sent something unreadable.
    Protocol,
}

/// Tokens used, as the agent counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: u64,
    /// Of those, tokens read from a cache.
    pub cached_input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Of those, tokens of reasoning.
    pub reasoning: u64,
    /// Size of the model's context, if the agent tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// What it cost as the agent says, in billionths of a US dollar; `None` if it does not say, never 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_nano_usd: Option<u64>,
}

/// One try at a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAttempt {
    /// Its id.
    pub id: AttemptId,
    /// The run it tries.
    pub run: RunId,
    /// 1 for the first.
    pub ordinal: u32,
    /// The root node of its tree.
    pub root_node: NodeId,
    /// Why there is one.
    pub reason: AttemptReason,
    /// Where it stands.
    pub status: AttemptStatus,
    /// The native conversation it ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_thread: Option<ProviderThreadId>,
    /// The native turn it was bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<ProviderTurnId>,
    /// How sure its terminal status is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Correlation>,
}

/// Why an attempt was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptReason {
    /// The first.
    Initial,
    /// Steering by interrupt and restart.
    SteeringRestart,
    /// A person or policy tried again.
    Retry,
    /// The runtime was lost and work went on.
    ProviderRecovery,
}

/// Where an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// Handed to the agent, not confirmed.
    Starting,
    /// At work.
    Running,
    /// Ended well.
    Completed,
    /// Interrupted.
    Interrupted,
    /// Failed.
    Failed,
    /// Given up before the agent began.
    Cancelled,
}

impl AttemptStatus {
    /// Whether nothing more can come.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Starting | Self::Running)
    }
}

/// How sure a terminal status is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correlation {
    /// The agent named the turn.
    Strong,
    /// The agent ended a turn without naming it.
    Weak,
    /// We concluded it.
    Inferred,
}

/// A node of the execution tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionNode {
    /// Its id.
    pub id: NodeId,
    /// The node above; `None` for a root turn.
    pub parent: Option<NodeId>,
    /// The run it belongs to.
    pub run: RunId,
    /// What it is.
    pub kind: NodeKind,
    /// What a person reads.
    pub title: String,
    /// Where it stands.
    pub status: NodeStatus,
    /// Whether the run cannot end before it.
    pub counts_for_run: bool,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the seed's and say it")]
pub enum NodeKind {
    RootTurn,
    Subagent,
    ToolCall,
    Approval,
    UserInput,
    Plan,
    Todo,
    Reasoning,
    Message,
    System,
}

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// At work.
    Running,
    /// Waits for a person.
    Waiting,
    /// Goes on after its turn ended.
    Background,
    /// Ended well.
    Completed,
    /// Interrupted.
    Interrupted,
    /// Failed.
    Failed,
    /// Refused by a person.
    Declined,
}

/// Who holds background work that outlives its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundOwner {
    /// The run whose turn started it.
    pub run: RunId,
    /// The node under which it stands.
    pub node: NodeId,
    /// Who asked for that run.
    pub actor: Actor,
}
