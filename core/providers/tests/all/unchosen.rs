//! What was chosen for a turn and is chosen no more: the agent has its own default again, as the model itself is asked.

use crate::{
    heard, opencode_stage,
    pi_world::PiWorld,
    support::{Model, World, say, selection},
};
use pilothouse_domain::{Mode, NativeId, thread::Selection};
use pilothouse_providers::contract::{AgentRuntime, OpenThread, SendError, SendTurn};
use serde_json::{Value, json};

/// Model and effort of each request of the script that reached the model; one without tools asks for a title.
fn asked_for(model: &Model) -> Vec<(String, String)> {
    let words = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let log = model.log();
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| line["script"] == "go" && line["tools"] != json!([]))
        .map(|line| (words(&line["model"]), words(&line["effort"])))
        .collect()
}

fn is(model: &str, effort: &str) -> (String, String) {
    (model.to_owned(), effort.to_owned())
}

fn chosen(of: Selection, model: Option<&str>, effort: Option<&str>) -> Selection {
    Selection {
        model: model.map(str::to_owned),
        effort: effort.map(str::to_owned),
        ..of
    }
}

fn message(thread: &NativeId, n: usize, selection: Selection) -> SendTurn {
    SendTurn {
        thread: thread.clone(),
        client_id: format!("message-{n}"),
        text: "[[script:go]]".to_owned(),
        attachments: Vec::new(),
        selection,
    }
}

async fn opened(runtime: &dyn AgentRuntime, open: OpenThread) -> NativeId {
    runtime
        .open_thread(open)
        .await
        .expect("a conversation opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_has_its_default_again_when_a_choice_is_taken_back() {
    let mut world = World::start(json!({"go": [say("Hi.")]})).await;
    let unchosen = || chosen(selection(Mode::Ask), None, None);
    let open = |resume| OpenThread {
        resume,
        cwd: world.workspace(),
        selection: unchosen(),
    };
    let thread = opened(&*world.runtime, open(None)).await;
    let resume = open(Some(thread.clone()));
    let turns = [
        (None, None, is("gpt-5.5", "medium")),
        (Some("gpt-5.6-sol"), Some("high"), is("gpt-5.6-sol", "high")),
        (None, Some("high"), is("gpt-5.5", "high")),
        (None, None, is("gpt-5.5", "medium")),
        (Some("gpt-5.6-sol"), Some("high"), is("gpt-5.6-sol", "high")),
        (Some("gpt-5.6-sol"), None, is("gpt-5.6-sol", "low")),
    ];
    for (n, (model, effort, asks)) in turns.into_iter().enumerate() {
        let send = message(&thread, n, chosen(unchosen(), model, effort));
        world.runtime.send_turn(send).await.expect("it is taken");
        world.until("its end", heard::turn_end).await;
        // Of a turn with tools of its own codex may ask more than once.
        assert_eq!(asked_for(&world.model).last(), Some(&asks));
    }
    // Another process takes up a conversation for which something was chosen.
    world.runtime.stop().await;
    world.restart().await;
    opened(&*world.runtime, resume).await;
    let send = message(&thread, 9, unchosen());
    world.runtime.send_turn(send).await.expect("it is taken");
    world.until("its end", heard::turn_end).await;
    assert_eq!(
        asked_for(&world.model).last(),
        Some(&is("gpt-5.5", "medium"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_has_its_default_again_when_a_choice_is_taken_back() {
    let mut world = opencode_stage::World::start(json!({"go": [say("Hi.")]})).await;
    let thread = world.open(None).await;
    let turns = [
        (None, None, is("scripted", "none")),
        (Some("local/scripted"), Some("high"), is("scripted", "high")),
        (Some("local/seeing"), None, is("seeing", "none")),
        (None, None, is("scripted", "none")),
    ];
    let mut expected = Vec::new();
    for (n, (model, effort, asks)) in turns.into_iter().enumerate() {
        let send = message(&thread, n, chosen(world.selection(), model, effort));
        world.runtime.send_turn(send).await.expect("it is taken");
        world.until("its end", heard::turn_end).await;
        expected.push(asks);
        assert_eq!(asked_for(&world.model), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opencode_that_does_not_say_its_default_refuses_to_go_back_to_it() {
    let mut world = opencode_stage::World::unconfigured(json!({"go": [say("Hi.")]})).await;
    let thread = world.open(None).await;
    for (n, model) in [None, Some("local/seeing")].into_iter().enumerate() {
        let send = message(&thread, n, chosen(world.selection(), model, None));
        world.runtime.send_turn(send).await.expect("it is taken");
        world.until("its end", heard::turn_end).await;
    }
    let before = asked_for(&world.model).len();
    let send = message(&thread, 3, world.selection());
    let refused = world.runtime.send_turn(send).await;
    let Err(SendError::Refused { error }) = &refused else {
        panic!("{refused:?}")
    };
    assert!(error.message.contains("local/seeing"), "{}", error.message);
    assert_eq!(asked_for(&world.model).len(), before, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pi_has_its_default_again_when_a_choice_is_taken_back() {
    let mut world = PiWorld::start(json!({"go": [say("Hi.")]})).await;
    let thread = world.open(None).await;
    let turns = [
        (None, None, is("scripted", "medium")),
        (Some("local/scripted"), Some("high"), is("scripted", "high")),
        (None, None, is("scripted", "medium")),
        (Some("local/other"), None, is("other", "none")),
        (None, Some("low"), is("scripted", "low")),
        (Some("local/other"), None, is("other", "none")),
        (None, None, is("scripted", "medium")),
    ];
    let mut expected = Vec::new();
    let selected = |world: &PiWorld| world.message(&thread, "").selection;
    for (n, (model, effort, asks)) in turns.into_iter().enumerate() {
        let send = message(&thread, n, chosen(selected(&world), model, effort));
        world.runtime.send_turn(send).await.expect("it is taken");
        world.until("its end", heard::turn_end).await;
        expected.push(asks);
        assert_eq!(asked_for(&world.model), expected);
    }
}
