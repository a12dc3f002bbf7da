//! States, rows, open texts and bodies of threads.

use super::{LedgerReads, LedgerTx};
use crate::{
    blobs,
    codec::{cursor, from_json, int, to_json},
    error::Result,
    open_text::{self, OpenText},
    rows::{self, ThreadRows, Window},
    runs,
};
use pilothouse_domain::{
    BlobHash, Cursor, ItemId, Position, Row, RowKey, Run, RunId, ThreadId, ThreadState, TurnItem,
    item::StoredBody,
    limits,
    row::{OpenItem, Snapshot},
    run::RunAttempt,
    state::STATE_VERSION,
};
use pilothouse_orchestrator::apply_entry;
use std::collections::BTreeSet;

impl LedgerTx<'_> {
    /// The rows of a thread, for `project`.
    ///
    /// # Errors
    /// Any of the file.
    pub fn rows(&self, thread: ThreadId) -> Result<ThreadRows<'_>> {
        Ok(ThreadRows::new(self.db(), self.number(thread)?, thread))
    }

    /// Keeps a thread's state at a place of its log, in the place of an older one.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_state(&self, thread: ThreadId, state: &ThreadState, cursor: &Cursor) -> Result<()> {
        self.db().write(
            "keeping a state",
            "INSERT OR REPLACE INTO states (thread, epoch, seq, chain, json, version) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                self.number(thread)?,
                cursor.epoch.as_bytes(),
                int(cursor.seq),
                cursor.chain.0.as_bytes(),
                to_json(state),
                i64::from(state.version),
            ),
        )?;
        Ok(())
    }

    /// Marks a thread as having open work, which the next boot has to look at, or not.
    ///
    /// # Errors
    /// Any of the file.
    pub fn set_live(&self, thread: ThreadId, live: bool) -> Result<()> {
        self.db().write(
            "marking a thread's open work",
            "UPDATE threads SET live = ?2 WHERE number = ?1",
            (self.number(thread)?, live),
        )?;
        Ok(())
    }

    /// Saves a piece of an open item's text. `offset` counts UTF-8 bytes and has to be where the saved text ends (0
    /// for the first). Beyond [`limits::ITEM_TEXT`] the middle is cut out and counted.
    ///
    /// # Errors
    /// [`StoreError::OutOfPlace`](crate::StoreError::OutOfPlace) says where the saved text ends.
    pub fn append_open_text(
        &self,
        item: ItemId,
        thread: ThreadId,
        offset: u64,
        text: &str,
    ) -> Result<()> {
        open_text::append(
            self.db(),
            self.number(thread)?,
            item,
            offset,
            text,
            limits::ITEM_TEXT as u64,
        )
    }

    /// Forgets the saved text of an item that is closed.
    ///
    /// # Errors
    /// Any of the file.
    pub fn clear_open_text(&self, item: ItemId) -> Result<()> {
        open_text::clear(self.db(), item)
    }

    /// Makes the saved text of a closed item, and what follows it, a stored body, without a copy of what is saved. It has to be
    /// the body that [`ThreadBindings::streamed_with`](crate::ThreadBindings::streamed_with) gave for the same text.
    ///
    /// # Errors
    /// Any of the file.
    pub fn seal_open_text(
        &self,
        item: ItemId,
        thread: ThreadId,
        more: &[&str],
        body: &StoredBody,
    ) -> Result<()> {
        let thread = self.number(thread)?;
        for text in more.iter().filter(|text| !text.is_empty()) {
            let ends_at = open_text::extent(self.db(), item)?.map_or(0, |(ends_at, _)| ends_at);
            // All of it, also beyond the cap: the body is over what was saved before and this.
            open_text::append(self.db(), thread, item, ends_at, text, u64::MAX)?;
        }
        open_text::seal(self.db(), item, body)
    }

    /// Stores a body under its hash; one that is there is left alone.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_blob(&self, hash: BlobHash, bytes: &[u8]) -> Result<()> {
        blobs::put(self.db(), hash, bytes)
    }
}

impl LedgerReads {
    /// The kept state of a thread with its place in the log, which may lie behind the log's end; `None` also if it was
    /// kept by a version whose states have another shape (then [`LedgerTx::rebuild`] makes it anew).
    ///
    /// # Errors
    /// Any of the file.
    pub fn state(&self, thread: ThreadId) -> Result<Option<Snapshot>> {
        let Some(number) = self.find_number(thread)? else {
            return Ok(None);
        };
        let found = self.db.one(
            "reading a state",
            "SELECT epoch, seq, chain, json FROM states WHERE thread = ?1 AND version = ?2",
            (number, i64::from(STATE_VERSION)),
            |row| {
                Ok((
                    cursor(row.get(0)?, row.get(1)?, row.get(2)?),
                    row.get::<_, String>(3)?,
                ))
            },
        )?;
        found
            .map(|(cursor, json)| {
                Ok(Snapshot {
                    state: from_json(&self.db, "reading a state", &json)?,
                    cursor,
                })
            })
            .transpose()
    }

    /// The state at the end of a thread's log: the kept one with the entries after it applied.
    ///
    /// # Errors
    /// Any of the file.
    pub fn snapshot(&self, thread: ThreadId) -> Result<Snapshot> {
        let (mut state, from) = self.state(thread)?.map_or_else(
            || (ThreadState::empty(thread), 0),
            |kept| (kept.state, kept.cursor.seq),
        );
        self.scan_entries(thread, from, |stored| {
            apply_entry(&mut state, &stored.read(self)?);
            Ok(true)
        })?;
        Ok(Snapshot {
            state,
            cursor: self.cursor(thread)?,
        })
    }

    /// Threads marked by [`LedgerTx::set_live`], in the order in which they were made. An index has them: it costs
    /// nothing for those that are not.
    ///
    /// # Errors
    /// Any of the file.
    pub fn live_threads(&self) -> Result<Vec<ThreadId>> {
        self.db.all(
            "listing threads with open work",
            "SELECT thread FROM threads WHERE live = 1 ORDER BY number",
            [],
            |row| row.get(0).map(ThreadId::from_bytes),
        )
    }

    /// A row of a thread.
    ///
    /// # Errors
    /// Any of the file.
    pub fn row(&self, thread: ThreadId, key: RowKey) -> Result<Option<Row>> {
        match self.find_number(thread)? {
            Some(number) => rows::find(&self.db, number, key),
            None => Ok(None),
        }
    }

    /// Runs of a thread that began with this ordinal or a later one, in their order, at most `limit`.
    ///
    /// # Errors
    /// Any of the file.
    pub fn runs_from(&self, thread: ThreadId, ordinal: u32, limit: usize) -> Result<Vec<Run>> {
        match self.find_number(thread)? {
            Some(number) => runs::from(&self.db, number, ordinal, limit),
            None => Ok(Vec::new()),
        }
    }

    /// The last run of a thread that began before this ordinal and was not taken back.
    ///
    /// # Errors
    /// Any of the file.
    pub fn run_standing_before(&self, thread: ThreadId, ordinal: u32) -> Result<Option<Run>> {
        match self.find_number(thread)? {
            Some(number) => runs::standing_before(&self.db, number, ordinal),
            None => Ok(None),
        }
    }

    /// The attempts of a run, in their order.
    ///
    /// # Errors
    /// Any of the file.
    pub fn attempts_of(&self, thread: ThreadId, run: RunId) -> Result<Vec<RunAttempt>> {
        match self.find_number(thread)? {
            Some(number) => runs::attempts(&self.db, number, run),
            None => Ok(Vec::new()),
        }
    }

    /// Every row of a thread, ordered by kind and id. For exports and tests: it reads the whole thread.
    ///
    /// # Errors
    /// Any of the file.
    pub fn all_rows(&self, thread: ThreadId) -> Result<Vec<Row>> {
        match self.find_number(thread)? {
            Some(number) => rows::all(&self.db, number),
            None => Ok(Vec::new()),
        }
    }

    /// What a screen needs that opens a thread at its end: the rows that the state points at, and the newest
    /// items with the rows that they name, until `max_bytes` of JSON, at least one item. Items come last, oldest
    /// first. The rows of the state are always there and count towards the bound.
    ///
    /// # Errors
    /// Any of the file.
    pub fn tail(&self, thread: ThreadId, max_bytes: usize) -> Result<Window> {
        let Some(number) = self.find_number(thread)? else {
            return Ok(Window::default());
        };
        let state = self.snapshot(thread)?.state;
        let (mut live, spent) = rows::live(&self.db, number, &state)?;
        let mut already: BTreeSet<RowKey> = live.iter().map(Row::key).collect();
        let mut window = rows::window(&self.db, number, None, max_bytes, &mut already, spent)?;
        live.append(&mut window.rows);
        live.sort_by_key(|row| match row {
            Row::Item(item) => Some(item.position),
            _ => None,
        });
        window.rows = live;
        Ok(window)
    }

    /// The rows of [`LedgerReads::tail`].
    ///
    /// # Errors
    /// Any of the file.
    pub fn tail_rows(&self, thread: ThreadId, max_bytes: usize) -> Result<Vec<Row>> {
        Ok(self.tail(thread, max_bytes)?.rows)
    }

    /// The items right before a position with the rows that they name, until `max_bytes` of JSON, at least one item;
    /// items come last, oldest first.
    ///
    /// # Errors
    /// Any of the file.
    pub fn items_before(
        &self,
        thread: ThreadId,
        before: Position,
        max_bytes: usize,
    ) -> Result<Window> {
        match self.find_number(thread)? {
            Some(number) => rows::window(
                &self.db,
                number,
                Some(before),
                max_bytes,
                &mut BTreeSet::new(),
                0,
            ),
            None => Ok(Window::default()),
        }
    }

    /// The items at the end of a thread, the last one first, at most `most`.
    ///
    /// # Errors
    /// Any of the file.
    pub fn last_items(&self, thread: ThreadId, most: usize) -> Result<Vec<TurnItem>> {
        match self.find_number(thread)? {
            Some(number) => rows::last_items(&self.db, number, most),
            None => Ok(Vec::new()),
        }
    }

    /// The text saved so far of an open item: its beginning and end, where the middle had to be cut out.
    ///
    /// # Errors
    /// Any of the file.
    pub fn open_text(&self, item: ItemId) -> Result<Option<OpenText>> {
        open_text::read(&self.db, item)
    }

    /// Items of a thread that have saved text, each with the last `max_bytes` of it.
    ///
    /// # Errors
    /// Any of the file.
    pub fn open_items(&self, thread: ThreadId, max_bytes: usize) -> Result<Vec<OpenItem>> {
        let Some(number) = self.find_number(thread)? else {
            return Ok(Vec::new());
        };
        open_text::items(&self.db, number)?
            .into_iter()
            .filter_map(|item| open_text::tail(&self.db, item, max_bytes).transpose())
            .collect()
    }

    /// A part of a stored body, shorter at its end; `None` if there is no such body.
    ///
    /// # Errors
    /// Any of the file.
    pub fn blob(&self, hash: BlobHash, offset: u64, len: usize) -> Result<Option<Vec<u8>>> {
        blobs::range(&self.db, hash, offset, len)
    }

    /// Size of a stored body in bytes.
    ///
    /// # Errors
    /// Any of the file.
    pub fn blob_len(&self, hash: BlobHash) -> Result<Option<u64>> {
        blobs::len(&self.db, hash)
    }
}
