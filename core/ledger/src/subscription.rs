//! Following a thread, and following all of them.
//!
//! A subscription is registered before its high-water mark is read, then pages from the database, then goes live: no
//! gap by construction. Entries come from the database by cursor, so a slow reader loses none; live text comes over a
//! bounded channel, is put together to at most five pieces a second per item, and may be lost: the close heals it.

use crate::{LedgerError, threads::LiveAt};
use pilothouse_domain::{
    Cursor, Entry, Epoch, ItemId, ThreadId,
    feed::{FeedCursor, FeedThread, FeedUpdate, Subscribed, ThreadUpdate},
    row::LiveText,
};
use pilothouse_store::{LedgerReader, LedgerReads, StoreError};
use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};

/// Bytes of entries in one update.
const PAGE: usize = 256 * 1024;
/// Threads in one update of the feed.
const FEED_PAGE: usize = 64;
/// Least time between two pieces of live text of one item, after the first (DETAILS section 5).
const LIVE_EVERY: Duration = Duration::from_millis(200);

/// A reader that is used on threads that may wait for a disk, never on those that serve connections.
struct Reader(Arc<Mutex<LedgerReader>>);

impl Reader {
    fn new(reader: LedgerReader) -> Self {
        Self(Arc::new(Mutex::new(reader)))
    }

    /// Reads. Cancel-safe: a read that nobody waits for any more ends by itself.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&LedgerReader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let reader = self.0.clone();
        let work = move || read(&reader.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| LedgerError::Closed)?
            .map_err(LedgerError::Store)
    }
}

/// One subscriber of a thread.
pub struct Subscription {
    /// The thread.
    pub thread: ThreadId,
    /// Where it starts from.
    pub answer: Subscribed,
    cursor: Cursor,
    reader: Reader,
    log: watch::Receiver<Cursor>,
    live: broadcast::Receiver<LiveAt>,
    /// Text that came before its entry was read.
    early: Option<LiveAt>,
    texts: BTreeMap<ItemId, PendingText>,
    ready: VecDeque<ThreadUpdate>,
}

/// Live text of an item on its way to one subscriber.
struct PendingText {
    text: Option<LiveText>,
    last_sent: Option<Instant>,
}

impl Subscription {
    pub(crate) fn new(
        thread: ThreadId,
        answer: Subscribed,
        cursor: Cursor,
        reader: LedgerReader,
        log: watch::Receiver<Cursor>,
        live: broadcast::Receiver<LiveAt>,
    ) -> Self {
        Self {
            thread,
            answer,
            cursor,
            reader: Reader::new(reader),
            log,
            live,
            early: None,
            texts: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// The next update; `None` when the ledger is closed.
    ///
    /// # Errors
    /// When the ledger cannot be read; the subscriber should subscribe anew.
    pub async fn next(&mut self) -> Result<Option<ThreadUpdate>, LedgerError> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Ok(Some(update));
            }
            let announced = self.log.borrow_and_update().seq;
            let wanted = self
                .early
                .as_ref()
                .map_or(announced, |text| text.after.max(announced));
            if wanted > self.cursor.seq {
                self.page(wanted).await?;
                continue;
            }
            if let Some(text) = self.early.take() {
                self.put(text.text);
                self.release(Some(Instant::now()));
                continue;
            }
            let due = self.texts.values().filter_map(PendingText::due).min();
            let timer = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // What came is kept before anything is read for it: a caller may stop waiting then.
            tokio::select! {
                biased;
                changed = self.log.changed() => if changed.is_err() { return Ok(None) },
                text = self.live.recv() => match text {
                    Ok(text) => self.early = Some(text),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return Ok(None),
                },
                () = timer => self.release(Some(Instant::now())),
            }
        }
    }

    /// Makes entries up to `seq` ready, with the text that streamed between them in its place: after the entry that
    /// opened its item, before the one that closes it.
    async fn page(&mut self, seq: u64) -> Result<(), LedgerError> {
        let (thread, after) = (self.thread, self.cursor.seq);
        let read = move |ledger: &LedgerReader| ledger.entries_after(thread, after, PAGE);
        let mut entries = VecDeque::from(self.reader.read(read).await?);
        // What is committed but not announced yet may have text that is still on its way here.
        entries.truncate(entries.iter().take_while(|entry| entry.seq <= seq).count());
        let last = entries.back().map_or(self.cursor.seq, |entry| entry.seq);
        while let Some(text) = self.early.take().or_else(|| self.live.try_recv().ok()) {
            if text.after > last {
                self.early = Some(text);
                break;
            }
            self.pass(&mut entries, text.after);
            self.put(text.text);
        }
        self.pass(&mut entries, last);
        Ok(())
    }

    /// Makes entries up to `seq` ready, after the text that came before them.
    fn pass(&mut self, entries: &mut VecDeque<Entry>, seq: u64) {
        let ready = entries.iter().take_while(|entry| entry.seq <= seq).count();
        let passed: Vec<_> = entries.drain(..ready).collect();
        if let Some(last) = passed.last() {
            self.release(None);
            self.cursor = last.cursor();
            self.ready.push_back(ThreadUpdate::Entries(passed));
        }
    }

    fn put(&mut self, text: LiveText) {
        let pending = self.texts.entry(text.item).or_insert(PendingText {
            text: None,
            last_sent: None,
        });
        match &mut pending.text {
            Some(waiting) if waiting.offset + waiting.text.len() as u64 == text.offset => {
                waiting.text.push_str(&text.text);
            }
            // A jump: what lies between was lost; the receiver sees it by the offset.
            waiting => *waiting = Some(text),
        }
    }

    /// Makes texts ready that are due; all of them if `now` is `None`.
    fn release(&mut self, now: Option<Instant>) {
        for pending in self.texts.values_mut() {
            if now.is_none_or(|now| pending.is_due(now))
                && let Some(text) = pending.text.take()
            {
                pending.last_sent = Some(now.unwrap_or_else(Instant::now));
                self.ready.push_back(ThreadUpdate::Live(text));
            }
        }
        if self.texts.len() > pilothouse_domain::limits::LIVE_NODES {
            self.texts.retain(|_, pending| pending.text.is_some());
        }
    }
}

impl PendingText {
    /// Whether it may be sent at a time; the first piece at any.
    fn is_due(&self, now: Instant) -> bool {
        self.last_sent.is_none_or(|sent| sent + LIVE_EVERY <= now)
    }

    /// When to look at it again.
    fn due(&self) -> Option<Instant> {
        self.text.as_ref()?;
        Some(
            self.last_sent
                .map_or_else(Instant::now, |sent| sent + LIVE_EVERY),
        )
    }
}

/// One follower of all summaries.
pub struct Feed {
    reader: Reader,
    epoch: Epoch,
    revisions: watch::Receiver<u64>,
    at: u64,
    reset: bool,
    first: bool,
}

impl Feed {
    pub(crate) async fn open(
        dir: PathBuf,
        epoch: Epoch,
        revisions: watch::Receiver<u64>,
        cursor: Option<FeedCursor>,
    ) -> Result<Self, LedgerError> {
        let known =
            cursor.filter(|cursor| cursor.epoch == epoch && cursor.revision <= *revisions.borrow());
        let reader = tokio::task::spawn_blocking(move || LedgerReader::open(&dir))
            .await
            .map_err(|_| LedgerError::Closed)?
            .map_err(LedgerError::Store)?;
        Ok(Self {
            reader: Reader::new(reader),
            epoch,
            revisions,
            at: known.map_or(0, |cursor| cursor.revision),
            reset: known.is_none(),
            first: true,
        })
    }

    /// The next step; the first comes at once, even if nothing changed. `None` when the ledger is closed.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn next(&mut self) -> Result<Option<FeedUpdate>, LedgerError> {
        loop {
            let latest = *self.revisions.borrow_and_update();
            if self.first || latest > self.at {
                return self.page().await.map(Some);
            }
            if self.revisions.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    async fn page(&mut self) -> Result<FeedUpdate, LedgerError> {
        let (at, epoch, reset) = (self.at, self.epoch, self.reset);
        let read =
            move |ledger: &LedgerReader| ledger.consistent(|ledger| step(ledger, at, epoch, reset));
        let update = self.reader.read(read).await?;
        self.at = update.cursor.revision;
        self.reset = false;
        self.first = false;
        Ok(update)
    }
}

/// What changed after a revision, of one moment.
fn step(
    ledger: &LedgerReads,
    at: u64,
    epoch: Epoch,
    reset: bool,
) -> Result<FeedUpdate, StoreError> {
    let changes = ledger.summaries_since(at, FEED_PAGE)?;
    let more = changes.len() >= FEED_PAGE;
    let revision = changes.last().map_or(at, |change| change.revision);
    let (mut threads, mut removed) = (Vec::new(), Vec::new());
    for change in changes {
        match change.summary {
            Some(summary) => {
                let requests = ledger.open_requests_of(change.thread)?;
                threads.push(FeedThread { summary, requests });
            }
            None => removed.push(change.thread),
        }
    }
    let cursor = FeedCursor { epoch, revision };
    Ok(FeedUpdate {
        cursor,
        reset,
        threads,
        removed,
        counts: ledger.waiting_counts()?,
        more,
    })
}

#[cfg(test)]
#[path = "subscription_tests.rs"]
mod tests;
