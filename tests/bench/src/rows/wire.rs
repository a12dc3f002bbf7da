//! An answer that streams for half a minute, on the socket: what a device on a metered line pays for it. A real host, TLS and
//! device, and a relay between them that counts the records of TLS.

use super::Context;
use crate::{content, fixture::SEED, live::World, report::Row};
use anyhow::{Context as _, Result, bail, ensure};
use pilothouse_engine::{Batch, RowContent, Scope, TimelineRow};
use pilothouse_tests::Relay;
use serde::Deserialize;
use std::time::Duration;

/// How long the answer takes.
const LASTS: Duration = Duration::from_secs(30);
/// Part of it by which a run may be late; a later one is made again, as more time means more frames.
const LATE: f64 = 0.05;
/// Runs at most.
const RUNS: usize = 3;
/// Bytes (DESIGN section 11).
const DEFLATED: f64 = 9_000.0;
const PAYLOAD: f64 = 13_000.0;
/// Frames a second.
const FRAMES: f64 = 5.0;
/// Frames beside the text: the outcome, the entries at the beginning and the end, the feed with each, a pong or two.
const BESIDE: f64 = 24.0;
/// What a frame needs beside its deflated message: a header and a tag of TLS, its type (5 + 16 + 1), a header of
/// WebSocket (2 below 126 bytes), the byte of kind.
const AROUND: u64 = 5 + 16 + 1 + 2 + 1;
/// Most that a piece of the whole answer may cost by a piece of half of it.
const GROWTH: f64 = 1.3;

/// What the agent noted.
#[derive(Deserialize)]
struct Said {
    began: f64,
    ended: f64,
    bytes: u64,
}

struct Cost {
    pieces: usize,
    frames: u64,
    payload: u64,
    seconds: f64,
}

impl Cost {
    fn deflated(&self) -> u64 {
        self.payload.saturating_sub(self.frames * AROUND)
    }
}

/// The rows; they belong to those of `deltas`.
pub(super) fn run(context: &Context) -> Result<Vec<Row>> {
    let pieces = content::answer(SEED);
    let half = &pieces[..pieces.len() / 2];
    for _ in 0..RUNS {
        // At the same time, each with a host of its own: half the answer takes half as long.
        let (whole, half) = std::thread::scope(|scope| {
            let half = scope.spawn(|| answer(context, half, LASTS / 2));
            let whole = answer(context, &pieces, LASTS);
            let half = half
                .join()
                .unwrap_or_else(|_| bail!("the shorter answer failed"));
            anyhow::Ok((whole?, half?))
        })?;
        let late = whole.seconds / LASTS.as_secs_f64() - 1.0;
        if late <= LATE {
            return Ok(table(&whole, &half));
        }
        eprintln!("  the pieces came {:.0} % late: once more", 100.0 * late);
    }
    bail!("this machine could not say the answer in {LASTS:?}, in {RUNS} runs")
}

#[expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]
fn table(whole: &Cost, half: &Cost) -> Vec<Row> {
    let bytes = |what: &str, value: u64, bar: f64| Row::at_most(what, value as f64, bar, "bytes");
    let each = |cost: &Cost| cost.payload as f64 / cost.pieces as f64;
    vec![
        bytes("deflated on the socket", whole.deflated(), DEFLATED)
            .gate()
            .note(format!(
                "from the message to the end of its run, the agent spoke for {:.1} s",
                whole.seconds
            )),
        bytes("payload of TCP on the socket", whole.payload, PAYLOAD)
            .gate()
            .note("records of TLS with their headers"),
        Row::at_most(
            "frames from the host, 5 a second and 24 beside the text",
            whole.frames as f64,
            FRAMES * LASTS.as_secs_f64() + BESIDE,
            "",
        )
        .gate(),
        Row::at_most(
            "payload a piece, 3,024 pieces by 1,512",
            each(whole) / each(half),
            GROWTH,
            "×",
        )
        .gate()
        .note(format!(
            "half: {} bytes in {} frames",
            half.payload, half.frames
        )),
    ]
}

/// Lets an agent say an answer to a device, and counts what the host sends it.
fn answer(context: &Context, pieces: &[String], lasts: Duration) -> Result<Cost> {
    let scratch = context.scratch()?;
    let world = World::start(scratch.path(), scratch.path().join("state"))?;
    let relay = Relay::start(world.host.address(), Duration::ZERO);
    let phone = world.device_through("phone", Some(relay.address()))?;
    let host = world.host.id();
    let thread = phone.create(host, "an answer")?;
    let timeline = phone.watch(Scope::Timeline {
        host,
        thread,
        tail: 400,
    });
    let mut rows: Vec<TimelineRow> = Vec::new();
    let mut speaks = |prompt: &str, runs: usize| -> Result<u64> {
        let ticket = phone.say(host, thread, prompt)?;
        phone.taken(&ticket)?;
        timeline.until(|told| {
            let Batch::Timeline(batch) = &told.batch else {
                return None;
            };
            batch.apply(&mut rows);
            let mut messages = rows.iter().filter(|row| {
                matches!(row.content, RowContent::AssistantMessage) && !row.status.is_live()
            });
            let last = messages.nth(runs - 1)?;
            batch.header.active.is_none().then_some(last.text.bytes)
        })
    };
    // The first message starts the agent.
    speaks("hello", 1)?;
    let file = scratch.path().join("pieces.json");
    std::fs::write(&file, serde_json::to_vec(pieces)?)?;
    let prompt = format!(
        "[[do:recites]] [[n:{}]] [[pieces:{}]]",
        lasts.as_millis(),
        file.display()
    );
    let before = relay.records();
    let shown = speaks(&prompt, 2)?;
    let after = relay.records();
    let said: Vec<Said> = world.times()?;
    let said = said.first().context("the agent noted nothing")?;
    ensure!(
        shown == said.bytes,
        "the device has {shown} of {} bytes",
        said.bytes
    );
    Ok(Cost {
        pieces: pieces.len(),
        frames: after.count - before.count,
        payload: after.bytes - before.bytes,
        seconds: (said.ended - said.began) / 1000.0,
    })
}
