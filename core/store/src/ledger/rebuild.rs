//! From the log alone: state, rows and summary made anew, and compared with what was kept step by step.

use super::{LedgerReads, LedgerTx};
use crate::{
    error::{Result, StoreError},
    rows::{self, ThreadRows},
};
use pilothouse_domain::{
    Digest, Entry, LoggedEvent, Row, RowKey, ThreadId, ThreadState, ThreadSummary, row::Snapshot,
};
use pilothouse_orchestrator::{Rows, apply, apply_entry, project, summarise};
use std::collections::BTreeMap;

/// What a log says, by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The state at the log's end.
    pub snapshot: Snapshot,
    /// The thread's line; `None` for an empty log.
    pub summary: Option<ThreadSummary>,
}

/// What was kept of a thread is not what its log says.
#[derive(Debug, thiserror::Error)]
pub enum Difference {
    /// The log itself is damaged or could not be read.
    #[error(transparent)]
    Log(#[from] StoreError),
    /// The kept state.
    #[error(
        "the state kept of thread {thread} at entry {seq} has digest {kept}, its log says {replayed}; rebuild the thread"
    )]
    State {
        /// The thread.
        thread: ThreadId,
        /// The place of the kept state.
        seq: u64,
        /// Its digest.
        kept: Digest,
        /// The digest of the state that the log gives.
        replayed: Digest,
    },
    /// A row.
    #[error("row {} {} of thread {thread} is not what its log says; rebuild the thread", key.kind.name(), key.id)]
    Row {
        /// The thread.
        thread: ThreadId,
        /// Which row.
        key: RowKey,
        /// As kept.
        kept: Option<Box<Row>>,
        /// As the log gives it.
        replayed: Option<Box<Row>>,
    },
    /// The line in the list.
    #[error("the summary of thread {thread} is not what its log says; rebuild the thread")]
    Summary {
        /// The thread.
        thread: ThreadId,
        /// As kept.
        kept: Box<ThreadSummary>,
        /// As the log gives it.
        replayed: Box<ThreadSummary>,
    },
}

/// Writes an entry's rows and folds it into the state.
pub(crate) fn replay(rows: &mut dyn Rows, state: &mut ThreadState, entry: &Entry) {
    // `project` sees the state right before each event, so the two go hand in hand.
    for logged in &entry.events {
        if let LoggedEvent::Known(event) = logged {
            project(rows, state, entry.host_time_ms, event);
            apply(state, event);
        }
    }
    if entry
        .events
        .iter()
        .any(|logged| matches!(logged, LoggedEvent::Unknown(_)))
    {
        let unknown = Entry {
            events: entry
                .events
                .iter()
                .filter(|logged| matches!(logged, LoggedEvent::Unknown(_)))
                .cloned()
                .collect(),
            ..entry.clone()
        };
        apply_entry(state, &unknown);
    }
}

impl LedgerTx<'_> {
    /// Makes a thread's state, rows and summary anew from its log and keeps them. The summary goes into the feed only
    /// where it differs from the one there.
    ///
    /// # Errors
    /// Any of the file.
    pub fn rebuild(&self, thread: ThreadId) -> Result<Rebuilt> {
        rows::clear(self.db(), self.number(thread)?)?;
        let mut rows = Gathered {
            rows: self.rows(thread)?,
            held: BTreeMap::new(),
        };
        let rebuilt = self.replay_log(thread, &mut rows, |_, _| Ok(()))?;
        rows.write();
        self.put_state(thread, &rebuilt.snapshot.state, &rebuilt.snapshot.cursor)?;
        if let Some(summary) = &rebuilt.summary
            && let Some(kept) = self.summary(thread)?
            && kept != *summary
        {
            self.put_summary(summary)?;
        }
        Ok(rebuilt)
    }
}

impl LedgerReads {
    /// Compares what was kept of a thread with what its log says, after verifying the log's chain. Holds all rows of
    /// the thread in memory.
    ///
    /// # Errors
    /// The first difference found.
    pub fn verify(&self, thread: ThreadId) -> std::result::Result<(), Difference> {
        self.verify_chain(thread)?;
        let kept = self.state(thread)?;
        let mut at_kept = None;
        let mut replayed_rows = MapRows::default();
        let rebuilt = self.replay_log(thread, &mut replayed_rows, |seq, state| {
            if kept.as_ref().is_some_and(|kept| kept.cursor.seq == seq) {
                at_kept = Some(state.clone());
            }
            Ok(())
        })?;
        if let Some(kept) = kept {
            let replayed = at_kept.unwrap_or(rebuilt.snapshot.state);
            let digests = (
                kept.state.digest(&kept.cursor),
                replayed.digest(&kept.cursor),
            );
            if digests.0 != digests.1 {
                return Err(Difference::State {
                    thread,
                    seq: kept.cursor.seq,
                    kept: digests.0,
                    replayed: digests.1,
                });
            }
        }
        let mut kept_rows: BTreeMap<RowKey, Row> = self
            .all_rows(thread)?
            .into_iter()
            .map(|row| (row.key(), row))
            .collect();
        for (key, replayed) in replayed_rows.0 {
            let kept = kept_rows.remove(&key);
            if kept.as_ref() != Some(&replayed) {
                return Err(Difference::Row {
                    thread,
                    key,
                    kept: kept.map(Box::new),
                    replayed: Some(Box::new(replayed)),
                });
            }
        }
        if let Some((key, kept)) = kept_rows.pop_first() {
            return Err(Difference::Row {
                thread,
                key,
                kept: Some(Box::new(kept)),
                replayed: None,
            });
        }
        if let Some(kept) = self.summary(thread)?
            && let Some(replayed) = rebuilt.summary
            && kept != replayed
        {
            return Err(Difference::Summary {
                thread,
                kept: Box::new(kept),
                replayed: Box::new(replayed),
            });
        }
        Ok(())
    }

    fn replay_log(
        &self,
        thread: ThreadId,
        rows: &mut dyn Rows,
        mut after: impl FnMut(u64, &ThreadState) -> Result<()>,
    ) -> Result<Rebuilt> {
        let mut state = ThreadState::empty(thread);
        let mut summary: Option<ThreadSummary> = None;
        self.scan_entries(thread, 0, |stored| {
            let entry = stored.read(self)?;
            replay(rows, &mut state, &entry);
            summary = Some(summarise(summary.as_ref(), &state, &entry, rows));
            after(entry.seq, &state)?;
            Ok(true)
        })?;
        Ok(Rebuilt {
            snapshot: Snapshot {
                state,
                cursor: self.cursor(thread)?,
            },
            summary,
        })
    }
}

/// Rows that a rebuild holds before it writes them.
const HELD: usize = 256;

/// Rows on their way into the table: most change several times within a few entries, and are written once.
struct Gathered<'a> {
    rows: ThreadRows<'a>,
    held: BTreeMap<RowKey, Row>,
}

impl Gathered<'_> {
    fn write(&mut self) {
        for row in std::mem::take(&mut self.held).into_values() {
            self.rows.put(row);
        }
    }
}

impl Rows for Gathered<'_> {
    fn get(&self, key: RowKey) -> Option<Row> {
        match self.held.get(&key) {
            Some(row) => Some(row.clone()),
            None => self.rows.get(key),
        }
    }

    fn put(&mut self, row: Row) {
        self.held.insert(row.key(), row);
        if self.held.len() > HELD {
            self.write();
        }
    }
}

/// Rows in memory.
#[derive(Default)]
struct MapRows(BTreeMap<RowKey, Row>);

impl Rows for MapRows {
    fn get(&self, key: RowKey) -> Option<Row> {
        self.0.get(&key).cloned()
    }

    fn put(&mut self, row: Row) {
        self.0.insert(row.key(), row);
    }
}
