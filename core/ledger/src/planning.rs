//! Reads what an effect takes, at the moment its turn has come.

use crate::{
    plan::{Conversation, Plan, SendPlan},
    work::Work,
};
use pilothouse_domain::{
    AttemptId, Body, Effect, EffectKind, Incarnation, MessageId, NativeId, ProviderTurnId,
    RequestStatus, Row, RunId, Subject, ThreadId, ThreadState, binding::BindingKey, row::RowKind,
    state::AttemptSlot,
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
                self.send(reads, state, *message)?.map(Plan::Send)
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
                match (slot, live(state)) {
                    (Some(_), Some(incarnation)) => Some(Plan::Interrupt {
                        incarnation,
                        turn: native,
                        run: *run,
                        attempt: *attempt,
                    }),
                    (Some(_), None) => Some(Plan::NotYet),
                    (None, _) => None,
                }
            }
            EffectKind::Respond { request, answer } => {
                let key = reads.native_request_of(*request)?;
                let row = reads.row(thread, RowKind::Request.key(request.as_bytes()))?;
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
                                serde_json::from_str::<Subject>(&row.subject).unwrap_or_default(),
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
        let (Some(meta), Some((text, attachments))) =
            (&state.meta, self.message(reads, state.thread, message)?)
        else {
            return Ok(None);
        };
        Ok(Some(SendPlan {
            workspace: meta.workspace.clone(),
            cwd: self
                .workspaces
                .get(&meta.workspace)
                .cloned()
                .unwrap_or_else(PathBuf::new),
            selection: meta.selection.clone(),
            conversation: conversation(reads, state)?,
            session: live(state),
            message,
            text,
            attachments,
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
    let has_history = state
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
