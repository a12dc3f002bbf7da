//! A followed thread: where it is, and what its listener is still to be told.

use pilothouse_domain::{
    Cursor, Entry, ThreadId,
    feed::Subscribed,
    row::{OpenItem, Snapshot},
};
use pilothouse_orchestrator::apply_entry;
use pilothouse_providers::remote::{FarError, FarTold};
use pilothouse_wire::message::SubId;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tokio::sync::mpsc;

/// Parts that may wait for a listener; from here on live text is left out, which heals at its item's close.
const SLOW: usize = 256;
/// With so many, the thread is followed no further until they are taken, and then from where it stands.
const TOO_SLOW: usize = 8192;

/// A followed thread.
pub(super) struct FarThread {
    pub(super) thread: ThreadId,
    /// Of this connection; 0 while there is none.
    pub(super) sub: SubId,
    /// `None` until the first answer.
    at: Option<Snapshot>,
    /// Texts that hold at a place that the entries have not reached yet.
    texts: Vec<OpenItem>,
    high_water: Cursor,
    queue: mpsc::UnboundedSender<FarTold>,
    waiting: Arc<AtomicUsize>,
    paused: Arc<AtomicBool>,
}

/// What is to be done after something was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    GoOn,
    /// It is to be followed anew, from nothing.
    Anew,
    /// It is to be left alone until its listener has caught up.
    Pause,
    /// Nobody listens any more.
    Over,
}

impl FarThread {
    /// Begins to tell a listener, who may be slow without holding up anything else.
    pub(super) fn new(
        thread: ThreadId,
        told: mpsc::Sender<FarTold>,
        caught_up: impl Fn() + Send + 'static,
        gone: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (queue, mut parts) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let paused = Arc::new(AtomicBool::new(false));
        let (left, pause) = (Arc::clone(&waiting), Arc::clone(&paused));
        tokio::spawn(async move {
            loop {
                let part = tokio::select! {
                    part = parts.recv() => part,
                    () = told.closed() => break,
                };
                let Some(part) = part else { return };
                if told.send(part).await.is_err() {
                    break;
                }
                if left.fetch_sub(1, Ordering::AcqRel) == 1 && pause.swap(false, Ordering::AcqRel) {
                    caught_up();
                }
            }
            gone();
        });
        Self {
            thread,
            sub: 0,
            at: None,
            texts: Vec::new(),
            high_water: Cursor::default(),
            queue,
            waiting,
            paused,
        }
    }

    /// From where it is to be followed.
    pub(super) fn cursor(&self) -> Option<Cursor> {
        self.at.as_ref().map(|at| at.cursor)
    }

    fn tell(&self, part: FarTold) -> Next {
        let slow = self.waiting.load(Ordering::Acquire) > TOO_SLOW;
        if slow {
            // Before this part is counted, so that its being taken is seen after it.
            self.paused.store(true, Ordering::Release);
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        if self.queue.send(part).is_err() {
            return Next::Over;
        }
        if slow { Next::Pause } else { Next::GoOn }
    }

    /// Whether there is room for what need not be told.
    pub(super) fn live(&self, live: pilothouse_domain::row::LiveText) -> Next {
        if self.waiting.load(Ordering::Relaxed) > SLOW {
            return Next::GoOn;
        }
        self.tell(FarTold::Live(live))
    }

    pub(super) fn end(&self, error: FarError) {
        let _ = self.tell(FarTold::Ended(error));
    }

    /// Forgets where it is.
    pub(super) fn forget(&mut self) {
        self.at = None;
        self.sub = 0;
    }

    pub(super) fn subscribed(&mut self, answer: Subscribed) -> Next {
        self.texts = answer.open_items;
        self.high_water = answer.high_water;
        if answer.gap.is_some() {
            let Some(snapshot) = answer.snapshot.filter(|at| at.state.thread == self.thread) else {
                return Next::Anew;
            };
            let began = FarTold::Began {
                state: Box::new(snapshot.state.clone()),
                rows: answer.rows,
            };
            self.at = Some(*snapshot);
            match self.tell(began) {
                Next::GoOn => {}
                next => return next,
            }
        }
        self.tell_texts()
    }

    pub(super) fn open_items(&mut self, items: Vec<OpenItem>) -> Next {
        self.texts.extend(items);
        self.tell_texts()
    }

    fn tell_texts(&mut self) -> Next {
        let reached = self
            .cursor()
            .is_some_and(|at| at.seq >= self.high_water.seq);
        if !reached || self.texts.is_empty() {
            return Next::GoOn;
        }
        let texts = std::mem::take(&mut self.texts);
        self.tell(FarTold::Texts(texts))
    }

    pub(super) fn entries(&mut self, entries: Vec<Entry>) -> Next {
        let Some(at) = &mut self.at else {
            return Next::Anew;
        };
        let mut fresh = Vec::with_capacity(entries.len());
        for entry in entries {
            let same = entry.epoch == at.cursor.epoch || at.cursor.seq == 0;
            if same && entry.seq <= at.cursor.seq {
                continue;
            }
            if !same || entry.seq != at.cursor.seq + 1 {
                return Next::Anew;
            }
            apply_entry(&mut at.state, &entry);
            at.cursor = entry.cursor();
            fresh.push(entry);
        }
        if fresh.is_empty() {
            return Next::GoOn;
        }
        let told = FarTold::Entries {
            entries: fresh,
            state: Box::new(at.state.clone()),
        };
        match self.tell(told) {
            Next::GoOn => self.tell_texts(),
            next => next,
        }
    }
}
