//! Agents that run elsewhere: what they are is their family's to say, and only how they are reached is their own.

use crate::contract::{
    AgentRuntime, EventSender, Launch, ProcessSharing, ProviderAdapter, StartError,
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{Capabilities, Mode, policy::Contract};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// How an agent elsewhere is reached.
pub trait Reach: Send + Sync + 'static {
    /// What its family says of agents of this machine.
    fn family(&self) -> &dyn ProviderAdapter;
    /// Before what it has to ask; by itself it is held to nothing.
    fn contract(&self, env: &BTreeMap<String, String>, modes: &BTreeMap<Mode, String>) -> Contract {
        let _ = (env, modes);
        Contract::default()
    }
    /// Connects with it. Of a [`Launch`] only its agent, its incarnation and its directory are used.
    fn connect(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>>;
}

/// The adapter of an agent that is reached over a network.
#[derive(Debug, Clone)]
pub struct Far<R>(pub(crate) R);

impl<R: Reach> ProviderAdapter for Far<R> {
    fn family(&self) -> &'static str {
        self.0.family().family()
    }

    fn profile(&self) -> Capabilities {
        self.0.family().profile()
    }

    fn modes(&self) -> Vec<Mode> {
        self.0.family().modes()
    }

    fn sharing(&self) -> ProcessSharing {
        self.0.family().sharing()
    }

    fn contract(&self, env: &BTreeMap<String, String>, modes: &BTreeMap<Mode, String>) -> Contract {
        self.0.contract(env, modes)
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        self.0.connect(launch, events)
    }

    fn runs_elsewhere(&self) -> bool {
        true
    }

    /// There is no record of an agent elsewhere: it is connected with anew.
    fn attach(
        &self,
        launch: Launch,
        _record: PathBuf,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        self.0.connect(launch, events)
    }
}
