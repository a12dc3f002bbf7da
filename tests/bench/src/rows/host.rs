//! An idle host: its memory, and whether it sleeps.

use super::Context;
use crate::{live::World, measure, report::Row};
use anyhow::Result;
use std::time::Duration;

/// How long it is watched for wake-ups; four halves of it have to be quiet one after the other.
const WATCHED: Duration = Duration::from_secs(10);
/// Looks at most.
const LOOKS: usize = 16;

pub(crate) fn run(context: &Context) -> Result<Vec<Row>> {
    let ten = idle(context, 10)?;
    // A build without optimisation is a far larger file; what the host fills itself is counted on any build.
    let (what, bytes) = if context.quick {
        ("memory of its own", ten.own)
    } else {
        ("resident memory", ten.rss)
    };
    let mut table = vec![
        Row::at_most(
            format!("{what}, 10 threads, 2 paired devices, none connected"),
            measure::mb(bytes),
            25.0,
            "MB",
        )
        .gate()
        .note(format!(
            "resident {:.1} MB, of its own {:.1} MB",
            measure::mb(ten.rss),
            measure::mb(ten.own)
        )),
        Row::holds(
            "wake-ups in 20 s with no device connected",
            "0",
            ten.wake_ups.to_string(),
            ten.wake_ups == 0,
        ),
    ];
    if !context.quick {
        let twenty = idle(context, 20)?;
        table.push(
            Row::at_most(
                "memory, 20 threads by 10",
                to_f64(twenty.rss) / to_f64(ten.rss),
                1.3,
                "×",
            )
            .gate(),
        );
        table.push(Row::holds(
            "wake-ups in 20 s, 20 threads",
            "0",
            twenty.wake_ups.to_string(),
            twenty.wake_ups == 0,
        ));
    }
    Ok(table)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn to_f64(value: u64) -> f64 {
    value as f64
}

struct Idle {
    rss: u64,
    own: u64,
    wake_ups: u64,
}

fn idle(context: &Context, threads: usize) -> Result<Idle> {
    let scratch = context.scratch()?;
    let world = World::start(scratch.path(), scratch.path().join("state"))?;
    let host = world.host.id();
    let (one, two) = (world.device("one")?, world.device("two")?);
    for n in 0..threads {
        let thread = one.create(host, &format!("thread {n}"))?;
        let ticket = two.say(host, thread, "hello")?;
        two.taken(&ticket)?;
    }
    pilothouse_tests::until("all runs to end", || {
        let waiting = world.host.ledger(|ledger| {
            ledger.consistent(|reads| {
                let mut running = 0;
                for thread in reads.threads()? {
                    running += usize::from(reads.snapshot(thread)?.state.active.is_some());
                }
                Ok(running)
            })
        });
        if waiting == 0 {
            Ok(())
        } else {
            Err(format!("{waiting} run"))
        }
    });
    drop((one, two));
    let pid = world.host.process().id();
    // What ends with the connections (threads that wait for work, timers) ends within its own time; then nothing may
    // happen any more.
    let mut looks = vec![measure::wake_ups(pid)?];
    let mut woken = Vec::new();
    while looks.len() <= LOOKS {
        std::thread::sleep(WATCHED / 2);
        looks.push(measure::wake_ups(pid)?);
        if let [.., before, after] = &looks[..] {
            woken.push(measure::woken(before, after));
        }
        if woken.ends_with(&[0, 0, 0, 0]) {
            break;
        }
    }
    Ok(Idle {
        rss: measure::rss(pid)?,
        own: measure::own_pages(pid)?,
        wake_ups: woken.iter().rev().take(4).sum(),
    })
}
