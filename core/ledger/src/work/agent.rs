//! What agents do: routed to its thread, ingested and recorded.

use super::{Work, agent_of};
use crate::{bindings::View, escalation, runtimes::SessionFacts, threads::ThreadCell};
use pilothouse_domain::{
    AttemptId, Cause, Effect, EffectOutcome, Event, Incarnation, NativeId, ProviderEvent,
    ProviderEventKind, RunId, SessionId, ThreadId, ThreadState,
    binding::{BindingKey, BindingTarget},
    hash,
    request::LostReason,
};
use pilothouse_orchestrator::{
    Decision, Ingested, Internal, STEP_REFUSED, SessionContext, decide_internal, ingest,
    ingest_outcome, runtime_lost,
};
use pilothouse_store::{LedgerTx, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Work {
    /// Finds the thread of an agent's event and takes it in.
    pub(super) fn route(
        &mut self,
        tx: &mut LedgerTx<'_>,
        facts: &SessionFacts,
        event: &ProviderEvent,
    ) -> Result<(), StoreError> {
        if let ProviderEventKind::SessionEnded { reason, detail } = &event.kind {
            self.change.done.ended.push(facts.incarnation);
            return self.runtime_lost(tx, facts.incarnation, *reason, detail);
        }
        let Some(home) = event.place.home() else {
            return match &event.kind {
                // The first one is told to each thread by the effect runner, as it is on the thread's model; so are later ones.
                kind @ (ProviderEventKind::SessionReady { .. }
                | ProviderEventKind::AbilitiesChanged) => {
                    let version = match kind {
                        ProviderEventKind::SessionReady { version, .. } => Some(version),
                        _ => None,
                    };
                    for thread in self.served_by(facts.incarnation) {
                        self.may_have_changed(thread, true, version.cloned());
                    }
                    Ok(())
                }
                ProviderEventKind::SignedIn => self.signed_in(tx, &facts.agent),
                ProviderEventKind::Limits { .. } => {
                    for thread in self.served_by(facts.incarnation) {
                        self.ingest(tx, thread, facts, event)?;
                    }
                    Ok(())
                }
                kind => {
                    tracing::debug!(agent = %facts.agent, ?kind, "an agent's event concerns no conversation");
                    Ok(())
                }
            };
        };
        match self.home_of(tx, facts, home)? {
            Some(thread) => self.ingest(tx, thread, facts, event),
            None => {
                self.change
                    .unrouted
                    .push((facts.incarnation, event.clone()));
                Ok(())
            }
        }
    }

    pub(super) fn home_of(
        &self,
        tx: &LedgerTx<'_>,
        facts: &SessionFacts,
        native: &NativeId,
    ) -> Result<Option<ThreadId>, StoreError> {
        let key = BindingKey::Thread {
            thread: native.clone(),
        };
        let found = tx.binding(facts.agent.as_str(), &key)?;
        Ok(found
            .filter(|(_, target)| matches!(target, BindingTarget::Thread { .. }))
            .map(|(thread, _)| thread))
    }

    /// Takes in what came for a conversation before it was bound.
    pub(super) fn route_early(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        facts: &SessionFacts,
    ) -> Result<(), StoreError> {
        let early = self
            .unrouted
            .get(&facts.incarnation)
            .cloned()
            .unwrap_or_default();
        let late = self
            .change
            .unrouted
            .iter()
            .filter(|(i, _)| *i == facts.incarnation)
            .map(|(_, e)| e.clone());
        let waiting: Vec<_> = early.into_iter().chain(late).collect();
        self.change
            .unrouted
            .retain(|(incarnation, _)| *incarnation != facts.incarnation);
        self.change.routed.push(facts.incarnation);
        for event in waiting {
            match event
                .place
                .home()
                .map(|home| self.home_of(tx, facts, home))
                .transpose()?
                .flatten()
            {
                Some(found) if found == thread => self.ingest(tx, thread, facts, &event)?,
                _ => self.change.unrouted.push((facts.incarnation, event)),
            }
        }
        Ok(())
    }

    pub(super) fn served_by(&self, incarnation: Incarnation) -> Vec<ThreadId> {
        let serves = |cell: &&ThreadCell| {
            cell.state
                .session
                .as_ref()
                .is_some_and(|session| session.live && session.incarnation == incarnation)
        };
        self.cells
            .values()
            .filter(serves)
            .map(ThreadCell::thread)
            .collect()
    }

    /// Whether no thread that a process serves has a run, an open request or background work.
    pub(crate) fn is_idle(&self, incarnation: Incarnation) -> bool {
        self.served_by(incarnation)
            .into_iter()
            .filter_map(|thread| self.state(thread))
            .all(has_nothing_to_do)
    }

    pub(crate) fn runtime_lost(
        &mut self,
        tx: &mut LedgerTx<'_>,
        incarnation: Incarnation,
        reason: LostReason,
        detail: &str,
    ) -> Result<(), StoreError> {
        for thread in self.served_by(incarnation) {
            self.thread_lost(tx, thread, reason, detail)?;
        }
        Ok(())
    }

    pub(crate) fn thread_lost(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        reason: LostReason,
        detail: &str,
    ) -> Result<(), StoreError> {
        let mut mint = self.mint(thread);
        let Some(cell) = self.cells.get(&thread) else {
            return Ok(());
        };
        let agent = agent_of(&cell.state);
        let ingested = {
            let view = View::new(tx, &agent, thread, &self.texts, &self.change.live);
            runtime_lost(&cell.state, &view, reason, detail, &mut mint)
        };
        self.record(
            tx,
            thread,
            &agent,
            Cause::Host {
                fact: "runtime_lost".into(),
            },
            ingested,
        )
    }

    pub(super) fn context(&self, thread: ThreadId, facts: &SessionFacts) -> SessionContext {
        let id = hash::id_bytes(&[thread.as_bytes(), facts.incarnation.as_bytes(), b"session"]);
        SessionContext {
            agent: facts.agent.clone(),
            family: facts.family.to_owned(),
            session: SessionId::from_bytes(id),
            incarnation: facts.incarnation,
            host_time_ms: self.clock.now_ms(),
            contract: facts.contract,
        }
    }

    pub(super) fn ingest(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        facts: &SessionFacts,
        event: &ProviderEvent,
    ) -> Result<(), StoreError> {
        self.load(tx, thread)?;
        let context = self.context(thread, facts);
        let mut mint = self.mint(thread);
        let ingested = {
            let Some(cell) = self.cells.get(&thread) else {
                return Ok(());
            };
            let view = View::new(
                tx,
                facts.agent.as_str(),
                thread,
                &self.texts,
                &self.change.live,
            );
            // A fault in ingest costs one frame, not the log (DESIGN section 4).
            let result = catch_unwind(AssertUnwindSafe(|| {
                ingest(&cell.state, &view, &context, event, &mut mint)
            }));
            result.unwrap_or_else(|_| {
                tracing::error!(%thread, kind = ?std::mem::discriminant(&event.kind), "ingest failed on an event");
                let detail = "an event of the agent could not be taken in; this is a fault of Pilothouse".into();
                Ingested { events: vec![Event::FrameUnreadable { detail }], ..Ingested::default() }
            })
        };
        let cause = Cause::Provider {
            session: context.session,
        };
        self.record(tx, thread, facts.agent.as_str(), cause, ingested)
    }

    pub(crate) fn outcome(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        effect: &Effect,
        facts: Option<&SessionFacts>,
        outcome: &EffectOutcome,
    ) -> Result<(), StoreError> {
        self.load(tx, thread)?;
        tx.effect_done(effect.id, outcome)?;
        self.handed.remove(&effect.id);
        let context = facts.map(|facts| self.context(thread, facts));
        let mut mint = self.mint(thread);
        let Some(cell) = self.cells.get(&thread) else {
            return Ok(());
        };
        let agent = facts.map_or_else(|| agent_of(&cell.state), |facts| facts.agent.0.clone());
        let ingested = {
            let view = View::new(tx, &agent, thread, &self.texts, &self.change.live);
            ingest_outcome(
                &cell.state,
                &view,
                context.as_ref(),
                effect,
                outcome,
                &mut mint,
            )
        };
        self.record(
            tx,
            thread,
            &agent,
            Cause::Effect { effect: effect.id },
            ingested,
        )
    }

    pub(super) fn record(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        agent: &str,
        cause: Cause,
        ingested: Ingested,
    ) -> Result<(), StoreError> {
        for binding in &ingested.bindings {
            tx.put_binding(agent, thread, binding)?;
        }
        let decision = Decision {
            events: ingested.events,
            effects: ingested.effects,
            ..Decision::default()
        };
        self.append(tx, thread, cause, decision)?;
        let seq = self.cells.get(&thread).map_or(0, |cell| cell.cursor.seq);
        self.change.live.extend(
            ingested
                .live
                .into_iter()
                .map(|live| (thread, seq, live.item, live.text)),
        );
        self.settle(tx, thread)
    }

    pub(super) fn escalate(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        run: RunId,
        attempt: AttemptId,
        incarnation: Incarnation,
        step: escalation::Step,
    ) -> Result<escalation::Verdict, StoreError> {
        let goes_on = self
            .state(thread)
            .and_then(|state| state.active.as_ref())
            .is_some_and(|active| {
                active.id == run
                    && active.barrier.is_none()
                    && active
                        .attempt
                        .as_ref()
                        .is_some_and(|slot| slot.id == attempt && !slot.status.is_terminal())
            });
        if !goes_on {
            return Ok(escalation::Verdict::Over);
        }
        let busy = |id: &ThreadId| {
            self.state(*id).is_some_and(|state| {
                !has_nothing_to_do(state) && !self.is_being_stopped(*id, state)
            })
        };
        let others: Vec<_> = self
            .served_by(incarnation)
            .into_iter()
            .filter(|id| *id != thread && busy(id))
            .collect();
        let internal = if others.is_empty() {
            Internal::InterruptStep {
                step: step.name,
                note: step.said.to_owned(),
            }
        } else {
            let names: Vec<_> = others.iter().map(ToString::to_string).collect();
            Internal::InterruptStep {
                // Then the stop can be asked for again, when the others are done.
                step: STEP_REFUSED,
                note: format!(
                    "the agent goes on, but its process also works on {}: not signalled; where that is stopped, too, it is ended",
                    names.join(", ")
                ),
            }
        };
        let mut mint = self.mint(thread);
        if let Some(state) = self.state(thread) {
            let decision = decide_internal(state, &internal, &mut mint);
            self.append(tx, thread, Cause::Clock, decision)?;
        }
        Ok(if others.is_empty() {
            escalation::Verdict::Proceed
        } else {
            self.unsignalled.insert(thread, attempt);
            escalation::Verdict::Shared(others)
        })
    }

    /// Whether the stop of what a thread does now waits for the threads that its process also works on: what ends the process
    /// does what was asked for.
    fn is_being_stopped(&self, thread: ThreadId, state: &ThreadState) -> bool {
        let slot = state
            .active
            .as_ref()
            .and_then(|active| active.attempt.as_ref());
        slot.is_some_and(|slot| self.unsignalled.get(&thread) == Some(&slot.id))
    }
}

/// Whether a thread has no run, takes none back, and has no open request and no background work.
fn has_nothing_to_do(state: &ThreadState) -> bool {
    state.rests() && state.requests.is_empty() && state.items.is_empty() && state.nodes.is_empty()
}
