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
//! - a compressed message counts by its inflated size, and what cannot be inflated ends the connection;
//! - time and randomness come in as parameters of everything that can be pure; one owner retries.
//!
//! A device that has an offer, from pairing to its link:
//!
//! ```no_run
//! use pilothouse_wire::{connect::Connector, identity::{DeviceIdentity, FileKey}, link::{HostDialer, Link, LinkConfig,
//!     LinkEvent}, message::Hello, offer::PairingOffer, opening};
//! use std::{path::Path, sync::Arc};
//!
//! # async fn device(text: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let key = FileKey::load_or_create(&Path::new("data").join(FileKey::FILE))?;
//! let device = DeviceIdentity::new(Arc::new(key))?;
//! let offer = PairingOffer::parse(text)?;
//! let connector = Connector::new(&device, offer.spki_sha256)?;
//! let (paired, address) = opening::pair(&connector, &offer, "laptop", "linux").await?;
//! println!("paired with {} over {address}", paired.host_name);
//!
//! let dialer = Arc::new(HostDialer::new(connector, offer.addresses));
//! let (link, mut events) = Link::start(LinkConfig::new(Hello::of_this_build("laptop", "example 1"), dialer));
//! while let Some(event) = events.recv().await {
//!     match event {
//!         LinkEvent::Up { welcome, sender } => println!("{} in epoch {}", welcome.host_name, welcome.epoch),
//!         LinkEvent::Message(message) => println!("{message:?}"),
//!         LinkEvent::Down(problem) => println!("down: {problem}"),
//!         LinkEvent::Stopped(reason) => println!("stopped: {reason}"),
//!     }
//! }
//! # Ok(()) }
//! ```
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
pub mod stream;
pub mod tls;
pub mod version;
pub mod websocket;
