//! What `--json` prints: one object per line, each with its `type`. Names are stable and documented in docs/cli.md; golden
//! tests hold them. Times are Unix milliseconds and end in `_ms`; what is not known is `null` or left out as documented.

mod rows;
mod verbs;

pub(crate) use rows::{Gone, Host, Item, Request, Standing, Thread, Threads};
pub(crate) use verbs::{
    Answered, Chosen, Commands, Compacted, Created, ErrorLine, Files, Forked, Idle, Imported,
    Interrupted, Joined, NativeSession, NativeSessions, QueueChanged, QueueLine, RequestGone,
    Reset, RolledBack, Sent, Text, ThreadGone,
};

use serde::Serialize;

/// A line of output with its type.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a, T: Serialize> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    body: T,
}

/// The object as it is printed, without the line's end.
pub(crate) fn line<T: Serialize>(kind: &str, body: T) -> String {
    // Every type here has string keys and no failing serializer.
    serde_json::to_string(&Line { kind, body }).unwrap_or_default()
}

/// How a list changed; `insert` for every row of a list that is printed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    /// A new row.
    Insert,
    /// A row that was there, as it is now.
    Update,
}
