//! What is done with a conversation as a whole, on real Claude Code: read back, taken back, pictures in.

use crate::{
    claude_world::{World, run},
    support::{picture, say},
};
use pilothouse_domain::{
    ItemContent, ItemStatus, NativeId, ProviderEvent, ProviderEventKind, provider::TurnStatus,
    run::ErrorCode,
};
use pilothouse_providers::contract::{Escalation, RevertError, Reverted, SendError};
use serde_json::json;

async fn said(world: &mut World, thread: &NativeId, script: &str) -> NativeId {
    let text = format!("[[id:{script}]] [[script:{script}]]");
    let turn = world.send(thread, &text).await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    turn
}

async fn read(world: &World, thread: &NativeId, turns: u32) -> Vec<ProviderEvent> {
    let history = world.runtime.history().expect("it reads back");
    history.read(thread.clone(), turns).await.unwrap()
}

/// Each item's last end: where, which, what, how.
fn ends(events: &[ProviderEvent]) -> Vec<(NativeId, NativeId, ItemContent, ItemStatus)> {
    let end = |event: &ProviderEvent| match &event.kind {
        ProviderEventKind::ItemClosed {
            item,
            content,
            status,
            ..
        } => Some((
            event.place.turn.clone()?,
            item.clone(),
            content.clone(),
            *status,
        )),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_back_has_the_ids_and_the_words_that_it_had_when_it_happened() {
    let mut world = World::start(json!({
        "one": [json!({"think": "I wonder.", "text": "First."})],
        "two": [run("echo made > made.txt"), say("Second.")],
        "three": [say("Third.")],
    }))
    .await;
    let thread = world.open(None).await;
    said(&mut world, &thread, "one").await;
    let turn = world.send(&thread, "[[id:two]] [[script:two]]").await;
    let asked = world.request().await;
    world.choose(&asked, "allow").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let last = said(&mut world, &thread, "three").await;
    world.written(&thread, "Third.").await;
    let happened = ends(&world.seen);
    let past = read(&world, &thread, 50).await;
    assert_eq!(ends(&past), happened);
    let marks: Vec<_> = past
        .iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::TurnStarted => Some((event.place.turn.clone()?, None)),
            ProviderEventKind::TurnEnded { status, error } => {
                Some((event.place.turn.clone()?, Some((*status, error.clone()))))
            }
            _ => None,
        })
        .collect();
    assert_eq!(marks.len(), 6);
    assert_eq!(marks[2], (turn, None));
    assert_eq!(marks[5], (last, Some((TurnStatus::Completed, None))));
    // Only the last ones, and of a conversation that is not there none.
    let happened = happened.into_iter().rev().take(2).rev().collect::<Vec<_>>();
    assert_eq!(ends(&read(&world, &thread, 1).await), happened);
    let history = world.runtime.history().unwrap();
    for missing in ["8fed0e9e-7458-420d-8435-de291109b930", "../settings"] {
        assert!(history.read(missing.into(), 5).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_that_were_taken_back_are_forgotten_also_by_a_process_that_is_killed_at_once() {
    let held = json!({"text": "At last.", "hold_after_text": "gate"});
    let mut world = World::start(json!({
        "one": [say("First.")], "two": [say("Second.")], "three": [say("Third.")],
        "four": [say("Fourth.")], "five": [say("Fifth.")], "held": [held],
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
    world.restart(Some(thread.clone())).await;
    assert_eq!(world.open(Some(thread.clone())).await, thread);
    let turns: Vec<_> = ends(&read(&world, &thread, 50).await)
        .into_iter()
        .map(|(turn, ..)| turn)
        .collect();
    assert_eq!(turns, [first.clone(), first.clone()]);
    said(&mut world, &thread, "four").await;
    assert_eq!(world.last_marks(), ["four", "one"]);

    // Once more is no more; and none is taken back while a turn goes on.
    let runtime = world.runtime.clone();
    let reverting = runtime.reverting().expect("it takes back");
    for gone in [second, third] {
        assert_eq!(
            reverting.revert(thread.clone(), gone).await,
            Ok(Reverted::NotThere)
        );
    }
    let turn = world.send(&thread, "[[script:held]]").await;
    let busy = reverting.revert(thread.clone(), turn).await;
    assert_eq!(busy, Err(RevertError::Busy));
    world.model.release("gate");
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    // All of it.
    assert_eq!(
        reverting.revert(thread.clone(), first).await,
        Ok(Reverted::Forgotten)
    );
    said(&mut world, &thread, "five").await;
    assert_eq!(world.last_marks(), ["five"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_43_a_picture_that_the_agent_leaves_out_is_told_and_none_is_sent_that_is_too_large() {
    let mut world = World::start(json!({"go": [say("I see.")]})).await;
    let thread = world.open(None).await;
    let dir = world.dir.path().to_owned();
    let file = |name: &str, bytes: &[u8]| picture(&dir, name, bytes);
    let mut message = world.message(&thread, "[[script:go]]");
    // A picture by its first bytes, and none that can be read.
    message.attachments = vec![file("dog.png", b"\x89PNG\r\n\x1a\nnothing more")];
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

    for (name, bytes) in [("page.svg", 9), ("huge.png", 33 * 1024 * 1024)] {
        let mut large = file(name, b"<svg xml/>");
        large.bytes = bytes;
        message.attachments = vec![large];
        let sent = world.runtime.send_turn(message.clone()).await;
        assert!(
            matches!(&sent, Err(SendError::Refused { error }) if error.message.ends_with("nothing was sent")),
            "{sent:?}"
        );
    }
}
