//! One connection's way out: a queue bounded in bytes, and the task that writes it.
//!
//! Entries and answers wait for room, so nothing of them is lost and whoever makes them slows down. Live text does not
//! wait: from half full on it is dropped, and heals at its item's close. Parts of stored texts wait in a line of their
//! own, one at a time, and go out only when nothing else waits: a device that fetches a large body hears of a request
//! one part later at most. A device that takes nothing for [`Patience::stall`] is given up; it comes back and catches
//! up.

use pilothouse_wire::{
    duplex::{DuplexError, Frame},
    message::{BLOB_CHUNK, ByeReason, EncodeError, HostMessage, Outgoing, encode_as},
    opening::say_bye,
    stream::Encoding,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

/// Bytes that may wait in a connection's queue: half a MiB.
const QUEUE_BYTES: u32 = 512 * 1024;
/// Bytes of stored texts that may wait beside them: one part.
const BLOB_BYTES: u32 = BLOB_CHUNK;
/// Time for the last words of a connection, and for the frame before them.
const FAREWELL: Duration = Duration::from_millis(800);

/// How long a slow device is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Time for one frame to be taken.
    pub stall: Duration,
}

/// Why a message was not queued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueueError {
    /// The connection has ended.
    #[error("the connection has ended")]
    Ended,
    /// It is no frame, mostly because it is too large.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Why the writing stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    /// It was finished from here.
    Finished,
    /// The device took nothing for too long.
    Stalled,
    /// The connection broke.
    Broken(DuplexError),
}

struct Queued {
    frame: Frame,
    _room: OwnedSemaphorePermit,
}

/// Where messages to a device are put. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OutQueue {
    messages: Lane,
    blobs: Lane,
    encoding: Option<Encoding>,
}

/// One line of frames, bounded in bytes. Cheap to clone.
#[derive(Clone)]
struct Lane {
    frames: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    bytes: u32,
}

/// The writing task of a connection.
pub(crate) struct Writing {
    finish: oneshot::Sender<ByeReason>,
    task: JoinHandle<WriteEnd>,
}

impl Lane {
    fn new(bytes: u32) -> (Self, mpsc::UnboundedReceiver<Queued>) {
        let (frames, queued) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(bytes as usize));
        (
            Self {
                frames,
                room,
                bytes,
            },
            queued,
        )
    }

    /// What a frame counts: never more than the whole line, so that a frame of 1 MiB passes alone.
    fn count(&self, frame: &Frame) -> u32 {
        u32::try_from(frame.len())
            .unwrap_or(self.bytes)
            .clamp(1, self.bytes)
    }

    async fn send(&self, frame: Frame) -> Result<(), QueueError> {
        let room = self.room.clone().acquire_many_owned(self.count(&frame));
        let room = room.await.map_err(|_| QueueError::Ended)?;
        self.frames
            .send(Queued { frame, _room: room })
            .map_err(|_| QueueError::Ended)
    }

    /// Queues if there is room now. Returns whether the connection lives.
    fn offer(&self, frame: Frame) -> bool {
        match self.room.clone().try_acquire_many_owned(self.count(&frame)) {
            Ok(room) => self.frames.send(Queued { frame, _room: room }).is_ok(),
            Err(_) => true,
        }
    }
}

impl OutQueue {
    /// Starts writing to `outgoing`.
    pub(crate) fn start(outgoing: Outgoing<HostMessage>, patience: Patience) -> (Self, Writing) {
        let (messages, queued) = Lane::new(QUEUE_BYTES);
        let (blobs, queued_blobs) = Lane::new(BLOB_BYTES);
        let (finish, finished) = oneshot::channel();
        let queue = Self {
            messages,
            blobs,
            encoding: outgoing.encoding(),
        };
        let rooms = [queue.messages.room.clone(), queue.blobs.room.clone()];
        let work = async move {
            let end = write(
                outgoing,
                queued,
                queued_blobs,
                finished,
                patience,
                &rooms[..],
            )
            .await;
            for room in rooms {
                room.close();
            }
            end
        };
        let task = tokio::spawn(work);
        (queue, Writing { finish, task })
    }

    /// Queues a message, waiting for room.
    pub(crate) async fn send(&self, message: &HostMessage) -> Result<(), QueueError> {
        let frame = encode_as(message, self.encoding)?;
        match frame {
            Frame::Text(_) => self.messages.send(frame).await,
            Frame::Binary(_) => self.blobs.send(frame).await,
        }
    }

    /// Queues live text if there is much room, and drops it otherwise. Returns whether the connection lives.
    pub(crate) fn offer_live(&self, message: &HostMessage) -> bool {
        let Lane { frames, room, .. } = &self.messages;
        if frames.is_closed() || room.is_closed() {
            return false;
        }
        if room.available_permits() < QUEUE_BYTES as usize / 2 {
            return true;
        }
        match encode_as(message, self.encoding) {
            Ok(frame) => self.messages.offer(frame),
            Err(_) => true,
        }
    }
}

impl Writing {
    /// Waits until the writing ends by itself. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> WriteEnd {
        match (&mut self.task).await {
            Ok(end) => end,
            Err(_) => WriteEnd::Finished,
        }
    }

    /// Says why and closes, at once: what still waits in the queue is dropped, the device catches up by its cursor.
    pub(crate) async fn finish(mut self, reason: ByeReason) {
        let _ = self.finish.send(reason);
        if timeout(FAREWELL, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }

    /// Ends without a word.
    pub(crate) fn abandon(self) {
        self.task.abort();
    }
}

async fn write(
    mut outgoing: Outgoing<HostMessage>,
    mut queued: mpsc::UnboundedReceiver<Queued>,
    mut blobs: mpsc::UnboundedReceiver<Queued>,
    mut finished: oneshot::Receiver<ByeReason>,
    patience: Patience,
    rooms: &[Arc<Semaphore>],
) -> WriteEnd {
    loop {
        let next = tokio::select! {
            biased;
            reason = &mut finished => {
                for room in rooms {
                    room.close();
                }
                if let Ok(reason) = reason {
                    say_bye(&mut outgoing, reason).await;
                }
                return WriteEnd::Finished;
            }
            next = queued.recv() => next,
            Some(blob) = blobs.recv() => Some(blob),
        };
        let Some(Queued { frame, _room }) = next else {
            return WriteEnd::Finished;
        };
        match timeout(patience.stall, outgoing.frames().send(frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return WriteEnd::Broken(error),
            Err(_) => return WriteEnd::Stalled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilothouse_domain::{BlobHash, ItemId, ThreadId, row::LiveText};
    use pilothouse_wire::{
        duplex::{Duplex, FrameReceiver, MemoryDuplex, memory_pair},
        message::{Base64, BlobChunk, Incoming, QueryAnswer, QueryResult, decode},
    };

    fn start(patience: Patience) -> (OutQueue, Writing, Box<dyn FrameReceiver>) {
        let (host, device): (MemoryDuplex, MemoryDuplex) = memory_pair(1);
        let (sender, _receiver) = Box::new(host).split();
        let (_sender, receiver) = Box::new(device).split();
        let (queue, writing) = OutQueue::start(Outgoing::new(sender), patience);
        (queue, writing, receiver)
    }

    fn pong(nonce: u64) -> HostMessage {
        HostMessage::Pong {
            nonce,
            host_time_ms: 0,
        }
    }

    fn live(offset: u64) -> HostMessage {
        let text = "x".repeat(20_000);
        HostMessage::Live {
            thread: ThreadId::default(),
            live: LiveText {
                item: ItemId::default(),
                offset,
                text,
            },
        }
    }

    async fn next(receiver: &mut Box<dyn FrameReceiver>) -> HostMessage {
        decode(&receiver.receive().await.unwrap()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_loses_live_text_first_and_never_anything_else() {
        let (queue, _writing, mut receiver) = start(Patience {
            stall: Duration::from_secs(30),
        });
        for offset in 0..100 {
            assert!(queue.offer_live(&live(offset)));
        }
        let sender = tokio::spawn({
            let queue = queue.clone();
            async move {
                for nonce in 0..50_000 {
                    queue.send(&pong(nonce)).await.unwrap();
                }
            }
        });
        let (mut lives, mut pongs) = (0, 0);
        while pongs < 50_000 {
            match next(&mut receiver).await {
                HostMessage::Pong { nonce, .. } => {
                    assert_eq!(nonce, pongs, "answers stay in order");
                    pongs += 1;
                }
                HostMessage::Live { .. } => lives += 1,
                other => panic!("{other:?}"),
            }
        }
        sender.await.unwrap();
        assert!(
            (1..30).contains(&lives),
            "{lives} of 100 pieces of live text came through half the queue"
        );
    }

    fn part(id: u32) -> HostMessage {
        let chunk = BlobChunk {
            hash: BlobHash::of(b""),
            offset: 0,
            total: BLOB_CHUNK.into(),
            data: Base64(vec![7; BLOB_CHUNK as usize]),
        };
        HostMessage::Result {
            id,
            answer: QueryAnswer::Result(QueryResult::Blob(chunk)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn parts_of_stored_texts_hold_nothing_else_up_by_more_than_one() {
        let (host, device): (MemoryDuplex, MemoryDuplex) = memory_pair(1);
        let outgoing = Outgoing::new(Box::new(host).split().0).encoded(Some(Encoding::Deflate));
        let incoming = Incoming::<HostMessage>::new(Box::new(device).split().1);
        let mut incoming = incoming.encoded(Some(Encoding::Deflate));
        let patience = Patience {
            stall: Duration::from_secs(30),
        };
        let (queue, _writing) = OutQueue::start(outgoing, patience);
        let mut sending = tokio::task::JoinSet::new();
        for id in 0..20 {
            let queue = queue.clone();
            sending.spawn(async move { queue.send(&part(id)).await });
        }
        // The line is full of parts, and nobody reads.
        tokio::time::sleep(Duration::from_millis(10)).await;
        for nonce in 0..100 {
            queue.send(&pong(nonce)).await.unwrap();
            assert!(
                queue.offer_live(&live(nonce)),
                "there is room for live text"
            );
        }
        let (mut parts, mut lives) = (Vec::new(), 0);
        let mut before_last_pong = 0;
        while parts.len() < 20 {
            match incoming.receive().await.unwrap() {
                HostMessage::Pong { .. } => before_last_pong = parts.len(),
                HostMessage::Live { .. } => lives += 1,
                HostMessage::Result { id, answer } => {
                    let whole = HostMessage::Result { id, answer };
                    assert_eq!(whole, part(id));
                    parts.push(id);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(before_last_pong <= 2, "{before_last_pong} parts went first");
        assert!(lives > 10, "parts take no room from live text: {lives}");
        parts.sort_unstable();
        assert_eq!(parts, (0..20).collect::<Vec<_>>(), "none is lost");
        while sending.join_next().await.is_some() {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_device_that_takes_nothing_is_given_up_after_the_limit() {
        let (queue, mut writing, _receiver) = start(Patience {
            stall: Duration::from_secs(30),
        });
        let filling = tokio::spawn(async move {
            loop {
                if queue.send(&pong(1)).await.is_err() {
                    return;
                }
            }
        });
        let started = tokio::time::Instant::now();
        assert_eq!(writing.ended().await, WriteEnd::Stalled);
        assert!(started.elapsed() >= Duration::from_secs(30));
        filling.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_farewell_does_not_wait_for_what_is_queued() {
        let (queue, writing, mut receiver) = start(Patience {
            stall: Duration::from_secs(30),
        });
        for nonce in 0..100 {
            queue.send(&pong(nonce)).await.unwrap();
        }
        let reading = tokio::spawn(async move {
            let mut before = 0;
            loop {
                match next(&mut receiver).await {
                    HostMessage::Bye { reason } => return (before, reason),
                    _ => before += 1,
                }
            }
        });
        writing.finish(ByeReason::Revoked).await;
        let (before, reason) = reading.await.unwrap();
        assert_eq!(reason, ByeReason::Revoked);
        assert!(before < 5, "{before} messages came before the farewell");
        assert!(queue.send(&pong(0)).await.is_err());
        assert!(!queue.offer_live(&live(0)));
    }
}
