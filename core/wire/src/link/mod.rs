//! The device's link to one host.

pub mod rhythm;
