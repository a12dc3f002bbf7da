//! The reader against serde_json, and the ways in which enums stand in JSON.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod against_serde_json;
mod shapes;
