//! An agent of a far ledger as an agent like any other.
//!
//! **Owns** the translation of the adapter contract into commands on a far ledger's threads, and of the far log back into
//! [`ProviderEvent`]s. **Must not know** how the far ledger is reached: whoever holds a connection to it implements
//! [`FarLedger`]. A conversation here is a thread there, a turn here is a run there; their ids are the native ids. What is
//! reported as offered is what the far agent offers.
//!
//! [`ProviderEvent`]: pilothouse_domain::ProviderEvent

mod following;
mod mirror;
mod operations;
mod runtime;

use crate::contract::{
    AgentRuntime, EventSender, Launch, ProcessSharing, ProviderAdapter, StartError,
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    AgentName, BlobHash, Capabilities, CapabilityFlag, CapabilityValue, CommandBody, CommandId,
    Entry, Mode, Outcome, Row, ThreadId, ThreadState, WorkspaceId,
    capability::{CapabilitySet, Fact, Source},
    policy::AgentPolicy,
    row::{LiveText, OpenItem},
};
use std::{path::PathBuf, sync::Arc, time::SystemTime};
use tokio::sync::mpsc;

/// A ledger elsewhere, as far as an adapter needs it. A lost connection is made again by whoever implements this; here it is
/// only slow.
pub trait FarLedger: Send + Sync + 'static {
    /// Waits until it is reached, for as long as is sensible.
    fn reached(&self) -> BoxFuture<'_, Result<(), FarError>>;
    /// Gives it a command and waits for its outcome. After a lost connection the same command is given again under its id, so
    /// that it is taken once.
    fn command(
        &self,
        id: CommandId,
        thread: ThreadId,
        body: CommandBody,
    ) -> BoxFuture<'_, Result<Outcome, FarError>>;
    /// Follows a thread from now on: [`FarTold::Began`] comes first, and again whenever entries are missing. Without a
    /// listener it is followed no longer.
    fn follow(&self, thread: ThreadId, told: mpsc::Sender<FarTold>);
    /// A thread's state and its newest rows, about `bytes` bytes of them.
    fn look(
        &self,
        thread: ThreadId,
        bytes: u32,
    ) -> BoxFuture<'_, Result<(ThreadState, Vec<Row>), FarError>>;
    /// A stored text, whole, in UTF-8.
    fn body(&self, hash: BlobHash) -> BoxFuture<'_, Result<Vec<u8>, FarError>>;
    /// Brings it a file, so that a message can name it.
    fn keep(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<BlobHash, FarError>>;
}

/// What a followed thread tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FarTold {
    /// It stands so; what was known before may be old.
    Began {
        /// Its state.
        state: Box<ThreadState>,
        /// Its newest rows.
        rows: Vec<Row>,
    },
    /// It went on.
    Entries {
        /// By these, without gaps.
        entries: Vec<Entry>,
        /// To this state.
        state: Box<ThreadState>,
    },
    /// Texts of open items, as they stand after all that was told.
    Texts(Vec<OpenItem>),
    /// Text that streams.
    Live(LiveText),
    /// It cannot be followed any more.
    Ended(FarError),
}

/// Why a far ledger gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FarError {
    /// It is not reached; what was to be said was not said.
    #[error("the other host is not reached: {0}")]
    Unreachable(String),
    /// The connection ended for good after something may have been heard.
    #[error("the connection to the other host ended")]
    Lost,
    /// It does not have it.
    #[error("the other host does not have it: {0}")]
    NotFound(String),
}

/// One agent of a far ledger, in one of its workspaces.
#[derive(Clone)]
pub struct RemoteAdapter {
    far: Arc<dyn FarLedger>,
    agent: AgentName,
    workspace: WorkspaceId,
    policy: AgentPolicy,
    software: String,
}

impl RemoteAdapter {
    /// Drives `agent` in `workspace` there. `policy` is what the far ledger declares of that agent, `software` what the far
    /// ledger calls itself: facts of the policy are dated by it until the agent's own come.
    pub fn new(
        far: Arc<dyn FarLedger>,
        agent: AgentName,
        workspace: WorkspaceId,
        policy: AgentPolicy,
        software: impl Into<String>,
    ) -> Self {
        Self {
            far,
            agent,
            workspace,
            policy,
            software: software.into(),
        }
    }
}

/// What a far ledger declares of its agent, as facts.
fn facts(set: &CapabilitySet, version: &str) -> Capabilities {
    let observed_at = crate::rpc::date::day(SystemTime::now());
    let mut known = Capabilities {
        version: 1,
        ..Capabilities::default()
    };
    for &flag in CapabilityFlag::ALL {
        let value = set.value(flag);
        if value != CapabilityValue::Unknown {
            let fact = Fact {
                value,
                detail: None,
                source: Source::Profile,
                version: version.to_owned(),
                observed_at: observed_at.clone(),
            };
            known.learn(flag, fact);
        }
    }
    known
}

impl ProviderAdapter for RemoteAdapter {
    fn family(&self) -> &'static str {
        "remote"
    }

    fn profile(&self) -> Capabilities {
        facts(&self.policy.capabilities, &self.software)
    }

    fn modes(&self) -> Vec<Mode> {
        self.policy.modes.clone()
    }

    fn sharing(&self) -> ProcessSharing {
        ProcessSharing::PerAgent
    }

    fn runs_elsewhere(&self) -> bool {
        true
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(async move {
            self.far
                .reached()
                .await
                .map_err(|error| StartError::Handshake {
                    agent: launch.agent.clone(),
                    problem: error.to_string(),
                    stderr: String::new(),
                })?;
            let runtime = runtime::RemoteRuntime::begin(self.clone(), &launch, events).await;
            Ok(Arc::new(runtime) as Arc<dyn AgentRuntime>)
        })
    }

    fn attach(
        &self,
        launch: Launch,
        _record: PathBuf,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        self.start(launch, events)
    }
}
