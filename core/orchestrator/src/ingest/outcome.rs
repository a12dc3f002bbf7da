//! `ingest_outcome`: what came of an effect.

use super::{Ingesting, SessionContext, WORDS, cut};
use crate::{Bindings, Ingested, answer::masked, apply::STEP_REFUSED};
use pilothouse_domain::{
    Answer, AttemptId, CapabilityFlag, CapabilityValue, DispatchMode, Effect, EffectKind,
    EffectOutcome, Event, ItemContent, ItemStatus, MessageId, NativeId, RequestId, RequestStatus,
    Row, RunId, Subject, ThreadState,
    binding::BindingKey,
    command::{Notice, NoticeKind},
    event::{HoldReason, Skippable},
    ids::IdMint,
    provider::TurnStatus,
    provider_event::NativePlace,
    request::AnswerDelivery,
    row::RowKind,
    run::{AttemptStatus, Correlation, ErrorCode, RunError},
    state::Cap,
    thread::Delivery,
};

/// Turns what came of an effect into facts. The order of an effect's outcome and of the agent's own events does not
/// matter: both give the same state.
///
/// For [`EffectKind::Respond`], `Written` means that the agent cannot confirm and closes the request; where it confirms
/// by an event of its own, the ledger says `Acknowledged`, and the event closes it. For [`EffectKind::Interrupt`], `Written`
/// means that the agent was gone before it answered: it counts as asked for, and where the agent goes on the ledger asks again.
pub fn ingest_outcome(
    state: &ThreadState,
    bindings: &dyn Bindings,
    session: Option<&SessionContext>,
    effect: &Effect,
    outcome: &EffectOutcome,
    mint: &mut IdMint,
) -> Ingested {
    let mut ingesting = Ingesting::new(state, bindings, session, mint);
    match &effect.kind {
        EffectKind::SendTurn {
            run,
            attempt,
            message,
        } => ingesting.sent_turn(*run, *attempt, *message, outcome),
        EffectKind::Steer { run, message, .. } => ingesting.steered(*run, *message, outcome),
        EffectKind::Interrupt { run, attempt, .. } => {
            ingesting.interrupted(*run, *attempt, outcome);
        }
        EffectKind::Respond { request, answer } => {
            ingesting.responded(*request, answer, outcome);
        }
        EffectKind::Revert { before, runs, head } => {
            ingesting.reverted(*before, runs, *head, outcome);
        }
        EffectKind::Import => ingesting.imported(outcome),
        EffectKind::Compact { run, attempt } => ingesting.compacted(*run, *attempt, outcome),
        EffectKind::SignIn => ingesting.sign_in_begun(outcome),
    }
    ingesting.done()
}

impl Ingesting<'_> {
    fn sent_turn(
        &mut self,
        run: RunId,
        attempt: AttemptId,
        message: MessageId,
        outcome: &EffectOutcome,
    ) {
        let waits = self
            .active_turn()
            .is_some_and(|turn| turn.attempt == Some(attempt) && turn.id.is_none() && !turn.ended);
        match outcome {
            EffectOutcome::TurnAccepted {
                native_thread,
                native_turn,
            } => {
                self.turn_accepted(attempt, waits, native_thread, native_turn.as_ref());
                if !waits && self.confirms_turns() {
                    self.delivered(message);
                } else if !waits {
                    // Written to an agent that died before it had shown that it read it.
                    self.unknown_delivery(message);
                }
            }
            EffectOutcome::Failed { error } => {
                if let Some(turn) = self.active_turn().filter(|_| waits) {
                    self.undelivered(message, error);
                    self.close_turn(turn.spot, TurnStatus::Failed);
                    self.end_attempt(
                        attempt,
                        AttemptStatus::Failed,
                        Correlation::Inferred,
                        Some(error.clone()),
                    );
                } else {
                    // Its attempt is over; that the message never left is true all the same.
                    self.not_sent(message, error);
                    self.error_in(run, error);
                }
            }
            EffectOutcome::Unknown => self.unknown_delivery(message),
            // Its attempt had ended before the message could be handed over.
            EffectOutcome::TurnEnded => {
                let error = RunError {
                    code: ErrorCode::Agent,
                    message: "its run was stopped before the agent was given it".to_owned(),
                };
                self.not_sent(message, &error);
            }
            // The agent put it into a turn that was going on: that turn's events come as those of this attempt.
            EffectOutcome::Steered => self.delivered(message),
            EffectOutcome::Acknowledged
            | EffectOutcome::Written
            | EffectOutcome::Compacted { .. } => {}
        }
    }

    pub(super) fn turn_accepted(
        &mut self,
        attempt: AttemptId,
        waits: bool,
        native_thread: &NativeId,
        native_turn: Option<&NativeId>,
    ) {
        let place = NativePlace {
            thread: Some(native_thread.clone()),
            root: None,
            turn: native_turn.cloned(),
        };
        let Some(conversation) = self.conversation(&place) else {
            return;
        };
        self.loaded(conversation.id, None);
        if !waits {
            return;
        }
        let key = native_turn.map(|turn| BindingKey::Turn {
            thread: native_thread.clone(),
            turn: turn.clone(),
        });
        if key.as_ref().is_some_and(|key| self.target(key).is_some()) {
            return;
        }
        self.bind_turn(attempt, conversation.id, key.as_ref());
    }

    fn steered(&mut self, run: RunId, message: MessageId, outcome: &EffectOutcome) {
        match outcome {
            EffectOutcome::Steered
            | EffectOutcome::Acknowledged
            | EffectOutcome::Written
            | EffectOutcome::Compacted { .. }
            | EffectOutcome::TurnAccepted { .. } => self.delivered(message),
            EffectOutcome::TurnEnded => self.steer_missed(run, message),
            EffectOutcome::Failed { error } => {
                self.undelivered(message, error);
                self.error_in(run, error);
            }
            EffectOutcome::Unknown => self.unknown_delivery(message),
        }
    }

    /// The turn was over when the words came: they wait at the head of the queue for their person.
    fn steer_missed(&mut self, run: RunId, message: MessageId) {
        let state = self.state();
        let kept_already = state.queue.iter().any(|queued| queued.message == message);
        if kept_already || self.is_read(message) {
            return;
        }
        if state.is_full(Cap::Queue) {
            let error = RunError {
                code: ErrorCode::Agent,
                message: "the turn had ended, and the queue is full".to_owned(),
            };
            self.undelivered(message, &error);
            return;
        }
        let kept: RunId = self.mint.mint();
        self.draft.keep_missed(
            kept,
            message,
            DispatchMode::SteerActive { run },
            HoldReason::SteerMissed,
        );
        let notice = Notice {
            id: self.mint.mint(),
            what: NoticeKind::SteerMissed { message },
        };
        self.emit(Event::NoticeRaised { notice });
    }

    fn interrupted(&mut self, run: RunId, attempt: AttemptId, outcome: &EffectOutcome) {
        let concerns = self
            .active_turn()
            .is_some_and(|turn| turn.attempt == Some(attempt) && turn.spot.run == run);
        if !concerns {
            return;
        }
        let note = match outcome {
            EffectOutcome::Failed { error } => {
                let said = cut(&error.message, WORDS);
                format!("the agent did not take it: {said}")
            }
            EffectOutcome::Unknown => "the agent was lost before it answered".to_owned(),
            taken => {
                let note = match taken {
                    EffectOutcome::TurnEnded => "the turn had ended already",
                    EffectOutcome::Written => {
                        "the agent was gone before it answered; where it goes on, it is asked again"
                    }
                    _ => "the agent acknowledged",
                };
                // Nothing to show: the end follows, or the next step.
                return self.emit(Event::InterruptStep {
                    run,
                    step: "protocol".to_owned(),
                    note: note.to_owned(),
                });
            }
        };
        let item = self.mint.mint();
        self.draft.interrupt_step(STEP_REFUSED, note, item);
    }

    fn responded(&mut self, request: RequestId, sent: &Answer, outcome: &EffectOutcome) {
        let Some(slot) = self.state().request(request).copied() else {
            return;
        };
        let Some((answer, by)) = self.recorded(&slot) else {
            return;
        };
        // The outcome of an earlier answer says nothing of the one that is on its way now.
        let row = self.known.request(request);
        let subject: Subject = row
            .and_then(|row| pilothouse_json::from_str(&row.subject).ok())
            .unwrap_or_default();
        if masked(&subject.questions, sent) != answer {
            return;
        }
        match outcome {
            EffectOutcome::Written => {
                self.emit(Event::RequestClosed {
                    request,
                    status: RequestStatus::Answered {
                        answer: Some(answer),
                        by: Some(by),
                        delivery: AnswerDelivery::Written,
                        at_ms: 0,
                    },
                });
            }
            EffectOutcome::TurnEnded => self.emit(Event::RequestClosed {
                request,
                status: RequestStatus::Withdrawn,
            }),
            EffectOutcome::Failed { error } => {
                // It did not reach the agent, which still waits: the same request, to be answered anew.
                if let Some(mut row) = self.known.request(request) {
                    row.status = RequestStatus::Pending;
                    let run = row.run;
                    self.emit(Event::RequestOpened {
                        request: Box::new(row),
                    });
                    if let Some(run) = run {
                        self.error_in(run, error);
                    }
                }
            }
            EffectOutcome::Unknown => {
                let notice = Notice {
                    id: self.mint.mint(),
                    what: NoticeKind::DeliveryUnknown {
                        message: None,
                        request: Some(request),
                    },
                };
                self.emit(Event::NoticeRaised { notice });
            }
            _ => {}
        }
    }

    /// The request that the agent opened says it if it began.
    fn sign_in_begun(&mut self, outcome: &EffectOutcome) {
        let message = match outcome {
            EffectOutcome::Failed { error } => {
                format!("it was not begun: {}", error.message)
            }
            EffectOutcome::Unknown => {
                "the agent did not say whether it was begun; ask again".to_owned()
            }
            _ => return,
        };
        self.sign_in_failed(&message);
    }

    pub(super) fn sign_in_failed(&mut self, message: &str) {
        self.emit(Event::SignInFailed {
            problem: cut(message, WORDS),
            skippable: Skippable,
        });
    }

    fn undelivered(&mut self, message: MessageId, error: &RunError) {
        self.emit(Event::MessageDelivery {
            message,
            delivery: Delivery::Failed {
                reason: cut(&error.message, WORDS),
            },
        });
    }

    /// Whether an accepted turn is one that the agent has confirmed, not only one that was written to it.
    pub(super) fn confirms_turns(&self) -> bool {
        let session = self.state().session.as_ref();
        session.is_none_or(|session| {
            session.capabilities.value(CapabilityFlag::NativeTurnIds) != CapabilityValue::No
        })
    }

    /// A message that did not leave, unless the agent's own events say that it has it.
    fn not_sent(&mut self, message: MessageId, error: &RunError) {
        if !self.is_read(message) {
            self.undelivered(message, error);
        }
    }

    fn is_read(&self, message: MessageId) -> bool {
        matches!(
            self.row(RowKind::Message, message.as_bytes()),
            Some(Row::Message(row)) if row.delivery == Delivery::Started
        )
    }

    fn unknown_delivery(&mut self, message: MessageId) {
        if !self.is_read(message) {
            self.delivery_unknown(message);
        }
    }

    /// Nobody can say whether a message arrived: its person is told.
    pub(super) fn delivery_unknown(&mut self, message: MessageId) {
        self.emit(Event::MessageDelivery {
            message,
            delivery: Delivery::Unknown,
        });
        let notice = Notice {
            id: self.mint.mint(),
            what: NoticeKind::DeliveryUnknown {
                message: Some(message),
                request: None,
            },
        };
        self.emit(Event::NoticeRaised { notice });
    }

    pub(super) fn error_in(&mut self, run: RunId, error: &RunError) {
        let Some(spot) = self
            .active_turn()
            .map(|turn| turn.spot)
            .filter(|spot| spot.run == run)
        else {
            return;
        };
        let id = self.mint.mint();
        self.open_item(
            id,
            spot,
            ItemContent::Error {
                code: error.code,
                message: error.message.clone(),
                will_retry: false,
            },
            ItemStatus::Failed,
        );
    }
}
