//! Measured facts of an agent, as the families' profile.json say them.

use super::date::day;
use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue,
    capability::{Detail, Fact, Source, Strength},
};
use serde_json::Value;
use std::time::SystemTime;

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

/// The capabilities that a family's profile.json tells in `facts`.
pub(crate) fn measured(profile: &str, version: &str, observed_at: &str) -> Capabilities {
    let table: Value = serde_json::from_str(profile).unwrap_or_default();
    let mut known = Capabilities {
        version: 1,
        ..Capabilities::default()
    };
    learn(&mut known, &table["facts"], version, observed_at);
    known
}

/// A fact that a running agent showed by itself, at that time.
pub(crate) fn seen(value: CapabilityValue, version: &str, now: SystemTime) -> Fact {
    Fact {
        value,
        detail: None,
        source: Source::Handshake,
        version: version.to_owned(),
        observed_at: day(now),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{claude, codex, opencode};

    #[test]
    fn every_fact_of_a_profile_names_a_known_flag_and_a_known_value() {
        use {
            claude::profile as of_claude, codex::profile as of_codex,
            opencode::profile as of_opencode,
        };
        let all = [
            (
                include_str!("../codex/profile.json"),
                of_codex::capabilities(),
                of_codex::MEASURED_VERSION,
                of_codex::MEASURED_AT,
            ),
            (
                include_str!("../claude/profile.json"),
                of_claude::capabilities(),
                of_claude::MEASURED_VERSION,
                of_claude::MEASURED_AT,
            ),
            (
                include_str!("../opencode/profile.json"),
                of_opencode::capabilities(),
                of_opencode::MEASURED_VERSION,
                of_opencode::MEASURED_AT,
            ),
        ];
        for (profile, known, version, observed_at) in all {
            let table: Value = serde_json::from_str(profile).unwrap();
            assert_eq!(
                known.facts.len(),
                table["facts"].as_object().unwrap().len(),
                "{version}"
            );
            assert_eq!(table["version"], version);
            assert_eq!(table["observed_at"], observed_at);
        }
    }
}
