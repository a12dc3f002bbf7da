//! Folding a log: `apply` alone, and everything that is kept of a thread made anew from its log, against a fold in Node.

use super::Context;
use crate::{
    fixture::{Fixture, Name},
    measure::{self, quantile},
    report::Row,
};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{Epoch, ThreadId, ThreadState};
use pilothouse_orchestrator::apply_entry;
use pilothouse_store::{Durability, LedgerReader, LedgerStore, StoreError};
use serde::{Deserialize, Serialize};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Times that all entries are applied; the fastest counts.
const PASSES: u32 = 20;

/// Bytes that are read before each of them: more than the processor's caches hold, or a log that fits them would seem to be
/// of another kind than one that does not.
const CACHES: usize = 256 << 20;

#[derive(Serialize, Deserialize)]
struct Measured {
    /// Processor time.
    ms: f64,
    wall_ms: f64,
    /// Of the whole process, bytes.
    peak: u64,
    /// Bytes that system calls have read and written.
    moved: u64,
    equal: bool,
    entries: u64,
    apply_ms: f64,
    /// Of the write-ahead log while it was made anew.
    wal: u64,
}

/// Most that twice the log may cost a megabyte, by half of it.
const GROWTH: f64 = 1.3;
/// The same of bytes in small logs: half of s fits into SQLite's cache, all of it does not and is read again. What grows with
/// the square would be 2.
const GROWTH_OUT_OF_CACHE: f64 = 1.5;

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let half = context.fixture(if context.quick { Name::Xs } else { Name::Half })?;
    let whole = context.fixture(if context.quick { Name::S } else { Name::L })?;
    if context.quick {
        let (small, large) = (measure(context, &half)?, measure(context, &whole)?);
        return Ok(vec![
            equal(&whole, &large),
            memory(&whole, &large),
            moved((&half, &small), (&whole, &large), GROWTH_OUT_OF_CACHE),
        ]);
    }
    let mut rival = context.rival("fold.mjs", &[&whole.dir.join("ledger.db")])?;
    rival.go()?;
    let (mut ours, mut theirs, mut applied) = (vec![], vec![], vec![]);
    let (mut growth, mut apply_growth, mut last) = (vec![], vec![], None);
    for _ in 0..5 {
        let (small, large) = (measure(context, &half)?, measure(context, &whole)?);
        ours.push(large.ms);
        applied.push(large.entries_a_second());
        growth.push(large.ms / whole.log_mb() / (small.ms / half.log_mb()));
        apply_growth.push(small.entries_a_second() / large.entries_a_second());
        theirs.push(rival.go()?.cpu);
        last = Some((small, large));
    }
    let (small, large) = last.context("rounds")?;
    let middle = |values: &mut [f64]| quantile(values, 0.5).context("rounds");
    let (median, rival) = (middle(&mut ours)?, middle(&mut theirs)?);
    let best = quantile(&mut ours, 0.0).context("rounds")?;
    let rate = quantile(&mut applied, 1.0).context("rounds")?;
    let sizes = format!("{} MB by {} MB", whole.megabytes(), half.megabytes());
    Ok(vec![
        Row::at_least(
            "apply, fastest pass, best of 5",
            rate,
            250_000.0,
            "entries/s",
        )
        .gate()
        .note(format!("median {:.0}", middle(&mut applied)?)),
        Row::at_most(
            format!(
                "rebuild {} MB, processor time, best of 5",
                whole.megabytes()
            ),
            best / 1000.0,
            2.0,
            "s",
        )
        .gate()
        .note(format!(
            "median {:.2} s, by the wall {:.2} s, {} entries",
            median / 1000.0,
            large.wall_ms / 1000.0,
            large.entries
        )),
        Row::told(
            "rebuild by the processor time of a fold in Node",
            format!(
                "{:.2} × (Node reads, parses and folds in {:.2} s; it verifies and writes nothing)",
                median / rival,
                rival / 1000.0
            ),
        ),
        memory(&whole, &large),
        equal(&whole, &large),
        Row::at_most(
            format!("rebuild, processor time a MB, {sizes}"),
            middle(&mut growth)?,
            GROWTH,
            "×",
        )
        .gate()
        .note("median of 5 pairs"),
        moved((&half, &small), (&whole, &large), GROWTH),
        Row::at_most(
            format!("apply, fastest pass, an entry, {sizes}"),
            middle(&mut apply_growth)?,
            GROWTH,
            "×",
        )
        .gate()
        .note("median of 5 pairs"),
    ])
}

/// Bytes that a megabyte of log moves through system calls: a count, so that it gates on any machine.
#[expect(clippy::cast_precision_loss, reason = "sizes of megabytes")]
fn moved(small: (&Fixture, &Measured), large: (&Fixture, &Measured), bar: f64) -> Row {
    let each =
        |(fixture, measured): (&Fixture, &Measured)| measured.moved as f64 / 1e6 / fixture.log_mb();
    Row::at_most(
        format!(
            "rebuild, bytes read and written a MB, {} MB by {} MB",
            large.0.megabytes(),
            small.0.megabytes()
        ),
        each(large) / each(small),
        bar,
        "×",
    )
    .gate()
    .note(format!(
        "{:.1} and {:.1} MB a MB of log, by /proc",
        each(large),
        each(small)
    ))
}

fn memory(fixture: &Fixture, measured: &Measured) -> Row {
    Row::at_most(
        format!(
            "peak of the process's memory, rebuild {} MB",
            fixture.megabytes()
        ),
        measure::mib(measured.peak),
        64.0,
        "MiB",
    )
    .gate()
    .note(format!(
        "log of SQLite grew to {:.0} MiB",
        measure::mib(measured.wal)
    ))
}

fn equal(fixture: &Fixture, measured: &Measured) -> Row {
    Row::holds(
        format!("digest after rebuild, {} MB", fixture.megabytes()),
        "equal",
        if measured.equal { "equal" } else { "another" }.into(),
        measured.equal,
    )
}

#[expect(clippy::cast_precision_loss, reason = "counts of entries")]
impl Measured {
    fn entries_a_second(&self) -> f64 {
        self.entries as f64 / (self.apply_ms / 1000.0)
    }
}

fn measure(context: &Context, fixture: &Fixture) -> Result<Measured> {
    let scratch = context.scratch()?;
    fixture.copy(scratch.path())?;
    let dir = scratch.path().to_string_lossy();
    context.child("rebuild", &[&dir, &fixture.thread().to_string()])
}

/// Rebuilds; the arguments are the directory of a ledger that may be changed, and the thread.
pub(crate) fn child(arguments: &[String]) -> Result<serde_json::Value> {
    let [dir, thread] = arguments else {
        anyhow::bail!("a directory and a thread are needed")
    };
    let (dir, thread) = (Path::new(dir), thread.parse::<ThreadId>()?);
    let mut store = LedgerStore::open(dir, Epoch::from_bytes([1; 16]))?;
    let kept = store.snapshot(thread)?;
    let before = kept.state.digest(&kept.cursor);
    measure::reset_peak()?;
    let before_moved = measure::own_moved()?;
    let (began, cpu) = (Instant::now(), measure::thread_cpu()?);
    let rebuilt = store.transaction::<_, StoreError>(|tx| tx.rebuild(thread), Durability::Lazy)?;
    let took = measure::thread_cpu()?.saturating_sub(cpu);
    let wall = began.elapsed();
    let moved = measure::own_moved()?.saturating_sub(before_moved);
    // All of it, not what was added: the bar is what a device or a small host has to spare.
    let peak = measure::own_peak()?;
    let after = rebuilt.snapshot.state.digest(&rebuilt.snapshot.cursor);
    let wal = std::fs::metadata(dir.join("ledger.db-wal"))?.len();
    let applied = apply_all(&store.reader()?, thread, &rebuilt.snapshot.state)?;
    Ok(serde_json::to_value(Measured {
        ms: measure::ms(took),
        wall_ms: measure::ms(wall),
        peak,
        moved,
        equal: before == after,
        entries: kept.cursor.seq,
        apply_ms: measure::ms(applied),
        wal,
    })?)
}

/// Time in `apply` alone, for every entry of a log.
fn apply_all(reader: &LedgerReader, thread: ThreadId, end: &ThreadState) -> Result<Duration> {
    let entries = reader.entries_after(thread, 0, usize::MAX)?;
    let elsewhere = vec![1_u8; CACHES];
    let mut best = Duration::MAX;
    for _ in 0..PASSES {
        let sum: u64 = elsewhere
            .iter()
            .step_by(64)
            .map(|byte| u64::from(*byte))
            .sum();
        std::hint::black_box(sum);
        let began = Instant::now();
        let mut state = ThreadState::empty(thread);
        for entry in &entries {
            apply_entry(&mut state, entry);
        }
        best = best.min(began.elapsed());
        ensure!(state == *end, "apply gave another state");
    }
    Ok(best)
}
