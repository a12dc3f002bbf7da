//! Opening the end of a long thread, and scrolling through it.

use super::Context;
use crate::{
    fixture::{Fixture, Name},
    measure::{self, PAGE, quantile},
    report::Row,
};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{Row as ThreadRow, ThreadId};
use pilothouse_store::LedgerReader;
use serde::{Deserialize, Serialize};
use std::{path::Path, time::Instant};

/// Bytes that a device asks for when it opens a thread.
const TAIL: usize = 50 * 1024;
/// Bytes of an older page.
const OLDER: usize = 64 * 1024;
/// Openings that are timed.
const ROUNDS: usize = 40;

#[derive(Serialize, Deserialize)]
struct Measured {
    best_ms: f64,
    median_ms: f64,
    pages: u64,
    opening_rss: u64,
    opening_own: u64,
    scroll_peak: u64,
    items: u64,
    scroll_ms: f64,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let small = context.fixture(if context.quick { Name::Xs } else { Name::S })?;
    let large = context.fixture(if context.quick { Name::S } else { Name::L })?;
    let mut table = both(context, &small, &large)?;
    let active = if context.quick {
        None
    } else {
        Some(context.fixture(Name::A)?)
    };
    if let Some(active) = active {
        let of = measure(context, &active)?;
        table.push(
            Row::at_most(
                "open the tail of a running turn of 22,000 items, best of 40",
                of.best_ms,
                5.0,
                "ms",
            )
            .gate()
            .note(format!("median {:.2}, {} pages", of.median_ms, of.pages)),
        );
    }
    if context.nightly {
        let huge = context.fixture(Name::Huge)?;
        table.extend(both(context, &large, &huge)?);
    }
    Ok(table)
}

fn measure(context: &Context, fixture: &Fixture) -> Result<Measured> {
    let dir = fixture.dir.to_string_lossy();
    let thread = fixture.thread().to_string();
    let measured: Measured = context.child("tail", &[&dir, &thread])?;
    ensure!(
        measured.items == fixture.made.items,
        "scrolling found {} of {} items",
        measured.items,
        fixture.made.items
    );
    Ok(measured)
}

/// Best and median time to open the tail, ms.
pub(super) fn times(context: &Context, fixture: &Fixture) -> Result<(f64, f64)> {
    let measured = measure(context, fixture)?;
    Ok((measured.best_ms, measured.median_ms))
}

#[expect(clippy::cast_precision_loss, reason = "counts of pages")]
fn both(context: &Context, small: &Fixture, large: &Fixture) -> Result<Vec<Row>> {
    let (a, b) = (measure(context, small)?, measure(context, large)?);
    let size = format!(
        "{} MB, {} items",
        large.megabytes(),
        crate::report::number(large.made.items as f64)
    );
    let mut table = Vec::new();
    if !context.quick {
        table.push(
            Row::at_most(
                format!("open the tail of {size}, best of {ROUNDS}"),
                b.best_ms,
                5.0,
                "ms",
            )
            .gate()
            .note(format!("median {:.2}", b.median_ms)),
        );
    }
    table.push(
        Row::at_most(
            format!(
                "pages read, {} MB by {} MB",
                large.megabytes(),
                small.megabytes()
            ),
            b.pages as f64 / a.pages as f64,
            1.2,
            "×",
        )
        .gate()
        .note(format!(
            "{} and {} pages of 4 KiB, by /proc",
            b.pages, a.pages
        )),
    );
    // A build without optimisation is a far larger file; what the process fills itself is counted on any build.
    let (what, grown) = if context.quick {
        ("memory of its own", b.opening_own)
    } else {
        ("memory", b.opening_rss)
    };
    table.push(
        Row::at_most(
            format!("{what} grown by opening {} MB", large.megabytes()),
            measure::mb(grown),
            4.0,
            "MB",
        )
        .gate()
        .note(format!(
            "resident {:.1} MB, of its own {:.1} MB",
            measure::mb(b.opening_rss),
            measure::mb(b.opening_own)
        )),
    );
    table.push(
        Row::at_most(
            format!("peak of memory, scroll through {} MB", large.megabytes()),
            measure::mb(b.scroll_peak),
            24.0,
            "MB",
        )
        .gate()
        .note(format!("{} items in {:.0} ms", b.items, b.scroll_ms)),
    );
    Ok(table)
}

/// Opens and scrolls; the arguments are the ledger's directory and the thread.
pub(crate) fn child(arguments: &[String]) -> Result<serde_json::Value> {
    let [dir, thread] = arguments else {
        anyhow::bail!("a directory and a thread are needed")
    };
    let (dir, thread) = (Path::new(dir), thread.parse::<ThreadId>()?);
    // What any first use of SQLite and JSON allocates is not of the thread.
    LedgerReader::open(dir)?.threads()?;
    let own = || measure::own_pages(std::process::id());
    let (before, before_own) = (measure::own_rss()?, own()?);
    let opened = open(dir, thread)?;
    let opening_rss = measure::own_rss()?.saturating_sub(before);
    let opening_own = own()?.saturating_sub(before_own);
    drop(opened);
    let mut times = Vec::new();
    let reads = measure::own_reads()?;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let rows = open(dir, thread)?;
        times.push(measure::ms(began.elapsed()));
        ensure!(!rows.is_empty(), "the tail is empty");
    }
    let pages = (measure::own_reads()? - reads) / PAGE / ROUNDS as u64;
    measure::reset_peak()?;
    let base = measure::own_rss()?;
    let began = Instant::now();
    let items = scroll(dir, thread)?;
    let measured = Measured {
        best_ms: quantile(&mut times, 0.0).context("rounds")?,
        median_ms: quantile(&mut times, 0.5).context("rounds")?,
        pages,
        opening_rss,
        opening_own,
        scroll_peak: measure::own_peak()?.saturating_sub(base),
        items,
        scroll_ms: measure::ms(began.elapsed()),
    };
    Ok(serde_json::to_value(measured)?)
}

/// What a subscription is answered with.
fn open(dir: &Path, thread: ThreadId) -> Result<Vec<ThreadRow>> {
    let reader = LedgerReader::open(dir)?;
    reader.consistent(|reads| {
        let snapshot = reads.snapshot(thread)?;
        ensure!(snapshot.cursor.seq > 0, "the thread is empty");
        reads.open_items(thread, 8 * 1024)?;
        Ok(reads.tail(thread, TAIL)?.rows)
    })
}

fn scroll(dir: &Path, thread: ThreadId) -> Result<u64> {
    let reader = LedgerReader::open(dir)?;
    let mut window = reader.tail(thread, TAIL)?;
    // An item that still runs stands among the rows of the state; only those of the window count once.
    let mut items = 0;
    loop {
        let places = window.rows.iter().filter_map(|row| match row {
            ThreadRow::Item(item) => Some(item.position),
            _ => None,
        });
        items += places.clone().count() as u64;
        let Some(first) = places.min() else {
            return Ok(items);
        };
        if !window.more {
            return Ok(items);
        }
        window = reader.items_before(thread, first, OLDER)?;
    }
}
