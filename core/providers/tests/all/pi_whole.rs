//! What is done with a session as a whole, on real pi: read back, taken back, pictures in, models.

use crate::{
    pi_world::PiWorld,
    support::{picture, say},
};
use pilothouse_domain::{
    ItemContent, NativeId, ProviderEvent, ProviderEventKind, provider::TurnStatus, run::ErrorCode,
};
use pilothouse_providers::contract::{Escalation, RevertError, Reverted, SendError};
use serde_json::json;

async fn said(world: &mut PiWorld, thread: &NativeId, script: &str) -> NativeId {
    let turn = world.send(thread, &format!("[[script:{script}]]")).await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    turn
}

/// What a session holds: its turns, and what was answered in each.
async fn held(world: &PiWorld, thread: &NativeId) -> Vec<(NativeId, String)> {
    let history = world.runtime.history().expect("it reads back");
    let events = history.read(thread.clone(), 50).await.unwrap();
    let answer = |event: &ProviderEvent| match &event.kind {
        ProviderEventKind::ItemClosed {
            content: ItemContent::AssistantMessage { text },
            ..
        } => Some((event.place.turn.clone()?, text.preview().to_owned())),
        _ => None,
    };
    events.iter().filter_map(answer).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_that_were_taken_back_are_forgotten_also_by_a_process_that_is_killed_at_once() {
    let held_back = json!({"text": "At last.", "hold_after_text": "gate"});
    let mut world = PiWorld::start(json!({
        "one": [say("First.")], "two": [say("Second.")], "three": [say("Third.")],
        "four": [say("Fourth.")], "held": [held_back],
    }))
    .await;
    let thread = world.open(None).await;
    let first = said(&mut world, &thread, "one").await;
    let second = said(&mut world, &thread, "two").await;
    let third = said(&mut world, &thread, "three").await;
    let runtime = world.runtime.clone();
    let reverting = runtime.reverting().expect("it takes back");
    let taken = reverting.revert(thread.clone(), second.clone()).await;
    assert_eq!(taken, Ok(Reverted::Forgotten));
    world.runtime.signal(Escalation::Kill).unwrap();
    let mut world = world.restart().await;
    assert_eq!(world.open(Some(thread.clone())).await, thread);
    let one = (first.clone(), "First.".to_owned());
    assert_eq!(held(&world, &thread).await, std::slice::from_ref(&one));
    let fourth = said(&mut world, &thread, "four").await;
    let now = held(&world, &thread).await;
    assert_eq!(now, [one, (fourth, "Fourth.".to_owned())]);

    let runtime = world.runtime.clone();
    let reverting = runtime.reverting().expect("it takes back");
    for gone in [second, third] {
        assert_eq!(
            reverting.revert(thread.clone(), gone).await,
            Ok(Reverted::NotThere)
        );
    }
    // A turn that began before its message was heard is not in pi's file: nothing of it is forgotten, and that is said.
    let ours = NativeId::from("turn/x.1");
    let refused = reverting.revert(thread.clone(), ours).await;
    assert!(matches!(refused, Err(RevertError::Refused { .. })));
    let turn = world.send(&thread, "[[script:held]]").await;
    let busy = reverting.revert(thread.clone(), turn).await;
    assert_eq!(busy, Err(RevertError::Busy));
    world.model.release("gate");
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert_eq!(
        reverting.revert(thread.clone(), first).await,
        Ok(Reverted::Forgotten)
    );
    assert_eq!(held(&world, &thread).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_43_a_picture_that_pi_leaves_out_is_told_and_a_model_that_sees_none_is_sent_none() {
    let mut world = PiWorld::start(json!({"go": [say("I see.")]})).await;
    let thread = world.open(None).await;
    let dog = picture(
        world.dir.path(),
        "dog.png",
        b"\x89PNG\r\n\x1a\nnothing more",
    );
    let mut message = world.message(&thread, "[[script:go]]");
    message.attachments = vec![dog.clone()];
    world.runtime.send_turn(message.clone()).await.unwrap();
    let error = world
        .until("what was left out", |event| match &event.kind {
            ProviderEventKind::Error { error, .. } => Some(error.clone()),
            _ => None,
        })
        .await;
    assert_eq!(error.code, ErrorCode::Agent);
    assert!(error.message.contains("left out 1 of 1"), "{error:?}");
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);

    // The model that pi has is the first, with its efforts; the other one sees nothing.
    let models = world.runtime.models();
    let ids: Vec<_> = models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["local/scripted", "local/other"]);
    assert!(
        models[0].is_default && models[0].efforts.len() > 2,
        "{models:?}"
    );
    assert_eq!(models[1].efforts, ["off"]);
    let requests = world.model.log().lines().count();
    let mut blind = message.clone();
    blind.selection.model = Some("local/other".to_owned());
    let mut large = message;
    large.attachments[0].bytes = 12 * 1024 * 1024;
    for (message, why) in [(blind, "takes no pictures"), (large, "at most 11 MiB")] {
        let sent = world.runtime.send_turn(message).await;
        assert!(
            matches!(&sent, Err(SendError::Refused { error }) if error.message.contains(why)),
            "{sent:?}"
        );
    }
    assert_eq!(world.model.log().lines().count(), requests);
}
