//! The daemon: state, ledger, listener and control socket put together, and taken apart again in order.

use crate::{
    addresses, agents,
    config::{Config, ConfigError},
    control, doctor,
    doctor::Examiner,
    server::{self, Host},
    state::{StateDir, StateError, StatePath, default_config_file, home, host_id},
};
use pilothouse_domain::{HostId, Policy};
use pilothouse_ledger::{Clock, IDLE_LOOK, Ledger, LedgerConfig, LedgerError, SystemClock};
use pilothouse_serve::Patience;
use pilothouse_wire::{
    identity::{IdentityError, SpkiHash},
    message::ByeReason,
    websocket::{Acceptor, DEFAULT_PORT, Established},
};
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle, time::timeout};

/// Connections that wait to be served.
const ACCEPTED: usize = 32;
/// Time for connections to take their leave when the daemon stops.
const FAREWELLS: Duration = Duration::from_secs(2);
/// Time for agents to be stopped and the ledger to be closed.
const CLOSING: Duration = Duration::from_secs(15);

/// How a daemon is started.
#[derive(Clone)]
pub struct DaemonOptions {
    /// The state directory; the usual one if `None`.
    pub state: Option<PathBuf>,
    /// The configuration; the usual file, if there is one, if `None`.
    pub config: Option<PathBuf>,
    /// Where to listen, whatever the configuration says.
    pub listen: Option<SocketAddr>,
    /// The port if nobody chose where to listen.
    pub port: u16,
    /// The directory offered as workspace if none is configured.
    pub started_in: PathBuf,
    /// What agents are started through: this program again, which then becomes the agent.
    pub wrapper: Vec<String>,
    /// How long a device may take for one frame before it is given up.
    pub stall: Duration,
    /// The host's clock.
    pub clock: Arc<dyn Clock>,
    /// Whether the ledger was restored from a backup and starts a new epoch.
    pub new_epoch: bool,
}

impl DaemonOptions {
    /// The usual ones of the `pilothouse` program, started in the current directory.
    pub fn usual() -> Self {
        Self {
            state: None,
            config: None,
            listen: None,
            port: DEFAULT_PORT,
            started_in: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            wrapper: wrapper(),
            stall: Duration::from_secs(30),
            clock: Arc::new(SystemClock),
            new_epoch: false,
        }
    }
}

/// What stands before an agent's command: this program, which becomes the agent.
pub(crate) fn wrapper() -> Vec<String> {
    // Stays right when the program's file is replaced by an update while the daemon runs.
    [
        "/proc/self/exe",
        "agent-exec",
        "--parent",
        &std::process::id().to_string(),
        "--",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The state directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// TLS.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The port.
    #[error(
        "cannot listen on {address}: {source}; choose another with --listen, or stop the program that has it"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The control socket.
    #[error(
        "cannot make the control socket {path}: {source}; check the state directory, or use another --state"
    )]
    Control {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Reads the named configuration, or the usual one if it is there.
///
/// # Errors
/// [`ConfigError`]; that the usual file is missing is none.
pub(crate) fn read_config(named: Option<&std::path::Path>) -> Result<Config, ConfigError> {
    let file = match named {
        Some(file) => Some(file.to_owned()),
        None => default_config_file().filter(|file| file.exists()),
    };
    file.map_or_else(
        || Ok(Config::default()),
        |file| Config::read(&file, home().as_deref()),
    )
}

/// A running daemon.
pub struct Daemon {
    running: Arc<Running>,
    serving: JoinHandle<()>,
    control: JoinHandle<()>,
}

/// What the control socket works on.
pub(crate) struct Running {
    pub(crate) host: Arc<Host>,
    pub(crate) config: Config,
    pub(crate) state: StateDir,
    pub(crate) fingerprint: SpkiHash,
    listener: Listener,
}

impl Daemon {
    /// Starts a daemon on the current Tokio runtime.
    ///
    /// # Errors
    /// [`DaemonError`]; nothing is left running then.
    pub async fn start(options: DaemonOptions) -> Result<Self, DaemonError> {
        let config = read_config(options.config.as_deref())?;
        let state = StateDir::open(StatePath::choose(options.state.as_deref())?)?;
        let identity = state.identity()?;
        let notes = state.path().notes();
        let (agents, places) = agents::choose(&config, &notes);
        state.change_notes(|notes| notes.agents.extend(places))?;
        let workspaces = doctor::workspaces(&config.workspaces, &options.started_in)
            .unwrap_or_else(|problem| {
                tracing::warn!("{problem}");
                Vec::new()
            });
        if agents.is_empty() {
            tracing::warn!("no agent is installed or configured; run `pilothouse doctor`");
        }
        let policy = Policy {
            version: 1,
            agents: agents
                .iter()
                .map(|agent| (agent.name.clone(), agent.policy()))
                .collect(),
            workspaces: workspaces.iter().map(|(id, _)| id.clone()).collect(),
            default_mode: config.default_mode,
        };
        // Before the ledger, which kills and reconciles: a daemon that cannot listen must not have touched anything.
        let (sender, connections) = mpsc::channel(ACCEPTED);
        let acceptor = Acceptor::new(
            &identity,
            addresses::allowed(&config.host.allow_hosts, &config.host.addresses),
        )?;
        let explicit = options.listen.or(config.host.listen);
        let (listener, listening) =
            Listener::open(acceptor, sender, explicit, options.port, notes.paired_once).await?;
        let ledger = open_ledger(LedgerConfig {
            dir: state.path().dir().to_owned(),
            policy,
            agents: agents
                .iter()
                .map(|agent| (agent.name.clone(), agent.spec()))
                .collect(),
            workspaces: workspaces.iter().cloned().collect(),
            wrapper: options.wrapper,
            clock: options.clock.clone(),
            new_epoch: options.new_epoch,
            idle_look: config.host.idle_look.unwrap_or(IDLE_LOOK),
        })
        .await?;
        let examiner = Examiner::new(state.path().clone(), Ok(&config), agents, workspaces);
        let name = config
            .host
            .name
            .clone()
            .unwrap_or_else(addresses::machine_name);
        let host = Host::new(
            host_id(&identity),
            name,
            ledger,
            options.clock,
            examiner,
            Patience {
                stall: options.stall,
            },
            (listening, explicit.is_none() && !notes.paired_once),
        );
        let host = Arc::new(host);
        let running = Arc::new(Running {
            host: host.clone(),
            config,
            state,
            fingerprint: identity.spki_sha256(),
            listener,
        });
        let path = running.state.path().control_socket();
        let control = match control::listen(running.clone()) {
            Ok(control) => control,
            Err(source) => {
                running.listener.close().await;
                host.served.ledger.shutdown().await;
                return Err(DaemonError::Control { path, source });
            }
        };
        let serving = tokio::spawn(server::serve(host, connections));
        Ok(Self {
            running,
            serving,
            control,
        })
    }

    /// Where devices connect.
    pub fn address(&self) -> SocketAddr {
        self.running.host.listening().0
    }

    /// The host's id.
    pub fn host_id(&self) -> HostId {
        self.running.host.served.id
    }

    /// What the host calls itself.
    pub fn name(&self) -> &str {
        &self.running.host.served.name
    }

    /// What devices pin.
    pub fn fingerprint(&self) -> SpkiHash {
        self.running.fingerprint
    }

    /// Waits until the ledger has ended by itself, which only a fault can make it do: the daemon is of no use then.
    pub async fn failed(&self) {
        self.running.host.served.ledger.closed().await;
    }

    /// Tells devices, stops agents, closes the ledger.
    pub async fn stop(self) {
        self.control.abort();
        control::remove(&self.running);
        self.running.listener.close().await;
        self.running
            .host
            .served
            .sessions
            .end_all(&ByeReason::Shutdown);
        let mut serving = self.serving;
        if timeout(FAREWELLS, &mut serving).await.is_err() {
            serving.abort();
        }
        if timeout(CLOSING, self.running.host.served.ledger.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("agents did not stop in time");
        }
    }
}

/// Opening reads, migrates and reconciles: not on a runtime thread.
async fn open_ledger(config: LedgerConfig) -> Result<Ledger, DaemonError> {
    let runtime = tokio::runtime::Handle::current();
    let opened = tokio::task::spawn_blocking(move || Ledger::open(config, runtime)).await;
    opened
        .map_err(|_| LedgerError::Closed)?
        .map_err(DaemonError::Ledger)
}

/// The port: on loopback until the first pairing, then on all interfaces, unless a person chose.
struct Listener {
    acceptor: Acceptor,
    task: tokio::sync::Mutex<Option<(mpsc::Sender<Established>, JoinHandle<()>)>>,
}

impl Listener {
    async fn open(
        acceptor: Acceptor,
        connections: mpsc::Sender<Established>,
        explicit: Option<SocketAddr>,
        port: u16,
        paired_once: bool,
    ) -> Result<(Self, SocketAddr), DaemonError> {
        let listener = match explicit {
            Some(address) => bind(address).await?,
            None if paired_once => bind_all(port).await?,
            None => bind((Ipv4Addr::LOCALHOST, port).into()).await?,
        };
        let address = local_address(&listener)?;
        let task = tokio::spawn(acceptor.clone().serve(listener, connections.clone()));
        Ok((
            Self {
                acceptor,
                task: tokio::sync::Mutex::new(Some((connections, task))),
            },
            address,
        ))
    }

    /// Moves from loopback to all interfaces, on the same port. Open connections stay.
    async fn open_to_all(&self, port: u16) -> Result<SocketAddr, DaemonError> {
        let mut task = self.task.lock().await;
        let Some((connections, serving)) = task.take() else {
            return Err(DaemonError::Ledger(LedgerError::Closed));
        };
        serving.abort();
        let _ = serving.await;
        let (listener, result) = match bind_all(port).await {
            Ok(listener) => (listener, Ok(())),
            // Better on loopback than nowhere.
            Err(error) => (bind((Ipv4Addr::LOCALHOST, port).into()).await?, Err(error)),
        };
        let address = local_address(&listener)?;
        let serving = tokio::spawn(self.acceptor.clone().serve(listener, connections.clone()));
        *task = Some((connections, serving));
        result.map(|()| address)
    }

    async fn close(&self) {
        if let Some((_, serving)) = self.task.lock().await.take() {
            serving.abort();
            let _ = serving.await;
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, DaemonError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| DaemonError::Listen { address, source })
}

/// Both protocols where the machine has both.
async fn bind_all(port: u16) -> Result<TcpListener, DaemonError> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => bind((Ipv4Addr::UNSPECIFIED, port).into()).await,
    }
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, DaemonError> {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    listener.local_addr().map_err(|source| DaemonError::Listen {
        address: nowhere,
        source,
    })
}

impl Running {
    /// `pair` is run: from now on other machines are let in, unless a person chose where to listen.
    pub(crate) async fn open_for_pairing(&self) -> Result<SocketAddr, DaemonError> {
        let (address, opens) = self.host.listening();
        if !opens {
            return Ok(address);
        }
        let address = self.listener.open_to_all(address.port()).await?;
        self.state.change_notes(|notes| notes.paired_once = true)?;
        self.host.listens_at((address, false));
        Ok(address)
    }

    /// Where a device can find this host, best first.
    pub(crate) fn addresses(&self, listening: SocketAddr) -> Vec<String> {
        addresses::for_pairing(&self.config.host.addresses, listening)
    }
}
