//! A conversation of opencode that somebody deletes while a turn goes on in it.

use crate::{
    opencode_misbehaving::{call_behind, cuttable},
    opencode_stage::{World, asked},
    support::say,
};
use pilothouse_domain::{
    NativeId, ProviderEvent, ProviderEventKind, provider::TurnStatus, run::RunError,
};
use serde_json::json;
use std::path::Path;

/// A world with a conversation in which a turn has begun that is held, and another one.
async fn held(cut: &Path) -> (World, NativeId, NativeId) {
    let scripts = json!({
        "held": [{"text": "word", "hold": "for-ever"}],
        "asks": [
            {"text": "first", "hold": "asks", "tools": [{"name": "bash", "args": {"command": "touch x", "description": "d"}}]},
            say("went on"),
        ],
    });
    let mut world = cuttable(scripts, cut).await;
    let (gone, stays) = (world.open(None).await, world.open(None).await);
    begin(&mut world, &gone, "[[script:held]]").await;
    (world, gone, stays)
}

async fn begin(world: &mut World, thread: &NativeId, text: &str) {
    world.send(thread, text).await;
    let begun = |event: &ProviderEvent| {
        let here = event.place.thread.as_ref() == Some(thread);
        (here && event.kind == ProviderEventKind::TurnStarted).then_some(())
    };
    world.until("the turn", begun).await;
}

fn end_of(thread: &NativeId, event: &ProviderEvent) -> Option<(TurnStatus, Option<RunError>)> {
    match &event.kind {
        ProviderEventKind::TurnEnded { status, error }
            if event.place.thread.as_ref() == Some(thread) =>
        {
            Some((*status, error.clone()))
        }
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_deleted_while_the_stream_is_cut_has_failed_and_the_others_are_caught_up_with()
{
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut");
    let (mut world, gone, stays) = held(&cut).await;
    begin(&mut world, &stays, "[[script:asks]] ").await;
    std::fs::write(&cut, "").unwrap();
    let delete = format!("DELETE /session/{gone}");
    call_behind(&world, &cut, &delete, |said| said.ends_with("true")).await;
    world.model.release("asks");
    call_behind(&world, &cut, "GET /permission", |said| {
        said.contains("per_")
    })
    .await;
    std::fs::remove_file(&cut).unwrap();
    let (mut end, mut request) = (None, None);
    while end.is_none() || request.is_none() {
        let (ended, asks) = world
            .until("its end and a request", |event| {
                Some((end_of(&gone, event), asked(event)))
            })
            .await;
        end = end.or(ended);
        request = request.or(asks);
    }
    let (status, error) = end.unwrap();
    assert_eq!(status, TurnStatus::Failed);
    assert!(error.unwrap().message.contains("deleted"));
    world.choose(&request.unwrap(), "once").await;
    let end = world
        .until("the other's end", |event| end_of(&stays, event))
        .await;
    assert_eq!(end, (TurnStatus::Completed, None));
    assert!(world.workspace().join("x").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_deleted_while_the_stream_lives_ends_its_turn() {
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut");
    let (mut world, gone, _) = held(&cut).await;
    let delete = format!("DELETE /session/{gone}");
    call_behind(&world, &cut, &delete, |said| said.ends_with("true")).await;
    let (status, _) = world.until("its end", |event| end_of(&gone, event)).await;
    assert_ne!(status, TurnStatus::Completed);
}
