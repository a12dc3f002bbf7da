//! Subscriptions: a task each, from the ledger into the connection's queue.
//!
//! While the queue is full nothing is taken from the ledger, whose own side then drops live text and keeps entries.

use crate::{
    Served,
    earlier::Words,
    fit,
    outgoing::{OutQueue, QueueError},
};
use pilothouse_domain::{
    Cursor, Refusal, ThreadId,
    feed::{FeedCursor, ThreadUpdate},
};
use pilothouse_ledger::LedgerError;
use pilothouse_wire::message::{
    EncodeError, ErrorAbout, ErrorCode, HostMessage, SubId, WireError, entries_in_pages,
    feed_in_pages, subscribed_in_pages,
};
use std::sync::Arc;

/// Bytes of rows that come with a snapshot at most, whatever a device asks for.
const TAIL_BYTES: u32 = 256 * 1024;

/// Why following ended.
enum Stop {
    /// The connection or the ledger has ended: nobody is to be told.
    Silently,
    /// To be told.
    Problem(ErrorCode, String, &'static str),
}

impl From<QueueError> for Stop {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Ended => Self::Silently,
            QueueError::Encode(error) => error.into(),
        }
    }
}

impl From<EncodeError> for Stop {
    fn from(error: EncodeError) -> Self {
        Self::Problem(
            ErrorCode::Failed,
            error.to_string(),
            "update the host, or report this",
        )
    }
}

impl From<LedgerError> for Stop {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Closed => Self::Silently,
            other => Self::Problem(
                ErrorCode::Failed,
                other.to_string(),
                "look at the host: run `pilothouse doctor`",
            ),
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::UnknownThread { .. } => ErrorCode::NotFound,
            _ => ErrorCode::Failed,
        };
        Self::Problem(code, refusal.to_string(), refusal.next_step())
    }
}

async fn tell(queue: &OutQueue, sub: SubId, result: Result<(), Stop>) {
    if let Err(Stop::Problem(code, message, next_step)) = result {
        let about = ErrorAbout::Sub { sub };
        let error = WireError {
            about,
            code,
            message,
            next_step: next_step.to_owned(),
        };
        let _ = queue.send(&HostMessage::Error(error)).await;
    }
}

/// Follows a thread until the connection ends or the device unsubscribes.
pub(crate) async fn thread(
    host: Arc<Served>,
    queue: OutQueue,
    words: Words,
    sub: SubId,
    thread: ThreadId,
    cursor: Option<Cursor>,
    tail_bytes: u32,
) {
    let result = follow_thread(
        &host,
        &queue,
        words,
        sub,
        thread,
        cursor,
        tail_bytes.min(TAIL_BYTES),
    )
    .await;
    tell(&queue, sub, result).await;
}

async fn follow_thread(
    host: &Served,
    queue: &OutQueue,
    words: Words,
    sub: SubId,
    thread: ThreadId,
    cursor: Option<Cursor>,
    tail_bytes: u32,
) -> Result<(), Stop> {
    let mut subscription = host
        .ledger
        .subscribe(thread, cursor, tail_bytes as usize)
        .await?;
    let mut answer = subscription.answer.clone();
    fit::shorten(&mut answer.open_items);
    words.subscribed(&mut answer);
    for part in subscribed_in_pages(sub, thread, answer)? {
        queue.send(&part).await?;
    }
    while let Some(update) = subscription.next().await? {
        match update {
            ThreadUpdate::Entries(mut entries) => {
                words.entries(&mut entries);
                for part in entries_in_pages(sub, entries)? {
                    queue.send(&part).await?;
                }
            }
            ThreadUpdate::Live(live) => {
                if !queue.offer_live(&HostMessage::Live { thread, live }) {
                    return Err(Stop::Silently);
                }
            }
        }
    }
    Ok(())
}

/// Follows the summaries until the connection ends or the device unsubscribes.
pub(crate) async fn feed(
    host: Arc<Served>,
    queue: OutQueue,
    words: Words,
    sub: SubId,
    cursor: Option<FeedCursor>,
) {
    let result = follow_feed(&host, &queue, words, sub, cursor).await;
    tell(&queue, sub, result).await;
}

async fn follow_feed(
    host: &Served,
    queue: &OutQueue,
    words: Words,
    sub: SubId,
    cursor: Option<FeedCursor>,
) -> Result<(), Stop> {
    let mut feed = host.ledger.feed(cursor).await?;
    while let Some(mut update) = feed.next().await? {
        fit::leave_out_what_cannot_fit(&mut update);
        words.feed(&mut update);
        for part in feed_in_pages(sub, update)? {
            queue.send(&part).await?;
        }
    }
    Ok(())
}
