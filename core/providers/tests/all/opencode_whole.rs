//! What is done with a conversation of the real opencode besides talking: copied, shortened, taken back, given files.

use crate::{
    opencode_stage::{World, write},
    support::say,
};
use pilothouse_domain::{
    ItemContent, Mode, NativeId, ProviderEvent, ProviderEventKind, hash, provider::TurnStatus,
    run::ErrorCode,
};
use pilothouse_providers::contract::{
    Compaction, ForkThread, InputFile, Reverted, SendError, SendTurn,
};
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_copied_up_to_a_turn_shortened_and_turns_are_taken_back_without_touching_files()
 {
    let mut world = World::start(json!({"ok": [say("fine")]})).await;
    let file = world.workspace().join("kept.txt");
    let write_it = json!([write(&file, "kept"), say("written")]);
    world.model.script("write", &write_it);
    let kept = || std::fs::read_to_string(&file).ok();
    world.mode = Mode::FullAccess;
    let thread = world.open(None).await;
    let first = world.send(&thread, "[[script:ok]]").await;
    world.turn_end().await;
    let second = world.send(&thread, "[[script:write]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert_eq!(kept().as_deref(), Some("kept"));
    let turns = |past: &[ProviderEvent]| -> usize {
        past.iter()
            .filter(|event| event.kind == ProviderEventKind::TurnStarted)
            .count()
    };
    let runtime = Arc::clone(&world.runtime);
    let history = || runtime.history().unwrap();
    let fork = ForkThread {
        source: thread.clone(),
        through: Some(first),
        whole: false,
        cwd: world.workspace(),
        selection: world.selection(),
    };
    let copy = world
        .runtime
        .forking()
        .unwrap()
        .fork(fork.clone())
        .await
        .unwrap();
    assert_eq!(turns(&history().read(copy.clone(), 8).await.unwrap()), 1);
    let whole = ForkThread {
        through: Some(second.clone()),
        ..fork
    };
    let whole = world.runtime.forking().unwrap().fork(whole).await.unwrap();
    assert_eq!(turns(&history().read(whole, 8).await.unwrap()), 2);

    let reverting = world.runtime.reverting().unwrap();
    let taken = reverting.revert(thread.clone(), second.clone()).await;
    assert_eq!(taken, Ok(Reverted::Forgotten));
    assert_eq!(turns(&history().read(thread.clone(), 8).await.unwrap()), 1);
    assert_eq!(
        kept().as_deref(),
        Some("kept"),
        "what its turn wrote stays as it was"
    );
    // Asked for again, it is done already.
    let again = reverting.revert(thread.clone(), second).await;
    assert_eq!(again, Ok(Reverted::NotThere));

    let compaction = world
        .runtime
        .compacting()
        .unwrap()
        .compact(thread.clone())
        .await
        .unwrap();
    assert_eq!(compaction, Compaction::Turn { turn: None });
    world
        .until("the summary", |event| match &event.kind {
            ProviderEventKind::ItemClosed {
                content: ItemContent::Compaction { .. },
                ..
            } => Some(()),
            _ => None,
        })
        .await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    // The copy works on.
    world.send(&copy, "[[script:ok]]  ").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}

/// One dot, as PNG.
const DOT: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc`db\x06\0\0\x0e\0\x07\xd7o\xe4x\0\0\0\0IEND\xaeB`\x82";

fn with(world: &World, thread: &NativeId, text: &str, files: &[(&str, &[u8])]) -> SendTurn {
    let mut message = world.message(thread, text);
    for (name, bytes) in files {
        let path = world.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        message.attachments.push(InputFile {
            name: (*name).to_owned(),
            media_type: "image/png".to_owned(),
            bytes: bytes.len() as u64,
            path,
        });
    }
    message.selection.model = Some("local/seeing".to_owned());
    message
}

/// What reached the model with the last request for `model`: the person's words, and the hashes of pictures.
fn reached(world: &World) -> (String, Vec<String>) {
    let log = world.model.log();
    let mut lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let last = lines.rfind(|line| line["model"] == "seeing").unwrap();
    let pictures = last["pictures"].as_array().into_iter().flatten();
    (
        last["user"].as_str().unwrap().to_owned(),
        pictures
            .map(|one| one["sha256"].as_str().unwrap().to_owned())
            .collect(),
    )
}

fn refusal(outcome: Result<pilothouse_providers::contract::TurnAccepted, SendError>) -> String {
    match outcome {
        Err(SendError::Refused { error }) => error.message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_43_a_picture_alone_with_words_and_with_a_text_reaches_the_model_whole() {
    let mut world = World::start(json!({"ok": [say("fine")]})).await;
    let thread = world.open(None).await;
    let sent = |text: &str, files: &[(&str, &[u8])]| with(&world, &thread, text, files);
    let alone = sent("", &[("dot.png", DOT)]);
    let long = "é\u{1f600}line\n".repeat(40);
    let both = sent(
        "[[script:ok]]",
        &[("dot.png", DOT), ("notes.txt", long.as_bytes())],
    );
    let hash = hash::to_hex(&hash::sha256(DOT));

    world.runtime.send_turn(alone).await.unwrap();
    // It is shown as ours, though it has no words.
    let ours = world
        .until("the message", |event| match &event.kind {
            ProviderEventKind::ItemClosed {
                client_id: Some(id),
                content: ItemContent::UserMessage { text, .. },
                ..
            } => Some((id.clone(), text.preview().to_owned())),
            _ => None,
        })
        .await;
    assert_eq!(ours, ("id-of-0".to_owned(), String::new()));
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert_eq!(reached(&world).1, std::slice::from_ref(&hash));
    // 100 tokens in and 20 out, as the model says, for what they cost by opencode's configuration.
    let cost = world.seen.iter().find_map(|event| match event.kind {
        ProviderEventKind::Usage { usage } => usage.cost_nano_usd,
        _ => None,
    });
    assert_eq!(cost, Some(600_000));
    world.runtime.send_turn(both).await.unwrap();
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let (words, pictures) = reached(&world);
    assert!(words.ends_with(&long), "{} bytes", words.len());
    assert_eq!(pictures.last(), Some(&hash));
    let messages = world.seen.iter().filter(|event| {
        matches!(
            event.kind,
            ProviderEventKind::ItemClosed {
                content: ItemContent::UserMessage { .. },
                ..
            }
        )
    });
    assert_eq!(messages.count(), 2, "each message is shown once");
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
            ProviderEventKind::ItemClosed { client_id, .. } => client_id.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(ours, ["id-of-0", "id-of-13"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_43_a_picture_that_the_model_would_not_see_is_refused_or_its_turn_fails_with_the_reason()
 {
    let mut world = World::start(json!({"ok": [say("fine")]})).await;
    let thread = world.open(None).await;
    // opencode's configured model sees nothing, and opencode would tell it so in words.
    let mut blind = with(&world, &thread, "[[script:ok]]", &[("dot.png", DOT)]);
    blind.selection.model = None;
    let said = refusal(world.runtime.send_turn(blind).await);
    assert!(
        said.contains("local/scripted does not take pictures"),
        "{said}"
    );
    let archive = with(
        &world,
        &thread,
        "[[script:ok]]",
        &[("a.zip", b"PK\x03\x04\0")],
    );
    let said = refusal(world.runtime.send_turn(archive).await);
    assert!(said.contains("`a.zip` is no picture"), "{said}");
    // One that begins as a picture and is none: opencode says 204, then why not, and nothing else.
    let broken = with(
        &world,
        &thread,
        "[[script:ok]]",
        &[("x.png", b"\x89PNG\r\n\x1a\nxxxxxxxx")],
    );
    world.runtime.send_turn(broken).await.unwrap();
    let (status, error) = world.turn_end().await;
    let error = error.expect("it says why");
    assert_eq!((status, error.code), (TurnStatus::Failed, ErrorCode::Agent));
    assert_eq!(
        error.message,
        "ImageDecodeError: Image could not be decoded"
    );
    // Nothing of it stands in the way of what follows; without a choice it is the configured model's turn again.
    let good = with(&world, &thread, "[[script:ok]]", &[("dot.png", DOT)]);
    world.runtime.send_turn(good).await.unwrap();
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let mut again = with(&world, &thread, "[[script:ok]] ", &[("dot.png", DOT)]);
    again.selection.model = None;
    let said = refusal(world.runtime.send_turn(again).await);
    assert!(
        said.contains("local/scripted does not take pictures"),
        "{said}"
    );
    assert_eq!(reached(&world).1.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_offered_with_their_efforts_and_the_configured_one_is_the_usual_one() {
    let world = World::start(json!({})).await;
    let offered: Vec<_> = world
        .runtime
        .models()
        .into_iter()
        .map(|model| (model.id, model.name, model.efforts, model.is_default))
        .collect();
    let text = |text: &str| text.to_owned();
    assert_eq!(
        offered,
        [
            (
                text("local/scripted"),
                text("Scripted"),
                ["low", "medium", "high"].map(text).to_vec(),
                true
            ),
            (text("local/seeing"), text("Seeing"), Vec::new(), false),
        ]
    );
}
