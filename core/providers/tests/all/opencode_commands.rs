//! opencode's own commands with the real opencode: offered, carried out, and refused where they would run something unasked.

use crate::{
    opencode_stage::{World, asked_of},
    support::say,
};
use pilothouse_domain::{
    ItemContent, Mode, NativeId, ProviderEvent, ProviderEventKind, provider::TurnStatus,
};
use pilothouse_providers::contract::{InputFile, SendError};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};

fn commands(workspace: &Path) {
    let dir = workspace.join(".opencode/command");
    std::fs::create_dir_all(&dir).unwrap();
    for (name, head, text) in [
        (
            "hail",
            "description: Greets someone.",
            "Greet $ARGUMENTS warmly. [[script:say]]",
        ),
        (
            "held",
            "description: Is held.",
            "Wait for $1. [[script:held]]",
        ),
        (
            "apart",
            "description: Apart.\nsubtask: true",
            "Look at $1. [[script:say]]",
        ),
        (
            "runs",
            "description: Runs.",
            "See !`touch ran.txt; echo out`. [[script:say]]",
        ),
        (
            "lost",
            "description: Lost.\nagent: nobody",
            "Say $1. [[script:say]]",
        ),
    ] {
        let text = format!("---\n{head}\n---\n{text}\n");
        std::fs::write(dir.join(format!("{name}.md")), text).unwrap();
    }
}

async fn world() -> World {
    let scripts = json!({"say": [say("Said.")], "held": [{"text": "Held.", "hold": "gate"}]});
    World::start_in(scripts, BTreeMap::new(), commands).await
}

/// What the person said last, as it reached the model.
fn last_words(world: &World) -> String {
    let requests: Vec<Value> = asked_of(&world.model);
    let user = requests.last().expect("a request")["user"].as_str();
    user.unwrap().to_owned()
}

/// Our ids of messages, with the turns that they stand in.
fn ours<'e>(events: impl IntoIterator<Item = &'e ProviderEvent>) -> Vec<(NativeId, String)> {
    let ours = events.into_iter().filter_map(|event| match &event.kind {
        ProviderEventKind::ItemClosed {
            client_id: Some(id),
            content: ItemContent::UserMessage { .. },
            ..
        } => Some((event.place.turn.clone()?, id.clone())),
        _ => None,
    });
    ours.collect()
}

async fn refusal(world: &World, thread: &NativeId, text: &str) -> String {
    match world.runtime.send_turn(world.message(thread, text)).await {
        Err(SendError::Refused { error }) => error.message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_offered_and_carried_out_under_our_id_and_other_words_are_words() {
    let mut world = world().await;
    let thread = world.open(None).await;
    let offered = world.runtime.commands(&world.workspace()).await;
    let hail = offered.iter().find(|one| one.name == "/hail");
    assert_eq!(hail.unwrap().description, "Greets someone.");

    let turn = world.send(&thread, "/hail Ann and\nBob").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert_eq!(
        last_words(&world),
        "Greet Ann and\nBob warmly. [[script:say]]"
    );
    let mut said = vec![(turn, "id-of-17".to_owned())];
    assert_eq!(ours(&world.seen), said);

    for words in [
        "/hailing Ann [[script:say]]",
        "say /hail [[script:say]]",
        "/ hail [[script:say]]",
    ] {
        let turn = world.send(&thread, words).await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        assert_eq!(last_words(&world), words);
        said.push((turn, format!("id-of-{}", words.len())));
    }

    // A subagent does it: it is a turn all the same, and stands in history as one.
    let turn = world.send(&thread, "/apart here").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    let child = world
        .seen
        .iter()
        .any(|event| matches!(event.kind, ProviderEventKind::ChildClosed { .. }));
    assert!(child, "{:#?}", world.seen);
    said.push((turn, "id-of-11".to_owned()));
    assert_eq!(ours(&world.seen), said);
    let history = world.runtime.history().unwrap();
    let past = history.read(thread.clone(), 8).await.unwrap();
    assert_eq!(ours(&past), said);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_taken_once_opencode_shows_it_and_its_turn_can_be_stopped() {
    let mut world = world().await;
    let thread = world.open(None).await;
    // opencode answers the call only after the turn, which the model holds up.
    let turn = world.send(&thread, "/held nothing").await;
    let busy = world.message(&thread, "/hail Ann");
    assert_eq!(world.runtime.send_turn(busy).await, Err(SendError::Busy));
    let runtime = std::sync::Arc::clone(&world.runtime);
    let interrupting = runtime.interrupting().unwrap();
    interrupting.interrupt(thread.clone(), turn).await.unwrap();
    assert_eq!(world.turn_end().await, (TurnStatus::Interrupted, None));
    world.model.release("gate");
    world.send(&thread, "/held now").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert_eq!(last_words(&world), "Wait for now. [[script:held]]");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_runs_something_unasked_is_refused_but_where_nothing_is_asked() {
    let mut world = world().await;
    let thread = world.open(None).await;
    for mode in [Mode::ReadOnly, Mode::Ask, Mode::AutoEdit] {
        world.mode = mode;
        for text in ["/runs", "/hail !`touch ran.txt`"] {
            let problem = refusal(&world, &thread, text).await;
            assert!(
                problem.contains("without asking") && problem.contains("full_access"),
                "{problem}"
            );
        }
    }
    assert!(asked_of(&world.model).is_empty() && !world.workspace().join("ran.txt").exists());
    world.mode = Mode::FullAccess;
    world.send(&thread, "/runs").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(last_words(&world).starts_with("See out"));
    assert!(world.workspace().join("ran.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_with_a_command_but_for_a_subagent_and_an_agent_that_is_not_there_fails_the_turn()
{
    let mut world = world().await;
    let thread = world.open(None).await;
    let path = world.dir.path().join("note.txt");
    std::fs::write(&path, "the heron lands").unwrap();
    let with_file = |text: &str| {
        let mut message = world.message(&thread, text);
        message.attachments = vec![InputFile {
            name: "note.txt".to_owned(),
            media_type: "text/plain".to_owned(),
            bytes: 15,
            path: path.clone(),
        }];
        message
    };
    let (plain, apart) = (with_file("/hail Ann"), with_file("/apart here"));
    world.runtime.send_turn(plain).await.unwrap();
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let words = last_words(&world);
    assert!(
        words.contains("Greet Ann warmly.") && words.contains("the heron lands"),
        "{words}"
    );
    let Err(SendError::Refused { error }) = world.runtime.send_turn(apart).await else {
        panic!("taken")
    };
    assert!(error.message.contains("no files"), "{}", error.message);

    let sent = world.message(&thread, "/lost words");
    world.runtime.send_turn(sent).await.unwrap();
    let (status, error) = world.turn_end().await;
    assert_eq!(status, TurnStatus::Failed);
    assert!(error.unwrap().message.contains("Agent not found"));
    world.send(&thread, "/hail Eve").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}
