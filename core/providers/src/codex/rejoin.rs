//! A conversation in a process that went on while nobody listened: what it and its subagents did meanwhile, and what they
//! still ask (docs/agents-probes.md, section 12).
//!
//! Codex tells a connection only of conversations that it resumed, and asks again what waits in each right after that. Of a
//! subagent it tells nothing until its own conversation is resumed too.

use super::{
    driver::CodexRuntime,
    outgoing::Call,
    replies::{CallError, Reply},
};
use crate::rpc::session::lock;
use pilothouse_domain::NativeId;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How often is looked whether a request was asked again.
const LOOK: Duration = Duration::from_millis(20);

impl CodexRuntime {
    /// Before a conversation is resumed: remembers what goes on in it, so that what it asks again is understood, and finds the
    /// conversations of its subagents.
    pub(super) async fn look_back(&self, root: &NativeId) -> Vec<NativeId> {
        // One that is not loaded has nothing going on: resuming it says so.
        self.remember(root).await;
        match self.subagents(root).await {
            Ok(subagents) => subagents,
            Err(error) => {
                tracing::warn!(%error, conversation = %root, "its subagents could not be found");
                Vec::new()
            }
        }
    }

    async fn remember(&self, thread: &NativeId) {
        let call = Call::LastTurn {
            thread: thread.clone(),
            told: false,
        };
        if let Err(error) = self.session.call(call, self.deadlines.call).await {
            tracing::debug!(%error, conversation = %thread, "no turn to remember");
        }
    }

    /// Links the loaded conversations that belong to one; gives them, parents first.
    async fn subagents(&self, root: &NativeId) -> Result<Vec<NativeId>, CallError> {
        let call = |call| self.session.call(call, self.deadlines.call);
        let Reply::Threads(loaded) = call(Call::ThreadsLoaded).await? else {
            return Ok(Vec::new());
        };
        let mut parents = BTreeMap::new();
        for thread in loaded {
            let read = Call::ThreadRead {
                thread: thread.clone(),
            };
            if let Reply::Kin {
                parent: Some(parent),
                root: of,
                waits,
            } = call(read).await?
                && of == *root
                && thread != *root
            {
                self.note_waiting(waits);
                parents.insert(thread, parent);
            }
        }
        let mut family = BTreeSet::from([root.clone()]);
        let mut found = Vec::new();
        while let Some(thread) = parents
            .iter()
            .find(|(_, parent)| family.contains(*parent))
            .map(|(thread, _)| thread.clone())
        {
            if let Some(parent) = parents.remove(&thread) {
                lock(&self.session.codec).adopt(&thread, &parent);
            }
            self.remember(&thread).await;
            family.insert(thread.clone());
            found.push(thread);
        }
        Ok(found)
    }

    /// After a conversation was resumed: its subagents speak to this connection, too, and ask again what they asked.
    pub(super) async fn join(&self, subagents: Vec<NativeId>) {
        for thread in subagents {
            let join = Call::ThreadJoin {
                thread: thread.clone(),
            };
            let told = Call::LastTurn {
                thread: thread.clone(),
                told: true,
            };
            for call in [join, told] {
                if let Err(error) = self.session.call(call, self.deadlines.call).await {
                    tracing::warn!(%error, conversation = %thread, "a subagent could not be taken up again");
                }
            }
        }
    }

    /// The requests that wait, once all that are `expected` are among them or it is certain that they were not asked again.
    pub(super) async fn asked_again(&self, expected: &[NativeId]) -> Vec<NativeId> {
        let began = Instant::now();
        loop {
            let waiting: Vec<NativeId> = lock(&self.session.codec)
                .pending_requests()
                .cloned()
                .collect();
            let complete = expected.iter().all(|request| waiting.contains(request));
            if complete
                || !self.waits()
                || self.session.is_over()
                || began.elapsed() > self.deadlines.ask_again
            {
                return waiting;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
