//! What is done with a conversation as a whole: taking back runs, shortening the context.

use crate::world::{World, policy};
use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, CommandBody, DispatchMode, Effect, EffectKind, EffectOutcome,
    ItemContent, ItemStatus, ProviderEventKind, Refusal, RunId, RunStatus,
    command::NoticeKind,
    provider::TurnStatus,
    refusal::{Fallback, StaleWhat, Unfit},
    request::LostReason,
    run::{ErrorCode, Origin, RunError},
};
use pilothouse_orchestrator::{Offer, Unavailable, Verdict, affordances};

fn world(value: CapabilityValue) -> World {
    let mut policy = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    for agent in policy.agents.values_mut() {
        for flag in [
            CapabilityFlag::RollbackThread,
            CapabilityFlag::CompactOnRequest,
        ] {
            agent.capabilities.insert(flag, value);
        }
    }
    World::on(policy)
}

fn able() -> World {
    world(CapabilityValue::Yes)
}

fn run_to_its_end(world: &mut World, text: &str) -> RunId {
    let run = world.running(text);
    world.end_turn(TurnStatus::Completed);
    run
}

fn rollback(world: &mut World, before: RunId) -> Result<Verdict, Refusal> {
    let last = world.thread.state.last_run.unwrap().id;
    world.submit(CommandBody::ThreadRollback { before, last })
}

fn effect(world: &mut World) -> Effect {
    let mut effects = world.effects();
    assert_eq!(effects.len(), 1, "{effects:?}");
    effects.remove(0)
}

fn statuses(world: &World, runs: &[RunId]) -> Vec<RunStatus> {
    runs.iter().map(|run| world.run(*run).status).collect()
}

fn failed(message: &str) -> EffectOutcome {
    EffectOutcome::Failed {
        error: RunError {
            code: ErrorCode::Agent,
            message: message.to_owned(),
        },
    }
}

#[test]
fn runs_are_taken_back_once_the_agent_has_forgotten_them_and_not_before() {
    let mut world = able();
    let runs: Vec<_> = ["one", "two", "three"]
        .map(|text| run_to_its_end(&mut world, text))
        .into();
    assert_eq!(
        rollback(&mut world, runs[1]),
        Ok(Verdict::Accepted { notice: None })
    );
    let asked = effect(&mut world);
    let EffectKind::Revert {
        before,
        runs: of,
        head,
    } = &asked.kind
    else {
        panic!("{asked:?}")
    };
    assert_eq!((*before, of.as_slice()), (runs[1], &runs[1..]));
    assert_eq!(head.map(|head| head.id), Some(runs[0]));
    assert!(asked.kind.is_replay_safe());
    let completed = RunStatus::Completed;
    assert_eq!(statuses(&world, &runs), [completed; 3]);
    assert_eq!(world.thread.state.rollback, Some(runs[1]));

    world.outcome(&asked, EffectOutcome::Acknowledged);
    let gone = RunStatus::RolledBack;
    assert_eq!(statuses(&world, &runs), [completed, gone, gone]);
    let state = &world.thread.state;
    assert_eq!(
        (state.rollback, state.last_run.unwrap().id),
        (None, runs[0])
    );
    assert_eq!(state.provider_threads[0].coverage, 1);
    let told = world.items().pop().unwrap();
    let content = ItemContent::Rollback {
        before: runs[1],
        runs: 2,
    };
    assert_eq!(
        (told.content, told.status),
        (content, ItemStatus::Completed)
    );
    assert_eq!(told.run, runs[2], "it stands where the runs end");
    // The same outcome once more changes nothing.
    let entries = world.thread.entries.len();
    world.outcome(&asked, EffectOutcome::Acknowledged);
    assert_eq!(world.thread.entries.len(), entries);

    // What follows has numbers of its own, and taking back what stands leaves out what is gone.
    let fourth = run_to_its_end(&mut world, "four");
    assert_eq!(world.run(fourth).ordinal, Some(4));
    assert_eq!(
        rollback(&mut world, runs[2]),
        Err(Refusal::UnfitRun {
            run: runs[2],
            unfit: Unfit::RolledBack
        })
    );
    rollback(&mut world, runs[0]).unwrap();
    let asked = effect(&mut world);
    let EffectKind::Revert { runs: of, head, .. } = &asked.kind else {
        panic!("{asked:?}")
    };
    assert_eq!((of.as_slice(), *head), (&[runs[0], fourth][..], None));
    world.outcome(&asked, EffectOutcome::Acknowledged);
    assert_eq!(world.thread.state.last_run, None);
    assert_eq!(world.thread.state.provider_threads[0].coverage, 0);
}

#[test]
fn what_the_agent_refuses_to_forget_stands_and_the_timeline_says_why() {
    let mut world = able();
    let run = run_to_its_end(&mut world, "one");
    for outcome in [
        failed("not now"),
        EffectOutcome::Unknown,
        EffectOutcome::TurnEnded,
    ] {
        rollback(&mut world, run).unwrap();
        let asked = effect(&mut world);
        world.outcome(&asked, outcome);
        assert_eq!(statuses(&world, &[run]), [RunStatus::Completed]);
        assert_eq!(world.thread.state.rollback, None);
        assert!(matches!(
            world.items().pop().unwrap().content,
            ItemContent::Error { .. }
        ));
    }
}

#[test]
fn nothing_starts_while_runs_are_taken_back_and_the_queue_goes_on_afterwards() {
    let mut world = able();
    let run = run_to_its_end(&mut world, "one");
    rollback(&mut world, run).unwrap();
    let asked = effect(&mut world);
    let (message, next, outcome) = world.say("two", DispatchMode::StartImmediately);
    assert!(matches!(
        outcome,
        Ok(Verdict::Accepted { notice: Some(notice) }) if notice.what == NoticeKind::QueuedInstead { message }
    ));
    world
        .say("three", DispatchMode::QueueAfterActive)
        .2
        .unwrap();
    assert_eq!(world.queue().len(), 2);
    assert_eq!(world.effects(), []);
    let offers = affordances(&world.thread.state, &crate::world::full_policy());
    let not_yet = Offer::Unavailable {
        reason: Unavailable::NotYet,
    };
    assert_eq!(
        (offers.start, offers.rollback, offers.compact),
        (not_yet.clone(), not_yet.clone(), not_yet)
    );
    assert_eq!(rollback(&mut world, run).unwrap_err().code(), "busy");
    let compact = world.submit(CommandBody::ThreadCompact).unwrap_err();
    assert_eq!(compact.code(), "busy");
    world.outcome(&asked, EffectOutcome::Acknowledged);
    let active = world.thread.state.active.as_ref().unwrap();
    assert_eq!(active.id, next);
}

#[test]
fn no_run_is_taken_back_that_was_not_seen_or_goes_on() {
    let mut world = able();
    let first = run_to_its_end(&mut world, "one");
    let second = run_to_its_end(&mut world, "two");
    let unseen = world.submit(CommandBody::ThreadRollback {
        before: first,
        last: first,
    });
    assert_eq!(
        unseen,
        Err(Refusal::Stale {
            what: StaleWhat::LastRun { now: Some(second) }
        })
    );
    let strange = RunId::from_bytes([9; 16]);
    assert_eq!(
        rollback(&mut world, strange),
        Err(Refusal::UnknownRun { run: strange })
    );
    let active = world.running("three");
    let goes_on = Err(Refusal::UnfitRun {
        run: active,
        unfit: Unfit::GoesOn,
    });
    assert_eq!(rollback(&mut world, first), goes_on);
    assert_eq!(world.submit(CommandBody::ThreadCompact), goes_on);
}

#[test]
fn an_agent_that_cannot_is_refused_with_what_to_do_instead() {
    for value in [CapabilityValue::No, CapabilityValue::Unknown] {
        let mut world = world(value);
        let run = run_to_its_end(&mut world, "one");
        assert_eq!(
            rollback(&mut world, run),
            Err(Refusal::Unsupported {
                capability: CapabilityFlag::RollbackThread,
                fallback: Some(Fallback::ForkBefore)
            })
        );
        assert_eq!(
            world.submit(CommandBody::ThreadCompact),
            Err(Refusal::Unsupported {
                capability: CapabilityFlag::CompactOnRequest,
                fallback: None
            })
        );
        assert_eq!(world.effects(), []);
    }
}

#[test]
fn a_context_is_shortened_in_a_run_of_its_own_as_a_turn() {
    let mut world = able();
    assert_eq!(
        world.submit(CommandBody::ThreadCompact).unwrap_err().code(),
        "invalid"
    );
    run_to_its_end(&mut world, "one");
    world.submit(CommandBody::ThreadCompact).unwrap();
    let asked = effect(&mut world);
    let EffectKind::Compact { run, .. } = asked.kind else {
        panic!("{asked:?}")
    };
    assert_eq!(world.run(run).origin, Origin::Person);
    assert_eq!(world.run(run).message, None);
    world.outcome(&asked, EffectOutcome::Acknowledged);
    assert_eq!(world.run(run).status, RunStatus::Starting);
    world.place.turn = Some("compacting".into());
    world.agent(ProviderEventKind::TurnStarted);
    let content = || ItemContent::Compaction {
        text: Default::default(),
    };
    world.open("c", content());
    world.close("c", ItemStatus::Completed, content());
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.run(run).status, RunStatus::Completed);
    let told = world.items().pop().unwrap();
    assert_eq!((told.run, told.content), (run, content()));
}

#[test]
fn a_context_that_is_shortened_without_a_turn_ends_its_run_by_the_agents_answer() {
    let mut world = able();
    run_to_its_end(&mut world, "one");
    world.submit(CommandBody::ThreadCompact).unwrap();
    let asked = effect(&mut world);
    let EffectKind::Compact { run, .. } = asked.kind else {
        panic!("{asked:?}")
    };
    let summary = "the tests were fixed".to_owned();
    world.outcome(&asked, EffectOutcome::Compacted { summary });
    assert_eq!(world.run(run).status, RunStatus::Completed);
    let told = world.items().pop().unwrap();
    let ItemContent::Compaction { text } = told.content else {
        panic!("{told:?}")
    };
    assert_eq!(text.preview(), "the tests were fixed");
    assert!(world.thread.state.rests());
}

#[test]
fn a_context_that_is_not_shortened_fails_its_run_or_loses_it_with_the_agent() {
    let mut world = able();
    run_to_its_end(&mut world, "one");
    world.submit(CommandBody::ThreadCompact).unwrap();
    let asked = effect(&mut world);
    let EffectKind::Compact { run, .. } = asked.kind else {
        panic!("{asked:?}")
    };
    world.outcome(&asked, failed("too short already"));
    assert_eq!(world.run(run).status, RunStatus::Failed);
    assert_eq!(world.run(run).error.unwrap().message, "too short already");

    world.submit(CommandBody::ThreadCompact).unwrap();
    let asked = effect(&mut world);
    let EffectKind::Compact { run, .. } = asked.kind else {
        panic!("{asked:?}")
    };
    world.outcome(&asked, EffectOutcome::Unknown);
    assert_eq!(world.run(run).status, RunStatus::Starting);
    world.thread.lose_runtime(LostReason::AgentExited, "gone");
    assert_eq!(world.run(run).status, RunStatus::Interrupted);
    // And a late answer changes nothing of it.
    let entries = world.thread.entries.len();
    world.outcome(&asked, EffectOutcome::Acknowledged);
    assert_eq!(world.thread.entries.len(), entries);
}
