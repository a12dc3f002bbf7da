//! Faults that are planted on purpose, one at a time, to see that each is found as what it is.

use crate::{oracle::Evidence, stage::Kill};
use serde_json::{Value, json};

/// What is to be broken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plant(pub(crate) Option<String>);

/// Faults of the agent's log, which it writes itself (tests/support/scripted.mjs), with the kind of violation that has to be
/// found.
pub(crate) const AGENT_PLANTS: [(&str, &str); 7] = [
    ("twice", "duplicated"),
    ("deaf", "lost"),
    ("mixed", "answer"),
    ("answers", "answer"),
    ("effects", "duplicated"),
    ("unread", "answer"),
    ("stuck", "stuck"),
];

/// Faults of what devices show, and of what was killed.
pub(crate) const VIEW_PLANTS: [(&str, &str); 8] = [
    ("hidden", "view"),
    ("digest", "digest"),
    ("twice-shown", "duplicated"),
    ("failed", "lost"),
    ("other-answer", "answer"),
    ("unsaid", "lost"),
    ("other-kill", "unknown"),
    ("late-kill", "unknown"),
];

/// A process that is no agent.
const NOBODY: u32 = 1;
/// Far beyond every time that the host may take, ms.
const HOUR: u64 = 3_600_000;

impl Plant {
    /// The option of the agent that makes it lie, if this is its part.
    pub(crate) fn of_agent(&self) -> Option<&str> {
        let name = self.0.as_deref()?;
        AGENT_PLANTS
            .iter()
            .any(|(plant, _)| *plant == name)
            .then_some(name)
    }

    /// Edits what the judge looks at, as a fault would.
    pub(crate) fn falsify(&self, evidence: &mut Evidence<'_>) {
        let Some(plant) = self.0.as_deref() else {
            return;
        };
        let last = evidence.dumps.len().saturating_sub(1);
        match plant {
            "twice-shown" | "failed" | "other-answer" => falsify(&mut evidence.dumps[..1], plant),
            "hidden" | "digest" => falsify(&mut evidence.dumps[last..], plant),
            _ => falsify(&mut evidence.dumps, plant),
        }
        let Some(message) = evidence.journal.arrivals("m0").first().cloned() else {
            return;
        };
        match plant {
            // The end of a process that had nothing to do with it, at the worst moment.
            "unsaid" | "other-kill" => evidence.kills.push(Kill {
                at: message.at,
                agent: Some(NOBODY),
            }),
            // Its own, when all of it had long been recorded.
            "late-kill" => evidence.kills.push(Kill {
                at: message.at + HOUR,
                agent: Some(message.pid),
            }),
            _ => {}
        }
    }
}

fn falsify(dumps: &mut [Value], plant: &str) {
    for dump in dumps {
        let timelines = dump["timelines"].as_object_mut();
        let Some((_, timeline)) = timelines.and_then(|all| all.iter_mut().next()) else {
            continue;
        };
        if plant == "digest" {
            timeline["digest"] = json!("0".repeat(64));
        } else if let Some(rows) = timeline["rows"].as_array_mut() {
            falsify_rows(rows, plant);
        }
    }
}

fn falsify_rows(rows: &mut Vec<Value>, plant: &str) {
    let first = |kind: &str| rows.iter().position(|row| row["kind"] == kind);
    match plant {
        "hidden" => drop(rows.pop()),
        "twice-shown" => {
            if let Some(at) = first("user") {
                rows.insert(at, rows[at].clone());
            }
        }
        "failed" => {
            if let Some(at) = first("user") {
                rows[at]["delivery"] = json!({"delivery": "failed", "reason": "planted"});
            }
        }
        "other-answer" => {
            if let Some(at) = first("request") {
                rows[at]["request"]["status"]["answer"]["option"] = json!("decline");
            }
        }
        // What the host says of an answer of which it only concludes that it was taken.
        "unread" => {
            if let Some(at) = first("request") {
                rows[at]["request"]["status"]["delivery"] = json!("inferred");
            }
        }
        "unsaid" => {
            if let Some(at) = first("assistant") {
                rows.remove(at);
            }
        }
        "other-kill" | "late-kill" => {
            if let Some(at) = first("user") {
                rows[at]["delivery"] = json!({"delivery": "unknown"});
            }
        }
        _ => {}
    }
}
