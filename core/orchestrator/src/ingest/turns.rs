//! Conversations, turns and their ends.

use super::{Ingesting, Spot, WORDS, cut, own_key};
use crate::{Internal, internal};
use pilothouse_domain::{
    AttemptId, Event, ItemContent, ItemId, ItemStatus, NativeId, NodeId, ProviderThreadId,
    ProviderTurnId, Row, RunId,
    binding::{BindingKey, BindingTarget},
    item::Body,
    provider::{ProviderThread, ProviderThreadStatus, TurnEnd, TurnStatus},
    provider_event::NativePlace,
    request::{AnswerDelivery, RequestKind, RequestStatus},
    row::RowKind,
    run::{
        AttemptReason, AttemptStatus, BackgroundOwner, Correlation, NodeKind, NodeStatus, Origin,
        RunError,
    },
    state::{ItemKind, ItemSlot, RequestSlot},
    thread::{Actor, Delivery},
};

/// A turn as bound.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) id: Option<ProviderTurnId>,
    pub(super) attempt: Option<AttemptId>,
    pub(super) spot: Spot,
    pub(super) ended: bool,
}

/// A conversation as bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conversation {
    pub(super) id: ProviderThreadId,
    /// Of a subagent's.
    pub(super) child: Option<(NodeId, RunId)>,
}

impl Ingesting<'_> {
    /// The conversation a place names, bound now if it was not.
    pub(super) fn conversation(&mut self, place: &NativePlace) -> Option<Conversation> {
        let native = place.thread.as_ref()?;
        let key = BindingKey::Thread {
            thread: native.clone(),
        };
        if let Some(BindingTarget::Thread {
            provider_thread,
            node,
            run,
        }) = self.target(&key)
        {
            return Some(Conversation {
                id: provider_thread,
                child: node.zip(run),
            });
        }
        if place.root.as_ref().is_some_and(|root| root != native) {
            return self.unannounced_child(place, native);
        }
        let agent = self.agent()?;
        let id = self.mint.mint();
        self.emit(Event::ProviderThreadChanged {
            provider_thread: ProviderThread {
                id,
                agent,
                owner: None,
                coverage: 0,
                status: ProviderThreadStatus::Ready,
            },
        });
        self.bind(
            key,
            BindingTarget::Thread {
                provider_thread: id,
                node: None,
                run: None,
            },
        );
        Some(Conversation { id, child: None })
    }

    /// The agent has the conversation loaded (history alone does not say so).
    pub(super) fn loaded(&mut self, id: ProviderThreadId, owner: Option<NodeId>) {
        let known = self.state().provider_threads.iter().find(|t| t.id == id);
        match known {
            Some(slot) if slot.status == ProviderThreadStatus::NotLoaded => {
                self.emit(Event::ProviderThreadStatusChanged {
                    provider_thread: id,
                    status: ProviderThreadStatus::Ready,
                });
            }
            Some(_) => {}
            // Forgotten by the bounded state, and in use again.
            None if owner.is_none() => {
                let Some(agent) = self.agent() else { return };
                let coverage = match self.row(RowKind::ProviderThread, id.as_bytes()) {
                    Some(Row::ProviderThread(row)) => row.coverage,
                    _ => 0,
                };
                self.emit(Event::ProviderThreadChanged {
                    provider_thread: ProviderThread {
                        id,
                        agent,
                        owner,
                        coverage,
                        status: ProviderThreadStatus::Ready,
                    },
                });
            }
            None => {}
        }
    }

    pub(super) fn agent(&self) -> Option<pilothouse_domain::AgentName> {
        self.session
            .map(|session| session.agent.clone())
            .or_else(|| {
                let meta = self.state().meta.as_ref()?;
                Some(meta.selection.agent.clone())
            })
    }

    /// Where something at that place belongs; `None` if there is no run it could belong to.
    pub(super) fn spot(&mut self, place: &NativePlace) -> Option<Spot> {
        if let Some(turn) = self.turn(place) {
            return Some(turn.spot);
        }
        // Nothing runs: what the agent says now belongs to what it did last.
        let last = self.state().last_run?;
        let node = match self.row(RowKind::Run, last.id.as_bytes()) {
            Some(Row::Run(run)) => run.attempt.and_then(|attempt| self.root_of(attempt)),
            _ => None,
        };
        Some(Spot {
            run: last.id,
            ordinal: last.ordinal,
            node: node?,
        })
    }

    fn root_of(&self, attempt: AttemptId) -> Option<NodeId> {
        match self.row(RowKind::Attempt, attempt.as_bytes()) {
            Some(Row::Attempt(row)) => Some(row.root_node),
            _ => None,
        }
    }

    /// The turn a place names. One that nobody here knows is that of the attempt that waits for its turn, or else a run
    /// of its own, of external origin.
    pub(super) fn turn(&mut self, place: &NativePlace) -> Option<Turn> {
        let Some(conversation) = self.conversation(place) else {
            // Something of the whole process: it belongs to what runs.
            return place.thread.is_none().then(|| self.active_turn()).flatten();
        };
        if let Some((node, run)) = conversation.child {
            let ordinal = self.ordinal_of(run);
            return Some(Turn {
                id: None,
                attempt: None,
                spot: Spot { run, ordinal, node },
                ended: false,
            });
        }
        let Some(native) = place.turn.clone() else {
            return self.active_turn();
        };
        let key = BindingKey::Turn {
            thread: place.thread.clone()?,
            turn: native,
        };
        if let Some(BindingTarget::Turn {
            turn,
            attempt,
            run,
            ordinal,
            node,
            ended,
        }) = self.target(&key)
        {
            return Some(Turn {
                id: Some(turn),
                attempt: Some(attempt),
                spot: Spot { run, ordinal, node },
                ended,
            });
        }
        // A run whose end was seen and not yet written gives way to a turn that follows it.
        if internal::next_internal(self.state()) == Some(Internal::FinishRun) {
            internal::finish_run(&mut self.draft, self.mint);
        }
        match self.state().active.clone() {
            None => self.external_turn(conversation.id, &key),
            Some(active) => {
                let attempt = active.attempt?;
                if attempt.status == AttemptStatus::Starting && attempt.turn.is_none() {
                    return self.bind_turn(attempt.id, conversation.id, Some(&key));
                }
                // A turn beside the one that runs: its items are shown here, its end ends nothing of ours.
                let turn = self.mint.mint();
                let spot = Spot {
                    run: active.id,
                    ordinal: active.ordinal,
                    node: attempt.root_node,
                };
                self.bind_turn_key(&key, turn, attempt.id, spot);
                Some(Turn {
                    id: Some(turn),
                    attempt: Some(attempt.id),
                    spot,
                    ended: false,
                })
            }
        }
    }

    /// The turn that is going on, for what names none.
    pub(super) fn active_turn(&self) -> Option<Turn> {
        let active = self.state().active.as_ref()?;
        let attempt = active.attempt.as_ref()?;
        Some(Turn {
            id: attempt.turn,
            attempt: Some(attempt.id),
            spot: Spot {
                run: active.id,
                ordinal: active.ordinal,
                node: attempt.root_node,
            },
            ended: active.barrier.is_some(),
        })
    }

    pub(super) fn ordinal_of(&self, run: RunId) -> u32 {
        let state = self.state();
        let active = state.active.as_ref().filter(|a| a.id == run);
        let ended = state.last_run.filter(|r| r.id == run);
        active
            .map(|a| a.ordinal)
            .or(ended.map(|r| r.ordinal))
            .or_else(|| match self.row(RowKind::Run, run.as_bytes()) {
                Some(Row::Run(row)) => row.ordinal,
                _ => None,
            })
            .unwrap_or(0)
    }

    fn bind_turn_key(
        &mut self,
        key: &BindingKey,
        turn: ProviderTurnId,
        attempt: AttemptId,
        spot: Spot,
    ) {
        self.bind(
            key.clone(),
            BindingTarget::Turn {
                turn,
                attempt,
                run: spot.run,
                ordinal: spot.ordinal,
                node: spot.node,
                ended: false,
            },
        );
    }

    /// The agent took up the attempt that waited for it: by its turn's first sign or by the answer to our sending,
    /// whichever came first.
    pub(super) fn bind_turn(
        &mut self,
        attempt: AttemptId,
        conversation: ProviderThreadId,
        key: Option<&BindingKey>,
    ) -> Option<Turn> {
        let turn: ProviderTurnId = self.mint.mint();
        self.emit(Event::AttemptBound {
            attempt,
            provider_thread: conversation,
            turn,
        });
        let bound = self.active_turn()?;
        if let Some(key) = key {
            self.bind_turn_key(key, turn, attempt, bound.spot);
        }
        let message = self
            .state()
            .active
            .as_ref()
            .and_then(|active| active.attempt.as_ref())
            .and_then(|slot| slot.message);
        if let Some(message) = message {
            self.emit(Event::MessageDelivery {
                message,
                delivery: Delivery::Started,
            });
        }
        Some(bound)
    }

    fn external_turn(&mut self, conversation: ProviderThreadId, key: &BindingKey) -> Option<Turn> {
        self.state().meta.as_ref()?;
        let run: RunId = self.mint.mint();
        let attempt: AttemptId = self.mint.mint();
        let ordinal = self.state().next_ordinal;
        self.emit(Event::RunStarted {
            run,
            message: None,
            ordinal,
            origin: Origin::External,
            dispatch: None,
            supersedes: None,
        });
        let root_node = self.mint.mint();
        self.emit(Event::AttemptStarted {
            attempt,
            run,
            ordinal: 1,
            reason: AttemptReason::Initial,
            root_node,
            message: None,
        });
        self.bind_turn(attempt, conversation, Some(key))
    }

    pub(super) fn turn_ended(
        &mut self,
        place: &NativePlace,
        status: TurnStatus,
        error: Option<RunError>,
    ) {
        let Some(conversation) = self.conversation(place) else {
            return;
        };
        if let Some((node, _)) = conversation.child {
            // The end of a child's turn closes its items; the child itself ends with its own event.
            if self.is_subagent(node) {
                self.close_items(status, |slot| slot.node == node);
            }
            return;
        }
        let turn = match &place.turn {
            Some(_) => self.turn(place),
            None => self.unnamed_turn(conversation.id),
        };
        let Some(turn) = turn.filter(|turn| !turn.ended) else {
            return;
        };
        let end = TurnEnd {
            status,
            correlation: match place.turn {
                Some(_) => Correlation::Strong,
                None => Correlation::Weak,
            },
        };
        if let (Some(thread), Some(native), Some(id), Some(attempt)) =
            (&place.thread, &place.turn, turn.id, turn.attempt)
        {
            self.bind(
                BindingKey::Turn {
                    thread: thread.clone(),
                    turn: native.clone(),
                },
                BindingTarget::Turn {
                    turn: id,
                    attempt,
                    run: turn.spot.run,
                    ordinal: turn.spot.ordinal,
                    node: turn.spot.node,
                    ended: true,
                },
            );
        }
        let counts = self.active_turn().is_some_and(|active| {
            active.attempt == turn.attempt && active.id == turn.id && !active.ended
        });
        if counts {
            self.close_turn(turn.spot, status);
        }
        if let Some(id) = turn.id {
            self.emit(Event::TurnEnded { turn: id, end });
        }
        if let (true, Some(attempt)) = (counts, turn.attempt) {
            self.end_attempt(attempt, attempt_status(status), end.correlation, error);
        }
    }

    /// The turn of an agent that does not name its turns.
    pub(super) fn unnamed_turn(&mut self, conversation: ProviderThreadId) -> Option<Turn> {
        let turn = self.active_turn()?;
        match (turn.id, turn.attempt) {
            (None, Some(attempt)) if !turn.ended => self.bind_turn(attempt, conversation, None),
            _ => Some(turn),
        }
    }

    pub(super) fn end_attempt(
        &mut self,
        attempt: AttemptId,
        status: AttemptStatus,
        correlation: Correlation,
        error: Option<RunError>,
    ) {
        self.emit(Event::AttemptEnded {
            attempt,
            status,
            correlation,
            error: error.map(|error| RunError {
                code: error.code,
                message: cut(&error.message, WORDS),
            }),
        });
    }

    /// The completion barrier: what the turn left open is closed, what goes on gets an owner.
    pub(super) fn close_turn(&mut self, spot: Spot, status: TurnStatus) {
        let mut children: Vec<(NodeId, NodeStatus)> = Vec::new();
        for node in &self.state().nodes {
            if node.kind == NodeKind::Subagent && node.run == spot.run {
                children.push((node.id, node.status));
            }
        }
        for slot in self.state().items.clone() {
            let of_child = children.iter().any(|(node, _)| *node == slot.node);
            if slot.background || !(of_child || slot.node == spot.node) {
                continue;
            }
            if of_child || self.goes_on(&slot, status) {
                self.keep_in_background(slot.id, spot.run, slot.node);
            } else {
                self.close_item(&slot, status);
            }
        }
        for (node, status) in children {
            if status != NodeStatus::Background {
                self.emit(Event::NodeStatusChanged {
                    node,
                    status: NodeStatus::Background,
                });
            }
        }
        // A sign-in is not the turn's: it goes on, and ends by the agent's own word.
        self.close_requests(|slot| slot.node == spot.node && slot.kind != RequestKind::Auth);
    }

    /// Gives work that outlives its turn an owner.
    pub(super) fn keep_in_background(&mut self, item: ItemId, run: RunId, node: NodeId) {
        let actor = self.actor_of(run);
        self.emit(Event::ItemBackground {
            item,
            owner: BackgroundOwner { run, node, actor },
        });
    }

    pub(super) fn is_subagent(&self, node: NodeId) -> bool {
        self.state()
            .node(node)
            .is_some_and(|slot| slot.kind == NodeKind::Subagent)
    }

    /// What a turn leaves running: a command that outlives a turn which ended well (codex ends its items later), a
    /// subagent that has not ended.
    fn goes_on(&self, slot: &ItemSlot, status: TurnStatus) -> bool {
        if !matches!(slot.kind, ItemKind::Tool | ItemKind::Subagent) {
            return false;
        }
        match self.item_row(slot.id).map(|row| row.content) {
            Some(ItemContent::Command { .. }) => status == TurnStatus::Completed,
            Some(ItemContent::Subagent {
                child: Some(child), ..
            }) => self.is_subagent(child),
            _ => false,
        }
    }

    fn actor_of(&self, run: RunId) -> Actor {
        let message = match self.row(RowKind::Run, run.as_bytes()) {
            Some(Row::Run(row)) => row.message,
            _ => None,
        };
        match message.and_then(|m| self.row(RowKind::Message, m.as_bytes())) {
            Some(Row::Message(message)) => message.author,
            _ => Actor::External,
        }
    }

    /// Closes open items that the agent left open.
    pub(super) fn close_items(&mut self, status: TurnStatus, of: impl Fn(&ItemSlot) -> bool) {
        for slot in self.state().items.clone() {
            if of(&slot) {
                self.close_item(&slot, status);
            }
        }
    }

    fn close_item(&mut self, slot: &ItemSlot, status: TurnStatus) {
        let closed = match (slot.kind, status) {
            (_, TurnStatus::Interrupted) => ItemStatus::Interrupted,
            (ItemKind::Other, TurnStatus::Completed) => ItemStatus::Completed,
            _ => ItemStatus::Unfinished,
        };
        let streamed = self.streamed_body(slot);
        self.emit(Event::ItemClosed {
            item: slot.id,
            status: closed,
            content: None,
            streamed,
        });
    }

    pub(super) fn streamed_body(&self, slot: &ItemSlot) -> Option<Body> {
        if !matches!(slot.kind, ItemKind::Text | ItemKind::Tool) {
            return None;
        }
        self.known.streamed(slot.id).filter(|text| !text.is_empty())
    }

    /// Closes open requests whose turn or child is over: with an answer on its way it counts as given.
    pub(super) fn close_requests(&mut self, of: impl Fn(&RequestSlot) -> bool) {
        for slot in self.state().requests.clone() {
            if !of(&slot) {
                continue;
            }
            let status = match self.recorded(&slot) {
                Some((answer, by)) => RequestStatus::Answered {
                    answer: Some(answer),
                    by: Some(by),
                    delivery: AnswerDelivery::Inferred,
                    at_ms: 0,
                },
                None => RequestStatus::Withdrawn,
            };
            self.emit(Event::RequestClosed {
                request: slot.id,
                status,
            });
        }
    }

    /// The key under which the echo of one of our messages is noted, so that it is matched once.
    pub(super) fn echo_key(thread: &NativeId, message: pilothouse_domain::MessageId) -> BindingKey {
        own_key(thread, &format!("echo/{message}"))
    }
}

pub(super) fn attempt_status(status: TurnStatus) -> AttemptStatus {
    match status {
        TurnStatus::Completed => AttemptStatus::Completed,
        TurnStatus::Interrupted => AttemptStatus::Interrupted,
        TurnStatus::Failed => AttemptStatus::Failed,
    }
}
