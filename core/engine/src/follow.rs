//! What of a host is asked for: its feed, and the threads that somebody observes. What fails is asked for again, each
//! time after a longer wait, as long as the connection lasts.

use crate::{actor::Actor, api::LogLevel, delivery::lock, hosts::Following};
use pilothouse_domain::{HostId, ThreadId, feed::FeedCursor};
use pilothouse_wire::message::DeviceMessage;
use std::time::Instant;

/// Bytes of rows asked for with a snapshot: what a screen shows first.
const TAIL_BYTES: u32 = 50 * 1024;

/// From where a thread that could not be followed is followed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// From the stored place.
    FromStored,
    /// From nothing: what is stored may be what was wrong.
    FromNothing,
}

impl Actor {
    /// Asks for the host's feed from the stored place on, if it is connected.
    pub(crate) fn ask_feed(&mut self, host: HostId) {
        let known = self.store.feed_cursor(host);
        let Some(known) = self.note("reading a feed's place", known) else {
            self.feed_later(host);
            return;
        };
        let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) else {
            return;
        };
        let fresh = known == FeedCursor::default();
        up.feed = up.new_sub();
        up.feed_known = !fresh;
        up.feed_step = None;
        up.send(DeviceMessage::SubscribeFeed {
            sub: up.feed,
            cursor: (!fresh).then_some(known),
        });
    }

    /// The feed could not be had or kept: what still comes of it is left out, and it is asked for again.
    pub(crate) fn feed_later(&mut self, host: HostId) {
        let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) else {
            return;
        };
        if up.feed != 0 {
            up.send(DeviceMessage::Unsubscribe { sub: up.feed });
            up.feed = 0;
        }
        up.feed_again.failed((), Instant::now(), self.shared.draw());
    }

    /// Asks again for what was put off and is due.
    pub(crate) fn ask_again(&mut self, host: HostId, now: Instant) {
        let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) else {
            return;
        };
        let feed = !up.feed_again.take_due(now).is_empty();
        let threads = up.follow_again.take_due(now);
        if feed {
            self.ask_feed(host);
        }
        for thread in threads {
            self.follow(host, thread);
        }
    }

    /// Begins to follow an observed thread, if its host is connected and it is not put off.
    pub(crate) fn follow(&mut self, host: HostId, thread: ThreadId) {
        let Some(up) = self.hosts.get(&host).and_then(|link| link.up.as_ref()) else {
            return;
        };
        if up.following.contains_key(&thread) || up.follow_again.is_waiting(thread) {
            return;
        }
        let at = self.store.state(thread);
        let Some(at) = self.note("reading a state", at) else {
            self.not_followed(host, thread, Some(Again::FromNothing));
            return;
        };
        let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) else {
            return;
        };
        let anew = up.from_nothing.remove(&thread);
        let at = at
            .filter(|(held_by, snapshot)| {
                *held_by == host
                    && !anew
                    && snapshot.state.version == pilothouse_domain::state::STATE_VERSION
            })
            .map(|(_, snapshot)| snapshot);
        let sub = up.new_sub();
        up.send(DeviceMessage::Subscribe {
            sub,
            thread,
            cursor: at.as_ref().map(|at| at.cursor),
            tail_bytes: TAIL_BYTES,
        });
        up.following.insert(
            thread,
            Following {
                sub,
                at,
                high_water: None,
            },
        );
    }

    /// Nobody observes the thread any more.
    pub(crate) fn unfollow(&mut self, host: HostId, thread: ThreadId) {
        if let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) {
            up.follow_again.forget(thread);
            up.gapped.remove(&thread);
            if let Some(following) = up.following.remove(&thread) {
                up.send(DeviceMessage::Unsubscribe { sub: following.sub });
            }
        }
        lock(&self.shared.live).threads.remove(&(host, thread));
    }

    /// A thread is not followed any more, or what came of it could not be kept: what is shown of it is not current.
    /// Unless it is to come by itself, it is followed again after a while.
    pub(crate) fn not_followed(&mut self, host: HostId, thread: ThreadId, again: Option<Again>) {
        if let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) {
            if let Some(following) = up.following.remove(&thread) {
                up.send(DeviceMessage::Unsubscribe { sub: following.sub });
            }
            if again == Some(Again::FromNothing) {
                up.from_nothing.insert(thread);
            }
            if again.is_some() {
                up.follow_again
                    .failed(thread, Instant::now(), self.shared.draw());
            }
        }
        let was_current = {
            let mut live = lock(&self.shared.live);
            std::mem::take(&mut live.thread(host, thread).synchronised)
        };
        if was_current {
            self.show_timeline(host, thread, true);
            self.tell_current();
        }
    }

    /// What came of a thread has been kept, and did not lead to a gap.
    pub(crate) fn kept(&mut self, host: HostId, thread: ThreadId) {
        if let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) {
            up.follow_again.forget(thread);
            up.gapped.remove(&thread);
        }
    }

    /// A snapshot of a thread has been kept. After a gap that proves nothing yet: the entries behind it do.
    pub(crate) fn begun_anew(&mut self, host: HostId, thread: ThreadId) {
        let up = self.hosts.get(&host).and_then(|link| link.up.as_ref());
        if up.is_some_and(|up| !up.gapped.contains(&thread)) {
            self.kept(host, thread);
        }
    }

    /// What came does not fit what is held: it is fetched anew from nothing after a while, a longer one each time.
    pub(crate) fn follow_anew(&mut self, host: HostId, thread: ThreadId, why: &str) {
        self.shared.log(
            LogLevel::Warn,
            "link",
            &format!("a thread is fetched anew: {why}"),
        );
        if let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) {
            up.gapped.insert(thread);
        }
        self.not_followed(host, thread, Some(Again::FromNothing));
    }
}
