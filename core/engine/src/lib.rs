//! The embeddable core of a device: what a person holds in the hand, without its screen.
//!
//! **Owns** a device's replica of its hosts (list of threads, open requests, opened threads), the outbox with its rules
//! of sending, the links, predictions, and the views that a screen observes. **Must not know** agents and their
//! protocols, how a host decides beyond calling the orchestrator's `decide`, or anything of a user interface.
//!
//! Data passes through it so: a program [submits](Core::submit) a command; it is predicted over what is held, saved
//! with one fsync and sent in order. What hosts say comes over their links to the core's one thread, is applied to the
//! replica by the orchestrator's `apply` and `project`, and then shown: the delivery thread asks each
//! [observation](Core::observe)'s view what changed and gives its [`Sink`] one [`Batch`].
//!
//! Invariants:
//! - one thread writes the replica and hears the links, so text, entries and outcomes keep their order;
//! - `submit` never waits for a network or a disk; nothing goes out before it is marked as handed over;
//! - after a reconnect outcomes are asked first, and only what the host never took is sent again, under its id;
//! - a request is never shown as answered before the host said so, nor approvable unless its text fits its hash;
//! - sinks are foreign code: only the delivery thread calls them, a panic closes one observation and nothing else;
//! - an agent that is driven from here, with no daemon, has a ledger in this process and is a host to everything else;
//! - one process at a time holds the links of a data directory; others read it and add to its outbox.
#![forbid(unsafe_code)]

mod actor;
mod api;
mod batch;
mod commands;
mod core;
mod delivery;
mod diff;
mod direct;
mod error;
mod far;
mod feed;
mod follow;
mod further;
mod hosts;
mod incoming;
mod live;
mod outbox;
mod pair;
mod platform;
mod predict;
mod put_off;
mod query;
mod rows;
mod shared;
mod sharing;
mod ticket;
mod views;

pub use crate::core::{Core, Observation};
pub use api::{
    CoreConfig, Environment, LogLevel, MOST_IN_INBOX, MOST_LISTED, Network, NewCommand, Page,
    Platform, Prediction, Query, QueryResult, RequestPage, Scope, SecretError, Sink, ThreadPage,
    TicketOutcome,
};
pub use batch::{AppendText, Batch, ListBatch, ListOp, ThreadsBatch, TimelineBatch};
pub use direct::{DIRECT_LIMITS, DirectAgent, DirectChange, DirectError, DirectFamily};
pub use error::{CoreError, PairError, QueryError, SubmitError};
pub use far::{FarHost, FarHostError};
pub use pilothouse_domain::row::Standing;
pub use pilothouse_orchestrator::{Affordances, Offer, Unavailable, is_marked, masked};
pub use pilothouse_providers::endpoint::{EndpointRefusal, Trust};
pub use pilothouse_store::{ThreadFilter, ThreadPlace};
pub use pilothouse_wire::identity::{DeviceKey, DeviceKeyError, P256PublicKey};
pub use platform::SystemPlatform;
pub use rows::{
    ActiveRow, AgentRow, ChangeRow, DeliveryRow, DeliveryState, DirectRow, HostRow, InboxRow,
    InboxState, LinkState, QueueRow, RequestOutline, RowContent, RowText, SignedOutRow, SubjectRow,
    ThreadCounts, ThreadHeader, ThreadRow, TimelineRow,
};
pub use ticket::Ticket;
