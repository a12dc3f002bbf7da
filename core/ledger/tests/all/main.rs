//! The ledger against an agent whose every word is the test's, on a real database.

mod agent;
mod crash;
mod story;
mod world;
