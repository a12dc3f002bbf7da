//! What is done with a conversation as a whole, on real codex: copied, taken back, shortened.

use crate::support::{World, say, selection};
use pilothouse_domain::{
    ItemContent, NativeId, ProviderEvent, ProviderEventKind, provider::TurnStatus,
};
use pilothouse_providers::contract::{
    Compaction, ForkThread, OpenError, RevertError, Reverted, SendError,
};
use serde_json::{Value, json};

fn scripts() -> Value {
    json!({
        "one": [say("First.")], "two": [say("Second.")], "three": [say("Third.")],
        "held": [{"text": "At last.", "hold": "gate"}],
    })
}

async fn said(world: &mut World, thread: &NativeId, script: &str) -> NativeId {
    let turn = world.send(thread, &format!("[[script:{script}]]")).await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    turn
}

/// What a conversation holds: its turns, and what was answered in each.
async fn held(world: &World, thread: &NativeId) -> Vec<(NativeId, String)> {
    let history = world.runtime.history().expect("codex reads back");
    let events = history.read(thread.clone(), 50).await.unwrap();
    let answer = |event: &ProviderEvent| match &event.kind {
        ProviderEventKind::ItemClosed {
            content: ItemContent::AssistantMessage { text },
            ..
        } => Some((event.place.turn.clone().unwrap(), text.preview().to_owned())),
        _ => None,
    };
    events.iter().filter_map(answer).collect()
}

fn fork(world: &World, source: &NativeId, through: Option<&NativeId>) -> ForkThread {
    ForkThread {
        source: source.clone(),
        through: through.cloned(),
        whole: through.is_none(),
        cwd: world.workspace(),
        selection: selection(world.mode),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_holds_what_was_said_up_to_its_turn_and_goes_its_own_way() {
    let mut world = World::start(scripts()).await;
    let source = world.open(None).await;
    let first = said(&mut world, &source, "one").await;
    let second = said(&mut world, &source, "two").await;
    let forking = world.runtime.clone();
    let forking = forking.forking().expect("codex copies");
    let copy = forking
        .fork(fork(&world, &source, Some(&first)))
        .await
        .unwrap();
    assert_ne!(copy, source);
    assert_eq!(
        held(&world, &copy).await,
        [(first.clone(), "First.".to_owned())]
    );
    let third = said(&mut world, &copy, "three").await;
    let expected = [
        (first.clone(), "First.".to_owned()),
        (third, "Third.".to_owned()),
    ];
    assert_eq!(held(&world, &copy).await, expected);
    let expected = [
        (first.clone(), "First.".to_owned()),
        (second, "Second.".to_owned()),
    ];
    assert_eq!(held(&world, &source).await, expected);

    // While a turn goes on in the source, and by a process that has never loaded it.
    world.send(&source, "[[script:held]]").await;
    forking
        .fork(fork(&world, &source, Some(&first)))
        .await
        .unwrap();
    world.model.release("gate");
    world.turn_end().await;
    world.runtime.stop().await;
    world.restart().await;
    let forking = world.runtime.clone();
    let forking = forking.forking().unwrap();
    let whole = forking.fork(fork(&world, &source, None)).await.unwrap();
    assert_eq!(held(&world, &whole).await.len(), 3);
    said(&mut world, &whole, "one").await;

    let gone = NativeId::from("01a22c5b-d25f-7193-a901-c448dcd1c5fe");
    assert_eq!(
        forking.fork(fork(&world, &gone, None)).await,
        Err(OpenError::NotFound {
            thread: gone.clone()
        })
    );
    let strange = NativeId::from("no-such-turn");
    let refused = forking.fork(fork(&world, &source, Some(&strange))).await;
    assert!(
        matches!(refused, Err(OpenError::Refused { .. })),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_are_taken_back_once_whatever_is_asked_again_and_never_while_one_goes_on() {
    let mut world = World::start(scripts()).await;
    let thread = world.open(None).await;
    let first = said(&mut world, &thread, "one").await;
    let second = said(&mut world, &thread, "two").await;
    let third = said(&mut world, &thread, "three").await;
    let runtime = world.runtime.clone();
    let reverting = runtime.reverting().expect("codex takes back");

    world.send(&thread, "[[script:held]]").await;
    world
        .until("the turn to begin", |event| {
            matches!(event.kind, ProviderEventKind::TurnStarted).then_some(())
        })
        .await;
    assert_eq!(
        reverting.revert(thread.clone(), second.clone()).await,
        Err(RevertError::Busy)
    );
    world.model.release("gate");
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);

    let turns = |held: Vec<(NativeId, String)>| -> Vec<NativeId> {
        held.into_iter().map(|(turn, _)| turn).collect()
    };
    assert_eq!(turns(held(&world, &thread).await).len(), 4);
    for outcome in [Reverted::Forgotten, Reverted::NotThere] {
        let reverted = reverting.revert(thread.clone(), second.clone()).await;
        assert_eq!(reverted, Ok(outcome));
        assert_eq!(
            turns(held(&world, &thread).await),
            std::slice::from_ref(&first)
        );
    }
    assert_eq!(
        reverting.revert(thread.clone(), third).await,
        Ok(Reverted::NotThere)
    );
    let fourth = said(&mut world, &thread, "two").await;
    assert_eq!(turns(held(&world, &thread).await), [first.clone(), fourth]);
    assert_eq!(
        reverting.revert(thread.clone(), first).await,
        Ok(Reverted::Forgotten)
    );
    assert_eq!(turns(held(&world, &thread).await), []);
    said(&mut world, &thread, "one").await;

    // In its next life codex has forgotten the same.
    world.runtime.stop().await;
    world.restart().await;
    assert_eq!(world.open(Some(thread.clone())).await, thread);
    assert_eq!(held(&world, &thread).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_context_is_shortened_as_a_turn_with_an_item_of_its_own() {
    let mut world = World::start(scripts()).await;
    let thread = world.open(None).await;
    said(&mut world, &thread, "one").await;
    let runtime = world.runtime.clone();
    let compacting = runtime.compacting().expect("codex shortens its context");
    assert_eq!(
        compacting.compact(thread.clone()).await,
        Ok(Compaction::Turn { turn: None })
    );
    let turn = world
        .until("the compaction", |event| match &event.kind {
            ProviderEventKind::ItemClosed {
                content: ItemContent::Compaction { .. },
                ..
            } => event.place.turn.clone(),
            _ => None,
        })
        .await;
    let ended = world
        .until("its turn's end", |event| match &event.kind {
            ProviderEventKind::TurnEnded { status, .. }
                if event.place.turn.as_ref() == Some(&turn) =>
            {
                Some(*status)
            }
            _ => None,
        })
        .await;
    assert_eq!(ended, TurnStatus::Completed);

    world.send(&thread, "[[script:held]]").await;
    world
        .until("the turn to begin", |event| {
            matches!(event.kind, ProviderEventKind::TurnStarted).then_some(())
        })
        .await;
    let busy = compacting.compact(thread.clone()).await;
    assert_eq!(busy, Err(SendError::Busy));
    world.model.release("gate");
    world.turn_end().await;
}
