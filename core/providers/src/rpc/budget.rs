//! One budget of bytes for all that a codec holds of its agent (docs/decisions/035-one-budget-of-bytes-for-each-codec.md).
//!
//! To weigh everything at every frame would make reading quadratic. So what was read since the last weighing is counted as
//! the most that it can have become, and only where that could be too much, everything is weighed. What is beyond half of
//! the budget is given up then: the next weighing is at least [`HELD_LIMIT`] / 2 / [`GROWTH`] bytes of input away.

use super::frames::FRAME_LIMIT;
use pilothouse_domain::{NativeId, item::FileChange};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};

/// Bytes that a codec may hold of what its agent sent, after every frame. The frame that is being received comes on top, with
/// at most [`FRAME_LIMIT`] bytes.
pub const HELD_LIMIT: usize = 64 * 1024 * 1024;
/// Bytes that the reading of one frame may take on top of that, with the events that come of it.
pub const READING_LIMIT: usize = 8 * FRAME_LIMIT;
/// Bytes of memory that a byte of a frame can become where it is kept: `0,` is a value of 32 bytes in a list that was doubled.
const GROWTH: usize = 32;

/// How far the budget of a codec is used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budget {
    /// What was held when it was weighed last.
    weighed: usize,
    /// Bytes of frames since.
    read: usize,
}

impl Budget {
    /// Frames of so many bytes were read: whether what is held is to be weighed.
    pub(crate) fn is_due(&mut self, read: usize) -> bool {
        self.read = self.read.saturating_add(read);
        self.weighed
            .saturating_add(self.read.saturating_mul(GROWTH))
            > HELD_LIMIT
    }

    /// What is held, weighed after as much as possible of its excess was given up.
    pub(crate) fn weighed(&mut self, held: usize) {
        self.read = 0;
        self.weighed = held;
    }
}

/// What is held beyond half of the budget, and is to be given up.
#[derive(Debug)]
pub(crate) struct Excess {
    bytes: usize,
    /// Things that were given up.
    gone: usize,
}

impl Excess {
    /// Of what was weighed.
    pub(crate) fn of(held: usize) -> Self {
        Self {
            bytes: held.saturating_sub(HELD_LIMIT / 2),
            gone: 0,
        }
    }

    /// Whether nothing more is to be given up.
    pub(crate) fn is_gone(&self) -> bool {
        self.bytes == 0
    }

    /// Something of that weight was given up.
    pub(crate) fn give_up(&mut self, weight: usize) {
        self.bytes = self.bytes.saturating_sub(weight);
        self.gone += 1;
    }

    /// What is told of it, if anything was given up.
    pub(crate) fn in_words(&self) -> Option<String> {
        let limit = HELD_LIMIT / (1024 * 1024);
        (self.gone > 0).then(|| {
            format!(
                "{} things that the agent told were forgotten: more than {limit} MiB would be held",
                self.gone
            )
        })
    }
}

/// Bytes of an entry of a map of native ids that remembers their order, without what its value holds beside itself.
pub(crate) fn entry<V>(key: &NativeId) -> usize {
    // Nodes and queues are at least half full.
    2 * (2 * size_of::<NativeId>() + size_of::<V>() + block(key.as_str().len()))
}

/// Bytes of an allocation.
pub(crate) fn block(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + 16 }
}

/// Bytes of an optional id.
pub(crate) fn id(id: Option<&NativeId>) -> usize {
    id.map_or(0, |id| block(id.as_str().len()))
}

/// Bytes that changes to files hold.
pub(crate) fn changes(changes: &[FileChange]) -> usize {
    let one = |change: &FileChange| {
        let diff = usize::try_from(change.diff.len()).unwrap_or(usize::MAX);
        let moved = change.moved_to.as_ref().map_or(0, String::len);
        2 * size_of::<FileChange>() + block(change.path.len()) + block(moved) + block(diff)
    };
    changes.iter().map(one).sum()
}

/// Bytes of something written as JSON.
pub(crate) fn written(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither counting nor events fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Bytes that JSON holds beside the value itself.
pub(crate) fn json(value: &Value) -> usize {
    match value {
        Value::String(text) => block(text.len()),
        // A list that grew has room for twice as much.
        Value::Array(list) => list
            .iter()
            .map(|one| 2 * size_of::<Value>() + json(one))
            .sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, one)| {
                2 * (size_of::<String>() + size_of::<Value>()) + block(key.len()) + json(one)
            })
            .sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_weighed_before_it_can_be_beyond_the_budget_and_not_at_every_frame() {
        let mut budget = Budget::default();
        let (mut frames, mut weighings) = (0, 0);
        let mut held = 0;
        while frames < 100_000 {
            frames += 1;
            held += 1000 * GROWTH;
            if budget.is_due(1000) {
                weighings += 1;
                held -= Excess::of(held).bytes;
                budget.weighed(held);
            }
            assert!(held <= HELD_LIMIT, "{held} after {frames} frames");
        }
        assert!(weighings < 200, "{weighings}");
    }

    #[test]
    fn what_could_not_be_given_up_is_weighed_again_before_it_grows_beyond_the_budget() {
        let mut budget = Budget::default();
        let mut held = 0;
        // Nothing of it can be given up, until it is half of the budget and three quarters of the other half.
        while held < HELD_LIMIT / 8 * 7 {
            held += 1000 * GROWTH;
            if budget.is_due(1000) {
                budget.weighed(held);
            }
        }
        let mut more = 0;
        while !budget.is_due(1000) {
            more += 1000 * GROWTH;
        }
        assert!(held + more <= HELD_LIMIT, "{held} and {more}");
    }

    #[test]
    fn json_is_never_taken_for_less_than_its_text() {
        let value = serde_json::json!({"a": ["xyz", 1, null], "b": {"c": "d"}});
        assert!(json(&value) >= value.to_string().len());
    }
}
