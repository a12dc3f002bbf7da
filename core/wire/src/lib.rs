//! What travels between a host's daemon and a device, and how the two know each other.
//!
//! **Owns** the connection (an abstract [`duplex`], and a WebSocket over TLS 1.3 between two pinned keys), the
//! identities and the pairing, the messages with their versioning, and the device's [`link`] with the one policy of
//! retries. **Must not know** SQLite, orchestration, agents, or what a device may do: whether a key is known, and which
//! scopes it has, is the host's to say.
//!
//! A device dials with a [`connect::Connector`], a host accepts with a [`websocket::Acceptor`]; both get an
//! [`websocket::Established`] connection whose peer has proven a key. A key that the host does not know can do one
//! thing: send one `pair` message, with a proof made from the [`offer::PairingOffer`]. A known one says `hello`, is told
//! `welcome`, and from then on both sides exchange messages of at most 1 MiB.
//!
//! Invariants:
//! - nothing is answered before the client has proven a key; no secret stands in a URL, a log or a `Debug` output;
//! - trust is in public keys only: names, dates and issuers of certificates are never looked at;
//! - unknown fields are ignored, unknown message types are a typed error that can be answered, never a crash;
//! - time and randomness come in as parameters of everything that can be pure; one owner retries.
#![forbid(unsafe_code)]

pub mod connect;
pub mod duplex;
pub mod hosts;
pub mod identity;
pub mod keyfile;
pub mod link;
pub mod message;
pub mod offer;
pub mod opening;
pub mod pairing;
pub mod tls;
pub mod version;
pub mod websocket;
