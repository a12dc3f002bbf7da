//! The writer thread: takes jobs in order, does many in one transaction, and tells nobody before it is committed.

use crate::{
    boot,
    config::{Clock, LedgerConfig, LedgerError, NewDevice, Principal},
    effects::EffectRunner,
    escalation, files,
    plan::Plan,
    runtimes::{Runtimes, SessionFacts},
    subscription::Subscription,
    survivors::{self, TakenUp},
    threads::LiveAt,
    work::{Past, Reply, Work},
};
use pilothouse_domain::{
    AttemptId, BlobHash, Command, Cursor, DeviceId, Effect, EffectOutcome, Epoch, Incarnation,
    Outcome, ProviderEvent, ProviderEventKind, Refusal, RunId, ThreadId,
    feed::{GapReason, Subscribed},
    row::{LiveText, RowKind, Snapshot},
};
use pilothouse_providers::contract::RuntimeEvents;
use pilothouse_store::{Durability, LedgerReader, LedgerStore, StoreError};
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

/// Jobs in one transaction.
const BATCH: usize = 64;
/// Jobs that may wait for a disk that has no room, before agents are no longer read.
const JOBS_KEPT: usize = 1024;
/// Entries that a subscriber may be behind before it starts anew from a snapshot (DESIGN section 11, catch-up).
const BEHIND: u64 = 1000;
/// Silence after which the write-ahead log is moved into the database, so that no commit has to wait for it.
const QUIET: Duration = Duration::from_millis(500);
/// Pause before an agent's events are tried again that could not be written.
const RETRY: Duration = Duration::from_millis(500);
/// How long shutdown waits for agents to stop and their last events to be written.
const DRAIN: Duration = Duration::from_secs(10);

/// What the writer is asked to do.
pub(crate) enum Job {
    /// Take a command.
    Command {
        principal: Principal,
        command: Box<Command>,
        reply: oneshot::Sender<Outcome>,
    },
    /// Take what an agent's process sent.
    Runtime {
        facts: SessionFacts,
        batch: RuntimeEvents,
        #[expect(dead_code, reason = "held until its job is done")]
        on_its_way: Option<OwnedSemaphorePermit>,
    },
    /// Take an event about a session for one thread; answers whether it is in the log.
    Session {
        thread: ThreadId,
        session: SessionFacts,
        event: Box<ProviderEvent>,
        reply: oneshot::Sender<bool>,
    },
    /// Take what a resumed conversation holds; answers whether it is in the log.
    History {
        thread: ThreadId,
        session: SessionFacts,
        past: Past,
        reply: oneshot::Sender<bool>,
    },
    /// Compare a thread with its agent's process, which outlived an earlier host.
    TakeUp {
        thread: ThreadId,
        session: SessionFacts,
        taken_up: TakenUp,
        reply: oneshot::Sender<bool>,
    },
    /// The connection with an agent that runs elsewhere has ended: it is made again.
    Disconnected { facts: SessionFacts, detail: String },
    /// Take the outcome of an effect.
    Outcome {
        thread: ThreadId,
        effect: Effect,
        session: Option<SessionFacts>,
        outcome: EffectOutcome,
    },
    /// Say what an effect takes.
    Plan {
        thread: ThreadId,
        effect: Effect,
        reply: oneshot::Sender<Plan>,
    },
    /// Say whether a process has nothing to do.
    IsIdle {
        incarnation: Incarnation,
        reply: oneshot::Sender<bool>,
    },
    /// End the sessions of a process that is about to be stopped because it has nothing to do; if it has, nobody answers.
    Reap {
        incarnation: Incarnation,
        reply: oneshot::Sender<bool>,
    },
    /// An interrupt's next step is due.
    Escalate {
        thread: ThreadId,
        run: RunId,
        attempt: AttemptId,
        incarnation: Incarnation,
        step: escalation::Step,
        reply: oneshot::Sender<escalation::Verdict>,
    },
    /// Follow a thread.
    Subscribe {
        thread: ThreadId,
        cursor: Option<Cursor>,
        tail_bytes: usize,
        reply: oneshot::Sender<Result<Subscription, Refusal>>,
    },
    /// Enrol a device.
    Pair {
        device: NewDevice,
        reply: oneshot::Sender<Result<(), LedgerError>>,
    },
    /// Keep a file that a message is to bring along.
    KeepBlob {
        bytes: Vec<u8>,
        reply: oneshot::Sender<Result<BlobHash, LedgerError>>,
    },
    /// End a device's access.
    Revoke {
        device: DeviceId,
        reply: oneshot::Sender<Result<(), LedgerError>>,
    },
    /// Stop.
    Shutdown { reply: oneshot::Sender<()> },
}

impl Job {
    /// Whether it must be on disk before anything follows from it.
    fn is_synced(&self) -> bool {
        match self {
            Self::Runtime { batch, .. } => batch.events.iter().any(|event| {
                matches!(
                    event.kind,
                    ProviderEventKind::RequestOpened { .. }
                        | ProviderEventKind::RequestClosed { .. }
                        | ProviderEventKind::TurnEnded { .. }
                        | ProviderEventKind::SessionEnded { .. }
                )
            }),
            _ => true,
        }
    }

    fn is_shutdown(&self) -> bool {
        matches!(self, Self::Shutdown { .. })
    }

    /// Whether it only reads.
    fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Plan { .. }
                | Self::IsIdle { .. }
                | Self::Subscribe { .. }
                | Self::Shutdown { .. }
        )
    }

    /// Whether it may be refused when nothing can be written; what agents said may not.
    fn is_refusable(&self) -> bool {
        matches!(
            self,
            Self::Command { .. }
                | Self::Pair { .. }
                | Self::Revoke { .. }
                | Self::KeepBlob { .. }
                | Self::Escalate { .. }
        )
    }
}

/// The writer: the database, and the work done on it.
pub(crate) struct Writer {
    store: LedgerStore,
    reader: LedgerReader,
    pub(crate) work: Work,
    pub(crate) runtimes: Arc<Runtimes>,
    effects: EffectRunner,
    feed: watch::Sender<u64>,
    runtime: tokio::runtime::Handle,
}

impl Writer {
    pub(crate) fn open(
        config: LedgerConfig,
        jobs: mpsc::Sender<Job>,
        runtime: tokio::runtime::Handle,
    ) -> Result<Self, LedgerError> {
        let pid_dir = config.dir.join("pids");
        let mut store = LedgerStore::open(&config.dir, random_epoch()?)?;
        boot::kill_left_behind(&pid_dir);
        files::clear(&config.dir);
        let mut survivors = survivors::find(&pid_dir, &config.agents);
        let clock: Arc<dyn Clock> = config.clock;
        if config.new_epoch {
            store.new_epoch(random_epoch()?, clock.now_ms())?;
        }
        let reader = store.reader()?;
        let mut work = Work::new(
            store.epoch(),
            store.boot(),
            clock,
            config.policy,
            config.workspaces,
        );
        let runtimes = Arc::new(Runtimes::new(
            config.agents,
            &work.policy,
            config.wrapper,
            pid_dir,
            config.idle_look,
            jobs.downgrade(),
        ));
        let effects = EffectRunner::new(
            Arc::clone(&runtimes),
            jobs.downgrade(),
            runtime.clone(),
            config.dir,
        );
        store.transaction(
            |tx| boot::mark_lost(&mut work, tx, &mut survivors),
            Durability::Synced,
        )?;
        for survivor in survivors {
            runtimes.take_up(survivor, &runtime);
        }
        let done = work.committed();
        // Nobody follows yet.
        let feed = watch::channel(done.revision.unwrap_or(reader.feed_revision()?)).0;
        let mut writer = Self {
            store,
            reader,
            work,
            runtimes,
            effects,
            feed,
            runtime,
        };
        for (thread, effect) in done.effects {
            writer.effects.dispatch(thread, effect);
        }
        Ok(writer)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.store.epoch()
    }

    pub(crate) fn unreached(&self) -> watch::Receiver<crate::Unreached> {
        self.runtimes.unreached()
    }

    pub(crate) fn feed(&self) -> watch::Receiver<u64> {
        self.feed.subscribe()
    }

    /// Runs until shutdown.
    pub(crate) fn run(mut self, mut inbox: mpsc::Receiver<Job>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            if !self.receive(&mut inbox, &mut batch) {
                break;
            }
            let (mut reads, mut writes): (Vec<_>, Vec<_>) = batch.drain(..).partition(Job::is_read);
            while !self.write(&mut writes) {
                std::thread::sleep(RETRY);
                // Only what agents said is kept for another try. Whoever asks meanwhile gets an answer.
                while writes.len() < JOBS_KEPT
                    && let Ok(job) = inbox.try_recv()
                {
                    if job.is_shutdown() {
                        reads.push(job);
                        break;
                    }
                    if job.is_read() {
                        self.read(job);
                    } else {
                        writes.push(job);
                    }
                }
                if reads.iter().any(Job::is_shutdown) {
                    break;
                }
            }
            let mut shutdown = None;
            for job in reads {
                if let Some(reply) = self.read(job) {
                    shutdown = Some(reply);
                }
            }
            if let Some(reply) = shutdown {
                self.drain(&mut inbox);
                let _ = reply.send(());
                break;
            }
        }
        if let Err(error) = self
            .store
            .transaction(|tx| self.work.save_everything(tx), Durability::Synced)
        {
            tracing::warn!(%error, "text of open items could not be saved at shutdown");
        }
    }

    /// Waits for jobs; an empty batch means that unsaved text is due. `false` when the ledger was dropped.
    fn receive(&mut self, inbox: &mut mpsc::Receiver<Job>, batch: &mut Vec<Job>) -> bool {
        let first = loop {
            let due = if self.work.has_unsaved_text() {
                crate::open_text::SAVE_AFTER
            } else if self.store.wants_checkpoint() {
                QUIET
            } else {
                break inbox.blocking_recv();
            };
            let next = self
                .runtime
                .block_on(async { tokio::time::timeout(due, inbox.recv()).await });
            match next {
                Ok(job) => break job,
                Err(_) if self.work.has_unsaved_text() => return true,
                Err(_) => {
                    if let Err(error) = self.store.checkpoint() {
                        tracing::warn!(%error, "the write-ahead log could not be moved into the database");
                    }
                }
            }
        };
        let Some(first) = first else { return false };
        batch.push(first);
        while batch.len() < BATCH {
            match inbox.try_recv() {
                Ok(job) => batch.push(job),
                Err(_) => break,
            }
        }
        true
    }

    /// Does jobs in one transaction. `false`: nothing was written, and the jobs left must be tried again.
    fn write(&mut self, jobs: &mut Vec<Job>) -> bool {
        if jobs.is_empty() && !self.work.has_unsaved_text() {
            return true;
        }
        let durability = if jobs.iter().any(Job::is_synced) {
            Durability::Synced
        } else {
            Durability::Lazy
        };
        let idle = jobs.is_empty();
        let work = &mut self.work;
        let done = self.store.transaction(
            |tx| {
                work.save_text(tx, idle)?;
                jobs.iter()
                    .map(|job| work.take(tx, job))
                    .collect::<Result<Vec<Reply>, StoreError>>()
            },
            durability,
        );
        match done {
            Ok(replies) => {
                self.tell(jobs.drain(..).zip(replies));
                true
            }
            Err(error) => {
                self.work.rolled_back();
                tracing::error!(%error, jobs = jobs.len(), "the ledger could not write");
                self.refuse(jobs, &error);
                jobs.is_empty()
            }
        }
    }

    /// After a commit: first those who follow, then those who asked, then the effects.
    fn tell(&mut self, answered: impl Iterator<Item = (Job, Reply)>) {
        let done = self.work.committed();
        if let Some(revision) = done.revision {
            self.feed.send_replace(revision);
        }
        for ended in done.ended {
            let runtimes = Arc::clone(&self.runtimes);
            self.runtime
                .spawn(async move { runtimes.forget(ended).await });
        }
        for (facts, threads) in done.disconnected {
            Arc::clone(&self.runtimes).reconnect(facts, threads, &self.runtime);
        }
        for (job, reply) in answered {
            reply.send(job);
        }
        let changed = done.changed.into_iter();
        changed.for_each(|changed| self.effects.look_again(changed));
        for (thread, effect) in done.effects {
            self.effects.dispatch(thread, effect);
        }
    }

    /// Nothing can be written: whoever can try again is told so; what agents said is kept.
    fn refuse(&mut self, jobs: &mut Vec<Job>, error: &StoreError) {
        let refusal = match error {
            StoreError::DiskFull { .. } | StoreError::ReadOnly { .. } => Refusal::DiskFull,
            other => Refusal::Busy {
                what: other.to_string(),
            },
        };
        let (refused, kept): (Vec<_>, Vec<_>) = jobs.drain(..).partition(Job::is_refusable);
        *jobs = kept;
        for job in refused {
            match job {
                Job::Command { reply, .. } => {
                    let _ = reply.send(Outcome::Refused {
                        refusal: refusal.clone(),
                    });
                }
                Job::Pair { reply, .. } | Job::Revoke { reply, .. } => {
                    let _ = reply.send(Err(LedgerError::Unwritable {
                        problem: error.to_string(),
                    }));
                }
                Job::KeepBlob { reply, .. } => {
                    let _ = reply.send(Err(LedgerError::Unwritable {
                        problem: error.to_string(),
                    }));
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, job: Job) -> Option<oneshot::Sender<()>> {
        match job {
            Job::Plan {
                thread,
                effect,
                reply,
            } => {
                let plan = self.work.plan(&self.store, thread, &effect);
                let _ = reply.send(plan.unwrap_or_else(|error| {
                    tracing::error!(%error, %thread, "an effect could not be prepared");
                    Plan::Impossible {
                        problem: error.to_string(),
                    }
                }));
                None
            }
            Job::Subscribe {
                thread,
                cursor,
                tail_bytes,
                reply,
            } => {
                let answer = self
                    .subscribe(thread, cursor, tail_bytes)
                    .unwrap_or_else(|error| {
                        tracing::error!(%error, %thread, "a subscription could not be answered");
                        Err(Refusal::Busy {
                            what: error.to_string(),
                        })
                    });
                let _ = reply.send(answer);
                None
            }
            Job::IsIdle { incarnation, reply } => {
                let _ = reply.send(self.work.is_idle(incarnation));
                None
            }
            Job::Shutdown { reply } => Some(reply),
            _ => None,
        }
    }

    fn subscribe(
        &mut self,
        thread: ThreadId,
        cursor: Option<Cursor>,
        tail_bytes: usize,
    ) -> Result<Result<Subscription, Refusal>, StoreError> {
        // The log of the host itself has the zero id; it is not for devices.
        if thread == ThreadId::default() {
            return Ok(Err(Refusal::UnknownThread { thread }));
        }
        self.work.load(&self.store, thread)?;
        let Some(cell) = self.work.cell(thread).filter(|cell| cell.cursor.seq > 0) else {
            return Ok(Err(Refusal::UnknownThread { thread }));
        };
        let (log, live, now) = (cell.watch.subscribe(), cell.live.subscribe(), cell.cursor);
        let gap = match cursor {
            None => Some(GapReason::Fresh),
            Some(known) if known.epoch != now.epoch => Some(GapReason::Epoch),
            Some(known) if known.seq > now.seq => Some(GapReason::Ahead),
            Some(known) if !self.reader.is_on_log(thread, &known)? => Some(GapReason::Chain),
            Some(known) if now.seq - known.seq > BEHIND => Some(GapReason::Behind),
            Some(_) => None,
        };
        // The session that serves the thread is named by its state, not by an item: with it a device knows the models.
        let session = match &cell.state.session {
            Some(slot) if gap.is_some() => self
                .reader
                .row(thread, RowKind::Session.key(slot.id.as_bytes()))?,
            _ => None,
        };
        // State and rows together are what a screen waits for, so all of it counts.
        let tail = gap
            .map(|_| {
                let rows =
                    tail_bytes.saturating_sub(json_bytes(&cell.state) + json_bytes(&session));
                self.reader.tail(thread, rows)
            })
            .transpose()?;
        let answer = Subscribed {
            gap,
            snapshot: gap.map(|_| {
                Box::new(Snapshot {
                    state: cell.state.clone(),
                    cursor: now,
                })
            }),
            older: tail.as_ref().is_some_and(|window| window.more),
            rows: session
                .into_iter()
                .chain(tail.into_iter().flat_map(|window| window.rows))
                .collect(),
            open_items: self.work.open_items(thread),
            high_water: now,
        };
        let from = cursor.filter(|_| gap.is_none()).unwrap_or(now);
        let reader = self.store.reader()?;
        Ok(Ok(Subscription::new(
            thread, answer, from, reader, log, live,
        )))
    }

    /// Stops the agents and writes what they still say.
    fn drain(&mut self, inbox: &mut mpsc::Receiver<Job>) {
        let runtimes = Arc::clone(&self.runtimes);
        let (done, mut stopped) = oneshot::channel();
        self.runtime.spawn(async move {
            runtimes.stop_all().await;
            let _ = done.send(());
        });
        let deadline = std::time::Instant::now() + DRAIN;
        let mut over = false;
        while std::time::Instant::now() < deadline {
            let next = self.runtime.block_on(async {
                tokio::time::timeout(
                    Duration::from_millis(if over { 50 } else { 200 }),
                    inbox.recv(),
                )
                .await
            });
            match next {
                Ok(Some(job)) if !job.is_read() && !job.is_refusable() => {
                    let mut jobs = vec![job];
                    if !self.write(&mut jobs) {
                        return;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) if over => return,
                Err(_) => over = stopped.try_recv().is_ok(),
            }
        }
    }
}

fn json_bytes(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

/// Live text that goes out after a commit.
pub(crate) fn live(
    after: u64,
    item: pilothouse_domain::ItemId,
    offset: u64,
    text: String,
) -> LiveAt {
    LiveAt {
        after,
        text: LiveText { item, offset, text },
    }
}

fn random_epoch() -> Result<Epoch, LedgerError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| LedgerError::Random {
        problem: error.to_string(),
    })?;
    Ok(Epoch::from_bytes(bytes))
}
