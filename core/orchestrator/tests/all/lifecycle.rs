//! Threads, runs, attempts and the queue.

use crate::world::{
    PHONE, TABLET, World, assistant, command_id, create, device, full_policy, policy, thread_id,
};
use pilothouse_domain::{
    AttemptId, Body, CapabilityFlag, CapabilityValue, CommandBody, CommandId, DispatchMode,
    EffectKind, EffectOutcome, Event, ItemContent, ItemStatus, Mode, ProviderEventKind, Refusal,
    RunId, RunStatus, ThreadId,
    command::{Notice, NoticeKind},
    event::HoldReason,
    limits,
    provider::TurnStatus,
    refusal::StaleWhat,
    run::{AttemptStatus, ErrorCode, Origin, RunError},
    state::Cap,
    thread::{Actor, Delivery},
};
use pilothouse_orchestrator::{Verdict, memory::MemoryThread};

const OK: Result<Verdict, Refusal> = Ok(Verdict::Accepted { notice: None });

fn error(message: &str) -> RunError {
    RunError {
        code: ErrorCode::ModelService,
        message: message.to_owned(),
    }
}

fn created(change: impl FnOnce(&mut pilothouse_domain::Command)) -> Result<Verdict, Refusal> {
    let mut command = create(CommandId::from_bytes([9; 16]));
    change(&mut command);
    let actor = Actor::Device {
        device: device(PHONE),
    };
    MemoryThread::new(command.thread, full_policy()).command(actor, &command)
}

#[test]
fn a_thread_is_made_without_any_runtime() {
    let mut world = World::new();
    assert_eq!(world.effects(), []);
    assert!(world.thread.state.active.is_none() && world.thread.state.session.is_none());
}

#[test]
fn a_thread_is_refused_with_what_is_wrong_with_it() {
    let selection = |change: fn(&mut pilothouse_domain::thread::Selection)| {
        created(|command| {
            if let CommandBody::ThreadCreate { selection, .. } = &mut command.body {
                change(selection);
            }
        })
    };
    assert_eq!(created(|_| {}), OK);
    assert_eq!(
        selection(|s| s.agent = "codx".into()),
        Err(Refusal::UnknownAgent {
            agent: "codx".into(),
            known: vec!["codex".into()]
        })
    );
    assert_eq!(
        selection(|s| s.mode = Mode::FullAccess),
        Err(Refusal::UnsupportedMode {
            agent: "codex".into(),
            mode: Mode::FullAccess
        })
    );
    let workspace = created(|command| {
        if let CommandBody::ThreadCreate { workspace, .. } = &mut command.body {
            *workspace = "elsewhere".into();
        }
    });
    assert!(matches!(workspace, Err(Refusal::UnknownWorkspace { .. })));
    let title = created(|command| {
        if let CommandBody::ThreadCreate { title, .. } = &mut command.body {
            *title = "é".repeat(limits::TITLE_CHARS + 1);
        }
    });
    assert!(matches!(title, Err(Refusal::Invalid { field, .. }) if field == "title"));
    let id = created(|command| command.thread = ThreadId::from_bytes([1; 16]));
    assert!(matches!(id, Err(Refusal::Invalid { field, .. }) if field == "thread"));
}

#[test]
fn a_thread_is_made_once() {
    let mut world = World::new();
    // Another command's id names another thread, so only the same id can meet an existing one.
    let result = world.submit_as(PHONE, &create(command_id(0)));
    assert!(
        matches!(result, Err(Refusal::ThreadExists { .. })),
        "{result:?}"
    );
}

#[test]
fn a_message_runs_from_sending_to_completed() {
    let mut world = World::new();
    let run = world.start("Add a test");
    assert_eq!(world.run(run).status, RunStatus::Starting);
    let effect = world.take_up();
    let EffectKind::SendTurn { message, .. } = effect.kind else {
        panic!("{effect:?}");
    };
    assert_eq!(world.run(run).status, RunStatus::Running);
    assert_eq!(world.message(message).delivery, Delivery::Started);
    world.close("m1", ItemStatus::Completed, assistant("Done."));
    world.end_turn(TurnStatus::Completed);
    let row = world.run(run);
    assert_eq!(
        (row.status, row.ordinal, row.origin),
        (RunStatus::Completed, Some(1), Origin::Person)
    );
    assert!(row.started_at_ms.is_some() && row.ended_at_ms > row.started_at_ms);
    let kinds: Vec<_> = world.items().into_iter().map(|i| i.content).collect();
    assert_eq!(
        kinds,
        [
            ItemContent::UserMessage {
                message: Some(message),
                text: Body::inline("Add a test"),
                attachments: vec![]
            },
            assistant("Done."),
        ]
    );
    assert_eq!(world.thread.summary.as_ref().unwrap().last_line, "Done.");
}

#[test]
fn a_turn_taken_up_gives_the_same_state_whichever_sign_comes_first() {
    let both = [false, true].map(|event_first| {
        let mut world = World::new();
        world.start("Hello");
        let effect = world.sent().unwrap();
        world.place.turn = Some("U1".into());
        let outcome = EffectOutcome::TurnAccepted {
            native_thread: "T".into(),
            native_turn: Some("U1".into()),
        };
        if event_first {
            world.agent(ProviderEventKind::TurnStarted);
            world.outcome(&effect, outcome);
        } else {
            world.outcome(&effect, outcome);
            world.agent(ProviderEventKind::TurnStarted);
        }
        (world.thread.state, world.thread.bindings)
    });
    assert_eq!(both[0], both[1]);
    assert_eq!(
        both[0].0.active.as_ref().unwrap().status,
        RunStatus::Running
    );
}

#[test]
fn a_message_without_words_or_too_long_is_refused() {
    let mut world = World::new();
    for text in ["", " \n\t", &"x".repeat(limits::MESSAGE_TEXT + 1)] {
        let (_, _, result) = world.say(text, DispatchMode::StartImmediately);
        assert!(matches!(result, Err(Refusal::Invalid { field, .. }) if field == "text"));
    }
    assert!(world.thread.state.active.is_none());
}

#[test]
fn a_start_that_meets_an_active_run_is_queued_and_says_so() {
    let mut world = World::new();
    world.running("first");
    let (message, run, result) = world.say("second", DispatchMode::StartImmediately);
    let Ok(Verdict::Accepted {
        notice: Some(Notice { what, .. }),
    }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!(what, NoticeKind::QueuedInstead { message });
    assert_eq!(world.queue(), [run]);
    assert_eq!(world.run(run).ordinal, None);
    assert!(world.sent().is_none());
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.run(run).status, RunStatus::Starting);
    assert_eq!(world.run(run).ordinal, Some(2));
    assert!(world.sent().is_some());
}

#[test]
fn queued_messages_run_in_order_one_at_a_time() {
    let mut world = World::new();
    let mut runs = vec![world.running("1")];
    for text in ["2", "3", "4"] {
        let (_, run, result) = world.say(text, DispatchMode::QueueAfterActive);
        assert_eq!(result, OK);
        runs.push(run);
    }
    for (i, run) in runs.iter().enumerate() {
        assert_eq!(world.thread.state.active.as_ref().unwrap().id, *run);
        if i > 0 {
            world.take_up();
        }
        world.end_turn(TurnStatus::Completed);
    }
    assert!(world.thread.state.active.is_none() && world.queue().is_empty());
    let ordinals: Vec<_> = runs.iter().map(|r| world.run(*r).ordinal).collect();
    assert_eq!(ordinals, [Some(1), Some(2), Some(3), Some(4)]);
}

#[test]
fn a_queued_message_on_an_idle_thread_starts_at_once() {
    let mut world = World::new();
    let (_, run, result) = world.say("now then", DispatchMode::QueueAfterActive);
    assert_eq!(result, OK);
    assert_eq!(world.run(run).status, RunStatus::Starting);
}

#[test]
fn a_failed_run_holds_the_queue_until_its_person_lets_it_go() {
    let mut world = World::new();
    let first = world.running("first");
    let (_, second, _) = world.say("second", DispatchMode::QueueAfterActive);
    world.fail_turn(error("503 from the model"));
    let row = world.run(first);
    assert_eq!(
        (row.status, row.error),
        (RunStatus::Failed, Some(error("503 from the model")))
    );
    assert_eq!(world.thread.state.held, Some(HoldReason::Failed));
    assert_eq!(world.queue(), [second]);

    // A message for now runs before the queue and leaves the hold.
    let third = world.running("third");
    assert_eq!(world.thread.state.held, Some(HoldReason::Failed));
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.run(third).status, RunStatus::Completed);
    assert_eq!(world.queue(), [second]);

    let stale = world.revision() - 1;
    assert_eq!(
        world.submit(CommandBody::QueueRelease { revision: stale }),
        Err(Refusal::Stale {
            what: StaleWhat::QueueRevision {
                now: world.revision()
            }
        })
    );
    let revision = world.revision();
    assert_eq!(world.submit(CommandBody::QueueRelease { revision }), OK);
    assert_eq!(world.thread.state.held, None);
    assert_eq!(world.run(second).status, RunStatus::Starting);
}

#[test]
fn a_run_that_failed_with_nothing_queued_holds_nothing() {
    let mut world = World::new();
    world.running("first");
    world.fail_turn(error("503"));
    assert_eq!(world.thread.state.held, None);
    let (_, run, _) = world.say("again", DispatchMode::QueueAfterActive);
    assert_eq!(world.run(run).status, RunStatus::Starting);
}

#[test]
fn case_30_an_agent_that_cannot_be_started_fails_the_run_and_holds_the_queue() {
    let mut world = World::new();
    let run = world.start("first");
    let (_, second, _) = world.say("second", DispatchMode::QueueAfterActive);
    let effect = world.sent().unwrap();
    let EffectKind::SendTurn { message, .. } = effect.kind else {
        panic!();
    };
    let error = RunError {
        code: ErrorCode::Start,
        message: "cannot start `codex`".to_owned(),
    };
    world.outcome(
        &effect,
        EffectOutcome::Failed {
            error: error.clone(),
        },
    );
    assert_eq!(world.run(run).status, RunStatus::Failed);
    assert_eq!(world.run(run).error, Some(error));
    assert!(matches!(
        world.message(message).delivery,
        Delivery::Failed { .. }
    ));
    assert_eq!(world.thread.state.held, Some(HoldReason::Failed));
    assert_eq!(world.queue(), [second]);
}

#[test]
fn a_run_is_taken_out_of_the_queue_by_its_revision() {
    let mut world = World::new();
    let active = world.running("first");
    let (message, second, _) = world.say("second", DispatchMode::QueueAfterActive);
    let revision = world.revision();
    let remove = |run, revision| CommandBody::QueueRemove { run, revision };
    assert!(matches!(
        world.submit(remove(second, revision + 1)),
        Err(Refusal::Stale { .. })
    ));
    assert_eq!(
        world.submit(remove(active, revision)),
        Err(Refusal::UnknownRun { run: active })
    );
    assert_eq!(world.submit(remove(second, revision)), OK);
    assert_eq!(world.run(second).status, RunStatus::Cancelled);
    assert!(matches!(
        world.message(message).delivery,
        Delivery::Failed { .. }
    ));
    assert!(world.revision() > revision && world.queue().is_empty());
}

#[test]
fn taking_out_the_last_run_ends_the_hold() {
    let mut world = World::new();
    world.running("first");
    let (_, second, _) = world.say("second", DispatchMode::QueueAfterActive);
    world.fail_turn(error("503"));
    let revision = world.revision();
    let removed = world.submit(CommandBody::QueueRemove {
        run: second,
        revision,
    });
    assert_eq!((removed, world.thread.state.held), (OK, None));
}

#[test]
fn a_full_queue_refuses_and_forgets_nothing() {
    let mut world = World::new();
    world.running("first");
    for n in 0..limits::QUEUED_RUNS {
        let (_, _, result) = world.say(&format!("message {n}"), DispatchMode::QueueAfterActive);
        assert_eq!(result, OK);
    }
    let before = world.thread.digest();
    for dispatch in [
        DispatchMode::StartImmediately,
        DispatchMode::QueueAfterActive,
        DispatchMode::SteerActive {
            run: world.queue()[3],
        },
        DispatchMode::SteerActive {
            run: RunId::from_bytes([9; 16]),
        },
    ] {
        let (_, _, result) = world.say("one more", dispatch);
        assert_eq!(
            result,
            Err(Refusal::Full {
                what: Cap::Queue,
                cap: limits::QUEUED_RUNS as u64
            })
        );
    }
    assert_eq!(world.thread.digest(), before);
}

#[test]
fn a_stop_ends_the_run_only_when_the_agent_says_so() {
    let mut world = World::new();
    let run = world.running("first");
    let (_, second, _) = world.say("second", DispatchMode::QueueAfterActive);
    assert_eq!(world.interrupt(true), OK);
    let effects = world.effects();
    assert!(matches!(
        effects[..],
        [pilothouse_domain::Effect {
            kind: EffectKind::Interrupt { turn: Some(_), .. },
            ..
        }]
    ));
    assert_eq!(world.run(run).status, RunStatus::Running);
    world.outcome(&effects[0], EffectOutcome::Acknowledged);
    assert_eq!(world.run(run).status, RunStatus::Running);
    world.end_turn(TurnStatus::Interrupted);
    assert_eq!(world.run(run).status, RunStatus::Interrupted);
    assert_eq!(world.thread.state.held, Some(HoldReason::Interrupted));
    assert_eq!(world.queue(), [second]);
    assert!(
        world
            .items()
            .iter()
            .any(|item| matches!(item.content, ItemContent::Interrupt { .. }))
    );
}

#[test]
fn an_interrupt_that_does_not_hold_the_queue_lets_it_go_on() {
    let mut world = World::new();
    world.running("first");
    let (_, second, _) = world.say("second", DispatchMode::QueueAfterActive);
    assert_eq!(world.interrupt(false), OK);
    world.end_turn(TurnStatus::Interrupted);
    assert_eq!(world.run(second).status, RunStatus::Starting);
}

#[test]
fn a_second_stop_asks_the_agent_only_once() {
    let mut world = World::new();
    world.running("first");
    assert_eq!(world.interrupt(false), OK);
    let events = world.events().len();
    assert_eq!(world.interrupt(false), OK);
    assert_eq!(world.events().len(), events);
    // A Stop that also holds the queue says more, to us but not to the agent.
    assert_eq!(world.interrupt(true), OK);
    assert!(world.thread.state.active.as_ref().unwrap().stop_holds_queue);
    assert_eq!(world.effects().len(), 1);
}

#[test]
fn a_stop_that_the_agent_did_not_take_can_be_asked_again() {
    let mut world = World::new();
    world.running("first");
    assert_eq!(world.interrupt(true), OK);
    let effects = world.effects();
    world.outcome(
        &effects[0],
        EffectOutcome::Failed {
            error: error("no answer in 2 s"),
        },
    );
    assert_eq!(world.interrupt(true), OK);
    assert_eq!(world.effects().len(), 1);
}

#[test]
fn an_interrupt_names_its_run_and_attempt_and_dies_with_them() {
    let mut world = World::new();
    let run = world.running("first");
    let attempt = world
        .thread
        .state
        .active
        .clone()
        .unwrap()
        .attempt
        .unwrap()
        .id;
    let stop = |run, attempt| CommandBody::RunInterrupt {
        run,
        attempt,
        hold_queue: true,
    };
    assert_eq!(
        world.submit(stop(run, AttemptId::from_bytes([1; 16]))),
        Err(Refusal::Stale {
            what: StaleWhat::Attempt
        })
    );
    let nobody = RunId::from_bytes([5; 16]);
    assert_eq!(
        world.submit(stop(nobody, attempt)),
        Err(Refusal::UnknownRun { run: nobody })
    );
    world.end_turn(TurnStatus::Completed);
    assert_eq!(
        world.submit(stop(run, attempt)),
        Err(Refusal::TurnEnded {
            run,
            status: Some(RunStatus::Completed),
            message: None
        })
    );
    assert_eq!(world.effects().len(), 0);
}

#[test]
fn an_agent_that_cannot_be_stopped_refuses_a_stop_and_unknown_is_not_yes() {
    for value in [CapabilityValue::No, CapabilityValue::Unknown] {
        let mut world = World::on(policy(CapabilityValue::No, value));
        world.running("first");
        assert_eq!(
            world.interrupt(true),
            Err(Refusal::Unsupported {
                fallback: None,
                capability: CapabilityFlag::Interrupt
            })
        );
    }
}

#[test]
fn case_32_a_late_end_of_an_older_turn_does_not_stop_the_newer() {
    let mut world = World::new();
    world.running("first");
    let old = world.place.clone();
    world.end_turn(TurnStatus::Completed);
    let second = world.running("second");
    for status in [TurnStatus::Interrupted, TurnStatus::Completed] {
        world.agent_at(
            old.clone(),
            ProviderEventKind::TurnEnded {
                status,
                error: None,
            },
        );
    }
    assert_eq!(world.run(second).status, RunStatus::Running);
    world.end_turn(TurnStatus::Completed);
    let before = world.thread.digest();
    world.end_turn(TurnStatus::Failed);
    assert_eq!(
        world.thread.digest(),
        before,
        "an end that comes twice is one"
    );
}

#[test]
fn a_turn_that_nobody_here_started_is_a_run_of_its_own() {
    let mut world = World::new();
    world.place.turn = Some("X1".into());
    world.agent(ProviderEventKind::TurnStarted);
    let typed = ItemContent::UserMessage {
        message: None,
        text: Body::inline("typed at the desk"),
        attachments: vec![],
    };
    world.close("u1", ItemStatus::Completed, typed.clone());
    world.end_turn(TurnStatus::Completed);
    world.place.turn = Some("X2".into());
    world.agent(ProviderEventKind::TurnStarted);
    world.end_turn(TurnStatus::Completed);
    let runs: Vec<_> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::RunStarted {
                ordinal, origin, ..
            } => Some((ordinal, origin)),
            _ => None,
        })
        .collect();
    assert_eq!(runs, [(1, Origin::External), (2, Origin::External)]);
    assert_eq!(world.items()[0].content, typed);
}

#[test]
fn the_unknown_turn_that_comes_while_ours_waits_is_ours() {
    let mut world = World::new();
    let run = world.start("first");
    world.place.turn = Some("U9".into());
    world.close("m", ItemStatus::Completed, assistant("Hi"));
    let active = world.thread.state.active.clone().unwrap();
    assert_eq!((active.id, active.status), (run, RunStatus::Running));
    assert_eq!(active.attempt.unwrap().status, AttemptStatus::Running);
}

#[test]
fn an_error_ends_nothing_by_itself() {
    let mut world = World::new();
    let run = world.running("first");
    world.agent(ProviderEventKind::Error {
        error: error("Reconnecting… 1/5"),
        will_retry: true,
    });
    assert_eq!(world.run(run).status, RunStatus::Running);
    let last = world.items().pop().unwrap();
    assert!(matches!(
        last.content,
        ItemContent::Error {
            will_retry: true,
            ..
        }
    ));
}

#[test]
fn commands_for_a_thread_that_is_not_there_or_too_new_are_refused() {
    let mut world = World::new();
    let mut command = world.make(CommandBody::QueueRelease { revision: 0 });
    command.thread = ThreadId::from_bytes([8; 16]);
    assert!(matches!(
        world.submit_as(TABLET, &command),
        Err(Refusal::UnknownThread { .. })
    ));
    let id = thread_id(&world);
    let mut empty = MemoryThread::new(id, full_policy());
    command.thread = id;
    let actor = Actor::Device {
        device: device(PHONE),
    };
    assert_eq!(
        empty.command(actor, &command),
        Err(Refusal::UnknownThread { thread: id })
    );
    world.thread.state.read_only = Some("it holds `goal.set`".to_owned());
    assert!(matches!(
        world.submit_as(PHONE, &command),
        Err(Refusal::ReadOnly { .. })
    ));
}
