//! Choosing what a thread runs on.

use crate::world::{World, handshake, policy};
use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, CommandBody, Mode, ProviderEventKind, Refusal, limits,
    provider::{OfferedModel, TurnStatus},
    refusal::Fallback,
};
use pilothouse_orchestrator::{Offer, Verdict, affordances};

fn world(switches: CapabilityValue) -> World {
    let mut policy = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    for agent in policy.agents.values_mut() {
        for flag in [
            CapabilityFlag::ModelSwitchInSession,
            CapabilityFlag::RuntimeModeSwitchInSession,
        ] {
            agent.capabilities.insert(flag, switches);
        }
    }
    World::on(policy)
}

fn model(id: &str, efforts: &[&str], is_default: bool) -> OfferedModel {
    OfferedModel {
        id: id.to_owned(),
        name: id.to_uppercase(),
        efforts: efforts.iter().map(|&effort| effort.to_owned()).collect(),
        default_effort: None,
        is_default,
        images: None,
    }
}

/// The agent introduces itself and says what it can run on.
fn offer(world: &mut World) {
    world.agent(handshake(&[]));
    world.agent(ProviderEventKind::ModelsOffered {
        models: vec![
            model("gpt-6-sol", &["low", "medium", "high"], true),
            model("gpt-5.5", &["low", "xhigh"], false),
            model("local", &[], false),
        ],
    });
}

fn select(
    world: &mut World,
    model: Option<&str>,
    effort: Option<&str>,
    mode: Mode,
) -> Result<Verdict, Refusal> {
    world.submit(CommandBody::ThreadSelect {
        model: model.map(str::to_owned),
        effort: effort.map(str::to_owned),
        mode,
    })
}

fn accepted() -> Result<Verdict, Refusal> {
    Ok(Verdict::Accepted { notice: None })
}

#[test]
fn of_an_agent_with_more_models_than_are_kept_a_model_that_is_not_kept_can_be_chosen() {
    let mut world = world(CapabilityValue::Yes);
    let offer = |world: &mut World, count: usize| {
        world.agent(handshake(&[]));
        let models = (0..count).map(|n| model(&format!("model-{n}"), &["low"], n == 0));
        let models = models.collect();
        world.agent(ProviderEventKind::ModelsOffered { models });
    };
    offer(&mut world, limits::OFFERED_MODELS - 1);
    let last = format!("model-{}", limits::OFFERED_MODELS);
    let refused = select(&mut world, Some(&last), None, Mode::Ask);
    assert_eq!(refused.unwrap_err().code(), "unknown_model");
    offer(&mut world, limits::OFFERED_MODELS + 1);
    assert_eq!(
        select(&mut world, Some(&last), Some("low"), Mode::Ask),
        accepted()
    );
}

#[test]
fn what_is_chosen_is_checked_against_what_the_agent_offers_and_the_nearest_is_named() {
    let mut world = world(CapabilityValue::Yes);
    // Before it has said anything, it is believed to take everything.
    assert_eq!(
        select(&mut world, Some("anything"), Some("most"), Mode::Ask),
        accepted()
    );
    offer(&mut world);
    assert_eq!(
        select(&mut world, Some("gpt5.5"), None, Mode::Ask),
        Err(Refusal::UnknownModel {
            model: "gpt5.5".to_owned(),
            nearest: ["gpt-5.5", "gpt-6-sol", "local"]
                .map(str::to_owned)
                .to_vec()
        })
    );
    let effort = |effort: &str, known: &[&str]| {
        Err(Refusal::UnknownEffort {
            effort: effort.to_owned(),
            known: known.iter().map(|&word| word.to_owned()).collect(),
        })
    };
    assert_eq!(
        select(&mut world, Some("gpt-5.5"), Some("high"), Mode::Ask),
        effort("high", &["xhigh", "low"])
    );
    // Without a model it is the default's efforts that count.
    assert_eq!(
        select(&mut world, None, Some("xhigh"), Mode::Ask),
        effort("xhigh", &["high", "low", "medium"])
    );
    // A model that takes none, or does not say, is not second-guessed.
    assert_eq!(
        select(&mut world, Some("local"), Some("most"), Mode::Ask),
        accepted()
    );
    assert_eq!(
        select(&mut world, Some("gpt-5.5"), Some("low"), Mode::AutoEdit),
        accepted()
    );
    let chosen = world.thread.state.meta.as_ref().unwrap().selection.clone();
    assert_eq!(
        (
            chosen.model.as_deref(),
            chosen.effort.as_deref(),
            chosen.mode
        ),
        (Some("gpt-5.5"), Some("low"), Mode::AutoEdit)
    );
    assert_eq!(world.thread.summary.as_ref().unwrap().mode, Mode::AutoEdit);
    // The same once more is no entry.
    let entries = world.thread.entries.len();
    assert_eq!(
        select(&mut world, Some("gpt-5.5"), Some("low"), Mode::AutoEdit),
        accepted()
    );
    assert_eq!(world.thread.entries.len(), entries);
    assert!(matches!(
        select(&mut world, None, None, Mode::FullAccess),
        Err(Refusal::UnsupportedMode { .. })
    ));
    for empty in [" ", &"x".repeat(201)] {
        assert_eq!(
            select(&mut world, Some(empty), None, Mode::Ask)
                .unwrap_err()
                .code(),
            "invalid"
        );
    }
    // What it offers outlives the capabilities that it sends anew.
    world.agent(handshake(&[]));
    assert_eq!(
        select(&mut world, Some("gpt"), None, Mode::Ask)
            .unwrap_err()
            .code(),
        "unknown_model"
    );
}

#[test]
fn an_agent_that_keeps_what_it_began_with_is_given_another_only_before_it_begins() {
    let mut world = world(CapabilityValue::No);
    let policy = policy(CapabilityValue::Yes, CapabilityValue::Yes);
    assert_eq!(
        select(&mut world, Some("gpt-5.5"), None, Mode::AutoEdit),
        accepted()
    );
    let offers = affordances(&world.thread.state, &policy);
    assert_eq!(
        (offers.switch_model, offers.switch_mode),
        (Offer::Available, Offer::Available)
    );
    world.running("begin");
    world.end_turn(TurnStatus::Completed);
    let refused = |capability| {
        Err(Refusal::Unsupported {
            capability,
            fallback: Some(Fallback::NewThread),
        })
    };
    assert_eq!(
        select(&mut world, Some("gpt-5.5"), None, Mode::Ask),
        refused(CapabilityFlag::RuntimeModeSwitchInSession)
    );
    assert_eq!(
        select(&mut world, None, None, Mode::AutoEdit),
        refused(CapabilityFlag::ModelSwitchInSession)
    );
    let offers = affordances(&world.thread.state, &policy);
    for offer in [offers.switch_model, offers.switch_mode] {
        assert!(matches!(offer, Offer::Unavailable { .. }), "{offer:?}");
    }
}
