//! Real Claude Code through the contract: turns, stops, resumption, work beside the turn, models.

use crate::{
    claude_world::{MODEL, World, call, choose, run},
    heard,
    support::say,
};
use pilothouse_domain::{
    ItemContent, ItemStatus, Mode, NativeId, ProviderEventKind, provider::TurnStatus,
    provider_event::Resolution, request::LostReason, run::ErrorCode,
};
use pilothouse_providers::contract::{
    Compaction, Escalation, InterruptError, OpenError, RespondError, SendError,
};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_stopped_while_it_speaks_and_its_words_so_far_stay() {
    let long = json!({"text": "word ".repeat(400), "chunk": 5, "delay": 20});
    let mut world = World::start(json!({"go": [long], "next": [say("Here.")]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    world
        .until("words", |event| {
            matches!(event.kind, ProviderEventKind::ItemAppended { .. }).then_some(())
        })
        .await;
    let interrupting = world.runtime.interrupting().unwrap();
    let other = interrupting
        .interrupt(thread.clone(), "another".into())
        .await;
    assert_eq!(other, Err(InterruptError::TurnEnded));
    interrupting
        .interrupt(thread.clone(), turn.clone())
        .await
        .unwrap();
    assert_eq!(world.turn_end().await, (TurnStatus::Interrupted, None));
    assert!(
        world.ends().iter().any(|(content, status)| *status == ItemStatus::Interrupted
            && matches!(content, ItemContent::AssistantMessage { text } if text.preview().starts_with("word")))
    );
    let again = world.runtime.interrupting().unwrap();
    assert_eq!(
        again.interrupt(thread.clone(), turn).await,
        Err(InterruptError::TurnEnded)
    );
    world.send(&thread, "[[script:next]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_stopped_in_a_tool() {
    // It runs no `sleep` that is long.
    let mut world = World::start(json!({"go": [run("tail -f /dev/null"), say("Never.")]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    world.choose(&asked, "allow").await;
    let interrupting = world.runtime.interrupting().unwrap();
    interrupting.interrupt(thread, turn).await.unwrap();
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    assert_eq!(world.statuses_of_commands(), [ItemStatus::Interrupted]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_35_a_turn_is_stopped_while_it_asks_and_what_it_asked_is_withdrawn() {
    let mut world = World::start(json!({"go": [run("touch made.txt"), say("Never.")]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    let interrupting = world.runtime.interrupting().unwrap();
    interrupting.interrupt(thread, turn).await.unwrap();
    let resolution = world
        .until("its end", |event| match &event.kind {
            ProviderEventKind::RequestClosed { resolution, .. } => Some(*resolution),
            _ => None,
        })
        .await;
    assert_eq!(resolution, Resolution::Withdrawn);
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    let late = world
        .runtime
        .respond(asked.response(choose("allow", "")))
        .await;
    assert_eq!(late, Err(RespondError::NotPending));
    assert!(!world.workspace().join("made.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_while_a_turn_goes_on_is_refused_and_reaches_nobody() {
    let held = json!({"text": "Wait.", "hold_after_text": "gate"});
    let mut world = World::start(json!({"go": [held], "never": [say("No.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let second = world.message(&thread, "[[script:never]]");
    assert_eq!(world.runtime.send_turn(second).await, Err(SendError::Busy));
    world.model.release("gate");
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(!world.told().contains("never"));
    assert!(world.runtime.steering().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_resumed_by_another_process_after_a_kill() {
    let mut world = World::start(json!({
        "first": [say("First.")],
        "go": [run("touch made.txt"), say("Never.")],
        "next": [say("I go on.")],
    }))
    .await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:first]] [[id:before]]").await;
    world.turn_end().await;
    world.send(&thread, "[[script:go]]").await;
    world.request().await;
    // Killed before it has written anything down, it would have no conversation.
    world.written(&thread, "script:first").await;
    world.runtime.signal(Escalation::Kill).unwrap();
    let reason = world
        .until("its end", |event| match &event.kind {
            ProviderEventKind::SessionEnded { reason, .. } => Some(*reason),
            _ => None,
        })
        .await;
    assert_eq!(reason, LostReason::AgentExited);
    world.restart(Some(thread.clone())).await;
    assert_eq!(world.open(Some(thread.clone())).await, thread);
    world.send(&thread, "[[script:next]] [[id:after]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert_eq!(world.said().last().map(String::as_str), Some("I go on."));
    assert_eq!(world.last_marks(), ["after", "before"]);
    assert!(!world.workspace().join("made.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_is_not_there_is_not_found_and_can_be_replaced() {
    let mut world = World::start(json!({"go": [say("New.")]})).await;
    for missing in [
        "8fed0e9e-7458-420d-8435-de291109b930",
        "--dangerously-skip-permissions",
    ] {
        let thread = NativeId::from(missing);
        world.restart(Some(thread.clone())).await;
        let opened = world
            .runtime
            .open_thread(world.opening(Some(thread.clone())))
            .await;
        assert_eq!(opened, Err(OpenError::NotFound { thread }));
    }
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let other = world
        .runtime
        .open_thread(world.opening(Some("8fed0e9e-7458-420d-8435-de291109b931".into())))
        .await;
    assert!(matches!(other, Err(OpenError::Refused { .. })), "{other:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_38_a_subagent_and_one_whose_turn_is_over_ask_for_themselves() {
    for background in [false, true] {
        let mut works = run("touch child.txt");
        if background {
            works["hold"] = json!("over");
        }
        let child = json!([works, say("Child result 42")]);
        let agent = call(
            "Agent",
            json!({"description": "kid", "prompt": "do [[script:child]]", "subagent_type": "general-purpose", "run_in_background": background}),
        );
        let mut world =
            World::start(json!({"go": [agent, say("Parent done.")], "child": child})).await;
        let thread = world.open(None).await;
        let turn = world.send(&thread, "[[script:go]]").await;
        let (child, title, item) = world
            .until("the subagent", |event| match &event.kind {
                ProviderEventKind::ChildOpened { child, title, item } => {
                    Some((child.clone(), title.clone(), item.clone()))
                }
                _ => None,
            })
            .await;
        assert_eq!(title, "kid");
        assert!(item.is_some(), "its item is named");
        if background {
            let ended = world
                .until("the end of the parent's turn", |event| {
                    heard::turn_end(event).map(|(status, _)| (status, event.place.turn.clone()))
                })
                .await;
            assert_eq!(ended, (TurnStatus::Completed, Some(turn.clone())));
            let asks =
                |kind: &ProviderEventKind| matches!(kind, ProviderEventKind::RequestOpened { .. });
            assert!(!world.seen.iter().any(|event| asks(&event.kind)));
            world.model.release("over");
        }
        let place = world
            .until("its request", |event| {
                matches!(event.kind, ProviderEventKind::RequestOpened { .. })
                    .then(|| event.place.clone())
            })
            .await;
        assert_eq!(place.thread, Some(child.clone()));
        assert_eq!(place.root, Some(thread.clone()));
        assert_eq!(place.turn, None);
        assert!(!world.workspace().join("child.txt").exists());
        let asked = world.last_asked();
        world.choose(&asked, "allow").await;
        let status = world
            .until("its end", |event| match &event.kind {
                ProviderEventKind::ChildClosed { child: of, status } if *of == child => {
                    Some(*status)
                }
                _ => None,
            })
            .await;
        assert_eq!(status, TurnStatus::Completed);
        assert!(world.workspace().join("child.txt").exists());
        let ended = world
            .until("the end of a turn", |event| {
                heard::turn_end(event).map(|(status, _)| (status, event.place.turn.clone()))
            })
            .await;
        assert_eq!(ended.0, TurnStatus::Completed);
        // With a turn of its own, for which nobody asked, the agent takes up what it was told in the background.
        assert_eq!(ended.1 != Some(turn), background);
        let report = world
            .ends()
            .into_iter()
            .find_map(|(content, status)| match content {
                ItemContent::Subagent { result, .. } => Some((result, status)),
                _ => None,
            });
        let (result, status) = report.expect("it is an item");
        assert_eq!(status, ItemStatus::Completed);
        assert!(result.preview().contains("Child result 42"), "{result:?}");
        assert_eq!(world.unknown(), Vec::<&ProviderEventKind>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_in_the_background_outlives_its_turn_and_its_end_is_seen() {
    let begun = json!({"tools": [{"name": "Bash", "args":
        {"command": "cat gate; echo over", "description": "waits", "run_in_background": true}}]});
    let mut world = World::start(json!({"go": [begun, say("It runs.")]})).await;
    let made = std::process::Command::new("mkfifo")
        .arg(world.workspace().join("gate"))
        .status()
        .unwrap();
    assert!(made.success());
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    let first = world
        .until("a request or an end", |event| match &event.kind {
            ProviderEventKind::RequestOpened { .. } => Some(true),
            ProviderEventKind::TurnEnded { .. } => Some(false),
            _ => None,
        })
        .await;
    if first {
        let asked = world.last_asked();
        world.choose(&asked, "allow").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    }
    assert_eq!(world.statuses_of_commands(), [], "it still runs");
    // A process that may lift its checks would have to take the place of the one in which it runs.
    let before = world.runtime.process_id();
    let mut switched = world.message(&thread, "[[script:go]]");
    switched.selection.mode = Mode::FullAccess;
    let refused = world.runtime.send_turn(switched).await;
    let Err(SendError::Refused { error }) = &refused else {
        panic!("{refused:?}")
    };
    assert!(error.message.contains("cat gate"), "{}", error.message);
    assert_eq!(world.runtime.process_id(), before);
    let gate = world.workspace().join("gate");
    tokio::task::spawn_blocking(move || std::fs::write(gate, "open"))
        .await
        .unwrap()
        .unwrap();
    let (place, status) = world
        .until("its end", |event| match &event.kind {
            ProviderEventKind::ItemClosed {
                content: ItemContent::Command { .. },
                status,
                ..
            } => Some((event.place.clone(), *status)),
            _ => None,
        })
        .await;
    assert_eq!(status, ItemStatus::Completed);
    assert_eq!(place.turn, Some(turn.clone()));
    // The agent takes it up by itself.
    let next = world
        .until("a turn of its own", |event| match &event.kind {
            ProviderEventKind::TurnStarted => event.place.turn.clone(),
            _ => None,
        })
        .await;
    assert_ne!(next, turn);
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_32_a_turn_that_the_model_fails_is_failed_for_what_it_was_and_the_next_one_runs() {
    let failing = |status: u16, kind: &str| json!([{"error": {"status": status, "type": kind}}]);
    let mut world = World::start(json!({
        "e401": failing(401, "authentication_error"),
        "e400": failing(400, "invalid_request_error"),
        "e500": failing(500, "api_error"),
        "long": [{"error": {"status": 400, "body": {"type": "error", "error":
            {"type": "invalid_request_error", "message": "prompt is too long: 300000 tokens > 200000 maximum"}}}}],
        "fine": [say("Fine.")],
    }))
    .await;
    let thread = world.open(None).await;
    for (script, code) in [
        ("e401", ErrorCode::SignIn),
        ("e400", ErrorCode::Agent),
        ("e500", ErrorCode::ModelService),
        ("long", ErrorCode::ContextFull),
    ] {
        world.send(&thread, &format!("[[script:{script}]]")).await;
        let (status, error) = world.turn_end().await;
        assert_eq!(status, TurnStatus::Failed, "{script}");
        assert_eq!(error.map(|error| error.code), Some(code), "{script}");
    }
    assert!(world.seen.iter().any(|event| matches!(
        &event.kind,
        ProviderEventKind::Error { will_retry: true, error } if error.code == ErrorCode::ModelService
    )));
    world.send(&thread, "[[script:fine]]").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert_eq!(world.said().last().map(String::as_str), Some("Fine."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_copied_whole_or_up_to_a_turn_and_the_other_stays_as_it_was() {
    use pilothouse_providers::contract::ForkThread;
    let script = json!({
        "go": [run("touch made.txt"), say("First.")], "then": [say("Then.")], "next": [say("Second.")],
    });
    let mut world = World::start(script).await;
    let source = world.open(None).await;
    let before = world.send(&source, "[[script:go]] [[id:before]]").await;
    let asked = world.request().await;
    world.choose(&asked, "allow").await;
    world.turn_end().await;
    world.send(&source, "[[script:then]] [[id:after]]").await;
    world.turn_end().await;
    let first = world.runtime.clone();
    let (cwd, selection) = (world.workspace(), world.selection.clone());
    let fork = |source: &NativeId, through: Option<NativeId>, whole| ForkThread {
        source: source.clone(),
        through,
        whole,
        cwd: cwd.clone(),
        selection: selection.clone(),
    };
    for (through, holds) in [(None, [1, 1]), (Some(before), [1, 0])] {
        world.restart(None).await;
        let whole = through.is_none();
        let forking = world.runtime.forking().unwrap();
        let copy = forking.fork(fork(&source, through, whole)).await.unwrap();
        assert_ne!(copy, source);
        world.send(&copy, "[[script:next]]").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        let told = world.told();
        let asked = told.lines().rfind(|line| line.contains("script:next"));
        let marks = [("before", holds[0]), ("after", holds[1])];
        for (mark, times) in marks {
            assert!(
                asked.is_some_and(|line| line.contains(&format!(r#""{mark}":1"#)) == (times == 1)),
                "{mark} stands {times} times in what the copy holds: {told}"
            );
        }
    }
    assert!(first.process_id().is_some(), "the other goes on");
    world.restart(None).await;
    let forking = world.runtime.forking().unwrap();
    let other = NativeId::from("1fed0e9e-7458-420d-8435-de291109b930");
    let unknown = forking.fork(fork(&source, Some(other), false)).await;
    assert!(
        matches!(unknown, Err(OpenError::Refused { .. })),
        "{unknown:?}"
    );
    let gone = NativeId::from("8fed0e9e-7458-420d-8435-de291109b930");
    let missing = forking.fork(fork(&gone, None, true)).await;
    assert_eq!(missing, Err(OpenError::NotFound { thread: gone }));
    world
        .until("its end", |event| {
            matches!(event.kind, ProviderEventKind::SessionEnded { .. }).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_and_effort_are_what_was_chosen_or_refused() {
    let mut world = World::start(json!({"go": [say("Hi.")]})).await;
    let thread = world.open(None).await;
    let mut message = world.message(&thread, "[[script:go]]");
    message.selection.model = Some("haiku".to_owned());
    message.selection.effort = Some("enormous".to_owned());
    let refused = world.runtime.send_turn(message.clone()).await;
    let Err(SendError::Refused { error }) = refused else {
        panic!("an effort that is none: {refused:?}")
    };
    assert!(error.message.contains("enormous"), "{}", error.message);
    assert!(!world.told().contains("script:go"), "nothing was sent");
    message.selection.model = Some("opus".to_owned());
    message.selection.effort = Some("high".to_owned());
    world.runtime.send_turn(message).await.unwrap();
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    world.send(&thread, "[[script:go]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let asked: Vec<_> = world
        .told()
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| line["script"] == "go")
        .map(|line| {
            let word = |key: &str| line[key].as_str().map(str::to_owned);
            (word("model").unwrap_or_default(), word("effort"))
        })
        .collect();
    let [(chosen, high), (usual, own)] = &asked[..] else {
        panic!("two requests: {asked:?}")
    };
    assert!(chosen.contains("opus"), "{asked:?}");
    assert_eq!(high.as_deref(), Some("high"));
    assert_eq!(usual, MODEL);
    assert_ne!(
        own.as_deref(),
        Some("high"),
        "only the turn it was chosen for: {asked:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_compacted_by_its_command_and_goes_on() {
    let mut world = World::start(json!({"go": [say("Hello.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    world.turn_end().await;
    let compacting = world.runtime.compacting().unwrap();
    let begun = compacting.compact(thread.clone()).await;
    assert!(
        matches!(begun, Ok(Compaction::Turn { turn: Some(_) })),
        "{begun:?}"
    );
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let left = world
        .ends()
        .into_iter()
        .rev()
        .find_map(|(content, status)| match content {
            ItemContent::Compaction { text } => Some((text, status)),
            _ => None,
        });
    let (text, status) = left.expect("it is an item");
    assert_eq!(status, ItemStatus::Completed);
    assert!(!text.is_empty(), "what is left is told");
    world.send(&thread, "[[script:go]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert_eq!(world.unknown(), Vec::<&ProviderEventKind>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_started_says_why() {
    use pilothouse_providers::{
        claude::ClaudeAdapter,
        contract::{ProviderAdapter as _, StartError},
    };
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("workspace")).unwrap();
    let mut launch = crate::claude_world::launch(dir.path(), 1, 1);
    launch.command = vec!["no-such-program".to_owned()];
    let (sender, _events) = tokio::sync::mpsc::channel(8);
    let started = ClaudeAdapter::new()
        .start(launch.clone(), sender.clone())
        .await;
    assert!(matches!(started.err(), Some(StartError::Spawn { .. })));
    launch.command = vec![
        "sh".to_owned(),
        "-c".to_owned(),
        "echo broken >&2; exit 3".to_owned(),
    ];
    let started = ClaudeAdapter::new().start(launch, sender).await;
    let Some(StartError::Handshake { stderr, .. }) = started.err() else {
        panic!("a program that ends is no agent")
    };
    assert!(stderr.contains("broken"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_stays_one_when_its_first_message_is_for_another_process() {
    use pilothouse_providers::contract::ForkThread;
    let script = json!({"go": [say("First.")], "next": [say("Second.")]});
    let mut world = World::start(script).await;
    let source = world.open(None).await;
    world.send(&source, "[[script:go]] [[id:before]]").await;
    world.turn_end().await;
    world.restart(None).await;
    let fork = ForkThread {
        source,
        through: None,
        whole: true,
        cwd: world.workspace(),
        selection: world.selection.clone(),
    };
    let copy = world.runtime.forking().unwrap().fork(fork).await.unwrap();
    // Only a process that was started for it lifts the checks; nothing of the copy is on disk yet.
    world.selection.mode = Mode::FullAccess;
    world.send(&copy, "[[script:next]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let told = world.told();
    let asked = told.lines().rfind(|line| line.contains("script:next"));
    assert!(
        asked.is_some_and(|line| line.contains(r#""before":1"#)),
        "{told}"
    );
}
