//! What can go wrong with a store, as situations a caller can act on.

use pilothouse_domain::{ItemId, ThreadId};
use std::path::PathBuf;

/// A store could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file was written by a newer version of this program. Nothing was changed.
    #[error(
        "{} has database version {found}, this program knows up to {known}: update this program, or choose another data directory",
        path.display()
    )]
    NewerDatabase {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version this program knows.
        known: u32,
    },
    /// Another process has it open.
    #[error(
        "{} is in use by {}: stop that process first, or choose another directory",
        path.display(),
        pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds it, where its file says so.
        pid: Option<u32>,
    },
    /// No room left. Nothing of the transaction was kept.
    #[error("no room left on the disk of {} while {doing}: free some space and try again", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
    },
    /// The file or its directory cannot be written.
    #[error(
        "{} cannot be written ({doing}): make its directory writable for this user, or choose another data directory",
        path.display()
    )]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
    },
    /// What stands in the file is not what was written.
    #[error(
        "{} is damaged ({doing}): {detail}; stop the program, keep a copy of the directory, and restore a backup or start with an empty one",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What was found.
        detail: String,
    },
    /// Another process kept the database for itself longer than the busy timeout.
    #[error("{} was busy for too long while {doing}: try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
    },
    /// Anything else that SQLite reports.
    #[error("{} failed while {doing}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// SQLite's word.
        source: rusqlite::Error,
    },
    /// A file operation outside SQLite failed.
    #[error("{} failed while {doing}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The system's word.
        source: std::io::Error,
    },
    /// A piece of an open item's text does not stand right behind what was saved.
    #[error("text of item {item} is saved up to byte {ends_at}, but a piece at byte {offset} came")]
    OutOfPlace {
        /// The item.
        item: ItemId,
        /// Where the saved text ends, UTF-8 bytes.
        ends_at: u64,
        /// Where the piece would begin.
        offset: u64,
    },
    /// Entries do not follow the place up to which a thread was applied.
    #[error(
        "thread {thread} is applied up to entry {applied}, but entry {came} came: subscribe again"
    )]
    Gap {
        /// The thread.
        thread: ThreadId,
        /// Sequence number of the last entry applied.
        applied: u64,
        /// That of the entry that came.
        came: u64,
    },
    /// Something that has to be stored before is not there.
    #[error("there is no {what} in {}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What.
        what: String,
    },
}

impl StoreError {
    /// Whether trying the same again later may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::DiskFull { .. } | Self::Busy { .. })
    }
}

/// What the store's functions return.
pub(crate) type Result<T> = std::result::Result<T, StoreError>;
