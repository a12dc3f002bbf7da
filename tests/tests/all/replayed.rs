//! The whole product with no agent installed: a recording asks, a paired device answers over TLS.

use crate::stories::conversation;
use pilothouse_domain::{Mode, RequestStatus, RunStatus};
use pilothouse_tests::{Setup, process, until};

#[test]
fn a_recording_of_codex_asks_waits_and_goes_on_like_the_agent_that_was_recorded() {
    let mut world = Setup::new()
        .recording("tape", "codex/02_command_approval_accept.jsonl")
        .start();
    let device = world.device("phone");
    let thread = device.new_thread("tape", Mode::Ask);
    device.accepted(&device.say(thread, "in my own words"));
    let row = device.asked(thread);
    device.accepted(&device.choose(&row, "accept"));
    device.completed(thread, 1);
    let said = conversation(&device, thread);
    assert_eq!(said, ["in my own words", "Running.", "After decision."]);
    let status = device.request(thread, row.request).request.status;
    assert!(
        matches!(status, RequestStatus::Answered { .. }),
        "{status:?}"
    );

    // An answer that was not recorded.
    device.accepted(&device.say(thread, "again"));
    let row = device.asked(thread);
    device.accepted(&device.choose(&row, "cancel"));
    device.completed(thread, 2);
    let said = conversation(&device, thread);
    assert!(
        said.last().unwrap().contains("only knows the other answer"),
        "{said:#?}"
    );

    // Stopped by its person.
    device.accepted(&device.say(thread, "once more"));
    device.asked(thread);
    device.accepted(&device.interrupt(thread));
    assert_eq!(device.ended(thread, 3).status, RunStatus::Interrupted);
    device.nothing_waits();

    // The host dies with the recording in the middle of a turn.
    device.accepted(&device.say(thread, "and again"));
    let row = device.asked(thread);
    let agents = world.host.agents();
    world.host.kill_9();
    for agent in agents {
        process::gone(agent);
    }
    world.host.restart();
    device.network_changes();
    device.status(thread, row.request, |status| {
        matches!(status, RequestStatus::Lost { .. }).then_some(())
    });
    device.accepted(&device.say(thread, "still there?"));
    let row = device.asked(thread);
    device.accepted(&device.choose(&row, "accept"));
    device.completed(thread, 5);
    device.same_as(&world.host, thread);
    world.host.verify();
    assert_eq!(
        world.text_of("made_accept.txt"),
        None,
        "nothing is executed"
    );
}

#[test]
fn a_recording_of_an_acp_agent_goes_through_its_own_family() {
    let world = Setup::new()
        .recording("tape", "opencode-acp/01_init_prompt_allow.jsonl")
        .start();
    let device = world.device("phone");
    let thread = device.new_thread("tape", Mode::Ask);
    device.accepted(&device.say(thread, "in my own words"));
    let row = device.asked(thread);
    device.accepted(&device.choose(&row, "once"));
    device.completed(thread, 1);
    let said = conversation(&device, thread);
    assert_eq!(said, ["in my own words", "Running.", "All done."]);
    // The second recorded turn asks nothing.
    device.accepted(&device.say(thread, "go on"));
    device.completed(thread, 2);
    let said = conversation(&device, thread);
    assert_eq!(said[3], "go on");
    assert!(said.len() > 4, "{said:?}");
    device.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn a_recording_that_is_none_fails_the_run_and_says_why() {
    let world = Setup::new().recording("tape", "codex/README.md").start();
    let device = world.device("phone");
    let thread = device.new_thread("tape", Mode::Ask);
    device.accepted(&device.say(thread, "hello"));
    assert_eq!(device.ended(thread, 1).status, RunStatus::Failed);
    until("the reason", || {
        let rows = device.whole(thread);
        let text = format!("{rows:?}");
        match text.contains("README.md line 1") {
            true => Ok(()),
            false => Err(text),
        }
    });
}
