//! The pi family: pi (`--mode rpc`, JSON lines on stdio) and omp, which speaks the same with differences; one process per thread.
//!
//! [`Codec`] is sans-I/O: bytes in, events and frames out. [`PiAdapter`] is the thin driver around it. What both really do is
//! measured in `docs/agents-probes.md`, section 9. Where the protocol says less than we need:
//!
//! - Turns and messages have no ids, but every message a time of its own, which stands in the session's file, too: it is the
//!   id of both, so that what is read back after a restart is known again (strength *weak*: two messages of one millisecond
//!   are told apart by their order only).
//! - A prompt is acknowledged before its turn has begun; it counts as taken when its message is heard of.
//! - One run of pi is a turn of ours: it ends with `agent_settled`, not with `agent_end`, which comes once for every retry.
//!   omp says `agent_end` with `isTerminal`.
//! - pi itself asks nothing. What asks is an extension of ours, `gate.js`, by pi's own dialogs (decision 016). Without it pi
//!   starts only in a sandbox that a person named.

mod asking;
mod codec;
mod dialogs;
mod driver;
mod frames;
mod gate;
mod history;
mod listing;
mod messages;
mod outgoing;
mod passed_over;
pub mod profile;
mod replies;
mod selecting;
mod sessions;
mod starting;
mod tools;
mod turns;
mod whole;

pub use crate::rpc::{
    asked::AnswerProblem,
    budget::{HELD_LIMIT, READING_LIMIT},
    frames::{FRAME_LIMIT, RAW_LIMIT},
};
pub use codec::{Codec, Received};
pub use driver::{Deadlines, PiAdapter};
pub use outgoing::Call;
pub use passed_over::{PASSED_OVER, Passed};
pub use profile::Dialect;
pub use replies::{CallError, Entries, Model, Reply, State};
