//! Which threads an agent works on: what has to be marked as lost when the host was killed.

use super::{LedgerReads, LedgerTx};
use crate::{codec::from_json, error::Result};
use pilothouse_domain::{RuntimeRequest, ThreadId};

impl LedgerTx<'_> {
    /// Notes whether an agent's process serves a thread.
    ///
    /// # Errors
    /// Any of the file.
    pub fn set_live(&self, thread: ThreadId, live: bool) -> Result<()> {
        let number = self.number(thread)?;
        self.db().write(
            "noting whether a thread is served",
            "UPDATE threads SET live = ?2 WHERE number = ?1",
            (number, live),
        )?;
        Ok(())
    }
}

impl LedgerReads {
    /// Threads that an agent's process serves, or did when the host was killed.
    ///
    /// # Errors
    /// Any of the file.
    pub fn live_threads(&self) -> Result<Vec<ThreadId>> {
        self.db.all(
            "listing served threads",
            "SELECT thread FROM threads WHERE live = 1 ORDER BY number",
            [],
            |row| row.get(0).map(ThreadId::from_bytes),
        )
    }

    /// The open requests of one thread, oldest first.
    ///
    /// # Errors
    /// Any of the file.
    pub fn open_requests_of(&self, thread: ThreadId) -> Result<Vec<RuntimeRequest>> {
        let doing = "reading a thread's open requests";
        let Some(number) = self.find_number(thread)? else {
            return Ok(Vec::new());
        };
        let rows = self.db.all(
            doing,
            "SELECT json FROM rows WHERE open IS NOT NULL AND thread = ?1 ORDER BY row",
            [number],
            |row| row.get::<_, String>(0),
        )?;
        rows.iter()
            .map(|json| from_json(&self.db, doing, json))
            .collect()
    }
}
