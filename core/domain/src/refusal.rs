//! Refusals: why a command was not taken. Typed, never an agent's text.

use crate::{
    AgentName, CapabilityFlag, ContentHash, ConversationKey, DeviceId, MessageId, Mode, RequestId,
    RunId, RunStatus, ThreadId, WorkspaceId, command::Scope, request::Answer, state::Cap,
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// Why a command was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Tagged)]
#[serde(tag = "refusal", rename_all = "snake_case")]
pub enum Refusal {
    /// The agent cannot, and there is nothing else to do instead.
    #[error("the agent does not offer this ({capability})")]
    Unsupported {
        /// What it lacks.
        capability: CapabilityFlag,
        /// What a person can do instead, if there is something.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fallback: Option<Fallback>,
    },
    /// The agent cannot be given that mode.
    #[error("agent `{agent}` has no mode {}", mode.name())]
    UnsupportedMode {
        /// The agent.
        agent: AgentName,
        /// The mode.
        mode: Mode,
    },
    /// The request can no longer be answered.
    #[error("the request can no longer be answered: it is {status}")]
    NotRespondable {
        /// The request.
        request: RequestId,
        /// What became of it.
        status: ClosedAs,
    },
    /// Somebody answered first.
    #[error("already answered{}", by.map(|d| format!(" by device {d}")).unwrap_or_default())]
    AlreadyAnswered {
        /// The request.
        request: RequestId,
        /// Who; `None` if it was outside Pilothouse.
        by: Option<DeviceId>,
        /// With what.
        answer: Option<Answer>,
        /// Host time, Unix ms.
        at_ms: u64,
    },
    /// The turn was over. The message of a steer is kept at the head of the queue.
    #[error("the turn had ended{}", if message.is_some() { "; the message waits at the head of the queue" } else { "" })]
    TurnEnded {
        /// The run.
        run: RunId,
        /// How it had ended, if it did.
        status: Option<RunStatus>,
        /// The message kept in the queue.
        message: Option<MessageId>,
    },
    /// What the person saw is no longer so.
    #[error("what was shown has changed: {what}")]
    Stale {
        /// What.
        what: StaleWhat,
    },
    /// Something else is going on; try again.
    #[error("busy: {what}")]
    Busy {
        /// With what.
        what: String,
    },
    /// The host is starting or stopping; try again.
    #[error("the host is not ready")]
    NotReady,
    /// Too many commands; try again.
    #[error("too many commands at once")]
    RateLimited,
    /// The host's disk is full; try again when there is room.
    #[error("the host's disk is full")]
    DiskFull,
    /// The device was not granted the scope.
    #[error("this device was not granted `{scope:?}` on the host")]
    Forbidden {
        /// The scope needed.
        scope: Scope,
    },
    /// No such thread.
    #[error("no thread {thread}")]
    UnknownThread {
        /// The thread.
        thread: ThreadId,
    },
    /// The thread is there already.
    #[error("thread {thread} exists")]
    ThreadExists {
        /// The thread.
        thread: ThreadId,
    },
    /// The thread holds events of a newer version.
    #[error("the thread is read-only: {reason}; update this program")]
    ReadOnly {
        /// Why.
        reason: String,
    },
    /// The host has not listed such a conversation since it started.
    #[error("the host has not listed that conversation; list the agent's conversations again")]
    UnknownConversation {
        /// What was named.
        conversation: ConversationKey,
    },
    /// The conversation goes on in a thread already.
    #[error("that conversation is thread {thread} already")]
    AlreadyHere {
        /// Which.
        thread: ThreadId,
    },
    /// No such run, or not in the state it would have to be.
    #[error("no such run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// The run is there, and this cannot be done with it.
    #[error("run {run} {unfit}")]
    UnfitRun {
        /// The run.
        run: RunId,
        /// Why not.
        unfit: Unfit,
    },
    /// No such request.
    #[error("no such request {request}")]
    UnknownRequest {
        /// The request.
        request: RequestId,
    },
    /// No such agent.
    #[error("no agent `{agent}` on this host (it has: {})", known.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", "))]
    UnknownAgent {
        /// The name.
        agent: AgentName,
        /// Those there are.
        known: Vec<AgentName>,
    },
    /// The agent has no such model.
    #[error("the agent has no model `{model}` (near it: {})", nearest.join(", "))]
    UnknownModel {
        /// The name.
        model: String,
        /// At most five of those it has, the most alike first.
        nearest: Vec<String>,
    },
    /// The model takes no such effort.
    #[error("the model takes no effort `{effort}` (it takes: {})", known.join(", "))]
    UnknownEffort {
        /// The word.
        effort: String,
        /// Those it takes, the most alike first.
        known: Vec<String>,
    },
    /// No such workspace.
    #[error("no workspace `{workspace}` on this host (it has: {})", known.iter().map(WorkspaceId::as_str).collect::<Vec<_>>().join(", "))]
    UnknownWorkspace {
        /// The name.
        workspace: WorkspaceId,
        /// Those there are.
        known: Vec<WorkspaceId>,
    },
    /// A cap is reached.
    #[error("the thread has as many open {what:?} as it may ({cap})")]
    Full {
        /// Of what.
        what: Cap,
        /// How many it may have.
        cap: u64,
    },
    /// The command itself is wrong.
    #[error("{field}: {problem}")]
    Invalid {
        /// What of it.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It waited too long in the outbox.
    #[error("it expired before it reached the host")]
    Expired,
    /// The host does not know the command; it is older than the device.
    #[error("the host does not know `{name}`; update it")]
    UnknownCommand {
        /// Its name.
        name: String,
    },
}

/// What a person can do where an agent lacks something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// Put the message into the queue.
    Queue,
    /// Fork from the last run instead.
    ForkHead,
    /// Fork from the run before instead: this thread stays, the other goes on from there.
    ForkBefore,
    /// Put the file into the workspace and name it in words.
    NameFile,
    /// Begin a new thread and say what it has to know; handing over the context is not offered yet.
    NewThread,
    /// Sign in on the host.
    OnHost,
}

impl Fallback {
    /// It in words, as a next step.
    pub fn words(self) -> &'static str {
        match self {
            Self::Queue => "send it to the queue instead",
            Self::ForkHead => "fork from the last run instead",
            Self::ForkBefore => "fork from the run before it instead",
            Self::NameFile => "put the file into the workspace and name it in your message",
            Self::NewThread => "make a new thread and tell it what it has to know",
            Self::OnHost => "sign in on the host, by the agent's own way",
        }
    }
}

/// Why something cannot be done with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfit {
    /// It waits in the queue.
    Queued,
    /// It has not ended.
    GoesOn,
    /// It was taken out of the queue.
    Cancelled,
    /// It was taken back.
    RolledBack,
    /// The agent never took it up.
    NeverBegan,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Queued => "is still queued",
            Self::GoesOn => "has not ended",
            Self::Cancelled => "was taken out of the queue",
            Self::RolledBack => "was taken back",
            Self::NeverBegan => "was never taken up by the agent",
        })
    }
}

/// What became of a request that cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the statuses")]
pub enum ClosedAs {
    Withdrawn,
    Expired,
    Lost,
}

impl std::fmt::Display for ClosedAs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Withdrawn => "withdrawn by the agent",
            Self::Expired => "expired",
            Self::Lost => "lost with the agent's process",
        })
    }
}

/// What is no longer as it was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "stale", rename_all = "snake_case")]
pub enum StaleWhat {
    /// What a request asks.
    Content {
        /// Hash of what it asks now.
        now: ContentHash,
    },
    /// The attempt: the run was restarted.
    Attempt,
    /// The active run is another.
    Run {
        /// Which, if any.
        active: Option<RunId>,
    },
    /// The queue.
    QueueRevision {
        /// Its revision now.
        now: u64,
    },
    /// The last run is another.
    LastRun {
        /// Which, if any.
        now: Option<RunId>,
    },
    /// A tool runs that the person did not agree to stop.
    RunningItem {
        /// The item.
        item: crate::ItemId,
    },
}

impl std::fmt::Display for StaleWhat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Content { .. } => f.write_str("the request asks for something else now"),
            Self::Attempt => f.write_str("the run was restarted"),
            Self::Run { .. } => f.write_str("another run is active"),
            Self::QueueRevision { .. } => f.write_str("the queue was changed"),
            Self::LastRun { .. } => f.write_str("another run has ended since"),
            Self::RunningItem { .. } => {
                f.write_str("something is running that was not agreed to be stopped")
            }
        }
    }
}

impl Refusal {
    /// Whether trying the same again may succeed: not stored as final, and it stops that device's line on the thread.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. } | Self::NotReady | Self::RateLimited | Self::DiskFull
        )
    }

    /// A stable word for the reason: the tag under which it is serialised.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsupported { .. } => "unsupported",
            Self::UnsupportedMode { .. } => "unsupported_mode",
            Self::NotRespondable { .. } => "not_respondable",
            Self::AlreadyAnswered { .. } => "already_answered",
            Self::TurnEnded { .. } => "turn_ended",
            Self::Stale { .. } => "stale",
            Self::Busy { .. } => "busy",
            Self::NotReady => "not_ready",
            Self::RateLimited => "rate_limited",
            Self::DiskFull => "disk_full",
            Self::Forbidden { .. } => "forbidden",
            Self::UnknownThread { .. } => "unknown_thread",
            Self::ThreadExists { .. } => "thread_exists",
            Self::ReadOnly { .. } => "read_only",
            Self::UnknownConversation { .. } => "unknown_conversation",
            Self::AlreadyHere { .. } => "already_here",
            Self::UnknownRun { .. } => "unknown_run",
            Self::UnfitRun { .. } => "unfit_run",
            Self::UnknownRequest { .. } => "unknown_request",
            Self::UnknownAgent { .. } => "unknown_agent",
            Self::UnknownModel { .. } => "unknown_model",
            Self::UnknownEffort { .. } => "unknown_effort",
            Self::UnknownWorkspace { .. } => "unknown_workspace",
            Self::Full { .. } => "full",
            Self::Invalid { .. } => "invalid",
            Self::Expired => "expired",
            Self::UnknownCommand { .. } => "unknown_command",
        }
    }

    /// What a person can do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Busy { .. } | Self::NotReady | Self::RateLimited => "it is tried again by itself",
            Self::DiskFull => "free space on the host; it is tried again by itself",
            Self::Stale { .. } => "look again and decide anew",
            Self::TurnEnded {
                message: Some(_), ..
            } => "release the queue to send it as a new run, or remove it",
            Self::TurnEnded { .. } => "nothing is running any more",
            Self::Forbidden { .. } => "grant the scope on the host, or use another device",
            Self::Unsupported {
                fallback: Some(fallback),
                ..
            } => fallback.words(),
            Self::Unsupported { .. } | Self::UnsupportedMode { .. } => {
                "choose another way or another agent"
            }
            Self::UnfitRun {
                unfit: Unfit::GoesOn | Unfit::Queued,
                ..
            } => "wait until it has ended, or stop it",
            Self::UnfitRun { .. } => "name another run",
            Self::NotRespondable { .. } | Self::AlreadyAnswered { .. } => "nothing is to be done",
            Self::UnknownCommand { .. } => "update the host",
            Self::ReadOnly { .. } => "update this program",
            Self::Full { .. } => "wait until something ends, or remove something from the queue",
            Self::Expired => "decide anew",
            Self::UnknownAgent { .. }
            | Self::UnknownModel { .. }
            | Self::UnknownEffort { .. }
            | Self::UnknownWorkspace { .. } => "name one of those there are",
            Self::UnknownConversation { .. } => "list the conversations, and choose again",
            Self::AlreadyHere { .. } => "go on in that thread",
            Self::UnknownThread { .. }
            | Self::ThreadExists { .. }
            | Self::UnknownRun { .. }
            | Self::UnknownRequest { .. }
            | Self::Invalid { .. } => "correct the command",
        }
    }
}
