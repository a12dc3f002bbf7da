//! pilothouse-engine (being written).
#![forbid(unsafe_code)]
