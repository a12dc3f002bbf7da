//! The summary feed and what waits for a person, over all threads.

use super::{LedgerReads, LedgerTx};
use crate::{
    codec::{from_json, int, nat, to_json},
    error::Result,
    rows,
};
use pilothouse_domain::{
    RuntimeRequest, ThreadId, ThreadSummary,
    event::HoldReason,
    row::{InboxEntry, WaitingCounts},
};

/// A change of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedChange {
    /// Its place in the feed.
    pub revision: u64,
    /// The thread.
    pub thread: ThreadId,
    /// Its line now; `None` if it left the list.
    pub summary: Option<ThreadSummary>,
}

impl LedgerTx<'_> {
    /// Puts a thread's line into the feed; returns the feed's revision.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_summary(&self, summary: &ThreadSummary) -> Result<u64> {
        self.put_feed(summary.thread, Some(to_json(summary)))
    }

    /// Takes a thread out of the list; returns the feed's revision.
    ///
    /// # Errors
    /// Any of the file.
    pub fn remove_summary(&self, thread: ThreadId) -> Result<u64> {
        self.put_feed(thread, None)
    }

    fn put_feed(&self, thread: ThreadId, json: Option<String>) -> Result<u64> {
        let revision = self.feed_revision()? + 1;
        self.db().write(
            "writing the summary feed",
            "INSERT OR REPLACE INTO summaries (thread, revision, json) VALUES (?1, ?2, ?3)",
            (thread.as_bytes(), int(revision), json),
        )?;
        Ok(revision)
    }
}

impl LedgerReads {
    /// The feed's last revision; 0 for an empty one.
    ///
    /// # Errors
    /// Any of the file.
    pub fn feed_revision(&self) -> Result<u64> {
        Ok(self
            .db
            .one(
                "reading the summary feed",
                "SELECT max(revision) FROM summaries",
                [],
                |row| row.get::<_, Option<i64>>(0),
            )?
            .flatten()
            .map_or(0, nat))
    }

    /// Changes of the feed after a revision, in order, at most `limit`. A thread stands at its last change only.
    ///
    /// # Errors
    /// Any of the file.
    pub fn summaries_since(&self, revision: u64, limit: usize) -> Result<Vec<FeedChange>> {
        let doing = "reading the summary feed";
        let mut out = Vec::new();
        self.db.scan(
            doing,
            "SELECT revision, thread, json FROM summaries WHERE revision > ?1 ORDER BY revision LIMIT ?2",
            (int(revision), int(limit as u64)),
            |row| {
                let (revision, thread, json) = (|| {
                    Ok((
                        nat(row.get(0)?),
                        ThreadId::from_bytes(row.get(1)?),
                        row.get::<_, Option<String>>(2)?,
                    ))
                })()
                .map_err(self.db.fail(doing))?;
                out.push(FeedChange {
                    revision,
                    thread,
                    summary: json
                        .map(|json| from_json(&self.db, doing, &json))
                        .transpose()?,
                });
                Ok(true)
            },
        )?;
        Ok(out)
    }

    /// The lines of threads whose queues are held for that reason.
    ///
    /// # Errors
    /// Any of the file.
    pub fn summaries_held(&self, reason: HoldReason) -> Result<Vec<ThreadSummary>> {
        let doing = "reading the summary feed";
        let word = serde_json::to_string(&reason).unwrap_or_default();
        let mut out = Vec::new();
        // Quotes in a text are written otherwise: what is found so is the field, or is left out below.
        self.db.scan(
            doing,
            "SELECT json FROM summaries WHERE instr(json, ?1) > 0",
            [format!("\"held\":{word}")],
            |row| {
                let json: String = row.get(0).map_err(self.db.fail(doing))?;
                let summary: ThreadSummary = from_json(&self.db, doing, &json)?;
                if summary.held == Some(reason) {
                    out.push(summary);
                }
                Ok(true)
            },
        )?;
        Ok(out)
    }

    /// A thread's line in the feed.
    ///
    /// # Errors
    /// Any of the file.
    pub fn summary(&self, thread: ThreadId) -> Result<Option<ThreadSummary>> {
        let doing = "reading the summary feed";
        let json = self.db.one(
            doing,
            "SELECT json FROM summaries WHERE thread = ?1",
            [thread.as_bytes()],
            |row| row.get::<_, Option<String>>(0),
        )?;
        json.flatten()
            .map(|json| from_json(&self.db, doing, &json))
            .transpose()
    }

    /// Every open request (pending, or with an answer on its way) of all threads, oldest first.
    ///
    /// # Errors
    /// Any of the file.
    pub fn open_requests(&self) -> Result<Vec<InboxEntry>> {
        let doing = "reading open requests";
        let mut out = Vec::new();
        self.db.scan(
            doing,
            "SELECT threads.thread, rows.json FROM rows INDEXED BY rows_open \
             JOIN threads ON threads.number = rows.thread WHERE rows.open IS NOT NULL ORDER BY rows.row",
            [],
            |row| {
                let (thread, json) = (|| {
                    Ok((
                        ThreadId::from_bytes(row.get(0)?),
                        row.get::<_, String>(1)?,
                    ))
                })()
                .map_err(self.db.fail(doing))?;
                out.push(InboxEntry {
                    thread,
                    request: from_json(&self.db, doing, &json)?,
                });
                Ok(true)
            },
        )?;
        Ok(out)
    }

    /// A thread's open requests, oldest first.
    ///
    /// # Errors
    /// Any of the file.
    pub fn open_requests_of(&self, thread: ThreadId) -> Result<Vec<RuntimeRequest>> {
        let doing = "reading open requests";
        let mut out = Vec::new();
        self.db.scan(
            doing,
            "SELECT json FROM rows INDEXED BY rows_open WHERE open IN (1, 2, 3) AND thread = (SELECT number FROM threads WHERE thread = ?1) \
             ORDER BY row",
            [thread.as_bytes()],
            |row| {
                let json: String = row.get(0).map_err(self.db.fail(doing))?;
                out.push(from_json(&self.db, doing, &json)?);
                Ok(true)
            },
        )?;
        Ok(out)
    }

    /// How much waits for a person, over all threads; requests that are being answered do not count.
    ///
    /// # Errors
    /// Any of the file.
    pub fn waiting_counts(&self) -> Result<WaitingCounts> {
        let marks = self.db.all(
            "counting open requests",
            "SELECT open, count(*) FROM rows INDEXED BY rows_open WHERE open IS NOT NULL GROUP BY open",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        Ok(rows::waiting(&marks))
    }
}
