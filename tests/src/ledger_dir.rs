//! A ledger's directory, read beside the program that has it open.

use pilothouse_domain::{Digest, Row, ThreadId, TurnItem};
use pilothouse_store::{Difference, LedgerReader, StoreError};
use std::path::{Path, PathBuf};

/// A ledger's directory.
#[derive(Debug, Clone)]
pub struct LedgerDir(PathBuf);

impl LedgerDir {
    /// The ledger in a directory.
    pub fn new(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    fn open(&self) -> LedgerReader {
        let reader = LedgerReader::open(&self.0);
        reader.unwrap_or_else(|error| panic!("the ledger in {}: {error}", self.0.display()))
    }

    /// Reads it.
    ///
    /// # Panics
    /// It cannot be read.
    pub fn read<T>(&self, work: impl FnOnce(&LedgerReader) -> Result<T, StoreError>) -> T {
        work(&self.open())
            .unwrap_or_else(|error| panic!("the ledger in {}: {error}", self.0.display()))
    }

    /// A thread's rows, in no order that means something.
    pub fn rows(&self, thread: ThreadId) -> Vec<Row> {
        self.read(|ledger| ledger.all_rows(thread))
    }

    /// A thread's digest by its log alone.
    pub fn digest(&self, thread: ThreadId) -> Digest {
        self.read(|ledger| {
            ledger.consistent(|reads| {
                let snapshot = reads.snapshot(thread)?;
                Ok(snapshot.state.digest(&snapshot.cursor))
            })
        })
    }

    /// What agents did without asking, though their threads' modes are to ask: with each thread, in the order of its log.
    pub fn unasked(&self) -> Vec<(ThreadId, TurnItem)> {
        let anomaly = |row| match row {
            Row::Item(item) if item.anomaly.is_some() => Some(item),
            _ => None,
        };
        self.read(|ledger| {
            let mut found = Vec::new();
            for thread in ledger.threads()? {
                let items = ledger.all_rows(thread)?.into_iter().filter_map(anomaly);
                found.extend(items.map(|item| (thread, item)));
            }
            Ok(found)
        })
    }

    /// As [`LedgerDir::verify_logs`]; and no agent did anything without asking that it had to ask before.
    ///
    /// # Panics
    /// Something differs, or something is taken for an anomaly.
    pub fn verify(&self) {
        self.verify_logs();
        let unasked = self.unasked();
        assert!(unasked.is_empty(), "taken for unasked: {unasked:#?}");
    }

    /// Replays every thread's log, checks its chain, and compares state, rows and summary with what was kept.
    ///
    /// # Panics
    /// Something differs.
    pub fn verify_logs(&self) {
        let threads = self.read(|ledger| ledger.threads());
        assert!(!threads.is_empty(), "there is nothing to verify");
        let reader = self.open();
        for thread in threads {
            let verified = reader.consistent::<_, Difference>(|reads| reads.verify(thread));
            if let Err(difference) = verified {
                panic!("{difference}: {difference:#?}");
            }
        }
    }
}
