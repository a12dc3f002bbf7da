//! What is remembered of one opencode, within its budget of bytes.

use super::{
    asking::Early,
    codec::{Codec, Told, tell},
    conversation::Conversation,
};
use crate::rpc::budget::{self, Excess};
use pilothouse_domain::{NativeId, ProviderEventKind, provider_event::NativePlace};

/// Bytes of what is known of a model: its names, each as long as one can be.
const CONTEXT: usize = 1024;

impl Codec {
    /// Bytes of what is remembered.
    pub(super) fn weight(&self) -> usize {
        let root = |(id, known): (&NativeId, &Conversation)| {
            2 * size_of::<(NativeId, Conversation)>() + budget::id(Some(id)) + known.weight()
        };
        self.requests.held()
            + self.roots.iter().map(root).sum::<usize>()
            + self.children.weight(Conversation::weight)
            + self.early.weight(Early::weight)
            + self.over.weight(|()| 0)
            + self.settling.weight(|_| 0)
            + self.contexts.len() * CONTEXT
    }

    /// Gives up what is least needed beyond the budget, and says so: parts that have ended, then what is known of the messages
    /// of subagents, then of those of the conversations that were opened here. Requests are none of it.
    pub(super) fn fit(&mut self, read: usize, out: &mut Vec<Told>) {
        if !self.budget.is_due(read) {
            return;
        }
        let mut excess = Excess::of(self.weight());
        for known in self.children.values_mut().chain(self.roots.values_mut()) {
            known.shed_ended(&mut excess);
        }
        for known in self.children.values_mut().chain(self.roots.values_mut()) {
            known.shed(&mut excess);
        }
        self.budget.weighed(self.weight());
        if let Some(message) = excess.in_words() {
            let kind = ProviderEventKind::Diagnostic { message };
            tell(NativePlace::default(), kind, out);
        }
    }
}
