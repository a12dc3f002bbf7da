//! Cuts what is too long before it is held: a WebSocket's messages come whole or not at all, and one of which nobody could read
//! the end is to cost neither its memory nor the connection.

use super::frames::FRAME_LIMIT;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a message that are passed on: one more than are read of a line, so that it is known to be too long.
const KEPT: u64 = FRAME_LIMIT as u64 + 1;
/// Bytes read at a time.
const READ: usize = 64 * 1024;
/// What ends the answer to the handshake.
const HEAD_END: [u8; 4] = *b"\r\n\r\n";

/// The bytes of a client's connection, in which no message of the server's is longer than [`KEPT`]: what is beyond is dropped as
/// it comes.
pub(super) struct Cutting<S> {
    inner: S,
    read: Box<[u8]>,
    /// What of `read` has not been looked at.
    fresh: std::ops::Range<usize>,
    /// Of a frame's head, to be passed on.
    head: Vec<u8>,
    at: At,
    /// Bytes of the message that have come.
    message: u64,
}

#[derive(Debug, Clone, Copy)]
enum At {
    /// In the answer to the handshake, of which these came last.
    Handshake([u8; 4]),
    /// In the head of a frame.
    Head,
    /// The head is whole, then so many bytes are passed on and so many dropped.
    Body { kept: u64, dropped: u64 },
}

impl<S> Cutting<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            read: vec![0; READ].into(),
            fresh: 0..0,
            head: Vec::new(),
            at: At::Handshake([0; 4]),
            message: 0,
        }
    }

    /// Looks at what has come, and passes on what fits.
    fn step(&mut self, out: &mut ReadBuf<'_>) {
        while out.remaining() > 0 {
            match self.at {
                At::Body { .. } if !self.head.is_empty() => {
                    let fits = self.head.len().min(out.remaining());
                    out.put_slice(&self.head[..fits]);
                    self.head.drain(..fits);
                }
                At::Body {
                    kept: 0,
                    dropped: 0,
                } => self.at = At::Head,
                _ if self.fresh.is_empty() => return,
                At::Handshake(last) => {
                    let byte = self.read[self.fresh.start];
                    self.fresh.start += 1;
                    out.put_slice(&[byte]);
                    let last = [last[1], last[2], last[3], byte];
                    self.at = match last {
                        HEAD_END => At::Head,
                        _ => At::Handshake(last),
                    };
                }
                At::Head => {
                    self.head.push(self.read[self.fresh.start]);
                    self.fresh.start += 1;
                    if let Some(length) = length(&self.head) {
                        self.begin(length);
                    }
                }
                At::Body { kept: 0, dropped } => {
                    let here = within(dropped, self.fresh.len());
                    self.fresh.start += here;
                    self.at = At::Body {
                        kept: 0,
                        dropped: dropped - here as u64,
                    };
                }
                At::Body { kept, dropped } => {
                    let here = within(kept, self.fresh.len().min(out.remaining()));
                    let from = self.fresh.start;
                    out.put_slice(&self.read[from..from + here]);
                    self.fresh.start += here;
                    self.at = At::Body {
                        kept: kept - here as u64,
                        dropped,
                    };
                }
            }
        }
    }

    /// The head of a frame is whole: says what of its body is passed on, and makes the head say so.
    fn begin(&mut self, length: u64) {
        let opcode = self.head[0] & 0x0f;
        // Control frames are short, and stand between those of a message. A server's frames have no mask: what has one is
        // refused by whoever reads on.
        if opcode >= 8 || self.head[1] & 0x80 != 0 {
            self.at = At::Body {
                kept: length,
                dropped: 0,
            };
            return;
        }
        if opcode != 0 {
            self.message = 0;
        }
        let kept = length.min(KEPT.saturating_sub(self.message));
        self.message = self.message.saturating_add(length);
        // Binary where it was text: what is cut may end within a letter.
        let first = if opcode == 1 {
            self.head[0] & 0xf0 | 2
        } else {
            self.head[0]
        };
        self.head = vec![first];
        match (u8::try_from(kept), u16::try_from(kept)) {
            (Ok(short @ ..126), _) => self.head.push(short),
            (_, Ok(longer)) => {
                self.head.push(126);
                self.head.extend(longer.to_be_bytes());
            }
            _ => {
                self.head.push(127);
                self.head.extend(kept.to_be_bytes());
            }
        }
        self.at = At::Body {
            kept,
            dropped: length - kept,
        };
    }
}

fn within(left: u64, here: usize) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(here)
}

/// The length that a frame's head says; `None` while it is not whole.
fn length(head: &[u8]) -> Option<u64> {
    let short = head.get(1)? & 0x7f;
    match short {
        126 => Some(u16::from_be_bytes(head.get(2..4)?.try_into().ok()?).into()),
        127 => Some(u64::from_be_bytes(head.get(2..10)?.try_into().ok()?)),
        short => Some(short.into()),
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Cutting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = out.filled().len();
        loop {
            this.step(out);
            if out.filled().len() > before || out.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut read = ReadBuf::new(&mut this.read);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut read))?;
            this.fresh = 0..read.filled().len();
            if this.fresh.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cutting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
