//! App threads and their messages.

use crate::{
    AgentName, BlobHash, DeviceId, MessageId, Mode, RunId, ThreadId, item::Body, policy::Sandbox,
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// Who caused something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Actor {
    /// A person at a paired device.
    Device {
        /// The device.
        device: DeviceId,
    },
    /// The ledger itself: an internal command.
    Ledger,
    /// The agent.
    Agent,
    /// Somebody outside Pilothouse, for instance at the agent's own terminal.
    External,
}

/// What a thread runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The agent instance, as configured on the host.
    pub agent: AgentName,
    /// The model as the agent names it; `None` is the agent's own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort as the model names it (an open list); `None` is the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// What the agent may do without asking.
    pub mode: Mode,
    /// In what an agent runs that does not ask; `None` for one that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// How a thread came from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The thread it came from.
    pub parent: ThreadId,
    /// How.
    pub relationship: Relationship,
    /// The first thread of the family.
    pub root: ThreadId,
}

/// How a thread relates to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relationship {
    /// A fork by a person.
    Fork,
    /// A task delegated by the parent's agent.
    Delegated,
    /// The continuation of a thread of another host.
    Moved,
}

/// Whether a thread is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// In use.
    Active,
    /// Put away; still readable.
    Archived,
    /// Deleted; its bodies go with retention.
    Deleted,
}

/// A message of the conversation between a person and an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationMessage {
    /// Its id; also the client id under which an agent may echo it.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// What was said.
    pub text: Body,
    /// What was attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The run it belongs to.
    pub run: RunId,
    /// Who wrote it.
    pub author: Actor,
    /// How far it got.
    pub delivery: Delivery,
}

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person.
    User,
    /// The agent.
    Assistant,
}

/// Something attached to a message, by hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// File name as the person sees it.
    pub name: String,
    /// MIME type.
    pub media_type: String,
    /// Address of its bytes.
    pub hash: BlobHash,
    /// Size in bytes.
    pub bytes: u64,
}

/// How far a message got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "delivery", rename_all = "snake_case")]
pub enum Delivery {
    /// In a device's outbox; never in a log.
    Saved,
    /// In the ledger, waiting for its turn.
    OnHost,
    /// Handed to the agent.
    Started,
    /// Not delivered, and it will not be.
    Failed {
        /// Why, for a person.
        reason: String,
    },
    /// The host or the agent died between handing it over and hearing of it, and history does not tell.
    Unknown,
}
