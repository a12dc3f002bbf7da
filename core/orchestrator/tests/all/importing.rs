//! Imports: a thread of a conversation that its agent had already.

use crate::world::{PHONE, World, command_id, device, policy};
use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, Command, CommandBody, ConversationKey, DispatchMode,
    EffectKind, EffectOutcome, Event, Mode, Policy, ProviderEventKind, Refusal, ThreadId,
    ThreadState,
    event::HoldReason,
    provider::TurnStatus,
    request::LostReason,
    run::{ErrorCode, RunError},
    state::Import,
    thread::{Actor, Selection},
};
use pilothouse_orchestrator::{Decision, ListedConversation, Lookups, Verdict, apply, decide};

fn able() -> Policy {
    let mut policy = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    for agent in policy.agents.values_mut() {
        let flag = CapabilityFlag::ListConversations;
        agent.capabilities.insert(flag, CapabilityValue::Yes);
    }
    policy
}

fn key() -> ConversationKey {
    ConversationKey::of(&"codex".into(), &"native".into())
}

fn import(policy: &Policy, listed: Option<ListedConversation>) -> Result<Decision, Refusal> {
    let id = command_id(900);
    let command = Command {
        id,
        thread: id.derive("thread"),
        device_seq: 1,
        based_on: None,
        issued_at_ms: 1,
        body: CommandBody::ThreadImport {
            title: "From the desk".to_owned(),
            workspace: "project".into(),
            selection: Selection {
                agent: "codex".into(),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
            conversation: key(),
        },
    };
    let found = Lookups {
        conversation: listed,
        ..Lookups::default()
    };
    let actor = Actor::Device {
        device: device(PHONE),
    };
    decide(
        &ThreadState::empty(command.thread),
        &found,
        actor,
        &command,
        policy,
    )
}

fn listed(agent: &str, thread: Option<ThreadId>) -> Option<ListedConversation> {
    Some(ListedConversation {
        agent: agent.into(),
        thread,
    })
}

#[test]
fn only_a_conversation_that_the_host_has_listed_of_that_agent_becomes_a_thread() {
    let unknown = Refusal::UnknownConversation {
        conversation: key(),
    };
    assert_eq!(import(&able(), None), Err(unknown.clone()));
    assert_eq!(import(&able(), listed("other", None)), Err(unknown));
    let thread = ThreadId::from_bytes([9; 16]);
    let again = import(&able(), listed("codex", Some(thread)));
    assert_eq!(again, Err(Refusal::AlreadyHere { thread }));
    let silent = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    let refused = import(&silent, listed("codex", None));
    assert!(matches!(
        refused,
        Err(Refusal::Unsupported {
            capability: CapabilityFlag::ListConversations,
            ..
        })
    ));
}

#[test]
fn an_import_has_its_conversation_from_the_beginning_and_rests_only_when_it_is_read() {
    let decision = import(&able(), listed("codex", None)).unwrap();
    let kinds: Vec<_> = decision.effects.iter().map(|effect| &effect.kind).collect();
    assert_eq!(kinds, [&EffectKind::Import]);
    assert!(EffectKind::Import.is_replay_safe());
    let mut state = ThreadState::empty(command_id(900).derive("thread"));
    for event in &decision.events {
        apply(&mut state, event);
    }
    assert_eq!(state.import, Some(Import::Reading));
    assert_eq!(
        state.provider_thread,
        Some(command_id(900).derive("conversation"))
    );
    assert!(!state.rests());
    apply(&mut state, &Event::ImportEnded { error: None });
    assert!(state.rests());
}

/// A conversation that has begun, whose agent has ended.
fn unloaded(tells: CapabilityValue) -> World {
    let mut world = telling(tells);
    world.running("first");
    world.end_turn(TurnStatus::Completed);
    world.thread.lose_runtime(LostReason::Stopped, "idle");
    world.effects();
    world
}

fn telling(tells: CapabilityValue) -> World {
    let mut policy = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    for agent in policy.agents.values_mut() {
        let flag = CapabilityFlag::ReadThreadSnapshot;
        agent.capabilities.insert(flag, tells);
    }
    World::on(policy)
}

#[test]
fn what_was_added_elsewhere_is_read_before_anything_is_said_in_a_conversation_that_is_loaded_anew()
{
    for dispatch in [
        DispatchMode::StartImmediately,
        DispatchMode::QueueAfterActive,
    ] {
        let mut world = unloaded(CapabilityValue::Yes);
        world.say("second", dispatch).2.unwrap();
        let [read] = &world.effects()[..] else {
            panic!("one effect")
        };
        assert_eq!(read.kind, EffectKind::Import);
        assert!(world.thread.state.active.is_none());
        world.outcome(read, EffectOutcome::Acknowledged);
        assert!(world.sent().is_some(), "and then it is said");
    }
}

#[test]
fn words_for_a_turn_that_is_over_stay_held_when_the_conversation_was_read() {
    let mut world = unloaded(CapabilityValue::Yes);
    let over = world.thread.state.last_run.unwrap().id;
    world
        .say("second", DispatchMode::StartImmediately)
        .2
        .unwrap();
    let [read] = &world.effects()[..] else {
        panic!("one effect")
    };
    let steered = world
        .say("stop that", DispatchMode::SteerActive { run: over })
        .2;
    assert!(
        matches!(steered, Ok(Verdict::Refused(Refusal::TurnEnded { .. }))),
        "{steered:?}"
    );
    world.outcome(read, EffectOutcome::Acknowledged);
    assert!(world.sent().is_none(), "neither of them is said by itself");
    assert_eq!(world.thread.state.held, Some(HoldReason::SteerMissed));
}

#[test]
fn a_turn_that_is_read_back_and_was_refused_the_sign_in_holds_nothing() {
    let mut world = unloaded(CapabilityValue::Yes);
    world
        .say("second", DispatchMode::StartImmediately)
        .2
        .unwrap();
    let [read] = &world.effects()[..] else {
        panic!("one effect")
    };
    world.place.turn = Some("desk".into());
    world.agent(ProviderEventKind::TurnStarted);
    world.fail_turn(RunError {
        code: ErrorCode::SignIn,
        message: "401".to_owned(),
    });
    assert!(world.thread.state.active.is_none());
    assert_eq!(world.thread.state.held, None);
    world.outcome(read, EffectOutcome::Acknowledged);
    assert!(world.sent().is_some());
}

#[test]
fn nothing_is_read_first_of_an_agent_that_cannot_tell_or_for_a_message_before_a_held_queue() {
    for tells in [CapabilityValue::No, CapabilityValue::Unknown] {
        let mut world = unloaded(tells);
        world
            .say("second", DispatchMode::StartImmediately)
            .2
            .unwrap();
        assert!(world.sent().is_some());
    }
    let mut world = telling(CapabilityValue::Yes);
    world.running("first");
    world
        .say("waits", DispatchMode::QueueAfterActive)
        .2
        .unwrap();
    world.thread.lose_runtime(LostReason::AgentExited, "");
    assert!(world.thread.state.held.is_some());
    world.effects();
    world.say("now", DispatchMode::StartImmediately).2.unwrap();
    assert!(world.sent().is_some());
    assert!(world.thread.state.held.is_some(), "the queue stays held");
}
