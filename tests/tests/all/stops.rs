//! Agents that stand still and so never answer to a stop: real ones, whose processes are held by SIGSTOP.

use crate::stories::says;
use pilothouse_domain::{Mode, RunStatus, ThreadId};
use pilothouse_engine::RowContent;
use pilothouse_tests::{Device, Setup, World};
use serde_json::json;
use std::{fs, process::Command};

/// What is shown of a stop, in order.
fn steps(device: &Device, thread: ThreadId) -> Vec<String> {
    let rows = device.whole(thread).into_iter();
    rows.filter_map(|row| match row.content {
        RowContent::Interrupt { note } => Some(note),
        _ => None,
    })
    .collect()
}

/// A turn in a new thread that stands after its first words until it is released by its name.
fn held_turn(world: &World, device: &Device, agent: &str, name: &str) -> ThreadId {
    let thread = device.new_thread(agent, Mode::Ask);
    world.model.script(
        name,
        &json!([{"text": "one two three", "hold_after_text": name}]),
    );
    device.accepted(&device.say(thread, &format!("go [[script:{name}]] [[id:{name}]]")));
    device.wait("its first words", |seen| {
        let rows = &seen.timelines.get(&thread)?.rows;
        rows.iter()
            .any(|row| row.text.text.contains("one two three"))
            .then_some(())
    });
    thread
}

/// Sends a signal to the group of an agent.
fn signal(agent: u32, name: &str) {
    let group = format!("-{agent}");
    let sent = Command::new("kill").args([name, "--", &group]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

/// Waits until a step of a stop is shown.
fn told(device: &Device, thread: ThreadId, step: &str) {
    device.wait(step, |seen| {
        let mut rows = seen.timelines.get(&thread)?.rows.iter();
        rows.any(
            |row| matches!(&row.content, RowContent::Interrupt { note } if note.contains(step)),
        )
        .then_some(())
    });
}

/// Stops a turn of an agent that stands still: each step is shown, the last one ends it, and the conversation goes on.
fn is_stopped_step_by_step(world: &World, agent: &str) {
    let phone = world.device("phone");
    let thread = held_turn(world, &phone, agent, "held");
    let agents = world.host.outliving();
    assert_eq!(agents.len(), 1);
    signal(agents[0], "-STOP");

    phone.accepted(&phone.interrupt(thread));
    told(&phone, thread, "did not take it");
    told(&phone, thread, "SIGINT");
    told(&phone, thread, "SIGTERM");
    let run = phone.ended(thread, 1);
    assert_eq!(run.status, RunStatus::Interrupted);
    let shown = steps(&phone, thread);
    let words = [
        "asked for",
        "did not take it",
        "SIGINT",
        "SIGTERM",
        "SIGKILL",
    ];
    assert_eq!(shown.len(), words.len(), "{shown:?}");
    for (note, word) in shown.iter().zip(words) {
        assert!(note.contains(word), "{shown:?}");
    }

    world.model.script("next", &says("Here I am."));
    phone.accepted(&phone.say(thread, "and now? [[script:next]]"));
    phone.completed(thread, 2);
    assert_ne!(world.host.outliving(), agents, "it was started again");
    assert_eq!(world.model.mark("held").first_steps, 1);
    phone.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn case_34_a_codex_that_stands_still_is_stopped_step_by_step_and_each_is_shown() {
    is_stopped_step_by_step(&World::start(), "codex");
}

#[test]
fn case_34_an_opencode_that_stands_still_is_stopped_step_by_step_and_each_is_shown() {
    is_stopped_step_by_step(&Setup::new().opencode().start(), "opencode");
}

/// Which of the signals that stop an agent wait for a process, as a mask. Others, of a child that ended, say nothing of its host.
fn waiting_stops(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("ShdPnd:"))
        .expect("Linux says which signals wait");
    let (sigint, sigterm) = (1 << 1, 1 << 14);
    u64::from_str_radix(mask.trim(), 16).expect("a mask") & (sigint | sigterm)
}

#[test]
fn case_34_a_codex_that_also_works_on_another_thread_is_not_signalled_and_that_is_shown() {
    let world = World::start();
    let phone = world.device("phone");
    let stopped = held_turn(&world, &phone, "codex", "stopped");
    let other = held_turn(&world, &phone, "codex", "other");
    let agents = world.host.outliving();
    assert_eq!(agents.len(), 1, "one process serves both");
    signal(agents[0], "-STOP");

    phone.accepted(&phone.interrupt(stopped));
    told(&phone, stopped, "did not take it");
    told(&phone, stopped, "not signalled");
    let shown = steps(&phone, stopped);
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown[2].contains(&other.to_string()), "{shown:?}");
    assert_eq!(waiting_stops(agents[0]), 0, "it stands, so one would wait");
    assert!(steps(&phone, other).is_empty());

    // It takes the stop late, and the other thread never knew.
    signal(agents[0], "-CONT");
    assert_eq!(phone.ended(stopped, 1).status, RunStatus::Interrupted);
    world.model.release("other");
    phone.completed(other, 1);
    assert_eq!(world.host.outliving(), agents, "the process is the same");
    assert_eq!(world.model.mark("other").first_steps, 1);
    for thread in [stopped, other] {
        phone.same_as(&world.host, thread);
    }
    world.host.verify();
}

#[test]
fn case_34_a_codex_is_ended_where_all_that_it_works_on_is_stopped() {
    let world = World::start();
    let phone = world.device("phone");
    let threads = ["one", "two"].map(|name| held_turn(&world, &phone, "codex", name));
    let agents = world.host.outliving();
    assert_eq!(agents.len(), 1, "one process serves both");
    signal(agents[0], "-STOP");
    for thread in threads {
        phone.accepted(&phone.interrupt(thread));
    }
    for thread in threads {
        assert_eq!(phone.ended(thread, 1).status, RunStatus::Interrupted);
    }
    // The first to wait is kept from it by the other, which then has nobody to spare.
    let shown = threads.map(|thread| steps(&phone, thread)).concat();
    let with = |word| shown.iter().filter(|note| note.contains(word)).count();
    assert_eq!(
        (with("not signalled"), with("SIGKILL")),
        (1, 1),
        "{shown:?}"
    );
    world.model.script("next", &says("Here I am."));
    for thread in threads {
        phone.accepted(&phone.say(thread, "and now? [[script:next]]"));
        phone.completed(thread, 2);
        phone.same_as(&world.host, thread);
    }
    assert_ne!(world.host.outliving(), agents, "it was started again");
    world.host.verify();
}
