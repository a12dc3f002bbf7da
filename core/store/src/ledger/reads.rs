//! What can be read of a ledger, by its writer and by readers alike.

use super::{FILE, SCHEMA};
use crate::{db::Db, error::Result, error::StoreError};
use pilothouse_domain::{Epoch, ThreadId};
use std::{cell::Cell, ops::Deref, path::Path};

/// Everything that can be read of a ledger. The writer, its transactions and readers all have it by `Deref`.
#[derive(Debug)]
pub struct LedgerReads {
    pub(crate) db: Db,
    pub(crate) epoch: Cell<Epoch>,
}

impl LedgerReads {
    pub(crate) fn new(db: Db, epoch: Epoch) -> Self {
        Self {
            db,
            epoch: Cell::new(epoch),
        }
    }

    /// The number of a thread.
    pub(crate) fn find_number(&self, thread: ThreadId) -> Result<Option<i64>> {
        self.db.one(
            "looking for a thread",
            "SELECT number FROM threads WHERE thread = ?1",
            [thread.as_bytes()],
            |row| row.get(0),
        )
    }

    /// Every thread that has a log, in the order in which they were made.
    ///
    /// # Errors
    /// Any of the file.
    pub fn threads(&self) -> Result<Vec<ThreadId>> {
        self.db.all(
            "listing threads",
            "SELECT thread FROM threads WHERE seq > 0 ORDER BY number",
            [],
            |row| row.get(0).map(ThreadId::from_bytes),
        )
    }
}

impl LedgerReads {
    /// What SQLite finds wrong in the file's pages, in words; nothing if it is whole. Reads the whole file.
    ///
    /// # Errors
    /// Any of the file; [`StoreError::Corrupt`] if it cannot even be looked through.
    pub fn quick_check(&self) -> Result<Vec<String>> {
        let found = self.db.all(
            "checking the database",
            "PRAGMA quick_check(8)",
            [],
            |row| row.get::<_, String>(0),
        )?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }

    /// The newest format among the last entries of all logs; 0 without any.
    ///
    /// # Errors
    /// Any of the file.
    pub fn newest_log_format(&self) -> Result<u16> {
        let newest = self.db.one(
            "reading the log's format",
            "SELECT max(log_format) FROM threads JOIN entries ON place = (number << 40) + seq",
            [],
            |row| row.get::<_, Option<u16>>(0),
        )?;
        Ok(newest.flatten().unwrap_or_default())
    }
}

/// A connection of its own for reading: serves subscriptions without the writer. Can be moved to another thread.
///
/// Outside [`LedgerReader::consistent`] each call sees what is committed at that moment, so two calls may see two
/// places of a log.
#[derive(Debug)]
pub struct LedgerReader {
    reads: LedgerReads,
}

impl LedgerReader {
    /// Opens the ledger of a directory for reading; its writer has to have opened it before.
    ///
    /// # Errors
    /// Any of the file.
    pub fn open(dir: &Path) -> Result<Self> {
        let db = Db::open_reader(&dir.join(FILE), &SCHEMA)?;
        let reader = Self {
            reads: LedgerReads::new(db, Epoch::default()),
        };
        reader.refresh_epoch()?;
        Ok(reader)
    }

    /// Runs `work` on one unchanging view of the ledger, so that a snapshot, its rows and its open texts fit
    /// together. Keep it short: the write-ahead log cannot be cut back meanwhile.
    ///
    /// # Errors
    /// What `work` returns, or why it could not begin.
    pub fn consistent<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&LedgerReads) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.reads.db.consistent(|| {
            self.refresh_epoch()?;
            work(&self.reads)
        })
    }

    fn refresh_epoch(&self) -> Result<()> {
        let epoch = self
            .reads
            .db
            .one("reading the epoch", "SELECT epoch FROM ledger", [], |row| {
                row.get(0).map(Epoch::from_bytes)
            })?
            .unwrap_or_default();
        self.reads.epoch.set(epoch);
        Ok(())
    }
}

impl Deref for LedgerReader {
    type Target = LedgerReads;
    fn deref(&self) -> &LedgerReads {
        &self.reads
    }
}
