//! What is remembered of one codex, within its budget of bytes.

use super::{
    codec::{Codec, Received},
    notifications::TurnUsage,
    replies::Settings,
    terminals::Begun,
};
use crate::rpc::{
    budget::{self, Excess},
    event,
};
use pilothouse_domain::{ProviderEventKind, provider_event::NativePlace};

impl Codec {
    /// Bytes of what is remembered. Calls are our own, and are not counted.
    pub(super) fn weight(&self) -> usize {
        let listed = |list: &Vec<u64>| budget::block(list.capacity() * size_of::<u64>());
        self.requests.held()
            + self.lineage.weight()
            + self.patches.weight(|patch| budget::changes(patch))
            + self.begun.weight(Begun::weight)
            + self.called.weight(listed)
            + self.usage.weight(TurnUsage::weight)
            + self.settings.weight(Settings::weight)
            + self.untold.weight(|told| strings(told))
    }

    /// Gives up what is least needed beyond the budget, and says so. Requests and the turns that go on are none of it.
    pub(super) fn fit(&mut self, read: usize, out: &mut Vec<Received>) {
        if !self.budget.is_due(read) {
            return;
        }
        let mut excess = Excess::of(self.weight());
        self.patches
            .shed(&mut excess, |patch| budget::changes(patch));
        self.untold.shed(&mut excess, |told| strings(told));
        self.called.shed(&mut excess, |_| 0);
        self.usage.shed(&mut excess, TurnUsage::weight);
        self.lineage.shed(&mut excess);
        self.settings.shed(&mut excess, Settings::weight);
        self.begun.shed(&mut excess, Begun::weight);
        self.budget.weighed(self.weight());
        if let Some(message) = excess.in_words() {
            let place = NativePlace::default();
            event(out, place, ProviderEventKind::Diagnostic { message });
        }
    }
}

/// Bytes of some texts.
fn strings(texts: &[String]) -> usize {
    let text = |text: &String| 2 * size_of::<String>() + budget::block(text.len());
    texts.iter().map(text).sum()
}
