//! Random numbers from a seed, the same on every machine: splitmix64 (Steele, Lea, Flood 2014).

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream of a seed and of what is made from it, so that each thing has its own whatever else is made.
    pub(crate) fn of(seed: u64, parts: &[u64]) -> Self {
        let mut rng = Self(seed);
        for part in parts {
            rng.0 ^= part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            rng.next();
        }
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
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
