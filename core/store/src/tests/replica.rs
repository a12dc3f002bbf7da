//! Hosts, feeds and opened threads on a device.

use super::support::*;
use crate::{
    Durability, HostRow, ReplicaStore, ReplicaTx, SignedOut, StoreError, ThreadFilter, ThreadPlace,
};
use pilothouse_domain::{
    ContentHash, Cursor, Epoch, Event, ItemStatus, Policy, RequestStatus, Row, Scope, ThreadState,
    ThreadSummary,
    event::HoldReason,
    feed::{FeedCursor, FeedThread, FeedUpdate},
    item::Body,
    request::RequestKind,
    row::{LiveText, OpenItem, RowKind, Snapshot, WaitingCounts},
};

fn host() -> HostRow {
    HostRow {
        host: HOST,
        name: "desk".into(),
        addresses: vec!["10.0.0.2:7433".into(), "desk.local:7433".into()],
        spki: ContentHash::of("host key"),
        device: DEVICE,
        scopes: vec![Scope::Read, Scope::Operate],
        paired_at_ms: 5,
        revoked: false,
        last_seen_ms: None,
    }
}

fn store() -> (tempfile::TempDir, ReplicaStore) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ReplicaStore::open(dir.path()).unwrap();
    write(&mut store, |tx| tx.put_host(&host()));
    (dir, store)
}

fn write<T>(
    store: &mut ReplicaStore,
    work: impl FnOnce(&mut ReplicaTx<'_>) -> Result<T, StoreError>,
) -> T {
    store.transaction(work, Durability::Lazy).unwrap()
}

/// The line of a thread, as a ledger makes it.
fn summary(n: u8, updated_at_ms: u64) -> ThreadSummary {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    append_all(&mut ledger, thread(n), vec![vec![created(thread(n))]]);
    ThreadSummary {
        updated_at_ms,
        ..ledger.summary(thread(n)).unwrap().unwrap()
    }
}

#[test]
fn a_host_is_kept_with_its_feed_and_policy() {
    let (dir, mut store) = store();
    assert_eq!(store.hosts().unwrap(), [host()]);
    assert_eq!(store.feed_cursor(HOST).unwrap(), FeedCursor::default());
    let cursor = FeedCursor {
        epoch: EPOCH,
        revision: 7,
    };
    let policy = Policy {
        version: 3,
        ..Policy::default()
    };
    write(&mut store, |tx| {
        tx.put_feed_cursor(HOST, cursor)?;
        tx.put_policy(HOST, &policy)?;
        tx.host_seen(HOST, 77)?;
        tx.put_setting("theme", "dark")
    });
    let renamed = HostRow {
        name: "desk 2".into(),
        last_seen_ms: Some(77),
        ..host()
    };
    write(&mut store, |tx| tx.put_host(&renamed));
    drop(store);
    let store = ReplicaStore::open(dir.path()).unwrap();
    assert_eq!(store.host(HOST).unwrap(), Some(renamed));
    assert_eq!(store.feed_cursor(HOST).unwrap(), cursor);
    assert_eq!(store.policy(HOST).unwrap(), Some(policy));
    assert_eq!(store.setting("theme").unwrap().as_deref(), Some("dark"));
}

#[test]
fn whose_sign_in_was_refused_is_told_once_for_each_agent_and_a_change_of_it_is_noticed() {
    let (_dir, mut store) = store();
    let line = |n: u8, agent: &str, held, queued| ThreadSummary {
        agent: agent.into(),
        held,
        queued,
        ..summary(n, u64::from(n))
    };
    let step = |threads: Vec<ThreadSummary>| FeedUpdate {
        cursor: FeedCursor::default(),
        reset: false,
        threads: threads
            .into_iter()
            .map(|summary| FeedThread {
                summary,
                requests: Vec::new(),
            })
            .collect(),
        removed: Vec::new(),
        counts: WaitingCounts::default(),
        more: false,
    };
    let refused = Some(HoldReason::SignIn);
    let mut threads: Vec<_> = (1..=20).map(|n| line(n, "codex", refused, 0)).collect();
    threads[6].queued = 1;
    threads.push(line(21, "claude", refused, 0));
    threads.push(line(22, "pi", Some(HoldReason::Failed), 1));
    threads.push(line(23, "opencode", None, 0));
    let feed = |store: &mut ReplicaStore, threads| {
        write(store, |tx| tx.apply_feed(HOST, &step(threads), None)).signed_out
    };
    assert!(feed(&mut store, threads.clone()));
    let found = store.signed_out(HOST).unwrap();
    let of = |agent: &str, threads, n| SignedOut {
        agent: agent.into(),
        threads,
        thread: thread(n),
        request: None,
        problem: None,
    };
    // The one that has something to say goes before later ones without.
    assert_eq!(found, [of("claude", 1, 21), of("codex", 20, 7)]);
    // What asks for the sign-in stands with it, and why the last one came to nothing.
    let asks = FeedThread {
        summary: ThreadSummary {
            sign_in_problem: Some("nobody came".to_owned()),
            ..threads[6].clone()
        },
        requests: vec![request(9, RequestKind::Auth)],
    };
    let told = FeedUpdate {
        threads: vec![asks],
        ..step(Vec::new())
    };
    assert!(write(&mut store, |tx| tx.apply_feed(HOST, &told, None)).signed_out);
    let signing_in = SignedOut {
        request: Some(request(9, RequestKind::Auth).id),
        problem: Some("nobody came".to_owned()),
        ..of("codex", 20, 7)
    };
    assert_eq!(
        store.signed_out(HOST).unwrap(),
        [of("claude", 1, 21), signing_in]
    );
    assert!(feed(&mut store, threads.clone()), "why goes, too");
    // The same again is no news; a thread more or less is.
    assert!(!feed(&mut store, threads));
    assert!(feed(&mut store, vec![line(7, "codex", None, 0)]));
    assert_eq!(store.signed_out(HOST).unwrap()[1], of("codex", 19, 20));
    assert!(feed(
        &mut store,
        (1..=21).map(|n| line(n, "codex", None, 0)).collect()
    ));
    assert_eq!(store.signed_out(HOST).unwrap(), []);
}

#[test]
fn a_step_of_the_feed_replaces_what_was_known_of_its_threads() {
    let (_dir, mut store) = store();
    let step = |revision, reset, threads: Vec<(u8, Vec<u64>)>, removed: Vec<u8>| FeedUpdate {
        cursor: FeedCursor {
            epoch: EPOCH,
            revision,
        },
        reset,
        threads: threads
            .into_iter()
            .map(|(n, requests)| FeedThread {
                summary: summary(n, u64::from(n)),
                requests: requests
                    .into_iter()
                    .map(|n| request(n, RequestKind::Command))
                    .collect(),
            })
            .collect(),
        removed: removed.into_iter().map(thread).collect(),
        counts: WaitingCounts {
            approvals: 42,
            questions: 1,
        },
        more: false,
    };
    let inbox = |store: &ReplicaStore| -> Vec<(u8, u64)> {
        store
            .inbox(10)
            .unwrap()
            .into_iter()
            .map(|(host, entry)| {
                assert_eq!(host, HOST);
                let n = u64::from_be_bytes(entry.request.id.as_bytes()[..8].try_into().unwrap());
                (entry.thread.as_bytes()[0], n)
            })
            .collect()
    };
    let threads = |store: &ReplicaStore| -> Vec<u8> {
        store
            .threads_after(ThreadFilter::default(), ThreadPlace::START, 10)
            .unwrap()
            .into_iter()
            .map(|(_, summary)| summary.thread.as_bytes()[0])
            .collect()
    };
    let first = step(
        3,
        false,
        vec![(1, vec![10, 11]), (2, vec![20]), (3, vec![])],
        vec![],
    );
    write(&mut store, |tx| {
        tx.apply_feed(HOST, &first, Some(first.cursor))
    });
    assert_eq!(threads(&store), [3, 2, 1], "last changed first");
    assert_eq!(inbox(&store), [(1, 10), (1, 11), (2, 20)]);
    assert_eq!(store.waiting_counts(HOST).unwrap().approvals, 3);
    // One answered, one new; those that stay keep their place.
    let second = step(4, false, vec![(1, vec![12, 11])], vec![2]);
    write(&mut store, |tx| {
        tx.apply_feed(HOST, &second, Some(second.cursor))
    });
    assert_eq!(threads(&store), [3, 1]);
    assert_eq!(inbox(&store), [(1, 11), (1, 12)]);
    assert_eq!(store.feed_cursor(HOST).unwrap().revision, 4);
    // Applying the same step again changes nothing.
    write(&mut store, |tx| {
        tx.apply_feed(HOST, &second, Some(second.cursor))
    });
    assert_eq!(inbox(&store), [(1, 11), (1, 12)]);
    let reset = step(1, true, vec![(5, vec![50])], vec![]);
    write(&mut store, |tx| {
        tx.apply_feed(HOST, &reset, Some(reset.cursor))
    });
    assert_eq!((threads(&store), inbox(&store)), (vec![5], vec![(5, 50)]));
    assert_eq!(store.feed_cursor(HOST).unwrap().revision, 1);
}

#[test]
fn the_lists_are_told_anew_to_another_version_of_the_program_and_only_then() {
    let (_dir, mut store) = store();
    let cursor = FeedCursor {
        epoch: Epoch::from_bytes([3; 16]),
        revision: 4,
    };
    let kept = |store: &mut ReplicaStore, program: &str| {
        write(store, |tx| tx.lists_are_read_by(program));
        store.feed_cursor(HOST).unwrap()
    };
    let line = summary(1, 10);
    kept(&mut store, "1");
    write(&mut store, |tx| {
        tx.put_summary(HOST, &line)?;
        tx.put_feed_cursor(HOST, cursor)
    });
    assert_eq!(kept(&mut store, "1"), cursor);
    let again = FeedCursor {
        revision: 0,
        ..cursor
    };
    assert_eq!(kept(&mut store, "2"), again);
    // What is known is shown until then.
    assert_eq!(store.summary(HOST, line.thread).unwrap(), Some(line));
    write(&mut store, |tx| tx.put_feed_cursor(HOST, cursor));
    assert_eq!(kept(&mut store, "2"), cursor);
}

#[test]
fn a_closed_request_leaves_the_inbox() {
    let (_dir, mut store) = store();
    let mut asked = request(1, RequestKind::UserInput);
    write(&mut store, |tx| tx.put_request(HOST, thread(1), &asked));
    assert_eq!(
        store.open_request(HOST, asked.id).unwrap().unwrap().thread,
        thread(1)
    );
    assert_eq!(store.waiting_counts(HOST).unwrap().questions, 1);
    asked.status = RequestStatus::Answering {
        answer: answer(),
        by: DEVICE,
        at_ms: 1,
    };
    write(&mut store, |tx| tx.put_request(HOST, thread(1), &asked));
    assert_eq!(
        store.waiting_counts(HOST).unwrap(),
        WaitingCounts::default()
    );
    assert_eq!(store.inbox(10).unwrap().len(), 1);
    asked.status = RequestStatus::Expired;
    write(&mut store, |tx| tx.put_request(HOST, thread(1), &asked));
    assert!(store.inbox(10).unwrap().is_empty());
}

#[test]
fn snapshot_and_entries_give_the_ledgers_digest_and_rows() {
    let ledger_dir = tempfile::tempdir().unwrap();
    let mut ledger = open(ledger_dir.path());
    append_all(
        &mut ledger,
        thread(1),
        vec![
            vec![created(thread(1))],
            vec![Event::ItemOpened { item: item(1, "x") }],
        ],
    );
    let (_dir, mut store) = store();
    let snapshot = ledger.snapshot(thread(1)).unwrap();
    let rows = ledger.tail_rows(thread(1), 50_000).unwrap();
    let mut open_item = item(2, "");
    open_item.status = ItemStatus::Open;
    let later = append_all(
        &mut ledger,
        thread(1),
        vec![
            vec![Event::ItemOpened { item: open_item }],
            vec![
                Event::RequestOpened {
                    request: Box::new(request(3, RequestKind::Command)),
                },
                Event::ItemClosed {
                    item: item_id(2),
                    status: ItemStatus::Completed,
                    content: None,
                    streamed: Some(Body::inline("done")),
                },
            ],
        ],
    );
    write(&mut store, |tx| {
        tx.reset_thread(HOST, &snapshot, &rows, &[])
    });
    assert_eq!(
        store.state(thread(1)).unwrap(),
        Some((HOST, snapshot.clone()))
    );
    let mut now = snapshot.clone();
    write(&mut store, |tx| {
        tx.apply_entries(HOST, &mut now, &later[..1])?;
        tx.append_live(
            thread(1),
            &LiveText {
                item: item_id(2),
                offset: 0,
                text: "do".into(),
            },
        )
    });
    assert_eq!(store.open_items(thread(1), 100).unwrap()[0].text, "do");
    // The close takes the saved text away.
    write(&mut store, |tx| {
        tx.apply_entries(HOST, &mut now, &later[1..])
    });
    assert!(store.open_items(thread(1), 100).unwrap().is_empty());
    let there = ledger.snapshot(thread(1)).unwrap();
    assert_eq!(now, there);
    assert_eq!(
        now.state.digest(&now.cursor),
        there.state.digest(&there.cursor)
    );
    assert_eq!(
        store.all_rows(thread(1)).unwrap(),
        ledger.all_rows(thread(1)).unwrap()
    );
    // An older snapshot and its rows replace all of it.
    write(&mut store, |tx| {
        tx.reset_thread(HOST, &snapshot, &rows, &[])
    });
    assert_eq!(store.all_rows(thread(1)).unwrap().len(), rows.len());
}

#[test]
fn entries_with_a_gap_are_refused_and_nothing_of_them_is_kept() {
    let ledger_dir = tempfile::tempdir().unwrap();
    let mut ledger = open(ledger_dir.path());
    append_all(&mut ledger, thread(1), vec![vec![created(thread(1))]]);
    let (_dir, mut store) = store();
    let snapshot = ledger.snapshot(thread(1)).unwrap();
    write(&mut store, |tx| tx.reset_thread(HOST, &snapshot, &[], &[]));
    let mut later = append_all(
        &mut ledger,
        thread(1),
        vec![
            vec![Event::ItemOpened { item: item(1, "x") }],
            Vec::new(),
            Vec::new(),
        ],
    );
    later.remove(1);
    let apply = |store: &mut ReplicaStore, mut at: Snapshot| {
        store.transaction(
            |tx| tx.apply_entries(HOST, &mut at, &later),
            Durability::Lazy,
        )
    };
    let error = apply(&mut store, snapshot.clone()).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Gap {
                applied: 2,
                came: 4,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(store.state(thread(1)).unwrap(), Some((HOST, snapshot)));
    assert!(store.all_rows(thread(1)).unwrap().is_empty());
    let other = Snapshot {
        state: ThreadState::empty(thread(2)),
        cursor: Cursor::default(),
    };
    let error = apply(&mut store, other).unwrap_err();
    assert!(
        matches!(error, StoreError::Gap { applied: 0, .. }),
        "{error:?}"
    );
    assert_eq!(store.state(thread(2)).unwrap(), None);
}

#[test]
fn live_text_heals_repeats_and_begins_anew_after_a_jump() {
    let ledger_dir = tempfile::tempdir().unwrap();
    let mut ledger = open(ledger_dir.path());
    append_all(&mut ledger, thread(1), vec![vec![created(thread(1))]]);
    let (_dir, mut store) = store();
    let snapshot = ledger.snapshot(thread(1)).unwrap();
    let open_item = |from, text: &str| OpenItem {
        item: item_id(1),
        from,
        text: text.into(),
    };
    write(&mut store, |tx| {
        tx.reset_thread(HOST, &snapshot, &[], &[open_item(100, "öl")])
    });
    for (offset, text, from, expected) in [
        (103, " und", 100, "öl und"),
        (102, "l und S", 100, "öl und S"),
        (50, "old", 100, "öl und S"),
        (109, "and", 100, "öl und Sand"),
        (500, "far", 500, "far"),
        (503, "!", 500, "far!"),
    ] {
        write(&mut store, |tx| {
            tx.append_live(
                thread(1),
                &LiveText {
                    item: item_id(1),
                    offset,
                    text: text.into(),
                },
            )
        });
        assert_eq!(
            store.open_items(thread(1), 1000).unwrap(),
            [open_item(from, expected)],
            "{text} at {offset}"
        );
    }
    write(&mut store, |tx| {
        tx.put_open_item(thread(1), &open_item(0, "all"))
    });
    let whole = store.open_text(item_id(1)).unwrap().unwrap();
    assert_eq!(
        (whole.text.as_str(), whole.starts_at, whole.ends_at),
        ("all", 0, 3)
    );
    write(&mut store, |tx| tx.forget_thread(thread(1)));
    assert_eq!(store.open_text(item_id(1)).unwrap(), None);
    assert_eq!(store.state(thread(1)).unwrap(), None);
}

#[test]
fn older_rows_do_not_overwrite_newer_ones() {
    let ledger_dir = tempfile::tempdir().unwrap();
    let mut ledger = open(ledger_dir.path());
    append_all(&mut ledger, thread(1), vec![vec![created(thread(1))]]);
    let (_dir, mut store) = store();
    let snapshot = ledger.snapshot(thread(1)).unwrap();
    let row = |n, text| Row::Item(item(n, text));
    write(&mut store, |tx| {
        tx.reset_thread(HOST, &snapshot, &[row(5, "new")], &[])?;
        tx.add_older_rows(thread(1), &[row(4, "older"), row(5, "as it was")])
    });
    let key = RowKind::Item.key(item_id(5).as_bytes());
    assert_eq!(store.row(thread(1), key).unwrap(), Some(row(5, "new")));
    let window = store.items_before(thread(1), None, 10_000).unwrap();
    assert_eq!(window.rows, [row(4, "older"), row(5, "new")]);
}

#[test]
fn a_writer_in_the_same_file_is_noticed_and_ones_own_writing_is_not() {
    let (dir, mut store) = store();
    assert!(!store.changed_since().unwrap());
    write(&mut store, |tx| tx.put_setting("a", "b"));
    assert!(!store.changed_since().unwrap(), "its own");
    let reader = store.reader().unwrap();
    let mut other = ReplicaStore::open(dir.path()).unwrap();
    write(&mut other, |tx| tx.put_setting("a", "c"));
    assert!(store.changed_since().unwrap());
    assert!(!store.changed_since().unwrap());
    assert!(reader.changed_since().unwrap());
    assert_eq!(reader.setting("a").unwrap().as_deref(), Some("c"));
}

#[test]
fn a_newer_replica_is_refused() {
    let (dir, store) = store();
    drop(store);
    tamper(&dir.path().join("replica.db"), "PRAGMA user_version = 7");
    let error = ReplicaStore::open(dir.path()).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerDatabase {
                found: 7,
                known: 3,
                ..
            }
        ),
        "{error:?}"
    );
}
