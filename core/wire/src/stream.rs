//! The compressed stream: what a connection is after `welcome`, where both sides know it.
//!
//! `hello` offers [`Encoding`]s, `welcome` chooses at most one; an older side does neither, and both go on in plain
//! text frames. With [`Encoding::Deflate`] each message is a binary frame: one byte of kind, then raw deflate of the
//! message's JSON up to a sync flush, whose four closing bytes are left out. Each direction is *one* deflate stream (window 32 KiB) from `welcome` to the
//! end of the connection, so that what repeats from message to message costs two or three bytes. A binary frame of the
//! other kind is a part of a stored text, as it is ([`crate::message::BlobChunk`]). Text frames stay plain messages: a
//! device's `bye` may cross a `welcome`.
//!
//! What cannot be read is a [`StreamError`] and the end of the connection, because nothing after it can be read either.
//! A message is at most [`MAX_FRAME`] *inflated*, and inflating stops there: a bomb costs no more than an honest frame.
//! Memory of a connection: 268 KiB for the outgoing, 48 KiB for the incoming direction.

use crate::duplex::{
    BoxFuture, Close, Direction, DuplexError, Frame, FrameReceiver, FrameSender, MAX_FRAME,
};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use serde::{Deserialize, Serialize};

/// First byte of a frame of the stream.
const KIND_STREAM: u8 = 0;
/// First byte of a frame with a part of a stored text.
pub(crate) const KIND_BLOB: u8 = 1;
/// What a sync flush ends with: the lengths of an empty stored block. Always the same, so a frame goes without them.
const FLUSHED: [u8; 4] = [0, 0, 0xff, 0xff];
/// The level of zlib's default: higher ones gain 2 % on live text and cost a fifth more time.
const LEVEL: u32 = 6;
/// What is reserved at first for an inflated message.
const FIRST_GUESS: usize = 4 * 1024;

/// How messages are written after `welcome`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// One raw deflate stream per direction; parts of stored texts as bytes.
    Deflate,
    /// One of a newer version.
    #[serde(other)]
    Other,
}

impl Encoding {
    /// What this build can read and write, best first.
    pub const KNOWN: &'static [Self] = &[Self::Deflate];

    /// What a host chooses of what a device offers; `None` is plain text.
    pub fn choose(offered: &[Self]) -> Option<Self> {
        Self::KNOWN
            .iter()
            .copied()
            .find(|known| offered.contains(known))
    }
}

/// Why a binary frame cannot be read. Nothing that follows it can be read either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// No byte at all.
    #[error("a binary frame is empty")]
    Empty,
    /// A kind that was not agreed on.
    #[error("a binary frame is of the unknown kind {0}")]
    UnknownKind(u8),
    /// The bytes are no deflate stream, or not the one that was begun.
    #[error("a compressed message is damaged")]
    Damaged,
    /// The stream was ended, though the connection was not.
    #[error("the compressed stream ended before the connection")]
    Over,
    /// A message is JSON, and JSON is text.
    #[error("a compressed message is no UTF-8 text")]
    NotText,
    /// The compressor failed; it never should.
    #[error("a message could not be compressed")]
    Unwritable,
}

/// Writes one direction's stream.
struct Deflater(Compress);

impl Deflater {
    fn new() -> Self {
        Self(Compress::new(Compression::new(LEVEL), false))
    }

    /// The frame of one message.
    fn frame(&mut self, message: &[u8]) -> Result<Vec<u8>, StreamError> {
        let mut frame = Vec::with_capacity(message.len() / 2 + 64);
        frame.push(KIND_STREAM);
        let begun = self.0.total_in();
        loop {
            let taken = usize::try_from(self.0.total_in() - begun).unwrap_or(usize::MAX);
            let rest = message.get(taken..).ok_or(StreamError::Unwritable)?;
            let status = self
                .0
                .compress_vec(rest, &mut frame, FlushCompress::Sync)
                .map_err(|_| StreamError::Unwritable)?;
            // With room left over everything is written, the flush too.
            if frame.len() < frame.capacity() {
                let whole = self.0.total_in() - begun == message.len() as u64;
                return match status {
                    Status::Ok | Status::BufError if whole && frame.ends_with(&FLUSHED) => {
                        frame.truncate(frame.len() - FLUSHED.len());
                        Ok(frame)
                    }
                    _ => Err(StreamError::Unwritable),
                };
            }
            frame.reserve(frame.len());
        }
    }
}

/// Reads one direction's stream.
struct Inflater(Decompress);

impl Inflater {
    fn new() -> Self {
        Self(Decompress::new(false))
    }

    /// The message of a frame, its byte of kind included.
    fn message(&mut self, mut frame: Vec<u8>) -> Result<String, DuplexError> {
        frame.extend(FLUSHED);
        let frame = frame.get(1..).unwrap_or_default();
        let begun = self.0.total_in();
        // One byte over the limit tells a message of exactly that size from a longer one.
        let mut message = Vec::with_capacity((frame.len() * 4).clamp(FIRST_GUESS, MAX_FRAME + 1));
        loop {
            let taken = usize::try_from(self.0.total_in() - begun).unwrap_or(usize::MAX);
            let rest = frame.get(taken..).ok_or(StreamError::Damaged)?;
            let status = self
                .0
                .decompress_vec(rest, &mut message, FlushDecompress::Sync)
                .map_err(|_| StreamError::Damaged)?;
            if message.len() > MAX_FRAME {
                return Err(DuplexError::TooLarge {
                    direction: Direction::Incoming,
                    limit: MAX_FRAME,
                });
            }
            if status == Status::StreamEnd {
                return Err(StreamError::Over.into());
            }
            if message.len() < message.capacity() {
                // With room left over all that can be read was read.
                if self.0.total_in() - begun != frame.len() as u64 {
                    return Err(StreamError::Damaged.into());
                }
                return String::from_utf8(message).map_err(|_| StreamError::NotText.into());
            }
            let room = message.len().min(MAX_FRAME + 1 - message.len());
            message.reserve_exact(room);
        }
    }
}

/// Sends messages as one compressed stream over another sender.
pub(crate) struct DeflatingSender {
    frames: Box<dyn FrameSender>,
    deflater: Deflater,
}

impl DeflatingSender {
    pub(crate) fn new(frames: Box<dyn FrameSender>) -> Self {
        Self {
            frames,
            deflater: Deflater::new(),
        }
    }
}

impl FrameSender for DeflatingSender {
    fn send(&mut self, frame: Frame) -> BoxFuture<'_, Result<(), DuplexError>> {
        Box::pin(async move {
            // Before anything enters the stream: what entered it has to go out.
            frame.within_limit()?;
            let frame = match frame {
                Frame::Text(text) => Frame::Binary(self.deflater.frame(text.as_bytes())?),
                blob @ Frame::Binary(_) => blob,
            };
            self.frames.send(frame).await
        })
    }

    fn close(&mut self, close: Close) -> BoxFuture<'_, Result<(), DuplexError>> {
        self.frames.close(close)
    }
}

/// Receives what a [`DeflatingSender`] sends: messages as text frames, parts of stored texts as binary ones.
pub(crate) struct InflatingReceiver {
    frames: Box<dyn FrameReceiver>,
    inflater: Inflater,
    ended: Option<DuplexError>,
}

impl InflatingReceiver {
    pub(crate) fn new(frames: Box<dyn FrameReceiver>) -> Self {
        Self {
            frames,
            inflater: Inflater::new(),
            ended: None,
        }
    }

    fn read(&mut self, frame: Frame) -> Result<Frame, DuplexError> {
        let Frame::Binary(bytes) = frame else {
            return Ok(frame);
        };
        match bytes.first() {
            Some(&KIND_STREAM) => self.inflater.message(bytes).map(Frame::Text),
            Some(&KIND_BLOB) => Ok(Frame::Binary(bytes)),
            Some(&kind) => Err(StreamError::UnknownKind(kind).into()),
            None => Err(StreamError::Empty.into()),
        }
    }
}

impl FrameReceiver for InflatingReceiver {
    fn receive(&mut self) -> BoxFuture<'_, Result<Frame, DuplexError>> {
        Box::pin(async move {
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            let frame = self.frames.receive().await?;
            self.read(frame)
                .inspect_err(|error| self.ended = Some(error.clone()))
        })
    }
}
