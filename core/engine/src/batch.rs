//! What an observer is given: batches of list operations, to be applied in order.

use crate::rows::{
    DeliveryRow, HostRow, InboxRow, ThreadCounts, ThreadHeader, ThreadRow, TimelineRow,
};
use pilothouse_domain::ItemId;

/// One delivery to a [`crate::Sink`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    /// Of [`crate::Scope::Hosts`].
    Hosts(ListBatch<HostRow>),
    /// Of [`crate::Scope::Threads`].
    Threads(ThreadsBatch),
    /// Of [`crate::Scope::Timeline`].
    Timeline(Box<TimelineBatch>),
    /// Of [`crate::Scope::Inbox`].
    Inbox(ListBatch<InboxRow>),
    /// Of [`crate::Scope::Delivery`].
    Delivery(ListBatch<DeliveryRow>),
}

impl Batch {
    /// Whether what was delivered before is to be forgotten first.
    pub fn is_reset(&self) -> bool {
        match self {
            Self::Hosts(batch) => batch.reset,
            Self::Threads(batch) => batch.list.reset,
            Self::Timeline(batch) => batch.reset,
            Self::Inbox(batch) => batch.reset,
            Self::Delivery(batch) => batch.reset,
        }
    }
}

/// Changes of the window that a list of threads shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadsBatch {
    /// Changes of the rows. What leaves the window at its end is removed: it is still there, only older.
    pub list: ListBatch<ThreadRow>,
    /// How many threads there are now.
    pub counts: ThreadCounts,
    /// Whether older threads exist than those shown.
    pub more: bool,
}

impl ThreadsBatch {
    /// Applies the batch to the rows of a window, as an observer does.
    pub fn apply(&self, rows: &mut Vec<ThreadRow>) {
        self.list.apply(rows);
    }
}

/// Changes of a list. On a reset the list is emptied first, and the operations are inserts in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListBatch<T> {
    /// Whether the list is emptied first.
    pub reset: bool,
    /// To be applied in this order.
    pub ops: Vec<ListOp<T>>,
}

impl<T: Clone> ListBatch<T> {
    /// Applies the batch to a list, as an observer does.
    pub fn apply(&self, list: &mut Vec<T>) {
        if self.reset {
            list.clear();
        }
        for op in &self.ops {
            op.apply(list);
        }
    }
}

/// One change of a list. Indices count in the list as the operations before have left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListOp<T> {
    /// Puts a row before the one at `index` (or at the end).
    Insert {
        /// Its place.
        index: u32,
        /// The row.
        row: T,
    },
    /// Replaces the row at `index`.
    Update {
        /// Its place.
        index: u32,
        /// The row.
        row: T,
    },
    /// Takes the row at `index` away.
    Remove {
        /// Its place.
        index: u32,
    },
}

impl<T: Clone> ListOp<T> {
    /// Applies it to a list. An index out of bounds changes nothing: an observer that lost its place is given a reset.
    pub fn apply(&self, list: &mut Vec<T>) {
        match self {
            Self::Insert { index, row } => {
                let index = (*index as usize).min(list.len());
                list.insert(index, row.clone());
            }
            Self::Update { index, row } => {
                if let Some(slot) = list.get_mut(*index as usize) {
                    *slot = row.clone();
                }
            }
            Self::Remove { index } => {
                if (*index as usize) < list.len() {
                    list.remove(*index as usize);
                }
            }
        }
    }
}

/// Changes of a timeline: apply `ops`, then `texts`, then show `header`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineBatch {
    /// Whether the list is emptied first: at the start and after a gap.
    pub reset: bool,
    /// Changes of the rows.
    pub ops: Vec<ListOp<TimelineRow>>,
    /// Text that streamed in since.
    pub texts: Vec<AppendText>,
    /// How the thread stands now.
    pub header: ThreadHeader,
}

impl TimelineBatch {
    /// Applies the batch to a list of rows, as an observer does.
    pub fn apply(&self, rows: &mut Vec<TimelineRow>) {
        if self.reset {
            rows.clear();
        }
        for op in &self.ops {
            op.apply(rows);
        }
        for append in &self.texts {
            if let Some(row) = rows.iter_mut().find(|row| row.id == append.id) {
                row.text.append(append.at, &append.text);
            }
        }
    }
}

/// Text to be added to a row's `text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendText {
    /// The row.
    pub id: ItemId,
    /// Offset in UTF-8 bytes of the item's whole text at which it belongs. Where it is beyond the row's end, the bytes
    /// between were skipped and come with the item's close (or by [`crate::Query::Body`]).
    pub at: u64,
    /// The text.
    pub text: String,
}
