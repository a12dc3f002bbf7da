//! What a person does with the queue as they saw it.

use crate::{
    Verdict,
    decide::{Deciding, accepted},
};
use pilothouse_domain::{Event, Refusal, RunId, event::HoldReason, refusal::StaleWhat};

impl Deciding<'_> {
    fn check_revision(&self, revision: u64) -> Result<(), Refusal> {
        let now = self.draft.state.queue_revision;
        if revision == now {
            return Ok(());
        }
        Err(Refusal::Stale {
            what: StaleWhat::QueueRevision { now },
        })
    }

    /// Takes a run out.
    pub(crate) fn remove(&mut self, run: RunId, revision: u64) -> Result<Verdict, Refusal> {
        self.check_revision(revision)?;
        if !self
            .draft
            .state
            .queue
            .iter()
            .any(|queued| queued.run == run)
        {
            return Err(Refusal::UnknownRun { run });
        }
        self.draft.emit(Event::RunDequeued {
            run,
            actor: self.actor,
        });
        let held = self.draft.state.held;
        if self.draft.state.queue.is_empty()
            && held.is_some_and(|reason| reason != HoldReason::SignIn)
        {
            self.draft.emit(Event::QueueHeld { reason: None });
        }
        Ok(accepted())
    }

    /// Lets it go on.
    pub(crate) fn release(&mut self, revision: u64) -> Result<Verdict, Refusal> {
        self.check_revision(revision)?;
        if self.draft.state.held.is_some() {
            self.draft.emit(Event::QueueHeld { reason: None });
        }
        Ok(accepted())
    }
}
