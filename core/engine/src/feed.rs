//! A host's summary feed: the list of threads and all that waits for a person, kept in one transaction per step.

use crate::{actor::Actor, shared::Shows};
use pilothouse_domain::{HostId, ThreadId, feed::FeedUpdate};
use pilothouse_store::Durability;

impl Actor {
    /// A step of a host's feed. The first one of a connection also says whether the ledger is the one this device knows.
    pub(crate) fn feed(&mut self, host: HostId, update: &FeedUpdate) {
        let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) else {
            return;
        };
        // A long update comes in parts: a place is reached when the last part of it has come.
        let place = if update.more {
            up.feed_step.filter(|step| *step != update.cursor)
        } else {
            Some(update.cursor)
        };
        let first = !std::mem::replace(&mut up.ready, true);
        if first && up.feed_known && update.reset {
            // The place that this device had is none of this ledger: it is an older one, or another.
            self.ledger_restored(host, None);
        }
        let applied = self
            .store
            .transaction(|tx| tx.apply_feed(host, update, place), Durability::Lazy);
        let Some(applied) = self.note("keeping the feed", applied) else {
            if first && let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) {
                // Nothing is known of the ledger until a first step is kept.
                up.ready = false;
            }
            // A later step must not be kept without this one.
            self.feed_later(host);
            return;
        };
        if let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) {
            up.feed_again.forget(());
            up.feed_step = Some(update.cursor);
        }
        if !update.more
            && let Some(up) = self.hosts.get(&host).and_then(|link| link.up.as_ref())
        {
            up.sender.mark_synchronised();
        }
        let threads: Vec<ThreadId> = update
            .threads
            .iter()
            .map(|thread| thread.summary.thread)
            .collect();
        for thread in threads {
            if self.is_observed(host, thread) {
                self.follow(host, thread);
            }
        }
        if first {
            self.pump(host);
        }
        self.shared.changed(Shows::Delivery, false);
        self.shared
            .changed(Shows::Threads, applied.ended || applied.inbox);
        if applied.inbox || applied.asking {
            // A line's title stands in its requests' rows.
            self.shared.changed(Shows::Inbox, applied.inbox);
        }
        self.shared
            .changed(Shows::Hosts, applied.inbox || applied.signed_out);
    }
}
