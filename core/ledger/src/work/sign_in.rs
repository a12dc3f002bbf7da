//! Agents whose sign-in was refused (docs/decisions/030). One refusal holds every thread of the agent that has something to
//! say to it; a thread that a person lets go on is the one that tries; once a turn of it ends well, or the agent
//! says that it is signed in, the others follow.
//!
//! What is held stands in each thread's own log. What is here is gathered from there, at boot and after each entry.

use super::Work;
use pilothouse_domain::{
    AgentName, Cause, Event, LoggedEvent, RunStatus, ThreadId, event::HoldReason, run::Origin,
};
use pilothouse_orchestrator::Decision;
use pilothouse_store::{LedgerReads, LedgerTx, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// Threads that wait for the sign-in of their agent.
#[derive(Default)]
pub(super) struct SignedOut {
    waiting: BTreeMap<AgentName, BTreeSet<ThreadId>>,
    /// Those that a person let go on all the same.
    trying: BTreeSet<ThreadId>,
    /// Agents that ended a turn well in this transaction.
    back: BTreeSet<AgentName>,
}

impl SignedOut {
    /// Where a thread stands now.
    fn note(&mut self, agent: &AgentName, thread: ThreadId, waits: bool) {
        if waits {
            self.trying.remove(&thread);
            self.waiting
                .entry(agent.clone())
                .or_default()
                .insert(thread);
        } else if let Some(threads) = self.waiting.get_mut(agent) {
            threads.remove(&thread);
            if threads.is_empty() {
                self.waiting.remove(agent);
            }
        }
    }
}

impl Work {
    /// Reads from the summaries which threads wait.
    pub(crate) fn find_signed_out(&mut self, reads: &LedgerReads) -> Result<(), StoreError> {
        for summary in reads.summaries_held(HoldReason::SignIn)? {
            self.signed_out.note(&summary.agent, summary.thread, true);
        }
        Ok(())
    }

    fn agent(&self, thread: ThreadId) -> Option<&AgentName> {
        let meta = self.state(thread)?.meta.as_ref()?;
        Some(&meta.selection.agent)
    }

    /// Whether the sign-in of a thread's agent was refused elsewhere, and this thread is not the one that tries.
    pub(super) fn is_signed_out(&self, thread: ThreadId) -> bool {
        !self.signed_out.trying.contains(&thread)
            && self.agent(thread).is_some_and(|agent| {
                let known = &self.signed_out;
                known.waiting.contains_key(agent) && !known.back.contains(agent)
            })
    }

    /// A person lets a thread go on: where it waits for the sign-in of its agent, it tries.
    pub(super) fn tries(&mut self, thread: ThreadId) {
        if self.state(thread).and_then(|state| state.held) == Some(HoldReason::SignIn) {
            self.signed_out.trying.insert(thread);
        }
    }

    /// Notes what an entry says of it; `before` it a run of that origin went on. One that nobody here began proves nothing: it
    /// may be years old, read back of a conversation, or another person's at the desk.
    pub(super) fn note_sign_in(
        &mut self,
        thread: ThreadId,
        before: Option<Origin>,
        events: &[LoggedEvent],
    ) {
        let Some(agent) = self.agent(thread).cloned() else {
            return;
        };
        for event in events {
            let LoggedEvent::Known(event) = event else {
                continue;
            };
            if let Event::RunEnded { status, .. } = event.as_ref()
                && before != Some(Origin::External)
            {
                self.signed_out.trying.remove(&thread);
                if *status == RunStatus::Completed && self.signed_out.waiting.contains_key(&agent) {
                    self.signed_out.back.insert(agent.clone());
                }
            }
        }
        let held = self.state(thread).and_then(|state| state.held);
        self.signed_out
            .note(&agent, thread, held == Some(HoldReason::SignIn));
    }

    /// The agent says itself that it is signed in.
    pub(super) fn signed_in(
        &mut self,
        tx: &mut LedgerTx<'_>,
        agent: &AgentName,
    ) -> Result<(), StoreError> {
        if self.signed_out.waiting.contains_key(agent) {
            self.signed_out.back.insert(agent.clone());
        }
        self.go_on_signed_in(tx)
    }

    /// Lets the threads of agents go on whose sign-in is back.
    pub(super) fn go_on_signed_in(&mut self, tx: &mut LedgerTx<'_>) -> Result<(), StoreError> {
        while let Some(agent) = self.signed_out.back.pop_first() {
            let threads = self.signed_out.waiting.remove(&agent).unwrap_or_default();
            for thread in threads {
                self.load(tx, thread)?;
                let decision = Decision {
                    events: vec![Event::QueueHeld { reason: None }],
                    ..Decision::default()
                };
                let cause = Cause::Internal {
                    name: "sign_in_back".into(),
                };
                self.append(tx, thread, cause, decision)?;
                self.settle(tx, thread)?;
            }
        }
        Ok(())
    }

    /// The transaction failed: these threads stand as before it.
    pub(super) fn sign_in_as_before(&mut self, threads: &[ThreadId]) {
        self.signed_out.back.clear();
        for thread in threads {
            self.note_sign_in(*thread, None, &[]);
        }
    }

    /// Holds a queue that would go on, because its agent's sign-in was refused.
    pub(super) fn hold_for_sign_in(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
    ) -> Result<(), StoreError> {
        let decision = Decision {
            events: vec![Event::QueueHeld {
                reason: Some(HoldReason::SignIn),
            }],
            ..Decision::default()
        };
        let cause = Cause::Internal {
            name: "hold_for_sign_in".into(),
        };
        self.append(tx, thread, cause, decision)
    }
}
