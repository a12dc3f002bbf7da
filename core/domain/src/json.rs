//! Values as JSON text, compiled here once. Reading and writing are generic over every type within; crates that are compiled for
//! size use what a crate below them has made already, so what two of them need (the store's columns, the wire's messages) is
//! made here. Without it the library for Android holds both copies (docs/android-link.md).

use crate::{
    Command, CommandBody, Entry, LoggedEvent, Outcome, Policy, Refusal, Row, RuntimeRequest,
    Subject, ThreadState, ThreadSummary,
    capability::Capabilities,
    command::Notice,
    feed::{FeedUpdate, Subscribed},
    row::{InboxEntry, LiveText, OpenItem},
};

/// A value that both stores and messages hold.
pub trait Json: Sized {
    /// Reads it from its text.
    ///
    /// # Errors
    /// What is not a value of this type, with its place.
    fn from_json(text: &str) -> Result<Self, pilothouse_json::Error>;

    /// Its text, as [`canonical_json`](crate::hash::canonical_json) writes it.
    fn to_json(&self) -> Vec<u8>;
}

macro_rules! json {
    ($($name:ty),* $(,)?) => {
        $(impl Json for $name {
            fn from_json(text: &str) -> Result<Self, pilothouse_json::Error> {
                pilothouse_json::from_str(text)
            }

            fn to_json(&self) -> Vec<u8> {
                crate::hash::canonical_json(self)
            }
        })*
    };
}

json! {
    Capabilities, Command, CommandBody, Entry, FeedUpdate, InboxEntry, LiveText, LoggedEvent, Notice, OpenItem, Outcome, Policy,
    Refusal, Row, RuntimeRequest, Subject, Subscribed, ThreadState, ThreadSummary,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is() {
        let subject = Subject {
            text: Some("cargo test".to_owned()),
            ..Subject::default()
        };
        let text = String::from_utf8(subject.to_json()).unwrap();
        assert_eq!(Subject::from_json(&text).unwrap(), subject);
        assert!(Subject::from_json(&format!("{text} x")).is_err());
    }
}
