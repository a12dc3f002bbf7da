//! The host over real sockets, real TLS and a real ledger; processes where a process is meant.

mod common;
mod config;
mod control;
mod disk;
mod pairing;
mod process;
mod session;
