//! What a device of an earlier version cannot read, in words that it does (docs/compatibility.md).
//!
//! A value with a word that a device does not know makes it drop the whole message, and the thread with it. So a device names
//! those that it knows in its `hello`, and a host puts another in the place of the rest: less is said, nothing is lost.

use pilothouse_domain::{
    Entry, Event, LoggedEvent,
    event::HoldReason,
    feed::{FeedUpdate, Subscribed},
};
use pilothouse_wire::message::{HELD_FOR_SIGN_IN, Hello};

/// Which of the later words a device reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words {
    held_for_sign_in: bool,
}

impl Words {
    pub(crate) fn of(hello: &Hello) -> Self {
        Self {
            held_for_sign_in: hello.words.iter().any(|word| word == HELD_FOR_SIGN_IN),
        }
    }

    /// A queue that is held for its agent's sign-in stands behind a run that failed, or joins one that does.
    fn held(self, held: &mut Option<HoldReason>) {
        if !self.held_for_sign_in && *held == Some(HoldReason::SignIn) {
            *held = Some(HoldReason::Failed);
        }
    }

    pub(crate) fn feed(self, update: &mut FeedUpdate) {
        for thread in &mut update.threads {
            self.held(&mut thread.summary.held);
        }
    }

    pub(crate) fn subscribed(self, answer: &mut Subscribed) {
        if let Some(snapshot) = &mut answer.snapshot {
            self.held(&mut snapshot.state.held);
        }
    }

    pub(crate) fn entries(self, entries: &mut [Entry]) {
        for event in entries.iter_mut().flat_map(|entry| &mut entry.events) {
            if let LoggedEvent::Known(event) = event
                && let Event::QueueHeld { reason } = event.as_mut()
            {
                self.held(reason);
            }
        }
    }
}
