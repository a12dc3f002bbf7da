//! Runs and attempts by their order, for what is rarely done: each reads through a thread's rows of one kind.

use crate::{codec::from_json, db::Db, error::Result};
use pilothouse_domain::{Run, RunId, run::RunAttempt};

/// Runs that began with this ordinal or a later one, in their order, at most `limit`.
pub(crate) fn from(db: &Db, thread: i64, ordinal: u32, limit: usize) -> Result<Vec<Run>> {
    let found = db.all(
        "reading the last runs",
        "SELECT json FROM rows WHERE thread = ?1 AND kind = 2 AND json_extract(json, '$.ordinal') >= ?2 \
         ORDER BY json_extract(json, '$.ordinal') LIMIT ?3",
        (thread, ordinal, i64::try_from(limit).unwrap_or(i64::MAX)),
        |row| row.get::<_, String>(0),
    )?;
    found
        .iter()
        .map(|json| from_json(db, "reading the last runs", json))
        .collect()
}

/// The last run that began before this ordinal and was not taken back.
pub(crate) fn standing_before(db: &Db, thread: i64, ordinal: u32) -> Result<Option<Run>> {
    let found = db.one(
        "reading the run before",
        "SELECT json FROM rows WHERE thread = ?1 AND kind = 2 AND json_extract(json, '$.ordinal') < ?2 \
         AND json_extract(json, '$.status') <> 'rolled_back' \
         ORDER BY json_extract(json, '$.ordinal') DESC LIMIT 1",
        (thread, ordinal),
        |row| row.get::<_, String>(0),
    )?;
    found
        .map(|json| from_json(db, "reading the run before", &json))
        .transpose()
}

/// The attempts of a run, in their order.
pub(crate) fn attempts(db: &Db, thread: i64, run: RunId) -> Result<Vec<RunAttempt>> {
    let found = db.all(
        "reading a run's attempts",
        "SELECT json FROM rows WHERE thread = ?1 AND kind = 3 AND json_extract(json, '$.run') = ?2 \
         ORDER BY json_extract(json, '$.ordinal')",
        (thread, run.to_string()),
        |row| row.get::<_, String>(0),
    )?;
    found
        .iter()
        .map(|json| from_json(db, "reading a run's attempts", json))
        .collect()
}
