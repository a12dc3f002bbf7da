//! What is left when the agent or the host goes.

use crate::{
    agent::Call,
    world::{World, answer, asks, closed, delta, ended},
};
use pilothouse_domain::{
    DispatchMode, EffectKind, Event, MessageId, NativeId, Outcome, ProviderEvent,
    ProviderEventKind, Refusal, RequestStatus, Row, RunStatus, limits::IMPORTED_TURNS,
    provider::TurnStatus, provider_event::NativePlace, refusal::ClosedAs, request::LostReason,
    row::RowKind, thread::Delivery,
};
use pilothouse_providers::contract::SendError;
use pilothouse_store::LedgerReader;

fn opened(event: &Event) -> Option<pilothouse_domain::RuntimeRequest> {
    match event {
        Event::RequestOpened { request } => Some((**request).clone()),
        _ => None,
    }
}

async fn asked(world: &mut World) -> pilothouse_domain::RuntimeRequest {
    let mut follower = world.follow(None).await;
    world.send("ask me", DispatchMode::StartImmediately).await;
    world.sent().await;
    world
        .script
        .say(Some(1), ProviderEventKind::TurnStarted)
        .await;
    world.script.say(Some(1), delta("m", "so far")).await;
    world.script.say(Some(1), asks("0", "touch it")).await;
    follower.until("the request", opened).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_loses_its_requests_and_the_next_message_resumes() {
    let mut world = World::new().await;
    let request = asked(&mut world).await;
    let mut follower = world.follow(None).await;
    world.script.die().await;
    let status = follower
        .until("the loss", |event| match event {
            Event::RequestClosed { status, .. } => Some(status.clone()),
            _ => None,
        })
        .await;
    assert_eq!(
        status,
        RequestStatus::Lost {
            reason: LostReason::AgentExited,
            answer: None
        }
    );
    let late = world
        .command(answer(request.id, request.content_hash, "accept"))
        .await;
    let Outcome::Refused {
        refusal: Refusal::NotRespondable { status, .. },
    } = late
    else {
        panic!("{late:?}")
    };
    assert_eq!(status, ClosedAs::Lost);

    world.send("go on", DispatchMode::StartImmediately).await;
    let Call::Opened { resume } = world.call().await else {
        panic!("the conversation was not resumed")
    };
    assert_eq!(resume.unwrap().as_str(), "native");
    assert_eq!(world.sent().await, "go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_host_marks_what_was_going_on_as_lost_and_sends_nothing_again() {
    let mut world = World::new().await;
    let request = asked(&mut world).await;
    let mut world = world.reopened().await;
    let follower = world.follow(None).await;
    assert!(follower.state.active.is_none() && follower.state.requests.is_empty());
    assert_eq!(
        follower.state.last_run.unwrap().status,
        RunStatus::Interrupted
    );
    let row = world
        .ledger
        .read({
            let (thread, key) = (world.thread, RowKind::Request.key(request.id.as_bytes()));
            move |reader| reader.row(thread, key)
        })
        .await
        .unwrap();
    let Some(Row::Request(row)) = row else {
        panic!("the request's row is gone")
    };
    assert!(
        matches!(row.status, RequestStatus::Lost { .. }),
        "{:?}",
        row.status
    );
    assert!(world.calls.try_recv().is_err(), "something was sent again");
    world.send("next", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_may_have_begun_is_unknown_and_not_sent_again() {
    let mut world = World::new().await;
    let mut follower = world.follow(None).await;
    world.script.refuse_next(SendError::Unknown);
    world.send("perhaps", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "perhaps");
    let delivery = follower
        .until("the delivery", |event| match event {
            Event::MessageDelivery { delivery, .. } => {
                matches!(delivery, Delivery::Unknown).then_some(())
            }
            _ => None,
        })
        .await;
    assert_eq!(delivery, ());
}

/// A turn that somebody else began in the conversation, or one that a message of ours began.
fn remembered(turn: u32, message: Option<MessageId>) -> [ProviderEvent; 2] {
    let mut kind = closed("u", "said");
    if let ProviderEventKind::ItemClosed {
        client_id, item, ..
    } = &mut kind
    {
        *client_id = message.map(|message| message.to_string());
        *item = NativeId(format!("item-{turn}"));
    }
    let place = NativePlace {
        thread: Some(NativeId::from("native")),
        root: None,
        turn: Some(NativeId(format!("past-{turn}"))),
    };
    let end = ended(TurnStatus::Completed);
    [kind, end].map(|kind| ProviderEvent {
        place: place.clone(),
        kind,
    })
}

/// What becomes of a message that the agent may have taken, when the conversation is read back as `history`.
async fn delivery_after(history: impl FnOnce(MessageId) -> Vec<ProviderEvent>) -> Delivery {
    let mut world = World::new().await;
    world.send("first", DispatchMode::StartImmediately).await;
    let first: MessageId = world.last_command().derive("message");
    world.sent().await;
    world
        .script
        .say(Some(1), ProviderEventKind::TurnStarted)
        .await;
    let mut follower = world.follow(None).await;
    world
        .script
        .say(Some(1), ended(TurnStatus::Completed))
        .await;
    let over = |event: &Event| matches!(event, Event::TurnEnded { .. }).then_some(());
    follower.until("the end", over).await;
    world.script.refuse_next(SendError::Unknown);
    world.send("perhaps", DispatchMode::StartImmediately).await;
    let message: MessageId = world.last_command().derive("message");
    let unknown = |event: &Event| match event {
        Event::MessageDelivery {
            delivery: Delivery::Unknown,
            ..
        } => Some(()),
        _ => None,
    };
    follower.until("the doubt", unknown).await;
    let mut world = world.reopened().await;
    world.script.remember(history(first));
    world.send("next", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "next");
    delivery_of(&world, message).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_absent_from_a_conversation_only_where_its_turn_would_have_been_read() {
    let failed = |delivery: &Delivery| matches!(delivery, Delivery::Failed { .. });
    // All of the conversation was read.
    let whole = delivery_after(|first| remembered(1, Some(first)).to_vec()).await;
    assert!(failed(&whole), "{whole:?}");
    // Not all, but from before the message on.
    let since = delivery_after(|first| {
        let others = (2..=8).flat_map(|turn| remembered(turn, None));
        remembered(1, Some(first))
            .into_iter()
            .chain(others)
            .collect()
    });
    let since = since.await;
    assert!(failed(&since), "{since:?}");
    // As many turns as were asked for, all typed elsewhere: the message may have come before them.
    let turns = 1..=IMPORTED_TURNS + 1;
    let later = delivery_after(|_| turns.flat_map(|turn| remembered(turn, None)).collect()).await;
    assert_eq!(later, Delivery::Unknown);
}

/// How far a message got.
async fn delivery_of(world: &World, message: MessageId) -> Delivery {
    let (thread, key) = (world.thread, RowKind::Message.key(message.as_bytes()));
    let row = world.ledger.read(move |reader| reader.row(thread, key));
    let Some(Row::Message(row)) = row.await.unwrap() else {
        panic!("the message's row is gone")
    };
    row.delivery
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_agent_was_only_being_started_is_undelivered_and_not_unknown() {
    let mut world = World::new().await;
    let _closed = world.script.hold_start();
    world
        .send("never said", DispatchMode::StartImmediately)
        .await;
    let message: MessageId = world.last_command().derive("message");
    let mut world = world.reopened().await;
    let delivery = delivery_of(&world, message).await;
    let Delivery::Failed { reason } = delivery else {
        panic!("{delivery:?}")
    };
    assert!(reason.contains("had not reached the agent"), "{reason}");
    world.send("next", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "next");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_agent_was_only_being_started_again_for_a_conversation_that_is_there_is_said_in_the_next_life()
 {
    let mut world = World::new().await;
    world.send("first", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "first");
    // The first message's agent ends with its host; what becomes of it is not looked at here.
    let mut world = world.reopened().await;
    let _closed = world.script.hold_start();
    world.send("waits", DispatchMode::StartImmediately).await;
    let message: MessageId = world.last_command().derive("message");
    let mut world = world.reopened().await;
    // What the conversation holds was to be read first: until then the message waits on the host, and is said in its next life.
    assert_eq!(world.sent().await, "waits");
    let delivery = delivery_of(&world, message).await;
    assert!(
        !matches!(delivery, Delivery::Unknown | Delivery::Failed { .. }),
        "{delivery:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_ledger_on_the_same_directory_is_refused() {
    let world = World::new().await;
    let (script, _calls) = crate::agent::Script::new();
    let again = pilothouse_ledger::Ledger::open(
        crate::world::config(world.dir.path(), &script),
        tokio::runtime::Handle::current(),
    );
    let error = again
        .err()
        .expect("two ledgers on one directory")
        .to_string();
    assert!(error.contains(&std::process::id().to_string()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_epoch_makes_every_known_place_a_gap_and_keeps_what_is_there() {
    let world = World::new().await;
    let (dir, thread) = (world.dir.clone(), world.thread);
    let ledger = &world.ledger;
    let before = ledger.epoch();
    let at = ledger.subscribe(thread, None, 10_000).await.unwrap();
    let at = at.answer.high_water;
    let feed = ledger
        .feed(None)
        .await
        .unwrap()
        .next()
        .await
        .unwrap()
        .unwrap();
    world.ledger.shutdown().await;

    let (script, _calls) = crate::agent::Script::new();
    let open = |new_epoch| {
        let config = pilothouse_ledger::LedgerConfig {
            new_epoch,
            ..crate::world::config(dir.path(), &script)
        };
        pilothouse_ledger::Ledger::open(config, tokio::runtime::Handle::current()).unwrap()
    };
    let ledger = open(true);
    let epoch = ledger.epoch();
    assert_ne!(epoch, before);
    let again = ledger.subscribe(thread, Some(at), 10_000).await.unwrap();
    assert_eq!(
        again.answer.gap,
        Some(pilothouse_domain::feed::GapReason::Epoch)
    );
    assert_eq!(again.answer.snapshot.unwrap().state.thread, thread);
    let step = ledger.feed(Some(feed.cursor)).await.unwrap().next().await;
    let step = step.unwrap().unwrap();
    assert!(step.reset && step.cursor.epoch == epoch);
    assert_eq!(step.threads.len(), 1, "the thread is there as before");
    ledger.shutdown().await;

    let ledger = open(false);
    assert_eq!(ledger.epoch(), epoch, "it was started once");
    ledger.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_to_be_done_stands_on_disk_until_it_is_done() {
    let mut world = World::new().await;
    let mut follower = world.follow(None).await;
    let gate = world.script.hold_start();
    // The agent is still being started when the command has its outcome: a crash now must not forget the sending.
    world.send("perhaps", DispatchMode::StartImmediately).await;
    let reader = LedgerReader::open(world.dir.path()).unwrap();
    let unfinished = reader.unfinished_effects().unwrap();
    assert!(
        matches!(&unfinished[..], [stored] if matches!(stored.effect.kind, EffectKind::SendTurn { .. })),
        "{unfinished:?}"
    );
    gate.notify_one();
    assert_eq!(world.sent().await, "perhaps");
    let bound = |event: &Event| matches!(event, Event::AttemptBound { .. }).then_some(());
    follower.until("the turn", bound).await;
    assert!(reader.unfinished_effects().unwrap().is_empty());
}
