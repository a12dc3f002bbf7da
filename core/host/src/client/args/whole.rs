//! The verbs for a thread as a whole, and for its agent's sign-in.

use super::{DeviceArgs, PatienceArgs};
use clap::Args;

/// `rollback`
#[derive(Debug, Clone, Args)]
pub struct RollbackArgs {
    /// The thread (the beginning of its id is enough)
    pub thread: String,
    /// The first run that is to be forgotten: its number, or the beginning of its id
    #[arg(long, value_name = "RUN")]
    pub before: String,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `compact`
#[derive(Debug, Clone, Args)]
pub struct CompactArgs {
    /// The thread (the beginning of its id is enough)
    pub thread: String,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}

/// `sign-in`
#[derive(Debug, Clone, Args)]
pub struct SignInArgs {
    /// The agent, or a thread that waits for it (the beginning of its id is enough)
    #[arg(value_name = "AGENT|THREAD")]
    pub of: String,
    /// Common options.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Waiting.
    #[command(flatten)]
    pub patience: PatienceArgs,
}
