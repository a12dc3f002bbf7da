//! Threads that were opened on this device: state, window of rows, open texts.

use super::{ReplicaReads, ReplicaTx};
use crate::{
    codec::{cursor, from_json, int, to_json},
    error::{Result, StoreError},
    ledger::rebuild::replay,
    open_text::{self, OpenText},
    rows::{self, ThreadRows, Window},
    runs,
};
use pilothouse_domain::{
    Cursor, Entry, Event, HostId, ItemId, LoggedEvent, Position, Row, RowKey, Run, ThreadId,
    limits,
    row::{LiveText, OpenItem, Snapshot},
    state::STATE_VERSION,
};
use std::collections::BTreeSet;

impl ReplicaTx<'_> {
    /// Begins a thread from a snapshot: what was kept of it goes, the snapshot, its rows and open texts come.
    ///
    /// # Errors
    /// Any of the file.
    pub fn reset_thread(
        &self,
        host: HostId,
        snapshot: &Snapshot,
        rows: &[Row],
        open: &[OpenItem],
    ) -> Result<()> {
        let thread = snapshot.state.thread;
        self.forget_thread(thread)?;
        self.put_state(host, snapshot)?;
        let number = self.number(thread)?;
        for row in rows {
            rows::put(self.db(), number, row)?;
        }
        for item in open {
            self.put_open_item(thread, item)?;
        }
        Ok(())
    }

    /// Keeps a thread's state at its cursor; in the transaction that writes the rows of the entries up to it.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_state(&self, host: HostId, snapshot: &Snapshot) -> Result<()> {
        let cursor = &snapshot.cursor;
        self.db().write(
            "keeping a state",
            "INSERT INTO threads (thread, host, epoch, seq, chain, json, version) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
             ON CONFLICT (thread) DO UPDATE SET host = excluded.host, epoch = excluded.epoch, seq = excluded.seq, \
             chain = excluded.chain, json = excluded.json, version = excluded.version",
            (
                snapshot.state.thread.as_bytes(),
                host.as_bytes(),
                cursor.epoch.as_bytes(),
                int(cursor.seq),
                cursor.chain.0.as_bytes(),
                to_json(&snapshot.state),
                i64::from(snapshot.state.version),
            ),
        )?;
        Ok(())
    }

    /// Applies entries that follow a thread's cursor: rows, state and cursor in this transaction. Text saved of items that
    /// they close goes. `snapshot` is what is kept of the thread (or the empty state, for one that never was), and is moved
    /// along.
    ///
    /// # Errors
    /// [`StoreError::Gap`] if an entry is not the next one.
    pub fn apply_entries<'e>(
        &self,
        host: HostId,
        snapshot: &mut Snapshot,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> Result<()> {
        let thread = snapshot.state.thread;
        if snapshot.cursor.seq == 0 {
            // The first entries of a thread that was never opened: make its place before its rows.
            self.put_state(host, snapshot)?;
        }
        let mut rows = self.rows(thread)?;
        for entry in entries {
            let applied = snapshot.cursor.seq;
            let same = applied == 0 || entry.epoch == snapshot.cursor.epoch;
            if entry.thread != thread || !same || entry.seq != applied + 1 {
                return Err(StoreError::Gap {
                    thread,
                    applied,
                    came: entry.seq,
                });
            }
            replay(&mut rows, &mut snapshot.state, entry);
            snapshot.cursor = entry.cursor();
            for logged in &entry.events {
                if let LoggedEvent::Known(event) = logged
                    && let Event::ItemClosed { item, .. } = **event
                {
                    self.clear_open_text(item)?;
                }
            }
        }
        self.put_state(host, snapshot)
    }

    /// The rows of a thread that was opened, for `project`.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the thread was never opened.
    pub fn rows(&self, thread: ThreadId) -> Result<ThreadRows<'_>> {
        Ok(ThreadRows::new(self.db(), self.number(thread)?, thread))
    }

    /// Adds older rows to a thread's window; rows that are there are newer and stay.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the thread was never opened.
    pub fn add_older_rows(&self, thread: ThreadId, older: &[Row]) -> Result<()> {
        let number = self.number(thread)?;
        for row in older {
            if rows::find(self.db(), number, row.key())?.is_none() {
                rows::put(self.db(), number, row)?;
            }
        }
        Ok(())
    }

    /// Puts an open item's text in the place of what was saved of it.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the thread was never opened.
    pub fn put_open_item(&self, thread: ThreadId, open: &OpenItem) -> Result<()> {
        open_text::clear(self.db(), open.item)?;
        open_text::append(
            self.db(),
            self.number(thread)?,
            open.item,
            open.from,
            &open.text,
            limits::ITEM_TEXT as u64,
        )
    }

    /// Appends live text. What is there already is left out; after a jump in the offset the text begins anew there.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the thread was never opened.
    pub fn append_live(&self, thread: ThreadId, live: &LiveText) -> Result<()> {
        let ends_at = open_text::extent(self.db(), live.item)?.map(|(ends_at, _)| ends_at);
        let (offset, text) = match ends_at {
            Some(ends_at) if live.offset <= ends_at => {
                let known = usize::try_from(ends_at - live.offset).unwrap_or(usize::MAX);
                match live.text.get(known..) {
                    Some(text) => (ends_at, text),
                    // All of it is known, or it was cut inside a character, which only a confused sender does.
                    None => return Ok(()),
                }
            }
            Some(_) => {
                open_text::clear(self.db(), live.item)?;
                (live.offset, live.text.as_str())
            }
            None => (live.offset, live.text.as_str()),
        };
        open_text::append(
            self.db(),
            self.number(thread)?,
            live.item,
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

    /// Forgets a thread: its state, rows and open texts. Its line and its outbox stay.
    ///
    /// # Errors
    /// Any of the file.
    pub fn forget_thread(&self, thread: ThreadId) -> Result<()> {
        let Some(number) = self.find_number(thread)? else {
            return Ok(());
        };
        rows::clear(self.db(), number)?;
        for item in open_text::items(self.db(), number)? {
            open_text::clear(self.db(), item)?;
        }
        self.db().write(
            "forgetting a thread",
            "DELETE FROM threads WHERE number = ?1",
            [number],
        )?;
        Ok(())
    }

    fn number(&self, thread: ThreadId) -> Result<i64> {
        self.find_number(thread)?
            .ok_or_else(|| self.missing(thread))
    }

    fn missing(&self, thread: ThreadId) -> StoreError {
        StoreError::Missing {
            path: self.db().path().to_owned(),
            what: format!("opened thread {thread}"),
        }
    }
}

impl ReplicaReads {
    /// A thread's host, and its state with the place of the log up to which it was applied; `None` also if it was kept
    /// by a version whose states have another shape (then it is fetched anew).
    ///
    /// # Errors
    /// Any of the file.
    pub fn state(&self, thread: ThreadId) -> Result<Option<(HostId, Snapshot)>> {
        let found = self.db.one(
            "reading a state",
            "SELECT host, epoch, seq, chain, json FROM threads WHERE thread = ?1 AND version = ?2",
            (thread.as_bytes(), i64::from(STATE_VERSION)),
            |row| {
                Ok((
                    HostId::from_bytes(row.get(0)?),
                    cursor(row.get(1)?, row.get(2)?, row.get(3)?),
                    row.get::<_, String>(4)?,
                ))
            },
        )?;
        found
            .map(|(host, cursor, json)| {
                let state = from_json(&self.db, "reading a state", &json)?;
                Ok((host, Snapshot { state, cursor }))
            })
            .transpose()
    }

    /// Threads of a host that were opened.
    ///
    /// # Errors
    /// Any of the file.
    pub fn threads_of(&self, host: HostId) -> Result<Vec<ThreadId>> {
        self.db.all(
            "listing threads",
            "SELECT thread FROM threads WHERE host = ?1 ORDER BY number",
            [host.as_bytes()],
            |row| row.get(0).map(ThreadId::from_bytes),
        )
    }

    /// The place of the log up to which a thread that was opened is applied.
    ///
    /// # Errors
    /// Any of the file.
    pub fn cursor(&self, thread: ThreadId) -> Result<Option<Cursor>> {
        self.db.one(
            "reading a place",
            "SELECT epoch, seq, chain FROM threads WHERE thread = ?1 AND version = ?2",
            (thread.as_bytes(), i64::from(STATE_VERSION)),
            |row| Ok(cursor(row.get(0)?, row.get(1)?, row.get(2)?)),
        )
    }

    /// A row of a thread that was opened.
    ///
    /// # Errors
    /// Any of the file.
    pub fn row(&self, thread: ThreadId, key: RowKey) -> Result<Option<Row>> {
        match self.find_number(thread)? {
            Some(number) => rows::find(&self.db, number, key),
            None => Ok(None),
        }
    }

    /// Runs of a thread that began with this ordinal or a later one, in their order, at most `limit`, of those that are held.
    ///
    /// # Errors
    /// Any of the file.
    pub fn runs_from(&self, thread: ThreadId, ordinal: u32, limit: usize) -> Result<Vec<Run>> {
        match self.find_number(thread)? {
            Some(number) => runs::from(&self.db, number, ordinal, limit),
            None => Ok(Vec::new()),
        }
    }

    /// The last run of a thread that began before this ordinal and was not taken back, of those that are held.
    ///
    /// # Errors
    /// Any of the file.
    pub fn run_standing_before(&self, thread: ThreadId, ordinal: u32) -> Result<Option<Run>> {
        match self.find_number(thread)? {
            Some(number) => runs::standing_before(&self.db, number, ordinal),
            None => Ok(None),
        }
    }

    /// A row of any thread of a host that was opened, with its thread.
    ///
    /// # Errors
    /// Any of the file.
    pub fn row_anywhere(&self, host: HostId, key: RowKey) -> Result<Option<(ThreadId, Row)>> {
        for thread in self.threads_of(host)? {
            if let Some(row) = self.row(thread, key)? {
                return Ok(Some((thread, row)));
            }
        }
        Ok(None)
    }

    /// Every row held of a thread, ordered by kind and id.
    ///
    /// # Errors
    /// Any of the file.
    pub fn all_rows(&self, thread: ThreadId) -> Result<Vec<Row>> {
        match self.find_number(thread)? {
            Some(number) => rows::all(&self.db, number),
            None => Ok(Vec::new()),
        }
    }

    /// The newest items held (or those before a position) with the rows that they name, until `max_bytes` of JSON, at
    /// least one item; items come last, oldest first. `more` says only whether more is *held*.
    ///
    /// # Errors
    /// Any of the file.
    pub fn items_before(
        &self,
        thread: ThreadId,
        before: Option<Position>,
        max_bytes: usize,
    ) -> Result<Window> {
        match self.find_number(thread)? {
            Some(number) => {
                rows::window(&self.db, number, before, max_bytes, &mut BTreeSet::new(), 0)
            }
            None => Ok(Window::default()),
        }
    }

    /// The text saved so far of an open item.
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
}
