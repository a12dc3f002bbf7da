//! Answers to our calls, typed.

use super::outgoing::Call;
use crate::rpc::{
    CallFailure,
    commands::slash_commands,
    frames::{cut, list, text_of, text_or_empty, texts},
};
use pilothouse_domain::{
    NativeId,
    provider::{OfferedCommand, OfferedModel},
};
use serde_json::Value;

/// Bytes of the agent's words in an error.
const WORDS: usize = 1024;
/// Models that are remembered.
const MODELS: usize = 256;

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The handshake was taken.
    Initialized(Box<Hello>),
    /// A turn began with the message.
    Turn {
        /// The turn.
        turn: NativeId,
    },
    /// The message was put into a turn that was going on.
    Steered {
        /// That turn.
        turn: NativeId,
    },
    /// The mode is set.
    Mode(String),
    /// The model is set.
    Model(String),
    /// What is in force.
    Settings {
        /// The effort, if the model has any.
        effort: Option<String>,
    },
    /// Whether the message was taken back.
    Cancelled(bool),
    /// What came of taking back what was said.
    Rewound(Rewound),
    /// Taken.
    Done,
}

/// What came of taking back what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewound {
    /// It is forgotten.
    Done,
    /// The conversation does not hold it.
    NotThere,
    /// Something goes on, or waits to be read.
    Busy,
    /// Why not, in the agent's words.
    Refused(String),
}

/// The agent's handshake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hello {
    /// Its version; `unknown` if it gives none.
    pub version: String,
    /// The permission mode it is in.
    pub mode: String,
    /// What a person can choose from.
    pub models: Vec<Model>,
    /// Its slash commands.
    pub commands: Vec<OfferedCommand>,
    /// Whether it has any means to sign in with.
    pub signed_in: bool,
}

/// A model as the agent offers it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// By which it is chosen.
    pub value: String,
    /// What it stands for at the moment.
    pub resolved: String,
    /// Its name for a person.
    pub name: String,
    /// Its efforts, from the smallest.
    pub efforts: Vec<String>,
}

impl Hello {
    /// The model that is chosen by a name.
    pub fn model(&self, name: &str) -> Option<&Model> {
        self.models
            .iter()
            .find(|model| model.value == name || model.resolved == name)
    }

    /// What it can run on. The agent takes what a name stands for as well as the name.
    pub(super) fn offered(&self) -> Vec<OfferedModel> {
        let mut offered: Vec<OfferedModel> = Vec::new();
        for model in &self.models {
            for id in [&model.value, &model.resolved] {
                if id.is_empty() || offered.iter().any(|known| known.id == *id) {
                    continue;
                }
                offered.push(OfferedModel {
                    id: id.clone(),
                    name: if model.name.is_empty() || *id == model.resolved {
                        id.clone()
                    } else {
                        model.name.clone()
                    },
                    efforts: model.efforts.clone(),
                    default_effort: None,
                    is_default: model.value == "default" && *id == model.value,
                    images: None,
                });
            }
        }
        offered
    }
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The conversation is not there.
    #[error("the agent has no such conversation: {message}")]
    NoConversation {
        /// Its words.
        message: String,
    },
    /// A turn was going on; the message was taken back.
    #[error("a turn was going on; the message was taken back")]
    Busy,
    /// The agent refused.
    #[error("the agent refused: {message}")]
    Refused {
        /// Its words.
        message: String,
    },
    /// The answer could not be read.
    #[error("the agent's answer to {method} could not be read")]
    Unreadable {
        /// The call's name.
        method: String,
    },
    /// No answer came in time.
    #[error("the agent did not answer {method} within {seconds} s")]
    Timeout {
        /// The call's name.
        method: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The process ended first.
    #[error("the agent's process ended before it answered")]
    Lost,
}

impl CallFailure for CallError {
    fn lost() -> Self {
        Self::Lost
    }

    fn timeout(method: String, seconds: u64) -> Self {
        Self::Timeout { method, seconds }
    }
}

/// The agent's words of an error.
pub(crate) fn refused(words: &str) -> CallError {
    CallError::Refused {
        message: cut(words, WORDS),
    }
}

/// Reads the `response` of a control response.
pub(crate) fn read(call: &Call, response: &Value) -> Result<Reply, CallError> {
    let unreadable = || CallError::Unreadable {
        method: call.method().to_owned(),
    };
    match text_of(response, "subtype").as_deref() {
        Some("success") => {}
        Some("error") => {
            let words = text_of(response, "error").unwrap_or_else(|| response.to_string());
            return Err(refused(&words));
        }
        _ => return Err(unreadable()),
    }
    let result = response.get("response").unwrap_or(&Value::Null);
    match call {
        Call::Initialize => hello(result)
            .map(|hello| Reply::Initialized(Box::new(hello)))
            .ok_or_else(unreadable),
        Call::SetMode { .. } => text_of(result, "mode")
            .map(Reply::Mode)
            .ok_or_else(unreadable),
        Call::SetModel { model } => Ok(Reply::Model(
            text_of(result, "model")
                .or_else(|| model.clone())
                .unwrap_or_default(),
        )),
        Call::GetSettings => Ok(Reply::Settings {
            effort: result
                .get("applied")
                .and_then(|applied| text_of(applied, "effort")),
        }),
        Call::Rewind { .. } => Ok(Reply::Rewound(rewound(result))),
        Call::CancelMessage { .. } => Ok(Reply::Cancelled(
            result.get("cancelled") == Some(&Value::Bool(true)),
        )),
        Call::SetEffort { .. }
        | Call::Interrupt
        | Call::Alive
        | Call::Prompt { .. }
        | Call::Foreign { .. } => Ok(Reply::Done),
    }
}

fn rewound(result: &Value) -> Rewound {
    if result.get("rewound") == Some(&Value::Bool(true)) {
        return Rewound::Done;
    }
    match text_of(result, "reason").as_deref() {
        Some("target_not_found") => Rewound::NotThere,
        Some("turn_running" | "commands_queued" | "prompt_pending" | "state_changed") => {
            Rewound::Busy
        }
        reason => {
            let words = text_of(result, "error").unwrap_or_default();
            let reason = reason.unwrap_or("without a reason");
            Rewound::Refused(cut(
                &format!("Claude Code did not take it back: {words} ({reason})"),
                WORDS,
            ))
        }
    }
}

fn hello(result: &Value) -> Option<Hello> {
    let account = result.get("account").unwrap_or(&Value::Null);
    let has = |key: &str| {
        text_of(account, key).is_some_and(|source| !source.is_empty() && source != "none")
    };
    Some(Hello {
        version: text_of(result, "claude_code_version")
            .map_or_else(|| "unknown".to_owned(), |version| cut(&version, 64)),
        mode: text_of(result, "current_permission_mode")?,
        models: list(result, "models")
            .iter()
            .take(MODELS)
            .map(|model| Model {
                value: text_or_empty(model, "value"),
                resolved: text_or_empty(model, "resolvedModel"),
                name: text_or_empty(model, "displayName"),
                efforts: texts(model, "supportedEffortLevels"),
            })
            .collect(),
        commands: slash_commands(list(result, "commands")),
        signed_in: ["tokenSource", "apiKeySource", "email"]
            .into_iter()
            .any(has)
            || text_of(account, "apiProvider").is_some_and(|provider| provider != "firstParty"),
    })
}
