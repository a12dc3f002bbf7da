//! The loss of a runtime.

use super::{Ingesting, WORDS, cut};
use crate::{Bindings, Ingested, draft::user_item};
use pilothouse_domain::{
    Event, ItemContent, ItemStatus, MessageId, Row, ThreadState,
    command::{Notice, NoticeKind},
    ids::IdMint,
    provider::{ProviderThreadStatus, SessionStatus, TurnEnd, TurnStatus},
    request::{LostReason, RequestStatus},
    row::RowKind,
    run::{AttemptStatus, Correlation, ErrorCode, NodeKind, NodeStatus, RunError},
    thread::Delivery,
};

/// Closes what the loss of a thread's runtime leaves open: items keep what was streamed, answers on their way are kept
/// as *may have been delivered*, the run ends as interrupted. Also at boot, for a process that died with the daemon.
pub fn runtime_lost(
    state: &ThreadState,
    bindings: &dyn Bindings,
    reason: LostReason,
    detail: &str,
    mint: &mut IdMint,
) -> Ingested {
    let mut ingesting = Ingesting::new(state, bindings, None, mint);
    ingesting.lose_runtime(reason, detail);
    ingesting.done()
}

/// Items in a row that say how an attempt was asked to stop: once, and once more where a restart was to follow, each with its
/// five steps at most. Who asks again after each that was not taken may make more of them; then its message stays as it was.
const MOST_STOPS: usize = 12;

impl Ingesting<'_> {
    pub(super) fn lose_runtime(&mut self, reason: LostReason, detail: &str) {
        let detail = cut(detail, WORDS);
        for slot in self.state().items.clone() {
            let streamed = self.streamed_body(&slot);
            self.emit(Event::ItemClosed {
                item: slot.id,
                status: ItemStatus::Unfinished,
                content: None,
                streamed,
            });
        }
        for slot in self.state().requests.clone() {
            let answer = self.recorded(&slot).map(|(answer, _)| answer);
            self.emit(Event::RequestClosed {
                request: slot.id,
                status: RequestStatus::Lost { reason, answer },
            });
            if slot.answering {
                let notice = Notice {
                    id: self.mint.mint(),
                    what: NoticeKind::DeliveryUnknown {
                        message: None,
                        request: Some(slot.id),
                    },
                };
                self.emit(Event::NoticeRaised { notice });
            }
        }
        for node in self.state().nodes.clone() {
            if node.kind != NodeKind::RootTurn {
                self.emit(Event::NodeStatusChanged {
                    node: node.id,
                    status: NodeStatus::Interrupted,
                });
            }
        }
        if let Some(turn) = self.active_turn().filter(|turn| !turn.ended) {
            if let Some(message) = self.unheard() {
                self.delivery_unknown(message);
            }
            if let Some(id) = turn.id {
                self.emit(Event::TurnEnded {
                    turn: id,
                    end: TurnEnd {
                        status: TurnStatus::Interrupted,
                        correlation: Correlation::Inferred,
                    },
                });
            }
            if let Some(attempt) = turn.attempt {
                let error = RunError {
                    code: ErrorCode::RuntimeLost,
                    message: detail.clone(),
                };
                self.end_attempt(
                    attempt,
                    AttemptStatus::Interrupted,
                    Correlation::Inferred,
                    Some(error),
                );
            }
        }
        for slot in self.state().provider_threads.clone() {
            if slot.status == ProviderThreadStatus::Ready {
                self.emit(Event::ProviderThreadStatusChanged {
                    provider_thread: slot.id,
                    status: ProviderThreadStatus::NotLoaded,
                });
            }
        }
        if let Some(session) = self.state().session.clone().filter(|session| session.live) {
            self.emit(Event::SessionStatusChanged {
                session: session.id,
                status: match reason {
                    LostReason::Stopped => SessionStatus::Stopped,
                    reason => SessionStatus::Error { reason, detail },
                },
            });
        }
    }

    /// The message of the active attempt, if nothing shows that it was read: an agent without turns of its own confirms
    /// none, so its message counts as delivered as soon as it is written, and this one has done nothing since. That somebody
    /// asked it to stop is not its doing.
    fn unheard(&self) -> Option<MessageId> {
        let state = self.state();
        let message = state.active.as_ref()?.attempt.as_ref()?.message?;
        let Some(Row::Item(item)) = self.row(RowKind::Item, user_item(message).as_bytes()) else {
            return None;
        };
        let Some(Row::Message(row)) = self.row(RowKind::Message, message.as_bytes()) else {
            return None;
        };
        let last = self.known.last_items(MOST_STOPS + 1);
        let silent = last
            .iter()
            .find(|last| !matches!(last.content, ItemContent::Interrupt { .. }))
            .is_some_and(|last| last.id == item.id);
        (!self.confirms_turns() && silent && row.delivery == Delivery::Started).then_some(message)
    }
}
