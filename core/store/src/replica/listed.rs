//! The list of threads, read as a window: by indices in its order, counted by triggers, whatever its length.

use super::ReplicaReads;
use crate::{
    codec::{from_json, int, nat},
    error::Result,
};
use pilothouse_domain::{HostId, ThreadId, ThreadSummary, row::Standing};
use rusqlite::{Params, Row};

/// Which threads a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadFilter {
    /// Those of a host; `None` for those of all hosts.
    pub host: Option<HostId>,
    /// Those that stand so; `None` for all that are not archived.
    pub standing: Option<Standing>,
}

/// A place in the list of threads: what changed last stands first, then the greater id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadPlace {
    /// Host time of the thread's last entry, Unix ms.
    pub updated_at_ms: u64,
    /// The thread.
    pub thread: ThreadId,
    /// Its host.
    pub host: HostId,
}

impl ThreadPlace {
    /// Before every thread.
    pub const START: Self = Self {
        updated_at_ms: u64::MAX,
        thread: ThreadId::from_bytes([0xff; 16]),
        host: HostId::from_bytes([0xff; 16]),
    };

    /// The place of a line.
    pub fn of(host: HostId, summary: &ThreadSummary) -> Self {
        Self {
            updated_at_ms: summary.updated_at_ms,
            thread: summary.thread,
            host,
        }
    }
}

/// How many threads stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the cases of `Standing`")]
pub struct ThreadCounts {
    pub waiting: u64,
    pub running: u64,
    pub archived: u64,
    pub failed: u64,
    pub resting: u64,
}

impl ThreadCounts {
    /// All that are not archived.
    pub fn all(&self) -> u64 {
        self.waiting + self.running + self.failed + self.resting
    }
}

/// The number in the column `standing`.
pub(super) fn number(standing: Standing) -> i64 {
    match standing {
        Standing::Waiting => 1,
        Standing::Running => 2,
        Standing::Archived => 3,
        Standing::Failed => 4,
        Standing::Resting => 5,
    }
}

/// The beginning of a page's statement, and its condition on the place.
const PAGE: &str = "SELECT host, json FROM summaries INDEXED BY";
const BEFORE: &str = "(updated_at_ms, thread, host) < (?1, ?2, ?3) \
                      ORDER BY updated_at_ms DESC, thread DESC, host DESC LIMIT ?4";

impl ReplicaReads {
    /// Lines of threads behind a place of the list, in its order, at most `limit`.
    ///
    /// # Errors
    /// Any of the file.
    pub fn threads_after(
        &self,
        filter: ThreadFilter,
        place: ThreadPlace,
        limit: usize,
    ) -> Result<Vec<(HostId, ThreadSummary)>> {
        let (at, thread, before) = (
            int(place.updated_at_ms),
            place.thread.as_bytes(),
            place.host.as_bytes(),
        );
        let limit = int(limit as u64);
        match (filter.host, filter.standing) {
            (None, None) => self.lines(
                &format!("{PAGE} summaries_order WHERE standing <> 3 AND {BEFORE}"),
                (at, thread, before, limit),
            ),
            (Some(host), None) => self.lines(
                &format!("{PAGE} summaries_host WHERE standing <> 3 AND host = ?5 AND {BEFORE}"),
                (at, thread, before, limit, host.as_bytes()),
            ),
            (None, Some(standing)) => self.lines(
                &format!("{PAGE} summaries_standing WHERE standing = ?5 AND {BEFORE}"),
                (at, thread, before, limit, number(standing)),
            ),
            // Passes over the other hosts' threads that stand so, in the index.
            (Some(host), Some(standing)) => self.lines(
                &format!(
                    "{PAGE} summaries_standing WHERE standing = ?5 AND host = ?6 AND {BEFORE}"
                ),
                (at, thread, before, limit, number(standing), host.as_bytes()),
            ),
        }
    }

    /// Lines of threads whose id lies between two (both included), archived or not, at most `limit`.
    ///
    /// # Errors
    /// Any of the file.
    pub fn threads_between(
        &self,
        first: ThreadId,
        last: ThreadId,
        limit: usize,
    ) -> Result<Vec<(HostId, ThreadSummary)>> {
        self.lines(
            "SELECT summaries.host, summaries.json FROM hosts CROSS JOIN summaries \
             WHERE summaries.host = hosts.host AND summaries.thread BETWEEN ?1 AND ?2 LIMIT ?3",
            (first.as_bytes(), last.as_bytes(), int(limit as u64)),
        )
    }

    /// How many threads stand where, on a host or on all.
    ///
    /// # Errors
    /// Any of the file.
    pub fn thread_counts(&self, host: Option<HostId>) -> Result<ThreadCounts> {
        let mut counts = ThreadCounts::default();
        self.db.scan(
            "counting threads",
            "SELECT standing, threads FROM thread_counts WHERE ?1 IS NULL OR host = ?1",
            [host.as_ref().map(HostId::as_bytes)],
            |row| {
                let (standing, threads) = (|| Ok((row.get::<_, i64>(0)?, nat(row.get(1)?))))()
                    .map_err(self.db.fail("counting threads"))?;
                match standing {
                    1 => counts.waiting += threads,
                    2 => counts.running += threads,
                    3 => counts.archived += threads,
                    4 => counts.failed += threads,
                    _ => counts.resting += threads,
                }
                Ok(true)
            },
        )?;
        Ok(counts)
    }

    fn lines(&self, sql: &str, params: impl Params) -> Result<Vec<(HostId, ThreadSummary)>> {
        let doing = "reading summaries";
        let mut out = Vec::new();
        self.db.scan(doing, sql, params, |row: &Row<'_>| {
            let host = row
                .get(0)
                .map(HostId::from_bytes)
                .map_err(self.db.fail(doing))?;
            let json = row
                .get_ref(1)
                .and_then(|value| value.as_str().map_err(Into::into))
                .map_err(self.db.fail(doing))?;
            out.push((host, from_json(&self.db, doing, json)?));
            Ok(true)
        })?;
        Ok(out)
    }
}
