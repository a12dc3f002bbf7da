//! What agents tell of a workspace besides turns: their own conversations, remembered by the keys by which devices name them
//! (what an agent calls them stays here), and files that a message is to name.

use crate::{
    Ledger,
    runtimes::{Running, Runtimes},
};
use pilothouse_domain::{
    AgentName, ConversationKey, Mode, NativeId, ThreadId, WorkspaceId,
    binding::BindingKey,
    limits,
    provider::{FoundFile, NativeConversation},
    thread::Selection,
};
use pilothouse_providers::{
    contract::{
        ConversationList, FoundConversation, ListConversations, OpenThread, ProcessSharing,
    },
    naming::FileSearch,
};
use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Conversations that are remembered; a person who chooses one has listed it a moment ago.
const REMEMBERED: usize = 4096;
/// Bytes of a place in a list, as an agent says it.
const CURSOR: usize = 1024;

/// What was listed in this life of the host: the latest, by their keys. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listed(Arc<Mutex<Remembered>>);

#[derive(Debug, Default)]
struct Remembered {
    by_key: BTreeMap<ConversationKey, (AgentName, NativeId)>,
    order: VecDeque<ConversationKey>,
}

impl Listed {
    fn remember(&self, agent: &AgentName, native: &NativeId) -> ConversationKey {
        let key = ConversationKey::of(agent, native);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = (agent.clone(), native.clone());
        if known.by_key.insert(key, named).is_none() {
            known.order.push_back(key);
        }
        while known.order.len() > REMEMBERED
            && let Some(oldest) = known.order.pop_front()
        {
            known.by_key.remove(&oldest);
        }
        key
    }

    /// Whose a conversation is, and what its agent calls it.
    pub(crate) fn find(&self, key: ConversationKey) -> Option<(AgentName, NativeId)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.by_key.get(&key).cloned()
    }
}

/// Why conversations could not be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// No such agent, or no such workspace.
    #[error("this host has no {what} `{name}`")]
    Unknown {
        /// `agent` or `workspace`.
        what: &'static str,
        /// What was asked for.
        name: String,
    },
    /// The agent does not tell of its conversations.
    #[error("`{agent}` does not tell which conversations it has")]
    ConversationsNotOffered {
        /// Which.
        agent: AgentName,
    },
    /// The agent does not tell of files.
    #[error("`{agent}` does not tell which files it has")]
    FilesNotOffered {
        /// Which.
        agent: AgentName,
    },
    /// It could not be started, or did not answer.
    #[error("{problem}")]
    Failed {
        /// What happened.
        problem: String,
    },
}

impl Ledger {
    /// Conversations that an agent has in a workspace, the newest first, at most [`limits::LISTED_CONVERSATIONS`] of them,
    /// and where the next page begins. An agent that can only tell while it runs is started.
    ///
    /// # Errors
    /// [`ListError`]; the ledger being closed is `Failed`.
    pub async fn conversations(
        &self,
        agent: AgentName,
        workspace: WorkspaceId,
        cursor: Option<String>,
    ) -> Result<(Vec<NativeConversation>, Option<String>), ListError> {
        let shared = &self.shared;
        let asked = ListConversations {
            cwd: self.place_of(&workspace)?,
            limit: limits::LISTED_CONVERSATIONS,
            cursor: cursor.filter(|cursor| cursor.len() <= CURSOR),
        };
        let list = shared.runtimes.list(&agent, &workspace, asked).await?;
        let mut found: Vec<(NativeId, NativeConversation)> = Vec::new();
        for one in list
            .found
            .into_iter()
            .take(limits::LISTED_CONVERSATIONS as usize)
        {
            // An agent may name one twice (codex does after it has taken something back).
            if found.iter().any(|(known, _)| *known == one.id) {
                continue;
            }
            let conversation = NativeConversation {
                key: shared.listed.remember(&agent, &one.id),
                title: title(&one),
                updated_at_ms: one.updated_at_ms,
                thread: None,
            };
            found.push((one.id, conversation));
        }
        let ids: Vec<NativeId> = found.iter().map(|(id, _)| id.clone()).collect();
        let threads = self.read(move |reader| {
            let bound = |thread: NativeId| {
                let key = BindingKey::Thread { thread };
                Ok(reader
                    .binding(agent.as_str(), &key)?
                    .map(|(thread, _)| thread))
            };
            ids.into_iter()
                .map(bound)
                .collect::<Result<Vec<Option<ThreadId>>, _>>()
        });
        let threads = threads.await.map_err(failed)?;
        let conversations = found
            .into_iter()
            .zip(threads)
            .map(|((_, conversation), thread)| NativeConversation {
                thread,
                ..conversation
            })
            .collect();
        Ok((conversations, list.next.filter(|next| next.len() <= CURSOR)))
    }
}

impl Ledger {
    /// Files of a workspace by a part of their path, the best first, at most [`limits::LISTED_FILES`] of them, as their agent
    /// finds them; it is started for that.
    ///
    /// # Errors
    /// [`ListError`]; an agent of which each thread has a process of its own does not tell.
    pub async fn files(
        &self,
        agent: AgentName,
        workspace: WorkspaceId,
        text: String,
    ) -> Result<Vec<FoundFile>, ListError> {
        let cwd = self.place_of(&workspace)?;
        let runtimes = &self.shared.runtimes;
        let running = runtimes.shared_process(&agent, &workspace, &cwd).await?;
        let Some(files) = running.as_ref().and_then(|running| running.runtime.files()) else {
            return Err(ListError::FilesNotOffered { agent });
        };
        let asked = FileSearch {
            cwd,
            text: text.chars().take(limits::TITLE_CHARS).collect(),
            limit: limits::LISTED_FILES,
        };
        let found = files.find(asked).await.map_err(failed)?;
        Ok(found.into_iter().map(|path| FoundFile { path }).collect())
    }

    fn place_of(&self, workspace: &WorkspaceId) -> Result<PathBuf, ListError> {
        let known = self.shared.workspaces.get(workspace).cloned();
        known.ok_or_else(|| ListError::Unknown {
            what: "workspace",
            name: workspace.0.clone(),
        })
    }
}

fn failed(error: impl ToString) -> ListError {
    ListError::Failed {
        problem: error.to_string(),
    }
}

/// One line of it, bounded.
fn title(found: &FoundConversation) -> String {
    let line = found
        .title
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty());
    line.unwrap_or_default()
        .chars()
        .take(limits::TITLE_CHARS)
        .collect()
}

impl Runtimes {
    /// A page of an agent's conversations: told by its files, or by the agent itself.
    async fn list(
        &self,
        agent: &AgentName,
        workspace: &WorkspaceId,
        asked: ListConversations,
    ) -> Result<ConversationList, ListError> {
        let Some((spec, launch)) = self.described(agent, &asked.cwd) else {
            return Err(unknown(agent));
        };
        if let Some(conversations) = spec.adapter.conversations(&launch) {
            return conversations.list(asked).await.map_err(failed);
        }
        let running = self.shared_process(agent, workspace, &asked.cwd).await?;
        match running
            .as_ref()
            .and_then(|running| running.runtime.conversations())
        {
            Some(conversations) => conversations.list(asked).await.map_err(failed),
            None => Err(ListError::ConversationsNotOffered {
                agent: agent.clone(),
            }),
        }
    }

    /// The process of an agent that serves any thread of a workspace, started if it has to be; `None` of an agent of which each
    /// thread has a process of its own.
    async fn shared_process(
        &self,
        agent: &AgentName,
        workspace: &WorkspaceId,
        cwd: &Path,
    ) -> Result<Option<Arc<Running>>, ListError> {
        let Some((spec, _)) = self.described(agent, cwd) else {
            return Err(unknown(agent));
        };
        if spec.adapter.sharing() == ProcessSharing::PerThread {
            return Ok(None);
        }
        let opens = OpenThread {
            resume: None,
            cwd: cwd.to_owned(),
            selection: Selection {
                agent: agent.clone(),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
        };
        // A process that serves several threads is the same for each of them.
        self.ensure(agent, workspace, ThreadId::default(), opens)
            .await
            .map(Some)
            .map_err(failed)
    }
}

fn unknown(agent: &AgentName) -> ListError {
    ListError::Unknown {
        what: "agent",
        name: agent.0.clone(),
    }
}
