//! What predictions need besides the rows that a command names: read from the replica, where it is held whole. Where it is
//! not, nothing is predicted, for only the host can say what is there.

use crate::{predict::Further, shared::Reading};
use pilothouse_domain::{Command, CommandBody, Row, Run, RunId, ThreadId, limits, row::RowKind};
use pilothouse_orchestrator::{RollbackRuns, SourceThread, rollback_of, source_of};
use pilothouse_store::StoreError;

/// Adds what a command's prediction needs.
pub(crate) fn add(
    reads: &Reading<'_>,
    found: &mut Further,
    command: &Command,
) -> Result<(), StoreError> {
    match &command.body {
        CommandBody::ThreadFork { source, run, .. } => {
            if let Some(thread) = fork_source(reads, *source, *run)? {
                found.sources.insert(command.id, thread);
            }
        }
        CommandBody::ThreadRollback { before, .. } => {
            if let Some(runs) = taken_back(reads, command.thread, *before)? {
                found.taken_back.insert(command.id, runs);
            }
        }
        _ => {}
    }
    Ok(())
}

fn fork_source(
    reads: &Reading<'_>,
    source: ThreadId,
    named: Option<RunId>,
) -> Result<Option<SourceThread>, StoreError> {
    let Some((_, snapshot)) = reads.state(source)? else {
        return Ok(None);
    };
    // A row that cannot be read is one that is not held.
    let row = |key| reads.row(source, key).ok().flatten();
    let found = source_of(snapshot.state, snapshot.cursor, named, row);
    let wanted = named.or(found.state.last_run.map(|last| last.id));
    Ok((wanted.is_none() || found.run.is_some()).then_some(found))
}

fn taken_back(
    reads: &Reading<'_>,
    thread: ThreadId,
    before: RunId,
) -> Result<Option<RollbackRuns>, StoreError> {
    let Some(Row::Run(first)) = reads.row(thread, RowKind::Run.key(before.as_bytes()))? else {
        return Ok(None);
    };
    let from = first.ordinal.unwrap_or(u32::MAX);
    let runs = reads.runs_from(thread, from, limits::ROLLED_BACK + 1)?;
    let head = reads.run_standing_before(thread, from)?;
    // Ordinals rise by one: a gap is a run that is not held.
    let follows = |earlier: &Run, later: &Run| {
        earlier.ordinal.map(|ordinal| ordinal.saturating_add(1)) == later.ordinal
    };
    let gapless = runs.windows(2).all(|two| follows(&two[0], &two[1]));
    let reaches_back = match &head {
        Some(head) => follows(head, &first),
        None => from <= 1,
    };
    Ok((gapless && reaches_back).then(|| rollback_of(first, runs, head)))
}
