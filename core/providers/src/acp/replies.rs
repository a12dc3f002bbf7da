//! Answers to our calls, typed.

use super::{outgoing::Call, profile::Missing, settings::Settings};
use crate::rpc::{
    CallFailure,
    frames::{RpcError, cut, list, text_of, text_or_empty},
};
use pilothouse_domain::NativeId;
use serde_json::Value;

/// Bytes of an agent's words in an error.
const WORDS: usize = 1024;
/// Bytes of a conversation's id, which goes back with every call.
const SESSION_ID: usize = 512;

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The handshake was taken.
    Initialized(Box<Hello>),
    /// A conversation is loaded.
    Session {
        /// Which.
        session: NativeId,
        /// What it is set to.
        settings: Settings,
        /// Whether the agent said anything of it: hermes answers a conversation that it does not have with nothing.
        empty: bool,
    },
    /// An option was set: all options as they are now.
    Settings(Settings),
    /// Taken.
    Done,
}

/// An agent's handshake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hello {
    /// Its name, e.g. `hermes-agent`; empty if it gives none.
    pub name: String,
    /// Its version; `unknown` if it gives none.
    pub version: String,
    /// The protocol's version it wants to speak.
    pub protocol: u64,
    /// Whether it can load a conversation with its history.
    pub load: bool,
    /// Whether it can load a conversation without its history.
    pub resume: bool,
    /// Whether it can fork a conversation.
    pub fork: bool,
    /// Whether it reaches servers of tools by HTTP; by the pipes of a process each agent does.
    pub http: bool,
    /// Ways to sign in, each in one line.
    pub sign_in: Vec<String>,
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The agent wants a sign-in first.
    #[error("it needs a sign-in on the host: {message}")]
    SignIn {
        /// Its words.
        message: String,
    },
    /// The conversation is not there.
    #[error("the agent has no such conversation: {message}")]
    NoConversation {
        /// Its words.
        message: String,
    },
    /// The agent refused.
    #[error("the agent refused: {message} ({code})")]
    Refused {
        /// JSON-RPC's number.
        code: i64,
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

/// An error's words: agents put what matters into `data` as often as into `message`.
pub(crate) fn words(error: &RpcError) -> String {
    let more = match &error.data {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(data) => ["details", "message", "error", "reason"]
            .iter()
            .find_map(|key| data.get(*key).and_then(Value::as_str))
            .unwrap_or_default()
            .to_owned(),
        other => other.to_string(),
    };
    let text = match more.as_str() {
        "" => error.message.clone(),
        more if error.message.contains(more) => error.message.clone(),
        more => format!("{}: {more}", error.message),
    };
    cut(&text, WORDS)
}

/// Sorts an error. -32000 is the protocol's "sign in first", -32002 its "not found"; what else a measured agent says of a
/// conversation that it does not have is in `missing`. Of any other words nothing is concluded.
pub(crate) fn call_error(call: &Call, error: &RpcError, missing: &[Missing]) -> CallError {
    let message = words(error);
    match (error.code, call) {
        (-32000, _) => CallError::SignIn { message },
        (code, Call::Load { .. } | Call::Resume { .. } | Call::Prompt { .. })
            if code == -32002 || missing.iter().any(|one| one.fits(code, &message)) =>
        {
            CallError::NoConversation { message }
        }
        (code, _) => CallError::Refused { code, message },
    }
}

/// Reads the result of a call. A prompt's is read by the codec.
pub(crate) fn read(call: &Call, result: &Value) -> Result<Reply, CallError> {
    match call {
        Call::Initialize { .. } => hello(result)
            .map(|hello| Reply::Initialized(Box::new(hello)))
            .ok_or_else(|| CallError::Unreadable {
                method: call.method().to_owned(),
            }),
        Call::New { .. } => {
            let session =
                text_of(result, "sessionId").filter(|id| !id.is_empty() && id.len() <= SESSION_ID);
            let session = session.ok_or_else(|| CallError::Unreadable {
                method: call.method().to_owned(),
            })?;
            Ok(opened(NativeId(session), result))
        }
        Call::Load { session, .. } | Call::Resume { session, .. } => {
            Ok(opened(session.clone(), result))
        }
        Call::SetConfig { .. } => {
            let mut settings = Settings::default();
            // One that does not tell the options was taken, but what came of it is not known.
            Ok(if settings.learn(result) {
                Reply::Settings(settings)
            } else {
                Reply::Done
            })
        }
        Call::Prompt { .. }
        | Call::SetMode { .. }
        | Call::SetModel { .. }
        | Call::Foreign { .. } => Ok(Reply::Done),
    }
}

fn opened(session: NativeId, result: &Value) -> Reply {
    let mut settings = Settings::default();
    settings.learn(result);
    Reply::Session {
        session,
        settings,
        empty: result.as_object().is_none_or(serde_json::Map::is_empty),
    }
}

fn hello(result: &Value) -> Option<Hello> {
    let capabilities = result.get("agentCapabilities").unwrap_or(&Value::Null);
    let offers = |name: &str| {
        capabilities
            .get("sessionCapabilities")
            .and_then(|sessions| sessions.get(name))
            .is_some_and(|value| !value.is_null() && value != &Value::Bool(false))
    };
    let info = result.get("agentInfo").unwrap_or(&Value::Null);
    Some(Hello {
        name: cut(&text_or_empty(info, "name"), 120),
        version: text_of(info, "version").map_or_else(|| "unknown".to_owned(), |v| cut(&v, 64)),
        protocol: result.get("protocolVersion")?.as_u64()?,
        load: capabilities.get("loadSession") == Some(&Value::Bool(true)),
        resume: offers("resume"),
        fork: offers("fork"),
        http: capabilities.pointer("/mcpCapabilities/http") == Some(&Value::Bool(true)),
        sign_in: list(result, "authMethods")
            .iter()
            .take(16)
            .map(sign_in)
            .collect(),
    })
}

/// A way to sign in, for a person: its name and what it says of itself.
fn sign_in(method: &Value) -> String {
    let name = text_of(method, "name").unwrap_or_else(|| text_or_empty(method, "id"));
    match text_of(method, "description").filter(|text| !text.is_empty()) {
        Some(text) => cut(&format!("{name} ({text})"), 300),
        None => cut(&name, 300),
    }
}
