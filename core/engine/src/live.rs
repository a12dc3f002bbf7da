//! What only lives in memory: streamed text, how links stand, what was submitted and is not on disk yet.
//!
//! Written by the core's thread (and `submit`), read by the delivery thread. Locks are held for copies only.

use crate::{api::Environment, rows::LinkState, ticket::TicketState};
use pilothouse_domain::{Command, CommandId, HostId, ItemId, ThreadId, row::LiveText};
use std::{collections::BTreeMap, sync::Arc};

/// Bytes of streamed text kept per open item: live output is tail-only, the whole comes with the close.
pub(crate) const LIVE_TEXT: usize = 256 * 1024;

/// The streamed text of an open item, as far as it is held: a tail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LiveBuffer {
    from: u64,
    text: String,
}

impl LiveBuffer {
    /// Text that begins at an offset.
    pub(crate) fn new(from: u64, text: &str) -> Self {
        let mut buffer = Self {
            from,
            text: text.to_owned(),
        };
        buffer.cut();
        buffer
    }

    /// Offset of the first byte held.
    pub(crate) fn from(&self) -> u64 {
        self.from
    }

    /// Offset behind the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.from.saturating_add(self.text.len() as u64)
    }

    /// What is held.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Adds text at its offset. What is held already is trimmed; after a jump only what follows it is held, and the
    /// item's close brings the whole. Returns whether anything changed.
    pub(crate) fn push(&mut self, offset: u64, text: &str) -> bool {
        let end = self.end();
        if offset > end {
            self.from = offset;
            self.text.clear();
            self.text.push_str(text);
        } else {
            let known = usize::try_from(end - offset).unwrap_or(usize::MAX);
            // An offset inside a character can only come from a broken host; its piece is left out.
            match text.get(known..) {
                Some(new) if !new.is_empty() => self.text.push_str(new),
                _ => return false,
            }
        }
        self.cut();
        true
    }

    /// The text from an offset on, with where it really begins; `None` if nothing is new.
    pub(crate) fn since(&self, offset: u64) -> Option<(u64, &str)> {
        if offset >= self.end() {
            return None;
        }
        let start = usize::try_from(offset.saturating_sub(self.from)).ok()?;
        let at = self.from.saturating_add(start as u64);
        Some((at, self.text.get(start..)?))
    }

    fn cut(&mut self) {
        // Cut in large steps, so that a stream does not move its tail with each delta.
        if self.text.len() > 2 * LIVE_TEXT {
            let cut = self.text.ceil_char_boundary(self.text.len() - LIVE_TEXT);
            self.text.drain(..cut);
            self.from = self.from.saturating_add(cut as u64);
        }
    }
}

/// What is known of an observed thread beside its rows.
#[derive(Debug, Default)]
pub(crate) struct ThreadLive {
    /// Grows when everything shown is to be shown anew.
    pub(crate) generation: u64,
    /// Another one with each change of rows, state or predictions; never the same twice, also over lives of this entry.
    pub(crate) version: u64,
    /// Streamed texts of open items.
    pub(crate) texts: BTreeMap<ItemId, LiveBuffer>,
    /// Whether what is stored is what the host has now.
    pub(crate) synchronised: bool,
    /// Whether its host last said something of it that this version does not read.
    pub(crate) newer: bool,
}

impl ThreadLive {
    pub(crate) fn push(&mut self, live: &LiveText) -> bool {
        self.texts
            .entry(live.item)
            .or_default()
            .push(live.offset, &live.text)
    }
}

/// What is known of a host beside its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostLive {
    pub(crate) link: LinkState,
    /// Whether host and device decide alike; `false` predicts nothing.
    pub(crate) same_decide: bool,
}

/// Everything of the above.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) hosts: BTreeMap<HostId, HostLive>,
    pub(crate) threads: BTreeMap<(HostId, ThreadId), ThreadLive>,
    /// Submitted, on the way to the outbox; in order.
    pub(crate) unsaved: Vec<(HostId, Command)>,
    /// Why the host could not take a command just now.
    pub(crate) waiting: BTreeMap<CommandId, String>,
    pub(crate) tickets: BTreeMap<CommandId, Vec<Arc<TicketState>>>,
    pub(crate) environment: Environment,
    /// Whether this process holds the links.
    pub(crate) owner: bool,
    pub(crate) closed: bool,
    versions: u64,
}

impl Live {
    /// What a timeline shows beside streamed text has changed.
    pub(crate) fn touch(&mut self, host: HostId, thread: ThreadId) {
        self.versions += 1;
        let version = self.versions;
        self.thread(host, thread).version = version;
    }

    /// What any timeline shows may have changed.
    pub(crate) fn touch_all(&mut self) {
        for held in self.threads.values_mut() {
            self.versions += 1;
            held.version = self.versions;
        }
    }

    pub(crate) fn thread(&mut self, host: HostId, thread: ThreadId) -> &mut ThreadLive {
        self.threads.entry((host, thread)).or_default()
    }

    pub(crate) fn is_up(&self, host: HostId) -> bool {
        self.hosts.get(&host).is_some_and(|live| {
            matches!(
                live.link,
                LinkState::Authenticated | LinkState::Synchronised
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LIVE_TEXT, LiveBuffer};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_that_overlap_in_any_way_give_the_text_once(
            text in "[a-zäß€😀]{0,60}",
            cuts in prop::collection::vec((0usize..60, 0usize..60), 0..20),
        ) {
            let bounds: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
            let mut buffer = LiveBuffer::default();
            let mut end = 0;
            for (a, b) in cuts {
                let (a, b) = (bounds[a % bounds.len()], bounds[b % bounds.len()]);
                let (a, b) = (a.min(b).min(end), a.max(b));
                buffer.push(a as u64, &text[a..b.max(a)]);
                end = end.max(b);
                prop_assert_eq!(buffer.text(), &text[..end]);
                prop_assert_eq!(buffer.end(), end as u64);
            }
        }
    }

    #[test]
    fn after_a_jump_only_what_follows_is_held() {
        let mut buffer = LiveBuffer::new(0, "abc");
        assert!(buffer.push(10, "xyz"));
        assert_eq!(
            (buffer.from(), buffer.text(), buffer.end()),
            (10, "xyz", 13)
        );
        assert!(!buffer.push(11, "yz"), "an overlap brings nothing new");
        assert_eq!(buffer.since(3), Some((10, "xyz")));
        assert_eq!(buffer.since(12), Some((12, "z")));
        assert_eq!(buffer.since(13), None);
    }

    #[test]
    fn an_offset_at_the_end_of_all_numbers_does_no_harm() {
        let mut buffer = LiveBuffer::new(u64::MAX - 1, "abc");
        assert_eq!(buffer.end(), u64::MAX);
        assert!(!buffer.push(u64::MAX, ""));
        assert_eq!(buffer.since(u64::MAX), None);
    }

    #[test]
    fn a_long_stream_keeps_its_tail_and_its_offsets() {
        let mut buffer = LiveBuffer::default();
        let piece = "0123456789abcdef".repeat(64);
        for n in 0..2000u64 {
            buffer.push(n * piece.len() as u64, &piece);
        }
        assert_eq!(buffer.end(), 2000 * piece.len() as u64);
        assert!(buffer.text().len() <= 2 * LIVE_TEXT + piece.len());
        assert!(buffer.text().len() >= LIVE_TEXT);
    }
}
