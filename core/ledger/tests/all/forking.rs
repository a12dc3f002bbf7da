//! A fork through the ledger: a reference until its first message, then a copy that its agent makes.

use crate::{
    agent::Call,
    world::{Follower, World, closed, ended},
};
use pilothouse_domain::{
    CommandBody, CommandId, DispatchMode, Event, Outcome, Refusal, RunStatus, ThreadId,
    command::ForkWorkspace, provider::TurnStatus, run::ErrorCode, transfer::TransferStatus,
};

fn run_ended(event: &Event) -> Option<(RunStatus, Option<ErrorCode>)> {
    match event {
        Event::RunEnded { status, error, .. } => {
            Some((*status, error.as_ref().map(|error| error.code)))
        }
        _ => None,
    }
}

async fn run_to_its_end(world: &mut World, follower: &mut Follower, turn: u32, text: &str) {
    world.send(text, DispatchMode::StartImmediately).await;
    assert_eq!(world.sent().await, text);
    let script = &world.script;
    script
        .say(Some(turn), closed(&format!("m{turn}"), "Done."))
        .await;
    script.say(Some(turn), ended(TurnStatus::Completed)).await;
    follower.until("the end", run_ended).await;
}

/// Forks the world's thread, which is then the fork.
async fn fork(world: &mut World, command: u8) -> (ThreadId, Outcome) {
    let id = CommandId::from_bytes([command; 16]);
    let source = std::mem::replace(&mut world.thread, id.derive("thread"));
    let body = CommandBody::ThreadFork {
        title: "Another way".into(),
        source,
        run: None,
        workspace: ForkWorkspace::SameTree,
    };
    (source, world.command_as(id, body).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_message_of_a_fork_has_the_agent_copy_the_conversation_up_to_its_point() {
    let mut world = World::new().await;
    let mut source = world.follow(None).await;
    run_to_its_end(&mut world, &mut source, 1, "one").await;
    let (thread, made) = fork(&mut world, 50).await;
    assert!(matches!(made, Outcome::Accepted { .. }), "{made:?}");
    // The source goes on before the fork does: the copy is of what was, not of what is.
    let fork = std::mem::replace(&mut world.thread, thread);
    run_to_its_end(&mut world, &mut source, 2, "two").await;
    world.thread = fork;

    // A fork is on disk, and nothing of it in the agent.
    let cursor = source.cursor;
    let mut world = world.reopened().await;
    let mut follower = world.follow(None).await;
    assert_eq!(follower.state.transfers.len(), 1);
    world
        .send("differently", DispatchMode::StartImmediately)
        .await;
    let Call::Forked(asked) = world.call().await else {
        panic!("the agent was not asked for a copy")
    };
    assert_eq!(asked.source.as_str(), "native");
    assert_eq!(asked.through.unwrap().as_str(), "turn-1");
    assert!(!asked.whole, "the source has gone on");
    let Call::Sent(sent) = world.call().await else {
        panic!("nothing was sent")
    };
    assert_eq!((sent.thread.as_str(), &*sent.text), ("copy", "differently"));
    follower
        .until("the copy", |event| match event {
            Event::TransferStatusChanged {
                status: TransferStatus::Resolved { .. },
                ..
            } => Some(()),
            _ => None,
        })
        .await;
    let script = world.script.clone();
    script
        .say_in("copy", Some(1), closed("m", "Otherwise."))
        .await;
    script
        .say_in("copy", Some(1), ended(TurnStatus::Completed))
        .await;
    let end = follower.until("the fork's end", run_ended).await;
    assert_eq!(end, (RunStatus::Completed, None));
    // The second message goes on in the copy.
    world.send("and on", DispatchMode::StartImmediately).await;
    let Call::Sent(sent) = world.call().await else {
        panic!("the copy was copied again")
    };
    assert_eq!(sent.thread.as_str(), "copy");
    // Its source has nothing to do with it.
    let source_now = world
        .ledger
        .subscribe(thread, Some(cursor), 1024)
        .await
        .unwrap();
    assert_eq!(
        source_now.answer.high_water.seq,
        cursor.seq + 1,
        "only that its host was restarted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_conversation_that_is_gone_fails_the_run_and_can_be_tried_again() {
    let mut world = World::new().await;
    let mut source = world.follow(None).await;
    run_to_its_end(&mut world, &mut source, 1, "one").await;
    fork(&mut world, 50).await;
    let mut follower = world.follow(None).await;
    world.script.forget_source();
    world
        .send("differently", DispatchMode::StartImmediately)
        .await;
    let end = follower.until("the end", run_ended).await;
    assert_eq!(end, (RunStatus::Failed, Some(ErrorCode::Resume)));
    assert_eq!(follower.state.transfers.len(), 1);
    world
        .send("once more", DispatchMode::StartImmediately)
        .await;
    assert_eq!(world.sent().await, "once more");
}

/// What the run that goes on has said so far is no part of a fork after the one before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_while_a_run_goes_on_is_of_what_was_before_it() {
    let mut world = World::new().await;
    let mut source = world.follow(None).await;
    run_to_its_end(&mut world, &mut source, 1, "one").await;
    world.send("two", DispatchMode::StartImmediately).await;
    let Call::Sent(_) = world.call().await else {
        panic!("nothing was sent")
    };
    let (_, made) = fork(&mut world, 50).await;
    assert!(matches!(made, Outcome::Accepted { .. }), "{made:?}");
    world
        .send("differently", DispatchMode::StartImmediately)
        .await;
    let Call::Forked(asked) = world.call().await else {
        panic!("the agent was not asked for a copy")
    };
    assert_eq!(asked.through.unwrap().as_str(), "turn-1");
    assert!(!asked.whole, "another run goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_is_not_there_cannot_be_forked_and_a_repeat_makes_one_thread() {
    let mut world = World::new().await;
    let thread = world.thread;
    let missing = CommandId::from_bytes([9; 16]).derive("thread");
    world.thread = missing;
    let (_, outcome) = fork(&mut world, 50).await;
    let refusal = Refusal::UnknownThread { thread: missing };
    assert_eq!(outcome, Outcome::Refused { refusal });

    world.thread = thread;
    let mut source = world.follow(None).await;
    run_to_its_end(&mut world, &mut source, 1, "one").await;
    let (_, first) = fork(&mut world, 51).await;
    world.thread = thread;
    let (_, second) = fork(&mut world, 51).await;
    assert_eq!(first, second);
}
