//! The one reader of our shapes against serde's own code for them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking and reads its own files"
)]

#[path = "../../../support/mutate.rs"]
mod mutate;
mod shapes;
mod text;
