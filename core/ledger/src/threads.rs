//! The writer's cache of threads: state, cursor, and whom to tell.

use pilothouse_domain::{Cursor, ThreadId, ThreadState, ThreadSummary, row::LiveText};
use tokio::sync::{broadcast, watch};

/// Live texts that a slow subscriber may lag behind before it loses some.
const LIVE_BACKLOG: usize = 128;

/// A thread as the writer holds it.
pub(crate) struct ThreadCell {
    pub(crate) state: ThreadState,
    pub(crate) cursor: Cursor,
    pub(crate) summary: Option<ThreadSummary>,
    /// Sequence number at which the state was last saved.
    pub(crate) saved_at: u64,
    pub(crate) watch: watch::Sender<Cursor>,
    pub(crate) live: broadcast::Sender<LiveAt>,
}

/// Live text, with the entry that a subscriber must have seen before it makes sense.
#[derive(Debug, Clone)]
pub(crate) struct LiveAt {
    pub(crate) after: u64,
    pub(crate) text: LiveText,
}

impl ThreadCell {
    pub(crate) fn new(state: ThreadState, cursor: Cursor, summary: Option<ThreadSummary>) -> Self {
        Self {
            saved_at: cursor.seq,
            state,
            cursor,
            summary,
            watch: watch::channel(cursor).0,
            live: broadcast::channel(LIVE_BACKLOG).0,
        }
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.state.thread
    }

    /// What has to be put back if a transaction fails.
    pub(crate) fn saved(&self) -> SavedCell {
        SavedCell {
            state: self.state.clone(),
            cursor: self.cursor,
            summary: self.summary.clone(),
            saved_at: self.saved_at,
        }
    }

    pub(crate) fn put_back(&mut self, saved: SavedCell) {
        self.state = saved.state;
        self.cursor = saved.cursor;
        self.summary = saved.summary;
        self.saved_at = saved.saved_at;
    }
}

/// A thread before a transaction.
pub(crate) struct SavedCell {
    state: ThreadState,
    cursor: Cursor,
    summary: Option<ThreadSummary>,
    saved_at: u64,
}
