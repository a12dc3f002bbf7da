//! A decision in the making: each event is folded into a copy of the state as it is emitted, so that what follows sees
//! it. The copy is made only when there is a first event.

use crate::{apply::apply, fork};
use pilothouse_domain::{
    AttemptId, DispatchMode, Effect, EffectId, EffectKind, Event, ItemContent, ItemId, ItemStatus,
    MessageId, NodeId, Position, RunId, RunStatus, ThreadState, TurnItem,
    event::{HoldReason, QueuePlace},
    hash,
    ids::MintedId,
    item::Body,
    run::{AttemptReason, BlockedOn, Origin},
};
use std::borrow::Cow;

/// The item of one of our own messages. Derived from the message, so that an echo finds it without a look-up and a
/// message that moves to another run takes its item along.
pub fn user_item(message: MessageId) -> ItemId {
    ItemId::from_minted(hash::id_bytes(&[message.as_bytes(), b"item"]))
}

pub(crate) struct Draft<'a> {
    pub(crate) state: Cow<'a, ThreadState>,
    pub(crate) events: Vec<Event>,
    pub(crate) effects: Vec<Effect>,
}

/// Ids of what the start of a run or attempt makes.
pub(crate) struct StartIds {
    pub(crate) attempt: AttemptId,
    pub(crate) node: NodeId,
    pub(crate) effect: EffectId,
}

/// A run about to start.
pub(crate) struct Start {
    pub(crate) run: RunId,
    pub(crate) message: MessageId,
    pub(crate) origin: Origin,
    pub(crate) dispatch: Option<DispatchMode>,
    pub(crate) supersedes: Option<RunId>,
    pub(crate) reason: AttemptReason,
}

impl<'a> Draft<'a> {
    pub(crate) fn on(state: &'a ThreadState) -> Self {
        Self {
            state: Cow::Borrowed(state),
            events: Vec::new(),
            effects: Vec::new(),
        }
    }

    pub(crate) fn emit(&mut self, event: Event) {
        apply(self.state.to_mut(), &event);
        self.events.push(event);
    }

    pub(crate) fn effect(&mut self, id: EffectId, kind: EffectKind) {
        self.effects.push(Effect { id, kind });
    }

    /// Starts a run with its first attempt, its message in the timeline, and the sending of it.
    pub(crate) fn start_run(&mut self, start: &Start, ids: StartIds) {
        self.emit(Event::RunStarted {
            run: start.run,
            message: Some(start.message),
            ordinal: self.state.next_ordinal,
            origin: start.origin,
            dispatch: start.dispatch,
            supersedes: start.supersedes,
        });
        self.emit(Event::AttemptStarted {
            attempt: ids.attempt,
            run: start.run,
            ordinal: 1,
            reason: start.reason,
            root_node: ids.node,
            message: None,
        });
        self.open_fork_item();
        self.open_user_item(start.message);
        self.effect(
            ids.effect,
            EffectKind::SendTurn {
                run: start.run,
                attempt: ids.attempt,
                message: start.message,
            },
        );
    }

    /// Says where a fork comes from, before its first message.
    fn open_fork_item(&mut self) {
        let Some(fork) = fork::pending(&self.state) else {
            return;
        };
        if let Some(run) = fork.run {
            let content = ItemContent::Fork {
                source: fork.source,
                run,
            };
            self.open_in_active(fork::fork_item(fork.id), content, ItemStatus::Open);
        }
    }

    /// Puts a message of ours into the timeline of the active run. Its text stands in its row.
    pub(crate) fn open_user_item(&mut self, message: MessageId) {
        let content = ItemContent::UserMessage {
            message: Some(message),
            text: Body::default(),
            attachments: Vec::new(),
        };
        self.open_in_active(user_item(message), content, ItemStatus::Completed);
    }

    /// Puts an item at the end of the active run's timeline.
    pub(crate) fn open_in_active(&mut self, id: ItemId, content: ItemContent, status: ItemStatus) {
        let Some(active) = &self.state.active else {
            return;
        };
        let Some(node) = active.attempt.as_ref().map(|a| a.root_node) else {
            return;
        };
        let item = TurnItem {
            id,
            position: Position {
                run: active.ordinal,
                arrival: self.state.next_arrival,
            },
            run: active.id,
            node,
            status,
            content,
            opened_at_ms: 0,
            closed_at_ms: None,
            anomaly: None,
        };
        self.emit(Event::ItemOpened { item });
    }

    /// A step of the interrupt of the active run, which is shown as well.
    pub(crate) fn interrupt_step(&mut self, step: &str, note: String, item: ItemId) {
        let Some(active) = &self.state.active else {
            return;
        };
        self.emit(Event::InterruptStep {
            run: active.id,
            step: step.to_owned(),
            note: note.clone(),
        });
        self.open_in_active(item, ItemContent::Interrupt { note }, ItemStatus::Completed);
    }

    /// Puts the message of a steer that found no turn at the head of the queue and holds it there for its person.
    pub(crate) fn keep_missed(
        &mut self,
        run: RunId,
        message: MessageId,
        dispatch: DispatchMode,
        reason: HoldReason,
    ) {
        // Several that missed the same run keep their order.
        let before = self
            .state
            .queue
            .iter()
            .take_while(|queued| self.state.held.is_some() && queued.dispatch == dispatch)
            .last();
        let place = before.map_or(QueuePlace::Head, |last| QueuePlace::After { run: last.run });
        self.emit(Event::RunQueued {
            run,
            message,
            dispatch,
            place,
            origin: Origin::Person,
        });
        self.hold(reason);
    }

    /// Holds the queue, unless there is nothing to hold or it is held already.
    pub(crate) fn hold(&mut self, reason: HoldReason) {
        if self.state.held.is_none() && !self.state.queue.is_empty() {
            self.emit(Event::QueueHeld {
                reason: Some(reason),
            });
        }
    }

    /// Holds whatever comes next until the agent's sign-in is back, unless it is held already.
    pub(crate) fn hold_for_sign_in(&mut self) {
        if self.state.held.is_none() {
            self.emit(Event::QueueHeld {
                reason: Some(HoldReason::SignIn),
            });
        }
    }

    /// Makes the run's status say what it waits for: the last thing done to a draft.
    pub(crate) fn settle(&mut self) {
        let Some(active) = &self.state.active else {
            return;
        };
        if active.barrier.is_some()
            || !matches!(active.status, RunStatus::Running | RunStatus::Waiting)
        {
            return;
        }
        let mut pending = self
            .state
            .requests
            .iter()
            .filter(|slot| !slot.answering)
            .filter(|slot| {
                self.state
                    .node(slot.node)
                    .is_some_and(|node| node.run == active.id)
            })
            .map(|slot| slot.kind.is_question())
            .peekable();
        let blocked_on = if pending.peek().is_none() {
            BlockedOn::None
        } else if pending.all(|question| question) {
            BlockedOn::Question
        } else {
            BlockedOn::Approval
        };
        let status = if blocked_on == BlockedOn::None {
            RunStatus::Running
        } else {
            RunStatus::Waiting
        };
        if (status, blocked_on) != (active.status, active.blocked_on) {
            let run = active.id;
            self.emit(Event::RunStatusChanged {
                run,
                status,
                blocked_on,
            });
        }
    }
}
