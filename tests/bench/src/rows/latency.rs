//! From an agent's question to a device's notice, and from a device's answer to the agent: a real host, real sockets.

use super::Context;
use crate::{live::World, measure::quantile, report::Row};
use anyhow::{Context as _, Result};
use pilothouse_engine::{Batch, InboxRow, InboxState, Scope};
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct Asked {
    asked: f64,
    told: f64,
}

/// What the later half took by what the earlier took, each by its lower quarter: what disturbs a machine makes single ones
/// slower, a thread that grew twice as long makes all of them so.
fn later_by_earlier(values: &[f64]) -> Option<f64> {
    let (earlier, later) = values.split_at(values.len() / 2);
    let quarter = |half: &[f64]| quantile(&mut half.to_vec(), 0.25);
    Some(quarter(later)? / quarter(earlier)?)
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let scratch = context.scratch()?;
    let world = World::start(scratch.path(), scratch.path().join("state"))?;
    let phone = world.device("phone")?;
    let host = world.host.id();
    let thread = phone.create(host, "questions")?;
    let inbox = phone.watch(Scope::Inbox);
    let count = 190;
    let said = phone.say(host, thread, &format!("[[do:asks-many]] [[n:{count}]]"))?;
    phone.taken(&said)?;
    let (mut rows, mut seen) = (Vec::<InboxRow>::new(), BTreeSet::new());
    let (mut notices, mut answers, mut tickets) = (Vec::new(), Vec::new(), Vec::new());
    while notices.len() < count {
        let told = inbox.next()?;
        let Batch::Inbox(batch) = &told.batch else {
            continue;
        };
        batch.apply(&mut rows);
        let new = rows
            .iter()
            .find(|row| row.state == InboxState::Pending && !seen.contains(&row.request));
        if let Some(row) = new {
            seen.insert(row.request);
            notices.push(told.at);
            answers.push(crate::live::unix_ms());
            tickets.push(phone.allow(row)?);
        }
    }
    for ticket in &tickets {
        phone.taken(ticket)?;
    }
    // An outcome says that the ledger took the answer; the agent notes that it was told a moment later.
    let times: Vec<Asked> = pilothouse_tests::until("every answer to reach the agent", || {
        match world.times::<Asked>() {
            Ok(times) if times.len() == count => Ok(times),
            Ok(times) => Err(format!("{} of {count}", times.len())),
            Err(error) => Err(format!("{error:#}")),
        }
    });
    // The first one starts threads and fills caches.
    let mut to_notice: Vec<f64> = times
        .iter()
        .zip(&notices)
        .skip(1)
        .map(|(t, at)| at - t.asked)
        .collect();
    let mut to_told: Vec<f64> = times
        .iter()
        .zip(&answers)
        .skip(1)
        .map(|(t, at)| t.told - at)
        .collect();
    let line = |what: &str, values: &mut [f64]| -> Result<Row> {
        let (p50, p95) = (
            quantile(values, 0.5).context("values")?,
            quantile(values, 0.95).context("values")?,
        );
        Ok(
            Row::at_most(format!("{what}, p95 of {}", values.len()), p95, 20.0, "ms")
                .note(format!("median {p50:.1}")),
        )
    };
    let growth = [&to_notice, &to_told]
        .map(|values| later_by_earlier(values))
        .into_iter()
        .collect::<Option<Vec<f64>>>()
        .context("values")?;
    Ok(vec![
        line("question asked → notice on the device", &mut to_notice)?,
        line("answer submitted → agent told", &mut to_told)?,
        Row::at_most(
            format!("the later half of {count} by the earlier, the worse of both"),
            growth.iter().copied().fold(0.0, f64::max),
            1.3,
            "× the time",
        )
        .note(format!(
            "notice {:.2}, told {:.2}; lower quarters",
            growth[0], growth[1]
        )),
    ])
}
