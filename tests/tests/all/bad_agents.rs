//! Agents that speak codex's protocol badly: the run ends with a reason, nothing stays open, the host goes on.

use crate::stories::conversation;
use pilothouse_domain::{
    Mode, Row, RunStatus, ThreadId,
    run::{ErrorCode, RunError},
};
use pilothouse_engine::RowContent;
use pilothouse_tests::{Device, Setup, World};

fn world(scenario: &str) -> (World, Device, ThreadId) {
    let world = Setup::new()
        .fake("fake", &[scenario])
        .fake("fine", &["ok"])
        .start();
    let device = world.device("phone");
    let thread = device.new_thread("fake", Mode::Ask);
    (world, device, thread)
}

/// Why the last run of a thread ended, by the host's own record.
fn error(world: &World, thread: ThreadId) -> Option<RunError> {
    let rows = world.host.ledger(|ledger| ledger.all_rows(thread));
    let runs = rows.into_iter().filter_map(|row| match row {
        Row::Run(run) => Some(run),
        _ => None,
    });
    runs.max_by_key(|run| run.ordinal).and_then(|run| run.error)
}

/// Nothing is open any more, and the agent's next turn is as good as any.
fn goes_on(world: &World, device: &Device, thread: ThreadId, next: u32) {
    device.wait("nothing to be open", |seen| {
        let rows = &seen.timelines.get(&thread)?.rows;
        rows.iter()
            .all(|row| row.closed_at_ms.is_some())
            .then_some(())
    });
    device.accepted(&device.say(thread, "[[do:ok]]"));
    device.completed(thread, next);
    assert_eq!(
        conversation(device, thread).last().map(String::as_str),
        Some("fine")
    );
    device.same_as(&world.host, thread);
    world.host.verify();
}

/// An agent that still turns out all right.
fn is_survived(scenario: &str) {
    let (world, device, thread) = world("ok");
    device.accepted(&device.say(thread, &format!("[[do:{scenario}]]")));
    device.completed(thread, 1);
    let said = conversation(&device, thread);
    assert!(said.iter().any(|text| text == "fine"), "{said:?}");
    goes_on(&world, &device, thread, 2);
}

/// Other agents are served while one keeps the host waiting.
fn others_go_on(device: &Device) {
    let other = device.new_thread("fine", Mode::Ask);
    device.accepted(&device.say(other, "hello"));
    device.completed(other, 1);
}

#[test]
fn an_agent_that_exits_in_the_middle_of_a_turn_fails_the_run_and_is_started_again() {
    let (world, device, thread) = world("ok");
    device.accepted(&device.say(thread, "[[do:exit]]"));
    let run = device.ended(thread, 1);
    assert!(
        matches!(run.status, RunStatus::Failed | RunStatus::Interrupted),
        "{run:?}"
    );
    let error = error(&world, thread).unwrap();
    assert_eq!(error.code, ErrorCode::RuntimeLost, "{error:?}");
    assert!(
        error.message.contains("giving up"),
        "what it wrote last is shown: {error:?}"
    );
    assert_eq!(
        conversation(&device, thread)[1],
        "half a sen",
        "what was said is kept"
    );
    goes_on(&world, &device, thread, 2);
}

#[test]
fn an_agent_that_exits_instead_of_starting_a_turn_fails_the_run() {
    let (world, device, thread) = world("ok");
    device.accepted(&device.say(thread, "[[do:exit-start]]"));
    let run = device.ended(thread, 1);
    assert!(
        matches!(run.status, RunStatus::Failed | RunStatus::Interrupted),
        "{run:?}"
    );
    assert!(error(&world, thread).is_some());
    goes_on(&world, &device, thread, 2);
}

#[test]
fn an_agent_that_dies_before_its_handshake_fails_the_run_with_what_it_wrote() {
    let (world, device, thread) = world("dies-first");
    device.accepted(&device.say(thread, "hello"));
    let run = device.ended(thread, 1);
    assert_eq!(run.status, RunStatus::Failed);
    let error = error(&world, thread).unwrap();
    assert_eq!(error.code, ErrorCode::Start, "{error:?}");
    assert!(error.message.contains("the moon is full"), "{error:?}");
    others_go_on(&device);
    world.host.verify();
}

#[test]
fn an_agent_that_never_answers_its_handshake_fails_the_run_and_holds_nobody_up() {
    let (world, device, thread) = world("mute");
    device.accepted(&device.say(thread, "hello"));
    others_go_on(&device);
    assert_eq!(
        device.timeline(thread).last_run(),
        None,
        "the mute one is still being waited for"
    );
    let run = device.ended(thread, 1);
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(error(&world, thread).unwrap().code, ErrorCode::Start);
    world.host.verify();
}

#[test]
fn an_agent_that_writes_only_garbage_fails_the_run() {
    let (world, device, thread) = world("garbage");
    device.accepted(&device.say(thread, "hello"));
    let run = device.ended(thread, 1);
    assert_eq!(run.status, RunStatus::Failed);
    assert!(error(&world, thread).is_some());
    others_go_on(&device);
    world.host.verify();
}

#[test]
fn an_agent_that_never_starts_the_turn_holds_nobody_up_and_an_interrupt_ends_it_step_by_step() {
    let (world, device, thread) = world("ok");
    device.accepted(&device.say(thread, "[[do:deaf]]"));
    others_go_on(&device);
    device.accepted(&device.interrupt(thread));
    let run = device.ended(thread, 1);
    assert_eq!(run.status, RunStatus::Interrupted, "{run:?}");
    goes_on(&world, &device, thread, 2);
}

#[test]
fn an_agent_that_floods_stderr_is_read_on() {
    is_survived("flood");
}

#[test]
fn broken_frames_cost_themselves_and_nothing_else() {
    is_survived("broken");
}

#[test]
fn an_oversized_frame_costs_itself_and_nothing_else() {
    is_survived("oversized");
}

#[test]
fn case_14_a_request_that_nobody_knows_is_refused_and_shown_and_the_turn_goes_on() {
    let (world, device, thread) = world("ok");
    device.accepted(&device.say(thread, "[[do:unknown]]"));
    device.completed(thread, 1);
    let said = conversation(&device, thread);
    assert!(said.iter().any(|text| text == "fine"), "{said:?}");
    let rows = device.whole(thread).into_iter();
    let shown: Vec<_> = rows
        .filter_map(|row| match row.content {
            RowContent::Unknown { label } => Some((label, row.text.text)),
            _ => None,
        })
        .collect();
    for what in ["item/holographic/changed", "hologram"] {
        assert!(
            shown.iter().any(|(label, _)| label.contains(what)),
            "{shown:?}"
        );
    }
    let request = "request item/hologram/requestApproval";
    let asked = shown.iter().find(|(label, _)| label == request);
    let (_, params) = asked.unwrap_or_else(|| panic!("{shown:?}"));
    assert!(params.contains("\"itemId\":\"h\""), "{params}");
    goes_on(&world, &device, thread, 2);
}

#[test]
fn a_turn_that_ends_twice_has_ended_once() {
    is_survived("double-end");
}
