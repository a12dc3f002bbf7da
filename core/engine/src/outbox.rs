//! The rules of sending: in order per line, marked before the bytes go out, never twice without asking.
//!
//! A *line* is this device's commands on one thread. At most one command of a line is on its way at a time. After a
//! reconnect the outcome of everything that was ever handed over is asked; only what the host says it never took is
//! sent again, under the same id. A transient refusal stops its line for a while; a final one parks what builds on it.

use crate::{
    actor::Actor,
    api::LogLevel,
    commands::outcome_of,
    delivery::lock,
    shared::{Shows, refusal_words},
};
use pilothouse_domain::{
    Command, CommandBody, CommandId, HostId, Outcome, Refusal, ThreadId, limits,
};
use pilothouse_store::{
    Delivery as Stored, Durability, OutboxEntry, ParkReason, ReplicaTx, StoreError,
};
use pilothouse_wire::message::DeviceMessage;
use std::{collections::BTreeMap, time::Instant};

/// Outcomes asked in one message, by the wire's bound.
const ASKED_AT_ONCE: usize = 256;

/// How long a command may wait in the outbox without being handed over, ms.
pub(crate) fn lifetime_ms(body: &CommandBody) -> u64 {
    match body {
        CommandBody::RequestAnswer { .. } => limits::ANSWER_EXPIRES_MS,
        _ => limits::MESSAGE_EXPIRES_MS,
    }
}

impl Actor {
    /// Sends and asks whatever can be sent and asked now.
    pub(crate) fn pump(&mut self, host: HostId) {
        let pending = self.store.pending(host);
        let pending = self.note("reading the outbox", pending);
        let Some(link) = self.hosts.get_mut(&host) else {
            return;
        };
        let now = Instant::now();
        let due = link.waits.take_due(now);
        let Some(pending) = pending else {
            for thread in due {
                link.waits.failed(thread, now, self.shared.draw());
            }
            return;
        };
        link.unsent = pending.iter().filter(|entry| !entry.handed).count();
        link.waits
            .retain(|thread| pending.iter().any(|entry| entry.command.thread == thread));
        let Some(up) = link.up.as_mut().filter(|up| up.ready) else {
            return;
        };
        let unasked: Vec<CommandId> = pending
            .iter()
            .filter(|entry| {
                entry.handed
                    && !link.waits.is_waiting(entry.command.thread)
                    && up.in_flight.get(&entry.command.thread) != Some(&entry.command.id)
                    && !up.absent.contains(&entry.command.id)
                    && !up.marked.contains(&entry.command.id)
                    && up.asked.insert(entry.command.id)
            })
            .map(|entry| entry.command.id)
            .collect();
        for ids in unasked.chunks(ASKED_AT_ONCE) {
            up.send(DeviceMessage::OutcomeQuery {
                command_ids: ids.to_vec(),
            });
        }
        let mut heads: BTreeMap<ThreadId, &OutboxEntry> = BTreeMap::new();
        for entry in &pending {
            heads.entry(entry.command.thread).or_insert(entry);
        }
        let mut ready: Vec<&OutboxEntry> = heads
            .into_iter()
            .filter(|(thread, entry)| {
                !link.waits.is_waiting(*thread)
                    && !up.in_flight.contains_key(thread)
                    && (!entry.handed
                        || up.absent.contains(&entry.command.id)
                        || up.marked.contains(&entry.command.id))
            })
            .map(|(_, entry)| entry)
            .collect();
        if ready.is_empty() {
            return;
        }
        let fresh: Vec<CommandId> = ready
            .iter()
            .filter(|entry| !entry.handed)
            .map(|entry| entry.command.id)
            .collect();
        if !fresh.is_empty() {
            let marked = self.store.mark_handed(&fresh);
            if let Err(error) = marked {
                // Nothing goes out that is not marked; it is tried again after a while.
                self.shared.log(
                    LogLevel::Error,
                    "outbox",
                    &format!("commands could not be marked as handed over: {error}"),
                );
                if let Some(link) = self.hosts.get_mut(&host) {
                    for entry in ready.extract_if(.., |entry| !entry.handed) {
                        link.waits
                            .failed(entry.command.thread, now, self.shared.draw());
                    }
                }
            }
        }
        let mut sent = Vec::new();
        if let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) {
            for entry in ready {
                let command = &entry.command;
                up.in_flight.insert(command.thread, command.id);
                up.marked.remove(&command.id);
                up.send(DeviceMessage::Command {
                    command: Box::new(command.clone()),
                });
                sent.push((command.thread, command.id));
            }
        }
        {
            let mut live = lock(&self.shared.live);
            for (_, command) in &sent {
                live.waiting.remove(command);
            }
        }
        if let Some(link) = self.hosts.get_mut(&host) {
            let gone = sent.iter().filter(|(_, id)| fresh.contains(id)).count();
            link.unsent = link.unsent.saturating_sub(gone);
        }
        for (thread, _) in sent {
            self.show_outbox(host, thread, true);
        }
    }

    /// The host has said what came of a command.
    pub(crate) fn outcome(&mut self, host: HostId, command: CommandId, outcome: Option<Outcome>) {
        let entry = self.store.outbox_entry(command);
        let Some(Some(entry)) = self.note("reading the outbox", entry) else {
            return;
        };
        if entry.host != host {
            self.shared.log(
                LogLevel::Error,
                "outbox",
                "a host spoke of a command that is for another one; it is not listened to",
            );
            return;
        }
        let thread = entry.command.thread;
        if let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut())
            && up.in_flight.get(&thread) == Some(&command)
        {
            if outcome.is_none() {
                // An answer to what was asked before it was sent over this connection.
                return;
            }
            up.in_flight.remove(&thread);
        }
        match outcome {
            None => self.never_taken(host, &entry),
            Some(Outcome::Refused { refusal }) if refusal.is_transient() => {
                self.not_now(host, &entry, &refusal);
            }
            Some(outcome) => self.ended(host, &entry, &outcome),
        }
        self.show_outbox(host, thread, true);
        self.pump(host);
    }

    fn never_taken(&mut self, host: HostId, entry: &OutboxEntry) {
        // A parked one waits for its person, whatever the host says that it has not.
        if matches!(entry.delivery, Stored::Parked(_)) {
            return;
        }
        if let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) {
            up.absent.insert(entry.command.id);
        }
    }

    /// The ledger was restored from a backup, for a thread or as a whole: whether what was handed over took effect can
    /// only be known where it still has an outcome. That is asked; the rest waits for its person.
    pub(crate) fn ledger_restored(&mut self, host: HostId, only: Option<ThreadId>) {
        let parked = self.store.transaction(
            |tx| {
                let mut parked = Vec::new();
                for entry in tx.pending(host)? {
                    if entry.handed && only.is_none_or(|thread| thread == entry.command.thread) {
                        tx.park(entry.command.id, ParkReason::LedgerRestored)?;
                        parked.push(entry.command.id);
                    }
                }
                Ok::<_, StoreError>(parked)
            },
            Durability::Lazy,
        );
        let Some(parked) = self.note("parking commands", parked) else {
            return;
        };
        if let Some(up) = self.hosts.get_mut(&host).and_then(|link| link.up.as_mut()) {
            up.asked.extend(&parked);
            for ids in parked.chunks(ASKED_AT_ONCE) {
                up.send(DeviceMessage::OutcomeQuery {
                    command_ids: ids.to_vec(),
                });
            }
        }
        for command in parked {
            self.tell(command);
        }
        self.shared.changed(Shows::Delivery, true);
    }

    fn not_now(&mut self, host: HostId, entry: &OutboxEntry, refusal: &Refusal) {
        lock(&self.shared.live)
            .waiting
            .insert(entry.command.id, refusal_words(refusal));
        if let Some(link) = self.hosts.get_mut(&host) {
            let draw = self.shared.draw();
            link.waits
                .failed(entry.command.thread, Instant::now(), draw);
            if let Some(up) = &mut link.up {
                // The host has said that it did not take it: it may be sent again.
                up.absent.insert(entry.command.id);
            }
        }
    }

    fn ended(&mut self, host: HostId, entry: &OutboxEntry, outcome: &Outcome) {
        let command = entry.command.id;
        let parked = self.store.transaction(
            |tx| {
                tx.settle(command, outcome)?;
                match outcome {
                    Outcome::Accepted { .. } => Ok(Vec::new()),
                    Outcome::Refused { .. } => park_dependents(tx, command),
                }
            },
            Durability::Lazy,
        );
        let Some(parked) = self.note("noting an outcome", parked) else {
            // It was told once and is not on this disk: it is asked for again after a while, when there may be room.
            if let Some(link) = self.hosts.get_mut(&host) {
                link.waits
                    .failed(entry.command.thread, Instant::now(), self.shared.draw());
                if let Some(up) = &mut link.up {
                    up.asked.remove(&command);
                }
            }
            return;
        };
        if let Some(link) = self.hosts.get_mut(&host) {
            link.waits.forget(entry.command.thread);
        }
        lock(&self.shared.live).waiting.remove(&command);
        self.tell(command);
        for command in parked {
            self.tell(command);
        }
    }

    /// Tells a command's tickets what stands in the outbox.
    fn tell(&self, command: CommandId) {
        let entry = self.store.outbox_entry(command);
        if let Some(Some(entry)) = self.note("reading the outbox", entry)
            && let Some(outcome) = outcome_of(&entry.delivery)
        {
            self.resolve(command, outcome);
        }
    }
}

/// Parks everything on the same thread that builds on a command that came to nothing; returns what was parked.
pub(crate) fn park_dependents(
    tx: &ReplicaTx<'_>,
    command: CommandId,
) -> Result<Vec<CommandId>, StoreError> {
    let Some(failed) = tx.outbox_entry(command)? else {
        return Ok(Vec::new());
    };
    let mut parked = Vec::new();
    for later in tx.pending(failed.host)? {
        if later.command.thread == failed.command.thread
            && later.command.device_seq > failed.command.device_seq
            && !later.handed
            && depends(&later.command, &failed.command)
        {
            tx.park(later.command.id, ParkReason::DependsOn { command })?;
            parked.push(later.command.id);
        }
    }
    Ok(parked)
}

/// Whether a later command on the same thread builds on an earlier one: it names something that one makes, or both are
/// messages, whose order is their person's.
fn depends(later: &Command, earlier: &Command) -> bool {
    match &earlier.body {
        CommandBody::ThreadCreate { .. }
        | CommandBody::ThreadFork { .. }
        | CommandBody::ThreadImport { .. } => true,
        CommandBody::MessageSend { .. } => {
            let run = earlier.id.derive("run");
            match &later.body {
                CommandBody::MessageSend { .. } => true,
                CommandBody::RunInterrupt { run: named, .. }
                | CommandBody::QueueRemove { run: named, .. } => *named == run,
                _ => false,
            }
        }
        _ => false,
    }
}
