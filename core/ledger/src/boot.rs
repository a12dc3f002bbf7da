//! What a ledger does before it takes anything: agents of an earlier life are killed, what they were doing is marked as
//! lost, and effects that were cut between doing and recording get the outcome `unknown`, unless it is certain that they were
//! never begun, or they can be done again without harm. Prompts are never sent again.

use crate::work::Work;
use pilothouse_domain::{EffectOutcome, request::LostReason};
use pilothouse_store::{LedgerTx, StoreError, StoredEffect};
use std::path::Path;

/// Kills the agents whose pid files an earlier life left behind: first kill, then reconcile (DETAILS section 3).
pub(crate) fn kill_left_behind(pid_dir: &Path) {
    let Ok(files) = std::fs::read_dir(pid_dir) else {
        if let Err(error) = std::fs::create_dir_all(pid_dir) {
            tracing::warn!(%error, dir = %pid_dir.display(), "no place for the agents' pid files");
        }
        return;
    };
    for file in files.flatten() {
        let path = file.path();
        if path.extension().is_none_or(|extension| extension != "pid") {
            continue;
        }
        match pilothouse_providers::process::kill_recorded(&path) {
            Ok(found) => {
                tracing::info!(file = %path.display(), ?found, "an agent of an earlier life")
            }
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "an agent left behind could not be killed")
            }
        }
        let _ = std::fs::remove_file(path);
    }
}

/// Marks what was going on when the last life ended.
pub(crate) fn mark_lost(work: &mut Work, tx: &mut LedgerTx<'_>) -> Result<(), StoreError> {
    tx.prune_outcomes(work.now_ms())?;
    for stored in tx.unfinished_effects()? {
        let StoredEffect { thread, effect, .. } = &stored;
        if effect.kind.is_replay_safe() {
            work.do_again(*thread, effect.clone());
        } else if !work.never_sent(tx, &stored)? {
            work.outcome(tx, *thread, effect, None, &EffectOutcome::Unknown)?;
        }
    }
    for thread in tx.live_threads()? {
        work.load(tx, thread)?;
        work.thread_lost(
            tx,
            thread,
            LostReason::HostRestarted,
            "the host was restarted",
        )?;
    }
    Ok(())
}
