//! Hosts this device is paired with.

use super::{ReplicaReads, ReplicaTx};
use crate::{
    codec::{from_json, int, nat, to_json},
    error::Result,
};
use pilothouse_domain::{ContentHash, DeviceId, HostId, Policy, Scope};
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
}
