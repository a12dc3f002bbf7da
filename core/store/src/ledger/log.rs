//! Thread logs: appending entries and reading them back.

use super::{LedgerReads, LedgerTx};
use crate::{
    blobs,
    codec::{cursor, from_json, int, nat, to_json},
    error::Result,
    open_text,
};
use pilothouse_domain::{
    Body, Cause, Chain, Cursor, Digest, Entry, Epoch, Event, ItemId, LoggedEvent, ThreadId,
    entry::{LOG_FORMAT, UnknownEvent},
    limits,
    shorten::shortened,
    transfer::PlanKind,
};
use rusqlite::Row;
use serde_json::value::RawValue;

/// An event that no frame would hold, shortened. Requests are bounded where they are made, because their text is hashed.
fn shorter(event: &Event) -> Option<Event> {
    let is_request = matches!(
        event,
        Event::RequestOpened { .. } | Event::RequestChanged { .. }
    );
    if is_request {
        return None;
    }
    shortened(event, |less| to_json(less).len() <= limits::EVENT_ENCODED)
}

/// Bits of `place` that hold the sequence number.
const SEQ_BITS: u32 = 40;

fn place(thread: i64, seq: u64) -> i64 {
    (thread << SEQ_BITS) | int(seq)
}

const COLUMNS: &str = "place, epoch, log_format, host_time_ms, chain, hashes, cause, events";

/// An entry as it is stored, before its events are read.
pub(crate) struct StoredEntry {
    pub(crate) entry: Entry,
    hashes: Vec<[u8; 32]>,
    events: String,
}

impl LedgerTx<'_> {
    /// Appends an entry to a thread's log, which begins with its first one. Long bodies go to the blob table; the
    /// returned entry holds them by hash, exactly as it is stored and sent.
    ///
    /// # Errors
    /// Any of the file.
    pub fn append(
        &self,
        thread: ThreadId,
        cause: Cause,
        host_time_ms: u64,
        mut events: Vec<Event>,
    ) -> Result<Entry> {
        let doing = "appending an entry";
        let number = self.number(thread)?;
        let before = self.cursor(thread)?;
        let mut stored = String::with_capacity(256 * events.len() + 2);
        let mut hashes = Vec::with_capacity(events.len());
        let mut store = |json: &str| {
            stored.push(if hashes.is_empty() { '[' } else { ',' });
            hashes.push(*blake3::hash(json.as_bytes()).as_bytes());
            stored.push_str(json);
        };
        let mut too_long = Vec::new();
        for event in &mut events {
            self.offload(event)?;
            let mut json = to_json(event);
            if json.len() > limits::EVENT_ENCODED
                && let Some(less) = shorter(event)
            {
                let detail = format!(
                    "something of {} bytes was told, more than can be shown: its longest texts and lists were shortened",
                    json.len()
                );
                too_long.push(Event::FrameUnreadable { detail });
                json = to_json(&less);
                *event = less;
            }
            store(&json);
        }
        too_long.iter().for_each(|event| store(&to_json(event)));
        events.extend(too_long);
        if hashes.is_empty() {
            stored.push('[');
        }
        stored.push(']');
        let mut entry = Entry {
            thread,
            epoch: self.epoch.get(),
            seq: before.seq + 1,
            chain: Chain::default(),
            log_format: LOG_FORMAT,
            host_time_ms,
            cause,
            events: events.into_iter().map(LoggedEvent::from).collect(),
        };
        entry.chain = before.chain.extend(&entry.header(), &hashes);
        self.db().write(
            doing,
            "INSERT INTO entries (place, epoch, log_format, host_time_ms, chain, hashes, cause, events) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            (
                place(number, entry.seq),
                entry.epoch.as_bytes(),
                i64::from(entry.log_format),
                int(host_time_ms),
                entry.chain.0.as_bytes(),
                hashes.concat(),
                to_json(&entry.cause),
                stored,
            ),
        )?;
        self.db().write(
            doing,
            "UPDATE threads SET seq = ?2, chain = ?3 WHERE number = ?1",
            (number, int(entry.seq), entry.chain.0.as_bytes()),
        )?;
        Ok(entry)
    }

    fn offload(&self, event: &mut Event) -> Result<()> {
        match event {
            Event::ItemOpened { item } => {
                let id = item.id;
                self.offload_all(item.content.bodies_mut(), Some(id))
            }
            Event::ItemUpdated { item, content } => {
                self.offload_all(content.bodies_mut(), Some(*item))
            }
            Event::ItemClosed {
                item,
                content,
                streamed,
                ..
            } => {
                let mut bodies = content
                    .as_mut()
                    .map(|content| content.bodies_mut())
                    .unwrap_or_default();
                bodies.extend(streamed);
                self.offload_all(bodies, Some(*item))
            }
            Event::MessageAdded { message } => self.offload_all(vec![&mut message.text], None),
            Event::PlanUpdated { plan } => match &mut plan.kind {
                PlanKind::ProposedPlan { text } => self.offload_all(vec![text], None),
                PlanKind::TodoList { .. } | PlanKind::Questions { .. } => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn offload_all(&self, bodies: Vec<&mut Body>, item: Option<ItemId>) -> Result<()> {
        for body in bodies {
            let Some((mut stored, text)) = body.offload() else {
                continue;
            };
            blobs::put(self.db(), stored.hash, text.as_bytes())?;
            // Only a text of at least half the cap can have lost its middle.
            if stored.bytes >= limits::ITEM_TEXT as u64 / 2
                && let Some(item) = item
                && let Some((ends_at, dropped)) = open_text::extent(self.db(), item)?
                && ends_at.saturating_sub(dropped) == stored.bytes
            {
                stored.dropped = dropped;
            }
            *body = Body::Stored(stored);
        }
        Ok(())
    }
}

impl LedgerReads {
    /// The place of a thread's log behind its last entry, in the ledger's present epoch; `seq` is 0 for a thread
    /// without entries.
    ///
    /// # Errors
    /// Any of the file.
    pub fn cursor(&self, thread: ThreadId) -> Result<Cursor> {
        let epoch = self.epoch.get();
        let found = self.db.one(
            "reading a log's head",
            "SELECT seq, chain FROM threads WHERE thread = ?1",
            [thread.as_bytes()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        Ok(match found {
            Some((seq, chain)) => cursor(*epoch.as_bytes(), seq, chain),
            None => Cursor {
                epoch,
                ..Cursor::default()
            },
        })
    }

    /// Whether a reader's cursor lies on this log: the same epoch, and the chain that stands at its place. Otherwise
    /// it is a gap.
    ///
    /// # Errors
    /// Any of the file.
    pub fn is_on_log(&self, thread: ThreadId, cursor: &Cursor) -> Result<bool> {
        if cursor.epoch != self.epoch.get() {
            return Ok(false);
        }
        if cursor.seq == 0 {
            return Ok(cursor.chain == Chain::default());
        }
        let Some(number) = self.find_number(thread)? else {
            return Ok(false);
        };
        let chain = self.db.one(
            "reading an entry's chain",
            "SELECT chain FROM entries WHERE place = ?1",
            [place(number, cursor.seq)],
            |row| row.get(0).map(|chain| Chain(Digest::from_bytes(chain))),
        )?;
        Ok(chain == Some(cursor.chain))
    }

    /// Entries after a sequence number, in order, up to `limit_bytes` of stored JSON, at least one if there is one.
    ///
    /// # Errors
    /// Any of the file.
    pub fn entries_after(
        &self,
        thread: ThreadId,
        seq: u64,
        limit_bytes: usize,
    ) -> Result<Vec<Entry>> {
        let mut out = Vec::new();
        let mut bytes = 0;
        self.scan_entries(thread, seq, |stored| {
            bytes += stored.events.len() + 256;
            if bytes > limit_bytes && !out.is_empty() {
                return Ok(false);
            }
            out.push(stored.read(self)?);
            Ok(true)
        })?;
        Ok(out)
    }

    /// Reads entries after a sequence number one by one, until `each` says `false`.
    pub(crate) fn scan_entries(
        &self,
        thread: ThreadId,
        seq: u64,
        mut each: impl FnMut(StoredEntry) -> Result<bool>,
    ) -> Result<()> {
        let Some(number) = self.find_number(thread)? else {
            return Ok(());
        };
        let doing = "reading entries";
        self.db.scan(
            doing,
            &format!(
                "SELECT {COLUMNS} FROM entries WHERE place > ?1 AND place < ?2 ORDER BY place"
            ),
            (place(number, seq), place(number + 1, 0)),
            |row| each(self.stored(thread, row)?),
        )
    }

    fn stored(&self, thread: ThreadId, row: &Row<'_>) -> Result<StoredEntry> {
        let doing = "reading an entry";
        let (place, epoch, format, time, chain, hashes, cause, events) = (|| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, [u8; 16]>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, [u8; 32]>(4)?,
                row.get::<_, Vec<u8>>(5)?,
                row.get::<_, String>(6)?,
                row.get::<_, String>(7)?,
            ))
        })()
        .map_err(self.db.fail(doing))?;
        let (hashes, rest) = hashes.as_chunks::<32>();
        if !rest.is_empty() {
            return Err(self.db.corrupt(doing, "an entry's hashes are cut"));
        }
        Ok(StoredEntry {
            entry: Entry {
                thread,
                epoch: Epoch::from_bytes(epoch),
                seq: nat(place & ((1 << SEQ_BITS) - 1)),
                chain: Chain(Digest::from_bytes(chain)),
                log_format: u16::try_from(format).unwrap_or(u16::MAX),
                host_time_ms: nat(time),
                cause: from_json(&self.db, doing, &cause)?,
                events: Vec::new(),
            },
            hashes: hashes.to_vec(),
            events,
        })
    }

    /// Recomputes a log's chain from the stored bytes; an error names the first entry that does not fit.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`](crate::StoreError::Corrupt) for a damaged log, or any of the file.
    pub fn verify_chain(&self, thread: ThreadId) -> Result<Cursor> {
        let doing = "verifying a log";
        let mut chain = Chain::default();
        let mut last = 0;
        self.scan_entries(thread, 0, |stored| {
            let seq = stored.entry.seq;
            if seq != last + 1 {
                return Err(self
                    .db
                    .corrupt(doing, format!("thread {thread} lacks entry {}", last + 1)));
            }
            let events = stored.raw_events(self)?;
            let bytes_fit = events.len() == stored.hashes.len()
                && events
                    .iter()
                    .zip(&stored.hashes)
                    .all(|(event, hash)| blake3::hash(event.get().as_bytes()).as_bytes() == hash);
            chain = chain.extend(&stored.entry.header(), &stored.hashes);
            if !bytes_fit || chain != stored.entry.chain {
                return Err(self.db.corrupt(
                    doing,
                    format!("entry {seq} of thread {thread} is not as it was written"),
                ));
            }
            last = seq;
            Ok(true)
        })?;
        let head = self.cursor(thread)?;
        if head.seq != last || head.chain != chain {
            return Err(self.db.corrupt(
                doing,
                format!(
                    "the log of thread {thread} ends at entry {last}, its head says {}",
                    head.seq
                ),
            ));
        }
        Ok(head)
    }
}

impl StoredEntry {
    fn raw_events(&self, reads: &LedgerReads) -> Result<Vec<&RawValue>> {
        serde_json::from_str(&self.events).map_err(|error| {
            reads
                .db
                .corrupt("reading an entry's events", error.to_string())
        })
    }

    /// Reads the events; those of a newer version are kept as they are.
    pub(crate) fn read(mut self, reads: &LedgerReads) -> Result<Entry> {
        let events = self
            .raw_events(reads)?
            .into_iter()
            .map(|raw| match pilothouse_json::from_str::<Event>(raw.get()) {
                Ok(event) => Ok(LoggedEvent::from(event)),
                Err(_) => from_json::<UnknownEvent>(&reads.db, "reading an event", raw.get())
                    .map(LoggedEvent::Unknown),
            })
            .collect::<Result<Vec<_>>>()?;
        self.entry.events = events;
        Ok(self.entry)
    }
}
