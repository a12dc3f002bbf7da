//! The outbox and a ledger's file against maps in memory: any operations in any order, the file closed and opened again at
//! any point, transactions that fail in the middle.

use super::{
    mutate::{Dice, rounds},
    support::*,
};
use crate::{Delivery, Durability, LedgerStore, ParkReason, ReplicaStore, StoreError};
use pilothouse_domain::{
    Chain, Command, Cursor, Effect, EffectId, EffectKind, EffectOutcome, Entry, HostId, Outcome,
    Refusal, ThreadId, limits,
};
use std::collections::BTreeMap;

/// What the outbox should hold of a command.
#[derive(Debug, Clone, PartialEq)]
struct Kept {
    host: HostId,
    command: Command,
    created_ms: u64,
    handed: bool,
    delivery: Delivery,
}

#[derive(Debug, Default, Clone)]
struct Outbox {
    /// In the order of saving.
    kept: Vec<Kept>,
    lines: BTreeMap<(HostId, ThreadId), u64>,
}

impl Outbox {
    fn find(&mut self, n: u64) -> Option<&mut Kept> {
        self.kept
            .iter_mut()
            .find(|kept| kept.command.id == command_id(n))
    }

    fn push(&mut self, host: HostId, mut command: Command, created_ms: u64) -> Command {
        if let Some(known) = self.kept.iter().find(|kept| kept.command.id == command.id) {
            return known.command.clone();
        }
        let line = self.lines.entry((host, command.thread)).or_default();
        *line += 1;
        command.device_seq = *line;
        self.kept.push(Kept {
            host,
            command: command.clone(),
            created_ms,
            handed: false,
            delivery: Delivery::Saved,
        });
        command
    }
}

fn is_open(delivery: &Delivery) -> bool {
    matches!(delivery, Delivery::Saved | Delivery::Handed)
}

fn compare(store: &ReplicaStore, model: &Outbox) {
    let seen: Vec<Kept> = store
        .outbox()
        .unwrap()
        .into_iter()
        .map(|entry| Kept {
            host: entry.host,
            command: entry.command,
            created_ms: entry.created_ms,
            handed: entry.handed,
            delivery: entry.delivery,
        })
        .collect();
    assert_eq!(seen, model.kept);
    for host in [HOST, HostId::from_bytes([8; 16])] {
        let pending: Vec<_> = store
            .pending(host)
            .unwrap()
            .iter()
            .map(|e| e.command.id)
            .collect();
        let expected: Vec<_> = model
            .kept
            .iter()
            .filter(|kept| kept.host == host && is_open(&kept.delivery))
            .map(|kept| kept.command.id)
            .collect();
        assert_eq!(pending, expected, "what is to be sent, in order");
    }
    for n in 1..3 {
        let shown: Vec<_> = store
            .recent(Some(thread(n)), 0)
            .unwrap()
            .iter()
            .map(|e| e.command.id)
            .collect();
        let expected: Vec<_> = model
            .kept
            .iter()
            .filter(|kept| {
                kept.command.thread == thread(n) && !matches!(kept.delivery, Delivery::Done(_))
            })
            .map(|kept| kept.command.id)
            .collect();
        assert_eq!(shown, expected);
    }
}

/// One operation on both.
fn change(dice: &mut Dice, store: &mut ReplicaStore, model: &mut Outbox, now: &mut u64) {
    let n = dice.below(12) as u64;
    let id = command_id(n);
    match dice.below(11) {
        0..3 => {
            let host = *dice.one(&[HOST, HOST, HostId::from_bytes([8; 16])]);
            let on = thread(1 + dice.below(2) as u8);
            let command = match dice.once_in(3) {
                true => answer_command(n, on),
                false => release_command(n, on),
            };
            let pushed = store.push(host, command.clone(), *now).unwrap();
            assert_eq!(pushed, model.push(host, command, *now));
        }
        3 => {
            store.mark_handed(&[id]).unwrap();
            if let Some(kept) = model.find(n).filter(|kept| is_open(&kept.delivery)) {
                kept.handed = true;
                kept.delivery = Delivery::Handed;
            }
        }
        4 => {
            let outcome = match dice.below(3) {
                0 => Outcome::Accepted {
                    cursor: Cursor::default(),
                    notice: None,
                },
                1 => Outcome::Refused {
                    refusal: Refusal::NotReady,
                },
                _ => Outcome::Refused {
                    refusal: Refusal::Expired,
                },
            };
            let is_final = store.settle(id, &outcome).unwrap();
            let transient =
                matches!(&outcome, Outcome::Refused { refusal } if refusal.is_transient());
            assert_eq!(is_final, !transient);
            if let Some(kept) = model
                .find(n)
                .filter(|kept| is_final && !matches!(kept.delivery, Delivery::Done(_)))
            {
                kept.delivery = Delivery::Done(outcome);
            }
        }
        5 => {
            *now += *dice.one(&[
                1,
                60_000,
                limits::ANSWER_EXPIRES_MS,
                limits::MESSAGE_EXPIRES_MS,
            ]);
            let expired = store.expire(*now).unwrap();
            let mut expected = Vec::new();
            for kept in &mut model.kept {
                let lives = match kept.command.body {
                    pilothouse_domain::CommandBody::RequestAnswer { .. } => {
                        limits::ANSWER_EXPIRES_MS
                    }
                    _ => limits::MESSAGE_EXPIRES_MS,
                };
                // Once it may have left the device it does not expire.
                if kept.delivery == Delivery::Saved
                    && !kept.handed
                    && *now - kept.created_ms > lives
                {
                    kept.delivery = Delivery::Expired;
                    expected.push(kept.command.id);
                }
            }
            assert_eq!(expired, expected);
        }
        6 => {
            let reason = ParkReason::LedgerRestored;
            store
                .transaction(|tx| tx.park(id, reason), Durability::Synced)
                .unwrap();
            if let Some(kept) = model.find(n).filter(|kept| is_open(&kept.delivery)) {
                kept.delivery = Delivery::Parked(reason);
            }
        }
        7 => {
            store
                .transaction(|tx| tx.unpark(id), Durability::Synced)
                .unwrap();
            if let Some(kept) = model
                .find(n)
                .filter(|kept| matches!(kept.delivery, Delivery::Parked(_)))
            {
                kept.delivery = if kept.handed {
                    Delivery::Handed
                } else {
                    Delivery::Saved
                };
            }
        }
        8 => {
            let gone = store
                .transaction(|tx| tx.withdraw(id), Durability::Synced)
                .unwrap();
            let before = model.kept.len();
            model.kept.retain(|kept| {
                kept.command.id != id || kept.handed || matches!(kept.delivery, Delivery::Done(_))
            });
            assert_eq!(gone, model.kept.len() < before);
        }
        9 if dice.once_in(4) => {
            let pruned = store
                .transaction(|tx| tx.prune_outbox(*now), Durability::Synced)
                .unwrap();
            let before = model.kept.len();
            model.kept.retain(|kept| {
                kept.created_ms >= *now
                    || !matches!(kept.delivery, Delivery::Done(_) | Delivery::Expired)
            });
            assert_eq!(pruned, before - model.kept.len());
        }
        _ => {
            // A transaction that fails leaves nothing behind.
            let failed = store.transaction(
                |tx| -> Result<(), StoreError> {
                    tx.push(HOST, release_command(99, thread(1)), *now)?;
                    tx.park_all(HOST, ParkReason::DeviceRevoked)?;
                    Err(StoreError::Busy {
                        path: "here".into(),
                        doing: "failing",
                    })
                },
                Durability::Synced,
            );
            assert!(failed.is_err());
        }
    }
}

#[test]
fn the_outbox_is_what_a_list_in_memory_would_be_also_after_it_was_opened_again() {
    rounds(8, |dice: &mut Dice| {
        let dir = tempfile::tempdir().unwrap();
        let mut store = ReplicaStore::open(dir.path()).unwrap();
        let (mut model, mut now) = (Outbox::default(), 1_000);
        for _ in 0..60 {
            change(dice, &mut store, &mut model, &mut now);
            compare(&store, &model);
            if dice.once_in(12) {
                drop(store);
                store = ReplicaStore::open(dir.path()).unwrap();
                compare(&store, &model);
            }
        }
    });
}

/// What a ledger's file should hold.
#[derive(Default)]
struct Ledger {
    logs: BTreeMap<ThreadId, Vec<Entry>>,
    outcomes: BTreeMap<u64, Outcome>,
    line: BTreeMap<ThreadId, u64>,
    /// In the order in which they were asked for.
    effects: Vec<(u64, Option<EffectOutcome>)>,
}

fn effect_id(n: u64) -> EffectId {
    EffectId::from_bytes(bytes(n))
}

fn compare_ledger(dice: &mut Dice, store: &LedgerStore, model: &Ledger) {
    for (thread, log) in &model.logs {
        let head = log.last().map(Entry::cursor).unwrap();
        assert_eq!(store.cursor(*thread).unwrap(), head);
        assert_eq!(store.verify_chain(*thread).unwrap(), head);
        let from = dice.below(log.len() + 1);
        let after = store
            .entries_after(*thread, from as u64, usize::MAX)
            .unwrap();
        assert_eq!(after, log[from..]);
        // Every cursor of this log is on it, and none that differs in anything.
        let at = dice.one(log).cursor();
        assert!(store.is_on_log(*thread, &at).unwrap());
        let ahead = Cursor {
            seq: head.seq + 1,
            ..head
        };
        let elsewhere = Cursor {
            seq: at.seq,
            epoch: at.epoch,
            chain: Chain::default(),
        };
        let of_before = Cursor {
            epoch: pilothouse_domain::Epoch::from_bytes([1; 16]),
            ..at
        };
        for wrong in [ahead, elsewhere, of_before] {
            assert!(!store.is_on_log(*thread, &wrong).unwrap(), "{wrong:?}");
        }
    }
    for n in 0..12 {
        let outcome = store.outcome(command_id(n)).unwrap();
        assert_eq!(outcome.as_ref(), model.outcomes.get(&n));
    }
    for n in 1..3 {
        let last = store.last_device_seq(DEVICE, thread(n)).unwrap();
        assert_eq!(last, model.line.get(&thread(n)).copied().unwrap_or(0));
    }
    let unfinished: Vec<_> = store
        .unfinished_effects()
        .unwrap()
        .iter()
        .map(|e| e.effect.id)
        .collect();
    let open = model.effects.iter().filter(|(_, done)| done.is_none());
    assert_eq!(
        unfinished,
        open.map(|(n, _)| effect_id(*n)).collect::<Vec<_>>()
    );
    for (n, done) in &model.effects {
        assert_eq!(store.effect_outcome(effect_id(*n)).unwrap(), *done);
    }
}

fn change_ledger(dice: &mut Dice, store: &mut LedgerStore, model: &mut Ledger, clock: &mut u64) {
    let on = thread(1 + dice.below(2) as u8);
    let n = dice.below(12) as u64;
    *clock += 1;
    let now = *clock;
    match dice.below(8) {
        0..3 => {
            let text = "words ".repeat(dice.below(2000));
            let events = vec![
                created(on),
                pilothouse_domain::Event::ItemOpened {
                    item: item(now, &text),
                },
            ];
            let entries = append_all(store, on, vec![events]);
            model.logs.entry(on).or_default().extend(entries);
        }
        3 | 4 => {
            let outcome = match dice.below(3) {
                0 => Outcome::Accepted {
                    cursor: Cursor::default(),
                    notice: None,
                },
                1 => Outcome::Refused {
                    refusal: Refusal::NotReady,
                },
                _ => Outcome::Refused {
                    refusal: Refusal::Expired,
                },
            };
            if model.outcomes.contains_key(&n) {
                return;
            }
            let seq = model.line.get(&on).copied().unwrap_or(0) + 1;
            store
                .transaction(
                    |tx| tx.put_outcome(command_id(n), DEVICE, on, seq, now, &outcome),
                    Durability::Synced,
                )
                .unwrap();
            let transient =
                matches!(&outcome, Outcome::Refused { refusal } if refusal.is_transient());
            if !transient {
                model.outcomes.insert(n, outcome);
                model.line.insert(on, seq);
            }
        }
        5 => {
            let Some(log) = model.logs.get(&on) else {
                return;
            };
            if model.effects.iter().any(|(known, _)| *known == n) {
                return;
            }
            let effect = Effect {
                id: effect_id(n),
                kind: EffectKind::Respond {
                    request: request(n, pilothouse_domain::request::RequestKind::Command).id,
                    answer: answer(),
                },
            };
            let seq = log.len() as u64;
            store
                .transaction(|tx| tx.put_effect(on, seq, &effect), Durability::Synced)
                .unwrap();
            model.effects.push((n, None));
        }
        6 => {
            let done = store
                .transaction(
                    |tx| tx.effect_done(effect_id(n), &EffectOutcome::Written),
                    Durability::Lazy,
                )
                .unwrap();
            let open = model
                .effects
                .iter_mut()
                .find(|(known, done)| *known == n && done.is_none());
            assert_eq!(done, open.is_some(), "an effect is done once");
            if let Some((_, outcome)) = open {
                *outcome = Some(EffectOutcome::Written);
            }
        }
        _ => {
            let failed = store.transaction(
                |tx| -> Result<(), StoreError> {
                    append(tx, on, now, vec![created(on)])?;
                    Err(StoreError::Busy {
                        path: "here".into(),
                        doing: "failing",
                    })
                },
                Durability::Synced,
            );
            assert!(failed.is_err());
        }
    }
}

#[test]
fn a_ledger_is_what_maps_in_memory_would_be_also_after_it_was_opened_again() {
    rounds(6, |dice: &mut Dice| {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let (mut model, mut clock) = (Ledger::default(), 1_000);
        for _ in 0..60 {
            change_ledger(dice, &mut store, &mut model, &mut clock);
            compare_ledger(dice, &store, &model);
            if dice.once_in(12) {
                let boot = store.boot();
                drop(store);
                store = open(dir.path());
                assert!(store.boot() > boot, "a boot has a number of its own");
                compare_ledger(dice, &store, &model);
            }
        }
    });
}
