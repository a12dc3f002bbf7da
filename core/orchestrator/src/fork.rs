//! Forks: a thread that begins as another stood after one of its runs. Nothing is asked of the agent before the first
//! message; until then the fork is a reference to a point of its source (seeds/feature-lifecycles.md, *Forking Threads*).

use crate::{
    SourceThread, Verdict,
    decide::{Deciding, accepted, invalid},
    degrade::{self, Feature, Service},
};
use pilothouse_domain::{
    Cursor, Event, ItemId, Refusal, Row, RowKey, Run, RunId, RunStatus, ThreadId, ThreadState,
    TransferId,
    command::ForkWorkspace,
    hash,
    ids::MintedId,
    refusal::Unfit,
    row::RowKind,
    state::TransferSlot,
    thread::{Lifecycle, Lineage, Relationship},
    transfer::{ContextTransfer, TransferKind, TransferStatus},
};

/// The item that says where a fork comes from. Derived from the transfer, so that a run that fails before the agent has the
/// copy leaves it to the next one.
pub fn fork_item(transfer: TransferId) -> ItemId {
    ItemId::from_minted(hash::id_bytes(&[transfer.as_bytes(), b"item"]))
}

/// What a decision needs of the thread that a fork comes from. `row` reads that thread's rows.
pub fn source_of(
    state: ThreadState,
    cursor: Cursor,
    named: Option<RunId>,
    row: impl Fn(RowKey) -> Option<Row>,
) -> SourceThread {
    let wanted = named.or(state.last_run.map(|last| last.id));
    let run = wanted.and_then(|run| match row(RowKind::Run.key(run.as_bytes())) {
        Some(Row::Run(run)) => Some(run),
        _ => None,
    });
    let attempt = run.as_ref().and_then(|run| run.attempt);
    let taken_up = attempt.is_some_and(|attempt| {
        matches!(
            row(RowKind::Attempt.key(attempt.as_bytes())),
            Some(Row::Attempt(attempt)) if attempt.provider_thread.is_some()
        )
    });
    SourceThread {
        state,
        cursor,
        run,
        taken_up,
    }
}

/// Whether a run is a stable point: one that ended, stands, and that the agent knows of.
pub(crate) fn check_run(run: &Run, taken_up: bool) -> Result<(), Refusal> {
    let unfit = match run.status {
        RunStatus::Completed | RunStatus::Interrupted | RunStatus::Failed if taken_up => {
            return Ok(());
        }
        RunStatus::Completed | RunStatus::Interrupted | RunStatus::Failed => Unfit::NeverBegan,
        RunStatus::Queued => Unfit::Queued,
        RunStatus::Cancelled => Unfit::Cancelled,
        RunStatus::RolledBack => Unfit::RolledBack,
        RunStatus::Preparing
        | RunStatus::Starting
        | RunStatus::Running
        | RunStatus::Waiting
        | RunStatus::Finalizing => Unfit::GoesOn,
    };
    Err(Refusal::UnfitRun { run: run.id, unfit })
}

impl Deciding<'_> {
    pub(crate) fn fork(
        &mut self,
        title: &str,
        source: ThreadId,
        named: Option<RunId>,
        workspace: ForkWorkspace,
    ) -> Result<Verdict, Refusal> {
        self.check_new(title)?;
        let found = self.lookups.source.as_deref();
        let known = found.filter(|found| found.state.thread == source);
        let Some((found, meta)) = known
            .and_then(|found| Some((found, found.state.meta.as_ref()?)))
            .filter(|(_, meta)| meta.lifecycle != Lifecycle::Deleted)
        else {
            return Err(Refusal::UnknownThread { thread: source });
        };
        if let Some(reason) = &found.state.read_only {
            return Err(Refusal::ReadOnly {
                reason: reason.clone(),
            });
        }
        self.check_choice(&meta.workspace, &meta.selection)?;
        let run = match (&found.run, named) {
            (Some(run), _) => run,
            (None, Some(run)) => return Err(Refusal::UnknownRun { run }),
            (None, None) => {
                return Err(invalid("run", "nothing has ended in that thread yet"));
            }
        };
        check_run(run, found.taken_up)?;
        // After a run that goes on, its conversation holds more than the last one that ended.
        let is_last = found.state.active.is_none()
            && found.state.last_run.is_some_and(|last| last.id == run.id);
        let feature = if is_last {
            Feature::Fork
        } else {
            Feature::ForkFromRun
        };
        if let Service::Refused(row) = degrade::serve(feature, &found.state, self.policy) {
            return Err(row.refusal());
        }
        // The one way there is yet; another will choose files of its own here.
        let ForkWorkspace::SameTree = workspace;
        let lineage = Lineage {
            parent: source,
            relationship: Relationship::Fork,
            root: meta.lineage.map_or(source, |lineage| lineage.root),
        };
        let transfer = ContextTransfer {
            id: self.command.id.derive("transfer"),
            kind: TransferKind::Fork,
            source,
            base_point: None,
            source_point: found.cursor,
            source_run: Some(run.id),
            status: TransferStatus::Pending,
        };
        self.draft.emit(Event::ThreadCreated {
            thread: self.command.thread,
            title: title.to_owned(),
            workspace: meta.workspace.clone(),
            selection: meta.selection.clone(),
            lineage: Some(lineage),
            actor: self.actor,
        });
        self.draft.emit(Event::TransferRecorded { transfer });
        Ok(accepted())
    }
}

/// The fork that the next run is to resolve.
pub(crate) fn pending(state: &ThreadState) -> Option<TransferSlot> {
    let forks = |slot: &&TransferSlot| slot.kind == TransferKind::Fork;
    state.transfers.iter().find(forks).copied()
}
