//! A codex elsewhere, at the address of its WebSocket (`codex app-server --listen ws://… --ws-auth capability-token …`).
//!
//! What was at work before this connection goes on, and is taken up as after the death of a host. When the connection is lost
//! codex goes on, and it is connected with again.

use super::{CodexAdapter, Deadlines};
use crate::{
    contract::{AgentRuntime, EventSender, Launch, ProviderAdapter, StartError},
    endpoint::Endpoint,
    far::{Far, Reach},
    process::agent::{AgentProcess, FarEnd},
    rpc::websocket::{self, UpgradeError},
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{Mode, policy::Contract};
use std::{collections::BTreeMap, sync::Arc};

/// A codex that is reached over a network. Of a [`Launch`] only its agent and its incarnation are used.
pub type FarCodexAdapter = Far<FarCodex>;

/// How it is reached.
#[derive(Clone)]
pub struct FarCodex {
    endpoint: Endpoint,
    token: String,
    codex: CodexAdapter,
    deadlines: Deadlines,
}

impl FarCodexAdapter {
    /// The codex that listens at an address and takes a token; an empty one is not sent.
    pub fn new(endpoint: Endpoint, token: String) -> Self {
        Self::with_deadlines(endpoint, token, Deadlines::default())
    }

    /// With other deadlines.
    pub fn with_deadlines(endpoint: Endpoint, token: String, deadlines: Deadlines) -> Self {
        Far(FarCodex {
            endpoint,
            token,
            codex: CodexAdapter::with_deadlines(deadlines),
            deadlines,
        })
    }
}

impl FarCodex {
    async fn converse(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        let failed = |problem: String| StartError::Handshake {
            agent: launch.agent.clone(),
            problem: format!("codex at {}: {problem}", self.endpoint.authority()),
            stderr: String::new(),
        };
        let stream = self
            .endpoint
            .connect()
            .await
            .map_err(|error| failed(error.to_string()))?;
        let token = Some(self.token.as_str()).filter(|token| !token.is_empty());
        let authority = self.endpoint.authority();
        let upgraded = websocket::upgrade(stream, &authority, token, Some(self.deadlines.ping));
        let channel = tokio::time::timeout(self.deadlines.handshake, upgraded)
            .await
            .map_err(|_| failed("it does not speak".to_owned()))?
            .map_err(|error| match error {
                UpgradeError::Unauthorized => {
                    failed("it refuses the token; enter the one that it was started with".into())
                }
                error => failed(error.to_string()),
            })?;
        let process = AgentProcess::Far(FarEnd::new(&self.token));
        self.codex
            .converse(launch, (process, channel), true, events)
            .await
    }
}

impl std::fmt::Debug for FarCodex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FarCodex({:?})", self.endpoint)
    }
}

impl Reach for FarCodex {
    fn family(&self) -> &dyn ProviderAdapter {
        &self.codex
    }

    fn contract(&self, env: &BTreeMap<String, String>, modes: &BTreeMap<Mode, String>) -> Contract {
        self.codex.contract(env, modes)
    }

    fn connect(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.converse(launch, events))
    }
}
