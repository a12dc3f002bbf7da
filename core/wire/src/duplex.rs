//! A message-oriented, two-way connection, whatever carries it.
//!
//! Everything above this module (pairing, messages, the link) speaks to these traits only, so that an SSH forward or
//! another transport can be added beside the WebSocket by implementing three small traits. Sizes are checked here on
//! both directions: a frame over [`MAX_FRAME`] is an error of its sender and is never handed to a reader.
//! [`crate::stream`] puts its compression between a transport and its users by the same traits.

use crate::stream::StreamError;
use std::{fmt, future::Future, pin::Pin};
use tokio::sync::mpsc;

/// Bytes of one message, in either direction: 1 MiB, before it is compressed.
pub const MAX_FRAME: usize = pilothouse_domain::limits::WIRE_FRAME;
/// Bytes of one binary frame: what does not compress grows a little (zlib's bound is 1 in 4,096, and 1 in 16,384).
pub const MAX_BINARY: usize = MAX_FRAME + MAX_FRAME / 1024;

/// A boxed future that may move between threads; it keeps the traits here usable as trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One message of the transport.
#[derive(Clone, PartialEq, Eq)]
pub enum Frame {
    /// UTF-8 text: JSON messages.
    Text(String),
    /// Bytes: messages of the compressed stream, and parts of stored texts.
    Binary(Vec<u8>),
}

impl Frame {
    /// Payload length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Frame::Text(text) => text.len(),
            Frame::Binary(bytes) => bytes.len(),
        }
    }

    /// Whether the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn within_limit(&self) -> Result<(), DuplexError> {
        self.check(Direction::Outgoing)
    }

    pub(crate) fn check(&self, direction: Direction) -> Result<(), DuplexError> {
        let most = match self {
            Frame::Text(_) => MAX_FRAME,
            Frame::Binary(_) => MAX_BINARY,
        };
        if self.len() > most {
            return Err(DuplexError::TooLarge {
                direction,
                limit: MAX_FRAME,
            });
        }
        Ok(())
    }
}

impl fmt::Debug for Frame {
    /// Kind and size only: a frame can hold what a person typed, or a pairing proof.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Frame::Binary(bytes) => write!(f, "Binary({} bytes)", bytes.len()),
        }
    }
}

/// Why a side closed the connection, as far as the transport can say. The typed reason travels before it as a `bye`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCode {
    /// The purpose is fulfilled, or the app goes to sleep.
    Normal,
    /// This side shuts down.
    GoingAway,
    /// The peer broke the protocol.
    Protocol,
    /// The peer sent a frame over [`MAX_FRAME`].
    TooLarge,
    /// The peer may not be here: unknown, revoked or badly behaved.
    Policy,
    /// Another code, as the transport numbers it.
    Other(u16),
}

/// A close with its reason. The text is for logs and people, at most 120 bytes are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// What kind of end it is.
    pub code: CloseCode,
    /// In words, without secrets.
    pub reason: String,
}

impl Close {
    /// A close with a reason in words.
    pub fn new(code: CloseCode, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason.is_empty() {
            write!(f, "{:?}", self.code)
        } else {
            write!(f, "{:?}: {}", self.code, self.reason)
        }
    }
}

/// Which way a frame was going, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the peer.
    Incoming,
    /// To the peer.
    Outgoing,
}

/// What can end or refuse a transfer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DuplexError {
    /// A frame over the limit. Outgoing: nothing was sent and the connection lives on. Incoming: it is closed.
    #[error("{} frame is larger than {limit} bytes; send it in pages", match .direction { Direction::Incoming => "an incoming", Direction::Outgoing => "an outgoing" })]
    TooLarge {
        /// Who sent it.
        direction: Direction,
        /// The limit in bytes.
        limit: usize,
    },
    /// The connection has ended in order.
    #[error("the connection was closed{}", match .0 { Some(close) => format!(" ({close})"), None => " without a reason".to_owned() })]
    Closed(Option<Close>),
    /// The connection broke, or the peer spoke something else.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The peer sent a binary frame that cannot be read.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// The half that sends.
pub trait FrameSender: Send {
    /// Sends one frame and flushes it. Not cancel-safe: a dropped call may have sent the frame or not.
    ///
    /// # Errors
    /// [`DuplexError::TooLarge`] before anything is sent; otherwise the end of the connection.
    fn send(&mut self, frame: Frame) -> BoxFuture<'_, Result<(), DuplexError>>;

    /// Says why and closes. Closing twice is not an error.
    ///
    /// # Errors
    /// The connection was broken before the reason could be sent.
    fn close(&mut self, close: Close) -> BoxFuture<'_, Result<(), DuplexError>>;
}

/// The half that receives.
pub trait FrameReceiver: Send {
    /// The next frame. Cancel-safe: a dropped call loses nothing.
    ///
    /// # Errors
    /// The end of the connection, or an incoming frame over the limit; both are final.
    fn receive(&mut self) -> BoxFuture<'_, Result<Frame, DuplexError>>;
}

/// A connection that has not been taken apart yet.
pub trait Duplex: Send {
    /// The two halves, each usable from a task of its own.
    fn split(self: Box<Self>) -> (Box<dyn FrameSender>, Box<dyn FrameReceiver>);
}

impl fmt::Debug for dyn Duplex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Duplex")
    }
}

/// Two connected ends in memory, each direction holding at most `capacity` frames (at least 1).
///
/// For tests, and for a device and a ledger in one process.
pub fn memory_pair(capacity: usize) -> (MemoryDuplex, MemoryDuplex) {
    let (to_right, from_left) = mpsc::channel(capacity.max(1));
    let (to_left, from_right) = mpsc::channel(capacity.max(1));
    (
        MemoryDuplex {
            outgoing: MemorySender(Some(to_right)),
            incoming: MemoryReceiver::new(from_right),
        },
        MemoryDuplex {
            outgoing: MemorySender(Some(to_left)),
            incoming: MemoryReceiver::new(from_left),
        },
    )
}

enum MemoryItem {
    Frame(Frame),
    Close(Close),
}

/// One end of [`memory_pair`].
pub struct MemoryDuplex {
    outgoing: MemorySender,
    incoming: MemoryReceiver,
}

struct MemorySender(Option<mpsc::Sender<MemoryItem>>);

struct MemoryReceiver {
    items: mpsc::Receiver<MemoryItem>,
    ended: Option<Option<Close>>,
}

impl MemoryReceiver {
    fn new(items: mpsc::Receiver<MemoryItem>) -> Self {
        Self { items, ended: None }
    }
}

impl Duplex for MemoryDuplex {
    fn split(self: Box<Self>) -> (Box<dyn FrameSender>, Box<dyn FrameReceiver>) {
        (Box::new(self.outgoing), Box::new(self.incoming))
    }
}

impl FrameSender for MemorySender {
    fn send(&mut self, frame: Frame) -> BoxFuture<'_, Result<(), DuplexError>> {
        Box::pin(async move {
            frame.within_limit()?;
            let Some(channel) = &self.0 else {
                return Err(DuplexError::Closed(None));
            };
            channel
                .send(MemoryItem::Frame(frame))
                .await
                .map_err(|_| DuplexError::Closed(None))
        })
    }

    fn close(&mut self, close: Close) -> BoxFuture<'_, Result<(), DuplexError>> {
        Box::pin(async move {
            if let Some(channel) = self.0.take() {
                let _ = channel.send(MemoryItem::Close(close)).await;
            }
            Ok(())
        })
    }
}

impl FrameReceiver for MemoryReceiver {
    fn receive(&mut self) -> BoxFuture<'_, Result<Frame, DuplexError>> {
        Box::pin(async move {
            if let Some(close) = &self.ended {
                return Err(DuplexError::Closed(close.clone()));
            }
            let close = match self.items.recv().await {
                Some(MemoryItem::Frame(frame)) => return Ok(frame),
                Some(MemoryItem::Close(close)) => Some(close),
                None => None,
            };
            self.ended = Some(close.clone());
            Err(DuplexError::Closed(close))
        })
    }
}
