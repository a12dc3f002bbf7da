//! The claude family: Claude Code, stream-json and its control protocol on stdio, one process per thread.
//!
//! [`Codec`] is sans-I/O: bytes in, events and frames out. [`ClaudeAdapter`] is the thin driver around it. What the agent
//! really does is measured in `docs/agents-probes.md`, section 10; why it is driven so, in
//! `docs/decisions/015-claude-turns.md`. In short:
//!
//! - A turn is named by the id of the message that began it, which is ours; the agent's receipts (`command_lifecycle`) say
//!   when it begins. A turn that nobody asked for, because a background task has ended, gets an id of ours.
//! - A message that reaches a busy agent is put into the running turn at its next tool, or begins a turn of its own,
//!   as it happens. So none is sent while a turn goes on, and one that meets a turn all the same is taken back.
//! - The process is the conversation: which one is said when it is started ([`Launch::opens`](crate::contract::Launch)).

mod asking;
mod codec;
mod content;
mod conversation;
mod driver;
mod listing;
mod messages;
mod options;
mod outgoing;
mod passed_over;
pub mod profile;
mod replies;
mod requests;
mod selecting;
mod starting;
mod system;
mod tasks;
mod tools;
mod transcript;
mod turns;
mod whole;

pub use crate::rpc::{
    asked::AnswerProblem,
    budget::{HELD_LIMIT, READING_LIMIT},
    frames::{FRAME_LIMIT, RAW_LIMIT},
};
pub use codec::{Codec, Received};
pub use driver::{ClaudeAdapter, Deadlines};
pub use outgoing::{Call, CallId};
pub use passed_over::{PASSED_OVER, Passed};
pub use replies::{CallError, Hello, Model, Reply};
