//! The part of a thread that a screen reads.

use super::support::*;
use crate::{Durability, LedgerStore, StoreError};
use pilothouse_domain::{
    Event, ItemContent, Position, RequestId, Row, RunId, TurnItem,
    item::Body,
    request::RequestKind,
    row::RowKind,
    run::{AttemptReason, BlockedOn, ExecutionNode, NodeKind, NodeStatus, Origin, Run, RunStatus},
};
use pilothouse_orchestrator::Rows;
use std::collections::BTreeSet;

fn run_row() -> Row {
    Row::Run(Run {
        id: RUN,
        ordinal: Some(1),
        status: RunStatus::Running,
        blocked_on: BlockedOn::None,
        origin: Origin::Person,
        message: Some(message(500, RUN, "do it").id),
        dispatch: None,
        attempt: None,
        supersedes: None,
        usage: None,
        error: None,
        started_at_ms: None,
        ended_at_ms: None,
    })
}

fn node_row() -> Row {
    Row::Node(ExecutionNode {
        id: NODE,
        parent: None,
        run: RUN,
        kind: NodeKind::RootTurn,
        title: String::new(),
        status: NodeStatus::Running,
        counts_for_run: true,
    })
}

/// A thread of `items` items with the rows that they name; every tenth is an approval.
fn thread_of(store: &mut LedgerStore, items: u64) {
    store
        .transaction(
            |tx| {
                let mut rows = tx.rows(thread(1))?;
                rows.put(run_row());
                rows.put(node_row());
                rows.put(Row::Message(message(500, RUN, "do it")));
                for n in 1..=items {
                    rows.put(Row::Item(nth(n)));
                    if n % 10 == 0 {
                        rows.put(Row::Request(Box::new(request(n, RequestKind::Command))));
                    }
                }
                Ok::<_, StoreError>(())
            },
            Durability::Lazy,
        )
        .unwrap();
}

fn nth(n: u64) -> TurnItem {
    let mut nth = item(n, &format!("line {n}"));
    if n.is_multiple_of(10) {
        nth.content = ItemContent::Approval {
            request: RequestId::from_bytes(bytes(n)),
        };
    }
    nth
}

fn items(rows: &[Row]) -> Vec<u64> {
    rows.iter()
        .filter_map(|row| match row {
            Row::Item(item) => Some(item.position.arrival),
            _ => None,
        })
        .collect()
}

/// Every row that an item of the window names is in the window.
fn assert_complete(rows: &[Row]) {
    let keys: BTreeSet<_> = rows.iter().map(Row::key).collect();
    assert_eq!(keys.len(), rows.len(), "no row twice");
    for row in rows {
        if let Row::Item(item) = row {
            assert!(keys.contains(&RowKind::Run.key(item.run.as_bytes())));
            assert!(keys.contains(&RowKind::Node.key(item.node.as_bytes())));
            if let ItemContent::Approval { request } = item.content {
                assert!(keys.contains(&RowKind::Request.key(request.as_bytes())));
            }
        }
        if let Row::Run(run) = row {
            assert!(keys.contains(&RowKind::Message.key(run.message.unwrap().as_bytes())));
        }
    }
}

#[test]
fn the_tail_holds_the_newest_items_and_what_they_name_within_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    thread_of(&mut store, 300);
    for max in [4_000, 12_000, 50_000] {
        let tail = store.tail(thread(1), max).unwrap();
        let json: usize = tail
            .rows
            .iter()
            .map(|row| serde_json::to_vec(row).unwrap().len())
            .sum();
        assert!(
            tail.bytes <= max && json <= max,
            "{json} and {} of {max}",
            tail.bytes
        );
        assert!(json > max / 2, "the room is used: {json} of {max}");
        let shown = items(&tail.rows);
        let first = 301 - u64::try_from(shown.len()).unwrap();
        assert_eq!(shown, (first..=300).collect::<Vec<_>>());
        assert_complete(&tail.rows);
        assert!(tail.more);
    }
    let all = store.tail(thread(1), usize::MAX).unwrap();
    assert_eq!(items(&all.rows).len(), 300);
    assert!(!all.more);
    assert_eq!(
        items(&store.tail_rows(thread(1), 0).unwrap()),
        [300],
        "at least one"
    );
    assert!(store.tail_rows(thread(2), 1000).unwrap().is_empty());
}

#[test]
fn pages_before_a_position_lead_through_the_whole_thread() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    thread_of(&mut store, 100);
    let mut seen = Vec::new();
    let mut before = Position {
        run: u32::MAX,
        arrival: u64::MAX,
    };
    loop {
        let page = store.items_before(thread(1), before, 6_000).unwrap();
        assert_complete(&page.rows);
        let mut shown = items(&page.rows);
        let Some(first) = shown.first().copied() else {
            break;
        };
        before = Position {
            run: 1,
            arrival: first,
        };
        assert_eq!(page.more, first > 1);
        shown.extend(seen);
        seen = shown;
    }
    assert_eq!(seen, (1..=100).collect::<Vec<_>>());
}

#[test]
fn a_late_item_of_an_old_run_stays_in_that_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let at = |run, arrival| {
        let mut item = item(arrival, "x");
        item.position = Position { run, arrival };
        Row::Item(item)
    };
    store
        .transaction(
            |tx| {
                let mut rows = tx.rows(thread(1))?;
                for row in [at(1, 1), at(2, 2), at(1, 3)] {
                    rows.put(row);
                }
                Ok::<_, StoreError>(())
            },
            Durability::Lazy,
        )
        .unwrap();
    assert_eq!(
        items(&store.tail_rows(thread(1), 10_000).unwrap()),
        [1, 3, 2]
    );
}

#[test]
fn the_tail_has_what_the_state_points_at_however_old_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let mut open_item = item(1, "");
    open_item.status = pilothouse_domain::ItemStatus::Open;
    let queued = RunId::from_bytes([77; 16]);
    let attempt = pilothouse_domain::AttemptId::from_bytes([4; 16]);
    let mut entries = vec![
        vec![created(thread(1))],
        vec![
            Event::MessageAdded {
                message: message(500, RUN, "do it"),
            },
            Event::RunStarted {
                run: RUN,
                message: Some(message(500, RUN, "").id),
                ordinal: 1,
                origin: Origin::Person,
                dispatch: None,
                supersedes: None,
            },
            Event::AttemptStarted {
                attempt,
                run: RUN,
                ordinal: 1,
                reason: AttemptReason::Initial,
                root_node: NODE,
                message: None,
            },
            Event::ItemOpened { item: open_item },
            Event::RequestOpened {
                request: Box::new(request(600, RequestKind::Command)),
            },
            Event::MessageAdded {
                message: message(501, queued, "then this"),
            },
            Event::RunQueued {
                run: queued,
                message: message(501, queued, "").id,
                dispatch: pilothouse_domain::DispatchMode::QueueAfterActive,
                place: pilothouse_domain::event::QueuePlace::Tail,
                origin: Origin::Person,
            },
        ],
    ];
    for n in 2..200 {
        let mut closed = item(n, "later");
        closed.content = ItemContent::AssistantMessage {
            text: Body::inline("later"),
        };
        entries.push(vec![Event::ItemOpened { item: closed }]);
    }
    append_all(&mut store, thread(1), entries);
    let rows = store.tail_rows(thread(1), 8_000).unwrap();
    let keys: BTreeSet<_> = rows.iter().map(Row::key).collect();
    for key in [
        RowKind::Item.key(item_id(1).as_bytes()),
        RowKind::Request.key(&bytes(600)),
        RowKind::Run.key(queued.as_bytes()),
        RowKind::Message.key(&bytes(501)),
        RowKind::Attempt.key(attempt.as_bytes()),
        RowKind::Run.key(RUN.as_bytes()),
    ] {
        assert!(keys.contains(&key), "{key:?}");
    }
    let shown = items(&rows);
    assert_eq!(shown[0], 1, "items are in their order");
    assert!(shown.len() > 2 && shown.is_sorted());
    assert_eq!(shown.last(), Some(&199));
    // Also when the kept state is older than the log.
    store
        .transaction(
            |tx| {
                let entry = tx.append(
                    thread(1),
                    pilothouse_domain::Cause::Clock,
                    1,
                    vec![Event::RequestOpened {
                        request: Box::new(request(601, RequestKind::UserInput)),
                    }],
                )?;
                tx.rows(thread(1))?
                    .put(Row::Request(Box::new(request(601, RequestKind::UserInput))));
                Ok::<_, StoreError>(entry)
            },
            Durability::Lazy,
        )
        .unwrap();
    let keys: BTreeSet<_> = store
        .tail_rows(thread(1), 8_000)
        .unwrap()
        .iter()
        .map(Row::key)
        .collect();
    assert!(keys.contains(&RowKind::Request.key(&bytes(601))));
}
