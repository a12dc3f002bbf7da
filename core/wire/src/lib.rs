//! pilothouse-wire (being written).
#![forbid(unsafe_code)]
