//! Real codex through the contract.

use crate::support::{World, run, say};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, ProviderEventKind,
    provider::TurnStatus,
    request::{AnswerDelivery, OptionEffect, RequestKind},
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
