//! Questions: answered from what is held, else by the host.

use crate::{
    actor::Message,
    api::{Page, Query, QueryResult, RequestPage, ThreadPage},
    commands::outcome_of,
    core::Core,
    error::QueryError,
    shared::{Outstanding, Reading},
    views,
};
use pilothouse_domain::{
    BlobHash, CommandBody, ContentHash, HostId, Position, RequestId, Row, RowKey, ThreadId,
    provider::ProviderSession, row::RowKind,
};
use pilothouse_store::StoreError;
use pilothouse_wire::message::{BLOB_CHUNK, Base64, Query as WireQuery, QueryResult as WireResult};
use std::{sync::mpsc, time::Duration};

/// How long a host's answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it is waited for where the host may have to start an agent first.
const STARTING: Duration = Duration::from_secs(60);
/// Bytes of a stored text that one question gives at most; what is longer is asked for in pages.
const BODY_BYTES: u32 = 4 * 1024 * 1024;

impl Core {
    /// Answers a question. What is held is answered at once, also offline; the rest waits for the host, at most 10 s, and
    /// 60 s where that may have to start an agent: call it from a thread that may wait.
    ///
    /// # Errors
    /// [`QueryError`], with whether and when to try again.
    pub fn query(&self, query: Query) -> QueryResult {
        match query {
            Query::Threads {
                filter,
                after,
                limit,
            } => Ok(Page::Threads(self.read(|reads| {
                views::threads::page(reads, filter, after, limit)
            })?)),
            Query::ThreadsNamed { beginning, limit } => {
                let Some((first, last)) = ids_beginning(&beginning) else {
                    return Ok(Page::Threads(ThreadPage::default()));
                };
                Ok(Page::Threads(self.read(|reads| {
                    views::threads::between(reads, first, last, limit)
                })?))
            }
            Query::OlderItems {
                host,
                thread,
                before,
                max_bytes,
            } => self.older_items(host, thread, before, max_bytes),
            Query::Request {
                host,
                thread,
                request,
            } => self.request(host, thread, request),
            Query::Body {
                host,
                hash,
                offset,
                len,
            } => self.body(host, hash, offset, len),
            Query::Digest { host, thread } => {
                let found = self.read(|reads| reads.state(thread))?;
                match found.filter(|(held_by, _)| *held_by == host) {
                    Some((_, snapshot)) => Ok(Page::Digest {
                        digest: snapshot.state.digest(&snapshot.cursor),
                        cursor: snapshot.cursor,
                    }),
                    None => Err(QueryError::UnknownThread { host, thread }),
                }
            }
            Query::Models { host, thread } => {
                let session = self.session_of(host, thread)?;
                Ok(Page::Models(
                    session.map(|session| session.models).unwrap_or_default(),
                ))
            }
            Query::Commands { host, thread } => {
                let session = self.session_of(host, thread)?;
                Ok(Page::Commands(
                    session.map(|session| session.commands).unwrap_or_default(),
                ))
            }
            Query::Conversations {
                host,
                agent,
                workspace,
                after,
            } => {
                let asked = WireQuery::Conversations {
                    agent,
                    workspace,
                    cursor: after,
                };
                match self.ask_host_within(host, asked, STARTING)? {
                    WireResult::Conversations {
                        conversations,
                        next,
                    } => Ok(Page::Conversations {
                        conversations,
                        next,
                    }),
                    _ => Err(unfitting()),
                }
            }
            Query::Files {
                host,
                agent,
                workspace,
                text,
            } => {
                let asked = WireQuery::Files {
                    agent,
                    workspace,
                    text,
                };
                match self.ask_host_within(host, asked, STARTING)? {
                    WireResult::Files { files } => Ok(Page::Files(files)),
                    _ => Err(unfitting()),
                }
            }
            Query::Outcome { command } => {
                let (entry, outstanding) = self
                    .read(|reads| Ok((reads.outbox_entry(command)?, reads.outstanding(None)?)))?;
                let delivery = outstanding
                    .iter()
                    .find(|held| held.command.id == command)
                    .map(views::delivery::row_of);
                let outcome = entry.and_then(|entry| outcome_of(&entry.delivery));
                if delivery.is_none() && outcome.is_none() {
                    return Err(QueryError::NotFound {
                        what: format!("command {command}"),
                    });
                }
                Ok(Page::Outcome { delivery, outcome })
            }
        }
    }

    /// The session that serves a thread, or did last, as it is held.
    fn session_of(
        &self,
        host: HostId,
        thread: ThreadId,
    ) -> Result<Option<ProviderSession>, QueryError> {
        let found = self.read(|reads| {
            let Some((held_by, snapshot)) = reads.state(thread)? else {
                return Ok(None);
            };
            let session = snapshot.state.session.map(|session| session.id);
            let row = match session.map(|id| RowKind::Session.key(id.as_bytes())) {
                Some(key) => reads.row(thread, key)?,
                None => None,
            };
            Ok(Some((held_by, row)))
        })?;
        match found.filter(|(held_by, _)| *held_by == host) {
            Some((_, Some(Row::Session(session)))) => Ok(Some(session)),
            Some(_) => Ok(None),
            None => Err(QueryError::UnknownThread { host, thread }),
        }
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Reading<'_>) -> Result<T, StoreError>,
    ) -> Result<T, QueryError> {
        self.shared()
            .ask(work)
            .map_err(|error| QueryError::Database {
                why: error.to_string(),
            })?
            .ok_or(QueryError::Closed)
    }

    fn older_items(
        &self,
        host: HostId,
        thread: ThreadId,
        before: Position,
        max_bytes: u32,
    ) -> QueryResult {
        let held =
            self.read(|reads| reads.items_before(thread, Some(before), max_bytes as usize))?;
        let rows = views::timeline::page_rows(&held.rows);
        let first = rows.first().and_then(|row| row.position);
        let complete = first.is_some_and(|position| position.arrival <= 1);
        if !rows.is_empty() && (held.more || complete) {
            return Ok(Page::Items {
                older: !complete,
                rows,
            });
        }
        // What is held ends here: the host knows the rest.
        let answer = self.ask_host(
            host,
            WireQuery::OlderItems {
                thread,
                before,
                max_bytes,
            },
        );
        match answer {
            Ok(WireResult::OlderItems(page)) => {
                let _ = self.shared().actor.send(Message::Older {
                    host,
                    thread,
                    rows: page.rows.clone(),
                });
                Ok(Page::Items {
                    rows: views::timeline::page_rows(&page.rows),
                    older: page.older,
                })
            }
            Ok(_) => Err(unfitting()),
            // Better some than none.
            Err(_) if !rows.is_empty() => Ok(Page::Items { rows, older: true }),
            Err(error) => Err(error),
        }
    }

    /// A stored text from a place on, part by part: the next one is asked for when one has come, so that what is
    /// urgent waits for one part at most.
    fn body(&self, host: HostId, hash: BlobHash, offset: u64, len: u32) -> QueryResult {
        let len = len.min(BODY_BYTES) as usize;
        let mut bytes = Vec::new();
        loop {
            let asked = (len - bytes.len()).min(BLOB_CHUNK as usize);
            let at = offset.saturating_add(bytes.len() as u64);
            let part = WireQuery::Blob {
                hash,
                offset: at,
                len: u32::try_from(asked).unwrap_or(BLOB_CHUNK),
            };
            let WireResult::Blob(chunk) = self.ask_host(host, part)? else {
                return Err(unfitting());
            };
            let data = chunk.data.0;
            let left = usize::try_from(chunk.total.saturating_sub(at)).unwrap_or(usize::MAX);
            if (chunk.hash, chunk.offset) != (hash, at) || data.len() > asked.min(left) {
                return Err(unfitting());
            }
            let came = data.len();
            bytes.extend(data);
            if came > 0 && bytes.len() < len && came < left {
                continue;
            }
            let whole = offset == 0 && bytes.len() as u64 == chunk.total;
            if whole && BlobHash::of(&bytes) != hash {
                return Err(QueryError::NotFound {
                    what: format!("a text that fits its address {hash}"),
                });
            }
            return Ok(Page::Body {
                offset,
                total: chunk.total,
                bytes,
            });
        }
    }

    /// Brings a file to a host, so that a message can name it; gives its address. Waits for the host, at most 10 s for each
    /// part of 256 KiB: call it from a thread that may wait. A file that is there already is not sent again.
    ///
    /// # Errors
    /// [`QueryError`], with whether and when to try again.
    pub fn upload(&self, host: HostId, bytes: &[u8]) -> Result<BlobHash, QueryError> {
        let (hash, total) = (BlobHash::of(bytes), bytes.len() as u64);
        let mut at = 0;
        // Each round brings it further, or it is given up: a host that always says the same would be asked for ever.
        for _ in 0..=bytes.len() / BLOB_CHUNK as usize + 1 {
            let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            let to = from.saturating_add(BLOB_CHUNK as usize).min(bytes.len());
            let part = WireQuery::PutBlob {
                hash,
                offset: at,
                total,
                data: Base64(bytes[from..to].to_vec()),
            };
            match self.ask_host(host, part)? {
                WireResult::PutBlob { complete: true, .. } => return Ok(hash),
                WireResult::PutBlob { have, .. } if have <= total => at = have,
                _ => return Err(unfitting()),
            }
        }
        Err(unfitting())
    }

    fn request(&self, host: HostId, thread: Option<ThreadId>, request: RequestId) -> QueryResult {
        let key: RowKey = RowKind::Request.key(request.as_bytes());
        let found = self.read(|reads| {
            let open = reads.open_request(host, request)?;
            let stored = match thread {
                Some(thread) => reads.row(thread, key)?.map(|row| (thread, row)),
                None => reads.row_anywhere(host, key)?,
            };
            let stored = stored.and_then(|(thread, row)| match row {
                Row::Request(row) => Some((thread, *row)),
                _ => None,
            });
            let open = open.map(|entry| (entry.thread, *entry.request));
            // The thread's log and the host's list come one after the other: an end, once known, is not taken back.
            let ended = stored
                .as_ref()
                .is_some_and(|(_, row)| !row.status.is_open());
            let best = if ended {
                stored.or(open)
            } else {
                open.or(stored)
            };
            Ok(best.map(|found| reads.outstanding(None).map(|out| (found, out))))
        })?;
        let Some(found) = found else {
            return Err(QueryError::NotFound {
                what: format!("request {request}"),
            });
        };
        let ((thread, row), outstanding) = found.map_err(|error| QueryError::Database {
            why: error.to_string(),
        })?;
        Ok(Page::Request(Box::new(RequestPage {
            verified: views::inbox::is_verified(&row),
            computed_hash: ContentHash::of(&row.subject),
            sending: sending(&outstanding, request),
            thread,
            request: row,
        })))
    }

    fn ask_host(&self, host: HostId, query: WireQuery) -> Result<WireResult, QueryError> {
        self.ask_host_within(host, query, PATIENCE)
    }

    fn ask_host_within(
        &self,
        host: HostId,
        query: WireQuery,
        patience: Duration,
    ) -> Result<WireResult, QueryError> {
        if self.read(|reads| reads.host(host))?.is_none() {
            return Err(QueryError::UnknownHost { host });
        }
        let (reply, answer) = mpsc::channel();
        self.shared()
            .actor
            .send(Message::Ask {
                host,
                query,
                reply: Box::new(move |result| {
                    let _ = reply.send(result);
                }),
            })
            .map_err(|_| QueryError::Closed)?;
        match answer.recv_timeout(patience) {
            Ok(result) => result,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(QueryError::Timeout {
                seconds: patience.as_secs(),
            }),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(QueryError::Closed),
        }
    }
}

/// The first and the last id that begin so; `None` if none can.
fn ids_beginning(beginning: &str) -> Option<(ThreadId, ThreadId)> {
    // Ids are written so that their order is that of their bytes, `0` the least digit and `z` the greatest; of the
    // first digit, which holds three bits only, `7` is.
    const DIGITS: usize = 26;
    let beginning = beginning.trim();
    if beginning.len() > DIGITS || !beginning.is_ascii() {
        return None;
    }
    let greatest = if beginning.is_empty() { "7" } else { beginning };
    let first = format!("{beginning:0<DIGITS$}").parse().ok()?;
    let last = format!("{greatest:z<DIGITS$}").parse().ok()?;
    Some((first, last))
}

fn sending(
    outstanding: &[Outstanding],
    request: RequestId,
) -> Option<pilothouse_domain::CommandId> {
    outstanding
        .iter()
        .filter(|held| held.is_on_its_way())
        .find(|held| {
            matches!(&held.command.body, CommandBody::RequestAnswer { request: r, .. } if *r == request)
        })
        .map(|held| held.command.id)
}

fn unfitting() -> QueryError {
    QueryError::NotFound {
        what: "a fitting answer of the host".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::ids_beginning;
    use pilothouse_domain::ThreadId;

    #[test]
    fn ids_that_begin_so_lie_between_the_two() {
        for n in 0..200u8 {
            let id = ThreadId::from_bytes([n.wrapping_mul(37); 16]);
            let text = id.to_string();
            for length in 0..=26 {
                let (first, last) = ids_beginning(&text[..length]).unwrap();
                assert!(first <= id && id <= last);
                for bound in [first, last] {
                    assert!(bound.to_string().starts_with(&text[..length]));
                }
                if length == 26 {
                    assert_eq!((first, last), (id, id));
                }
            }
        }
        for none in ["z", "u", "ö", "0123456789abcdefghjkmnpqrst"] {
            assert_eq!(ids_beginning(none), None, "{none}");
        }
    }
}
