//! Outcomes and effects.

use super::support::*;
use crate::{Durability, StoreError, StoredEffect};
use pilothouse_domain::{
    AttemptId, Cursor, Effect, EffectId, EffectKind, EffectOutcome, Outcome, Refusal, limits,
};

fn accepted(seq: u64) -> Outcome {
    Outcome::Accepted {
        cursor: Cursor {
            epoch: EPOCH,
            seq,
            ..Cursor::default()
        },
        notice: None,
    }
}

#[test]
fn the_first_outcome_of_a_command_holds_and_a_transient_refusal_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let busy = Outcome::Refused {
        refusal: Refusal::DiskFull,
    };
    let put = |store: &mut crate::LedgerStore, n: u64, seq: u64, at: u64, outcome: &Outcome| {
        store
            .transaction(
                |tx| tx.put_outcome(command_id(n), DEVICE, thread(1), seq, at, outcome),
                Durability::Synced,
            )
            .unwrap();
    };
    put(&mut store, 1, 1, 10, &busy);
    assert_eq!(store.outcome(command_id(1)).unwrap(), None);
    assert_eq!(store.last_device_seq(DEVICE, thread(1)).unwrap(), 0);
    put(&mut store, 1, 1, 10, &accepted(4));
    put(&mut store, 1, 1, 11, &accepted(5));
    assert_eq!(store.outcome(command_id(1)).unwrap(), Some(accepted(4)));
    put(&mut store, 2, 7, 12, &accepted(6));
    put(&mut store, 3, 3, 13, &accepted(7));
    assert_eq!(
        store.last_device_seq(DEVICE, thread(1)).unwrap(),
        7,
        "it never goes back"
    );
    assert_eq!(store.last_device_seq(DEVICE, thread(2)).unwrap(), 0);
}

#[test]
fn outcomes_go_after_thirty_days_and_the_line_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let now = 100 * limits::OUTCOME_KEPT_MS;
    let pruned = store
        .transaction(
            |tx| {
                let old = now - limits::OUTCOME_KEPT_MS;
                tx.put_outcome(command_id(1), DEVICE, thread(1), 9, old - 1, &accepted(1))?;
                tx.put_outcome(command_id(2), DEVICE, thread(1), 8, old, &accepted(2))?;
                tx.prune_outcomes(now)
            },
            Durability::Lazy,
        )
        .unwrap();
    assert_eq!(pruned, 1);
    assert_eq!(store.outcome(command_id(1)).unwrap(), None);
    assert_eq!(store.outcome(command_id(2)).unwrap(), Some(accepted(2)));
    assert_eq!(store.last_device_seq(DEVICE, thread(1)).unwrap(), 9);
}

#[test]
fn effects_are_unfinished_until_their_outcome_is_noted_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let effect = |n: u8| Effect {
        id: EffectId::from_bytes([n; 16]),
        kind: EffectKind::Interrupt {
            run: RUN,
            attempt: AttemptId::from_bytes([n; 16]),
            turn: None,
        },
    };
    let stored = |n: u8| StoredEffect {
        thread: thread(n),
        seq: u64::from(n),
        effect: effect(n),
    };
    store
        .transaction(
            |tx| {
                // Not in the order of ids.
                for n in [3, 1, 2] {
                    tx.put_effect(thread(n), u64::from(n), &effect(n))?;
                }
                Ok::<_, StoreError>(())
            },
            Durability::Synced,
        )
        .unwrap();
    assert_eq!(
        store.unfinished_effects().unwrap(),
        [stored(3), stored(1), stored(2)]
    );
    let done = |store: &mut crate::LedgerStore, outcome: EffectOutcome| {
        store
            .transaction(
                |tx| tx.effect_done(effect(1).id, &outcome),
                Durability::Lazy,
            )
            .unwrap()
    };
    assert!(done(&mut store, EffectOutcome::Acknowledged));
    assert!(
        !done(&mut store, EffectOutcome::Unknown),
        "the first one holds"
    );
    assert_eq!(
        store.effect_outcome(effect(1).id).unwrap(),
        Some(EffectOutcome::Acknowledged)
    );
    assert_eq!(store.effect_outcome(effect(2).id).unwrap(), None);
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.unfinished_effects().unwrap(), [stored(3), stored(2)]);
}
