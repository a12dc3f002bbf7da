//! Hosts this device is paired with, and what their feeds say.

use super::{ReplicaReads, ReplicaTx};
use crate::{
    codec::{from_json, int, nat, to_json},
    error::Result,
    rows,
};
use pilothouse_domain::{
    ContentHash, DeviceId, Epoch, HostId, Policy, RequestId, RuntimeRequest, Scope, ThreadId,
    ThreadSummary,
    feed::{FeedCursor, FeedUpdate},
    row::{InboxEntry, WaitingCounts},
};
use rusqlite::Row;

/// A host this device is paired with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRow {
    /// The host.
    pub host: HostId,
    /// Its name.
    pub name: String,
    /// Where it can be reached, in the order in which to try.
    pub addresses: Vec<String>,
    /// SHA-256 of its public key: the only one that is accepted.
    pub spki: ContentHash,
    /// This device's id on that host.
    pub device: DeviceId,
    /// What it granted.
    pub scopes: Vec<Scope>,
    /// When it was paired, this device's clock, Unix ms.
    pub paired_at_ms: u64,
    /// Whether the host has revoked this device.
    pub revoked: bool,
    /// When it was last connected, this device's clock, Unix ms.
    pub last_seen_ms: Option<u64>,
}

const COLUMNS: &str =
    "host, name, addresses, spki, device, scopes, paired_at_ms, revoked, last_seen_ms";

impl ReplicaTx<'_> {
    /// Keeps a host, in the place of one with the same id; its feed and policy stay.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_host(&self, host: &HostRow) -> Result<()> {
        self.db().write(
            "keeping a host",
            "INSERT INTO hosts (host, name, addresses, spki, device, scopes, paired_at_ms, revoked, last_seen_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
             ON CONFLICT (host) DO UPDATE SET name = excluded.name, addresses = excluded.addresses, \
             spki = excluded.spki, device = excluded.device, scopes = excluded.scopes, \
             paired_at_ms = excluded.paired_at_ms, revoked = excluded.revoked, last_seen_ms = excluded.last_seen_ms",
            (
                host.host.as_bytes(),
                &host.name,
                to_json(&host.addresses),
                host.spki.as_bytes(),
                host.device.as_bytes(),
                to_json(&host.scopes),
                int(host.paired_at_ms),
                host.revoked,
                host.last_seen_ms.map(int),
            ),
        )?;
        Ok(())
    }

    /// Notes that a host was connected.
    ///
    /// # Errors
    /// Any of the file.
    pub fn host_seen(&self, host: HostId, now_ms: u64) -> Result<()> {
        self.db().write(
            "noting a host",
            "UPDATE hosts SET last_seen_ms = ?2 WHERE host = ?1",
            (host.as_bytes(), int(now_ms)),
        )?;
        Ok(())
    }

    /// Forgets a host with everything kept of it, its outbox too.
    ///
    /// # Errors
    /// Any of the file.
    pub fn remove_host(&self, host: HostId) -> Result<()> {
        for thread in self.threads_of(host)? {
            self.forget_thread(thread)?;
        }
        for sql in [
            "DELETE FROM summaries WHERE host = ?1",
            "DELETE FROM inbox WHERE host = ?1",
            "DELETE FROM outbox WHERE host = ?1",
            "DELETE FROM device_lines WHERE host = ?1",
            "DELETE FROM hosts WHERE host = ?1",
        ] {
            self.db()
                .write("forgetting a host", sql, [host.as_bytes()])?;
        }
        Ok(())
    }

    /// Keeps what a host allows and offers.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_policy(&self, host: HostId, policy: &Policy) -> Result<()> {
        self.db().write(
            "keeping a policy",
            "UPDATE hosts SET policy = ?2 WHERE host = ?1",
            (host.as_bytes(), to_json(policy)),
        )?;
        Ok(())
    }

    /// Applies a step of a host's feed with its cursor: after a reset all that was known goes first; each thread's line
    /// and all its open requests replace what was known of it.
    ///
    /// # Errors
    /// Any of the file.
    pub fn apply_feed(&self, host: HostId, update: &FeedUpdate) -> Result<()> {
        if update.reset {
            self.clear_feed(host)?;
        }
        for changed in &update.threads {
            let thread = changed.summary.thread;
            self.put_summary(host, &changed.summary)?;
            // Requests that stay keep their place in the inbox: in the order in which this device heard of them.
            for known in self.inbox_of(host, thread)? {
                if !changed.requests.iter().any(|request| request.id == known) {
                    self.remove_request(host, known)?;
                }
            }
            for request in &changed.requests {
                self.put_request(host, thread, request)?;
            }
        }
        for thread in &update.removed {
            self.remove_summary(host, *thread)?;
            for known in self.inbox_of(host, *thread)? {
                self.remove_request(host, known)?;
            }
        }
        self.put_feed_cursor(host, update.cursor)?;
        self.db().write(
            "keeping a host's counts",
            "UPDATE hosts SET feed_counts = ?2 WHERE host = ?1",
            (host.as_bytes(), to_json(&update.counts)),
        )?;
        Ok(())
    }

    fn inbox_of(&self, host: HostId, thread: ThreadId) -> Result<Vec<RequestId>> {
        self.db().all(
            "reading the inbox",
            "SELECT request FROM inbox WHERE thread = ?1 AND host = ?2",
            (thread.as_bytes(), host.as_bytes()),
            |row| row.get(0).map(RequestId::from_bytes),
        )
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
            "UPDATE hosts SET feed_epoch = NULL, feed_revision = 0, feed_counts = NULL WHERE host = ?1",
        ] {
            self.db().write("clearing a feed", sql, [host.as_bytes()])?;
        }
        Ok(())
    }

    /// Keeps a thread's line.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_summary(&self, host: HostId, summary: &ThreadSummary) -> Result<()> {
        self.db().write(
            "keeping a summary",
            "INSERT OR REPLACE INTO summaries (host, thread, updated_at_ms, json) VALUES (?1, ?2, ?3, ?4)",
            (
                host.as_bytes(),
                summary.thread.as_bytes(),
                int(summary.updated_at_ms),
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
        let Some(open) = rows::open_mark(request) else {
            return self.remove_request(host, request.id);
        };
        self.db().write(
            "keeping an open request",
            "INSERT INTO inbox (host, thread, request, open, json) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (host, request) DO UPDATE SET \
             thread = excluded.thread, open = excluded.open, json = excluded.json",
            (
                host.as_bytes(),
                thread.as_bytes(),
                request.id.as_bytes(),
                open,
                to_json(request),
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
    /// Every host, in the order of pairing.
    ///
    /// # Errors
    /// Any of the file.
    pub fn hosts(&self) -> Result<Vec<HostRow>> {
        self.read_hosts(
            &format!("SELECT {COLUMNS} FROM hosts ORDER BY paired_at_ms, host"),
            [],
        )
    }

    /// A host.
    ///
    /// # Errors
    /// Any of the file.
    pub fn host(&self, host: HostId) -> Result<Option<HostRow>> {
        Ok(self
            .read_hosts(
                &format!("SELECT {COLUMNS} FROM hosts WHERE host = ?1"),
                [host.as_bytes()],
            )?
            .into_iter()
            .next())
    }

    fn read_hosts(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<HostRow>> {
        let doing = "reading hosts";
        let read = |row: &Row<'_>| -> rusqlite::Result<(HostRow, String, String)> {
            Ok((
                HostRow {
                    host: HostId::from_bytes(row.get(0)?),
                    name: row.get(1)?,
                    addresses: Vec::new(),
                    spki: ContentHash::from_bytes(row.get(3)?),
                    device: DeviceId::from_bytes(row.get(4)?),
                    scopes: Vec::new(),
                    paired_at_ms: nat(row.get(6)?),
                    revoked: row.get(7)?,
                    last_seen_ms: row.get::<_, Option<i64>>(8)?.map(nat),
                },
                row.get(2)?,
                row.get(5)?,
            ))
        };
        self.db
            .all(doing, sql, params, read)?
            .into_iter()
            .map(|(mut host, addresses, scopes)| {
                host.addresses = from_json(&self.db, doing, &addresses)?;
                host.scopes = from_json(&self.db, doing, &scopes)?;
                Ok(host)
            })
            .collect()
    }

    /// What a host allows and offers, as it said last.
    ///
    /// # Errors
    /// Any of the file.
    pub fn policy(&self, host: HostId) -> Result<Option<Policy>> {
        let doing = "reading a policy";
        let json = self.db.one(
            doing,
            "SELECT policy FROM hosts WHERE host = ?1",
            [host.as_bytes()],
            |row| row.get::<_, Option<String>>(0),
        )?;
        json.flatten()
            .map(|json| from_json(&self.db, doing, &json))
            .transpose()
    }

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

    /// Lines of all hosts' threads, last changed first, at most `limit`.
    ///
    /// # Errors
    /// Any of the file.
    pub fn summaries(&self, limit: usize) -> Result<Vec<(HostId, ThreadSummary)>> {
        let doing = "reading summaries";
        let mut out = Vec::new();
        self.db.scan(
            doing,
            "SELECT host, json FROM summaries ORDER BY updated_at_ms DESC, thread LIMIT ?1",
            [int(limit as u64)],
            |row| {
                let host = row
                    .get(0)
                    .map(HostId::from_bytes)
                    .map_err(self.db.fail(doing))?;
                let json = row
                    .get_ref(1)
                    .and_then(|value| value.as_str().map_err(Into::into))
                    .map_err(self.db.fail(doing))?;
                out.push((host, from_json(&self.db, doing, json)?));
                Ok(true)
            },
        )?;
        Ok(out)
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

    /// Open requests of all hosts, in the order in which this device heard of them.
    ///
    /// # Errors
    /// Any of the file.
    pub fn inbox(&self) -> Result<Vec<(HostId, InboxEntry)>> {
        let doing = "reading the inbox";
        let mut out = Vec::new();
        self.db.scan(
            doing,
            "SELECT host, thread, json FROM inbox ORDER BY rowid",
            [],
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

    /// How much of a host waits for a person, as the host said last: also of threads whose requests are still on their
    /// way here. `None` before its feed was first applied.
    ///
    /// # Errors
    /// Any of the file.
    pub fn stated_counts(&self, host: HostId) -> Result<Option<WaitingCounts>> {
        let doing = "reading a host's counts";
        let json = self.db.one(
            doing,
            "SELECT feed_counts FROM hosts WHERE host = ?1",
            [host.as_bytes()],
            |row| row.get::<_, Option<String>>(0),
        )?;
        json.flatten()
            .map(|json| from_json(&self.db, doing, &json))
            .transpose()
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
