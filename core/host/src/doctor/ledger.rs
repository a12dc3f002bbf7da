//! The ledger's file: whole, readable by this version, and its write-ahead log moved into it.

use super::{failed, ok, skipped, warning};
use crate::state::StatePath;
use pilothouse_domain::entry::LOG_FORMAT;
use pilothouse_store::{LedgerReader, StoreError};
use pilothouse_wire::message::DoctorCheck;

/// A larger database is read in full only on demand.
const READ_IN_FULL: u64 = 64 * 1024 * 1024;
/// Twice what the write-ahead log may have (DESIGN section 11): then nothing moves it into the database.
const WAL_TOO_LARGE: u64 = 32 * 1024 * 1024;
const RESTORE: &str =
    "stop the host, keep a copy of the directory, and restore a backup or start with an empty one";

/// The checks of the file, and how many devices are paired in it. Reads; blocks.
pub(super) fn checks(state: &StatePath, deep: bool) -> (Vec<DoctorCheck>, Option<usize>) {
    let dir = state.dir();
    let size = |name: &str| std::fs::metadata(dir.join(name)).map(|metadata| metadata.len());
    let Ok(bytes) = size("ledger.db") else {
        let made = "the ledger is made at the first start";
        let checks = ["ledger", "wal", "log_format"].map(|name| skipped(name, made));
        return (checks.to_vec(), None);
    };
    let reader = match LedgerReader::open(dir) {
        Ok(reader) => reader,
        Err(error) => {
            let step = match error {
                StoreError::NewerDatabase { .. } => "update pilothouse",
                _ => RESTORE,
            };
            let mut checks = vec![failed("ledger", &error.to_string(), step)];
            checks.extend(
                ["wal", "log_format"].map(|name| skipped(name, "the ledger cannot be opened")),
            );
            return (checks, None);
        }
    };
    let devices = reader.devices().ok();
    let paired = devices.map(|devices| devices.iter().filter(|device| !device.revoked).count());
    let checks = vec![
        whole(&reader, bytes, deep),
        wal(size("ledger.db-wal").unwrap_or(0)),
        log_format(&reader),
    ];
    (checks, paired)
}

fn whole(reader: &LedgerReader, bytes: u64, deep: bool) -> DoctorCheck {
    let shown = format!("{} MiB", bytes.div_ceil(1024 * 1024));
    if bytes > READ_IN_FULL && !deep {
        let found = format!("{shown}; it is read in full by `pilothouse doctor --deep` only");
        return ok("ledger", &found);
    }
    let broken = |problem: &str| failed("ledger", problem, RESTORE);
    match reader.quick_check() {
        Ok(problems) => {
            if let Some(problem) = problems.first() {
                return broken(problem);
            }
        }
        Err(error) => return broken(&error.to_string()),
    }
    let threads = match reader.threads() {
        Ok(threads) => threads,
        Err(error) => return broken(&error.to_string()),
    };
    for thread in threads.iter().filter(|_| deep) {
        if let Err(error) = reader.verify_chain(*thread) {
            return broken(&error.to_string());
        }
    }
    let how = if deep {
        "every log's chain holds"
    } else {
        "the file is whole"
    };
    ok("ledger", &format!("{shown}, {} logs: {how}", threads.len()))
}

fn wal(bytes: u64) -> DoctorCheck {
    let found = format!(
        "{} MiB wait to be moved into the database",
        bytes.div_ceil(1024 * 1024)
    );
    if bytes > WAL_TOO_LARGE {
        let step = "restart the host; if it stays, look for a program that holds ledger.db open";
        return warning("wal", &found, step);
    }
    ok("wal", &found)
}

fn log_format(reader: &LedgerReader) -> DoctorCheck {
    match reader.newest_log_format() {
        Ok(newest) if newest > LOG_FORMAT => failed(
            "log_format",
            &format!("there are entries of format {newest}, this version knows {LOG_FORMAT}"),
            "update pilothouse: until then those threads may be read-only",
        ),
        Ok(_) => ok("log_format", &format!("format {LOG_FORMAT}")),
        Err(error) => failed("log_format", &error.to_string(), RESTORE),
    }
}
