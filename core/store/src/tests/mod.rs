//! The store as its users see it: real files, real processes, real full disks.

mod blobs_and_texts;
mod commands;
mod crash;
mod disk;
mod feed;
mod ledger;
mod listed;
mod model;
#[path = "../../../../tests/support/mutate.rs"]
mod mutate;
mod outbox;
mod rebuild;
mod replica;
mod support;
mod window;
