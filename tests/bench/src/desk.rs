//! A ledger in this process with one [`Author`], and a device's commands to it.

use crate::{agent::Author, rng::Rng};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{
    Command, CommandBody, CommandId, Cursor, DeviceId, DispatchMode, Mode, Outcome, Policy, Scope,
    ThreadId, feed::ThreadUpdate, policy::AgentPolicy, thread::Selection,
};
use pilothouse_ledger::{AgentSpec, Clock, Ledger, LedgerConfig, Principal};
use pilothouse_providers::contract::ProviderAdapter;
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Only a fault makes anything wait this long.
const PATIENCE: Duration = Duration::from_secs(300);

/// A clock that moves by a millisecond a look, so that the same seed gives the same bytes.
struct Steps(AtomicU64);

impl Clock for Steps {
    fn now_ms(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The ledger, its agent and the device that commands it.
pub(crate) struct Desk {
    pub(crate) ledger: Ledger,
    pub(crate) author: Author,
    seed: u64,
    commands: AtomicU64,
}

impl Desk {
    pub(crate) fn open(dir: &Path, seed: u64, author: Author) -> Result<Self> {
        let declared = AgentPolicy {
            family: "bench".into(),
            modes: Mode::ALL.to_vec(),
            capabilities: author.profile().set(),
            sandboxes: Vec::new(),
        };
        let spec = AgentSpec {
            adapter: Arc::new(author.clone()),
            command: vec!["none".into()],
            env: BTreeMap::new(),
            cwd: None,
            modes: BTreeMap::new(),
            mcp: pilothouse_providers::mcp::McpServers::default(),
        };
        let config = LedgerConfig {
            dir: dir.to_owned(),
            policy: Policy {
                version: 1,
                agents: BTreeMap::from([("bench".into(), declared)]),
                workspaces: vec!["here".into()],
                default_mode: Mode::Ask,
            },
            agents: BTreeMap::from([("bench".into(), spec)]),
            workspaces: BTreeMap::from([("here".into(), dir.to_owned())]),
            wrapper: vec![],
            new_epoch: false,
            idle_look: pilothouse_ledger::IDLE_LOOK,
            clock: Arc::new(Steps(AtomicU64::new(1_796_000_000_000))),
        };
        let ledger = Ledger::open(config, tokio::runtime::Handle::current())
            .with_context(|| format!("opening a ledger in {}", dir.display()))?;
        Ok(Self {
            ledger,
            author,
            seed,
            commands: AtomicU64::new(1),
        })
    }

    fn command(&self, thread: Option<ThreadId>, body: CommandBody) -> Command {
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let mut rng = Rng::of(self.seed, &[0xc0, number]);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&rng.next().to_le_bytes());
        id[8..].copy_from_slice(&rng.next().to_le_bytes());
        let id = CommandId::from_bytes(id);
        Command {
            id,
            thread: thread.unwrap_or_else(|| id.derive("thread")),
            device_seq: number,
            based_on: None,
            issued_at_ms: 0,
            body,
        }
    }

    async fn take(&self, command: Command) -> Result<ThreadId> {
        let principal = Principal {
            device: DeviceId::from_bytes([7; 16]),
            scopes: Scope::ALL.to_vec(),
        };
        let thread = command.thread;
        let name = command.body.name();
        let outcome = tokio::time::timeout(PATIENCE, self.ledger.command(principal, command))
            .await
            .with_context(|| format!("no outcome of {name} after {PATIENCE:?}"))?;
        ensure!(
            matches!(outcome, Outcome::Accepted { .. }),
            "{name} was not taken: {outcome:?}"
        );
        Ok(thread)
    }

    /// Makes a thread.
    pub(crate) async fn create(&self, title: &str) -> Result<ThreadId> {
        let body = CommandBody::ThreadCreate {
            title: title.to_owned(),
            workspace: "here".into(),
            selection: Selection {
                agent: "bench".into(),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
        };
        self.take(self.command(None, body)).await
    }

    /// Sends a message; its turn starts when the one before has ended.
    pub(crate) async fn send(&self, thread: ThreadId, text: &str) -> Result<()> {
        let body = CommandBody::MessageSend {
            text: text.to_owned(),
            attachments: vec![],
            dispatch: DispatchMode::QueueAfterActive,
            accept_stop: vec![],
        };
        self.take(self.command(Some(thread), body)).await.map(drop)
    }

    /// Sends messages one after the other, each when the agent has said all of the turn before.
    pub(crate) async fn talk(&self, thread: ThreadId, turns: u64) -> Result<()> {
        for turn in 0..turns {
            self.send(thread, &format!("turn {turn}: please go on"))
                .await?;
            tokio::time::timeout(PATIENCE, self.author.said(1))
                .await
                .context("the agent's words are not taken")?;
        }
        Ok(())
    }

    /// Waits until a thread is as `done` wants it.
    pub(crate) async fn until(
        &self,
        thread: ThreadId,
        what: &str,
        done: impl Fn(&pilothouse_domain::ThreadState) -> bool,
    ) -> Result<Cursor> {
        tokio::time::timeout(PATIENCE, async {
            let mut subscription = self
                .ledger
                .subscribe(thread, None, 0)
                .await
                .map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
            let snapshot = subscription.answer.snapshot.take().context("a snapshot")?;
            let (mut state, mut cursor) = (snapshot.state, snapshot.cursor);
            while !done(&state) {
                match subscription.next().await?.context("the ledger closed")? {
                    ThreadUpdate::Entries(entries) => {
                        for entry in &entries {
                            pilothouse_orchestrator::apply_entry(&mut state, entry);
                            cursor = entry.cursor();
                        }
                    }
                    ThreadUpdate::Live(_) => {}
                }
            }
            Ok(cursor)
        })
        .await
        .with_context(|| format!("waited {PATIENCE:?} for {what}"))?
    }
}
