//! Reads what an effect takes, at the moment its turn has come.

use crate::{
    plan::{Conversation, ForkPlan, OpenPlan, Plan, SendPlan},
    work::Work,
};
use pilothouse_domain::{
    AttemptId, Body, Effect, EffectKind, Incarnation, MessageId, NativeId, ProviderTurnId,
    RequestStatus, Row, RunId, Subject, ThreadId, ThreadState,
    binding::BindingKey,
    event::HoldReason,
    limits,
    row::RowKind,
    state::{AttemptSlot, Import},
    thread::Relationship,
    transfer::TransferKind,
};
use pilothouse_store::{LedgerReads, StoreError};
use std::path::PathBuf;

impl Work {
    /// What doing an effect takes; [`Plan::Gone`] if what it was for is over.
    pub(crate) fn plan(
        &mut self,
        reads: &LedgerReads,
        thread: ThreadId,
        effect: &Effect,
    ) -> Result<Plan, StoreError> {
        self.load(reads, thread)?;
        let Some(state) = self.cell(thread).map(|cell| &cell.state) else {
            return Ok(Plan::Gone);
        };
        let plan = match &effect.kind {
            EffectKind::SendTurn {
                run,
                attempt,
                message,
            } => {
                if current(state, *run, *attempt).is_none() {
                    return Ok(Plan::Gone);
                }
                let send = self.send(reads, state, *message)?;
                self.hand_over(effect.id);
                send.map(Plan::Send)
            }
            EffectKind::Steer {
                run,
                attempt,
                turn,
                message,
            } => {
                let text = self.message(reads, thread, *message)?;
                match (
                    current(state, *run, *attempt),
                    live(state),
                    native_turn(reads, *turn)?,
                    text,
                ) {
                    (Some(_), Some(incarnation), Some((thread, turn)), Some((text, _))) => {
                        Some(Plan::Steer {
                            incarnation,
                            thread,
                            turn,
                            message: *message,
                            text,
                        })
                    }
                    _ => None,
                }
            }
            EffectKind::Interrupt { run, attempt, turn } => {
                let slot = current(state, *run, *attempt);
                let turn = turn.or(slot.and_then(|slot| slot.turn));
                let native = turn
                    .map(|turn| native_turn(reads, turn))
                    .transpose()?
                    .flatten();
                let plan = match (slot, live(state)) {
                    (Some(_), Some(incarnation)) => Some(Plan::Interrupt {
                        incarnation,
                        turn: native,
                        run: *run,
                        attempt: *attempt,
                    }),
                    (Some(_), None) => Some(Plan::NotYet),
                    (None, _) => None,
                };
                if matches!(plan, Some(Plan::Interrupt { .. })) {
                    self.hand_over(effect.id);
                }
                plan
            }
            EffectKind::Revert { before, runs, .. } => {
                if state.rollback != Some(*before) {
                    return Ok(Plan::Gone);
                }
                let turns = named_turns(reads, thread, runs)?;
                self.open(reads, state)?
                    .map(|open| Plan::Revert { open, turns })
            }
            EffectKind::Import => {
                if state.import != Some(Import::Reading) {
                    return Ok(Plan::Gone);
                }
                let again = state
                    .provider_threads
                    .iter()
                    .any(|slot| Some(slot.id) == state.provider_thread && slot.coverage > 0);
                self.open(reads, state)?
                    .map(|open| Plan::Import { open, again })
            }
            EffectKind::Compact { run, attempt } => {
                if current(state, *run, *attempt).is_none() {
                    return Ok(Plan::Gone);
                }
                self.open(reads, state)?.map(Plan::Compact)
            }
            EffectKind::SignIn => {
                if state.held != Some(HoldReason::SignIn) {
                    return Ok(Plan::Gone);
                }
                self.open(reads, state)?.map(Plan::SignIn)
            }
            EffectKind::Respond { request, answer } => {
                let key = reads.native_request_of(*request)?;
                let row = reads.row(thread, RowKind::Request.key(request.as_bytes()))?;
                if let Some(Row::Request(row)) = &row
                    && let RequestStatus::Answering { at_ms, .. } = row.status
                    && self.now_ms().saturating_sub(at_ms) > limits::ANSWER_EXPIRES_MS
                {
                    return Ok(Plan::Impossible {
                        problem: format!(
                            "the agent was not reached for {} minutes after the answer was given: it was not sent; answer again",
                            limits::ANSWER_EXPIRES_MS / 60_000
                        ),
                    });
                }
                match (key, row) {
                    (
                        Some(BindingKey::Request {
                            incarnation,
                            thread,
                            request: native,
                            ..
                        }),
                        Some(Row::Request(row)),
                    ) if matches!(row.status, RequestStatus::Answering { .. }) => {
                        Some(Plan::Respond {
                            incarnation,
                            thread,
                            native,
                            kind: row.kind,
                            subject: Box::new(
                                pilothouse_json::from_str::<Subject>(&row.subject)
                                    .unwrap_or_default(),
                            ),
                            answer: answer.clone(),
                        })
                    }
                    _ => None,
                }
            }
        };
        Ok(plan.unwrap_or(Plan::Gone))
    }

    fn send(
        &self,
        reads: &LedgerReads,
        state: &ThreadState,
        message: MessageId,
    ) -> Result<Option<SendPlan>, StoreError> {
        let Some((text, attachments)) = self.message(reads, state.thread, message)? else {
            return Ok(None);
        };
        Ok(self.open(reads, state)?.map(|open| SendPlan {
            open,
            message,
            text,
            attachments,
        }))
    }

    fn open(
        &self,
        reads: &LedgerReads,
        state: &ThreadState,
    ) -> Result<Option<OpenPlan>, StoreError> {
        let Some(meta) = &state.meta else {
            return Ok(None);
        };
        let conversation = conversation(reads, state)?;
        let fork = match conversation {
            None => fork(reads, state)?,
            Some(_) => None,
        };
        Ok(Some(OpenPlan {
            workspace: meta.workspace.clone(),
            cwd: self
                .workspaces
                .get(&meta.workspace)
                .cloned()
                .unwrap_or_else(PathBuf::new),
            selection: meta.selection.clone(),
            conversation,
            fork,
            session: live(state),
        }))
    }

    fn message(
        &self,
        reads: &LedgerReads,
        thread: ThreadId,
        message: MessageId,
    ) -> Result<Option<(String, Vec<pilothouse_domain::thread::Attachment>)>, StoreError> {
        let Some(Row::Message(row)) =
            reads.row(thread, RowKind::Message.key(message.as_bytes()))?
        else {
            return Ok(None);
        };
        let text = match row.text {
            Body::Inline(text) => text,
            Body::Stored(stored) => {
                let bytes = reads
                    .blob(stored.hash, 0, stored.bytes as usize)?
                    .unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        Ok(Some((text, row.attachments)))
    }
}

/// The thread's own native conversation.
pub(crate) fn conversation(
    reads: &LedgerReads,
    state: &ThreadState,
) -> Result<Option<Conversation>, StoreError> {
    let Some(id) = state.provider_thread else {
        return Ok(None);
    };
    // A fork's conversation holds its source's runs before any of its own.
    let is_fork = state
        .meta
        .as_ref()
        .and_then(|meta| meta.lineage)
        .is_some_and(|lineage| lineage.relationship == Relationship::Fork);
    let has_history = is_fork
        || state.import.is_some()
        || state
            .provider_threads
            .iter()
            .any(|slot| slot.id == id && slot.coverage > 0);
    Ok(match reads.native_thread_of(id)? {
        Some(BindingKey::Thread { thread: native }) => Some(Conversation {
            native,
            has_history,
        }),
        _ => None,
    })
}

/// The point at which a fork begins that its agent has not made yet.
fn fork(reads: &LedgerReads, state: &ThreadState) -> Result<Option<ForkPlan>, StoreError> {
    let pending = state
        .transfers
        .iter()
        .find(|slot| slot.kind == TransferKind::Fork);
    let Some(slot) = pending else {
        return Ok(None);
    };
    let (source, mut plan) = (slot.source, ForkPlan::default());
    let Some(run) = slot.run else {
        return Ok(Some(plan));
    };
    let attempt = match reads.row(source, RowKind::Run.key(run.as_bytes()))? {
        Some(Row::Run(row)) => row.attempt,
        _ => None,
    };
    let attempt = attempt
        .map(|attempt| reads.row(source, RowKind::Attempt.key(attempt.as_bytes())))
        .transpose()?
        .flatten();
    let Some(Row::Attempt(attempt)) = attempt else {
        return Ok(Some(plan));
    };
    if let Some(conversation) = attempt.provider_thread
        && let Some(BindingKey::Thread { thread }) = reads.native_thread_of(conversation)?
    {
        plan.source = Some(thread);
    }
    if let Some(turn) = attempt.turn {
        plan.through = native_turn(reads, turn)?.map(|(_, turn)| turn);
    }
    let now = reads.snapshot(source)?.state;
    // What a run that goes on has said so far stands in the conversation as well.
    plan.whole = now.active.is_none() && now.last_run.is_some_and(|last| last.id == run);
    Ok(Some(plan))
}

/// The turns of these runs in the agent's own words, in their order: not those that it never named.
fn named_turns(
    reads: &LedgerReads,
    thread: ThreadId,
    runs: &[RunId],
) -> Result<Vec<NativeId>, StoreError> {
    let mut turns = Vec::new();
    for run in runs {
        for attempt in reads.attempts_of(thread, *run)? {
            if let Some(turn) = attempt.turn
                && let Some((_, native)) = native_turn(reads, turn)?
            {
                turns.push(native);
            }
        }
    }
    Ok(turns)
}

/// The attempt, if it is still the one that counts and goes on.
fn current(state: &ThreadState, run: RunId, attempt: AttemptId) -> Option<&AttemptSlot> {
    let active = state
        .active
        .as_ref()
        .filter(|active| active.id == run && active.barrier.is_none())?;
    active
        .attempt
        .as_ref()
        .filter(|slot| slot.id == attempt && !slot.status.is_terminal())
}

fn live(state: &ThreadState) -> Option<Incarnation> {
    state
        .session
        .as_ref()
        .filter(|session| session.live)
        .map(|session| session.incarnation)
}

fn native_turn(
    reads: &LedgerReads,
    turn: ProviderTurnId,
) -> Result<Option<(NativeId, NativeId)>, StoreError> {
    Ok(match reads.native_turn_of(turn)? {
        Some(BindingKey::Turn { thread, turn }) => Some((thread, turn)),
        _ => None,
    })
}
