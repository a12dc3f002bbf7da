//! 1,500 deltas a second from an agent through the host to a device's screen.

use super::Context;
use crate::{live::World, measure, measure::quantile, report::Row};
use anyhow::{Context as _, Result, ensure};
use pilothouse_engine::{Batch, InboxRow, RowContent, Scope, TimelineRow};
use serde::Deserialize;
use std::time::Duration;

/// Longest stream, deltas.
const LONG: u64 = 15_000;
/// Short streams, for the time to the first delta.
const FIRSTS: usize = 20;
/// Least time between two batches, ms: a frame of a screen (DESIGN section 11). What waits for a person and ends come at
/// once and do not count.
const FRAME: f64 = 16.6;
/// Deltas a second that the agent has to have written at least for the long streams to count.
const RATE: f64 = 1_400.0;

/// What the agent noted: Unix times, ms.
#[derive(Deserialize)]
struct Stream {
    began: f64,
    ended: f64,
    pieces: u64,
    bytes: u64,
}

/// What a device saw of one stream.
struct Seen {
    first: f64,
    /// Times between two batches that text alone caused, ms.
    gaps: Vec<f64>,
    /// Bytes of the message when the command and its approval stood below it.
    before_tool: u64,
    host: Duration,
    device: Duration,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let scratch = context.scratch()?;
    let world = World::start(scratch.path(), scratch.path().join("state"))?;
    let phone = world.device("phone")?;
    let host = world.host.id();
    let thread = phone.create(host, "a stream")?;
    let timeline = phone.watch(Scope::Timeline {
        host,
        thread,
        tail: 400,
    });
    let inbox = phone.watch(Scope::Inbox);
    let pid = world.host.process().id();

    let (mut rows, mut asked) = (Vec::<TimelineRow>::new(), Vec::new());
    let mut stream = |count: u64| -> Result<Seen> {
        let before = (measure::cpu(pid)?, measure::cpu(std::process::id())?);
        let ticket = phone.say(host, thread, &format!("[[do:streams]] [[n:{count}]]"))?;
        let (mut first, mut times) = (None, Vec::new());
        let before_tool = timeline.until(|told| {
            let Batch::Timeline(batch) = &told.batch else {
                return None;
            };
            batch.apply(&mut rows);
            let last = |is: fn(&RowContent) -> bool| {
                rows.iter()
                    .rev()
                    .find(|row| is(&row.content) && row.status.is_live())
            };
            let message = last(|content| matches!(content, RowContent::AssistantMessage))?;
            let bytes = message.text.bytes;
            if bytes > 0 {
                first.get_or_insert(told.at);
                times.push(told.at);
            }
            last(|content| matches!(content, RowContent::Command { .. }))?;
            // The question comes at once, whatever was shown a moment before.
            times.pop();
            Some(bytes)
        })?;
        // Allowed as soon as it is in the inbox, so that the turn ends.
        let row: InboxRow = inbox.until(|told| {
            let Batch::Inbox(batch) = &told.batch else {
                return None;
            };
            batch.apply(&mut asked);
            asked.first().cloned()
        })?;
        phone.taken(&ticket)?;
        phone.taken(&phone.allow(&row)?)?;
        timeline.until(|told| {
            let Batch::Timeline(batch) = &told.batch else {
                return None;
            };
            batch.apply(&mut rows);
            batch.header.active.is_none().then_some(())
        })?;
        inbox.until(|told| {
            let Batch::Inbox(batch) = &told.batch else {
                return None;
            };
            batch.apply(&mut asked);
            asked.is_empty().then_some(())
        })?;
        let after = (measure::cpu(pid)?, measure::cpu(std::process::id())?);
        Ok(Seen {
            first: first.context("no text was shown")?,
            gaps: times.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            before_tool,
            host: after.0.saturating_sub(before.0),
            device: after.1.saturating_sub(before.1),
        })
    };

    let mut seen = Vec::new();
    for _ in 0..FIRSTS {
        seen.push(stream(30)?);
    }
    let half = stream(LONG / 2)?;
    let long = stream(LONG)?;
    seen.push(half);
    seen.push(long);
    let times: Vec<Stream> = world.times()?;
    ensure!(
        times.len() == seen.len(),
        "{} streams are noted",
        times.len()
    );
    let mut firsts: Vec<f64> = times
        .iter()
        .zip(&seen)
        .take(FIRSTS)
        .map(|(t, s)| s.first - t.began)
        .collect();
    let behind = times
        .iter()
        .zip(&seen)
        .filter(|(t, s)| s.before_tool != t.bytes)
        .count();
    let (Some(long), Some(half)) = (seen.last(), seen.get(FIRSTS)) else {
        anyhow::bail!("no streams")
    };
    let (time, half_time) = (&times[FIRSTS + 1], &times[FIRSTS]);
    #[expect(clippy::cast_precision_loss, reason = "counts of thousands")]
    let cost =
        |seen: &Seen, pieces: u64| 1e6 * (seen.host + seen.device).as_secs_f64() / pieces as f64;
    for sent in [time, half_time] {
        ensure!(
            sent.a_second() >= RATE,
            "the agent wrote {:.0} deltas a second, {RATE} are needed: this machine is too busy",
            sent.a_second()
        );
    }
    Ok(vec![
        pace(long, time)?,
        Row::at_most(
            "processor time a delta, host and device",
            cost(long, time.pieces),
            40.0,
            "µs",
        )
        .gate()
        .note(format!(
            "host {:.0} ms, device {:.0} ms",
            measure::ms(long.host),
            measure::ms(long.device)
        )),
        Row::at_most(
            "processor time a delta, 15,000 by 7,500 deltas",
            cost(long, time.pieces) / cost(half, half_time.pieces),
            1.3,
            "×",
        )
        .gate(),
        Row::at_most(
            "first delta written → shown, median of 20",
            quantile(&mut firsts.clone(), 0.5).context("firsts")?,
            2.0,
            "ms",
        )
        .note(format!(
            "best {:.2}, p95 {:.2}",
            quantile(&mut firsts.clone(), 0.0).unwrap_or(0.0),
            quantile(&mut firsts, 0.95).unwrap_or(0.0)
        )),
        Row::holds(
            "text before tool and approval",
            "all of it, each time",
            format!("{} of {} streams", seen.len() - behind, seen.len()),
            behind == 0,
        ),
    ])
}

impl Stream {
    /// Deltas a second that were written.
    #[expect(clippy::cast_precision_loss, reason = "counts of thousands")]
    fn a_second(&self) -> f64 {
        self.pieces as f64 / ((self.ended - self.began) / 1000.0)
    }
}

/// How far apart the batches of a stream came: each pair of them, not their mean.
#[expect(clippy::cast_precision_loss, reason = "counts of thousands")]
fn pace(seen: &Seen, sent: &Stream) -> Result<Row> {
    let mut gaps = seen.gaps.clone();
    ensure!(
        gaps.len() > 20,
        "text came in {} batches: nothing can be said of their pace",
        gaps.len() + 1
    );
    let close = gaps.iter().filter(|&&gap| gap < FRAME).count();
    Ok(Row::at_most(
        format!("batches of text less than {FRAME} ms behind the one before"),
        100.0 * close as f64 / gaps.len() as f64,
        1.0,
        "%",
    )
    .gate()
    .note(format!(
        "{} deltas at {:.0} a second, {} batches; least {:.1} ms, median {:.1} ms",
        sent.pieces,
        sent.a_second(),
        gaps.len() + 1,
        quantile(&mut gaps, 0.0).unwrap_or(0.0),
        quantile(&mut gaps, 0.5).unwrap_or(0.0)
    )))
}
