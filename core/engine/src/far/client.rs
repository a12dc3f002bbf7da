//! The client's one task: what is asked of it, and what the host says.

use super::thread::{FarThread, Next};
use pilothouse_domain::{
    Command, CommandBody, CommandId, HostId, Outcome, Row, ThreadId, ThreadState,
};
use pilothouse_providers::remote::{FarError, FarTold};
use pilothouse_wire::{
    link::{LinkEvent, LinkSender},
    message::{
        DeviceMessage, ErrorAbout, ErrorCode, HostMessage, Query, QueryAnswer, QueryResult, SubId,
        Welcome, WireError,
    },
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::{mpsc, oneshot, watch};

/// Bytes of rows that come with a thread that is followed anew.
const TAIL_BYTES: u32 = 50 * 1024;
/// How long a command waits that the host could not take at that moment.
const NOT_NOW: Duration = Duration::from_millis(300);
/// How often it is then given again.
const TRIES: u32 = 30;

type Reply<T> = oneshot::Sender<Result<T, FarError>>;
type Look = (ThreadState, Vec<Row>);

/// What is asked of the client.
pub(super) enum Ask {
    Command {
        id: CommandId,
        thread: ThreadId,
        body: CommandBody,
        /// Told when it is handed to a connection.
        given: oneshot::Sender<()>,
        reply: Reply<Outcome>,
    },
    /// Forgets a command; says whether it was never handed over.
    Withdraw {
        id: CommandId,
        reply: oneshot::Sender<bool>,
    },
    Follow {
        thread: ThreadId,
        told: mpsc::Sender<FarTold>,
    },
    /// Nobody listens to a thread any more.
    Unfollow { thread: ThreadId },
    /// Who listens to a thread has taken all that it was told.
    CaughtUp { thread: ThreadId },
    Look {
        thread: ThreadId,
        bytes: u32,
        reply: Reply<Look>,
    },
    Query {
        query: Query,
        reply: Reply<QueryResult>,
    },
    /// A command whose time has come again.
    Again { id: CommandId },
}

fn say(asks: &mpsc::WeakUnboundedSender<Ask>, ask: Ask) {
    if let Some(asks) = asks.upgrade() {
        let _ = asks.send(ask);
    }
}

struct Given {
    command: Command,
    given: Option<oneshot::Sender<()>>,
    reply: Reply<Outcome>,
    tries: u32,
}

struct Looking {
    thread: ThreadId,
    bytes: u32,
    reply: Reply<Look>,
}

pub(super) struct Client {
    asks: mpsc::WeakUnboundedSender<Ask>,
    welcome: watch::Sender<Option<Arc<Welcome>>>,
    up: Option<LinkSender>,
    host: Option<HostId>,
    next: u32,
    /// Grows with every command, also over restarts: it begins with the clock.
    device_seq: u64,
    commands: BTreeMap<CommandId, Given>,
    order: Vec<CommandId>,
    queries: BTreeMap<u32, (Query, Reply<QueryResult>)>,
    looks: BTreeMap<SubId, Looking>,
    threads: BTreeMap<ThreadId, FarThread>,
}

impl Client {
    pub(super) fn new(
        asks: mpsc::WeakUnboundedSender<Ask>,
        welcome: watch::Sender<Option<Arc<Welcome>>>,
    ) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            asks,
            welcome,
            up: None,
            host: None,
            next: 0,
            device_seq: since.map_or(1, |since| u64::try_from(since.as_micros()).unwrap_or(1)),
            commands: BTreeMap::new(),
            order: Vec::new(),
            queries: BTreeMap::new(),
            looks: BTreeMap::new(),
            threads: BTreeMap::new(),
        }
    }

    pub(super) async fn run(
        mut self,
        mut events: mpsc::Receiver<LinkEvent>,
        mut inbox: mpsc::UnboundedReceiver<Ask>,
    ) {
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(LinkEvent::Stopped(reason)) => {
                        for thread in self.threads.values() {
                            thread.end(FarError::Unreachable(reason.to_string()));
                        }
                        return;
                    }
                    Some(event) => self.heard(event).await,
                    None => return,
                },
                ask = inbox.recv() => match ask {
                    Some(ask) => self.asked(ask).await,
                    None => return,
                },
            }
        }
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Says something over the connection there is; without one it is said when there is one again.
    async fn send(&mut self, message: &DeviceMessage) -> bool {
        let Some(up) = self.up.clone() else {
            return false;
        };
        match up.send(message).await {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "the other host was not told something");
                false
            }
        }
    }

    async fn asked(&mut self, ask: Ask) {
        match ask {
            Ask::Command {
                id,
                thread,
                body,
                given,
                reply,
            } => {
                self.device_seq += 1;
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let command = Command {
                    id,
                    thread,
                    device_seq: self.device_seq,
                    based_on: None,
                    issued_at_ms: since
                        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0)),
                    body,
                };
                let given = Given {
                    command,
                    given: Some(given),
                    reply,
                    tries: 0,
                };
                self.commands.insert(id, given);
                self.order.push(id);
                self.give(id).await;
            }
            Ask::Withdraw { id, reply } => {
                let never = self
                    .commands
                    .get(&id)
                    .is_some_and(|given| given.given.is_some());
                if never {
                    self.commands.remove(&id);
                    self.order.retain(|other| *other != id);
                }
                let _ = reply.send(never);
            }
            Ask::Follow { thread, told } => {
                let (later, asks) = (self.asks.clone(), self.asks.clone());
                let caught_up = move || say(&later, Ask::CaughtUp { thread });
                let gone = move || say(&asks, Ask::Unfollow { thread });
                let followed = FarThread::new(thread, told, caught_up, gone);
                if let Some(old) = self.threads.insert(thread, followed) {
                    self.unsubscribe(old.sub).await;
                }
                self.follow(thread).await;
            }
            Ask::Unfollow { thread } => {
                if let Some(old) = self.threads.remove(&thread) {
                    self.unsubscribe(old.sub).await;
                }
            }
            Ask::CaughtUp { thread } => self.follow(thread).await,
            Ask::Look {
                thread,
                bytes,
                reply,
            } => {
                let looking = Looking {
                    thread,
                    bytes,
                    reply,
                };
                self.look(looking).await;
            }
            Ask::Query { query, reply } => {
                let id = self.number();
                self.queries.insert(id, (query.clone(), reply));
                self.send(&DeviceMessage::Query { id, query }).await;
            }
            Ask::Again { id } => self.give(id).await,
        }
    }

    async fn give(&mut self, id: CommandId) {
        let Some(given) = self.commands.get(&id) else {
            return;
        };
        let command = Box::new(given.command.clone());
        if self.send(&DeviceMessage::Command { command }).await
            && let Some(given) = self.commands.get_mut(&id)
        {
            given.given.take().map(|given| given.send(()));
        }
    }

    async fn follow(&mut self, thread: ThreadId) {
        if self.up.is_none() {
            return;
        }
        let sub = self.number();
        let Some(followed) = self.threads.get_mut(&thread) else {
            return;
        };
        followed.sub = sub;
        let cursor = followed.cursor();
        self.send(&DeviceMessage::Subscribe {
            sub,
            thread,
            cursor,
            tail_bytes: TAIL_BYTES,
        })
        .await;
    }

    async fn unsubscribe(&mut self, sub: SubId) {
        if sub != 0 {
            self.send(&DeviceMessage::Unsubscribe { sub }).await;
        }
    }

    async fn look(&mut self, looking: Looking) {
        let sub = self.number();
        let subscribe = DeviceMessage::Subscribe {
            sub,
            thread: looking.thread,
            cursor: None,
            tail_bytes: looking.bytes,
        };
        self.looks.insert(sub, looking);
        self.send(&subscribe).await;
    }

    async fn heard(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up { welcome, sender } => {
                // Another host's id under the same key would be another ledger.
                if self.host.is_some_and(|host| host != welcome.host_id) {
                    return;
                }
                self.host = Some(welcome.host_id);
                sender.mark_synchronised();
                self.up = Some(sender);
                self.welcome.send_replace(Some(Arc::new(*welcome)));
                self.begin_again().await;
            }
            LinkEvent::Message(message) => self.told(message).await,
            LinkEvent::Down(_) => {
                self.up = None;
                for thread in self.threads.values_mut() {
                    thread.sub = 0;
                }
            }
            LinkEvent::Stopped(_) => {}
        }
    }

    /// Everything that is still wanted is said again: commands under their ids, in their order.
    async fn begin_again(&mut self) {
        for id in self.order.clone() {
            self.give(id).await;
        }
        let threads: Vec<_> = self.threads.keys().copied().collect();
        for thread in threads {
            self.follow(thread).await;
        }
        for looking in std::mem::take(&mut self.looks).into_values() {
            self.look(looking).await;
        }
        let queries: Vec<_> = self
            .queries
            .iter()
            .map(|(id, (query, _))| (*id, query.clone()))
            .collect();
        for (id, query) in queries {
            self.send(&DeviceMessage::Query { id, query }).await;
        }
    }

    async fn told(&mut self, message: HostMessage) {
        match message {
            HostMessage::Subscribed { sub, answer, .. } => {
                if let Some(looking) = self.looks.remove(&sub) {
                    let rows = answer.rows;
                    let found = answer.snapshot.map(|at| (at.state, rows));
                    let gone = || FarError::NotFound(format!("thread {}", looking.thread));
                    let _ = looking.reply.send(found.ok_or_else(gone));
                    return self.unsubscribe(sub).await;
                }
                self.in_thread(sub, |thread| thread.subscribed(*answer))
                    .await;
            }
            HostMessage::OpenItems { sub, items, .. } => {
                self.in_thread(sub, |thread| thread.open_items(items)).await;
            }
            HostMessage::Entries { sub, entries } => {
                self.in_thread(sub, |thread| thread.entries(entries)).await;
            }
            HostMessage::Live { thread, live } => {
                if let Some(followed) = self.threads.get(&thread)
                    && followed.live(live) == Next::Over
                {
                    self.threads.remove(&thread);
                }
            }
            HostMessage::Outcome {
                command_id,
                outcome,
            } => self.outcome(command_id, outcome),
            HostMessage::Result { id, answer } => {
                if let Some((_, reply)) = self.queries.remove(&id) {
                    let _ = reply.send(match answer {
                        QueryAnswer::Result(result) => Ok(result),
                        QueryAnswer::Error(error) => Err(FarError::NotFound(error.message)),
                    });
                }
            }
            HostMessage::Error(error) => self.complaint(&error).await,
            HostMessage::Welcome(_)
            | HostMessage::Paired(_)
            | HostMessage::Feed { .. }
            | HostMessage::Pong { .. }
            | HostMessage::Bye { .. } => {}
        }
    }

    async fn in_thread(&mut self, sub: SubId, take: impl FnOnce(&mut FarThread) -> Next) {
        let Some(followed) = self.threads.values_mut().find(|thread| thread.sub == sub) else {
            return;
        };
        let thread = followed.thread;
        match take(followed) {
            Next::GoOn => {}
            Next::Anew => {
                followed.forget();
                self.unsubscribe(sub).await;
                self.follow(thread).await;
            }
            Next::Pause => {
                followed.forget();
                self.unsubscribe(sub).await;
            }
            Next::Over => {
                self.threads.remove(&thread);
                self.unsubscribe(sub).await;
            }
        }
    }

    fn outcome(&mut self, id: CommandId, outcome: Option<Outcome>) {
        let Some(given) = self.commands.get_mut(&id) else {
            return;
        };
        let Some(outcome) = outcome else { return };
        let not_now = matches!(&outcome, Outcome::Refused { refusal } if refusal.is_transient());
        if not_now && given.tries < TRIES {
            given.tries += 1;
            let asks = self.asks.clone();
            tokio::spawn(async move {
                tokio::time::sleep(NOT_NOW).await;
                if let Some(asks) = asks.upgrade() {
                    let _ = asks.send(Ask::Again { id });
                }
            });
            return;
        }
        self.order.retain(|other| *other != id);
        if let Some(given) = self.commands.remove(&id) {
            let _ = given.reply.send(Ok(outcome));
        }
    }

    async fn complaint(&mut self, error: &WireError) {
        match error.about {
            ErrorAbout::Sub { sub } => {
                let gone = why_not(error);
                if let Some(looking) = self.looks.remove(&sub) {
                    let _ = looking.reply.send(Err(gone));
                    return;
                }
                let found = self.threads.values().find(|thread| thread.sub == sub);
                if let Some(thread) = found.map(|thread| thread.thread)
                    && let Some(followed) = self.threads.remove(&thread)
                {
                    followed.end(gone);
                }
            }
            ErrorAbout::Command { id } => {
                let refusal = error.refusal();
                self.outcome(id, Some(Outcome::Refused { refusal }));
            }
            ErrorAbout::Query { id } => {
                if let Some((_, reply)) = self.queries.remove(&id) {
                    let _ = reply.send(Err(why_not(error)));
                }
            }
            ErrorAbout::Message { .. } | ErrorAbout::Connection => {
                tracing::warn!(error = error.message, "the other host complains");
            }
        }
    }
}

/// Why something is not to be had: an answer that does not read says nothing of what there is.
fn why_not(error: &WireError) -> FarError {
    match error.code {
        ErrorCode::Unsupported => {
            FarError::Unreachable(format!("{}; {}", error.message, error.next_step))
        }
        _ => FarError::NotFound(error.message.clone()),
    }
}
