//! What ACP agents can do as measured, and how our modes are said in their words (docs/agents-probes.md, section 8).

use super::replies::Hello;
use crate::rpc::facts;
use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue, Mode,
    capability::{Fact, Source},
};
use serde_json::Value;
use std::sync::OnceLock;

/// What measured agents do otherwise than the protocol says, or where it leaves them free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quirks {
    /// A conversation that is not there is loaded as nothing, without an error (hermes).
    pub(crate) empty_load: bool,
    /// The tokens of a turn are those of the whole conversation (copilot).
    pub(crate) usage_adds_up: bool,
    /// A change of mode is said in words of the agent (gemini).
    pub(crate) says_mode: bool,
    /// Refusing a permission stops the turn (codex-acp).
    pub(crate) reject_stops: bool,
}

fn table() -> &'static Value {
    static TABLE: OnceLock<Value> = OnceLock::new();
    TABLE.get_or_init(|| serde_json::from_str(include_str!("profile.json")).unwrap_or_default())
}

/// The family's capabilities before any handshake.
pub fn capabilities() -> Capabilities {
    let family = &table()["family"];
    let mut known = Capabilities {
        version: 1,
        ..Capabilities::default()
    };
    learn(
        &mut known,
        &family["facts"],
        family["version"].as_str().unwrap_or_default(),
    );
    known
}

/// The capabilities of a running agent: the family's, those measured of its kind, and what its handshake says.
pub(crate) fn capabilities_of(hello: &Hello, today: &str) -> Capabilities {
    let mut known = capabilities();
    let agent = &table()["agents"][&hello.name];
    if let Some(version) = agent["version"].as_str() {
        learn(&mut known, &agent["facts"], version);
    }
    let said = |value: bool| Fact {
        value: if value {
            CapabilityValue::Yes
        } else {
            CapabilityValue::No
        },
        detail: None,
        source: Source::Handshake,
        version: hello.version.clone(),
        observed_at: today.to_owned(),
    };
    known.learn(CapabilityFlag::ForkThread, said(hello.fork));
    known.learn(CapabilityFlag::ReadThreadSnapshot, said(hello.load));
    known.learn(
        CapabilityFlag::ProviderCanReadConversationSnapshot,
        said(hello.load),
    );
    known
}

/// What an agent of that name does in its own way.
pub fn quirks(agent: &str) -> Quirks {
    let has = |quirk: &str| {
        table()["agents"][agent]["quirks"]
            .as_array()
            .is_some_and(|quirks| quirks.iter().any(|one| one == quirk))
    };
    Quirks {
        empty_load: has("empty_load"),
        usage_adds_up: has("usage_adds_up"),
        says_mode: has("says_mode"),
        reject_stops: has("reject_stops"),
    }
}

/// How an agent of exactly the measured version begins the words by which it says that a turn failed which it ends as if it
/// had not. Of any other version nothing is concluded from words.
pub(crate) fn failures(agent: &str, version: &str) -> Vec<String> {
    if measured_version(agent) != Some(version) {
        return Vec::new();
    }
    let words = table()["agents"][agent]["failures"].as_array();
    words
        .into_iter()
        .flatten()
        .filter_map(|words| words.as_str().map(str::to_owned))
        .collect()
}

/// An error by which an agent says that a conversation is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    code: i64,
    begins: String,
    ends: String,
}

impl Missing {
    /// Whether an error of that number and with those words is it.
    pub(crate) fn fits(&self, code: i64, words: &str) -> bool {
        code == self.code && words.starts_with(&self.begins) && words.ends_with(&self.ends)
    }
}

/// How an agent of exactly the measured version says that a conversation is not there, besides the protocol's own -32002.
pub(crate) fn missing(agent: &str, version: &str) -> Vec<Missing> {
    if measured_version(agent) != Some(version) {
        return Vec::new();
    }
    let said = table()["agents"][agent]["no_conversation"].as_array();
    let read = said.into_iter().flatten().filter_map(|one| {
        Some(Missing {
            code: one["code"].as_i64()?,
            begins: one["begins"].as_str()?.to_owned(),
            ends: one["ends"].as_str().unwrap_or_default().to_owned(),
        })
    });
    read.collect()
}

/// The version on which an agent of that name was measured.
pub(crate) fn measured_version(agent: &str) -> Option<&'static str> {
    table()["agents"][agent]["version"].as_str()
}

/// How one of our modes is said to an agent of that name: options by category or id, with their values. `None` where it
/// is not known; an agent that nobody measured has none.
pub fn mode(agent: &str, mode: Mode) -> Option<Vec<(String, String)>> {
    let options = table()["agents"][agent]["modes"][mode.name()].as_object()?;
    Some(
        options
            .iter()
            .filter_map(|(option, value)| Some((option.clone(), value.as_str()?.to_owned())))
            .collect(),
    )
}

fn learn(known: &mut Capabilities, facts: &Value, version: &str) {
    let observed_at = table()["family"]["observed_at"].as_str();
    facts::learn(known, facts, version, observed_at.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_of_the_profile_names_a_known_flag_and_a_known_value() {
        let family = table()["family"]["facts"].as_object().unwrap();
        assert_eq!(capabilities().facts.len(), family.len());
        for (name, agent) in table()["agents"].as_object().unwrap() {
            let facts = agent["facts"].as_object().unwrap();
            let mut known = Capabilities::default();
            learn(&mut known, &agent["facts"], "1");
            assert_eq!(known.facts.len(), facts.len(), "{name}");
            let quirks = agent["quirks"].as_array().unwrap();
            let read = super::quirks(name);
            let read = [
                read.empty_load,
                read.usage_adds_up,
                read.says_mode,
                read.reject_stops,
            ];
            assert_eq!(read.iter().filter(|quirk| **quirk).count(), quirks.len());
            let version = agent["version"].as_str().unwrap();
            let listed = agent["no_conversation"].as_array().map_or(0, Vec::len);
            assert_eq!(missing(name, version).len(), listed, "{name}");
            assert!(missing(name, "another").is_empty());
            let modes = agent["modes"].as_object().unwrap();
            for said in modes.keys() {
                assert!(
                    Mode::ALL.iter().any(|mode| mode.name() == said),
                    "{name}: {said}"
                );
            }
        }
    }

    #[test]
    fn every_measured_agent_can_be_told_to_ask() {
        for name in table()["agents"].as_object().unwrap().keys() {
            assert!(mode(name, Mode::Ask).is_some(), "{name}");
        }
        assert_eq!(mode("nobody", Mode::Ask), None);
    }
}
