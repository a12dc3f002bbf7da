//! A host's summary feed: the list of threads and all that waits for a person, kept in one transaction per step.

use crate::{actor::Actor, shared::Shows};
use pilothouse_domain::{HostId, ThreadId, feed::FeedUpdate};
use pilothouse_store::{Durability, ReplicaTx, StoreError};
use std::collections::BTreeSet;

impl Actor {
    /// A step of a host's feed. The first one of a connection also says whether the ledger is the one this device knows.
    pub(crate) fn feed(&mut self, host: HostId, update: &FeedUpdate) {
        let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) else {
            return;
        };
        let first = !std::mem::replace(&mut up.ready, true);
        if first && up.feed_known && update.reset {
            // The place that this device had is none of this ledger: it is an older one, or another.
            self.ledger_restored(host, None);
        }
        let ended = self
            .store
            .transaction(|tx| keep_feed(tx, host, update), Durability::Lazy);
        let Some(FeedKept { urgent, inbox }) = self.note("keeping the feed", ended) else {
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
            // What a command of this device led to may have come with this.
            self.show_timeline(host, thread, false);
        }
        if first {
            self.pump(host);
        }
        self.shared.changed(Shows::Delivery, false);
        self.shared.changed(Shows::Threads, urgent || inbox);
        if inbox || update.reset {
            self.shared.changed(Shows::Inbox, true);
        } else {
            // A line's title stands in its requests' rows.
            self.shared.changed(Shows::Inbox, false);
        }
        self.shared.changed(Shows::Hosts, inbox);
    }
}

struct FeedKept {
    /// A run ended.
    urgent: bool,
    /// What waits for a person has changed.
    inbox: bool,
}

fn keep_feed(
    tx: &ReplicaTx<'_>,
    host: HostId,
    update: &FeedUpdate,
) -> Result<FeedKept, StoreError> {
    let mut kept = FeedKept {
        urgent: false,
        inbox: update.reset,
    };
    if update.reset {
        tx.clear_feed(host)?;
    }
    let held: Vec<_> = tx
        .inbox()?
        .into_iter()
        .filter(|(of, _)| *of == host)
        .map(|(_, entry)| entry)
        .collect();
    for thread in &update.removed {
        tx.remove_summary(host, *thread)?;
        tx.forget_thread(*thread)?;
        for entry in held.iter().filter(|entry| entry.thread == *thread) {
            tx.remove_request(host, entry.request.id)?;
            kept.inbox = true;
        }
    }
    for thread in &update.threads {
        let id = thread.summary.thread;
        let before = tx.summary(host, id)?;
        kept.urgent |= before.is_some_and(|before| before.last_run != thread.summary.last_run);
        tx.put_summary(host, &thread.summary)?;
        let open: BTreeSet<_> = thread.requests.iter().map(|request| request.id).collect();
        for entry in held.iter().filter(|entry| entry.thread == id) {
            if !open.contains(&entry.request.id) {
                tx.remove_request(host, entry.request.id)?;
                kept.inbox = true;
            }
        }
        for request in &thread.requests {
            let same = held.iter().any(|entry| *entry.request == *request);
            if !same {
                tx.put_request(host, id, request)?;
                kept.inbox = true;
            }
        }
    }
    if !update.more {
        tx.put_feed_cursor(host, update.cursor)?;
    }
    Ok(kept)
}
