//! The ledger against an agent whose every word is the test's, on a real database.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes helpers of tests for something else than tests"
)]

mod agent;
mod crash;
mod elsewhere;
mod forking;
mod idle;
mod power;
mod story;
mod trace;
mod whole;
mod world;
