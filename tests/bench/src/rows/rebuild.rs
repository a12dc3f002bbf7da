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

/// Times that all entries are applied.
const PASSES: u32 = 20;

#[derive(Serialize, Deserialize)]
struct Measured {
    /// Processor time.
    ms: f64,
    wall_ms: f64,
    peak: u64,
    equal: bool,
    entries: u64,
    apply_ms: f64,
    /// Of the write-ahead log while it was made anew.
    wal: u64,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let half = context.fixture(if context.quick { Name::Xs } else { Name::S })?;
    let whole = context.fixture(if context.quick { Name::S } else { Name::L })?;
    let small = measure(context, &half)?;
    if context.quick {
        let large = measure(context, &whole)?;
        return Ok(vec![equal(&whole, &large), memory(&whole, &large)]);
    }
    let mut rival = context.rival("fold.mjs", &[&whole.dir.join("ledger.db")])?;
    rival.go()?;
    let (mut ours, mut theirs, mut applied) = (vec![], vec![], vec![]);
    let mut last = None;
    for _ in 0..5 {
        let measured = measure(context, &whole)?;
        ours.push(measured.ms);
        applied.push(measured.entries_a_second());
        theirs.push(rival.go()?.cpu);
        last = Some(measured);
    }
    let last = last.context("rounds")?;
    let (median, rival) = (
        quantile(&mut ours, 0.5).context("rounds")?,
        quantile(&mut theirs, 0.5).context("rounds")?,
    );
    let best = quantile(&mut ours, 0.0).context("rounds")?;
    let rate = quantile(&mut applied, 1.0).context("rounds")?;
    Ok(vec![
        Row::at_least(
            "apply, processor time, best of 5",
            rate,
            250_000.0,
            "entries/s",
        )
        .gate()
        .note(format!(
            "median {:.0}",
            quantile(&mut applied, 0.5).unwrap_or(0.0)
        )),
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
            last.wall_ms / 1000.0,
            last.entries
        )),
        Row::told(
            "rebuild by the processor time of a fold in Node",
            format!(
                "{:.2} × (Node reads, parses and folds in {:.2} s; it verifies and writes nothing)",
                median / rival,
                rival / 1000.0
            ),
        ),
        memory(&whole, &last),
        equal(&whole, &last),
        Row::at_most(
            format!(
                "rebuild, cost an entry, {} MB by {} MB",
                whole.megabytes(),
                half.megabytes()
            ),
            last.each() / small.each(),
            2.6,
            "×",
        )
        .note("entries of the larger are twice as long"),
    ])
}

fn memory(fixture: &Fixture, measured: &Measured) -> Row {
    Row::at_most(
        format!("peak of memory, rebuild {} MB", fixture.megabytes()),
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

    fn each(&self) -> f64 {
        self.ms / self.entries as f64
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
    let base = measure::own_rss()?;
    let (began, cpu) = (Instant::now(), measure::thread_cpu()?);
    let rebuilt = store.transaction::<_, StoreError>(|tx| tx.rebuild(thread), Durability::Lazy)?;
    let took = measure::thread_cpu()?.saturating_sub(cpu);
    let wall = began.elapsed();
    let peak = measure::own_peak()?.saturating_sub(base);
    let after = rebuilt.snapshot.state.digest(&rebuilt.snapshot.cursor);
    let wal = std::fs::metadata(dir.join("ledger.db-wal"))?.len();
    let applied = apply_all(&store.reader()?, thread, &rebuilt.snapshot.state)?;
    Ok(serde_json::to_value(Measured {
        ms: measure::ms(took),
        wall_ms: measure::ms(wall),
        peak,
        equal: before == after,
        entries: kept.cursor.seq,
        apply_ms: measure::ms(applied),
        wal,
    })?)
}

/// Time in `apply` alone, for every entry of a log; as often as the system's ticks need to be small beside it.
fn apply_all(reader: &LedgerReader, thread: ThreadId, end: &ThreadState) -> Result<Duration> {
    let entries = reader.entries_after(thread, 0, usize::MAX)?;
    let began = measure::thread_cpu()?;
    for _ in 0..PASSES {
        let mut state = ThreadState::empty(thread);
        for entry in &entries {
            apply_entry(&mut state, entry);
        }
        ensure!(state == *end, "apply gave another state");
    }
    Ok(measure::thread_cpu()?.saturating_sub(began) / PASSES)
}
