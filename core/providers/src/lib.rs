//! Adapters: one contract, one module per protocol family.
//!
//! **Owns** the translation between an agent's protocol and [`pilothouse_domain::ProviderEvent`], and the agent's
//! process or connection. **Must not know** threads' logs, storage, the wire or devices. Bytes from an agent pass through
//! a sans-I/O codec (bytes in, events and outgoing frames out) and a thin driver into the ledger's event channel; the
//! ledger calls back through [`contract`].
//!
//! Invariants: nothing past a codec looks at an agent's JSON; a frame that cannot be read becomes an event, never a panic
//! and never silence; memory is bounded whatever the agent sends; an optional operation is reachable only where the
//! runtime offers it. A build without the feature `local`, as a device's is, has only the families that can be reached over
//! a network.
#![forbid(unsafe_code)]

#[cfg(feature = "local")]
pub mod acp;
#[cfg(feature = "local")]
pub mod claude;
pub mod codex;
pub mod contract;
mod diff;
pub mod endpoint;
mod far;
#[cfg_attr(
    not(feature = "local"),
    expect(dead_code, reason = "ways that only a local family takes")
)]
pub mod mcp;
pub mod naming;
mod on_model;
pub mod opencode;
#[cfg(feature = "local")]
pub mod pi;
pub mod picture;
pub mod process;
#[cfg(feature = "local")]
pub mod registry;
pub mod remote;
#[cfg(feature = "local")]
pub mod replay;
#[cfg_attr(
    not(feature = "local"),
    expect(dead_code, reason = "parts that only a local family needs")
)]
mod rpc;

pub use on_model::capabilities_on;
