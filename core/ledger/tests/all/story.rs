//! Runs as they go when nothing breaks.

use crate::{
    agent::Call,
    world::{World, answer, asks, closed, delta, ended, soon},
};
use pilothouse_domain::{
    CommandBody, DispatchMode, Event, Outcome, ProviderEventKind, Refusal, RequestStatus,
    RunStatus, feed::GapReason, limits, provider::TurnStatus, provider_event::Resolution,
    request::OptionEffect,
};
use pilothouse_ledger::{Clock, SystemClock};
use pilothouse_store::LedgerReader;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

fn opened(event: &Event) -> Option<pilothouse_domain::RuntimeRequest> {
    match event {
        Event::RequestOpened { request } => Some((**request).clone()),
        _ => None,
    }
}

fn run_ended(event: &Event) -> Option<RunStatus> {
    match event {
        Event::RunEnded { status, .. } => Some(*status),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_answered_and_the_run_completes_with_equal_digests() {
    let mut world = World::new().await;
    let mut follower = world.follow(None).await;
    world.send("do it", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "do it");
    world
        .script
        .say(Some(1), ProviderEventKind::TurnStarted)
        .await;
    world.script.say(Some(1), asks("0", "touch it")).await;
    let request = follower.until("the request", opened).await;
    assert_eq!(request.status, RequestStatus::Pending);

    let given = world
        .command(answer(request.id, request.content_hash, "accept"))
        .await;
    assert!(matches!(given, Outcome::Accepted { .. }), "{given:?}");
    let Call::Responded(response) = world.call().await else {
        panic!("the agent was not told")
    };
    assert_eq!(
        (
            response.request.as_str(),
            response.subject.options[0].effect
        ),
        ("0", OptionEffect::AllowOnce)
    );

    let request_closed = ProviderEventKind::RequestClosed {
        request: "0".into(),
        resolution: Resolution::Answered,
    };
    world.script.say(Some(1), request_closed).await;
    world.script.say(Some(1), closed("m", "Done.")).await;
    world
        .script
        .say(Some(1), ended(TurnStatus::Completed))
        .await;
    assert_eq!(
        follower.until("the end", run_ended).await,
        RunStatus::Completed
    );

    let late = world.follow(None).await;
    assert_eq!(
        late.state.digest(&late.cursor),
        follower.state.digest(&follower.cursor)
    );
    let reader = LedgerReader::open(world.dir.path()).unwrap();
    assert_eq!(reader.verify_chain(world.thread).unwrap(), follower.cursor);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_command_has_its_first_outcome_and_one_effect() {
    let mut world = World::new().await;
    let body = CommandBody::MessageSend {
        text: "once".into(),
        attachments: vec![],
        dispatch: DispatchMode::StartImmediately,
        accept_stop: vec![],
    };
    let command = world.next_command(body);
    let first = world
        .ledger
        .command(World::principal(), command.clone())
        .await;
    let second = world
        .ledger
        .command(World::principal(), command.clone())
        .await;
    assert_eq!(first, second);
    assert_eq!(world.sent().await, "once");
    let known = world.ledger.outcomes(vec![command.id]).await.unwrap();
    assert_eq!(known, vec![(command.id, Some(first))]);
    // The queue of the agent's calls is in order: a second turn would stand before this answer to another message.
    world.send("next", DispatchMode::QueueAfterActive).await;
    world
        .script
        .say(Some(1), ended(TurnStatus::Completed))
        .await;
    assert_eq!(world.sent().await, "next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_its_scope_is_forbidden() {
    let mut world = World::new().await;
    let body = CommandBody::QueueRelease { revision: 0 };
    let command = world.next_command(body);
    let mut reader = World::principal();
    reader.scopes = vec![pilothouse_domain::Scope::Read];
    let outcome = world.ledger.command(reader, command).await;
    assert!(
        matches!(
            outcome,
            Outcome::Refused {
                refusal: Refusal::Forbidden { .. }
            }
        ),
        "{outcome:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_messages_run_in_order_and_a_steer_goes_into_the_running_turn() {
    let mut world = World::new().await;
    let mut follower = world.follow(None).await;
    world.send("one", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "one");
    world.send("two", DispatchMode::QueueAfterActive).await;
    world.send("three", DispatchMode::QueueAfterActive).await;
    world
        .script
        .say(Some(1), ProviderEventKind::TurnStarted)
        .await;
    let bound = |event: &Event| matches!(event, Event::AttemptBound { .. }).then_some(());
    follower.until("the turn", bound).await;
    let run = follower.state.active.as_ref().unwrap().id;
    let steered = world.send("aside", DispatchMode::SteerActive { run }).await;
    assert!(matches!(steered, Outcome::Accepted { .. }), "{steered:?}");
    let Call::Steered(steer) = world.call().await else {
        panic!("the agent was not steered")
    };
    assert_eq!(
        (steer.text.as_str(), steer.turn.as_str()),
        ("aside", "turn-1")
    );
    world
        .script
        .say(Some(1), ended(TurnStatus::Completed))
        .await;
    assert_eq!(world.sent().await, "two");
    world
        .script
        .say(Some(2), ended(TurnStatus::Completed))
        .await;
    assert_eq!(world.sent().await, "three");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_run_only_when_the_agent_says_so() {
    let mut world = World::new().await;
    let mut follower = world.follow(None).await;
    world.send("long", DispatchMode::StartImmediately).await;
    world.sent().await;
    world
        .script
        .say(Some(1), ProviderEventKind::TurnStarted)
        .await;
    follower
        .until("the turn", |event| {
            matches!(event, Event::AttemptBound { .. }).then_some(())
        })
        .await;
    let active = follower.state.active.clone().unwrap();
    let attempt = active.attempt.unwrap().id;
    world
        .command(CommandBody::RunInterrupt {
            run: active.id,
            attempt,
            hold_queue: true,
        })
        .await;
    let Call::Interrupted { turn } = world.call().await else {
        panic!("the agent was not interrupted")
    };
    assert_eq!(turn.as_str(), "turn-1");
    follower
        .until("the request", |event| {
            matches!(event, Event::InterruptRequested { .. }).then_some(())
        })
        .await;
    assert!(
        follower.state.active.is_some(),
        "ended before the agent said so"
    );
    world
        .script
        .say(Some(1), ended(TurnStatus::Interrupted))
        .await;
    assert_eq!(
        follower.until("the end", run_ended).await,
        RunStatus::Interrupted
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn text_streams_before_what_follows_it_and_the_close_has_the_whole() {
    let mut world = World::new().await;
    let mut follower = world.follow(None).await;
    world.send("talk", DispatchMode::StartImmediately).await;
    world.sent().await;
    world
        .script
        .say(Some(1), ProviderEventKind::TurnStarted)
        .await;
    for piece in ["Hel", "lo, ", "wor", "ld."] {
        world.script.say(Some(1), delta("m", piece)).await;
    }
    world
        .script
        .say(Some(1), closed("m", "Hello, world."))
        .await;
    world
        .script
        .say(Some(1), ended(TurnStatus::Completed))
        .await;
    follower.until("the end", run_ended).await;
    let streamed: String = follower
        .live
        .iter()
        .map(|live| live.text.as_str())
        .collect();
    assert!(
        !streamed.is_empty() && "Hello, world.".starts_with(&streamed),
        "{streamed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_with_a_good_cursor_gets_entries_and_one_with_a_bad_one_a_snapshot() {
    let mut world = World::new().await;
    let first = world.follow(None).await;
    assert_eq!(first.subscription.answer.gap, Some(GapReason::Fresh));
    world.send("more", DispatchMode::StartImmediately).await;
    world.sent().await;
    let again = world.follow(Some(first.cursor)).await;
    assert_eq!(again.subscription.answer.gap, None);
    let mut wrong = first.cursor;
    wrong.chain = Default::default();
    assert_eq!(
        world.follow(Some(wrong)).await.subscription.answer.gap,
        Some(GapReason::Chain)
    );
    wrong.seq += 100;
    assert_eq!(
        world.follow(Some(wrong)).await.subscription.answer.gap,
        Some(GapReason::Ahead)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_begins_with_everything_and_carries_what_waits() {
    let mut world = World::new().await;
    world.send("ask me", DispatchMode::StartImmediately).await;
    world.sent().await;
    world.script.say(Some(1), asks("0", "touch it")).await;
    let mut feed = world.ledger.feed(None).await.unwrap();
    let first = soon("the feed", feed.next()).await.unwrap().unwrap();
    assert!(first.reset);
    let mut update = first;
    while update.counts.approvals == 0 {
        update = soon("the request in the feed", feed.next())
            .await
            .unwrap()
            .unwrap();
    }
    let thread = update
        .threads
        .iter()
        .find(|thread| thread.summary.thread == world.thread)
        .unwrap();
    assert_eq!(thread.requests.len(), 1);
    let resumed = world
        .ledger
        .feed(Some(update.cursor))
        .await
        .unwrap()
        .next()
        .await
        .unwrap()
        .unwrap();
    assert!(!resumed.reset && resumed.threads.is_empty(), "{resumed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_asked_for_while_the_agent_is_started_stops_the_turn_that_then_begins() {
    let mut world = World::new().await;
    let mut follower = world.follow(None).await;
    let gate = world.script.hold_start();
    world.send("long", DispatchMode::StartImmediately).await;
    let started = |event: &Event| match event {
        Event::AttemptStarted { run, attempt, .. } => Some((*run, *attempt)),
        _ => None,
    };
    let (run, attempt) = follower.until("the attempt", started).await;
    let stopped = world
        .command(CommandBody::RunInterrupt {
            run,
            attempt,
            hold_queue: true,
        })
        .await;
    assert!(matches!(stopped, Outcome::Accepted { .. }), "{stopped:?}");
    // Longer than an interrupt waits for what is before it.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    gate.notify_one();
    assert_eq!(world.sent().await, "long");
    let Call::Interrupted { turn } = world.call().await else {
        panic!("the turn was not stopped")
    };
    assert_eq!(turn.as_str(), "turn-1");
    world
        .script
        .say(Some(1), ended(TurnStatus::Interrupted))
        .await;
    assert_eq!(
        follower.until("the end", run_ended).await,
        RunStatus::Interrupted
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_stands_behind_its_device_s_revocation_is_forbidden() {
    let mut world = World::new().await;
    let principal = World::principal();
    let device = pilothouse_ledger::NewDevice {
        device: principal.device,
        name: "a phone".into(),
        spki_sha256: pilothouse_domain::ContentHash::of("its key"),
        scopes: principal.scopes.clone(),
    };
    world.ledger.pair_device(device).await.unwrap();
    world.ledger.revoke_device(principal.device).await.unwrap();
    let late = world.send("too late", DispatchMode::StartImmediately).await;
    assert!(
        matches!(
            late,
            Outcome::Refused {
                refusal: Refusal::Forbidden { .. }
            }
        ),
        "{late:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_asked_again_while_its_answer_is_on_its_way_gets_that_answer_again() {
    let mut world = World::new().await;
    world.script.confirm_answers();
    let mut follower = world.follow(None).await;
    world.send("do it", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "do it");
    world.script.say(Some(1), asks("0", "touch it")).await;
    let request = follower.until("the request", opened).await;
    let given = world
        .command(answer(request.id, request.content_hash, "accept"))
        .await;
    assert!(matches!(given, Outcome::Accepted { .. }), "{given:?}");
    for time in ["first", "again", "once more"] {
        let Call::Responded(response) = world.call().await else {
            panic!("the agent was not told ({time})")
        };
        let told = response.subject.options[0].effect;
        assert_eq!(
            (response.request.as_str(), told),
            ("0", OptionEffect::AllowOnce)
        );
        world.script.say(Some(1), asks("0", "touch it")).await;
    }
}

/// The system's clock, put forward.
#[derive(Default)]
struct Forward(AtomicU64);

impl Clock for Forward {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() + self.0.load(Ordering::Acquire)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_waited_for_its_agent_for_too_long_is_not_given_but_asked_for_again() {
    let clock = Arc::new(Forward::default());
    let mut world = World::by(Arc::clone(&clock) as Arc<dyn Clock>).await;
    world.script.confirm_answers();
    let mut follower = world.follow(None).await;
    world.send("do it", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "do it");
    world.script.say(Some(1), asks("0", "touch it")).await;
    let request = follower.until("the request", opened).await;
    let accept = || answer(request.id, request.content_hash, "accept");
    world.command(accept()).await;
    assert!(matches!(world.call().await, Call::Responded(_)));
    // It did not arrive, and the agent is reached again much later.
    clock
        .0
        .store(limits::ANSWER_EXPIRES_MS + 1_000, Ordering::Release);
    world.script.say(Some(1), asks("0", "touch it")).await;
    let again = follower
        .until("the request, pending again", |event| {
            opened(event).filter(|request| request.status == RequestStatus::Pending)
        })
        .await;
    assert_eq!(again.id, request.id);
    assert!(world.calls.try_recv().is_err(), "nothing was given");
    world.command(accept()).await;
    assert!(matches!(world.call().await, Call::Responded(_)));
}
