//! Commands: what a participant asks of a thread's ledger, with typed preconditions, and what comes of them.
//!
//! The table (scope · preconditions · events · effects · refusals):
//!
//! | command | scope | preconditions | events | effects | refusals |
//! |---|---|---|---|---|---|
//! | `thread.create` | operate | id derives from the command; agent, mode, workspace known | `thread.created` | – | `thread_exists`, `unknown_agent`, `unknown_workspace`, `unsupported_mode`, `invalid` |
//! | `thread.fork` | operate | id derives from the command; source there; its run ended (not rolled back) with a turn of the agent | `thread.created`, `transfer.recorded` (resolved by the first message's `send_turn`) | – | `thread_exists`, `unknown_thread`, `unknown_run`, `unfit_run`, `unsupported`, `unknown_agent`, `invalid` |
//! | `thread.import` | operate | id derives from the command; agent, mode, workspace known; the host listed the conversation; no thread has it | `thread.created`, `thread.imports`, later its turns as runs, and `thread.imported` | `import` | `thread_exists`, `unknown_conversation`, `already_here`, `unknown_agent`, `unknown_workspace`, `unsupported_mode`, `unsupported`, `invalid` |
//! | `thread.rollback` | operate | nothing runs; the last run the person saw; the run ended | `rollback.requested`, later `rollback.ended` | `revert` | `unfit_run`, `stale`, `unknown_run`, `busy`, `unsupported`, `invalid` |
//! | `thread.compact` | operate | nothing runs; the agent has a conversation | a run without a message | `compact` | `unfit_run`, `busy`, `unsupported`, `invalid` |
//! | `thread.select` | operate | agent advertises model and effort, as far as it says; mode offered; agent can switch once it has a conversation | `thread.selected` (holds from the next turn on) | – | `unknown_model`, `unknown_effort`, `unsupported_mode`, `unsupported`, `invalid` |
//! | `thread.sign_in` | approve | nothing runs; the thread is held for its agent's sign-in | `sign_in.asked`, later a request of kind `auth`; nothing while one is open | `sign_in` | `unfit_run`, `busy`, `unsupported`, `invalid` |
//! | `message.send` start | operate | thread active | message, run and attempt started; or queued when a run is active | `send_turn` | `unknown_thread`, `full`, `invalid`, `read_only` |
//! | `message.send` queue | operate | thread active | message, `run.queued` (starts at once when idle and not held) | `send_turn` | the same |
//! | `message.send` steer | operate | run (active or queued) | message; native steering, or restart by interrupt | `steer` or `interrupt` | `turn_ended` (message is kept at the queue's head, held), `stale`, `unsupported` |
//! | `message.send` restart | operate | run active; items it may stop | message, `run.restart_pending` | `interrupt` | `turn_ended`, `stale`, `unsupported` |
//! | `run.interrupt` | operate | run, attempt | `run.interrupt_requested` | `interrupt` | `turn_ended`, `stale`, `unsupported` |
//! | `request.answer` | approve | request pending, content hash | `request.answering` | `respond` | `already_answered`, `not_respondable`, `stale`, `unknown_request`, `invalid` |
//! | `queue.remove` | operate | run queued, revision | `run.dequeued` | – | `stale`, `unknown_run` |
//! | `queue.release` | operate | revision | `queue.held{none}`, next run started | `send_turn` | `stale` |

use crate::{
    AttemptId, CommandId, ContentHash, ConversationKey, Cursor, ItemId, MessageId, Mode, NoticeId,
    Refusal, RequestId, RunId, ThreadId, WorkspaceId,
    request::Answer,
    thread::{Attachment, Selection},
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// What a participant asks of a thread's ledger. A repeat with the same id gives the first outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Made by the client, random.
    pub id: CommandId,
    /// The thread it is for.
    pub thread: ThreadId,
    /// Grows per device and thread; commands are taken in this order.
    pub device_seq: u64,
    /// What its person had seen. For the audit only, never a reason to refuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub based_on: Option<Cursor>,
    /// The device's clock when the person acted, Unix ms. For showing and for the audit.
    pub issued_at_ms: u64,
    /// What is asked.
    pub body: CommandBody,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "command")]
pub enum CommandBody {
    /// Makes a thread; nothing runs. The thread's id is `command.id.derive("thread")`.
    #[serde(rename = "thread.create")]
    ThreadCreate {
        /// Its title.
        title: String,
        /// Where it works.
        workspace: WorkspaceId,
        /// What it runs on.
        selection: Selection,
    },
    /// Makes a thread that begins as another stood after one of its runs; nothing runs, and the agent is not asked before
    /// the first message. The thread's id is `command.id.derive("thread")`. Agent, model, effort and mode are the source's.
    #[serde(rename = "thread.fork")]
    ThreadFork {
        /// Its title.
        title: String,
        /// The thread it comes from.
        source: ThreadId,
        /// The run after which it goes its own way: completed, interrupted or failed. `None` is the last one that has ended
        /// when the host decides.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        /// Which files it works on.
        workspace: ForkWorkspace,
    },
    /// Makes a thread of a conversation that an agent has by itself, as the host has listed it. Its last turns become runs of
    /// external origin. The thread's id is `command.id.derive("thread")`.
    #[serde(rename = "thread.import")]
    ThreadImport {
        /// Its title.
        title: String,
        /// Where it works.
        workspace: WorkspaceId,
        /// What it runs on.
        selection: Selection,
        /// The conversation.
        conversation: ConversationKey,
    },
    /// Takes back a run and all after it: the agent forgets them. Files stay as they are.
    #[serde(rename = "thread.rollback")]
    ThreadRollback {
        /// The first run that is taken back; it has ended.
        before: RunId,
        /// The last run that the person saw: none is taken back unseen.
        last: RunId,
    },
    /// Asks the agent to shorten its context. It does so in a run of its own, `command.id.derive("run")`.
    #[serde(rename = "thread.compact")]
    ThreadCompact,
    /// Has the agent begin to sign in, for a thread that is held because its sign-in was refused. It opens a request that says
    /// where to go and what to enter there; what comes of that, the agent says.
    #[serde(rename = "thread.sign_in")]
    ThreadSignIn,
    /// Chooses what the thread runs on; all of it, so that two devices never mix halves. Holds from the next turn on.
    #[serde(rename = "thread.select")]
    ThreadSelect {
        /// The model as the agent names it; `None` is the agent's own default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The effort as the model names it; `None` is the model's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effort: Option<String>,
        /// What the agent may do without asking.
        mode: Mode,
    },
    /// Sends a message. The message's id is `command.id.derive("message")`, its run's `command.id.derive("run")`.
    #[serde(rename = "message.send")]
    MessageSend {
        /// What is said.
        text: String,
        /// What is attached.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// When it is to reach the agent.
        dispatch: DispatchMode,
        /// Running items that the person agreed to stop, for a steering that restarts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        accept_stop: Vec<ItemId>,
    },
    /// Asks the agent to stop.
    #[serde(rename = "run.interrupt")]
    RunInterrupt {
        /// The run.
        run: RunId,
        /// The attempt the person saw running.
        attempt: AttemptId,
        /// Whether the queue waits afterwards; a person's Stop says yes.
        hold_queue: bool,
    },
    /// Answers a request.
    #[serde(rename = "request.answer")]
    RequestAnswer {
        /// The request.
        request: RequestId,
        /// Hash of what the person was shown.
        content_hash: ContentHash,
        /// The answer.
        answer: Answer,
    },
    /// Takes a run out of the queue.
    #[serde(rename = "queue.remove")]
    QueueRemove {
        /// The run.
        run: RunId,
        /// The queue's revision the person saw.
        revision: u64,
    },
    /// Lets a held queue go on.
    #[serde(rename = "queue.release")]
    QueueRelease {
        /// The queue's revision the person saw.
        revision: u64,
    },
}

impl CommandBody {
    /// Names of all commands this version knows, for `welcome`.
    pub const NAMES: &'static [&'static str] = &[
        "thread.create",
        "thread.fork",
        "thread.import",
        "thread.rollback",
        "thread.compact",
        "thread.sign_in",
        "thread.select",
        "message.send",
        "run.interrupt",
        "request.answer",
        "queue.remove",
        "queue.release",
    ];

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ThreadCreate { .. } => "thread.create",
            Self::ThreadFork { .. } => "thread.fork",
            Self::ThreadImport { .. } => "thread.import",
            Self::ThreadRollback { .. } => "thread.rollback",
            Self::ThreadCompact => "thread.compact",
            Self::ThreadSignIn => "thread.sign_in",
            Self::ThreadSelect { .. } => "thread.select",
            Self::MessageSend { .. } => "message.send",
            Self::RunInterrupt { .. } => "run.interrupt",
            Self::RequestAnswer { .. } => "request.answer",
            Self::QueueRemove { .. } => "queue.remove",
            Self::QueueRelease { .. } => "queue.release",
        }
    }

    /// Whether it makes the thread it is for, whose id then derives from the command's.
    pub fn makes_thread(&self) -> bool {
        matches!(
            self,
            Self::ThreadCreate { .. } | Self::ThreadFork { .. } | Self::ThreadImport { .. }
        )
    }

    /// What a device must have been granted to send it.
    pub fn scope(&self) -> Scope {
        match self {
            Self::RequestAnswer { .. } | Self::ThreadSignIn => Scope::Approve,
            _ => Scope::Operate,
        }
    }
}

/// Which files a fork works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkWorkspace {
    /// The same files as its source, as they are now: not as they were after the run it begins at.
    #[default]
    SameTree,
}

/// When a message is to reach the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum DispatchMode {
    /// Now, as a run of its own; queued if one is active.
    StartImmediately,
    /// As a run of its own after those before it.
    QueueAfterActive,
    /// Into the run that is going on.
    SteerActive {
        /// That run.
        run: RunId,
    },
    /// Into the run that is going on, by stopping and restarting it.
    RestartActive {
        /// That run.
        run: RunId,
    },
}

/// What a device may do; granted by the host, checked per command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// See.
    Read,
    /// Send, steer, queue, interrupt.
    Operate,
    /// Answer requests, and have an agent begin to sign in.
    Approve,
    /// Manage devices and the host.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::Read, Self::Operate, Self::Approve, Self::Admin];
}

/// What came of a command. Kept by id, so that a repeat gets the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Taken.
    Accepted {
        /// The log's place right after it.
        cursor: Cursor,
        /// What its person should know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<Notice>,
    },
    /// Not taken.
    Refused {
        /// Why.
        refusal: Refusal,
    },
}

/// Something a person is to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Its id.
    pub id: NoticeId,
    /// What happened.
    pub what: NoticeKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum NoticeKind {
    /// A message was queued, because a run was active when it came.
    QueuedInstead {
        /// The message.
        message: MessageId,
    },
    /// A steer met an ended turn: its message is at the head of the queue, which waits for its person's word.
    SteerMissed {
        /// The message.
        message: MessageId,
    },
    /// A steer or restart aimed at a run that was still queued: it follows right behind that run.
    FollowsQueued {
        /// The message.
        message: MessageId,
        /// The run.
        run: RunId,
    },
    /// The runtime was lost while something was on its way; it may or may not have reached the agent.
    DeliveryUnknown {
        /// The message, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// The request, if it was an answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
    },
    /// The agent said something its person should know.
    Agent {
        /// The agent's words.
        message: String,
    },
}
