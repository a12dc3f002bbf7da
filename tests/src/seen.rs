//! What a device has shown, as it stands now.

use pilothouse_domain::{ThreadId, state::EndedRun};
use pilothouse_engine::{
    Batch, DeliveryRow, HostRow, InboxRow, LinkState, ThreadHeader, ThreadRow, TimelineRow,
};
use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, PoisonError},
};

/// Everything a device has shown, as it stands now.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Hosts.
    pub hosts: Vec<HostRow>,
    /// Threads.
    pub threads: Vec<ThreadRow>,
    /// What waits.
    pub inbox: Vec<InboxRow>,
    /// The outbox.
    pub delivery: Vec<DeliveryRow>,
    /// Opened threads.
    pub timelines: BTreeMap<ThreadId, Timeline>,
    /// Every inbox that was shown, in order, with the link as it stood then: oldest first.
    pub inboxes: Vec<(Option<LinkState>, Vec<InboxRow>)>,
    pub(crate) first: [bool; 4],
}

/// An opened thread.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// Its rows.
    pub rows: Vec<TimelineRow>,
    /// How it stands; `None` before the first batch.
    pub header: Option<ThreadHeader>,
}

impl Timeline {
    /// The run that ended last.
    pub fn last_run(&self) -> Option<EndedRun> {
        self.header.as_ref()?.last_run
    }

    /// Nothing runs, waits or is on its way, and that is what the host has.
    pub fn is_idle(&self) -> bool {
        self.header.as_ref().is_some_and(|header| {
            header.active.is_none()
                && header.queue.is_empty()
                && header.outstanding == 0
                && header.synchronised
                && header.last_run.is_some()
        })
    }
}

/// Gathers what a core delivers.
#[derive(Default)]
pub struct Board {
    pub(crate) seen: Mutex<Seen>,
    pub(crate) changed: Condvar,
}

impl Board {
    /// What is shown now.
    pub fn seen(&self) -> Seen {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes a batch.
    pub fn take(&self, batch: Batch) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = &mut *seen;
        match batch {
            Batch::Hosts(list) => {
                list.apply(&mut seen.hosts);
                seen.first[0] = true;
            }
            Batch::Threads(list) => {
                list.apply(&mut seen.threads);
                seen.first[1] = true;
            }
            Batch::Inbox(list) => {
                list.apply(&mut seen.inbox);
                seen.first[2] = true;
                let link = seen.hosts.first().map(|host| host.link.clone());
                seen.inboxes.push((link, seen.inbox.clone()));
            }
            Batch::Delivery(list) => {
                list.apply(&mut seen.delivery);
                seen.first[3] = true;
            }
            Batch::Timeline(batch) => {
                let timeline = seen.timelines.entry(batch.header.thread).or_default();
                batch.apply(&mut timeline.rows);
                timeline.header = Some(batch.header);
            }
        }
        self.changed.notify_all();
    }
}
