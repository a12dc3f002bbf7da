//! What is asked once and answered once.

use super::WireError;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use pilothouse_domain::{
    AgentName, BlobHash, Mode, Position, Row, Scope, ThreadId, WorkspaceId,
    provider::{FoundFile, NativeConversation},
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Bytes of one answer to a blob query: 256 KiB.
pub const BLOB_CHUNK: u32 = 256 * 1024;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "query", rename_all = "snake_case")]
pub enum Query {
    /// Rows of items before a place, newest page first.
    OlderItems {
        /// The thread.
        thread: ThreadId,
        /// The place; that item is not included.
        before: Position,
        /// Bytes of rows; the host may send fewer, and sends at least one item if there is one.
        max_bytes: u32,
    },
    /// A part of a stored text.
    Blob {
        /// Its address.
        hash: BlobHash,
        /// First byte.
        offset: u64,
        /// Bytes, at most [`BLOB_CHUNK`].
        len: u32,
    },
    /// A part of a file that a message is to bring along, in order from its beginning; needs the scope `operate`. A part that
    /// does not follow is answered with how much is there.
    PutBlob {
        /// The file's address: what the whole is checked against.
        hash: BlobHash,
        /// First byte of this part; 0 begins anew.
        offset: u64,
        /// Bytes of the whole, at most [`ATTACHMENT_BYTES`](pilothouse_domain::limits::ATTACHMENT_BYTES).
        total: u64,
        /// The bytes, at most [`BLOB_CHUNK`].
        data: Base64,
    },
    /// The agents of the host.
    Agents,
    /// The workspaces of the host.
    Workspaces,
    /// Conversations that an agent has by itself in a workspace, the newest first; needs the scope `operate`, for an agent may
    /// be started to tell.
    Conversations {
        /// The agent.
        agent: AgentName,
        /// The workspace.
        workspace: WorkspaceId,
        /// Where the page before ended, as it said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
    },
    /// Files of a workspace by a part of their path, as an agent finds them, for a message to name (`@path`); needs the scope
    /// `operate`, for an agent may be started to tell.
    Files {
        /// The agent.
        agent: AgentName,
        /// The workspace.
        workspace: WorkspaceId,
        /// The part, as it was typed.
        text: String,
    },
    /// What the host's doctor finds.
    Doctor,
}

impl Query {
    /// What a device must have been granted to ask it.
    pub fn scope(&self) -> Scope {
        match self {
            Self::PutBlob { .. } | Self::Conversations { .. } | Self::Files { .. } => {
                Scope::Operate
            }
            _ => Scope::Read,
        }
    }
}

/// The answer, under `result` or `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryAnswer {
    /// What was asked for.
    Result(QueryResult),
    /// Why not.
    Error(WireError),
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "query", rename_all = "snake_case")]
pub enum QueryResult {
    /// Older rows.
    OlderItems(OlderItems),
    /// A part of a stored text.
    Blob(BlobChunk),
    /// How much of a file is there.
    PutBlob {
        /// The file's address.
        hash: BlobHash,
        /// Bytes that are there; the next part begins here.
        have: u64,
        /// Whether the host keeps it.
        complete: bool,
    },
    /// The agents.
    Agents {
        /// In the order of the configuration.
        agents: Vec<AgentInfo>,
    },
    /// The workspaces.
    Workspaces {
        /// In the order of the configuration.
        workspaces: Vec<WorkspaceInfo>,
    },
    /// Conversations that an agent has by itself.
    Conversations {
        /// A page of them.
        conversations: Vec<NativeConversation>,
        /// Where the next page begins, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<String>,
    },
    /// Files of a workspace.
    Files {
        /// The best first, at most [`LISTED_FILES`](pilothouse_domain::limits::LISTED_FILES).
        files: Vec<FoundFile>,
    },
    /// What the doctor found.
    Doctor(DoctorReport),
}

/// Older rows of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OlderItems {
    /// The rows, oldest item first, with the runs, messages and requests that belong to them.
    pub rows: Vec<Row>,
    /// Whether there are items older than these.
    pub older: bool,
}

/// A part of a stored text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobChunk {
    /// Its address.
    pub hash: BlobHash,
    /// First byte of this part.
    pub offset: u64,
    /// Bytes of the whole.
    pub total: u64,
    /// The bytes.
    pub data: Base64,
}

/// Bytes that stand as Base64 in JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        STANDARD
            .decode(text.as_bytes())
            .map(Self)
            .map_err(de::Error::custom)
    }
}

/// An agent as the host finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// Its name in the configuration.
    pub name: AgentName,
    /// Its protocol family, e.g. `codex`.
    pub family: String,
    /// Its version, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it can be used.
    #[serde(flatten)]
    pub readiness: AgentReadiness,
    /// Modes it can be given.
    pub modes: Vec<Mode>,
}

/// Whether an agent can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "readiness", rename_all = "snake_case")]
pub enum AgentReadiness {
    /// Yes.
    Ready,
    /// It was not tried yet.
    Unknown,
    /// Its program is not there.
    NotInstalled,
    /// Nobody is signed in.
    SignedOut,
    /// It does not work.
    Failed {
        /// Why, in words.
        reason: String,
    },
}

/// A workspace as the host has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceInfo {
    /// What commands name it by.
    pub id: WorkspaceId,
    /// Its directory on the host. For showing only: devices never name paths.
    pub path: String,
    /// Whether the directory is there.
    pub available: bool,
}

/// What the doctor found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// In the order in which they were made.
    pub checks: Vec<DoctorCheck>,
}

/// One thing the doctor looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorCheck {
    /// Stable name, e.g. `agent.codex`, `port`, `certificate`, `clock`.
    pub name: String,
    /// How it is.
    pub outcome: CheckOutcome,
    /// What was found, in words.
    pub finding: String,
    /// What a person can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Good.
    Ok,
    /// Works, but a person should look.
    Warning,
    /// Does not work.
    Failed,
    /// Not looked at, e.g. because something before it failed.
    Skipped,
}
