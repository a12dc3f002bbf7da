//! The process behind a conversation with an agent, whichever way it lives: bound to the host, outliving it, or elsewhere.

use super::{
    BoundProcess, Exit, Pipes, Redactor, StderrRing, StopTimers, detached::DetachedProcess,
};
use crate::contract::Escalation;
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

/// An agent's process.
#[derive(Debug)]
pub(crate) enum AgentProcess {
    /// It dies with the host.
    Bound(BoundProcess),
    /// It outlives the host.
    Detached(DetachedProcess),
    /// It runs elsewhere: here there is a connection only.
    Far(FarEnd),
}

/// The near end of a connection with an agent elsewhere.
#[derive(Debug)]
pub(crate) struct FarEnd {
    gone: watch::Sender<bool>,
    said: Arc<StderrRing>,
}

impl FarEnd {
    /// Of a connection that was made with a secret, which no message may show.
    pub(crate) fn new(secret: &str) -> Self {
        let secret = ("AGENT_TOKEN".to_owned(), secret.to_owned());
        Self {
            gone: watch::Sender::new(false),
            said: Arc::new(StderrRing::new(Redactor::new([secret]))),
        }
    }

    /// The connection is of no use any more.
    fn end(&self) {
        self.said.end();
        self.gone.send_replace(true);
    }
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
    /// Its process id, which is its group's id too, while it lives on this machine.
    pub(crate) fn id(&self) -> Option<u32> {
        let id = match self {
            Self::Bound(process) => process.id(),
            Self::Detached(process) => process.id(),
            Self::Far(_) => return None,
        };
        (!self.has_exited()).then_some(id)
    }

    /// What it wrote last, beside what it says in its protocol.
    pub(crate) fn stderr(&self) -> &Arc<StderrRing> {
        match self {
            Self::Bound(process) => process.stderr(),
            Self::Detached(process) => process.output(),
            Self::Far(far) => &far.said,
        }
    }

    /// Whether it runs elsewhere, started by somebody else.
    pub(crate) fn is_far(&self) -> bool {
        matches!(self, Self::Far(_))
    }

    /// Waits until it has ended, or the connection with it.
    pub(crate) async fn exited(&self) -> Exit {
        match self {
            Self::Bound(process) => process.exited().await,
            Self::Detached(process) => process.exited().await,
            Self::Far(far) => {
                // The sender is here, so this cannot fail.
                let _ = far.gone.subscribe().wait_for(|gone| *gone).await;
                Exit { status: None }
            }
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_exited(&self) -> bool {
        match self {
            Self::Bound(process) => process.has_exited(),
            Self::Detached(process) => process.has_exited(),
            Self::Far(far) => *far.gone.borrow(),
        }
    }

    /// A step of an interrupt beyond the protocol's own; `NotFound` once it has ended. The last one ends a connection with an
    /// agent elsewhere, which lives on.
    pub(crate) fn escalate(&self, step: Escalation) -> io::Result<()> {
        match self {
            Self::Bound(process) => process.escalate(step),
            Self::Detached(process) => process.escalate(step),
            Self::Far(far) if step == Escalation::Kill => {
                far.end();
                Ok(())
            }
            Self::Far(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the agent runs elsewhere: no signal reaches it",
            )),
        }
    }

    /// Ends it, its input being closed already.
    pub(crate) async fn stop(&self, timers: StopTimers) {
        match self {
            Self::Bound(process) => process.stop(timers).await,
            Self::Detached(process) => process.stop(timers).await,
            Self::Far(far) => far.end(),
        }
    }
}
