//! The work done inside transactions: deciding, ingesting, appending. Everything it changes in memory can be put back
//! when the transaction fails.

mod agent;
mod command;
mod commit;
mod history;
mod sign_in;
mod survived;

pub(crate) use history::{Foreign, Past};

use crate::{
    bindings::following,
    config::Clock,
    escalation,
    listing::Listed,
    open_text::{self, Chunk, OpenTexts},
    runtimes::SessionFacts,
    survivors::Served,
    threads::{SavedCell, ThreadCell},
    writer::Job,
};
use pilothouse_domain::{
    AgentName, AttemptId, BlobHash, Body, Cause, Effect, EffectId, Epoch, Event, IdMint,
    Incarnation, ItemContent, ItemId, LogPlace, LoggedEvent, Outcome, Policy, ProviderEvent,
    ProviderEventKind, ThreadId, ThreadState, WorkspaceId,
    provider::OfferedModel,
    request::LostReason,
    row::{OpenItem, Snapshot},
    thread::Selection,
};
use pilothouse_orchestrator::{
    Decision, Internal, apply, decide_internal, next_internal, project, summarise,
};
use pilothouse_store::{DeviceRow, LedgerReads, LedgerTx, StoreError};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

/// Entries after which a thread's state is saved, so that opening it replays few.
const SAVE_STATE_EVERY: u64 = 64;
/// Threads that may stay in memory with nobody following them and nothing running.
const IDLE_CELLS: usize = 128;
/// Events of conversations that are not bound yet, kept per process until they are.
const UNROUTED: usize = 64;
/// Internal commands in a row on one thread; more would be a fault in the orchestrator.
const INTERNAL_STEPS: usize = 16;

/// State in memory, and what the current transaction changed of it.
pub(crate) struct Work {
    epoch: Epoch,
    boot: u64,
    clock: Arc<dyn Clock>,
    pub(crate) policy: Policy,
    pub(crate) workspaces: BTreeMap<WorkspaceId, PathBuf>,
    cells: BTreeMap<ThreadId, ThreadCell>,
    texts: OpenTexts,
    unrouted: BTreeMap<Incarnation, Vec<ProviderEvent>>,
    /// What each agent offers as far as heard in this life: for threads that have no session yet.
    offered: BTreeMap<AgentName, Vec<OfferedModel>>,
    /// Agents' own conversations as they were listed in this life.
    pub(crate) listed: Listed,
    /// Effects of messages and stops that are in the hands of an agent's adapter: begun in this life, without an outcome yet.
    handed: BTreeSet<EffectId>,
    change: Change,
    signed_out: sign_in::SignedOut,
    /// The attempts whose stop was not taken and stays unsignalled, since their process also works on other threads.
    unsignalled: BTreeMap<ThreadId, AttemptId>,
}

/// What the current transaction changed.
#[derive(Default)]
struct Change {
    before: BTreeMap<ThreadId, Option<SavedCell>>,
    chunks: Vec<Chunk>,
    live: Vec<(ThreadId, u64, ItemId, String)>,
    closed: Vec<ItemId>,
    unrouted: Vec<(Incarnation, ProviderEvent)>,
    routed: Vec<Incarnation>,
    done: Done,
}

/// What follows from a committed transaction.
#[derive(Default)]
pub(crate) struct Done {
    /// The feed's revision, if it changed.
    pub(crate) revision: Option<u64>,
    /// Effects to be done.
    pub(crate) effects: Vec<(ThreadId, Effect)>,
    /// Agent processes that ended.
    pub(crate) ended: Vec<Incarnation>,
    /// Agents that run elsewhere, to be connected with again.
    pub(crate) disconnected: Vec<(SessionFacts, Vec<Served>)>,
    /// Threads whose agent may be able to do something else now.
    pub(crate) changed: Vec<Changed>,
}

/// A thread whose agent may be able to do something else now than it said: another model or mode was chosen, or the agent told of
/// itself anew.
pub(crate) struct Changed {
    pub(crate) thread: ThreadId,
    pub(crate) incarnation: Incarnation,
    pub(crate) selection: Selection,
    /// Whether the models that it offers may be others.
    pub(crate) models: bool,
    /// What it says its version is, where it said it anew.
    pub(crate) version: Option<String>,
}

/// The answer to a job.
pub(crate) enum Reply {
    Outcome(Outcome),
    Written,
    /// Nothing was written: more has to be read first.
    Unmet,
    Verdict(escalation::Verdict),
    Kept(BlobHash),
    None,
}

impl Reply {
    /// Answers a job; whoever asked may be gone.
    pub(crate) fn send(self, job: Job) {
        match (job, self) {
            (Job::Command { reply, .. }, Self::Outcome(outcome)) => {
                let _ = reply.send(outcome);
            }
            (
                Job::Session { reply, .. }
                | Job::History { reply, .. }
                | Job::TakeUp { reply, .. }
                | Job::Reap { reply, .. },
                Self::Written,
            ) => {
                let _ = reply.send(true);
            }
            (Job::History { reply, .. }, Self::Unmet) => {
                let _ = reply.send(false);
            }
            (Job::KeepBlob { reply, .. }, Self::Kept(hash)) => {
                let _ = reply.send(Ok(hash));
            }
            (Job::Escalate { reply, .. }, Self::Verdict(verdict)) => {
                let _ = reply.send(verdict);
            }
            (Job::Pair { reply, .. } | Job::Revoke { reply, .. }, Self::Written) => {
                let _ = reply.send(Ok(()));
            }
            _ => {}
        }
    }
}

impl Work {
    pub(crate) fn new(
        epoch: Epoch,
        boot: u64,
        clock: Arc<dyn Clock>,
        policy: Policy,
        workspaces: BTreeMap<WorkspaceId, PathBuf>,
    ) -> Self {
        Self {
            epoch,
            boot,
            clock,
            policy,
            workspaces,
            cells: BTreeMap::new(),
            texts: OpenTexts::default(),
            unrouted: BTreeMap::new(),
            offered: BTreeMap::new(),
            listed: Listed::default(),
            handed: BTreeSet::new(),
            unsignalled: BTreeMap::new(),
            change: Change::default(),
            signed_out: sign_in::SignedOut::default(),
        }
    }

    /// Notes that a message or a stop is handed to an agent's adapter from here on.
    pub(crate) fn hand_over(&mut self, effect: EffectId) {
        self.handed.insert(effect);
    }

    /// Has an effect done that an earlier life may not have done.
    pub(crate) fn do_again(&mut self, thread: ThreadId, effect: Effect) {
        self.change.done.effects.push((thread, effect));
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    pub(crate) fn cell(&self, thread: ThreadId) -> Option<&ThreadCell> {
        self.cells.get(&thread)
    }

    pub(crate) fn open_items(&self, thread: ThreadId) -> Vec<OpenItem> {
        self.texts.of_thread(thread)
    }

    pub(crate) fn has_unsaved_text(&self) -> bool {
        self.texts.has_unsaved()
    }

    /// Does one job.
    pub(crate) fn take(&mut self, tx: &mut LedgerTx<'_>, job: &Job) -> Result<Reply, StoreError> {
        match job {
            Job::Command {
                principal, command, ..
            } => self.command(tx, principal, command).map(Reply::Outcome),
            Job::Runtime { facts, batch, .. } => {
                for event in &batch.events {
                    self.route(tx, facts, event)?;
                }
                Ok(Reply::None)
            }
            Job::Session {
                thread,
                session,
                event,
                ..
            } => {
                self.ingest(tx, *thread, session, event)?;
                if let ProviderEventKind::ModelsOffered { models } = &event.kind {
                    self.offered.insert(session.agent.clone(), models.clone());
                }
                if matches!(event.kind, ProviderEventKind::ThreadBound) {
                    self.route_early(tx, *thread, session)?;
                }
                Ok(Reply::Written)
            }
            Job::History {
                thread,
                session,
                past,
                ..
            } => {
                let met = self.take_history(tx, *thread, session, past)?;
                Ok(if met { Reply::Written } else { Reply::Unmet })
            }
            Job::TakeUp {
                thread,
                session,
                taken_up,
                ..
            } => {
                self.take_up(tx, *thread, session, taken_up)?;
                Ok(Reply::Written)
            }
            Job::Disconnected { facts, detail } => {
                tracing::info!(agent = %facts.agent, detail, "the connection with an agent ended and is made again");
                let mut threads = Vec::new();
                for thread in self.served_by(facts.incarnation) {
                    threads.extend(self.served(tx, thread)?);
                }
                self.change.done.disconnected.push((facts.clone(), threads));
                Ok(Reply::None)
            }
            Job::Outcome {
                thread,
                effect,
                session,
                outcome,
            } => {
                self.outcome(tx, *thread, effect, session.as_ref(), outcome)?;
                Ok(Reply::None)
            }
            Job::Reap { incarnation, .. } => {
                if !self.is_idle(*incarnation) {
                    return Ok(Reply::None);
                }
                let detail = "it had nothing to do";
                self.runtime_lost(tx, *incarnation, LostReason::Stopped, detail)?;
                Ok(Reply::Written)
            }
            Job::Escalate {
                thread,
                run,
                attempt,
                incarnation,
                step,
                ..
            } => self
                .escalate(tx, *thread, *run, *attempt, *incarnation, *step)
                .map(Reply::Verdict),
            Job::Pair { device, .. } => {
                let now = self.clock.now_ms();
                tx.put_device(&DeviceRow {
                    device: device.device,
                    name: device.name.clone(),
                    spki: device.spki_sha256,
                    scopes: device.scopes.clone(),
                    paired_at_ms: now,
                    revoked: false,
                })?;
                let event = Event::DevicePaired {
                    device: device.device,
                    name: device.name.clone(),
                    spki_sha256: device.spki_sha256,
                    scopes: device.scopes.clone(),
                };
                self.host_log(tx, "paired", event)?;
                Ok(Reply::Written)
            }
            Job::KeepBlob { bytes, .. } => {
                let hash = BlobHash::of(bytes);
                tx.put_blob(hash, bytes)?;
                Ok(Reply::Kept(hash))
            }
            Job::Revoke { device, .. } => {
                let Some(row) = tx.device(*device)? else {
                    return Ok(Reply::Written);
                };
                tx.put_device(&DeviceRow {
                    revoked: true,
                    ..row
                })?;
                self.host_log(tx, "revoked", Event::DeviceRevoked { device: *device })?;
                Ok(Reply::Written)
            }
            Job::Plan { .. }
            | Job::IsIdle { .. }
            | Job::Subscribe { .. }
            | Job::Shutdown { .. } => Ok(Reply::None),
        }
    }

    /// The host log is a log like a thread's, of the thread with id zero; it has no state.
    fn host_log(
        &mut self,
        tx: &mut LedgerTx<'_>,
        fact: &str,
        event: Event,
    ) -> Result<(), StoreError> {
        let cause = Cause::Host { fact: fact.into() };
        tx.append(ThreadId::default(), cause, self.clock.now_ms(), vec![event])
            .map(drop)
    }

    /// Brings a thread into memory; one without entries only for the command that makes it.
    pub(crate) fn load(&mut self, reads: &LedgerReads, thread: ThreadId) -> Result<(), StoreError> {
        if self.cells.contains_key(&thread) {
            return Ok(());
        }
        let Snapshot { state, cursor } = reads.snapshot(thread)?;
        let cell = ThreadCell::new(state, cursor, reads.summary(thread)?);
        self.cells.insert(thread, cell);
        Ok(())
    }

    fn touch(&mut self, thread: ThreadId) {
        if let Some(cell) = self.cells.get(&thread) {
            let before = (cell.cursor.seq > 0).then(|| cell.saved());
            self.change.before.entry(thread).or_insert(before);
        }
    }

    fn state(&self, thread: ThreadId) -> Option<&ThreadState> {
        self.cells.get(&thread).map(|cell| &cell.state)
    }

    fn mint(&self, thread: ThreadId) -> IdMint {
        let seq = self.cells.get(&thread).map_or(0, |cell| cell.cursor.seq) + 1;
        IdMint::at(LogPlace {
            epoch: self.epoch,
            boot: self.boot,
            thread,
            seq,
        })
    }

    /// Does what the ledger does of its own accord: ends the run, starts the next.
    fn settle(&mut self, tx: &mut LedgerTx<'_>, thread: ThreadId) -> Result<(), StoreError> {
        for _ in 0..INTERNAL_STEPS {
            let Some(state) = self.state(thread) else {
                return Ok(());
            };
            let Some(internal) = next_internal(state) else {
                return self.go_on_signed_in(tx);
            };
            if internal == Internal::AdvanceQueue && self.is_signed_out(thread) {
                return self.hold_for_sign_in(tx, thread);
            }
            let decision = decide_internal(state, &internal, &mut self.mint(thread));
            if decision.events.is_empty() {
                return Ok(());
            }
            self.append(
                tx,
                thread,
                Cause::Internal {
                    name: internal.name().into(),
                },
                decision,
            )?;
        }
        tracing::error!(%thread, "internal commands do not come to an end");
        Ok(())
    }

    /// Appends an entry, applies it, and keeps its rows, summary and effects, all in the caller's transaction.
    fn append(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        cause: Cause,
        decision: Decision,
    ) -> Result<(), StoreError> {
        if decision.events.is_empty() {
            if !decision.effects.is_empty() {
                tracing::error!(%thread, effects = ?decision.effects.len(), "effects without an entry are not done");
            }
            return Ok(());
        }
        self.touch(thread);
        let now = self.clock.now_ms();
        let Some(cell) = self.cells.get_mut(&thread) else {
            return Ok(());
        };
        let was_live = is_live(&cell.state);
        let before = cell.state.active.as_ref().map(|active| active.origin);
        let entry = tx.append(thread, cause, now, decision.events)?;
        let (mut rows, mut closed) = (tx.rows(thread)?, Vec::new());
        for event in &entry.events {
            let LoggedEvent::Known(event) = event else {
                continue;
            };
            project(&mut rows, &cell.state, now, event);
            apply(&mut cell.state, event);
            if let Event::ItemClosed {
                item,
                content,
                streamed,
                ..
            } = event.as_ref()
            {
                let text = streamed
                    .as_ref()
                    .or_else(|| content.as_ref().and_then(ItemContent::streamed));
                closed.push((*item, text.cloned()));
            }
        }
        let summary = summarise(cell.summary.as_ref(), &cell.state, &entry, &rows);
        for (item, text) in closed {
            match text {
                Some(Body::Stored(body)) if tx.blob_len(body.hash)?.is_none() => {
                    let more = following(&self.texts, &self.change.live, item);
                    tx.seal_open_text(item, thread, &more, &body)?;
                }
                _ => tx.clear_open_text(item)?,
            }
            self.change.closed.push(item);
        }
        self.change.done.revision = Some(tx.put_summary(&summary)?);
        cell.summary = Some(summary);
        cell.cursor = entry.cursor();
        if is_live(&cell.state) != was_live {
            tx.set_live(thread, !was_live)?;
        }
        if cell.cursor.seq - cell.saved_at >= SAVE_STATE_EVERY {
            tx.put_state(cell.thread(), &cell.state, &cell.cursor)?;
            cell.saved_at = cell.cursor.seq;
        }
        for effect in decision.effects {
            tx.put_effect(thread, entry.seq, &effect)?;
            self.change.done.effects.push((thread, effect));
        }
        self.note_sign_in(thread, before, &entry.events);
        let chose = |event: &LoggedEvent| matches!(event, LoggedEvent::Known(event) if matches!(**event, Event::ThreadSelected { .. }));
        if entry.events.iter().any(chose) {
            self.may_have_changed(thread, false, None);
        }
        Ok(())
    }

    /// Has the agent that serves a thread looked at again.
    pub(super) fn may_have_changed(
        &mut self,
        thread: ThreadId,
        models: bool,
        version: Option<String>,
    ) {
        let Some(state) = self.state(thread) else {
            return;
        };
        let served = state.session.as_ref().filter(|session| session.live);
        if let (Some(session), Some(meta)) = (served, &state.meta) {
            let changed = Changed {
                thread,
                incarnation: session.incarnation,
                selection: meta.selection.clone(),
                models,
                version,
            };
            self.change.done.changed.push(changed);
        }
    }

    /// Goes on with the saved text of a thread's open items, whose agent outlived the host that saved it.
    pub(crate) fn texts_go_on(
        &mut self,
        tx: &LedgerTx<'_>,
        thread: ThreadId,
    ) -> Result<(), StoreError> {
        for saved in tx.open_items(thread, open_text::TAIL)? {
            self.texts.go_on(thread, saved);
        }
        Ok(())
    }

    /// Saves text of open items that is due. A text that does not follow what is saved of its item is dropped: it costs
    /// that item the text, which its close tells in full, and not the ledger.
    pub(crate) fn save_text(
        &mut self,
        tx: &mut LedgerTx<'_>,
        everything: bool,
    ) -> Result<(), StoreError> {
        self.change.chunks = self.texts.due(everything);
        for chunk in &self.change.chunks {
            match tx.append_open_text(chunk.item, chunk.thread, chunk.offset, &chunk.text) {
                Err(error @ StoreError::OutOfPlace { .. }) => {
                    tracing::error!(%error, thread = %chunk.thread, "text of an open item is dropped");
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Saves what is only in memory, before the ledger is closed.
    pub(crate) fn save_everything(&mut self, tx: &mut LedgerTx<'_>) -> Result<(), StoreError> {
        self.save_text(tx, true)?;
        for cell in self
            .cells
            .values_mut()
            .filter(|cell| cell.cursor.seq > cell.saved_at)
        {
            tx.put_state(cell.thread(), &cell.state, &cell.cursor)?;
            cell.saved_at = cell.cursor.seq;
        }
        Ok(())
    }
}

/// Whether an agent's process serves the thread: what has to be marked as lost if the host dies.
fn is_live(state: &ThreadState) -> bool {
    state.active.is_some() || state.session.as_ref().is_some_and(|session| session.live)
}

/// The agent in whose scope the thread's native ids stand.
fn agent_of(state: &ThreadState) -> String {
    let of_session = state.session.as_ref().map(|session| &session.agent);
    let chosen = state.meta.as_ref().map(|meta| &meta.selection.agent);
    of_session
        .or(chosen)
        .map(|agent| agent.0.clone())
        .unwrap_or_default()
}
