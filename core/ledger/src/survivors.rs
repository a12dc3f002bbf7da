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
/// How often a process of this machine is asked for a conversation that it gives no answer about.
const ROUNDS: u32 = 3;
/// Pauses between tries to reach an agent that runs elsewhere, and between questions that were not answered.
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
    /// Its last turns, or why they are not known.
    pub(crate) past: Result<Past, String>,
    /// Requests that the agent waits for; `None` where that is not known.
    pub(crate) pending: Option<Vec<NativeId>>,
}

/// The processes that live on and can be taken up; the others that were recorded are ended, and their records removed.
pub(crate) fn find(pid_dir: &Path, agents: &BTreeMap<AgentName, AgentSpec>) -> Vec<Survivor> {
    let mut found = Vec::new();
    mcp::remove_left(pid_dir);
    detached::remove_left(pid_dir);
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
                    runtimes.go_on_all(&running, survivor.threads).await;
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

    /// Goes on with the threads of a process that was taken up. One of which the process says nothing is asked for again after
    /// the others: elsewhere, where calls are cut one by one, for as long as the connection lasts.
    async fn go_on_all(&self, running: &Arc<Running>, mut threads: Vec<Served>) {
        let elsewhere = running.facts.elsewhere;
        let mut pause = FIRST_PAUSE;
        for round in 1.. {
            let patient = elsewhere || round < ROUNDS;
            let mut problem = None;
            let mut left = Vec::new();
            for served in threads {
                match self.go_on(running, &served, patient).await {
                    Ok(()) => self.taken_up(served.thread),
                    Err(OpenError::Lost) => {}
                    Err(error) => {
                        tracing::warn!(%error, thread = %served.thread, "a conversation cannot be taken up yet");
                        problem = Some(error.to_string());
                        left.push(served);
                    }
                }
            }
            if elsewhere {
                self.note_reached(&running.facts.agent, problem);
            }
            // A connection that ended is made anew, and all this with it.
            if left.is_empty() || self.is_closing() || elsewhere && !self.is_current(running).await
            {
                return;
            }
            threads = left;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Opens a thread's conversation in a process that was taken up, and compares it with the log.
    ///
    /// # Errors
    /// Nothing was done: the connection with an agent elsewhere ended ([`OpenError::Lost`]: when it is made anew, this is done
    /// anew), or no answer came and it is to be asked again.
    async fn go_on(
        &self,
        running: &Arc<Running>,
        served: &Served,
        patient: bool,
    ) -> Result<(), OpenError> {
        let past = match &served.conversation {
            Some(conversation) => self.past(running, served, &conversation.native).await,
            None => Ok(Err("it had none yet".to_owned())),
        };
        let past = match past {
            Ok(past) => past,
            Err(error @ OpenError::Lost) if running.facts.elsewhere => return Err(error),
            Err(error @ OpenError::Unanswered { .. }) if patient => return Err(error),
            Err(error) => {
                tracing::warn!(%error, thread = %served.thread, "a conversation could not be taken up again");
                Err(error.to_string())
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
        Ok(())
    }

    async fn past(
        &self,
        running: &Running,
        served: &Served,
        native: &NativeId,
    ) -> Result<Result<Past, String>, OpenError> {
        running.runtime.open_thread(served.opens()).await?;
        running.note_opened(native.clone());
        let Some(history) = running.runtime.history() else {
            return Ok(Err("its agent cannot read it back".to_owned()));
        };
        let events = history.read(native.clone(), TURNS).await?;
        Ok(Ok(Past {
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
