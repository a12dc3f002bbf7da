//! How a step ended, and what that says of the agent.

use pilothouse_domain::Refusal;
use serde::{Deserialize, Serialize};

/// How a step was played to its end. One that was not ends by a panic.
pub(crate) enum Ended {
    /// The agent did what was asked by an operation of its own.
    Native,
    /// The same, with something to know.
    Noted(String),
    /// It was done another way: how.
    Otherwise(String),
    /// The conversation could not be taken up, and another took its place.
    Replaced(String),
    /// The host refused it.
    Refused(Refusal),
}

/// What comes of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    #[serde(rename = "pass")]
    Pass,
    #[serde(rename = "recovered by replacement")]
    Replaced,
    #[serde(rename = "refused as declared")]
    Refused,
    #[serde(rename = "not offered")]
    NotOffered,
    #[serde(rename = "FAIL")]
    Fail,
}

impl Outcome {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Replaced => "recovered by replacement",
            Self::Refused => "refused as declared",
            Self::NotOffered => "not offered",
            Self::Fail => "FAIL",
        }
    }
}

/// How far a person's control of an operation reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Control {
    /// By an operation of the agent's own.
    Native,
    /// By something else that comes near; the reason says how.
    Approximated,
    /// Not at all; the reason says why.
    Unavailable,
    /// Not known: the step failed.
    Unproven,
}

impl Control {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Approximated => "approximated",
            Self::Unavailable => "unavailable",
            Self::Unproven => "unproven",
        }
    }
}

/// A step's line in the table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) step: String,
    pub(crate) outcome: Outcome,
    pub(crate) control: Control,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
}

impl Line {
    /// Whether another run's line says the same: outcome, control and why, numbers apart.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let told = |line: &Self| {
            let pieces = line.reason.split(|c: char| c.is_ascii_digit());
            let words: Vec<_> = pieces
                .filter(|piece| !piece.is_empty())
                .map(str::to_owned)
                .collect();
            (line.outcome, line.control, words)
        };
        self.step == other.step && told(self) == told(other)
    }

    pub(crate) fn failed(step: &str, reason: impl Into<String>) -> Self {
        Self {
            step: step.to_owned(),
            outcome: Outcome::Fail,
            control: Control::Unproven,
            reason: reason.into(),
        }
    }
}
