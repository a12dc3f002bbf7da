//! Full disks and read-only ones: real ones, which only root with the right to mount can mount. Without it these tests fail,
//! unless `PILOTHOUSE_NOT_ROOT` leaves them out.

use super::support::*;
use crate::{Durability, LedgerStore, ReplicaStore, StoreError};
use pilothouse_domain::BlobHash;
use std::{path::Path, process::Command};

/// A small file system in memory, unmounted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None` only if `PILOTHOUSE_NOT_ROOT` leaves such tests out: a test that is skipped in silence tests nothing.
    fn mount(kib: u32) -> Option<Self> {
        if std::env::var_os("PILOTHOUSE_NOT_ROOT").is_some() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let option = format!("size={kib}k");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &option, "tmpfs"])
            .arg(dir.path())
            .output();
        assert!(
            mounted.as_ref().is_ok_and(|output| output.status.success()),
            "this test mounts a small tmpfs, and that fails here: run it as root with the right to mount (CAP_SYS_ADMIN), or set \
             PILOTHOUSE_NOT_ROOT=1 to leave it out: {mounted:?}"
        );
        Some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn make_read_only(&self) {
        let done = Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(self.path())
            .status()
            .unwrap();
        assert!(done.success());
    }

    /// Takes all room that is left.
    fn fill(&self) -> std::path::PathBuf {
        use std::io::Write;
        let path = self.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        for size in [64 * 1024, 4096] {
            let block = vec![1; size];
            while file.write_all(&block).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn a_full_disk_is_said_so_keeps_nothing_and_goes_on_when_there_is_room() {
    let Some(disk) = Disk::mount(1024) else {
        return;
    };
    let mut store = open(disk.path());
    append_all(&mut store, thread(1), vec![vec![created(thread(1))]]);
    let filler = disk.fill();
    let body = vec![7; 300_000];
    let hash = BlobHash::of(&body);
    let fill = |store: &mut LedgerStore| {
        store.transaction(
            |tx| {
                append(tx, thread(1), 2, vec![created(thread(1))])?;
                tx.put_blob(hash, &body)
            },
            Durability::Synced,
        )
    };
    let error = fill(&mut store).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    assert!(error.is_transient());
    let text = error.to_string();
    for part in ["no room", "ledger.db", "free some space"] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
    assert_eq!(store.cursor(thread(1)).unwrap().seq, 1);
    assert_eq!(store.blob_len(hash).unwrap(), None);
    std::fs::remove_file(filler).unwrap();
    fill(&mut store).unwrap();
    assert_eq!(store.cursor(thread(1)).unwrap().seq, 2);
    store.verify(thread(1)).unwrap();
    drop(store);
    open(disk.path()).verify(thread(1)).unwrap();
}

#[test]
fn a_disk_that_is_full_at_the_start_is_said_so() {
    let Some(disk) = Disk::mount(256) else { return };
    let dir = disk.path().join("data");
    std::fs::create_dir(&dir).unwrap();
    disk.fill();
    let error = LedgerStore::open(&dir, EPOCH).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    let error = ReplicaStore::open(&dir).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
}

#[test]
fn a_full_disk_does_not_take_a_command_that_it_could_not_keep() {
    let Some(disk) = Disk::mount(1024) else {
        return;
    };
    let mut store = ReplicaStore::open(disk.path()).unwrap();
    let filler = disk.fill();
    let mut refused = None;
    for n in 1..2000 {
        match store.push(HOST, release_command(n, thread(1)), n) {
            Ok(_) => {}
            Err(error) => {
                refused = Some((n, error));
                break;
            }
        }
    }
    let (n, error) = refused.expect("the disk was full");
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    let kept = usize::try_from(n - 1).unwrap();
    assert_eq!(store.pending(HOST).unwrap().len(), kept);
    std::fs::remove_file(filler).unwrap();
    let pushed = store.push(HOST, release_command(n, thread(1)), n).unwrap();
    assert_eq!(pushed.device_seq, n, "its number was not used up");
}

#[test]
fn a_read_only_directory_is_said_so() {
    let Some(disk) = Disk::mount(4096) else {
        return;
    };
    let (old, new) = (disk.path().join("old"), disk.path().join("new"));
    drop(open(&old));
    drop(ReplicaStore::open(&old).unwrap());
    std::fs::create_dir(&new).unwrap();
    disk.make_read_only();
    for dir in [old, new.clone(), new.join("below")] {
        for error in [
            LedgerStore::open(&dir, EPOCH).map(drop).unwrap_err(),
            ReplicaStore::open(&dir).map(drop).unwrap_err(),
        ] {
            assert!(
                matches!(error, StoreError::ReadOnly { .. }),
                "{dir:?}: {error:?}"
            );
            let text = error.to_string();
            for part in [dir.to_str().unwrap(), "cannot be written", "writable"] {
                assert!(text.contains(part), "`{part}` is missing in: {text}");
            }
            assert!(!error.is_transient());
        }
    }
}

#[test]
fn a_disk_that_turns_read_only_while_in_use_is_said_so() {
    let Some(disk) = Disk::mount(4096) else {
        return;
    };
    let dir = disk.path().to_owned();
    drop(open(&dir));
    disk.make_read_only();
    // Opened as SQLite would by a process that could still lock: the file itself says that it cannot be written.
    let conn = rusqlite::Connection::open(dir.join("ledger.db")).unwrap();
    let error = conn.execute("UPDATE ledger SET boot = 9", []).unwrap_err();
    assert!(
        matches!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::CannotOpen)
        ),
        "{error:?}"
    );
    let sorted = crate::db::sort(&dir.join("ledger.db"), "testing", error);
    assert!(matches!(sorted, StoreError::ReadOnly { .. }), "{sorted:?}");
}
