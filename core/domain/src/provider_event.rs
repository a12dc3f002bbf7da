//! What an agent emits, normalized by its family's codec. The only place besides the ledger's identity bindings where
//! native ids occur.

use crate::{
    Incarnation, ItemContent, ItemStatus,
    capability::Capabilities,
    item::TodoEntry,
    provider::{AccountLimit, OfferedCommand, OfferedModel, TurnStatus},
    request::{LostReason, RequestKind, Subject},
    run::{RunError, Usage},
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An id as the agent writes it. Unique only within what its scope says; may repeat, restart or be `0`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NativeId(pub String);

impl NativeId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for NativeId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for NativeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where in the agent's world something happened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NativePlace {
    /// The native conversation; `None` if it concerns the whole process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<NativeId>,
    /// For a subagent's conversation, the root conversation it works for. The codec keeps this link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<NativeId>,
    /// The native turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<NativeId>,
}

impl NativePlace {
    /// The conversation of ours that it belongs to.
    pub fn home(&self) -> Option<&NativeId> {
        self.root.as_ref().or(self.thread.as_ref())
    }
}

/// Something an agent did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderEvent {
    /// Where.
    pub place: NativePlace,
    /// What.
    pub kind: ProviderEventKind,
}

/// What an agent did. Upserts by id: an update or a close of an unknown item opens it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ProviderEventKind {
    /// The agent took its handshake (or sent its capabilities anew).
    SessionReady {
        /// Which life of its process.
        incarnation: Incarnation,
        /// Its version.
        version: String,
        /// What it can do.
        capabilities: Capabilities,
    },
    /// What it can run on.
    ModelsOffered {
        /// The models, in the agent's order.
        models: Vec<OfferedModel>,
    },
    /// What can be said to it as a command of its own.
    CommandsOffered {
        /// All of them, in the agent's order.
        commands: Vec<OfferedCommand>,
    },
    /// How much of the account's limits is used: all that it names.
    Limits {
        /// The limits.
        limits: Vec<AccountLimit>,
    },
    /// What the agent can do or offers may be something else now, e.g. because its account changed. Concerns all conversations
    /// of its process: it is asked anew.
    AbilitiesChanged,
    /// The agent is signed in: it says so of its own, or of a sign-in that was begun here. Concerns all threads of the agent.
    SignedIn,
    /// A sign-in that was begun here came to nothing, and was not given up here.
    SignInFailed {
        /// Why, in the agent's words.
        message: String,
    },
    /// The agent's process or connection is gone.
    SessionEnded {
        /// Why.
        reason: LostReason,
        /// In words, secrets redacted, bounded.
        detail: String,
    },
    /// A native conversation is loaded.
    ThreadBound,
    /// A turn began.
    TurnStarted,
    /// A turn ended. May come twice, or before the end of its items.
    TurnEnded {
        /// How.
        status: TurnStatus,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
    },
    /// An item began.
    ItemOpened {
        /// Its native id.
        item: NativeId,
        /// What it is so far.
        content: ItemContent,
        /// For a user's message, the client id under which we sent it, if the agent keeps one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_id: Option<String>,
    },
    /// An item's content was replaced.
    ItemUpdated {
        /// Its native id.
        item: NativeId,
        /// What it is now.
        content: ItemContent,
    },
    /// Text was added to an item's streamed text.
    ItemAppended {
        /// Its native id.
        item: NativeId,
        /// The text; bytes that were not UTF-8 are U+FFFD already.
        text: String,
        /// What the item is, with empty text: opens it if it is unknown.
        shape: Box<ItemContent>,
    },
    /// An item ended.
    ItemClosed {
        /// Its native id.
        item: NativeId,
        /// A terminal status.
        status: ItemStatus,
        /// What it is in the end.
        content: ItemContent,
        /// As at `ItemOpened`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_id: Option<String>,
    },
    /// The agent asks something of a person.
    RequestOpened {
        /// Its native id; `0` is one.
        request: NativeId,
        /// The native id of the item it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<NativeId>,
        /// What kind.
        kind: RequestKind,
        /// What is asked.
        subject: Box<Subject>,
        /// Whether the frame had fields that the codec does not know.
        unknown_fields: bool,
    },
    /// The agent no longer waits for it.
    RequestClosed {
        /// Its native id.
        request: NativeId,
        /// Whether it was answered (by whom is known from the log) or taken back.
        resolution: Resolution,
    },
    /// The todo list as it is now.
    TodoList {
        /// Its entries, in order.
        entries: Vec<TodoEntry>,
    },
    /// A subagent began.
    ChildOpened {
        /// Its native conversation.
        child: NativeId,
        /// The item that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<NativeId>,
        /// What it is for.
        title: String,
    },
    /// A subagent ended.
    ChildClosed {
        /// Its native conversation.
        child: NativeId,
        /// How.
        status: TurnStatus,
    },
    /// Tokens used by the turn's run so far.
    Usage {
        /// Totals.
        usage: Usage,
    },
    /// The agent answered with another model than chosen.
    ModelRerouted {
        /// Chosen.
        from: String,
        /// Used.
        to: String,
    },
    /// An error that the turn may survive.
    Error {
        /// What.
        error: RunError,
        /// Whether the agent tries again by itself.
        will_retry: bool,
    },
    /// A frame the codec does not know: kept verbatim, bounded, shown.
    Unknown {
        /// What the agent called it.
        label: String,
        /// The frame, cut at 4 KiB.
        raw: String,
    },
    /// Something for the log of the host and the doctor, not for the timeline.
    Diagnostic {
        /// In words, secrets redacted.
        message: String,
    },
}

/// How a request stopped waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// An answer reached the agent.
    Answered,
    /// The agent took it back.
    Withdrawn,
    /// Nobody answered in the time that the agent gives.
    Expired,
    /// The agent does not say which.
    Unsaid,
}
