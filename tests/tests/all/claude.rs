//! Real Claude Code, end to end: host, device, TLS, and the agent's own conversation on disk.

use crate::stories::{conversation, option, says};
use pilothouse_domain::{
    Mode, Refusal, RequestStatus, RunStatus, ThreadId,
    refusal::ClosedAs,
    request::{AnswerDelivery, LostReason, OptionEffect, RequestKind},
};
use pilothouse_engine::{InboxRow, RowContent};
use pilothouse_tests::{Device, Setup, World, process};
use serde_json::{Value, json};

fn world() -> World {
    Setup::new().claude().start()
}

/// A script that runs one command and then says a word.
fn runs(command: &str) -> Value {
    json!([
        {"text": "I will run it.", "tools": [{"name": "Bash", "args": {"command": command, "description": "try it"}}]},
        {"text": "After it."},
    ])
}

fn asked_to_run(
    world: &World,
    device: &Device,
    thread: ThreadId,
    script: &str,
    command: &str,
) -> InboxRow {
    world.model.script(script, &runs(command));
    let sent = device.say(thread, &format!("go [[script:{script}]] [[id:{script}]]"));
    device.accepted(&sent);
    device.asked(thread)
}

#[test]
fn an_allowed_command_and_a_refused_one_reach_the_agent_as_the_person_meant() {
    let world = world();
    let device = world.device("phone");
    let thread = device.new_thread("claude", Mode::Ask);
    let row = asked_to_run(
        &world,
        &device,
        thread,
        "allow",
        "echo allowed >> allow.txt",
    );
    assert_eq!(row.kind, RequestKind::Command);
    assert_eq!(
        row.subject.command.as_deref(),
        Some("echo allowed >> allow.txt"),
        "exactly what would run"
    );
    assert_eq!(
        world.text_of("allow.txt"),
        None,
        "nothing ran before the answer"
    );
    device.accepted(&device.choose(&row, &option(&row, OptionEffect::AllowOnce)));
    device.completed(thread, 1);
    assert_eq!(world.text_of("allow.txt").as_deref(), Some("allowed\n"));
    assert_eq!(
        conversation(&device, thread),
        [
            "go [[script:allow]] [[id:allow]]",
            "I will run it.",
            "After it."
        ]
    );
    device.status(thread, row.request, |status| {
        let confirmed = AnswerDelivery::Confirmed;
        matches!(status, RequestStatus::Answered { delivery, by: Some(_), .. } if *delivery == confirmed).then_some(())
    });
    let row = asked_to_run(&world, &device, thread, "deny", "echo denied >> deny.txt");
    device.accepted(&device.choose(&row, &option(&row, OptionEffect::Deny)));
    assert_eq!(device.ended(thread, 2).status, RunStatus::Completed);
    assert_eq!(world.text_of("deny.txt"), None);
    let row = asked_to_run(&world, &device, thread, "stop", "echo stopped >> stop.txt");
    device.accepted(&device.interrupt(thread));
    assert_eq!(device.ended(thread, 3).status, RunStatus::Interrupted);
    assert_eq!(world.text_of("stop.txt"), None);
    let _ = row;
    device.nothing_waits();
    assert_eq!(world.model.mark("allow").most_in_one_request, 1);
    device.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn a_conversation_goes_on_after_the_host_was_killed_and_what_was_asked_before_is_lost() {
    let mut world = world();
    let device = world.device("phone");
    let thread = device.new_thread("claude", Mode::Ask);
    let first = asked_to_run(&world, &device, thread, "first", "echo first >> first.txt");
    let allow = option(&first, OptionEffect::AllowOnce);
    device.accepted(&device.choose(&first, &allow));
    device.completed(thread, 1);
    let lost = asked_to_run(
        &world,
        &device,
        thread,
        "second",
        "echo second >> second.txt",
    );
    let agents = world.host.agents();
    assert!(!agents.is_empty());
    world.host.kill_9();
    for agent in agents {
        process::gone(agent);
    }
    device.offline();
    world.host.restart();
    device.network_changes();
    let reason = device.status(thread, lost.request, |status| match status {
        RequestStatus::Lost { reason, .. } => Some(*reason),
        _ => None,
    });
    assert_eq!(reason, LostReason::HostRestarted);
    device.synchronised();
    let refused = device.refused(&device.choose(&lost, &allow));
    assert_eq!(
        refused,
        Refusal::NotRespondable {
            request: lost.request,
            status: ClosedAs::Lost
        }
    );
    assert_eq!(world.text_of("second.txt"), None);
    let before = device.whole(thread).len();
    let heard = world.model.mark("first").requests;
    world.model.script("resumed", &says("I am back."));
    device.accepted(&device.say(thread, "and now? [[script:resumed]] [[id:resumed]]"));
    device.completed(thread, 3);
    let rows = device.whole(thread);
    assert_eq!(
        rows.len(),
        before + 2,
        "a message and its answer: {rows:#?}"
    );
    let last = rows.last().map(|row| row.text.text.as_str());
    assert_eq!(last, Some("I am back."));
    assert!(
        rows.iter()
            .any(|row| matches!(row.content, RowContent::Command { .. }))
    );
    let mark = world.model.mark("first");
    assert!(
        mark.requests > heard,
        "the conversation was resumed, {heard} had it before: {mark:?}"
    );
    assert_eq!(mark.most_in_one_request, 1);
    device.same_as(&world.host, thread);
    world.host.verify();
}
