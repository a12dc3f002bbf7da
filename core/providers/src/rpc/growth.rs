//! A text that an agent sends whole again and again: what is new of it.

use std::hash::{DefaultHasher, Hasher as _};

/// How much of a text was given on, without the text itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Growth {
    length: usize,
    sum: u64,
}

impl Default for Growth {
    fn default() -> Self {
        Self {
            length: 0,
            sum: hash(b""),
        }
    }
}

impl Growth {
    /// What `whole` has more than what was given on; `None` if that is nothing, or it is not the same text grown.
    pub(crate) fn more(&mut self, whole: &str) -> Option<String> {
        let more = whole.get(self.length..).filter(|more| !more.is_empty())?;
        if hash(&whole.as_bytes()[..self.length]) != self.sum {
            return None;
        }
        let more = more.to_owned();
        *self = Self {
            length: whole.len(),
            sum: hash(whole.as_bytes()),
        };
        Some(more)
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
