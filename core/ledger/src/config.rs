//! What a ledger is opened with, and what can go wrong with it.

use pilothouse_domain::{
    AgentName, ContentHash, DeviceId, Policy, Scope, WorkspaceId, policy::Contract,
};
use pilothouse_providers::{contract::ProviderAdapter, mcp::McpServers};
use pilothouse_store::StoreError;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

/// What a ledger is opened with.
pub struct LedgerConfig {
    /// Directory of its database and of the agents' pid files.
    pub dir: PathBuf,
    /// What the host allows and offers.
    pub policy: Policy,
    /// The agents it can start.
    pub agents: BTreeMap<AgentName, AgentSpec>,
    /// Where its workspaces are.
    pub workspaces: BTreeMap<WorkspaceId, PathBuf>,
    /// See `Launch::wrapper` of the adapter contract.
    pub wrapper: Vec<String>,
    /// The host's clock.
    pub clock: Arc<dyn Clock>,
    /// Whether to start a new epoch, as a person asks for after a backup was restored: every device then begins anew and
    /// asks its person about commands whose outcome it cannot know.
    pub new_epoch: bool,
    /// How often an agent's process is looked at for whether it has anything to do. It is stopped at the second look in a row
    /// that finds nothing, so after one to two times this.
    pub idle_look: Duration,
}

/// The usual [`LedgerConfig::idle_look`].
pub const IDLE_LOOK: Duration = Duration::from_secs(15 * 60);

/// An agent that can be started.
#[derive(Clone)]
pub struct AgentSpec {
    /// Its protocol family.
    pub adapter: Arc<dyn ProviderAdapter>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment added to the host's own.
    pub env: BTreeMap<String, String>,
    /// How modes are said to it, where the person configured that.
    pub modes: BTreeMap<pilothouse_domain::Mode, String>,
    /// Servers of tools that it is given beside its own.
    pub mcp: McpServers,
    /// Working directory of its process; the workspace if `None`.
    pub cwd: Option<PathBuf>,
}

impl AgentSpec {
    /// Before what it has to ask, as it is configured.
    pub(crate) fn contract(&self) -> Contract {
        self.adapter.contract(&self.env, &self.modes)
    }
}

/// The host's wall clock, a parameter so that tests can set it.
pub trait Clock: Send + Sync + 'static {
    /// Unix time, ms.
    fn now_ms(&self) -> u64;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_millis() as u64)
    }
}

/// Who sends a command, as the connection established it. Never what the device claims of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The device.
    pub device: DeviceId,
    /// What it was granted.
    pub scopes: Vec<Scope>,
}

/// A device to be enrolled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDevice {
    /// Its id, given by the host.
    pub device: DeviceId,
    /// Its name, as it gave it.
    pub name: String,
    /// SHA-256 of its public key.
    pub spki_sha256: ContentHash,
    /// What it is granted.
    pub scopes: Vec<Scope>,
}

/// Why a ledger cannot be opened or asked.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer thread could not be started.
    #[error("cannot start the ledger's writer thread: {source}; the system may be out of threads")]
    Thread {
        /// What the system says.
        source: std::io::Error,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {problem}")]
    Random {
        /// What it says.
        problem: String,
    },
    /// Nothing can be written at the moment.
    #[error("the ledger cannot write: {problem}")]
    Unwritable {
        /// What the database says.
        problem: String,
    },
    /// The ledger was shut down.
    #[error("the ledger is closed")]
    Closed,
}
