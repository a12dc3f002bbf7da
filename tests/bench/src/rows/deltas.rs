//! An answer of 10,545 characters that streams in 3,024 pieces over half a minute: what it costs on disk.

use super::Context;
use crate::{
    agent::Author,
    content,
    desk::Desk,
    fixture::SEED,
    measure::{self, Wal},
    report::Row,
};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind, RunStatus, feed::ThreadUpdate,
    provider::TurnStatus, provider_event::NativePlace,
};
use std::{collections::BTreeMap, path::Path, time::Duration};

/// How long the answer takes.
const LASTS: Duration = Duration::from_secs(30);

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let scratch = context.scratch()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(measure(scratch.path()))
}

fn message(text: String) -> ItemContent {
    ItemContent::AssistantMessage {
        text: Body::inline(text),
    }
}

async fn measure(dir: &Path) -> Result<Vec<Row>> {
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
    let pieces = content::answer(SEED);
    let began = tokio::time::Instant::now();
    let count = u32::try_from(pieces.len())?;
    for (n, piece) in (0_u32..).zip(&pieces) {
        tokio::time::sleep_until(began + LASTS * n / count).await;
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
    let (pages, commits) = (pages - begun.0.pages, commits - begun.0.commits);
    // Rows that were there while it streamed (pieces of its text among them), and those that came with the end.
    let written = grown(&begun.1, &open) + grown(&open, &after.1);
    let seconds = took.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]
    let at_most = |what: &str, value: u64, bar: f64| Row::at_most(what, value as f64, bar, "");
    Ok(vec![
        at_most(
            "commits, 3,024 deltas in 30 s, by the log's frames",
            commits,
            60.0,
        )
        .gate()
        .note(format!(
            "from its first piece to the end of the run, {seconds:.1} s; {whole}"
        )),
        at_most("rows, by SQLite", written, 40.0).gate(),
        at_most("pages written to the log", pages, 100.0).gate(),
        at_most("pieces of live text to a device", live, 5.0 * seconds + 1.0)
            .gate()
            .note(format!("{entries} updates of entries")),
    ])
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
