//! The delivery thread: one per core, the only thread that ever calls a sink.
//!
//! Delivery is *pulled*: the core marks an observation as changed, and this thread asks its [`Renderer`] for what
//! changed since the last batch when the observation is due. So a slow sink costs nothing but its own freshness: what
//! happens meanwhile is in the next batch, nothing is queued and nothing is lost.

use crate::{
    api::{LogLevel, Platform, Sink},
    batch::Batch,
};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Least time between two batches of one observation, a frame of a screen, unless something that waits for a person, or an
/// end, is in it.
pub(crate) const FRAME: Duration = Duration::from_micros(16_667);
/// Time after which rendering that failed (a database that could not be read) is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// Says what changed in a view since it was last asked; the first answer is a reset.
pub(crate) trait Renderer: Send {
    /// The next batch, or `None` if nothing changed for the observer.
    fn render(&mut self) -> Result<Option<Batch>, String>;
}

/// Names an observation inside a core.
pub(crate) type ObservationId = u64;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Not,
    Frame,
    Now,
}

struct Slot {
    /// Taken out while it renders and delivers, so that the lock is free meanwhile.
    work: Option<Work>,
    due: Due,
    not_before: Instant,
}

struct Work {
    renderer: Box<dyn Renderer>,
    sink: Arc<dyn Sink>,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<ObservationId, Slot>,
    next: ObservationId,
    closing: bool,
}

pub(crate) struct Delivery {
    state: Mutex<State>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Delivery {
    pub(crate) fn start(platform: Arc<dyn Platform>) -> std::io::Result<Arc<Self>> {
        let delivery = Arc::new(Self {
            state: Mutex::new(State::default()),
            wake: Condvar::new(),
            thread: Mutex::new(None),
        });
        let weak = Arc::downgrade(&delivery);
        let thread = std::thread::Builder::new()
            .name("pilothouse-delivery".to_owned())
            .spawn(move || run(&weak, &*platform))?;
        *lock(&delivery.thread) = Some(thread);
        Ok(delivery)
    }

    /// Adds an observation; its first batch is due at once.
    pub(crate) fn add(&self, renderer: Box<dyn Renderer>, sink: Arc<dyn Sink>) -> ObservationId {
        let mut state = lock(&self.state);
        state.next += 1;
        let id = state.next;
        state.slots.insert(
            id,
            Slot {
                work: Some(Work { renderer, sink }),
                due: Due::Now,
                not_before: Instant::now(),
            },
        );
        self.wake.notify_all();
        id
    }

    /// Ends an observation. A delivery that is under way on the delivery thread may still finish; none follows.
    pub(crate) fn remove(&self, id: ObservationId) {
        let removed = lock(&self.state).slots.remove(&id);
        // Dropped outside the lock: a sink's destructor is foreign code.
        drop(removed);
    }

    /// Says that what an observation shows has changed; `at_once` for requests, answers and ends.
    pub(crate) fn changed(&self, id: ObservationId, at_once: bool) {
        let mut state = lock(&self.state);
        if let Some(slot) = state.slots.get_mut(&id) {
            let due = if at_once { Due::Now } else { Due::Frame };
            if slot.due < due {
                slot.due = due;
                self.wake.notify_all();
            }
        }
    }

    /// Stops the thread after the delivery under way, and waits for it (unless called from a sink).
    pub(crate) fn close(&self) {
        {
            let mut state = lock(&self.state);
            state.closing = true;
            self.wake.notify_all();
        }
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        let slots = std::mem::take(&mut lock(&self.state).slots);
        drop(slots);
    }
}

/// A panic inside a lock holder leaves plain data behind, which is still good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(delivery: &Weak<Delivery>, platform: &dyn Platform) {
    // The owner joins this thread in `close`; the upgrade fails only if it forgot to.
    while let Some(delivery) = delivery.upgrade() {
        let Some((id, mut work)) = delivery.next_due() else {
            return;
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let batch = work.renderer.render()?;
            if let Some(batch) = batch {
                work.sink.on_batch(batch);
            }
            Ok::<(), String>(())
        }));
        match outcome {
            Ok(Ok(())) => delivery.put_back(id, work, None),
            Ok(Err(why)) => {
                platform.log(
                    LogLevel::Warn,
                    "delivery",
                    &format!("observation {id} could not be read and is tried again: {why}"),
                );
                delivery.put_back(id, work, Some(RETRY));
            }
            Err(panic) => {
                platform.log(
                    LogLevel::Error,
                    "delivery",
                    &format!(
                        "observation {id} was closed because its sink panicked: {}",
                        words(&*panic)
                    ),
                );
                delivery.remove(id);
                // Foreign code again: its destructor may panic as well.
                let _ = catch_unwind(AssertUnwindSafe(move || drop(work)));
            }
        }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

impl Delivery {
    /// Waits for an observation that is due and takes its work; `None` when closing.
    fn next_due(&self) -> Option<(ObservationId, Work)> {
        let mut state = lock(&self.state);
        loop {
            if state.closing {
                return None;
            }
            let now = Instant::now();
            let mut earliest: Option<Instant> = None;
            let mut found = None;
            for (id, slot) in &state.slots {
                if slot.work.is_none() || slot.due == Due::Not {
                    continue;
                }
                if slot.due == Due::Now || slot.not_before <= now {
                    // Of several due ones the longest waiting goes first, so that none starves.
                    if found.is_none_or(|(_, at)| slot.not_before < at) {
                        found = Some((*id, slot.not_before));
                    }
                } else {
                    earliest = Some(earliest.map_or(slot.not_before, |e| e.min(slot.not_before)));
                }
            }
            if let Some((id, _)) = found
                && let Some(slot) = state.slots.get_mut(&id)
                && let Some(work) = slot.work.take()
            {
                slot.due = Due::Not;
                return Some((id, work));
            }
            state = match earliest {
                Some(at) => {
                    self.wake
                        .wait_timeout(state, at.saturating_duration_since(now))
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn put_back(&self, id: ObservationId, work: Work, retry: Option<Duration>) {
        let mut state = lock(&self.state);
        let Some(slot) = state.slots.get_mut(&id) else {
            drop(state);
            drop(work);
            return;
        };
        slot.work = Some(work);
        slot.not_before = Instant::now() + retry.unwrap_or(FRAME);
        if retry.is_some() {
            slot.due = Due::Frame;
        }
    }
}
