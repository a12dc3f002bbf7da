//! pilothouse-domain (being written).
#![forbid(unsafe_code)]
