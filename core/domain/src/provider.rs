//! What we know of an agent's sessions, conversations and turns. Native ids are not here: see the ledger's bindings.

use crate::{
    AgentName, AttemptId, ConversationKey, Incarnation, NodeId, ProviderThreadId, ProviderTurnId,
    SessionId, ThreadId, request::LostReason, run::Correlation,
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// A running (or once running) instance of an agent that serves a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderSession {
    /// Its id.
    pub id: SessionId,
    /// Which agent.
    pub agent: AgentName,
    /// The protocol family that drives it, e.g. `codex`.
    pub driver: String,
    /// The agent's version, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Which life of its process.
    pub incarnation: Incarnation,
    /// Where it stands.
    pub status: SessionStatus,
    /// Version of the capabilities it last sent; grows.
    #[serde(default)]
    pub capability_version: u32,
    /// Models it can be given, in the agent's order; empty if it does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<OfferedModel>,
    /// What can be said to it as a command of its own in this thread; empty if it does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<OfferedCommand>,
    /// Limits of the account that it works with, as it last said; empty if it does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<AccountLimit>,
}

/// A window of time in which an account may use so much and no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountLimit {
    /// The agent's name for it, e.g. `codex primary`.
    pub name: String,
    /// How much of it is used, percent; over 100 where the agent says so.
    pub used_percent: u32,
    /// How long it is, minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_minutes: Option<u64>,
    /// When it begins anew, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at_ms: Option<u64>,
    /// Whether the agent says that it is used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reached: bool,
}

/// A model that an agent offers. Bounded by [`limits::OFFERED_MODELS`](crate::limits::OFFERED_MODELS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedModel {
    /// As it is chosen.
    pub id: String,
    /// For a person.
    pub name: String,
    /// Efforts it takes, from the least; empty if it takes none or the agent does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub efforts: Vec<String>,
    /// The effort it has if none is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_effort: Option<String>,
    /// Whether the agent takes it if none is chosen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// Whether it takes pictures; `None` if the agent does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
}

/// A command, a skill or a template of the agent's own that a message can name. As the agent has it: to be shown with hidden
/// characters made visible. Bounded by [`limits::OFFERED_COMMANDS`](crate::limits::OFFERED_COMMANDS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedCommand {
    /// With what a message begins that uses it, e.g. `/init` or `$review`.
    pub name: String,
    /// What it is for; empty if the agent does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What follows the name, in the agent's words; empty if nothing does or it does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub argument_hint: String,
}

/// A conversation that an agent has by itself, as a person can choose it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeConversation {
    /// By which an import names it.
    pub key: ConversationKey,
    /// The agent's title for it, or the beginning of what was said first; at most
    /// [`limits::TITLE_CHARS`](crate::limits::TITLE_CHARS) characters, in one line, as the agent has it: to be shown with
    /// hidden characters made visible.
    pub title: String,
    /// When something was last said in it, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at_ms: Option<u64>,
    /// The thread in which it goes on here already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
}

/// A file that an agent found, for a message to name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// Its path within the workspace, without control characters; to be shown with hidden characters made visible.
    pub path: String,
}

/// Where a session stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SessionStatus {
    /// Being started.
    Starting,
    /// Took its handshake.
    Ready,
    /// Nothing to do.
    Idle,
    /// Stopped on purpose.
    Stopped,
    /// Ended by itself or could not be started.
    Error {
        /// Why.
        reason: LostReason,
        /// In words, secrets redacted.
        detail: String,
    },
}

/// A native conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderThread {
    /// Its id.
    pub id: ProviderThreadId,
    /// Which agent holds it.
    pub agent: AgentName,
    /// The subagent node that owns it; `None` for the thread's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<NodeId>,
    /// Ordinal of the last run it has seen; 0 for none.
    pub coverage: u32,
    /// Where it stands.
    pub status: ProviderThreadStatus,
}

/// Where a native conversation stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ProviderThreadStatus {
    /// Loaded by a live session.
    Ready,
    /// To be resumed before work.
    NotLoaded,
    /// Cannot be resumed; a replacement is needed.
    Unavailable {
        /// Why.
        reason: String,
    },
    /// Holds turns that do not continue our head.
    Divergent,
}

/// A turn of a native conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderTurn {
    /// Its id.
    pub id: ProviderTurnId,
    /// The conversation.
    pub provider_thread: ProviderThreadId,
    /// The attempt it is.
    pub attempt: AttemptId,
    /// How it ended; `None` while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<TurnEnd>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Its status.
    pub status: TurnStatus,
    /// How sure that is.
    pub correlation: Correlation,
}

/// Status of a turn that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum TurnStatus {
    Completed,
    Interrupted,
    Failed,
}
