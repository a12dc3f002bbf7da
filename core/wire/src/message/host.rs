//! What a host says to a device.

use super::{
    BLOB_CHUNK, BlobChunk, DecodeError, Message, QueryAnswer, QueryResult, SubId, diagnose_host,
};
use crate::{
    duplex::MAX_FRAME, pairing::PairingRefusal, stream::Encoding, version::VersionRefusal,
};
use pilothouse_domain::{
    CommandId, Cursor, DeviceId, Entry, Epoch, HostId, Outcome, Policy, Refusal, Scope, ThreadId,
    feed::{FeedUpdate, Subscribed},
    row::{LiveText, OpenItem},
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// What a host says to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostMessage {
    /// Answer to `hello`.
    Welcome(Box<Welcome>),
    /// Answer to `pair`; the connection is closed after it, and the device dials anew as a paired one.
    Paired(Paired),
    /// A step of the summary feed. Only a step with `more: false` is a place to come back to: a step that is too large
    /// for one frame comes in parts that name the same place.
    Feed {
        /// The subscription.
        sub: SubId,
        /// What changed.
        #[serde(flatten)]
        update: Box<FeedUpdate>,
    },
    /// Answer to `subscribe`; entries up to its high-water mark follow unless it holds a snapshot of that place.
    Subscribed {
        /// The subscription.
        sub: SubId,
        /// The thread.
        thread: ThreadId,
        /// From where to go on.
        #[serde(flatten)]
        answer: Box<Subscribed>,
    },
    /// Entries of a log, in order, none left out.
    Entries {
        /// The subscription.
        sub: SubId,
        /// The entries.
        entries: Vec<Entry>,
    },
    /// More texts of open items of a `subscribed` that would not have fitted into one frame.
    OpenItems {
        /// The subscription.
        sub: SubId,
        /// The items.
        items: Vec<OpenItem>,
        /// The place at which the texts are so.
        high_water: Cursor,
    },
    /// Text that streams. May be lost when the device reads slowly; a jump in offset is text to be fetched or awaited.
    Live {
        /// The thread.
        thread: ThreadId,
        /// Item, offset, text.
        #[serde(flatten)]
        live: LiveText,
    },
    /// What became of a command.
    Outcome {
        /// The command.
        command_id: CommandId,
        /// What became of it; `None`: this ledger has never taken it, or forgot it after 30 days.
        outcome: Option<Outcome>,
    },
    /// Answer to `query`.
    Result {
        /// The query.
        id: u32,
        /// What was asked for, or why not.
        #[serde(flatten)]
        answer: QueryAnswer,
    },
    /// Answer to `ping`.
    Pong {
        /// The ping's.
        nonce: u64,
        /// The host's clock, Unix ms.
        host_time_ms: u64,
    },
    /// The host ends the connection.
    Bye {
        /// Why.
        reason: ByeReason,
    },
    /// Something that was asked cannot be done; the connection goes on.
    Error(WireError),
}

/// Who the host is and what it allows this device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version spoken from here on.
    pub protocol: u16,
    /// The host.
    pub host_id: HostId,
    /// What it calls itself.
    pub host_name: String,
    /// Program and version, for logs.
    pub software: String,
    /// Its ledger's epoch.
    pub epoch: Epoch,
    /// Bounds of what may be sent.
    pub limits: Limits,
    /// Names of the commands it knows.
    pub commands: Vec<String>,
    /// Log formats that its entries can have.
    pub log_formats: Vec<u16>,
    /// Its version of the thread state.
    pub state_version: u16,
    /// Its version of `decide`.
    pub decide_version: u16,
    /// What it allows, and which agents and workspaces can be chosen.
    pub policy: Policy,
    /// What it calls this device.
    pub device_id: DeviceId,
    /// What this device may do.
    pub scopes: Vec<Scope>,
    /// Its clock, Unix ms.
    pub host_time_ms: u64,
    /// How both sides write messages after this one: one of those that `hello` offered; `None` is plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// Bounds of what may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of one frame.
    pub frame_bytes: u32,
    /// Bytes of one answer to a blob query.
    pub blob_bytes: u32,
    /// Subscriptions at a time.
    pub subscriptions: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: u32::try_from(MAX_FRAME).unwrap_or(u32::MAX),
            blob_bytes: BLOB_CHUNK,
            subscriptions: 64,
        }
    }
}

/// The device is paired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paired {
    /// What the host calls this device.
    pub device_id: DeviceId,
    /// The host.
    pub host_id: HostId,
    /// What it calls itself.
    pub host_name: String,
    /// What this device may do.
    pub scopes: Vec<Scope>,
}

/// Why a side ends a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum ByeReason {
    /// The device's pairing was taken back. It stops for good.
    Revoked,
    /// The host stops; it may come back.
    Shutdown,
    /// The same device connected anew.
    Replaced,
    /// The other side broke the protocol.
    Protocol {
        /// How.
        problem: String,
    },
    /// No protocol version in common.
    Version {
        /// The ranges, and who must update.
        refusal: VersionRefusal,
    },
    /// The host does not know this device's key.
    Unauthorised,
    /// The pairing did not come about.
    Pairing {
        /// Why.
        refusal: PairingRefusal,
    },
    /// The device did not take what it was sent; it comes back and catches up.
    SlowReader,
    /// The other side gave no sign of life.
    Silent,
    /// Nothing more to do, e.g. the app is closed.
    Done,
    /// A reason of a newer version.
    #[serde(other)]
    Other,
}

impl std::fmt::Display for ByeReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Revoked => f.write_str("this device was revoked on the host"),
            Self::Shutdown => f.write_str("the host was stopped"),
            Self::Replaced => f.write_str("this device is connected from elsewhere"),
            Self::Protocol { problem } => write!(f, "the protocol was broken: {problem}"),
            Self::Version { refusal } => refusal.fmt(f),
            Self::Unauthorised => f.write_str("the host does not know this device; pair it"),
            Self::Pairing { refusal } => refusal.fmt(f),
            Self::SlowReader => f.write_str("this device did not take what it was sent"),
            Self::Silent => f.write_str("no sign of life"),
            Self::Done => f.write_str("nothing more to do"),
            Self::Other => f.write_str("a reason that this version does not know"),
        }
    }
}

/// Something that was asked cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireError {
    /// What it is about.
    pub about: ErrorAbout,
    /// What kind of problem.
    pub code: ErrorCode,
    /// What failed and why, in words.
    pub message: String,
    /// What a person can do.
    pub next_step: String,
}

/// What an error is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum ErrorAbout {
    /// A message as such.
    Message {
        /// Its type.
        kind: String,
    },
    /// A subscription; it has ended.
    Sub {
        /// Its number.
        sub: SubId,
    },
    /// A command.
    Command {
        /// Its id.
        id: CommandId,
    },
    /// A query.
    Query {
        /// Its number.
        id: u32,
    },
    /// The connection, or something of a newer version.
    #[serde(other)]
    Connection,
}

/// What kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// This side does not know what was asked.
    Unsupported,
    /// What was asked is malformed.
    Malformed,
    /// There is no such thing.
    NotFound,
    /// The device was not granted the scope.
    Forbidden,
    /// More than [`Limits`] allow.
    TooMuch,
    /// The host could not, for reasons of its own.
    Failed,
    /// A kind of a newer version.
    #[serde(other)]
    Other,
}

impl WireError {
    /// What a command that got this for an answer ends with.
    pub fn refusal(&self) -> Refusal {
        match self.code {
            ErrorCode::Failed | ErrorCode::TooMuch => Refusal::Busy {
                what: self.message.clone(),
            },
            ErrorCode::Forbidden => Refusal::Forbidden {
                scope: Scope::Operate,
            },
            _ => Refusal::Invalid {
                field: "command".to_owned(),
                problem: format!("{}; {}", self.message, self.next_step),
            },
        }
    }

    /// The answer to a frame that did not read; of [`DecodeError::Part`] what a device tells itself.
    pub fn of_decode(error: &DecodeError) -> Self {
        let (about, code, next_step) = match error {
            DecodeError::Unknown { kind } => (
                ErrorAbout::Message { kind: kind.clone() },
                ErrorCode::Unsupported,
                "update the host",
            ),
            DecodeError::Part { about, .. } => (
                about.clone(),
                ErrorCode::Unsupported,
                "update this program, or report this",
            ),
            DecodeError::Malformed { kind, .. } => (
                ErrorAbout::Message { kind: kind.clone() },
                ErrorCode::Malformed,
                "update the app, or report this",
            ),
            DecodeError::Command { id, .. } => (
                ErrorAbout::Command { id: *id },
                ErrorCode::Malformed,
                "update the host",
            ),
            DecodeError::Query { id, .. } => (
                ErrorAbout::Query { id: *id },
                ErrorCode::Unsupported,
                "update the host",
            ),
            DecodeError::NotAMessage(_) => (
                ErrorAbout::Connection,
                ErrorCode::Malformed,
                "update the app, or report this",
            ),
        };
        Self {
            about,
            code,
            message: error.to_string(),
            next_step: next_step.to_owned(),
        }
    }
}

impl Message for HostMessage {
    const TYPES: &'static [&'static str] = &[
        "welcome",
        "paired",
        "feed",
        "subscribed",
        "entries",
        "open_items",
        "live",
        "outcome",
        "result",
        "pong",
        "bye",
        "error",
    ];

    fn type_name(&self) -> &'static str {
        match self {
            Self::Welcome(_) => "welcome",
            Self::Paired(_) => "paired",
            Self::Feed { .. } => "feed",
            Self::Subscribed { .. } => "subscribed",
            Self::Entries { .. } => "entries",
            Self::OpenItems { .. } => "open_items",
            Self::Live { .. } => "live",
            Self::Outcome { .. } => "outcome",
            Self::Result { .. } => "result",
            Self::Pong { .. } => "pong",
            Self::Bye { .. } => "bye",
            Self::Error(_) => "error",
        }
    }

    fn diagnose(kind: &str, text: &str, reason: String) -> DecodeError {
        diagnose_host(kind, text, reason)
    }

    fn blob(&self) -> Option<(u32, &BlobChunk)> {
        match self {
            Self::Result {
                id,
                answer: QueryAnswer::Result(QueryResult::Blob(chunk)),
            } => Some((*id, chunk)),
            _ => None,
        }
    }

    fn of_blob(id: u32, chunk: BlobChunk) -> Option<Self> {
        let answer = QueryAnswer::Result(QueryResult::Blob(chunk));
        Some(Self::Result { id, answer })
    }
}
