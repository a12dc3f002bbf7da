//! A real agent that speaks ACP (copilot), end to end: host, device, TLS, and the agent's own conversation on disk.

use crate::stories::{conversation, option, runs_bash, says};
use pilothouse_domain::{
    Mode, Refusal, RequestId, RequestStatus, RunStatus, ThreadId,
    refusal::ClosedAs,
    request::{AnswerDelivery, LostReason, OptionEffect, RequestKind},
};
use pilothouse_engine::{InboxRow, RowContent, TimelineRow};
use pilothouse_tests::{Device, Setup, World, process};
use serde_json::json;

fn world() -> World {
    Setup::new().copilot().start()
}

fn asked_to_run(
    world: &World,
    device: &Device,
    script: &str,
    command: &str,
) -> (ThreadId, InboxRow) {
    let thread = device.new_thread("copilot", Mode::Ask);
    let row = asked_again(world, device, thread, script, command);
    (thread, row)
}

fn asked_again(
    world: &World,
    device: &Device,
    thread: ThreadId,
    script: &str,
    command: &str,
) -> InboxRow {
    world.model.script(script, &runs_bash(command));
    let sent = device.say(thread, &format!("go [[script:{script}]] [[id:{script}]]"));
    device.accepted(&sent);
    device.asked(thread)
}

#[test]
fn words_an_allowed_command_and_a_refused_one_reach_the_agent_as_the_person_meant() {
    let world = world();
    let device = world.device("phone");
    let (thread, row) = asked_to_run(&world, &device, "allow", "echo allowed >> allow.txt");
    assert_eq!(row.kind, RequestKind::Command);
    assert_eq!(
        row.subject.command.as_deref(),
        Some("echo allowed >> allow.txt"),
        "exactly what would run"
    );
    let labels: Vec<_> = row
        .subject
        .options
        .iter()
        .map(|option| option.label.as_str())
        .collect();
    assert_eq!(
        labels,
        ["Allow once", "Always allow", "Deny"],
        "the agent's own words"
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
        let written = AnswerDelivery::Written;
        matches!(status, RequestStatus::Answered { delivery, by: Some(_), .. } if *delivery == written).then_some(())
    });
    let command = device
        .whole(thread)
        .into_iter()
        .find_map(|row| match row.content {
            RowContent::Command { exit_code, .. } => Some(exit_code),
            _ => None,
        });
    assert_eq!(
        command,
        Some(Some(0)),
        "the command is an item of the timeline"
    );

    // Refused, in the same conversation.
    let row = asked_again(&world, &device, thread, "deny", "echo denied >> deny.txt");
    device.accepted(&device.choose(&row, &option(&row, OptionEffect::Deny)));
    let run = device.ended(thread, 2);
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(world.text_of("deny.txt"), None);
    assert_eq!(world.model.mark("allow").most_in_one_request, 1);
    device.nothing_waits();
    device.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn stopped_while_it_asks_the_turn_ends_and_the_conversation_goes_on() {
    let world = world();
    let device = world.device("phone");
    let (thread, _) = asked_to_run(&world, &device, "stop", "echo stopped >> stop.txt");
    device.accepted(&device.interrupt(thread));
    let run = device.ended(thread, 1);
    assert_eq!(run.status, RunStatus::Interrupted);
    device.nothing_waits();
    assert_eq!(world.text_of("stop.txt"), None);
    world.model.script("on", &says("I go on."));
    device.accepted(&device.say(thread, "and now? [[script:on]]"));
    device.completed(thread, 2);
    assert_eq!(
        conversation(&device, thread).last().map(String::as_str),
        Some("I go on.")
    );
    world.host.verify();
}

#[test]
fn case_22_a_reply_after_a_restart_is_refused_as_lost_one_to_an_unknown_request_as_unknown_and_a_second_changes_nothing()
 {
    let mut world = world();
    let device = world.device("phone");
    let (thread, first) = asked_to_run(&world, &device, "first", "echo first >> first.txt");

    // Twice: the first decision holds, the second is told so and reaches nobody.
    let allow = option(&first, OptionEffect::AllowOnce);
    let deny = option(&first, OptionEffect::Deny);
    device.accepted(&device.choose(&first, &allow));
    device.completed(thread, 1);
    let again = device.refused(&device.choose(&first, &deny));
    assert!(
        matches!(again, Refusal::AlreadyAnswered { by: Some(_), .. }),
        "{again:?}"
    );
    assert_eq!(world.text_of("first.txt").as_deref(), Some("first\n"));

    // After a restart: the agent that asked is gone, and so is its request.
    let lost = asked_again(
        &world,
        &device,
        thread,
        "second",
        "echo second >> second.txt",
    );
    let agents = world.host.agents();
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
    let nobody = RequestId::from_bytes([9; 16]);
    let refused = device.refused(&device.answer_with(thread, nobody, lost.content_hash, &allow));
    assert_eq!(refused, Refusal::UnknownRequest { request: nobody });
    assert_eq!(world.text_of("second.txt"), None);

    // The conversation is taken up by a new process: its history is not told again.
    let before = device.whole(thread).len();
    let heard = world.model.mark("first").requests;
    world.model.script("resumed", &says("I am back."));
    device.accepted(&device.say(thread, "and now? [[script:resumed]] [[id:resumed]]"));
    device.completed(thread, 3);
    // A message and its answer. Where copilot had written its tool down before it was killed, it says besides that the tool
    // was interrupted, and warns of it.
    let rows = device.whole(thread);
    let new = &rows[before..];
    assert!((2..=4).contains(&new.len()), "{rows:#?}");
    let told_again = |row: &TimelineRow| {
        rows[..before]
            .iter()
            .any(|old| old.text == row.text && !row.text.text.is_empty())
    };
    assert!(!new.iter().any(told_again), "{rows:#?}");
    assert!(new[0].text.text.starts_with("and now?"), "{new:#?}");
    assert_eq!(new[new.len() - 1].text.text, "I am back.", "{new:#?}");
    let mark = world.model.mark("first");
    assert!(
        mark.requests > heard,
        "the conversation was resumed, {heard} had it before: {mark:?}"
    );
    assert_eq!(mark.most_in_one_request, 1);
    device.same_as(&world.host, thread);
    world.host.verify();
}

/// The same with hermes (`PILOTHOUSE_HERMES` names its `hermes-acp`): its requests have ids of their own, and its edits are
/// never ended.
#[test]
#[ignore = "needs hermes-agent[acp] 0.19.0, 229 MB from PyPI; PILOTHOUSE_HERMES names its hermes-acp"]
fn hermes_asks_for_a_dangerous_command_and_goes_on_after_a_kill() {
    let hermes = std::env::var("PILOTHOUSE_HERMES").expect("PILOTHOUSE_HERMES names hermes-acp");
    let start = format!(
        "mkdir -p \"$HERMES_HOME\" && printf 'model:\\n  default: scripted\\n  provider: custom\\n  base_url: %s\\n  api_key: local\\napprovals:\\n  mode: manual\\n' \"$OPENAI_BASE_URL\" >\"$HERMES_HOME/config.yaml\" && exec '{hermes}'"
    );
    let env = [
        ("HOME", "{home}"),
        ("HERMES_HOME", "{home}/hermes"),
        ("OPENAI_API_KEY", "local"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:{port}/v1"),
    ];
    let mut world = Setup::new()
        .acp("hermes", &["sh", "-c", &start], &env)
        .start();
    std::fs::create_dir(world.file("gone")).expect("a directory");
    let device = world.device("phone");
    let command = format!("rm -rf {}", world.file("gone").display());
    let script = json!([
        {"text": "I will run it.", "tools": [{"name": "terminal", "args": {"command": command}}]},
        {"text": "After it."},
    ]);
    world.model.script("danger", &script);
    let thread = device.new_thread("hermes", Mode::Ask);
    device.accepted(&device.say(thread, "go [[script:danger]] [[id:danger]]"));
    let row = device.asked(thread);
    assert_eq!(row.subject.command.as_deref(), Some(command.as_str()));
    assert_eq!(row.subject.options.len(), 5, "{row:#?}");
    device.accepted(&device.choose(&row, "allow_once"));
    device.completed(thread, 1);
    assert!(!world.file("gone").exists());

    world.host.kill_9();
    device.offline();
    world.host.restart();
    device.network_changes();
    device.synchronised();
    let before = device.whole(thread).len();
    let heard = world.model.mark("danger").requests;
    world.model.script("resumed", &says("I am back."));
    device.accepted(&device.say(thread, "and now? [[script:resumed]]"));
    device.completed(thread, 2);
    assert_eq!(device.whole(thread).len(), before + 2);
    let mark = world.model.mark("danger");
    assert!(mark.requests > heard, "it was resumed: {mark:?}");
    world.host.verify();
}
