//! What a person types and reads, held by examples.
