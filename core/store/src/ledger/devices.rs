//! Paired devices, and settings of the host.

use super::{LedgerReads, LedgerTx};
use crate::{
    codec::{from_json, int, nat, to_json},
    error::Result,
};
use pilothouse_domain::{ContentHash, DeviceId, Scope};
use rusqlite::Row;

/// A device that was paired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRow {
    /// Its id.
    pub device: DeviceId,
    /// Its name as it gave it.
    pub name: String,
    /// SHA-256 of its public key.
    pub spki: ContentHash,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Host time of the pairing, Unix ms.
    pub paired_at_ms: u64,
    /// Whether it may no longer connect.
    pub revoked: bool,
}

const COLUMNS: &str = "device, name, spki, scopes, paired_at_ms, revoked";

impl LedgerTx<'_> {
    /// Keeps a device, in the place of one with the same id.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_device(&self, device: &DeviceRow) -> Result<()> {
        self.db().write(
            "keeping a device",
            "INSERT OR REPLACE INTO devices (device, name, spki, scopes, paired_at_ms, revoked) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                device.device.as_bytes(),
                &device.name,
                device.spki.as_bytes(),
                to_json(&device.scopes),
                int(device.paired_at_ms),
                device.revoked,
            ),
        )?;
        Ok(())
    }

    /// Keeps a setting.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_setting(&self, key: &str, value: &str) -> Result<()> {
        self.db().write(
            "keeping a setting",
            "INSERT OR REPLACE INTO settings (key, value) VALUES (?1, ?2)",
            (key, value),
        )?;
        Ok(())
    }
}

impl LedgerReads {
    /// The device with a public key: the one that may connect, if there is one, else the last that was revoked.
    ///
    /// # Errors
    /// Any of the file.
    pub fn device_by_spki(&self, spki: ContentHash) -> Result<Option<DeviceRow>> {
        let found = self.read_devices(
            &format!(
                "SELECT {COLUMNS} FROM devices WHERE spki = ?1 ORDER BY revoked, paired_at_ms DESC LIMIT 1"
            ),
            [spki.as_bytes()],
        )?;
        Ok(found.into_iter().next())
    }

    /// A device.
    ///
    /// # Errors
    /// Any of the file.
    pub fn device(&self, device: DeviceId) -> Result<Option<DeviceRow>> {
        let found = self.read_devices(
            &format!("SELECT {COLUMNS} FROM devices WHERE device = ?1"),
            [device.as_bytes()],
        )?;
        Ok(found.into_iter().next())
    }

    /// Every device, revoked ones too, in the order of pairing.
    ///
    /// # Errors
    /// Any of the file.
    pub fn devices(&self) -> Result<Vec<DeviceRow>> {
        self.read_devices(
            &format!("SELECT {COLUMNS} FROM devices ORDER BY paired_at_ms, device"),
            [],
        )
    }

    fn read_devices(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<DeviceRow>> {
        let doing = "reading devices";
        let read = |row: &Row<'_>| -> rusqlite::Result<(DeviceRow, String)> {
            Ok((
                DeviceRow {
                    device: DeviceId::from_bytes(row.get(0)?),
                    name: row.get(1)?,
                    spki: ContentHash::from_bytes(row.get(2)?),
                    scopes: Vec::new(),
                    paired_at_ms: nat(row.get(4)?),
                    revoked: row.get(5)?,
                },
                row.get(3)?,
            ))
        };
        self.db
            .all(doing, sql, params, read)?
            .into_iter()
            .map(|(mut device, scopes)| {
                device.scopes = from_json(&self.db, doing, &scopes)?;
                Ok(device)
            })
            .collect()
    }

    /// A setting.
    ///
    /// # Errors
    /// Any of the file.
    pub fn setting(&self, key: &str) -> Result<Option<String>> {
        self.db.one(
            "reading a setting",
            "SELECT value FROM settings WHERE key = ?1",
            [key],
            |row| row.get(0),
        )
    }
}
