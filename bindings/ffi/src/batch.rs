//! Batches: lists change by operations, to be applied in order.

use crate::rows::{ThreadHeader, ThreadRow};
use pilothouse_domain::ItemId;
use pilothouse_engine::{
    AppendText, Batch as EngineBatch, DeliveryRow, HostRow, InboxRow, ListOp, ThreadCounts,
    TimelineRow,
};

macro_rules! list_op {
    ($(#[$doc:meta])* $name:ident, $row:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, uniffi::Enum)]
        pub enum $name {
            /// Puts a row in.
            Insert {
                /// Where; what stands there and behind moves up.
                index: u32,
                /// The row.
                row: $row,
            },
            /// Replaces a row.
            Update {
                /// Which.
                index: u32,
                /// The row now.
                row: $row,
            },
            /// Takes a row out.
            Remove {
                /// Which.
                index: u32,
            },
        }
    };
}

list_op!(/** A step of a list of hosts. */ HostOp, HostRow);
list_op!(/** A step of a list of threads. */ ThreadOp, ThreadRow);
list_op!(/** A step of a timeline. */ TimelineOp, TimelineRow);
list_op!(/** A step of the inbox. */ InboxOp, InboxRow);
list_op!(/** A step of the outbox. */ DeliveryOp, DeliveryRow);

macro_rules! from_list_op {
    ($($op:ident: $row:ty),*) => {$(
        impl From<ListOp<$row>> for $op {
            fn from(op: ListOp<$row>) -> Self {
                match op {
                    ListOp::Insert { index, row } => Self::Insert { index, row: row.into() },
                    ListOp::Update { index, row } => Self::Update { index, row: row.into() },
                    ListOp::Remove { index } => Self::Remove { index },
                }
            }
        }
    )*};
}

from_list_op!(
    HostOp: HostRow, ThreadOp: pilothouse_engine::ThreadRow, TimelineOp: TimelineRow, InboxOp: InboxRow,
    DeliveryOp: DeliveryRow
);

/// How many threads there are, on the host of a list's filter or on all, whatever a window shows of them. Threads that
/// are only predicted do not count.
#[uniffi::remote(Record)]
pub struct ThreadCounts {
    /// All that are not archived.
    pub all: u64,
    /// Those in which something waits for a person.
    pub waiting: u64,
    /// Those that work without one.
    pub running: u64,
    /// Those whose last run failed.
    pub failed: u64,
    /// Those that are put away.
    pub archived: u64,
    /// Commands of this device that wait to be confirmed.
    pub outstanding: u32,
}

/// Text that was added to an open item.
#[uniffi::remote(Record)]
pub struct AppendText {
    /// The item.
    pub id: ItemId,
    /// Offset in UTF-8 bytes at which it begins; beyond the end of what is shown, something was skipped.
    pub at: u64,
    /// The text.
    pub text: String,
}

/// What an observer is given. With `reset`, the list before it is forgotten first.
#[derive(Debug, Clone, uniffi::Enum)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is made per delivery, and it is taken apart at once"
)]
pub enum Batch {
    /// Of `Scope.Hosts`.
    Hosts {
        /// Whether to begin anew.
        reset: bool,
        /// Steps, in order.
        ops: Vec<HostOp>,
    },
    /// Of `Scope.Threads`.
    Threads {
        /// Whether to begin anew.
        reset: bool,
        /// Steps, in order. What leaves the window at its end is removed: it is still there, only older.
        ops: Vec<ThreadOp>,
        /// How many threads there are now.
        counts: ThreadCounts,
        /// Whether older threads exist than those shown.
        more: bool,
    },
    /// Of `Scope.Timeline`.
    Timeline {
        /// Whether to begin anew.
        reset: bool,
        /// Steps, in order; before the texts.
        ops: Vec<TimelineOp>,
        /// Text added to open items.
        texts: Vec<AppendText>,
        /// What stands above it now.
        header: ThreadHeader,
    },
    /// Of `Scope.Inbox`.
    Inbox {
        /// Whether to begin anew.
        reset: bool,
        /// Steps, in order.
        ops: Vec<InboxOp>,
    },
    /// Of `Scope.Delivery`.
    Delivery {
        /// Whether to begin anew.
        reset: bool,
        /// Steps, in order.
        ops: Vec<DeliveryOp>,
    },
}

impl From<EngineBatch> for Batch {
    fn from(given: EngineBatch) -> Self {
        fn ops<T, O: From<ListOp<T>>>(ops: Vec<ListOp<T>>) -> Vec<O> {
            ops.into_iter().map(Into::into).collect()
        }
        match given {
            EngineBatch::Hosts(list) => Self::Hosts {
                reset: list.reset,
                ops: ops(list.ops),
            },
            EngineBatch::Threads(threads) => Self::Threads {
                reset: threads.list.reset,
                ops: ops(threads.list.ops),
                counts: threads.counts,
                more: threads.more,
            },
            EngineBatch::Timeline(timeline) => Self::Timeline {
                reset: timeline.reset,
                ops: ops(timeline.ops),
                texts: timeline.texts,
                header: timeline.header.into(),
            },
            EngineBatch::Inbox(list) => Self::Inbox {
                reset: list.reset,
                ops: ops(list.ops),
            },
            EngineBatch::Delivery(list) => Self::Delivery {
                reset: list.reset,
                ops: ops(list.ops),
            },
        }
    }
}
