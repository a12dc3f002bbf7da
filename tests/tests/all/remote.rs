//! A far host's codex, driven by a ledger here as an agent like any other.

use crate::stories::{runs, says};
use pilothouse_domain::{
    Answer, CommandBody, DispatchMode, ItemContent, Mode, OptionId, Row, RunId, RunStatus,
    RuntimeRequest, Subject, ThreadId, ThreadState,
};
use pilothouse_tests::{Here, World};
use serde_json::json;

fn ended(here: &Here, thread: ThreadId, run: RunId) -> RunStatus {
    here.wait("the run's end", thread, |state: &ThreadState, _| {
        let last = state.last_run.filter(|last| last.id == run)?;
        Some(last.status)
    })
}

fn asked(here: &Here, thread: ThreadId) -> RuntimeRequest {
    here.wait("a request", thread, |_, rows| {
        rows.iter().find_map(|row| match row {
            Row::Request(request) if request.status.is_open() => Some((**request).clone()),
            _ => None,
        })
    })
}

fn answer(here: &Here, thread: ThreadId, request: &RuntimeRequest, option: &str) {
    here.accepted(
        thread,
        CommandBody::RequestAnswer {
            request: request.id,
            content_hash: request.content_hash,
            answer: Answer::Choose {
                option: OptionId::from(option),
                note: None,
            },
        },
    );
}

/// What a person and the agent said, in order, and what was run.
fn told(here: &Here, thread: ThreadId) -> Vec<String> {
    let (_, rows) = here.read(thread);
    let mut items: Vec<_> = rows
        .into_iter()
        .filter_map(|row| match row {
            Row::Item(item) => Some(item),
            _ => None,
        })
        .collect();
    items.sort_by_key(|item| item.position);
    items
        .into_iter()
        .filter_map(|item| match item.content {
            ItemContent::UserMessage { text, .. } => Some(format!("> {}", text.preview())),
            ItemContent::AssistantMessage { text } => Some(text.preview().to_owned()),
            ItemContent::Command {
                command, exit_code, ..
            } => Some(format!("$ {command} = {exit_code:?}")),
            _ => None,
        })
        .collect()
}

fn start(here: &Here, thread: ThreadId, text: &str) -> RunId {
    here.say(thread, text, DispatchMode::StartImmediately)
}

#[test]
fn a_far_codex_asks_is_answered_and_runs_the_command_once() {
    let world = World::start();
    let here = Here::start(&world.dir().join("here"), &world.host);
    world.model.script("far", &runs("echo far >> far.txt"));
    let thread = here.new_thread(Mode::Ask);
    let run = start(&here, thread, "go [[script:far]] [[id:far]]");
    let request = asked(&here, thread);
    let subject: Subject = serde_json::from_str(&request.subject).unwrap();
    assert!(subject.command.unwrap().contains("echo far >> far.txt"));
    assert_eq!(world.text_of("far.txt"), None);
    answer(&here, thread, &request, "accept");
    assert_eq!(ended(&here, thread, run), RunStatus::Completed);
    assert_eq!(world.text_of("far.txt").as_deref(), Some("far\n"));
    let said = told(&here, thread);
    assert_eq!(said[0], "> go [[script:far]] [[id:far]]", "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("After it."));
    let commands = said.iter().filter(|line| line.starts_with('$')).count();
    assert_eq!(commands, 1, "{said:?}");
    // What it can do is what codex can do there, and the version is codex'.
    let (state, rows) = here.read(thread);
    let session = state.session.unwrap();
    assert!(rows.iter().any(
        |row| matches!(row, Row::Session(row) if row.id == session.id && row.version.is_some())
    ));
    let mark = world.model.mark("far");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));
    world.host.verify();
}

#[test]
fn a_far_turn_is_steered_and_another_is_stopped() {
    let world = World::start();
    let here = Here::start(&world.dir().join("here"), &world.host);
    world.model.script(
        "long",
        &json!([{"text": "one two three", "hold_after_text": "go-on"}, {"text": "I heard you."}]),
    );
    let thread = here.new_thread(Mode::Ask);
    let run = start(&here, thread, "count [[script:long]]");
    world.model.reached("long", 1);
    here.running(thread, run);
    here.say(thread, "faster please", DispatchMode::SteerActive { run });
    here.wait("the steering", thread, |_, rows| {
        let heard = rows.iter().any(|row| {
            matches!(row, Row::Message(message)
                if message.text.preview() == "faster please"
                    && message.delivery == pilothouse_domain::thread::Delivery::Started)
        });
        heard.then_some(())
    });
    world.model.release("go-on");
    assert_eq!(ended(&here, thread, run), RunStatus::Completed);
    assert!(
        world
            .model
            .prompts()
            .iter()
            .any(|prompt| prompt.contains("faster please")),
        "{:?}",
        world.model.prompts()
    );

    world.model.script(
        "stopped",
        &json!([{"text": "one two three", "hold_after_text": "never"}]),
    );
    let run = start(&here, thread, "again [[script:stopped]]");
    world.model.reached("stopped", 1);
    let attempt = here.running(thread, run);
    here.accepted(
        thread,
        CommandBody::RunInterrupt {
            run,
            attempt,
            hold_queue: true,
        },
    );
    assert_eq!(ended(&here, thread, run), RunStatus::Interrupted);
    // And it goes on.
    world.model.script("next", &says("Here I am."));
    let run = start(&here, thread, "still there? [[script:next]]");
    assert_eq!(ended(&here, thread, run), RunStatus::Completed);
    assert_eq!(
        told(&here, thread).last().map(String::as_str),
        Some("Here I am.")
    );
    world.host.verify();
}
