//! The list of threads and the inbox as windows: what a screen is given does not grow with what a host has.

use crate::{
    device::{Device, TestPlatform, block_on, open},
    host::{FakeHost, HOST, command_subject},
};
use pilothouse_domain::{
    ContentHash, DeviceId, HostId, Mode, RequestStatus, ThreadId, ThreadSummary,
    request::{RequestKind, Respondability},
    row::WaitingCounts,
};
use pilothouse_engine::{
    Batch, Core, MOST_IN_INBOX, Observation, Page, Query, Scope, Standing, ThreadCounts,
    ThreadFilter, ThreadRow, ThreadsBatch,
};
use pilothouse_store::{Durability, HostRow, ReplicaStore, StoreError};
use std::sync::{Arc, mpsc};
use tempfile::TempDir;

const OTHER: HostId = HostId::from_bytes([7; 16]);

/// The `n`th thread of a large list: every hundredth waits, every hundredth runs.
fn line(n: u32) -> ThreadSummary {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b1).to_be_bytes());
    ThreadSummary {
        thread: ThreadId::from_bytes(id),
        title: format!("Thread {n}"),
        workspace: "w".into(),
        agent: "codex".into(),
        mode: Mode::Ask,
        sandbox: None,
        lineage: None,
        active: None,
        last_run: None,
        waiting: WaitingCounts {
            approvals: u32::from(n.is_multiple_of(100)),
            questions: 0,
        },
        queued: u32::from(n % 100 == 1),
        held: None,
        sign_in_problem: None,
        last_line: String::new(),
        archived: false,
        created_at_ms: 1,
        updated_at_ms: 1_000 + u64::from(n),
        seq: 1,
    }
}

fn write(store: &mut ReplicaStore, work: impl FnOnce(&pilothouse_store::ReplicaTx<'_>)) {
    let kept = store.transaction(
        |tx| {
            work(tx);
            Ok::<_, StoreError>(())
        },
        Durability::Lazy,
    );
    kept.unwrap();
}

/// A directory that holds the list of a host that is never reached.
fn directory(threads: u32) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ReplicaStore::open(dir.path()).unwrap();
    write(&mut store, |tx| {
        for (host, name) in [(HOST, "studio"), (OTHER, "barn")] {
            tx.put_host(&HostRow {
                host,
                name: name.to_owned(),
                addresses: Vec::new(),
                spki: ContentHash::of("key"),
                device: DeviceId::from_bytes([1; 16]),
                scopes: Vec::new(),
                paired_at_ms: 1,
                // No link is tried.
                revoked: true,
                last_seen_ms: None,
            })
            .unwrap();
        }
        for n in 0..threads {
            let host = if n % 2 == 0 { HOST } else { OTHER };
            tx.put_summary(host, &line(n)).unwrap();
        }
    });
    dir
}

fn opened(dir: &TempDir) -> (Arc<Core>, Arc<TestPlatform>) {
    let platform = TestPlatform::new();
    (open(dir.path(), &platform), platform)
}

struct Window {
    batches: mpsc::Receiver<ThreadsBatch>,
    _observation: Observation,
}

impl Window {
    fn of(core: &Core, filter: ThreadFilter, limit: u32) -> Self {
        let (sender, batches) = mpsc::channel();
        let sink = move |batch: Batch| match batch {
            Batch::Threads(batch) => drop(sender.send(batch)),
            other => panic!("{other:?}"),
        };
        Self {
            batches,
            _observation: core.observe(Scope::Threads { filter, limit }, Arc::new(sink)),
        }
    }

    fn next(&self) -> ThreadsBatch {
        self.batches.recv_timeout(crate::device::DEADLINE).unwrap()
    }
}

fn page(core: &Core, query: Query) -> pilothouse_engine::ThreadPage {
    match core.query(query).unwrap() {
        Page::Threads(page) => page,
        other => panic!("{other:?}"),
    }
}

fn numbers(rows: &[ThreadRow]) -> Vec<u32> {
    rows.iter()
        .map(|row| row.summary.title["Thread ".len()..].parse().unwrap())
        .collect()
}

#[test]
fn the_first_batch_is_the_window_with_the_counts_of_everything() {
    let dir = directory(2_000);
    let (core, _platform) = opened(&dir);
    let batch = Window::of(&core, ThreadFilter::default(), 30).next();
    let mut rows = Vec::new();
    batch.apply(&mut rows);
    assert!(batch.list.reset && batch.more);
    assert_eq!(batch.list.ops.len(), 30);
    assert_eq!(numbers(&rows), (1_970..2_000).rev().collect::<Vec<_>>());
    assert_eq!(
        (&*rows[0].host_name, &*rows[1].host_name),
        ("barn", "studio")
    );
    let all = ThreadCounts {
        all: 2_000,
        waiting: 20,
        running: 20,
        ..ThreadCounts::default()
    };
    assert_eq!(batch.counts, all);

    let waiting = ThreadFilter {
        host: Some(HOST),
        standing: Some(Standing::Waiting),
    };
    let batch = Window::of(&core, waiting, 30).next();
    let mut rows = Vec::new();
    batch.apply(&mut rows);
    assert!(!batch.more);
    assert_eq!(
        numbers(&rows),
        (0..20).rev().map(|n| n * 100).collect::<Vec<_>>()
    );
    assert_eq!((batch.counts.all, batch.counts.running), (1_000, 0));
}

#[test]
fn a_change_touches_what_moved_whatever_the_number_of_threads() {
    let touched = |threads: u32| -> Vec<usize> {
        let dir = directory(threads);
        let (core, _platform) = opened(&dir);
        let window = Window::of(&core, ThreadFilter::default(), 100);
        let mut rows = Vec::new();
        window.next().apply(&mut rows);
        let mut store = ReplicaStore::open(dir.path()).unwrap();
        let mut ops = Vec::new();
        // The oldest one comes to the top; the newest one changes in its place; one out of sight changes.
        for (n, updated_at_ms, title) in [
            (0, 1_000_000, "Thread 0"),
            (0, 1_000_000, "Thread 0, renamed"),
            (10, 1_001, "Thread 10, renamed"),
            (11, 2_000_000, "Thread 11"),
        ] {
            let changed = ThreadSummary {
                updated_at_ms,
                title: title.to_owned(),
                ..line(n)
            };
            let host = if n % 2 == 0 { HOST } else { OTHER };
            write(&mut store, |tx| tx.put_summary(host, &changed).unwrap());
            if n == 10 {
                continue;
            }
            let batch = window.next();
            assert!(!batch.list.reset);
            assert_eq!(batch.counts.all, u64::from(threads));
            batch.apply(&mut rows);
            assert_eq!(rows.len(), 100);
            assert_eq!(rows[0].summary, changed);
            assert!(rows.is_sorted_by(|a, b| a.place() > b.place()));
            ops.push(batch.list.ops.len());
        }
        ops
    };
    assert_eq!(touched(150), touched(3_000));
    assert_eq!(touched(150), [2, 1, 2], "in and out, an update, in and out");
}

#[test]
fn pages_lead_through_the_whole_list_and_a_thread_is_found_by_its_ids_beginning() {
    let dir = directory(700);
    let (core, _platform) = opened(&dir);
    let filter = ThreadFilter {
        host: Some(OTHER),
        standing: None,
    };
    let mut after = None;
    let mut found = Vec::new();
    loop {
        let page = page(
            &core,
            Query::Threads {
                filter,
                after,
                limit: 64,
            },
        );
        found.extend(numbers(&page.rows));
        assert_eq!(page.counts.all, 350);
        if !page.more {
            break;
        }
        assert_eq!(page.rows.len(), 64);
        after = page.rows.last().map(ThreadRow::place);
    }
    let odd: Vec<u32> = (0..700).rev().filter(|n| n % 2 == 1).collect();
    assert_eq!(found, odd);

    let wanted = line(333);
    let named = |beginning: &str| {
        page(
            &core,
            Query::ThreadsNamed {
                beginning: beginning.to_owned(),
                limit: 10,
            },
        )
    };
    let id = wanted.thread.to_string();
    for beginning in [&id[..], &id[..10], &id[..8].to_uppercase()] {
        let rows = named(beginning).rows;
        assert_eq!(rows.len(), 1, "{beginning}");
        assert_eq!((&rows[0].summary, rows[0].host), (&wanted, OTHER));
    }
    assert!(named("").more && named("").rows.len() == 10);
    assert!(named("no id at all").rows.is_empty());
}

#[test]
fn a_thread_on_its_way_stands_in_the_window_and_is_found_but_not_counted() {
    let mut host = FakeHost::start();
    let mut device = Device::paired(&host);
    device.synchronised();
    host.stop();
    device.offline();
    let ticket = device.create("Made offline");
    ticket.durable().unwrap();
    device.reopen();
    let batch = Window::of(&device.core, ThreadFilter::default(), 5).next();
    let mut rows = Vec::new();
    batch.apply(&mut rows);
    assert!(rows.len() == 1 && rows[0].pending);
    assert_eq!((batch.counts.all, batch.counts.outstanding), (0, 1));
    let id = ticket.thread().to_string();
    let named = Query::ThreadsNamed {
        beginning: id[..9].to_owned(),
        limit: 5,
    };
    assert_eq!(page(&device.core, named).rows, rows);
    let running = ThreadFilter {
        host: None,
        standing: Some(Standing::Running),
    };
    let batch = Window::of(&device.core, running, 5).next();
    assert!(batch.list.ops.is_empty(), "it does nothing yet");
}

#[test]
fn an_inbox_beyond_its_bound_shows_what_waits_longest() {
    let dir = directory(1);
    let mut store = ReplicaStore::open(dir.path()).unwrap();
    let asked = MOST_IN_INBOX as u64 + 25;
    write(&mut store, |tx| {
        for n in 0..asked {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            let subject = command_subject("ls");
            let request = pilothouse_domain::RuntimeRequest {
                id: pilothouse_domain::RequestId::from_bytes(id),
                run: None,
                node: pilothouse_domain::NodeId::from_bytes([2; 16]),
                item: None,
                kind: RequestKind::Command,
                title: "Run a command".to_owned(),
                content_hash: ContentHash::of("not what it is"),
                subject: serde_json::to_string(&subject).unwrap(),
                respondability: Respondability::Live,
                one_tap_allowed: true,
                default_to_no: false,
                hints: Vec::new(),
                asked_before: 0,
                incarnation: pilothouse_domain::Incarnation::from_bytes([3; 16]),
                status: RequestStatus::Pending,
                opened_at_ms: asked - n,
                expires_at_ms: None,
            };
            tx.put_request(HOST, line(0).thread, &request).unwrap();
        }
    });
    let platform = TestPlatform::new();
    let device = Device {
        dir,
        core: open(store.dir(), &platform),
        platform,
    };
    let rows = device.inbox().first();
    let opened: Vec<u64> = rows.iter().map(|row| row.opened_at_ms).collect();
    assert_eq!(opened, (1..=MOST_IN_INBOX as u64).collect::<Vec<_>>());
    let hosts = device.hosts().first();
    let studio = hosts.iter().find(|row| row.host == HOST).unwrap();
    assert_eq!(
        u64::from(studio.waiting.approvals),
        asked,
        "all are counted"
    );
}

#[test]
fn a_long_catch_up_that_is_cut_goes_on_from_the_last_place_that_was_complete() {
    let host = FakeHost::start();
    for n in 1..=9 {
        host.thread(n, &format!("Thread {n}"));
    }
    // Steps of two threads, each in two parts; the connection is cut after five parts.
    host.with(|world| {
        world.feed_in_parts = true;
        world.feed_cut = Some(5);
    });
    let device = Device::new();
    let _looking = device.impatient();
    block_on(device.core.pair(&host.code())).unwrap();
    device.synchronised();
    let rows = device
        .threads()
        .until("all are listed", |rows| rows.len() == 9);
    assert_eq!(rows.len(), 9);
    let asked = host.lock().feed_asked.clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0], None);
    assert_eq!(
        asked[1].map(|place| place.revision),
        Some(4),
        "two steps of two threads were complete, half of the third was not"
    );
}
