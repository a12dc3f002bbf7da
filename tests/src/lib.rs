//! What the end-to-end tests stand on: real programs, started, watched, cut off and killed.
//!
//! **Owns** the starting and the cleaning up of a world: the scripted model server, a private home for codex, a workspace,
//! the real `pilothouse host`, devices (a core in this process, or the terminal client as a process) and a TCP proxy between
//! them. **Must not** look into any of them by other ways than a person or a device has, but for the ledger's and the model
//! server's own records, which are the oracles.
//!
//! Nothing here sleeps to wait for something: devices wake their waiter with every batch, and what tells nobody (a file of
//! another process) is looked at again every few milliseconds. Every wait has a deadline that a machine under load keeps, and
//! says what was there instead. Everything that was started is ended when its value is dropped, also when a test fails.
#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "this crate is test support: a broken world ends the test"
)]

pub mod call_front;
pub mod cli;
pub mod device;
pub mod elsewhere;
pub mod here;
pub mod host;
pub mod issuer;
pub mod ledger_dir;
pub mod model;
pub mod mount;
mod near;
#[path = "../support/opencode_home.rs"]
mod opencode_home;
pub mod picture;
pub mod places;
pub mod process;
pub mod proxy;
pub mod relay;
pub mod seed;
pub mod seen;
pub mod tls_front;
pub mod until;
pub mod world;

pub use call_front::{CallFront, Spoiled};
pub use cli::Cli;
pub use device::Device;
pub use elsewhere::{CodexElsewhere, Elsewhere, OpencodeElsewhere};
pub use here::Here;
pub use host::Host;
pub use issuer::Issuer;
pub use ledger_dir::LedgerDir;
pub use model::{Model, WITHOUT_TOOLS};
pub use proxy::Proxy;
pub use relay::{Records, Relay};
pub use seed::Seed;
pub use seen::{Board, Seen, Timeline};
pub use tls_front::TlsFront;
pub use until::{PATIENCE, patience, until, wait_at_most};
pub use world::{Setup, World};
