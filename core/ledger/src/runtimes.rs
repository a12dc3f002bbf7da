//! Agents' processes: started when first needed, one per agent, workspace or thread as its family says.

use crate::{
    Unreached,
    config::AgentSpec,
    elsewhere::{self, Note},
    forward::Forward,
    writer::Job,
};
use futures_util::future::join_all;
use pilothouse_domain::{
    AgentName, Incarnation, NativeId, Policy, ProviderEvent, ProviderEventKind, ThreadId,
    WorkspaceId,
    policy::{Contract, Sandbox},
    provider_event::NativePlace,
};
use pilothouse_providers::{
    contract::{AgentRuntime, EventSender, Launch, OpenThread, ProcessSharing, StartError},
    mcp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, watch};

/// Batches of events, each of what one read gave, that may wait before the agent is no longer read: with [`Forward`]'s own
/// about a MiB, whatever the agent writes.
const BATCHES: usize = 16;

/// Which process serves a thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuntimeKey {
    agent: AgentName,
    workspace: Option<WorkspaceId>,
    thread: Option<ThreadId>,
}

/// Which agent process something comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionFacts {
    pub(crate) agent: AgentName,
    pub(crate) family: &'static str,
    pub(crate) incarnation: Incarnation,
    /// What ends is a connection, not the agent.
    pub(crate) elsewhere: bool,
    /// Before what it has to ask.
    pub(crate) contract: Contract,
}

/// A running agent process.
pub(crate) struct Running {
    pub(crate) facts: SessionFacts,
    /// As it last said; empty until then.
    version: Mutex<String>,
    pub(crate) runtime: Arc<dyn AgentRuntime>,
    /// Conversations this process has loaded.
    opened: Mutex<BTreeSet<NativeId>>,
}

impl Running {
    pub(crate) fn facts(&self) -> SessionFacts {
        self.facts.clone()
    }

    pub(crate) fn version(&self) -> String {
        let version = self.version.lock();
        version.map(|said| said.clone()).unwrap_or_default()
    }

    /// An agent behind another ledger says its own version only once it runs.
    pub(crate) fn note_version(&self, said: String) {
        if let Ok(mut version) = self.version.lock() {
            *version = said;
        }
    }

    pub(crate) fn has_opened(&self, thread: &NativeId) -> bool {
        self.opened
            .lock()
            .is_ok_and(|opened| opened.contains(thread))
    }

    pub(crate) fn note_opened(&self, thread: NativeId) {
        if let Ok(mut opened) = self.opened.lock() {
            opened.insert(thread);
        }
    }
}

/// All agents' processes.
pub(crate) struct Runtimes {
    agents: BTreeMap<AgentName, AgentSpec>,
    /// In which each of them may run.
    sandboxes: BTreeMap<AgentName, Vec<Sandbox>>,
    wrapper: Vec<String>,
    pid_dir: PathBuf,
    idle_look: Duration,
    jobs: mpsc::WeakSender<Job>,
    table: Arc<tokio::sync::Mutex<Table>>,
    /// Threads whose process outlived the host and is being taken up: nothing is said to it before.
    taking_up: watch::Sender<BTreeSet<ThreadId>>,
    /// One lock per process: held while it is started, so that a second thread of the same agent waits for it and those
    /// of other agents do not.
    gates: Mutex<BTreeMap<RuntimeKey, Arc<tokio::sync::Mutex<()>>>>,
    unreached: watch::Sender<Unreached>,
    closing: Arc<AtomicBool>,
}

/// Which processes there are. Its lock is never held while something is waited for.
#[derive(Default)]
struct Table {
    running: BTreeMap<RuntimeKey, Arc<Running>>,
    /// Being started; one that is no longer here when it has started has ended already.
    starting: BTreeSet<Incarnation>,
    closed: bool,
}

impl Runtimes {
    pub(crate) fn new(
        agents: BTreeMap<AgentName, AgentSpec>,
        policy: &Policy,
        wrapper: Vec<String>,
        pid_dir: PathBuf,
        idle_look: Duration,
        jobs: mpsc::WeakSender<Job>,
    ) -> Self {
        let declared = policy.agents.iter();
        Self {
            agents,
            sandboxes: declared
                .map(|(name, agent)| (name.clone(), agent.sandboxes.clone()))
                .collect(),
            wrapper,
            pid_dir,
            idle_look,
            jobs,
            table: Arc::default(),
            taking_up: watch::Sender::default(),
            gates: Mutex::default(),
            unreached: watch::Sender::default(),
            closing: Arc::default(),
        }
    }

    /// Agents that cannot be reached, with why.
    pub(crate) fn unreached(&self) -> watch::Receiver<Unreached> {
        self.unreached.subscribe()
    }

    /// Says whether an agent is reached.
    pub(crate) fn note_reached(&self, agent: &AgentName, problem: Option<String>) {
        self.unreached.send_if_modified(|known| match problem {
            Some(problem) => known.insert(agent.clone(), problem.clone()) != Some(problem),
            None => known.remove(agent).is_some(),
        });
    }

    /// Whether the ledger closes.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.jobs.strong_count() == 0
    }

    pub(crate) fn gate(&self, key: &RuntimeKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        Arc::clone(gates.entry(key.clone()).or_default())
    }

    /// Notes that the process of threads is being taken up.
    pub(crate) fn taking_up(&self, threads: impl Iterator<Item = ThreadId>) {
        self.taking_up.send_modify(|all| all.extend(threads));
    }

    /// Notes that a thread's process was taken up, or is lost.
    pub(crate) fn taken_up(&self, thread: ThreadId) {
        self.taking_up.send_modify(|all| {
            all.remove(&thread);
        });
    }

    /// Waits until a thread's process is not being taken up (any more).
    pub(crate) async fn settled(&self, thread: ThreadId) {
        // The sender is here, so this cannot fail.
        let _ = self
            .taking_up
            .subscribe()
            .wait_for(|all| !all.contains(&thread))
            .await;
    }

    pub(crate) fn jobs(&self) -> Option<mpsc::Sender<Job>> {
        self.jobs.upgrade()
    }

    /// Which process serves a thread; `None` for an agent that is not configured.
    pub(crate) fn key(
        &self,
        agent: &AgentName,
        workspace: &WorkspaceId,
        thread: ThreadId,
    ) -> Option<RuntimeKey> {
        let sharing = self.agents.get(agent)?.adapter.sharing();
        Some(RuntimeKey {
            agent: agent.clone(),
            workspace: (sharing == ProcessSharing::PerWorkspace).then(|| workspace.clone()),
            thread: (sharing == ProcessSharing::PerThread).then_some(thread),
        })
    }

    /// The process that serves a thread, started if it does not run.
    pub(crate) async fn ensure(
        &self,
        agent: &AgentName,
        workspace: &WorkspaceId,
        thread: ThreadId,
        opens: OpenThread,
    ) -> Result<Arc<Running>, StartError> {
        let Some(key) = self.key(agent, workspace, thread) else {
            return Err(StartError::Spawn {
                agent: agent.clone(),
                program: String::new(),
                problem: "it is no longer configured".into(),
            });
        };
        let gate = self.gate(&key);
        let _starting = gate.lock().await;
        if let Some(found) = self.table.lock().await.running.get(&key) {
            return Ok(Arc::clone(found));
        }
        let spec = self.agents.get(agent);
        let facts = SessionFacts {
            agent: agent.clone(),
            family: self.family(agent),
            incarnation: random_incarnation(agent)?,
            elsewhere: spec.is_some_and(|spec| spec.adapter.runs_elsewhere()),
            contract: spec.map(AgentSpec::contract).unwrap_or_default(),
        };
        self.begin(key, &facts, opens, None).await
    }

    /// Takes up a process that an earlier host left running, whose gate is held.
    pub(crate) async fn attach(
        &self,
        key: RuntimeKey,
        facts: &SessionFacts,
        record: &Path,
        opens: OpenThread,
    ) -> Result<Arc<Running>, StartError> {
        self.begin(key, facts, opens, Some(record)).await
    }

    /// How an agent is configured, and how a process of it would be launched.
    pub(crate) fn described(&self, agent: &AgentName, cwd: &Path) -> Option<(&AgentSpec, Launch)> {
        let spec = self.agents.get(agent)?;
        let launch = Launch {
            agent: agent.clone(),
            incarnation: Incarnation::default(),
            command: spec.command.clone(),
            env: spec.env.clone(),
            modes: spec.modes.clone(),
            mcp: spec.mcp.clone(),
            cwd: spec.cwd.clone().unwrap_or_else(|| cwd.to_owned()),
            wrapper: self.wrapper.clone(),
            sandbox: None,
            opens: None,
            pid_file: None,
        };
        Some((spec, launch))
    }

    /// A run that waited in the queue may be of a thread that chose what is no longer allowed.
    fn check_sandbox(&self, agent: &AgentName, chosen: Option<Sandbox>) -> Result<(), StartError> {
        let allowed = self.sandboxes.get(agent).map_or(&[][..], Vec::as_slice);
        match chosen {
            Some(sandbox) if !allowed.contains(&sandbox) => Err(StartError::Sandbox {
                agent: agent.clone(),
                sandbox,
                problem: "the host no longer allows it; choose the thread's mode anew, and it runs as the host allows now"
                    .into(),
            }),
            _ => Ok(()),
        }
    }

    fn family(&self, agent: &AgentName) -> &'static str {
        self.agents
            .get(agent)
            .map_or("", |spec| spec.adapter.family())
    }

    /// Starts a process, or takes one up by its record.
    async fn begin(
        &self,
        key: RuntimeKey,
        facts: &SessionFacts,
        opens: OpenThread,
        record: Option<&Path>,
    ) -> Result<Arc<Running>, StartError> {
        let (agent, incarnation) = (&facts.agent, facts.incarnation);
        let Some(spec) = self.agents.get(agent) else {
            return Err(StartError::Spawn {
                agent: agent.clone(),
                program: String::new(),
                problem: "it is no longer configured".into(),
            });
        };
        self.check_sandbox(agent, opens.selection.sandbox)?;
        self.table.lock().await.starting.insert(incarnation);
        let (events, inbox) = mpsc::channel(BATCHES);
        let (ready, version) = tokio::sync::oneshot::channel();
        let forward = Forward {
            facts: facts.clone(),
            jobs: self.jobs.clone(),
            ready: Some(ready),
            closing: Arc::clone(&self.closing),
        };
        tokio::spawn(forward.run(inbox));
        let launch = Launch {
            agent: agent.clone(),
            incarnation,
            command: spec.command.clone(),
            env: spec.env.clone(),
            modes: spec.modes.clone(),
            mcp: spec.mcp.clone(),
            cwd: spec.cwd.clone().unwrap_or_else(|| opens.cwd.clone()),
            wrapper: self.wrapper.clone(),
            sandbox: opens.selection.sandbox,
            opens: (spec.adapter.sharing() == ProcessSharing::PerThread).then_some(opens),
            pid_file: Some(self.pid_dir.join(format!("{incarnation}.pid"))),
        };
        let started = match record {
            Some(record) => spec.adapter.attach(launch, record.to_owned(), events).await,
            None => start(spec, launch, events).await,
        };
        let runtime = match started {
            Ok(runtime) => runtime,
            Err(error) => {
                self.table.lock().await.starting.remove(&incarnation);
                return Err(error);
            }
        };
        if facts.elsewhere {
            self.note(facts).await;
        }
        let version = version.await.unwrap_or_default();
        let found = Arc::new(Running {
            facts: facts.clone(),
            version: Mutex::new(version),
            runtime,
            opened: Mutex::default(),
        });
        let closed = {
            let mut table = self.table.lock().await;
            if table.starting.remove(&incarnation) && !table.closed {
                table.running.insert(key.clone(), Arc::clone(&found));
            }
            table.closed
        };
        if closed {
            found.runtime.stop().await;
            return Err(StartError::Spawn {
                agent: agent.clone(),
                program: String::new(),
                problem: "the host is stopping".into(),
            });
        }
        let reaper = Reaper {
            gate: self.gate(&key),
            key,
            incarnation,
            look: self.idle_look,
            table: Arc::clone(&self.table),
            jobs: self.jobs.clone(),
        };
        tokio::spawn(reaper.run());
        Ok(found)
    }

    /// Keeps that there is a connection with an agent that runs elsewhere.
    async fn note(&self, facts: &SessionFacts) {
        let note = Note {
            agent: facts.agent.clone(),
            family: facts.family.to_owned(),
            incarnation: facts.incarnation,
        };
        let path = self.note_of(facts.incarnation);
        let written = tokio::task::spawn_blocking(move || note.write(&path)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, agent = %facts.agent, "after a restart this agent will not be connected again by itself");
        }
    }

    pub(crate) fn note_of(&self, incarnation: Incarnation) -> PathBuf {
        self.pid_dir
            .join(format!("{incarnation}.{}", elsewhere::EXTENSION))
    }

    /// Lets go of a connection that ended, to make it again.
    pub(crate) async fn disconnected(&self, incarnation: Incarnation) {
        let mut table = self.table.lock().await;
        table.starting.remove(&incarnation);
        table
            .running
            .retain(|_, running| running.facts.incarnation != incarnation);
    }

    /// The process of an incarnation, if it still runs.
    pub(crate) async fn find(&self, incarnation: Incarnation) -> Option<Arc<Running>> {
        self.table
            .lock()
            .await
            .running
            .values()
            .find(|running| running.facts.incarnation == incarnation)
            .cloned()
    }

    /// Whether a process is the one that serves its threads.
    pub(crate) async fn is_current(&self, running: &Arc<Running>) -> bool {
        let found = self.find(running.facts.incarnation).await;
        found.is_some_and(|found| Arc::ptr_eq(&found, running))
    }

    /// Forgets a process that ended.
    pub(crate) async fn forget(&self, incarnation: Incarnation) {
        let mut table = self.table.lock().await;
        table.starting.remove(&incarnation);
        table
            .running
            .retain(|_, running| running.facts.incarnation != incarnation);
        drop(table);
        let _ = tokio::fs::remove_file(self.pid_dir.join(format!("{incarnation}.pid"))).await;
        let _ = tokio::fs::remove_file(self.note_of(incarnation)).await;
    }

    /// Stops all processes.
    pub(crate) async fn stop_all(&self) {
        self.closing.store(true, Ordering::Release);
        self.taking_up.send_modify(BTreeSet::clear);
        let running: Vec<_> = {
            let mut table = self.table.lock().await;
            table.closed = true;
            std::mem::take(&mut table.running).into_values().collect()
        };
        join_all(running.iter().map(|running| running.runtime.stop())).await;
        for running in running {
            let _ = tokio::fs::remove_file(
                self.pid_dir
                    .join(format!("{}.pid", running.facts.incarnation)),
            )
            .await;
        }
        mcp::remove_left(&self.pid_dir);
    }
}

async fn start(
    spec: &AgentSpec,
    launch: Launch,
    events: EventSender,
) -> Result<Arc<dyn AgentRuntime>, StartError> {
    let pid_file = launch.pid_file.clone();
    let started = spec.adapter.start(launch, events).await;
    if started.is_err()
        && let Some(file) = pid_file
    {
        let _ = tokio::fs::remove_file(file).await;
    }
    started
}

fn random_incarnation(agent: &AgentName) -> Result<Incarnation, StartError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| StartError::Spawn {
        agent: agent.clone(),
        program: String::new(),
        problem: format!("the system gives no random numbers: {error}"),
    })?;
    Ok(Incarnation::from_bytes(bytes))
}

/// Stops a process that had nothing to do for two looks in a row: no run, no open request, no background work.
struct Reaper {
    key: RuntimeKey,
    incarnation: Incarnation,
    look: Duration,
    /// Of its key.
    gate: Arc<tokio::sync::Mutex<()>>,
    table: Arc<tokio::sync::Mutex<Table>>,
    jobs: mpsc::WeakSender<Job>,
}

impl Reaper {
    async fn run(self) {
        let mut idle_before = false;
        loop {
            tokio::time::sleep(self.look).await;
            let Some(idle) = self.is_idle().await else {
                return;
            };
            if idle && idle_before && self.reap().await {
                return;
            }
            idle_before = idle;
        }
    }

    /// Stops the process if nobody has it in hand and it still has nothing to do. Who needs one meanwhile waits for the gate and
    /// starts another; the threads' sessions are ended first, so that the end of this process touches no run of the next.
    async fn reap(&self) -> bool {
        let _nobody_starts = self.gate.lock().await;
        let found = {
            let table = self.table.lock().await;
            let found = table.running.get(&self.key);
            found
                .filter(|running| running.facts.incarnation == self.incarnation)
                .cloned()
        };
        let Some(running) = found else {
            return true;
        };
        // The table's and ours.
        if Arc::strong_count(&running) > 2 {
            return false;
        }
        let (reply, ended) = tokio::sync::oneshot::channel();
        let incarnation = self.incarnation;
        if !self.asks(Job::Reap { incarnation, reply }).await || ended.await != Ok(true) {
            return false;
        }
        self.table.lock().await.running.remove(&self.key);
        tracing::info!(agent = %running.facts.agent, "stopping an agent that had nothing to do");
        running.runtime.stop().await;
        true
    }

    async fn asks(&self, job: Job) -> bool {
        match self.jobs.upgrade() {
            Some(jobs) => jobs.send(job).await.is_ok(),
            None => false,
        }
    }

    /// `None` when the ledger or the process is gone.
    async fn is_idle(&self) -> Option<bool> {
        let (reply, idle) = tokio::sync::oneshot::channel();
        let incarnation = self.incarnation;
        if !self.asks(Job::IsIdle { incarnation, reply }).await {
            return None;
        }
        idle.await.ok()
    }
}

/// An event about a process as a whole, told to one of its threads.
pub(crate) fn session_event(kind: ProviderEventKind, thread: Option<NativeId>) -> ProviderEvent {
    ProviderEvent {
        place: NativePlace {
            thread,
            root: None,
            turn: None,
        },
        kind,
    }
}
