//! The outbox: commands from the moment a person acted until their outcome is known.

use super::{ReplicaReads, ReplicaStore, ReplicaTx};
use crate::{
    codec::{from_json, int, nat, to_json},
    db::Durability,
    error::Result,
};
use pilothouse_domain::{
    Answer, Command, CommandBody, CommandId, HostId, Outcome, Subject, ThreadId, limits,
};
use pilothouse_json::Tagged;
use pilothouse_orchestrator::{MASK, masked};
use rusqlite::Row;
use serde::Serialize;

const SAVED: i64 = 1;
const HANDED: i64 = 2;
const DONE: i64 = 3;
const EXPIRED: i64 = 4;
const PARKED: i64 = 5;

/// A command in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEntry {
    /// The host it is for.
    pub host: HostId,
    /// The command, with the number it was given.
    pub command: Command,
    /// When it was saved, this device's clock, Unix ms.
    pub created_ms: u64,
    /// Whether its bytes may have left this device, now or ever: its outcome is asked before it is sent again.
    pub handed: bool,
    /// Where it stands.
    pub delivery: Delivery,
}

/// Where a command stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// On this device's disk.
    Saved,
    /// Given to a socket at least once; the host may have it.
    Handed,
    /// The host has decided.
    Done(Outcome),
    /// It waited too long and was never given to a socket.
    Expired,
    /// It is not sent until its person says so, or never.
    Parked(ParkReason),
}

/// Why a command is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tagged)]
#[serde(tag = "parked", rename_all = "snake_case")]
pub enum ParkReason {
    /// It depends on a command that was refused, expired or parked.
    DependsOn {
        /// That command.
        command: CommandId,
    },
    /// The host revoked this device.
    DeviceRevoked,
    /// The ledger was restored from a backup: whether the command took effect cannot be known.
    LedgerRestored,
}

const COLUMNS: &str = "host, json, created_ms, handed, state, outcome, parked";

impl ReplicaStore {
    /// [`ReplicaTx::push`] in a synced transaction of its own: one fsync, then the command survives everything.
    ///
    /// # Errors
    /// Any of the file.
    pub fn push(&mut self, host: HostId, command: Command, created_ms: u64) -> Result<Command> {
        self.transaction(|tx| tx.push(host, command, created_ms), Durability::Synced)
    }

    /// [`ReplicaTx::mark_handed`] in a synced transaction of its own: call it before the bytes go out.
    ///
    /// # Errors
    /// Any of the file.
    pub fn mark_handed(&mut self, commands: &[CommandId]) -> Result<()> {
        self.transaction(|tx| tx.mark_handed(commands), Durability::Synced)
    }

    /// [`ReplicaTx::settle`] in a synced transaction of its own.
    ///
    /// # Errors
    /// Any of the file.
    pub fn settle(&mut self, command: CommandId, outcome: &Outcome) -> Result<bool> {
        self.transaction(|tx| tx.settle(command, outcome), Durability::Synced)
    }

    /// [`ReplicaTx::expire`] in a synced transaction of its own.
    ///
    /// # Errors
    /// Any of the file.
    pub fn expire(&mut self, now_ms: u64) -> Result<Vec<CommandId>> {
        self.transaction(|tx| tx.expire(now_ms), Durability::Synced)
    }
}

impl ReplicaTx<'_> {
    /// Saves a command for a host and gives it the next number of this device's line on its thread; returns it with
    /// that number. A command that is there already stays as it is and is returned.
    ///
    /// # Errors
    /// Any of the file.
    pub fn push(&self, host: HostId, mut command: Command, created_ms: u64) -> Result<Command> {
        if let Some(entry) = self.outbox_entry(command.id)? {
            return Ok(entry.command);
        }
        command.device_seq = self.next_device_seq(host, command.thread)?;
        self.db().write(
            "saving a command",
            "INSERT INTO outbox (command, host, thread, device_seq, created_ms, state, json) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                command.id.as_bytes(),
                host.as_bytes(),
                command.thread.as_bytes(),
                int(command.device_seq),
                int(created_ms),
                SAVED,
                to_json(&command),
            ),
        )?;
        Ok(command)
    }

    /// Takes the next number of this device's line on a thread; 1 for the first. Given once, also if the command
    /// never goes out.
    ///
    /// # Errors
    /// Any of the file.
    pub fn next_device_seq(&self, host: HostId, thread: ThreadId) -> Result<u64> {
        self.db()
            .one(
                "numbering a command",
                "INSERT INTO device_lines (host, thread, device_seq) VALUES (?1, ?2, 1) \
                 ON CONFLICT (host, thread) DO UPDATE SET device_seq = device_seq + 1 RETURNING device_seq",
                (host.as_bytes(), thread.as_bytes()),
                |row| row.get(0).map(nat),
            )?
            .ok_or_else(|| {
                self.db()
                    .corrupt("numbering a command", "no number was returned")
            })
    }

    /// Notes that commands are about to be given to a socket: from now on they do not expire, and their outcome is
    /// asked before they are sent again. Commit this [`Durability::Synced`] before the bytes go out.
    ///
    /// # Errors
    /// Any of the file.
    pub fn mark_handed(&self, commands: &[CommandId]) -> Result<()> {
        for command in commands {
            self.db().write(
                "noting that a command goes out",
                "UPDATE outbox SET state = ?2, handed = 1 WHERE command = ?1 AND state IN (?3, ?2)",
                (command.as_bytes(), HANDED, SAVED),
            )?;
        }
        Ok(())
    }

    /// Notes what came of a command; says whether that is final. A transient refusal is not: the command stays and
    /// is sent again. Of what has ended, words that answered questions are not kept: they may be secrets.
    ///
    /// # Errors
    /// Any of the file.
    pub fn settle(&self, command: CommandId, outcome: &Outcome) -> Result<bool> {
        if matches!(outcome, Outcome::Refused { refusal } if refusal.is_transient()) {
            return Ok(false);
        }
        self.db().write(
            "noting a command's outcome",
            "UPDATE outbox SET state = ?2, outcome = ?3, parked = NULL WHERE command = ?1 AND state <> ?2",
            (command.as_bytes(), DONE, to_json(outcome)),
        )?;
        self.forget_words(command)?;
        Ok(true)
    }

    /// Masks the words of an answer that will not be sent (again).
    fn forget_words(&self, command: CommandId) -> Result<()> {
        let Some(OutboxEntry {
            host, mut command, ..
        }) = self.outbox_entry(command)?
        else {
            return Ok(());
        };
        let CommandBody::RequestAnswer {
            request, answer, ..
        } = &mut command.body
        else {
            return Ok(());
        };
        // Labels that were offered stay, as long as it is known which were.
        let known = self.open_request(host, *request)?;
        let subject: Option<Subject> =
            known.and_then(|entry| pilothouse_json::from_str(&entry.request.subject).ok());
        let mut kept = masked(&subject.unwrap_or_default().questions, answer);
        if let Answer::Reply { replies } = &mut kept {
            for text in replies.iter_mut().filter_map(|reply| reply.text.as_mut()) {
                MASK.clone_into(text);
            }
        }
        if kept == *answer {
            return Ok(());
        }
        *answer = kept;
        self.db().write(
            "forgetting the words of an answer",
            "UPDATE outbox SET json = ?2 WHERE command = ?1",
            (command.id.as_bytes(), to_json(&command)),
        )?;
        Ok(())
    }

    /// Expires what was never given to a socket and is too old: answers after [`limits::ANSWER_EXPIRES_MS`],
    /// everything else after [`limits::MESSAGE_EXPIRES_MS`]. Returns what expired.
    ///
    /// # Errors
    /// Any of the file.
    pub fn expire(&self, now_ms: u64) -> Result<Vec<CommandId>> {
        let doing = "expiring commands";
        let mut old = Vec::new();
        self.db().scan(
            doing,
            &format!(
                "SELECT {COLUMNS} FROM outbox WHERE state = ?1 AND handed = 0 ORDER BY number"
            ),
            [SAVED],
            |row| {
                let entry = self.read_entry(row)?;
                let kept_ms = match entry.command.body {
                    CommandBody::RequestAnswer { .. } => limits::ANSWER_EXPIRES_MS,
                    _ => limits::MESSAGE_EXPIRES_MS,
                };
                if now_ms.saturating_sub(entry.created_ms) > kept_ms {
                    old.push(entry.command.id);
                }
                Ok(true)
            },
        )?;
        for command in &old {
            self.db().write(
                doing,
                "UPDATE outbox SET state = ?2 WHERE command = ?1",
                (command.as_bytes(), EXPIRED),
            )?;
            self.forget_words(*command)?;
        }
        Ok(old)
    }

    /// Keeps a command that has no outcome from being sent.
    ///
    /// # Errors
    /// Any of the file.
    pub fn park(&self, command: CommandId, reason: ParkReason) -> Result<()> {
        self.db().write(
            "parking a command",
            "UPDATE outbox SET state = ?2, parked = ?3 WHERE command = ?1 AND state IN (?4, ?5)",
            (command.as_bytes(), PARKED, to_json(&reason), SAVED, HANDED),
        )?;
        Ok(())
    }

    /// Parks everything of a host that has no outcome.
    ///
    /// # Errors
    /// Any of the file.
    pub fn park_all(&self, host: HostId, reason: ParkReason) -> Result<()> {
        self.db().write(
            "parking a host's commands",
            "UPDATE outbox SET state = ?2, parked = ?3 WHERE host = ?1 AND state IN (?4, ?5)",
            (host.as_bytes(), PARKED, to_json(&reason), SAVED, HANDED),
        )?;
        Ok(())
    }

    /// Lets a parked command be sent after all: its person said so.
    ///
    /// # Errors
    /// Any of the file.
    pub fn unpark(&self, command: CommandId) -> Result<()> {
        self.db().write(
            "taking up a parked command",
            "UPDATE outbox SET state = CASE handed WHEN 1 THEN ?3 ELSE ?4 END, parked = NULL \
             WHERE command = ?1 AND state = ?2",
            (command.as_bytes(), PARKED, HANDED, SAVED),
        )?;
        Ok(())
    }

    /// Takes a command out that was never given to a socket; says whether it was there and could be taken.
    ///
    /// # Errors
    /// Any of the file.
    pub fn withdraw(&self, command: CommandId) -> Result<bool> {
        let removed = self.db().write(
            "withdrawing a command",
            "DELETE FROM outbox WHERE command = ?1 AND handed = 0 AND state <> ?2",
            (command.as_bytes(), DONE),
        )?;
        Ok(removed > 0)
    }

    /// Forgets commands that are done or expired and were saved before a time; returns how many.
    ///
    /// # Errors
    /// Any of the file.
    pub fn prune_outbox(&self, before_ms: u64) -> Result<usize> {
        self.db().write(
            "pruning the outbox",
            "DELETE FROM outbox WHERE created_ms < ?1 AND state IN (?2, ?3)",
            (int(before_ms), DONE, EXPIRED),
        )
    }
}

impl ReplicaReads {
    /// Commands of a host that are to be sent or whose outcome is to be asked (saved or handed), in order.
    ///
    /// # Errors
    /// Any of the file.
    pub fn pending(&self, host: HostId) -> Result<Vec<OutboxEntry>> {
        self.read_outbox(
            &format!(
                "SELECT {COLUMNS} FROM outbox WHERE host = ?1 AND state IN (1, 2) ORDER BY number"
            ),
            [host.as_bytes()],
        )
    }

    /// Every command kept, of all hosts, in order.
    ///
    /// # Errors
    /// Any of the file.
    pub fn outbox(&self) -> Result<Vec<OutboxEntry>> {
        self.read_outbox(&format!("SELECT {COLUMNS} FROM outbox ORDER BY number"), [])
    }

    /// Commands of a thread, or of everything, that a screen may still show, in order: those without an outcome, and of
    /// the others those among the last `ended` commands saved.
    ///
    /// # Errors
    /// Any of the file.
    pub fn recent(&self, thread: Option<ThreadId>, ended: u32) -> Result<Vec<OutboxEntry>> {
        let young = "(state <> 3 OR number > (SELECT ifnull(max(number), 0) FROM outbox) - ?1)";
        match thread {
            Some(thread) => self.read_outbox(
                &format!(
                    "SELECT {COLUMNS} FROM outbox WHERE thread = ?2 AND {young} ORDER BY number"
                ),
                (ended, thread.as_bytes()),
            ),
            None => self.read_outbox(
                &format!("SELECT {COLUMNS} FROM outbox WHERE {young} ORDER BY number"),
                [ended],
            ),
        }
    }

    /// A command of the outbox.
    ///
    /// # Errors
    /// Any of the file.
    pub fn outbox_entry(&self, command: CommandId) -> Result<Option<OutboxEntry>> {
        Ok(self
            .read_outbox(
                &format!("SELECT {COLUMNS} FROM outbox WHERE command = ?1"),
                [command.as_bytes()],
            )?
            .into_iter()
            .next())
    }

    /// What came of a command; `None` while that is not known.
    ///
    /// # Errors
    /// Any of the file.
    pub fn outcome(&self, command: CommandId) -> Result<Option<Outcome>> {
        Ok(
            match self.outbox_entry(command)?.map(|entry| entry.delivery) {
                Some(Delivery::Done(outcome)) => Some(outcome),
                _ => None,
            },
        )
    }

    fn read_outbox(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<OutboxEntry>> {
        let mut out = Vec::new();
        self.db.scan("reading the outbox", sql, params, |row| {
            out.push(self.read_entry(row)?);
            Ok(true)
        })?;
        Ok(out)
    }

    fn read_entry(&self, row: &Row<'_>) -> Result<OutboxEntry> {
        let doing = "reading the outbox";
        let (host, json, created, handed, state, outcome, parked) = (|| {
            Ok((
                HostId::from_bytes(row.get(0)?),
                row.get::<_, String>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, bool>(3)?,
                row.get::<_, i64>(4)?,
                row.get::<_, Option<String>>(5)?,
                row.get::<_, Option<String>>(6)?,
            ))
        })()
        .map_err(self.db.fail(doing))?;
        let delivery = match (state, outcome, parked) {
            (SAVED, _, _) => Delivery::Saved,
            (HANDED, _, _) => Delivery::Handed,
            (DONE, Some(outcome), _) => Delivery::Done(from_json(&self.db, doing, &outcome)?),
            (EXPIRED, _, _) => Delivery::Expired,
            (PARKED, _, Some(reason)) => Delivery::Parked(from_json(&self.db, doing, &reason)?),
            (state, _, _) => {
                return Err(self.db.corrupt(
                    doing,
                    format!("a command is in state {state} without its reason"),
                ));
            }
        };
        Ok(OutboxEntry {
            host,
            command: from_json(&self.db, doing, &json)?,
            created_ms: nat(created),
            handed,
            delivery,
        })
    }
}
