//! What came of a verb, as JSON.

use super::rows::{Queued, queued};
use crate::client::failure::{Candidate, Code, Failure};
use pilothouse_domain::{
    AgentName, AttemptId, CommandId, ContentHash, ConversationKey, HostId, ItemId, MessageId,
    Refusal, RequestId, RequestStatus, RunId, RunStatus, ThreadId, WorkspaceId,
    command::NoticeKind,
    event::HoldReason,
    provider::{FoundFile, NativeConversation, OfferedCommand, OfferedModel},
    request::Answer,
    thread::Selection,
};
use pilothouse_engine::ThreadHeader;
use serde::Serialize;

/// `joined`
#[derive(Debug, Serialize)]
pub(crate) struct Joined {
    pub(crate) host: HostId,
    pub(crate) name: String,
}

/// `created`
#[derive(Debug, Serialize)]
pub(crate) struct Created {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) command: CommandId,
}

/// `forked`
#[derive(Debug, Serialize)]
pub(crate) struct Forked {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) command: CommandId,
    pub(crate) source: ThreadId,
    /// The run after which it goes its own way, if one was named.
    pub(crate) after: Option<RunId>,
}

/// `session`: a conversation that an agent has by itself.
#[derive(Debug, Serialize)]
pub(crate) struct NativeSession {
    pub(crate) host: HostId,
    pub(crate) agent: AgentName,
    pub(crate) workspace: WorkspaceId,
    #[serde(flatten)]
    pub(crate) conversation: NativeConversation,
}

/// `sessions`: the end of a page of them.
#[derive(Debug, Serialize)]
pub(crate) struct NativeSessions {
    pub(crate) host: HostId,
    /// Where the next page begins; `null` if there is none.
    pub(crate) next: Option<String>,
}

/// `imported`
#[derive(Debug, Serialize)]
pub(crate) struct Imported {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) command: CommandId,
    /// The conversation.
    pub(crate) key: ConversationKey,
}

/// `rolled_back`: only ever printed for what the host confirmed.
#[derive(Debug, Serialize)]
pub(crate) struct RolledBack {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) command: CommandId,
    /// The first run that was taken back.
    pub(crate) before: RunId,
    /// How many were.
    pub(crate) runs: u32,
}

/// `compacted`
#[derive(Debug, Serialize)]
pub(crate) struct Compacted {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) command: CommandId,
    pub(crate) run: RunId,
    /// How that run ended; `null` if it had not within the time.
    pub(crate) run_status: Option<RunStatus>,
}

/// `selection`: what a thread runs on from its next turn on, and what its agent offers.
#[derive(Debug, Serialize)]
pub(crate) struct Chosen {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    /// The command that changed it, if one did.
    pub(crate) command: Option<CommandId>,
    pub(crate) selection: Selection,
    pub(crate) models: Vec<OfferedModel>,
}

/// `commands`: what can be said to a thread's agent as a command of its own.
#[derive(Debug, Serialize)]
pub(crate) struct Commands {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) commands: Vec<OfferedCommand>,
}

/// `files`: files of a thread's workspace, the best first.
#[derive(Debug, Serialize)]
pub(crate) struct Files {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) files: Vec<FoundFile>,
}

/// `sent`
#[derive(Debug, Serialize)]
pub(crate) struct Sent {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) command: CommandId,
    pub(crate) message: MessageId,
    pub(crate) run: RunId,
    /// What its person should know, e.g. that it was queued.
    pub(crate) notice: Option<NoticeKind>,
}

/// `answered`: only ever printed for what the host confirmed.
#[derive(Debug, Serialize)]
pub(crate) struct Answered {
    pub(crate) request: RequestId,
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) command: CommandId,
    pub(crate) content_hash: ContentHash,
    pub(crate) answer: Answer,
    /// The request's status as the host has it now.
    #[serde(flatten)]
    pub(crate) confirmed: Confirmed,
}

/// How far the host has confirmed an answer.
#[derive(Debug, Serialize)]
pub(crate) struct Confirmed {
    /// `answered`, or what else became of the request.
    pub(crate) status: &'static str,
    /// Who answered: another device may have been first.
    pub(crate) by: Option<pilothouse_domain::DeviceId>,
    /// How it is known that the agent has it.
    pub(crate) delivery: Option<pilothouse_domain::request::AnswerDelivery>,
    /// Host time.
    pub(crate) at_ms: Option<u64>,
}

impl From<&RequestStatus> for Confirmed {
    fn from(status: &RequestStatus) -> Self {
        let none = |status| Self {
            status,
            by: None,
            delivery: None,
            at_ms: None,
        };
        match status {
            RequestStatus::Pending => none("pending"),
            RequestStatus::Answering { by, at_ms, .. } => Self {
                status: "answering",
                by: Some(*by),
                delivery: None,
                at_ms: Some(*at_ms),
            },
            RequestStatus::Answered {
                by,
                delivery,
                at_ms,
                ..
            } => Self {
                status: "answered",
                by: *by,
                delivery: Some(*delivery),
                at_ms: Some(*at_ms),
            },
            RequestStatus::Withdrawn => none("withdrawn"),
            RequestStatus::Expired => none("expired"),
            RequestStatus::Lost { .. } => none("lost"),
        }
    }
}

/// `interrupted`: the host has asked the agent to stop.
#[derive(Debug, Serialize)]
pub(crate) struct Interrupted {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) command: CommandId,
    pub(crate) run: RunId,
    pub(crate) attempt: AttemptId,
    /// How the run ended; `null` if it has not yet.
    pub(crate) run_status: Option<RunStatus>,
}

/// `queue`
#[derive(Debug, Serialize)]
pub(crate) struct QueueLine {
    thread: ThreadId,
    host: HostId,
    revision: u64,
    held: Option<HoldReason>,
    entries: Vec<Queued>,
}

impl From<&ThreadHeader> for QueueLine {
    fn from(header: &ThreadHeader) -> Self {
        Self {
            thread: header.thread,
            host: header.host,
            revision: header.queue_revision,
            held: header.held,
            entries: queued(header),
        }
    }
}

/// `queue_changed`
#[derive(Debug, Serialize)]
pub(crate) struct QueueChanged {
    pub(crate) thread: ThreadId,
    pub(crate) host: HostId,
    pub(crate) command: CommandId,
    /// The run that was taken out; `null` for a release.
    pub(crate) removed: Option<RunId>,
}

/// `idle`: the last line of `watch --until-idle`.
#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    pub(crate) thread: Option<ThreadId>,
    pub(crate) last_run: Option<RunStatus>,
}

/// `reset`: forget what was told of the thread's items.
#[derive(Debug, Serialize)]
pub(crate) struct Reset {
    pub(crate) thread: ThreadId,
}

/// `text`: added to an item's text.
#[derive(Debug, Serialize)]
pub(crate) struct Text<'a> {
    pub(crate) item: ItemId,
    /// Offset in UTF-8 bytes of the item's whole text.
    pub(crate) at: u64,
    pub(crate) text: &'a str,
}

/// `request_gone`: it waits no more.
#[derive(Debug, Serialize)]
pub(crate) struct RequestGone {
    pub(crate) request: RequestId,
}

/// `thread_gone`
#[derive(Debug, Serialize)]
pub(crate) struct ThreadGone {
    pub(crate) thread: ThreadId,
}

/// `error`: the last line of a verb that did not do what was asked.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorLine<'a> {
    code: Code,
    exit: u8,
    message: &'a str,
    next: Option<&'a str>,
    command: Option<CommandId>,
    refusal: Option<&'a Refusal>,
    candidates: &'a [Candidate],
}

impl<'a> From<&'a Failure> for ErrorLine<'a> {
    fn from(failure: &'a Failure) -> Self {
        Self {
            code: failure.code,
            exit: failure.code.number(),
            message: &failure.what,
            next: failure.next.as_deref(),
            command: failure.command,
            refusal: failure.refusal.as_deref(),
            candidates: &failure.candidates,
        }
    }
}
