//! Outcomes of commands and effects on their way.

use super::{LedgerReads, LedgerTx};
use crate::{
    codec::{from_json, int, nat, to_json},
    error::Result,
};
use pilothouse_domain::{
    CommandId, DeviceId, Effect, EffectId, EffectOutcome, Outcome, ThreadId, limits,
};

/// An effect that has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEffect {
    /// The thread whose entry asked for it.
    pub thread: ThreadId,
    /// That entry's sequence number.
    pub seq: u64,
    /// What is to be done.
    pub effect: Effect,
}

impl LedgerTx<'_> {
    /// Keeps what came of a command, and its place in the device's line. The first outcome holds; a transient refusal
    /// is not kept, because the command will be tried again.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_outcome(
        &self,
        command: CommandId,
        device: DeviceId,
        thread: ThreadId,
        device_seq: u64,
        host_time_ms: u64,
        outcome: &Outcome,
    ) -> Result<()> {
        if matches!(outcome, Outcome::Refused { refusal } if refusal.is_transient()) {
            return Ok(());
        }
        let doing = "keeping a command's outcome";
        self.db().write(
            doing,
            "INSERT OR IGNORE INTO outcomes (command, device, thread, device_seq, host_time_ms, json) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                command.as_bytes(),
                device.as_bytes(),
                thread.as_bytes(),
                int(device_seq),
                int(host_time_ms),
                to_json(outcome),
            ),
        )?;
        self.db().write(
            doing,
            "INSERT INTO device_lines (device, thread, device_seq) VALUES (?1, ?2, ?3) \
             ON CONFLICT (device, thread) DO UPDATE SET device_seq = max(device_seq, excluded.device_seq)",
            (device.as_bytes(), thread.as_bytes(), int(device_seq)),
        )?;
        Ok(())
    }

    /// Forgets outcomes older than 30 days ([`limits::OUTCOME_KEPT_MS`]); returns how many.
    ///
    /// # Errors
    /// Any of the file.
    pub fn prune_outcomes(&self, now_ms: u64) -> Result<usize> {
        self.db().write(
            "pruning outcomes",
            "DELETE FROM outcomes WHERE host_time_ms < ?1",
            [int(now_ms.saturating_sub(limits::OUTCOME_KEPT_MS))],
        )
    }

    /// Keeps an effect that the entry `seq` of a thread asks for.
    ///
    /// # Errors
    /// Any of the file.
    pub fn put_effect(&self, thread: ThreadId, seq: u64, effect: &Effect) -> Result<()> {
        self.db().write(
            "keeping an effect",
            "INSERT INTO effects (effect, thread, seq, json) VALUES (?1, ?2, ?3, ?4)",
            (
                effect.id.as_bytes(),
                thread.as_bytes(),
                int(seq),
                to_json(effect),
            ),
        )?;
        Ok(())
    }

    /// Notes what came of an effect; says whether it was unfinished until now. What it was goes: it may hold the answer to
    /// a secret question, and the log has the rest.
    ///
    /// # Errors
    /// Any of the file.
    pub fn effect_done(&self, effect: EffectId, outcome: &EffectOutcome) -> Result<bool> {
        let changed = self.db().write(
            "finishing an effect",
            "UPDATE effects SET outcome = ?2, json = '' WHERE effect = ?1 AND outcome IS NULL",
            (effect.as_bytes(), to_json(outcome)),
        )?;
        Ok(changed > 0)
    }
}

impl LedgerReads {
    /// What came of a command.
    ///
    /// # Errors
    /// Any of the file.
    pub fn outcome(&self, command: CommandId) -> Result<Option<Outcome>> {
        let doing = "looking for a command's outcome";
        let json = self.db.one(
            doing,
            "SELECT json FROM outcomes WHERE command = ?1",
            [command.as_bytes()],
            |row| row.get::<_, String>(0),
        )?;
        json.map(|json| from_json(&self.db, doing, &json))
            .transpose()
    }

    /// The last number of a device's line on a thread; 0 before the first.
    ///
    /// # Errors
    /// Any of the file.
    pub fn last_device_seq(&self, device: DeviceId, thread: ThreadId) -> Result<u64> {
        Ok(self
            .db
            .one(
                "reading a device's line",
                "SELECT device_seq FROM device_lines WHERE device = ?1 AND thread = ?2",
                (device.as_bytes(), thread.as_bytes()),
                |row| row.get(0).map(nat),
            )?
            .unwrap_or(0))
    }

    /// Effects without an outcome, in the order in which they were asked for.
    ///
    /// # Errors
    /// Any of the file.
    pub fn unfinished_effects(&self) -> Result<Vec<StoredEffect>> {
        let doing = "reading unfinished effects";
        let mut out = Vec::new();
        self.db.scan(
            doing,
            "SELECT thread, seq, json FROM effects WHERE outcome IS NULL ORDER BY number",
            [],
            |row| {
                let (thread, seq, json) = (|| {
                    Ok((
                        ThreadId::from_bytes(row.get(0)?),
                        nat(row.get(1)?),
                        row.get::<_, String>(2)?,
                    ))
                })()
                .map_err(self.db.fail(doing))?;
                out.push(StoredEffect {
                    thread,
                    seq,
                    effect: from_json(&self.db, doing, &json)?,
                });
                Ok(true)
            },
        )?;
        Ok(out)
    }

    /// What came of an effect; `None` if it is unknown or unfinished.
    ///
    /// # Errors
    /// Any of the file.
    pub fn effect_outcome(&self, effect: EffectId) -> Result<Option<EffectOutcome>> {
        let doing = "looking for an effect's outcome";
        let json = self.db.one(
            doing,
            "SELECT outcome FROM effects WHERE effect = ?1",
            [effect.as_bytes()],
            |row| row.get::<_, Option<String>>(0),
        )?;
        json.flatten()
            .map(|json| from_json(&self.db, doing, &json))
            .transpose()
    }
}
