//! The ledger's file: one writer ([`LedgerStore`]), any number of readers ([`LedgerReader`]).

mod bindings;
mod commands;
mod devices;
mod feed;
mod log;
mod reads;
pub(crate) mod rebuild;
mod threads;

pub use bindings::ThreadBindings;
pub use commands::StoredEffect;
pub use devices::DeviceRow;
pub use feed::FeedChange;
pub use reads::{LedgerReader, LedgerReads};
pub use rebuild::{Difference, Rebuilt};

use crate::{
    codec::{int, nat},
    db::{Db, Durability, Schema},
    error::{Result, StoreError},
    lock::{self, Lease},
};
use pilothouse_domain::{Chain, Epoch, ThreadId};
use std::{
    cell::RefCell,
    collections::HashMap,
    ops::Deref,
    path::{Path, PathBuf},
};

/// Name of the file inside the ledger's directory.
const FILE: &str = "ledger.db";
/// Transactions after which the write-ahead log is worth moving into the database: at about ten pages each a quarter of
/// what makes a commit do it itself.
const CHECKPOINT_AFTER: u32 = 64;
/// Name of the lock file beside it.
const LOCK: &str = "ledger.lock";

pub(crate) const SCHEMA: Schema = Schema {
    mark: 0x5048_4c31, // "PHL1"
    what: "ledger",
    migrations: &[
        include_str!("../../migrations/ledger/0001.sql"),
        include_str!("../../migrations/ledger/0002.sql"),
    ],
};

/// The one writer of a ledger's file. Move it into the thread that owns it; others open [`LedgerReader`]s.
///
/// ```
/// use pilothouse_domain::{Cause, Epoch, ThreadId};
/// use pilothouse_store::{Durability, LedgerStore, StoreError};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let mut store = LedgerStore::open(dir.path(), Epoch::from_bytes([7; 16]))?;
/// let thread = ThreadId::from_bytes([1; 16]);
/// let entry = store.transaction(
///     |tx| tx.append(thread, Cause::Clock, 0, Vec::new()),
///     Durability::Synced,
/// )?;
/// assert_eq!(store.reader()?.cursor(thread)?, entry.cursor());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LedgerStore {
    reads: LedgerReads,
    /// Thread numbers that are committed; a lookup per append saved.
    numbers: RefCell<HashMap<ThreadId, i64>>,
    epoch: Epoch,
    boot: u64,
    dir: PathBuf,
    _lock: Lease,
}

impl LedgerStore {
    /// Opens the ledger of a directory, which is made if it is not there, and counts this boot (synced).
    ///
    /// `fresh_epoch` has to be random; it is used only if the ledger is new.
    ///
    /// # Errors
    /// [`StoreError::Locked`] names the process that has it open; [`StoreError::NewerDatabase`],
    /// [`StoreError::ReadOnly`], [`StoreError::DiskFull`] and [`StoreError::Corrupt`] as their names say.
    pub fn open(dir: &Path, fresh_epoch: Epoch) -> Result<Self> {
        lock::private_dir(dir)?;
        let lock = Lease::take(&dir.join(LOCK))?;
        let db = Db::open_writer(&dir.join(FILE), &SCHEMA)?;
        let (epoch, boot) = db.transaction(Durability::Synced, || count_boot(&db, fresh_epoch))?;
        Ok(Self {
            reads: LedgerReads::new(db, epoch),
            numbers: RefCell::default(),
            epoch,
            boot,
            dir: dir.to_owned(),
            _lock: lock,
        })
    }

    /// The epoch of the data.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How often the ledger was opened, this time included; synced before [`LedgerStore::open`] returned.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts a new epoch: what a person does after a backup was restored. Every device's cursor is a gap then.
    ///
    /// # Errors
    /// Any of the file.
    pub fn new_epoch(&mut self, epoch: Epoch, now_ms: u64) -> Result<()> {
        let db = &self.reads.db;
        db.transaction(Durability::Synced, || {
            db.write(
                "starting an epoch",
                "UPDATE ledger SET epoch = ?1",
                [epoch.as_bytes()],
            )?;
            db.write(
                "starting an epoch",
                "INSERT OR IGNORE INTO epochs (epoch, started_ms) VALUES (?1, ?2)",
                (epoch.as_bytes(), int(now_ms)),
            )?;
            Ok::<_, StoreError>(())
        })?;
        self.epoch = epoch;
        self.reads.epoch.set(epoch);
        Ok(())
    }

    /// A reader with a connection of its own.
    ///
    /// # Errors
    /// Any of the file.
    pub fn reader(&self) -> Result<LedgerReader> {
        LedgerReader::open(&self.dir)
    }

    /// Runs `work` in one transaction. It is kept only if `work` succeeds and every row could be read and written;
    /// [`Durability::Synced`] returns after one fsync, which covers lazy transactions before it as well.
    ///
    /// # Errors
    /// What `work` returns, or why it could not be committed; nothing of it was kept then.
    pub fn transaction<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&mut LedgerTx<'_>) -> std::result::Result<T, E>,
        durability: Durability,
    ) -> std::result::Result<T, E> {
        // Numbers given inside go with a rollback, whether by an error or by a panic.
        let mut forget = ForgetNumbers {
            numbers: &self.numbers,
            committed: false,
        };
        let value = self
            .reads
            .db
            .transaction(durability, || work(&mut LedgerTx { store: self }))?;
        forget.committed = true;
        Ok(value)
    }

    /// Whether enough was written since the last [`LedgerStore::checkpoint`] that an idle moment should be used for one.
    pub fn wants_checkpoint(&self) -> bool {
        self.reads.db.commits() >= CHECKPOINT_AFTER
    }

    /// Moves the write-ahead log into the database as far as no reader stands in the way; for idle moments, so that
    /// commits do not have to. Returns what is left in the log, in pages of 4 KiB.
    ///
    /// # Errors
    /// Any of the file.
    pub fn checkpoint(&mut self) -> Result<u64> {
        self.reads.db.checkpoint()
    }
}

struct ForgetNumbers<'a> {
    numbers: &'a RefCell<HashMap<ThreadId, i64>>,
    committed: bool,
}

impl Drop for ForgetNumbers<'_> {
    fn drop(&mut self) {
        if !self.committed {
            self.numbers.borrow_mut().clear();
        }
    }
}

/// Reads outside a transaction see what was committed.
impl Deref for LedgerStore {
    type Target = LedgerReads;
    fn deref(&self) -> &LedgerReads {
        &self.reads
    }
}

/// One transaction of the writer: all of [`LedgerReads`] and everything that writes.
#[derive(Debug)]
pub struct LedgerTx<'a> {
    store: &'a LedgerStore,
}

impl Deref for LedgerTx<'_> {
    type Target = LedgerReads;
    fn deref(&self) -> &LedgerReads {
        &self.store.reads
    }
}

impl LedgerTx<'_> {
    pub(crate) fn db(&self) -> &Db {
        &self.store.reads.db
    }

    /// The number of a thread, given now if it has none.
    pub(crate) fn number(&self, thread: ThreadId) -> Result<i64> {
        if let Some(number) = self.store.numbers.borrow().get(&thread) {
            return Ok(*number);
        }
        let number = match self.find_number(thread)? {
            Some(number) => number,
            None => {
                self.db().write(
                    "making a thread's log",
                    "INSERT INTO threads (thread, chain) VALUES (?1, ?2)",
                    (thread.as_bytes(), Chain::default().0.as_bytes()),
                )?;
                self.db().last_rowid()
            }
        };
        self.store.numbers.borrow_mut().insert(thread, number);
        Ok(number)
    }
}

fn count_boot(db: &Db, fresh: Epoch) -> Result<(Epoch, u64)> {
    let doing = "counting the boot";
    db.write(
        doing,
        "INSERT OR IGNORE INTO ledger (one, epoch, boot) VALUES (1, ?1, 0)",
        [fresh.as_bytes()],
    )?;
    db.write(doing, "UPDATE ledger SET boot = boot + 1", [])?;
    db.write(
        doing,
        "INSERT OR IGNORE INTO epochs (epoch, started_ms) SELECT epoch, 0 FROM ledger",
        [],
    )?;
    db.one(doing, "SELECT epoch, boot FROM ledger", [], |row| {
        Ok((Epoch::from_bytes(row.get(0)?), nat(row.get(1)?)))
    })?
    .ok_or_else(|| db.corrupt(doing, "the ledger's own row is missing"))
}
