//! Agents that outlived the host that started them (DETAILS section 3): found at boot by their records, taken up again, and
//! compared with what the log says of their threads. Until then their requests stay open, and nobody starts another process in
//! their place.

use crate::{
    config::AgentSpec,
    plan::Conversation,
    runtimes::{Running, Runtimes, SessionFacts, session_event},
    work::Past,
    writer::Job,
};
use pilothouse_domain::{
    AgentName, Incarnation, NativeId, ProviderEventKind, ThreadId, WorkspaceId,
    request::LostReason, thread::Selection,
};
use pilothouse_providers::{
    contract::{OpenThread, RuntimeEvents},
    process::{detached, kill_recorded},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Turns that are read back.
const TURNS: u32 = 8;

/// A process that an earlier host left running.
pub(crate) struct Survivor {
    pub(crate) facts: SessionFacts,
    pub(crate) record: PathBuf,
    /// The threads that it serves.
    pub(crate) threads: Vec<Served>,
}

/// A thread that it serves.
pub(crate) struct Served {
    pub(crate) thread: ThreadId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) cwd: PathBuf,
    pub(crate) selection: Selection,
    pub(crate) conversation: Option<Conversation>,
}

impl Served {
    fn opens(&self) -> OpenThread {
        OpenThread {
            resume: self
                .conversation
                .as_ref()
                .map(|conversation| conversation.native.clone()),
            cwd: self.cwd.clone(),
            selection: self.selection.clone(),
        }
    }
}

/// What of a thread is open when its process is taken up again.
pub(crate) struct TakenUp {
    /// Its last turns; `None` if its conversation could not be opened.
    pub(crate) past: Option<Past>,
    /// Requests that the agent waits for; `None` where that is not known.
    pub(crate) pending: Option<Vec<NativeId>>,
}

/// The processes that live on and can be taken up; the others that were recorded are ended, and their records removed.
pub(crate) fn find(pid_dir: &Path, agents: &BTreeMap<AgentName, AgentSpec>) -> Vec<Survivor> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(pid_dir).into_iter().flatten().flatten() {
        let path = file.path();
        if path
            .extension()
            .is_none_or(|extension| extension != detached::EXTENSION)
        {
            continue;
        }
        let record = detached::DetachedRecord::read(&path);
        let survivor = record
            .filter(|record| record.is_alive())
            .and_then(|record| {
                let spec = agents.get(&record.agent)?;
                let fits = spec.adapter.outlives_host()
                    && spec.adapter.family() == record.family
                    && spec.command == record.command;
                fits.then(|| Survivor {
                    facts: SessionFacts {
                        agent: record.agent,
                        family: spec.adapter.family(),
                        incarnation: record.incarnation,
                    },
                    record: path.clone(),
                    threads: Vec::new(),
                })
            });
        match survivor {
            Some(survivor) => found.push(survivor),
            None => end(&path),
        }
    }
    found
}

/// Ends a process that is of no use any more.
pub(crate) fn end(record: &Path) {
    match kill_recorded(record) {
        Ok(outcome) => {
            tracing::info!(file = %record.display(), ?outcome, "an agent that an earlier host left running");
        }
        Err(error) => {
            tracing::warn!(%error, file = %record.display(), "an agent left running could not be ended");
        }
    }
    let _ = std::fs::remove_file(record);
}

impl Runtimes {
    /// Takes a process up again, beside everything else. Who needs it meanwhile waits for it.
    pub(crate) fn take_up(self: &Arc<Self>, survivor: Survivor, runtime: &tokio::runtime::Handle) {
        let Some(first) = survivor.threads.first() else {
            return end(&survivor.record);
        };
        let key = self.key(&survivor.facts.agent, &first.workspace, first.thread);
        let Some(key) = key else {
            return end(&survivor.record);
        };
        let opens = first.opens();
        let gate = self.gate(&key);
        let held = Arc::clone(&gate).try_lock_owned();
        let runtimes = Arc::clone(self);
        runtime.spawn(async move {
            let held = match held {
                Ok(held) => held,
                Err(_) => gate.lock_owned().await,
            };
            let attached = runtimes
                .attach(key, &survivor.facts, &survivor.record, opens)
                .await;
            drop(held);
            match attached {
                Ok(running) => {
                    tracing::info!(agent = %survivor.facts.agent, "took up an agent that had outlived the host");
                    for served in survivor.threads {
                        runtimes.go_on(&running, served).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, agent = %survivor.facts.agent, "an agent that had outlived the host could not be taken up");
                    let record = survivor.record;
                    let _ = tokio::task::spawn_blocking(move || end(&record)).await;
                    let kind = ProviderEventKind::SessionEnded {
                        reason: LostReason::HostRestarted,
                        detail: format!("the host was restarted, and its agent could not be taken up: {error}"),
                    };
                    runtimes.tell(survivor.facts, kind).await;
                }
            }
        });
    }

    async fn tell(&self, facts: SessionFacts, kind: ProviderEventKind) {
        let batch = RuntimeEvents {
            incarnation: facts.incarnation,
            events: vec![session_event(kind, None)],
        };
        if let Some(jobs) = self.jobs() {
            let _ = jobs
                .send(Job::Runtime {
                    facts,
                    batch,
                    on_its_way: None,
                })
                .await;
        }
    }

    /// Opens a thread's conversation in a process that was taken up, and compares it with the log.
    async fn go_on(&self, running: &Arc<Running>, served: Served) {
        let past = match &served.conversation {
            Some(conversation) => self.past(running, &served, &conversation.native).await,
            None => None,
        };
        let taken_up = TakenUp {
            past,
            pending: running.runtime.pending(),
        };
        let (reply, done) = tokio::sync::oneshot::channel();
        let job = Job::TakeUp {
            thread: served.thread,
            session: running.facts(),
            taken_up,
            reply,
        };
        if let Some(jobs) = self.jobs()
            && jobs.send(job).await.is_ok()
        {
            let _ = done.await;
        }
    }

    async fn past(&self, running: &Running, served: &Served, native: &NativeId) -> Option<Past> {
        if let Err(error) = running.runtime.open_thread(served.opens()).await {
            tracing::warn!(%error, thread = %served.thread, "a conversation could not be taken up again");
            return None;
        }
        running.note_opened(native.clone());
        let history = running.runtime.history()?;
        match history.read(native.clone(), TURNS).await {
            Ok(events) => Some(Past {
                conversation: native.clone(),
                events,
                turns: TURNS,
                proves_absence: history.proves_absence(),
            }),
            Err(error) => {
                tracing::warn!(%error, thread = %served.thread, "a conversation could not be read back");
                None
            }
        }
    }
}

/// The incarnations of processes.
pub(crate) fn incarnations(survivors: &[Survivor]) -> Vec<Incarnation> {
    survivors
        .iter()
        .map(|survivor| survivor.facts.incarnation)
        .collect()
}
