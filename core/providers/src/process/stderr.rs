//! What an agent writes to stderr: always drained, the last of it kept.

use super::{Redactor, lock};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{io::AsyncReadExt as _, process::ChildStderr, sync::watch};

/// Bytes of stderr that are kept.
pub const STDERR_RING: usize = 64 * 1024;

/// The last of what an agent wrote to stderr.
#[derive(Debug)]
pub struct StderrRing {
    ring: Mutex<Ring>,
    redactor: Redactor,
    ended: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Ring {
    bytes: VecDeque<u8>,
    total: u64,
}

impl StderrRing {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            ring: Mutex::new(Ring::default()),
            redactor,
            ended: watch::Sender::new(false),
        }
    }

    /// No more comes.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    pub(super) fn push(&self, part: &[u8]) {
        let mut ring = lock(&self.ring);
        ring.total += part.len() as u64;
        let part = &part[part.len().saturating_sub(STDERR_RING)..];
        let over = (ring.bytes.len() + part.len()).saturating_sub(STDERR_RING);
        ring.bytes.drain(..over);
        ring.bytes.extend(part);
    }

    /// Bytes written so far, those that were dropped included.
    pub fn total(&self) -> u64 {
        lock(&self.ring).total
    }

    /// Bytes kept at the moment, at most [`STDERR_RING`].
    pub fn kept(&self) -> usize {
        lock(&self.ring).bytes.len()
    }

    /// Waits until all of it was read, at most so long: a grandchild may hold it open.
    pub async fn finished(&self, within: Duration) {
        let mut ended = self.ended.subscribe();
        let _ = tokio::time::timeout(within, ended.wait_for(|ended| *ended)).await;
    }

    /// The last `limit` bytes or fewer, without secrets. The beginning of the ring may be half a secret, so where bytes were
    /// dropped its first line is left out.
    pub fn tail(&self, limit: usize) -> String {
        let (text, cut) = {
            let ring = lock(&self.ring);
            let bytes: Vec<u8> = ring.bytes.iter().copied().collect();
            (
                String::from_utf8_lossy(&bytes).into_owned(),
                ring.total > ring.bytes.len() as u64,
            )
        };
        let whole = match (cut, text.find('\n')) {
            (true, Some(end)) => &text[end + 1..],
            // One endless line: far more than a secret is left out.
            (true, None) => &text[text.ceil_char_boundary(text.len().min(4096))..],
            (false, _) => &text,
        };
        let redacted = self.redactor.redact(whole.trim_end());
        redacted[redacted.ceil_char_boundary(redacted.len().saturating_sub(limit))..].to_owned()
    }

    /// Takes the secrets out of other text of the same agent.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.redact(text)
    }
}

/// Reads stderr to its end.
pub(super) fn drain(mut stderr: ChildStderr, ring: Arc<StderrRing>) {
    tokio::spawn(async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
            ring.push(&buffer[..length]);
        }
        ring.end();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_end_and_never_half_a_line_of_its_beginning() {
        let ring = StderrRing::new(Redactor::default());
        for n in 0..20_000 {
            ring.push(format!("line {n}\n").as_bytes());
        }
        assert_eq!(ring.kept(), STDERR_RING);
        assert!(ring.tail(usize::MAX).starts_with("line "));
        assert_eq!(ring.tail(10), "line 19999");
        assert!(ring.total() > STDERR_RING as u64);
    }
}
