//! What we send: one typed call per control request that is used, and messages.

use crate::{picture::Encoded, rpc::line};
use pilothouse_domain::NativeId;
use serde_json::{Value, json};

/// What the ids of our control requests begin with.
const CALL: &str = "pilothouse-";

/// A call to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// The handshake. No dialogs are offered to be shown, no hooks, no tools of ours.
    Initialize,
    /// A message. Its answer is the agent's receipt that a turn began with it.
    Prompt {
        /// The message's id, a UUID, which names the turn, too. `None` where somebody else sent it without one (recordings).
        turn: Option<NativeId>,
        /// Our message's id, under which its echo is known.
        client_id: String,
        /// Its blocks of content, as the agent takes them.
        content: Vec<Value>,
    },
    /// Takes a message back that waits.
    CancelMessage {
        /// The message's id.
        message: NativeId,
    },
    /// Stops what goes on, and whatever waits behind it.
    Interrupt,
    /// Takes back a message and all that follows it.
    Rewind {
        /// The message.
        message: NativeId,
        /// The last message that whoever asks has seen; `None` if nothing may follow the one that is taken back.
        last: Option<NativeId>,
    },
    /// Sets the permission mode.
    SetMode {
        /// As the agent names it.
        mode: String,
    },
    /// Sets the model.
    SetModel {
        /// As the agent names it; `None` for its default.
        model: Option<String>,
    },
    /// Sets the effort.
    SetEffort {
        /// As the agent names it; `None` for the model's default.
        effort: Option<String>,
    },
    /// Asks what is in force.
    GetSettings,
    /// Asks whether it is alive: its answer does not matter.
    Alive,
    /// A call made elsewhere, whose answer is only passed over (replay of recordings).
    Foreign {
        /// Its name.
        method: String,
    },
}

/// The id of a control request or message, as it stands in a frame.
pub type CallId = String;

impl Call {
    /// Its name.
    pub fn method(&self) -> &str {
        match self {
            Self::Initialize => "initialize",
            Self::Prompt { .. } => "user message",
            Self::CancelMessage { .. } => "cancel_async_message",
            Self::Interrupt => "interrupt",
            Self::Rewind { .. } => "rewind_conversation",
            Self::SetMode { .. } => "set_permission_mode",
            Self::SetModel { .. } => "set_model",
            Self::SetEffort { .. } => "apply_flag_settings",
            Self::GetSettings => "get_settings",
            Self::Alive => "mcp_status",
            Self::Foreign { method } => method,
        }
    }

    fn request(&self) -> Value {
        let subtype = self.method();
        match self {
            Self::CancelMessage { message } => {
                json!({"subtype": subtype, "message_uuid": message})
            }
            // What waits behind the turn would otherwise begin the next one.
            Self::Interrupt => json!({"subtype": subtype, "cancel_queued": true}),
            Self::Rewind {
                message,
                last: None,
            } => {
                json!({"subtype": subtype, "target_message_uuid": message})
            }
            Self::Rewind {
                message,
                last: Some(last),
            } => json!({
                "subtype": subtype,
                "target_message_uuid": message,
                "last_seen_user_message_uuid": last,
            }),
            Self::SetMode { mode } => json!({"subtype": subtype, "mode": mode}),
            Self::SetModel { model: Some(model) } => json!({"subtype": subtype, "model": model}),
            Self::SetEffort { effort } => {
                json!({"subtype": subtype, "settings": {"effortLevel": effort}})
            }
            Self::Initialize
            | Self::Prompt { .. }
            | Self::SetModel { model: None }
            | Self::GetSettings
            | Self::Alive
            | Self::Foreign { .. } => json!({"subtype": subtype}),
        }
    }
}

/// The id of our control request of that number.
pub(crate) fn call_id(number: u64) -> CallId {
    format!("{CALL}{number}")
}

/// The line of a call.
pub(crate) fn call_line(number: u64, call: &Call) -> Vec<u8> {
    match call {
        Call::Prompt { turn, content, .. } => line(&json!({
            "type": "user",
            "message": {"role": "user", "content": content},
            "parent_tool_use_id": null,
            "session_id": "",
            "uuid": turn,
        })),
        call => line(&json!({
            "type": "control_request",
            "request_id": call_id(number),
            "request": call.request(),
        })),
    }
}

/// The line of an answer to a request of the agent; the id goes back exactly as it came.
pub(crate) fn result_line(id: &Value, result: &Value) -> Vec<u8> {
    line(&json!({
        "type": "control_response",
        "response": {"subtype": "success", "request_id": id, "response": result},
    }))
}

/// The line of a refusal of a request of the agent.
pub(crate) fn error_line(id: &Value, message: &str) -> Vec<u8> {
    line(&json!({
        "type": "control_response",
        "response": {"subtype": "error", "request_id": id, "error": message},
    }))
}

/// A picture as a block of content.
pub(crate) fn picture_block(picture: Encoded) -> Value {
    json!({
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": picture.kind.media_type(),
            "data": picture.data,
        },
    })
}

/// A text as a block of content.
pub(crate) fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
