//! Commands from the tap to their outcome.

use super::support::*;
use crate::{Delivery, Durability, ParkReason, ReplicaStore, StoreError};
use pilothouse_domain::{
    Answer, CommandBody, Cursor, HostId, Outcome, Refusal, limits, request::QuestionReply,
};

fn store() -> (tempfile::TempDir, ReplicaStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = ReplicaStore::open(dir.path()).unwrap();
    (dir, store)
}

fn accepted() -> Outcome {
    Outcome::Accepted {
        cursor: Cursor::default(),
        notice: None,
    }
}

fn pending(store: &ReplicaStore) -> Vec<u64> {
    store
        .pending(HOST)
        .unwrap()
        .iter()
        .map(|entry| u64::from_be_bytes(entry.command.id.as_bytes()[..8].try_into().unwrap()))
        .collect()
}

fn delivery(store: &ReplicaStore, n: u64) -> Delivery {
    store.outbox_entry(command_id(n)).unwrap().unwrap().delivery
}

#[test]
fn commands_wait_in_order_and_are_numbered_by_thread() {
    let (dir, mut store) = store();
    let other = HostId::from_bytes([8; 16]);
    let numbers: Vec<u64> = [
        (5, 1, HOST),
        (3, 1, HOST),
        (4, 2, HOST),
        (1, 1, other),
        (2, 1, HOST),
    ]
    .into_iter()
    .map(|(n, t, host)| {
        let pushed = store.push(host, release_command(n, thread(t)), 10).unwrap();
        pushed.device_seq
    })
    .collect();
    assert_eq!(numbers, [1, 2, 1, 1, 3]);
    assert_eq!(pending(&store), [5, 3, 4, 2]);
    // A repeat changes nothing.
    let again = store.push(HOST, release_command(3, thread(1)), 99).unwrap();
    assert_eq!(again.device_seq, 2);
    drop(store);
    let store = ReplicaStore::open(dir.path()).unwrap();
    assert_eq!(pending(&store), [5, 3, 4, 2]);
    let entry = store.outbox_entry(command_id(3)).unwrap().unwrap();
    assert_eq!(
        (entry.host, entry.created_ms, entry.handed),
        (HOST, 10, false)
    );
    assert_eq!(entry.delivery, Delivery::Saved);
    assert_eq!(entry.command.device_seq, 2);
}

#[test]
fn a_number_is_never_given_twice_even_if_its_command_is_withdrawn() {
    let (_dir, mut store) = store();
    store.push(HOST, release_command(1, thread(1)), 1).unwrap();
    let withdrawn = store
        .transaction(|tx| tx.withdraw(command_id(1)), Durability::Synced)
        .unwrap();
    assert!(withdrawn);
    let next = store.push(HOST, release_command(2, thread(1)), 1).unwrap();
    assert_eq!(next.device_seq, 2);
    store.mark_handed(&[command_id(2)]).unwrap();
    let withdrawn = store
        .transaction(|tx| tx.withdraw(command_id(2)), Durability::Synced)
        .unwrap();
    assert!(!withdrawn, "it may be on the host");
}

#[test]
fn a_handed_command_stays_pending_until_its_outcome() {
    let (dir, mut store) = store();
    for n in [1, 2] {
        store.push(HOST, release_command(n, thread(1)), 1).unwrap();
    }
    store.mark_handed(&[command_id(1)]).unwrap();
    drop(store);
    let mut store = ReplicaStore::open(dir.path()).unwrap();
    assert_eq!(delivery(&store, 1), Delivery::Handed);
    assert_eq!(pending(&store), [1, 2]);
    assert_eq!(store.outcome(command_id(1)).unwrap(), None);
    let busy = Outcome::Refused {
        refusal: Refusal::NotReady,
    };
    assert!(
        !store.settle(command_id(1), &busy).unwrap(),
        "to be sent again"
    );
    assert_eq!(delivery(&store, 1), Delivery::Handed);
    assert!(store.settle(command_id(1), &accepted()).unwrap());
    assert_eq!(store.outcome(command_id(1)).unwrap(), Some(accepted()));
    assert_eq!(pending(&store), [2]);
    // The first outcome holds, and a settled command is not handed again.
    let late = Outcome::Refused {
        refusal: Refusal::Expired,
    };
    store.settle(command_id(1), &late).unwrap();
    store.mark_handed(&[command_id(1)]).unwrap();
    assert_eq!(delivery(&store, 1), Delivery::Done(accepted()));
}

#[test]
fn answers_expire_after_fifteen_minutes_and_messages_after_two_days_but_only_if_never_handed() {
    let (_dir, mut store) = store();
    let start = 1_000_000;
    store
        .push(HOST, answer_command(1, thread(1)), start)
        .unwrap();
    store
        .push(HOST, release_command(2, thread(1)), start)
        .unwrap();
    store
        .push(HOST, answer_command(3, thread(1)), start)
        .unwrap();
    store
        .push(HOST, release_command(4, thread(1)), start)
        .unwrap();
    store.mark_handed(&[command_id(3), command_id(4)]).unwrap();
    assert!(
        store
            .expire(start + limits::ANSWER_EXPIRES_MS)
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        store.expire(start + limits::ANSWER_EXPIRES_MS + 1).unwrap(),
        [command_id(1)]
    );
    assert_eq!(delivery(&store, 1), Delivery::Expired);
    assert!(
        store
            .expire(start + limits::MESSAGE_EXPIRES_MS)
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        store
            .expire(start + limits::MESSAGE_EXPIRES_MS + 1)
            .unwrap(),
        [command_id(2)]
    );
    assert_eq!(pending(&store), [3, 4]);
    assert!(store.expire(u64::MAX).unwrap().is_empty());
    // What was handed may not become unhanded by a detour over parking.
    store
        .transaction(
            |tx| {
                tx.park(command_id(3), ParkReason::LedgerRestored)?;
                tx.unpark(command_id(3))
            },
            Durability::Synced,
        )
        .unwrap();
    assert_eq!(delivery(&store, 3), Delivery::Handed);
    assert!(store.expire(u64::MAX).unwrap().is_empty());
    // The clock of a device may go back.
    assert!(store.expire(0).unwrap().is_empty());
    // An expired command is not sent any more.
    store.mark_handed(&[command_id(1)]).unwrap();
    assert_eq!(delivery(&store, 1), Delivery::Expired);
}

#[test]
fn a_parked_command_waits_for_its_person() {
    let (_dir, mut store) = store();
    for n in 1..=3 {
        store.push(HOST, release_command(n, thread(1)), 1).unwrap();
    }
    let reason = ParkReason::DependsOn {
        command: command_id(1),
    };
    store
        .transaction(|tx| tx.park(command_id(2), reason), Durability::Synced)
        .unwrap();
    assert_eq!(pending(&store), [1, 3]);
    assert_eq!(delivery(&store, 2), Delivery::Parked(reason));
    store
        .transaction(|tx| tx.unpark(command_id(2)), Durability::Synced)
        .unwrap();
    assert_eq!(pending(&store), [1, 2, 3], "in its old place");
    store.settle(command_id(3), &accepted()).unwrap();
    store
        .transaction(
            |tx| tx.park_all(HOST, ParkReason::DeviceRevoked),
            Durability::Synced,
        )
        .unwrap();
    assert!(pending(&store).is_empty());
    assert_eq!(
        delivery(&store, 1),
        Delivery::Parked(ParkReason::DeviceRevoked)
    );
    assert_eq!(delivery(&store, 3), Delivery::Done(accepted()));
    // An outcome that becomes known after all settles a parked one too.
    assert!(store.settle(command_id(1), &accepted()).unwrap());
    assert_eq!(delivery(&store, 1), Delivery::Done(accepted()));
}

#[test]
fn only_what_is_over_is_pruned() {
    let (_dir, mut store) = store();
    for n in 1..=4 {
        store.push(HOST, release_command(n, thread(1)), n).unwrap();
    }
    store.settle(command_id(1), &accepted()).unwrap();
    store.settle(command_id(4), &accepted()).unwrap();
    let pruned = store
        .transaction(|tx| tx.prune_outbox(3), Durability::Lazy)
        .unwrap();
    assert_eq!(pruned, 1);
    let left: Vec<_> = store
        .outbox()
        .unwrap()
        .into_iter()
        .map(|entry| entry.command.id)
        .collect();
    assert_eq!(left, [command_id(2), command_id(3), command_id(4)]);
    let next = store.push(HOST, release_command(5, thread(1)), 5).unwrap();
    assert_eq!(next.device_seq, 5);
}

#[test]
fn a_push_that_fails_halfway_gives_no_number_away() {
    let (_dir, mut store) = store();
    let failed: Result<(), StoreError> = store.transaction(
        |tx| {
            tx.push(HOST, release_command(1, thread(1)), 1)?;
            Err(StoreError::Missing {
                path: "here".into(),
                what: "reason".into(),
            })
        },
        Durability::Synced,
    );
    failed.unwrap_err();
    assert!(store.outbox().unwrap().is_empty());
    let pushed = store.push(HOST, release_command(2, thread(1)), 1).unwrap();
    assert_eq!(pushed.device_seq, 1);
}

#[test]
fn the_words_of_an_answer_are_gone_from_the_disk_once_it_has_ended() {
    const SECRET: &str = "correct horse battery staple";
    let (dir, mut store) = store();
    // Long enough for pages of its own as well.
    let long = SECRET.repeat(1000);
    for (n, words) in [(1, SECRET), (2, &long), (3, SECRET), (4, SECRET)] {
        let mut command = answer_command(n, thread(1));
        if let CommandBody::RequestAnswer { answer, .. } = &mut command.body {
            let (chosen, text) = match n {
                4 => (vec![words.to_owned()], None),
                _ => (Vec::new(), Some(words.to_owned())),
            };
            *answer = Answer::Reply {
                replies: vec![QuestionReply {
                    question: "q".to_owned(),
                    chosen,
                    text,
                }],
            };
        }
        store.push(HOST, command, 1).unwrap();
    }
    let held = |dir: &std::path::Path| {
        std::fs::read_dir(dir).unwrap().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes
                .windows(SECRET.len())
                .any(|part| part == SECRET.as_bytes())
        })
    };
    drop(store);
    assert!(held(dir.path()), "they are there while they are to be sent");
    let mut store = ReplicaStore::open(dir.path()).unwrap();
    store.mark_handed(&[1, 2, 4].map(command_id)).unwrap();
    let refused = Outcome::Refused {
        refusal: Refusal::NotReady,
    };
    assert!(!store.settle(command_id(1), &refused).unwrap());
    let entry = store.outbox_entry(command_id(1)).unwrap().unwrap();
    let body = serde_json::to_string(&entry.command.body).unwrap();
    assert!(body.contains(SECRET), "it is still to be sent again");
    for n in [1, 2, 4] {
        assert!(store.settle(command_id(n), &accepted()).unwrap());
    }
    let expired = store.expire(limits::ANSWER_EXPIRES_MS + 2).unwrap();
    assert_eq!(expired, [command_id(3)]);
    for n in [1, 2, 3, 4] {
        let entry = store.outbox_entry(command_id(n)).unwrap().unwrap();
        let body = serde_json::to_string(&entry.command.body).unwrap();
        assert!(body.contains(pilothouse_orchestrator::MASK));
    }
    drop(store);
    assert!(!held(dir.path()));
}
