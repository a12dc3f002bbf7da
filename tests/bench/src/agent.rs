//! An agent without a process, as the adapter contract has it: every message starts a turn whose words a script gives.
//! Everything behind it is the product's own: effects, events, ingest, append.

use futures_util::future::BoxFuture;
use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue, Incarnation, Mode, NativeId, ProviderEvent,
    ProviderEventKind,
    capability::{Fact, Source},
    provider_event::NativePlace,
    request::AnswerDelivery,
};
use pilothouse_providers::contract::{
    AgentRuntime, Escalation, EventSender, History, Interrupting, Launch, OpenError, OpenThread,
    ProcessSharing, ProviderAdapter, RespondError, Response, RuntimeEvents, SendError, SendTurn,
    StartError, Steering, TurnAccepted,
};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::Semaphore;

/// Events in one batch, about what a pipe read of a busy agent holds.
const BATCH: usize = 16;

/// Gives the words of the turn that a message starts; the second is the turn's name, unique in the process.
pub(crate) type Script = dyn Fn(&SendTurn, &str) -> Vec<ProviderEventKind> + Send + Sync;

/// The agent. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Author(Arc<Inner>);

struct Inner {
    script: Box<Script>,
    numbers: AtomicU64,
    events: Mutex<Option<(Incarnation, EventSender)>>,
    /// One permit for each turn whose words have all been said.
    said: Semaphore,
}

impl Author {
    pub(crate) fn new(
        script: impl Fn(&SendTurn, &str) -> Vec<ProviderEventKind> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            script: Box::new(script),
            numbers: AtomicU64::new(0),
            events: Mutex::default(),
            said: Semaphore::new(0),
        }))
    }

    fn sender(&self) -> Option<(Incarnation, EventSender)> {
        self.0
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until that many more turns have been said to their last word.
    pub(crate) async fn said(&self, turns: u32) {
        if let Ok(permits) = self.0.said.acquire_many(turns).await {
            permits.forget();
        }
    }

    /// Says something; waits while the ledger does not keep up.
    pub(crate) async fn say(&self, place: &NativePlace, kinds: Vec<ProviderEventKind>) {
        let Some((incarnation, sender)) = self.sender() else {
            return;
        };
        let event = |kind| ProviderEvent {
            place: place.clone(),
            kind,
        };
        let events = kinds.into_iter().map(event).collect();
        // Closed only when the ledger ends, and then there is nobody to tell.
        let _ = sender
            .send(RuntimeEvents {
                incarnation,
                events,
            })
            .await;
    }
}

impl ProviderAdapter for Author {
    fn family(&self) -> &'static str {
        "bench"
    }

    fn profile(&self) -> Capabilities {
        let mut known = Capabilities {
            version: 1,
            ..Capabilities::default()
        };
        for &flag in CapabilityFlag::ALL {
            known.learn(
                flag,
                Fact {
                    value: CapabilityValue::Yes,
                    detail: None,
                    source: Source::Profile,
                    version: "1".into(),
                    observed_at: "2026-11-30".into(),
                },
            );
        }
        known
    }

    fn modes(&self) -> Vec<Mode> {
        Mode::ALL.to_vec()
    }

    fn sharing(&self) -> ProcessSharing {
        ProcessSharing::PerAgent
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(async move {
            *self.0.events.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((launch.incarnation, events));
            let ready = ProviderEventKind::SessionReady {
                incarnation: launch.incarnation,
                version: "1".into(),
                capabilities: self.profile(),
            };
            self.say(&NativePlace::default(), vec![ready]).await;
            Ok(Arc::new(self.clone()) as Arc<dyn AgentRuntime>)
        })
    }
}

impl AgentRuntime for Author {
    fn capabilities(&self) -> Capabilities {
        self.profile()
    }

    fn process_id(&self) -> Option<u32> {
        None
    }

    fn open_thread(&self, open: OpenThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        let fresh = || {
            NativeId(format!(
                "thread-{}",
                self.0.numbers.fetch_add(1, Ordering::Relaxed)
            ))
        };
        let thread = open.resume.unwrap_or_else(fresh);
        Box::pin(async { Ok(thread) })
    }

    fn send_turn(&self, send: SendTurn) -> BoxFuture<'_, Result<TurnAccepted, SendError>> {
        let name = format!("turn-{}", self.0.numbers.fetch_add(1, Ordering::Relaxed));
        let turn = NativeId(name.clone());
        let words = (self.0.script)(&send, &name);
        let place = NativePlace {
            thread: Some(send.thread),
            root: None,
            turn: Some(turn.clone()),
        };
        let speaker = self.clone();
        tokio::spawn(async move {
            speaker
                .say(&place, vec![ProviderEventKind::TurnStarted])
                .await;
            let mut words = words.into_iter().peekable();
            while words.peek().is_some() {
                speaker
                    .say(&place, words.by_ref().take(BATCH).collect())
                    .await;
            }
            speaker.0.said.add_permits(1);
        });
        Box::pin(async { Ok(TurnAccepted { turn: Some(turn) }) })
    }

    fn respond(&self, _: Response) -> BoxFuture<'_, Result<AnswerDelivery, RespondError>> {
        Box::pin(async { Ok(AnswerDelivery::Written) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        *self.0.events.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Box::pin(async {})
    }

    fn signal(&self, _: Escalation) -> std::io::Result<()> {
        Ok(())
    }

    fn steering(&self) -> Option<&dyn Steering> {
        None
    }

    fn interrupting(&self) -> Option<&dyn Interrupting> {
        None
    }

    fn history(&self) -> Option<&dyn History> {
        None
    }
}
