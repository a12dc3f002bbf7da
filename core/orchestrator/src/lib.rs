//! pilothouse-orchestrator (being written).
#![forbid(unsafe_code)]
