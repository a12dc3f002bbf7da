//! A connection to one SQLite file: pragmas, migrations, transactions, and errors that name the file.

use crate::{
    codec::nat,
    error::{Result, StoreError},
    lock,
};
use rusqlite::{Connection, ErrorCode, OpenFlags, Params, Row, ffi};
use std::{
    cell::{Cell, RefCell},
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a statement waits for another process before it gives up.
const BUSY: Duration = Duration::from_secs(10);
/// Pages of 4 KiB in the write-ahead log after which a commit moves them into the database itself, because no idle
/// moment came before: 12 MiB, so that with the largest usual transaction it stays under the 16 MiB of DESIGN section 11.
const WAL_PAGES: i64 = 3 * 1024;
/// The file of the write-ahead log is cut back to this size, bytes, when it starts anew.
const WAL_BYTES: i64 = 16 * 1024 * 1024;
/// KiB of pages that a reader keeps to itself. There is one for each subscription, and the system keeps the file's pages
/// anyway; the default would be 2,000.
const READER_KIB: u32 = 512;
/// Prepared statements kept per connection; above the number of different statements there are.
const STATEMENTS: usize = 160;

/// How sure a commit is when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk: it survives a power cut. One fsync.
    Synced,
    /// In the system's hands: it survives the process's death, and a power cut may take it (the chain tells).
    Lazy,
}

/// The numbered migrations of a file, and the mark by which it is known.
pub(crate) struct Schema {
    /// `application_id`: which kind of file it is.
    pub(crate) mark: i32,
    /// What the file is, for a person.
    pub(crate) what: &'static str,
    /// SQL texts, the first is version 1.
    pub(crate) migrations: &'static [&'static str],
}

impl Schema {
    fn version(&self) -> u32 {
        u32::try_from(self.migrations.len()).unwrap_or(u32::MAX)
    }
}

/// A connection that knows its file's name.
pub(crate) struct Db {
    conn: Connection,
    path: PathBuf,
    synced: Cell<bool>,
    /// Transactions that changed something since the write-ahead log was last moved into the database.
    commits: Cell<u32>,
    /// A failure inside a callback that cannot return one; refuses the commit.
    fault: RefCell<Option<StoreError>>,
    /// Rows that were stepped over without an index that leads to them.
    #[cfg(test)]
    scanned: Cell<i32>,
    /// Steps of SQLite's machine that reads took.
    #[cfg(test)]
    steps: Cell<i32>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Db").field(&self.path).finish()
    }
}

impl Db {
    /// Opens a file for writing, makes it if it is not there, and brings it to the newest version.
    pub(crate) fn open_writer(path: &Path, schema: &Schema) -> Result<Self> {
        // SQLite gives its other files the mode of this one.
        lock::private_file(path)
            .map_err(|source| lock::io_error(path, "opening the database", source))?;
        let conn = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .map_err(|source| sort(path, "opening the database", source))?;
        let db = Self::wrap(conn, path);
        db.run(
            "setting up the connection",
            &format!(
                "PRAGMA busy_timeout = {}; PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY; \
                 PRAGMA secure_delete = ON;",
                BUSY.as_millis()
            ),
        )?;
        // Before anything is changed: a newer file stays as it is.
        db.check_version(schema)?;
        db.run(
            "setting up the database",
            &format!(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = {WAL_PAGES}; \
                 PRAGMA journal_size_limit = {WAL_BYTES};"
            ),
        )?;
        db.migrate(schema)?;
        Ok(db)
    }

    /// Opens a file that a writer made, for reading only.
    pub(crate) fn open_reader(path: &Path, schema: &Schema) -> Result<Self> {
        let conn = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .map_err(|source| sort(path, "opening the database for reading", source))?;
        let db = Self::wrap(conn, path);
        db.run(
            "setting up the connection",
            &format!(
                "PRAGMA busy_timeout = {}; PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; \
                 PRAGMA cache_size = -{READER_KIB};",
                BUSY.as_millis()
            ),
        )?;
        let found = db.check_version(schema)?;
        if found < schema.version() {
            return Err(StoreError::Missing {
                path: path.to_owned(),
                what: format!("{} of version {}", schema.what, schema.version()),
            });
        }
        Ok(db)
    }

    fn wrap(conn: Connection, path: &Path) -> Self {
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        Self {
            conn,
            path: path.to_owned(),
            synced: Cell::new(false),
            commits: Cell::new(0),
            fault: RefCell::new(None),
            #[cfg(test)]
            scanned: Cell::new(0),
            #[cfg(test)]
            steps: Cell::new(0),
        }
    }

    /// Rows stepped over without an index that leads to them, since this was asked last.
    #[cfg(test)]
    pub(crate) fn take_scanned(&self) -> i32 {
        self.scanned.take()
    }

    /// Steps of SQLite's machine that reads took since this was asked last: work, whatever the clock says.
    #[cfg(test)]
    pub(crate) fn take_steps(&self) -> i32 {
        self.steps.take()
    }

    #[cfg(test)]
    fn note_scanned(&self, statement: &rusqlite::Statement<'_>) {
        let steps = statement.reset_status(rusqlite::StatementStatus::VmStep);
        self.steps.set(self.steps.get() + steps);
        let steps = statement.reset_status(rusqlite::StatementStatus::FullscanStep);
        self.scanned.set(self.scanned.get() + steps);
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sorts SQLite's error into what a caller can act on.
    pub(crate) fn fail(&self, doing: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
        move |source| sort(&self.path, doing, source)
    }

    /// Says that something in the file is not as written.
    pub(crate) fn corrupt(&self, doing: &'static str, detail: impl Into<String>) -> StoreError {
        StoreError::Corrupt {
            path: self.path.clone(),
            doing,
            detail: detail.into(),
        }
    }

    /// Runs statements without parameters or results.
    pub(crate) fn run(&self, doing: &'static str, sql: &str) -> Result<()> {
        self.conn.execute_batch(sql).map_err(self.fail(doing))
    }

    /// Runs one statement, prepared once; returns the number of rows changed.
    pub(crate) fn write(
        &self,
        doing: &'static str,
        sql: &str,
        params: impl Params,
    ) -> Result<usize> {
        self.conn
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params))
            .map_err(self.fail(doing))
    }

    /// Reads at most one row.
    pub(crate) fn one<T>(
        &self,
        doing: &'static str,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.conn.prepare_cached(sql).map_err(self.fail(doing))?;
        let mut rows = statement.query(params).map_err(self.fail(doing))?;
        let found = match rows.next().map_err(self.fail(doing))? {
            Some(row) => read(row).map(Some).map_err(self.fail(doing)),
            None => Ok(None),
        };
        drop(rows);
        #[cfg(test)]
        self.note_scanned(&statement);
        found
    }

    /// Reads all rows.
    pub(crate) fn all<T>(
        &self,
        doing: &'static str,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut out = Vec::new();
        self.scan(doing, sql, params, |row| {
            out.push(read(row).map_err(self.fail(doing))?);
            Ok(true)
        })?;
        Ok(out)
    }

    /// Reads rows until `each` says `false`.
    pub(crate) fn scan(
        &self,
        doing: &'static str,
        sql: &str,
        params: impl Params,
        mut each: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut statement = self.conn.prepare_cached(sql).map_err(self.fail(doing))?;
        let mut rows = statement.query(params).map_err(self.fail(doing))?;
        while let Some(row) = rows.next().map_err(self.fail(doing))? {
            if !each(row)? {
                break;
            }
        }
        drop(rows);
        #[cfg(test)]
        self.note_scanned(&statement);
        Ok(())
    }

    /// The rowid of the last insert.
    pub(crate) fn last_rowid(&self) -> i64 {
        self.conn.last_insert_rowid()
    }

    /// Notes a failure that cannot be returned; the transaction will not commit.
    pub(crate) fn note_fault(&self, error: StoreError) {
        self.fault.borrow_mut().get_or_insert(error);
    }

    /// Runs `work` in a transaction that is kept only if it succeeds and nothing went wrong on the way.
    pub(crate) fn transaction<T, E: From<StoreError>>(
        &self,
        durability: Durability,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.set_synced(durability == Durability::Synced)?;
        self.fault.borrow_mut().take();
        let changes = self.conn.total_changes();
        self.write("beginning a transaction", "BEGIN IMMEDIATE", [])?;
        let open = OpenTransaction(self);
        let value = work()?;
        if let Some(fault) = self.fault.borrow_mut().take() {
            return Err(fault.into());
        }
        self.write("committing", "COMMIT", [])?;
        drop(open);
        if self.conn.total_changes() != changes {
            self.commits.set(self.commits.get().saturating_add(1));
        }
        Ok(value)
    }

    /// Transactions that changed something since [`Db::checkpoint`].
    pub(crate) fn commits(&self) -> u32 {
        self.commits.get()
    }

    /// Moves the write-ahead log into the database as far as no reader stands in the way; returns the pages left in it.
    pub(crate) fn checkpoint(&self) -> Result<u64> {
        self.commits.set(0);
        self.one(
            "moving the write-ahead log into the database",
            "PRAGMA wal_checkpoint(PASSIVE)",
            [],
            |row| Ok(nat(row.get::<_, i64>(1)?).saturating_sub(nat(row.get(2)?))),
        )
        .map(Option::unwrap_or_default)
    }

    /// Runs `work` on one unchanging view of the file.
    pub(crate) fn consistent<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.fault.borrow_mut().take();
        self.write("beginning to read", "BEGIN DEFERRED", [])?;
        let open = OpenTransaction(self);
        let value = work()?;
        drop(open);
        if let Some(fault) = self.fault.borrow_mut().take() {
            return Err(fault.into());
        }
        Ok(value)
    }

    /// A number that changes when another connection has written.
    pub(crate) fn data_version(&self) -> Result<i64> {
        self.one("looking for changes", "PRAGMA data_version", [], |row| {
            row.get(0)
        })
        .map(Option::unwrap_or_default)
    }

    fn set_synced(&self, synced: bool) -> Result<()> {
        if self.synced.get() != synced {
            let mode = if synced { "FULL" } else { "NORMAL" };
            self.run(
                "setting the durability",
                &format!("PRAGMA synchronous = {mode}"),
            )?;
            self.synced.set(synced);
        }
        Ok(())
    }

    /// Refuses a file of a newer version or of another kind; returns its version, 0 for a new one.
    fn check_version(&self, schema: &Schema) -> Result<u32> {
        let doing = "reading the database's version";
        let number = |sql: &str| self.one(doing, sql, [], |row| row.get::<_, i64>(0));
        let found = number("PRAGMA user_version")?.unwrap_or(0);
        let mark = number("PRAGMA application_id")?.unwrap_or(0);
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if mark != 0 && mark != i64::from(schema.mark) {
            return Err(self.corrupt(doing, format!("it is not a {} database", schema.what)));
        }
        if found > schema.version() {
            return Err(StoreError::NewerDatabase {
                path: self.path.clone(),
                found,
                known: schema.version(),
            });
        }
        Ok(found)
    }

    fn migrate(&self, schema: &Schema) -> Result<()> {
        if self.check_version(schema)? == schema.version() {
            return Ok(());
        }
        self.transaction(Durability::Synced, || {
            // Another process may have done it while this one waited for the file.
            let found = self.check_version(schema)?;
            for (index, sql) in schema.migrations.iter().enumerate() {
                if index >= found as usize {
                    self.run("migrating the database", sql)?;
                }
            }
            self.run(
                "migrating the database",
                &format!(
                    "PRAGMA application_id = {}; PRAGMA user_version = {};",
                    schema.mark,
                    schema.version()
                ),
            )
        })
    }
}

/// Rolls back what was not committed, also on a panic and on a commit that failed.
struct OpenTransaction<'a>(&'a Db);

impl Drop for OpenTransaction<'_> {
    fn drop(&mut self) {
        if !self.0.conn.is_autocommit() {
            let _ = self.0.conn.execute_batch("ROLLBACK");
        }
    }
}

pub(crate) fn sort(path: &Path, doing: &'static str, source: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let Some(code) = source.sqlite_error() else {
        return match source {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..) => StoreError::Corrupt {
                path,
                doing,
                detail: source.to_string(),
            },
            source => StoreError::Sqlite {
                path,
                doing,
                source,
            },
        };
    };
    match code.code {
        ErrorCode::DiskFull => StoreError::DiskFull { path, doing },
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { path, doing },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt {
            path,
            doing,
            detail: source.to_string(),
        },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy { path, doing },
        // SQLite cannot open a file for several reasons, and reports a full disk under the shared-memory file or a
        // short write as a mere I/O error: ask the file system.
        ErrorCode::CannotOpen | ErrorCode::SystemIoFailure => match lock::disk_trouble(&path) {
            Some(lock::DiskTrouble::ReadOnly) => StoreError::ReadOnly { path, doing },
            Some(lock::DiskTrouble::Full) => StoreError::DiskFull { path, doing },
            None if code.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
                StoreError::DiskFull { path, doing }
            }
            None if code.code == ErrorCode::CannotOpen && path.exists() => {
                StoreError::ReadOnly { path, doing }
            }
            None => StoreError::Sqlite {
                path,
                doing,
                source,
            },
        },
        _ => StoreError::Sqlite {
            path,
            doing,
            source,
        },
    }
}
