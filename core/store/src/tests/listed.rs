//! The list of threads: its order, its pages, its counts, and that none of it costs more where there are more threads.

use super::support::*;
use crate::{
    Durability, HostRow, ReplicaStore, ReplicaTx, StoreError, ThreadCounts, ThreadFilter,
    ThreadPlace,
};
use pilothouse_domain::{
    ContentHash, HostId, RunId, RunStatus, ThreadId, ThreadSummary,
    row::{ActiveSummary, Standing, WaitingCounts},
    run::BlockedOn,
    state::EndedRun,
};
use std::collections::BTreeMap;

const OTHER: HostId = HostId::from_bytes([8; 16]);
const STANDINGS: [Standing; 5] = [
    Standing::Waiting,
    Standing::Running,
    Standing::Archived,
    Standing::Failed,
    Standing::Resting,
];

fn host(id: HostId) -> HostRow {
    HostRow {
        host: id,
        name: "desk".into(),
        addresses: Vec::new(),
        spki: ContentHash::of("key"),
        device: DEVICE,
        scopes: Vec::new(),
        paired_at_ms: 5,
        revoked: false,
        last_seen_ms: None,
    }
}

/// The `n`th thread, spread over standings; times repeat, ids do not follow them.
fn line(n: u64) -> ThreadSummary {
    let mut summary = ThreadSummary {
        thread: ThreadId::from_bytes(bytes(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        title: format!("Thread {n}"),
        workspace: "home".into(),
        agent: "codex".into(),
        mode: pilothouse_domain::Mode::Ask,
        sandbox: None,
        lineage: None,
        active: None,
        last_run: None,
        waiting: WaitingCounts::default(),
        queued: 0,
        held: None,
        sign_in_problem: None,
        last_line: "the last words of the agent in this thread".into(),
        archived: false,
        created_at_ms: n,
        updated_at_ms: 1_000 + n / 3,
        seq: 9,
    };
    stand(&mut summary, n % 11);
    summary
}

fn stand(summary: &mut ThreadSummary, how: u64) {
    let run = RunId::from_bytes([1; 16]);
    summary.waiting = WaitingCounts::default();
    summary.active = None;
    summary.last_run = None;
    summary.queued = 0;
    summary.archived = false;
    match how {
        0 => summary.waiting.questions = 1,
        1 => {
            summary.active = Some(ActiveSummary {
                run,
                status: RunStatus::Running,
                blocked_on: BlockedOn::None,
                since_ms: 1,
            });
        }
        2 => summary.queued = 1,
        3 => summary.archived = true,
        4 => {
            summary.last_run = Some(EndedRun {
                id: run,
                ordinal: 1,
                status: RunStatus::Failed,
            });
        }
        _ => {}
    }
}

fn write<T>(
    store: &mut ReplicaStore,
    work: impl FnOnce(&mut ReplicaTx<'_>) -> Result<T, StoreError>,
) -> T {
    store.transaction(work, Durability::Lazy).unwrap()
}

fn store(threads: u64) -> (tempfile::TempDir, ReplicaStore) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ReplicaStore::open(dir.path()).unwrap();
    write(&mut store, |tx| {
        tx.put_host(&host(HOST))?;
        tx.put_host(&host(OTHER))?;
        for n in 0..threads {
            tx.put_summary(if n % 7 == 0 { OTHER } else { HOST }, &line(n))?;
        }
        Ok(())
    });
    (dir, store)
}

fn filters() -> Vec<ThreadFilter> {
    let hosts = [None, Some(HOST), Some(OTHER)];
    let standings = [None].into_iter().chain(STANDINGS.map(Some));
    standings
        .flat_map(|standing| hosts.map(|host| ThreadFilter { host, standing }))
        .collect()
}

/// The whole list in its order, in memory.
fn sorted(lines: &BTreeMap<ThreadPlace, ThreadSummary>, filter: ThreadFilter) -> Vec<ThreadPlace> {
    let fits = |(place, line): &(&ThreadPlace, &ThreadSummary)| {
        filter.host.is_none_or(|host| host == place.host)
            && filter.standing.map_or_else(
                || line.standing() != Standing::Archived,
                |standing| line.standing() == standing,
            )
    };
    let mut places: Vec<_> = lines.iter().filter(fits).map(|(place, _)| *place).collect();
    places.reverse();
    places
}

#[test]
fn pages_give_the_whole_list_once_and_in_order_under_every_filter() {
    let (_dir, store) = store(300);
    let lines: BTreeMap<ThreadPlace, ThreadSummary> = (0..300)
        .map(|n| {
            let host = if n % 7 == 0 { OTHER } else { HOST };
            (ThreadPlace::of(host, &line(n)), line(n))
        })
        .collect();
    for filter in filters() {
        let mut place = ThreadPlace::START;
        let mut found = Vec::new();
        loop {
            let page = store.threads_after(filter, place, 17).unwrap();
            let Some((host, last)) = page.last() else {
                break;
            };
            place = ThreadPlace::of(*host, last);
            for (host, summary) in page {
                let at = ThreadPlace::of(host, &summary);
                assert_eq!(lines.get(&at), Some(&summary));
                found.push(at);
            }
        }
        assert_eq!(found, sorted(&lines, filter), "{filter:?}");
    }
}

#[test]
fn counts_follow_every_change_of_the_list() {
    let (_dir, mut store) = store(200);
    let check = |store: &ReplicaStore, what: &str| {
        for host in [None, Some(HOST), Some(OTHER)] {
            let counts = store.thread_counts(host).unwrap();
            let count = |standing: Option<Standing>| {
                let filter = ThreadFilter { host, standing };
                let found = store.threads_after(filter, ThreadPlace::START, 10_000);
                found.unwrap().len() as u64
            };
            let [waiting, running, archived, failed, resting] = STANDINGS.map(|s| count(Some(s)));
            let counted = ThreadCounts {
                waiting,
                running,
                archived,
                failed,
                resting,
            };
            assert_eq!((counts, counts.all()), (counted, count(None)), "{what}");
        }
    };
    check(&store, "after adding");
    write(&mut store, |tx| {
        for n in (0..200).step_by(5) {
            let mut changed = line(n);
            stand(&mut changed, n % 3);
            changed.updated_at_ms += 1_000;
            tx.put_summary(if n % 7 == 0 { OTHER } else { HOST }, &changed)?;
        }
        Ok(())
    });
    check(&store, "after changes");
    write(&mut store, |tx| {
        for n in 0..50 {
            tx.remove_summary(HOST, line(n).thread)?;
        }
        Ok(())
    });
    check(&store, "after removals");
    write(&mut store, |tx| tx.clear_feed(OTHER));
    check(&store, "after a reset");
    assert_eq!(
        store.thread_counts(Some(OTHER)).unwrap(),
        ThreadCounts::default()
    );
}

#[test]
fn a_window_and_its_counts_cost_the_same_with_a_hundred_times_as_many_threads() {
    let work = |threads: u64| -> Vec<(ThreadFilter, i32)> {
        let (_dir, store) = store(threads);
        let reader = store.reader().unwrap();
        filters()
            .into_iter()
            .map(|filter| {
                reader.db.take_steps();
                // As many as the smaller list has of each kind on each host.
                let page = reader.threads_after(filter, ThreadPlace::START, 5).unwrap();
                assert_eq!(page.len(), 5, "{filter:?}");
                let counts = reader.thread_counts(filter.host).unwrap();
                assert!(counts.all() > 0);
                (filter, reader.db.take_steps())
            })
            .collect()
    };
    let (few, many) = (work(500), work(50_000));
    for ((filter, few), (_, many)) in few.iter().zip(&many) {
        assert!(
            f64::from(*many) <= 1.3 * f64::from(*few),
            "{filter:?}: {few} steps with 500 threads, {many} with 50,000"
        );
    }
}

#[test]
fn a_thread_is_found_by_the_beginning_of_its_id_without_a_scan() {
    let (_dir, store) = store(2_000);
    let wanted = line(77);
    let mut last = *wanted.thread.as_bytes();
    last[4..].fill(0xff);
    let reader = store.reader().unwrap();
    reader.db.take_scanned();
    let found = reader
        .threads_between(wanted.thread, ThreadId::from_bytes(last), 10)
        .unwrap();
    assert!(reader.db.take_scanned() <= 2, "one step for each host");
    assert_eq!(found, [(OTHER, wanted)]);
    assert_eq!(reader.listed_seq(OTHER, line(77).thread).unwrap(), Some(9));
    assert_eq!(reader.listed_seq(HOST, line(77).thread).unwrap(), None);
}

#[test]
fn a_replica_of_the_first_version_keeps_its_list_and_its_inbox() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("replica.db");
    let old = rusqlite::Connection::open(&file).unwrap();
    old.execute_batch(include_str!("../../migrations/replica/0001.sql"))
        .unwrap();
    old.execute_batch("PRAGMA application_id = 0x50485231; PRAGMA user_version = 1;")
        .unwrap();
    old.execute(
        "INSERT INTO hosts (host, name, addresses, spki, device, scopes, paired_at_ms, feed_counts) \
         VALUES (?1, 'desk', '[]', ?2, ?3, '[]', 5, '{}')",
        (
            HOST.as_bytes(),
            ContentHash::of("key").as_bytes(),
            DEVICE.as_bytes(),
        ),
    )
    .unwrap();
    for n in 0..40 {
        let line = line(n);
        old.execute(
            "INSERT INTO summaries (host, thread, updated_at_ms, json) VALUES (?1, ?2, ?3, ?4)",
            (
                HOST.as_bytes(),
                line.thread.as_bytes(),
                i64::try_from(line.updated_at_ms).unwrap(),
                serde_json::to_string(&line).unwrap(),
            ),
        )
        .unwrap();
    }
    for (n, opened_at_ms) in [(1, 30), (2, 10), (3, 20)] {
        let mut asked = request(n, pilothouse_domain::request::RequestKind::Command);
        asked.opened_at_ms = opened_at_ms;
        old.execute(
            "INSERT INTO inbox (host, thread, request, open, json) VALUES (?1, ?2, ?3, 1, ?4)",
            (
                HOST.as_bytes(),
                line(0).thread.as_bytes(),
                asked.id.as_bytes(),
                serde_json::to_string(&asked).unwrap(),
            ),
        )
        .unwrap();
    }
    drop(old);

    let store = ReplicaStore::open(dir.path()).unwrap();
    let lines: BTreeMap<ThreadPlace, ThreadSummary> = (0..40)
        .map(|n| (ThreadPlace::of(HOST, &line(n)), line(n)))
        .collect();
    for filter in filters() {
        let found: Vec<ThreadPlace> = store
            .threads_after(filter, ThreadPlace::START, 100)
            .unwrap()
            .iter()
            .map(|(host, summary)| ThreadPlace::of(*host, summary))
            .collect();
        assert_eq!(found, sorted(&lines, filter), "{filter:?}");
    }
    let counts = store.thread_counts(Some(HOST)).unwrap();
    assert_eq!(counts.all() + counts.archived, 40);
    let opened: Vec<u64> = store
        .inbox(10)
        .unwrap()
        .iter()
        .map(|(_, entry)| entry.request.opened_at_ms)
        .collect();
    assert_eq!(opened, [10, 20, 30]);
    assert_eq!(store.inbox(2).unwrap().len(), 2);
}
