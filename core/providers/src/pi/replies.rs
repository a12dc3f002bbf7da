//! Answers to our commands, typed.

use super::{history, outgoing::Call, turns::Stop};
use crate::rpc::{
    CallFailure,
    commands::slash_commands,
    frames::{cut, list, text_of, text_or_empty, texts},
};
use pilothouse_domain::{NativeId, ProviderEvent, provider::OfferedCommand};
use serde_json::Value;

/// Bytes of an agent's words in an error.
const WORDS: usize = 1024;

/// What a command gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// What the session is and is set to.
    State(Box<State>),
    /// A turn has begun.
    Turn {
        /// Its id.
        turn: NativeId,
    },
    /// Models that can be chosen.
    Models(Vec<Model>),
    /// Commands that a message can name.
    Commands(Vec<OfferedCommand>),
    /// Efforts that can be chosen.
    Efforts(Vec<String>),
    /// What the session holds.
    Entries(Entries),
    /// Messages that were taken back before the turn heard them.
    TakenBack(u32),
    /// The context was shortened to this.
    Compacted {
        /// What is left of it.
        summary: String,
    },
    /// An extension prevented it.
    Prevented,
    /// Taken.
    Done,
}

/// A model that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// Whose it is.
    pub provider: String,
    /// Its name there.
    pub id: String,
    /// Its name for a person; empty if it has none.
    pub name: String,
    /// Whether it reasons, and so has efforts to choose from.
    pub reasons: bool,
    /// Whether it takes pictures; `None` if pi does not say.
    pub images: Option<bool>,
}

/// What a session is and is set to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// What names it: its file, or its id if it is kept in none.
    pub session: String,
    /// The model, as `provider/model`; empty if there is none.
    pub model: String,
    /// Tokens that the model's context holds; 0 if it is not said.
    pub window: u64,
    /// The effort.
    pub effort: String,
    /// Whether the model is said to see pictures; `None` if that is not said.
    pub pictures: Option<bool>,
}

/// The entries of a session, as turns of its active branch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entries {
    /// Oldest first.
    pub(super) turns: Vec<PastTurn>,
}

/// A turn as it stands in the session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PastTurn {
    /// Its id, the same as when it was heard of.
    pub(super) id: NativeId,
    /// The entry of its first message.
    pub(super) entry: String,
    /// What happened in it.
    pub(super) events: Vec<ProviderEvent>,
    /// Why its last answer ended; `None` if there was none.
    pub(super) stop: Option<Stop>,
}

/// Why a command gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// A turn goes on.
    #[error("a turn goes on: {message}")]
    Busy {
        /// Its words.
        message: String,
    },
    /// The agent refused.
    #[error("the agent refused {method}: {message}")]
    Refused {
        /// The command's name.
        method: String,
        /// Its words.
        message: String,
    },
    /// The answer could not be read.
    #[error("the agent's answer to {method} could not be read")]
    Unreadable {
        /// The command's name.
        method: String,
    },
    /// No answer came in time.
    #[error("the agent did not answer {method} within {seconds} s")]
    Timeout {
        /// The command's name.
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

/// Sorts a refusal. Both dialects say with the same words that a turn goes on (measured: pi 1.6.0, omp 18.2.3).
pub(super) fn refusal(call: &Call, frame: &Value) -> CallError {
    let message = match frame.get("error") {
        Some(Value::String(text)) => cut(text, WORDS),
        Some(other) => cut(&other.to_string(), WORDS),
        None => "without a word".to_owned(),
    };
    if message.starts_with("Agent is already processing") {
        return CallError::Busy { message };
    }
    CallError::Refused {
        method: call.method().to_owned(),
        message,
    }
}

/// Reads the data of an answer. A prompt's is read by the codec.
pub(super) fn read(call: &Call, home: Option<&NativeId>, data: &Value) -> Result<Reply, CallError> {
    let unreadable = || CallError::Unreadable {
        method: call.method().to_owned(),
    };
    if data.get("cancelled") == Some(&Value::Bool(true)) {
        return Ok(Reply::Prevented);
    }
    match call {
        Call::State | Call::Opened => state(data)
            .map(|state| Reply::State(Box::new(state)))
            .ok_or_else(unreadable),
        Call::Models => Ok(Reply::Models(
            list(data, "models")
                .iter()
                .filter_map(|model| {
                    Some(Model {
                        provider: text_of(model, "provider")?,
                        id: text_of(model, "id")?,
                        name: text_or_empty(model, "name"),
                        reasons: model.get("reasoning") == Some(&Value::Bool(true)),
                        images: takes_pictures(model),
                    })
                })
                .collect(),
        )),
        Call::Commands => Ok(Reply::Commands(slash_commands(list(data, "commands")))),
        Call::Efforts => Ok(Reply::Efforts(texts(data, "levels"))),
        Call::Entries => {
            let listed = data.get("entries").and_then(Value::as_array);
            let entries = listed.ok_or_else(unreadable)?;
            let leaf = text_of(data, "leafId");
            Ok(Reply::Entries(history::read(
                home,
                entries,
                leaf.as_deref(),
            )))
        }
        Call::ClearQueue => {
            let count = list(data, "steering").len() + list(data, "followUp").len();
            Ok(Reply::TakenBack(u32::try_from(count).unwrap_or(u32::MAX)))
        }
        Call::Compact => Ok(Reply::Compacted {
            summary: text_or_empty(data, "summary"),
        }),
        _ => Ok(Reply::Done),
    }
}

fn state(data: &Value) -> Option<State> {
    let session = text_of(data, "sessionFile")
        .or_else(|| text_of(data, "sessionId"))
        .filter(|session| !session.is_empty())?;
    let model = data.get("model").unwrap_or(&Value::Null);
    Some(State {
        session: cut(&session, 4096),
        model: match (text_of(model, "provider"), text_of(model, "id")) {
            (Some(provider), Some(id)) => cut(&format!("{provider}/{id}"), 512),
            _ => String::new(),
        },
        window: model
            .get("contextWindow")
            .and_then(Value::as_u64)
            .unwrap_or(0),
        effort: cut(&text_or_empty(data, "thinkingLevel"), 64),
        pictures: takes_pictures(model),
    })
}

/// Whether a model takes pictures, as pi tells of it.
fn takes_pictures(model: &Value) -> Option<bool> {
    let kinds = model.get("input")?.as_array()?;
    Some(kinds.iter().any(|kind| kind == "image"))
}
