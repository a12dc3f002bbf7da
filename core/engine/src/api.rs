//! The words in which a program speaks with a core.

use crate::{
    batch::Batch,
    error::QueryError,
    rows::{DeliveryRow, ThreadCounts, ThreadRow, TimelineRow},
};
use pilothouse_domain::{
    AgentName, BlobHash, CommandBody, CommandId, ContentHash, Cursor, Digest, HostId, Position,
    Refusal, RequestId, RequestStatus, RuntimeRequest, ThreadId, WorkspaceId,
    command::Notice,
    provider::{FoundFile, NativeConversation, OfferedCommand, OfferedModel},
};
use pilothouse_orchestrator::Decision;
use pilothouse_store::{ThreadFilter, ThreadPlace};
use pilothouse_wire::identity::{DeviceKey, DeviceKeyError};
use std::{path::PathBuf, sync::Arc};

/// Where a core keeps its data and what it calls itself.
#[derive(Debug, Clone)]
pub struct CoreConfig {
    /// Directory of the replica; made if it is not there. Several processes may share it: one of them at a time holds
    /// the links to the hosts, the others read and append to the outbox.
    pub data_dir: PathBuf,
    /// What hosts show of this device, at most 80 characters.
    pub device_name: String,
    /// What it runs on: `linux-cli`, `android`, `jvm` …
    pub platform: String,
}

/// How loud a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the usual ones")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

/// What the core needs of the platform it runs on. Every call may come from any of its threads.
pub trait Platform: Send + Sync {
    /// This device's key, the same at every call. Asked for at the first connection, never while opening.
    ///
    /// # Errors
    /// The key's store does not give it.
    fn device_key(&self) -> Result<Arc<dyn DeviceKey>, DeviceKeyError>;
    /// The clock, Unix ms.
    fn now_ms(&self) -> u64;
    /// Fills a buffer with random bytes fit for secrets.
    fn random(&self, buffer: &mut [u8]);
    /// A secret that was kept under a name; `None` if there is none.
    ///
    /// # Errors
    /// The platform's store does not give it.
    fn secret(&self, name: &str) -> Result<Option<String>, SecretError> {
        let _ = name;
        Err(SecretError::NoStore)
    }
    /// Keeps a secret where only this program can read it, in place of one of the same name.
    ///
    /// # Errors
    /// The platform's store does not take it.
    fn keep_secret(&self, name: &str, secret: &str) -> Result<(), SecretError> {
        let _ = (name, secret);
        Err(SecretError::NoStore)
    }
    /// Forgets a secret; one that is not there is forgotten already.
    ///
    /// # Errors
    /// The platform's store cannot be used now.
    fn forget_secret(&self, name: &str) -> Result<(), SecretError> {
        let _ = name;
        Err(SecretError::NoStore)
    }
    /// Takes a log line; never holds text of a conversation, nor a secret.
    fn log(&self, level: LogLevel, target: &str, message: &str);
}

/// Why a secret was not kept, or not given back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The platform has no place for secrets.
    #[error("there is no store of secrets on this platform")]
    NoStore,
    /// It cannot be used now.
    #[error("the store of secrets cannot be used: {0}")]
    Unavailable(String),
}

/// Asks for something of a host; the engine gives it an id and an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommand {
    /// The host.
    pub host: HostId,
    /// The thread; `None` for `thread.create`, which makes its own.
    pub thread: Option<ThreadId>,
    /// What is asked.
    pub body: CommandBody,
}

/// What a command will most likely lead to: the output of the host's own `decide`, over what this device holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prediction {
    /// It will be taken, with these facts.
    Events(Box<Decision>),
    /// It is saved; what comes of it cannot be said here (the thread is not held, or the host decides by other rules).
    SavedOnly,
    /// It will be refused unless something changes. It is saved and sent all the same: the host has the last word.
    Refused(Refusal),
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketOutcome {
    /// The host took it.
    Accepted {
        /// The log's place right after it.
        cursor: Cursor,
        /// What its person should know.
        notice: Option<Notice>,
    },
    /// The host did not take it.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// It waited too long in the outbox and was never sent.
    Expired,
    /// It is not sent by itself any more.
    Parked {
        /// Why, with a next step.
        reason: String,
    },
}

/// Threads that one window or page of the list shows at most.
pub const MOST_LISTED: u32 = 1_000;
/// Requests that the inbox shows at most.
pub const MOST_IN_INBOX: usize = 1_000;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Paired hosts and how their links stand.
    Hosts,
    /// The newest of the threads that fit a filter, over all hosts, the one that changed last first.
    Threads {
        /// Which threads.
        filter: ThreadFilter,
        /// How many are shown at most, from 1 to [`MOST_LISTED`]; for older ones observe with a greater limit, or ask
        /// for pages with [`Query::Threads`].
        limit: u32,
    },
    /// One thread.
    Timeline {
        /// Its host.
        host: HostId,
        /// The thread.
        thread: ThreadId,
        /// How many of the newest items are shown, at least 1; it grows with new ones until twice as many are shown.
        tail: u32,
    },
    /// What waits for a person, over all hosts, the one that waits longest first: all of it, up to the
    /// [`MOST_IN_INBOX`] that wait longest ([`crate::HostRow::waiting`] counts the others, too).
    Inbox,
    /// What is in the outbox, in order.
    Delivery,
}

impl Scope {
    /// The newest threads of all hosts that are not archived, at most so many.
    pub const fn threads(limit: u32) -> Self {
        let filter = ThreadFilter {
            host: None,
            standing: None,
        };
        Self::Threads { filter, limit }
    }
}

/// Takes batches. Called from the core's delivery thread only, one call at a time.
///
/// A sink that panics is closed, with a log line; others are not touched. A slow one gets fewer, larger batches.
pub trait Sink: Send + Sync {
    /// Takes one batch. The first one is a reset.
    fn on_batch(&self, batch: Batch);
}

impl<F: Fn(Batch) + Send + Sync> Sink for F {
    fn on_batch(&self, batch: Batch) {
        self(batch);
    }
}

/// Asks for something once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Threads behind a place of the list, from what is held.
    Threads {
        /// Which threads.
        filter: ThreadFilter,
        /// The place, that of the last thread known; `None` begins with the newest.
        after: Option<ThreadPlace>,
        /// How many at most, from 1 to [`MOST_LISTED`].
        limit: u32,
    },
    /// Threads, archived or not, whose id begins so, in no particular order; from what is held.
    ThreadsNamed {
        /// The first letters of the id, or all of them.
        beginning: String,
        /// How many at most, from 1 to [`MOST_LISTED`].
        limit: u32,
    },
    /// Items before a place, newest page first. From what is held, else from the host.
    OlderItems {
        /// The host.
        host: HostId,
        /// The thread.
        thread: ThreadId,
        /// The place; its item is not included.
        before: Position,
        /// Bytes of rows, about; at least one item is given if there is one.
        max_bytes: u32,
    },
    /// A request, open or closed, as far as it is held.
    Request {
        /// The host.
        host: HostId,
        /// The thread; `None` looks in the inbox and in every thread that was opened here.
        thread: Option<ThreadId>,
        /// The request.
        request: RequestId,
    },
    /// A part of a stored text, from the host.
    Body {
        /// The host.
        host: HostId,
        /// Its address.
        hash: BlobHash,
        /// First byte.
        offset: u64,
        /// Bytes, at most 4 MiB; the host gives them 256 KiB at a time, and a whole text is checked against its address.
        len: u32,
    },
    /// The digest of a thread's state as it is held, and where.
    Digest {
        /// The host.
        host: HostId,
        /// The thread.
        thread: ThreadId,
    },
    /// What can be said to a thread's agent as a command of its own, as far as it has said so in this thread; from what is held.
    Commands {
        /// The host.
        host: HostId,
        /// The thread.
        thread: ThreadId,
    },
    /// Models that a thread's agent offers, as far as it has said so in this thread; from what is held.
    Models {
        /// The host.
        host: HostId,
        /// The thread.
        thread: ThreadId,
    },
    /// Conversations that an agent has by itself in a workspace, the newest first; from the host, which may have to start it.
    Conversations {
        /// The host.
        host: HostId,
        /// The agent.
        agent: AgentName,
        /// The workspace.
        workspace: WorkspaceId,
        /// Where the page before ended, as it said; `None` begins with the newest.
        after: Option<String>,
    },
    /// Files of a workspace by a part of their path, as an agent finds them, for a message to name (`@path`); from the host,
    /// which may have to start it.
    Files {
        /// The host.
        host: HostId,
        /// The agent.
        agent: AgentName,
        /// The workspace.
        workspace: WorkspaceId,
        /// The part, as it was typed.
        text: String,
    },
    /// What came of a command of this device, as far as it is still known.
    Outcome {
        /// The command.
        command: CommandId,
    },
}

/// The answer to a [`Query`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// Threads.
    Threads(ThreadPage),
    /// Older items, oldest first.
    Items {
        /// The items.
        rows: Vec<TimelineRow>,
        /// Whether still older ones exist.
        older: bool,
    },
    /// A request.
    Request(Box<RequestPage>),
    /// A part of a text.
    Body {
        /// First byte.
        offset: u64,
        /// Bytes of the whole.
        total: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A digest and its place.
    Digest {
        /// The digest.
        digest: Digest,
        /// The place.
        cursor: Cursor,
    },
    /// The agent's own commands, in its order; none if it has not said.
    Commands(Vec<OfferedCommand>),
    /// Models, in the agent's order; none if it has not said.
    Models(Vec<OfferedModel>),
    /// Conversations that an agent has by itself.
    Conversations {
        /// A page of them.
        conversations: Vec<NativeConversation>,
        /// Where the next page begins, if there is one.
        next: Option<String>,
    },
    /// Files, the best first.
    Files(Vec<FoundFile>),
    /// What came of a command.
    Outcome {
        /// Its place in the outbox, while it is there.
        delivery: Option<DeliveryRow>,
        /// What came of it.
        outcome: Option<TicketOutcome>,
    },
}

/// A page of the list of threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadPage {
    /// The threads, in the list's order.
    pub rows: Vec<ThreadRow>,
    /// How many there are in all.
    pub counts: ThreadCounts,
    /// Whether others follow.
    pub more: bool,
}

/// A request with where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPage {
    /// As the host keeps it.
    pub request: RuntimeRequest,
    /// Its thread.
    pub thread: ThreadId,
    /// Whether its text is proven to be what an answer is for.
    pub verified: bool,
    /// This device's own hash of its text.
    pub computed_hash: ContentHash,
    /// This device's answer that is on its way.
    pub sending: Option<CommandId>,
}

impl RequestPage {
    /// Where it stands.
    pub fn status(&self) -> &RequestStatus {
        &self.request.status
    }
}

/// What the core may count on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Environment {
    /// Whether its program is on a screen.
    pub foreground: bool,
    /// The network.
    pub network: Network,
    /// The request that is on the screen right now.
    pub visible_request: Option<RequestId>,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            foreground: true,
            network: Network::Unknown,
            visible_request: None,
        }
    }
}

/// Kinds of network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// Not known: tries are made.
    #[default]
    Unknown,
    /// There is none.
    None,
    /// One that costs.
    Metered,
    /// One that does not.
    Unmetered,
}

/// What [`Query`] gives.
pub type QueryResult = Result<Page, QueryError>;
