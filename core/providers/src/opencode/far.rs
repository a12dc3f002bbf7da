//! An opencode elsewhere, which somebody else started (`opencode serve` with `OPENCODE_SERVER_PASSWORD`).
//!
//! One connection for each directory that is worked in: an opencode serves several. What goes on there goes on when a connection
//! ends, and it is connected with again. There is no floor of ours under its agents' rules: what then holds for subagents says
//! [`super::rules::without_floor`], and each conversation says it to its person.

use super::{OpencodeAdapter, adapter::Deadlines};
use crate::{
    contract::{AgentRuntime, EventSender, Launch, ProcessSharing, ProviderAdapter, StartError},
    endpoint::Endpoint,
    process::agent::{AgentProcess, FarEnd},
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{Capabilities, Mode};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// An opencode that is reached over a network. Of a [`Launch`] only its agent, its incarnation and its directory are used.
#[derive(Clone)]
pub struct FarOpencodeAdapter {
    endpoint: Endpoint,
    password: String,
    opencode: OpencodeAdapter,
}

impl FarOpencodeAdapter {
    /// The opencode that listens at an address and takes a password for its user `opencode`.
    pub fn new(endpoint: Endpoint, password: String) -> Self {
        Self::with_deadlines(
            endpoint,
            password,
            // It listens already, and whoever waits for it is told soon that it cannot be reached.
            Deadlines {
                handshake: Duration::from_secs(15),
                first: Duration::from_secs(5),
                reconnect: Duration::from_secs(5),
                ..Deadlines::default()
            },
        )
    }

    /// With other deadlines.
    pub fn with_deadlines(endpoint: Endpoint, password: String, deadlines: Deadlines) -> Self {
        Self {
            endpoint,
            password,
            opencode: OpencodeAdapter::with_deadlines(deadlines),
        }
    }

    async fn connect(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        let process = AgentProcess::Far(FarEnd::new(&self.password));
        let connector = Box::new(self.endpoint.clone());
        let connected = self
            .opencode
            .connect(launch, process, connector, &self.password, events);
        connected.await.map_err(|error| match error {
            StartError::Handshake {
                agent,
                problem,
                stderr,
            } => StartError::Handshake {
                agent,
                problem: format!("opencode at {}: {problem}", self.endpoint.authority()),
                stderr,
            },
            error => error,
        })
    }
}

impl std::fmt::Debug for FarOpencodeAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FarOpencodeAdapter({:?})", self.endpoint)
    }
}

impl ProviderAdapter for FarOpencodeAdapter {
    fn family(&self) -> &'static str {
        self.opencode.family()
    }

    fn profile(&self) -> Capabilities {
        self.opencode.profile()
    }

    fn modes(&self) -> Vec<Mode> {
        self.opencode.modes()
    }

    fn sharing(&self) -> ProcessSharing {
        self.opencode.sharing()
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.connect(launch, events))
    }

    fn runs_elsewhere(&self) -> bool {
        true
    }

    /// There is no record of an opencode elsewhere: it is connected with anew.
    fn attach(
        &self,
        launch: Launch,
        _record: PathBuf,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.connect(launch, events))
    }
}
