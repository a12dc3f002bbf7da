//! Databases that an earlier version wrote: a ledger with everything in it that this version may meet, and a device's
//! replica of it.

use super::{VERSIONS, fixture, story};
use pilothouse_domain::{
    CommandBody, Cursor, Digest, Epoch, HostId, ItemStatus, RequestStatus, Row, ThreadId,
    entry::LOG_FORMAT, request::LostReason, state::STATE_VERSION,
};
use pilothouse_engine::InboxState;
use pilothouse_store::{Durability, LedgerReads, LedgerStore, ReplicaStore, StoreError};
use pilothouse_tests::{Cli, Device, Setup, World, places};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What is said of the databases of a version: `tests/compat/VERSION/files.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Stated {
    /// The commit whose program wrote them.
    commit: String,
    log_format: u16,
    /// The version at which the digests were taken.
    state_version: u16,
    host: HostId,
    epoch: Epoch,
    boot: u64,
    threads: Vec<StatedThread>,
    /// The thread with the pending request, an open item and a queued message.
    waiting: ThreadId,
    /// Commands in the device's outbox that the host never had.
    outbox: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct StatedThread {
    thread: ThreadId,
    cursor: Cursor,
    digest: Digest,
    rows: u64,
}

impl Stated {
    /// The threads that devices see: all but the host's own log.
    fn conversations(&self) -> impl Iterator<Item = &StatedThread> {
        let own = ThreadId::default();
        self.threads
            .iter()
            .filter(move |thread| thread.thread != own)
    }
}

fn stated(version: &str) -> Stated {
    let path = fixture(version).join("files.json");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// A copy of a database that may be opened.
fn copy(version: &str, file: &str, dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    fs::copy(fixture(version).join(file), dir.join(file)).unwrap();
}

fn open_rows(reads: &LedgerReads, thread: ThreadId) -> (usize, usize) {
    let rows = reads.all_rows(thread).unwrap();
    let pending = |row: &&Row| matches!(row, Row::Request(request) if request.status == RequestStatus::Pending);
    let open = |row: &&Row| matches!(row, Row::Item(item) if item.status == ItemStatus::Open);
    (
        rows.iter().filter(pending).count(),
        rows.iter().filter(open).count(),
    )
}

#[test]
fn a_ledger_of_an_earlier_version_is_migrated_verified_and_rebuilt_to_the_digests_that_it_had() {
    for version in VERSIONS {
        let stated = stated(version);
        let dir = tempfile::tempdir().unwrap();
        copy(version, "ledger.db", dir.path());
        let mut store = LedgerStore::open(dir.path(), Epoch::default()).unwrap();
        assert_eq!(store.epoch(), stated.epoch, "{version}");
        assert_eq!(store.boot(), stated.boot + 1, "{version}");
        let threads: Vec<_> = stated.threads.iter().map(|thread| thread.thread).collect();
        assert_eq!(store.threads().unwrap(), threads, "{version}");
        assert!(threads.len() >= 3);
        assert_eq!(open_rows(&store, stated.waiting), (1, 1), "{version}");
        for rebuild in [false, true] {
            for thread in &stated.threads {
                let id = thread.thread;
                if rebuild {
                    let work = |tx: &mut pilothouse_store::LedgerTx<'_>| tx.rebuild(id);
                    store
                        .transaction::<_, StoreError>(work, Durability::Synced)
                        .unwrap();
                }
                if let Err(difference) = store.verify(id) {
                    panic!("{version}, rebuilt: {rebuild}: {difference}");
                }
                let snapshot = store.snapshot(id).unwrap();
                assert_eq!(snapshot.cursor, thread.cursor, "{version}");
                assert_eq!(store.all_rows(id).unwrap().len() as u64, thread.rows);
                // A digest covers the version of the state's shape: it is the same or incomparable.
                if stated.state_version == STATE_VERSION {
                    let digest = snapshot.state.digest(&snapshot.cursor);
                    assert_eq!(digest, thread.digest, "{version}, thread {id}");
                }
            }
        }
        assert_eq!(store.open_requests().unwrap().len(), 1, "{version}");
    }
}

#[test]
fn a_replica_of_an_earlier_version_shows_what_it_held_and_keeps_what_was_to_be_sent() {
    for version in VERSIONS {
        let stated = stated(version);
        let dir = tempfile::tempdir().unwrap();
        copy(version, "replica.db", dir.path());
        let store = ReplicaStore::open(dir.path()).unwrap();
        let pending = store.pending(stated.host).unwrap();
        assert_eq!(pending.len() as u64, stated.outbox, "{version}");
        for entry in &pending {
            assert!(matches!(
                entry.command.body,
                CommandBody::MessageSend { .. }
            ));
        }
        let held = store.threads_of(stated.host).unwrap();
        assert!(!held.is_empty(), "{version}: no thread was opened");
        for thread in held {
            let (_, snapshot) = store.state(thread).unwrap().unwrap();
            let there = stated.threads.iter().find(|stated| stated.thread == thread);
            let there = there.unwrap_or_else(|| panic!("{version}: {thread} is not the host's"));
            if snapshot.cursor == there.cursor && stated.state_version == STATE_VERSION {
                assert_eq!(snapshot.state.digest(&snapshot.cursor), there.digest);
            }
        }
        drop(store);

        let device = Device::open(dir.path(), "old", stated.host);
        let seen = device.seen();
        assert_eq!(
            seen.threads.len(),
            stated.conversations().count(),
            "{version}"
        );
        assert_eq!(seen.delivery.len() as u64, stated.outbox, "{version}");
        let [waiting] = &seen.inbox[..] else {
            panic!("{version}: {:#?}", seen.inbox)
        };
        assert_eq!(waiting.thread, stated.waiting);
        assert_eq!(waiting.state, InboxState::Pending);
        assert!(waiting.verified, "its text is the one that was hashed");
    }
}

#[test]
fn a_host_of_this_version_takes_up_a_ledger_of_an_earlier_one() {
    for version in VERSIONS {
        let stated = stated(version);
        let dir = tempfile::tempdir().unwrap();
        let (state, told) = (dir.path().join("state"), dir.path().join("told"));
        copy(version, "ledger.db", &state);
        let world = Setup::new()
            .fake("fake", &["ok", &told.to_string_lossy()])
            .state(&state)
            .start();
        world.host.verify();
        let device = world.device("phone");
        device.watch(stated.waiting);
        let rows = world.host.ledger(|ledger| ledger.all_rows(stated.waiting));
        let statuses: Vec<_> = rows
            .into_iter()
            .filter_map(|row| match row {
                Row::Request(request) => Some(request.status),
                _ => None,
            })
            .collect();
        let lost = RequestStatus::Lost {
            reason: LostReason::HostRestarted,
            answer: None,
        };
        assert_eq!(statuses, [lost], "what asked is gone, and that is said");
        device.nothing_waits();
        for thread in stated.conversations() {
            device.watch(thread.thread);
            device.same_as(&world.host, thread.thread);
        }
        world.host.verify();
    }
}

/// Not a test by itself: writes the databases of this version, with the built program, into the directory that
/// `PILOTHOUSE_KEEP` names. `scripts/compat keep NAME` runs it.
#[test]
#[ignore = "writes files: run by `scripts/compat keep NAME`"]
fn keep() {
    let to = std::env::var_os("PILOTHOUSE_KEEP").map(PathBuf::from);
    let to = to.expect("PILOTHOUSE_KEEP names the directory; run `scripts/compat keep NAME`");
    let dir = tempfile::tempdir().unwrap();
    let told = dir.path().join("told");
    let mut world = Setup::new()
        .fake("fake", &["ok", &told.to_string_lossy()])
        .start();
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    story::begins(&world.host, &cli, &told);
    let second = story::new_thread(&world.host, &cli, "an agent that exits");
    story::send(&world.host, &cli, &second, "[[do:exit]] half a sentence");
    story::idle(&world.host, &cli, &second);
    let waiting = story::new_thread(&world.host, &cli, "waits");
    story::send(&world.host, &cli, &waiting, "[[do:asks]] may you?");
    story::asked(&world.host, &cli);
    story::does(
        &world.host,
        &cli,
        &["send", &waiting, "[[do:ok]] and then this", "--queue"],
    );
    let said = cli.run(&world.host, &["watch", &waiting, "--timeout", "5"]);
    assert!(said.of_type("item").count() > 1, "{said:#?}");
    world.host.kill_9();
    let said = cli.run(
        &world.host,
        &[
            "send",
            &waiting,
            "[[do:ok]] nobody hears this",
            "--timeout",
            "1",
        ],
    );
    assert_eq!(said.code, 4, "{said:#?}");
    write(&world, &to, waiting.parse().unwrap());
}

fn write(world: &World, to: &Path, waiting: ThreadId) {
    fs::create_dir_all(to).unwrap();
    for (from, file) in [
        (world.host.state().to_owned(), "ledger.db"),
        (world.dir().join("terminal"), "replica.db"),
    ] {
        let source = rusqlite::Connection::open(from.join(file)).unwrap();
        // Everything into the one file, and no free pages.
        source
            .execute_batch(
                "PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);",
            )
            .unwrap();
        drop(source);
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let copied = tempfile::tempdir().unwrap();
    fs::copy(to.join("ledger.db"), copied.path().join("ledger.db")).unwrap();
    let store = LedgerStore::open(copied.path(), Epoch::default()).unwrap();
    let thread = |id: ThreadId| {
        let snapshot = store.snapshot(id).unwrap();
        StatedThread {
            thread: id,
            cursor: snapshot.cursor,
            digest: snapshot.state.digest(&snapshot.cursor),
            rows: store.all_rows(id).unwrap().len() as u64,
        }
    };
    let head = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(places::root())
        .output()
        .unwrap();
    let stated = Stated {
        commit: String::from_utf8(head.stdout).unwrap().trim().to_owned(),
        log_format: LOG_FORMAT,
        state_version: STATE_VERSION,
        host: world.host.id(),
        epoch: store.epoch(),
        boot: store.boot() - 1,
        threads: store.threads().unwrap().into_iter().map(thread).collect(),
        waiting,
        outbox: 1,
    };
    fs::write(
        to.join("files.json"),
        serde_json::to_string_pretty(&stated).unwrap() + "\n",
    )
    .unwrap();
}
