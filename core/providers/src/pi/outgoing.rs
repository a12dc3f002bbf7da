//! What we send: one typed command per kind that is used.

use crate::{picture::Encoded, rpc::line};
use serde_json::{Map, Value, json};

/// A command to pi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// What the session is and is set to.
    State,
    /// The same, of the session that is our conversation from now on.
    Opened,
    /// Starts a turn; answered when its message is heard of.
    Prompt {
        /// Our message's id.
        client_id: String,
        /// What is said.
        text: String,
        /// Pictures that go with it.
        pictures: Vec<Encoded>,
    },
    /// Puts words into the turn that goes on.
    Steer {
        /// Our message's id.
        client_id: String,
        /// What is said.
        text: String,
    },
    /// Runs a command of an extension; no turn comes of it.
    Command {
        /// With its slash and its arguments.
        text: String,
    },
    /// Takes back messages that wait for the turn to hear them.
    ClearQueue,
    /// Stops the turn.
    Abort,
    /// Loads the session of a file.
    Switch {
        /// The file.
        file: String,
    },
    /// Copies the session that is loaded into a new one and loads that.
    Clone,
    /// Makes a new session of what stands before a message, and loads it.
    Fork {
        /// The message's entry.
        entry: String,
    },
    /// All entries of the session.
    Entries,
    /// The models that can be chosen.
    Models,
    /// The commands that a message can name.
    Commands,
    /// The efforts that the model can be given.
    Efforts,
    /// Chooses a model.
    SetModel {
        /// Whose it is.
        provider: String,
        /// Its name there.
        model: String,
    },
    /// Chooses an effort.
    SetEffort {
        /// As the model names it.
        level: String,
    },
    /// Shortens the context.
    Compact,
    /// A command written elsewhere, whose answer is only passed over (replay of recordings).
    Foreign {
        /// Its name.
        name: String,
    },
}

impl Call {
    /// Its name.
    pub fn method(&self) -> &str {
        match self {
            Self::State | Self::Opened => "get_state",
            Self::Prompt { .. } | Self::Command { .. } => "prompt",
            Self::Steer { .. } => "steer",
            Self::ClearQueue => "clear_queue",
            Self::Abort => "abort",
            Self::Switch { .. } => "switch_session",
            Self::Clone => "clone",
            Self::Fork { .. } => "fork",
            Self::Entries => "get_entries",
            Self::Models => "get_available_models",
            Self::Commands => "get_commands",
            Self::Efforts => "get_available_thinking_levels",
            Self::SetModel { .. } => "set_model",
            Self::SetEffort { .. } => "set_thinking_level",
            Self::Compact => "compact",
            Self::Foreign { name } => name,
        }
    }

    fn fields(&self) -> Value {
        match self {
            Self::Prompt { text, pictures, .. } if !pictures.is_empty() => {
                let picture = |one: &Encoded| json!({"type": "image", "data": one.data, "mimeType": one.kind.media_type()});
                let images: Vec<_> = pictures.iter().map(picture).collect();
                json!({"message": text, "images": images})
            }
            Self::Prompt { text, .. } | Self::Steer { text, .. } | Self::Command { text } => {
                json!({ "message": text })
            }
            Self::Switch { file } => json!({ "sessionPath": file }),
            Self::Fork { entry } => json!({ "entryId": entry }),
            Self::SetModel { provider, model } => json!({"provider": provider, "modelId": model}),
            Self::SetEffort { level } => json!({ "level": level }),
            _ => json!({}),
        }
    }
}

/// Our number as pi gives it back.
pub(super) fn id_text(id: u64) -> String {
    format!("r{id}")
}

/// The number of ours that an answer names.
pub(super) fn id_of(id: &Value) -> Option<u64> {
    id.as_str()?.strip_prefix('r')?.parse().ok()
}

/// The line of a command.
pub(super) fn call_line(id: u64, call: &Call) -> Vec<u8> {
    let mut frame = call.fields();
    frame["id"] = id_text(id).into();
    frame["type"] = call.method().into();
    line(&frame)
}

/// The line that answers a dialog; the id goes back exactly as it came.
pub(super) fn response_line(id: &Value, result: Value) -> Vec<u8> {
    let mut frame = match result {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    frame.insert("type".to_owned(), "extension_ui_response".into());
    frame.insert("id".to_owned(), id.clone());
    line(&Value::Object(frame))
}

/// The result that dismisses a dialog.
pub(super) fn dismissed() -> Value {
    json!({"cancelled": true})
}
