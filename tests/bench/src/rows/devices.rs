//! Several devices on one thread: every command has one outcome within one round trip, and all hold the same.

use super::Context;
use crate::{
    live::{Phone, World},
    measure::quantile,
    report::Row,
};
use anyhow::{Context as _, Result, anyhow, ensure};
use pilothouse_domain::{Cause, CommandId, Cursor, Digest, HostId, Outcome, ThreadId, ThreadState};
use pilothouse_engine::Scope;
use pilothouse_orchestrator::apply_entry;
use pilothouse_tests::Relay;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Devices.
const DEVICES: usize = 3;
/// Messages of each; then twice as many.
const MESSAGES: usize = 6;
/// Time on the line, each way: so much more than a sync or a busy processor takes that what came of a command can be
/// counted in round trips.
const LINE: Duration = Duration::from_millis(200);
/// Most round trips of an outcome: a second one would make it 2.
const TRIPS: f64 = 1.5;

/// A command, what its device was told, and how long that took, ms.
struct Told {
    command: CommandId,
    cursor: Cursor,
    took: f64,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let scratch = context.scratch()?;
    let world = World::start(scratch.path(), scratch.path().join("state"))?;
    let relay = Relay::start(world.host.address(), LINE);
    let host = world.host.id();
    let phones = (0..DEVICES)
        .map(|n| world.device_through(&format!("phone {n}"), Some(relay.address())))
        .collect::<Result<Vec<_>>>()?;
    let thread = phones[0].create(host, "shared")?;
    // Two follow from the beginning; the last opens the thread when it is over.
    let watch = |phone: &Phone| {
        phone.watch(Scope::Timeline {
            host,
            thread,
            tail: 400,
        })
    };
    let watches: Vec<_> = phones[..DEVICES - 1].iter().map(watch).collect();
    let mut trips = (0..10)
        .map(|n| phones[n % DEVICES].round_trip(host))
        .collect::<Result<Vec<_>>>()?;
    let begun = settled(&world, thread)?;
    let mut told = talk(&phones, host, thread, MESSAGES)?;
    let half = settled(&world, thread)?;
    told.extend(talk(&phones, host, thread, 2 * MESSAGES)?);
    let whole = settled(&world, thread)?;
    let late = watch(phones.last().context("devices")?);
    let held = phones
        .iter()
        .map(|phone| phone.digest_in_the_end(host, thread, whole.digest))
        .collect::<Result<Vec<_>>>()?;
    drop((watches, late));
    Ok(vec![
        outcomes(&world, &told),
        entries(&world, thread, &told),
        digests(&whole, &held),
        round_trips(&told, &mut trips)?,
        growth(&begun, &half, &whole),
    ])
}

/// All devices send at once, each one message after the other.
fn talk(phones: &[Phone], host: HostId, thread: ThreadId, messages: usize) -> Result<Vec<Told>> {
    let each = |phone: &Phone| {
        (0..messages)
            .map(|n| {
                let began = Instant::now();
                let ticket = phone.say(host, thread, &format!("message {n}"))?;
                let cursor = phone.taken(&ticket)?;
                Ok(Told {
                    command: ticket.command_id(),
                    cursor,
                    took: began.elapsed().as_secs_f64() * 1000.0,
                })
            })
            .collect::<Result<Vec<_>>>()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = phones
            .iter()
            .map(|phone| scope.spawn(move || each(phone)))
            .collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| anyhow!("a device failed"))??);
        }
        Ok(all)
    })
}

/// What devices were told, by what the host keeps.
fn outcomes(world: &World, told: &[Told]) -> Row {
    let same = told
        .iter()
        .filter(|told| {
            matches!(world.host.outcome(told.command), Some(Outcome::Accepted { cursor, .. }) if cursor == told.cursor)
        })
        .count();
    let commands: BTreeSet<CommandId> = told.iter().map(|told| told.command).collect();
    let places: BTreeSet<u64> = told.iter().map(|told| told.cursor.seq).collect();
    let sent = DEVICES * 3 * MESSAGES;
    Row::holds(
        format!("outcomes of {sent} commands"),
        "one each, as the host keeps it",
        format!(
            "{} told of {} commands, {same} as kept, at {} places of the log",
            told.len(),
            commands.len(),
            places.len()
        ),
        [told.len(), commands.len(), same, places.len()]
            .iter()
            .all(|&count| count == sent),
    )
}

fn entries(world: &World, thread: ThreadId, told: &[Told]) -> Row {
    let entries = world
        .host
        .ledger(|ledger| ledger.entries_after(thread, 0, usize::MAX));
    let mut counts: BTreeMap<CommandId, u32> = BTreeMap::new();
    for entry in entries {
        if let Cause::Command { command, .. } = entry.cause {
            *counts.entry(command).or_default() += 1;
        }
    }
    let found = told
        .iter()
        .filter(|told| counts.get(&told.command) == Some(&1))
        .count();
    Row::holds(
        "entries of each command in the log",
        "one",
        format!(
            "{found} of {} commands have one; {} commands in the log, with the thread's",
            told.len(),
            counts.len()
        ),
        found == told.len() && counts.len() == told.len() + 1,
    )
}

fn digests(whole: &Settled, held: &[Digest]) -> Row {
    let equal = held
        .iter()
        .chain([&whole.applied])
        .filter(|digest| **digest == whole.digest)
        .count();
    Row::holds(
        "digests: log applied from 0, devices that followed, device that came late, as the host's",
        &format!("{} equal", held.len() + 1),
        format!("{equal} equal"),
        equal == held.len() + 1,
    )
}

fn round_trips(told: &[Told], trips: &mut [f64]) -> Result<Row> {
    let trip = quantile(trips, 0.5).context("round trips")?;
    let mut times: Vec<f64> = told.iter().map(|told| told.took).collect();
    let p95 = quantile(&mut times, 0.95).context("times")?;
    Ok(Row::at_most(
        "submit → outcome, three devices at once, p95 by a round trip",
        p95 / trip,
        TRIPS,
        "×",
    )
    .gate()
    .note(format!(
        "a line of {} ms each way; round trip {trip:.1} ms (a query that costs the host nothing), outcome median {:.1} ms, \
         p95 {p95:.1} ms",
        LINE.as_millis(),
        quantile(&mut times, 0.5).context("times")?
    )))
}

#[expect(clippy::cast_precision_loss, reason = "counts of entries")]
fn growth(begun: &Settled, half: &Settled, whole: &Settled) -> Row {
    let once = (half.seq - begun.seq) as f64 / (DEVICES * MESSAGES) as f64;
    let twice = (whole.seq - half.seq) as f64 / (DEVICES * 2 * MESSAGES) as f64;
    Row::at_most(
        "entries of the log a message, twice the messages",
        twice / once,
        1.3,
        "×",
    )
    .gate()
    .note(format!("{twice:.1} and {once:.1} with the agent's"))
}

/// A thread that rests, at the host.
struct Settled {
    seq: u64,
    digest: Digest,
    /// The same of its log, applied from the beginning.
    applied: Digest,
}

/// Waits until the thread is idle at the host.
fn settled(world: &World, thread: ThreadId) -> Result<Settled> {
    let deadline = Instant::now() + Duration::from_secs(120);
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
            return Ok(Settled {
                seq: snapshot.cursor.seq,
                digest: snapshot.state.digest(&snapshot.cursor),
                applied: state.digest(&snapshot.cursor),
            });
        }
        ensure!(
            Instant::now() < deadline,
            "the thread does not come to rest"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
