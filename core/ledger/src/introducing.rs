//! What an agent can do, said in a thread: when it is started or taken up for it, and again when what is chosen, or the agent's
//! own account, may have changed it.

use crate::{
    effects::Lane,
    runtimes::{Running, session_event},
    work::Changed,
};
use pilothouse_domain::{ProviderEventKind, thread::Selection};
use pilothouse_providers::capabilities_on;

impl Lane {
    /// Says in the thread what the agent can do on what is chosen, and what it offers. `false`: the ledger is closing.
    pub(crate) async fn introduce(
        &self,
        running: &Running,
        selection: &Selection,
        models: bool,
    ) -> bool {
        let version = running.version();
        let ready = ProviderEventKind::SessionReady {
            incarnation: running.facts.incarnation,
            capabilities: capabilities_on(&*running.runtime, selection, &version),
            version,
        };
        if !self.tell(running, session_event(ready, None)).await {
            return false;
        }
        let models = match models {
            true => running.runtime.models(),
            false => Vec::new(),
        };
        if !models.is_empty() {
            let offered = ProviderEventKind::ModelsOffered { models };
            self.tell(running, session_event(offered, None)).await;
        }
        true
    }

    /// Says anew what the agent can do; what is nothing new is no entry.
    pub(crate) async fn look(&self, changed: Changed) {
        if let Some(running) = self.runtimes.find(changed.incarnation).await {
            if let Some(version) = changed.version {
                running.note_version(version);
            }
            if changed.models {
                running.runtime.refresh().await;
            }
            self.introduce(&running, &changed.selection, changed.models)
                .await;
        }
    }
}
