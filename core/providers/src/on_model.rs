//! What an agent can do on the model that is chosen.

use crate::{contract::AgentRuntime, rpc::facts};
use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue, capability::Source, thread::Selection,
};
use std::time::SystemTime;

/// What a running agent of `version` can do in a conversation that runs on this: what it can do at all, and less where it says
/// itself that the model (the one that it takes, if none is chosen) does not. It changes with the choice, and with what the
/// agent's account offers.
pub fn capabilities_on(
    runtime: &dyn AgentRuntime,
    selection: &Selection,
    version: &str,
) -> Capabilities {
    let mut known = runtime.capabilities();
    let models = runtime.models();
    let chosen = match &selection.model {
        Some(id) => models.iter().find(|model| model.id == *id),
        None => models.iter().find(|model| model.is_default),
    };
    // An agent that hands no picture on, as measured, does not do so for a model either. What it said itself may be of the model
    // before.
    let flag = CapabilityFlag::ImageInput;
    let never = known
        .facts
        .get(&flag)
        .is_some_and(|fact| fact.value == CapabilityValue::No && fact.source != Source::Handshake);
    if let Some(images) = chosen.and_then(|model| model.images)
        && !never
    {
        let value = match images {
            true => CapabilityValue::Yes,
            false => CapabilityValue::No,
        };
        let fact = facts::seen(value, version, SystemTime::now());
        known.learn(flag, fact);
    }
    known
}
