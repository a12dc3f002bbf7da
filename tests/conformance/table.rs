//! The table of what came out, as it is kept in docs/agents.json.

use crate::{outcome::Line, way::Way};
use pilothouse_domain::CapabilityValue;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, io::ErrorKind, path::Path};

/// Its file.
pub(crate) const FILE: &str = "agents.json";

/// What came out, sorted by agent, the steps in the story's order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) agents: Vec<Played>,
}

/// What came out with one agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Played {
    pub(crate) agent: String,
    #[serde(default)]
    pub(crate) way: Way,
    pub(crate) version: String,
    pub(crate) date: String,
    pub(crate) lines: Vec<Line>,
    /// What its sessions say that it can, by flag.
    pub(crate) capabilities: BTreeMap<String, CapabilityValue>,
}

impl Table {
    /// What is kept; nothing where there is no file yet.
    pub(crate) fn read(docs: &Path) -> Result<Self, String> {
        let file = docs.join(FILE);
        match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| format!("{}: {error}", file.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }

    pub(crate) fn write(&self, docs: &Path) -> Result<(), String> {
        let file = docs.join(FILE);
        let agents: Result<Vec<String>, serde_json::Error> = self.agents.iter().map(text).collect();
        let agents = agents.map_err(|error| error.to_string())?;
        let text = format!("{{\"agents\": [\n{}\n]}}\n", agents.join(",\n"));
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// What came out with the same agent, reached the same way.
    fn of(&self, other: &Played) -> Option<&Played> {
        let mut agents = self.agents.iter();
        agents.find(|played| (&played.agent, played.way) == (&other.agent, other.way))
    }

    /// It with newer agents in place of the same ones.
    pub(crate) fn with(mut self, newer: Self) -> Self {
        self.agents.retain(|played| newer.of(played).is_none());
        self.agents.extend(newer.agents);
        sort(&mut self.agents);
        self
    }

    /// What another run has that is not so here, in words; dates apart. What is only here counts if that run was whole.
    pub(crate) fn changes(&self, now: &Self, whole: bool) -> Vec<String> {
        let mut changes = Vec::new();
        for played in &now.agents {
            let name = &played.title();
            let Some(known) = self.of(played) else {
                changes.push(format!("{name}: new"));
                continue;
            };
            if known.version != played.version {
                changes.push(format!("{name}: {} was {}", played.version, known.version));
            }
            let line = |line: &Line| {
                let reason = if line.reason.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", line.reason)
                };
                format!("{}, {}{reason}", line.outcome.words(), line.control.words())
            };
            for now in &played.lines {
                match known.lines.iter().find(|known| known.step == now.step) {
                    None => changes.push(format!("{name}, {}: new, {}", now.step, line(now))),
                    Some(known) if !known.is_like(now) => {
                        changes.push(format!(
                            "{name}, {}: {}; was {}",
                            now.step,
                            line(now),
                            line(known)
                        ));
                    }
                    Some(_) => {}
                }
            }
            if !whole {
                continue;
            }
            for known in &known.lines {
                if !played.lines.iter().any(|line| line.step == known.step) {
                    changes.push(format!("{name}, {}: gone", known.step));
                }
            }
            for (flag, value) in &played.capabilities {
                // What is not known is not written down.
                let known = known.capabilities.get(flag).copied().unwrap_or_default();
                if known != *value {
                    changes.push(format!(
                        "{name} declares {flag} as {value:?}; was {known:?}"
                    ));
                }
            }
        }
        changes
    }
}

impl Played {
    /// The agent and how it is reached, for reading.
    pub(crate) fn title(&self) -> String {
        self.way.titled(&self.agent)
    }
}

/// Those that are reached by their host first.
pub(crate) fn sort(agents: &mut [Played]) {
    agents.sort_by(|a, b| (a.way, &a.agent).cmp(&(b.way, &b.agent)));
}

/// What came out with one agent, a step and a flag on a line each, so that a change is a line.
fn text(played: &Played) -> Result<String, serde_json::Error> {
    let Played {
        agent,
        way,
        version,
        date,
        ..
    } = played;
    let way = way.name();
    let lines: Result<Vec<String>, _> = played.lines.iter().map(serde_json::to_string).collect();
    let known = played.capabilities.iter();
    let known = known.filter(|(_, value)| **value != CapabilityValue::Unknown);
    let flags: Result<Vec<String>, serde_json::Error> = known
        .map(|(flag, value)| Ok(format!("\"{flag}\": {}", serde_json::to_string(value)?)))
        .collect();
    Ok(format!(
        "{{\"agent\": \"{agent}\", \"way\": \"{way}\", \"version\": {}, \"date\": \"{date}\", \"lines\": [\n  {}\n], \"capabilities\": {{\n  {}\n}}}}",
        serde_json::to_string(version)?,
        lines?.join(",\n  "),
        flags?.join(",\n  ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn table(version: &str, lines: Value, capabilities: Value) -> Table {
        let agent = json!({"agent": "codex", "version": version, "date": "2026-12-02", "lines": lines, "capabilities": capabilities});
        serde_json::from_value(json!({ "agents": [agent] })).expect("a table")
    }

    fn line(step: &str, outcome: &str, control: &str) -> Value {
        json!({"step": step, "outcome": outcome, "control": control})
    }

    #[test]
    fn a_new_version_shows_what_it_changed_and_nothing_else() {
        let text = line("text", "pass", "native");
        let known = [
            &text,
            &line("steer", "pass", "native"),
            &line("fork", "pass", "native"),
        ];
        let known = table(
            "1.0.0",
            json!(known),
            json!({"supportsFork": "yes", "supportsPlans": "no"}),
        );
        let now = [
            &text,
            &line("steer", "pass", "approximated"),
            &line("plan", "FAIL", "unproven"),
        ];
        let now = table(
            "1.1.0",
            json!(now),
            json!({"supportsFork": "no", "supportsPlans": "no"}),
        );
        let whole = [
            "codex: 1.1.0 was 1.0.0",
            "codex, steer: pass, approximated; was pass, native",
            "codex, plan: new, FAIL, unproven",
            "codex, fork: gone",
            "codex declares supportsFork as No; was Yes",
        ];
        assert_eq!(known.changes(&now, true), whole);
        assert_eq!(known.changes(&now, false), whole[..3]);
        assert!(known.changes(&known, true).is_empty());
        assert_eq!(Table::default().changes(&now, true), ["codex: new"]);
    }
}
