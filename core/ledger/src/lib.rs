//! pilothouse-ledger (being written).
#![forbid(unsafe_code)]
