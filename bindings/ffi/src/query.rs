//! Questions that are asked once.

use crate::{core::CommandOutcome, rows::ThreadRow};
use pilothouse_domain::{
    AgentName, BlobHash, CommandId, ContentHash, ConversationKey, HostId, Position, RequestId,
    RequestStatus, ThreadId, WorkspaceId,
    provider::{FoundFile, NativeConversation, OfferedCommand, OfferedModel},
};
use pilothouse_engine::{
    DeliveryRow, Page as EnginePage, Query as EngineQuery, ThreadCounts, ThreadFilter, ThreadPlace,
    TimelineRow,
};

/// Asks for something once.
#[derive(Debug, Clone, uniffi::Enum)]
pub enum Query {
    /// Threads behind a place of the list, from what this device holds.
    Threads {
        /// Which threads.
        filter: ThreadFilter,
        /// The place of the last thread known; `null` begins with the newest.
        after: Option<ThreadPlace>,
        /// How many at most, from 1 to 1,000.
        limit: u32,
    },
    /// Items before a place, from this device or from the host.
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
    /// A request, open or closed, as far as this device holds it.
    Request {
        /// The host.
        host: HostId,
        /// The thread; `null` looks in the inbox and in every thread that was opened here.
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
    /// What can be said to a thread's agent as a command of its own, as far as it has said so in this thread; from what this
    /// device holds.
    Commands {
        /// The host.
        host: HostId,
        /// The thread.
        thread: ThreadId,
    },
    /// Models that a thread's agent offers, as far as it has said so in this thread; from what this device holds.
    Models {
        /// The host.
        host: HostId,
        /// The thread.
        thread: ThreadId,
    },
    /// Conversations that an agent has by itself in a workspace, the newest first; from the host, which may have to start it
    /// (at most 60 s).
    Conversations {
        /// The host.
        host: HostId,
        /// The agent.
        agent: AgentName,
        /// The workspace.
        workspace: WorkspaceId,
        /// Where the page before ended, as it said; `null` begins with the newest.
        after: Option<String>,
    },
    /// Files of a workspace by a part of their path, as an agent finds them, for a message to name (`@path`); from the host,
    /// which may have to start it (at most 60 s). Claude Code, pi and agents that speak ACP find none: that is an error.
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

impl From<Query> for EngineQuery {
    fn from(query: Query) -> Self {
        match query {
            Query::Threads {
                filter,
                after,
                limit,
            } => Self::Threads {
                filter,
                after,
                limit,
            },
            Query::OlderItems {
                host,
                thread,
                before,
                max_bytes,
            } => Self::OlderItems {
                host,
                thread,
                before,
                max_bytes,
            },
            Query::Request {
                host,
                thread,
                request,
            } => Self::Request {
                host,
                thread,
                request,
            },
            Query::Body {
                host,
                hash,
                offset,
                len,
            } => Self::Body {
                host,
                hash,
                offset,
                len,
            },
            Query::Commands { host, thread } => Self::Commands { host, thread },
            Query::Models { host, thread } => Self::Models { host, thread },
            Query::Conversations {
                host,
                agent,
                workspace,
                after,
            } => Self::Conversations {
                host,
                agent,
                workspace,
                after,
            },
            Query::Files {
                host,
                agent,
                workspace,
                text,
            } => Self::Files {
                host,
                agent,
                workspace,
                text,
            },
            Query::Outcome { command } => Self::Outcome { command },
        }
    }
}

/// A place in the list of threads: what changed last stands first, then the greater id.
#[uniffi::remote(Record)]
pub struct ThreadPlace {
    /// Host time of the thread's last entry, Unix ms.
    pub updated_at_ms: u64,
    /// The thread.
    pub thread: ThreadId,
    /// Its host.
    pub host: HostId,
}

/// A command, a skill or a template of the agent's own that a message can name; to be shown with hidden characters made visible.
#[uniffi::remote(Record)]
pub struct OfferedCommand {
    /// With what a message begins that uses it.
    pub name: String,
    /// What it is for; empty if the agent does not say.
    pub description: String,
    /// What follows the name; empty if nothing does or the agent does not say.
    pub argument_hint: String,
}

/// A model that an agent offers.
#[uniffi::remote(Record)]
pub struct OfferedModel {
    /// As it is chosen.
    pub id: String,
    /// For a person.
    pub name: String,
    /// Efforts it takes, from the least; empty if it takes none or the agent does not say.
    pub efforts: Vec<String>,
    /// The effort it has if none is chosen.
    pub default_effort: Option<String>,
    /// Whether the agent takes it if none is chosen.
    pub is_default: bool,
    /// Whether it takes pictures; `null` if the agent does not say.
    #[uniffi(default = None)]
    pub images: Option<bool>,
}

/// A conversation that an agent has by itself.
#[uniffi::remote(Record)]
pub struct NativeConversation {
    /// By which an import names it.
    pub key: ConversationKey,
    /// The agent's title for it, or the beginning of what was said first; to be shown with hidden characters made visible.
    pub title: String,
    /// When something was last said in it, Unix ms.
    pub updated_at_ms: Option<u64>,
    /// The thread in which it goes on here already.
    pub thread: Option<ThreadId>,
}

/// A file that an agent found, for a message to name.
#[uniffi::remote(Record)]
pub struct FoundFile {
    /// Its path within the workspace, without control characters; to be shown with hidden characters made visible.
    pub path: String,
}

/// The answer to a `Query`.
#[derive(Debug, Clone, uniffi::Enum)]
pub enum Page {
    /// Threads.
    Threads {
        /// The threads, in the list's order.
        rows: Vec<ThreadRow>,
        /// How many there are in all.
        counts: ThreadCounts,
        /// Whether others follow.
        more: bool,
    },
    /// Older items, oldest first.
    Items {
        /// The items.
        rows: Vec<TimelineRow>,
        /// Whether still older ones exist.
        older: bool,
    },
    /// A request.
    Request {
        /// The request.
        request: RequestId,
        /// Its thread.
        thread: ThreadId,
        /// Where it stands.
        status: RequestStatus,
        /// Hash of what it asks.
        content_hash: ContentHash,
        /// Whether its text is proven to be what an answer is for.
        verified: bool,
        /// This device's answer that is on its way.
        sending: Option<CommandId>,
    },
    /// A part of a text.
    Body {
        /// First byte.
        offset: u64,
        /// Bytes of the whole.
        total: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The agent's own commands, in its order; none if it has not said.
    Commands {
        /// The commands.
        commands: Vec<OfferedCommand>,
    },
    /// Models, in the agent's order; none if it has not said.
    Models {
        /// The models.
        models: Vec<OfferedModel>,
    },
    /// Conversations that an agent has by itself.
    Conversations {
        /// A page of them.
        conversations: Vec<NativeConversation>,
        /// Where the next page begins, if there is one.
        next: Option<String>,
    },
    /// Files, the best first, at most 50.
    Files {
        /// The files.
        files: Vec<FoundFile>,
    },
    /// What came of a command.
    Outcome {
        /// Its place in the outbox, while it is there.
        delivery: Option<DeliveryRow>,
        /// What came of it.
        outcome: Option<CommandOutcome>,
    },
}

impl From<EnginePage> for Page {
    fn from(page: EnginePage) -> Self {
        match page {
            EnginePage::Threads(page) => Self::Threads {
                rows: page.rows.into_iter().map(Into::into).collect(),
                counts: page.counts,
                more: page.more,
            },
            EnginePage::Items { rows, older } => Self::Items { rows, older },
            EnginePage::Request(page) => Self::Request {
                request: page.request.id,
                thread: page.thread,
                status: page.request.status.clone(),
                content_hash: page.request.content_hash,
                verified: page.verified,
                sending: page.sending,
            },
            EnginePage::Body {
                offset,
                total,
                bytes,
            } => Self::Body {
                offset,
                total,
                bytes,
            },
            EnginePage::Commands(commands) => Self::Commands { commands },
            EnginePage::Models(models) => Self::Models { models },
            EnginePage::Conversations {
                conversations,
                next,
            } => Self::Conversations {
                conversations,
                next,
            },
            EnginePage::Files(files) => Self::Files { files },
            EnginePage::Outcome { delivery, outcome } => Self::Outcome {
                delivery,
                outcome: outcome.map(Into::into),
            },
            // Only asked for by tests in Rust.
            EnginePage::Digest { .. } => Self::Outcome {
                delivery: None,
                outcome: None,
            },
        }
    }
}
