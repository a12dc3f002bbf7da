//! Real codex through the contract.

use crate::support::{PATIENCE, World, run, say, selection};
use pilothouse_domain::{
    Answer, Body, ItemContent, ItemStatus, Mode, NativeId, ProviderEvent, ProviderEventKind,
    provider::TurnStatus,
    provider_event::Resolution,
    request::{AnswerDelivery, LostReason, OptionEffect, QuestionReply, RequestKind},
    run::ErrorCode,
};
use pilothouse_providers::contract::{
    Escalation, InterruptError, OpenError, OpenThread, RespondError, SendError, Steer, SteerError,
};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_asked_for_approved_and_run() {
    let mut world =
        World::start(json!({"go": [run("echo hello > made.txt"), say("All done.")]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    assert_eq!(asked.kind, RequestKind::Command);
    assert!(!asked.unknown_fields);
    assert!(
        asked
            .subject
            .command
            .as_deref()
            .unwrap()
            .contains("echo hello > made.txt")
    );
    assert!(!world.workspace().join("made.txt").exists());
    let options: Vec<_> = asked
        .subject
        .options
        .iter()
        .map(|option| (option.id.as_str().to_owned(), option.effect))
        .collect();
    assert_eq!(options[0], ("accept".to_owned(), OptionEffect::AllowOnce));
    assert_eq!(
        world.choose(&asked, "accept").await,
        AnswerDelivery::Confirmed
    );
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert_eq!(
        std::fs::read_to_string(world.workspace().join("made.txt")).unwrap(),
        "hello\n"
    );
    let last = world.seen.iter().rev().find_map(|event| match &event.kind {
        ProviderEventKind::ItemClosed {
            content: ItemContent::AssistantMessage { text },
            status,
            ..
        } => Some((text.clone(), *status)),
        _ => None,
    });
    assert_eq!(
        last,
        Some((Body::inline("All done."), ItemStatus::Completed))
    );
    assert!(
        world
            .seen
            .iter()
            .all(|event| !matches!(event.kind, ProviderEventKind::Unknown { .. }))
    );
    let echoed = world.seen.iter().any(|event| {
        event.place.turn.as_ref() == Some(&turn)
            && matches!(&event.kind, ProviderEventKind::ItemClosed { client_id: Some(id), .. } if id == "id of [[script:go]]")
    });
    assert!(echoed, "the message comes back under our id");
}

const PATCH: &str = "*** Begin Patch\n*** Add File: patched.txt\n+line one\n*** End Patch\n";

fn patch() -> serde_json::Value {
    json!({"text": "I patch it.", "tools": [{"custom": true, "name": "apply_patch", "input": PATCH}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declined_command_does_not_run_and_the_turn_goes_on() {
    let mut world = World::start(json!({"go": [run("touch made.txt"), say("Without it.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    let decline = asked
        .subject
        .options
        .iter()
        .find(|option| option.effect == OptionEffect::Deny)
        .expect("there is a way to refuse that lets the turn go on");
    let delivery = world.choose(&asked, decline.id.as_str()).await;
    assert_eq!(delivery, AnswerDelivery::Confirmed);
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert!(!world.workspace().join("made.txt").exists());
    assert_eq!(command_statuses(&world), [ItemStatus::Declined]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_command_does_not_run_and_the_turn_is_interrupted() {
    let mut world = World::start(json!({"go": [run("touch made.txt"), say("Never said.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    world.choose(&asked, "cancel").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    assert!(!world.workspace().join("made.txt").exists());
}

fn command_statuses(world: &World) -> Vec<ItemStatus> {
    world
        .seen
        .iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::ItemClosed {
                content: ItemContent::Command { .. },
                status,
                ..
            } => Some(*status),
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_option_that_writes_a_permanent_rule_says_so_and_writes_it() {
    let mut world = World::start(json!({"go": [run("touch ruled.txt"), say("Done.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    let rule = asked
        .subject
        .options
        .iter()
        .find(|option| option.effect == OptionEffect::AllowRule)
        .expect("codex offers a rule");
    assert!(rule.reach.contains("permanent rule") && rule.reach.contains("`touch ruled.txt`"));
    world.choose(&asked, rule.id.as_str()).await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let rules = std::fs::read_to_string(world.dir.path().join("home/rules/default.rules")).unwrap();
    assert!(rules.contains("ruled.txt"), "{rules}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_change_is_asked_for_with_its_diff_and_applied() {
    let mut world = World::start(json!({"go": [patch(), say("Patched.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    assert_eq!(asked.kind, RequestKind::FileChange);
    assert!(!asked.subject.incomplete && !asked.unknown_fields);
    let [change] = &asked.subject.changes[..] else {
        panic!("one file changes: {:?}", asked.subject)
    };
    assert!(change.path.ends_with("patched.txt"));
    assert_eq!(change.diff, Body::inline("line one\n"));
    assert!(!world.workspace().join("patched.txt").exists());
    let delivery = world.choose(&asked, "acceptForSession").await;
    assert_eq!(delivery, AnswerDelivery::Confirmed);
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let text = std::fs::read_to_string(world.workspace().join("patched.txt")).unwrap();
    assert_eq!(text, "line one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_answered_with_one_of_its_choices() {
    let ask = json!({"text": "I ask.", "tools": [{"name": "request_user_input", "args": {"questions": [{
        "id": "colour", "header": "Colour", "question": "Which one?",
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    }]}}]});
    let mut world = World::start(json!({"go": [ask, say("Thanks.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    assert_eq!(asked.kind, RequestKind::UserInput);
    let question = &asked.subject.questions[0];
    assert_eq!(
        (question.text.as_str(), question.choices.len()),
        ("Which one?", 2)
    );
    let reply = |chosen: &str| {
        asked.response(Answer::Reply {
            replies: vec![QuestionReply {
                question: "colour".to_owned(),
                chosen: vec![chosen.to_owned()],
                text: None,
            }],
        })
    };
    // What nobody offered is not sent.
    assert!(matches!(
        world.runtime.respond(reply("Green")).await,
        Err(RespondError::Unfit { .. })
    ));
    let delivery = world.runtime.respond(reply("Blue")).await.unwrap();
    assert_eq!(delivery, AnswerDelivery::Confirmed);
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    // A second answer finds nobody who waits.
    assert_eq!(
        world.runtime.respond(reply("Blue")).await,
        Err(RespondError::NotPending)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_are_put_into_exactly_the_turn_that_runs() {
    let mut world = World::start(
        json!({"go": [{"text": "Working", "hold_after_text": "gate"}, say("unused")]}),
    )
    .await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    world.until("streamed text", is_text).await;
    let busy = world
        .runtime
        .send_turn(world.message(&thread, "another"))
        .await;
    assert_eq!(busy, Err(SendError::Busy));
    let steer = |turn: &NativeId, client_id: &str| Steer {
        thread: thread.clone(),
        turn: turn.clone(),
        client_id: client_id.to_owned(),
        text: "and say hello".to_owned(),
    };
    let steering = world.runtime.steering().expect("codex can be steered");
    assert_eq!(
        steering.steer(steer(&"another-turn".into(), "s0")).await,
        Err(SteerError::TurnEnded)
    );
    steering.steer(steer(&turn, "s1")).await.unwrap();
    world.model.release("gate");
    let place = world
        .until("the steering message", |event| match &event.kind {
            ProviderEventKind::ItemClosed {
                client_id: Some(id),
                ..
            } if id == "s1" => Some(event.place.clone()),
            _ => None,
        })
        .await;
    assert_eq!(place.turn, Some(turn.clone()));
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let steering = world.runtime.steering().unwrap();
    assert_eq!(
        steering.steer(steer(&turn, "s2")).await,
        Err(SteerError::TurnEnded)
    );
}

fn is_text(event: &ProviderEvent) -> Option<()> {
    matches!(event.kind, ProviderEventKind::ItemAppended { .. }).then_some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_reads_proposes_a_plan_and_the_next_mode_carries_it_out() {
    let plan = "Here.\n<proposed_plan>\n- paint it red\n</proposed_plan>\n";
    let mut world =
        World::start(json!({"plan": [say(plan)], "do": [run("touch made.txt"), say("x")]})).await;
    let plan_of = |event: &ProviderEvent| match &event.kind {
        ProviderEventKind::ItemClosed {
            content: ItemContent::Plan { text, .. },
            ..
        } => Some(text.preview().to_owned()),
        _ => None,
    };
    world.mode = Mode::ReadOnly;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:plan]]").await;
    let proposed = world.until("the plan", plan_of).await;
    assert!(proposed.contains("paint it red") && !proposed.contains("Here"));
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    // Also by another process, which finds it planning.
    world.runtime.stop().await;
    world.restart().await;
    world.mode = Mode::Ask;
    world.open(Some(thread.clone())).await;
    world.send(&thread, "Implement it. [[script:do]]").await;
    let asked = world.request().await;
    let accept = asked.response(Answer::Choose {
        option: "accept".into(),
        note: None,
    });
    world.runtime.respond(accept).await.unwrap();
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(world.workspace().join("made.txt").exists());
    let seen = world.seen.len();
    world.send(&thread, "once more [[script:plan]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(
        world.seen[seen..]
            .iter()
            .all(|event| plan_of(event).is_none()),
        "it does not plan any more"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_interrupted_in_the_middle_of_its_text_and_the_next_one_runs() {
    let mut world = World::start(json!({
        "go": [{"text": "Working", "hold_after_text": "never"}],
        "next": [say("Another way.")],
    }))
    .await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    world.until("streamed text", is_text).await;
    let interrupting = world
        .runtime
        .interrupting()
        .expect("codex can be interrupted");
    interrupting
        .interrupt(thread.clone(), turn.clone())
        .await
        .unwrap();
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    let interrupting = world.runtime.interrupting().unwrap();
    assert_eq!(
        interrupting.interrupt(thread.clone(), turn).await,
        Err(InterruptError::TurnEnded)
    );
    world.send(&thread, "[[script:next]]").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_interrupted_while_it_asks_and_the_late_answer_is_refused() {
    let mut world = World::start(json!({"go": [run("touch made.txt"), say("x")]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    let interrupting = world.runtime.interrupting().unwrap();
    interrupting.interrupt(thread, turn).await.unwrap();
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    let resolution = world
        .until("the end of the request", |event| match &event.kind {
            ProviderEventKind::RequestClosed { resolution, .. } => Some(*resolution),
            _ => None,
        })
        .await;
    assert_eq!(resolution, Resolution::Withdrawn);
    let late = asked.response(Answer::Choose {
        option: "accept".into(),
        note: None,
    });
    assert_eq!(
        world.runtime.respond(late).await,
        Err(RespondError::NotPending)
    );
    assert!(!world.workspace().join("made.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_history_shows_the_cut_turn_and_the_resumed_conversation_still_asks() {
    let mut world = World::start(json!({
        "held": [{"text": "Working", "hold_after_text": "never"}],
        "go": [run("touch made.txt"), say("Done.")],
    }))
    .await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:held]]").await;
    world.until("streamed text", is_text).await;
    world.runtime.signal(Escalation::Kill).unwrap();
    let reason = world
        .until("the end of the session", |event| match &event.kind {
            ProviderEventKind::SessionEnded { reason, .. } => Some(*reason),
            _ => None,
        })
        .await;
    assert_eq!(reason, LostReason::AgentExited);
    assert!(
        world.events.recv().await.is_none(),
        "nothing follows the end"
    );
    let late = world
        .runtime
        .send_turn(world.message(&thread, "late"))
        .await;
    assert!(
        matches!(&late, Err(SendError::Refused { error }) if error.code == ErrorCode::RuntimeLost),
        "nothing was sent: {late:?}"
    );

    world.restart().await;
    assert_eq!(world.open(Some(thread.clone())).await, thread);
    let history = world.runtime.history().expect("codex has a history");
    let past = history.read(thread.clone(), 5).await.unwrap();
    assert!(
        past.iter()
            .all(|event| event.place.turn.as_ref() == Some(&turn))
    );
    assert!(past.iter().any(|event| matches!(
        &event.kind,
        ProviderEventKind::ItemClosed { client_id: Some(id), .. } if id == "id of [[script:held]]"
    )));
    let Some(ProviderEventKind::TurnEnded {
        status: TurnStatus::Interrupted,
        error: Some(error),
    }) = past.last().map(|event| &event.kind)
    else {
        panic!("the turn was cut: {past:#?}")
    };
    assert_eq!(error.code, ErrorCode::RuntimeLost);

    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    world.choose(&asked, "accept").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    // The sandbox, which a new process forgets, lets the approved command write.
    assert!(world.workspace().join("made.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_sign_in_at_the_model_is_the_error_of_the_run() {
    let refused = json!([{"error": {"status": 401, "type": "authentication_error"}}]);
    let mut world = World::start(json!({ "go": refused })).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let (status, error) = world.turn_end().await;
    assert_eq!(status, TurnStatus::Failed);
    assert_eq!(error.expect("it says why").code, ErrorCode::SignIn);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_changes_nothing_and_full_access_does_not_ask() {
    let scripts = json!({"go": [run("touch made.txt"), say("Done.")]});
    for (mode, made) in [(Mode::ReadOnly, false), (Mode::FullAccess, true)] {
        let mut world = World::start(scripts.clone()).await;
        world.mode = mode;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        let asked = world
            .seen
            .iter()
            .any(|event| matches!(event.kind, ProviderEventKind::RequestOpened { .. }));
        assert!(!asked, "{mode:?}");
        assert_eq!(
            world.workspace().join("made.txt").exists(),
            made,
            "{mode:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_mode_holds_from_the_next_turn() {
    let mut world = World::start(json!({"go": [run("touch made.txt"), say("Done.")]})).await;
    world.mode = Mode::FullAccess;
    let thread = world.open(None).await;
    world.mode = Mode::Ask;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    assert!(!world.workspace().join("made.txt").exists());
    world.choose(&asked, "decline").await;
    world.turn_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_codex_does_not_have_is_not_found() {
    let world = World::start(json!({})).await;
    let missing: NativeId = "01a22c59-ede3-7650-8422-71b2f975ec25".into();
    let open = OpenThread {
        resume: Some(missing.clone()),
        cwd: world.workspace(),
        selection: selection(Mode::Ask),
    };
    assert_eq!(
        world.runtime.open_thread(open).await,
        Err(OpenError::NotFound { thread: missing })
    );
    let nowhere = OpenThread {
        resume: None,
        cwd: world.dir.path().join("nowhere"),
        selection: selection(Mode::Ask),
    };
    assert!(matches!(
        world.runtime.open_thread(nowhere).await,
        Err(OpenError::Refused { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_codex_ends_its_session_once_and_leaves_no_process() {
    let mut world = World::start(json!({"go": [run("sleep 1000"), say("x")]})).await;
    assert!(world.runtime.capabilities().facts.len() > 40);
    let pid = world.runtime.process_id().unwrap();
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    world.request().await;
    world.runtime.stop().await;
    world
        .until("the end of the session", |event| {
            matches!(event.kind, ProviderEventKind::SessionEnded { .. }).then_some(())
        })
        .await;
    assert!(world.events.recv().await.is_none());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(world.runtime.process_id(), None);
    assert!(matches!(
        world.seen[0].kind,
        ProviderEventKind::SessionReady { .. }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_permissions_are_asked_for_in_full_and_granted_or_not() {
    let ask = json!({"tools": [{"name": "request_permissions", "args": {
        "reason": "to publish",
        "permissions": {"network": {"enabled": true}, "file_system": {"write": ["/opt/pilothouse-probe"]}},
    }}]});
    let mut world = World::start(json!({"go": [ask, say("Done.")]})).await;
    let thread = world.open(None).await;
    for option in ["deny", "turn"] {
        world.send(&thread, "[[script:go]]").await;
        let asked = world.request().await;
        assert_eq!(asked.kind, RequestKind::Permission);
        assert!(!asked.unknown_fields && !asked.subject.incomplete);
        assert_eq!(
            asked.subject.reach,
            ["use the network", "write /opt/pilothouse-probe"]
        );
        assert_eq!(asked.subject.reason.as_deref(), Some("to publish"));
        let delivery = world.choose(&asked, option).await;
        assert_eq!(delivery, AnswerDelivery::Confirmed);
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    }
}

/// Whether a process runs whose last argument is this.
fn runs(argument: &str) -> bool {
    let ending = format!("\0{argument}\0");
    std::fs::read_dir("/proc").unwrap().any(|entry| {
        std::fs::read(entry.unwrap().path().join("cmdline"))
            .is_ok_and(|line| line.ends_with(ending.as_bytes()))
    })
}

async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    tokio::time::timeout(PATIENCE, async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{what} did not come about"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_codex_leaves_no_command_running() {
    // Each mode runs its commands another way: in codex' sandbox, and without.
    for (mode, seconds) in [(Mode::AutoEdit, 100_000), (Mode::FullAccess, 200_000)] {
        let nonce = (seconds + std::process::id() % 100_000).to_string();
        let mut world =
            World::start(json!({"go": [run(&format!("sleep {nonce}")), say("x")]})).await;
        world.mode = mode;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        wait_until("the command", || runs(&nonce)).await;
        world.runtime.signal(Escalation::Kill).unwrap();
        wait_until("the end of the command", || !runs(&nonce)).await;
    }
}
