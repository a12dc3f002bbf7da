//! Steering, restarting, and what becomes of words that come too late.

use crate::world::{World, assistant, command, handshake};
use pilothouse_domain::{
    Body, CapabilityFlag, CapabilityValue, DispatchMode, EffectKind, EffectOutcome, Event,
    ItemContent, ItemStatus, ProviderEventKind, Refusal, RequestStatus, RunId, RunStatus,
    command::NoticeKind,
    event::HoldReason,
    provider::TurnStatus,
    refusal::StaleWhat,
    request::RequestKind,
    run::{AttemptReason, AttemptStatus},
    thread::Delivery,
};
use pilothouse_orchestrator::{Offer, Unavailable, Verdict, affordances};

const OK: Result<Verdict, Refusal> = Ok(Verdict::Accepted { notice: None });

fn steer(run: RunId) -> DispatchMode {
    DispatchMode::SteerActive { run }
}

fn restart(run: RunId) -> DispatchMode {
    DispatchMode::RestartActive { run }
}

fn echo(text: &str) -> ItemContent {
    ItemContent::UserMessage {
        message: None,
        text: Body::inline(text),
        attachments: vec![],
    }
}

fn user_texts(world: &World) -> Vec<String> {
    world
        .items()
        .into_iter()
        .filter_map(|item| match item.content {
            ItemContent::UserMessage { text, .. } => Some(text.preview().to_owned()),
            _ => None,
        })
        .collect()
}

#[test]
fn a_steer_goes_into_the_turn_it_names() {
    let mut world = World::new();
    let run = world.running("first");
    let (message, _, result) = world.say("and quickly", steer(run));
    assert_eq!(result, OK);
    let effects = world.effects();
    let turn = world
        .thread
        .state
        .active
        .clone()
        .unwrap()
        .attempt
        .unwrap()
        .turn;
    assert!(
        matches!(effects[0].kind, EffectKind::Steer { run: r, turn: t, message: m, .. } if r == run && Some(t) == turn && m == message)
    );
    world.outcome(&effects[0], EffectOutcome::Steered);
    assert_eq!(world.message(message).delivery, Delivery::Started);
    assert_eq!(user_texts(&world), ["first", "and quickly"]);
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.run(run).status, RunStatus::Completed);
    assert!(world.queue().is_empty());
}

#[test]
fn a_steer_before_the_turn_has_begun_is_to_be_tried_again() {
    let mut world = World::new();
    let run = world.start("first");
    let (_, _, result) = world.say("and quickly", steer(run));
    assert!(
        matches!(&result, Err(refusal) if refusal.is_transient()),
        "{result:?}"
    );
    assert_eq!(user_texts(&world), ["first"]);
}

#[test]
fn a_steer_that_meets_an_ended_turn_keeps_its_message_at_the_head_of_a_held_queue() {
    let mut world = World::new();
    let run = world.running("first");
    world.end_turn(TurnStatus::Completed);
    let (message, kept, result) = world.say("too late", steer(run));
    assert_eq!(
        result,
        Ok(Verdict::Refused(Refusal::TurnEnded {
            run,
            status: Some(RunStatus::Completed),
            message: Some(message)
        }))
    );
    assert_eq!(world.queue(), [kept]);
    assert_eq!(world.thread.state.held, Some(HoldReason::SteerMissed));
    assert!(
        world
            .effects()
            .iter()
            .all(|e| !matches!(e.kind, EffectKind::Steer { .. }))
    );
    assert!(
        world.thread.state.active.is_none(),
        "a steer is never a start"
    );
    assert!(world.events().iter().any(
        |event| matches!(event, Event::NoticeRaised { notice } if notice.what == NoticeKind::SteerMissed { message })
    ));

    // A second one keeps its place behind the first.
    let (_, also, _) = world.say("and this", steer(run));
    assert_eq!(world.queue(), [kept, also]);
}

#[test]
fn a_steer_that_the_agent_found_too_late_waits_at_the_head_of_the_queue() {
    let mut world = World::new();
    let run = world.running("first");
    let (_, queued, _) = world.say("queued", DispatchMode::QueueAfterActive);
    let (message, _, _) = world.say("too late", steer(run));
    let effects = world.effects();
    world.outcome(&effects[0], EffectOutcome::TurnEnded);
    let queue = world.queue();
    assert_eq!((queue.len(), queue[1]), (2, queued));
    assert_eq!(world.message(message).run, queue[0]);
    assert_eq!(world.thread.state.held, Some(HoldReason::SteerMissed));
    // The same outcome twice keeps it once.
    world.outcome(&effects[0], EffectOutcome::TurnEnded);
    assert_eq!(world.queue(), queue);
    world.end_turn(TurnStatus::Completed);
    assert!(world.thread.state.active.is_none(), "the hold holds");
    let revision = world.revision();
    world
        .submit(pilothouse_domain::CommandBody::QueueRelease { revision })
        .unwrap();
    assert_eq!(world.thread.state.active.as_ref().unwrap().id, queue[0]);
    assert_eq!(
        user_texts(&world),
        ["first", "too late"],
        "the message stands once in the timeline"
    );
    let last = world.items().pop().unwrap();
    assert_eq!((last.run, last.position.run), (queue[0], 2));
}

#[test]
fn a_steer_at_a_queued_run_follows_right_behind_it() {
    let mut world = World::new();
    world.running("first");
    let (_, second, _) = world.say("second", DispatchMode::QueueAfterActive);
    let (_, third, _) = world.say("third", DispatchMode::QueueAfterActive);
    let (message, a, result) = world.say("about second", steer(second));
    let Ok(Verdict::Accepted {
        notice: Some(notice),
    }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!(
        notice.what,
        NoticeKind::FollowsQueued {
            message,
            run: second
        }
    );
    let (_, b, _) = world.say("also about second", restart(second));
    assert_eq!(world.queue(), [second, a, b, third]);
}

#[test]
fn without_steering_the_turn_is_stopped_and_started_again_in_the_same_run() {
    let mut world = World::without_steering();
    let run = world.running("first");
    world.open("c1", command("sleep 60", ""));
    world.append("m1", "I am wai", assistant(""));
    let tool = world.thread.state.items[0].id;
    let Offer::Destructive { items, .. } = affordances(
        &world.thread.state,
        &crate::world::policy(CapabilityValue::No, CapabilityValue::Yes),
    )
    .steer
    else {
        panic!();
    };
    assert_eq!(items, [tool]);

    let (_, _, refused) = world.say("do it otherwise", steer(run));
    assert_eq!(
        refused,
        Err(Refusal::Stale {
            what: StaleWhat::RunningItem { item: tool }
        })
    );
    world.ask(
        "0",
        Some("c1"),
        RequestKind::Command,
        crate::world::approval("sleep 60"),
    );
    let (message, _, result) = world.say_stopping("do it otherwise", steer(run), &[tool]);
    assert_eq!(result, OK);
    let effects = world.effects();
    assert!(matches!(
        effects[..],
        [pilothouse_domain::Effect {
            kind: EffectKind::Interrupt { .. },
            ..
        }]
    ));
    assert_eq!(
        world.thread.state.active.as_ref().unwrap().restart_pending,
        Some(message)
    );

    // A second one has to wait until the restart is through.
    let (_, _, busy) = world.say_stopping("and so", steer(run), &[tool]);
    assert!(busy.unwrap_err().is_transient());

    world.end_turn(TurnStatus::Interrupted);
    let active = world.thread.state.active.clone().unwrap();
    assert_eq!((active.id, active.attempts), (run, 2));
    assert_eq!(world.request().status, RequestStatus::Withdrawn);
    let sent = world.take_up();
    assert!(
        matches!(sent.kind, EffectKind::SendTurn { run: r, message: m, .. } if r == run && m == message)
    );
    let reasons: Vec<_> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::AttemptStarted {
                reason, ordinal, ..
            } => Some((ordinal, reason)),
            _ => None,
        })
        .collect();
    assert_eq!(
        reasons,
        [
            (1, AttemptReason::Initial),
            (2, AttemptReason::SteeringRestart)
        ]
    );
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.run(run).status, RunStatus::Completed);
    assert_eq!(user_texts(&world), ["first", "do it otherwise"]);
}

#[test]
fn a_restart_after_a_meaningful_answer_is_a_new_run_that_supersedes() {
    let mut world = World::without_steering();
    let run = world.running("first");
    world.close("m1", ItemStatus::Completed, assistant("The answer is 42."));
    let (message, _, result) = world.say("no, another", restart(run));
    assert_eq!(result, OK);
    world.end_turn(TurnStatus::Interrupted);
    let active = world.thread.state.active.clone().unwrap();
    assert_ne!(active.id, run);
    let row = world.run(active.id);
    assert_eq!((row.supersedes, row.message), (Some(run), Some(message)));
    assert_eq!(world.run(run).status, RunStatus::Interrupted);
    assert_eq!(world.message(message).run, active.id);
    assert_eq!(user_texts(&world), ["first", "no, another"]);
}

#[test]
fn an_answer_without_a_visible_character_is_not_meaningful() {
    let mut world = World::without_steering();
    let run = world.running("first");
    world.close("m1", ItemStatus::Completed, assistant(" \n"));
    world.say("again", restart(run)).2.unwrap();
    world.end_turn(TurnStatus::Interrupted);
    assert_eq!(world.thread.state.active.unwrap().id, run);
}

#[test]
fn a_restart_whose_turn_completes_first_has_come_too_late() {
    let mut world = World::without_steering();
    let run = world.running("first");
    let (message, _, _) = world.say("otherwise", restart(run));
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.run(run).status, RunStatus::Completed);
    assert!(world.thread.state.active.is_none());
    assert_eq!(world.thread.state.queue[0].message, message);
    assert_eq!(world.thread.state.held, Some(HoldReason::SteerMissed));
}

#[test]
fn a_stop_outweighs_a_restart_that_was_to_come() {
    let mut world = World::without_steering();
    let run = world.running("first");
    let (message, _, _) = world.say("otherwise", restart(run));
    assert_eq!(world.interrupt(true), OK);
    world.end_turn(TurnStatus::Interrupted);
    assert_eq!(world.run(run).status, RunStatus::Interrupted);
    assert!(world.thread.state.active.is_none());
    assert_eq!(world.thread.state.queue[0].message, message);
    assert_eq!(world.thread.state.held, Some(HoldReason::Interrupted));
    assert_eq!(
        world
            .effects()
            .iter()
            .filter(|e| matches!(e.kind, EffectKind::Interrupt { .. }))
            .count(),
        1
    );
}

#[test]
fn an_agent_that_can_neither_be_steered_nor_stopped_refuses_both() {
    let policy = crate::world::policy(CapabilityValue::No, CapabilityValue::No);
    let mut world = World::on(policy.clone());
    let run = world.running("first");
    for dispatch in [steer(run), restart(run)] {
        let (_, _, result) = world.say("otherwise", dispatch);
        assert_eq!(
            result,
            Err(Refusal::Unsupported {
                fallback: Some(pilothouse_domain::refusal::Fallback::Queue),
                capability: CapabilityFlag::Interrupt
            })
        );
    }
    let offered = affordances(&world.thread.state, &policy);
    for offer in [offered.steer, offered.restart, offered.interrupt] {
        assert!(matches!(
            offer,
            Offer::Unavailable {
                reason: Unavailable::Lacks { .. }
            }
        ));
    }
}

#[test]
fn the_handshake_outweighs_the_profile() {
    let mut world = World::without_steering();
    world.agent(handshake(&[(
        CapabilityFlag::ActiveSteering,
        CapabilityValue::Yes,
    )]));
    let run = world.running("first");
    let (_, _, result) = world.say("quickly", steer(run));
    assert_eq!(result, OK);
    assert!(matches!(world.effects()[0].kind, EffectKind::Steer { .. }));
    // What the handshake is silent about, the profile still says.
    assert_eq!(world.interrupt(true), OK);
}

#[test]
fn what_is_offered_is_what_would_be_done() {
    let policies = [
        CapabilityValue::Yes,
        CapabilityValue::No,
        CapabilityValue::Unknown,
    ];
    for steering in policies {
        for interrupt in policies {
            let policy = crate::world::policy(steering, interrupt);
            for running in [false, true] {
                let mut world = World::on(policy.clone());
                let run = if running {
                    world.running("first")
                } else {
                    world.start("first")
                };
                let offered = affordances(&world.thread.state, &policy);
                let now =
                    |offer: &Offer| matches!(offer, Offer::Available | Offer::Destructive { .. });
                let mut tried = world.thread.clone();
                let (_, _, result) = world.say("so", steer(run));
                assert_eq!(
                    now(&offered.steer),
                    result.is_ok(),
                    "{steering:?} {interrupt:?} {result:?}"
                );
                std::mem::swap(&mut world.thread, &mut tried);
                let (_, _, result) = world.say("so", restart(run));
                assert_eq!(now(&offered.restart), result.is_ok());
                std::mem::swap(&mut world.thread, &mut tried);
                let mut fresh = World::on(policy.clone());
                if running {
                    fresh.running("first");
                } else {
                    fresh.start("first");
                }
                assert_eq!(now(&offered.interrupt), fresh.interrupt(true).is_ok());
            }
        }
    }
}

#[test]
fn the_echo_of_a_message_is_matched_by_its_client_id_in_any_order() {
    let mut world = World::new();
    let run = world.running("first");
    let first = world.thread.state.active.as_ref().unwrap().message.unwrap();
    let (second, _, _) = world.say("second", steer(run));
    for (item, message, text) in [("u2", second, "second"), ("u1", first, "first")] {
        for kind in [
            ProviderEventKind::ItemOpened {
                item: item.into(),
                content: echo(text),
                client_id: Some(message.to_string()),
            },
            ProviderEventKind::ItemClosed {
                item: item.into(),
                status: ItemStatus::Completed,
                content: echo(text),
                client_id: Some(message.to_string()),
            },
        ] {
            world.agent(kind);
        }
    }
    assert_eq!(user_texts(&world), ["first", "second"]);
    assert_eq!(world.message(second).delivery, Delivery::Started);
}

#[test]
fn the_echo_of_an_agent_without_client_ids_is_matched_by_order_once() {
    let mut world = World::new();
    let run = world.running("first");
    world.say("second", steer(run)).2.unwrap();
    for (item, text) in [
        ("u1", "first"),
        ("u2", "second (as the agent cut it)"),
        ("u3", "typed at the desk"),
    ] {
        world.close(item, ItemStatus::Completed, echo(text));
        world.close(item, ItemStatus::Completed, echo(text));
    }
    assert_eq!(user_texts(&world), ["first", "second", "typed at the desk"]);
}

#[test]
fn words_with_a_foreign_client_id_are_somebody_elses() {
    let mut world = World::new();
    world.running("first");
    world.agent(ProviderEventKind::ItemClosed {
        item: "u9".into(),
        status: ItemStatus::Completed,
        content: echo("from the other client"),
        client_id: Some("tui-17".to_owned()),
    });
    assert_eq!(user_texts(&world), ["first", "from the other client"]);
}

#[test]
fn an_interrupted_attempt_of_a_restarted_run_stays_in_its_history() {
    let mut world = World::without_steering();
    let run = world.running("first");
    world.say("otherwise", restart(run)).2.unwrap();
    let first = world
        .thread
        .state
        .active
        .clone()
        .unwrap()
        .attempt
        .unwrap()
        .id;
    world.end_turn(TurnStatus::Interrupted);
    let row = world
        .thread
        .rows
        .0
        .values()
        .find_map(|row| match row {
            pilothouse_domain::Row::Attempt(row) if row.id == first => Some(row.clone()),
            _ => None,
        })
        .unwrap();
    assert_eq!(row.status, AttemptStatus::Interrupted);
}
