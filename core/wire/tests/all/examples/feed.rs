//! What a device is told of the feed, and of a thread from which it is too far away.

use super::{EPOCH, THREAD, cursor, message, request, summary};
use pilothouse_domain::{
    Row, ThreadState,
    feed::{FeedCursor, FeedThread, FeedUpdate, GapReason, Subscribed},
    row::{OpenItem, Snapshot, WaitingCounts},
};

pub(crate) fn feed_thread() -> FeedThread {
    FeedThread {
        summary: summary(),
        requests: vec![request()],
    }
}

pub(crate) fn feed_update(threads: Vec<FeedThread>) -> FeedUpdate {
    FeedUpdate {
        cursor: FeedCursor {
            epoch: EPOCH,
            revision: 901,
        },
        reset: true,
        threads,
        removed: vec![THREAD],
        counts: WaitingCounts {
            approvals: 1,
            questions: 0,
        },
        more: false,
    }
}

pub(crate) fn gap(open_items: Vec<OpenItem>) -> Subscribed {
    Subscribed {
        gap: Some(GapReason::Ahead),
        snapshot: Some(Box::new(Snapshot {
            state: ThreadState::empty(THREAD),
            cursor: cursor(),
        })),
        rows: vec![Row::Message(message()), Row::Request(Box::new(request()))],
        older: true,
        open_items,
        high_water: cursor(),
    }
}
