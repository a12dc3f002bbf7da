//! pilothouse-ffi (being written).
#![forbid(unsafe_code)]
