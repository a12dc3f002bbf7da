//! The vocabulary of Pilothouse: ids, entities, statuses, commands, events, log entries, capabilities, refusals.
//!
//! **Owns** the meaning and the serialised shape of everything that is stored or sent. **Must not know** any I/O, clock,
//! randomness, async runtime, agent protocol or database. Data passes through it as plain values: a [`Command`] comes
//! in, [`Event`]s come out and stand in an [`Entry`] of a thread's log; [`ThreadState`] is what all events of a log
//! fold into; [`Row`]s are what a screen reads.
//!
//! Invariants:
//! - no hash-ordered collection and no float, so equal values have equal bytes (see [`hash::canonical_json`]);
//! - ids of what a command makes derive from the command's id, ids of what an agent makes from its place in the log;
//! - native ids of agents occur only in [`provider_event`] and in the ledger's identity bindings, never in events;
//! - shapes are additive: a field may be added with a default, never renamed. Golden files in `golden/` hold them.
//!   `log_format` 1 is frozen since version 0.1.0; shapes that no version writes yet are called `draft`.
#![forbid(unsafe_code)]

pub mod binding;
pub mod capability;
pub mod command;
pub mod effect;
pub mod entry;
pub mod event;
pub mod feed;
#[cfg(test)]
mod golden;
pub mod hash;
pub mod ids;
pub mod item;
pub mod json;
pub mod limits;
pub mod policy;
pub mod provider;
pub mod provider_event;
pub mod refusal;
pub mod request;
pub mod row;
pub mod run;
pub mod shorten;
pub mod state;
pub mod thread;
pub mod transfer;

pub use capability::{Capabilities, CapabilityFlag, CapabilityValue};
pub use command::{Command, CommandBody, DispatchMode, Outcome, Scope};
pub use effect::{Effect, EffectKind, EffectOutcome};
pub use entry::{Cause, Chain, Cursor, Entry, LoggedEvent};
pub use event::Event;
pub use ids::*;
pub use item::{Body, ItemContent, ItemStatus, Position, TurnItem};
pub use json::Json;
pub use policy::{Mode, Policy};
pub use provider_event::{NativeId, ProviderEvent, ProviderEventKind};
pub use refusal::Refusal;
pub use request::{Answer, RequestStatus, RuntimeRequest, Subject};
pub use row::{Row, RowKey, ThreadSummary};
pub use run::{Run, RunStatus};
pub use state::ThreadState;
