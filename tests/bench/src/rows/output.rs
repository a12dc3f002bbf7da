//! A tool that writes 64 MiB: what its output costs of the host's memory while it streams and when it ends.

use super::Context;
use crate::{agent::Author, desk::Desk, fixture::SEED, measure, report::Row};
use anyhow::{Context as _, Result};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind, provider::TurnStatus,
    provider_event::NativePlace,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

const MIB: usize = 1024 * 1024;
/// Bytes that the tool writes, the most that is kept of one item.
const OUTPUT: usize = 64 * MIB;
/// Bytes that it has written before the memory is looked at: what SQLite, the allocator and the threads take once.
const WARM: usize = 8 * MIB;
/// Bytes in one piece, as a pipe gives them.
const PIECE: usize = 8 * 1024;
/// Bytes of the output that the agent itself keeps for its model.
const KEPT_BY_AGENT: usize = 32 * 1024;

#[derive(Serialize, Deserialize)]
struct Grown {
    half: u64,
    whole: u64,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let scratch = context.scratch()?;
    let dir = scratch.path().to_string_lossy().into_owned();
    let grown: Grown = context.child("output", &[&dir])?;
    Ok(vec![
        Row::at_most(
            "peak of memory that a tool's output of 64 MiB adds",
            measure::mib(grown.whole),
            2.0,
            "MiB",
        )
        .gate()
        .note(format!(
            "after the first {} MiB; at half of it {:.2} MiB",
            WARM / MIB,
            measure::mib(grown.half)
        )),
    ])
}

fn command(output: String) -> ItemContent {
    ItemContent::Command {
        command: "cat large".to_owned(),
        cwd: "/".to_owned(),
        output: Body::inline(output),
        agent_output: None,
        exit_code: Some(0),
        duration_ms: None,
    }
}

/// The tool runs in the process whose memory is looked at.
pub(crate) fn child(arguments: &[String]) -> Result<serde_json::Value> {
    let [dir] = arguments else {
        anyhow::bail!("child output DIR");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let grown = runtime.block_on(streamed(Path::new(dir)))?;
    Ok(serde_json::to_value(grown)?)
}

async fn streamed(dir: &Path) -> Result<Grown> {
    let author = Author::new(|_, _| vec![ProviderEventKind::TurnStarted]);
    let desk = Desk::open(dir, SEED, author.clone())?;
    let thread = desk.create("a tool that writes much").await?;
    desk.talk(thread, 1).await?;
    // The names that the agent gave: its first conversation, its first turn.
    let place = NativePlace {
        thread: Some(NativeId::from("thread-0")),
        root: None,
        turn: Some(NativeId::from("turn-1")),
    };
    let item = NativeId::from("tool");
    let line = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.\n";
    let piece = line.repeat(PIECE / line.len());
    let shape = Box::new(command(String::new()));
    let (mut base, mut half) = (0, 0);
    for written in (0..OUTPUT).step_by(piece.len()) {
        if written == WARM {
            measure::reset_peak()?;
            base = measure::own_rss()?;
        }
        if written == WARM + (OUTPUT - WARM) / 2 {
            half = measure::own_peak()?.saturating_sub(base);
        }
        let kind = ProviderEventKind::ItemAppended {
            item: item.clone(),
            text: piece.clone(),
            shape: shape.clone(),
        };
        author.say(&place, vec![kind]).await;
    }
    let ends = vec![
        ProviderEventKind::ItemClosed {
            item,
            status: ItemStatus::Completed,
            content: command(piece.repeat(KEPT_BY_AGENT / piece.len())),
            client_id: None,
        },
        ProviderEventKind::TurnEnded {
            status: TurnStatus::Completed,
            error: None,
        },
    ];
    author.say(&place, ends).await;
    desk.until(thread, "the run to end", |state| state.active.is_none())
        .await
        .context("the end of the tool")?;
    let whole = measure::own_peak()?.saturating_sub(base);
    desk.ledger.shutdown().await;
    Ok(Grown { half, whole })
}
