//! The core's thread: the only writer of the replica, owner of the links, taker of everything that happens.
//!
//! Messages come in one queue and are handled one after the other, so that text, entries, outcomes and state reach the
//! views in the order in which the host sent them. What is written is committed before views are told.

use crate::{
    api::{LogLevel, TicketOutcome},
    delivery::lock,
    error::{QueryError, SubmitError},
    hosts::HostLink,
    live::HostLive,
    rows::LinkState,
    shared::{Shared, Shows, parked_words},
    ticket::TicketState,
};
use pilothouse_domain::{Command, CommandId, HostId, Outcome, ThreadId};
use pilothouse_store::{Delivery as Stored, Durability, HostRow, Lease, ReplicaStore, StoreError};
use pilothouse_wire::{
    link::{LinkEvent, LinkState as WireState},
    message::{ByeReason, Query, QueryResult},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, sync::OwnedSemaphorePermit};

/// How soon a change by another process is noticed.
const SHARED_POLL: Duration = Duration::from_millis(50);
/// How often a process without the links tries to get them, and the outbox is looked through for what has expired.
const SLOW_POLL: Duration = Duration::from_millis(250);
const EXPIRY_POLL: Duration = Duration::from_secs(1);
/// Messages handled between two looks at the clock.
const BATCH: usize = 256;
/// How long ended commands are kept, so that what came of them can be asked.
const ENDED_KEPT_MS: u64 = 24 * 60 * 60 * 1000;
/// Time for the links to say goodbye.
const FAREWELL: Duration = Duration::from_millis(1500);

/// Takes the answer to a question to a host.
pub(crate) type Reply = Box<dyn FnOnce(Result<QueryResult, QueryError>) + Send>;

/// What the core's thread is told.
pub(crate) enum Message {
    Submit {
        host: HostId,
        command: Command,
        ticket: Arc<TicketState>,
    },
    Link {
        host: HostId,
        /// Which life of the link: late words of an earlier one are not heard.
        life: u64,
        event: LinkEvent,
        /// Bounds what is on its way from the links to this thread.
        _room: Option<OwnedSemaphorePermit>,
    },
    LinkState {
        host: HostId,
        life: u64,
        state: WireState,
    },
    Observe {
        host: HostId,
        thread: ThreadId,
    },
    Unobserve {
        host: HostId,
        thread: ThreadId,
    },
    Ask {
        host: HostId,
        query: Query,
        reply: Reply,
    },
    Paired {
        row: HostRow,
        reply: mpsc::Sender<Result<(), String>>,
    },
    Older {
        host: HostId,
        thread: ThreadId,
        rows: Vec<pilothouse_domain::Row>,
    },
    Unpark {
        command: CommandId,
        reply: mpsc::Sender<Result<bool, String>>,
    },
    Discard {
        command: CommandId,
        reply: mpsc::Sender<Result<bool, String>>,
    },
    Environment,
    Close,
}

pub(crate) struct Actor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: ReplicaStore,
    pub(crate) hosts: BTreeMap<HostId, HostLink>,
    pub(crate) runtime: Runtime,
    /// Observers per timeline.
    pub(crate) observed: BTreeMap<(HostId, ThreadId), u32>,
    lease: Option<Lease>,
    inbox: mpsc::Receiver<Message>,
    polls: bool,
    last_poll: Instant,
    last_lease: Instant,
    last_expiry: Instant,
    lives: u64,
}

impl Actor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        store: ReplicaStore,
        lease: Option<Lease>,
        runtime: Runtime,
        inbox: mpsc::Receiver<Message>,
    ) -> Self {
        // On a phone one process has the directory for itself, and a timer would keep it awake.
        let polls = shared.config.platform != "android";
        let now = Instant::now();
        Self {
            shared,
            store,
            hosts: BTreeMap::new(),
            runtime,
            observed: BTreeMap::new(),
            lease,
            inbox,
            polls,
            last_poll: now,
            last_lease: now,
            last_expiry: now,
            lives: 0,
        }
    }

    pub(crate) fn run(mut self) {
        self.begin();
        loop {
            match self.inbox.recv_timeout(self.wait()) {
                Ok(first) => {
                    let mut messages = vec![first];
                    messages.extend(self.inbox.try_iter().take(BATCH));
                    if self.take(messages) {
                        break;
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            self.tick();
        }
        self.end();
    }

    fn begin(&mut self) {
        let before = self.shared.platform.now_ms().saturating_sub(ENDED_KEPT_MS);
        let pruned = self
            .store
            .transaction(|tx| tx.prune_outbox(before), Durability::Lazy);
        self.note("pruning the outbox", pruned);
        if self.lease.is_some() {
            self.own();
        }
    }

    /// This process holds the links now.
    fn own(&mut self) {
        lock(&self.shared.live).owner = true;
        self.expire();
        self.start_links();
        self.show_hosts();
    }

    /// Starts a link to every host that has none yet and may have one.
    pub(crate) fn start_links(&mut self) {
        if self.lease.is_none() {
            return;
        }
        let hosts = self.store.hosts();
        let Some(hosts) = self.note("reading hosts", hosts) else {
            return;
        };
        for row in hosts {
            let same = self
                .hosts
                .get(&row.host)
                .is_some_and(|link| link.paired_at_ms() == row.paired_at_ms);
            if row.revoked || same {
                continue;
            }
            self.lives += 1;
            let link = HostLink::start(&self.shared, self.runtime.handle(), &row, self.lives);
            if let Some(old) = self.hosts.insert(row.host, link) {
                old.stop(ByeReason::Done);
            }
            lock(&self.shared.live).hosts.insert(
                row.host,
                HostLive {
                    link: LinkState::Unreachable {
                        since_ms: row.last_seen_ms.unwrap_or(row.paired_at_ms),
                        next_try_ms: None,
                        reason: String::new(),
                    },
                    same_decide: true,
                },
            );
        }
    }

    fn wait(&self) -> Duration {
        let retry = self.hosts.values().filter_map(HostLink::next_retry).min();
        let mut wait = if self.lease.is_none() || self.polls {
            SHARED_POLL
        } else {
            Duration::from_secs(3600)
        };
        if let Some(at) = retry {
            wait = wait.min(at.saturating_duration_since(Instant::now()));
        }
        if self.hosts.values().any(|link| link.unsent > 0) {
            wait = wait.min(EXPIRY_POLL);
        }
        wait
    }

    /// Handles messages in order, submissions that follow each other in one commit. Says whether to end.
    fn take(&mut self, messages: Vec<Message>) -> bool {
        let mut submitted = Vec::new();
        for message in messages {
            if let Message::Submit {
                host,
                command,
                ticket,
            } = message
            {
                submitted.push((host, command, ticket));
                continue;
            }
            self.save(std::mem::take(&mut submitted));
            if matches!(message, Message::Close) {
                return true;
            }
            self.handle(message);
        }
        self.save(submitted);
        false
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Submit { .. } | Message::Close => {}
            Message::Link {
                host, life, event, ..
            } => {
                if self.hosts.get(&host).is_some_and(|link| link.life == life) {
                    self.heard(host, event);
                }
            }
            Message::LinkState { host, life, state } => {
                if self.hosts.get(&host).is_some_and(|link| link.life == life) {
                    self.show_link(host, &state);
                }
            }
            Message::Observe { host, thread } => {
                let count = self.observed.entry((host, thread)).or_default();
                *count += 1;
                if *count == 1 {
                    self.follow(host, thread);
                }
            }
            Message::Unobserve { host, thread } => {
                if let Some(count) = self.observed.get_mut(&(host, thread)) {
                    *count -= 1;
                    if *count == 0 {
                        self.observed.remove(&(host, thread));
                        self.unfollow(host, thread);
                    }
                }
            }
            Message::Ask { host, query, reply } => match self.hosts.get_mut(&host) {
                Some(link) => link.ask(query, reply),
                None => reply(Err(QueryError::Offline {
                    what: "it".to_owned(),
                })),
            },
            Message::Paired { row, reply } => {
                let saved = self
                    .store
                    .transaction(
                        |tx| {
                            // Words for an earlier pairing are not for this one.
                            tx.put_host(&row)
                        },
                        Durability::Synced,
                    )
                    .map_err(|error: StoreError| error.to_string());
                self.start_links();
                self.show_hosts();
                let _ = reply.send(saved);
            }
            Message::Older { host, thread, rows } => {
                let kept = self
                    .store
                    .transaction(|tx| tx.add_older_rows(thread, &rows), Durability::Lazy);
                if self.note("keeping older rows", kept).is_some() {
                    self.show_timeline(host, thread, false);
                }
            }
            Message::Unpark { command, reply } => {
                let done = self.change_outbox(command, |tx| tx.unpark(command).map(|()| true));
                let _ = reply.send(done);
            }
            Message::Discard { command, reply } => {
                let done = self.change_outbox(command, |tx| tx.withdraw(command));
                let _ = reply.send(done);
            }
            Message::Environment => {
                for link in self.hosts.values() {
                    link.poke();
                }
            }
        }
    }

    /// One fsync for all that was submitted since the last one.
    fn save(&mut self, submitted: Vec<(HostId, Command, Arc<TicketState>)>) {
        if submitted.is_empty() {
            return;
        }
        let now = self.shared.platform.now_ms();
        let result = self.store.transaction(
            |tx| {
                for (host, command, _) in &submitted {
                    tx.push(*host, command.clone(), now)?;
                }
                Ok::<(), StoreError>(())
            },
            Durability::Synced,
        );
        let result = result.map_err(|error| SubmitError::NotSaved {
            why: error.to_string(),
        });
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

    fn change_outbox(
        &mut self,
        command: CommandId,
        work: impl FnOnce(&mut pilothouse_store::ReplicaTx<'_>) -> Result<bool, StoreError>,
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

    fn tick(&mut self) {
        let now = Instant::now();
        let shared_by_others = self.polls || self.lease.is_none();
        if shared_by_others && now.duration_since(self.last_poll) >= SHARED_POLL {
            self.last_poll = now;
            if self.store.changed_since().unwrap_or(false) {
                self.refresh();
            }
        }
        if self.lease.is_none() && now.duration_since(self.last_lease) >= SLOW_POLL {
            self.last_lease = now;
            let lease = self.store.try_lease();
            if let Some(Some(lease)) = self.note("taking the links", lease) {
                self.lease = Some(lease);
                self.own();
                self.refresh();
            }
        }
        if self.lease.is_some() && now.duration_since(self.last_expiry) >= EXPIRY_POLL {
            self.last_expiry = now;
            if self.hosts.values().any(|link| link.unsent > 0) {
                self.expire();
            }
        }
        let due: Vec<HostId> = self
            .hosts
            .iter()
            .filter(|(_, link)| link.next_retry().is_some_and(|at| at <= now))
            .map(|(host, _)| *host)
            .collect();
        for host in due {
            self.pump(host);
        }
    }

    /// Another process has written: look at everything again.
    fn refresh(&mut self) {
        self.start_links();
        self.settle_tickets();
        {
            let mut live = lock(&self.shared.live);
            for thread in live.threads.values_mut() {
                thread.version += 1;
            }
        }
        for shows in [Shows::Hosts, Shows::Threads, Shows::Inbox, Shows::Delivery] {
            self.shared.changed(shows, true);
        }
        for (host, thread) in self.observed.keys() {
            self.shared.changed(Shows::Timeline(*host, *thread), true);
        }
        let hosts: Vec<HostId> = self.hosts.keys().copied().collect();
        for host in hosts {
            self.pump(host);
        }
    }

    /// Tells tickets what stands in the outbox, whoever wrote it.
    fn settle_tickets(&mut self) {
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

    fn expire(&mut self) {
        let now = self.shared.platform.now_ms();
        let expired = self.store.transaction(
            |tx| {
                let expired = tx.expire(now)?;
                let mut parked = Vec::new();
                for command in &expired {
                    parked.extend(crate::outbox::park_dependents(tx, *command)?);
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

    /// Logs a failure of the store; there is nobody to return it to.
    pub(crate) fn note<T>(&self, doing: &str, result: Result<T, StoreError>) -> Option<T> {
        result
            .inspect_err(|error| {
                self.shared
                    .log(LogLevel::Error, "core", &format!("{doing}: {error}"));
            })
            .ok()
    }

    pub(crate) fn show_hosts(&self) {
        self.shared.changed(Shows::Hosts, true);
        self.shared.changed(Shows::Inbox, true);
        self.shared.changed(Shows::Threads, false);
    }

    /// What is on its way on a thread has changed.
    pub(crate) fn show_outbox(&self, host: HostId, thread: ThreadId, at_once: bool) {
        self.shared.changed(Shows::Delivery, at_once);
        self.shared.changed(Shows::Inbox, at_once);
        self.shared.changed(Shows::Threads, at_once);
        self.show_timeline(host, thread, at_once);
    }

    pub(crate) fn show_timeline(&self, host: HostId, thread: ThreadId, at_once: bool) {
        lock(&self.shared.live).thread(host, thread).version += 1;
        self.shared.changed(Shows::Timeline(host, thread), at_once);
    }

    fn show_link(&mut self, host: HostId, state: &WireState) {
        if let WireState::Stopped {
            reason: ByeReason::Revoked,
        } = state
        {
            // It stands in the file before anybody sees it.
            self.revoked(host);
            return;
        }
        let shown = crate::hosts::shown(state, self.shared.platform.now_ms());
        let mut live = lock(&self.shared.live);
        let Some(held) = live.hosts.get_mut(&host) else {
            return;
        };
        if held.link == shown {
            return;
        }
        held.link = shown;
        drop(live);
        self.show_hosts();
    }

    fn end(mut self) {
        let links = std::mem::take(&mut self.hosts);
        let mut ends = Vec::new();
        for (_, link) in links {
            ends.push(link.stop(ByeReason::Done));
        }
        let farewell = async {
            for end in ends {
                let _ = end.await;
            }
        };
        self.runtime.block_on(async {
            let _ = tokio::time::timeout(FAREWELL, farewell).await;
        });
        // What was submitted behind the end is not saved, and says so.
        for message in self.inbox.try_iter() {
            match message {
                Message::Submit { ticket, .. } => ticket.set_saved(Err(SubmitError::Closed)),
                Message::Ask { reply, .. } => reply(Err(QueryError::Closed)),
                _ => {}
            }
        }
        drop(self.store);
        drop(self.lease);
        self.runtime.shutdown_timeout(FAREWELL);
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
