//! What a host says: applied to the replica in one transaction each, then shown.

use crate::{
    actor::Actor, api::LogLevel, delivery::lock, error::QueryError, follow::Again,
    hosts::Following, live::LiveBuffer, shared::Shows,
};
use pilothouse_domain::{
    Cursor, Entry, Event, HostId, ItemStatus, LoggedEvent, Outcome, ThreadId, ThreadState,
    feed::{GapReason, Subscribed},
    row::{LiveText, OpenItem, Snapshot},
};
use pilothouse_store::{Durability, ParkReason, StoreError};
use pilothouse_wire::{
    link::{LinkEvent, LinkSender},
    message::{
        ByeReason, ErrorAbout, ErrorCode, HostMessage, QueryAnswer, SubId, Welcome, WireError,
    },
};

impl Actor {
    /// A link has said something.
    pub(crate) fn heard(&mut self, host: HostId, event: LinkEvent) {
        match event {
            LinkEvent::Up { welcome, sender } => self.welcomed(host, &welcome, sender),
            LinkEvent::Message(message) => self.told(host, message),
            LinkEvent::Down(problem) => {
                self.shared.log(
                    LogLevel::Info,
                    "link",
                    &format!("host {} is gone: {problem}", crate::hosts::short(host)),
                );
                self.lost(host);
            }
            LinkEvent::Stopped(reason) => {
                self.lost(host);
                if reason == ByeReason::Revoked {
                    self.revoked(host);
                }
            }
        }
    }

    fn welcomed(&mut self, host: HostId, welcome: &Welcome, sender: LinkSender) {
        if welcome.host_id != host {
            self.shared.log(
                LogLevel::Error,
                "link",
                "a host with the right key gave itself another id; it is not listened to",
            );
            return;
        }
        let now = self.shared.platform.now_ms();
        let noted = self.store.transaction(
            |tx| {
                if let Some(mut row) = tx.host(host)? {
                    row.name.clone_from(&welcome.host_name);
                    row.scopes.clone_from(&welcome.scopes);
                    row.device = welcome.device_id;
                    row.last_seen_ms = Some(now);
                    tx.put_host(&row)?;
                }
                tx.put_policy(host, &welcome.policy)
            },
            Durability::Lazy,
        );
        // What could not be noted does not keep the host from being heard.
        self.note("noting a host", noted);
        let Some(link) = self.hosts.get_mut(&host) else {
            return;
        };
        link.connected(self.runtime.handle(), sender);
        self.ask_feed(host);
        let same_decide = welcome.decide_version == pilothouse_domain::state::DECIDE_VERSION;
        if let Some(live) = lock(&self.shared.live).hosts.get_mut(&host) {
            live.same_decide = same_decide;
        }
        for thread in self.observed_of(host) {
            self.follow(host, thread);
        }
        self.show_hosts();
    }

    /// The connection has ended: nothing shown is current any more.
    fn lost(&mut self, host: HostId) {
        if let Some(link) = self.hosts.get_mut(&host) {
            link.down();
        }
        let now = self.shared.platform.now_ms();
        let noted = self
            .store
            .transaction(|tx| tx.host_seen(host, now), Durability::Lazy);
        self.note("noting a host", noted);
        let mut stale = Vec::new();
        {
            let mut live = lock(&self.shared.live);
            for ((of, thread), held) in &mut live.threads {
                if *of == host && held.synchronised {
                    held.synchronised = false;
                    stale.push(*thread);
                }
            }
        }
        for thread in stale {
            self.show_timeline(host, thread, true);
        }
        self.tell_current();
        self.show_hosts();
    }

    /// The host has taken this device's pairing back: for good, also over restarts.
    pub(crate) fn revoked(&mut self, host: HostId) {
        let parked = self.store.transaction(
            |tx| {
                if let Some(mut row) = tx.host(host)? {
                    row.revoked = true;
                    tx.put_host(&row)?;
                }
                let waiting = tx.pending(host)?;
                tx.park_all(host, ParkReason::DeviceRevoked)?;
                Ok::<_, StoreError>(waiting)
            },
            Durability::Synced,
        );
        if let Some(waiting) = self.note("noting that this device was revoked", parked) {
            for entry in waiting {
                self.resolve(
                    entry.command.id,
                    crate::api::TicketOutcome::Parked {
                        reason: crate::shared::parked_words(ParkReason::DeviceRevoked),
                    },
                );
                self.show_outbox(host, entry.command.thread, true);
            }
        }
        if let Some(mut link) = self.hosts.remove(&host) {
            link.down();
        }
        lock(&self.shared.live).hosts.remove(&host);
        self.show_hosts();
        self.shared.changed(Shows::Delivery, true);
    }

    fn told(&mut self, host: HostId, message: HostMessage) {
        match message {
            HostMessage::Feed { sub, update } => {
                if self.is_feed(host, sub) {
                    self.feed(host, &update);
                }
            }
            HostMessage::Subscribed {
                sub,
                thread,
                answer,
            } => self.subscribed(host, sub, thread, *answer),
            HostMessage::Entries { sub, entries } => self.entries(host, sub, &entries),
            HostMessage::OpenItems { sub, items, .. } => {
                if let Some(thread) = self.thread_of(host, sub) {
                    self.open_items(host, thread, &items, false);
                }
            }
            HostMessage::Live { thread, live } => self.live_text(host, thread, &live),
            HostMessage::Outcome {
                command_id,
                outcome,
            } => self.outcome(host, command_id, outcome),
            HostMessage::Result { id, answer } => {
                let reply = self
                    .hosts
                    .get_mut(&host)
                    .and_then(|link| link.up.as_mut())
                    .and_then(|up| up.answered(id));
                if let Some(reply) = reply {
                    reply(match answer {
                        QueryAnswer::Result(result) => Ok(result),
                        QueryAnswer::Error(error) => Err(answered(error)),
                    });
                }
            }
            HostMessage::Error(error) => self.complaint(host, &error),
            // Those that open or end a connection are the link's.
            HostMessage::Welcome(_)
            | HostMessage::Paired(_)
            | HostMessage::Pong { .. }
            | HostMessage::Bye { .. } => {}
        }
    }

    fn is_feed(&self, host: HostId, sub: SubId) -> bool {
        let up = self.hosts.get(&host).and_then(|link| link.up.as_ref());
        // 0 is none: it is being asked for again.
        up.is_some_and(|up| sub != 0 && up.feed == sub)
    }

    fn thread_of(&self, host: HostId, sub: SubId) -> Option<ThreadId> {
        self.hosts.get(&host)?.up.as_ref()?.thread_of(sub)
    }

    fn complaint(&mut self, host: HostId, error: &WireError) {
        self.shared.log(
            LogLevel::Warn,
            "link",
            &format!("the host says: {}; {}", error.message, error.next_step),
        );
        match error.about {
            ErrorAbout::Sub { sub } => {
                if self.is_feed(host, sub) {
                    self.feed_later(host);
                } else if let Some(thread) = self.thread_of(host, sub) {
                    if error.code == ErrorCode::Unsupported {
                        lock(&self.shared.live).thread(host, thread).newer = true;
                        self.show_timeline(host, thread, true);
                    }
                    // A thread that the host does not have yet is followed as soon as its line comes.
                    let again = (error.code != ErrorCode::NotFound).then_some(Again::FromStored);
                    self.not_followed(host, thread, again);
                }
            }
            ErrorAbout::Command { id } => {
                let refusal = error.refusal();
                self.outcome(host, id, Some(Outcome::Refused { refusal }));
            }
            ErrorAbout::Query { id } => {
                let reply = self
                    .hosts
                    .get_mut(&host)
                    .and_then(|link| link.up.as_mut())
                    .and_then(|up| up.answered(id));
                if let Some(reply) = reply {
                    reply(Err(answered(error.clone())));
                }
            }
            ErrorAbout::Message { .. } | ErrorAbout::Connection => {}
        }
    }

    fn subscribed(&mut self, host: HostId, sub: SubId, thread: ThreadId, answer: Subscribed) {
        if self.thread_of(host, sub) != Some(thread) {
            return;
        }
        let reset = answer.gap.is_some();
        if answer.gap == Some(GapReason::Ahead) {
            self.ledger_restored(host, Some(thread));
        }
        let known = self
            .following(host, thread)
            .is_some_and(|following| following.at.is_some());
        let mut at = None;
        if reset {
            let Some(snapshot) = answer.snapshot else {
                self.shared
                    .log(LogLevel::Error, "link", "a gap came without a snapshot");
                self.not_followed(host, thread, Some(Again::FromNothing));
                return;
            };
            if snapshot.state.thread != thread {
                self.shared.log(
                    LogLevel::Error,
                    "link",
                    "a snapshot of another thread came than was asked for; it is not kept",
                );
                self.not_followed(host, thread, Some(Again::FromNothing));
                return;
            }
            let kept = self.store.transaction(
                |tx| tx.reset_thread(host, &snapshot, &answer.rows, &answer.open_items),
                Durability::Lazy,
            );
            if self.note("keeping a thread", kept).is_none() {
                self.not_followed(host, thread, Some(Again::FromStored));
                return;
            }
            self.begun_anew(host, thread);
            at = Some(*snapshot);
        }
        if let Some(following) = self.following(host, thread) {
            if reset {
                following.at = at;
            }
            following.high_water = Some(answer.high_water);
        }
        // A thread seen for the first time fills what was shown empty; nothing shown becomes wrong.
        if reset && (known || answer.gap != Some(GapReason::Fresh)) {
            lock(&self.shared.live).thread(host, thread).generation += 1;
        }
        self.open_items(host, thread, &answer.open_items, true);
        self.caught_up(host, thread);
        self.show_timeline(host, thread, true);
    }

    pub(crate) fn following(&mut self, host: HostId, thread: ThreadId) -> Option<&mut Following> {
        self.hosts
            .get_mut(&host)?
            .up
            .as_mut()?
            .following
            .get_mut(&thread)
    }

    /// Texts of open items as the host has them; `all` if there are no others.
    fn open_items(&mut self, host: HostId, thread: ThreadId, items: &[OpenItem], all: bool) {
        {
            let mut live = lock(&self.shared.live);
            let held = live.thread(host, thread);
            if all {
                held.texts.clear();
            }
            for item in items {
                held.texts
                    .insert(item.item, LiveBuffer::new(item.from, &item.text));
            }
        }
        self.save_texts(host, thread);
        self.shared.changed(Shows::Timeline(host, thread), false);
    }

    fn live_text(&mut self, host: HostId, thread: ThreadId, text: &LiveText) {
        if self.following(host, thread).is_none() {
            return;
        }
        let (changed, first) = {
            let mut live = lock(&self.shared.live);
            let held = live.thread(host, thread);
            // The row of an item has just been shown when its first words come: they do not wait for the next frame.
            let first = !held.texts.contains_key(&text.item);
            (held.push(text), first)
        };
        if changed {
            self.shared.changed(Shows::Timeline(host, thread), first);
            if self.elsewhere.contains(&(host, thread)) {
                let saved = self
                    .store
                    .transaction(|tx| tx.append_live(thread, text), Durability::Lazy);
                self.note("saving streamed text", saved);
            }
        }
    }

    /// Says that a thread is current once everything up to the host's answer has come.
    fn caught_up(&mut self, host: HostId, thread: ThreadId) {
        let Some(following) = self.following(host, thread) else {
            return;
        };
        let seq = following.at.as_ref().map_or(0, |at| at.cursor.seq);
        let reached = following
            .high_water
            .is_some_and(|high_water| seq >= high_water.seq);
        {
            let mut live = lock(&self.shared.live);
            let held = live.thread(host, thread);
            held.synchronised = reached;
            held.newer &= !reached;
        }
        self.tell_current();
    }

    fn entries(&mut self, host: HostId, sub: SubId, entries: &[Entry]) {
        let Some(thread) = self.thread_of(host, sub) else {
            return;
        };
        let Some(following) = self.following(host, thread) else {
            return;
        };
        let mut at = following.at.take().unwrap_or_else(|| Snapshot {
            state: ThreadState::empty(thread),
            cursor: Cursor::default(),
        });
        let cursor = at.cursor;
        let mut fresh = Vec::new();
        let mut gap = None;
        for entry in entries {
            let expected = fresh
                .last()
                .map_or(cursor.seq, |last: &&Entry| last.seq)
                .saturating_add(1);
            if entry.seq < expected && (cursor.seq == 0 || entry.epoch == cursor.epoch) {
                continue;
            }
            if entry.seq != expected || (cursor.seq > 0 && entry.epoch != cursor.epoch) {
                gap = Some(format!("entry {expected} was expected, {} came", entry.seq));
                break;
            }
            fresh.push(entry);
        }
        let applied = if fresh.is_empty() {
            Ok(())
        } else {
            self.store.transaction(
                |tx| tx.apply_entries(host, &mut at, fresh.iter().copied()),
                Durability::Lazy,
            )
        };
        // With no room, what is held is right and only old: from there it goes on once there is room again.
        let again = match &applied {
            Err(StoreError::DiskFull { .. } | StoreError::Busy { .. }) => Again::FromStored,
            _ => Again::FromNothing,
        };
        if self.note("keeping entries", applied).is_none() {
            self.not_followed(host, thread, Some(again));
            return;
        }
        if !fresh.is_empty() && gap.is_none() {
            self.kept(host, thread);
        }
        if let Some(following) = self.following(host, thread) {
            following.at = Some(at);
        }
        let mut at_once = false;
        {
            let mut live = lock(&self.shared.live);
            let held = live.thread(host, thread);
            for event in fresh.iter().flat_map(|entry| &entry.events) {
                let LoggedEvent::Known(event) = event else {
                    continue;
                };
                at_once |= is_urgent(event);
                if let Event::ItemClosed { item, .. } = &**event {
                    held.texts.remove(item);
                }
            }
        }
        self.caught_up(host, thread);
        self.show_timeline(host, thread, at_once);
        if let Some(why) = gap {
            self.follow_anew(host, thread, &why);
        }
    }
}

/// What a person waits for, or an end: shown without waiting for the next frame.
fn is_urgent(event: &Event) -> bool {
    match event {
        Event::RequestOpened { .. }
        | Event::RequestChanged { .. }
        | Event::RequestAnswering { .. }
        | Event::RequestClosed { .. }
        | Event::RunEnded { .. }
        | Event::RunStarted { .. }
        | Event::InterruptRequested { .. }
        | Event::NoticeRaised { .. }
        | Event::AnomalyFound { .. } => true,
        Event::ItemClosed { status, .. } => *status == ItemStatus::Failed,
        _ => false,
    }
}

fn answered(error: WireError) -> QueryError {
    QueryError::Answered {
        message: error.message,
        next_step: error.next_step,
    }
}
