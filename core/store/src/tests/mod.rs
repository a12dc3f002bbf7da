//! The store as its users see it: real files, real processes, real full disks.

mod ledger;
mod support;
