//! The host: a daemon that owns a ledger and lets paired devices at it, and the `pilothouse` program around it.
//!
//! **Owns** the state directory, the configuration, which agents and workspaces are offered, the listener, one task per
//! connection, pairing, the control socket and the doctor. **Must not know** how an agent speaks (providers), what a
//! command does (ledger, orchestrator), or how a device keeps what it saw (engine; [`client`] is a device and uses only
//! that).
//!
//! A connection comes from the wire with a proven key; the ledger says whether the key is paired; what the device sends
//! goes to the ledger as it is, under the device's id and scopes, and what the ledger answers or appends goes back through
//! one queue of bounded size per connection.
//!
//! Invariants:
//! - a key that is not paired can send one `pair`, and nothing else; scopes come from the ledger, never from a device;
//! - entries are never dropped, live text is, first of all;
//! - a revoked device's socket is closed within a second;
//! - only loopback is listened on before `pair` was run once, unless a person says otherwise.
#![forbid(unsafe_code)]

mod addresses;
mod agents;
pub mod client;
pub mod config;
pub mod control;
pub mod daemon;
pub mod demo;
mod doctor;
pub mod logging;
mod server;
pub mod state;
mod text;
pub mod verbs;

/// Program and version, as devices are told.
pub const SOFTWARE: &str = concat!("pilothouse ", env!("CARGO_PKG_VERSION"));
