//! The core's thread: the only writer of the replica, owner of the links, taker of everything that happens.
//!
//! Messages come in one queue and are handled one after the other, so that text, entries, outcomes and state reach the
//! views in the order in which the host sent them. What is written is committed before views are told.

use crate::{
    api::LogLevel,
    delivery::lock,
    error::{QueryError, SubmitError},
    hosts::HostLink,
    live::HostLive,
    rows::LinkState,
    shared::{Shared, Shows},
    sharing::SAY_AGAIN,
    ticket::TicketState,
};
use pilothouse_domain::{Command, CommandId, HostId, ThreadId};
use pilothouse_store::{Durability, HostRow, Lease, ReplicaStore, StoreError};
use pilothouse_wire::{
    link::{LinkEvent, LinkState as WireState},
    message::{ByeReason, Query, QueryResult},
};
use std::{
    collections::{BTreeMap, BTreeSet},
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
/// Time for ledgers in this process to be closed.
const CLOSING: Duration = Duration::from_secs(10);

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
    /// Something else is said of an agent that is driven from here.
    DirectChanged {
        host: HostId,
        reply: mpsc::Sender<Result<(), String>>,
    },
    /// Whether an agent that is driven from here is reached has changed.
    HostsChanged,
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
    /// Timelines that other processes observe; followed by the owner.
    pub(crate) elsewhere: BTreeSet<(HostId, ThreadId)>,
    /// What the owner has last told others of those.
    pub(crate) told_current: Option<Vec<(HostId, ThreadId)>>,
    /// Names this process among those that say what they observe.
    pub(crate) holder: String,
    /// Whether it stands in the file that this process observes something.
    pub(crate) announced: bool,
    last_announced: Instant,
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
        let holder = pilothouse_domain::hash::to_hex(&shared.random::<8>());
        Self {
            shared,
            store,
            hosts: BTreeMap::new(),
            runtime,
            observed: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            told_current: None,
            holder,
            announced: false,
            last_announced: now,
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

    pub(crate) fn is_owner(&self) -> bool {
        self.lease.is_some()
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
        let anew = self.store.transaction(
            |tx| tx.lists_are_read_by(env!("CARGO_PKG_VERSION")),
            Durability::Lazy,
        );
        self.note("having the lists told anew", anew);
        self.expire();
        self.start_links();
        self.serve_others();
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

    /// Ends the link to an agent that is driven from here, and begins another.
    fn link_anew(&mut self, host: HostId) {
        if let Some(mut link) = self.hosts.remove(&host) {
            link.down();
            link.stop(ByeReason::Done);
        }
        self.start_links();
        self.show_hosts();
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
        if !self.elsewhere.is_empty() {
            wait = wait.min(SAY_AGAIN);
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
                    self.announce();
                    self.learn_from_owner();
                }
                // What changed while the observation was being made is in the next batch.
                self.show_timeline(host, thread, false);
            }
            Message::Unobserve { host, thread } => {
                if let Some(count) = self.observed.get_mut(&(host, thread)) {
                    *count -= 1;
                    if *count == 0 {
                        self.observed.remove(&(host, thread));
                        if !self.is_observed(host, thread) {
                            self.unfollow(host, thread);
                        }
                        self.announce();
                    }
                }
            }
            Message::Ask { host, query, reply } => match self.hosts.get_mut(&host) {
                Some(link) => link.ask(query, reply),
                None => reply(Err(self.not_asked())),
            },
            Message::Paired { row, reply } => {
                let saved = self
                    .store
                    .transaction(|tx| tx.put_host(&row), Durability::Synced)
                    .map_err(|error: StoreError| error.to_string());
                self.start_links();
                self.show_hosts();
                let _ = reply.send(saved);
            }
            Message::DirectChanged { host, reply } => {
                // Other processes look again when the file has changed.
                let now = self.shared.platform.now_ms().to_string();
                let said = self.shared.direct.said(host);
                let touched = self.store.transaction(
                    |tx| {
                        if let (Some(mut row), Some(said)) = (tx.host(host)?, said) {
                            row.addresses = vec![said.agent.url];
                            tx.put_host(&row)?;
                        }
                        tx.put_setting("direct_changed_ms", &now)
                    },
                    Durability::Synced,
                );
                self.link_anew(host);
                let _ = reply.send(touched.map_err(|error: StoreError| error.to_string()));
            }
            Message::Older { host, thread, rows } => {
                let kept = self
                    .store
                    .transaction(|tx| tx.add_older_rows(thread, &rows), Durability::Lazy);
                if self.note("keeping older rows", kept).is_some() {
                    self.show_timeline(host, thread, false);
                }
            }
            Message::HostsChanged => self.show_hosts(),
            Message::Unpark { command, reply } => {
                let _ = reply.send(self.unpark(command));
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

    fn tick(&mut self) {
        let now = Instant::now();
        let shared_by_others = self.polls || self.lease.is_none();
        if shared_by_others && now.duration_since(self.last_poll) >= SHARED_POLL {
            self.last_poll = now;
            if self.store.changed_since().unwrap_or(false) {
                self.refresh();
            }
        }
        if now.duration_since(self.last_announced) >= SAY_AGAIN {
            self.last_announced = now;
            if self.is_owner() {
                self.serve_others();
            } else {
                self.announce();
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
            self.ask_again(host, now);
        }
    }

    /// Why a host is not asked that has no link here.
    fn not_asked(&self) -> QueryError {
        let what = "it".to_owned();
        if self.is_owner() {
            return QueryError::Offline { what };
        }
        let holder = self.store.lease_holder();
        let process = self.note("looking who has the links", holder).flatten();
        QueryError::HeldElsewhere { what, process }
    }

    /// Another process has written: look at everything again.
    fn refresh(&mut self) {
        for host in self.shared.direct.reread() {
            self.link_anew(host);
        }
        self.start_links();
        self.serve_others();
        self.settle_tickets();
        self.learn_from_owner();
        lock(&self.shared.live).touch_all();
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
        if !self.observed.contains_key(&(host, thread)) {
            return;
        }
        lock(&self.shared.live).touch(host, thread);
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
        self.observed.clear();
        self.announce();
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
            let closing = self.shared.direct.close();
            let _ = tokio::time::timeout(CLOSING, closing).await;
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
