//! The codex family: `codex app-server`, one process per agent instance, on a Unix socket so that it outlives the host, on stdio
//! where its command says so, or elsewhere, at the address of its WebSocket ([`FarCodexAdapter`]).
//!
//! [`Codec`] is sans-I/O: bytes in, events and frames out. [`CodexAdapter`] is the thin driver around it. What codex does is
//! measured in `docs/agents-probes.md`; texts and shapes are pinned to [`profile::MEASURED_VERSION`].

mod adapter;
mod codec;
mod driver;
mod elicitation;
mod far;
mod held;
mod items;
mod lineage;
mod notifications;
mod offers;
mod options;
mod outgoing;
mod passed_over;
pub mod profile;
mod rejoin;
mod replies;
mod requests;
mod selecting;
mod signing_in;
mod socket;
mod terminals;

pub use crate::rpc::{
    asked::AnswerProblem,
    budget::{HELD_LIMIT, READING_LIMIT},
    frames::{FRAME_LIMIT, RAW_LIMIT},
};
pub use adapter::{CodexAdapter, Deadlines};
pub use codec::{Codec, Received};
pub use far::FarCodexAdapter;
pub use outgoing::Call;
pub use passed_over::{PASSED_OVER, Passed};
pub use profile::Permissions;
pub use replies::{CallError, LoadedThread, Reply, Settings};
