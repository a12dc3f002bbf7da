//! A device that was away: what it costs to bring it to the end of a thread, however long it was away.

use super::Context;
use crate::{
    agent::Author,
    desk::Desk,
    fixture::{Fixture, Name, SEED},
    measure::{self, PAGE},
    report::Row,
};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{Cursor, feed::ThreadUpdate};
use std::time::{Duration, Instant};

/// Bytes that a device asks for when it opens a thread.
const TAIL: usize = 50 * 1024;
/// Entries beyond which a device starts anew.
const BOUND: u64 = 1_000;
/// Largest snapshot with its rows, bytes (DESIGN section 11).
const SNAPSHOT: u64 = 50 * 1024;

struct Caught {
    gap: u64,
    entries: u64,
    snapshot: u64,
    pages: u64,
    took: Duration,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let fixture = context.fixture(if context.quick { Name::S } else { Name::Deep })?;
    let gaps: &[u64] = if context.quick {
        &[500, 1_000, 2_000, 4_000]
    } else {
        &[500, 1_000, 10_000, 600_000]
    };
    let scratch = context.scratch()?;
    fixture.copy(scratch.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let caught = runtime.block_on(async {
        let desk = Desk::open(scratch.path(), SEED, Author::new(|_, _| Vec::new()))?;
        let mut all = Vec::new();
        // Whatever the first one reads besides is read before.
        catch_up(&desk, &fixture, 1).await?;
        for &gap in gaps {
            all.push(catch_up(&desk, &fixture, gap).await?);
        }
        desk.ledger.shutdown().await;
        anyhow::Ok(all)
    })?;
    Ok(rows(&caught))
}

async fn catch_up(desk: &Desk, fixture: &Fixture, gap: u64) -> Result<Caught> {
    let thread = fixture.thread();
    let reader = fixture.reader()?;
    let end = reader.cursor(thread)?.seq;
    ensure!(end > gap, "the fixture has {end} entries");
    let known = reader
        .entries_after(thread, end - gap - 1, 1)?
        .first()
        .map(pilothouse_domain::Entry::cursor)
        .context("an entry")?;
    drop(reader);
    let known = Cursor {
        epoch: desk.ledger.epoch(),
        ..known
    };
    let reads = measure::own_reads()?;
    let began = Instant::now();
    let mut subscription = desk
        .ledger
        .subscribe(thread, Some(known), TAIL)
        .await
        .map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    let high = subscription.answer.high_water.seq;
    let (mut at, mut entries, mut snapshot) = (known.seq, 0, 0);
    if let Some(held) = &subscription.answer.snapshot {
        at = held.cursor.seq;
        snapshot = serde_json::to_vec(&subscription.answer)?.len() as u64;
    }
    while at < high {
        if let ThreadUpdate::Entries(page) =
            subscription.next().await?.context("the ledger closed")?
        {
            entries += page.len() as u64;
            at = page.last().map_or(at, |entry| entry.seq);
        }
    }
    Ok(Caught {
        gap,
        entries,
        snapshot,
        pages: (measure::own_reads()? - reads) / PAGE,
        took: began.elapsed(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts")]
fn rows(caught: &[Caught]) -> Vec<Row> {
    let mut table: Vec<Row> = caught
        .iter()
        .map(|one| {
            let bound = one.gap.min(BOUND);
            let behind = crate::report::number(one.gap as f64);
            Row::holds(
                format!("{behind} entries behind"),
                "≤ min(gap, 1,000) entries, snapshot ≤ 50 KB",
                format!(
                    "{} entries, snapshot {:.1} KB, {} pages, {:.1} ms",
                    one.entries,
                    one.snapshot as f64 / 1024.0,
                    one.pages,
                    measure::ms(one.took)
                ),
                // A boot in between adds an entry or two.
                one.entries <= bound + 4 && one.snapshot <= SNAPSHOT,
            )
        })
        .collect();
    if let [.., near, far] = caught {
        table.push(
            Row::at_most(
                format!(
                    "pages read, {} by {} entries behind",
                    crate::report::number(far.gap as f64),
                    crate::report::number(near.gap as f64)
                ),
                far.pages as f64 / near.pages.max(1) as f64,
                1.3,
                "×",
            )
            .gate(),
        );
    }
    table
}
