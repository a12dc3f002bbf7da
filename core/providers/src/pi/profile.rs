//! What pi and omp can do as measured (docs/agents-probes.md, section 9).

use crate::rpc::facts;
use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue,
    capability::{Fact, Source},
};
use serde_json::Value;
use std::sync::OnceLock;

/// Which of the two speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// pi.
    #[default]
    Pi,
    /// omp, which greets, ends a run with `agent_end` and asks by itself.
    Omp,
}

impl Dialect {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Omp => "omp",
        }
    }

    /// As a command line tells: a program or script of omp's name, or of its package.
    pub fn of_command(command: &[String]) -> Self {
        let is_omp = command.iter().any(|word| {
            let name = word.rsplit('/').next().unwrap_or(word);
            name == "omp" || word.contains("/@oh-my-pi/")
        });
        if is_omp { Self::Omp } else { Self::Pi }
    }

    /// The version on which it was measured.
    pub fn measured_version(self) -> &'static str {
        table()["dialects"][self.name()]["version"]
            .as_str()
            .unwrap_or_default()
    }
}

fn table() -> &'static Value {
    static TABLE: OnceLock<Value> = OnceLock::new();
    TABLE.get_or_init(|| serde_json::from_str(include_str!("profile.json")).unwrap_or_default())
}

/// The family's capabilities before any handshake: pi's.
pub fn capabilities() -> Capabilities {
    capabilities_of(Dialect::Pi)
}

/// The measured capabilities of a dialect: those of pi, and where omp differs, its own.
pub(super) fn capabilities_of(dialect: Dialect) -> Capabilities {
    let mut known = Capabilities {
        version: 1,
        ..Capabilities::default()
    };
    learn(&mut known, Dialect::Pi);
    if dialect == Dialect::Omp {
        learn(&mut known, Dialect::Omp);
    }
    known
}

/// Whether it asks before commands and changes, as the start of its process showed or a person chose.
pub(super) fn asks(
    known: &mut Capabilities,
    value: CapabilityValue,
    source: Source,
    at: (&str, &str),
) {
    for flag in [
        CapabilityFlag::CommandApproval,
        CapabilityFlag::FileChangeApproval,
    ] {
        known.learn(
            flag,
            Fact {
                value,
                detail: None,
                source,
                version: at.0.to_owned(),
                observed_at: at.1.to_owned(),
            },
        );
    }
}

/// That it cannot take back what was said, as it was started.
pub(super) fn keeps_all(known: &mut Capabilities, at: (&str, &str)) {
    for flag in [
        CapabilityFlag::RollbackThread,
        CapabilityFlag::ProviderCanRollbackConversation,
    ] {
        known.learn(
            flag,
            Fact {
                value: CapabilityValue::No,
                detail: None,
                source: Source::User,
                version: at.0.to_owned(),
                observed_at: at.1.to_owned(),
            },
        );
    }
}

fn learn(known: &mut Capabilities, dialect: Dialect) {
    let facts = &table()["dialects"][dialect.name()]["facts"];
    let observed_at = table()["observed_at"].as_str().unwrap_or_default();
    facts::learn(known, facts, dialect.measured_version(), observed_at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_of_the_profile_names_a_known_flag_and_a_known_value() {
        let pi = table()["dialects"]["pi"]["facts"].as_object().unwrap();
        let omp = table()["dialects"]["omp"]["facts"].as_object().unwrap();
        assert_eq!(capabilities().facts.len(), pi.len());
        assert_eq!(capabilities_of(Dialect::Omp).facts.len(), pi.len());
        assert!(omp.keys().all(|name| pi.contains_key(name)));
    }

    #[test]
    fn omp_is_told_by_its_program_or_its_package() {
        let of = |words: &[&str]| {
            Dialect::of_command(
                &words
                    .iter()
                    .map(|&word| word.to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(&["/usr/bin/omp"]), Dialect::Omp);
        assert_eq!(
            of(&["bun", "/x/@oh-my-pi/pi-coding-agent/dist/cli.js"]),
            Dialect::Omp
        );
        assert_eq!(
            of(&["node", "/x/@earendil-works/pi-coding-agent/cli.js"]),
            Dialect::Pi
        );
        assert_eq!(of(&["pi"]), Dialect::Pi);
    }
}
