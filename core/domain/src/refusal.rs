//! Refusals: why a command was not taken. Typed, never an agent's text.

use crate::{
    AgentName, CapabilityFlag, ContentHash, DeviceId, MessageId, Mode, RequestId, RunId, RunStatus,
    ThreadId, WorkspaceId, command::Scope, request::Answer, state::Cap,
};
use serde::{Deserialize, Serialize};

/// Why a command was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "refusal", rename_all = "snake_case")]
pub enum Refusal {
    /// The agent cannot, and there is nothing else to do instead.
    #[error("the agent does not offer this ({capability})")]
    Unsupported {
        /// What it lacks.
        capability: CapabilityFlag,
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
    /// No such run, or not in the state it would have to be.
    #[error("no such run {run}")]
    UnknownRun {
        /// The run.
        run: RunId,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
            Self::UnknownRun { .. } => "unknown_run",
            Self::UnknownRequest { .. } => "unknown_request",
            Self::UnknownAgent { .. } => "unknown_agent",
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
            Self::Unsupported { .. } | Self::UnsupportedMode { .. } => {
                "choose another way or another agent"
            }
            Self::NotRespondable { .. } | Self::AlreadyAnswered { .. } => "nothing is to be done",
            Self::UnknownCommand { .. } => "update the host",
            Self::ReadOnly { .. } => "update this program",
            Self::Full { .. } => "wait until something ends, or remove something from the queue",
            Self::Expired => "decide anew",
            Self::UnknownAgent { .. } | Self::UnknownWorkspace { .. } => {
                "name one of those there are"
            }
            Self::UnknownThread { .. }
            | Self::ThreadExists { .. }
            | Self::UnknownRun { .. }
            | Self::UnknownRequest { .. }
            | Self::Invalid { .. } => "correct the command",
        }
    }
}
