//! Starts codex, or takes up one that an earlier host left running.

use super::{codec::Codec, driver::CodexRuntime, profile, socket};
use crate::{
    contract::{AgentRuntime, EventSender, Launch, ProcessSharing, ProviderAdapter, StartError},
    process::{
        BoundProcess, Life, StopTimers,
        agent::{AgentProcess, Channel},
    },
    rpc::session::Session,
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    Capabilities, Mode,
    policy::{Contract, Sandbox},
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// How long codex may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For its handshake. The first start in a new home took 1.5 s.
    pub handshake: Duration,
    /// For an ordinary call.
    pub call: Duration,
    /// For confirming an answer, before it counts as written; elsewhere, before it counts as one that may not have arrived.
    pub confirm: Duration,
    /// For taking an interrupt, before a signal is the next step.
    pub interrupt: Duration,
    /// For ending.
    pub stop: StopTimers,
    /// For a sign of life while it works.
    pub life: Life,
    /// For asking again what waits for a person, once it was taken up again (DETAILS section 3).
    pub ask_again: Duration,
    /// Between signs of life that are asked for on a connection over a network; one on which none comes for two and a half of
    /// them is dead.
    pub ping: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(20),
            call: Duration::from_secs(60),
            confirm: Duration::from_secs(10),
            interrupt: Duration::from_secs(10),
            stop: StopTimers::default(),
            life: Life::default(),
            ask_again: Duration::from_secs(10),
            ping: Duration::from_secs(20),
        }
    }
}

/// The codex family.
#[derive(Debug, Clone, Copy, Default)]
pub struct CodexAdapter {
    deadlines: Deadlines,
}

impl CodexAdapter {
    /// With the usual deadlines.
    pub fn new() -> Self {
        Self::default()
    }

    /// With other deadlines.
    pub fn with_deadlines(deadlines: Deadlines) -> Self {
        Self { deadlines }
    }

    async fn start_session(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        match socket::arguments(&launch.command) {
            Some(arguments) => {
                let started = socket::start(&launch, arguments, self.deadlines).await?;
                self.converse(launch, started, false, events).await
            }
            None => {
                let started = BoundProcess::start(&launch, &[]).await?;
                self.converse(launch, started, false, events).await
            }
        }
    }

    /// Takes the handshake of a process that was started, or that was at work before (`goes_on`).
    pub(super) async fn converse(
        &self,
        launch: Launch,
        started: (impl Into<AgentProcess>, impl Into<Channel>),
        goes_on: bool,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        let (ready, first) = oneshot::channel();
        let (process, channel) = started;
        let process: AgentProcess = process.into();
        let codec = match &process {
            AgentProcess::Far(_) => Codec::shared(),
            AgentProcess::Bound(_) | AgentProcess::Detached(_) => Codec::new(),
        };
        let session = Session::start(
            (process, channel),
            codec,
            profile::capabilities(),
            launch.incarnation,
            (self.deadlines.stop, self.deadlines.life),
            events,
            first,
        );
        // From here on dropping it, also by cancelling this start, kills the process.
        let runtime = CodexRuntime::new(session, launch.mcp.clone(), goes_on, self.deadlines);
        match runtime.handshake().await {
            Ok(first_events) => {
                // If the reader is gone, the process is, and the first call will say so.
                let _ = ready.send(first_events);
                Ok(Arc::new(runtime))
            }
            Err(error) => {
                drop(ready);
                runtime.session.stop().await;
                Err(runtime.handshake_error(&launch.agent, &error).await)
            }
        }
    }

    async fn attach_session(
        &self,
        launch: Launch,
        record: PathBuf,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        let found = socket::attach(&launch, &record, self.deadlines).await?;
        self.converse(launch, found, true, events).await
    }
}

impl ProviderAdapter for CodexAdapter {
    fn family(&self) -> &'static str {
        "codex"
    }

    fn profile(&self) -> Capabilities {
        profile::capabilities()
    }

    fn modes(&self) -> Vec<Mode> {
        Mode::ALL.to_vec()
    }

    fn contract(&self, _: &BTreeMap<String, String>, _: &BTreeMap<Mode, String>) -> Contract {
        profile::CONTRACT
    }

    fn takes_mcp(&self, _: &[String], _: Option<Sandbox>) -> Result<(), &'static str> {
        Ok(())
    }

    fn sharing(&self) -> ProcessSharing {
        ProcessSharing::PerAgent
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.start_session(launch, events))
    }

    fn outlives_host(&self) -> bool {
        true
    }

    fn attach(
        &self,
        launch: Launch,
        record: PathBuf,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.attach_session(launch, record, events))
    }
}
