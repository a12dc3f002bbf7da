//! Several devices on one thread: every command has one outcome, and all hold the same.

use super::Context;
use crate::{live::World, measure::quantile, report::Row};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{Digest, ThreadId, ThreadState};
use pilothouse_engine::Scope;
use pilothouse_orchestrator::apply_entry;
use std::time::Instant;

/// Devices.
const DEVICES: usize = 3;
/// Messages of each.
const MESSAGES: usize = 20;

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let scratch = context.scratch()?;
    let world = World::start(scratch.path(), scratch.path().join("state"))?;
    let host = world.host.id();
    let phones = (0..DEVICES)
        .map(|n| world.device(&format!("phone {n}")))
        .collect::<Result<Vec<_>>>()?;
    let thread = phones[0].create(host, "shared")?;
    // Two follow from the beginning; the last opens the thread when it is over.
    let watches: Vec<_> = phones[..DEVICES - 1]
        .iter()
        .map(|phone| {
            phone.watch(Scope::Timeline {
                host,
                thread,
                tail: 400,
            })
        })
        .collect();
    let taken: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let workers: Vec<_> = phones
            .iter()
            .map(|phone| {
                scope.spawn(move || {
                    (0..MESSAGES)
                        .map(|n| {
                            let began = Instant::now();
                            let ticket = phone.say(host, thread, &format!("message {n}"))?;
                            phone.taken(&ticket)?;
                            Ok(began.elapsed().as_secs_f64() * 1000.0)
                        })
                        .collect::<Result<Vec<_>>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .map_err(|_| anyhow::anyhow!("a device failed"))?
            })
            .collect::<Result<Vec<_>>>()
    })?;
    let mut times: Vec<f64> = taken.into_iter().flatten().collect();
    let digest = settled(&world, thread)?;
    let last = phones.last().context("devices")?;
    let late = last.watch(Scope::Timeline {
        host,
        thread,
        tail: 400,
    });
    for phone in &phones {
        phone.same_as(host, thread, digest)?;
    }
    let outcomes = world.host.ledger(|ledger| {
        ledger.consistent(|reads| {
            let mut commands = std::collections::BTreeMap::new();
            for entry in reads.entries_after(thread, 0, usize::MAX)? {
                if let pilothouse_domain::Cause::Command { command, .. } = entry.cause {
                    *commands.entry(command).or_insert(0_u32) += 1;
                }
            }
            Ok(commands)
        })
    });
    drop((watches, late));
    let expected = DEVICES * MESSAGES + 1;
    Ok(vec![
        Row::holds(
            "entries of each command in the log",
            "one",
            format!(
                "{} commands, most entries of one {}",
                outcomes.len(),
                outcomes.values().max().unwrap_or(&0)
            ),
            outcomes.len() == expected && outcomes.values().all(|&count| count == 1),
        ),
        Row::holds(
            "digests: log applied from 0, host, devices that followed, device that came late",
            "equal",
            format!("equal on {DEVICES} devices"),
            true,
        ),
        Row::told(
            "submit → outcome, three devices at once",
            format!(
                "median {:.1} ms, p95 {:.1} ms",
                quantile(&mut times, 0.5).context("times")?,
                quantile(&mut times, 0.95).context("times")?
            ),
        ),
    ])
}

/// Waits until the thread is idle at the host, and compares its state with its log applied from the beginning.
fn settled(world: &World, thread: ThreadId) -> Result<Digest> {
    let deadline = Instant::now() + std::time::Duration::from_secs(120);
    loop {
        let (snapshot, entries) = world.host.ledger(|ledger| {
            ledger.consistent(|reads| {
                Ok((
                    reads.snapshot(thread)?,
                    reads.entries_after(thread, 0, usize::MAX)?,
                ))
            })
        });
        if snapshot.state.active.is_none() && snapshot.state.queue.is_empty() {
            let mut state = ThreadState::empty(thread);
            for entry in &entries {
                apply_entry(&mut state, entry);
            }
            let digest = snapshot.state.digest(&snapshot.cursor);
            ensure!(
                state.digest(&snapshot.cursor) == digest,
                "the log applied from 0 gives another digest than the host has"
            );
            return Ok(digest);
        }
        ensure!(
            Instant::now() < deadline,
            "the thread does not come to rest"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
