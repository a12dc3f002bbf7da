//! Errors: what failed, in words for a person, and what can be done.

use pilothouse_engine::{
    CoreError as Open, DirectError as Direct, PairError as Pair, QueryError as Query,
    SubmitError as Submit,
};
use std::{fmt::Display, str::FromStr};

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
    /// An argument is not what it has to be, e.g. a text that is no id.
    #[error("{reason}")]
    Invalid {
        /// What is wrong, with which text.
        reason: String,
        /// Whether trying again may help: never.
        retryable: bool,
        /// What to do.
        user_action: String,
    },
    /// An agent is not driven from this device, or was not taken away.
    #[error("{reason}")]
    Direct {
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

from_engine!(Direct => Direct, Open => Open, Pair => Pairing, Submit => Submit, Query => Query);

/// An id or a hash from its text. Every function that takes one and can fail gives [`CoreError::Invalid`] for what is none.
pub(crate) fn parsed<T: FromStr<Err: Display>>(text: &str) -> uniffi::Result<T> {
    text.parse().map_err(|error: T::Err| {
        CoreError::Invalid {
            reason: error.to_string(),
            retryable: false,
            user_action: "use an id as a row of this core gave it".to_owned(),
        }
        .into()
    })
}
