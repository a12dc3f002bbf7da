//! Log entries: what a thread's one author appends and everyone else applies.
#![expect(
    clippy::disallowed_types,
    reason = "what serde derives for a flattened map names the floating types"
)]

use crate::{CommandId, DeviceId, EffectId, Epoch, Event, SessionId, ThreadId, hash};
use pilothouse_json::Tagged;
use serde::{Deserialize, Deserializer, Serialize, de};

/// Version of the log's format: frozen since version 0.1.0 (docs/compatibility.md).
pub const LOG_FORMAT: u16 = 1;

/// Rolling hash of a log up to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chain(pub crate::Digest);

impl Chain {
    /// The next link: BLAKE3(previous ‖ header ‖ per-event hashes). Event hashes are taken once, over the stored
    /// bytes, at append, and kept when a body is redacted; devices never recompute them (DETAILS section 1).
    pub fn extend(&self, header: &[u8], event_hashes: &[[u8; 32]]) -> Self {
        let joined = event_hashes.concat();
        Self(crate::Digest::from_bytes(hash::blake3_parts(&[
            self.0.as_bytes(),
            header,
            &joined,
        ])))
    }
}

/// A place in a log. Any mismatch of its parts is a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// The ledger's epoch.
    pub epoch: Epoch,
    /// Sequence number of the last entry; 0 before the first.
    pub seq: u64,
    /// The chain at that entry.
    pub chain: Chain,
}

/// One entry of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The thread whose log it is.
    pub thread: ThreadId,
    /// The ledger's epoch.
    pub epoch: Epoch,
    /// 1 for the first, without gaps.
    pub seq: u64,
    /// The chain up to and with this entry.
    pub chain: Chain,
    /// Version of the format of its events.
    pub log_format: u16,
    /// The host's clock at append, Unix ms. For showing; nothing is ordered by it.
    pub host_time_ms: u64,
    /// What made it.
    pub cause: Cause,
    /// What happened, in order.
    pub events: Vec<LoggedEvent>,
}

impl Entry {
    /// The cursor of a reader that has applied this entry.
    pub fn cursor(&self) -> Cursor {
        Cursor {
            epoch: self.epoch,
            seq: self.seq,
            chain: self.chain,
        }
    }

    /// The bytes of the header that the chain covers.
    pub fn header(&self) -> Vec<u8> {
        hash::canonical_json(&(
            self.thread,
            self.epoch,
            self.seq,
            self.log_format,
            self.host_time_ms,
            &self.cause,
        ))
    }
}

/// What made an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Cause {
    /// A participant's command.
    Command {
        /// Its id.
        command: CommandId,
        /// The device that sent it.
        device: DeviceId,
    },
    /// A command of the ledger's own.
    Internal {
        /// Its name.
        name: String,
    },
    /// Something an agent sent.
    Provider {
        /// The session.
        session: SessionId,
    },
    /// The outcome of an effect.
    Effect {
        /// The effect.
        effect: EffectId,
    },
    /// A deadline passed.
    Clock,
    /// Something the host noticed (boot, a process ended).
    Host {
        /// What, in a word.
        fact: String,
    },
}

/// An event as read from a log: known to this version, or kept as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum LoggedEvent {
    /// Known.
    Known(Box<Event>),
    /// Of a newer version (or damaged).
    Unknown(UnknownEvent),
}

impl<'de> Deserialize<'de> for LoggedEvent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = pilothouse_json::raw(from)?;
        match pilothouse_json::from_str(&text) {
            Ok(event) => Ok(Self::Known(event)),
            Err(_) => pilothouse_json::from_str(&text)
                .map(Self::Unknown)
                .map_err(|error| de::Error::custom(format_args!("{error} of the event"))),
        }
    }
}

impl From<Event> for LoggedEvent {
    fn from(event: Event) -> Self {
        Self::Known(Box::new(event))
    }
}

/// An event this version does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownEvent {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether a reader may go on without it; otherwise the thread is read-only until the app is updated.
    #[serde(default)]
    pub skippable: bool,
    /// The rest, verbatim.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, serde_json::Value>,
}
