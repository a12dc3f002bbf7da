//! Numbers that look random and are the same in every run.

#[path = "../support/splitmix.rs"]
mod splitmix;

use splitmix::SplitMix;

/// A sequence of numbers that follows from its seed.
#[derive(Debug, Clone)]
pub struct Seed(SplitMix);

impl Seed {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5155_4552_5953_5249,
        ))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0.number()
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    /// One of two, evenly.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A count that the environment may set, e.g. for the nightly run.
pub fn count(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is `{text}`, which is no number")),
        Err(_) => usual,
    }
}
