//! The wire over real TLS on loopback, its pairing, its messages and its link.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod common;
mod examples;
mod files;
mod fuzz;
mod hostile;
mod link;
mod messages;
#[path = "../../../../tests/support/mutate.rs"]
mod mutate;
mod negotiation;
mod newer;
mod offers;
mod opening;
mod paging;
mod pairing;
mod reconnect;
mod stream;
mod transport;
