//! The real `pilothouse host`, as a process with a state directory of its own.

use crate::{ledger_dir::LedgerDir, process::Process};
use pilothouse_domain::{CommandId, Digest, HostId, Outcome, ThreadId, TurnItem};
use pilothouse_store::{LedgerReader, StoreError};
use pilothouse_wire::offer::PairingOffer;
use serde_json::Value;
use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::atomic::{AtomicU32, Ordering},
};

/// A host: its state stays when its process is killed.
pub struct Host {
    program: PathBuf,
    dir: PathBuf,
    state: PathBuf,
    config: PathBuf,
    home: PathBuf,
    process: Option<Process>,
    address: SocketAddr,
    id: HostId,
}

/// A free port below those that Linux gives to connections by itself (32,768 and up): a host has its port again after a restart, and
/// nobody is given it meanwhile.
fn own_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(101);
    std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed))
        .take(1000)
        .map(|next| 10_000 + (first.wrapping_add(next) % 20_000) as u16)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

impl Host {
    /// Starts one on a free port.
    pub fn start(program: PathBuf, dir: &Path, state: PathBuf, config: PathBuf) -> Self {
        let home = dir.join("home");
        std::fs::create_dir_all(&home).expect("a home for the host");
        let mut host = Self {
            program,
            dir: dir.to_owned(),
            state,
            config,
            home,
            process: None,
            address: SocketAddr::from(([127, 0, 0, 1], own_port())),
            id: HostId::default(),
        };
        host.restart();
        host
    }

    /// A command of the host's own `pilothouse` program, in its environment.
    pub fn command(&self) -> Command {
        self.command_of(&self.program)
    }

    /// A command of a program, in the host's environment.
    pub fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("HOME", &self.home)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME");
        command
    }

    /// The daemon, not yet started.
    pub fn daemon(&self) -> Command {
        self.daemon_of(&self.program)
    }

    /// The daemon of a program, not yet started.
    pub fn daemon_of(&self, program: &Path) -> Command {
        let mut command = self.command_of(program);
        command
            .arg("host")
            .arg("--json")
            .arg("--state")
            .arg(&self.state)
            .arg("--config")
            .arg(&self.config);
        command
            .arg("--listen")
            .arg(self.address.to_string())
            .current_dir(&self.home);
        command
    }

    /// Takes another program for what is started from now on, e.g. another version.
    pub fn use_program(&mut self, program: PathBuf) {
        self.program = program;
    }

    /// Starts it again, on the port that it had.
    ///
    /// # Panics
    /// It runs already, or it does not start.
    pub fn restart(&mut self) {
        assert!(self.process.is_none(), "the host runs already");
        let process = Process::start("host", self.daemon(), &self.dir);
        let ready = process.json("where it listens", |line| line["listening"].is_string());
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        self.address = text("listening").parse().expect("an address");
        self.id = text("host").parse().expect("a host id");
        self.process = Some(process);
    }

    /// SIGKILL, as a crash would end it.
    pub fn kill_9(&mut self) {
        self.process.take().expect("the host runs").kill_9();
    }

    /// Asks it to end, and waits.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.take().expect("the host runs").stop()
    }

    /// Another host in its place, with the same configuration and the same agents, that knows nothing of what was.
    pub fn begin_anew(&mut self) {
        self.stop();
        std::fs::remove_dir_all(&self.state).expect("its state goes");
        self.restart();
    }

    /// The running daemon.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("the host runs")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its id.
    pub fn id(&self) -> HostId {
        self.id
    }

    /// Its state directory.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Its configuration file.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// A pairing code, made as its person makes it; with another address in place of the host's, if one is given.
    pub fn pairing_code(&self, through: Option<SocketAddr>) -> String {
        let mut command = self.command();
        command
            .arg("pair")
            .arg("--json")
            .arg("--no-wait")
            .arg("--state")
            .arg(&self.state);
        let output = command.output().expect("`pilothouse pair` can be run");
        let said = String::from_utf8_lossy(&output.stdout);
        let code = said
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find_map(|line| line["code"].as_str().map(str::to_owned));
        let Some(code) = code else {
            panic!(
                "`pilothouse pair` gave no code: {said}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        let Some(through) = through else { return code };
        let mut offer = PairingOffer::parse(&code).expect("the host writes codes that can be read");
        offer.addresses = vec![through.to_string()];
        offer.to_text().expect("an offer with one address")
    }

    /// The agent processes that serve it now.
    pub fn agents(&self) -> Vec<u32> {
        let dirs = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = dirs.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let own = self.process().id();
        pids.filter(|pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| {
                line.strip_prefix("PPid:")
                    .is_some_and(|parent| parent.trim() == own.to_string())
            })
        })
        .collect()
    }

    /// The processes that it has recorded as such that outlive it.
    pub fn outliving(&self) -> Vec<u32> {
        let pid = |record: &Value| record["pid"].as_u64().and_then(|pid| pid.try_into().ok());
        self.detached().iter().filter_map(pid).collect()
    }

    /// Where the one agent that outlives it listens.
    ///
    /// # Panics
    /// There is none, or more than one.
    pub fn outliving_endpoint(&self) -> String {
        let records = self.detached();
        assert_eq!(records.len(), 1, "{records:?}");
        records[0]["endpoint"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Its records of agents that outlive it.
    pub fn detached(&self) -> Vec<Value> {
        let files = std::fs::read_dir(self.state.join("pids"));
        let files = files.into_iter().flatten().flatten();
        files
            .filter(|file| file.path().extension().is_some_and(|ext| ext == "detached"))
            .filter_map(|file| serde_json::from_slice(&std::fs::read(file.path()).ok()?).ok())
            .collect()
    }

    /// Its ledger's directory.
    pub fn ledger_dir(&self) -> LedgerDir {
        LedgerDir::new(&self.state)
    }

    /// Reads the host's ledger, beside the running daemon.
    ///
    /// # Panics
    /// It cannot be read.
    pub fn ledger<T>(&self, work: impl FnOnce(&LedgerReader) -> Result<T, StoreError>) -> T {
        self.ledger_dir().read(work)
    }

    /// What the ledger keeps as a command's outcome.
    pub fn outcome(&self, command: CommandId) -> Option<Outcome> {
        self.ledger(|ledger| ledger.outcome(command))
    }

    /// A thread's digest by its log alone.
    pub fn digest(&self, thread: ThreadId) -> Digest {
        self.ledger_dir().digest(thread)
    }

    /// As [`LedgerDir::unasked`].
    pub fn unasked(&self) -> Vec<(ThreadId, TurnItem)> {
        self.ledger_dir().unasked()
    }

    /// As [`LedgerDir::verify`].
    ///
    /// # Panics
    /// Something differs, or something is taken for an anomaly.
    pub fn verify(&self) {
        self.ledger_dir().verify();
    }

    /// As [`LedgerDir::verify_logs`].
    ///
    /// # Panics
    /// Something differs.
    pub fn verify_logs(&self) {
        self.ledger_dir().verify_logs();
    }
}
