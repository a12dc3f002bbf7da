//! Context from elsewhere: resolved when the agent has it.

use super::Ingesting;
use crate::fork::{fork_item, pending};
use pilothouse_domain::{
    Event, ItemStatus, ProviderThreadId,
    item::Body,
    transfer::{ContextHandoff, HandoffStrategy, TransferStatus},
};

impl Ingesting<'_> {
    /// The thread has a conversation of its own: where it is a fork, that is the copy which the agent has made.
    pub(super) fn resolve_fork(&mut self, conversation: ProviderThreadId) {
        let Some(slot) = pending(self.state()) else {
            return;
        };
        let text_source = self.agent().map(|agent| agent.0).unwrap_or_default();
        self.emit(Event::TransferStatusChanged {
            transfer: slot.id,
            status: TransferStatus::Resolved {
                handoff: ContextHandoff {
                    strategy: HandoffStrategy::Native,
                    channel: None,
                    target: conversation,
                    text: Body::default(),
                    text_source,
                    leaves_out: "nothing that was said; files are as they are now".to_owned(),
                },
            },
        });
        let item = fork_item(slot.id);
        if self.state().item(item).is_some() {
            self.emit(Event::ItemClosed {
                item,
                status: ItemStatus::Completed,
                content: None,
                streamed: None,
            });
        }
    }
}
