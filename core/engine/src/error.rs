//! What can go wrong, each with whether trying again can help and what to do about it.

use pilothouse_domain::{CommandId, HostId, Refusal, ThreadId};
use std::path::PathBuf;

/// A core could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The data directory cannot be made or used.
    #[error("the data directory {path} cannot be used: {why}; {}", self.next_step())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The directory or its file system is read-only.
    #[error("the data directory {path} is read-only ({why}); {}", self.next_step())]
    ReadOnly {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// No room left.
    #[error("there is no room left for {path} ({why}); {}", self.next_step())]
    Full {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The database was written by a newer version of this program.
    #[error("the database in {path} is of a newer version ({why}); {}", self.next_step())]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Which versions.
        why: String,
    },
    /// The database is damaged or could not be read otherwise.
    #[error("the database in {path} cannot be read: {why}; {}", self.next_step())]
    Database {
        /// The directory.
        path: PathBuf,
        /// What failed.
        why: String,
    },
    /// The device's key could not be had.
    #[error("this device's key cannot be used: {why}; {}", self.next_step())]
    Key {
        /// What the key's store said.
        why: String,
    },
    /// The system gave no thread.
    #[error("the core could not start its threads: {why}; {}", self.next_step())]
    Threads {
        /// What the system said.
        why: String,
    },
}

impl CoreError {
    /// Whether opening again, with nothing changed by its person, may succeed.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Key { .. } | Self::Threads { .. })
    }

    /// What a person can do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::DataDir { .. } => "choose a directory that this user may write to",
            Self::ReadOnly { .. } => "mount it writable, or choose another directory",
            Self::Full { .. } => "free some space and try again",
            Self::Newer { .. } => "update this program",
            Self::Database { .. } => "move the directory away and pair again",
            Self::Key { .. } => "unlock the device and try again",
            Self::Threads { .. } => "close other programs and try again",
        }
    }
}

/// A command was not taken by this device; nothing was saved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// No such host.
    #[error("this device is not paired with host {host}; {}", self.next_step())]
    UnknownHost {
        /// The host.
        host: HostId,
    },
    /// The host has revoked this device.
    #[error("host {host} has revoked this device; {}", self.next_step())]
    Revoked {
        /// The host.
        host: HostId,
    },
    /// It was driven from this device and was taken away.
    #[error("agent {host} was taken away from this device; {}", self.next_step())]
    TakenAway {
        /// The host that it was shown as.
        host: HostId,
    },
    /// The command names no thread, or a new thread names one.
    #[error("`{command}` {}; {}", if *.needs_thread { "needs a thread" } else { "makes its own thread id" }, self.next_step())]
    Thread {
        /// The command's name.
        command: String,
        /// Whether it needs one.
        needs_thread: bool,
    },
    /// The command itself is wrong, whatever the host may say.
    #[error("{field}: {problem}; {}", self.next_step())]
    Invalid {
        /// What of it.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An answer to something whose text this device could not verify.
    #[error("what this request asks cannot be verified on this device; {}", self.next_step())]
    Unverified,
    /// It could not be saved.
    #[error("the command could not be saved: {why}; {}", self.next_step())]
    NotSaved {
        /// What failed.
        why: String,
    },
    /// The core is closed.
    #[error("the core is closed; {}", self.next_step())]
    Closed,
}

impl SubmitError {
    /// Whether the same may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::NotSaved { .. } | Self::Closed)
    }

    /// What a person can do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::UnknownHost { .. } => "pair with it first",
            Self::Revoked { .. } => "pair again with a new code from that host",
            Self::TakenAway { .. } => "its threads can be read; add it again to go on with it",
            Self::Thread { .. } | Self::Invalid { .. } => "correct the command",
            Self::Unverified => "answer on the host, and update both programs",
            Self::NotSaved { .. } => "free some space and try again",
            Self::Closed => "open it again",
        }
    }
}

/// A pairing did not come about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// The code cannot be read.
    #[error("{why}")]
    Code {
        /// What is wrong with it, with a next step.
        why: String,
    },
    /// The code is older than its five minutes (by this device's clock).
    #[error("the pairing code has expired; {}", self.next_step())]
    Expired,
    /// The host cannot be reached.
    #[error("{why}")]
    Unreachable {
        /// What happened at each address.
        why: String,
    },
    /// Something else than the host answered, or the host is not what the code says.
    #[error("{why}")]
    WrongHost {
        /// What was found.
        why: String,
    },
    /// The host refused.
    #[error("{why}")]
    Refused {
        /// Why, with a next step.
        why: String,
    },
    /// No common version.
    #[error("{why}")]
    Version {
        /// Which, and who must be updated.
        why: String,
    },
    /// This device's key could not sign.
    #[error("this device's key cannot be used: {why}; {}", self.next_step())]
    Key {
        /// What the key's store said.
        why: String,
    },
    /// The pairing could not be saved.
    #[error("the pairing could not be saved: {why}; {}", self.next_step())]
    NotSaved {
        /// What failed.
        why: String,
    },
    /// The connection ended in the middle.
    #[error("the connection ended before the host confirmed: {why}; {}", self.next_step())]
    Cut {
        /// What happened.
        why: String,
    },
    /// The core is closed.
    #[error("the core is closed; {}", self.next_step())]
    Closed,
}

impl PairError {
    /// Whether the same code may still work.
    pub fn retryable(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::NotSaved { .. } | Self::Key { .. } | Self::Closed
        )
    }

    /// What a person can do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Code { .. } | Self::Expired | Self::Refused { .. } | Self::Cut { .. } => {
                "run `pilothouse pair` on the host and use the new code"
            }
            Self::Unreachable { .. } => {
                "check that the host runs and that this device is in its network"
            }
            Self::WrongHost { .. } => "make sure that the code is from the host you mean",
            Self::Version { .. } => "update the older side",
            Self::Key { .. } => "unlock the device and try again",
            Self::NotSaved { .. } => "free some space and try again",
            Self::Closed => "open it again",
        }
    }
}

/// A question to the core could not be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// No such host.
    #[error("this device is not paired with host {host}")]
    UnknownHost {
        /// The host.
        host: HostId,
    },
    /// No such thread, as far as is known here.
    #[error("no thread {thread} is known on host {host}")]
    UnknownThread {
        /// The host.
        host: HostId,
        /// The thread.
        thread: ThreadId,
    },
    /// No such thing.
    #[error("{what} is not known")]
    NotFound {
        /// What.
        what: String,
    },
    /// It is not held here, and the host is not connected.
    #[error("{what} is not held on this device and the host is not connected; {}", self.next_step())]
    Offline {
        /// What.
        what: String,
    },
    /// It is not held here, and another process on this data directory has the connection to the host.
    #[error(
        "{what} is not held here, and another process on this data directory has the connection to the host{}; {}",
        process.map(|process| format!(" (process {process})")).unwrap_or_default(),
        self.next_step()
    )]
    HeldElsewhere {
        /// What.
        what: String,
        /// Its process id, where the system says it.
        process: Option<u32>,
    },
    /// The host did not answer in time.
    #[error("the host did not answer within {seconds} s; {}", self.next_step())]
    Timeout {
        /// How long was waited, s.
        seconds: u64,
    },
    /// The host refused.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// The host said why it has no answer.
    #[error("{message}")]
    Answered {
        /// What failed and why, in its words.
        message: String,
        /// What a person can do, in its words.
        next_step: String,
    },
    /// The database could not be read.
    #[error("the database could not be read: {why}")]
    Database {
        /// What failed.
        why: String,
    },
    /// The command is not in the outbox, or can no longer be taken back.
    #[error("command {command} can no longer be taken back")]
    TooLate {
        /// The command.
        command: CommandId,
    },
    /// The core is closed.
    #[error("the core is closed; {}", self.next_step())]
    Closed,
}

impl QueryError {
    /// Whether the same may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(
            self,
            Self::Offline { .. }
                | Self::HeldElsewhere { .. }
                | Self::Timeout { .. }
                | Self::Database { .. }
                | Self::Closed
        )
    }

    /// What a person can do about it.
    pub fn next_step(&self) -> &str {
        match self {
            Self::UnknownHost { .. } => "pair with it first",
            Self::UnknownThread { .. } | Self::NotFound { .. } => "look at the list of threads",
            Self::Offline { .. } | Self::Timeout { .. } => "try again when the host is connected",
            Self::HeldElsewhere { .. } => "end that process for the time of this, and try again",
            Self::Refused { refusal } => refusal.next_step(),
            Self::Answered { next_step, .. } => next_step,
            Self::Database { .. } => "try again; if it stays so, move the data directory away",
            Self::TooLate { .. } => "look at what came of it",
            Self::Closed => "open it again",
        }
    }
}
