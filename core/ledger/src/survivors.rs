//! Agents that outlived the host that started them (DETAILS section 3): found at boot by their records, taken up again, and
//! compared with what the log says of their threads. Until then their requests stay open, and nobody starts another process in
//! their place.

use crate::{
    config::AgentSpec,
    elsewhere::Note,
    plan::Conversation,
    runtimes::{Running, RuntimeKey, Runtimes, SessionFacts, session_event},
    work::{Foreign, Past},
    writer::Job,
};
use pilothouse_domain::{
    AgentName, Incarnation, NativeId, ProviderEventKind, ThreadId, WorkspaceId,
    request::LostReason, thread::Selection,
};
use pilothouse_providers::{
    contract::{OpenError, OpenThread, RuntimeEvents, StartError},
    mcp,
    process::{detached, kill_recorded},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Turns that are read back.
const TURNS: u32 = 8;
/// Pauses between tries to reach an agent that runs elsewhere.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

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
    /// Requests that the agent asked and that are open.
    pub(crate) requests: Vec<NativeId>,
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
    mcp::remove_left(pid_dir);
    for file in std::fs::read_dir(pid_dir).into_iter().flatten().flatten() {
        let path = file.path();
        if Note::is_named_by(&path) {
            match noted(&path, agents) {
                Some(survivor) => found.push(survivor),
                None => end(&path),
            }
            continue;
        }
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
                    && spec.command == record.command
                    && spec.env == record.env;
                fits.then(|| Survivor {
                    facts: SessionFacts {
                        agent: record.agent,
                        family: spec.adapter.family(),
                        incarnation: record.incarnation,
                        elsewhere: false,
                        contract: spec.contract(),
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

/// An agent that an earlier life was connected with, if it is still configured.
fn noted(path: &Path, agents: &BTreeMap<AgentName, AgentSpec>) -> Option<Survivor> {
    let note = Note::read(path)?;
    let spec = agents.get(&note.agent)?;
    let adapter = &spec.adapter;
    let fits = adapter.runs_elsewhere() && adapter.family() == note.family;
    fits.then(|| Survivor {
        facts: SessionFacts {
            agent: note.agent,
            family: adapter.family(),
            incarnation: note.incarnation,
            elsewhere: true,
            contract: spec.contract(),
        },
        record: path.to_owned(),
        threads: Vec::new(),
    })
}

/// Ends a process that is of no use any more.
pub(crate) fn end(record: &Path) {
    if Note::is_named_by(record) {
        let _ = std::fs::remove_file(record);
        return;
    }
    let known = detached::DetachedRecord::read(record);
    match kill_recorded(record) {
        Ok(outcome) => {
            tracing::info!(file = %record.display(), ?outcome, "an agent that an earlier host left running");
        }
        Err(error) => {
            tracing::warn!(%error, file = %record.display(), "an agent left running could not be ended");
        }
    }
    if let Some(left) = known {
        left.clean();
    }
    let _ = std::fs::remove_file(record);
}

impl Runtimes {
    /// Takes a process up again, beside everything else. Who needs it meanwhile waits for it.
    pub(crate) fn take_up(self: &Arc<Self>, survivor: Survivor, runtime: &tokio::runtime::Handle) {
        let first = survivor.threads.first();
        let found = first.and_then(|first| {
            let key = self.key(&survivor.facts.agent, &first.workspace, first.thread)?;
            Some((key, first.opens()))
        });
        let Some((key, opens)) = found else {
            for served in &survivor.threads {
                self.taken_up(served.thread);
            }
            return end(&survivor.record);
        };
        let gate = self.gate(&key);
        let held = Arc::clone(&gate).try_lock_owned();
        let runtimes = Arc::clone(self);
        let threads: Vec<_> = survivor
            .threads
            .iter()
            .map(|served| served.thread)
            .collect();
        self.taking_up(threads.iter().copied());
        runtime.spawn(async move {
            let held = match held {
                Ok(held) => held,
                Err(_) => gate.lock_owned().await,
            };
            let attached = runtimes.attach_patiently(key, &survivor, opens).await;
            drop(held);
            match attached {
                Ok(running) => {
                    tracing::info!(agent = %survivor.facts.agent, "took up an agent that had outlived the host");
                    for served in survivor.threads {
                        let thread = served.thread;
                        if runtimes.go_on(&running, served).await {
                            runtimes.taken_up(thread);
                        }
                    }
                }
                Err(_) if survivor.facts.elsewhere && runtimes.is_closing() => {}
                Err(error) => {
                    tracing::warn!(%error, agent = %survivor.facts.agent, "an agent that had outlived the host could not be taken up");
                    let record = survivor.record;
                    let _ = tokio::task::spawn_blocking(move || end(&record)).await;
                    let kind = ProviderEventKind::SessionEnded {
                        reason: LostReason::HostRestarted,
                        detail: format!("the host was restarted, and its agent could not be taken up: {error}"),
                    };
                    runtimes.tell(survivor.facts, kind).await;
                    for thread in threads {
                        runtimes.taken_up(thread);
                    }
                }
            }
        });
    }

    /// Makes the connection with an agent that runs elsewhere again, beside everything else. Whoever needs it waits for it.
    pub(crate) fn reconnect(
        self: Arc<Self>,
        facts: SessionFacts,
        threads: Vec<Served>,
        runtime: &tokio::runtime::Handle,
    ) {
        self.taking_up(threads.iter().map(|served| served.thread));
        let survivor = Survivor {
            record: self.note_of(facts.incarnation),
            facts,
            threads,
        };
        let again = runtime.clone();
        runtime.spawn(async move {
            self.disconnected(survivor.facts.incarnation).await;
            self.take_up(survivor, &again);
        });
    }

    /// Takes a process up; an agent that runs elsewhere is tried until it is reached.
    async fn attach_patiently(
        &self,
        key: RuntimeKey,
        survivor: &Survivor,
        opens: OpenThread,
    ) -> Result<Arc<Running>, StartError> {
        let facts = &survivor.facts;
        let mut pause = FIRST_PAUSE;
        loop {
            let attached = self
                .attach(key.clone(), facts, &survivor.record, opens.clone())
                .await;
            match attached {
                Err(error) if facts.elsewhere && !self.is_closing() => {
                    self.note_reached(&facts.agent, Some(error.to_string()));
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                attached => {
                    self.note_reached(&facts.agent, None);
                    return attached;
                }
            }
        }
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

    /// Opens a thread's conversation in a process that was taken up, and compares it with the log. `false` if the connection
    /// ended meanwhile: when it is made anew, this is done anew.
    async fn go_on(&self, running: &Arc<Running>, served: Served) -> bool {
        let past = match &served.conversation {
            Some(conversation) => self.past(running, &served, &conversation.native).await,
            None => Ok(None),
        };
        let past = match past {
            Ok(past) => past,
            Err(OpenError::Lost) if running.facts.elsewhere => return false,
            Err(error) => {
                tracing::warn!(%error, thread = %served.thread, "a conversation could not be taken up again");
                None
            }
        };
        let taken_up = TakenUp {
            past,
            pending: running.runtime.pending(&served.requests).await,
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
        true
    }

    async fn past(
        &self,
        running: &Running,
        served: &Served,
        native: &NativeId,
    ) -> Result<Option<Past>, OpenError> {
        running.runtime.open_thread(served.opens()).await?;
        running.note_opened(native.clone());
        let Some(history) = running.runtime.history() else {
            return Ok(None);
        };
        let events = history.read(native.clone(), TURNS).await?;
        Ok(Some(Past {
            foreign: Foreign::No,
            conversation: native.clone(),
            events,
            turns: TURNS,
            proves_absence: history.proves_absence(),
        }))
    }
}

/// The incarnations of processes.
pub(crate) fn incarnations(survivors: &[Survivor]) -> Vec<Incarnation> {
    survivors
        .iter()
        .map(|survivor| survivor.facts.incarnation)
        .collect()
}
