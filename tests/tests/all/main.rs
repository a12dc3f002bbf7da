//! The stories of the issue, with real codex, a real host process, TLS and devices: one test binary.
#![forbid(unsafe_code)]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where it fails"
)]

mod abilities;
mod acp;
mod approvals;
mod bad_agents;
mod cases;
mod claude;
mod codex;
mod compat;
mod crashes;
mod cuts;
mod demo;
mod direct;
mod direct_opencode;
mod disks;
mod idle;
mod imports;
mod mcp;
mod opencode;
mod own_commands;
mod pi;
mod pictures;
mod rebuild;
mod remote;
mod replayed;
mod sign_in;
mod signing_in;
mod signing_in_opencode;
mod stops;
mod stories;
mod streaming;
mod two_clients;
mod two_devices;
mod unasked;
mod whole;
mod whole_others;
