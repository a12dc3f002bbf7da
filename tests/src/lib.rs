//! pilothouse-tests (being written).
#![forbid(unsafe_code)]
