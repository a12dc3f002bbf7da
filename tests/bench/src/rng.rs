//! Random numbers for what fixtures hold.

#[path = "../../support/splitmix.rs"]
mod splitmix;

use splitmix::SplitMix;

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rng(SplitMix);

impl Rng {
    /// The stream of a seed and of what is made from it, so that each thing has its own whatever else is made.
    pub(crate) fn of(seed: u64, parts: &[u64]) -> Self {
        let mut numbers = SplitMix(seed);
        for part in parts {
            numbers.0 ^= part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            numbers.number();
        }
        Self(numbers)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.number()
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// A size whose logarithm is even over the range: many small ones, few large ones, as agents' texts are.
    pub(crate) fn size(&mut self, low: u64, high: u64) -> usize {
        let octaves = u64::from((high / low.max(1)).max(1).ilog2());
        let base = low << self.between(0, octaves);
        usize::try_from((base + self.next() % base.max(1)).min(high)).unwrap_or(usize::MAX)
    }
}
