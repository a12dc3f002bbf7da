//! The device's core against a small host over real TLS: what a person sees, whatever happens in between.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes helpers of tests for something else than tests"
)]

mod answers;
mod bodies;
mod device;
mod host;
mod life;
mod lists;
mod sending;
mod timelines;
