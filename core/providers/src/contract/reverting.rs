//! What comes of taking back turns.

use pilothouse_domain::run::RunError;

/// Why turns were not taken back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevertError {
    /// A turn is going on in that conversation; nothing was taken back.
    #[error("a turn is going on")]
    Busy,
    /// The agent refused; nothing was taken back.
    #[error("the agent refused: {}", error.message)]
    Refused {
        /// Its words.
        error: RunError,
    },
    /// It did not answer, and lives: ask again.
    #[error("the agent did not answer")]
    Unknown,
    /// The process ended before it answered: ask its next life.
    #[error("the agent's process ended before it answered")]
    Lost,
}

/// What came of taking back a turn and all that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reverted {
    /// The agent has forgotten them.
    Forgotten,
    /// The conversation holds no such turn: it was taken back before, or the agent ended before it had kept it. Of turns that
    /// followed it this says nothing.
    NotThere,
}
