//! The process behind a conversation with an agent, whichever way it lives: bound to the host, or outliving it.

use super::{BoundProcess, Exit, Pipes, StderrRing, StopTimers, detached::DetachedProcess};
use crate::contract::Escalation;
use std::{io, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};

/// An agent's process.
#[derive(Debug)]
pub(crate) enum AgentProcess {
    /// It dies with the host.
    Bound(BoundProcess),
    /// It outlives the host.
    Detached(DetachedProcess),
}

/// What is written to an agent and read from it.
pub(crate) struct Channel {
    /// To the agent; dropping it tells it that no more comes.
    pub(crate) input: Box<dyn AsyncWrite + Send + Unpin>,
    /// From the agent.
    pub(crate) output: Box<dyn AsyncRead + Send + Unpin>,
}

impl From<BoundProcess> for AgentProcess {
    fn from(process: BoundProcess) -> Self {
        Self::Bound(process)
    }
}

impl From<DetachedProcess> for AgentProcess {
    fn from(process: DetachedProcess) -> Self {
        Self::Detached(process)
    }
}

impl From<Pipes> for Channel {
    fn from(pipes: Pipes) -> Self {
        Self {
            input: Box::new(pipes.stdin),
            output: Box::new(pipes.stdout),
        }
    }
}

impl AgentProcess {
    /// Its process id, which is its group's id too.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Bound(process) => process.id(),
            Self::Detached(process) => process.id(),
        }
    }

    /// What it wrote last, beside what it says in its protocol.
    pub(crate) fn stderr(&self) -> &Arc<StderrRing> {
        match self {
            Self::Bound(process) => process.stderr(),
            Self::Detached(process) => process.output(),
        }
    }

    /// Waits until it has ended.
    pub(crate) async fn exited(&self) -> Exit {
        match self {
            Self::Bound(process) => process.exited().await,
            Self::Detached(process) => process.exited().await,
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_exited(&self) -> bool {
        match self {
            Self::Bound(process) => process.has_exited(),
            Self::Detached(process) => process.has_exited(),
        }
    }

    /// A step of an interrupt beyond the protocol's own; `NotFound` once it has ended.
    pub(crate) fn escalate(&self, step: Escalation) -> io::Result<()> {
        match self {
            Self::Bound(process) => process.escalate(step),
            Self::Detached(process) => process.escalate(step),
        }
    }

    /// Ends it, its input being closed already.
    pub(crate) async fn stop(&self, timers: StopTimers) {
        match self {
            Self::Bound(process) => process.stop(timers).await,
            Self::Detached(process) => process.stop(timers).await,
        }
    }
}
