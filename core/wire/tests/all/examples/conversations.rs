//! What agents tell of a workspace: conversations that they have by themselves, files.

use pilothouse_domain::{
    ConversationKey,
    provider::{FoundFile, NativeConversation},
};
use pilothouse_wire::message::{Query, QueryResult};

pub(super) fn asked() -> Query {
    Query::Conversations {
        agent: "claude".into(),
        workspace: "site".into(),
        cursor: Some("50".to_owned()),
    }
}

pub(super) fn page() -> QueryResult {
    QueryResult::Conversations {
        conversations: vec![NativeConversation {
            key: ConversationKey::from_bytes([36; 16]),
            title: "What was begun at the desk".to_owned(),
            updated_at_ms: Some(1_796_044_137_000),
            thread: None,
        }],
        next: Some("100".to_owned()),
    }
}

pub(super) fn files_asked() -> Query {
    Query::Files {
        agent: "codex".into(),
        workspace: "site".into(),
        text: "pars".to_owned(),
    }
}

pub(super) fn files() -> QueryResult {
    QueryResult::Files {
        files: ["src/parser.rs", "docs/Parsing.md"]
            .map(|path| FoundFile { path: path.into() })
            .to_vec(),
    }
}
