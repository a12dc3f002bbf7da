//! Whatever people and agents do, in whatever order.

use crate::world::{
    World, approval, assistant, choose, command, handshake, policy, question, questions, reply,
};
use pilothouse_domain::{
    Body, CapabilityFlag, CapabilityValue, CommandBody, DispatchMode, EffectKind, EffectOutcome,
    Entry, Event, ItemContent, ItemStatus, NativeId, ProviderEventKind, Row, RunId, RunStatus,
    ThreadState, hash,
    item::{FileAction, FileChange, TodoEntry, TodoStatus},
    limits,
    provider::TurnStatus,
    provider_event::{NativePlace, Resolution},
    request::{LostReason, RequestKind},
    run::{ErrorCode, RunError, Usage},
};
use pilothouse_orchestrator::{affordances, apply, memory::MemoryThread};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    Say {
        dispatch: u8,
        run: u8,
        stop: bool,
    },
    Interrupt {
        hold: bool,
    },
    Answer {
        request: u8,
        option: u8,
        who: u8,
        stale: bool,
    },
    Release,
    Remove(u8),
    TurnStarted(u8),
    TurnEnded(u8, u8),
    Opened(u8, u8),
    Appended(u8, u8),
    Updated(u8, u8),
    Closed(u8, u8, u8),
    Asked {
        request: u8,
        item: u8,
        kind: u8,
        child: bool,
    },
    Resolved(u8, u8),
    Child(u8, bool),
    Of(u8, u8),
    Todo(u8),
    Fact(u8),
    Outcome(u8, u8),
    Ready,
    Lost(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let n = || 0u8..6;
    prop_oneof![
        4 => (0u8..4, n(), any::<bool>()).prop_map(|(dispatch, run, stop)| Step::Say { dispatch, run, stop }),
        1 => any::<bool>().prop_map(|hold| Step::Interrupt { hold }),
        4 => (n(), 0u8..5, 1u8..3, prop::bool::weighted(0.1)).prop_map(|(request, option, who, stale)| Step::Answer { request, option, who, stale }),
        2 => Just(Step::Release),
        1 => n().prop_map(Step::Remove),
        3 => n().prop_map(Step::TurnStarted),
        3 => (n(), 0u8..3).prop_map(|(t, s)| Step::TurnEnded(t, s)),
        3 => (n(), 0u8..7).prop_map(|(i, c)| Step::Opened(i, c)),
        3 => (n(), 0u8..2).prop_map(|(i, c)| Step::Appended(i, c)),
        2 => (n(), 0u8..7).prop_map(|(i, c)| Step::Updated(i, c)),
        4 => (n(), 0u8..7, 0u8..4).prop_map(|(i, c, s)| Step::Closed(i, c, s)),
        4 => (n(), n(), 0u8..5, any::<bool>()).prop_map(|(request, item, kind, child)| Step::Asked { request, item, kind, child }),
        2 => (n(), 0u8..3).prop_map(|(r, s)| Step::Resolved(r, s)),
        2 => (0u8..3, any::<bool>()).prop_map(|(c, open)| Step::Child(c, open)),
        2 => (0u8..3, 0u8..4).prop_map(|(c, what)| Step::Of(c, what)),
        1 => n().prop_map(Step::Todo),
        1 => (0u8..5).prop_map(Step::Fact),
        6 => (n(), 0u8..6).prop_map(|(e, o)| Step::Outcome(e, o)),
        1 => Just(Step::Ready),
        1 => any::<bool>().prop_map(Step::Lost),
    ]
}

fn content(n: u8) -> ItemContent {
    match n {
        0 => assistant("Hello"),
        1 => command("make", "ok\n"),
        2 => ItemContent::FileChange {
            changes: vec![FileChange {
                path: "a".to_owned(),
                action: FileAction::Add,
                moved_to: None,
                diff: Body::inline("+a"),
            }],
        },
        3 => ItemContent::UserMessage {
            message: None,
            text: Body::inline("typed"),
            attachments: vec![],
        },
        4 => ItemContent::Plan {
            plan: None,
            text: Body::inline("1. go"),
        },
        5 => ItemContent::Subagent {
            child: None,
            title: "look".to_owned(),
            result: Body::default(),
        },
        _ => ItemContent::WebSearch {
            query: "rust".to_owned(),
        },
    }
}

fn turn_status(n: u8) -> TurnStatus {
    [
        TurnStatus::Completed,
        TurnStatus::Interrupted,
        TurnStatus::Failed,
    ][n as usize % 3]
}

fn run_error() -> RunError {
    RunError {
        code: ErrorCode::Agent,
        message: "it failed".to_owned(),
    }
}

fn some_run(world: &World, n: u8) -> RunId {
    let state = &world.thread.state;
    let mut runs: Vec<RunId> = state.active.iter().map(|a| a.id).collect();
    runs.extend(state.queue.iter().map(|q| q.run));
    runs.extend(state.last_run.iter().map(|r| r.id));
    runs.push(RunId::from_bytes([9; 16]));
    runs[n as usize % runs.len()]
}

fn place(turn: u8) -> NativePlace {
    NativePlace {
        thread: Some("T".into()),
        root: None,
        turn: (turn != 0).then(|| NativeId(format!("U{turn}"))),
    }
}

fn child(n: u8) -> NativePlace {
    NativePlace {
        thread: Some(NativeId(format!("C{n}"))),
        root: Some("T".into()),
        turn: Some("CU".into()),
    }
}

fn do_step(world: &mut World, step: &Step) {
    let id = |n: u8| NativeId(format!("i{n}"));
    match step {
        Step::Say {
            dispatch,
            run,
            stop,
        } => {
            let run = some_run(world, *run);
            let dispatch = match dispatch {
                0 => DispatchMode::StartImmediately,
                1 => DispatchMode::QueueAfterActive,
                2 => DispatchMode::SteerActive { run },
                _ => DispatchMode::RestartActive { run },
            };
            let running: Vec<_> = world.thread.state.items.iter().map(|i| i.id).collect();
            let _ = world.say_stopping("words", dispatch, if *stop { &running } else { &[] });
        }
        Step::Interrupt { hold } => {
            if world
                .thread
                .state
                .active
                .as_ref()
                .is_some_and(|a| a.attempt.is_some())
            {
                let _ = world.interrupt(*hold);
            }
        }
        Step::Answer {
            request,
            option,
            who,
            stale,
        } => {
            let requests = world.requests();
            if requests.is_empty() {
                return;
            }
            let request = &requests[*request as usize % requests.len()];
            let hash = if *stale {
                pilothouse_domain::ContentHash::of("else")
            } else {
                request.content_hash
            };
            let answer = match option {
                0 => choose("accept"),
                1 => choose("decline"),
                2 => choose("nothing"),
                3 => reply("q1", &["Red"], None),
                _ => reply("q1", &[], None),
            };
            let _ = world.answer_as(*who, request.id, hash, answer);
        }
        Step::Release => {
            let revision = world.revision();
            let _ = world.submit(CommandBody::QueueRelease { revision });
        }
        Step::Remove(run) => {
            let (run, revision) = (some_run(world, *run), world.revision());
            let _ = world.submit(CommandBody::QueueRemove { run, revision });
        }
        Step::TurnStarted(turn) => {
            world.place = place(*turn);
            world.agent(ProviderEventKind::TurnStarted);
        }
        Step::TurnEnded(turn, status) => {
            let error = (*status == 2).then(run_error);
            world.agent_at(
                place(*turn),
                ProviderEventKind::TurnEnded {
                    status: turn_status(*status),
                    error,
                },
            );
        }
        Step::Opened(item, c) => world.agent(ProviderEventKind::ItemOpened {
            item: id(*item),
            content: content(*c),
            client_id: None,
        }),
        Step::Appended(item, c) => world.agent(ProviderEventKind::ItemAppended {
            item: id(*item),
            text: "more ".to_owned(),
            shape: Box::new(content(*c)),
        }),
        Step::Updated(item, c) => world.agent(ProviderEventKind::ItemUpdated {
            item: id(*item),
            content: content(*c),
        }),
        Step::Closed(item, c, s) => {
            let status = [
                ItemStatus::Completed,
                ItemStatus::Failed,
                ItemStatus::Declined,
                ItemStatus::Interrupted,
            ][*s as usize];
            world.agent(ProviderEventKind::ItemClosed {
                item: id(*item),
                status,
                content: content(*c),
                client_id: None,
            });
        }
        Step::Asked {
            request,
            item,
            kind,
            child: of_child,
        } => {
            let (kind, subject) = match kind {
                0 => (RequestKind::Command, approval("make")),
                1 => (RequestKind::Command, approval("make clean")),
                2 => (RequestKind::FileChange, approval("")),
                3 => (
                    RequestKind::UserInput,
                    questions(vec![question("q1", &["Red"], false, false)]),
                ),
                _ => (RequestKind::Unknown, approval("")),
            };
            let at = if *of_child {
                child(request % 3)
            } else {
                world.place.clone()
            };
            world.agent_at(
                at,
                ProviderEventKind::RequestOpened {
                    request: NativeId(request.to_string()),
                    item: (*item < 4).then(|| id(*item)),
                    kind,
                    subject: Box::new(subject),
                    unknown_fields: false,
                },
            );
        }
        Step::Resolved(request, how) => {
            let resolution = [
                Resolution::Answered,
                Resolution::Withdrawn,
                Resolution::Unsaid,
            ][*how as usize];
            for at in [world.place.clone(), child(request % 3)] {
                world.agent_at(
                    at,
                    ProviderEventKind::RequestClosed {
                        request: NativeId(request.to_string()),
                        resolution,
                    },
                );
            }
        }
        Step::Child(n, open) => {
            let native = NativeId(format!("C{n}"));
            world.agent(if *open {
                ProviderEventKind::ChildOpened {
                    child: native,
                    item: None,
                    title: "look".to_owned(),
                }
            } else {
                ProviderEventKind::ChildClosed {
                    child: native,
                    status: turn_status(*n),
                }
            });
        }
        Step::Of(n, what) => {
            let kind = match what {
                0 => ProviderEventKind::TurnStarted,
                1 => ProviderEventKind::TurnEnded {
                    status: turn_status(*n),
                    error: None,
                },
                2 => ProviderEventKind::ItemOpened {
                    item: id(*n),
                    content: content(1),
                    client_id: None,
                },
                _ => ProviderEventKind::ItemClosed {
                    item: id(*n),
                    status: ItemStatus::Completed,
                    content: content(0),
                    client_id: None,
                },
            };
            world.agent_at(child(*n), kind);
        }
        Step::Todo(n) => world.agent(ProviderEventKind::TodoList {
            entries: vec![TodoEntry {
                text: n.to_string(),
                status: TodoStatus::Pending,
            }],
        }),
        Step::Fact(n) => {
            let kind = match n {
                0 => ProviderEventKind::Error {
                    error: run_error(),
                    will_retry: true,
                },
                1 => ProviderEventKind::Unknown {
                    label: "x".to_owned(),
                    raw: "{}".to_owned(),
                },
                2 => ProviderEventKind::Usage {
                    usage: Usage::default(),
                },
                3 => ProviderEventKind::ModelRerouted {
                    from: "a".to_owned(),
                    to: "b".to_owned(),
                },
                _ => ProviderEventKind::ThreadBound,
            };
            world.agent(kind);
        }
        Step::Outcome(effect, outcome) => {
            if world.thread.effects.is_empty() {
                return;
            }
            let at = *effect as usize % world.thread.effects.len();
            let effect = world.thread.effects.remove(at);
            let outcome = match outcome {
                0 | 1 if matches!(effect.kind, EffectKind::SendTurn { .. }) => {
                    world.turns += 1;
                    EffectOutcome::TurnAccepted {
                        native_thread: "T".into(),
                        native_turn: Some(NativeId(format!("S{}", world.turns))),
                    }
                }
                0 => EffectOutcome::Acknowledged,
                1 => EffectOutcome::Written,
                2 => EffectOutcome::TurnEnded,
                3 => EffectOutcome::Failed { error: run_error() },
                4 => EffectOutcome::Steered,
                _ => EffectOutcome::Unknown,
            };
            if let EffectOutcome::TurnAccepted { native_turn, .. } = &outcome {
                world.place.turn.clone_from(native_turn);
            }
            world.outcome(&effect, outcome);
        }
        Step::Ready => world.agent(handshake(&[(
            CapabilityFlag::ActiveSteering,
            CapabilityValue::Yes,
        )])),
        Step::Lost(restart) => {
            let reason = if *restart {
                LostReason::HostRestarted
            } else {
                LostReason::AgentExited
            };
            world.thread.lose_runtime(reason, "gone");
        }
    }
}

fn check(world: &World) {
    let state = &world.thread.state;
    let rows = &world.thread.rows.0;
    assert!(hash::canonical_json(state).len() <= limits::STATE_BYTES);

    // Nothing open without an owner: a live node of the tree, or the background.
    for slot in &state.items {
        assert!(
            slot.background || state.node(slot.node).is_some(),
            "{slot:?}"
        );
    }
    // What state holds as open is what the rows hold as open.
    let open_items: BTreeSet<_> = rows
        .values()
        .filter_map(|row| match row {
            Row::Item(item) if item.status.is_live() => Some(item.id),
            _ => None,
        })
        .collect();
    assert_eq!(open_items, state.items.iter().map(|slot| slot.id).collect());
    let open_requests: BTreeSet<_> = rows
        .values()
        .filter_map(|row| match row {
            Row::Request(request) if request.status.is_open() => Some(request.id),
            _ => None,
        })
        .collect();
    assert_eq!(
        open_requests,
        state.requests.iter().map(|slot| slot.id).collect()
    );
    // One run at most is neither queued nor ended, and it is the active one.
    let at_work: Vec<_> = rows
        .values()
        .filter_map(|row| match row {
            Row::Run(run) if !run.status.is_terminal() && run.status != RunStatus::Queued => {
                Some((run.id, run.status, run.blocked_on))
            }
            _ => None,
        })
        .collect();
    let active: Vec<_> = state
        .active
        .iter()
        .map(|a| (a.id, a.status, a.blocked_on))
        .collect();
    assert_eq!(at_work, active);
    let queued: BTreeSet<_> = rows
        .values()
        .filter_map(|row| match row {
            Row::Run(run) if run.status == RunStatus::Queued => Some(run.id),
            _ => None,
        })
        .collect();
    assert_eq!(queued, state.queue.iter().map(|q| q.run).collect());
    // Positions and echoes: nothing stands twice.
    let positions: BTreeSet<_> = rows
        .values()
        .filter_map(|row| match row {
            Row::Item(item) => Some(item.position),
            _ => None,
        })
        .collect();
    assert_eq!(
        positions.len(),
        rows.values()
            .filter(|row| matches!(row, Row::Item(_)))
            .count()
    );
    // No idle thread with a queue that neither moves nor says why.
    assert!(state.active.is_some() || state.queue.is_empty() || state.held.is_some());
    let _ = affordances(state, &crate::world::full_policy());
}

fn through_json(entries: &[Entry]) -> Vec<Entry> {
    let text = serde_json::to_string(entries).unwrap();
    serde_json::from_str(&text).unwrap()
}

proptest! {
    #[test]
    fn any_course_of_events_keeps_the_invariants(steps in prop::collection::vec(step(), 1..80), steering in any::<bool>()) {
        let value = if steering { CapabilityValue::Yes } else { CapabilityValue::No };
        let policy = policy(value, CapabilityValue::Yes);
        let mut world = World::on(policy.clone());
        for step in &steps {
            do_step(&mut world, step);
            check(&world);
        }
        // What was recorded makes the same thread again, from text.
        let replayed = MemoryThread::replay(world.thread.state.thread, policy.clone(), &through_json(&world.thread.entries));
        prop_assert_eq!(replayed.digest(), world.thread.digest());
        prop_assert_eq!(&replayed.rows, &world.thread.rows);
        prop_assert_eq!(&replayed.summary, &world.thread.summary);
        let snapshot: ThreadState = serde_json::from_slice(&hash::canonical_json(&world.thread.state)).unwrap();
        prop_assert_eq!(&snapshot, &world.thread.state);

        // The same again gives the same bytes.
        let mut again = World::on(policy);
        for step in &steps {
            do_step(&mut again, step);
        }
        prop_assert_eq!(hash::canonical_json(&again.thread.entries), hash::canonical_json(&world.thread.entries));
        prop_assert_eq!(again.thread.effects, world.thread.effects);
    }

    #[test]
    fn apply_takes_events_in_any_order(steps in prop::collection::vec(step(), 1..60), order in prop::collection::vec(any::<prop::sample::Index>(), 0..200)) {
        let mut world = World::new();
        for step in &steps {
            do_step(&mut world, step);
        }
        let events: Vec<Event> = world.events();
        let mut thread = MemoryThread::new(world.thread.state.thread, crate::world::full_policy());
        let mut state = thread.state.clone();
        for index in order {
            let event = index.get(&events);
            apply(&mut state, event);
            thread.append(pilothouse_domain::Cause::Clock, vec![event.clone()]);
        }
        prop_assert_eq!(state, thread.state);
    }
}
