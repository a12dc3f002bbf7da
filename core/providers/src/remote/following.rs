//! What both sides of the driver share: the far threads that are followed, what they tell the ledger here, and who waits for the
//! far agent's word.

use super::{
    FarError, FarTold, RemoteAdapter,
    mirror::{Heard, Mirror},
};
use crate::{
    contract::{EventSender, Launch, RuntimeEvents},
    rpc::session::lock,
};
use pilothouse_domain::{
    Capabilities, Incarnation, ItemContent, NativeId, ProviderEvent, ProviderEventKind, RequestId,
    RequestStatus, Subject, ThreadId, ThreadState,
    event::RollbackOutcome,
    item::{Body, StoredBody},
    provider::OfferedModel,
    provider_event::NativePlace,
    request::LostReason,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch};

/// Parts of a far log that may wait before it is read no further.
const TOLD: usize = 64;
/// Bytes of a stored text that are fetched; of a longer one head and tail are shown.
const BODY_BYTES: u64 = 4 * 1024 * 1024;
/// How long the log is waited for after an outcome that it has to show.
const CATCH_UP: Duration = Duration::from_secs(10);

/// A running far agent.
pub(super) struct Following {
    pub(super) adapter: RemoteAdapter,
    incarnation: Incarnation,
    events: EventSender,
    pub(super) known: Mutex<Known>,
    over: watch::Sender<bool>,
    threads: Mutex<BTreeMap<ThreadId, Arc<Followed>>>,
}

/// What is known of the agent as a whole.
pub(super) struct Known {
    pub(super) capabilities: Capabilities,
    version: String,
    pub(super) models: Vec<OfferedModel>,
}

/// A thread that is followed.
pub(super) struct Followed {
    pub(super) mirror: Mutex<Mirror>,
    pub(super) waiting: Mutex<Waiting>,
    /// Grows with what is told.
    told: watch::Sender<u64>,
}

/// Who waits for the far agent's word.
#[derive(Default)]
pub(super) struct Waiting {
    began: Vec<oneshot::Sender<Result<(), FarError>>>,
    pub(super) answers: BTreeMap<RequestId, oneshot::Sender<RequestStatus>>,
    pub(super) rollback: Option<oneshot::Sender<RollbackOutcome>>,
}

impl Followed {
    fn new(thread: ThreadId) -> Self {
        Self {
            mirror: Mutex::new(Mirror::new(thread)),
            waiting: Mutex::default(),
            told: watch::Sender::new(0),
        }
    }

    /// How the thread stands, as told last.
    pub(super) fn state(&self) -> Option<ThreadState> {
        lock(&self.mirror).state.as_deref().cloned()
    }

    /// Waits until the thread stands so, for a bounded time: an outcome may come before the entries that it led to.
    pub(super) async fn shows(&self, so: impl Fn(&ThreadState) -> bool) {
        let mut told = self.told.subscribe();
        let shown = async {
            while !self.state().is_some_and(|state| so(&state)) {
                if told.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(CATCH_UP, shown).await;
    }
}

impl Following {
    pub(super) async fn begin(
        adapter: RemoteAdapter,
        launch: &Launch,
        events: EventSender,
    ) -> Arc<Self> {
        let capabilities = super::facts(&adapter.policy.capabilities, &adapter.software);
        let following = Arc::new(Self {
            adapter,
            incarnation: launch.incarnation,
            events,
            known: Mutex::new(Known {
                capabilities,
                version: String::new(),
                models: Vec::new(),
            }),
            over: watch::Sender::new(false),
            threads: Mutex::default(),
        });
        let ready = following.ready();
        following.emit(vec![ready]).await;
        following
    }

    /// What the far agent can do, as known now.
    fn ready(&self) -> ProviderEvent {
        let shared = lock(&self.known);
        ProviderEvent {
            place: NativePlace::default(),
            kind: ProviderEventKind::SessionReady {
                incarnation: self.incarnation,
                version: shared.version.clone(),
                capabilities: shared.capabilities.clone(),
            },
        }
    }

    async fn emit(&self, events: Vec<ProviderEvent>) {
        if !events.is_empty() {
            let batch = RuntimeEvents {
                incarnation: self.incarnation,
                events,
            };
            // Where nobody listens any more there is nothing to tell.
            let _ = self.events.send(batch).await;
        }
    }

    /// Follows a thread, and waits until it is known how it stands.
    pub(super) async fn follow(
        self: &Arc<Self>,
        thread: ThreadId,
    ) -> Result<Arc<Followed>, FarError> {
        let (began, known) = oneshot::channel();
        let (followed, told) = {
            let mut threads = lock(&self.threads);
            match threads.get(&thread) {
                Some(followed) => (Arc::clone(followed), None),
                None => {
                    let (sender, told) = mpsc::channel(TOLD);
                    self.adapter.far.follow(thread, sender);
                    let followed = Arc::new(Followed::new(thread));
                    threads.insert(thread, Arc::clone(&followed));
                    (followed, Some(told))
                }
            }
        };
        {
            // Under the lock that its listener takes to answer.
            let mut waiting = lock(&followed.waiting);
            if followed.state().is_some() {
                return Ok(Arc::clone(&followed));
            }
            waiting.began.push(began);
        }
        if let Some(told) = told {
            tokio::spawn(Arc::clone(self).listen(thread, Arc::clone(&followed), told));
        }
        known.await.unwrap_or(Err(FarError::Lost))?;
        Ok(followed)
    }

    pub(super) fn followed(&self, thread: &NativeId) -> Option<Arc<Followed>> {
        let thread: ThreadId = thread.as_str().parse().ok()?;
        lock(&self.threads).get(&thread).cloned()
    }

    /// The thread in which a request waits; a subagent's stands in its parent's.
    pub(super) fn asking(&self, request: RequestId) -> Option<Arc<Followed>> {
        let threads = lock(&self.threads);
        let asks = |followed: &&Arc<Followed>| lock(&followed.mirror).request(request).is_some();
        threads.values().find(asks).cloned()
    }

    /// Requests that wait, in all threads that are followed.
    pub(super) fn pending(&self) -> Vec<NativeId> {
        let threads = lock(&self.threads);
        threads
            .values()
            .flat_map(|followed| lock(&followed.mirror).pending().collect::<Vec<_>>())
            .collect()
    }

    async fn listen(
        self: Arc<Self>,
        thread: ThreadId,
        followed: Arc<Followed>,
        mut told: mpsc::Receiver<FarTold>,
    ) {
        let mut end = FarError::Lost;
        let mut over = self.over.subscribe();
        loop {
            let told = tokio::select! {
                _ = over.wait_for(|over| *over) => return,
                told = told.recv() => told,
            };
            let told = match told {
                Some(FarTold::Ended(error)) => {
                    end = error;
                    break;
                }
                Some(told) => told,
                None => break,
            };
            let heard = lock(&followed.mirror).take(told);
            self.hear(&followed, heard).await;
            for waiter in std::mem::take(&mut lock(&followed.waiting).began) {
                let _ = waiter.send(Ok(()));
            }
        }
        lock(&self.threads).remove(&thread);
        let waiting = std::mem::take(&mut *lock(&followed.waiting));
        let was_known = followed.state().is_some();
        for waiter in waiting.began {
            let _ = waiter.send(Err(end.clone()));
        }
        // A thread that was followed and cannot be any more: the agent is as good as gone.
        if was_known {
            self.over(LostReason::AgentExited, end.to_string()).await;
        }
    }

    /// Lets go of it; the far agent lives on.
    pub(super) async fn stop(&self) {
        self.over(LostReason::Stopped, "the host stopped it".to_owned())
            .await;
        lock(&self.threads).clear();
    }

    /// Says once that it is over.
    async fn over(&self, reason: LostReason, detail: String) {
        if self.over.send_replace(true) {
            return;
        }
        let place = NativePlace::default();
        let kind = ProviderEventKind::SessionEnded { reason, detail };
        self.emit(vec![ProviderEvent { place, kind }]).await;
    }

    async fn hear(&self, followed: &Followed, mut heard: Heard) {
        if self.learn(&mut heard) {
            heard.events.insert(0, self.ready());
        }
        for event in &mut heard.events {
            self.fetch(event).await;
        }
        self.emit(heard.events).await;
        followed.told.send_modify(|told| *told += 1);
        let mut waiting = lock(&followed.waiting);
        for (request, status) in heard.closed {
            if let Some(waiter) = waiting.answers.remove(&request) {
                let _ = waiter.send(status);
            }
        }
        if let (Some(outcome), Some(waiter)) = (heard.rolled_back, waiting.rollback.take()) {
            let _ = waiter.send(outcome);
        }
    }

    /// Takes in what the far agent says of itself; whether it is news.
    fn learn(&self, heard: &mut Heard) -> bool {
        let mut shared = lock(&self.known);
        let mut news = false;
        if let Some(version) = heard.version.take().filter(|said| *said != shared.version) {
            shared.version = version;
            news = true;
        }
        if let Some(mut capabilities) = heard.capabilities.take()
            && capabilities.facts != shared.capabilities.facts
        {
            capabilities.version = shared.capabilities.version + 1;
            shared.capabilities = capabilities;
            news = true;
        }
        for event in &heard.events {
            if let ProviderEventKind::ModelsOffered { models } = &event.kind {
                shared.models.clone_from(models);
            }
        }
        news
    }

    /// Puts texts in the place of their addresses.
    pub(super) async fn fetch(&self, event: &mut ProviderEvent) {
        let content = match &mut event.kind {
            ProviderEventKind::ItemOpened { content, .. }
            | ProviderEventKind::ItemUpdated { content, .. }
            | ProviderEventKind::ItemClosed { content, .. } => content,
            ProviderEventKind::RequestOpened { subject, .. } => {
                return self.fetch_changes(subject).await;
            }
            _ => return,
        };
        for body in content.bodies_mut() {
            self.fetch_body(body).await;
        }
        if let ItemContent::UserMessage { attachments, .. } = content {
            // Its bytes are the far ledger's: here they would be an address that leads nowhere.
            attachments.clear();
        }
    }

    /// What a person is asked about has to be whole.
    pub(super) async fn fetch_changes(&self, subject: &mut Subject) {
        for change in &mut subject.changes {
            self.fetch_body(&mut change.diff).await;
        }
    }

    async fn fetch_body(&self, body: &mut Body) {
        let Body::Stored(stored) = body else { return };
        let text = if stored.bytes > BODY_BYTES {
            edges(stored)
        } else {
            match self.adapter.far.body(stored.hash).await {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(_) => edges(stored),
            }
        };
        *body = Body::Inline(text);
    }
}

/// Of a text that is too long to be fetched: its two ends, and how much is between them.
fn edges(stored: &StoredBody) -> String {
    let shown = (stored.head.len() + stored.tail.len()) as u64;
    let between = stored.bytes.saturating_sub(shown) + stored.dropped;
    format!(
        "{}\n[{between} bytes are on the other host]\n{}",
        stored.head, stored.tail
    )
}
