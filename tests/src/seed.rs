//! Numbers that look random and are the same in every run.

/// A sequence of numbers that follows from its seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Seed(u64);

impl Seed {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5155_4552_5953_5249)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
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
