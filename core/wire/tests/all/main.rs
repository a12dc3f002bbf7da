//! The wire over real TLS on loopback, its pairing, its messages and its link.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod common;
mod files;
mod offers;
mod pairing;
mod transport;
