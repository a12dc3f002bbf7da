//! From an agent's process to the writer: events in order, text that streams gathered on the way.

use crate::{
    runtimes::{SessionFacts, session_event},
    writer::Job,
};
use pilothouse_domain::{ProviderEvent, ProviderEventKind, request::LostReason};
use pilothouse_providers::contract::RuntimeEvents;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::Instant,
};

/// Text that follows text waits this long for more, so that an agent that writes 1,500 pieces a second does not wake the
/// writer and every follower as often. The first piece and everything that is not text go at once.
const GATHER: Duration = Duration::from_millis(10);
/// Bytes of text that are gathered at most, and a batch more.
const GATHERED: usize = 64 * 1024;
/// Batches of a process that the writer has not taken yet.
const ON_THEIR_WAY: usize = 4;

/// Whether a batch holds nothing but text that streams.
fn is_text(batch: &RuntimeEvents) -> bool {
    let text = |kind: &ProviderEventKind| matches!(kind, ProviderEventKind::ItemAppended { .. });
    batch.events.iter().all(|event| text(&event.kind))
}

/// Bytes of streamed text in a batch, at least one an event.
fn text_in(batch: &RuntimeEvents) -> usize {
    let text = |kind: &ProviderEventKind| match kind {
        ProviderEventKind::ItemAppended { text, .. } => text.len().max(1),
        _ => 1,
    };
    batch.events.iter().map(|event| text(&event.kind)).sum()
}

/// Adds what comes until a time; ends with the first that is not only text.
async fn gather(
    inbox: &mut mpsc::Receiver<RuntimeEvents>,
    batch: &mut RuntimeEvents,
    until: Instant,
) {
    let mut bytes = text_in(batch);
    while bytes < GATHERED {
        let Ok(Some(next)) = tokio::time::timeout_at(until, inbox.recv()).await else {
            return;
        };
        let more = is_text(&next);
        bytes += text_in(&next);
        batch.events.extend(next.events);
        if !more {
            return;
        }
    }
}

/// Makes one piece of pieces of the same item that follow each other.
fn join_text(events: &mut Vec<ProviderEvent>) {
    events.dedup_by(|later, earlier| {
        let same_place = later.place == earlier.place;
        match (&later.kind, &mut earlier.kind) {
            (
                ProviderEventKind::ItemAppended { item, text, .. },
                ProviderEventKind::ItemAppended {
                    item: before,
                    text: whole,
                    ..
                },
            ) if same_place && item == before => {
                whole.push_str(text);
                true
            }
            _ => false,
        }
    });
}

/// Brings one process's events to the writer.
pub(crate) struct Forward {
    pub(crate) facts: SessionFacts,
    pub(crate) jobs: mpsc::WeakSender<Job>,
    /// Told the agent's version when it is ready.
    pub(crate) ready: Option<oneshot::Sender<String>>,
    /// Set when the ledger closes.
    pub(crate) closing: Arc<AtomicBool>,
}

impl Forward {
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<RuntimeEvents>) {
        let mut ended = false;
        let on_their_way = Arc::new(Semaphore::new(ON_THEIR_WAY));
        let mut spoke: Option<Instant> = None;
        while let Some(mut batch) = inbox.recv().await {
            if let Some(spoke) = spoke.filter(|_| is_text(&batch)) {
                gather(&mut inbox, &mut batch, spoke + GATHER).await;
            }
            spoke = is_text(&batch).then(Instant::now);
            join_text(&mut batch.events);
            if self.facts.elsewhere
                && let Some(detail) = self.disconnected(&mut batch.events)
            {
                if !batch.events.is_empty() && self.send(batch, None).await.is_none() {
                    return;
                }
                return self.reconnect(detail).await;
            }
            for event in &batch.events {
                ended |= matches!(event.kind, ProviderEventKind::SessionEnded { .. });
                if let ProviderEventKind::SessionReady { version, .. } = &event.kind
                    && let Some(ready) = self.ready.take()
                {
                    let _ = ready.send(version.clone());
                }
            }
            let permit = Arc::clone(&on_their_way).acquire_owned().await.ok();
            if self.send(batch, permit).await.is_none() {
                return;
            }
        }
        // A driver that failed without a word must not leave its runs running for ever.
        if !ended && self.ready.is_none() {
            let kind = ProviderEventKind::SessionEnded {
                reason: LostReason::ProtocolError,
                detail: "its driver ended without saying why; this is a fault of Pilothouse".into(),
            };
            let batch = RuntimeEvents {
                incarnation: self.facts.incarnation,
                events: vec![session_event(kind, None)],
            };
            self.send(batch, None).await;
        }
    }

    /// What ended is a connection, not the agent: unless it was meant, it is made again. A ledger that closes leaves what goes
    /// on there as it is.
    fn disconnected(&self, events: &mut Vec<ProviderEvent>) -> Option<Option<String>> {
        let end = events.iter().find_map(|event| match &event.kind {
            ProviderEventKind::SessionEnded { reason, detail } => Some((*reason, detail.clone())),
            _ => None,
        });
        let (reason, detail) = end?;
        let closing = self.closing.load(Ordering::Acquire);
        if reason == LostReason::Stopped && !closing {
            return None;
        }
        events.retain(|event| !matches!(event.kind, ProviderEventKind::SessionEnded { .. }));
        Some((!closing).then_some(detail))
    }

    async fn reconnect(self, detail: Option<String>) {
        let (Some(detail), Some(jobs)) = (detail, self.jobs.upgrade()) else {
            return;
        };
        let facts = self.facts;
        let _ = jobs.send(Job::Disconnected { facts, detail }).await;
    }

    async fn send(
        &self,
        batch: RuntimeEvents,
        on_its_way: Option<OwnedSemaphorePermit>,
    ) -> Option<()> {
        let job = Job::Runtime {
            facts: self.facts.clone(),
            batch,
            on_its_way,
        };
        self.jobs.upgrade()?.send(job).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilothouse_domain::{
        Body, Incarnation, ItemContent, NativeId, provider_event::NativePlace,
    };

    fn batch(kind: ProviderEventKind) -> RuntimeEvents {
        let event = ProviderEvent {
            place: NativePlace::default(),
            kind,
        };
        RuntimeEvents {
            incarnation: Incarnation::default(),
            events: vec![event],
        }
    }

    fn text(piece: &str) -> RuntimeEvents {
        batch(ProviderEventKind::ItemAppended {
            item: NativeId::from("item"),
            text: piece.into(),
            shape: Box::new(ItemContent::AssistantMessage {
                text: Body::default(),
            }),
        })
    }

    struct Rig {
        events: mpsc::Sender<RuntimeEvents>,
        jobs: mpsc::Receiver<Job>,
        began: Instant,
        _keep: mpsc::Sender<Job>,
    }

    impl Rig {
        fn new() -> Self {
            let (keep, jobs) = mpsc::channel(64);
            let (events, inbox) = mpsc::channel(64);
            let facts = SessionFacts {
                agent: "agent".into(),
                family: "test",
                incarnation: Incarnation::default(),
                elsewhere: false,
                contract: Default::default(),
            };
            let jobs_of = keep.downgrade();
            tokio::spawn(
                Forward {
                    facts,
                    jobs: jobs_of,
                    ready: None,
                    closing: Arc::default(),
                }
                .run(inbox),
            );
            Self {
                events,
                jobs,
                began: Instant::now(),
                _keep: keep,
            }
        }

        /// What the next job says, a word an event, and ms since the beginning.
        async fn next(&mut self) -> (String, u128) {
            let Some(Job::Runtime { batch, .. }) = self.jobs.recv().await else {
                panic!("no job")
            };
            let words: Vec<_> = batch
                .events
                .into_iter()
                .map(|event| match event.kind {
                    ProviderEventKind::ItemAppended { text, .. } => text,
                    _ => "other".into(),
                })
                .collect();
            (words.join(" "), self.began.elapsed().as_millis())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_text_goes_at_once_and_what_follows_is_gathered() {
        let mut rig = Rig::new();
        for piece in ["a", "b", "c", "d"] {
            rig.events.send(text(piece)).await.unwrap();
        }
        assert_eq!(rig.next().await, ("a".into(), 0));
        assert_eq!(rig.next().await, ("bcd".into(), 10));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_text_takes_the_text_before_it_along_at_once() {
        let mut rig = Rig::new();
        rig.events.send(text("a")).await.unwrap();
        assert_eq!(rig.next().await, ("a".into(), 0));
        rig.events.send(text("b")).await.unwrap();
        let other = ProviderEventKind::TurnStarted;
        rig.events.send(batch(other)).await.unwrap();
        assert_eq!(rig.next().await, ("b other".into(), 0));
        // It was not text that was sent last, so the next piece is a first one.
        rig.events.send(text("c")).await.unwrap();
        assert_eq!(rig.next().await, ("c".into(), 0));
    }
}
