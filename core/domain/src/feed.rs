//! What a ledger tells those who follow it: the summary feed over all threads, and one thread's log.

use crate::{
    Cursor, Entry, Epoch, ThreadId,
    request::RuntimeRequest,
    row::{LiveText, OpenItem, Row, Snapshot, ThreadSummary, WaitingCounts},
};
use serde::{Deserialize, Serialize};

/// A place in the summary feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FeedCursor {
    /// The ledger's epoch.
    pub epoch: Epoch,
    /// Grows with each change of any summary.
    pub revision: u64,
}

/// One thread in the feed: its line, and all that waits in it. Replaces what was known of the thread, so a card can
/// neither be missed nor stay behind (CASES 20, 23).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedThread {
    /// Its line.
    pub summary: ThreadSummary,
    /// All its open requests.
    pub requests: Vec<RuntimeRequest>,
}

/// A step of the summary feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedUpdate {
    /// The place after this step.
    pub cursor: FeedCursor,
    /// Whether everything known before is to be forgotten first (a new epoch, or a cursor that is ahead).
    pub reset: bool,
    /// Threads that are new or changed.
    pub threads: Vec<FeedThread>,
    /// Threads that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<ThreadId>,
    /// What waits over all threads, at that place.
    pub counts: WaitingCounts,
    /// Whether more is on its way already (a page of a long catch-up).
    #[serde(default)]
    pub more: bool,
}

/// The answer to a subscription of a thread's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed {
    /// `None`: the cursor was good, entries follow from there. Otherwise start anew from `snapshot` and `rows`.
    pub gap: Option<GapReason>,
    /// The state, for a gap.
    pub snapshot: Option<Box<Snapshot>>,
    /// The newest rows, for a gap; with the snapshot at most 50 KB unless a single row is larger.
    pub rows: Vec<Row>,
    /// Whether older items exist than those in `rows`.
    pub older: bool,
    /// Texts of open items at the high-water mark.
    pub open_items: Vec<OpenItem>,
    /// The place of the log that all of this holds at.
    pub high_water: Cursor,
}

/// Why a cursor was not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// None was given.
    Fresh,
    /// The ledger started a new epoch.
    Epoch,
    /// The chain differs: the ledger lost entries to a power cut, or was restored.
    Chain,
    /// The device is ahead of the ledger.
    Ahead,
    /// It is too far behind for entries to be worth sending.
    Behind,
}

/// What follows on a subscribed thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadUpdate {
    /// Entries, without gaps.
    Entries(Vec<Entry>),
    /// Text that streams.
    Live(LiveText),
}
