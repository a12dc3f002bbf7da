//! The first list of threads on a device that has many.

use super::Context;
use crate::{
    fixture::Name,
    live::{Phone, World},
    measure::{self, quantile},
    report::Row,
};
use anyhow::{Context as _, Result, ensure};
use pilothouse_engine::{Batch, Scope};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// Threads that a screen begins with.
const FIRST: u32 = 100;
/// Openings of each, in turns.
const ROUNDS: usize = 15;

#[derive(Serialize, Deserialize)]
struct Opened {
    ms: f64,
    rows: usize,
    rss: u64,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let few = replica(context, Name::Few)?;
    let many = replica(context, Name::Many)?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let (mut shown, mut rss) = ((0, 0), (0, 0));
    for _ in 0..ROUNDS {
        let (small, large) = (open(context, &few)?, open(context, &many)?);
        shown = (small.rows, large.rows);
        rss = (small.rss, large.rss);
        a.push(small.ms);
        b.push(large.ms);
    }
    let (best_few, best_many) = (
        quantile(&mut a, 0.0).context("rounds")?,
        quantile(&mut b, 0.0).context("rounds")?,
    );
    Ok(vec![
        Row::at_most(
            format!("first list, 50,000 threads, best of {ROUNDS}"),
            best_many,
            60.0,
            "ms",
        )
        .gate()
        .note(format!(
            "median {:.1}; {} rows in the first batch, memory {:.0} MB",
            quantile(&mut b, 0.5).unwrap_or(0.0),
            shown.1,
            measure::mb(rss.1)
        )),
        Row::at_most(
            "first list, 50,000 by 500 threads",
            best_many / best_few,
            1.3,
            "×",
        )
        .gate()
        .note(format!(
            "500: {best_few:.1} ms, {} rows, memory {:.0} MB",
            shown.0,
            measure::mb(rss.0)
        )),
    ])
}

fn open(context: &Context, dir: &Path) -> Result<Opened> {
    context.child("list", &[&dir.to_string_lossy()])
}

/// The data directory of a device that is paired with a host of these threads and has their list; made once, over the
/// wire.
fn replica(context: &Context, name: Name) -> Result<PathBuf> {
    let fixture = context.fixture(name)?;
    let dir = fixture.dir.join("replica");
    if dir.join("complete").exists() {
        return Ok(dir);
    }
    let _ = fs::remove_dir_all(&dir);
    let scratch = context.scratch()?;
    let state = scratch.path().join("state");
    fixture.copy(&state)?;
    let world = World::start(scratch.path(), state)?;
    let phone = Phone::open(&dir, "phone")?;
    phone.pair(&world.host)?;
    drop(phone);
    let count: i64 = rusqlite::Connection::open(dir.join("replica.db"))?.query_row(
        "SELECT count(*) FROM summaries",
        [],
        |row| row.get(0),
    )?;
    ensure!(
        count.unsigned_abs() == fixture.made.threads,
        "the device has {count} of {} threads",
        fixture.made.threads
    );
    fs::write(dir.join("complete"), "")?;
    Ok(dir)
}

/// Opens a device's core and waits for the first list.
pub(crate) fn child(arguments: &[String]) -> Result<serde_json::Value> {
    let dir = Path::new(arguments.first().context("a directory")?);
    let began = Instant::now();
    let phone = Phone::open(dir, "phone")?;
    let list = phone.watch(Scope::threads(FIRST));
    let rows = list.until(|told| match &told.batch {
        Batch::Threads(batch) if batch.list.reset => Some(batch.list.ops.len()),
        _ => None,
    })?;
    let ms = measure::ms(began.elapsed());
    Ok(serde_json::to_value(Opened {
        ms,
        rows,
        rss: measure::own_rss()?,
    })?)
}
