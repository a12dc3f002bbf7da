//! From a message that needs an agent's process to the turn that it is given: how much of that is the host's, and not the
//! agent's own start.

use super::Context;
use crate::{
    live::{World, unix_ms},
    measure::quantile,
    report::Row,
};
use anyhow::{Context as _, Result};
use serde::Deserialize;

/// Starts, each of a host and an agent of its own.
const STARTS: usize = 8;

/// A call that the agent was given; Unix times, ms.
#[derive(Deserialize)]
struct Call {
    method: String,
    /// When its process began.
    began: f64,
    read: f64,
    answered: f64,
}

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let mut shares = (0..STARTS)
        .map(|_| start(context))
        .collect::<Result<Vec<_>>>()?;
    let median = quantile(&mut shares, 0.5).context("starts")?;
    let best = quantile(&mut shares, 0.0).context("starts")?;
    Ok(vec![
        Row::at_most(
            format!("the host's own share of a start, the best of {STARTS}"),
            best,
            30.0,
            "ms",
        )
        .gate()
        .note(format!(
            "median {median:.1}; from the message to the agent's process, and from each of its answers to the next call"
        )),
    ])
}

/// The host's share of one start, ms. Before the agent reads its first call it is the agent that is waited for.
fn start(context: &Context) -> Result<f64> {
    let scratch = context.scratch()?;
    let world = World::start(scratch.path(), scratch.path().join("state"))?;
    let phone = world.device("phone")?;
    let host = world.host.id();
    let thread = phone.create(host, "a start")?;
    let said = unix_ms();
    let ticket = phone.say(host, thread, "hello")?;
    phone.taken(&ticket)?;
    let calls: Vec<Call> = pilothouse_tests::until("the turn", || match world.calls::<Call>() {
        Ok(calls) if calls.iter().any(|call| call.method == "turn/start") => Ok(calls),
        Ok(_) => Err("no turn yet".to_owned()),
        Err(error) => Err(format!("{error:#}")),
    });
    let first = calls.first().context("a call")?;
    let mut share = first.began - said;
    for pair in calls.windows(2) {
        let [before, after] = pair else { continue };
        share += (after.read - before.answered).max(0.0);
        if after.method == "turn/start" {
            break;
        }
    }
    Ok(share)
}
