//! Agents that stand still and so never answer to a stop: real ones, whose processes are held by SIGSTOP.

use crate::stories::says;
use pilothouse_domain::{Mode, RunStatus, ThreadId};
use pilothouse_engine::RowContent;
use pilothouse_tests::{Device, Setup, World};
use serde_json::json;
use std::process::Command;

/// What is shown of a stop, in order.
fn steps(device: &Device, thread: ThreadId) -> Vec<String> {
    let rows = device.whole(thread).into_iter();
    rows.filter_map(|row| match row.content {
        RowContent::Interrupt { note } => Some(note),
        _ => None,
    })
    .collect()
}

/// Stops a turn of an agent that stands still: each step is shown, the last one ends it, and the conversation goes on.
fn is_stopped_step_by_step(world: &World, agent: &str) {
    let phone = world.device("phone");
    let thread = phone.new_thread(agent, Mode::Ask);
    world.model.script(
        "held",
        &json!([{"text": "one two three", "hold_after_text": "never"}]),
    );
    phone.accepted(&phone.say(thread, "go [[script:held]] [[id:held]]"));
    phone.wait("its first words", |seen| {
        let rows = &seen.timelines.get(&thread)?.rows;
        rows.iter()
            .any(|row| row.text.text.contains("one two three"))
            .then_some(())
    });
    let agents = world.host.outliving();
    assert_eq!(agents.len(), 1);
    let group = format!("-{}", agents[0]);
    let held = Command::new("kill").args(["-STOP", "--", &group]).status();
    assert!(held.is_ok_and(|status| status.success()));

    phone.accepted(&phone.interrupt(thread));
    let told = |step: &'static str| {
        phone.wait(step, |seen| {
            let mut rows = seen.timelines.get(&thread)?.rows.iter();
            rows.any(
                |row| matches!(&row.content, RowContent::Interrupt { note } if note.contains(step)),
            )
            .then_some(())
        });
    };
    told("did not take it");
    told("SIGINT");
    told("SIGTERM");
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
