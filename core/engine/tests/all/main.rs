//! The device's core against a small host over real TLS: what a person sees, whatever happens in between.

mod answers;
mod device;
mod host;
mod life;
mod sending;
mod timelines;
