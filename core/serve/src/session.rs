//! One paired device, from `hello` to `bye`.

use crate::{
    Served,
    earlier::Words,
    follow,
    outgoing::{OutQueue, WriteEnd, Writing},
    query,
};
use pilothouse_domain::{
    Command, CommandBody, CommandId, Outcome, Scope,
    entry::LOG_FORMAT,
    state::{DECIDE_VERSION, STATE_VERSION},
};
use pilothouse_ledger::Principal;
use pilothouse_store::DeviceRow;
use pilothouse_wire::{
    duplex::DuplexError,
    message::{
        ByeReason, DecodeError, DeviceMessage, ErrorAbout, ErrorCode, Hello, HostMessage, Incoming,
        Limits, Outgoing, Query, ReceiveError, SubId, Welcome, WireError,
    },
    opening::{OPENING_TIMEOUT, say_bye},
    stream::Encoding,
    version::{PROTOCOL, negotiate},
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::{
    sync::{Semaphore, mpsc},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

/// Commands that may wait for the ledger before the connection is not read any more.
const LANE: usize = 64;
/// Commands that one `outcome_query` may name.
const OUTCOMES: usize = 256;
/// Queries that are worked on at once.
const QUERIES: usize = 8;
/// Frames that do not read before the connection is given up.
const BAD_FRAMES: u32 = 256;

/// What is done in the order in which it came.
enum InOrder {
    Command(Box<Command>),
    Outcomes(Vec<CommandId>),
}

/// Serves a device that said `hello`.
pub async fn run(
    host: Arc<Served>,
    device: DeviceRow,
    hello: Hello,
    address: String,
    mut outgoing: Outgoing<HostMessage>,
    incoming: Incoming<DeviceMessage>,
) {
    let protocol = match negotiate(hello.protocol, PROTOCOL) {
        Ok(protocol) => protocol,
        Err(refusal) => {
            tracing::info!(device = %device.device, %refusal, "no protocol version in common");
            return say_bye(&mut outgoing, ByeReason::Version { refusal }).await;
        }
    };
    let (_place, mut end) = host.sessions.enter(device.device);
    // Entered first, looked up again after: a revocation between the two is seen by one of them.
    match host.ledger.device_by_spki(device.spki).await {
        Ok(Some(row)) if !row.revoked => {}
        Ok(_) => return say_bye(&mut outgoing, ByeReason::Revoked).await,
        Err(_) => return say_bye(&mut outgoing, ByeReason::Shutdown).await,
    }
    tracing::info!(device = %device.device, name = device.name, %address, software = hello.software, "connected");
    let encoding = Encoding::choose(&hello.encodings);
    let welcome = welcome(&host, &device, protocol, encoding);
    // In plain text, by itself: what it agrees on holds for all that follows.
    let welcomed = tokio::select! {
        biased;
        reason = &mut end => {
            return say_bye(&mut outgoing, reason.unwrap_or(ByeReason::Shutdown)).await;
        }
        sent = timeout(OPENING_TIMEOUT, outgoing.send(&welcome)) => matches!(sent, Ok(Ok(()))),
    };
    if !welcomed {
        return tracing::info!(device = %device.device, "the device left before it was welcomed");
    }
    let mut incoming = incoming.encoded(encoding);
    let (queue, mut writing) = OutQueue::start(outgoing.encoded(encoding), host.patience);
    let mut session = Session::new(host, device, Words::of(&hello), queue);
    let reason = tokio::select! {
        biased;
        reason = &mut end => Some(reason.unwrap_or(ByeReason::Shutdown)),
        ended = writing.ended() => {
            if ended == WriteEnd::Stalled {
                tracing::warn!(device = %session.device.device, "the device takes nothing; its connection was given up");
            }
            return;
        }
        reason = session.serve(&mut incoming) => reason,
    };
    match &reason {
        Some(reason) => tracing::info!(device = %session.device.device, "disconnected: {reason}"),
        None => tracing::info!(device = %session.device.device, "the device left"),
    }
    // Its tasks first: nothing may follow the farewell.
    drop(session);
    farewell(writing, reason).await;
}

async fn farewell(writing: Writing, reason: Option<ByeReason>) {
    match reason {
        Some(reason) => writing.finish(reason).await,
        None => writing.abandon(),
    }
}

fn welcome(
    host: &Served,
    device: &DeviceRow,
    protocol: u16,
    encoding: Option<Encoding>,
) -> HostMessage {
    HostMessage::Welcome(Box::new(Welcome {
        protocol,
        host_id: host.id,
        host_name: host.name.clone(),
        software: host.software.clone(),
        epoch: host.ledger.epoch(),
        limits: Limits::default(),
        commands: CommandBody::NAMES
            .iter()
            .map(|&name| name.to_owned())
            .collect(),
        log_formats: vec![LOG_FORMAT],
        state_version: STATE_VERSION,
        decide_version: DECIDE_VERSION,
        policy: host.ledger.policy().clone(),
        device_id: device.device,
        scopes: device.scopes.clone(),
        host_time_ms: host.clock.now_ms(),
        encoding,
    }))
}

struct Session {
    host: Arc<Served>,
    device: DeviceRow,
    words: Words,
    queue: OutQueue,
    in_order: mpsc::Sender<InOrder>,
    following: BTreeMap<SubId, AbortHandle>,
    queries: Arc<Semaphore>,
    /// All of this connection's tasks; they end with it.
    tasks: JoinSet<()>,
    bad_frames: u32,
}

impl Session {
    fn new(host: Arc<Served>, device: DeviceRow, words: Words, queue: OutQueue) -> Self {
        let (in_order, lane) = mpsc::channel(LANE);
        let mut tasks = JoinSet::new();
        let principal = Principal {
            device: device.device,
            scopes: device.scopes.clone(),
        };
        tasks.spawn(work_in_order(host.clone(), principal, queue.clone(), lane));
        Self {
            host,
            device,
            words,
            queue,
            in_order,
            following: BTreeMap::new(),
            queries: Arc::new(Semaphore::new(QUERIES)),
            tasks,
            bad_frames: 0,
        }
    }

    /// Reads until the connection ends. Returns what to say at the end; `None` if nobody listens.
    async fn serve(&mut self, incoming: &mut Incoming<DeviceMessage>) -> Option<ByeReason> {
        loop {
            match incoming.receive_alive().await {
                Err(ReceiveError::Duplex(DuplexError::Stream(error))) => {
                    return Some(ByeReason::Protocol {
                        problem: error.to_string(),
                    });
                }
                Ok(DeviceMessage::Bye { .. }) | Err(ReceiveError::Duplex(_)) => return None,
                Err(ReceiveError::Silent) => return Some(ByeReason::Silent),
                Ok(message) => self.take(message).await?,
                Err(ReceiveError::Decode(error)) => {
                    self.bad_frames += 1;
                    if self.bad_frames > BAD_FRAMES {
                        return Some(ByeReason::Protocol {
                            problem: format!("over {BAD_FRAMES} unreadable frames"),
                        });
                    }
                    self.answer_unreadable(&error).await?;
                }
            }
            while self.tasks.try_join_next().is_some() {}
        }
    }

    /// `None` when the connection has ended.
    async fn take(&mut self, message: DeviceMessage) -> Option<()> {
        match message {
            DeviceMessage::Subscribe {
                sub,
                thread,
                cursor,
                tail_bytes,
            } => {
                if self.may_follow(sub).await? {
                    let (host, queue) = (self.host.clone(), self.queue.clone());
                    let task = self.tasks.spawn(follow::thread(
                        host, queue, self.words, sub, thread, cursor, tail_bytes,
                    ));
                    self.following.insert(sub, task);
                }
            }
            DeviceMessage::SubscribeFeed { sub, cursor } => {
                if self.may_follow(sub).await? {
                    let (host, queue) = (self.host.clone(), self.queue.clone());
                    let task = self
                        .tasks
                        .spawn(follow::feed(host, queue, self.words, sub, cursor));
                    self.following.insert(sub, task);
                }
            }
            DeviceMessage::Unsubscribe { sub } => {
                if let Some(task) = self.following.remove(&sub) {
                    task.abort();
                }
            }
            DeviceMessage::Command { command } => {
                self.in_order.send(InOrder::Command(command)).await.ok()?;
            }
            DeviceMessage::OutcomeQuery { command_ids } if command_ids.len() > OUTCOMES => {
                let kind = "outcome_query".to_owned();
                let problem = format!(
                    "it names {} commands, {OUTCOMES} are allowed",
                    command_ids.len()
                );
                self.error(
                    ErrorAbout::Message { kind },
                    ErrorCode::TooMuch,
                    problem,
                    "ask in parts",
                )
                .await?;
            }
            DeviceMessage::OutcomeQuery { command_ids } => {
                self.in_order
                    .send(InOrder::Outcomes(command_ids))
                    .await
                    .ok()?;
            }
            DeviceMessage::Query { id, query } => self.query(id, query).await?,
            DeviceMessage::Ping { nonce } => {
                self.send(HostMessage::Pong {
                    nonce,
                    host_time_ms: self.host.clock.now_ms(),
                })
                .await?;
            }
            DeviceMessage::Hello(_) | DeviceMessage::Pair(_) => {
                let problem = "the connection is open already".to_owned();
                self.error(
                    ErrorAbout::Connection,
                    ErrorCode::Malformed,
                    problem,
                    "update the app, or report this",
                )
                .await?;
            }
            DeviceMessage::Bye { .. } => {}
        }
        Some(())
    }

    /// Whether the device may follow something under that number; it has been told if not.
    async fn may_follow(&mut self, sub: SubId) -> Option<bool> {
        self.following.retain(|_, task| !task.is_finished());
        let (code, problem, next_step) = if !self.device.scopes.contains(&Scope::Read) {
            (
                ErrorCode::Forbidden,
                "this device may not read".to_owned(),
                "pair it anew with the scope `read`",
            )
        } else if self.following.contains_key(&sub) {
            let problem = format!("subscription {sub} is in use");
            (
                ErrorCode::Malformed,
                problem,
                "choose a number that is not in use",
            )
        } else if self.following.len() >= Limits::default().subscriptions as usize {
            let problem = format!("over {} subscriptions", Limits::default().subscriptions);
            (
                ErrorCode::TooMuch,
                problem,
                "unsubscribe from something first",
            )
        } else {
            return Some(true);
        };
        self.error(ErrorAbout::Sub { sub }, code, problem, next_step)
            .await?;
        Some(false)
    }

    async fn query(&mut self, id: u32, query: Query) -> Option<()> {
        let scope = query.scope();
        if !self.device.scopes.contains(&scope) {
            let (problem, next_step) = match scope {
                Scope::Read => (
                    "this device may not read",
                    "pair it anew with the scope `read`",
                ),
                _ => (
                    "this device may not send",
                    "pair it anew with the scope `operate`",
                ),
            };
            let answer = query::error(id, ErrorCode::Forbidden, problem, next_step);
            let answer = pilothouse_wire::message::QueryAnswer::Error(answer);
            return self.send(HostMessage::Result { id, answer }).await;
        }
        // Reading on waits while eight are worked on: a device cannot pile them up.
        let permit = self.queries.clone().acquire_owned().await.ok()?;
        let (host, queue, device) = (self.host.clone(), self.queue.clone(), self.device.device);
        self.tasks.spawn(async move {
            let answer = query::answer(&host, device, id, query).await;
            let too_large = match queue.send(&answer).await {
                Err(crate::outgoing::QueueError::Encode(error)) => error.to_string(),
                _ => return drop(permit),
            };
            let error = query::error(id, ErrorCode::TooMuch, too_large, "ask for fewer bytes");
            let answer = pilothouse_wire::message::QueryAnswer::Error(error);
            let _ = queue.send(&HostMessage::Result { id, answer }).await;
            drop(permit);
        });
        Some(())
    }

    async fn answer_unreadable(&self, error: &DecodeError) -> Option<()> {
        tracing::info!(device = %self.device.device, %error, "a frame was not understood");
        let answer = match error {
            DecodeError::Command { id, refusal } => HostMessage::Outcome {
                command_id: *id,
                outcome: Some(Outcome::Refused {
                    refusal: refusal.clone(),
                }),
            },
            DecodeError::Query { id, .. } => {
                let answer =
                    pilothouse_wire::message::QueryAnswer::Error(WireError::of_decode(error));
                HostMessage::Result { id: *id, answer }
            }
            _ => HostMessage::Error(WireError::of_decode(error)),
        };
        self.send(answer).await
    }

    async fn error(
        &self,
        about: ErrorAbout,
        code: ErrorCode,
        message: String,
        next_step: &str,
    ) -> Option<()> {
        let error = WireError {
            about,
            code,
            message,
            next_step: next_step.to_owned(),
        };
        self.send(HostMessage::Error(error)).await
    }

    async fn send(&self, message: HostMessage) -> Option<()> {
        self.queue.send(&message).await.ok()
    }
}

/// Commands go to the ledger one after the other, as the device made them; outcomes are asked behind those before.
async fn work_in_order(
    host: Arc<Served>,
    principal: Principal,
    queue: OutQueue,
    mut lane: mpsc::Receiver<InOrder>,
) {
    while let Some(work) = lane.recv().await {
        let outcomes = match work {
            InOrder::Command(command) => {
                let id = command.id;
                // Slowed down, not refused: a refusal in the middle would turn the order of two commands around.
                while let Some(wait) = host.wait_before_command(principal.device) {
                    tokio::time::sleep(wait).await;
                }
                let outcome = host.ledger.command(principal.clone(), *command).await;
                vec![(id, Some(outcome))]
            }
            InOrder::Outcomes(ids) => match host.ledger.outcomes(ids).await {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    let error = WireError {
                        about: ErrorAbout::Message {
                            kind: "outcome_query".to_owned(),
                        },
                        code: ErrorCode::Failed,
                        message: error.to_string(),
                        next_step: "look at the host: run `pilothouse doctor`".to_owned(),
                    };
                    if queue.send(&HostMessage::Error(error)).await.is_err() {
                        return;
                    }
                    continue;
                }
            },
        };
        for (command_id, outcome) in outcomes {
            if queue
                .send(&HostMessage::Outcome {
                    command_id,
                    outcome,
                })
                .await
                .is_err()
            {
                return;
            }
        }
    }
}
