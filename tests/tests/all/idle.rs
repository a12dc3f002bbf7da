//! Real agents without anything to do are stopped and taken up again by the next message; one that waits for a person is not.

use crate::stories::option;
use pilothouse_domain::{Mode, ThreadId, request::OptionEffect};
use pilothouse_tests::{Device, Setup, World, process};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How often an agent is looked at: stopped are those that had nothing to do in two looks. About a second.
const IDLE_MINUTES: &str = "0.02";
/// How often another agent is stopped while one waits for an answer. Each takes a look and a part of another at least, by the
/// same clock: had the one that waits been taken for idle, it would be stopped by the second.
const OTHERS: u32 = 4;

#[test]
fn codex_rests_and_goes_on_where_it_was_and_is_left_alone_while_it_asks() {
    rests_and_goes_on(
        "codex",
        json!({"name": "exec_command", "args": {"cmd": COMMAND}}),
    );
}

#[test]
fn claude_code_rests_and_goes_on_where_it_was_and_is_left_alone_while_it_asks() {
    let args = json!({"command": COMMAND, "description": "try it"});
    rests_and_goes_on("claude", json!({"name": "Bash", "args": args}));
}

#[test]
fn opencode_rests_and_goes_on_where_it_was_and_is_left_alone_while_it_asks() {
    let args = json!({"command": COMMAND, "description": "try it"});
    rests_and_goes_on("opencode", json!({"name": "bash", "args": args}));
}

#[test]
fn pi_rests_and_goes_on_where_it_was_and_is_left_alone_while_it_asks() {
    rests_and_goes_on("pi", json!({"name": "bash", "args": {"command": COMMAND}}));
}

/// What is asked for.
const COMMAND: &str = "echo ran >> ran.txt";

/// The processes of all agents that run.
fn processes(world: &World) -> BTreeSet<u32> {
    let outliving = world.host.outliving();
    world.host.agents().into_iter().chain(outliving).collect()
}

/// One turn that only speaks; the processes that there are in it and were not before.
fn turn(world: &World, device: &Device, thread: ThreadId, script: &str, run: u32) -> BTreeSet<u32> {
    let before = processes(world);
    let steps = json!([{"text": "Here I am.", "hold": script}]);
    world.model.script(script, &steps);
    device.accepted(&device.say(thread, &format!("go [[script:{script}]] [[id:{script}]]")));
    world.model.reached(script, 1);
    let started: BTreeSet<u32> = &processes(world) - &before;
    assert!(!started.is_empty(), "an agent was started");
    world.model.release(script);
    device.completed(thread, run);
    started
}

fn gone(processes: &BTreeSet<u32>) {
    for process in processes {
        process::gone(*process);
    }
}

fn rests_and_goes_on(agent: &str, tool: Value) {
    let setup = Setup::new().claude().opencode().pi(&[]);
    let world = setup.idle_minutes(IDLE_MINUTES).start();
    let device = world.device("phone");
    let thread = device.new_thread(agent, Mode::Ask);
    let first = turn(&world, &device, thread, "first", 1);
    gone(&first);

    // The next message starts another, in the same conversation.
    let heard = world.model.mark("first").requests;
    let second = turn(&world, &device, thread, "second", 2);
    assert!(second.is_disjoint(&first));
    let mark = world.model.mark("first");
    assert!(mark.requests > heard, "what was said before is known");
    assert_eq!(mark.most_in_one_request, 1);
    gone(&second);

    // One that waits for an answer is not stopped, however often others are.
    let before = processes(&world);
    let asks = json!([{"text": "I will run it.", "tools": [tool]}, {"text": "After it."}]);
    world.model.script("asks", &asks);
    device.accepted(&device.say(thread, "go [[script:asks]]"));
    let row = device.asked(thread);
    let waiting: BTreeSet<u32> = &processes(&world) - &before;
    assert!(!waiting.is_empty());
    let other = device.new_thread(if agent == "pi" { "claude" } else { "pi" }, Mode::Ask);
    for n in 1..=OTHERS {
        gone(&turn(&world, &device, other, &format!("other-{n}"), n));
    }
    assert!(
        processes(&world).is_superset(&waiting),
        "stopped while it asks"
    );
    assert_eq!(world.text_of("ran.txt"), None);
    device.accepted(&device.choose(&row, &option(&row, OptionEffect::AllowOnce)));
    device.completed(thread, 3);
    assert_eq!(world.text_of("ran.txt").as_deref(), Some("ran\n"));
    gone(&waiting);
    device.same_as(&world.host, thread);
    world.host.verify();
}
