//! The driver with the real opencode.

use crate::{
    opencode_stage::{World, asked, asked_of, run, task},
    support::say,
};
use pilothouse_domain::{
    Answer, ItemContent, ItemStatus, Mode, NativeId, OptionId, ProviderEvent, ProviderEventKind,
    provider::TurnStatus,
    provider_event::Resolution,
    request::{AnswerDelivery, LostReason, QuestionReply, RequestKind},
    run::ErrorCode,
};
use pilothouse_providers::contract::{
    Escalation, InterruptError, OpenError, OpenThread, RespondError, SendError,
};
use serde_json::json;
use std::sync::Arc;

fn words(event: &ProviderEvent) -> Option<String> {
    match &event.kind {
        ProviderEventKind::ItemClosed {
            content: ItemContent::AssistantMessage { text },
            ..
        } => Some(text.preview().to_owned()),
        _ => None,
    }
}

fn closed(event: &ProviderEvent, request: &NativeId) -> Option<Resolution> {
    match &event.kind {
        ProviderEventKind::RequestClosed {
            request: id,
            resolution,
        } if id == request => Some(*resolution),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_11_every_decision_ends_the_tool_or_the_turn() {
    let mut world = World::start(json!({
        "once": [run("echo once > once.txt"), say("ran")],
        "reject": [run("echo no > no.txt"), say("never said")],
        "go_on": [run("echo no > no.txt"), say("went on")],
        "always": [run("echo always > always.txt"), say("ran always")],
        "again": [run("echo always > again.txt"), say("ran again")],
    }))
    .await;
    let thread = world.open(None).await;

    world.send(&thread, "[[script:once]]").await;
    let once = world.request().await;
    assert_eq!(once.kind, RequestKind::Command);
    assert_eq!(
        once.subject.command.as_deref(),
        Some("echo once > once.txt")
    );
    assert!(!once.unknown_fields && !once.subject.incomplete);
    assert_eq!(world.choose(&once, "once").await, AnswerDelivery::Confirmed);
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert!(world.workspace().join("once.txt").exists());

    world.send(&thread, "[[script:reject]]").await;
    let asked = world.request().await;
    world.choose(&asked, "reject").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);

    world.send(&thread, "[[script:go_on]] ").await;
    let asked = world.request().await;
    let response = asked.response(Answer::Choose {
        option: OptionId::from("reject_and_go_on"),
        note: Some("use another name".to_owned()),
    });
    world.runtime.respond(response).await.unwrap();
    // Its words before the tool may be told whole only after the tool asked.
    let after = |event: &ProviderEvent| words(event).filter(|said| said == "went on");
    world.until("what it says after", after).await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(!world.workspace().join("no.txt").exists());

    world.send(&thread, "[[script:always]]  ").await;
    let asked = world.request().await;
    let always = asked
        .subject
        .options
        .iter()
        .find(|option| option.id.as_str() == "always");
    assert!(
        always
            .unwrap()
            .reach
            .contains("every conversation of this project")
    );
    world.choose(&asked, "always").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    // It holds in other conversations of the project, too: nothing is asked.
    let other = world.open(None).await;
    world.send(&other, "[[script:again]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(world.workspace().join("again.txt").exists());
    // Every refused tool is closed as declined.
    let declined = world.seen.iter().filter(|event| {
        matches!(
            event.kind,
            ProviderEventKind::ItemClosed {
                status: ItemStatus::Declined,
                ..
            }
        )
    });
    assert_eq!(declined.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_22_an_answer_is_taken_once_and_one_to_a_process_that_is_gone_is_refused() {
    let mut world = World::start(json!({"ask": [run("touch x"), say("ok")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:ask]]").await;
    let first = world.request().await;
    world.choose(&first, "once").await;
    let again = first.response(Answer::Choose {
        option: OptionId::from("once"),
        note: None,
    });
    assert_eq!(
        world.runtime.respond(again.clone()).await,
        Err(RespondError::NotPending)
    );
    world.turn_end().await;

    world.send(&thread, "[[script:ask]] ").await;
    let second = world.request().await;
    world.runtime.signal(Escalation::Kill).unwrap();
    let reason = world
        .until("the end", |event| match event.kind {
            ProviderEventKind::SessionEnded { reason, .. } => Some(reason),
            _ => None,
        })
        .await;
    assert_eq!(reason, LostReason::AgentExited);
    let late = second.response(Answer::Choose {
        option: OptionId::from("once"),
        note: None,
    });
    assert_eq!(
        world.runtime.respond(late.clone()).await,
        Err(RespondError::Lost)
    );
    world.restart().await;
    assert_eq!(world.open(Some(thread)).await, second.thread);
    assert_eq!(
        world.runtime.respond(late).await,
        Err(RespondError::NotPending)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn case_15_case_35_a_stop_while_it_asks_takes_the_request_back_and_later_answers_are_refused()
{
    let mut world =
        World::start(json!({"ask": [run("touch x"), say("ok")], "plain": [say("next")]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:ask]]").await;
    let asked = world.request().await;
    let runtime = Arc::clone(&world.runtime);
    let interrupting = runtime.interrupting().unwrap();
    interrupting
        .interrupt(thread.clone(), turn.clone())
        .await
        .unwrap();
    let request = asked.request.clone();
    let resolution = world
        .until("its end", |event| closed(event, &request))
        .await;
    assert_eq!(resolution, Resolution::Withdrawn);
    assert_eq!(world.turn_end().await, (TurnStatus::Interrupted, None));
    let late = asked.response(Answer::Choose {
        option: OptionId::from("once"),
        note: None,
    });
    assert_eq!(
        world.runtime.respond(late).await,
        Err(RespondError::NotPending)
    );
    assert_eq!(
        interrupting.interrupt(thread.clone(), turn).await,
        Err(InterruptError::TurnEnded)
    );
    // opencode still lists it; a conversation that is looked at again does not show it.
    let before = world.seen.len();
    world.open(Some(thread.clone())).await;
    world.send(&thread, "[[script:plain]] ").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(
        world.seen[before..]
            .iter()
            .all(|event| asked_in(event).is_none())
    );
    assert!(!world.workspace().join("x").exists());
}

fn asked_in(event: &ProviderEvent) -> Option<NativeId> {
    asked(event).map(|asked| asked.request)
}

#[tokio::test(flavor = "multi_thread")]
async fn case_32_case_34_a_stop_ends_text_a_tool_and_endless_retries_and_the_next_turn_runs() {
    let mut world = World::start(json!({
        "text": [{"text": "word ".repeat(200), "chunk": 5, "delay": 50}],
        "tool": [run("sleep 600")],
        "bad": [{"error": {"status": 500}}],
        "plain": [say("here")],
    }))
    .await;
    world.mode = Mode::FullAccess;
    let thread = world.open(None).await;

    let turn = world.send(&thread, "[[script:text]]").await;
    world
        .until("text", |event| {
            matches!(event.kind, ProviderEventKind::ItemAppended { .. }).then_some(())
        })
        .await;
    let busy = world.message(&thread, "meanwhile");
    assert_eq!(world.runtime.send_turn(busy).await, Err(SendError::Busy));
    stop(&mut world, &thread, turn).await;

    let turn = world.send(&thread, "[[script:tool]] ").await;
    world
        .until("the command", |event| match &event.kind {
            ProviderEventKind::ItemOpened {
                content: ItemContent::Command { command, .. },
                ..
            } => (command == "sleep 600").then_some(()),
            _ => None,
        })
        .await;
    stop(&mut world, &thread, turn).await;

    let turn = world.send(&thread, "[[script:bad]]  ").await;
    let code = world
        .until("a retry", |event| match &event.kind {
            ProviderEventKind::Error {
                error,
                will_retry: true,
            } => Some(error.code),
            _ => None,
        })
        .await;
    assert_eq!(code, ErrorCode::ModelService);
    stop(&mut world, &thread, turn).await;

    // At once, while the ends of the aborts may still be on their way.
    let turn = world.send(&thread, "[[script:plain]]   ").await;
    assert_eq!(world.until("words", words).await, "here");
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    let ended = world.seen.iter().filter(|event| {
        event.place.turn.as_ref() == Some(&turn)
            && matches!(event.kind, ProviderEventKind::TurnEnded { .. })
    });
    assert_eq!(ended.count(), 1);
}

async fn stop(world: &mut World, thread: &NativeId, turn: NativeId) {
    let runtime = Arc::clone(&world.runtime);
    let interrupting = runtime.interrupting().unwrap();
    interrupting.interrupt(thread.clone(), turn).await.unwrap();
    assert_eq!(world.turn_end().await, (TurnStatus::Interrupted, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn case_38_a_subagent_asks_under_its_root_and_its_end_is_told() {
    let mut world = World::start(json!({
        "parent": [task("kid"), say("parent done")],
        "kid": [run("touch kid.txt"), say("kid result 42")],
    }))
    .await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:parent]]").await;
    let (child, title) = world
        .until("a subagent", |event| match &event.kind {
            ProviderEventKind::ChildOpened { child, title, item } => {
                assert!(item.is_some(), "it is linked to the tool that started it");
                Some((child.clone(), title.clone()))
            }
            _ => None,
        })
        .await;
    assert!(title.contains("kid task"), "{title}");
    let (place, request) = world
        .until("its request", |event| {
            Some((event.place.clone(), asked(event)?))
        })
        .await;
    assert_eq!(place.thread.as_ref(), Some(&child));
    assert_eq!(place.root.as_ref(), Some(&thread));
    assert_eq!(request.subject.command.as_deref(), Some("touch kid.txt"));
    world.choose(&request, "once").await;
    let status = world
        .until("its end", |event| match &event.kind {
            ProviderEventKind::ChildClosed {
                child: ended,
                status,
            } if *ended == child => Some(*status),
            _ => None,
        })
        .await;
    assert_eq!(status, TurnStatus::Completed);
    let result = world
        .until("its result", |event| match &event.kind {
            ProviderEventKind::ItemClosed {
                content: ItemContent::Subagent { result, .. },
                ..
            } => Some(result.preview().to_owned()),
            _ => None,
        })
        .await;
    assert_eq!(result, "kid result 42");
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(world.workspace().join("kid.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_holds_for_subagents_too_and_read_only_runs_nothing() {
    let mut world = World::start(json!({
        "parent": [task("kid"), say("parent done")],
        "kid": [run("touch kid.txt"), say("kid done")],
        "run": [run("touch own.txt"), say("tried")],
    }))
    .await;
    world.mode = Mode::FullAccess;
    let free = world.open(None).await;
    world.send(&free, "[[script:parent]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(world.workspace().join("kid.txt").exists());
    std::fs::remove_file(world.workspace().join("kid.txt")).unwrap();

    // The same conversation, from the next turn on only to look.
    world.mode = Mode::ReadOnly;
    world.send(&free, "[[script:run]] ").await;
    world.turn_end().await;
    world.send(&free, "[[script:parent]]  ").await;
    world.turn_end().await;
    assert!(!world.workspace().join("own.txt").exists());
    assert!(!world.workspace().join("kid.txt").exists());
    assert!(
        world.seen.iter().all(|event| asked(event).is_none()),
        "nothing was asked"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_with_choices_and_words_or_dismissed() {
    let questions = json!([
        {"question": "Which?", "header": "H", "multiple": true,
         "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]},
        {"question": "Name?", "header": "N", "options": []}
    ]);
    let ask = json!({"tools": [{"name": "question", "args": {"questions": questions}}]});
    let mut world = World::start(json!({"ask": [ask, say("thanks")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:ask]]").await;
    let asked = world.request().await;
    assert_eq!(asked.kind, RequestKind::UserInput);
    let [colour, name] = &asked.subject.questions[..] else {
        panic!("{:?}", asked.subject)
    };
    assert!(colour.multi_select && colour.free_text && name.choices.is_empty());
    let reply = |question: &str, chosen: &[&str], text: Option<&str>| QuestionReply {
        question: question.to_owned(),
        chosen: chosen.iter().map(|&label| label.to_owned()).collect(),
        text: text.map(str::to_owned),
    };
    let nothing = asked.response(Answer::Reply {
        replies: Vec::new(),
    });
    assert!(matches!(
        world.runtime.respond(nothing).await,
        Err(RespondError::Unfit { .. })
    ));
    let replies = vec![
        reply("1", &[], Some("Bob")),
        reply("0", &["Red", "Blue"], Some("own words")),
    ];
    world
        .runtime
        .respond(asked.response(Answer::Reply { replies }))
        .await
        .unwrap();
    assert_eq!(world.until("words", words).await, "thanks");
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    // The model is told each answer under its own question, and nothing else.
    let requests = asked_of(&world.model);
    let told = requests.last().unwrap()["tool_results"][0]["text"].as_str();
    assert!(
        told.unwrap()
            .contains(r#": "Which?"="Red, Blue, own words", "Name?"="Bob". "#),
        "{told:?}"
    );

    world.send(&thread, "[[script:ask]] ").await;
    let asked = world.request().await;
    world.choose(&asked, "reject").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_of_the_host_for_a_mode_names_the_agent_that_works_in_it_or_is_refused() {
    let modes = [(Mode::Ask, "scout"), (Mode::FullAccess, "nobody")];
    let modes = modes.map(|(mode, word)| (mode, word.to_owned()));
    let scout =
        "---\ndescription: Looks.\nmode: primary\ntools:\n  webfetch: false\n---\nYou look.\n";
    let mut world = World::start_in(json!({"go": [say("here")]}), modes.into(), |workspace| {
        let dir = workspace.join(".opencode/agent");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("scout.md"), scout).unwrap();
    })
    .await;
    let thread = world.open(None).await;
    for (mode, fetches) in [(Mode::Ask, false), (Mode::AutoEdit, true)] {
        world.mode = mode;
        let text = format!("[[script:go]] in {}", mode.name());
        world.send(&thread, &text).await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        let requests = asked_of(&world.model);
        let tools = requests.last().unwrap()["tools"].as_array().unwrap();
        assert_eq!(tools.contains(&json!("webfetch")), fetches, "{tools:?}");
    }
    let before = asked_of(&world.model).len();
    world.mode = Mode::FullAccess;
    let message = world.message(&thread, "[[script:go]] with all");
    let Err(SendError::Refused { error }) = world.runtime.send_turn(message).await else {
        panic!("taken")
    };
    assert!(
        error.message.contains("`nobody`") && error.message.contains("build, plan, scout"),
        "{}",
        error.message
    );
    assert_eq!(asked_of(&world.model).len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_names_our_messages_and_closes_what_a_killed_process_left() {
    let mut world = World::start(json!({"ok": [say("fine")], "ask": [run("touch x")]})).await;
    let thread = world.open(None).await;
    let first = world.send(&thread, "[[script:ok]]").await;
    world.turn_end().await;
    let second = world.send(&thread, "[[script:ask]] ").await;
    world.request().await;
    world.runtime.signal(Escalation::Kill).unwrap();
    world.restart().await;
    let past = world
        .runtime
        .history()
        .unwrap()
        .read(thread.clone(), 8)
        .await
        .unwrap();
    let ours: Vec<_> = past
        .iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::ItemClosed {
                client_id: Some(id),
                ..
            } => Some((event.place.turn.clone().unwrap(), id.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(ours, [(first, "id-of-13"), (second.clone(), "id-of-15")]);
    let last = past.last().unwrap();
    assert_eq!(last.place.turn.as_ref(), Some(&second));
    assert!(matches!(
        last.kind,
        ProviderEventKind::TurnEnded {
            status: TurnStatus::Interrupted,
            ..
        }
    ));
    assert!(past.iter().any(|event| matches!(
        &event.kind,
        ProviderEventKind::ItemClosed {
            status: ItemStatus::Interrupted,
            content: ItemContent::Command { .. },
            ..
        }
    )));
    // Only the newest.
    let past = world
        .runtime
        .history()
        .unwrap()
        .read(thread.clone(), 1)
        .await
        .unwrap();
    assert!(
        past.iter()
            .all(|event| event.place.turn.as_ref() == Some(&second))
    );
    assert_eq!(
        world
            .runtime
            .history()
            .unwrap()
            .read(NativeId::from("ses_nope"), 1)
            .await,
        Err(OpenError::NotFound {
            thread: NativeId::from("ses_nope")
        })
    );
    // It goes on.
    world.open(Some(thread.clone())).await;
    world.send(&thread, "[[script:ok]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_opencode_does_not_have_is_refused_before_anything_is_sent() {
    let world = World::start(json!({})).await;
    let thread = world.open(None).await;
    let mut message = world.message(&thread, "x");
    message.selection.model = Some("local/nope".to_owned());
    let Err(SendError::Refused { error }) = world.runtime.send_turn(message.clone()).await else {
        panic!("taken")
    };
    assert!(
        error.message.contains("local/scripted"),
        "{}",
        error.message
    );
    message.selection.model = Some("local/scripted".to_owned());
    message.selection.effort = Some("extreme".to_owned());
    let Err(SendError::Refused { error }) = world.runtime.send_turn(message).await else {
        panic!("taken")
    };
    assert!(error.message.contains("low"), "{}", error.message);
    assert!(asked_of(&world.model).is_empty(), "nothing was sent");
    let open = OpenThread {
        resume: Some(NativeId::from("ses_nope")),
        cwd: world.workspace(),
        selection: world.selection(),
    };
    assert!(matches!(
        world.runtime.open_thread(open).await,
        Err(OpenError::NotFound { .. })
    ));
}
