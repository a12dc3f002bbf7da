//! What the feeds of hosts say: the lines of their threads, and the inbox.

use super::{ReplicaReads, ReplicaTx, listed};
use crate::{
    codec::{from_json, int, nat, to_json},
    error::Result,
    rows,
};
use pilothouse_domain::{
    AgentName, Epoch, HostId, RequestId, RuntimeRequest, ThreadId, ThreadSummary,
    event::HoldReason,
    feed::{FeedCursor, FeedUpdate},
    row::{InboxEntry, WaitingCounts},
};
use std::collections::BTreeMap;

/// The setting that names the version of the program that kept the lists.
const LISTS_READ_BY: &str = "lists_read_by";

/// What a step of a feed has changed, beside the lines of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeedApplied {
    /// A run of a known thread ended.
    pub ended: bool,
    /// What waits for a person is not what it was.
    pub inbox: bool,
    /// A thread with open requests has another line.
    pub asking: bool,
    /// A thread waits for the sign-in of its agent now, or does no more.
    pub signed_out: bool,
}

/// An agent whose sign-in was refused: all that waits for it, as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedOut {
    /// The agent.
    pub agent: AgentName,
    /// Threads that wait, at least 1.
    pub threads: u64,
    /// One of them: the one that changed last of those that have something to say, or of all if none has.
    pub thread: ThreadId,
    /// The open request that asks for the sign-in, if there is one.
    pub request: Option<RequestId>,
    /// Why the last sign-in that was begun in that thread came to nothing.
    pub problem: Option<String>,
}

impl ReplicaTx<'_> {
    /// Applies a step of a host's feed: after a reset all that was known goes first; each thread's line and all its open
    /// requests replace what was known of it. `place` is the place up to which the feed is complete with this step, if
    /// this step completes one (a long update comes in parts).
    ///
    /// # Errors
    /// Any of the file.
    pub fn apply_feed(
        &self,
        host: HostId,
        update: &FeedUpdate,
        place: Option<FeedCursor>,
    ) -> Result<FeedApplied> {
        let mut applied = FeedApplied {
            inbox: update.reset,
            ..FeedApplied::default()
        };
        if update.reset {
            self.clear_feed(host)?;
        }
        for thread in &update.removed {
            self.remove_summary(host, *thread)?;
            self.forget_thread(*thread)?;
            for known in self.requests_of(host, *thread)?.into_keys() {
                self.remove_request(host, known)?;
                applied.inbox = true;
            }
        }
        for changed in &update.threads {
            let thread = changed.summary.thread;
            let before = self.summary(host, thread)?;
            applied.signed_out |= before.as_ref().map(waits_for_sign_in).unwrap_or_default()
                != waits_for_sign_in(&changed.summary);
            applied.ended |=
                before.is_some_and(|before| before.last_run != changed.summary.last_run);
            applied.asking |= !changed.requests.is_empty();
            self.put_summary(host, &changed.summary)?;
            let mut known = self.requests_of(host, thread)?;
            for request in &changed.requests {
                let json = to_json(request);
                if known.remove(&request.id).is_none_or(|known| known != json) {
                    self.put_request_as(host, thread, request, &json)?;
                    applied.inbox = true;
                }
            }
            for gone in known.into_keys() {
                self.remove_request(host, gone)?;
                applied.inbox = true;
            }
        }
        if let Some(place) = place {
            self.put_feed_cursor(host, place)?;
        }
        Ok(applied)
    }

    /// A thread's open requests as they lie in the inbox.
    fn requests_of(&self, host: HostId, thread: ThreadId) -> Result<BTreeMap<RequestId, String>> {
        let known = self.db().all(
            "reading the inbox",
            "SELECT request, json FROM inbox WHERE thread = ?1 AND host = ?2",
            (thread.as_bytes(), host.as_bytes()),
            |row| Ok((RequestId::from_bytes(row.get(0)?), row.get(1)?)),
        )?;
        Ok(known.into_iter().collect())
    }

    /// Notes up to where a host's feed is applied; in the transaction that applies it.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_feed_cursor(&self, host: HostId, cursor: FeedCursor) -> Result<()> {
        self.db().write(
            "keeping a feed's place",
            "UPDATE hosts SET feed_epoch = ?2, feed_revision = ?3 WHERE host = ?1",
            (
                host.as_bytes(),
                cursor.epoch.as_bytes(),
                int(cursor.revision),
            ),
        )?;
        Ok(())
    }

    /// Forgets a host's summaries and open requests: its feed begins anew.
    ///
    /// # Errors
    /// Any of the file.
    pub fn clear_feed(&self, host: HostId) -> Result<()> {
        for sql in [
            "DELETE FROM summaries WHERE host = ?1",
            "DELETE FROM inbox WHERE host = ?1",
            "UPDATE hosts SET feed_epoch = NULL, feed_revision = 0 WHERE host = ?1",
        ] {
            self.db().write("clearing a feed", sql, [host.as_bytes()])?;
        }
        Ok(())
    }

    /// Has the hosts tell their lists anew if another version of the program kept them: what that one could not read, this
    /// one may. What is known stays until then.
    ///
    /// # Errors
    /// Any of the file.
    pub fn lists_are_read_by(&self, program: &str) -> Result<()> {
        if self.setting(LISTS_READ_BY)?.as_deref() == Some(program) {
            return Ok(());
        }
        self.db().write(
            "having the feeds told anew",
            // The epoch stays: a ledger that was restored meanwhile is still noticed.
            "UPDATE hosts SET feed_revision = 0",
            [],
        )?;
        self.put_setting(LISTS_READ_BY, program)
    }

    /// Keeps a thread's line.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_summary(&self, host: HostId, summary: &ThreadSummary) -> Result<()> {
        self.db().write(
            "keeping a summary",
            // No REPLACE: it would pass by the triggers that count.
            "INSERT INTO summaries (host, thread, updated_at_ms, standing, json) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (host, thread) DO UPDATE SET updated_at_ms = excluded.updated_at_ms, \
             standing = excluded.standing, json = excluded.json",
            (
                host.as_bytes(),
                summary.thread.as_bytes(),
                int(summary.updated_at_ms),
                listed::number(summary.standing()),
                to_json(summary),
            ),
        )?;
        Ok(())
    }

    /// Forgets a thread's line.
    ///
    /// # Errors
    /// Any of the file.
    pub fn remove_summary(&self, host: HostId, thread: ThreadId) -> Result<()> {
        self.db().write(
            "forgetting a summary",
            "DELETE FROM summaries WHERE host = ?1 AND thread = ?2",
            (host.as_bytes(), thread.as_bytes()),
        )?;
        Ok(())
    }

    /// Keeps a request in the host's inbox as long as it is open; a closed one leaves it.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_request(
        &self,
        host: HostId,
        thread: ThreadId,
        request: &RuntimeRequest,
    ) -> Result<()> {
        self.put_request_as(host, thread, request, &to_json(request))
    }

    fn put_request_as(
        &self,
        host: HostId,
        thread: ThreadId,
        request: &RuntimeRequest,
        json: &str,
    ) -> Result<()> {
        let Some(open) = rows::open_mark(request) else {
            return self.remove_request(host, request.id);
        };
        self.db().write(
            "keeping an open request",
            "INSERT INTO inbox (host, thread, request, open, opened_at_ms, json) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
             ON CONFLICT (host, request) DO UPDATE SET thread = excluded.thread, open = excluded.open, \
             opened_at_ms = excluded.opened_at_ms, json = excluded.json",
            (
                host.as_bytes(),
                thread.as_bytes(),
                request.id.as_bytes(),
                open,
                int(request.opened_at_ms),
                json,
            ),
        )?;
        Ok(())
    }

    /// Takes a request out of the inbox.
    ///
    /// # Errors
    /// Any of the file.
    pub fn remove_request(&self, host: HostId, request: RequestId) -> Result<()> {
        self.db().write(
            "forgetting a request",
            "DELETE FROM inbox WHERE host = ?1 AND request = ?2",
            (host.as_bytes(), request.as_bytes()),
        )?;
        Ok(())
    }
}

impl ReplicaReads {
    /// Up to where a host's feed is applied; the default for one never applied.
    ///
    /// # Errors
    /// Any of the file.
    pub fn feed_cursor(&self, host: HostId) -> Result<FeedCursor> {
        Ok(self
            .db
            .one(
                "reading a feed's place",
                "SELECT feed_epoch, feed_revision FROM hosts WHERE host = ?1",
                [host.as_bytes()],
                |row| {
                    Ok(FeedCursor {
                        epoch: row
                            .get::<_, Option<[u8; 16]>>(0)?
                            .map(Epoch::from_bytes)
                            .unwrap_or_default(),
                        revision: nat(row.get(1)?),
                    })
                },
            )?
            .unwrap_or_default())
    }

    /// A thread's line.
    ///
    /// # Errors
    /// Any of the file.
    pub fn summary(&self, host: HostId, thread: ThreadId) -> Result<Option<ThreadSummary>> {
        let doing = "reading a summary";
        let json = self.db.one(
            doing,
            "SELECT json FROM summaries WHERE host = ?1 AND thread = ?2",
            (host.as_bytes(), thread.as_bytes()),
            |row| row.get::<_, String>(0),
        )?;
        json.map(|json| from_json(&self.db, doing, &json))
            .transpose()
    }

    /// The last sequence number in a thread's line; `None` without one.
    ///
    /// # Errors
    /// Any of the file.
    pub fn listed_seq(&self, host: HostId, thread: ThreadId) -> Result<Option<u64>> {
        let seq = self.db.one(
            "reading a summary",
            "SELECT json_extract(json, '$.seq') FROM summaries WHERE host = ?1 AND thread = ?2",
            (host.as_bytes(), thread.as_bytes()),
            |row| row.get(0),
        )?;
        Ok(seq.map(nat))
    }

    /// Open requests of all hosts, the one that waits longest first, at most `limit`.
    ///
    /// # Errors
    /// Any of the file.
    pub fn inbox(&self, limit: usize) -> Result<Vec<(HostId, InboxEntry)>> {
        let doing = "reading the inbox";
        let mut out = Vec::new();
        self.db.scan(
            doing,
            "SELECT host, thread, json FROM inbox INDEXED BY inbox_order \
             ORDER BY opened_at_ms, request, host LIMIT ?1",
            [int(limit as u64)],
            |row| {
                let (host, thread, json) = (|| {
                    Ok((
                        HostId::from_bytes(row.get(0)?),
                        ThreadId::from_bytes(row.get(1)?),
                        row.get::<_, String>(2)?,
                    ))
                })()
                .map_err(self.db.fail(doing))?;
                let request = from_json(&self.db, doing, &json)?;
                out.push((host, InboxEntry { thread, request }));
                Ok(true)
            },
        )?;
        Ok(out)
    }

    /// A request of the inbox.
    ///
    /// # Errors
    /// Any of the file.
    pub fn open_request(&self, host: HostId, request: RequestId) -> Result<Option<InboxEntry>> {
        let doing = "reading the inbox";
        let found = self.db.one(
            doing,
            "SELECT thread, json FROM inbox WHERE host = ?1 AND request = ?2",
            (host.as_bytes(), request.as_bytes()),
            |row| Ok((ThreadId::from_bytes(row.get(0)?), row.get::<_, String>(1)?)),
        )?;
        found
            .map(|(thread, json)| {
                Ok(InboxEntry {
                    thread,
                    request: from_json(&self.db, doing, &json)?,
                })
            })
            .transpose()
    }

    /// The agents of a host whose sign-in was refused, by name.
    ///
    /// # Errors
    /// Any of the file.
    pub fn signed_out(&self, host: HostId) -> Result<Vec<SignedOut>> {
        self.db.all(
            "reading whose sign-in was refused",
            // The other columns are those of the row that has the maximum: SQLite's rule for a query with one `max`.
            "SELECT json_extract(json, '$.agent') AS agent, count(*), thread, \
             max((json_extract(json, '$.queued') > 0) * 0x1000000000000 + updated_at_ms), \
             (SELECT request FROM inbox JOIN summaries AS asking USING (host, thread) \
              WHERE inbox.host = ?1 AND json_extract(inbox.json, '$.kind') = 'auth' \
              AND json_extract(asking.json, '$.agent') = json_extract(summaries.json, '$.agent')), \
             json_extract(json, '$.sign_in_problem') \
             FROM summaries INDEXED BY summaries_signed_out \
             WHERE host = ?1 AND json_extract(json, '$.held') = 'sign_in' GROUP BY agent ORDER BY agent",
            [host.as_bytes()],
            |row| {
                Ok(SignedOut {
                    agent: AgentName(row.get(0)?),
                    threads: nat(row.get(1)?),
                    thread: ThreadId::from_bytes(row.get(2)?),
                    request: row.get::<_, Option<_>>(4)?.map(RequestId::from_bytes),
                    problem: row.get(5)?,
                })
            },
        )
    }

    /// How much of a host's inbox, as held here, waits for a person; requests that are being answered do not count.
    ///
    /// # Errors
    /// Any of the file.
    pub fn waiting_counts(&self, host: HostId) -> Result<WaitingCounts> {
        let marks = self.db.all(
            "counting open requests",
            "SELECT open, count(*) FROM inbox WHERE host = ?1 GROUP BY open",
            [host.as_bytes()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        Ok(rows::waiting(&marks))
    }
}

/// What a line says of a sign-in: whether its thread waits for one, and why the last came to nothing.
fn waits_for_sign_in(line: &ThreadSummary) -> (bool, Option<&str>) {
    let waits = line.held == Some(HoldReason::SignIn);
    (waits, line.sign_in_problem.as_deref())
}
