//! Items: what a timeline draws, one ordered list per thread.

use crate::{
    BlobHash, ItemId, MessageId, NodeId, PlanId, RequestId, RunId, ThreadId, limits,
    run::ErrorCode, thread::Attachment,
};
use pilothouse_json::Tagged;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// One entry of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnItem {
    /// Its id.
    pub id: ItemId,
    /// Its place; given by the ledger.
    pub position: Position,
    /// The run it belongs to.
    pub run: RunId,
    /// The node it stands under.
    pub node: NodeId,
    /// Where it stands.
    pub status: ItemStatus,
    /// What it is.
    pub content: ItemContent,
    /// Host time it was opened, Unix ms.
    #[serde(default)]
    pub opened_at_ms: u64,
    /// Host time it was closed, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at_ms: Option<u64>,
    /// What its person should know of it, found by the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anomaly: Option<Anomaly>,
}

/// Something an agent should not have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anomaly {
    /// It was done without asking, though the thread's mode is to ask for such things and nobody granted it.
    Unasked,
}

/// Run ordinal, then arrival in the thread: late items of an old run stay in that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The run's ordinal; the first run is 1.
    pub run: u32,
    /// Grows over the whole thread.
    pub arrival: u64,
}

/// Where an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Going on.
    Open,
    /// Goes on after its turn ended.
    Background,
    /// The agent ended it well.
    Completed,
    /// The agent said it failed.
    Failed,
    /// A person refused it.
    Declined,
    /// Ended by an interrupt.
    Interrupted,
    /// The agent never ended it; closed by us at the end of its turn or runtime.
    Unfinished,
}

impl ItemStatus {
    /// Whether the item still can change by itself.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Open | Self::Background)
    }
}

/// A text that stands inline or, over [`limits::INLINE_BODY`] bytes, by hash with head and tail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Body {
    /// The text itself.
    Inline(String),
    /// The stored text's address.
    Stored(StoredBody),
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Body;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, or where it is stored")
            }
            fn visit_str<E>(self, text: &str) -> Result<Body, E> {
                Ok(Body::Inline(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> Result<Body, E> {
                Ok(Body::Inline(text))
            }
            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Body, A::Error> {
                StoredBody::deserialize(MapAccessDeserializer::new(fields)).map(Body::Stored)
            }
        }
        from.deserialize_any(Either)
    }
}

/// A text kept in the ledger's blob table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBody {
    /// Address of the full text.
    pub hash: BlobHash,
    /// Its size in UTF-8 bytes.
    pub bytes: u64,
    /// Its first bytes, cut at a character.
    pub head: String,
    /// Its last bytes, cut at a character.
    pub tail: String,
    /// Bytes dropped from the middle before it was stored.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Body {
    /// An inline text.
    pub fn inline(text: impl Into<String>) -> Self {
        Self::Inline(text.into())
    }

    /// Size of the full text in UTF-8 bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(text) => text.len() as u64,
            Self::Stored(stored) => stored.bytes,
        }
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What can be shown without fetching: the text, or its head.
    pub fn preview(&self) -> &str {
        match self {
            Self::Inline(text) => text,
            Self::Stored(stored) => &stored.head,
        }
    }

    /// Splits a long inline text into a stored body and the bytes to store; `None` if it may stay inline.
    pub fn offload(&self) -> Option<(StoredBody, &str)> {
        let Self::Inline(text) = self else {
            return None;
        };
        if text.len() <= limits::INLINE_BODY {
            return None;
        }
        let mut body = BodyBuilder::default();
        body.push(text);
        Some((body.finish(0), text))
    }
}

/// A text that is to be kept by its hash, told piece by piece, so that nobody has to hold it whole.
#[derive(Debug, Default)]
pub struct BodyBuilder {
    hasher: blake3::Hasher,
    bytes: u64,
    head: String,
    head_is_full: bool,
    tail: String,
}

impl BodyBuilder {
    /// Adds what follows.
    pub fn push(&mut self, text: &str) {
        self.hasher.update(text.as_bytes());
        self.bytes += text.len() as u64;
        if !self.head_is_full {
            let room = limits::BODY_EDGE - self.head.len();
            let cut = text.floor_char_boundary(room);
            self.head.push_str(&text[..cut]);
            self.head_is_full = cut < text.len();
        }
        let from = text.ceil_char_boundary(text.len().saturating_sub(limits::BODY_EDGE));
        self.tail.push_str(&text[from..]);
        let excess = self.tail.len().saturating_sub(limits::BODY_EDGE);
        self.tail.drain(..self.tail.ceil_char_boundary(excess));
    }

    /// The body, from whose middle that many bytes had been dropped.
    pub fn finish(self, dropped: u64) -> StoredBody {
        StoredBody {
            hash: BlobHash::from_bytes(*self.hasher.finalize().as_bytes()),
            bytes: self.bytes,
            head: self.head,
            tail: self.tail,
            dropped,
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Inline(String::new())
    }
}

/// What an item is. Agents' codecs and the ledger use the same type, so nothing is translated twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ItemContent {
    /// A person's message, or one typed elsewhere.
    UserMessage {
        /// The message of ours that it is, if it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// What was said.
        text: Body,
        /// What was attached.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// The agent's words.
    AssistantMessage {
        /// Text so far; replaced by the final text at close.
        text: Body,
    },
    /// The agent's reasoning, as far as it shows it.
    Reasoning {
        /// Text so far; replaced at close.
        text: Body,
    },
    /// A command run by the agent.
    Command {
        /// The exact command line.
        command: String,
        /// Where it runs.
        cwd: String,
        /// Output: the fuller of what was streamed and what the agent gave at the end.
        output: Body,
        /// The agent's final output, where it is shorter than what was streamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_output: Option<Body>,
        /// Exit code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i64>,
        /// How long it ran, ms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// Changes to files.
    FileChange {
        /// One per file.
        changes: Vec<FileChange>,
    },
    /// A search in files.
    FileSearch {
        /// What was looked for.
        query: String,
        /// What was found.
        result: Body,
    },
    /// A search on the web.
    WebSearch {
        /// What was looked for.
        query: String,
    },
    /// Any other tool, of an MCP server or dynamic.
    Tool {
        /// The server it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// Its name.
        name: String,
        /// Arguments, as JSON text.
        arguments: Body,
        /// Its result.
        result: Body,
    },
    /// A proposed plan.
    Plan {
        /// The artifact, once it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<PlanId>,
        /// Its text.
        text: Body,
    },
    /// A todo list.
    Todo {
        /// Its entries, in order.
        entries: Vec<TodoEntry>,
    },
    /// Questions to a person.
    Question {
        /// The request that carries them.
        request: RequestId,
    },
    /// An approval asked of a person.
    Approval {
        /// The request.
        request: RequestId,
    },
    /// An error, shown where it happened.
    Error {
        /// What kind of failure.
        code: ErrorCode,
        /// The agent's words.
        message: String,
        /// Whether the agent tries again by itself.
        will_retry: bool,
    },
    /// The agent shortened its context.
    Compaction {
        /// What is left of it, if the agent tells.
        text: Body,
    },
    /// Somebody asked to stop.
    Interrupt {
        /// What was reported.
        note: String,
    },
    /// The thread begins as another stood: open until the agent has the copy.
    Fork {
        /// The thread it comes from.
        source: ThreadId,
        /// The run after which it goes its own way.
        run: RunId,
    },
    /// Runs were taken back: the agent has forgotten them, files are as they were.
    Rollback {
        /// The first of them.
        before: RunId,
        /// How many there were.
        runs: u32,
    },
    /// A subagent.
    Subagent {
        /// Its node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<NodeId>,
        /// What it is for.
        title: String,
        /// What it gave back.
        result: Body,
    },
    /// The agent answered with another model than chosen.
    ModelRerouted {
        /// Chosen.
        from: String,
        /// Used.
        to: String,
    },
    /// Something this version cannot read, kept verbatim.
    Unknown {
        /// What the agent called it.
        label: String,
        /// The frame, bounded.
        raw: Body,
    },
}

/// A change to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Path as the agent names it.
    pub path: String,
    /// What happens to it.
    pub action: FileAction,
    /// New path of a moved file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// Unified diff, or the whole content of a new file.
    pub diff: Body,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// It is made.
    Add,
    /// It goes.
    Delete,
    /// It changes.
    Update,
}

/// A line of a todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoEntry {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a line of a todo list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

impl ItemContent {
    /// The item's streamed text, if it has one: what deltas append to.
    pub fn streamed(&self) -> Option<&Body> {
        match self {
            Self::AssistantMessage { text }
            | Self::Reasoning { text }
            | Self::Plan { text, .. } => Some(text),
            Self::Command { output, .. } => Some(output),
            _ => None,
        }
    }

    /// The same, to be replaced.
    pub fn streamed_mut(&mut self) -> Option<&mut Body> {
        match self {
            Self::AssistantMessage { text }
            | Self::Reasoning { text }
            | Self::Plan { text, .. } => Some(text),
            Self::Command { output, .. } => Some(output),
            _ => None,
        }
    }

    /// Every body in it, for off-loading and redaction.
    pub fn bodies_mut(&mut self) -> Vec<&mut Body> {
        match self {
            Self::UserMessage { text, .. }
            | Self::AssistantMessage { text }
            | Self::Reasoning { text }
            | Self::Plan { text, .. }
            | Self::Compaction { text } => vec![text],
            Self::Command {
                output,
                agent_output,
                ..
            } => std::iter::once(output).chain(agent_output).collect(),
            Self::FileChange { changes } => changes.iter_mut().map(|c| &mut c.diff).collect(),
            Self::FileSearch { result, .. } | Self::Subagent { result, .. } => vec![result],
            Self::Tool {
                arguments, result, ..
            } => vec![arguments, result],
            Self::Unknown { raw, .. } => vec![raw],
            Self::WebSearch { .. }
            | Self::Todo { .. }
            | Self::Question { .. }
            | Self::Approval { .. }
            | Self::Error { .. }
            | Self::Interrupt { .. }
            | Self::Fork { .. }
            | Self::Rollback { .. }
            | Self::ModelRerouted { .. } => Vec::new(),
        }
    }
}
