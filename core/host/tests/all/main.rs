//! The host over real sockets, real TLS and a real ledger; processes where a process is meant.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that goes wrong has to stop, and one that is not run has to say so"
)]

mod common;
mod config;
mod control;
mod detached;
mod disk;
mod doctor;
mod fuzz;
mod hostile;
#[path = "../../../../tests/support/mutate.rs"]
mod mutate;
mod pairing;
mod process;
mod session;
