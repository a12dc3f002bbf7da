//! Real opencode by its own interface, end to end: host, device, TLS, and a process that outlives its host.

use crate::stories::{confirmed, runs_bash, says, shows};
use pilothouse_domain::{Mode, Refusal, RequestStatus, RunStatus, ThreadId, refusal::ClosedAs};
use pilothouse_engine::InboxRow;
use pilothouse_tests::{Device, Setup, World, device::ids, process, until};
use serde_json::json;
use std::process::Command;

fn world() -> World {
    Setup::new().opencode().start()
}

fn asked_to_run(
    world: &World,
    device: &Device,
    script: &str,
    command: &str,
) -> (ThreadId, InboxRow) {
    let thread = device.new_thread("opencode", Mode::Ask);
    world.model.script(script, &runs_bash(command));
    device.accepted(&device.say(thread, &format!("go [[script:{script}]] [[id:{script}]]")));
    (thread, device.asked(thread))
}

#[test]
fn a_permission_asked_of_opencode_is_answered_after_the_host_was_killed_and_the_agent_goes_on() {
    let mut world = world();
    let phone = world.device("phone");
    let (thread, row) = asked_to_run(&world, &phone, "outlives", "echo outlives >> outlives.txt");
    assert_eq!(
        row.subject.command.as_deref(),
        Some("echo outlives >> outlives.txt")
    );
    let before = world.host.outliving();
    assert_eq!(before.len(), 1, "one opencode for the workspace");

    world.host.kill_9();
    phone.offline();
    assert_eq!(world.host.outliving(), before, "it lives on");
    world.host.restart();
    phone.network_changes();
    phone.synchronised();
    // The same request, of the same run, still waits.
    assert_eq!(ids(&phone.seen().inbox), [row.request]);
    assert_eq!(world.text_of("outlives.txt"), None);

    phone.accepted(&phone.choose(&row, "once"));
    confirmed(&phone, thread, row.request);
    phone.completed(thread, 1);
    assert_eq!(world.text_of("outlives.txt").as_deref(), Some("outlives\n"));
    assert_eq!(world.host.outliving(), before, "nothing else was started");
    let mark = world.model.mark("outlives");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));

    // And the conversation goes on.
    world.model.script("next", &says("Here I am."));
    phone.accepted(&phone.say(thread, "and now? [[script:next]]"));
    phone.completed(thread, 2);
    phone.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn a_turn_that_ended_while_the_host_was_dead_is_completed_with_its_words_when_it_is_back() {
    let mut world = world();
    let phone = world.device("phone");
    let thread = phone.new_thread("opencode", Mode::Ask);
    world.model.script(
        "long",
        &json!([{"text": "one two three", "hold_after_text": "go-on"}]),
    );
    phone.accepted(&phone.say(thread, "go [[script:long]]"));
    world.model.reached("long", 1);
    shows(&phone, thread, "one two");
    world.host.kill_9();
    phone.offline();
    world.model.release("go-on");
    until("opencode to be idle", || match status_of_opencode(&world) {
        said if said == "{}" => Ok(()),
        said => Err(said),
    });
    world.host.restart();
    phone.network_changes();
    phone.completed(thread, 1);
    let words = format!("{:?}", phone.whole(thread));
    assert!(words.contains("one two three"), "{words}");
    phone.same_as(&world.host, thread);
    world.host.verify();
}

/// What opencode says of its conversations, asked with what the host has recorded.
fn status_of_opencode(world: &World) -> String {
    let record = world.host.detached().pop().expect("its record is there");
    let text = |field: &str| record[field].as_str().unwrap().to_owned();
    let output = Command::new("curl")
        .args(["-s", "-u", &format!("opencode:{}", text("secret"))])
        .arg(format!("http://{}/session/status", text("endpoint")))
        .output()
        .expect("curl runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_stop_reaches_opencode_after_its_host_was_killed() {
    let mut world = world();
    let phone = world.device("phone");
    let (thread, row) = asked_to_run(&world, &phone, "stopped", "echo stopped >> stopped.txt");
    world.host.kill_9();
    phone.offline();
    world.host.restart();
    phone.network_changes();
    phone.synchronised();
    phone.accepted(&phone.interrupt(thread));
    assert_eq!(phone.ended(thread, 1).status, RunStatus::Interrupted);
    phone.status(thread, row.request, |status| {
        matches!(status, RequestStatus::Withdrawn).then_some(())
    });
    assert_eq!(world.text_of("stopped.txt"), None);
    world.host.verify();
}

#[test]
fn case_38_a_permission_asked_by_a_subagent_is_answered_after_the_host_was_killed() {
    let mut world = world();
    let phone = world.device("phone");
    let thread = phone.new_thread("opencode", Mode::Ask);
    world.model.script("kid", &runs_bash("echo kid >> kid.txt"));
    let task = json!({"name": "task", "args": {
        "description": "kid task", "prompt": "do it [[script:kid]]", "subagent_type": "general"
    }});
    world.model.script(
        "parent",
        &json!([{"text": "I have it done.", "tools": [task]}, {"text": "It is done."}]),
    );
    phone.accepted(&phone.say(thread, "go [[script:parent]]"));
    let row = phone.asked(thread);
    let before = world.host.outliving();
    world.host.kill_9();
    phone.offline();
    world.host.restart();
    phone.network_changes();
    phone.synchronised();
    assert_eq!(ids(&phone.seen().inbox), [row.request]);
    phone.accepted(&phone.choose(&row, "once"));
    phone.completed(thread, 1);
    assert_eq!(world.text_of("kid.txt").as_deref(), Some("kid\n"));
    assert_eq!(world.host.outliving(), before);
    // It is one subagent, whatever life of the host saw it.
    let subagents = phone
        .whole(thread)
        .into_iter()
        .filter(|row| matches!(row.content, pilothouse_engine::RowContent::Subagent { .. }));
    assert_eq!(subagents.count(), 1);
    phone.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn an_opencode_that_is_configured_otherwise_when_its_host_is_back_is_ended_and_another_goes_on() {
    let mut world = world();
    let phone = world.device("phone");
    let (thread, row) = asked_to_run(&world, &phone, "before", "echo before >> before.txt");
    let before = world.host.outliving();
    world.host.kill_9();
    phone.offline();
    let file = world.host.config().to_owned();
    let config = std::fs::read_to_string(&file).unwrap();
    let changed = config.replace(
        "OPENCODE_DISABLE_LSP_DOWNLOAD = \"1\"",
        "OPENCODE_DISABLE_LSP_DOWNLOAD = \"true\"",
    );
    assert_ne!(changed, config);
    std::fs::write(&file, changed).unwrap();
    world.host.restart();
    for pid in &before {
        process::gone(*pid);
    }
    phone.network_changes();
    phone.status(thread, row.request, |status| {
        matches!(status, RequestStatus::Lost { .. }).then_some(())
    });
    phone.synchronised();
    let late = phone.refused(&phone.choose(&row, "once"));
    let lost = |status| status == ClosedAs::Lost;
    assert!(
        matches!(late, Refusal::NotRespondable { status, .. } if lost(status)),
        "{late}"
    );
    assert_eq!(phone.ended(thread, 1).status, RunStatus::Interrupted);
    // Its conversation goes on in a process that is configured so.
    world.model.script("next", &says("Here I am."));
    phone.accepted(&phone.say(thread, "and now? [[script:next]]"));
    phone.completed(thread, 2);
    let after = world.host.outliving();
    assert!(after.len() == 1 && after != before, "{after:?}");
    assert_eq!(world.text_of("before.txt"), None);

    // A host that is stopped on purpose stops its agents.
    phone.same_as(&world.host, thread);
    world.host.stop();
    for pid in after {
        process::gone(pid);
    }
    assert!(world.host.outliving().is_empty());
}
