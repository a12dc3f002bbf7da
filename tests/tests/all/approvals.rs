//! One approval, end to end: codex asks, the device shows exactly what is asked, the answer reaches codex.

use crate::stories::{asked_to_run, conversation, patches, runs};
use pilothouse_domain::{
    Mode, RequestStatus, RunStatus,
    request::{AnswerDelivery, OptionEffect, RequestKind},
};
use pilothouse_engine::RowContent;
use pilothouse_tests::{Cli, World, cli::Said, until};
use serde_json::{Value, json};

#[test]
fn an_allowed_command_runs_once_and_only_after_the_answer() {
    let world = World::start();
    let device = world.device("phone");
    let (thread, row) = asked_to_run(&world, &device, "allow", "echo allowed >> allow.txt");

    assert_eq!(row.kind, RequestKind::Command);
    assert!(row.verified, "{row:#?}");
    let command = row.subject.command.as_deref().unwrap();
    assert_eq!(
        command, "/bin/bash -lc 'echo allowed >> allow.txt'",
        "exactly what would run"
    );
    assert_eq!(
        row.subject.cwd.as_deref(),
        world.workspace.to_str(),
        "exactly where"
    );
    assert!(row.shown.contains(command), "{}", row.shown);
    assert_eq!(
        world.text_of("allow.txt"),
        None,
        "nothing ran before the answer"
    );

    let answered = device.choose(&row, "accept");
    device.accepted(&answered);
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
    device.nothing_waits();
    assert_eq!(world.model.mark("allow").first_steps, 1);
    world.host.verify();
}

#[test]
fn a_denied_command_does_not_run_and_the_turn_goes_on() {
    let world = World::start();
    let device = world.device("phone");
    let (thread, row) = asked_to_run(&world, &device, "deny", "echo denied >> deny.txt");
    let answered = device.choose(&row, "decline");
    device.accepted(&answered);
    device.completed(thread, 1);
    assert_eq!(world.text_of("deny.txt"), None);
    assert_eq!(
        conversation(&device, thread).last().map(String::as_str),
        Some("After it.")
    );
    assert_eq!(world.model.steps("deny", 1), 1, "the model was told");
    world.host.verify();
}

#[test]
fn a_file_change_shows_its_diff_and_allowed_for_the_session_is_applied() {
    let world = World::start();
    let device = world.device("phone");
    world.model.script("patch", &patches(&["one.txt"]));
    let thread = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(thread, "go [[script:patch]]"));
    let row = device.asked(thread);
    assert_eq!(row.kind, RequestKind::FileChange, "{row:#?}");
    let change = &row.subject.changes[0];
    assert!(change.path.ends_with("one.txt"), "{row:#?}");
    assert!(change.diff.text.contains("patched"), "{row:#?}");
    let session = row
        .subject
        .options
        .iter()
        .find(|option| option.effect == OptionEffect::AllowSession);
    let option = session
        .unwrap_or_else(|| panic!("offered for the session: {row:#?}"))
        .id
        .clone();
    assert_eq!(world.text_of("one.txt"), None);

    device.accepted(&device.choose(&row, option.as_str()));
    device.completed(thread, 1);
    assert_eq!(world.text_of("one.txt").as_deref(), Some("patched\n"));
    let changed = |content: &RowContent| matches!(content, RowContent::FileChange { .. });
    assert!(
        device
            .timeline(thread)
            .rows
            .iter()
            .any(|row| changed(&row.content))
    );
    world.host.verify();
}

#[test]
fn interrupted_while_it_asks_the_run_ends_and_the_question_with_it() {
    let world = World::start();
    let device = world.device("phone");
    let (thread, row) = asked_to_run(&world, &device, "stop", "echo stopped >> stop.txt");
    device.accepted(&device.interrupt(thread));
    let run = device.ended(thread, 1);
    assert_eq!(run.status, RunStatus::Interrupted);
    device.nothing_waits();
    device.status(thread, row.request, |status| {
        (*status == RequestStatus::Withdrawn).then_some(())
    });
    assert_eq!(world.text_of("stop.txt"), None);

    world.model.script("next", &runs("echo next >> next.txt"));
    device.accepted(&device.say(thread, "again [[script:next]]"));
    let row = device.asked(thread);
    device.accepted(&device.choose(&row, "accept"));
    device.completed(thread, 2);
    assert_eq!(world.text_of("next.txt").as_deref(), Some("next\n"));
    world.host.verify();
}

/// A thread of a paired terminal that was sent a scripted message, and what its inbox then shows.
fn asked_at_a_terminal(world: &World, script: &str, steps: &Value) -> (Cli, String, Value) {
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    world.model.script(script, steps);
    let title = "From a terminal";
    let said = cli.run(
        &world.host,
        &["new", "--agent", "codex", "--workspace", "demo", title],
    );
    assert_eq!(said.code, 0, "{said:#?}");
    let thread = said.only("created")["thread"].as_str().unwrap().to_owned();
    let prompt = format!("go [[script:{script}]] [[id:{script}]]");
    let said = cli.run(&world.host, &["send", &thread, &prompt]);
    assert_eq!(said.code, 0, "{said:#?}");

    let said = cli.run(&world.host, &["inbox", "--wait", "--timeout", "60"]);
    assert_eq!(said.code, 0, "{said:#?}");
    let asked = said.only("request").clone();
    assert_eq!(asked["state"], "pending");
    assert_eq!(asked["thread"], thread.as_str());
    (cli, thread, asked)
}

/// The items of a kind that `watch` told.
fn items<'a>(said: &'a Said, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    said.of_type("item")
        .filter(move |line| line["content"]["kind"] == kind)
}

#[test]
fn the_terminal_client_tells_and_answers_the_whole_story() {
    let world = World::start();
    let (cli, thread, asked) =
        asked_at_a_terminal(&world, "cli", &runs("echo terminal >> cli.txt"));
    assert_eq!(
        asked["subject"]["command"],
        "/bin/bash -lc 'echo terminal >> cli.txt'"
    );
    assert_eq!(world.text_of("cli.txt"), None);

    let request = asked["request"].as_str().unwrap();
    let hash = asked["content_hash"].as_str().unwrap();
    let said = cli.run(
        &world.host,
        &[
            "answer",
            request,
            "--allow",
            "--hash",
            hash,
            "--timeout",
            "60",
        ],
    );
    assert_eq!(said.code, 0, "{said:#?}");
    assert_eq!(said.only("answered")["status"], "answered");
    let said = cli.run(
        &world.host,
        &["watch", &thread, "--until-idle", "--timeout", "60"],
    );
    assert_eq!(said.code, 0, "{said:#?}");
    assert_eq!(world.text_of("cli.txt").as_deref(), Some("terminal\n"));

    let said = cli.run(
        &world.host,
        &["answer", request, "--deny", "--timeout", "60"],
    );
    assert_eq!(said.code, 3, "a second answer is refused: {said:#?}");
    let said = cli.run(
        &world.host,
        &["answer", "zzzzzzzz", "--allow", "--timeout", "10"],
    );
    assert_eq!(said.code, 5, "there is no such request: {said:#?}");
    world.host.verify();
}

#[test]
fn denied_from_a_terminal_the_command_does_not_run_and_the_turn_goes_on() {
    let world = World::start();
    let (cli, thread, asked) = asked_at_a_terminal(&world, "deny", &runs("echo no >> deny.txt"));
    let request = asked["request"].as_str().unwrap();
    let said = cli.run(
        &world.host,
        &["answer", request, "--deny", "--timeout", "60"],
    );
    assert_eq!(said.code, 0, "{said:#?}");
    let answered = said.only("answered");
    assert_eq!(answered["status"], "answered");
    assert_eq!(answered["answer"]["option"], "decline");
    assert_eq!(answered["content_hash"], asked["content_hash"]);

    let said = cli.run(
        &world.host,
        &["watch", &thread, "--until-idle", "--timeout", "60"],
    );
    assert_eq!(said.code, 0, "{said:#?}");
    assert_eq!(said.only("idle")["last_run"], "completed");
    let last = items(&said, "assistant_message").last().unwrap();
    assert_eq!(last["text"]["text"], "After it.");
    assert_eq!(world.text_of("deny.txt"), None);
    assert_eq!(world.model.steps("deny", 1), 1, "the model was told");
    let said = cli.run(&world.host, &["inbox"]);
    assert_eq!((said.code, said.of_type("request").count()), (0, 0));
    world.host.verify();
}

#[test]
fn at_a_terminal_a_file_change_shows_its_diff_and_allowed_for_the_session_is_not_asked_again() {
    let world = World::start();
    let patch = |change: &str| {
        let input = format!("*** Begin Patch\n{change}\n*** End Patch\n");
        json!({"tools": [{"custom": true, "name": "apply_patch", "input": input}]})
    };
    let steps = json!([
        patch("*** Add File: one.txt\n+patched"),
        patch("*** Update File: one.txt\n@@\n-patched\n+patched again"),
        {"text": "After both."},
    ]);
    let (cli, thread, asked) = asked_at_a_terminal(&world, "patch", &steps);
    assert_eq!(asked["kind"], "file_change", "{asked:#}");
    let change = &asked["subject"]["changes"][0];
    let path = change["path"].as_str().unwrap();
    assert!(path.ends_with("/one.txt"), "{asked:#}");
    assert_eq!(change["diff"], "patched\n");
    let shows_it = |text: &str| text.contains(path) && text.contains("\n  │ patched\n");
    let (code, shown) = cli.read(&world.host, &["inbox"]);
    assert_eq!(code, 0, "{shown}");
    assert!(shows_it(&shown), "{shown}");
    assert!(shown.contains("--allow-session"), "offered: {shown}");
    assert_eq!(world.text_of("one.txt"), None);

    let request = asked["request"].as_str().unwrap();
    let (code, shown) = cli.read(
        &world.host,
        &["answer", request, "--allow-session", "--timeout", "60"],
    );
    assert_eq!(code, 0, "{shown}");
    assert!(shows_it(&shown), "what was answered: {shown}");
    let said = cli.run(
        &world.host,
        &["watch", &thread, "--until-idle", "--timeout", "60"],
    );
    assert_eq!(said.code, 0, "{said:#?}");
    assert_eq!(said.only("idle")["last_run"], "completed");
    let asked = items(&said, "approval").filter(|line| line["op"] == "insert");
    assert_eq!(asked.count(), 1, "the second change is allowed: {said:#?}");
    let text = world.text_of("one.txt");
    assert_eq!(text.as_deref(), Some("patched again\n"));
    world.host.verify();
}

#[test]
fn interrupted_from_a_terminal_while_it_asks_nothing_waits_or_runs_any_more() {
    let world = World::start();
    let (cli, thread, asked) = asked_at_a_terminal(&world, "stop", &runs("echo no >> stop.txt"));
    let said = cli.run(&world.host, &["interrupt", &thread, "--timeout", "60"]);
    assert_eq!(said.code, 0, "{said:#?}");
    assert_eq!(said.only("interrupted")["run_status"], "interrupted");

    let said = cli.run(&world.host, &["inbox"]);
    assert_eq!((said.code, said.of_type("request").count()), (0, 0));
    let request = asked["request"].as_str().unwrap();
    let said = cli.run(
        &world.host,
        &["answer", request, "--allow", "--timeout", "60"],
    );
    assert_eq!(said.code, 3, "too late: {said:#?}");
    let error = said.only("error")["message"].as_str().unwrap();
    assert!(error.contains("withdrawn"), "{error}");
    let said = cli.run(
        &world.host,
        &["watch", &thread, "--until-idle", "--timeout", "60"],
    );
    assert_eq!(said.code, 0, "{said:#?}");
    assert_eq!(said.only("idle")["last_run"], "interrupted");
    assert_eq!(world.text_of("stop.txt"), None);
    let said = cli.run(&world.host, &["interrupt", &thread]);
    assert_eq!(said.code, 5, "nothing is left to stop: {said:#?}");
    world.host.verify();
}

#[test]
fn requests_of_two_hosts_wait_in_one_inbox_and_an_answer_reaches_only_its_own() {
    let (one, two) = (World::start(), World::start());
    let (cli, _, first) = asked_at_a_terminal(&one, "one", &runs("echo one >> ran.txt"));
    let code = two.host.pairing_code(None);
    let said = cli.run(&two.host, &["join", &code, "--name", "terminal"]);
    assert_eq!(said.code, 0, "{said:#?}");
    let host = said.only("joined")["host"].as_str().unwrap();
    assert_ne!(first["host"], host);

    two.model.script("two", &runs("echo two >> ran.txt"));
    let place = ["--host", host, "--agent", "codex", "--workspace", "demo"];
    let said = cli.run(&two.host, &[&["new"], &place[..], &["Elsewhere"]].concat());
    assert_eq!(said.code, 0, "{said:#?}");
    let thread = said.only("created")["thread"].as_str().unwrap().to_owned();
    let said = cli.run(&two.host, &["send", &thread, "go [[script:two]]"]);
    assert_eq!(said.code, 0, "{said:#?}");
    let rows = until("both hosts' requests", || {
        let said = cli.run(&two.host, &["inbox"]);
        let rows: Vec<Value> = said.of_type("request").cloned().collect();
        if rows.len() == 2 {
            Ok(rows)
        } else {
            Err(format!("{rows:#?}"))
        }
    });
    assert_eq!(
        rows[0]["request"], first["request"],
        "longest waiting first"
    );
    assert_eq!(rows[1]["host"], host);

    let request = rows[1]["request"].as_str().unwrap();
    let said = cli.run(
        &two.host,
        &["answer", request, "--allow", "--timeout", "60"],
    );
    assert_eq!(said.code, 0, "{said:#?}");
    let said = cli.run(
        &two.host,
        &["watch", &thread, "--until-idle", "--timeout", "60"],
    );
    assert_eq!(said.code, 0, "{said:#?}");
    assert_eq!(two.text_of("ran.txt").as_deref(), Some("two\n"));
    assert_eq!(one.text_of("ran.txt"), None);
    let said = cli.run(&two.host, &["inbox"]);
    assert_eq!(said.only("request")["request"], first["request"]);
    one.host.verify();
    two.host.verify();
}
