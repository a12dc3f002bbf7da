//! Making a thread: nothing runs, and no agent is asked.

use crate::{
    Verdict,
    choose::chosen,
    decide::{Deciding, accepted, invalid},
};
use pilothouse_domain::{
    CapabilityFlag, ConversationKey, EffectKind, Event, Refusal, WorkspaceId, limits,
    provider::{ProviderThread, ProviderThreadStatus},
    refusal::Fallback,
    thread::Selection,
};

impl Deciding<'_> {
    pub(crate) fn create(
        &mut self,
        title: &str,
        workspace: &WorkspaceId,
        selection: &Selection,
    ) -> Result<Verdict, Refusal> {
        self.check_new(title)?;
        let selection = self.check_choice(workspace, selection)?;
        self.draft.emit(Event::ThreadCreated {
            thread: self.command.thread,
            title: title.to_owned(),
            workspace: workspace.clone(),
            selection,
            lineage: None,
            actor: self.actor,
        });
        Ok(accepted())
    }

    /// Makes a thread of a conversation that the agent has by itself. It is the thread's own from the beginning, so that it is
    /// never imported twice; nothing starts in it before what was said there is read.
    pub(crate) fn import(
        &mut self,
        title: &str,
        workspace: &WorkspaceId,
        selection: &Selection,
        conversation: ConversationKey,
    ) -> Result<Verdict, Refusal> {
        self.check_new(title)?;
        let selection = self.check_choice(workspace, selection)?;
        let declared = self.policy.agents.get(&selection.agent);
        let tells = declared
            .is_some_and(|declared| declared.capabilities.has(CapabilityFlag::ListConversations));
        if !tells {
            return Err(Refusal::Unsupported {
                capability: CapabilityFlag::ListConversations,
                fallback: Some(Fallback::NewThread),
            });
        }
        let listed = self.lookups.conversation.as_ref();
        let Some(listed) = listed.filter(|listed| listed.agent == selection.agent) else {
            return Err(Refusal::UnknownConversation { conversation });
        };
        if let Some(thread) = listed.thread {
            return Err(Refusal::AlreadyHere { thread });
        }
        let provider_thread = self.command.id.derive("conversation");
        self.draft.emit(Event::ThreadCreated {
            thread: self.command.thread,
            title: title.to_owned(),
            workspace: workspace.clone(),
            selection: selection.clone(),
            lineage: None,
            actor: self.actor,
        });
        self.draft.emit(Event::ProviderThreadChanged {
            provider_thread: ProviderThread {
                id: provider_thread,
                agent: selection.agent,
                owner: None,
                coverage: 0,
                status: ProviderThreadStatus::NotLoaded,
            },
        });
        self.draft.emit(Event::ImportRequested {
            provider_thread,
            actor: self.actor,
        });
        self.draft
            .effect(self.command.id.derive("effect"), EffectKind::Import);
        Ok(accepted())
    }

    /// Whether the agent has to load the thread's conversation anew and can tell what it holds: then what somebody may have
    /// added to it elsewhere is read before anything is said in it.
    pub(crate) fn reads_first(&self) -> bool {
        let state = &self.draft.state;
        let loaded = state.session.as_ref().is_some_and(|session| session.live);
        let has_begun = state
            .provider_threads
            .iter()
            .any(|slot| Some(slot.id) == state.provider_thread && slot.coverage > 0);
        let declared = state
            .meta
            .as_ref()
            .and_then(|meta| self.policy.agents.get(&meta.selection.agent));
        let tells = declared.is_some_and(|declared| {
            declared
                .capabilities
                .has(CapabilityFlag::ReadThreadSnapshot)
        });
        // A queue that is held stays so, whatever is read.
        let goes_on = state.rests() && state.held.is_none() && state.queue.is_empty();
        goes_on && !loaded && has_begun && tells
    }

    /// Has what was added to the conversation elsewhere read. What is queued goes on after it.
    pub(crate) fn read_first(&mut self) {
        let Some(provider_thread) = self.draft.state.provider_thread else {
            return;
        };
        self.draft.emit(Event::ImportRequested {
            provider_thread,
            actor: self.actor,
        });
        self.draft
            .effect(self.command.id.derive("read"), EffectKind::Import);
    }

    /// Whether the command may make its thread.
    pub(crate) fn check_new(&self, title: &str) -> Result<(), Refusal> {
        let thread = self.command.thread;
        if thread != self.command.id.derive("thread") {
            return Err(invalid(
                "thread",
                "a new thread's id derives from its command's",
            ));
        }
        if self.draft.state.meta.is_some() {
            return Err(Refusal::ThreadExists { thread });
        }
        if title.chars().count() > limits::TITLE_CHARS {
            return Err(invalid(
                "title",
                format!("it is longer than {} characters", limits::TITLE_CHARS),
            ));
        }
        Ok(())
    }

    /// What the thread runs on, if the host offers that agent in that mode and that workspace.
    pub(crate) fn check_choice(
        &self,
        workspace: &WorkspaceId,
        selection: &Selection,
    ) -> Result<Selection, Refusal> {
        let Some(agent) = self.policy.agents.get(&selection.agent) else {
            return Err(Refusal::UnknownAgent {
                agent: selection.agent.clone(),
                known: self.policy.agents.keys().cloned().collect(),
            });
        };
        if !self.policy.workspaces.contains(workspace) {
            return Err(Refusal::UnknownWorkspace {
                workspace: workspace.clone(),
                known: self.policy.workspaces.clone(),
            });
        }
        chosen(agent, selection)
    }
}
