//! Text that streams into open items: kept out of the log, saved in chunks, so that a crash loses little and a device
//! that joins sees what was said so far (DESIGN section 3).

use pilothouse_domain::{ItemId, ThreadId, row::OpenItem};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Unsaved text that makes a chunk, while an item is short.
const CHUNK: usize = 2 * 1024;
/// From this size on, chunks are larger.
const LONG: u64 = 64 * 1024;
/// Unsaved text that makes a chunk of a long item.
const LONG_CHUNK: usize = 256 * 1024;
/// Text of an open item that a subscriber is given, from its end.
pub(crate) const TAIL: usize = 8 * 1024;
/// Unsaved text is saved after this time even if it makes no chunk.
pub(crate) const SAVE_AFTER: Duration = Duration::from_secs(5);

/// Open texts of all threads.
#[derive(Default)]
pub(crate) struct OpenTexts {
    items: BTreeMap<ItemId, OpenText>,
    /// Since when something waits to be saved.
    waiting_since: Option<Instant>,
}

struct OpenText {
    thread: ThreadId,
    /// Bytes streamed, dropped ones included.
    streamed: u64,
    /// Bytes saved.
    saved: u64,
    /// The rest.
    unsaved: String,
    /// The last of it, saved or not.
    tail: String,
}

/// A piece to be saved.
pub(crate) struct Chunk {
    pub(crate) item: ItemId,
    pub(crate) thread: ThreadId,
    pub(crate) offset: u64,
    pub(crate) text: String,
}

impl OpenTexts {
    /// Goes on with an item that an earlier life of the host saved, whose agent lives: `saved` is the end of what is there.
    pub(crate) fn go_on(&mut self, thread: ThreadId, saved: OpenItem) {
        let end = saved.from + saved.text.len() as u64;
        let open = OpenText {
            thread,
            streamed: end,
            saved: end,
            unsaved: String::new(),
            tail: saved.text,
        };
        self.items.insert(saved.item, open);
    }

    /// Takes text in; returns its offset in UTF-8 bytes.
    pub(crate) fn append(&mut self, thread: ThreadId, item: ItemId, text: &str) -> u64 {
        let open = self.items.entry(item).or_insert_with(|| OpenText {
            thread,
            streamed: 0,
            saved: 0,
            unsaved: String::new(),
            tail: String::new(),
        });
        self.waiting_since.get_or_insert_with(Instant::now);
        let offset = open.streamed;
        open.streamed += text.len() as u64;
        open.unsaved.push_str(text);
        open.tail.push_str(text);
        if open.tail.len() > 2 * TAIL {
            let cut = open.tail.ceil_char_boundary(open.tail.len() - TAIL);
            open.tail.drain(..cut);
        }
        offset
    }

    /// Chunks that are due: full ones, or all of them (`everything`, or when something has waited too long).
    pub(crate) fn due(&mut self, everything: bool) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        let everything = everything
            || self
                .waiting_since
                .is_some_and(|since| since.elapsed() >= SAVE_AFTER);
        if everything {
            self.waiting_since = None;
        }
        for (&item, open) in &mut self.items {
            let full = if open.saved < LONG { CHUNK } else { LONG_CHUNK };
            if open.unsaved.is_empty() || !(everything || open.unsaved.len() >= full) {
                continue;
            }
            let text = std::mem::take(&mut open.unsaved);
            chunks.push(Chunk {
                item,
                thread: open.thread,
                offset: open.saved,
                text,
            });
            if let Some(chunk) = chunks.last() {
                open.saved += chunk.text.len() as u64;
            }
        }
        chunks
    }

    /// Puts chunks back whose transaction failed.
    pub(crate) fn restore(&mut self, chunks: Vec<Chunk>) {
        for chunk in chunks {
            self.waiting_since.get_or_insert_with(Instant::now);
            if let Some(open) = self.items.get_mut(&chunk.item) {
                open.saved = chunk.offset;
                open.unsaved.insert_str(0, &chunk.text);
            }
        }
    }

    /// Whether anything waits to be saved.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.items.values().any(|open| !open.unsaved.is_empty())
    }

    /// What is not saved yet of an item.
    pub(crate) fn unsaved(&self, item: ItemId) -> &str {
        self.items.get(&item).map_or("", |open| &open.unsaved)
    }

    /// Forgets an item that was closed.
    pub(crate) fn close(&mut self, item: ItemId) {
        self.items.remove(&item);
    }

    /// The open items of a thread, as a subscriber is told.
    pub(crate) fn of_thread(&self, thread: ThreadId) -> Vec<OpenItem> {
        self.items
            .iter()
            .filter(|(_, open)| open.thread == thread)
            .map(|(&item, open)| {
                let cut = open
                    .tail
                    .ceil_char_boundary(open.tail.len().saturating_sub(TAIL));
                let text = open.tail[cut..].to_owned();
                OpenItem {
                    item,
                    from: open.streamed - text.len() as u64,
                    text,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> ItemId {
        ItemId::from_bytes([1; 16])
    }

    #[test]
    fn chunks_put_together_are_the_whole_text_and_the_tail_is_its_end() {
        let mut texts = OpenTexts::default();
        let thread = ThreadId::from_bytes([2; 16]);
        let piece = "häuser und bäume, ";
        let (mut whole, mut saved) = (String::new(), String::new());
        for _ in 0..40_000 {
            assert_eq!(texts.append(thread, item(), piece), whole.len() as u64);
            whole.push_str(piece);
            for chunk in texts.due(false) {
                assert_eq!(chunk.offset, saved.len() as u64);
                saved.push_str(&chunk.text);
            }
        }
        saved.extend(texts.due(true).into_iter().map(|chunk| chunk.text));
        assert_eq!(saved, whole);
        let open = texts.of_thread(thread).remove(0);
        assert_eq!(
            (
                open.from + open.text.len() as u64,
                whole.ends_with(&open.text)
            ),
            (whole.len() as u64, true)
        );
        assert!(open.text.len() <= TAIL);
    }

    #[test]
    fn an_item_of_an_earlier_life_goes_on_where_its_saved_text_ends() {
        let mut texts = OpenTexts::default();
        let thread = ThreadId::default();
        let saved = OpenItem {
            item: item(),
            from: 90,
            text: "its end, ".to_owned(),
        };
        texts.go_on(thread, saved.clone());
        assert!(!texts.has_unsaved());
        assert_eq!(texts.of_thread(thread), [saved]);
        assert_eq!(texts.append(thread, item(), "more"), 99);
        let chunk = texts.due(true).remove(0);
        assert_eq!((chunk.offset, chunk.text.as_str()), (99, "more"));
        let open = texts.of_thread(thread).remove(0);
        assert_eq!((open.from, open.text.as_str()), (90, "its end, more"));
    }

    #[test]
    fn a_chunk_whose_transaction_failed_is_due_again_in_its_place() {
        let mut texts = OpenTexts::default();
        texts.append(ThreadId::default(), item(), "one ");
        let failed = texts.due(true);
        texts.append(ThreadId::default(), item(), "two");
        texts.restore(failed);
        let chunk = texts.due(true).remove(0);
        assert_eq!((chunk.offset, chunk.text.as_str()), (0, "one two"));
    }
}
