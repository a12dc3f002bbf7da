//! An agent that runs elsewhere and goes on while the ledger's connection with it, or the ledger, is gone.

use crate::{
    agent::Call,
    world::{Follower, World, answer, asks, ended, soon},
};
use pilothouse_domain::{
    AttemptId, CommandBody, DispatchMode, Event, NativeId, Outcome, ProviderEvent,
    ProviderEventKind, RequestStatus, RunId, RunStatus, RuntimeRequest,
    provider::TurnStatus,
    provider_event::NativePlace,
    request::{AnswerDelivery, LostReason},
};

/// A turn that goes on, which the agent remembers as just begun.
async fn working() -> (World, Follower) {
    let mut world = World::elsewhere().await;
    let begun = ProviderEvent {
        place: NativePlace {
            thread: Some(NativeId::from("native")),
            root: None,
            turn: Some(NativeId::from("turn-1")),
        },
        kind: ProviderEventKind::TurnStarted,
    };
    world.script.remember(vec![begun]);
    let mut follower = world.follow(None).await;
    world.send("go on", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "go on");
    world
        .script
        .say(Some(1), ProviderEventKind::TurnStarted)
        .await;
    let started = |event: &Event| matches!(event, Event::AttemptBound { .. }).then_some(());
    follower.until("its turn", started).await;
    (world, follower)
}

async fn stop(world: &mut World, follower: &Follower) {
    let active = follower.state.active.as_ref().unwrap();
    let (run, attempt): (RunId, AttemptId) = (active.id, active.attempt.as_ref().unwrap().id);
    let outcome = world
        .command(CommandBody::RunInterrupt {
            run,
            attempt,
            hold_queue: false,
        })
        .await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
}

/// Waits until the agent is asked to stop.
async fn asked_to_stop(world: &mut World) {
    loop {
        if let Call::Interrupted { turn } = world.call().await {
            return assert_eq!(turn, NativeId::from("turn-1"));
        }
    }
}

fn step(event: &Event) -> Option<(String, String)> {
    match event {
        Event::InterruptStep { step, note, .. } => Some((step.clone(), note.clone())),
        _ => None,
    }
}

/// It stops, and was asked no more often than it has to be.
async fn stops(mut world: World, mut follower: Follower) {
    world
        .script
        .say(Some(1), ended(TurnStatus::Interrupted))
        .await;
    let over = |event: &Event| match event {
        Event::RunEnded { status, .. } => Some(*status),
        _ => None,
    };
    assert_eq!(
        follower.until("its end", over).await,
        RunStatus::Interrupted
    );
    let asked = std::iter::from_fn(|| world.calls.try_recv().ok())
        .filter(|call| matches!(call, Call::Interrupted { .. }));
    assert_eq!(asked.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_was_lost_with_its_connection_is_asked_again_over_the_next() {
    let (mut world, mut follower) = working().await;
    let lost = world.script.lose_interrupt();
    stop(&mut world, &follower).await;
    asked_to_stop(&mut world).await;
    lost.notify_one();
    let (step, note) = follower.until("what came of it", step).await;
    assert_eq!(step, "protocol");
    assert!(note.contains("was gone"), "{note}");
    world.script.die().await;
    asked_to_stop(&mut world).await;
    stops(world, follower).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_is_one_of_which_it_is_not_known_yet_that_it_was_lost() {
    let (mut world, mut follower) = working().await;
    let lost = world.script.lose_interrupt();
    stop(&mut world, &follower).await;
    asked_to_stop(&mut world).await;
    world.script.die().await;
    asked_to_stop(&mut world).await;
    lost.notify_one();
    // In whichever order.
    let (mut told, mut taken) = (false, false);
    let both = |event: &Event| {
        let (_, note) = step(event)?;
        told |= note.starts_with("the agent was gone");
        taken |= note == "the agent acknowledged";
        (told && taken).then_some(())
    };
    follower.until("what came of both", both).await;
    assert!(
        follower
            .state
            .active
            .as_ref()
            .unwrap()
            .interrupting
            .is_some(),
        "it is being stopped"
    );
    stops(world, follower).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_asked_while_nothing_connects_goes_out_once() {
    let (mut world, follower) = working().await;
    let connects = world.script.hold_start();
    world.script.die().await;
    soon("a connection to be made", world.script.is_starting()).await;
    stop(&mut world, &follower).await;
    connects.notify_one();
    asked_to_stop(&mut world).await;
    stops(world, follower).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_was_taken_and_did_not_help_is_asked_again_in_the_next_life() {
    let (mut world, mut follower) = working().await;
    stop(&mut world, &follower).await;
    asked_to_stop(&mut world).await;
    let (_, note) = follower.until("what came of it", step).await;
    assert_eq!(note, "the agent acknowledged");
    let mut world = world.reopened_beside_its_agent().await;
    let follower = world.follow(None).await;
    asked_to_stop(&mut world).await;
    stops(world, follower).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_the_host_did_not_live_to_hear_of_is_asked_again_once_in_the_next_life() {
    let (mut world, follower) = working().await;
    let _never = world.script.lose_interrupt();
    stop(&mut world, &follower).await;
    asked_to_stop(&mut world).await;
    let mut world = world.reopened_beside_its_agent().await;
    let follower = world.follow(None).await;
    asked_to_stop(&mut world).await;
    assert!(
        follower
            .state
            .active
            .as_ref()
            .unwrap()
            .interrupting
            .is_some(),
        "it is being stopped"
    );
    stops(world, follower).await;
}

/// The request that is open next.
async fn asked(follower: &mut Follower) -> RuntimeRequest {
    let opened = |event: &Event| match event {
        Event::RequestOpened { request } => Some((**request).clone()),
        _ => None,
    };
    follower.until("a request", opened).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_waited_for_any_more_counts_as_answered_by_inference_or_is_lost() {
    let (mut world, mut follower) = working().await;
    world.script.confirm_answers();
    let mut requests = Vec::new();
    for name in ["0", "1"] {
        world.script.say(Some(1), asks(name, "touch it")).await;
        requests.push(asked(&mut follower).await);
    }
    world
        .command(answer(requests[0].id, requests[0].content_hash, "accept"))
        .await;
    assert!(matches!(world.call().await, Call::Responded(_)));
    // Whether it took that, or somebody at its desk was first, nobody hears.
    world.script.waits_for(&[]);
    world.script.die().await;
    let mut over = Vec::new();
    let both = |event: &Event| match event {
        Event::RequestClosed { request, status } => {
            over.push((*request, status.clone()));
            (over.len() == 2).then_some(())
        }
        _ => None,
    };
    follower.until("the end of both", both).await;
    let inferred = AnswerDelivery::Inferred;
    assert!(
        matches!(over[0], (request, RequestStatus::Answered { delivery, .. })
            if request == requests[0].id && delivery == inferred),
        "{over:?}"
    );
    let lost = RequestStatus::Lost {
        reason: LostReason::AgentExited,
        answer: None,
    };
    assert_eq!(over[1], (requests[1].id, lost));
}
