//! A small host: real transport, pairing and orchestrator, a log in memory, and knobs for everything that goes wrong.

mod session;

use pilothouse_domain::{
    BlobHash, Cause, Command, CommandBody, CommandId, ContentHash, DeviceId, Epoch, Event, HostId,
    ItemContent, ItemId, ItemStatus, LoggedEvent, Mode, NodeId, OptionId, Outcome, Policy,
    Position, Refusal, RequestId, RequestStatus, RuntimeRequest, Scope, Subject, ThreadId,
    TurnItem, WorkspaceId,
    capability::{CapabilityFlag, CapabilitySet, CapabilityValue},
    feed::{FeedCursor, FeedThread, FeedUpdate, GapReason, Subscribed},
    item::Body,
    policy::AgentPolicy,
    request::{Answer, AnswerDelivery, OptionEffect, RequestKind, RequestOption, Respondability},
    row::{LiveText, OpenItem, Snapshot, WaitingCounts},
    thread::{Actor, Selection},
};
use pilothouse_orchestrator::{Verdict, memory::MemoryThread};
use pilothouse_wire::{
    duplex::{Close, CloseCode},
    hosts::HostAllowList,
    identity::{HostIdentity, SpkiHash},
    message::{
        BLOB_CHUNK, Base64, BlobChunk, ByeReason, DeviceMessage, ErrorAbout, ErrorCode,
        HostMessage, Limits, OlderItems, Outgoing, Paired, Query, QueryAnswer, QueryResult,
        ReceiveError, SubId, Welcome, WireError,
    },
    offer::{OFFER_VERSION, PairingOffer, PairingSecret},
    opening::{Opening, answer_pair, read_opening, say_bye},
    pairing::PairingSecrets,
    stream::Encoding,
    websocket::{Acceptor, Established},
};
use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::{net::TcpListener, runtime::Runtime, sync::watch, task::JoinHandle};

use session::Session;

pub(crate) const HOST: HostId = HostId::from_bytes([9; 16]);

/// What the host keeps, and what it is told to do wrong.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) threads: BTreeMap<ThreadId, MemoryThread>,
    revisions: BTreeMap<ThreadId, u64>,
    revision: u64,
    pub(crate) outcomes: BTreeMap<CommandId, Outcome>,
    /// Commands in the order in which they were taken; a repeat is not taken.
    pub(crate) taken: Vec<Command>,
    /// How often each command came over the wire.
    pub(crate) arrivals: BTreeMap<CommandId, u32>,
    pub(crate) asked: u32,
    paired: BTreeMap<SpkiHash, DeviceId>,
    secrets: PairingSecrets,
    happened: Vec<Happened>,
    open: BTreeMap<ItemId, (ThreadId, String)>,
    /// The next so many commands are committed, and the connection is cut before they are acknowledged.
    pub(crate) cuts: u32,
    /// The next commands get these instead of being decided.
    pub(crate) refusals: VecDeque<Refusal>,
    /// The next so many subscriptions, of threads and of the feed, fail.
    pub(crate) failures: u32,
    /// Counted up: every subscription there is fails once.
    pub(crate) breaks: u64,
    /// The next so many entries are not sent to those who follow their thread.
    pub(crate) skips: u32,
    /// No outcome is sent; it stays to be asked for.
    pub(crate) mute: bool,
    /// No change of the feed is sent.
    pub(crate) feed_held: bool,
    /// The answer to a feed's subscription comes in steps of two threads, each in two parts.
    pub(crate) feed_in_parts: bool,
    /// The connection is cut once, after so many of those parts.
    pub(crate) feed_cut: Option<usize>,
    /// The places from which the feed was asked for.
    pub(crate) feed_asked: Vec<Option<FeedCursor>>,
    /// Stored texts.
    pub(crate) bodies: BTreeMap<BlobHash, Vec<u8>>,
    /// It knows the compressed stream; otherwise it is a host of before.
    pub(crate) encodes: bool,
    /// Behind so many answers to a subscription there is an entry that does not fit.
    pub(crate) gaps: u32,
    /// When a thread was subscribed to.
    pub(crate) followed: Vec<std::time::Instant>,
    /// Every subject in the feed is altered after it was hashed.
    pub(crate) tampers: bool,
    /// It is newer, and says of this thread what no device knows.
    pub(crate) newer: Option<ThreadId>,
    pub(crate) epoch: Epoch,
    connections: u64,
    version: u64,
    kicks: u64,
    revoked: bool,
}

#[derive(Clone)]
enum Happened {
    Entries(ThreadId, u64),
    Live(ThreadId, LiveText),
}

pub(crate) struct FakeHost {
    world: Arc<Mutex<World>>,
    changed: watch::Sender<u64>,
    identity: HostIdentity,
    address: SocketAddr,
    runtime: Runtime,
    serving: Option<JoinHandle<()>>,
}

pub(crate) fn policy() -> Policy {
    let mut capabilities = CapabilitySet::default();
    capabilities.insert(CapabilityFlag::Interrupt, CapabilityValue::Yes);
    Policy {
        version: 1,
        agents: [(
            "codex".into(),
            AgentPolicy {
                family: "codex".to_owned(),
                modes: Mode::ALL.to_vec(),
                capabilities,
                sandboxes: Vec::new(),
            },
        )]
        .into(),
        workspaces: vec![WorkspaceId::from("w")],
        default_mode: Mode::Ask,
    }
}

pub(crate) fn selection() -> Selection {
    Selection {
        agent: "codex".into(),
        model: None,
        effort: None,
        mode: Mode::Ask,
        sandbox: None,
    }
}

impl FakeHost {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let mut host = Self {
            world: Arc::default(),
            changed: watch::Sender::new(0),
            identity: HostIdentity::generate().unwrap(),
            address,
            runtime,
            serving: None,
        };
        host.serve(listener);
        host
    }

    fn serve(&mut self, listener: TcpListener) {
        let names = HostAllowList::new(["127.0.0.1"], []);
        let acceptor = Acceptor::new(&self.identity, names).unwrap();
        let (sender, mut connections) = tokio::sync::mpsc::channel(8);
        let (world, changed) = (self.world.clone(), self.changed.clone());
        self.serving = Some(self.runtime.spawn(async move {
            let accepting = tokio::spawn(acceptor.serve(listener, sender));
            let _stop = AbortOnDrop(accepting);
            while let Some(established) = connections.recv().await {
                tokio::spawn(Session::run(
                    established,
                    world.clone(),
                    changed.subscribe(),
                    changed.clone(),
                ));
            }
        }));
    }

    /// Goes away: nobody listens, every connection is cut.
    pub(crate) fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            let _ = self.runtime.block_on(serving);
        }
        self.kick();
    }

    /// Comes back at the same address.
    pub(crate) fn resume(&mut self) {
        let listener = self.runtime.block_on(async {
            loop {
                if let Ok(listener) = TcpListener::bind(self.address).await {
                    return listener;
                }
                tokio::task::yield_now().await;
            }
        });
        self.serve(listener);
    }

    /// Cuts every connection, without a word.
    pub(crate) fn kick(&self) {
        self.with(|world| world.kicks += 1);
    }

    pub(crate) fn revoke(&self) {
        self.with(|world| world.revoked = true);
    }

    /// A code by which one device can pair.
    pub(crate) fn code(&self) -> String {
        let secret = PairingSecret::from_bytes([7; 16]);
        let expires_at_ms = self.lock().secrets.begin(secret.clone(), 0);
        PairingOffer {
            version: OFFER_VERSION,
            host_id: HOST,
            host_name: "studio".to_owned(),
            addresses: vec![self.address.to_string()],
            spki_sha256: self.identity.spki_sha256(),
            secret,
            expires_at_ms,
        }
        .to_text()
        .unwrap()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.world
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes the world and tells every session.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut World) -> T) -> T {
        let (value, version) = {
            let mut world = self.lock();
            let value = work(&mut world);
            world.version += 1;
            (value, world.version)
        };
        self.changed.send_replace(version);
        value
    }

    pub(crate) fn connections(&self) -> u64 {
        self.lock().connections
    }

    /// Makes a thread, as another device would.
    pub(crate) fn thread(&self, number: u8, title: &str) -> ThreadId {
        let id = CommandId::from_bytes([number; 16]);
        let command = Command {
            id,
            thread: id.derive("thread"),
            device_seq: 1,
            based_on: None,
            issued_at_ms: 0,
            body: CommandBody::ThreadCreate {
                title: title.to_owned(),
                workspace: "w".into(),
                selection: selection(),
            },
        };
        self.with(|world| world.decide(other_device(), &command).unwrap());
        command.thread
    }

    /// Appends events to a thread's log.
    pub(crate) fn append(&self, thread: ThreadId, events: Vec<Event>) {
        self.with(|world| {
            world.in_thread(thread, |memory| memory.append(Cause::Clock, events));
        });
    }

    /// Streams text into an open item.
    pub(crate) fn live(&self, thread: ThreadId, item: ItemId, text: &str) {
        self.with(|world| {
            let (_, held) = world.open.entry(item).or_insert((thread, String::new()));
            let live = LiveText {
                item,
                offset: held.len() as u64,
                text: text.to_owned(),
            };
            held.push_str(text);
            world.happened.push(Happened::Live(thread, live));
        });
    }

    /// Asks for a command to be approved.
    pub(crate) fn ask(
        &self,
        thread: ThreadId,
        number: u8,
        kind: RequestKind,
        subject: &Subject,
    ) -> RequestId {
        let request = request(number, kind, subject);
        let id = request.id;
        self.append(
            thread,
            vec![Event::RequestOpened {
                request: Box::new(request),
            }],
        );
        id
    }

    /// Says that the agent has the answer to a request.
    pub(crate) fn confirm(&self, thread: ThreadId, request: RequestId) {
        let status = RequestStatus::Answered {
            answer: None,
            by: None,
            delivery: AnswerDelivery::Confirmed,
            at_ms: 0,
        };
        self.append(thread, vec![Event::RequestClosed { request, status }]);
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        self.stop();
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn other_device() -> Actor {
    Actor::Device {
        device: DeviceId::from_bytes([77; 16]),
    }
}

pub(crate) fn command_subject(command: &str) -> Subject {
    let option = |id: &str, effect| RequestOption {
        id: OptionId::from(id),
        label: id.to_owned(),
        effect,
        reach: "this once".to_owned(),
    };
    Subject {
        command: Some(command.to_owned()),
        cwd: Some("/w".to_owned()),
        options: vec![
            option("accept", OptionEffect::AllowOnce),
            option("decline", OptionEffect::Deny),
        ],
        ..Subject::default()
    }
}

pub(crate) fn request(number: u8, kind: RequestKind, subject: &Subject) -> RuntimeRequest {
    let subject = serde_json::to_string(subject).unwrap();
    RuntimeRequest {
        id: RequestId::from_bytes([number; 16]),
        run: None,
        node: NodeId::from_bytes([1; 16]),
        item: None,
        kind,
        title: "Run a command".to_owned(),
        content_hash: ContentHash::of(&subject),
        subject,
        respondability: Respondability::Live,
        one_tap_allowed: true,
        default_to_no: false,
        hints: Vec::new(),
        asked_before: 0,
        incarnation: Default::default(),
        status: RequestStatus::Pending,
        opened_at_ms: 0,
        expires_at_ms: None,
    }
}

/// An item at a place of the first run.
pub(crate) fn item(number: u64, status: ItemStatus, content: ItemContent) -> TurnItem {
    let mut id = [5; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    TurnItem {
        id: ItemId::from_bytes(id),
        position: Position {
            run: 1,
            arrival: number,
        },
        run: Default::default(),
        node: Default::default(),
        status,
        content,
        opened_at_ms: 0,
        closed_at_ms: None,
        anomaly: None,
    }
}

pub(crate) fn words(text: &str) -> ItemContent {
    ItemContent::AssistantMessage {
        text: Body::inline(text),
    }
}

impl World {
    fn in_thread<T>(&mut self, thread: ThreadId, work: impl FnOnce(&mut MemoryThread) -> T) -> T {
        let memory = self
            .threads
            .entry(thread)
            .or_insert_with(|| MemoryThread::new(thread, policy()));
        let value = work(memory);
        for entry in &memory.entries {
            for event in &entry.events {
                if let LoggedEvent::Known(event) = event
                    && let Event::ItemClosed { item, .. } = &**event
                {
                    self.open.remove(item);
                }
            }
        }
        let seq = memory.cursor().seq;
        self.happened.push(Happened::Entries(thread, seq));
        self.revision += 1;
        self.revisions.insert(thread, self.revision);
        value
    }

    fn decide(&mut self, actor: Actor, command: &Command) -> Result<Verdict, Refusal> {
        if let Some(refusal) = self.refusals.pop_front() {
            return Err(refusal);
        }
        let known = self.threads.contains_key(&command.thread);
        if !known && !matches!(command.body, CommandBody::ThreadCreate { .. }) {
            return Err(Refusal::UnknownThread {
                thread: command.thread,
            });
        }
        let verdict = self.in_thread(command.thread, |memory| memory.command(actor, command));
        if verdict.is_ok() {
            self.taken.push(command.clone());
        } else if !known {
            self.threads.remove(&command.thread);
            self.revisions.remove(&command.thread);
        }
        verdict
    }

    /// The first outcome counts; a repeat gets the same.
    fn command(&mut self, actor: Actor, command: &Command) -> Outcome {
        *self.arrivals.entry(command.id).or_default() += 1;
        if let Some(outcome) = self.outcomes.get(&command.id) {
            return outcome.clone();
        }
        let outcome = match self.decide(actor, command) {
            Err(refusal) => Outcome::Refused { refusal },
            Ok(Verdict::Refused(refusal)) => Outcome::Refused { refusal },
            Ok(Verdict::Accepted { notice }) => Outcome::Accepted {
                cursor: self.threads[&command.thread].cursor(),
                notice,
            },
        };
        let transient = matches!(&outcome, Outcome::Refused { refusal } if refusal.is_transient());
        if !transient {
            self.outcomes.insert(command.id, outcome.clone());
        }
        outcome
    }

    fn feed(&self, after: u64, reset: bool) -> FeedUpdate {
        let mut threads = Vec::new();
        for (thread, revision) in &self.revisions {
            let memory = &self.threads[thread];
            if *revision > after
                && let Some(summary) = &memory.summary
            {
                let requests = memory
                    .state
                    .requests
                    .iter()
                    .filter_map(|slot| memory.request(slot.id));
                let mut requests: Vec<RuntimeRequest> = requests.collect();
                if self.tampers {
                    for request in &mut requests {
                        request.subject = request.subject.replace("ls", "rm -rf /");
                    }
                }
                threads.push(FeedThread {
                    summary: summary.clone(),
                    requests,
                });
            }
        }
        FeedUpdate {
            cursor: FeedCursor {
                epoch: self.epoch,
                revision: self.revision,
            },
            reset,
            threads,
            removed: Vec::new(),
            counts: WaitingCounts::default(),
            more: false,
        }
    }

    /// The answer to a feed's subscription, in the parts in which it is sent.
    fn feed_parts(&self, update: FeedUpdate) -> Vec<FeedUpdate> {
        if !self.feed_in_parts {
            return vec![update];
        }
        let mut threads = update.threads.clone();
        threads.sort_by_key(|thread| self.revisions[&thread.summary.thread]);
        let count = threads.len();
        let mut parts = Vec::new();
        for (n, thread) in threads.iter().enumerate() {
            let last = &threads[(n | 1).min(count - 1)];
            parts.push(FeedUpdate {
                cursor: FeedCursor {
                    epoch: self.epoch,
                    revision: self.revisions[&last.summary.thread],
                },
                reset: update.reset && n == 0,
                threads: vec![thread.clone()],
                more: n + 1 < count,
                ..update.clone()
            });
        }
        parts
    }

    fn subscribed(
        &self,
        thread: ThreadId,
        cursor: Option<pilothouse_domain::Cursor>,
    ) -> Option<Subscribed> {
        let memory = self.threads.get(&thread)?;
        let gap = match cursor {
            None => Some(GapReason::Fresh),
            Some(at) if at.seq > memory.cursor().seq => Some(GapReason::Ahead),
            Some(at) if at.seq > 0 && memory.entries[at.seq as usize - 1].cursor() != at => {
                Some(GapReason::Chain)
            }
            Some(_) => None,
        };
        let open_items = self
            .open
            .iter()
            .filter(|(_, (of, _))| *of == thread)
            .map(|(item, (_, text))| OpenItem {
                item: *item,
                from: 0,
                text: text.clone(),
            })
            .collect();
        Some(Subscribed {
            gap,
            snapshot: gap.map(|_| {
                Box::new(Snapshot {
                    state: memory.state.clone(),
                    cursor: memory.cursor(),
                })
            }),
            rows: if gap.is_some() {
                memory.rows.0.values().cloned().collect()
            } else {
                Vec::new()
            },
            older: false,
            open_items,
            high_water: memory.cursor(),
        })
    }
}

pub(crate) fn choose(option: &str) -> Answer {
    Answer::Choose {
        option: OptionId::from(option),
        note: None,
    }
}
