//! Power cuts: a ledger at work in a traced process, and everything that its disk could have held at the moment of a cut.

use crate::{
    trace::{Dice, Step, Trace, strace_works},
    world::{Follower, World, answer, asks, closed, delta, ended},
};
use pilothouse_domain::{
    Cause, CommandId, Cursor, DispatchMode, Epoch, Event, Outcome, ProviderEventKind, RequestId,
    RequestStatus, Row, ThreadId, provider::TurnStatus, row::RowKind,
};
use pilothouse_store::{Durability, LedgerStore, StoreError};
use serde::{Deserialize, Serialize};
use std::{io::Write as _, path::Path, process::Command};

/// Names the directory that the traced process works in.
const DIR: &str = "PILOTHOUSE_POWER_DIR";
/// How many cuts are made, unless the environment says otherwise.
const CUTS: usize = 300;
/// Lives of the ledger in the traced process.
const LIVES: u64 = 3;
/// Turns in each.
const TURNS: u32 = 3;

/// What the traced process told others, and what therefore has to hold after a cut.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    /// A ledger was opened: as often as this.
    Life(u64),
    /// A command was acknowledged.
    Accepted(CommandId, Cursor),
    /// A person was told of a request.
    Asked(RequestId),
    /// An answer to a request was acknowledged.
    Answered(RequestId),
    /// A follower was given an entry.
    Entry(Cursor),
    Thread(ThreadId),
}

fn tell(told: &Told) {
    let mut out = std::io::stdout().lock();
    let line = format!("say:{}\n", serde_json::to_string(told).unwrap());
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Not a test by itself: the process that is traced.
#[tokio::test(flavor = "multi_thread")]
async fn child_works() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let dir = tempfile::tempdir_in(dir).unwrap();
    let mut world = World::within(dir).await;
    tell(&Told::Life(1));
    tell(&Told::Thread(world.thread));
    for life in 1..=LIVES {
        world.script.count_turns_from((life as u32 - 1) * TURNS);
        for turn in 1..=TURNS {
            works(&mut world, life, turn).await;
        }
        if life < LIVES {
            world = world.reopened().await;
            tell(&Told::Life(life + 1));
        }
    }
    // The end is a cut as well: nothing is closed in order.
    std::process::exit(0);
}

/// One turn: a message, streamed text, a question, its answer, a final text.
async fn works(world: &mut World, life: u64, turn: u32) {
    let mut follower = world.follow(None).await;
    let text = format!("life {life}, turn {turn}: {}", "words ".repeat(50));
    let sent = world.send(&text, DispatchMode::StartImmediately).await;
    accepted(world, &sent);
    world.sent().await;
    let name = |what: &str| format!("{what}-{life}-{turn}");
    let native = Some((life as u32 - 1) * TURNS + turn);
    let script = world.script.clone();
    script.say(native, ProviderEventKind::TurnStarted).await;
    for part in 0..4 {
        let text = format!("part {part} of what is said ");
        script.say(native, delta(&name("m"), &text)).await;
    }
    let said = closed(&name("m"), "all that was said");
    script.say(native, said).await;
    let is_closed = |event: &Event| matches!(event, Event::ItemClosed { .. }).then_some(());
    told(&mut follower, is_closed).await;
    script.say(native, asks(&name("r"), "touch it")).await;
    let request = told(&mut follower, |event| match event {
        Event::RequestOpened { request } => Some((request.id, request.content_hash)),
        _ => None,
    })
    .await;
    tell(&Told::Asked(request.0));
    let outcome = world.command(answer(request.0, request.1, "accept")).await;
    accepted(world, &outcome);
    tell(&Told::Answered(request.0));
    let text = "a longer text at the end ".repeat(200);
    script.say(native, closed(&name("n"), &text)).await;
    script.say(native, ended(TurnStatus::Completed)).await;
    let has_ended = |event: &Event| matches!(event, Event::RunEnded { .. }).then_some(());
    told(&mut follower, has_ended).await;
}

/// Waits for an event, and says which entries the follower was given on the way.
async fn told<T>(follower: &mut Follower, wanted: impl FnMut(&Event) -> Option<T>) -> T {
    let before = follower.entries.len();
    let found = follower.until("what was told", wanted).await;
    for entry in &follower.entries[before..] {
        tell(&Told::Entry(entry.cursor()));
    }
    found
}

fn accepted(world: &World, outcome: &Outcome) {
    let Outcome::Accepted { cursor, .. } = outcome else {
        panic!("{outcome:?}")
    };
    tell(&Told::Accepted(world.last_command(), *cursor));
}

/// What the cuts came to, so that a test that cut nothing off is noticed.
#[derive(Debug, Default)]
struct Found {
    cuts: usize,
    /// Entries that followers had been given and that the cut took.
    lost_entries: usize,
    /// Cuts that took any.
    with_loss: usize,
    /// Commands that were acknowledged before a cut, over all cuts.
    acknowledged: usize,
    asked: usize,
}

#[test]
fn after_a_power_cut_what_was_acknowledged_is_there_and_what_is_missing_is_found() {
    if let Err(problem) = strace_works() {
        assert!(
            std::env::var_os("PILOTHOUSE_NO_STRACE").is_some(),
            "power cuts are made from what strace sees of the ledger's writes and syncs, and it does not work here: \
             {problem}; install it (`apt-get install strace`), or set PILOTHOUSE_NO_STRACE=1 to leave this test out"
        );
        eprintln!("left out, as PILOTHOUSE_NO_STRACE says: {problem}");
        return;
    }
    let cuts = std::env::var("PILOTHOUSE_POWER_CUTS").map_or(CUTS, |text| {
        text.parse().expect("PILOTHOUSE_POWER_CUTS is a number")
    });
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "--exact",
            "power::child_works",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DIR, dir.path());
    let trace = Trace::of(&child, dir.path());
    let is_first = |step: &Step| matches!(step, Step::Said(word) if word.contains("Life"));
    let first = trace
        .steps
        .iter()
        .position(is_first)
        .expect("the ledger was opened");
    let mut found = Found::default();
    for seed in 0..cuts {
        if let Err(until) = holds_after_cut(&trace, first, seed, dir.path(), &mut found) {
            let kept = dir.keep().join(format!("cut-{seed}"));
            panic!(
                "cut {seed} after step {until}: the files are in {}",
                kept.display()
            );
        }
    }
    eprintln!("{found:?} of {} steps", trace.steps.len());
    assert_eq!(found.cuts, cuts);
    assert!(
        found.acknowledged > cuts && found.asked > cuts / 2,
        "{found:?}"
    );
    assert!(
        found.with_loss > cuts / 50,
        "hardly any cut took anything: {found:?}"
    );

    // The same without any sync: unless that is noticed, nothing was shown above.
    let trace = trace.without_syncs(first);
    let noticed = (0..50).any(|seed| {
        holds_after_cut(&trace, first, seed, dir.path(), &mut Found::default()).is_err()
    });
    assert!(noticed, "acknowledged without a sync, and no cut found it");
}

/// Cuts the power somewhere behind step `first`, and looks at what is left; the step if it is not as it should be.
fn holds_after_cut(
    trace: &Trace,
    first: usize,
    seed: usize,
    dir: &Path,
    found: &mut Found,
) -> Result<(), usize> {
    let mut dice = Dice::new(seed as u64);
    let until = first + 1 + dice.below(trace.steps.len() - first);
    // Right before a sync most is open.
    let until = match dice.below(2) {
        0 => until,
        _ => before_a_sync(trace, until),
    };
    let place = dir.join(format!("cut-{seed}"));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir(&place).unwrap();
    for (name, content) in trace.cut(until, &mut dice) {
        std::fs::write(place.join(name), content).unwrap();
    }
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        examine(&place, &trace.steps[..until], found);
    }))
    .map_err(|_| until)?;
    std::fs::remove_dir_all(&place).unwrap();
    Ok(())
}

fn before_a_sync(trace: &Trace, from: usize) -> usize {
    let later = trace.steps[from.min(trace.steps.len() - 1)..].iter();
    let next = later
        .take_while(|step| !matches!(step, Step::Synced(_)))
        .count();
    (from + next).min(trace.steps.len())
}

/// What the process had told before the cut.
fn told_before(steps: &[Step]) -> Vec<Told> {
    let words = steps.iter().filter_map(|step| match step {
        Step::Said(word) => Some(serde_json::from_str(word).unwrap()),
        _ => None,
    });
    words.collect()
}

fn examine(dir: &Path, steps: &[Step], found: &mut Found) {
    let told = told_before(steps);
    let mut store = LedgerStore::open(dir, Epoch::from_bytes([0xee; 16])).unwrap();
    found.cuts += 1;
    let thread = told.iter().find_map(|told| match told {
        Told::Thread(thread) => Some(*thread),
        _ => None,
    });
    let Some(thread) = thread else { return };
    for id in store.threads().unwrap() {
        store
            .verify(id)
            .unwrap_or_else(|difference| panic!("{difference}"));
    }
    let head = store.cursor(thread).unwrap();
    let mut lost = Vec::new();
    for told in &told {
        match told {
            // The number of this life was never given before, so what it names was never named.
            Told::Life(life) => assert!(store.boot() > *life, "boot {} again", store.boot()),
            Told::Thread(_) => {}
            Told::Accepted(command, cursor) => {
                let kept = store.outcome(*command).unwrap();
                let kept = kept.unwrap_or_else(|| panic!("{command} was acknowledged and is gone"));
                assert!(
                    matches!(&kept, Outcome::Accepted { cursor: at, .. } if at == cursor),
                    "{kept:?}"
                );
                assert!(store.is_on_log(thread, cursor).unwrap());
                found.acknowledged += 1;
            }
            Told::Asked(request) => {
                assert!(
                    status(&store, thread, *request).is_some(),
                    "{request} is gone"
                );
                found.asked += 1;
            }
            Told::Answered(request) => {
                let status = status(&store, thread, *request);
                assert_ne!(status, Some(RequestStatus::Pending), "its answer is gone");
            }
            Told::Entry(cursor) if cursor.seq <= head.seq => {
                assert!(store.is_on_log(thread, cursor).unwrap(), "{cursor:?}");
            }
            Told::Entry(cursor) => lost.push(*cursor),
        }
    }
    found.lost_entries += lost.len();
    found.with_loss += usize::from(!lost.is_empty());
    // A follower that was given what is lost has a gap, also when the log has grown beyond that place again.
    for grown in [false, true] {
        if grown {
            let last = lost
                .iter()
                .map(|cursor| cursor.seq)
                .max()
                .unwrap_or(head.seq);
            let grow = |tx: &mut pilothouse_store::LedgerTx<'_>| {
                for _ in head.seq..=last {
                    tx.append(thread, Cause::Clock, 1, Vec::new())?;
                }
                Ok::<_, StoreError>(())
            };
            store.transaction(grow, Durability::Synced).unwrap();
            store.verify_chain(thread).unwrap();
        }
        for cursor in &lost {
            assert!(
                !store.is_on_log(thread, cursor).unwrap(),
                "{cursor:?} is no gap"
            );
        }
        assert!(store.is_on_log(thread, &head).unwrap());
    }
}

fn status(store: &LedgerStore, thread: ThreadId, request: RequestId) -> Option<RequestStatus> {
    let key = RowKind::Request.key(request.as_bytes());
    match store.row(thread, key).unwrap()? {
        Row::Request(row) => Some(row.status),
        other => panic!("{other:?}"),
    }
}
