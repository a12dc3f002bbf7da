//! The link to one host, as the core's thread holds it: what is subscribed, asked and on its way over it.

use crate::{
    actor::{Message, Reply},
    direct::DirectDialer,
    error::QueryError,
    put_off::PutOff,
    rows::LinkState,
    shared::Shared,
};
use pilothouse_domain::{CommandId, Cursor, HostId, ThreadId, feed::FeedCursor, row::Snapshot};
use pilothouse_store::HostRow;
use pilothouse_wire::{
    connect::{AddressFailure, AttemptError, ConnectError, Connector},
    duplex::BoxFuture,
    identity::{DeviceKeyError, IdentityError, SpkiHash},
    link::{Dialer, Dialled, HostDialer, Link, LinkConfig, LinkSender, LinkState as WireState},
    message::{ByeReason, DeviceMessage, Hello, Query, SubId},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};
use tokio::{
    runtime::Handle,
    sync::{OnceCell, Semaphore, mpsc},
    task::JoinHandle,
};

/// Events on their way from one link to the core's thread. A step of the feed holds up to 64 threads, some 60 KB: at a first
/// synchronisation that is 2 MB of memory.
const ON_THE_WAY: usize = 32;

/// A link and everything that lives only as long as its connection.
pub(crate) struct HostLink {
    /// Tells this link from an earlier one to the same host.
    pub(crate) life: u64,
    /// The connection, while there is one.
    pub(crate) up: Option<Up>,
    /// Pending commands that were never handed over; they can expire.
    pub(crate) unsent: usize,
    /// Lines that wait after a transient refusal, or because nothing could be marked.
    pub(crate) waits: PutOff<ThreadId>,
    paired_at_ms: u64,
    link: Link,
    forwarder: JoinHandle<()>,
}

/// One connection.
pub(crate) struct Up {
    pub(crate) sender: LinkSender,
    out: mpsc::UnboundedSender<DeviceMessage>,
    next_sub: SubId,
    pub(crate) feed: SubId,
    /// Whether the feed was asked for from a known place.
    pub(crate) feed_known: bool,
    /// The place named by the step that came last; it is reached once all parts that name it have come.
    pub(crate) feed_step: Option<FeedCursor>,
    /// Whether the feed has answered: only then it is known that the ledger is the one this device knows, and
    /// commands go out.
    pub(crate) ready: bool,
    pub(crate) following: BTreeMap<ThreadId, Following>,
    /// Threads that could not be followed, and are followed again after a while.
    pub(crate) follow_again: PutOff<ThreadId>,
    /// Those of them whose stored place is not to be trusted.
    pub(crate) from_nothing: BTreeSet<ThreadId>,
    /// Threads whose entries left a gap, and have not come without one since.
    pub(crate) gapped: BTreeSet<ThreadId>,
    /// The feed, if it could not be had or kept.
    pub(crate) feed_again: PutOff<()>,
    /// Commands whose outcome was asked over this connection.
    pub(crate) asked: BTreeSet<CommandId>,
    /// Commands that the host has said it never took.
    pub(crate) absent: BTreeSet<CommandId>,
    /// Commands that were marked as handed over when they were saved, and are about to be sent.
    pub(crate) marked: BTreeSet<CommandId>,
    /// The command of each line that was sent and not answered.
    pub(crate) in_flight: BTreeMap<ThreadId, CommandId>,
    queries: BTreeMap<u32, Reply>,
    next_query: u32,
}

/// A subscribed thread.
pub(crate) struct Following {
    pub(crate) sub: SubId,
    /// State and place as stored; `None` until the host's first answer.
    pub(crate) at: Option<Snapshot>,
    /// The place up to which the host had entries when it answered.
    pub(crate) high_water: Option<Cursor>,
}

impl HostLink {
    pub(crate) fn start(shared: &Arc<Shared>, runtime: &Handle, row: &HostRow, life: u64) -> Self {
        let direct = shared.direct.holds(row.host);
        let mut hello = Hello::of_this_build(
            shared.config.device_name.clone(),
            format!(
                "pilothouse-engine/{} {}",
                env!("CARGO_PKG_VERSION"),
                shared.config.platform
            ),
        );
        let dialer: Arc<dyn Dialer> = if direct {
            // Nothing is gained by compressing what stays in this process.
            hello.encodings.clear();
            Arc::new(DirectDialer {
                shared: shared.clone(),
                host: row.host,
            })
        } else {
            Arc::new(LazyDialer {
                shared: shared.clone(),
                pin: SpkiHash::from_bytes(*row.spki.as_bytes()),
                addresses: row.addresses.clone(),
                dialer: OnceCell::new(),
            })
        };
        let jitter = shared.platform.clone();
        let config = LinkConfig {
            hello,
            dialer,
            random: Box::new(move || {
                let mut bytes = [0; 8];
                jitter.random(&mut bytes);
                u64::from_le_bytes(bytes)
            }),
        };
        let _inside = runtime.enter();
        let (link, mut events) = Link::start(config);
        let mut state = link.state();
        let actor = shared.actor.clone();
        let host = row.host;
        let room = Arc::new(Semaphore::new(ON_THE_WAY));
        let forwarder = runtime.spawn(async move {
            let mut watching = true;
            loop {
                let message = tokio::select! {
                    event = events.recv() => {
                        let Some(event) = event else { return };
                        let permit = room.clone().acquire_owned().await.ok();
                        Message::Link { host, life, event, _room: permit }
                    }
                    changed = state.changed(), if watching => {
                        watching = changed.is_ok();
                        Message::LinkState { host, life, state: state.borrow_and_update().clone() }
                    }
                };
                if actor.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            life,
            up: None,
            unsent: 0,
            waits: PutOff::default(),
            paired_at_ms: row.paired_at_ms,
            link,
            forwarder,
        }
    }

    /// When this device was paired with the host that this is a link to.
    pub(crate) fn paired_at_ms(&self) -> u64 {
        self.paired_at_ms
    }

    pub(crate) fn poke(&self) {
        self.link.poke();
    }

    /// Says goodbye; what is returned ends when that is done.
    pub(crate) fn stop(mut self, reason: ByeReason) -> JoinHandle<()> {
        self.down();
        self.link.stop(reason);
        self.forwarder
    }

    /// Whether a command on a thread can go out now, as far as this connection knows.
    pub(crate) fn is_free(&self, thread: ThreadId) -> bool {
        let up = self.up.as_ref().filter(|up| up.ready);
        up.is_some_and(|up| !up.in_flight.contains_key(&thread)) && !self.waits.is_waiting(thread)
    }

    /// When something that was put off is due again: a line, a thread or the feed.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        let up = self.up.as_ref()?;
        let next = [
            self.waits.next(),
            up.follow_again.next(),
            up.feed_again.next(),
        ];
        next.into_iter().flatten().min()
    }

    /// A connection is open.
    pub(crate) fn connected(&mut self, runtime: &Handle, sender: LinkSender) {
        let (out, mut queue) = mpsc::unbounded_channel::<DeviceMessage>();
        let writer = sender.clone();
        runtime.spawn(async move {
            while let Some(message) = queue.recv().await {
                if let Err(error) = writer.send(&message).await {
                    tracing::debug!(%error, "a message was not sent");
                }
            }
        });
        self.up = Some(Up {
            sender,
            out,
            next_sub: 1,
            feed: 0,
            feed_known: false,
            feed_step: None,
            ready: false,
            following: BTreeMap::new(),
            follow_again: PutOff::default(),
            from_nothing: BTreeSet::new(),
            gapped: BTreeSet::new(),
            feed_again: PutOff::default(),
            asked: BTreeSet::new(),
            absent: BTreeSet::new(),
            marked: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            queries: BTreeMap::new(),
            next_query: 1,
        });
    }

    /// The connection has ended: everything that lived with it goes.
    pub(crate) fn down(&mut self) {
        if let Some(up) = self.up.take() {
            for (_, reply) in up.queries {
                reply(Err(QueryError::Offline {
                    what: "it".to_owned(),
                }));
            }
        }
    }

    /// Asks the host something, or says at once that it is not there.
    pub(crate) fn ask(&mut self, query: Query, reply: Reply) {
        match &mut self.up {
            Some(up) => {
                let id = up.next_query;
                up.next_query += 1;
                up.queries.insert(id, reply);
                up.send(DeviceMessage::Query { id, query });
            }
            None => reply(Err(QueryError::Offline {
                what: "it".to_owned(),
            })),
        }
    }
}

impl Up {
    /// Queues a message for this connection.
    pub(crate) fn send(&self, message: DeviceMessage) {
        // It fails only when the connection has ended, which is told as an event.
        let _ = self.out.send(message);
    }

    pub(crate) fn new_sub(&mut self) -> SubId {
        let sub = self.next_sub;
        self.next_sub += 1;
        sub
    }

    /// The thread of a subscription.
    pub(crate) fn thread_of(&self, sub: SubId) -> Option<ThreadId> {
        self.following
            .iter()
            .find(|(_, following)| following.sub == sub)
            .map(|(thread, _)| *thread)
    }

    pub(crate) fn answered(&mut self, query: u32) -> Option<Reply> {
        self.queries.remove(&query)
    }
}

/// A link's state as a screen shows it.
pub(crate) fn shown(state: &WireState, now_ms: u64) -> LinkState {
    let now = tokio::time::Instant::now();
    match state {
        WireState::Unreachable {
            since,
            next_attempt,
            problem,
        } => {
            let ago = u64::try_from(now.saturating_duration_since(*since).as_millis());
            let next =
                next_attempt.map(|at| u64::try_from(at.saturating_duration_since(now).as_millis()));
            LinkState::Unreachable {
                since_ms: now_ms.saturating_sub(ago.unwrap_or(0)),
                next_try_ms: next.map(|wait| now_ms.saturating_add(wait.unwrap_or(0))),
                reason: problem
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            }
        }
        WireState::Reachable { .. } => LinkState::Reachable,
        WireState::Authenticated { .. } => LinkState::Authenticated,
        WireState::Synchronised { .. } => LinkState::Synchronised,
        WireState::Stopped {
            reason: ByeReason::Revoked,
        } => LinkState::Revoked,
        WireState::Stopped { reason } => LinkState::Unreachable {
            since_ms: now_ms,
            next_try_ms: None,
            reason: reason.to_string(),
        },
    }
}

/// Asks for the device's key at the first attempt only: a hardware store may be slow, or locked.
struct LazyDialer {
    shared: Arc<Shared>,
    pin: SpkiHash,
    addresses: Vec<String>,
    dialer: OnceCell<HostDialer>,
}

impl LazyDialer {
    async fn dialer(&self) -> Result<&HostDialer, ConnectError> {
        self.dialer
            .get_or_try_init(|| async {
                let connector = connector(&self.shared, self.pin)
                    .await
                    .map_err(|error| no_key(&error))?;
                Ok(HostDialer::new(connector, self.addresses.clone()))
            })
            .await
    }
}

impl Dialer for LazyDialer {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, ConnectError>> {
        Box::pin(async move { self.dialer().await?.dial().await })
    }
}

/// A connector with this device's key, which may take a while.
pub(crate) async fn connector(
    shared: &Arc<Shared>,
    pin: SpkiHash,
) -> Result<Connector, IdentityError> {
    let keeper = shared.clone();
    let identity = tokio::task::spawn_blocking(move || keeper.identity())
        .await
        .map_err(|error| {
            IdentityError::Key(DeviceKeyError::Unavailable(format!(
                "its store failed: {error}"
            )))
        })??;
    Connector::new(&identity, pin)
}

fn no_key(error: &IdentityError) -> ConnectError {
    let key = match error {
        IdentityError::Key(error) => error.clone(),
        other => DeviceKeyError::Unavailable(other.to_string()),
    };
    ConnectError {
        failures: vec![AddressFailure {
            address: "this device".to_owned(),
            error: AttemptError::DeviceKey(key),
        }],
    }
}

/// What is known of a host under its id; for messages.
pub(crate) fn short(host: HostId) -> String {
    host.to_string().chars().take(6).collect()
}
