//! What a host says to a device.

use super::{BLOB_CHUNK, FeedCursor, Message, QueryAnswer, SubId};
use crate::{duplex::MAX_FRAME, pairing::PairingRefusal, version::VersionRefusal};
use pilothouse_domain::{
    CommandId, Cursor, DeviceId, Entry, Epoch, HostId, Outcome, Policy, Position, Row, Scope,
    ThreadId, ThreadSummary,
    command::Notice,
    row::{InboxEntry, LiveText, OpenItem, RequestRef, Snapshot, WaitingCounts},
};
use serde::{Deserialize, Serialize};

/// What a host says to a device. `draft`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostMessage {
    /// Answer to `hello`.
    Welcome(Box<Welcome>),
    /// Answer to `pair`; the connection is closed after it, and the device dials anew as a paired one.
    Paired(Paired),
    /// Changes of the summary feed.
    Feed(Box<FeedUpdate>),
    /// Answer to `subscribe`.
    Subscribed(Box<Subscribed>),
    /// Entries of a log, in order, none left out.
    Entries {
        /// The subscription.
        sub: SubId,
        /// The entries.
        entries: Vec<Entry>,
    },
    /// Ends the catching up: the texts of all open items at the place up to which entries were sent.
    OpenItems {
        /// The subscription.
        sub: SubId,
        /// The items; an open item that is not here has no text yet.
        items: Vec<OpenItem>,
        /// That place.
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

/// Changes of the summary feed. A large one comes in parts; only the last has `more: false`, and only then is
/// `revision` a place to come back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedUpdate {
    /// The subscription.
    pub sub: SubId,
    /// The feed's life.
    pub epoch: Epoch,
    /// The place after this change.
    pub revision: u64,
    /// Whether the device forgets what it has of this host before it takes this.
    pub reset: bool,
    /// Whether another part of the same change follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Threads that are new or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upserts: Vec<ThreadSummary>,
    /// Threads that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<ThreadId>,
    /// Requests that are open, new or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<InboxEntry>,
    /// Requests that are open no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests_removed: Vec<RequestRef>,
    /// What its people are to be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<FeedNotice>,
    /// How much waits on the whole host.
    pub counts: WaitingCounts,
}

impl FeedUpdate {
    /// The place after this change, once all its parts are taken.
    pub fn cursor(&self) -> Option<FeedCursor> {
        (!self.more).then_some(FeedCursor {
            epoch: self.epoch,
            revision: self.revision,
        })
    }
}

/// Something people are to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedNotice {
    /// The thread it is about.
    pub thread: ThreadId,
    /// What happened.
    pub notice: Notice,
    /// Host time, Unix ms.
    pub at_ms: u64,
}

/// Answer to `subscribe`. Entries follow, then `open_items`, then what happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed {
    /// The subscription.
    pub sub: SubId,
    /// The thread.
    pub thread: ThreadId,
    /// Whether the device's place is one of this log.
    #[serde(flatten)]
    pub answer: SubscribeAnswer,
    /// Only with a gap: the state from which to go on. The device forgets the rows it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// Only with a gap: the last rows of the thread at the snapshot's place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// Only with a gap: the first item's place in `rows` if there are older ones, for `older_items`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<Position>,
}

/// Whether a device can go on from where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum SubscribeAnswer {
    /// The entries after its place follow.
    Ok,
    /// It starts over from a snapshot.
    Gap {
        /// Why.
        reason: GapReason,
    },
}

/// Why a device starts over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// It had nothing.
    NoCursor,
    /// Its place is in another life of the ledger.
    Epoch,
    /// The log went another way after its place.
    Chain,
    /// It is ahead of the ledger, which was restored: commands that were sent and not answered wait for their person.
    Ahead,
    /// Too many entries lie between.
    TooFar,
}

/// Why a side ends a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The answer to a frame that did not read.
    pub fn of_decode(error: &super::DecodeError) -> Self {
        use super::DecodeError;
        let (about, code, next_step) = match error {
            DecodeError::Unknown { kind } => (
                ErrorAbout::Message { kind: kind.clone() },
                ErrorCode::Unsupported,
                "update the host",
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
            Self::Feed(_) => "feed",
            Self::Subscribed(_) => "subscribed",
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
}
