//! Taking back runs and shortening the context through the ledger, also when agent or host end in between.

use crate::{
    agent::Call,
    world::{Follower, World, closed, ended},
};
use pilothouse_domain::{
    BlobHash, CapabilityFlag, CapabilityValue, CommandBody, CommandId, DispatchMode, Event,
    ItemContent, ItemStatus, Mode, NativeId, Outcome, ProviderEventKind, Refusal, Row, RunId,
    RunStatus,
    capability::Source,
    event::RollbackOutcome,
    provider::TurnStatus,
    row::RowKind,
    run::{ErrorCode, RunError},
    thread::Attachment,
};
use pilothouse_providers::contract::{RevertError, Reverted, SendError};
use pilothouse_store::LedgerReader;

fn run_ended(event: &Event) -> Option<(RunId, RunStatus)> {
    match event {
        Event::RunEnded { run, status, .. } => Some((*run, *status)),
        _ => None,
    }
}

fn rolled_back(event: &Event) -> Option<RollbackOutcome> {
    match event {
        Event::RollbackEnded { outcome, .. } => Some(outcome.clone()),
        _ => None,
    }
}

async fn run_to_its_end(world: &mut World, follower: &mut Follower, turn: u32) -> RunId {
    let text = format!("message {turn}");
    world.send(&text, DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, text);
    let script = &world.script;
    script
        .say(Some(turn), closed(&format!("m{turn}"), "Done."))
        .await;
    script.say(Some(turn), ended(TurnStatus::Completed)).await;
    follower.until("the end", run_ended).await.0
}

async fn three_runs() -> (World, Follower, Vec<RunId>) {
    let mut world = World::new().await;
    let mut follower = world.follow(None).await;
    let mut runs = Vec::new();
    for turn in 1..=3 {
        runs.push(run_to_its_end(&mut world, &mut follower, turn).await);
    }
    (world, follower, runs)
}

async fn take_back(world: &mut World, before: RunId, last: RunId) {
    let body = CommandBody::ThreadRollback { before, last };
    let outcome = world.command(body).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
}

/// The next time the agent is asked to forget.
async fn asked(world: &mut World) -> (NativeId, NativeId) {
    loop {
        match world.call().await {
            Call::Reverted { thread, from } => return (thread, from),
            Call::Opened { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn statuses(world: &World, runs: &[RunId]) -> Vec<RunStatus> {
    let reader = LedgerReader::open(world.dir.path()).unwrap();
    let status = |run: &RunId| match reader.row(world.thread, RowKind::Run.key(run.as_bytes())) {
        Ok(Some(Row::Run(row))) => row.status,
        other => panic!("{other:?}"),
    };
    runs.iter().map(status).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_forgets_from_the_first_turn_on_and_then_the_runs_are_marked() {
    let (mut world, mut follower, runs) = three_runs().await;
    take_back(&mut world, runs[1], runs[2]).await;
    let (thread, from) = asked(&mut world).await;
    assert_eq!((thread.as_str(), from.as_str()), ("native", "turn-2"));
    let RollbackOutcome::Applied { runs: gone, head } =
        follower.until("the outcome", rolled_back).await
    else {
        panic!("nothing was taken back")
    };
    assert_eq!((gone, head.unwrap().id), (runs[1..].to_vec(), runs[0]));
    let back = RunStatus::RolledBack;
    assert_eq!(statuses(&world, &runs), [RunStatus::Completed, back, back]);
    // What comes next goes on from what stands, and a device that comes later sees the same.
    run_to_its_end(&mut world, &mut follower, 4).await;
    let late = world.follow(None).await;
    assert_eq!(
        late.state.digest(&late.cursor),
        follower.state.digest(&follower.cursor)
    );
}

/// A run that ends before the agent has named a turn for it.
async fn unnamed(world: &mut World, follower: &mut Follower) -> RunId {
    let error = RunError {
        code: ErrorCode::Agent,
        message: "not now".into(),
    };
    world.script.refuse_next(SendError::Refused { error });
    world.send("refused", DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, "refused");
    let (run, status) = follower.until("the end", run_ended).await;
    assert_eq!(status, RunStatus::Failed);
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_run_without_a_turn_the_first_turn_after_it_is_forgotten_and_nothing_if_there_is_none()
 {
    let mut world = World::new().await;
    let mut follower = world.follow(None).await;
    let mut runs = vec![run_to_its_end(&mut world, &mut follower, 1).await];
    runs.push(unnamed(&mut world, &mut follower).await);
    runs.push(unnamed(&mut world, &mut follower).await);
    // The agent counts the two that it refused.
    runs.push(run_to_its_end(&mut world, &mut follower, 4).await);
    runs.push(unnamed(&mut world, &mut follower).await);
    let back = RunStatus::RolledBack;

    take_back(&mut world, runs[4], runs[4]).await;
    let outcome = follower.until("the outcome", rolled_back).await;
    assert!(matches!(outcome, RollbackOutcome::Applied { .. }));
    assert_eq!(statuses(&world, &runs)[3..], [RunStatus::Completed, back]);

    // Had it been asked for the run above, that call would come first.
    take_back(&mut world, runs[1], runs[3]).await;
    assert_eq!(asked(&mut world).await.1.as_str(), "turn-4");
    let outcome = follower.until("the outcome", rolled_back).await;
    let RollbackOutcome::Applied { runs: gone, head } = outcome else {
        panic!("nothing was taken back")
    };
    assert_eq!((gone, head.unwrap().id), (runs[1..4].to_vec(), runs[0]));
    assert_eq!(
        statuses(&world, &runs),
        [RunStatus::Completed, back, back, back, back]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_agent_does_not_hold_the_first_turn_the_next_that_it_holds_is_forgotten() {
    let (mut world, mut follower, runs) = three_runs().await;
    // As one that ended after it had named the turn, and before it had kept it.
    world.script.answer_revert(Ok(Reverted::NotThere));
    take_back(&mut world, runs[0], runs[2]).await;
    assert_eq!(asked(&mut world).await.1.as_str(), "turn-1");
    assert_eq!(asked(&mut world).await.1.as_str(), "turn-2");
    let outcome = follower.until("the outcome", rolled_back).await;
    assert!(matches!(outcome, RollbackOutcome::Applied { .. }));
    // What follows the turn that was forgotten is not asked for: the next call is of the next message.
    world.send("next", DispatchMode::StartImmediately).await;
    let next = world.call().await;
    assert!(matches!(next, Call::Sent(_)), "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ends_while_it_forgets_is_started_and_asked_again() {
    let (mut world, mut follower, runs) = three_runs().await;
    let before = world.script.incarnation();
    world.script.answer_revert(Err(RevertError::Lost));
    asked_twice(&mut world, &mut follower, runs[2]).await;
    assert_ne!(world.script.incarnation(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_answer_and_lives_is_asked_again_and_not_ended() {
    let (mut world, mut follower, runs) = three_runs().await;
    let before = world.script.incarnation();
    world.script.answer_revert(Err(RevertError::Unknown));
    asked_twice(&mut world, &mut follower, runs[2]).await;
    assert_eq!(world.script.incarnation(), before);
}

async fn asked_twice(world: &mut World, follower: &mut Follower, run: RunId) {
    take_back(world, run, run).await;
    let first = asked(world).await;
    let second = asked(world).await;
    assert_eq!(first, second);
    let outcome = follower.until("the outcome", rolled_back).await;
    assert!(matches!(outcome, RollbackOutcome::Applied { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_ends_while_the_agent_forgets_asks_it_again_in_its_next_life() {
    let (mut world, _, runs) = three_runs().await;
    let gate = world.script.hold_revert();
    take_back(&mut world, runs[1], runs[2]).await;
    let before = asked(&mut world).await;
    // A message that came meanwhile waits until it is known what the conversation holds.
    world.send("next", DispatchMode::StartImmediately).await;
    let mut world = world.reopened().await;
    let mut follower = world.follow(None).await;
    drop(gate);
    assert_eq!(asked(&mut world).await, before);
    if follower.state.rollback.is_some() {
        let outcome = follower.until("the outcome", rolled_back).await;
        assert!(matches!(outcome, RollbackOutcome::Applied { .. }));
    }
    assert_eq!(world.sent().await, "next");
    let back = RunStatus::RolledBack;
    assert_eq!(statuses(&world, &runs), [RunStatus::Completed, back, back]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_refuses_to_forget_stands() {
    let (mut world, mut follower, runs) = three_runs().await;
    world.script.answer_revert(Err(RevertError::Busy));
    take_back(&mut world, runs[1], runs[2]).await;
    let outcome = follower.until("the outcome", rolled_back).await;
    assert!(matches!(outcome, RollbackOutcome::Refused { .. }));
    assert_eq!(statuses(&world, &runs), [RunStatus::Completed; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_shortened_in_a_run_that_the_agents_turn_ends() {
    let (mut world, mut follower, _) = three_runs().await;
    let outcome = world.command(CommandBody::ThreadCompact).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
    let Call::Compacted { thread } = world.call().await else {
        panic!("the agent was not asked")
    };
    assert_eq!(thread.as_str(), "native");
    world
        .script
        .say(Some(9), ProviderEventKind::TurnStarted)
        .await;
    let shortened = ProviderEventKind::ItemClosed {
        item: "c".into(),
        status: ItemStatus::Completed,
        content: ItemContent::Compaction {
            text: Default::default(),
        },
        client_id: None,
    };
    world.script.say(Some(9), shortened).await;
    world
        .script
        .say(Some(9), ended(TurnStatus::Completed))
        .await;
    let run: RunId = world.last_command().derive("run");
    assert_eq!(
        follower.until("its end", run_ended).await,
        (run, RunStatus::Completed)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_offers_is_known_to_its_thread_and_to_those_that_have_not_begun() {
    let mut world = World::new().await;
    let select = |model: &str| CommandBody::ThreadSelect {
        model: Some(model.into()),
        effort: Some("low".into()),
        mode: Mode::AutoEdit,
    };
    // Nobody has said anything yet.
    let outcome = world.command(select("anything")).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
    world.send("go", DispatchMode::StartImmediately).await;
    let Call::Opened { .. } = world.call().await else {
        panic!("nothing was opened")
    };
    let Call::Sent(sent) = world.call().await else {
        panic!("nothing was sent")
    };
    assert_eq!(sent.selection.model.as_deref(), Some("anything"));
    let unknown = Outcome::Refused {
        refusal: Refusal::UnknownModel {
            model: "smal".into(),
            nearest: vec!["small".into(), "big".into()],
        },
    };
    assert_eq!(world.command(select("smal")).await, unknown);
    let outcome = world.command(select("small")).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");

    // Another thread of the same agent, which has no session yet.
    let first = world.thread;
    let id = CommandId::from_bytes([60; 16]);
    world.thread = id.derive("thread");
    let body = CommandBody::ThreadCreate {
        title: "Another".into(),
        workspace: "here".into(),
        selection: sent.selection.clone(),
    };
    world.command_as(id, body).await;
    assert_eq!(world.command(select("smal")).await, unknown);
    // A device that comes fresh is given the models with the thread.
    world.thread = first;
    let follower = world.follow(None).await;
    let rows = &follower.subscription.answer.rows;
    assert!(
        rows.iter()
            .any(|row| matches!(row, Row::Session(session) if session.models.len() == 2))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_can_do_is_said_again_when_the_model_changes_it_and_only_then() {
    let mut world = World::new().await;
    world.send("go", DispatchMode::StartImmediately).await;
    world.call().await;
    world.call().await;
    let mut follower = world.follow(None).await;
    let select = |model: &str, mode| CommandBody::ThreadSelect {
        model: Some(model.into()),
        effort: None,
        mode,
    };
    let learned = |event: &Event| match event {
        Event::CapabilitiesLearned { capabilities, .. } => Some((
            capabilities.version,
            capabilities.facts[&CapabilityFlag::ImageInput].clone(),
        )),
        _ => None,
    };
    for (model, mode, version, value) in [
        ("small", Mode::Ask, 2, CapabilityValue::No),
        ("big", Mode::Ask, 3, CapabilityValue::Yes),
        // Another mode changes nothing, and nothing is said: the next to be said is the next version.
        ("big", Mode::ReadOnly, 4, CapabilityValue::No),
    ] {
        world.command(select(model, mode)).await;
        if version == 4 {
            world.command(select("small", mode)).await;
        }
        let (said, fact) = follower.until("what it can do", learned).await;
        assert_eq!((said, fact.value), (version, value));
        assert_eq!((fact.source, &*fact.version), (Source::Handshake, "1"));
        assert_ne!(
            fact.observed_at, "2026-11-30",
            "the day on which it was seen"
        );
    }
    // Another account: asked anew, what it offers and what its model takes are told.
    world.command(select("big", Mode::Ask)).await;
    assert_eq!(follower.until("what it can do", learned).await.0, 5);
    world.script.changes_account().await;
    let mut last = None;
    let offered = follower.until("what it offers", |event| {
        last = learned(event).or(last.take());
        match event {
            Event::ModelsOffered { models, .. } => Some(models[0].images),
            _ => None,
        }
    });
    assert_eq!(offered.await, Some(false));
    let (said, fact) = last.expect("what it can do is said before");
    assert_eq!((said, fact.value), (6, CapabilityValue::No));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_that_was_kept_stands_as_a_file_for_the_agent_and_one_that_was_not_is_refused() {
    let mut world = World::new().await;
    let picture = |bytes: &[u8]| Attachment {
        name: "cat.png".into(),
        media_type: "image/png".into(),
        hash: BlobHash::of(bytes),
        bytes: bytes.len() as u64,
    };
    let send = |file: Attachment| CommandBody::MessageSend {
        text: String::new(),
        attachments: vec![file],
        dispatch: DispatchMode::StartImmediately,
        accept_stop: vec![],
    };
    let bytes: Vec<u8> = (0..3 * 1024 * 1024_u32).map(|n| (n % 251) as u8).collect();
    let missing = world.command(send(picture(&bytes))).await;
    let Outcome::Refused {
        refusal: Refusal::Invalid { field, .. },
    } = missing
    else {
        panic!("{missing:?}")
    };
    assert_eq!(field, "attachments");

    let kept = world.ledger.keep_blob(bytes.clone()).await.unwrap();
    assert_eq!(kept, BlobHash::of(&bytes));
    let taken = world.command(send(picture(&bytes))).await;
    assert!(matches!(taken, Outcome::Accepted { .. }), "{taken:?}");
    let sent = loop {
        if let Call::Sent(sent) = world.call().await {
            break sent;
        }
    };
    let file = &sent.attachments[0];
    assert_eq!((&*file.name, file.bytes), ("cat.png", bytes.len() as u64));
    assert!(file.path.extension().is_some_and(|ending| ending == "png"));
    assert_eq!(std::fs::read(&file.path).unwrap(), bytes);
    let path = file.path.clone();
    // With the agents of a life, what was laid out for them goes.
    let world = world.reopened().await;
    assert!(!path.exists());
    let stored = world.ledger.read(move |reader| reader.blob_len(kept)).await;
    assert_eq!(stored.unwrap(), Some(bytes.len() as u64));
}
