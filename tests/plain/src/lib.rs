//! What `core/json` offers, by serde's derive and serde_json alone.
//!
//! The crates beside this one are `core/domain` and `core/wire` from their own sources, compiled over this in the place of
//! `core/json`: the same shapes, read the way that whoever knows serde would expect. Tests hold the one reader to the other,
//! `tests/bench` compares their speed.
#![forbid(unsafe_code)]

pub use pilothouse_json::raw;
pub use serde::Deserialize as Tagged;
pub use serde_json::Error;

/// Reads a value from a text that holds it and nothing else.
///
/// # Errors
/// serde_json's.
pub fn from_str<'de, T: serde::Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    serde_json::from_str(text)
}
