//! The connection with one opencode process: its calls, its stream of events, and what is done when the stream was cut.
//!
//! The stream has a sign of life every 10 s. One that is silent for longer is taken for lost; it is begun anew, and what was
//! missed is read and compared. A process that cannot be reached, writes nothing and takes no time of the processor for as long as
//! [`Deadlines::reconnect`] is ended; one that is only busy is waited for longer.

use super::{
    adapter::Deadlines,
    codec::{Codec, Told},
    http::{EVENTS, Http, HttpError},
    outgoing::Call,
    replies::{CallError, Reply},
};
use crate::{
    contract::{Escalation, EventSender, RuntimeEvents},
    process::agent::AgentProcess,
    rpc::{
        delivery::{deliver, weight},
        life::Signs,
        session::{STDERR_SHOWN, UNREADABLE_LIMIT, lock},
    },
};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use pilothouse_domain::{
    Incarnation, NativeId, ProviderEvent, ProviderEventKind, provider_event::NativePlace,
    request::LostReason,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{Notify, mpsc, watch};

/// Answers that need no person and may wait to be called.
const CALLS: usize = 2048;
/// Pause before the stream is begun anew; doubled up to [`LONGEST_PAUSE`].
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How many times [`Deadlines::reconnect`] one that cannot be reached may work its processor.
const BUSY: u32 = 10;

/// Why a stream of events is read no further.
enum Cut {
    /// It ended, or was silent.
    Lost,
    /// It is no stream of opencode's events.
    Strange,
}

/// See the module.
pub(super) struct Link {
    http: Http,
    pub(super) process: Arc<AgentProcess>,
    incarnation: Incarnation,
    pub(super) deadlines: Deadlines,
    codec: Mutex<Codec>,
    /// Held while events are taken from the codec and sent, so that they are sent in the order in which it gave them. `None` once
    /// the end was told: nothing follows it.
    outlet: tokio::sync::Mutex<Option<EventSender>>,
    calls: Mutex<Option<mpsc::Receiver<Call>>>,
    call: mpsc::Sender<Call>,
    /// An answer may not have arrived.
    pub(super) unsure: Notify,
    /// Something came of what opencode says.
    pub(super) told: Notify,
    stopping: AtomicBool,
    ended: watch::Sender<bool>,
    /// Whether the stream has told of anything that happened.
    telling: watch::Sender<bool>,
}

impl Link {
    pub(super) fn new(
        http: Http,
        process: Arc<AgentProcess>,
        incarnation: Incarnation,
        deadlines: Deadlines,
        events: EventSender,
    ) -> Arc<Self> {
        let (call, calls) = mpsc::channel(CALLS);
        Arc::new(Self {
            http,
            process,
            incarnation,
            deadlines,
            codec: Mutex::new(Codec::new()),
            outlet: tokio::sync::Mutex::new(Some(events)),
            calls: Mutex::new(Some(calls)),
            call,
            unsure: Notify::new(),
            told: Notify::new(),
            stopping: AtomicBool::new(false),
            ended: watch::Sender::new(false),
            telling: watch::Sender::new(false),
        })
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The host ends the process.
    pub(super) fn stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// An answer may not have arrived: what opencode waits for is read.
    pub(super) fn unsure(&self) {
        self.unsure.notify_one();
    }

    /// Looks into the codec, or changes what tells nobody anything.
    pub(super) fn with_codec<T>(&self, look: impl FnOnce(&mut Codec) -> T) -> T {
        look(&mut lock(&self.codec))
    }

    /// Makes a call.
    pub(super) async fn call(&self, call: Call) -> Result<Reply, CallError> {
        self.call_within(call, self.deadlines.call).await
    }

    /// Makes a call that may take longer, or shorter.
    pub(super) async fn call_within(
        &self,
        call: Call,
        deadline: Duration,
    ) -> Result<Reply, CallError> {
        Ok(self.page(&call, deadline).await?.0)
    }

    /// Makes a call; where the next page of its list begins, if there is one.
    pub(super) async fn page(
        &self,
        call: &Call,
        deadline: Duration,
    ) -> Result<(Reply, Option<String>), CallError> {
        let name = call.name().to_owned();
        let answer = tokio::select! {
            // Whoever answers where one listened that has ended is somebody else.
            biased;
            _ = self.process.exited() => return Err(CallError::Lost),
            answer = self.http.call(call.request(), deadline) => answer,
        };
        if matches!(answer, Err(HttpError::Unreachable(_) | HttpError::Cut(_)))
            && !self.process.is_far()
        {
            // Callers ask whether it has ended, and the system closes its connections first.
            let _ = tokio::time::timeout(self.deadlines.ending, self.process.exited()).await;
        }
        match answer {
            Ok(answer) => {
                let reply = lock(&self.codec).answered(call, answer.status, &answer.body)?;
                Ok((reply, answer.next))
            }
            Err(HttpError::Unreachable(problem)) => Err(CallError::Unreachable { problem }),
            Err(HttpError::Cut(_)) => Err(CallError::Lost),
            Err(HttpError::TooLong) => Err(CallError::TooLong { method: name }),
            Err(HttpError::Timeout) => Err(CallError::Timeout {
                method: name,
                seconds: deadline.as_secs(),
            }),
        }
    }

    /// Makes a call again and again, each try for at most `once`: those that come right after the process listens may never be
    /// answered.
    pub(super) async fn patiently(
        &self,
        call: Call,
        once: Duration,
        deadline: Duration,
    ) -> Result<Reply, CallError> {
        let began = Instant::now();
        loop {
            match self.call_within(call.clone(), once).await {
                Err(
                    error @ (CallError::Unreachable { .. }
                    | CallError::Timeout { .. }
                    | CallError::Lost),
                ) => {
                    // Nobody is only about to listen where it runs already.
                    let hopeless =
                        self.process.is_far() && matches!(error, CallError::Unreachable { .. });
                    if hopeless || began.elapsed() > deadline || self.process.has_exited() {
                        return Err(error);
                    }
                    tokio::time::sleep(FIRST_PAUSE).await;
                }
                answer => return answer,
            }
        }
    }

    /// Begins to read its events.
    pub(super) async fn listen(&self) -> Result<Incoming, CallError> {
        self.http
            .stream(EVENTS, self.deadlines.call)
            .await
            .map_err(|error| match error {
                HttpError::Unreachable(problem) => CallError::Unreachable { problem },
                _ => CallError::Lost,
            })
    }

    /// Tells what the codec gives; whether that was anything.
    pub(super) async fn tell(&self, take: impl FnOnce(&mut Codec) -> Vec<Told>) -> bool {
        let outlet = self.outlet.lock().await;
        let told = take(&mut lock(&self.codec));
        let anything = !told.is_empty();
        self.told.notify_waiters();
        self.send(outlet.as_ref(), told).await;
        anything
    }

    async fn send(&self, outlet: Option<&EventSender>, told: Vec<Told>) {
        let mut events = Vec::new();
        for one in told {
            match one {
                Told::Event(mut event) => {
                    if let ProviderEventKind::Diagnostic { message: text }
                    | ProviderEventKind::Unknown { raw: text, .. } = &mut event.kind
                    {
                        *text = self.process.stderr().redact(text);
                    }
                    events.push(event);
                }
                Told::Do(call) => {
                    // Waiting here could stop the stream that tells what came of it.
                    if let Err(error) = self.call.try_send(call) {
                        tracing::warn!("opencode is told too much at once; an answer has to wait");
                        self.with_codec(|codec| codec.done(&error.into_inner(), false));
                        self.unsure();
                    }
                }
            }
        }
        if let Some(outlet) = outlet.filter(|_| !events.is_empty()) {
            // Where nobody listens any more, events are read on and thrown away.
            let bytes = events.iter().map(weight).sum();
            let batch = RuntimeEvents {
                incarnation: self.incarnation,
                events,
            };
            deliver(outlet, batch, bytes).await;
        }
    }

    /// Sends the first events and begins to work.
    pub(super) async fn run(self: &Arc<Self>, first: Vec<ProviderEvent>, stream: Incoming) {
        self.tell(|_| first.into_iter().map(Told::Event).collect())
            .await;
        if let Some(calls) = lock(&self.calls).take() {
            tokio::spawn(Arc::clone(self).make_calls(calls));
        }
        tokio::spawn(Arc::clone(self).look_for_requests());
        tokio::spawn(Arc::clone(self).follow(stream));
    }

    /// Makes sure that the stream tells what happens. opencode says that it is connected before it begins to tell, and what
    /// comes between is lost; so a change that changes nothing is made in a conversation of ours until it is told.
    pub(super) async fn prove(&self, session: &NativeId) {
        let mut telling = self.telling.subscribe();
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::select! {
                _ = telling.wait_for(|telling| *telling) => return,
                _ = self.process.exited() => return,
                () = tokio::time::sleep(pause) => {}
            }
            if pause > LONGEST_PAUSE {
                // What is missed now is found later: see `look`.
                tracing::warn!(conversation = %session, "opencode's stream of events tells nothing");
                return;
            }
            let nothing = Call::Permit {
                session: session.clone(),
                rules: Vec::new(),
            };
            // One that was started anew a moment ago may never answer its first calls.
            let _ = self.call_within(nothing, self.deadlines.first).await;
            pause *= 2;
        }
    }

    /// Makes the calls that need no person, one after another.
    async fn make_calls(self: Arc<Self>, mut calls: mpsc::Receiver<Call>) {
        let mut ended = self.ended.subscribe();
        loop {
            let call = tokio::select! {
                _ = ended.wait_for(|ended| *ended) => return,
                call = calls.recv() => call,
            };
            let Some(call) = call else { return };
            let answer = self.call(call.clone()).await;
            let arrived = matches!(answer, Ok(_) | Err(CallError::NotFound { .. }));
            self.with_codec(|codec| codec.done(&call, arrived));
            if let Err(error) = answer {
                tracing::warn!(%error, "opencode was not told something");
            }
            if !arrived {
                self.unsure();
            }
        }
    }

    /// Reads the stream, begins it anew when it was cut, and tells of the end of the process.
    async fn follow(self: Arc<Self>, stream: Incoming) {
        let mut stream = Some(stream);
        let mut lost = None;
        loop {
            let cut = match stream.take() {
                Some(body) => tokio::select! {
                    cut = self.read(body) => cut,
                    _ = self.process.exited() => break,
                },
                None => Cut::Lost,
            };
            if matches!(cut, Cut::Strange) {
                lost = Some((
                    LostReason::ProtocolError,
                    format!(
                        "{UNREADABLE_LIMIT} unreadable events in a row; {}",
                        self.given_up()
                    ),
                ));
                break;
            }
            self.telling.send_replace(false);
            tokio::select! {
                again = self.listen_again() => stream = again,
                _ = self.process.exited() => break,
            }
            if stream.is_none() {
                lost = Some((
                    LostReason::Unresponsive,
                    format!(
                        "opencode could not be reached and gave no sign of life for {} s; {}",
                        self.deadlines.reconnect.as_secs(),
                        self.given_up()
                    ),
                ));
                break;
            }
            // Beside the stream: what comes meanwhile is not missed again.
            tokio::spawn(Arc::clone(&self).catch_up());
        }
        if lost.is_some() {
            let _ = self.process.escalate(Escalation::Kill);
        }
        let exit = self.process.exited().await;
        self.ended.send_replace(true);
        let output = self.process.stderr();
        output.finished(Duration::from_secs(3)).await;
        let (reason, what) = match lost {
            Some(lost) => lost,
            None if self.stopping.load(Ordering::Acquire) => {
                (LostReason::Stopped, "the host stopped it".to_owned())
            }
            None if self.process.is_far() => {
                let what = "the connection with opencode ended".to_owned();
                (LostReason::AgentExited, what)
            }
            None => (LostReason::AgentExited, format!("opencode ended: {exit}")),
        };
        let wrote = output.tail(STDERR_SHOWN);
        let detail = if wrote.is_empty() || reason == LostReason::Stopped {
            what
        } else {
            format!("{what}; it wrote: {wrote}")
        };
        let end = Told::Event(ProviderEvent {
            place: NativePlace::default(),
            kind: ProviderEventKind::SessionEnded { reason, detail },
        });
        let mut outlet = self.outlet.lock().await;
        self.send(outlet.take().as_ref(), vec![end]).await;
    }

    /// What is done with an opencode that cannot be used any more.
    fn given_up(&self) -> &'static str {
        match self.process.is_far() {
            true => "it runs elsewhere and was left as it is",
            false => "it was ended",
        }
    }

    /// Reads a stream until it ends.
    async fn read(self: &Arc<Self>, mut body: Incoming) -> Cut {
        lock(&self.codec).connected();
        // Since when turns went on and nothing was told.
        let mut quiet: Option<Instant> = None;
        let mut looking: Option<tokio::task::JoinHandle<()>> = None;
        loop {
            let frame = match tokio::time::timeout(self.deadlines.silent, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_)) | None) | Err(_) => return Cut::Lost,
            };
            let Some(data) = frame.data_ref() else {
                continue;
            };
            let told = self.tell(|codec| codec.receive(data)).await;
            if told || lock(&self.codec).working().is_empty() {
                quiet = None;
            } else if quiet.get_or_insert_with(Instant::now).elapsed() >= self.deadlines.quiet
                && looking.as_ref().is_none_or(|looking| looking.is_finished())
            {
                quiet = None;
                looking = Some(tokio::spawn(Arc::clone(self).look()));
            }
            let (telling, unreadable) =
                self.with_codec(|codec| (codec.is_telling(), codec.unreadable_in_a_row()));
            if telling && !*self.telling.borrow() {
                self.telling.send_replace(true);
            }
            if unreadable >= UNREADABLE_LIMIT {
                return Cut::Strange;
            }
        }
    }

    /// Begins the stream anew; `None` if that cannot be done and it shows no sign of life either, or is busy for too long.
    async fn listen_again(&self) -> Option<Incoming> {
        let (mut signs, began) = (Signs::new(), Instant::now());
        let mut pause = FIRST_PAUSE;
        while self.is_dead_for(&mut signs).await < self.deadlines.reconnect
            && began.elapsed() < self.deadlines.reconnect * BUSY
        {
            tokio::time::sleep(pause).await;
            if let Ok(stream) = self.listen().await {
                return Some(stream);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        None
    }

    /// How long its process has given no sign of life.
    async fn is_dead_for(&self, signs: &mut Signs) -> Duration {
        let wrote = self.process.stderr().total();
        signs.missing(wrote, self.process.id()).await
    }
}
