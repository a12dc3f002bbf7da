//! Agents without anything to do are stopped; those that somebody waits for are not.

use crate::{
    agent::Call,
    world::{World, answer, asks, ended},
};
use pilothouse_domain::{
    CommandBody, DispatchMode, Event, NativeId, Outcome, ProviderEventKind, provider::TurnStatus,
};
use std::{sync::Arc, time::Duration};

/// So often that many looks pass between two commands, each of which is synced to the disk.
const LOOK: Duration = Duration::from_millis(1);
/// Commands that are sent while the agent must not be stopped.
const COMMANDS: usize = 40;

async fn world() -> World {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    World::open_looking(dir, LOOK).with_thread().await
}

/// Lets many looks pass: by commands that do nothing to the agent and are refused, whose outcomes are synced.
async fn looks(world: &mut World) {
    for _ in 0..COMMANDS {
        let outcome = world
            .command(CommandBody::QueueRelease { revision: 999 })
            .await;
        assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome:?}");
    }
}

async fn stopped(world: &mut World) {
    while world.call().await != Call::Stopped {}
    world.script.die().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_anything_to_do_is_stopped_and_the_next_message_takes_its_conversation_up()
{
    let mut world = world().await;
    world.send("one", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "one");
    let script = world.script.clone();
    script.say(Some(1), ProviderEventKind::TurnStarted).await;
    script.say(Some(1), ended(TurnStatus::Completed)).await;
    stopped(&mut world).await;

    world.send("two", DispatchMode::StartImmediately).await;
    loop {
        match world.call().await {
            Call::Opened { resume } => assert_eq!(resume, Some(NativeId::from("native"))),
            Call::Sent(turn) => break assert_eq!(turn.text, "two"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_waits_for_an_answer_or_works_in_the_background_is_not_stopped() {
    let mut world = world().await;
    let mut follower = world.follow(None).await;
    world.send("one", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "one");
    let script = world.script.clone();
    script.say(Some(1), ProviderEventKind::TurnStarted).await;
    script.say(Some(1), asks("0", "touch it")).await;
    let request = follower
        .until("the request", |event| match event {
            Event::RequestOpened { request } => Some((**request).clone()),
            _ => None,
        })
        .await;
    looks(&mut world).await;
    assert!(world.calls.try_recv().is_err(), "stopped while it asks");

    world
        .command(answer(request.id, request.content_hash, "accept"))
        .await;
    assert!(matches!(world.call().await, Call::Responded(_)));
    let child = NativeId::from("child");
    let opened = ProviderEventKind::ChildOpened {
        child: child.clone(),
        item: None,
        title: "in the background".into(),
    };
    script.say(Some(1), opened).await;
    script.say(Some(1), ended(TurnStatus::Completed)).await;
    follower
        .until("the end of the turn", |event| {
            matches!(event, Event::RunEnded { .. }).then_some(())
        })
        .await;
    looks(&mut world).await;
    assert!(
        world.calls.try_recv().is_err(),
        "stopped while its child works"
    );

    let closed = ProviderEventKind::ChildClosed {
        child,
        status: TurnStatus::Completed,
    };
    script.say(None, closed).await;
    stopped(&mut world).await;
}
