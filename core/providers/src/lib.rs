//! pilothouse-providers (being written).
#![forbid(unsafe_code)]
