//! Mutations of valid input, for fuzz tests of every crate: seeded, bounded, without dependencies beyond serde_json.
//!
//! A test takes this file in by `#[path]`. `PILOTHOUSE_FUZZ` multiplies the rounds (nightly), `PILOTHOUSE_SEED` begins
//! elsewhere; a failure names its round, which alone makes the same input again.
#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stderr,
    reason = "each test uses a part of it, reads two switches, and fails by panicking"
)]

use serde_json::{Map, Value};

#[path = "splitmix.rs"]
mod splitmix;

use splitmix::SplitMix;

/// Random numbers, the same for the same seed.
pub(crate) struct Dice(SplitMix);

fn number_from(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is `{text}`, not a number")),
        Err(_) => otherwise,
    }
}

/// Runs a test for `rounds` rounds (times `PILOTHOUSE_FUZZ`), each with dice of its own. A panic names the round.
pub(crate) fn rounds(rounds: u64, mut each: impl FnMut(&mut Dice)) {
    let seed = number_from("PILOTHOUSE_SEED", 0);
    for round in 0..rounds * number_from("PILOTHOUSE_FUZZ", 1) {
        let mut dice = Dice::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| each(&mut dice)));
        if let Err(panic) = outcome {
            eprintln!("failed in round {round} with PILOTHOUSE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.number()
    }

    /// A number below `n`; 0 for an `n` of 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap_or(0) % n.max(1)
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub(crate) fn bytes(&mut self, at_most: usize) -> Vec<u8> {
        let len = self.below(at_most + 1);
        (0..len).map(|_| (self.next() >> 56) as u8).collect()
    }

    /// A value of any kind, the awkward ones more often.
    pub(crate) fn value(&mut self) -> Value {
        match self.below(16) {
            0 => Value::Null,
            1 => Value::Bool(self.once_in(2)),
            2 => Value::from(0),
            3 => Value::from(-1),
            4 => Value::from(u64::MAX),
            5 => Value::from(i64::MIN),
            6 => Value::from(1.5e300),
            7 => Value::from(""),
            8 => Value::from("\u{0}\u{202e}\u{1b}[31m"),
            9 => Value::from("x".repeat(self.below(5000))),
            10 => Value::from(Vec::<Value>::new()),
            11 => Value::Object(Map::new()),
            12 => Value::from(vec![Value::Null; self.below(40)]),
            13 => (0..self.below(60)).fold(Value::Null, |inner, _| Value::from(vec![inner])),
            14 => Value::from("00000000000000000000000000"),
            _ => Value::from(self.next()),
        }
    }

    /// One to three changes of a value: another value, a field or element less, more, twice or under another name.
    pub(crate) fn changed(&mut self, value: &Value, others: &[Value]) -> Value {
        let mut value = value.clone();
        for _ in 0..=self.below(3) {
            let other = match self.once_in(3) && !others.is_empty() {
                true => {
                    let other = self.one(others).clone();
                    self.part_of(&other)
                }
                false => self.value(),
            };
            self.change(&mut value, other);
        }
        value
    }

    /// A part of a value, at any depth.
    fn part_of(&mut self, value: &Value) -> Value {
        let mut part = value;
        loop {
            if self.once_in(3) {
                return part.clone();
            }
            part = match part {
                Value::Object(map) if !map.is_empty() => {
                    let at = self.below(map.len());
                    map.values().nth(at).unwrap_or(part)
                }
                Value::Array(list) if !list.is_empty() => self.one(list),
                _ => return part.clone(),
            };
        }
    }

    fn change(&mut self, value: &mut Value, with: Value) {
        let deeper = !self.once_in(4);
        match value {
            Value::Object(map) if !map.is_empty() => {
                let at = self.below(map.len());
                let key = map.keys().nth(at).cloned().unwrap_or_default();
                match (deeper, self.below(6)) {
                    (true, _) => {
                        if let Some(inner) = map.get_mut(&key) {
                            self.change(inner, with);
                        }
                    }
                    (_, 0) => drop(map.remove(&key)),
                    (_, 1) => drop(map.insert("unknown_field".to_owned(), with)),
                    (_, 2) => {
                        let moved = map.remove(&key).unwrap_or_default();
                        map.insert(format!("{key}s"), moved);
                    }
                    _ => drop(map.insert(key, with)),
                }
            }
            Value::Array(list) if !list.is_empty() => {
                let at = self.below(list.len());
                match (deeper, self.below(4)) {
                    (true, _) => self.change(&mut list[at], with),
                    (_, 0) => drop(list.remove(at)),
                    (_, 1) => list.push(list[at].clone()),
                    _ => list[at] = with,
                }
            }
            Value::String(text) if self.once_in(2) => {
                *value = Value::from(String::from_utf8_lossy(&self.damaged(text.as_bytes())));
            }
            _ => *value = with,
        }
    }

    /// One to four changes of bytes: flipped, cut, doubled, put in, or ended early.
    pub(crate) fn damaged(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let to = (at + self.below(12)).min(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..to)),
                2 => {
                    let piece = bytes[at..to].to_vec();
                    bytes.splice(at..at, piece);
                }
                3 => {
                    let piece = self.bytes(8);
                    bytes.splice(at..at, piece);
                }
                4 => {
                    let piece = self.one(&[
                        "\"", "{", "}", "[", "]", "\\u", "\n", "=", "#", "\u{2028}", "é",
                    ]);
                    bytes.splice(at..at, piece.bytes());
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        bytes
    }
}
