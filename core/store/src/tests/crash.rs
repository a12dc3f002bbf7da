//! Processes that die at any moment, and processes side by side.

use super::support::*;
use crate::{Durability, LedgerStore, ReplicaStore, StoreError};
use std::collections::BTreeSet;

/// Not a test by itself: the process that is killed in the middle of a transaction.
#[test]
fn child_dies_inside_a_transaction() {
    let Some(dir) = Other::dir() else { return };
    let mut store = open(&dir);
    append_all(&mut store, thread(1), vec![vec![created(thread(1))]; 3]);
    let _: Result<(), StoreError> = store.transaction(
        |tx| {
            for _ in 0..50 {
                append(tx, thread(1), 9, vec![created(thread(1))])?;
            }
            tx.append_open_text(item_id(1), thread(1), 0, &"x".repeat(100_000))?;
            Other::say("inside");
            Other::stay()
        },
        Durability::Synced,
    );
}

#[test]
fn a_process_killed_inside_a_transaction_leaves_what_was_committed() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = Other::start("crash::child_dies_inside_a_transaction", dir.path());
    assert_eq!(other.hear(), "inside");
    let error = LedgerStore::open(dir.path(), EPOCH).unwrap_err();
    assert!(
        matches!(error, StoreError::Locked { pid: Some(pid), .. } if pid == other.pid()),
        "{error:?}"
    );
    other.kill();
    let mut store = open(dir.path());
    assert_eq!(store.boot(), 2, "its boot was counted");
    assert_eq!(store.cursor(thread(1)).unwrap().seq, 3);
    store.verify(thread(1)).unwrap();
    assert_eq!(store.open_text(item_id(1)).unwrap(), None);
    append_all(&mut store, thread(1), vec![vec![created(thread(1))]]);
    store.verify(thread(1)).unwrap();
}

/// Not a test by itself: the process that appends until it is killed.
#[test]
fn child_appends_for_ever() {
    let Some(dir) = Other::dir() else { return };
    let mut store = open(&dir);
    for n in 1.. {
        store
            .transaction(
                |tx| append(tx, thread(1), n, vec![created(thread(1))]),
                Durability::Synced,
            )
            .unwrap();
        Other::say(&n.to_string());
    }
}

#[test]
fn what_was_said_to_be_committed_is_there_after_a_kill_at_any_moment() {
    for told in [1, 2, 7, 23] {
        let dir = tempfile::tempdir().unwrap();
        let mut other = Other::start("crash::child_appends_for_ever", dir.path());
        for n in 1..=told {
            assert_eq!(other.hear(), n.to_string());
        }
        other.kill();
        let store = open(dir.path());
        assert!(store.cursor(thread(1)).unwrap().seq >= told);
        store.verify(thread(1)).unwrap();
    }
}

/// Not a test by itself: the process that owns the links.
#[test]
fn child_holds_the_lease() {
    let Some(dir) = Other::dir() else { return };
    let store = ReplicaStore::open(&dir).unwrap();
    let lease = store.try_lease().unwrap();
    Other::say(if lease.is_some() { "mine" } else { "not mine" });
    Other::stay()
}

#[test]
fn one_process_owns_the_links_and_its_death_frees_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = ReplicaStore::open(dir.path()).unwrap();
    assert_eq!(store.lease_holder().unwrap(), None);
    let mut other = Other::start("crash::child_holds_the_lease", dir.path());
    assert_eq!(other.hear(), "mine");
    assert!(store.try_lease().unwrap().is_none());
    assert_eq!(store.lease_holder().unwrap(), Some(other.pid()));
    other.kill();
    assert_eq!(store.lease_holder().unwrap(), None);
    let lease = store.try_lease().unwrap().unwrap();
    assert_eq!(store.lease_holder().unwrap(), Some(std::process::id()));
    assert!(
        store.try_lease().unwrap().is_none(),
        "not twice in one process either"
    );
    drop(lease);
    assert!(store.try_lease().unwrap().is_some());
}

/// Not a test by itself: a process that appends to the outbox beside others.
#[test]
fn child_pushes_commands() {
    let Some(dir) = Other::dir() else { return };
    let mut store = ReplicaStore::open(&dir).unwrap();
    Other::say("open");
    for n in 0..40 {
        let number = u64::from(std::process::id()) * 1000 + n;
        store
            .push(HOST, release_command(number, thread(1)), n)
            .unwrap();
    }
}

#[test]
fn several_processes_append_to_one_outbox_and_every_command_has_its_own_number() {
    let dir = tempfile::tempdir().unwrap();
    let others: Vec<_> = (0..3)
        .map(|_| Other::start("crash::child_pushes_commands", dir.path()))
        .collect();
    let mut store = ReplicaStore::open(dir.path()).unwrap();
    for n in 0..40 {
        store.push(HOST, release_command(n, thread(1)), n).unwrap();
    }
    for other in others {
        other.end();
    }
    assert!(store.changed_since().unwrap());
    assert!(!store.changed_since().unwrap());
    let pending = store.pending(HOST).unwrap();
    let numbers: Vec<u64> = pending
        .iter()
        .map(|entry| entry.command.device_seq)
        .collect();
    assert_eq!(
        numbers,
        (1..=160).collect::<Vec<_>>(),
        "in order, none twice"
    );
    let ids: BTreeSet<_> = pending.iter().map(|entry| entry.command.id).collect();
    assert_eq!(ids.len(), 160);
}
