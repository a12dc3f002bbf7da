//! The store as its users see it: real files, real processes.

mod ledger;
mod support;
