//! Taking back runs: the agent forgets them, the log marks them. Files stay as they are; checkpoints of files come with a
//! later version, and their place is in here, before the agent is asked.
//!
//! The agent comes first: only when it has forgotten the runs are they marked. Until then nothing starts, so that no message
//! is said into a conversation of which nobody knows what it holds. The effect is replay-safe, so a host that died in between
//! does it again.

use crate::{
    RollbackRuns, Verdict,
    decide::{Deciding, accepted, busy, invalid},
    degrade::{self, Feature, Service},
    fork::check_run,
};
use pilothouse_domain::{
    EffectKind, Event, Refusal, Run, RunId, RunStatus, limits,
    refusal::{StaleWhat, Unfit},
    state::{EndedRun, Import},
};

/// The runs that a rollback takes back, from all runs that began at or after `before`, in their order, and the last that
/// stands before it.
pub fn rollback_of(before: Run, from_there: Vec<Run>, head: Option<Run>) -> RollbackRuns {
    let mut runs: Vec<Run> = from_there
        .into_iter()
        .filter(|run| run.id != before.id && run.status != RunStatus::RolledBack)
        .collect();
    runs.insert(0, before);
    RollbackRuns { runs, head }
}

impl Deciding<'_> {
    /// Whether nothing runs and nothing is being taken back.
    pub(crate) fn check_rests(&self) -> Result<(), Refusal> {
        let state = &self.draft.state;
        if let Some(active) = &state.active {
            return Err(Refusal::UnfitRun {
                run: active.id,
                unfit: Unfit::GoesOn,
            });
        }
        if state.rollback.is_some() {
            return Err(busy("runs are being taken back"));
        }
        if state.import == Some(Import::Reading) {
            return Err(busy("what was said before is being read"));
        }
        Ok(())
    }

    pub(crate) fn rollback(&mut self, before: RunId, last: RunId) -> Result<Verdict, Refusal> {
        self.check_rests()?;
        let now = self.draft.state.last_run.map(|run| run.id);
        if now != Some(last) {
            return Err(Refusal::Stale {
                what: StaleWhat::LastRun { now },
            });
        }
        let found = self.lookups.rollback.as_deref();
        let Some((found, first)) = found.and_then(|found| {
            let first = found.runs.first().filter(|run| run.id == before)?;
            Some((found, first))
        }) else {
            return Err(Refusal::UnknownRun { run: before });
        };
        // Whether the agent took it up does not matter: then there is nothing for it to forget.
        check_run(first, true)?;
        if found.runs.len() > limits::ROLLED_BACK {
            return Err(invalid(
                "before",
                format!(
                    "more than {} runs began since; take them back in steps",
                    limits::ROLLED_BACK
                ),
            ));
        }
        if let Service::Refused(row) =
            degrade::serve(Feature::Rollback, &self.draft.state, self.policy)
        {
            return Err(row.refusal());
        }
        let runs: Vec<RunId> = found.runs.iter().map(|run| run.id).collect();
        let head = found.head.as_ref().and_then(|run| {
            Some(EndedRun {
                id: run.id,
                ordinal: run.ordinal?,
                status: run.status,
            })
        });
        self.draft.emit(Event::RollbackRequested {
            before,
            runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            actor: self.actor,
        });
        self.draft.effect(
            self.command.id.derive("effect"),
            EffectKind::Revert { before, runs, head },
        );
        Ok(accepted())
    }
}
