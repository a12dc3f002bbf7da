//! An answer of 10,545 characters that streams in 3,024 pieces over half a minute: what it costs on disk, and (by [`wire`]) on
//! the socket.

use super::{Context, wire};
use crate::{
    agent::Author,
    content,
    desk::Desk,
    fixture::SEED,
    measure::{self, Wal},
    report::Row,
};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind, RunStatus, feed::ThreadUpdate,
    provider::TurnStatus, provider_event::NativePlace,
};
use std::{collections::BTreeMap, path::Path, time::Duration};

/// How long the answer takes.
const LASTS: Duration = Duration::from_secs(30);
/// Part of it by which a run may be late; a later one is made again, as more time means more of everything.
const LATE: f64 = 0.05;
/// Runs at most.
const RUNS: usize = 3;
/// Most that a piece of the whole answer may cost by a piece of half of it.
const GROWTH: f64 = 1.3;
/// Commits, rows or pages by which two runs of the same answer may differ.
const BY_CLOCK: u64 = 2;
/// Pieces of live text a second, and what the clock at both ends may add.
const LIVE: f64 = 5.0;
const LIVE_AT_MOST: f64 = 1.02 * LIVE;

/// What an answer cost, from its first piece to the end of its run.
struct Cost {
    pieces: usize,
    commits: u64,
    rows: u64,
    pages: u64,
    live: u64,
    entries: u64,
    took: Duration,
    /// What the message and the turn's start cost besides.
    whole: String,
}

/// Both take half a minute, and neither much of a processor: at the same time.
pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    std::thread::scope(|scope| {
        let socket = scope.spawn(|| wire::run(context));
        let mut table = on_disk(context)?;
        table.extend(
            socket
                .join()
                .map_err(|_| anyhow!("measuring on the socket failed"))??,
        );
        Ok(table)
    })
}

fn on_disk(context: &Context) -> Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let pieces = content::answer(SEED);
    let half = &pieces[..pieces.len() / 2];
    for _ in 0..RUNS {
        let (one, other) = (context.scratch()?, context.scratch()?);
        // At the same time, each in a ledger of its own: half the answer takes half as long.
        let (whole, half) = runtime.block_on(async {
            tokio::try_join!(
                answer(one.path(), &pieces, LASTS),
                answer(other.path(), half, LASTS / 2)
            )
        })?;
        let late = whole.took.as_secs_f64() / LASTS.as_secs_f64() - 1.0;
        if late <= LATE {
            return Ok(table(&whole, &half));
        }
        eprintln!("  the pieces came {:.0} % late: once more", 100.0 * late);
    }
    bail!("this machine could not say the answer in {LASTS:?}, in {RUNS} runs")
}

#[expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]
fn table(whole: &Cost, half: &Cost) -> Vec<Row> {
    let at_most = |what: &str, value: u64, bar: f64| Row::at_most(what, value as f64, bar, "");
    // Counts of a few: what the clock alone begins must not look like growth.
    let growth = |count: fn(&Cost) -> u64| {
        let whole = count(whole).saturating_sub(BY_CLOCK) as f64 / whole.pieces as f64;
        whole / (count(half).max(1) as f64 / half.pieces as f64)
    };
    let (commits, rows, pages, live) = (
        growth(|cost| cost.commits),
        growth(|cost| cost.rows),
        growth(|cost| cost.pages),
        growth(|cost| cost.live),
    );
    vec![
        at_most(
            "commits, 3,024 deltas in 30 s, by the log's frames",
            whole.commits,
            60.0,
        )
        .gate()
        .note(format!(
            "from its first piece to the end of the run, {:.1} s; {}",
            whole.took.as_secs_f64(),
            whole.whole
        )),
        at_most("rows, by SQLite", whole.rows, 40.0).gate(),
        at_most("pages written to the log", whole.pages, 100.0).gate(),
        live_text(whole),
        Row::at_most(
            "cost a piece, 3,024 pieces by 1,512, the worst of four",
            commits.max(rows).max(pages).max(live),
            GROWTH,
            "×",
        )
        .gate()
        .note(format!(
            "commits {commits:.2}, rows {rows:.2}, pages {pages:.2}, live text {live:.2}"
        )),
    ]
}

fn message(text: String) -> ItemContent {
    ItemContent::AssistantMessage {
        text: Body::inline(text),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a few hundred")]
fn live_text(cost: &Cost) -> Row {
    let rate = cost.live.saturating_sub(1) as f64 / cost.took.as_secs_f64();
    let mut row = Row::at_most(
        "pieces of live text to a device, a second",
        rate,
        LIVE_AT_MOST,
        "",
    )
    .gate()
    .note(format!(
        "{} in all, {} updates of entries",
        cost.live, cost.entries
    ));
    row.bar = format!("≤ {LIVE}, within 2 %");
    row
}

/// Lets an agent say an answer piece by piece, and counts what that costs.
async fn answer(dir: &Path, pieces: &[String], lasts: Duration) -> Result<Cost> {
    let item = NativeId::from("answer");
    let opened = ProviderEventKind::ItemOpened {
        item: item.clone(),
        content: message(String::new()),
        client_id: None,
    };
    let author = Author::new(move |_, _| vec![opened.clone()]);
    let desk = Desk::open(dir, SEED, author.clone())?;
    let thread = desk.create("an answer").await?;
    let database = dir.join("ledger.db");
    let before = (measure::wal(&database)?, rows(&database)?);

    desk.send(thread, "please answer at length").await?;
    author.said(1).await;
    desk.until(thread, "the turn to run", |state| {
        state
            .active
            .as_ref()
            .is_some_and(|run| run.status == RunStatus::Running)
            && !state.items.is_empty()
    })
    .await?;
    let begun = (measure::wal(&database)?, rows(&database)?);
    let mut follower = desk
        .ledger
        .subscribe(thread, None, 0)
        .await
        .map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    let frames = tokio::spawn(async move {
        let (mut live, mut entries) = (0_u64, 0_u64);
        while let Ok(Some(update)) = follower.next().await {
            match update {
                ThreadUpdate::Live(_) => live += 1,
                ThreadUpdate::Entries(_) => entries += 1,
            }
        }
        (live, entries)
    });
    // The names that the agent gave: its first conversation, its first turn.
    let place = NativePlace {
        thread: Some(NativeId::from("thread-0")),
        root: None,
        turn: Some(NativeId::from("turn-1")),
    };
    let began = tokio::time::Instant::now();
    let count = u32::try_from(pieces.len())?;
    for (n, piece) in (0_u32..).zip(pieces) {
        tokio::time::sleep_until(began + lasts * n / count).await;
        let delta = ProviderEventKind::ItemAppended {
            item: item.clone(),
            text: piece.clone(),
            shape: Box::new(message(String::new())),
        };
        author.say(&place, vec![delta]).await;
    }
    let took = began.elapsed();
    let open = rows(&database)?;
    let ends = vec![
        ProviderEventKind::ItemClosed {
            item,
            status: ItemStatus::Completed,
            content: message(pieces.concat()),
            client_id: None,
        },
        ProviderEventKind::TurnEnded {
            status: TurnStatus::Completed,
            error: None,
        },
    ];
    author.say(&place, ends).await;
    desk.until(thread, "the run to end", |state| state.active.is_none())
        .await?;
    let after = (measure::wal(&database)?, rows(&database)?);
    ensure!(
        after.0.salt == before.0.salt,
        "the log was begun anew in between: its pages cannot be counted"
    );
    desk.ledger.shutdown().await;
    let (live, entries) = frames.await.context("the follower")?;
    let Wal { pages, commits, .. } = after.0;
    let whole = format!(
        "with the message and the turn's start {} commits, {} rows, {} pages",
        commits - before.0.commits,
        grown(&before.1, &open) + grown(&open, &after.1),
        pages - before.0.pages
    );
    Ok(Cost {
        pieces: pieces.len(),
        commits: commits - begun.0.commits,
        // Rows that were there while it streamed (pieces of its text among them), and those that came with the end.
        rows: grown(&begun.1, &open) + grown(&open, &after.1),
        pages: pages - begun.0.pages,
        live,
        entries,
        took,
        whole,
    })
}

/// Rows of every table.
fn rows(database: &Path) -> Result<BTreeMap<String, u64>> {
    let db = rusqlite::Connection::open(database)?;
    let mut tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names = tables
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    names
        .into_iter()
        .map(|name| {
            let count = db.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| {
                row.get::<_, i64>(0)
            })?;
            Ok((name, count.unsigned_abs()))
        })
        .collect()
}

fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> u64 {
    after
        .iter()
        .map(|(name, count)| count.saturating_sub(before.get(name).copied().unwrap_or(0)))
        .sum()
}
