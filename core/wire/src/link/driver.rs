//! The task behind a link.

use super::{
    Control, Dialled, LinkConfig, LinkEvent, LinkProblem, LinkSender, LinkState, OUTGOING, ToWrite,
    rhythm::{Backoff, Beat, Heartbeat, STABLE_AFTER},
};
use crate::{
    duplex::{Close, CloseCode, DuplexError, Frame, FrameReceiver, FrameSender},
    message::{
        ByeReason, DecodeError, DeviceMessage, HostMessage, Welcome, WireError, decode, encode,
        receiving, sending,
    },
    opening::OPENING_TIMEOUT,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

/// An attempt that is older than this when a poke comes is begun anew: it may hang on a network that is gone.
const DIAL_PATIENCE: Duration = Duration::from_secs(1);
/// Time for a farewell to be written.
const FAREWELL: Duration = Duration::from_secs(2);

/// How a connection, or the whole link, came to its end.
enum End {
    Problem(LinkProblem),
    /// For good. `told` is whether the host said so, or has to be told.
    Stop {
        reason: ByeReason,
        told: bool,
    },
    /// Nobody listens any more.
    Abandoned,
}

pub(super) struct Driver {
    config: LinkConfig,
    control: watch::Receiver<Control>,
    events: mpsc::Sender<LinkEvent>,
    state: Arc<watch::Sender<LinkState>>,
    /// Zero of the times given to the heartbeat.
    origin: Instant,
    connections: u64,
}

impl Driver {
    pub(super) fn new(
        config: LinkConfig,
        control: watch::Receiver<Control>,
        events: mpsc::Sender<LinkEvent>,
        state: Arc<watch::Sender<LinkState>>,
    ) -> Self {
        Self {
            config,
            control,
            events,
            state,
            origin: Instant::now(),
            connections: 0,
        }
    }

    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new();
        let mut since = Instant::now();
        let mut problem = None;
        loop {
            self.show(LinkState::Unreachable {
                since,
                next_attempt: None,
                problem: problem.clone(),
            });
            let dialled = self.dial().await;
            let end = match dialled {
                Ok(dialled) => {
                    let begun = Instant::now();
                    let connections = self.connections;
                    let end = self.converse(dialled).await;
                    if self.connections > connections {
                        since = Instant::now();
                        if begun.elapsed() >= STABLE_AFTER {
                            backoff.reset();
                        }
                    }
                    end
                }
                Err(end) => end,
            };
            match end {
                End::Abandoned => return,
                End::Stop { reason, .. } => {
                    self.show(LinkState::Stopped {
                        reason: reason.clone(),
                    });
                    let _ = self.events.send(LinkEvent::Stopped(reason)).await;
                    return;
                }
                End::Problem(found) => problem = Some(found),
            }
            if problem.as_ref().is_some_and(LinkProblem::needs_a_person) {
                backoff.despair();
            }
            let next = Instant::now() + backoff.next_wait((self.config.random)());
            self.show(LinkState::Unreachable {
                since,
                next_attempt: Some(next),
                problem: problem.clone(),
            });
            match self.wait_until(next).await {
                Ok(poked) if poked => backoff.reset(),
                Ok(_) => {}
                Err(reason) => {
                    self.show(LinkState::Stopped {
                        reason: reason.clone(),
                    });
                    let _ = self.events.send(LinkEvent::Stopped(reason)).await;
                    return;
                }
            }
            if self.events.is_closed() {
                return;
            }
        }
    }

    fn show(&self, state: LinkState) {
        self.state.send_replace(state);
    }

    /// Waits; a poke ends it early, a stop is the error.
    async fn wait_until(&mut self, moment: Instant) -> Result<bool, ByeReason> {
        tokio::select! {
            () = sleep_until(moment) => Ok(false),
            () = self.events.closed() => Ok(false),
            asked = next_control(&mut self.control) => match asked {
                Asked::Poke => Ok(true),
                Asked::Stop(reason) => Err(reason),
            },
        }
    }

    async fn dial(&mut self) -> Result<Dialled, End> {
        let dialer = self.config.dialer.clone();
        loop {
            let begun = Instant::now();
            let mut attempt = dialer.dial();
            loop {
                tokio::select! {
                    result = &mut attempt => return result.map_err(|error| End::Problem(error.into())),
                    () = self.events.closed() => return Err(End::Abandoned),
                    asked = next_control(&mut self.control) => match asked {
                        Asked::Stop(reason) => return Err(End::Stop { reason, told: true }),
                        Asked::Poke if begun.elapsed() >= DIAL_PATIENCE => break,
                        Asked::Poke => {}
                    },
                }
            }
        }
    }

    /// One connection from `hello` to its end, which is told to the engine if it was told of the beginning.
    async fn converse(&mut self, dialled: Dialled) -> End {
        self.show(LinkState::Reachable {
            address: dialled.address,
        });
        let (sender, receiver) = dialled.duplex.split();
        let (frames, to_write) = mpsc::channel(OUTGOING);
        let (farewell, farewell_seen) = mpsc::channel(1);
        let mut writer = Writer {
            task: tokio::spawn(write(sender, to_write, farewell_seen)),
            farewell,
        };
        let end = self.talk(receiver, frames, &mut writer).await;
        let (bye, close) = farewell_of(&end);
        writer.finish(bye, close).await;
        if let End::Problem(problem) = &end {
            tracing::debug!(%problem, "the link went down");
        }
        end
    }

    async fn talk(
        &mut self,
        mut receiver: Box<dyn FrameReceiver>,
        frames: mpsc::Sender<ToWrite>,
        writer: &mut Writer,
    ) -> End {
        let welcome = match self.greet(&mut *receiver, &frames, writer).await {
            Ok(welcome) => welcome,
            Err(end) => return end,
        };
        // Nothing else is in the queue, so it has room: only `hello` went through it.
        let _ = frames.try_send(ToWrite::Encoded(welcome.encoding));
        let mut receiver = receiving(receiver, welcome.encoding);
        self.connections += 1;
        let connection = self.connections;
        self.show(LinkState::Authenticated { connection });
        let up = LinkEvent::Up {
            welcome,
            sender: LinkSender {
                connection,
                frames: frames.clone(),
                state: self.state.clone(),
            },
        };
        let end = match self.deliver(up).await {
            Err(end) => end,
            Ok(()) => self.listen(&mut *receiver, &frames, writer).await,
        };
        if let End::Problem(problem) = &end {
            // The state is shown first, so that whoever sees `Down` does not find the link still up.
            self.show(LinkState::Unreachable {
                since: Instant::now(),
                next_attempt: None,
                problem: Some(problem.clone()),
            });
            if let Err(stop) = self.deliver(LinkEvent::Down(problem.clone())).await {
                return stop;
            }
        }
        end
    }

    /// `hello`, and the `welcome` that answers it.
    async fn greet(
        &mut self,
        receiver: &mut dyn FrameReceiver,
        frames: &mpsc::Sender<ToWrite>,
        writer: &mut Writer,
    ) -> Result<Box<Welcome>, End> {
        let hello = encode(&DeviceMessage::Hello(self.config.hello.clone()))
            .map_err(|error| End::Problem(LinkProblem::Protocol(error.to_string())))?;
        let _ = frames.try_send(ToWrite::Frame(hello));
        let deadline = Instant::now() + OPENING_TIMEOUT;
        loop {
            tokio::select! {
                received = receiver.receive() => match understood(received)? {
                    Some(HostMessage::Welcome(welcome)) => {
                        return match self.fits(&welcome) {
                            Ok(()) => Ok(welcome),
                            Err(problem) => Err(End::Problem(LinkProblem::Protocol(problem))),
                        };
                    }
                    Some(other) => {
                        use crate::message::Message;
                        let problem = format!("it answered `{}` to hello", other.type_name());
                        return Err(End::Problem(LinkProblem::Protocol(problem)));
                    }
                    None => {}
                },
                ended = writer.ended() => return Err(End::Problem(ended.into())),
                () = sleep_until(deadline) => return Err(End::Problem(LinkProblem::NoWelcome)),
                () = self.events.closed() => return Err(End::Abandoned),
                asked = next_control(&mut self.control) => {
                    if let Asked::Stop(reason) = asked {
                        return Err(End::Stop { reason, told: false });
                    }
                }
            }
        }
    }

    /// Whether a host chose of what it was offered.
    fn fits(&self, welcome: &Welcome) -> Result<(), String> {
        let ours = self.config.hello.protocol;
        if !(ours.min..=ours.max).contains(&welcome.protocol) {
            return Err(format!(
                "it chose protocol {}, offered were {ours}",
                welcome.protocol
            ));
        }
        match welcome.encoding {
            Some(encoding) if !self.config.hello.encodings.contains(&encoding) => {
                Err("it chose an encoding that was not offered".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Hands messages on and keeps the connection alive until it ends.
    async fn listen(
        &mut self,
        receiver: &mut dyn FrameReceiver,
        frames: &mpsc::Sender<ToWrite>,
        writer: &mut Writer,
    ) -> End {
        let mut heart = Heartbeat::new(self.origin.elapsed());
        let mut nonce = 0;
        loop {
            let next_beat = match heart.beat(self.origin.elapsed()) {
                Beat::Stale => return End::Problem(LinkProblem::Stale),
                Beat::WaitUntil(moment) => self.origin + moment,
                Beat::Ping => {
                    nonce += 1;
                    if let Ok(ping) = encode(&DeviceMessage::Ping { nonce }) {
                        // With a full queue nothing gets out anyhow: the ping counts as missed.
                        let _ = frames.try_send(ToWrite::Frame(ping));
                    }
                    continue;
                }
            };
            tokio::select! {
                received = receiver.receive() => {
                    heart.heard();
                    match understood(received) {
                        Err(end) => return end,
                        Ok(None | Some(HostMessage::Pong { .. })) => {}
                        Ok(Some(message)) => {
                            if let Err(end) = self.deliver(LinkEvent::Message(message)).await {
                                return end;
                            }
                            // Time in which the engine was busy is no silence of the host.
                            heart.heard();
                        }
                    }
                }
                ended = writer.ended() => return End::Problem(ended.into()),
                () = sleep_until(next_beat) => {}
                () = self.events.closed() => return End::Abandoned,
                asked = next_control(&mut self.control) => match asked {
                    Asked::Poke => heart.probe(),
                    Asked::Stop(reason) => return End::Stop { reason, told: false },
                },
            }
        }
    }

    /// Waits for the engine to take an event, and can be stopped meanwhile. A poke meanwhile is kept.
    async fn deliver(&mut self, event: LinkEvent) -> Result<(), End> {
        let events = self.events.clone();
        let sending = events.send(event);
        tokio::pin!(sending);
        let mut control = self.control.clone();
        loop {
            tokio::select! {
                biased;
                sent = &mut sending => return sent.map_err(|_| End::Abandoned),
                asked = next_control(&mut control) => {
                    if let Asked::Stop(reason) = asked {
                        return Err(End::Stop { reason, told: false });
                    }
                }
            }
        }
    }
}

enum Asked {
    Poke,
    Stop(ByeReason),
}

/// The next wish of a handle. Without handles there is none any more.
async fn next_control(control: &mut watch::Receiver<Control>) -> Asked {
    if let Some(reason) = control.borrow().stop.clone() {
        return Asked::Stop(reason);
    }
    if control.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    match control.borrow().stop.clone() {
        Some(reason) => Asked::Stop(reason),
        None => Asked::Poke,
    }
}

/// A frame as a message to hand on; `None` for one of a newer version, which is skipped.
fn understood(received: Result<Frame, DuplexError>) -> Result<Option<HostMessage>, End> {
    let frame = received.map_err(|error| End::Problem(error.into()))?;
    match decode::<HostMessage>(&frame) {
        Ok(HostMessage::Bye {
            reason: ByeReason::Revoked,
        }) => Err(End::Stop {
            reason: ByeReason::Revoked,
            told: true,
        }),
        Ok(HostMessage::Bye { reason }) => Err(End::Problem(LinkProblem::Bye(reason))),
        Ok(message) => Ok(Some(message)),
        Err(DecodeError::Unknown { kind }) => {
            tracing::debug!(kind, "a message of a newer host was skipped");
            Ok(None)
        }
        // As if the host had said so: the rest of the connection goes on.
        Err(error @ DecodeError::Part { .. }) => {
            Ok(Some(HostMessage::Error(WireError::of_decode(&error))))
        }
        Err(error) => Err(End::Problem(LinkProblem::Protocol(error.to_string()))),
    }
}

/// What to say at the end, and how to close.
fn farewell_of(end: &End) -> (Option<ByeReason>, Close) {
    match end {
        End::Stop {
            reason,
            told: false,
        } => (
            Some(reason.clone()),
            Close::new(CloseCode::Normal, reason.to_string()),
        ),
        End::Stop { told: true, .. } => (None, Close::new(CloseCode::Normal, "")),
        End::Abandoned => (Some(ByeReason::Done), Close::new(CloseCode::GoingAway, "")),
        End::Problem(LinkProblem::Protocol(problem)) => (
            Some(ByeReason::Protocol {
                problem: problem.clone(),
            }),
            Close::new(CloseCode::Protocol, "not understood"),
        ),
        End::Problem(LinkProblem::Ended(DuplexError::TooLarge { .. })) => (
            None,
            Close::new(CloseCode::TooLarge, "a frame was over 1 MiB"),
        ),
        End::Problem(LinkProblem::Ended(DuplexError::Stream(error))) => (
            Some(ByeReason::Protocol {
                problem: error.to_string(),
            }),
            Close::new(CloseCode::Protocol, "not understood"),
        ),
        End::Problem(LinkProblem::Stale | LinkProblem::NoWelcome) => (
            Some(ByeReason::Silent),
            Close::new(CloseCode::Policy, "no sign of life"),
        ),
        End::Problem(_) => (None, Close::new(CloseCode::Normal, "")),
    }
}

type Farewell = (Option<ByeReason>, Close);

/// The task that writes, so that a host that does not read cannot keep us from reading.
struct Writer {
    task: JoinHandle<DuplexError>,
    farewell: mpsc::Sender<Farewell>,
}

impl Writer {
    /// When writing has failed. Cancel-safe.
    async fn ended(&mut self) -> DuplexError {
        match (&mut self.task).await {
            Ok(error) => error,
            Err(error) => DuplexError::Broken(error.to_string()),
        }
    }

    async fn finish(self, bye: Option<ByeReason>, close: Close) {
        let mut task = self.task;
        if task.is_finished() {
            return;
        }
        let _ = self.farewell.try_send((bye, close));
        if timeout(FAREWELL, &mut task).await.is_err() {
            task.abort();
        }
    }
}

async fn write(
    mut sender: Box<dyn FrameSender>,
    mut frames: mpsc::Receiver<ToWrite>,
    mut farewell: mpsc::Receiver<Farewell>,
) -> DuplexError {
    loop {
        tokio::select! {
            biased;
            last = farewell.recv() => {
                let (bye, close) = last.unwrap_or((None, Close::new(CloseCode::Normal, "")));
                if let Some(Ok(frame)) = bye.map(|reason| encode(&DeviceMessage::Bye { reason })) {
                    let _ = sender.send(frame).await;
                }
                let _ = sender.close(close).await;
                return DuplexError::Closed(None);
            }
            Some(next) = frames.recv() => match next {
                ToWrite::Encoded(encoding) => sender = sending(sender, encoding),
                ToWrite::Frame(frame) => {
                    if let Err(error) = sender.send(frame).await {
                        return error;
                    }
                }
            }
        }
    }
}
