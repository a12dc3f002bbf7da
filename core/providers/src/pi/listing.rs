//! Which sessions pi has in a workspace: a folder of files, named after the directory.

use crate::{
    contract::{
        ConversationList, Conversations, FoundConversation, Launch, ListConversations, OpenError,
    },
    rpc::{
        frames::text_of,
        session_files::{self, same_place},
    },
};
use futures_util::future::BoxFuture;
use pilothouse_domain::NativeId;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where pi keeps its sessions.
#[derive(Debug, Clone)]
pub(super) struct SessionFolders(PathBuf);

impl SessionFolders {
    /// As its environment says.
    pub(super) fn of(launch: &Launch) -> Self {
        let variable = |name: &str| {
            let given = launch.env.get(name).cloned();
            given
                .or_else(|| std::env::var(name).ok())
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let home = || variable("HOME").unwrap_or_default().join(".pi/agent");
        let agent = variable("PI_CODING_AGENT_DIR").unwrap_or_else(home);
        Self(agent.join("sessions"))
    }
}

impl Conversations for SessionFolders {
    fn list(&self, asked: ListConversations) -> BoxFuture<'_, Result<ConversationList, OpenError>> {
        let sessions = self.0.clone();
        let read = move || {
            let cwd = asked
                .cwd
                .canonicalize()
                .unwrap_or_else(|_| asked.cwd.clone());
            let folder = sessions.join(folder(&cwd));
            session_files::list(&folder, &asked, |file, lines| look(file, lines, &cwd))
        };
        Box::pin(async move {
            tokio::task::spawn_blocking(read)
                .await
                .map_err(|_| OpenError::Lost)
        })
    }
}

/// A folder's name: the path without its first slash, the others as dashes, between two dashes.
fn folder(cwd: &Path) -> String {
    let path = cwd.to_string_lossy();
    let inner = path.trim_start_matches('/').replace(['/', '\\', ':'], "-");
    format!("--{inner}--")
}

fn look(file: &Path, lines: &[Value], cwd: &Path) -> Option<FoundConversation> {
    let is =
        |kind: &'static str| move |line: &&Value| text_of(line, "type").as_deref() == Some(kind);
    let header = lines.iter().find(is("session"))?;
    same_place(Path::new(&text_of(header, "cwd")?), cwd).then_some(())?;
    let name = lines
        .iter()
        .rev()
        .filter(is("session_info"))
        .find_map(|line| text_of(line, "name"));
    let first = lines
        .iter()
        .filter_map(|line| line.get("message"))
        .find(|message| message.get("role").and_then(Value::as_str) == Some("user"))?;
    Some(FoundConversation {
        id: NativeId(file.to_str()?.to_owned()),
        title: name.unwrap_or_else(|| super::messages::said(first)),
        updated_at_ms: None,
    })
}
