//! What a device says to a host.

use super::{ByeReason, DecodeError, Message, Query, diagnose_device};
use crate::{pairing::PairingProof, stream::Encoding, version::ProtocolRange};
use pilothouse_domain::{
    Command, CommandId, Cursor, ThreadId,
    entry::LOG_FORMAT,
    feed::FeedCursor,
    state::{DECIDE_VERSION, STATE_VERSION},
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// A subscription's number, chosen by the device, unique on its connection.
pub type SubId = u32;

/// What a device says to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DeviceMessage {
    /// First message of a paired device.
    Hello(Hello),
    /// The only message of a device that is not paired yet.
    Pair(Pair),
    /// Asks for a thread's log from a place on, and for what follows.
    Subscribe {
        /// The number it gets.
        sub: SubId,
        /// The thread.
        thread: ThreadId,
        /// What the device has; `None` for nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<Cursor>,
        /// Bytes of rows that may come with a snapshot; the host may send fewer.
        tail_bytes: u32,
    },
    /// Ends a subscription, of a thread or of the feed.
    Unsubscribe {
        /// Its number.
        sub: SubId,
    },
    /// Asks for the list of threads, the open requests and their changes.
    SubscribeFeed {
        /// The number it gets.
        sub: SubId,
        /// What the device has; `None` for nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<FeedCursor>,
    },
    /// A command; answered with `outcome`, the same one however often it comes.
    Command {
        /// The command.
        command: Box<Command>,
    },
    /// Asks what became of commands; each is answered with an `outcome`.
    OutcomeQuery {
        /// The commands, at most 256.
        command_ids: Vec<CommandId>,
    },
    /// Asks for something once; answered with `result`.
    Query {
        /// Its number, chosen by the device, unique on its connection.
        id: u32,
        /// What is asked.
        query: Query,
    },
    /// Asks for a sign of life; answered with `pong`.
    Ping {
        /// Comes back.
        nonce: u64,
    },
    /// The device leaves.
    Bye {
        /// Why.
        reason: ByeReason,
    },
}

/// Who a paired device is in software; its key has said who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol versions it speaks.
    pub protocol: ProtocolRange,
    /// What it calls itself, at most 80 characters.
    pub device_name: String,
    /// Program and version, for logs.
    pub software: String,
    /// Log formats it reads.
    pub log_formats: Vec<u16>,
    /// Its version of the thread state.
    pub state_version: u16,
    /// Its version of `decide`; with another one than the host's it predicts nothing.
    pub decide_version: u16,
    /// How it can read and write messages after `welcome`, best first; none is plain text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encodings: Vec<Encoding>,
    /// Words that came after the first version, of those that cannot be passed over, and that it reads: see [`KNOWN_WORDS`].
    /// A host says what it has in words that its device reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// Words of values that an earlier version cannot pass over, by the field in which they stand. One that a device does not
/// name in its [`Hello::words`] is not sent to it; docs/compatibility.md says what is sent in its place.
pub const KNOWN_WORDS: &[&str] = &[HELD_FOR_SIGN_IN];

/// `sign_in` as the reason why a queue is held; `failed` stands for it.
pub const HELD_FOR_SIGN_IN: &str = "held.sign_in";

impl Hello {
    /// What this build is, under a name.
    pub fn of_this_build(device_name: impl Into<String>, software: impl Into<String>) -> Self {
        Self {
            protocol: crate::version::PROTOCOL,
            device_name: device_name.into(),
            software: software.into(),
            log_formats: vec![LOG_FORMAT],
            state_version: STATE_VERSION,
            decide_version: DECIDE_VERSION,
            encodings: Encoding::KNOWN.to_vec(),
            words: KNOWN_WORDS.iter().map(|&word| word.to_owned()).collect(),
        }
    }
}

/// Asks to be paired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// That the device saw the offer.
    pub proof: PairingProof,
    /// What it calls itself, at most 80 characters; the host shows it to its person.
    pub device_name: String,
    /// What it runs on, e.g. `android 16`, at most 80 characters.
    pub platform: String,
}

impl Message for DeviceMessage {
    const TYPES: &'static [&'static str] = &[
        "hello",
        "pair",
        "subscribe",
        "unsubscribe",
        "subscribe_feed",
        "command",
        "outcome_query",
        "query",
        "ping",
        "bye",
    ];

    fn type_name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Pair(_) => "pair",
            Self::Subscribe { .. } => "subscribe",
            Self::Unsubscribe { .. } => "unsubscribe",
            Self::SubscribeFeed { .. } => "subscribe_feed",
            Self::Command { .. } => "command",
            Self::OutcomeQuery { .. } => "outcome_query",
            Self::Query { .. } => "query",
            Self::Ping { .. } => "ping",
            Self::Bye { .. } => "bye",
        }
    }

    fn diagnose(kind: &str, text: &str, reason: String) -> DecodeError {
        diagnose_device(kind, text, reason)
    }
}
