//! pilothouse-bindgen (being written).
#![forbid(unsafe_code)]
