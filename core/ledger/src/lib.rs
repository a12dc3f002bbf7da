//! The ledger: the only author of its threads' logs.
//!
//! **Owns** every thread's log and state, the effects that leave it, the agents' runtimes, and the requests that wait.
//! **Must not know** the wire, devices' views, or how an agent speaks. A command comes in through [`Ledger::command`], an
//! agent's events through its runtime's channel; both reach one writer thread, which decides (or ingests), appends
//! events, rows and effects in one transaction, and only then tells anyone: the sender, the subscribers, the effect
//! runner.
//!
//! Invariants:
//! - a thread's state changes in the writer thread only, and only by applying what was appended;
//! - what leaves the ledger (an outcome, an effect, a request) is synced to disk before;
//! - an effect runs at most once; what was cut between doing and recording has the outcome `unknown`;
//! - an agent whose ledger cannot write is not read: its channel is bounded, and nothing it said is dropped.
#![forbid(unsafe_code)]

mod bindings;
mod boot;
mod config;
mod effects;
mod elsewhere;
mod escalation;
mod files;
mod forward;
mod introducing;
mod listing;
mod open_text;
mod plan;
mod planning;
mod runtimes;
mod subscription;
mod survivors;
mod threads;
mod whole;
mod work;
mod writer;

pub use config::{
    AgentSpec, Clock, IDLE_LOOK, LedgerConfig, LedgerError, NewDevice, Principal, SystemClock,
};
pub use listing::ListError;
pub use subscription::{Feed, Subscription};

use pilothouse_domain::{
    BlobHash, Command, CommandId, ContentHash, Cursor, DeviceId, Epoch, Outcome, Policy, Refusal,
    ThreadId, WorkspaceId, feed::FeedCursor,
};
use pilothouse_store::{DeviceRow, LedgerReader, StoreError};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tokio::sync::{mpsc, oneshot};
use writer::{Job, Writer};

/// Agents that cannot be reached, with why.
pub type Unreached = std::collections::BTreeMap<pilothouse_domain::AgentName, String>;

/// How many jobs may wait for the writer before senders wait.
const JOBS: usize = 1024;

/// A running ledger. Clones share it; [`Ledger::shutdown`] ends it for all.
#[derive(Clone)]
pub struct Ledger {
    jobs: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

struct Shared {
    epoch: Epoch,
    policy: Policy,
    dir: std::path::PathBuf,
    workspaces: BTreeMap<WorkspaceId, std::path::PathBuf>,
    runtimes: Arc<runtimes::Runtimes>,
    listed: listing::Listed,
    feed: tokio::sync::watch::Receiver<u64>,
    unreached: tokio::sync::watch::Receiver<Unreached>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Ledger {
    /// Opens the ledger in its directory, kills agents that an earlier life left behind, marks what they were doing as
    /// lost, and starts the writer. Agents and effects run on `runtime`.
    ///
    /// # Errors
    /// When the directory is in use, cannot be written, or holds a database of a newer version.
    pub fn open(
        config: LedgerConfig,
        runtime: tokio::runtime::Handle,
    ) -> Result<Self, LedgerError> {
        let (jobs, inbox) = mpsc::channel(JOBS);
        let policy = config.policy.clone();
        let dir = config.dir.clone();
        let workspaces = config.workspaces.clone();
        let writer = Writer::open(config, jobs.clone(), runtime)?;
        let (epoch, feed) = (writer.epoch(), writer.feed());
        let unreached = writer.unreached();
        let (runtimes, listed) = (Arc::clone(&writer.runtimes), writer.work.listed.clone());
        let thread = std::thread::Builder::new()
            .name("ledger-writer".into())
            .spawn(move || writer.run(inbox))
            .map_err(|source| LedgerError::Thread { source })?;
        let shared = Shared {
            epoch,
            policy,
            dir,
            workspaces,
            runtimes,
            listed,
            feed,
            unreached,
            writer: Mutex::new(Some(thread)),
        };
        Ok(Self {
            jobs,
            shared: Arc::new(shared),
        })
    }

    /// The ledger's epoch.
    pub fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    /// What the host allows and offers.
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// Agents that run elsewhere and cannot be reached at the moment, with why; they are tried again for ever.
    pub fn unreached(&self) -> tokio::sync::watch::Receiver<Unreached> {
        self.shared.unreached.clone()
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, LedgerError> {
        let (reply, answer) = oneshot::channel();
        self.jobs
            .send(job(reply))
            .await
            .map_err(|_| LedgerError::Closed)?;
        answer.await.map_err(|_| LedgerError::Closed)
    }

    /// Takes a command. When this returns, what it led to is on disk; a repeat of the id gives the same outcome.
    pub async fn command(&self, principal: Principal, command: Command) -> Outcome {
        self.ask(|reply| Job::Command {
            principal,
            command: Box::new(command),
            reply,
        })
        .await
        .unwrap_or(Outcome::Refused {
            refusal: Refusal::NotReady,
        })
    }

    /// What came of commands; `None` for those that never arrived.
    ///
    /// # Errors
    /// When the ledger is closed or cannot be read.
    pub async fn outcomes(
        &self,
        ids: Vec<CommandId>,
    ) -> Result<Vec<(CommandId, Option<Outcome>)>, LedgerError> {
        self.read(move |reader| {
            ids.into_iter()
                .map(|id| Ok((id, reader.outcome(id)?)))
                .collect()
        })
        .await
    }

    /// Follows a thread from a cursor, or anew with its state and its newest rows, together at most `tail_bytes` of
    /// JSON (and at least one item).
    ///
    /// # Errors
    /// [`Refusal::UnknownThread`], or [`Refusal::NotReady`] while the ledger closes.
    pub async fn subscribe(
        &self,
        thread: ThreadId,
        cursor: Option<Cursor>,
        tail_bytes: usize,
    ) -> Result<Subscription, Refusal> {
        self.ask(|reply| Job::Subscribe {
            thread,
            cursor,
            tail_bytes,
            reply,
        })
        .await
        .unwrap_or(Err(Refusal::NotReady))
    }

    /// Follows the summaries of all threads from a cursor.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn feed(&self, cursor: Option<FeedCursor>) -> Result<Feed, LedgerError> {
        Feed::open(
            self.shared.dir.clone(),
            self.shared.epoch,
            self.shared.feed.clone(),
            cursor,
        )
        .await
    }

    /// Reads from the database without waiting for the writer.
    ///
    /// # Errors
    /// What the read gives, or that the ledger cannot be opened.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&LedgerReader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let dir = self.shared.dir.clone();
        tokio::task::spawn_blocking(move || read(&LedgerReader::open(&dir)?))
            .await
            .map_err(|_| LedgerError::Closed)?
            .map_err(LedgerError::Store)
    }

    /// Keeps a file that a message is to bring along. Synced when it returns; one that is there already is left alone.
    ///
    /// # Errors
    /// When the ledger is closed or cannot write.
    pub async fn keep_blob(&self, bytes: Vec<u8>) -> Result<BlobHash, LedgerError> {
        self.ask(|reply| Job::KeepBlob { bytes, reply }).await?
    }

    /// Enrols a device. Synced when it returns.
    ///
    /// # Errors
    /// When the ledger is closed or cannot write.
    pub async fn pair_device(&self, device: NewDevice) -> Result<(), LedgerError> {
        self.ask(|reply| Job::Pair { device, reply }).await?
    }

    /// Ends a device's access: none of its commands is taken any more. Synced when it returns. Its connections are its
    /// host's to end.
    ///
    /// # Errors
    /// When the ledger is closed or cannot write.
    pub async fn revoke_device(&self, device: DeviceId) -> Result<(), LedgerError> {
        self.ask(|reply| Job::Revoke { device, reply }).await?
    }

    /// Waits until the writer has ended, whether it was shut down or failed. After that nothing is taken any more.
    pub async fn closed(&self) {
        self.jobs.closed().await;
    }

    /// The device with that public key, revoked or not.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn device_by_spki(
        &self,
        spki_sha256: ContentHash,
    ) -> Result<Option<DeviceRow>, LedgerError> {
        self.read(move |reader| reader.device_by_spki(spki_sha256))
            .await
    }

    /// Stops agents, writes what is open, and ends the writer. Idempotent.
    pub async fn shutdown(&self) {
        let (reply, done) = oneshot::channel();
        if self.jobs.send(Job::Shutdown { reply }).await.is_ok() {
            let _ = done.await;
        }
        let thread = self
            .shared
            .writer
            .lock()
            .ok()
            .and_then(|mut slot| slot.take());
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}
