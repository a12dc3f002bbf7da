//! What a person reads: rows in, text out. Nothing here waits, asks a host or knows an engine type, so every line can be
//! tested from constructed rows.

pub(crate) mod item;
pub(crate) mod lists;
pub(crate) mod live;
pub(crate) mod request;
pub(crate) mod words;

/// A name in the middle of a line of ours.
pub(crate) fn safe(text: &str) -> String {
    crate::client::text::one_line(text, 80)
}
