//! The stores: SQLite files of a ledger and of a device's replica.
//!
//! **Owns** the files: their tables, numbered migrations, locks, durability, and the shape in which domain values lie
//! in them (JSON as text, ids as 16-byte blobs). **Must not know** agents, the wire, or why something is written: it
//! decides nothing about a thread. Data passes through it as domain values: the ledger's one writer appends in
//! [`LedgerStore::transaction`], [`LedgerReader`]s on connections of their own serve everybody else without waiting
//! for it; a device does the same with [`ReplicaStore`] and [`ReplicaReader`].
//!
//! Invariants:
//! - one writer per ledger file, held by a lock that names its process; a replica has one link owner (a [`Lease`]),
//!   while several processes may read it and append to its outbox;
//! - a transaction is all or nothing, also when a row could not be read or written through
//!   [`Rows`](pilothouse_orchestrator::Rows), which cannot say so itself: the failure is kept and the commit refused;
//! - event hashes are taken once, over the bytes that are stored; [`LedgerReads::verify_chain`] finds a flipped bit;
//! - a file of a newer version is refused before anything of it is changed.
#![forbid(unsafe_code)]

mod blobs;
mod codec;
mod db;
mod error;
mod ledger;
mod lock;
mod open_text;
mod replica;
mod rows;
mod runs;
#[cfg(test)]
mod tests;

pub use db::Durability;
pub use error::StoreError;
pub use ledger::{
    DeviceRow, Difference, FeedChange, LedgerReader, LedgerReads, LedgerStore, LedgerTx, Rebuilt,
    StoredEffect, ThreadBindings,
};
pub use lock::Lease;
pub use open_text::OpenText;
pub use replica::{
    Delivery, FeedApplied, HostRow, OutboxEntry, ParkReason, ReplicaReader, ReplicaReads,
    ReplicaStore, ReplicaTx, SignedOut, ThreadCounts, ThreadFilter, ThreadPlace,
};
pub use rows::{ThreadRows, Window};
