//! Which conversations the agent has in a workspace: a folder of files, named after the directory.

use super::{
    content,
    starting::is_uuid,
    transcript::{Files, is_prompt},
};
use crate::{
    contract::{ConversationList, Conversations, FoundConversation, ListConversations, OpenError},
    rpc::{
        frames::text_of,
        session_files::{self, same_place},
    },
};
use futures_util::future::BoxFuture;
use pilothouse_domain::NativeId;
use serde_json::Value;
use std::path::Path;

/// Letters of a folder's name; of a longer path the agent makes a name that is not known here.
const FOLDER: usize = 200;

impl Conversations for Files {
    fn list(&self, asked: ListConversations) -> BoxFuture<'_, Result<ConversationList, OpenError>> {
        let files = self.clone();
        let read = move || {
            let cwd = asked
                .cwd
                .canonicalize()
                .unwrap_or_else(|_| asked.cwd.clone());
            let folder = files.projects.join(folder(&cwd));
            session_files::list(&folder, &asked, |file, lines| look(file, lines, &cwd))
        };
        Box::pin(async move {
            tokio::task::spawn_blocking(read)
                .await
                .map_err(|_| OpenError::Lost)
        })
    }
}

/// A folder's name: the path with everything but letters and digits as dashes.
fn folder(cwd: &Path) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let path = cwd.to_string_lossy();
    path.chars().take(FOLDER).map(plain).collect()
}

fn look(file: &Path, lines: &[Value], cwd: &Path) -> Option<FoundConversation> {
    let id = file.file_stem()?.to_str().filter(|id| is_uuid(id))?;
    let of = |kind: &'static str, key: &'static str| {
        let named = move |line: &&Value| text_of(line, "type").as_deref() == Some(kind);
        let mut last = lines.iter().rev().filter(named);
        last.find_map(move |line| text_of(line, key))
    };
    let first = lines.iter().find(|line| is_prompt(line))?;
    // Two directories can have the same folder.
    let place = text_of(first, "cwd")?;
    same_place(Path::new(&place), cwd).then_some(())?;
    let said = first
        .get("message")
        .and_then(|message| message.get("content"));
    let title = of("custom-title", "customTitle")
        .or_else(|| of("ai-title", "aiTitle"))
        .or_else(|| of("summary", "summary"))
        .unwrap_or_else(|| content::texts(said.unwrap_or(&Value::Null)));
    Some(FoundConversation {
        id: NativeId::from(id),
        title,
        updated_at_ms: None,
    })
}
