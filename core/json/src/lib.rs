//! How our shapes are read from JSON: by one reader, over text that is whole in memory.
//!
//! **Owns** the syntax of JSON and the ways in which enums stand in it. **Must not know** any shape. Serde derives code for a
//! type once for every kind of reader that it meets, and a tagged enum, as serde reads it, is a second kind: it keeps the
//! object aside as values, then reads those. Here both are the same [`Reader`](from_str): the tag is looked up in the text
//! ahead, and the object is read in its place. That is less than half of the code for all shapes, of which the library
//! for Android was made most; the time of reading is about the same (both measured: docs/android-link.md).
//!
//! Invariants: what is accepted is JSON and nothing else; nesting is bounded by [`DEPTH`]; no input makes it panic. A text is
//! taken, and as what, as serde's own code takes it, but for this (`tests/plain` holds every shape to it): an object does not
//! stand as an array of what its fields hold, a variant not as its number, and a field that nobody reads is passed over as
//! JSON, whether its object has a tag or not.
//!
//! ```
//! use pilothouse_json::Tagged;
//! use serde::Serialize;
//!
//! #[derive(Debug, PartialEq, Serialize, Tagged)]
//! #[serde(tag = "status", rename_all = "snake_case")]
//! enum Light {
//!     Off,
//!     On { watts: u64 },
//! }
//!
//! let on = Light::On { watts: 60 };
//! let text = serde_json::to_string(&on).unwrap();
//! assert_eq!(text, r#"{"status":"on","watts":60}"#);
//! assert_eq!(pilothouse_json::from_str::<Light>(&text).unwrap(), on);
//! assert_eq!(serde_json::from_str::<Light>(&text).unwrap(), on);
//! ```
#![forbid(unsafe_code)]

mod access;
mod reader;
mod shape;
mod text;
mod value;

pub use pilothouse_json_derive::Tagged;
pub use reader::{DEPTH, from_str};
pub use serde_json::Error;
pub use shape::{Shape, raw, tagged};
