//! pilothouse-host (being written).
#![forbid(unsafe_code)]
