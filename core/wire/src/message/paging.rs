//! Cuts what a ledger gives into messages that fit into frames.

use super::{EncodeError, HostMessage, Message, SubId};
use crate::duplex::MAX_FRAME;
use pilothouse_domain::{
    Entry, ThreadId,
    feed::{FeedUpdate, Subscribed},
};
use serde::Serialize;

/// Bytes of content after which a new page is begun: far below the frame's limit, so that live text and answers do
/// not wait long behind a page.
pub const PAGE_BYTES: usize = 128 * 1024;
/// What a message needs beside the pieces that are counted: ids, numbers, a snapshot of at most 50 KB.
const ENVELOPE: usize = 64 * 1024;

/// Entries of a log as messages, in order, none left out.
///
/// # Errors
/// [`EncodeError`] for an entry that alone is larger than a frame.
pub fn entries_in_pages(sub: SubId, entries: Vec<Entry>) -> Result<Vec<HostMessage>, EncodeError> {
    let pages = in_pages(entries, "entries")?;
    Ok(pages
        .into_iter()
        .map(|entries| HostMessage::Entries { sub, entries })
        .collect())
}

/// A step of the feed as messages. With several, only the last has `more` as given, all others `true`; `reset` and
/// what was removed stand in the first.
///
/// # Errors
/// [`EncodeError`] for a thread whose open requests alone are larger than a frame.
pub fn feed_in_pages(sub: SubId, update: FeedUpdate) -> Result<Vec<HostMessage>, EncodeError> {
    let FeedUpdate {
        cursor,
        reset,
        threads,
        mut removed,
        counts,
        more,
    } = update;
    let mut pages = in_pages(threads, "feed")?;
    if pages.is_empty() {
        pages.push(Vec::new());
    }
    let last = pages.len() - 1;
    let message = |(index, threads)| {
        let update = FeedUpdate {
            cursor,
            reset: reset && index == 0,
            threads,
            removed: std::mem::take(&mut removed),
            counts,
            more: more || index < last,
        };
        HostMessage::Feed {
            sub,
            update: Box::new(update),
        }
    };
    Ok(pages.into_iter().enumerate().map(message).collect())
}

/// The answer to a subscription as messages: `subscribed`, and `open_items` for texts that do not fit.
///
/// # Errors
/// [`EncodeError`] if the rows, or one open item's text, are larger than a frame; a ledger cuts both.
pub fn subscribed_in_pages(
    sub: SubId,
    thread: ThreadId,
    answer: Subscribed,
) -> Result<Vec<HostMessage>, EncodeError> {
    let Subscribed {
        open_items,
        high_water,
        ..
    } = answer;
    let mut pages = in_pages(open_items, "open_items")?.into_iter();
    let rows = size(&answer.rows, "subscribed")?;
    // Rows may be large where a single one is; open items then go into messages of their own.
    let beside = if rows <= PAGE_BYTES {
        pages.next().unwrap_or_default()
    } else {
        Vec::new()
    };
    let first = HostMessage::Subscribed {
        sub,
        thread,
        answer: Box::new(Subscribed {
            open_items: beside,
            ..answer
        }),
    };
    check(first.type_name(), rows)?;
    let rest = pages.map(|items| HostMessage::OpenItems {
        sub,
        items,
        high_water,
    });
    Ok(std::iter::once(first).chain(rest).collect())
}

fn in_pages<T: Serialize>(pieces: Vec<T>, kind: &'static str) -> Result<Vec<Vec<T>>, EncodeError> {
    let mut pages: Vec<Vec<T>> = Vec::new();
    let mut filled = usize::MAX;
    for piece in pieces {
        let size = size(&piece, kind)?;
        check(kind, size)?;
        match pages.last_mut() {
            Some(page) if filled.saturating_add(size) <= PAGE_BYTES => {
                page.push(piece);
                filled += size;
            }
            _ => {
                pages.push(vec![piece]);
                filled = size;
            }
        }
    }
    Ok(pages)
}

fn check(kind: &'static str, size: usize) -> Result<(), EncodeError> {
    if size > MAX_FRAME - ENVELOPE {
        return Err(EncodeError::TooLarge { kind, size });
    }
    Ok(())
}

/// Bytes of a value in JSON, and of a comma. Written once more for that: by a writer of its own that only counts, all that is ever
/// sent would be compiled a second time.
fn size<T: Serialize>(value: &T, kind: &'static str) -> Result<usize, EncodeError> {
    let json = serde_json::to_vec(value).map_err(|error| EncodeError::Unserialisable {
        kind,
        reason: error.to_string(),
    })?;
    Ok(json.len() + 1)
}
