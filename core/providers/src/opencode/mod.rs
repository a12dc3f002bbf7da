//! The opencode family: `opencode serve`, HTTP and server-sent events on loopback, one process per workspace; or one that
//! somebody else started, elsewhere ([`FarOpencodeAdapter`]).
//!
//! [`Codec`] is sans-I/O: bytes of the stream of events and HTTP answers in, events and calls out.
//! What opencode really does is measured in `docs/agents-probes.md`. Where its interface says less than we need:
//!
//! - It has no turns: one goes from a person's message until the conversation is idle, and has the message's id, which is
//!   ours ([`Codec::prompt`]) and holds the id under which the ledger knows it.
//! - A prompt into a busy conversation is queued by opencode, with one end for both: nothing is ever sent into one.
//! - Nothing is told twice: after the stream was cut, statuses, requests and messages are read and compared.
//! - A stopped conversation leaves its requests in opencode's lists, and they can still be answered there: they are over here.

mod adapter;
mod answering;
mod asking;
mod attaching;
mod catching_up;
mod choice;
mod codec;
mod commands;
mod conversation;
mod driver;
mod events;
mod far;
mod held;
mod history;
mod http;
mod link;
mod looking;
mod operations;
mod outgoing;
mod parts;
mod passed_over;
mod permitting;
pub mod profile;
mod replies;
mod requests;
mod rules;
mod servers;
mod signing_in;
mod sse;
mod tools;
mod turns;

pub use crate::rpc::{
    asked::{AnswerProblem, PENDING_BYTES},
    budget::{HELD_LIMIT, READING_LIMIT},
    frames::{FRAME_LIMIT, RAW_LIMIT},
};
pub use adapter::{Deadlines, OpencodeAdapter};
pub use codec::{Codec, Told};
pub use commands::{Command, Named};
pub use far::FarOpencodeAdapter;
pub use http::{Connector, Io, Plain};
pub use outgoing::{Call, Code, File, Prompt, Request};
pub use passed_over::{PASSED_OVER, Passed};
pub use replies::{Agent, CallError, Entries, Model, Reply, Session, SignInPage, Working};
pub use rules::{Action, Rule};
