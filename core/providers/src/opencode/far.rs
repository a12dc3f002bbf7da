//! An opencode elsewhere, which somebody else started (`opencode serve` with `OPENCODE_SERVER_PASSWORD`).
//!
//! One connection for each directory that is worked in: an opencode serves several. What goes on there goes on when a connection
//! ends, and it is connected with again. There is no floor of ours under its agents' rules: what then holds for subagents says
//! [`super::rules::without_floor`], and each conversation says it to its person.

use super::{OpencodeAdapter, adapter::Deadlines};
use crate::{
    contract::{AgentRuntime, EventSender, Launch, ProviderAdapter, StartError},
    endpoint::Endpoint,
    far::{Far, Reach},
    process::agent::{AgentProcess, FarEnd},
};
use futures_util::future::BoxFuture;
use std::{sync::Arc, time::Duration};

/// An opencode that is reached over a network. Of a [`Launch`] only its agent, its incarnation and its directory are used.
pub type FarOpencodeAdapter = Far<FarOpencode>;

/// How it is reached.
#[derive(Clone)]
pub struct FarOpencode {
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
        Far(FarOpencode {
            endpoint,
            password,
            opencode: OpencodeAdapter::with_deadlines(deadlines),
        })
    }
}

impl FarOpencode {
    async fn converse(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        let process = AgentProcess::Far(FarEnd::new(&self.password));
        let connector = Box::new(self.endpoint.clone());
        let connected =
            self.opencode
                .connect(launch, (process, true), connector, &self.password, events);
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

impl std::fmt::Debug for FarOpencode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FarOpencode({:?})", self.endpoint)
    }
}

impl Reach for FarOpencode {
    fn family(&self) -> &dyn ProviderAdapter {
        &self.opencode
    }

    fn connect(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.converse(launch, events))
    }
}
