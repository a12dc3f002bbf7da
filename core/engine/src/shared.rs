//! What all threads of a core share, and what views read.

use crate::{
    actor::Message,
    api::{CoreConfig, LogLevel, Platform},
    delivery::{Delivery, ObservationId, lock},
    direct::DirectHosts,
    further,
    live::Live,
    predict::{Held, Overlay},
    rows::{DeliveryState, LinkState},
};
use pilothouse_domain::{
    Command, CommandBody, CommandId, Cursor, HostId, ItemId, MessageId, Outcome, Policy, RequestId,
    Row, RowKey, RuntimeRequest, ThreadId, ThreadState, TurnItem,
    row::RowKind,
    thread,
    thread::{Actor, ConversationMessage},
};
use pilothouse_store::{
    Delivery as Stored, HostRow, OutboxEntry, ParkReason, ReplicaReader, ReplicaReads, StoreError,
};
use pilothouse_wire::identity::{DeviceIdentity, IdentityError};
use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, Mutex, mpsc},
};

/// Bytes of stored rows that one rendering of a timeline reads at most.
const WINDOW_BYTES: usize = 768 * 1024;
/// Of that, bytes per item asked for.
const ITEM_BYTES: usize = 6 * 1024;

/// Commands that were saved last and are looked through for what they led to.
const RECENTLY_ENDED: u32 = 64;

/// What an observation shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    Hosts,
    Threads,
    Inbox,
    Delivery,
    Timeline(HostId, ThreadId),
}

pub(crate) struct Shared {
    pub(crate) config: CoreConfig,
    pub(crate) platform: Arc<dyn Platform>,
    pub(crate) live: Mutex<Live>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) observers: Mutex<BTreeMap<ObservationId, Shows>>,
    pub(crate) actor: mpsc::Sender<Message>,
    /// Of the delivery thread; gone once the core is closed.
    view_reader: Mutex<Option<ReplicaReader>>,
    /// Of whoever submits or asks.
    ask_reader: Mutex<Option<ReplicaReader>>,
    identity: Mutex<Option<DeviceIdentity>>,
    /// Agents that are driven from here.
    pub(crate) direct: DirectHosts,
}

impl Shared {
    pub(crate) fn new(
        config: CoreConfig,
        platform: Arc<dyn Platform>,
        delivery: Arc<Delivery>,
        actor: mpsc::Sender<Message>,
        view_reader: ReplicaReader,
        ask_reader: ReplicaReader,
    ) -> Self {
        Self {
            direct: DirectHosts::read(&config.data_dir),
            config,
            platform,
            live: Mutex::new(Live::default()),
            delivery,
            observers: Mutex::new(BTreeMap::new()),
            actor,
            view_reader: Mutex::new(Some(view_reader)),
            ask_reader: Mutex::new(Some(ask_reader)),
            identity: Mutex::new(None),
        }
    }

    pub(crate) fn log(&self, level: LogLevel, target: &str, message: &str) {
        self.platform.log(level, target, message);
    }

    /// A byte for the jitter of a wait.
    pub(crate) fn draw(&self) -> u8 {
        let [draw] = self.random();
        draw
    }

    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.platform.random(&mut bytes);
        bytes
    }

    /// This device's identity; the first call may ask a hardware store and take some 100 ms.
    pub(crate) fn identity(&self) -> Result<DeviceIdentity, IdentityError> {
        let mut held = lock(&self.identity);
        if let Some(identity) = &*held {
            return Ok(identity.clone());
        }
        let identity = DeviceIdentity::new(self.platform.device_key()?)?;
        *held = Some(identity.clone());
        Ok(identity)
    }

    /// Says that what some observations show has changed.
    pub(crate) fn changed(&self, what: Shows, at_once: bool) {
        let observers = lock(&self.observers);
        for (id, shows) in &*observers {
            if *shows == what {
                self.delivery.changed(*id, at_once);
            }
        }
    }

    /// Reads for a view, on one unchanging state of the file; `None` once the core is closed.
    pub(crate) fn view<T>(
        &self,
        work: impl FnOnce(&Reading<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.read(&self.view_reader, work)
    }

    /// Reads for somebody who asks, on one unchanging state of the file; `None` once the core is closed.
    pub(crate) fn ask<T>(
        &self,
        work: impl FnOnce(&Reading<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.read(&self.ask_reader, work)
    }

    fn read<T>(
        &self,
        reader: &Mutex<Option<ReplicaReader>>,
        work: impl FnOnce(&Reading<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let reader = lock(reader);
        let Some(reader) = reader.as_ref() else {
            return Ok(None);
        };
        // Before the file is looked at: what has left memory by now stands there.
        let (unsaved, waiting) = {
            let live = lock(&self.live);
            (live.unsaved.clone(), live.waiting.clone())
        };
        reader
            .consistent(|reads| {
                work(&Reading {
                    reads,
                    unsaved,
                    waiting,
                })
            })
            .map(Some)
    }

    /// Closes the readers, so that the writer is the last one and leaves one tidy file.
    pub(crate) fn stop_reading(&self) {
        drop(lock(&self.view_reader).take());
        drop(lock(&self.ask_reader).take());
    }

    pub(crate) fn link_of(&self, host: &HostRow) -> LinkState {
        if host.revoked {
            return LinkState::Revoked;
        }
        let live = lock(&self.live);
        if !live.owner {
            return LinkState::HeldElsewhere;
        }
        live.hosts.get(&host.host).map_or_else(
            || LinkState::Unreachable {
                since_ms: host.last_seen_ms.unwrap_or(host.paired_at_ms),
                next_try_ms: None,
                reason: String::new(),
            },
            |held| held.link.clone(),
        )
    }

    pub(crate) fn is_up(&self, host: HostId) -> bool {
        lock(&self.live).is_up(host)
    }

    /// The policy by which predictions for a host are made; `None` where host and device decide differently.
    pub(crate) fn policy(
        &self,
        reads: &Reading<'_>,
        host: HostId,
    ) -> Result<Option<Policy>, StoreError> {
        let same = lock(&self.live)
            .hosts
            .get(&host)
            .is_none_or(|held| held.same_decide);
        if same { reads.policy(host) } else { Ok(None) }
    }

    /// A thread as it will most likely be once the host has taken what is on its way.
    pub(crate) fn overlay<'a>(
        &self,
        reads: &Reading<'_>,
        host: HostId,
        state: Option<ThreadState>,
        outstanding: &[Outstanding],
        held: &'a dyn Held,
    ) -> Result<Overlay<'a>, StoreError> {
        let policy = self.policy(reads, host)?;
        let device = reads.host(host)?.map(|row| row.device).unwrap_or_default();
        let mut overlay = Overlay::new(state, held);
        for waiting in outstanding.iter().filter(|held| held.is_on_its_way()) {
            further::add(reads, &mut overlay.further, &waiting.command)?;
            overlay.add(&waiting.command, Actor::Device { device }, policy.as_ref());
        }
        Ok(overlay)
    }
}

/// One reading: the file at one moment, and what was not in it yet.
pub(crate) struct Reading<'a> {
    reads: &'a ReplicaReads,
    unsaved: Vec<(HostId, Command)>,
    waiting: BTreeMap<CommandId, String>,
}

impl<'a> Deref for Reading<'a> {
    type Target = &'a ReplicaReads;
    fn deref(&self) -> &&'a ReplicaReads {
        &self.reads
    }
}

impl Reading<'_> {
    /// Commands that have not come to an end, in order: those of a thread, or of everything.
    pub(crate) fn outstanding(
        &self,
        only: Option<(HostId, ThreadId)>,
    ) -> Result<Vec<Outstanding>, StoreError> {
        let wanted = |host: HostId, command: &Command| {
            only.is_none_or(|(h, thread)| h == host && thread == command.thread)
        };
        let mut out: Vec<Outstanding> = Vec::new();
        for entry in self.recent(only.map(|(_, thread)| thread), RECENTLY_ENDED)? {
            if wanted(entry.host, &entry.command)
                && let Some(state) = self.state_of(&entry, only.is_some())?
            {
                out.push(Outstanding {
                    host: entry.host,
                    command: entry.command,
                    saved_at_ms: entry.created_ms,
                    state,
                });
            }
        }
        for (host, command) in &self.unsaved {
            if wanted(*host, command) && self.outbox_entry(command.id)?.is_none() {
                out.push(Outstanding {
                    host: *host,
                    saved_at_ms: command.issued_at_ms,
                    command: command.clone(),
                    state: DeliveryState::Saved,
                });
            }
        }
        Ok(out)
    }

    /// Where an entry stands; `None` once there is nothing more to say. `in_thread` asks for its thread's timeline.
    fn state_of(
        &self,
        entry: &OutboxEntry,
        in_thread: bool,
    ) -> Result<Option<DeliveryState>, StoreError> {
        let waiting = self.waiting.get(&entry.command.id);
        Ok(Some(match &entry.delivery {
            Stored::Saved | Stored::Handed if waiting.is_some() => DeliveryState::Waiting {
                reason: waiting.cloned().unwrap_or_default(),
            },
            Stored::Saved => DeliveryState::Saved,
            Stored::Handed => DeliveryState::Sent,
            Stored::Done(Outcome::Accepted { cursor, .. }) => {
                if self.has_come(entry, cursor, in_thread)? {
                    return Ok(None);
                }
                DeliveryState::OnHost
            }
            Stored::Done(Outcome::Refused { refusal }) => DeliveryState::Refused {
                reason: refusal_words(refusal),
            },
            Stored::Expired => DeliveryState::Expired,
            Stored::Parked(reason) => DeliveryState::Parked {
                reason: parked_words(*reason),
            },
        }))
    }

    /// Whether what a taken command led to has come: into the host's list, or for a timeline into the thread's log.
    fn has_come(
        &self,
        entry: &OutboxEntry,
        cursor: &Cursor,
        in_thread: bool,
    ) -> Result<bool, StoreError> {
        let (host, thread) = (entry.host, entry.command.thread);
        if self.feed_cursor(host)?.epoch != cursor.epoch {
            return Ok(true);
        }
        let reached = if in_thread {
            self.cursor(thread)?.map(|cursor| cursor.seq)
        } else {
            self.listed_seq(host, thread)?
        };
        Ok(reached.is_some_and(|seq| seq >= cursor.seq))
    }
}

/// A command that has not come to an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outstanding {
    pub(crate) host: HostId,
    pub(crate) command: Command,
    pub(crate) saved_at_ms: u64,
    pub(crate) state: DeliveryState,
}

impl Outstanding {
    /// Whether the host may still take it, or has and its consequences are on their way.
    pub(crate) fn is_on_its_way(&self) -> bool {
        !matches!(
            self.state,
            DeliveryState::Parked { .. } | DeliveryState::Expired | DeliveryState::Refused { .. }
        )
    }

    /// How far its message got.
    pub(crate) fn delivery(&self) -> thread::Delivery {
        match &self.state {
            DeliveryState::Saved | DeliveryState::Sent | DeliveryState::Waiting { .. } => {
                thread::Delivery::Saved
            }
            DeliveryState::OnHost => thread::Delivery::OnHost,
            DeliveryState::Parked { reason } | DeliveryState::Refused { reason } => {
                thread::Delivery::Failed {
                    reason: reason.clone(),
                }
            }
            DeliveryState::Expired => thread::Delivery::Failed {
                reason: "it expired before it could be sent".to_owned(),
            },
        }
    }
}

/// Why a command was not taken and what to do, in words.
pub(crate) fn refusal_words(refusal: &pilothouse_domain::Refusal) -> String {
    format!("{refusal}; {}", refusal.next_step())
}

/// Why a command is parked and what to do, in words.
pub(crate) fn parked_words(reason: ParkReason) -> String {
    match reason {
        ParkReason::DependsOn { .. } => {
            "one before it, which it builds on, was not taken; send it again or discard it"
        }
        ParkReason::DeviceRevoked => {
            "the host has revoked this device; pair again and write it anew"
        }
        ParkReason::LedgerRestored => {
            "the host was restored from a backup, and whether this took effect cannot be known; look there, then send it again or discard it"
        }
    }
    .to_owned()
}

/// Answers of this device that came to nothing, by request: of the last one, why.
pub(crate) fn refused_answers(outstanding: &[Outstanding]) -> BTreeMap<RequestId, String> {
    let mut refused = BTreeMap::new();
    for held in outstanding {
        let CommandBody::RequestAnswer { request, .. } = &held.command.body else {
            continue;
        };
        let reason = match &held.state {
            DeliveryState::Refused { reason } | DeliveryState::Parked { reason } => reason,
            DeliveryState::Expired => "it waited too long and was never sent; answer again",
            _ => continue,
        };
        refused.insert(*request, reason.to_owned());
    }
    refused
}

/// A thread as it is stored, inside one reading.
pub(crate) struct StoredThread<'a> {
    reads: &'a ReplicaReads,
    thread: ThreadId,
    pub(crate) state: Option<ThreadState>,
    pub(crate) cursor: Option<Cursor>,
    /// The newest items, oldest first.
    pub(crate) items: Vec<TurnItem>,
    /// Whether older ones exist than those in `items`, here or on the host.
    pub(crate) older: bool,
    rows: BTreeMap<RowKey, Row>,
}

impl<'a> StoredThread<'a> {
    /// Reads the newest `count` items, or as many of them as fit a bound of bytes.
    pub(crate) fn load(
        reads: &'a ReplicaReads,
        host: HostId,
        thread: ThreadId,
        count: usize,
    ) -> Result<Self, StoreError> {
        let snapshot = reads
            .state(thread)?
            .filter(|(held_by, _)| *held_by == host)
            .map(|(_, snapshot)| snapshot);
        let (state, cursor) = match snapshot {
            Some(snapshot) => (Some(snapshot.state), Some(snapshot.cursor)),
            None => (None, None),
        };
        let bytes = count.saturating_mul(ITEM_BYTES).min(WINDOW_BYTES);
        let window = match &state {
            Some(_) => reads.items_before(thread, None, bytes)?,
            None => pilothouse_store::Window::default(),
        };
        let mut items = Vec::new();
        let mut rows = BTreeMap::new();
        for row in window.rows {
            match row {
                Row::Item(item) => items.push(item),
                other => {
                    rows.insert(other.key(), other);
                }
            }
        }
        let held_first = items.first().is_some_and(is_first);
        let mut older = window.more || (!items.is_empty() && !held_first);
        if items.len() > count {
            older = true;
            items.drain(..items.len() - count);
        }
        Ok(Self {
            reads,
            thread,
            state,
            cursor,
            items,
            older,
            rows,
        })
    }

    /// A row, of the window or not.
    pub(crate) fn row(&self, key: RowKey) -> Option<Row> {
        if let Some(row) = self.rows.get(&key) {
            return Some(row.clone());
        }
        self.state.as_ref()?;
        self.reads.row(self.thread, key).ok().flatten()
    }

    pub(crate) fn request(&self, id: RequestId) -> Option<RuntimeRequest> {
        match self.row(RowKind::Request.key(id.as_bytes())) {
            Some(Row::Request(request)) => Some(*request),
            _ => None,
        }
    }

    pub(crate) fn message(&self, id: MessageId) -> Option<ConversationMessage> {
        match self.row(RowKind::Message.key(id.as_bytes())) {
            Some(Row::Message(message)) => Some(message),
            _ => None,
        }
    }

    /// Requests of the window that are about an item, the first one first.
    pub(crate) fn about(&self, item: ItemId) -> Vec<RuntimeRequest> {
        let requests = self.rows.values().filter_map(|row| match row {
            Row::Request(request) => Some(&**request),
            _ => None,
        });
        asked_about(requests, item)
    }

    pub(crate) fn has_item(&self, id: ItemId) -> bool {
        self.items.iter().any(|item| item.id == id)
            || self.row(RowKind::Item.key(id.as_bytes())).is_some()
    }

    /// Messages of the active run that no item shows yet.
    pub(crate) fn unshown_messages(&self) -> Vec<ConversationMessage> {
        let Some(active) = self.state.as_ref().and_then(|state| state.active.as_ref()) else {
            return Vec::new();
        };
        let ids: Vec<MessageId> = active
            .message
            .iter()
            .chain(&active.steering)
            .chain(&active.restart_pending)
            .copied()
            .collect();
        ids.into_iter()
            .filter(|id| !self.has_item(pilothouse_orchestrator::user_item(*id)))
            .filter_map(|id| self.message(id))
            .collect()
    }
}

/// Those of the requests that are about an item, the first one first.
pub(crate) fn asked_about<'a>(
    requests: impl Iterator<Item = &'a RuntimeRequest>,
    item: ItemId,
) -> Vec<RuntimeRequest> {
    let mut about: Vec<RuntimeRequest> = requests
        .filter(|request| request.item == Some(item))
        .cloned()
        .collect();
    about.sort_by_key(|request| (request.opened_at_ms, request.id));
    about
}

/// The very first item of a thread has the first arrival.
fn is_first(item: &TurnItem) -> bool {
    item.position.arrival <= 1
}
