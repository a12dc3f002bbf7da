//! Items: opened, changed, streamed and closed by native id, in whatever order an agent manages to send it.

use super::{Ingesting, Spot, merge, own_key};
use crate::{LiveAppend, draft::user_item};
use pilothouse_domain::{
    BlobHash, Event, ItemContent, ItemId, ItemStatus, MessageId, NativeId, PlanId, Row,
    binding::{BindingKey, BindingTarget},
    hash,
    item::{Body, TodoEntry},
    limits,
    provider_event::NativePlace,
    row::RowKind,
    run::{ErrorCode, RunError},
    state::Cap,
    thread::Delivery,
    transfer::{PlanArtifact, PlanKind},
};

/// An item as bound.
pub(super) struct Bound {
    pub(super) item: ItemId,
    pub(super) spot: Spot,
    pub(super) message: Option<MessageId>,
    pub(super) closed: Option<BlobHash>,
}

impl Ingesting<'_> {
    pub(super) fn bound_item(&mut self, key: &BindingKey) -> Option<Bound> {
        match self.target(key) {
            Some(BindingTarget::Item {
                item,
                run,
                node,
                message,
                closed,
            }) => Some(Bound {
                item,
                spot: Spot {
                    run,
                    ordinal: self.ordinal_of(run),
                    node,
                },
                message,
                closed,
            }),
            _ => None,
        }
    }

    pub(super) fn bind_item(
        &mut self,
        key: BindingKey,
        item: ItemId,
        spot: Spot,
        message: Option<MessageId>,
        closed: Option<BlobHash>,
    ) {
        self.bind(
            key,
            BindingTarget::Item {
                item,
                run: spot.run,
                node: spot.node,
                message,
                closed,
            },
        );
    }

    /// The key of an item that stands in a conversation.
    fn item_key(place: &NativePlace, item: &NativeId) -> Option<BindingKey> {
        Some(BindingKey::Item {
            thread: place.thread.clone()?,
            item: item.clone(),
        })
    }

    /// An item began or changed.
    pub(super) fn item_opened(
        &mut self,
        place: &NativePlace,
        native: &NativeId,
        content: &ItemContent,
        client_id: Option<&str>,
    ) {
        let Some(key) = Self::item_key(place, native) else {
            return;
        };
        if let Some(bound) = self.bound_item(&key) {
            self.item_changed(&bound, content);
            return;
        }
        if matches!(content, ItemContent::UserMessage { .. }) {
            self.user_message(place, key, content, client_id, ItemStatus::Open);
            return;
        }
        self.open_native(place, key, content.clone());
    }

    /// Opens an item nobody here knew. Over the cap it is shown as closed at once; its own end still fills it.
    fn open_native(
        &mut self,
        place: &NativePlace,
        key: BindingKey,
        content: ItemContent,
    ) -> Option<ItemId> {
        let spot = self.spot(place)?;
        let id = self.mint.mint();
        self.bind_item(key, id, spot, None, None);
        if self.state().is_full(Cap::Items) {
            self.open_item(id, spot, content, ItemStatus::Unfinished);
            self.overflow(place, "items", limits::LIVE_NODES);
            return Some(id);
        }
        // What an agent opens with text in it is text streamed so far.
        let mut content = content;
        let begun = match content.streamed_mut() {
            Some(Body::Inline(text)) if !text.is_empty() => std::mem::take(text),
            _ => String::new(),
        };
        self.open_item(id, spot, content, ItemStatus::Open);
        if !begun.is_empty() {
            self.live.push(LiveAppend {
                item: id,
                text: begun,
            });
        }
        Some(id)
    }

    /// Says that something passed a cap. Nothing is evicted for it.
    pub(super) fn overflow(&mut self, place: &NativePlace, what: &str, cap: usize) {
        let error = RunError {
            code: ErrorCode::Protocol,
            message: format!(
                "the agent has more than {cap} {what} open at once; this one is not followed live"
            ),
        };
        self.error_item(place, &error, false);
    }

    fn item_changed(&mut self, bound: &Bound, content: &ItemContent) {
        // Never opens again what was closed, and leaves our own messages as they are.
        if bound.message.is_some() || self.state().item(bound.item).is_none() {
            return;
        }
        let same_shape = self
            .item_row(bound.item)
            .is_some_and(|row| merge::shape(&row.content) == merge::shape(content));
        if same_shape {
            // An agent that sends its whole text again and again: only what is new of it is news.
            let Some(Body::Inline(text)) = content.streamed().filter(|text| !text.is_empty())
            else {
                return;
            };
            let so_far = self.known.streamed(bound.item).unwrap_or_default();
            if let Some(more) = merge::beyond(text, &so_far) {
                if !more.is_empty() {
                    self.live.push(LiveAppend {
                        item: bound.item,
                        text: more.to_owned(),
                    });
                }
                return;
            }
        }
        self.emit(Event::ItemUpdated {
            item: bound.item,
            content: content.clone(),
        });
        self.changes_changed(bound.item, content);
    }

    /// Text was added.
    pub(super) fn item_appended(
        &mut self,
        place: &NativePlace,
        native: &NativeId,
        text: &str,
        shape: &ItemContent,
    ) {
        let Some(key) = Self::item_key(place, native) else {
            return;
        };
        let item = match self.target(&key) {
            Some(BindingTarget::Item { item, .. }) => Some(item),
            _ => self.open_native(place, key, shape.clone()),
        };
        if let Some(item) = item.filter(|item| self.state().item(*item).is_some())
            && !text.is_empty()
        {
            self.live.push(LiveAppend {
                item,
                text: text.to_owned(),
            });
        }
    }

    /// An item ended. The last end holds, also after we had closed it ourselves.
    pub(super) fn item_closed(
        &mut self,
        place: &NativePlace,
        native: &NativeId,
        status: ItemStatus,
        content: &ItemContent,
        client_id: Option<&str>,
    ) {
        let Some(key) = Self::item_key(place, native) else {
            return;
        };
        let status = if status.is_live() {
            ItemStatus::Completed
        } else {
            status
        };
        let Some(bound) = self.bound_item(&key) else {
            if matches!(content, ItemContent::UserMessage { .. }) {
                self.user_message(place, key, content, client_id, status);
                return;
            }
            let Some(spot) = self.spot(place) else { return };
            let id = self.mint.mint();
            self.bind_item(key, id, spot, None, Some(mark(status, content)));
            let content = self.with_plan(id, spot, content.clone());
            self.open_item(id, spot, content.clone(), status);
            self.judge(id, spot, status, &content);
            return;
        };
        if bound.message.is_some() {
            return;
        }
        let mark = mark(status, content);
        if bound.closed == Some(mark) {
            return;
        }
        let streamed = self.text_so_far(bound.item, content);
        let merged = merge::final_content(content, streamed.as_ref());
        let merged = self.with_plan(bound.item, bound.spot, merged);
        self.emit(Event::ItemClosed {
            item: bound.item,
            status,
            content: Some(merged.clone()),
            streamed: None,
        });
        self.changes_changed(bound.item, &merged);
        self.judge(bound.item, bound.spot, status, &merged);
        self.bind_item(key, bound.item, bound.spot, None, Some(mark));
    }

    /// What was streamed into an item, or kept of it when we had closed it.
    fn text_so_far(&self, item: ItemId, content: &ItemContent) -> Option<Body> {
        content.streamed()?;
        let live = self.known.streamed(item).filter(|text| !text.is_empty());
        live.or_else(|| {
            self.item_row(item)
                .and_then(|row| row.content.streamed().cloned())
        })
    }

    /// A closed plan is an artifact of its own.
    fn with_plan(&mut self, item: ItemId, spot: Spot, mut content: ItemContent) -> ItemContent {
        if let ItemContent::Plan { plan, text } = &mut content {
            let id = PlanId::from_bytes(*item.as_bytes());
            *plan = Some(id);
            self.emit(Event::PlanUpdated {
                plan: PlanArtifact {
                    id,
                    run: spot.run,
                    node: spot.node,
                    kind: PlanKind::ProposedPlan { text: text.clone() },
                },
            });
        }
        content
    }

    /// A user's message: ours coming back, or one typed elsewhere.
    fn user_message(
        &mut self,
        place: &NativePlace,
        key: BindingKey,
        content: &ItemContent,
        client_id: Option<&str>,
        status: ItemStatus,
    ) {
        let Some(spot) = self.spot(place) else { return };
        let ours = match client_id {
            Some(id) => id.parse().ok().filter(|id| self.is_ours(*id)),
            None => self.next_unechoed(place, content),
        };
        let mark = mark(ItemStatus::Completed, content);
        let Some(message) = ours else {
            let id = self.mint.mint();
            let closed = (!status.is_live()).then_some(mark);
            self.bind_item(key, id, spot, None, closed);
            self.open_item(id, spot, content.clone(), status);
            return;
        };
        let item = user_item(message);
        self.bind_item(key, item, spot, Some(message), Some(mark));
        if let Some(thread) = &place.thread {
            let echo = Self::echo_key(thread, message);
            self.bind_item(echo, item, spot, Some(message), Some(mark));
        }
        self.delivered(message);
    }

    /// The agent has the message: said once.
    pub(super) fn delivered(&mut self, message: MessageId) {
        let said = self.draft.events.iter().any(
            |event| matches!(event, Event::MessageDelivery { message: m, delivery: Delivery::Started } if *m == message),
        );
        let known = match self.row(RowKind::Message, message.as_bytes()) {
            Some(Row::Message(row)) => row.delivery == Delivery::Started,
            _ => false,
        };
        if !said && !known {
            self.emit(Event::MessageDelivery {
                message,
                delivery: Delivery::Started,
            });
        }
    }

    fn is_ours(&self, message: MessageId) -> bool {
        self.sent().contains(&message)
            || matches!(
                self.row(RowKind::Message, message.as_bytes()),
                Some(Row::Message(_))
            )
    }

    /// Messages handed to the agent in the active run, oldest first.
    fn sent(&self) -> Vec<MessageId> {
        let Some(active) = &self.state().active else {
            return Vec::new();
        };
        let attempt = active.attempt.as_ref();
        attempt
            .and_then(|attempt| attempt.message)
            .into_iter()
            .chain(active.steering.iter().copied())
            .collect()
    }

    /// For agents that keep no id of ours: the oldest message not echoed yet, one with the same words before others.
    fn next_unechoed(&self, place: &NativePlace, content: &ItemContent) -> Option<MessageId> {
        let thread = place.thread.as_ref()?;
        if place.root.is_some() {
            // A subagent's prompt is its parent's, never a person's.
            return None;
        }
        let waiting: Vec<MessageId> = self
            .sent()
            .into_iter()
            .filter(|message| self.target(&Self::echo_key(thread, *message)).is_none())
            .collect();
        let ItemContent::UserMessage { text, .. } = content else {
            return None;
        };
        let same = waiting.iter().copied().find(
            |message| matches!(self.row(RowKind::Message, message.as_bytes()), Some(Row::Message(row)) if row.text.preview().trim() == text.preview().trim()),
        );
        same.or(waiting.first().copied())
    }

    /// The todo list as it is now: an item of its turn, and the plan of its node.
    pub(super) fn todo_list(&mut self, place: &NativePlace, entries: &[TodoEntry]) {
        let (Some(spot), Some(thread)) = (self.spot(place), place.thread.as_ref()) else {
            return;
        };
        let turn = place.turn.as_ref().map_or("", NativeId::as_str);
        let key = own_key(thread, &format!("todo/{turn}"));
        let content = ItemContent::Todo {
            entries: entries.to_vec(),
        };
        let bound = self.bound_item(&key);
        let known = bound
            .as_ref()
            .and_then(|bound| self.item_row(bound.item))
            .is_some_and(|row| row.content == content);
        if known {
            return;
        }
        let item = match &bound {
            Some(bound) if self.state().item(bound.item).is_some() => {
                self.emit(Event::ItemUpdated {
                    item: bound.item,
                    content,
                });
                bound.item
            }
            // A list that changes after its turn has ended stays closed.
            Some(bound) => {
                self.emit(Event::ItemClosed {
                    item: bound.item,
                    status: ItemStatus::Completed,
                    content: Some(content),
                    streamed: None,
                });
                bound.item
            }
            None => match self.open_native(place, key, content) {
                Some(item) => item,
                None => return,
            },
        };
        self.emit(Event::PlanUpdated {
            plan: PlanArtifact {
                id: PlanId::from_bytes(*item.as_bytes()),
                run: spot.run,
                node: spot.node,
                kind: PlanKind::TodoList {
                    entries: entries.to_vec(),
                },
            },
        });
    }
}

/// Hash of an item's end as the agent gave it, so that a repeat changes nothing.
fn mark(status: ItemStatus, content: &ItemContent) -> BlobHash {
    BlobHash::of(&hash::canonical_json(&(status, content)))
}
