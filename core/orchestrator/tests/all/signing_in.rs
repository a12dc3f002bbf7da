//! Signing an agent in for a thread that waits for it (docs/decisions/033).

use crate::world::{World, options, policy};
use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, CommandBody, EffectKind, EffectOutcome, Event,
    ProviderEventKind, Refusal, RequestStatus, Subject,
    event::{HoldReason, Skippable},
    provider::TurnStatus,
    provider_event::{NativePlace, Resolution},
    refusal::Fallback,
    request::RequestKind,
    run::{ErrorCode, RunError},
};
use pilothouse_orchestrator::{Offer, Unavailable, affordances};

/// A thread whose agent was refused, and what its host says of the agent.
fn refused(can: CapabilityValue) -> (World, pilothouse_domain::Policy) {
    let mut policy = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    for agent in policy.agents.values_mut() {
        agent.capabilities.insert(CapabilityFlag::SignIn, can);
    }
    let mut world = World::on(policy.clone());
    let early = world.submit(CommandBody::ThreadSignIn).unwrap_err();
    assert_eq!(early.code(), "invalid", "it does not wait for it");
    world.running("go");
    let busy = world.submit(CommandBody::ThreadSignIn).unwrap_err();
    assert_eq!(busy.code(), "unfit_run");
    world.fail_turn(RunError {
        code: ErrorCode::SignIn,
        message: "401".to_owned(),
    });
    assert_eq!(world.thread.state.held, Some(HoldReason::SignIn));
    world.effects();
    (world, policy)
}

fn noted(world: &World) -> Vec<Option<String>> {
    let events = world.events().into_iter();
    events
        .filter_map(|event| match event {
            Event::SignInAsked { .. } => Some(None),
            Event::SignInFailed { problem, .. } => Some(Some(problem)),
            _ => None,
        })
        .collect()
}

/// No turn goes on.
fn conversation(world: &World) -> NativePlace {
    NativePlace {
        turn: None,
        ..world.place.clone()
    }
}

fn asks(world: &mut World) {
    let subject = Subject {
        options: options(),
        ..Subject::default()
    };
    let kind = ProviderEventKind::RequestOpened {
        request: "\"L\"".into(),
        item: None,
        kind: RequestKind::Auth,
        subject: Box::new(subject),
        unknown_fields: false,
    };
    world.agent_at(conversation(world), kind);
}

fn closes(world: &mut World, resolution: Resolution) {
    let kind = ProviderEventKind::RequestClosed {
        request: "\"L\"".into(),
        resolution,
    };
    world.agent_at(conversation(world), kind);
}

#[test]
fn it_is_begun_once_and_a_request_says_how_while_nothing_runs() {
    let (mut world, policy) = refused(CapabilityValue::Yes);
    let offer = |world: &World| affordances(&world.thread.state, &policy).sign_in;
    assert_eq!(offer(&world), Offer::Available);
    world.submit(CommandBody::ThreadSignIn).unwrap();
    let effects = world.effects();
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].kind, EffectKind::SignIn);
    world.outcome(&effects[0], EffectOutcome::Acknowledged);
    asks(&mut world);
    let asked = world.request();
    assert!(!asked.one_tap_allowed && world.thread.state.active.is_none());
    let reason = Unavailable::AskedAlready;
    assert_eq!(offer(&world), Offer::Unavailable { reason });
    // The same for who asks now.
    world.submit(CommandBody::ThreadSignIn).unwrap();
    assert_eq!(world.effects(), []);
    closes(&mut world, Resolution::Answered);
    assert!(matches!(
        world.request().status,
        RequestStatus::Answered { by: None, .. }
    ));
    assert_eq!(noted(&world), [None]);
}

#[test]
fn what_it_came_to_nothing_by_is_kept_and_the_thread_waits_on() {
    let (mut world, _) = refused(CapabilityValue::Yes);
    world.submit(CommandBody::ThreadSignIn).unwrap();
    let effect = world.effects().remove(0);
    let error = RunError {
        code: ErrorCode::Agent,
        message: "no network".to_owned(),
    };
    world.outcome(&effect, EffectOutcome::Failed { error });
    world.submit(CommandBody::ThreadSignIn).unwrap();
    let effect = world.effects().remove(0);
    world.outcome(&effect, EffectOutcome::Acknowledged);
    asks(&mut world);
    closes(&mut world, Resolution::Expired);
    assert_eq!(world.request().status, RequestStatus::Expired);
    world.agent(ProviderEventKind::SignInFailed {
        message: "x".repeat(10_000),
    });
    let noted = noted(&world);
    assert_eq!(noted[0], None);
    assert_eq!(noted[1].as_deref(), Some("it was not begun: no network"));
    assert_eq!((&noted[2], noted[3].as_ref().unwrap().len()), (&None, 500));
    assert_eq!(world.thread.state.held, Some(HoldReason::SignIn));
}

#[test]
fn a_turn_that_ends_meanwhile_leaves_it_open() {
    let (mut world, _) = refused(CapabilityValue::Yes);
    world.submit(CommandBody::ThreadSignIn).unwrap();
    let effect = world.effects().remove(0);
    world.outcome(&effect, EffectOutcome::Acknowledged);
    // Somebody types at the desk before the agent asks.
    world.place.turn = Some("desk".into());
    world.agent(ProviderEventKind::TurnStarted);
    asks(&mut world);
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.request().status, RequestStatus::Pending);
    closes(&mut world, Resolution::Answered);
    assert!(matches!(
        world.request().status,
        RequestStatus::Answered { by: None, .. }
    ));
}

#[test]
fn it_is_given_up_by_an_answer() {
    let (mut world, _) = refused(CapabilityValue::Yes);
    asks(&mut world);
    let asked = world.request();
    world.answer(&asked, "decline").unwrap();
    assert!(matches!(
        &world.effects()[..],
        [effect] if matches!(&effect.kind, EffectKind::Respond { request, .. } if *request == asked.id)
    ));
    closes(&mut world, Resolution::Answered);
    assert!(matches!(
        world.request().status,
        RequestStatus::Answered { by: Some(_), .. }
    ));
}

#[test]
fn an_agent_that_has_none_is_signed_in_on_its_host() {
    for can in [CapabilityValue::No, CapabilityValue::Unknown] {
        let (mut world, _) = refused(can);
        assert_eq!(
            world.submit(CommandBody::ThreadSignIn),
            Err(Refusal::Unsupported {
                capability: CapabilityFlag::SignIn,
                fallback: Some(Fallback::OnHost),
            })
        );
        assert_eq!(noted(&world), [] as [Option<String>; 0]);
    }
}

#[test]
fn an_earlier_version_goes_on_without_what_is_noted() {
    let problem = "nobody came".to_owned();
    let skippable = Skippable;
    for event in [
        Event::SignInAsked { skippable },
        Event::SignInFailed { problem, skippable },
    ] {
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written["skippable"], true);
    }
}
