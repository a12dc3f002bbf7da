//! A ledger in this process whose only agent is a far host's.

use crate::{
    device::Device,
    host::Host,
    ledger_dir::LedgerDir,
    near::{self, NearFacts},
    until,
};
use pilothouse_domain::{
    AgentName, AttemptId, Command, CommandBody, CommandId, DeviceId, DispatchMode, Mode, Outcome,
    Policy, Row, RunId, Scope, ThreadId, ThreadState, WorkspaceId, policy::AgentPolicy,
    thread::Selection,
};
use pilothouse_engine::FarHost;
use pilothouse_ledger::{AgentSpec, Ledger, LedgerConfig, Principal, SystemClock};
use pilothouse_providers::contract::ProviderAdapter;
use pilothouse_wire::{
    connect::Connector,
    identity::{DeviceIdentity, FileKey},
    message::{AgentInfo, AgentReadiness},
    offer::PairingOffer,
    opening,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::runtime::Runtime;

/// What the far agent is called here.
pub const FAR: &str = "far";

/// A ledger here. Dropped, it is closed.
pub struct Here {
    ledger: Option<Ledger>,
    adapter: Arc<dyn ProviderAdapter>,
    runtime: Runtime,
    dir: PathBuf,
    agent: AgentName,
    workspace: WorkspaceId,
    commands: AtomicU64,
}

impl Here {
    /// Pairs with a host and opens a ledger that drives that host's codex in workspace `demo`; here it is [`FAR`] in `there`.
    pub fn start(dir: &Path, host: &Host) -> Self {
        Self::driving("codex", dir, host, (FAR, "there"))
    }

    /// Pairs with a host and opens a ledger that drives an agent of that host in workspace `demo`, with names of agent and
    /// workspace here.
    pub fn driving(agent: &str, dir: &Path, host: &Host, here: (&str, &str)) -> Self {
        std::fs::create_dir_all(dir).expect("a directory");
        let runtime = Runtime::new().expect("a runtime");
        let key = FileKey::load_or_create(&dir.join(FileKey::FILE)).expect("a key");
        let identity = DeviceIdentity::new(Arc::new(key)).expect("an identity");
        let offer = PairingOffer::parse(&host.pairing_code(None)).expect("a pairing code");
        let connector = Connector::new(&identity, offer.spki_sha256).expect("a connector");
        let adapter = runtime.block_on(async {
            opening::pair(&connector, &offer, "here", "test")
                .await
                .expect("it pairs");
            let far = FarHost::connect(connector, offer.addresses, "here");
            let agent = far.agent(agent.into(), "demo".into()).await;
            agent.unwrap_or_else(|error| panic!("{error}"))
        });
        let mut started = Self {
            ledger: None,
            adapter: Arc::new(adapter),
            runtime,
            dir: dir.to_owned(),
            agent: here.0.into(),
            workspace: here.1.into(),
            commands: AtomicU64::new(0),
        };
        started.open();
        started
    }

    fn open(&mut self) {
        let adapter = Arc::clone(&self.adapter);
        let policy = AgentPolicy {
            family: adapter.family().to_owned(),
            modes: adapter.modes(),
            capabilities: adapter.profile().set(),
            sandboxes: Vec::new(),
        };
        let spec = AgentSpec {
            adapter,
            command: Vec::new(),
            env: BTreeMap::new(),
            modes: BTreeMap::new(),
            mcp: pilothouse_providers::mcp::McpServers::default(),
            cwd: None,
        };
        let config = LedgerConfig {
            dir: self.dir.join("ledger"),
            policy: Policy {
                version: 1,
                agents: BTreeMap::from([(self.agent.clone(), policy)]),
                workspaces: vec![self.workspace.clone()],
                default_mode: Mode::Ask,
            },
            agents: BTreeMap::from([(self.agent.clone(), spec)]),
            workspaces: BTreeMap::from([(self.workspace.clone(), self.dir.clone())]),
            wrapper: Vec::new(),
            clock: Arc::new(SystemClock),
            new_epoch: false,
            idle_look: pilothouse_ledger::IDLE_LOOK,
        };
        let ledger = Ledger::open(config, self.runtime.handle().clone());
        self.ledger = Some(ledger.expect("the ledger opens"));
    }

    /// Closes the ledger and opens it again.
    pub fn reopen(&mut self) {
        self.close();
        self.open();
    }

    fn close(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            self.runtime.block_on(ledger.shutdown());
        }
    }

    /// Its files.
    pub fn ledger_dir(&self) -> LedgerDir {
        LedgerDir::new(&self.dir.join("ledger"))
    }

    /// A device of its own, which reaches it as it does a host.
    ///
    /// # Panics
    /// It has been reopened.
    pub fn device(&self, dir: &Path, name: &str) -> Device {
        let info = AgentInfo {
            name: self.agent.clone(),
            family: self.adapter.family().to_owned(),
            version: None,
            readiness: AgentReadiness::Unknown,
            modes: self.adapter.modes(),
        };
        let facts = NearFacts(info, self.workspace.clone());
        let serving = near::serve(self.ledger().clone(), facts, &self.dir);
        let (host, code) = self.runtime.block_on(serving);
        Device::pair_by(dir, name, host, &code)
    }

    fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().expect("the ledger is open")
    }

    /// Gives a command.
    pub fn command(&self, thread: Option<ThreadId>, body: CommandBody) -> (CommandId, Outcome) {
        let n = self.commands.fetch_add(1, Ordering::Relaxed) + 1;
        let mut bytes = [7; 16];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        let id = CommandId::from_bytes(bytes);
        let command = Command {
            id,
            thread: thread.unwrap_or_else(|| id.derive("thread")),
            device_seq: n,
            based_on: None,
            issued_at_ms: 0,
            body,
        };
        let principal = Principal {
            device: DeviceId::from_bytes([1; 16]),
            scopes: Scope::ALL.to_vec(),
        };
        (
            id,
            self.runtime
                .block_on(self.ledger().command(principal, command)),
        )
    }

    /// Gives a command that is taken.
    pub fn accepted(&self, thread: ThreadId, body: CommandBody) -> CommandId {
        let (id, outcome) = self.command(Some(thread), body);
        assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
        id
    }

    /// Makes a thread.
    pub fn new_thread(&self, mode: Mode) -> ThreadId {
        let (id, outcome) = self.command(
            None,
            CommandBody::ThreadCreate {
                title: "from here".to_owned(),
                workspace: self.workspace.clone(),
                selection: Selection {
                    agent: self.agent.clone(),
                    model: None,
                    effort: None,
                    mode,
                    sandbox: None,
                },
            },
        );
        assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
        id.derive("thread")
    }

    /// Sends a message; gives the run that it starts, unless it is put into one that goes on.
    pub fn say(&self, thread: ThreadId, text: &str, dispatch: DispatchMode) -> RunId {
        let body = CommandBody::MessageSend {
            text: text.to_owned(),
            attachments: Vec::new(),
            dispatch,
            accept_stop: Vec::new(),
        };
        self.accepted(thread, body).derive("run")
    }

    /// A thread's state and rows.
    pub fn read(&self, thread: ThreadId) -> (ThreadState, Vec<Row>) {
        let read = self.ledger().read(move |reader| {
            let rows = reader.tail_rows(thread, 1 << 20)?;
            Ok((reader.snapshot(thread)?.state, rows))
        });
        self.runtime.block_on(read).expect("the ledger can be read")
    }

    /// Waits until a thread stands so.
    pub fn wait<T>(
        &self,
        what: &str,
        thread: ThreadId,
        look: impl Fn(&ThreadState, &[Row]) -> Option<T>,
    ) -> T {
        until(what, || {
            let (state, rows) = self.read(thread);
            look(&state, &rows).ok_or_else(|| format!("{state:#?} {rows:#?}"))
        })
    }

    /// The attempt that goes on in a run, once the agent has taken it up.
    pub fn running(&self, thread: ThreadId, run: RunId) -> AttemptId {
        self.wait("the turn", thread, |state, _| {
            let active = state.active.as_ref().filter(|active| active.id == run)?;
            let attempt = active.attempt.as_ref()?;
            attempt.turn.map(|_| attempt.id)
        })
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.close();
    }
}
