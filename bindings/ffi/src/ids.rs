//! Ids and hashes cross as text: 26 letters and digits, or 64 hexadecimal digits. A text that is neither is refused as
//! `CoreError::Invalid`.

use crate::error::parsed;
use pilothouse_domain::{
    AgentName, AttemptId, BlobHash, CommandId, ContentHash, ConversationKey, Digest, HostId,
    ItemId, MessageId, NodeId, NoticeId, OptionId, RequestId, RunId, ThreadId, WorkspaceId,
};

macro_rules! as_text {
    ($($id:ident),*) => {$(
        uniffi::custom_type!($id, String, { remote, lower: |id| id.to_string(), try_lift: |text| parsed(&text) });
    )*};
}

macro_rules! as_name {
    ($($name:ident),*) => {$(
        uniffi::custom_type!($name, String, { remote, lower: |name| name.0, try_lift: |text| Ok($name(text)) });
    )*};
}

as_text!(
    AttemptId,
    BlobHash,
    CommandId,
    ContentHash,
    ConversationKey,
    Digest,
    HostId,
    ItemId,
    MessageId,
    NodeId,
    NoticeId,
    RequestId,
    RunId,
    ThreadId
);
as_name!(AgentName, OptionId, WorkspaceId);
