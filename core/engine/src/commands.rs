//! Commands on this side of the wire: saved, expired, parked, taken back, and what their tickets are told.

use crate::{
    actor::Actor, api::TicketOutcome, delivery::lock, error::SubmitError, outbox::park_dependents,
    shared::parked_words, ticket::TicketState,
};
use pilothouse_domain::{Command, CommandId, HostId, Outcome};
use pilothouse_store::{Delivery as Stored, Durability, ParkReason, ReplicaTx, StoreError};
use std::sync::Arc;

impl Actor {
    /// One fsync for all that was submitted since the last one.
    pub(crate) fn save(&mut self, submitted: Vec<(HostId, Command, Arc<TicketState>)>) {
        if submitted.is_empty() {
            return;
        }
        let now = self.shared.platform.now_ms();
        let hosts = &self.hosts;
        let saved = self.store.transaction(
            |tx| {
                let mut marked = Vec::new();
                for (host, command, _) in &submitted {
                    // What goes out at once is saved and marked as handed over in one: a second sync would only delay it.
                    let free = hosts
                        .get(host)
                        .is_some_and(|link| link.is_free(command.thread))
                        && !tx
                            .pending(*host)?
                            .iter()
                            .any(|entry| entry.command.thread == command.thread);
                    tx.push(*host, command.clone(), now)?;
                    if free {
                        tx.mark_handed(&[command.id])?;
                        marked.push((*host, command.id));
                    }
                }
                Ok::<_, StoreError>(marked)
            },
            Durability::Synced,
        );
        let saved = saved.map_err(|error| SubmitError::NotSaved {
            why: error.to_string(),
        });
        for (host, command) in saved.iter().flatten() {
            if let Some(up) = self.hosts.get_mut(host).and_then(|link| link.up.as_mut()) {
                up.marked.insert(*command);
            }
        }
        let result = saved.map(drop);
        {
            let mut live = lock(&self.shared.live);
            for (_, command, ticket) in &submitted {
                live.unsaved.retain(|(_, held)| held.id != command.id);
                if result.is_ok() {
                    live.tickets
                        .entry(command.id)
                        .or_default()
                        .push(ticket.clone());
                }
            }
        }
        for (host, command, ticket) in &submitted {
            ticket.set_saved(result.clone());
            self.show_outbox(*host, command.thread, true);
        }
        let mut hosts: Vec<HostId> = submitted.iter().map(|(host, ..)| *host).collect();
        hosts.dedup();
        for host in hosts {
            if let Some(link) = self.hosts.get(&host)
                && link.up.is_none()
            {
                // A person acts: this is no moment to wait out a backoff.
                link.poke();
            }
            self.pump(host);
        }
    }

    /// Takes up a parked command. What was meant for an earlier pairing stays parked.
    pub(crate) fn unpark(&mut self, command: CommandId) -> Result<bool, String> {
        let entry = self
            .store
            .outbox_entry(command)
            .map_err(|error| error.to_string())?;
        let Some(entry) = entry.filter(|entry| {
            matches!(&entry.delivery, Stored::Parked(reason) if *reason != ParkReason::DeviceRevoked)
        }) else {
            return Ok(false);
        };
        if let Some(up) = self
            .hosts
            .get_mut(&entry.host)
            .and_then(|link| link.up.as_mut())
        {
            // If it was ever handed over, its outcome is asked once more before it goes out.
            up.asked.remove(&command);
        }
        if let Some(tickets) = lock(&self.shared.live).tickets.get(&command) {
            for ticket in tickets {
                ticket.reopen();
            }
        }
        self.change_outbox(command, |tx| tx.unpark(command).map(|()| true))
    }

    pub(crate) fn change_outbox(
        &mut self,
        command: CommandId,
        work: impl FnOnce(&mut ReplicaTx<'_>) -> Result<bool, StoreError>,
    ) -> Result<bool, String> {
        let entry = self
            .store
            .outbox_entry(command)
            .map_err(|error| error.to_string())?;
        let done = self
            .store
            .transaction(work, Durability::Synced)
            .map_err(|error| error.to_string())?;
        if let Some(entry) = entry {
            self.show_outbox(entry.host, entry.command.thread, true);
            self.pump(entry.host);
        }
        Ok(done)
    }

    /// Tells tickets what stands in the outbox, whoever wrote it.
    pub(crate) fn settle_tickets(&mut self) {
        let waiting: Vec<CommandId> = lock(&self.shared.live).tickets.keys().copied().collect();
        for command in waiting {
            let entry = self.store.outbox_entry(command);
            let Some(Some(entry)) = self.note("reading the outbox", entry) else {
                continue;
            };
            if let Some(outcome) = outcome_of(&entry.delivery) {
                self.resolve(command, outcome);
            }
        }
    }

    /// Tells a command's tickets what came of it.
    pub(crate) fn resolve(&self, command: CommandId, outcome: TicketOutcome) {
        let mut live = lock(&self.shared.live);
        if let Some(tickets) = live.tickets.get(&command) {
            for ticket in tickets {
                ticket.set_outcome(outcome.clone());
            }
            if tickets.iter().all(|ticket| ticket.is_final()) {
                live.tickets.remove(&command);
            }
        }
    }

    pub(crate) fn expire(&mut self) {
        let now = self.shared.platform.now_ms();
        let expired = self.store.transaction(
            |tx| {
                let expired = tx.expire(now)?;
                let mut parked = Vec::new();
                for command in &expired {
                    parked.extend(park_dependents(tx, *command)?);
                }
                Ok::<_, StoreError>((expired, parked))
            },
            Durability::Synced,
        );
        let Some((expired, parked)) = self.note("expiring commands", expired) else {
            return;
        };
        for command in expired.iter().chain(&parked) {
            let entry = self.store.outbox_entry(*command);
            if let Some(Some(entry)) = self.note("reading the outbox", entry) {
                if let Some(outcome) = outcome_of(&entry.delivery) {
                    self.resolve(*command, outcome);
                }
                self.show_outbox(entry.host, entry.command.thread, true);
            }
        }
        if !expired.is_empty() {
            let hosts: Vec<HostId> = self.hosts.keys().copied().collect();
            for host in hosts {
                self.pump(host);
            }
        }
    }
}

/// What a ticket is told of a command's place in the outbox, if there is anything to tell.
pub(crate) fn outcome_of(delivery: &Stored) -> Option<TicketOutcome> {
    Some(match delivery {
        Stored::Saved | Stored::Handed => return None,
        Stored::Done(Outcome::Accepted { cursor, notice }) => TicketOutcome::Accepted {
            cursor: *cursor,
            notice: notice.clone(),
        },
        Stored::Done(Outcome::Refused { refusal }) => TicketOutcome::Refused {
            refusal: refusal.clone(),
        },
        Stored::Expired => TicketOutcome::Expired,
        Stored::Parked(reason) => TicketOutcome::Parked {
            reason: parked_words(*reason),
        },
    })
}
