//! App ids. Ours, opaque, 16 bytes shown as 26 letters and digits (Crockford's base 32, lower case: short, safe in a
//! shell and in an address); hashes are 32 bytes shown as 64 hexadecimal digits.

use crate::{NativeId, hash};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// A text that is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}: {digits} {alphabet} are expected")]
pub struct InvalidId {
    /// What was to be read, e.g. `ThreadId`.
    pub kind: &'static str,
    /// The text as given, cut to 80 characters.
    pub text: String,
    /// Number of digits expected.
    pub digits: usize,
    /// What the digits are.
    pub alphabet: &'static str,
}

macro_rules! bytes_type {
    ($(#[$doc:meta])* $name:ident, $len:literal, $digits:literal, $alphabet:literal, $write:path, $read:path) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name([u8; $len]);

        impl $name {
            /// Wraps raw bytes.
            pub const fn from_bytes(bytes: [u8; $len]) -> Self { Self(bytes) }
            /// The raw bytes.
            pub const fn as_bytes(&self) -> &[u8; $len] { &self.0 }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&$write(&self.0)) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), $write(&self.0))
            }
        }
        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                $read(text).map(Self).ok_or_else(|| InvalidId {
                    kind: stringify!($name),
                    text: text.chars().take(80).collect(),
                    digits: $digits,
                    alphabet: $alphabet,
                })
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> { s.collect_str(self) }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "{} {}", $digits, $alphabet)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                d.deserialize_str(Text)
            }
        }
    };
}

/// An id that a command or a place in a log can make.
pub trait MintedId: Sized {
    /// Wraps the 16 bytes that were derived.
    fn from_minted(bytes: [u8; 16]) -> Self;
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        bytes_type!($(#[$doc])* $name, 16, 26, "letters and digits", hash::to_base32, hash::from_base32);
        impl MintedId for $name {
            fn from_minted(bytes: [u8; 16]) -> Self { Self(bytes) }
        }
    };
}

id_type!(/** A command, made by the client that sends it (random). */ CommandId);
id_type!(/** An app thread: one log, one author. */ ThreadId);
id_type!(/** A message of the conversation. */ MessageId);
id_type!(/** A run: one user message (or external turn) worked on to a terminal status. */ RunId);
id_type!(/** One try at a run. */ AttemptId);
id_type!(/** A node of the execution tree. */ NodeId);
id_type!(/** An item of the timeline. */ ItemId);
id_type!(/** A provider session. */ SessionId);
id_type!(/** A provider thread: a native conversation. */ ProviderThreadId);
id_type!(/** A turn of a provider thread. */ ProviderTurnId);
id_type!(/** An approval, question or other request that waits for a person. */ RequestId);
id_type!(/** A plan, todo list or set of questions. */ PlanId);
id_type!(/** An effect: something the ledger has to do outside its log. */ EffectId);
id_type!(/** A notice to a person. */ NoticeId);
id_type!(/** A workspace checkpoint. */ CheckpointId);
id_type!(/** A context transfer. */ TransferId);
id_type!(/** A conversation that an agent has by itself, as devices name it: the agent's own id stays on the host. */ ConversationKey);
id_type!(/** A host: one daemon, one ledger. */ HostId);
id_type!(/** A paired device. */ DeviceId);
id_type!(/** One life of a ledger's data; a restored backup starts a new one. */ Epoch);
id_type!(/** One life of an agent's process. */ Incarnation);
id_type!(/** The first half of a content hash. */ ContentMark);
bytes_type!(/** SHA-256 over exactly what was shown to a person and is sent to an agent. */ ContentHash, 32, 64, "hexadecimal digits", hash::to_hex, hash::from_hex);
bytes_type!(/** BLAKE3 of a stored body. */ BlobHash, 32, 64, "hexadecimal digits", hash::to_hex, hash::from_hex);
bytes_type!(/** Digest of a thread's state at a place in its log. */ Digest, 32, 64, "hexadecimal digits", hash::to_hex, hash::from_hex);

impl CommandId {
    /// Derives the id of something this command makes; `slot` names it (`"thread"`, `"run"` …), never a position.
    pub fn derive<T: MintedId>(&self, slot: &str) -> T {
        T::from_minted(hash::id_bytes(&[self.as_bytes(), slot.as_bytes()]))
    }
}

impl ConversationKey {
    /// The key of an agent's conversation.
    pub fn of(agent: &AgentName, native: &NativeId) -> Self {
        Self(hash::id_bytes(&[
            agent.as_str().as_bytes(),
            native.as_str().as_bytes(),
        ]))
    }
}

impl ContentHash {
    /// The hash of a request's subject, computed by host and device alike over the exact UTF-8 text.
    pub fn of(subject: &str) -> Self {
        Self(hash::sha256(subject.as_bytes()))
    }

    /// Its first half, which is what a thread's state holds.
    pub fn mark(&self) -> ContentMark {
        let mut half = [0; 16];
        half.copy_from_slice(&self.0[..16]);
        ContentMark(half)
    }
}

impl BlobHash {
    /// The address of a stored body.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

/// The place in a log where an entry is about to stand; ids of what an agent's event makes derive from it.
///
/// The boot counter is synced before the first append of a boot, so a sequence number lost to a power cut never
/// names two things (DETAILS section 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPlace {
    /// The ledger's epoch.
    pub epoch: Epoch,
    /// The ledger's boot counter.
    pub boot: u64,
    /// The thread's log.
    pub thread: ThreadId,
    /// The sequence number the entry will have.
    pub seq: u64,
}

/// Makes ids for the events of one entry.
#[derive(Debug, Clone)]
pub struct IdMint {
    place: LogPlace,
    next: u32,
}

impl IdMint {
    /// Starts minting at a place of the log.
    pub fn at(place: LogPlace) -> Self {
        Self { place, next: 0 }
    }

    /// The next id; two calls never give the same.
    pub fn mint<T: MintedId>(&mut self) -> T {
        let index = self.next;
        self.next += 1;
        T::from_minted(hash::id_bytes(&[
            self.place.epoch.as_bytes(),
            &self.place.boot.to_le_bytes(),
            self.place.thread.as_bytes(),
            &self.place.seq.to_le_bytes(),
            &index.to_le_bytes(),
        ]))
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str { &self.0 }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self { Self(text.to_owned()) }
        }
    };
}

name_type!(/** An agent instance: the NAME of `[agents.NAME]` in host.toml. */ AgentName);
name_type!(/** A workspace as the host's configuration names it; a device never names a path. */ WorkspaceId);
name_type!(/** One of a request's options, as the agent's family names it (`accept`, `decline` …). */ OptionId);
