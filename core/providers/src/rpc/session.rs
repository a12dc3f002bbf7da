//! One running agent: its pipes, the calls that wait, the answers that are to be confirmed.

use super::{
    CallFailure as _, Peer, Received,
    asked::AnswerProblem,
    delivery::{LIGHT, deliver, weight},
    frames::FRAME_LIMIT,
    life,
};
use crate::{
    contract::{EventSender, RespondError, Response, RuntimeEvents},
    process::{
        Exit, Life, StopTimers,
        agent::{AgentProcess, Channel},
    },
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use pilothouse_domain::{
    Capabilities, Incarnation, NativeId, ProviderEvent, ProviderEventKind,
    provider_event::NativePlace, request::LostReason,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{Notify, mpsc, oneshot, watch},
};

/// Lines that may wait to be written.
const WRITE_QUEUE: usize = 1024;
/// Bytes read at a time.
const READ: usize = 64 * 1024;
/// Unreadable lines in a row after which it is no agent of this family that speaks.
pub(crate) const UNREADABLE_LIMIT: u32 = 1000;
/// Events that are held back until the handshake is over; those after are not told, which is.
const HELD_EVENTS: usize = 4096;
/// Bytes of them.
const HELD_BYTES: usize = 2 * FRAME_LIMIT;
/// Bytes that the codec is given at a time: little enough that what small frames bring up again is not much at once.
const PIECE: usize = 4 * 1024;
/// Bytes of stderr in an error or an end.
pub(crate) const STDERR_SHOWN: usize = 2 * 1024;
/// Requests whose time is watched; of those beyond, the agent's own end of them is not noticed.
const TIMERS: usize = 4096;
/// How long output may still be read after the process has ended: a grandchild can hold the pipe open.
const AFTER_EXIT: Duration = Duration::from_millis(500);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Line {
    bytes: Vec<u8>,
    written: Option<oneshot::Sender<()>>,
}

/// Who waits for the answer to a call.
type Waiter<P> = oneshot::Sender<Result<<P as Peer>::Reply, <P as Peer>::Error>>;

struct Waiting<P: Peer> {
    /// The process has ended: nothing more is answered.
    closed: bool,
    calls: BTreeMap<u64, Waiter<P>>,
    /// Answers given and not confirmed yet, by request.
    answers: BTreeMap<NativeId, oneshot::Sender<()>>,
}

/// A running agent, shared by the contract's side and the tasks of its pipes.
pub(crate) struct Session<P: Peer> {
    pub(crate) process: AgentProcess,
    pub(crate) codec: Mutex<P>,
    pub(crate) capabilities: Mutex<Capabilities>,
    stop: StopTimers,
    incarnation: Incarnation,
    waiting: Mutex<Waiting<P>>,
    writer: mpsc::Sender<Line>,
    closing: watch::Sender<bool>,
    /// Bytes of its output so far.
    heard: AtomicU64,
    /// Told when something was written to it or read from it.
    stirred: Arc<Notify>,
    /// It was ended because it showed no sign of life.
    given_up: AtomicBool,
}

impl<P: Peer> Session<P> {
    /// Starts the tasks of the pipes. Events are held back until `ready` brings the first ones; if it is dropped, none is sent.
    pub(crate) fn start(
        (process, channel): (impl Into<AgentProcess>, impl Into<Channel>),
        codec: P,
        capabilities: Capabilities,
        incarnation: Incarnation,
        (stop, life): (StopTimers, Life),
        events: EventSender,
        ready: oneshot::Receiver<Vec<ProviderEvent>>,
    ) -> Arc<Self> {
        let (writer, lines) = mpsc::channel(WRITE_QUEUE);
        let channel = channel.into();
        let session = Arc::new(Self {
            process: process.into(),
            codec: Mutex::new(codec),
            capabilities: Mutex::new(capabilities),
            stop,
            incarnation,
            waiting: Mutex::new(Waiting {
                closed: false,
                calls: BTreeMap::new(),
                answers: BTreeMap::new(),
            }),
            writer,
            closing: watch::Sender::new(false),
            heard: AtomicU64::new(0),
            stirred: Arc::default(),
            given_up: AtomicBool::new(false),
        });
        tokio::spawn(life::watch(
            Arc::downgrade(&session),
            Arc::clone(&session.stirred),
            session.closing.subscribe(),
            life,
            events.clone(),
        ));
        tokio::spawn(write_lines(
            channel.input,
            lines,
            session.closing.subscribe(),
        ));
        let outlet = Outlet {
            session: Arc::clone(&session),
            events,
            held: Some(Held::default()),
            gathered: Vec::new(),
            weight: 0,
        };
        tokio::spawn(outlet.run(channel.output, ready));
        session
    }

    /// Whether the process has ended as far as its output tells.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.waiting).closed
    }

    /// Bytes it has written so far, to both outputs.
    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed) + self.process.stderr().total()
    }

    /// Turns that go on while nothing waits for a person.
    pub(super) fn working(&self) -> Vec<NativePlace> {
        lock(&self.codec).working()
    }

    /// Notes that it is ended because it showed no sign of life.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    /// Which life of the process it is.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Makes a call and waits for its answer, at most `deadline`.
    pub(crate) async fn call(
        &self,
        call: P::Call,
        deadline: Duration,
    ) -> Result<P::Reply, P::Error> {
        let method = P::method(&call).to_owned();
        let (answer, reply) = oneshot::channel();
        let (id, bytes) = lock(&self.codec).call(call);
        {
            let mut waiting = lock(&self.waiting);
            if waiting.closed {
                return Err(P::Error::lost());
            }
            waiting.calls.insert(id, answer);
        }
        let answered = async {
            self.write(bytes).await.map_err(|()| P::Error::lost())?;
            reply.await.unwrap_or_else(|_| Err(P::Error::lost()))
        };
        match tokio::time::timeout(deadline, answered).await {
            Ok(reply) => reply,
            Err(_) => {
                lock(&self.codec).forget(id);
                lock(&self.waiting).calls.remove(&id);
                Err(P::Error::timeout(method, deadline.as_secs()))
            }
        }
    }

    /// Writes a line and waits until the pipe has it.
    pub(crate) async fn write(&self, bytes: Vec<u8>) -> Result<(), ()> {
        let (written, done) = oneshot::channel();
        let line = Line {
            bytes,
            written: Some(written),
        };
        self.writer.send(line).await.map_err(|_| ())?;
        self.stirred.notify_one();
        done.await.map_err(|_| ())
    }

    /// The line for a person's answer, to exactly what was shown.
    pub(crate) fn answer_line(&self, response: &Response) -> Result<Vec<u8>, RespondError> {
        let mut codec = lock(&self.codec);
        let request = &response.request;
        if !codec.is_same_request(request, &response.thread, response.kind, &response.subject) {
            return Err(if self.process.has_exited() {
                RespondError::Lost
            } else {
                RespondError::NotPending
            });
        }
        codec
            .answer(request, &response.answer)
            .map_err(|problem| match problem {
                AnswerProblem::NotPending { .. } => RespondError::NotPending,
                AnswerProblem::Unfit { problem } => RespondError::Unfit { problem },
            })
    }

    /// Registers that the answer to a request is to be confirmed; `None` if the process has ended.
    pub(crate) fn await_resolution(&self, request: &NativeId) -> Option<oneshot::Receiver<()>> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return None;
        }
        let (resolved, confirmation) = oneshot::channel();
        waiting.answers.insert(request.clone(), resolved);
        Some(confirmation)
    }

    /// Closes the agent's input, which ends it.
    pub(crate) fn close_input(&self) {
        self.closing.send_replace(true);
    }

    /// Ends the process.
    pub(crate) async fn stop(&self) {
        self.close_input();
        self.process.stop(self.stop).await;
    }
}

/// The writer's task: it owns the agent's input.
async fn write_lines(
    mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
    mut lines: mpsc::Receiver<Line>,
    mut closing: watch::Receiver<bool>,
) {
    loop {
        let line = tokio::select! {
            // A line that the agent does not take must not keep the input open.
            _ = closing.wait_for(|closing| *closing) => return,
            line = lines.recv() => line,
        };
        let Some(line) = line else { return };
        let outcome = tokio::select! {
            _ = closing.wait_for(|closing| *closing) => return,
            outcome = async { stdin.write_all(&line.bytes).await?; stdin.flush().await } => outcome,
        };
        match (outcome, line.written) {
            (Ok(()), Some(written)) => drop(written.send(())),
            (Ok(()), None) => {}
            // The end of the process tells everyone who waits.
            (Err(_), _) => return,
        }
    }
}

/// Gives a number after a time.
async fn after(wait: Duration, timed: u64) -> u64 {
    tokio::time::sleep(wait).await;
    timed
}

/// The reader's task: it owns the agent's output and the event channel.
struct Outlet<P: Peer> {
    session: Arc<Session<P>>,
    events: EventSender,
    /// Events from before the end of the handshake.
    held: Option<Held>,
    /// Events that are handed over together, and their bytes.
    gathered: Vec<ProviderEvent>,
    weight: usize,
}

#[derive(Default)]
struct Held {
    events: Vec<ProviderEvent>,
    /// Bytes of them.
    weight: usize,
    /// How many there was no room for.
    dropped: usize,
}

impl Held {
    fn hold(&mut self, event: ProviderEvent, weight: usize) {
        self.weight += weight;
        if self.dropped == 0 && self.events.len() < HELD_EVENTS && self.weight <= HELD_BYTES {
            self.events.push(event);
        } else {
            self.dropped += 1;
        }
    }

    /// The events after the handshake's own, with a word on what is missing.
    fn after(self, mut first: Vec<ProviderEvent>) -> Vec<ProviderEvent> {
        first.extend(self.events);
        if self.dropped > 0 {
            first.push(ProviderEvent {
                place: NativePlace::default(),
                kind: ProviderEventKind::Unknown {
                    label: "events before the end of the handshake".to_owned(),
                    raw: format!(
                        "{} of them are not shown: there were too many",
                        self.dropped
                    ),
                },
            });
        }
        first
    }
}

impl<P: Peer> Outlet<P> {
    async fn run(
        mut self,
        mut stdout: Box<dyn AsyncRead + Send + Unpin>,
        mut ready: oneshot::Receiver<Vec<ProviderEvent>>,
    ) {
        let session = Arc::clone(&self.session);
        let mut buffer = vec![0; READ];
        let mut exit = None;
        let mut refused = false;
        let mut broken = false;
        let grace = tokio::time::sleep(Duration::MAX);
        tokio::pin!(grace);
        let mut timers = FuturesUnordered::new();
        loop {
            tokio::select! {
                first = &mut ready, if self.held.is_some() && !refused => match first {
                    Ok(first) => {
                        self.release(first).await;
                    }
                    Err(_) => refused = true,
                },
                ended = session.process.exited(), if exit.is_none() => {
                    exit = Some(ended);
                    grace.as_mut().reset(tokio::time::Instant::now() + AFTER_EXIT);
                }
                () = &mut grace, if exit.is_some() => break,
                Some(timed) = timers.next() => {
                    let expired = lock(&session.codec).expire(timed);
                    self.dispatch(expired).await;
                    self.flush().await;
                }
                read = stdout.read(&mut buffer) => match read {
                    Ok(length @ 1..) => {
                        session.heard.fetch_add(length as u64, Ordering::Relaxed);
                        session.stirred.notify_one();
                        let mut unreadable = 0;
                        for piece in buffer[..length].chunks(PIECE) {
                            let received = {
                                let mut codec = lock(&session.codec);
                                let received = codec.receive(piece);
                                unreadable = codec.unreadable_in_a_row();
                                received
                            };
                            self.dispatch(received).await;
                        }
                        self.flush().await;
                        for (timed, wait) in lock(&session.codec).timed() {
                            if timers.len() < TIMERS {
                                timers.push(after(wait, timed));
                            }
                        }
                        if unreadable >= UNREADABLE_LIMIT {
                            broken = true;
                            break;
                        }
                    }
                    Ok(0) | Err(_) => break,
                },
            }
        }
        // Read before its input is closed here, which is done for one that ended by itself, too.
        let stopped = *session.closing.borrow();
        let exit = match exit {
            Some(exit) => exit,
            // It speaks no more, or not its family's language: it is of no use, and is ended.
            None => {
                session.stop().await;
                session.process.exited().await
            }
        };
        let rest = lock(&session.codec).finish();
        self.dispatch(rest).await;
        self.flush().await;
        {
            let mut waiting = lock(&session.waiting);
            waiting.closed = true;
            // Dropping the senders tells everyone who waits.
            waiting.calls.clear();
            waiting.answers.clear();
        }
        session.close_input();
        if self.held.is_some()
            && !refused
            && let Ok(first) = ready.await
        {
            // It ended between the end of its handshake and the first events.
            self.release(first).await;
        }
        if self.held.is_none() {
            let end = self.end(exit, broken, stopped).await;
            self.send(vec![end], 0).await;
        }
    }

    async fn end(&self, exit: Exit, broken: bool, stopped: bool) -> ProviderEvent {
        let stderr = self.session.process.stderr();
        stderr.finished(AFTER_EXIT).await;
        let (reason, what) = if broken {
            (
                LostReason::ProtocolError,
                format!("{UNREADABLE_LIMIT} unreadable lines in a row; it was ended"),
            )
        } else if self.session.given_up.load(Ordering::Acquire) {
            (
                LostReason::Unresponsive,
                format!("{} showed no sign of life and was ended", P::NAME),
            )
        } else if stopped {
            (LostReason::Stopped, "the host stopped it".to_owned())
        } else {
            (
                LostReason::AgentExited,
                format!("{} ended: {exit}", P::NAME),
            )
        };
        let wrote = stderr.tail(STDERR_SHOWN);
        let detail = if wrote.is_empty() || reason == LostReason::Stopped {
            what
        } else {
            format!("{what}; it wrote: {wrote}")
        };
        ProviderEvent {
            place: NativePlace::default(),
            kind: ProviderEventKind::SessionEnded { reason, detail },
        }
    }

    /// Replies go before events: who waits for one may be the reader of the events.
    async fn dispatch(&mut self, received: Vec<Received<P::Reply, P::Error>>) {
        for one in received {
            match one {
                Received::Reply { call, reply } => {
                    if let Some(waiter) = lock(&self.session.waiting).calls.remove(&call) {
                        let _ = waiter.send(reply);
                    }
                }
                Received::Send(bytes) => {
                    let line = Line {
                        bytes,
                        written: None,
                    };
                    // Waiting here while the agent does not read its input could block both sides for ever.
                    if self.session.writer.try_send(line).is_err() {
                        tracing::warn!(
                            "{} does not read its input; a refusal was dropped",
                            P::NAME
                        );
                    }
                }
                Received::Event(mut event) => {
                    self.redact(&mut event.kind);
                    if let ProviderEventKind::RequestClosed { request, .. } = &event.kind
                        && let Some(waiter) = lock(&self.session.waiting).answers.remove(request)
                    {
                        let _ = waiter.send(());
                    }
                    let weight = weight(&event);
                    match &mut self.held {
                        Some(held) => held.hold(event, weight),
                        None => {
                            self.weight += weight;
                            self.gathered.push(event);
                        }
                    }
                }
            }
        }
        if self.weight > LIGHT {
            self.flush().await;
        }
    }

    /// Hands over the first events, and what was held back until then.
    async fn release(&mut self, first: Vec<ProviderEvent>) {
        let held = self.held.take().unwrap_or_default();
        let weight = held.weight;
        self.send(held.after(first), weight).await;
    }

    /// Hands over what was gathered.
    async fn flush(&mut self) {
        let events = std::mem::take(&mut self.gathered);
        let weight = std::mem::take(&mut self.weight);
        if !events.is_empty() {
            self.send(events, weight).await;
        }
    }

    fn redact(&self, kind: &mut ProviderEventKind) {
        let text = match kind {
            ProviderEventKind::Diagnostic { message } => message,
            ProviderEventKind::Unknown { raw, .. } => raw,
            _ => return,
        };
        *text = self.session.process.stderr().redact(text);
    }

    /// Waits for room. Where nobody listens any more, output is read on and thrown away.
    async fn send(&self, events: Vec<ProviderEvent>, weight: usize) {
        let incarnation = self.session.incarnation;
        let batch = RuntimeEvents {
            incarnation,
            events,
        };
        deliver(&self.events, batch, weight).await;
    }
}
