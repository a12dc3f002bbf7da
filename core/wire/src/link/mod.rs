//! The device's link to one host: the one owner of its connection and of all retries.
//!
//! [`Link::start`] spawns a task that dials for ever with jittered backoff, says `hello`, keeps the connection alive
//! and starts over when it ends. What it makes comes out as [`LinkEvent`]s in order: `Up` with a [`LinkSender`] for
//! that one connection, then messages, then `Down`. A sender does not outlive its connection, so nothing meant for one
//! connection ever goes out on the next: what must survive belongs into the outbox. The [`LinkState`] can be watched
//! beside it; `synchronised` is the engine's to say. Liveness and waits are computed in [`rhythm`].

mod dial;
mod driver;
pub mod rhythm;

pub use dial::{Dialer, Dialled, HostDialer};

use crate::{
    connect::ConnectError,
    duplex::{DuplexError, Frame},
    message::{ByeReason, DeviceMessage, EncodeError, Hello, HostMessage, Welcome, encode},
    stream::Encoding,
};
use std::sync::Arc;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// Messages that wait to be written before [`LinkSender::send`] waits.
const OUTGOING: usize = 64;
/// Events that wait for the engine before the link stops reading.
const EVENTS: usize = 256;

/// Where a link stands. Times are the runtime's; a screen shows how long ago or how soon they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// No connection.
    Unreachable {
        /// When the last connection that got a `welcome` ended, or when the link was started.
        since: Instant,
        /// When it is tried again; `None` while it is being tried.
        next_attempt: Option<Instant>,
        /// What went wrong last.
        problem: Option<LinkProblem>,
    },
    /// The host's key was proven, its `welcome` is awaited.
    Reachable {
        /// The address that worked.
        address: String,
    },
    /// The host said `welcome`.
    Authenticated {
        /// The connection's number.
        connection: u64,
    },
    /// The engine has caught up over this connection.
    Synchronised {
        /// The connection's number.
        connection: u64,
    },
    /// Over for good.
    Stopped {
        /// Why: revoked by the host, or stopped here.
        reason: ByeReason,
    },
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkProblem {
    /// No address led to the host.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection ended by itself.
    #[error(transparent)]
    Ended(#[from] DuplexError),
    /// The host ended it.
    #[error("{0}")]
    Bye(ByeReason),
    /// The host gave no sign of life.
    #[error("the host gives no sign of life")]
    Stale,
    /// The host did not answer `hello`.
    #[error("the host did not answer in time; it may be starting or overloaded")]
    NoWelcome,
    /// The host broke the protocol.
    #[error("the host's answer was not understood ({0}); update the app and the host")]
    Protocol(String),
}

impl LinkProblem {
    /// Whether trying soon again is pointless without a person: the waits are the longest ones then.
    pub fn needs_a_person(&self) -> bool {
        match self {
            Self::Bye(reason) => matches!(
                reason,
                ByeReason::Unauthorised
                    | ByeReason::Version { .. }
                    | ByeReason::Replaced
                    | ByeReason::Pairing { .. }
            ),
            Self::Protocol(_) => true,
            _ => false,
        }
    }
}

/// What a link tells its engine, in order.
#[derive(Debug)]
pub enum LinkEvent {
    /// A connection is open and the host said `welcome`.
    Up {
        /// What the host is and allows.
        welcome: Box<Welcome>,
        /// Sends over this connection only.
        sender: LinkSender,
    },
    /// The host said something. Pongs and byes do not come here.
    Message(HostMessage),
    /// The connection has ended; its sender is dead, and so are its subscriptions and queries.
    Down(LinkProblem),
    /// Over for good; nothing follows.
    Stopped(ByeReason),
}

/// Sends over one connection. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LinkSender {
    connection: u64,
    frames: mpsc::Sender<ToWrite>,
    state: Arc<watch::Sender<LinkState>>,
}

/// What a connection's writer is given, in order.
#[derive(Debug)]
enum ToWrite {
    /// To be sent.
    Frame(Frame),
    /// What follows is sent in the encoding that was agreed on.
    Encoded(Option<Encoding>),
}

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkSendError {
    /// It cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The connection has ended; wait for the next [`LinkEvent::Up`].
    #[error("the connection has ended")]
    Ended,
    /// Only from [`LinkSender::try_send`]: 64 messages wait to be written.
    #[error("too many messages wait to be sent")]
    Full,
}

impl LinkSender {
    /// Queues a message for this connection, waiting for room. That it returns says nothing about its arrival.
    ///
    /// # Errors
    /// [`LinkSendError::Encode`] or [`LinkSendError::Ended`].
    pub async fn send(&self, message: &DeviceMessage) -> Result<(), LinkSendError> {
        let frame = encode(message)?;
        self.frames
            .send(ToWrite::Frame(frame))
            .await
            .map_err(|_| LinkSendError::Ended)
    }

    /// Like [`Self::send`], without waiting.
    ///
    /// # Errors
    /// Also [`LinkSendError::Full`].
    pub fn try_send(&self, message: &DeviceMessage) -> Result<(), LinkSendError> {
        self.frames
            .try_send(ToWrite::Frame(encode(message)?))
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => LinkSendError::Full,
                mpsc::error::TrySendError::Closed(_) => LinkSendError::Ended,
            })
    }

    /// The connection's number: 1 for a link's first, without gaps.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Says that the engine has caught up over this connection. Without effect once the connection has ended.
    pub fn mark_synchronised(&self) {
        let connection = self.connection;
        self.state.send_if_modified(|state| {
            let mine = *state == LinkState::Authenticated { connection };
            if mine {
                *state = LinkState::Synchronised { connection };
            }
            mine
        });
    }
}

/// What a link needs to know.
pub struct LinkConfig {
    /// What the device says first.
    pub hello: Hello,
    /// How the host is reached.
    pub dialer: Arc<dyn Dialer>,
    /// 64 random bits per call, for the jitter of the waits.
    pub random: Box<dyn FnMut() -> u64 + Send>,
}

impl LinkConfig {
    /// A link over WSS with the system's randomness.
    pub fn new(hello: Hello, dialer: Arc<dyn Dialer>) -> Self {
        // Without randomness the middle of each wait is taken: still a wait, only not spread.
        Self {
            hello,
            dialer,
            random: Box::new(|| getrandom::u64().unwrap_or(u64::MAX / 2)),
        }
    }
}

/// What is asked of the task.
#[derive(Debug, Clone, Default)]
struct Control {
    pokes: u64,
    stop: Option<ByeReason>,
}

/// Handle of a link: pokes, stops and watches it. Cheap to clone. The link itself lives until it is stopped or the
/// receiver of its events is dropped.
#[derive(Debug, Clone)]
pub struct Link {
    control: Arc<watch::Sender<Control>>,
    state: watch::Receiver<LinkState>,
}

impl Link {
    /// Starts the task on the current Tokio runtime. The engine must keep receiving the events: when 256 wait, the
    /// link stops reading, and the host will give a device up that does not take what it is sent.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(config: LinkConfig) -> (Self, mpsc::Receiver<LinkEvent>) {
        let (control, control_seen) = watch::channel(Control::default());
        let (events, events_seen) = mpsc::channel(EVENTS);
        let initial = LinkState::Unreachable {
            since: Instant::now(),
            next_attempt: None,
            problem: None,
        };
        let (state, state_seen) = watch::channel(initial);
        let driver = driver::Driver::new(config, control_seen, events, Arc::new(state));
        tokio::spawn(driver.run());
        (
            Self {
                control: Arc::new(control),
                state: state_seen,
            },
            events_seen,
        )
    }

    /// The app came to the foreground or the network changed: an open connection is probed at once, a wait ends at
    /// once, an attempt that hangs is begun anew.
    pub fn poke(&self) {
        self.control.send_modify(|control| control.pokes += 1);
    }

    /// Says `bye` and stops for good.
    pub fn stop(&self, reason: ByeReason) {
        self.control.send_modify(|control| {
            control.stop.get_or_insert(reason);
        });
    }

    /// Where the link stands, to be looked at or waited on.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.state.clone()
    }
}
