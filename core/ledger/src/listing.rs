//! Agents' own conversations: listed for a workspace, and remembered by the keys by which devices name them. What an agent
//! calls them stays here.

use crate::{Ledger, runtimes::Runtimes};
use pilothouse_domain::{
    AgentName, ConversationKey, Mode, NativeId, ThreadId, WorkspaceId, binding::BindingKey, limits,
    provider::NativeConversation, thread::Selection,
};
use pilothouse_providers::contract::{
    ConversationList, FoundConversation, ListConversations, OpenError, OpenThread, ProcessSharing,
};
use std::{
    collections::{BTreeMap, VecDeque},
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
    /// The agent does not tell.
    #[error("`{agent}` does not tell which conversations it has")]
    NotOffered {
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
        let Some(cwd) = shared.workspaces.get(&workspace).cloned() else {
            return Err(ListError::Unknown {
                what: "workspace",
                name: workspace.0,
            });
        };
        let asked = ListConversations {
            cwd,
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
        let failed = |error: crate::LedgerError| ListError::Failed {
            problem: error.to_string(),
        };
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
            return Err(ListError::Unknown {
                what: "agent",
                name: agent.0.clone(),
            });
        };
        let failed = |problem: String| ListError::Failed { problem };
        let told = |told: Result<ConversationList, OpenError>| {
            told.map_err(|error| failed(error.to_string()))
        };
        if let Some(conversations) = spec.adapter.conversations(&launch) {
            return told(conversations.list(asked).await);
        }
        if spec.adapter.sharing() == ProcessSharing::PerThread {
            return Err(ListError::NotOffered {
                agent: agent.clone(),
            });
        }
        let opens = OpenThread {
            resume: None,
            cwd: asked.cwd.clone(),
            selection: Selection {
                agent: agent.clone(),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
        };
        // A process that serves several threads is the same for each of them.
        let running = self
            .ensure(agent, workspace, ThreadId::default(), opens)
            .await
            .map_err(|error| failed(error.to_string()))?;
        match running.runtime.conversations() {
            Some(conversations) => told(conversations.list(asked).await),
            None => Err(ListError::NotOffered {
                agent: agent.clone(),
            }),
        }
    }
}
