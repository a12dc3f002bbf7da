//! pilothouse-store (being written).
#![forbid(unsafe_code)]
