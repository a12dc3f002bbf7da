//! Threads whose agent's process outlived the host: what it did meanwhile is taken in, and what it does not wait for any more
//! is closed. Nothing is sent again, but for answers to requests that still wait, and stops of turns that go on.

use super::Work;
use crate::{
    planning::conversation,
    runtimes::SessionFacts,
    survivors::{Served, TakenUp},
};
use pilothouse_domain::{
    Cause, Effect, EffectKind, Event, Incarnation, MessageId, NativeId, ProviderEvent,
    ProviderEventKind, ThreadId,
    binding::{BindingKey, BindingTarget},
    policy::Contract,
    provider_event::{NativePlace, Resolution},
    request::{LostReason, RequestKind, RequestStatus},
    state::RequestSlot,
};
use pilothouse_orchestrator::{Ingested, Internal, decide_internal};
use pilothouse_store::{LedgerReads, LedgerTx, StoreError};
use std::path::PathBuf;

impl Work {
    /// The life of the process that a thread believes to be served by.
    pub(crate) fn live_incarnation(
        &mut self,
        reads: &LedgerReads,
        thread: ThreadId,
    ) -> Result<Option<Incarnation>, StoreError> {
        self.load(reads, thread)?;
        let session = self.state(thread).and_then(|state| state.session.as_ref());
        Ok(session
            .filter(|session| session.live)
            .map(|session| session.incarnation))
    }

    /// What it takes to go on with a thread.
    pub(crate) fn served(
        &mut self,
        reads: &LedgerReads,
        thread: ThreadId,
    ) -> Result<Option<Served>, StoreError> {
        self.load(reads, thread)?;
        let Some(state) = self.state(thread) else {
            return Ok(None);
        };
        let Some(meta) = &state.meta else {
            return Ok(None);
        };
        let mut requests = Vec::new();
        for slot in &state.requests {
            if let Some(BindingKey::Request { request, .. }) = reads.native_request_of(slot.id)? {
                requests.push(request);
            }
        }
        Ok(Some(Served {
            thread,
            workspace: meta.workspace.clone(),
            cwd: self
                .workspaces
                .get(&meta.workspace)
                .cloned()
                .unwrap_or_else(PathBuf::new),
            selection: meta.selection.clone(),
            conversation: conversation(reads, state)?,
            requests,
        }))
    }

    /// Compares a thread with its process.
    pub(super) fn take_up(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        facts: &SessionFacts,
        taken_up: &TakenUp,
    ) -> Result<(), StoreError> {
        self.load(tx, thread)?;
        let (reason, happened) = match facts.elsewhere {
            true => (
                LostReason::AgentExited,
                "the connection with its agent was made anew",
            ),
            false => (LostReason::HostRestarted, "the host was restarted"),
        };
        let past = match &taken_up.past {
            Ok(past) => past,
            Err(why) => {
                let detail =
                    format!("{happened}, and its conversation could not be taken up again: {why}");
                return self.thread_lost(tx, thread, reason, &detail);
            }
        };
        // Whether what is read back was asked for was not seen here.
        let read_back = &SessionFacts {
            contract: Contract::default(),
            ..facts.clone()
        };
        if let Some(turn) = self.own_turn(tx, thread, facts, &past.conversation, &past.events)? {
            let of_turn = |event: &&ProviderEvent| event.place.turn.as_ref() == Some(&turn);
            for event in past.events.iter().filter(of_turn) {
                self.ingest(tx, thread, read_back, event)?;
            }
        }
        self.take_history(tx, thread, facts, past)?;
        let waits = self
            .state(thread)
            .and_then(|state| state.active.as_ref()?.attempt.as_ref())
            .filter(|attempt| attempt.turn.is_none() && !attempt.status.is_terminal())
            .map(|attempt| attempt.id);
        let says = |kind: &EffectKind| matches!(kind, EffectKind::SendTurn { attempt, .. } if Some(*attempt) == waits);
        if waits.is_some() && !self.is_yet_to_come(tx, says)? {
            let detail = format!("{happened} before the agent had taken the message");
            return self.thread_lost(tx, thread, reason, &detail);
        }
        if let Some(pending) = &taken_up.pending {
            self.close_answered(tx, thread, facts, pending, reason)?;
        }
        self.stop_again(tx, thread, happened)
    }

    /// Has the agent asked again to stop what it was asked to stop before: whether it heard of that is not known, and who would
    /// have seen that it goes on all the same went with the host or the connection.
    fn stop_again(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        happened: &str,
    ) -> Result<(), StoreError> {
        let Some(state) = self.state(thread) else {
            return Ok(());
        };
        let Some((active, slot)) = state.active.as_ref().and_then(|active| {
            let slot = active.attempt.as_ref()?;
            let goes_on = active.barrier.is_none() && !slot.status.is_terminal();
            (goes_on && active.interrupting == Some(slot.id)).then_some((active, slot))
        }) else {
            return Ok(());
        };
        let kind = EffectKind::Interrupt {
            run: active.id,
            attempt: slot.id,
            turn: slot.turn,
        };
        let same = |other: &EffectKind| matches!(other, EffectKind::Interrupt { attempt, .. } if *attempt == slot.id);
        if self.is_yet_to_come(tx, same)? {
            return Ok(());
        }
        let mut mint = self.mint(thread);
        let step = Internal::InterruptStep {
            step: "protocol",
            note: format!("{happened}, and it still worked: it is asked to stop again"),
        };
        let mut decision = decide_internal(state, &step, &mut mint);
        let id = mint.mint();
        decision.effects.push(Effect { id, kind });
        self.append(tx, thread, Cause::Clock, decision)
    }

    /// Whether an effect waits that is not in the hands of the agent's adapter: it was put while the process was taken up.
    fn is_yet_to_come(
        &self,
        reads: &LedgerReads,
        wanted: impl Fn(&EffectKind) -> bool,
    ) -> Result<bool, StoreError> {
        let unfinished = reads.unfinished_effects()?;
        Ok(unfinished
            .iter()
            .any(|stored| wanted(&stored.effect.kind) && !self.handed.contains(&stored.effect.id)))
    }

    /// The native turn of the attempt that goes on: the one that is bound to it, or that its message began.
    fn own_turn(
        &self,
        tx: &LedgerTx<'_>,
        thread: ThreadId,
        facts: &SessionFacts,
        conversation: &NativeId,
        events: &[ProviderEvent],
    ) -> Result<Option<NativeId>, StoreError> {
        let Some(attempt) = self
            .state(thread)
            .and_then(|state| state.active.as_ref()?.attempt.as_ref())
            .filter(|attempt| !attempt.status.is_terminal())
        else {
            return Ok(None);
        };
        for event in events {
            let Some(turn) = &event.place.turn else {
                continue;
            };
            let key = BindingKey::Turn {
                thread: conversation.clone(),
                turn: turn.clone(),
            };
            let bound = tx.binding(facts.agent.as_str(), &key)?;
            let ours = match bound {
                Some((_, BindingTarget::Turn { attempt: of, .. })) => of == attempt.id,
                Some(_) => false,
                None => {
                    attempt.turn.is_none()
                        && attempt.message.is_some()
                        && message_of(event) == attempt.message
                }
            };
            if ours {
                return Ok(Some(turn.clone()));
            }
        }
        Ok(None)
    }

    /// Closes the requests that the agent does not wait for any more: with an answer on its way it counts as given, the others
    /// are lost (DETAILS section 3).
    fn close_answered(
        &mut self,
        tx: &mut LedgerTx<'_>,
        thread: ThreadId,
        facts: &SessionFacts,
        pending: &[NativeId],
        reason: LostReason,
    ) -> Result<(), StoreError> {
        let open: Vec<RequestSlot> = self
            .state(thread)
            .map(|state| {
                let slots = state.requests.iter();
                slots.copied().collect()
            })
            .unwrap_or_default();
        for slot in open {
            let Some(BindingKey::Request {
                thread: native,
                turn,
                request,
                ..
            }) = tx.native_request_of(slot.id)?
            else {
                continue;
            };
            if pending.contains(&request) {
                continue;
            }
            // How that ended the agent told nobody, and it does not say so again.
            if slot.kind == RequestKind::Auth || !slot.answering {
                let status = RequestStatus::Lost {
                    reason,
                    answer: None,
                };
                let closed = Event::RequestClosed {
                    request: slot.id,
                    status,
                };
                let ingested = Ingested {
                    events: vec![closed],
                    ..Ingested::default()
                };
                let cause = Cause::Host {
                    fact: "request_lost".into(),
                };
                self.record(tx, thread, facts.agent.as_str(), cause, ingested)?;
                continue;
            }
            let event = ProviderEvent {
                place: NativePlace {
                    thread: Some(native),
                    root: None,
                    turn,
                },
                kind: ProviderEventKind::RequestClosed {
                    request,
                    resolution: Resolution::Unsaid,
                },
            };
            self.ingest(tx, thread, facts, &event)?;
        }
        Ok(())
    }
}

/// The message of ours that an event shows.
fn message_of(event: &ProviderEvent) -> Option<MessageId> {
    match &event.kind {
        ProviderEventKind::ItemClosed {
            client_id: Some(id),
            ..
        } => id.parse().ok(),
        _ => None,
    }
}
