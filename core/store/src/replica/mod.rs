//! The replica's file: what a device keeps of its hosts. Several processes may have it open: all may read and append
//! to the outbox, one at a time owns the links.

mod feed;
mod hosts;
mod listed;
mod outbox;
mod threads;

pub use feed::{FeedApplied, SignedOut};
pub use hosts::HostRow;
pub use listed::{ThreadCounts, ThreadFilter, ThreadPlace};
pub use outbox::{Delivery, OutboxEntry, ParkReason};

use crate::{
    db::{Db, Durability, Schema},
    error::{Result, StoreError},
    lock::{self, Lease},
};
use pilothouse_domain::ThreadId;
use std::{
    ops::Deref,
    path::{Path, PathBuf},
};

/// Name of the file inside the data directory.
const FILE: &str = "replica.db";
/// Held for the moment of opening and migrating: SQLite cannot wait when two switch a new file to WAL at once.
const OPENING: &str = "replica.opening";
/// Held by the link owner.
const LEASE: &str = "links.lock";

pub(crate) const SCHEMA: Schema = Schema {
    mark: 0x5048_5231, // "PHR1"
    what: "replica",
    migrations: &[
        include_str!("../../migrations/replica/0001.sql"),
        include_str!("../../migrations/replica/0002.sql"),
        include_str!("../../migrations/replica/0003.sql"),
    ],
};

/// A writing connection to a device's replica.
#[derive(Debug)]
pub struct ReplicaStore {
    reads: ReplicaReads,
    dir: PathBuf,
}

impl ReplicaStore {
    /// Opens the replica of a data directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`StoreError::NewerDatabase`], [`StoreError::ReadOnly`], [`StoreError::DiskFull`] and
    /// [`StoreError::Corrupt`] as their names say. Other processes are waited for, never an error.
    pub fn open(dir: &Path) -> Result<Self> {
        lock::private_dir(dir)?;
        let _opening = Lease::wait(&dir.join(OPENING))?;
        let db = Db::open_writer(&dir.join(FILE), &SCHEMA)?;
        Ok(Self {
            reads: ReplicaReads::new(db)?,
            dir: dir.to_owned(),
        })
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A reader with a connection of its own.
    ///
    /// # Errors
    /// Any of the file.
    pub fn reader(&self) -> Result<ReplicaReader> {
        ReplicaReader::open(&self.dir)
    }

    /// Takes the ownership of the links, or `None` if another process (or another lease of this one) has it.
    ///
    /// # Errors
    /// If the lock file cannot be opened.
    pub fn try_lease(&self) -> Result<Option<Lease>> {
        match Lease::take(&self.dir.join(LEASE)) {
            Ok(lease) => Ok(Some(lease)),
            Err(StoreError::Locked { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The process that owns the links; `None` if none does.
    ///
    /// # Errors
    /// If the lock file cannot be asked.
    pub fn lease_holder(&self) -> Result<Option<u32>> {
        Lease::holder(&self.dir.join(LEASE))
    }

    /// Runs `work` in one transaction. It is kept only if `work` succeeds and every row could be read and written.
    ///
    /// # Errors
    /// What `work` returns, or why it could not be committed; nothing of it was kept then.
    pub fn transaction<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&mut ReplicaTx<'_>) -> std::result::Result<T, E>,
        durability: Durability,
    ) -> std::result::Result<T, E> {
        self.reads
            .db
            .transaction(durability, || work(&mut ReplicaTx { reads: &self.reads }))
    }
}

/// Reads outside a transaction see what was committed.
impl Deref for ReplicaStore {
    type Target = ReplicaReads;
    fn deref(&self) -> &ReplicaReads {
        &self.reads
    }
}

/// Everything that can be read of a replica. The writer, its transactions and readers all have it by `Deref`.
#[derive(Debug)]
pub struct ReplicaReads {
    pub(crate) db: Db,
    seen: std::cell::Cell<i64>,
}

impl ReplicaReads {
    fn new(db: Db) -> Result<Self> {
        let seen = std::cell::Cell::new(db.data_version()?);
        Ok(Self { db, seen })
    }

    /// Whether another connection, in whichever process, has written since this was asked last (or since opening).
    /// Costs no file access while nothing has changed; ask it by a timer.
    ///
    /// # Errors
    /// Any of the file.
    pub fn changed_since(&self) -> Result<bool> {
        let now = self.db.data_version()?;
        Ok(self.seen.replace(now) != now)
    }

    pub(crate) fn find_number(&self, thread: ThreadId) -> Result<Option<i64>> {
        self.db.one(
            "looking for a thread",
            "SELECT number FROM threads WHERE thread = ?1",
            [thread.as_bytes()],
            |row| row.get(0),
        )
    }

    /// A setting.
    ///
    /// # Errors
    /// Any of the file.
    pub fn setting(&self, key: &str) -> Result<Option<String>> {
        self.db.one(
            "reading a setting",
            "SELECT value FROM settings WHERE key = ?1",
            [key],
            |row| row.get(0),
        )
    }
}

/// A connection of its own for reading.
#[derive(Debug)]
pub struct ReplicaReader {
    reads: ReplicaReads,
}

impl ReplicaReader {
    /// Opens the replica of a data directory for reading; a writer has to have opened it before.
    ///
    /// # Errors
    /// Any of the file.
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self {
            reads: ReplicaReads::new(Db::open_reader(&dir.join(FILE), &SCHEMA)?)?,
        })
    }

    /// Runs `work` on one unchanging view of the replica.
    ///
    /// # Errors
    /// What `work` returns, or why it could not begin.
    pub fn consistent<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&ReplicaReads) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.reads.db.consistent(|| work(&self.reads))
    }
}

impl Deref for ReplicaReader {
    type Target = ReplicaReads;
    fn deref(&self) -> &ReplicaReads {
        &self.reads
    }
}

/// One transaction of the replica: all of [`ReplicaReads`] and everything that writes.
#[derive(Debug)]
pub struct ReplicaTx<'a> {
    reads: &'a ReplicaReads,
}

impl Deref for ReplicaTx<'_> {
    type Target = ReplicaReads;
    fn deref(&self) -> &ReplicaReads {
        self.reads
    }
}

impl ReplicaTx<'_> {
    pub(crate) fn db(&self) -> &Db {
        &self.reads.db
    }

    /// Keeps a setting.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_setting(&self, key: &str, value: &str) -> Result<()> {
        self.db().write(
            "keeping a setting",
            "INSERT OR REPLACE INTO settings (key, value) VALUES (?1, ?2)",
            (key, value),
        )?;
        Ok(())
    }
}
