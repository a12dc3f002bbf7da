//! The ACP family: the Agent Client Protocol, version 1, JSON-RPC 2.0 lines on stdio, one process per thread.
//!
//! [`Codec`] is sans-I/O: bytes in, events and frames out. [`AcpAdapter`] is the thin driver around it. What each agent
//! really does is measured in `docs/agents-probes.md`; what differs between agents stands in `profile.json`, by the name
//! that an agent gives in its handshake. Where the protocol says less than we need:
//!
//! - It has no ids of turns, and words have none that could be trusted: both get ids of ours that hold the life of the
//!   process, so that no two lives meet (strength *none*). A tool keeps its item as long as its turn goes on.
//! - A prompt is not acknowledged: a turn has begun when its line was written, and ends with the answer.
//! - Loading a conversation tells its history again. It was told when it happened, so it is passed over, never shown twice.
//! - No answer to a request is confirmed: it counts as written.

mod asking;
mod codec;
pub(crate) mod content;
mod conversation;
mod conversations;
mod driver;
mod extras;
mod outgoing;
pub mod profile;
mod replies;
mod requests;
mod selecting;
mod settings;
mod told;
mod tools;
mod turns;
mod updates;

pub use crate::rpc::{
    asked::AnswerProblem,
    budget::{HELD_LIMIT, READING_LIMIT},
    frames::{FRAME_LIMIT, RAW_LIMIT},
};
pub use codec::{Codec, Received};
pub use driver::{AcpAdapter, Deadlines};
pub use outgoing::{Call, PROTOCOL};
pub use replies::{CallError, Hello, Reply};
pub use settings::Settings;
pub use updates::{PASSED_OVER, Passed};
