//! How domain values lie in columns.

use crate::{
    db::Db,
    error::{Result, StoreError},
};
use pilothouse_domain::{Chain, Cursor, Digest, Epoch, hash::canonical_json};
use serde::{Serialize, de::DeserializeOwned};

/// A count for an INTEGER column. SQLite has no unsigned numbers; nothing we count comes near 2^63.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A count from an INTEGER column.
pub(crate) fn nat(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A value as JSON text.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    #[expect(clippy::expect_used, reason = "serde_json writes UTF-8 only")]
    String::from_utf8(canonical_json(value)).expect("JSON is UTF-8")
}

/// A value from JSON text; what does not read is damage, with the place named.
pub(crate) fn from_json<T: DeserializeOwned>(
    db: &Db,
    doing: &'static str,
    text: &str,
) -> Result<T> {
    pilothouse_json::from_str(text).map_err(|error| StoreError::Corrupt {
        path: db.path().to_owned(),
        doing,
        detail: error.to_string(),
    })
}

/// A cursor from its columns.
pub(crate) fn cursor(epoch: [u8; 16], seq: i64, chain: [u8; 32]) -> Cursor {
    Cursor {
        epoch: Epoch::from_bytes(epoch),
        seq: nat(seq),
        chain: Chain(Digest::from_bytes(chain)),
    }
}
