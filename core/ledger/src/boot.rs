//! What a ledger does before it takes anything: agents of an earlier life are killed, what they were doing is marked as
//! lost (but for agents that outlived their host, see [`crate::survivors`]), and effects that were cut between doing and
//! recording get the outcome `unknown`, unless it is certain that they were never begun, or they can be done again without
//! harm. Prompts are never sent again.

use crate::{
    survivors::{Survivor, incarnations},
    work::Work,
};
use pilothouse_domain::{EffectKind, EffectOutcome, request::LostReason};
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

/// Marks what was going on when the last life ended. Threads of processes that live on are left as they are, and noted
/// with those processes.
pub(crate) fn mark_lost(
    work: &mut Work,
    tx: &mut LedgerTx<'_>,
    survivors: &mut [Survivor],
) -> Result<(), StoreError> {
    tx.prune_outcomes(work.now_ms())?;
    work.find_signed_out(tx)?;
    let alive = incarnations(survivors);
    for stored in tx.unfinished_effects()? {
        let StoredEffect { thread, effect, .. } = &stored;
        let goes_on = work
            .live_incarnation(tx, *thread)?
            .is_some_and(|incarnation| alive.contains(&incarnation));
        let asked_again = matches!(
            effect.kind,
            EffectKind::Respond { .. } | EffectKind::SendTurn { .. } | EffectKind::Interrupt { .. }
        );
        if goes_on && asked_again {
            // What came of it shows when the process is taken up: a request that still waits is answered again, a message is
            // in its conversation or not, and a turn that goes on is stopped again.
            tx.effect_done(effect.id, &EffectOutcome::Unknown)?;
        } else if effect.kind.is_replay_safe() {
            work.do_again(*thread, effect.clone());
        } else if !work.never_sent(tx, &stored)? {
            work.outcome(tx, *thread, effect, None, &EffectOutcome::Unknown)?;
        }
    }
    for thread in tx.live_threads()? {
        work.load(tx, thread)?;
        let incarnation = work.live_incarnation(tx, thread)?;
        let survivor = survivors
            .iter_mut()
            .find(|survivor| Some(survivor.facts.incarnation) == incarnation);
        if let Some(survivor) = survivor
            && let Some(served) = work.served(tx, thread)?
        {
            survivor.threads.push(served);
            work.texts_go_on(tx, thread)?;
            continue;
        }
        work.thread_lost(
            tx,
            thread,
            LostReason::HostRestarted,
            "the host was restarted",
        )?;
    }
    Ok(())
}
