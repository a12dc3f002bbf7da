//! The orchestrator's tests: whole threads in memory, with an agent and people that are data.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it has covered"
)]

mod answers;
mod asking;
mod assessing;
mod attaching;
mod bounds;
mod children;
mod forking;
mod importing;
mod items;
mod lifecycle;
mod loss;
mod model;
mod properties;
mod sandboxes;
mod selecting;
mod signing_in;
mod steering;
mod unasked;
mod whole;
mod world;
