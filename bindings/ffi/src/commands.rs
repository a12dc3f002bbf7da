//! Commands, answers and what comes of them.

use pilothouse_domain::{AgentName, BlobHash, NoticeId};
use pilothouse_domain::{
    Answer, AttemptId, ContentHash, ConversationKey, DispatchMode, HostId, ItemId, MessageId, Mode,
    OptionId, RequestId, RunId, ThreadId, WorkspaceId,
    command::{CommandBody, ForkWorkspace, Notice, NoticeKind},
    policy::Sandbox,
    request::QuestionReply,
    thread::{Attachment, Selection},
};
use pilothouse_engine::NewCommand;

/// Asks for something of a host.
#[uniffi::remote(Record)]
pub struct NewCommand {
    /// The host.
    pub host: HostId,
    /// The thread; `null` for `ThreadCreate`, `ThreadFork` and `ThreadImport`, which make their own.
    pub thread: Option<ThreadId>,
    /// What is asked.
    pub body: CommandBody,
}

/// What is asked.
#[uniffi::remote(Enum)]
pub enum CommandBody {
    /// Makes a thread; nothing runs.
    ThreadCreate {
        /// Its title.
        title: String,
        /// Where it works.
        workspace: WorkspaceId,
        /// What it runs on.
        selection: Selection,
    },
    /// Makes a thread that begins as another stood after one of its runs; nothing runs.
    ThreadFork {
        /// Its title.
        title: String,
        /// The thread it comes from.
        source: ThreadId,
        /// The run after which it goes its own way; `null` is the last one that has ended.
        run: Option<RunId>,
        /// Which files it works on.
        workspace: ForkWorkspace,
    },
    /// Makes a thread of a conversation that an agent has by itself; its last turns become runs.
    ThreadImport {
        /// Its title.
        title: String,
        /// Where it works.
        workspace: WorkspaceId,
        /// What it runs on.
        selection: Selection,
        /// The conversation, as `Query.Conversations` named it.
        conversation: ConversationKey,
    },
    /// Takes back a run and all after it: the agent forgets them. Files stay as they are.
    ThreadRollback {
        /// The first run that is taken back; it has ended.
        before: RunId,
        /// The last run that the person saw: none is taken back unseen.
        last: RunId,
    },
    /// Asks the agent to shorten its context, in a run of its own.
    ThreadCompact,
    /// Has the agent begin to sign in, for a thread that is held because its sign-in was refused. It opens a request that says
    /// where to go and what to enter there.
    ThreadSignIn,
    /// Chooses what the thread runs on, all of it. Holds from the next turn on.
    ThreadSelect {
        /// The model as the agent names it; `null` is the agent's own default.
        model: Option<String>,
        /// The effort as the model names it; `null` is the model's default.
        effort: Option<String>,
        /// What the agent may do without asking.
        mode: Mode,
    },
    /// Sends a message.
    MessageSend {
        /// What is said.
        text: String,
        /// What is attached.
        attachments: Vec<Attachment>,
        /// When it is to reach the agent.
        dispatch: DispatchMode,
        /// Running items that the person agreed to stop, for a steering that restarts.
        accept_stop: Vec<ItemId>,
    },
    /// Asks the agent to stop.
    RunInterrupt {
        /// The run.
        run: RunId,
        /// The attempt the person saw running.
        attempt: AttemptId,
        /// Whether the queue waits afterwards; a person's Stop says yes.
        hold_queue: bool,
    },
    /// Answers a request.
    RequestAnswer {
        /// The request.
        request: RequestId,
        /// Hash of what the person was shown.
        content_hash: ContentHash,
        /// The answer.
        answer: Answer,
    },
    /// Takes a run out of the queue.
    QueueRemove {
        /// The run.
        run: RunId,
        /// The queue's revision the person saw.
        revision: u64,
    },
    /// Lets a held queue go on.
    QueueRelease {
        /// The queue's revision the person saw.
        revision: u64,
    },
}

/// Which files a fork works on.
#[uniffi::remote(Enum)]
pub enum ForkWorkspace {
    /// The same files as its source, as they are now.
    SameTree,
}

/// A person's answer.
#[uniffi::remote(Enum)]
pub enum Answer {
    /// One of the agent's options.
    Choose {
        /// Which.
        option: OptionId,
        /// Words with the decision, where the agent takes them.
        note: Option<String>,
    },
    /// Answers to questions.
    Reply {
        /// One per question, in order. Empty is not answered; that of an optional question may be empty, or missing.
        replies: Vec<QuestionReply>,
    },
}

/// The answer to one question.
#[uniffi::remote(Record)]
pub struct QuestionReply {
    /// The question.
    pub question: String,
    /// Labels chosen.
    pub chosen: Vec<String>,
    /// Text of one's own.
    pub text: Option<String>,
}

/// What a thread runs on.
#[uniffi::remote(Record)]
pub struct Selection {
    /// The agent instance, as configured on the host.
    pub agent: AgentName,
    /// The model as the agent names it; `null` is the agent's own default.
    pub model: Option<String>,
    /// The effort as the model names it; `null` is the model's default.
    pub effort: Option<String>,
    /// What the agent may do without asking.
    pub mode: Mode,
    /// In what an agent runs that does not ask before it acts; `null` is the host's first, and of one that asks none.
    #[uniffi(default = None)]
    pub sandbox: Option<Sandbox>,
}

/// Something attached to a message, by hash.
#[uniffi::remote(Record)]
pub struct Attachment {
    /// File name as the person sees it.
    pub name: String,
    /// MIME type.
    pub media_type: String,
    /// Address of its bytes.
    pub hash: BlobHash,
    /// Size in bytes.
    pub bytes: u64,
}

/// Something a person is to be told.
#[uniffi::remote(Record)]
pub struct Notice {
    /// Its id.
    pub id: NoticeId,
    /// What happened.
    pub what: NoticeKind,
}

/// What happened.
#[uniffi::remote(Enum)]
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
    /// The runtime was lost while something was on its way.
    DeliveryUnknown {
        /// The message, if it was one.
        message: Option<MessageId>,
        /// The request, if it was an answer.
        request: Option<RequestId>,
    },
    /// The agent said something its person should know.
    Agent {
        /// The agent's words.
        message: String,
    },
}
