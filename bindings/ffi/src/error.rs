//! Errors: what failed, in words for a person, and what can be done.

use pilothouse_engine::{
    CoreError as Open, PairError as Pair, QueryError as Query, SubmitError as Submit,
};

/// Why a call failed. `retryable` says whether trying the same again may help, `user_action` what a person can do.
#[derive(Debug, Clone, thiserror::Error, uniffi::Error)]
pub enum CoreError {
    /// The core could not be opened.
    #[error("{reason}")]
    Open {
        /// What failed, on what.
        reason: String,
        /// Whether trying again may help.
        retryable: bool,
        /// What to do.
        user_action: String,
    },
    /// A pairing failed.
    #[error("{reason}")]
    Pairing {
        /// What failed, on what.
        reason: String,
        /// Whether trying again may help.
        retryable: bool,
        /// What to do.
        user_action: String,
    },
    /// A command was not saved; it will not be sent.
    #[error("{reason}")]
    Submit {
        /// What failed, on what.
        reason: String,
        /// Whether trying again may help.
        retryable: bool,
        /// What to do.
        user_action: String,
    },
    /// A question was not answered.
    #[error("{reason}")]
    Query {
        /// What failed, on what.
        reason: String,
        /// Whether trying again may help.
        retryable: bool,
        /// What to do.
        user_action: String,
    },
}

macro_rules! from_engine {
    ($($engine:ident => $variant:ident),*) => {$(
        impl From<$engine> for CoreError {
            fn from(error: $engine) -> Self {
                Self::$variant {
                    reason: error.to_string(),
                    retryable: error.retryable(),
                    user_action: error.next_step().to_owned(),
                }
            }
        }
    )*};
}

from_engine!(Open => Open, Pair => Pairing, Submit => Submit, Query => Query);
