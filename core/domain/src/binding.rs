//! Identity bindings: which app id a native id stands for. Kept by the ledger, never sent, so that a resumed session
//! finds its children again and a repeat is no second thing.

use crate::{
    AttemptId, BlobHash, Incarnation, ItemId, MessageId, NativeId, NodeId, ProviderThreadId,
    ProviderTurnId, RequestId, RunId,
};
use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize};

/// What a native id is an id of, and in which scope it is unique.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Tagged)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum BindingKey {
    /// A native conversation of a driver.
    Thread {
        /// Its native id.
        thread: NativeId,
    },
    /// A turn of a conversation.
    Turn {
        /// The conversation.
        thread: NativeId,
        /// Its native id.
        turn: NativeId,
    },
    /// An item of a conversation.
    Item {
        /// The conversation.
        thread: NativeId,
        /// Its native id, or for agents without: `#kind/ordinal` within the turn.
        item: NativeId,
    },
    /// A request: native numbers restart with the process and may repeat within it.
    Request {
        /// Which life of the process.
        incarnation: Incarnation,
        /// The conversation.
        thread: NativeId,
        /// The turn, if it belongs to one.
        turn: Option<NativeId>,
        /// Its native id.
        request: NativeId,
    },
}

/// What a native id stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum BindingTarget {
    /// A native conversation of ours, or of one of our subagents.
    Thread {
        /// The conversation.
        provider_thread: ProviderThreadId,
        /// The subagent's node, for a child.
        node: Option<NodeId>,
        /// The run in which a child was opened.
        run: Option<RunId>,
    },
    /// A turn.
    Turn {
        /// The turn.
        turn: ProviderTurnId,
        /// The attempt it is.
        attempt: AttemptId,
        /// Its run.
        run: RunId,
        /// The run's ordinal, for the position of late items.
        ordinal: u32,
        /// The node under which its items stand.
        node: NodeId,
        /// Whether its end was seen.
        ended: bool,
    },
    /// An item.
    Item {
        /// The item.
        item: ItemId,
        /// Its run.
        run: RunId,
        /// Its node.
        node: NodeId,
        /// The message of ours that it echoes.
        message: Option<MessageId>,
        /// Hash of its content when it was closed, so that a repeat changes nothing; `None` while it is open.
        closed: Option<BlobHash>,
    },
    /// A request.
    Request {
        /// The request, of the latest occurrence.
        request: RequestId,
        /// How often the same key was used for another request before.
        occurrence: u32,
        /// Whether it is still open.
        open: bool,
    },
}

/// A binding to be stored; replaces one of the same key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The native side.
    pub key: BindingKey,
    /// Our side.
    pub target: BindingTarget,
}
