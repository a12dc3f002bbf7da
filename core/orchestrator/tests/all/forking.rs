//! Forks: a thread that begins as another stood.

use crate::world::{PHONE, World, command_id, device, policy};
use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, Command, CommandBody, DispatchMode, EffectKind, EffectOutcome,
    Event, ItemContent, ItemStatus, LoggedEvent, ProviderEvent, ProviderEventKind, Refusal, RunId,
    RunStatus,
    command::ForkWorkspace,
    provider::TurnStatus,
    provider_event::NativePlace,
    refusal::{Fallback, Unfit},
    run::{ErrorCode, RunError},
    thread::{Actor, Relationship},
    transfer::{HandoffStrategy, TransferKind, TransferStatus},
};
use pilothouse_orchestrator::{Offer, Unavailable, affordances, memory::MemoryThread};

fn forking(head: CapabilityValue, turn: CapabilityValue) -> World {
    let mut policy = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    for agent in policy.agents.values_mut() {
        agent.capabilities.insert(CapabilityFlag::ForkThread, head);
        agent
            .capabilities
            .insert(CapabilityFlag::ForkFromTurn, turn);
    }
    World::on(policy)
}

fn able() -> World {
    forking(CapabilityValue::Yes, CapabilityValue::Yes)
}

fn person() -> Actor {
    Actor::Device {
        device: device(PHONE),
    }
}

/// A command that forks the world's thread.
fn command(world: &World, number: u64, run: Option<RunId>) -> Command {
    let id = command_id(number);
    Command {
        id,
        thread: id.derive("thread"),
        device_seq: 1,
        based_on: None,
        issued_at_ms: 1,
        body: CommandBody::ThreadFork {
            title: "Another way".to_owned(),
            source: world.thread.state.thread,
            run,
            workspace: ForkWorkspace::SameTree,
        },
    }
}

fn fork(world: &World, run: Option<RunId>) -> Result<MemoryThread, Refusal> {
    world.thread.fork(person(), &command(world, 900, run))
}

fn run_to_its_end(world: &mut World, text: &str) -> RunId {
    let run = world.running(text);
    world.end_turn(TurnStatus::Completed);
    run
}

fn say(thread: &mut MemoryThread, number: u64, text: &str) {
    let id = command_id(number);
    let command = Command {
        id,
        thread: thread.state.thread,
        device_seq: number,
        based_on: None,
        issued_at_ms: 1,
        body: CommandBody::MessageSend {
            text: text.to_owned(),
            attachments: Vec::new(),
            dispatch: DispatchMode::StartImmediately,
            accept_stop: Vec::new(),
        },
    };
    thread.command(person(), &command).unwrap();
}

fn fork_item(thread: &MemoryThread) -> ItemStatus {
    let rows = thread.rows.0.values();
    let found: Vec<_> = rows
        .filter_map(|row| match row {
            pilothouse_domain::Row::Item(item)
                if matches!(item.content, ItemContent::Fork { .. }) =>
            {
                Some(item.status)
            }
            _ => None,
        })
        .collect();
    assert_eq!(found.len(), 1);
    found[0]
}

fn bound(world: &World, thread: &mut MemoryThread, native: &str) {
    let event = ProviderEvent {
        place: NativePlace {
            thread: Some(native.into()),
            root: None,
            turn: None,
        },
        kind: ProviderEventKind::ThreadBound,
    };
    thread.provider(&world.session, &event);
}

#[test]
fn a_fork_is_made_without_asking_the_agent_and_names_the_point_it_begins_at() {
    let mut world = able();
    let first = run_to_its_end(&mut world, "one");
    let last = run_to_its_end(&mut world, "two");
    let thread = fork(&world, None).unwrap();
    assert_eq!(thread.effects, []);
    let meta = thread.state.meta.as_ref().unwrap();
    let source = world.thread.state.meta.as_ref().unwrap();
    assert_eq!(meta.selection, source.selection);
    assert_eq!(meta.workspace, source.workspace);
    let lineage = meta.lineage.unwrap();
    assert_eq!(lineage.parent, world.thread.state.thread);
    assert_eq!(lineage.relationship, Relationship::Fork);
    assert_eq!(thread.summary.as_ref().unwrap().lineage, Some(lineage));
    let slot = thread.state.transfers[0];
    assert_eq!((slot.kind, slot.run), (TransferKind::Fork, Some(last)));

    let earlier = fork(&world, Some(first)).unwrap();
    assert_eq!(earlier.state.transfers[0].run, Some(first));
    // A fork of a fork belongs to the same family.
    let mut of_fork = able();
    of_fork.thread = thread;
    of_fork.running("three");
    of_fork.end_turn(TurnStatus::Completed);
    let grandchild = fork(&of_fork, None);
    let lineage = grandchild.unwrap().state.meta.unwrap().lineage.unwrap();
    assert_eq!(lineage.root, world.thread.state.thread);
}

#[test]
fn the_first_message_takes_the_copy_and_the_timeline_says_where_it_comes_from() {
    let mut world = able();
    let run = run_to_its_end(&mut world, "one");
    let mut thread = fork(&world, None).unwrap();
    say(&mut thread, 901, "differently");
    let effect = thread.effects.remove(0);
    assert!(matches!(effect.kind, EffectKind::SendTurn { .. }));
    assert_eq!(fork_item(&thread), ItemStatus::Open);
    bound(&world, &mut thread, "copy");
    assert_eq!(fork_item(&thread), ItemStatus::Completed);
    assert_eq!(thread.state.transfers, []);
    let resolved = thread.entries.iter().flat_map(|entry| &entry.events);
    let handoff = resolved
        .filter_map(|event| match event {
            LoggedEvent::Known(event) => match &**event {
                Event::TransferStatusChanged {
                    status: TransferStatus::Resolved { handoff },
                    ..
                } => Some(handoff.clone()),
                _ => None,
            },
            LoggedEvent::Unknown(_) => None,
        })
        .next()
        .unwrap();
    assert_eq!(handoff.strategy, HandoffStrategy::Native);
    assert_eq!(Some(handoff.target), thread.state.provider_thread);
    assert!(handoff.leaves_out.contains("files are as they are now"));
    let first = thread.rows.0.values().find_map(|row| match row {
        pilothouse_domain::Row::Item(item) if item.position.arrival == 1 => Some(item),
        _ => None,
    });
    let from = ItemContent::Fork {
        source: world.thread.state.thread,
        run,
    };
    assert_eq!(first.unwrap().content, from);
    // What binds the same conversation again changes nothing.
    let entries = thread.entries.len();
    bound(&world, &mut thread, "copy");
    assert_eq!(thread.entries.len(), entries);
}

#[test]
fn a_copy_that_could_not_be_made_is_left_to_the_next_message() {
    let mut world = able();
    run_to_its_end(&mut world, "one");
    let mut thread = fork(&world, None).unwrap();
    say(&mut thread, 901, "first try");
    let effect = thread.effects.remove(0);
    let error = RunError {
        code: ErrorCode::Start,
        message: "codex is not there".to_owned(),
    };
    thread.outcome(
        Some(&world.session),
        &effect,
        &EffectOutcome::Failed { error },
    );
    assert_eq!(thread.state.last_run.unwrap().status, RunStatus::Failed);
    assert_eq!(thread.state.transfers.len(), 1);
    assert_eq!(fork_item(&thread), ItemStatus::Unfinished);
    say(&mut thread, 902, "second try");
    assert_eq!(fork_item(&thread), ItemStatus::Open);
    bound(&world, &mut thread, "copy");
    assert_eq!(fork_item(&thread), ItemStatus::Completed);
    assert_eq!(thread.state.transfers, []);
}

#[test]
fn only_a_run_that_ended_and_stands_is_a_point_to_fork_from() {
    let mut world = able();
    let nothing = fork(&world, None).unwrap_err();
    assert_eq!(nothing.code(), "invalid");
    let strange = RunId::from_bytes([9; 16]);
    assert_eq!(
        fork(&world, Some(strange)).unwrap_err(),
        Refusal::UnknownRun { run: strange }
    );

    let ended = run_to_its_end(&mut world, "one");
    let active = world.running("two");
    let queued = world.say("three", DispatchMode::QueueAfterActive).1;
    let taken_out = world.say("four", DispatchMode::QueueAfterActive).1;
    let revision = world.revision();
    world
        .submit(CommandBody::QueueRemove {
            run: taken_out,
            revision,
        })
        .unwrap();
    let unfit = |run, unfit| Refusal::UnfitRun { run, unfit };
    for (run, why) in [
        (active, Unfit::GoesOn),
        (queued, Unfit::Queued),
        (taken_out, Unfit::Cancelled),
    ] {
        assert_eq!(fork(&world, Some(run)).unwrap_err(), unfit(run, why));
    }
    // While a run goes on, the last one that ended is the point.
    let head = fork(&world, None).unwrap();
    assert_eq!(head.state.transfers[0].run, Some(ended));

    // A run whose turn never began is nothing that the agent could copy.
    let mut world = able();
    let run = world.start("never");
    let effect = world.sent().unwrap();
    let error = RunError {
        code: ErrorCode::Start,
        message: "no".to_owned(),
    };
    world.outcome(&effect, EffectOutcome::Failed { error });
    assert_eq!(
        fork(&world, None).unwrap_err(),
        unfit(run, Unfit::NeverBegan)
    );
}

#[test]
fn an_agent_that_cannot_copy_is_refused_with_what_to_do_instead_and_offered_no_fork() {
    let mut world = forking(CapabilityValue::Unknown, CapabilityValue::No);
    let first = run_to_its_end(&mut world, "one");
    let refused = |capability, fallback| Refusal::Unsupported {
        capability,
        fallback: Some(fallback),
    };
    let cannot = refused(CapabilityFlag::ForkThread, Fallback::NewThread);
    assert_eq!(fork(&world, None).unwrap_err(), cannot);
    let offers = affordances(&world.thread.state, &crate::world::full_policy());
    assert!(matches!(
        offers.fork,
        Offer::Unavailable {
            reason: Unavailable::Lacks {
                capability: CapabilityFlag::ForkThread,
                ..
            }
        }
    ));

    // One that copies only what stands now.
    let mut world = forking(CapabilityValue::Yes, CapabilityValue::No);
    let earlier = run_to_its_end(&mut world, "one");
    let last = run_to_its_end(&mut world, "two");
    assert_eq!(
        fork(&world, Some(earlier)).unwrap_err(),
        refused(CapabilityFlag::ForkFromTurn, Fallback::ForkHead)
    );
    assert!(fork(&world, Some(last)).is_ok());
    assert_ne!(first, last);
}

#[test]
fn a_forks_id_derives_from_its_command_and_its_source_has_to_be_there() {
    let mut world = able();
    run_to_its_end(&mut world, "one");
    let mut elsewhere = command(&world, 900, None);
    elsewhere.thread = command_id(5).derive("thread");
    assert_eq!(
        world.thread.fork(person(), &elsewhere).unwrap_err().code(),
        "invalid"
    );
    let mut unknown = command(&world, 900, None);
    let other = command_id(6).derive("thread");
    if let CommandBody::ThreadFork { source, .. } = &mut unknown.body {
        *source = other;
    }
    assert_eq!(
        world.thread.fork(person(), &unknown).unwrap_err(),
        Refusal::UnknownThread { thread: other }
    );
    let taken = fork(&world, None).unwrap();
    let again = command(&world, 900, None);
    let found = world.thread.look_up(&again);
    assert_eq!(
        pilothouse_orchestrator::decide(
            &taken.state,
            &found,
            person(),
            &again,
            &crate::world::full_policy()
        )
        .unwrap_err()
        .code(),
        "thread_exists"
    );
}
