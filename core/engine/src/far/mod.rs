//! A far host's ledger, for [`RemoteAdapter`](pilothouse_providers::remote::RemoteAdapter): a small client of the wire beside
//! the replica. It keeps nothing on disk, for the ledger that it works for does.
//!
//! It is a device of its own to that host, with a key of its own: a host holds one connection to each device.

mod client;
mod thread;

use client::{Ask, Client};
use pilothouse_domain::{
    AgentName, BlobHash, CommandBody, CommandId, Outcome, Row, ThreadId, ThreadState, WorkspaceId,
};
use pilothouse_providers::remote::{FarError, FarLedger, FarTold, RemoteAdapter};
use pilothouse_wire::{
    connect::{ConnectError, Connector},
    duplex::BoxFuture,
    link::{HostDialer, Link, LinkConfig},
    message::{BLOB_CHUNK, Base64, ByeReason, Hello, Query, QueryResult, Welcome},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot, watch};

/// How long a host is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a far host, held until it is dropped.
pub struct FarHost {
    asks: mpsc::UnboundedSender<Ask>,
    welcome: watch::Receiver<Option<Arc<Welcome>>>,
    link: Link,
}

/// Why a far host's agent cannot be driven.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FarHostError {
    /// The host is not there.
    #[error(transparent)]
    Unreachable(#[from] FarError),
    /// It has no such agent.
    #[error("{host} has no agent `{agent}`; it has: {known}")]
    UnknownAgent {
        /// The host's name.
        host: String,
        /// The agent.
        agent: AgentName,
        /// Those it has.
        known: String,
    },
}

impl FarHost {
    /// Connects, and stays connected. `connector` has the key of a device that is paired with the host, and that nothing else
    /// connects with; `addresses` are as in a pairing code.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn connect(connector: Connector, addresses: Vec<String>, device_name: &str) -> Arc<Self> {
        let software = format!("pilothouse-engine/{} far", env!("CARGO_PKG_VERSION"));
        let hello = Hello::of_this_build(device_name, software);
        let dialer = Arc::new(HostDialer::new(connector, addresses));
        let (link, events) = Link::start(LinkConfig::new(hello, dialer));
        let (asks, inbox) = mpsc::unbounded_channel();
        let (welcomed, welcome) = watch::channel(None);
        tokio::spawn(Client::new(asks.downgrade(), welcomed).run(events, inbox));
        Arc::new(Self {
            asks,
            welcome,
            link,
        })
    }

    /// What the host said last when it was reached; waits until it is, at most 30 s.
    ///
    /// # Errors
    /// [`FarError::Unreachable`].
    pub async fn welcome(&self) -> Result<Arc<Welcome>, FarError> {
        let mut seen = self.welcome.clone();
        let reached = async {
            let said = seen.wait_for(Option::is_some).await.ok()?;
            said.clone()
        };
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(Some(welcome)) => Ok(welcome),
            Ok(None) => Err(FarError::Lost),
            Err(_) => Err(FarError::Unreachable(self.problem())),
        }
    }

    /// One of its agents, in one of its workspaces, as an agent like any other.
    ///
    /// # Errors
    /// [`FarHostError`]: it is not reached, or has no such agent.
    pub async fn agent(
        self: &Arc<Self>,
        agent: AgentName,
        workspace: WorkspaceId,
    ) -> Result<RemoteAdapter, FarHostError> {
        let welcome = self.welcome().await?;
        let Some(policy) = welcome.policy.agents.get(&agent).cloned() else {
            let known: Vec<_> = welcome
                .policy
                .agents
                .keys()
                .map(AgentName::as_str)
                .collect();
            return Err(FarHostError::UnknownAgent {
                host: welcome.host_name.clone(),
                agent,
                known: known.join(", "),
            });
        };
        let far = Arc::clone(self) as Arc<dyn FarLedger>;
        let software = welcome.software.clone();
        Ok(RemoteAdapter::new(far, agent, workspace, policy, software))
    }

    fn problem(&self) -> String {
        use pilothouse_wire::link::LinkState;
        match &*self.link.state().borrow() {
            LinkState::Unreachable {
                problem: Some(problem),
                ..
            } => problem.to_string(),
            LinkState::Stopped { reason } => reason.to_string(),
            _ => ConnectError {
                failures: Vec::new(),
            }
            .to_string(),
        }
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, FarError> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(ask(reply)).map_err(|_| FarError::Lost)?;
        answer.await.map_err(|_| FarError::Lost)
    }

    async fn query(&self, query: Query) -> Result<QueryResult, FarError> {
        let asked = self.ask(|reply| Ask::Query { query, reply });
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(answer) => answer?,
            Err(_) => Err(FarError::Unreachable(self.problem())),
        }
    }
}

impl Drop for FarHost {
    fn drop(&mut self) {
        self.link.stop(ByeReason::Done);
    }
}

fn unfitting() -> FarError {
    FarError::NotFound("its answer does not fit the question".to_owned())
}

impl FarLedger for FarHost {
    fn reached(&self) -> BoxFuture<'_, Result<(), FarError>> {
        Box::pin(async { self.welcome().await.map(drop) })
    }

    fn command(
        &self,
        id: CommandId,
        thread: ThreadId,
        body: CommandBody,
    ) -> BoxFuture<'_, Result<Outcome, FarError>> {
        Box::pin(async move {
            // Never given up once it was handed over: what came of it is asked until it is known.
            let (given, handed) = oneshot::channel();
            let asked = self.ask(|reply| Ask::Command {
                id,
                thread,
                body,
                given,
                reply,
            });
            tokio::pin!(asked);
            let waited = async {
                let _ = tokio::time::timeout(PATIENCE, handed).await;
            };
            tokio::select! {
                outcome = &mut asked => return outcome?,
                () = waited => {}
            }
            if self.ask(|reply| Ask::Withdraw { id, reply }).await? {
                return Err(FarError::Unreachable(self.problem()));
            }
            asked.await?
        })
    }

    fn follow(&self, thread: ThreadId, told: mpsc::Sender<FarTold>) {
        // It fails only once the client is gone, which its listener hears by the end of the channel.
        let _ = self.asks.send(Ask::Follow { thread, told });
    }

    fn look(
        &self,
        thread: ThreadId,
        bytes: u32,
    ) -> BoxFuture<'_, Result<(ThreadState, Vec<Row>), FarError>> {
        Box::pin(async move {
            let looked = self.ask(|reply| Ask::Look {
                thread,
                bytes,
                reply,
            });
            match tokio::time::timeout(PATIENCE, looked).await {
                Ok(answer) => answer?,
                Err(_) => Err(FarError::Unreachable(self.problem())),
            }
        })
    }

    fn body(&self, hash: BlobHash) -> BoxFuture<'_, Result<Vec<u8>, FarError>> {
        Box::pin(async move {
            let mut bytes = Vec::new();
            loop {
                let part = Query::Blob {
                    hash,
                    offset: bytes.len() as u64,
                    len: BLOB_CHUNK,
                };
                let QueryResult::Blob(chunk) = self.query(part).await? else {
                    return Err(unfitting());
                };
                let came = chunk.data.0;
                let fits = chunk.hash == hash && chunk.offset == bytes.len() as u64;
                if !fits || (came.is_empty() && chunk.total > bytes.len() as u64) {
                    return Err(unfitting());
                }
                bytes.extend(came);
                if bytes.len() as u64 >= chunk.total {
                    break;
                }
            }
            if BlobHash::of(&bytes) == hash {
                Ok(bytes)
            } else {
                Err(unfitting())
            }
        })
    }

    fn keep(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<BlobHash, FarError>> {
        Box::pin(async move {
            let (hash, total) = (BlobHash::of(&bytes), bytes.len() as u64);
            let mut at = 0;
            // Each round brings it further, or it is given up.
            for _ in 0..=bytes.len() / BLOB_CHUNK as usize + 1 {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let to = from.saturating_add(BLOB_CHUNK as usize).min(bytes.len());
                let part = Query::PutBlob {
                    hash,
                    offset: at,
                    total,
                    data: Base64(bytes[from..to].to_vec()),
                };
                match self.query(part).await? {
                    QueryResult::PutBlob { complete: true, .. } => return Ok(hash),
                    QueryResult::PutBlob { have, .. } if have <= total => at = have,
                    _ => return Err(unfitting()),
                }
            }
            Err(unfitting())
        })
    }
}
