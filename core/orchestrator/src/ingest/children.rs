//! Subagents: nodes of their parent's log, with a conversation of their own.

use super::{Ingesting, Spot, own_key, turns::Conversation};
use pilothouse_domain::{
    Event, ItemContent, ItemStatus, NativeId, NodeId,
    binding::{BindingKey, BindingTarget},
    item::Body,
    limits,
    provider::{ProviderThread, ProviderThreadStatus, TurnStatus},
    provider_event::NativePlace,
    run::{ExecutionNode, NodeKind, NodeStatus},
    state::Cap,
};

impl Ingesting<'_> {
    pub(super) fn child_opened(
        &mut self,
        place: &NativePlace,
        child: &NativeId,
        item: Option<&NativeId>,
        title: &str,
    ) {
        let key = BindingKey::Thread {
            thread: child.clone(),
        };
        if let Some(BindingTarget::Thread {
            node: Some(node),
            run: Some(run),
            ..
        }) = self.target(&key)
        {
            // Woken again: the same node, at work once more.
            if self.state().node(node).is_none() && !self.state().is_full(Cap::Nodes) {
                let parent = self.spot(place).map(|spot| spot.node);
                self.open_node(node, parent, run, title);
            }
            return;
        }
        let Some(parent) = self.spot(place) else {
            return;
        };
        self.new_child(place, parent, child, item, title);
    }

    /// A subagent that speaks before it was announced.
    pub(super) fn unannounced_child(
        &mut self,
        place: &NativePlace,
        child: &NativeId,
    ) -> Option<Conversation> {
        let home = NativePlace {
            thread: place.root.clone(),
            root: None,
            turn: None,
        };
        let parent = self.spot(&home)?;
        self.new_child(&home, parent, child, None, "Subagent");
        match self.target(&BindingKey::Thread {
            thread: child.clone(),
        }) {
            Some(BindingTarget::Thread {
                provider_thread,
                node,
                run,
            }) => Some(Conversation {
                id: provider_thread,
                child: node.zip(run),
            }),
            _ => None,
        }
    }

    fn new_child(
        &mut self,
        place: &NativePlace,
        parent: Spot,
        child: &NativeId,
        item: Option<&NativeId>,
        title: &str,
    ) {
        let Some(agent) = self.agent() else { return };
        let provider_thread = self.mint.mint();
        let bind = |node: NodeId| BindingTarget::Thread {
            provider_thread,
            node: Some(node),
            run: Some(parent.run),
        };
        let key = BindingKey::Thread {
            thread: child.clone(),
        };
        if self.state().is_full(Cap::Nodes) || self.state().is_full(Cap::Items) {
            // What it does is shown under its parent.
            self.bind(key, bind(parent.node));
            self.overflow(place, "subagents", limits::LIVE_TREE);
            return;
        }
        let node: NodeId = self.mint.mint();
        self.bind(key, bind(node));
        self.open_node(node, Some(parent.node), parent.run, title);
        self.emit(Event::ProviderThreadChanged {
            provider_thread: ProviderThread {
                id: provider_thread,
                agent,
                owner: Some(node),
                coverage: 0,
                status: ProviderThreadStatus::Ready,
            },
        });
        let item_key = item.and_then(|item| {
            Some(BindingKey::Item {
                thread: place.thread.clone()?,
                item: item.clone(),
            })
        });
        let announced = item_key.as_ref().and_then(|key| self.bound_item(key));
        let content = ItemContent::Subagent {
            child: Some(node),
            title: title.to_owned(),
            result: Body::default(),
        };
        let own = own_key(child, "subagent");
        match announced {
            Some(bound) => {
                self.bind_item(own, bound.item, parent, None, None);
                let is_subagent = self
                    .item_row(bound.item)
                    .is_some_and(|row| matches!(row.content, ItemContent::Subagent { .. }));
                if is_subagent && self.state().item(bound.item).is_some() {
                    self.emit(Event::ItemUpdated {
                        item: bound.item,
                        content,
                    });
                }
            }
            None => {
                let id = self.mint.mint();
                if let Some(key) = item_key {
                    self.bind_item(key, id, parent, None, None);
                }
                self.bind_item(own, id, parent, None, None);
                self.open_item(id, parent, content, ItemStatus::Open);
            }
        }
    }

    fn open_node(
        &mut self,
        id: NodeId,
        parent: Option<NodeId>,
        run: pilothouse_domain::RunId,
        title: &str,
    ) {
        self.emit(Event::NodeOpened {
            node: ExecutionNode {
                id,
                parent,
                run,
                kind: NodeKind::Subagent,
                title: super::cut(title, limits::TITLE_CHARS),
                status: NodeStatus::Running,
                counts_for_run: false,
            },
        });
    }

    pub(super) fn child_closed(
        &mut self,
        _place: &NativePlace,
        child: &NativeId,
        status: TurnStatus,
    ) {
        let target = self.target(&BindingKey::Thread {
            thread: child.clone(),
        });
        let Some(BindingTarget::Thread {
            node: Some(node), ..
        }) = target
        else {
            return;
        };
        if !self.is_subagent(node) {
            return;
        }
        self.close_items(status, |slot| slot.node == node);
        self.close_requests(|slot| slot.node == node);
        if let Some(bound) = self.bound_item(&own_key(child, "subagent"))
            && self.state().item(bound.item).is_some()
        {
            self.emit(Event::ItemClosed {
                item: bound.item,
                status: match status {
                    TurnStatus::Completed => ItemStatus::Completed,
                    TurnStatus::Interrupted => ItemStatus::Interrupted,
                    TurnStatus::Failed => ItemStatus::Failed,
                },
                content: None,
                streamed: None,
            });
        }
        self.emit(Event::NodeStatusChanged {
            node,
            status: match status {
                TurnStatus::Completed => NodeStatus::Completed,
                TurnStatus::Interrupted => NodeStatus::Interrupted,
                TurnStatus::Failed => NodeStatus::Failed,
            },
        });
    }
}
