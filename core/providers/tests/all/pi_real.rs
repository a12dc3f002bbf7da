//! The real pi: turns, tools, permissions, steering, stopping, resuming, failures.

use crate::pi_world::{PiWorld, bash, selection};
use crate::support::say;
use pilothouse_domain::{
    ItemContent, ItemStatus, Mode, NativeId, OptionId, ProviderEventKind,
    provider::TurnStatus,
    request::{OptionEffect, RequestKind},
    run::ErrorCode,
};
use pilothouse_providers::contract::{
    ForkThread, InterruptError, OpenError, OpenThread, SendError, Steer, SteerError,
};
use serde_json::json;

/// All text of the model's words and thoughts that was closed so far, in order, with its status.
fn closed_items(world: &PiWorld) -> Vec<(ItemStatus, ItemContent)> {
    world
        .seen
        .iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::ItemClosed {
                status, content, ..
            } => Some((*status, content.clone())),
            _ => None,
        })
        .collect()
}

fn words(world: &PiWorld) -> Vec<String> {
    closed_items(world)
        .into_iter()
        .filter_map(|(_, content)| match content {
            ItemContent::AssistantMessage { text } => Some(text.preview().to_owned()),
            _ => None,
        })
        .collect()
}

/// Waits until the model's words begin to come.
async fn first_words(world: &mut PiWorld) {
    world
        .until("the first words", |event| {
            matches!(&event.kind, ProviderEventKind::ItemAppended { .. }).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_turn_thinks_speaks_asks_for_a_command_runs_it_and_ends() {
    let mut world = PiWorld::start(json!({"s": [
        {"think": "Let me think.", "text": "I will write.",
         "tools": [{"name": "bash", "args": {"command": "echo hi > out.txt; echo shown; exit 3"}}]},
        {"text": "All done."},
    ]}))
    .await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "go [[script:s]]").await;
    let asked = world.request().await;
    assert_eq!(asked.kind, RequestKind::Command);
    assert_eq!(
        asked.subject.command.as_deref(),
        Some("echo hi > out.txt; echo shown; exit 3")
    );
    assert_eq!(
        asked.subject.cwd.as_deref().map(std::path::Path::new),
        Some(&*world.workspace())
    );
    assert!(!asked.unknown_fields && !asked.subject.incomplete);
    assert!(!world.has("out.txt"), "nothing runs before it is allowed");
    world.choose(&asked, "allow", None).await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert!(world.has("out.txt"));
    assert!(
        world
            .seen
            .iter()
            .all(|event| event.place.turn.as_ref().is_none_or(|named| *named == turn))
    );
    let items = closed_items(&world);
    let mut thoughts = items.iter().filter(|(_, item)| matches!(item, ItemContent::Reasoning { text } if text.preview() == "Let me think."));
    assert!(thoughts.next().is_some(), "{items:#?}");
    assert_eq!(words(&world), ["I will write.", "All done."]);
    let command = items.iter().find_map(|(status, item)| match item {
        ItemContent::Command {
            output, exit_code, ..
        } => Some((*status, output.preview().to_owned(), *exit_code)),
        _ => None,
    });
    let (status, output, _) = command.expect("the command is an item");
    assert_eq!(status, ItemStatus::Failed);
    assert!(output.contains("shown"), "{output}");
    let usage = world.seen.iter().rev().find_map(|event| match &event.kind {
        ProviderEventKind::Usage { usage } => Some(*usage),
        _ => None,
    });
    let usage = usage.expect("tokens are counted");
    assert!(
        usage.input >= 200 && usage.context_window == Some(128_000),
        "{usage:?}"
    );
}

/// Case 11: for every variant of a decision the tool ends.
#[tokio::test]
async fn case_11_every_way_to_answer_lets_the_tool_end() {
    let mut world = PiWorld::start(json!({
        "once": [bash("touch once.txt"), say("after")],
        "session": [bash("echo x >> session.txt"), bash("echo x >> session.txt"), say("after")],
        "deny": [bash("touch denied.txt"), say("after")],
        "reason": [bash("touch reasoned.txt"), say("after")],
        "stop": [bash("touch stopped.txt"), say("never")],
    }))
    .await;
    let thread = world.open(None).await;
    for (script, option, note, ends) in [
        ("once", "allow", None, TurnStatus::Completed),
        ("session", "allow_session", None, TurnStatus::Completed),
        ("deny", "deny", None, TurnStatus::Completed),
        (
            "reason",
            "deny",
            Some("use the other directory"),
            TurnStatus::Completed,
        ),
        ("stop", "deny_stop", None, TurnStatus::Interrupted),
    ] {
        world
            .send(&thread, &format!("go [[script:{script}]]"))
            .await;
        let asked = world.request().await;
        let known = asked
            .subject
            .options
            .iter()
            .find(|one| one.id == OptionId::from(option));
        assert!(known.is_some(), "{script}");
        world.choose(&asked, option, note).await;
        assert_eq!(world.turn_end().await.0, ends, "{script}");
    }
    assert!(world.has("once.txt"));
    let twice = std::fs::read_to_string(world.workspace().join("session.txt")).unwrap();
    assert_eq!(twice, "x\nx\n", "the second time was not asked for");
    for file in ["denied.txt", "reasoned.txt", "stopped.txt"] {
        assert!(!world.has(file), "{file}");
    }
    assert!(
        world.model_read("use the other directory"),
        "the model hears the words"
    );
    let declined = closed_items(&world)
        .into_iter()
        .filter(|(status, _)| *status == ItemStatus::Declined);
    assert_eq!(declined.count(), 3);
}

#[tokio::test]
async fn a_change_of_a_file_is_asked_for_with_what_it_changes() {
    let mut world = PiWorld::start(json!({"s": [
        {"tools": [{"name": "write", "args": {"path": "a.txt", "content": "one\n"}}]},
        {"tools": [{"name": "edit", "args": {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]}}]},
        {"text": "done"},
    ]}))
    .await;
    let thread = world.open(None).await;
    world.send(&thread, "go [[script:s]]").await;
    let write = world.request().await;
    assert_eq!(write.kind, RequestKind::FileChange);
    assert_eq!(write.subject.changes[0].path, "a.txt");
    assert!(write.subject.changes[0].diff.preview().contains("one"));
    world.choose(&write, "allow", None).await;
    let edit = world.request().await;
    let diff = edit.subject.changes[0].diff.preview().to_owned();
    assert!(diff.contains("-one") && diff.contains("+two"), "{diff}");
    let effects: Vec<_> = edit
        .subject
        .options
        .iter()
        .map(|option| option.effect)
        .collect();
    assert_eq!(
        effects,
        [
            OptionEffect::AllowOnce,
            OptionEffect::AllowSession,
            OptionEffect::Deny,
            OptionEffect::DenyAndStop
        ]
    );
    world.choose(&edit, "allow", None).await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let text = std::fs::read_to_string(world.workspace().join("a.txt")).unwrap();
    assert_eq!(text, "two\n");
}

#[tokio::test]
async fn a_mode_says_what_is_asked_and_no_message_can_change_it() {
    let mut world = PiWorld::start(json!({
        "look": [bash("touch looked.txt"), say("after")],
        "edit": [
            {"tools": [{"name": "write", "args": {"path": "inside.txt", "content": "x"}}]},
            {"tools": [{"name": "write", "args": {"path": "../outside.txt", "content": "x"}}]},
            {"text": "after"}],
        "full": [bash("touch full.txt"), say("after")],
    }))
    .await;
    world.mode = Mode::ReadOnly;
    let thread = world.open(None).await;
    world.send(&thread, "go [[script:look]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(!world.has("looked.txt"));
    world.mode = Mode::AutoEdit;
    world.send(&thread, "go [[script:edit]]").await;
    let asked = world.request().await;
    assert!(
        world.has("inside.txt"),
        "a change in the workspace is not asked for"
    );
    assert_eq!(asked.subject.changes[0].path, "../outside.txt");
    world.choose(&asked, "deny", None).await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(!world.has("../outside.txt"));
    world.mode = Mode::FullAccess;
    world.send(&thread, "go [[script:full]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(world.has("full.txt"));
    world.mode = Mode::Ask;
    let refused = world
        .runtime
        .send_turn(world.message(&thread, " /pilothouse-gate full_access"))
        .await;
    assert!(
        matches!(refused, Err(SendError::Refused { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn words_are_put_into_the_turn_that_goes_on_and_into_no_other() {
    let mut world = PiWorld::start(json!({"s": [
        {"text": "word ", "hold_after_text": "more", "tools": [{"name": "read", "args": {"path": "none"}}]},
        {"text": "second"},
    ]}))
    .await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "go [[script:s]]").await;
    first_words(&mut world).await;
    let busy = world
        .runtime
        .send_turn(world.message(&thread, "again"))
        .await;
    assert_eq!(busy, Err(SendError::Busy));
    let steer = |turn: &NativeId| Steer {
        thread: thread.clone(),
        turn: turn.clone(),
        client_id: "steer".to_owned(),
        text: "and say hello".to_owned(),
    };
    let steering = world.runtime.steering().expect("pi can be steered");
    let other = steering.steer(steer(&"another".into())).await;
    assert_eq!(other, Err(SteerError::TurnEnded));
    steering.steer(steer(&turn)).await.expect("it is taken");
    world.model.release("more");
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let heard = world.seen.iter().any(|event| {
        event.place.turn.as_ref() == Some(&turn)
            && matches!(&event.kind, ProviderEventKind::ItemClosed { client_id: Some(id), .. } if id == "steer")
    });
    assert!(heard, "{:#?}", world.seen);
    let late = world.runtime.steering().unwrap().steer(steer(&turn)).await;
    assert_eq!(late, Err(SteerError::TurnEnded));
}

#[tokio::test]
async fn a_turn_is_stopped_while_it_speaks_and_the_next_one_is_not() {
    let mut world =
        PiWorld::start(json!({"s": [{"text": "word ", "hold_after_text": "never"}]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "go [[script:s]]").await;
    first_words(&mut world).await;
    let interrupting = world.runtime.interrupting().unwrap();
    interrupting
        .interrupt(thread.clone(), turn.clone())
        .await
        .expect("it is taken");
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    world.send(&thread, "go [[script:plain]]").await;
    // Case 32: the end of an older turn stops no newer one.
    let stale = world
        .runtime
        .interrupting()
        .unwrap()
        .interrupt(thread.clone(), turn)
        .await;
    assert_eq!(stale, Err(InterruptError::TurnEnded));
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}

/// Case 34: a tool that does not end by itself is ended by the interrupt, at once.
#[tokio::test]
async fn case_34_a_turn_is_stopped_while_a_command_runs() {
    let mut world = PiWorld::start(
        json!({"s": [bash("echo begun; sleep 600; touch never.txt"), say("never")]}),
    )
    .await;
    world.mode = Mode::FullAccess;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "go [[script:s]]").await;
    world
        .until("output", |event| match &event.kind {
            ProviderEventKind::ItemAppended { text, .. } if text.contains("begun") => Some(()),
            _ => None,
        })
        .await;
    let interrupting = world.runtime.interrupting().unwrap();
    interrupting
        .interrupt(thread, turn)
        .await
        .expect("it is taken");
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    let items = closed_items(&world);
    assert!(items.iter().any(|(status, item)| {
        *status == ItemStatus::Interrupted && matches!(item, ItemContent::Command { .. })
    }));
    assert!(!world.has("never.txt"));
}

/// Case 35: a turn that waits for a person can be stopped, and what it asked is taken back, not refused.
#[tokio::test]
async fn case_35_a_turn_is_stopped_while_it_asks() {
    let mut world = PiWorld::start(json!({"s": [bash("touch never.txt"), say("never")]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "go [[script:s]]").await;
    let asked = world.request().await;
    let interrupting = world.runtime.interrupting().unwrap();
    interrupting
        .interrupt(thread, turn)
        .await
        .expect("it is taken");
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    assert!(!world.has("never.txt"));
    let closed = world.seen.iter().any(|event| matches!(
        &event.kind,
        ProviderEventKind::RequestClosed { request, resolution: pilothouse_domain::provider_event::Resolution::Withdrawn } if *request == asked.request
    ));
    assert!(closed, "{:#?}", world.seen);
    let late = world
        .runtime
        .respond(asked.response(pilothouse_domain::Answer::Choose {
            option: "allow".into(),
            note: None,
        }))
        .await;
    assert!(late.is_err());
}

#[tokio::test]
async fn a_session_is_taken_up_again_after_the_process_was_killed_while_it_spoke() {
    let mut world = PiWorld::start(json!({"s": [{"text": "half ", "hold_after_text": "never"}], "first": [{"text": "first answer"}]})).await;
    let thread = world.open(None).await;
    let first = world.send(&thread, "begin [[script:first]]").await;
    world.turn_end().await;
    world.send(&thread, "go [[script:s]]").await;
    first_words(&mut world).await;
    world
        .runtime
        .signal(pilothouse_providers::contract::Escalation::Kill)
        .unwrap();
    // Case 32: the end of the process is the end of the session.
    let end = world
        .until("the end", |event| match &event.kind {
            ProviderEventKind::SessionEnded { reason, .. } => Some(*reason),
            _ => None,
        })
        .await;
    assert_eq!(end, pilothouse_domain::request::LostReason::AgentExited);
    let heard = world.seen.clone();
    let mut world = world.restart().await;
    assert_eq!(world.open(Some(thread.clone())).await, thread);
    let history = world.runtime.history().expect("pi can be read back");
    let past = history.read(thread.clone(), 10).await.unwrap();
    let of_first: Vec<_> = past
        .iter()
        .filter(|event| event.place.turn.as_ref() == Some(&first))
        .filter(|event| matches!(event.kind, ProviderEventKind::ItemClosed { .. }))
        .collect();
    assert_eq!(of_first.len(), 2, "{past:#?}");
    // The words of the model are known under the same ids with the same content: nothing changes by reading them.
    assert!(
        heard.iter().any(|event| event == of_first[1]),
        "{of_first:#?} in {heard:#?}"
    );
    world.send(&thread, "go [[script:plain]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}

#[tokio::test]
async fn a_session_that_is_not_there_is_not_made_anew() {
    let world = PiWorld::start(json!({})).await;
    let lost: NativeId = "/nowhere/session.jsonl".into();
    let opened = world
        .runtime
        .open_thread(OpenThread {
            resume: Some(lost.clone()),
            cwd: world.workspace(),
            selection: selection(Mode::Ask),
        })
        .await;
    assert_eq!(opened, Err(OpenError::NotFound { thread: lost }));
}

/// Case 30: a failure of the model ends the turn, and the next message is taken.
#[tokio::test]
async fn case_30_a_model_that_fails_is_asked_again_and_ends_the_turn() {
    let error = |status: u16, times: u32| json!({"error": {"status": status, "type": "authentication_error", "times": times}, "text": "ok now"});
    let mut world =
        PiWorld::start(json!({"once": [error(500, 1)], "ever": [error(401, 99)]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "go [[script:once]]").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    let tried = world.seen.iter().any(|event| matches!(&event.kind, ProviderEventKind::Error { will_retry: true, error } if error.code == ErrorCode::ModelService));
    assert!(tried, "{:#?}", world.seen);
    world.send(&thread, "go [[script:ever]]").await;
    let (status, error) = world.turn_end().await;
    assert_eq!(
        (status, error.map(|error| error.code)),
        (TurnStatus::Failed, Some(ErrorCode::SignIn))
    );
    world.send(&thread, "go [[script:plain]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}

#[tokio::test]
async fn a_session_is_copied_whole_or_up_to_a_turn_and_the_source_stays() {
    let mut world = PiWorld::start(json!({"one": [say("one")], "two": [say("two")]})).await;
    let source = world.open(None).await;
    let first = world.send(&source, "go [[script:one]]").await;
    world.turn_end().await;
    world.send(&source, "go [[script:two]]").await;
    world.turn_end().await;
    let before = std::fs::read_to_string(source.as_str()).unwrap();
    for (through, whole, turns) in [(None, true, 2), (Some(first), false, 1)] {
        let fork = ForkThread {
            source: source.clone(),
            through,
            whole,
            cwd: world.workspace(),
            selection: selection(Mode::Ask),
        };
        let copy = world
            .runtime
            .forking()
            .unwrap()
            .fork(fork)
            .await
            .expect("it is copied");
        assert_ne!(copy, source);
        let past = world
            .runtime
            .history()
            .unwrap()
            .read(copy.clone(), 10)
            .await
            .unwrap();
        let ids: std::collections::BTreeSet<_> = past
            .iter()
            .filter_map(|event| event.place.turn.clone())
            .collect();
        assert_eq!(ids.len(), turns, "{past:#?}");
        world.send(&copy, "go [[script:plain]]").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    }
    let after = std::fs::read_to_string(source.as_str()).unwrap();
    assert!(
        after.starts_with(&before),
        "the source still holds what it held"
    );
}

#[tokio::test]
async fn model_and_effort_are_chosen_by_name_and_what_is_not_there_is_refused() {
    let mut world = PiWorld::start(json!({})).await;
    let thread = world.open(None).await;
    let mut message = world.message(&thread, "go [[script:plain]]");
    assert!(!world.model_read("\"effort\":\"high\""));
    message.selection.effort = Some("high".to_owned());
    world
        .runtime
        .send_turn(message.clone())
        .await
        .expect("it is taken");
    world.turn_end().await;
    assert!(world.model_read("\"effort\":\"high\""));
    message.selection.effort = Some("extreme".to_owned());
    let refused = world.runtime.send_turn(message.clone()).await;
    assert!(
        matches!(&refused, Err(SendError::Refused { error }) if error.message.contains("medium")),
        "{refused:?}"
    );
    message.selection.effort = None;
    message.selection.model = Some("local/other".to_owned());
    world
        .runtime
        .send_turn(message.clone())
        .await
        .expect("it is taken");
    world.turn_end().await;
    assert!(world.model_read("\"model\":\"other\""));
    message.selection.model = Some("nothing".to_owned());
    let refused = world.runtime.send_turn(message).await;
    assert!(
        matches!(&refused, Err(SendError::Refused { error }) if error.message.contains("local/scripted")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_context_that_is_too_small_to_be_shortened_is_said_so() {
    let mut world = PiWorld::start(json!({})).await;
    let thread = world.open(None).await;
    world.send(&thread, "go [[script:plain]]").await;
    world.turn_end().await;
    let done = world
        .runtime
        .compacting()
        .unwrap()
        .compact(thread.clone())
        .await;
    let Err(SendError::Refused { error }) = done else {
        panic!("{done:?}")
    };
    assert!(
        error.message.contains("session too small"),
        "by pi's own words: {}",
        error.message
    );
    world.send(&thread, "go [[script:plain]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}
