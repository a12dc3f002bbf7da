//! State, rows and summary from the log alone are what was kept step by step.

use super::support::*;
use crate::{Difference, Durability, LedgerStore};
use pilothouse_domain::{
    AttemptId, ContentHash, Event, ItemContent, ItemStatus, MessageId, NodeId, Position, RequestId,
    RequestStatus, RunId, RunStatus, TurnItem,
    event::{HoldReason, QueuePlace},
    item::Body,
    request::RequestKind,
    run::{
        AttemptReason, AttemptStatus, BlockedOn, Correlation, ExecutionNode, NodeKind, NodeStatus,
        Origin,
    },
    thread::Delivery,
};
use proptest::prelude::*;

/// Any event over a few ids, also where it makes no sense: `apply` and `project` are total.
fn any_event() -> impl Strategy<Value = Event> {
    let n = 1_u64..4;
    let run = |n| RunId::from_bytes(bytes(n));
    let text = prop_oneof!["[a-z]{0,30}", Just("long ".repeat(1200))];
    prop_oneof![
        Just(created(thread(1))),
        (n.clone(), n.clone()).prop_map(move |(m, r)| Event::MessageAdded {
            message: message(m, run(r), "do it")
        }),
        n.clone().prop_map(|m| Event::MessageDelivery {
            message: MessageId::from_bytes(bytes(m)),
            delivery: Delivery::Started
        }),
        n.clone().prop_map(move |r| Event::RunQueued {
            run: run(r),
            message: MessageId::from_bytes(bytes(r)),
            dispatch: pilothouse_domain::DispatchMode::QueueAfterActive,
            place: QueuePlace::Tail,
            origin: Origin::Person
        }),
        (n.clone(), 1_u32..5).prop_map(move |(r, ordinal)| Event::RunStarted {
            run: run(r),
            message: Some(MessageId::from_bytes(bytes(r))),
            ordinal,
            origin: Origin::Person,
            dispatch: None,
            supersedes: None
        }),
        n.clone().prop_map(move |r| Event::RunStatusChanged {
            run: run(r),
            status: RunStatus::Waiting,
            blocked_on: BlockedOn::Approval
        }),
        (n.clone(), n.clone()).prop_map(move |(a, r)| Event::AttemptStarted {
            attempt: AttemptId::from_bytes(bytes(a)),
            run: run(r),
            ordinal: 1,
            reason: AttemptReason::Initial,
            root_node: NodeId::from_bytes(bytes(a)),
            message: None
        }),
        n.clone().prop_map(|a| Event::AttemptEnded {
            attempt: AttemptId::from_bytes(bytes(a)),
            status: AttemptStatus::Completed,
            correlation: Correlation::Strong,
            error: None
        }),
        n.clone().prop_map(move |r| Event::RunEnded {
            run: run(r),
            status: RunStatus::Completed,
            error: None
        }),
        (n.clone(), n.clone(), text.clone(), any::<bool>()).prop_map(move |(i, r, text, open)| {
            Event::ItemOpened {
                item: TurnItem {
                    run: run(r),
                    position: Position {
                        run: u32::try_from(r).unwrap(),
                        arrival: i,
                    },
                    status: if open {
                        ItemStatus::Open
                    } else {
                        ItemStatus::Completed
                    },
                    ..item(i, &text)
                },
            }
        }),
        (n.clone(), text.clone()).prop_map(|(i, text)| Event::ItemUpdated {
            item: item_id(i),
            content: ItemContent::AssistantMessage {
                text: Body::inline(text)
            }
        }),
        (n.clone(), text, any::<bool>()).prop_map(|(i, text, whole)| {
            let text = Body::inline(text);
            Event::ItemClosed {
                item: item_id(i),
                status: ItemStatus::Completed,
                content: whole.then(|| ItemContent::AssistantMessage { text: text.clone() }),
                streamed: (!whole).then_some(text),
            }
        }),
        (n.clone(), n.clone()).prop_map(move |(k, r)| Event::NodeOpened {
            node: ExecutionNode {
                id: NodeId::from_bytes(bytes(k)),
                parent: None,
                run: run(r),
                kind: NodeKind::Subagent,
                title: "look".into(),
                status: NodeStatus::Running,
                counts_for_run: true
            }
        }),
        n.clone().prop_map(|k| Event::NodeStatusChanged {
            node: NodeId::from_bytes(bytes(k)),
            status: NodeStatus::Completed
        }),
        (n.clone(), any::<bool>()).prop_map(|(q, question)| Event::RequestOpened {
            request: Box::new(request(
                q,
                if question {
                    RequestKind::UserInput
                } else {
                    RequestKind::Command
                }
            ))
        }),
        n.clone().prop_map(|q| Event::RequestChanged {
            request: RequestId::from_bytes(bytes(q)),
            subject: "{}".into(),
            content_hash: ContentHash::of("{}"),
            one_tap_allowed: false,
            default_to_no: true,
            hints: Vec::new()
        }),
        n.clone().prop_map(|q| Event::RequestAnswering {
            request: RequestId::from_bytes(bytes(q)),
            answer: answer(),
            by: DEVICE,
            command: command_id(1)
        }),
        n.prop_map(|q| Event::RequestClosed {
            request: RequestId::from_bytes(bytes(q)),
            status: RequestStatus::Withdrawn
        }),
        Just(Event::QueueHeld {
            reason: Some(HoldReason::Person)
        }),
        Just(Event::QueueHeld { reason: None }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rebuilt_from_the_log_equals_kept_step_by_step(
        entries in prop::collection::vec(prop::collection::vec(any_event(), 0..6), 1..20)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        append_all(&mut store, thread(1), entries);
        store.verify(thread(1)).unwrap();
        let (kept, rows, summary) = (
            store.state(thread(1)).unwrap().unwrap(),
            store.all_rows(thread(1)).unwrap(),
            store.summary(thread(1)).unwrap(),
        );
        prop_assert_eq!(&store.snapshot(thread(1)).unwrap(), &kept);
        drop(store);
        tamper(&dir.path().join("ledger.db"), "DELETE FROM states");
        tamper_any(&dir.path().join("ledger.db"), "DELETE FROM rows");
        let mut store = open(dir.path());
        prop_assert_eq!(&store.snapshot(thread(1)).unwrap(), &kept, "from the log alone");
        let rebuilt = store.transaction(|tx| tx.rebuild(thread(1)), Durability::Synced).unwrap();
        prop_assert_eq!(rebuilt.snapshot.state.digest(&rebuilt.snapshot.cursor), kept.state.digest(&kept.cursor));
        prop_assert_eq!(&rebuilt.snapshot, &kept);
        prop_assert_eq!(&rebuilt.summary, &summary);
        prop_assert_eq!(&store.state(thread(1)).unwrap().unwrap(), &kept);
        prop_assert_eq!(store.all_rows(thread(1)).unwrap(), rows);
        store.verify(thread(1)).unwrap();
    }
}

fn tamper_any(file: &std::path::Path, sql: &str) {
    rusqlite::Connection::open(file)
        .unwrap()
        .execute_batch(sql)
        .unwrap();
}

/// A thread with a state, an item and a summary, whose database was changed behind the store's back.
fn tampered(dir: &std::path::Path, sql: &str) -> LedgerStore {
    let mut store = open(dir);
    append_all(
        &mut store,
        thread(1),
        vec![
            vec![created(thread(1))],
            vec![Event::ItemOpened { item: item(1, "x") }],
        ],
    );
    store.verify(thread(1)).unwrap();
    drop(store);
    tamper(&dir.join("ledger.db"), sql);
    open(dir)
}

#[test]
fn verify_names_what_differs_and_rebuild_mends_it() {
    type Expected = fn(&Difference) -> bool;
    let cases: [(&str, Expected); 5] = [
        (
            "UPDATE states SET json = replace(json, 'Tidy', 'Tidx')",
            |d| matches!(d, Difference::State { seq: 2, .. }),
        ),
        (
            "UPDATE rows SET json = replace(json, 'completed', 'failed') WHERE kind = 5",
            |d| {
                matches!(
                    d,
                    Difference::Row {
                        kept: Some(_),
                        replayed: Some(_),
                        ..
                    }
                )
            },
        ),
        ("DELETE FROM rows WHERE kind = 5", |d| {
            matches!(
                d,
                Difference::Row {
                    kept: None,
                    replayed: Some(_),
                    ..
                }
            )
        }),
        (
            "INSERT INTO rows (thread, kind, id, json) SELECT thread, 1, zeroblob(16), \
             '{\"id\":\"00000000000000000000000000\",\"role\":\"user\",\"text\":\"\",\"run\":\"00000000000000000000000000\",\
             \"author\":{\"by\":\"agent\"},\"delivery\":{\"delivery\":\"saved\"}}' FROM rows LIMIT 1",
            |d| {
                matches!(
                    d,
                    Difference::Row {
                        kept: Some(_),
                        replayed: None,
                        ..
                    }
                )
            },
        ),
        (
            "UPDATE summaries SET json = replace(json, 'Tidy', 'Tidx')",
            |d| matches!(d, Difference::Summary { .. }),
        ),
    ];
    for (sql, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut store = tampered(dir.path(), sql);
        let difference = store.verify(thread(1)).unwrap_err();
        assert!(expected(&difference), "{sql}: {difference:?}");
        store
            .transaction(|tx| tx.rebuild(thread(1)), Durability::Lazy)
            .unwrap();
        store.verify(thread(1)).unwrap();
    }
}

#[test]
fn a_state_of_another_version_is_not_read_but_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = tampered(
        dir.path(),
        "UPDATE states SET version = 0, json = '{\"version\":0}'",
    );
    assert_eq!(store.state(thread(1)).unwrap(), None);
    let from_log = store.snapshot(thread(1)).unwrap();
    assert_eq!(from_log.cursor.seq, 2);
    store
        .transaction(|tx| tx.rebuild(thread(1)), Durability::Lazy)
        .unwrap();
    assert_eq!(store.state(thread(1)).unwrap(), Some(from_log));
}
