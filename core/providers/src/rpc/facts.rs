//! Measured facts of an agent, as the families' profile.json say them.

use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue,
    capability::{Detail, Fact, Source, Strength},
};
use serde_json::Value;

/// Learns the facts that name a known flag and a known value; a test of each family holds that all of its own do.
pub(crate) fn learn(known: &mut Capabilities, facts: &Value, version: &str, observed_at: &str) {
    for &flag in CapabilityFlag::ALL {
        let Some((value, detail)) = facts[flag.name()]
            .as_str()
            .and_then(|word| read(flag, word))
        else {
            continue;
        };
        known.learn(
            flag,
            Fact {
                value,
                detail,
                source: Source::Profile,
                version: version.to_owned(),
                observed_at: observed_at.to_owned(),
            },
        );
    }
}

fn read(flag: CapabilityFlag, word: &str) -> Option<(CapabilityValue, Option<Detail>)> {
    let survives = |client_loss| Detail::Survives {
        client_loss,
        runtime_loss: false,
    };
    let of_requests = flag == CapabilityFlag::PendingRequestsSurviveRestart;
    let (value, detail) = match word {
        "yes" => (CapabilityValue::Yes, None),
        "no" => (CapabilityValue::No, None),
        "unknown" => (CapabilityValue::Unknown, None),
        "strong" => (
            CapabilityValue::Yes,
            Some(Detail::Strength(Strength::Strong)),
        ),
        "weak" => (CapabilityValue::Yes, Some(Detail::Strength(Strength::Weak))),
        "none" if of_requests => (CapabilityValue::No, Some(survives(false))),
        "none" => (CapabilityValue::No, Some(Detail::Strength(Strength::None))),
        "client_loss_only" if of_requests => (CapabilityValue::No, Some(survives(true))),
        _ => return None,
    };
    Some((value, detail))
}
