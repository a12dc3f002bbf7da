//! The summary feed, open requests and devices.

use super::support::*;
use crate::{DeviceRow, Durability, StoreError};
use pilothouse_domain::{
    AttemptId, ContentHash, DeviceId, Effect, EffectId, EffectKind, EffectOutcome, Event,
    RequestStatus, Row, RuntimeRequest, Scope,
    request::RequestKind,
    row::{InboxEntry, WaitingCounts},
};
use pilothouse_orchestrator::Rows;

#[test]
fn the_feed_gives_each_thread_at_its_last_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for n in [1, 2, 3, 1] {
        append_all(&mut store, thread(n), vec![vec![created(thread(n))]]);
    }
    let changes = store.summaries_since(0, 10).unwrap();
    let order: Vec<_> = changes.iter().map(|c| (c.revision, c.thread)).collect();
    assert_eq!(order, [(2, thread(2)), (3, thread(3)), (4, thread(1))]);
    assert_eq!(changes[2].summary.as_ref().unwrap().seq, 2);
    assert_eq!(store.feed_revision().unwrap(), 4);
    // A page, and the rest.
    let page = store.summaries_since(0, 2).unwrap();
    assert_eq!(page, changes[..2]);
    assert_eq!(
        store.summaries_since(page[1].revision, 2).unwrap(),
        changes[2..]
    );
    // A tombstone is a change like any other.
    let revision = store
        .transaction(|tx| tx.remove_summary(thread(1)), Durability::Lazy)
        .unwrap();
    assert_eq!(revision, 5);
    let gone = store.summaries_since(4, 10).unwrap();
    assert_eq!(
        (gone.len(), gone[0].thread, &gone[0].summary),
        (1, thread(1), &None)
    );
    assert_eq!(store.summary(thread(1)).unwrap(), None);
    assert!(store.summaries_since(5, 10).unwrap().is_empty());
}

#[test]
fn open_requests_follow_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let put = |store: &mut crate::LedgerStore, n: u8, request: &RuntimeRequest| {
        store
            .transaction(
                |tx| {
                    tx.rows(thread(n))?
                        .put(Row::Request(Box::new(request.clone())));
                    Ok::<_, StoreError>(())
                },
                Durability::Lazy,
            )
            .unwrap();
    };
    let (mut approval, question) = (
        request(1, RequestKind::Command),
        request(2, RequestKind::UserInput),
    );
    put(&mut store, 1, &approval);
    put(&mut store, 2, &question);
    put(&mut store, 2, &request(3, RequestKind::FileChange));
    let entry = |n, request: &RuntimeRequest| InboxEntry {
        thread: thread(n),
        request: Box::new(request.clone()),
    };
    assert_eq!(store.open_requests().unwrap().len(), 3);
    let counts = |approvals, questions| WaitingCounts {
        approvals,
        questions,
    };
    assert_eq!(store.waiting_counts().unwrap(), counts(2, 1));
    assert_eq!(
        store.open_requests_of(thread(2)).unwrap(),
        [question.clone(), request(3, RequestKind::FileChange)]
    );
    approval.status = RequestStatus::Answering {
        answer: answer(),
        by: DEVICE,
        at_ms: 1,
    };
    put(&mut store, 1, &approval);
    assert_eq!(
        store.waiting_counts().unwrap(),
        counts(1, 1),
        "being answered"
    );
    assert_eq!(store.open_requests().unwrap()[0], entry(1, &approval));
    approval.status = RequestStatus::Withdrawn;
    put(&mut store, 1, &approval);
    assert_eq!(store.open_requests().unwrap().len(), 2);
    assert!(store.open_requests_of(thread(1)).unwrap().is_empty());
    assert!(store.open_requests_of(thread(9)).unwrap().is_empty());
}

#[test]
fn what_is_asked_often_costs_nothing_for_what_is_not_meant() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let effect = |n: u64| Effect {
        id: EffectId::from_bytes(bytes(n)),
        kind: EffectKind::Interrupt {
            run: RUN,
            attempt: AttemptId::from_bytes(bytes(n)),
            turn: None,
        },
    };
    for n in 1..=2 {
        let mut entries = vec![vec![created(thread(n))]];
        entries.extend((0..200).map(|i| {
            vec![Event::ItemOpened {
                item: item(u64::from(n) * 1000 + i, "x"),
            }]
        }));
        append_all(&mut store, thread(n), entries);
        store
            .transaction(
                |tx| {
                    let mut rows = tx.rows(thread(n))?;
                    for i in 0..200 {
                        let mut asked = request(u64::from(n) * 1000 + i, RequestKind::Command);
                        if i > 0 {
                            asked.status = RequestStatus::Withdrawn;
                        }
                        rows.put(Row::Request(Box::new(asked)));
                        let effect = effect(u64::from(n) * 1000 + i);
                        tx.put_effect(thread(n), i, &effect)?;
                        if i > 0 {
                            tx.effect_done(effect.id, &EffectOutcome::Acknowledged)?;
                        }
                    }
                    tx.set_live(thread(1), true)
                },
                Durability::Lazy,
            )
            .unwrap();
    }
    let reader = store.reader().unwrap();
    let scanned = |what: &str, most: i32, asked: &dyn Fn() -> usize| {
        reader.db.take_scanned();
        let found = asked();
        assert!(found > 0, "{what} finds something");
        let steps = reader.db.take_scanned();
        assert!(steps <= most, "{what} stepped over {steps} rows");
    };
    scanned("open requests", 2, &|| {
        reader.open_requests().unwrap().len()
    });
    scanned("open requests of a thread", 0, &|| {
        reader.open_requests_of(thread(1)).unwrap().len()
    });
    scanned("counts", 2, &|| {
        reader.waiting_counts().unwrap().approvals as usize
    });
    scanned("unfinished effects", 2, &|| {
        reader.unfinished_effects().unwrap().len()
    });
    scanned("live threads", 1, &|| reader.live_threads().unwrap().len());
    scanned("the tail", 0, &|| {
        reader.tail_rows(thread(1), 5000).unwrap().len()
    });
    scanned("entries", 0, &|| {
        reader.entries_after(thread(2), 190, 10_000).unwrap().len()
    });
    scanned("the feed", 0, &|| {
        reader.summaries_since(0, 10).unwrap().len()
    });
    scanned("all threads", 2, &|| reader.threads().unwrap().len());
    // The measure itself: a query that has to look at every row is seen to do so.
    reader
        .db
        .one("", "SELECT count(*) FROM rows WHERE json > ''", [], |row| {
            row.get::<_, i64>(0)
        })
        .unwrap();
    assert!(reader.db.take_scanned() > 400);
}

#[test]
fn live_threads_are_those_marked() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for n in 1..=3 {
        append_all(&mut store, thread(n), vec![Vec::new()]);
    }
    store
        .transaction(
            |tx| {
                tx.set_live(thread(3), true)?;
                tx.set_live(thread(1), true)?;
                tx.set_live(thread(3), false)
            },
            Durability::Lazy,
        )
        .unwrap();
    assert_eq!(store.live_threads().unwrap(), [thread(1)]);
}

#[test]
fn a_device_is_found_by_its_key_and_a_valid_one_before_a_revoked_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let spki = ContentHash::of("key");
    let device = |n: u8, revoked| DeviceRow {
        device: DeviceId::from_bytes([n; 16]),
        name: format!("phone {n}"),
        spki,
        scopes: vec![Scope::Read, Scope::Approve],
        paired_at_ms: u64::from(n),
        revoked,
    };
    let put = |store: &mut crate::LedgerStore, row: DeviceRow| {
        store
            .transaction(|tx| tx.put_device(&row), Durability::Synced)
            .unwrap();
    };
    assert_eq!(store.device_by_spki(spki).unwrap(), None);
    put(&mut store, device(1, false));
    assert_eq!(store.device_by_spki(spki).unwrap(), Some(device(1, false)));
    put(&mut store, device(1, true));
    assert_eq!(store.device_by_spki(spki).unwrap(), Some(device(1, true)));
    put(&mut store, device(2, false));
    put(&mut store, device(3, true));
    assert_eq!(store.device_by_spki(spki).unwrap(), Some(device(2, false)));
    assert_eq!(
        store.device_by_spki(ContentHash::of("other")).unwrap(),
        None
    );
    assert_eq!(
        store.devices().unwrap(),
        [device(1, true), device(2, false), device(3, true)]
    );
    assert_eq!(
        store.device(device(3, true).device).unwrap(),
        Some(device(3, true))
    );
}

#[test]
fn a_setting_is_what_was_put_last() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    assert_eq!(store.setting("name").unwrap(), None);
    for value in ["a", "b"] {
        store
            .transaction(|tx| tx.put_setting("name", value), Durability::Lazy)
            .unwrap();
    }
    assert_eq!(store.setting("name").unwrap().as_deref(), Some("b"));
}
