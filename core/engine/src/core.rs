//! The core itself: what a program holds.

use crate::{
    actor::{Actor, Message},
    api::{CoreConfig, Environment, Network, NewCommand, Platform, Prediction, Scope, Sink},
    batch::Batch,
    delivery::{Delivery, ObservationId, Renderer, lock},
    error::{CoreError, QueryError, SubmitError},
    shared::{Reading, Shared, Shows, StoredThread},
    ticket::Ticket,
    views::{self, list::ListView, threads::ThreadsView, timeline::TimelineView},
};
use pilothouse_domain::{
    Answer, Command, CommandBody, CommandId, HostId, RowKey, ThreadId, limits, thread::Actor as By,
};
use pilothouse_store::{ReplicaStore, StoreError};
use std::{
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread::JoinHandle,
};
use tokio::runtime::Handle;

/// Threads of the runtime: links and pairing, nothing that computes.
const WORKERS: usize = 2;
/// Bytes that a command's frame has beside the command.
const FRAME_AROUND: usize = 256;

/// A device: its replicas, its outbox, its links, its views.
pub struct Core {
    shared: Arc<Shared>,
    runtime: Handle,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Core {
    /// Opens a data directory to the state it was left in. Never waits for a network, nor for a key.
    ///
    /// # Errors
    /// [`CoreError`] names the directory, what is wrong with it and what to do.
    pub fn open(config: CoreConfig, platform: Arc<dyn Platform>) -> Result<Arc<Self>, CoreError> {
        let dir = config.data_dir.clone();
        let failed = |error: StoreError| open_error(&dir, &error);
        let threads = |error: std::io::Error| CoreError::Threads {
            why: error.to_string(),
        };
        let store = ReplicaStore::open(&dir).map_err(failed)?;
        let view_reader = store.reader().map_err(failed)?;
        let ask_reader = store.reader().map_err(failed)?;
        let lease = store.try_lease().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("pilothouse-io")
            .enable_all()
            .build()
            .map_err(threads)?;
        let handle = runtime.handle().clone();
        let delivery = Delivery::start(platform.clone()).map_err(threads)?;
        let (actor, inbox) = mpsc::channel();
        let shared = Arc::new(Shared::new(
            config,
            platform,
            delivery,
            actor,
            view_reader,
            ask_reader,
        ));
        lock(&shared.live).owner = lease.is_some();
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("pilothouse-core".to_owned())
            .spawn(move || Actor::new(of_thread, store, lease, runtime, inbox).run())
            .map_err(threads)?;
        Ok(Arc::new(Self {
            shared,
            runtime: handle,
            thread: Mutex::new(Some(thread)),
        }))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn runtime(&self) -> Option<&Handle> {
        (!lock(&self.shared.live).closed).then_some(&self.runtime)
    }

    /// Takes a command: checks it, predicts it, gives it to the outbox. Never waits for a network or a disk;
    /// [`Ticket::durable`] waits for the disk.
    ///
    /// # Errors
    /// [`SubmitError`]: the command can never be taken, or this core is closed. Nothing was saved.
    pub fn submit(&self, new: NewCommand) -> Result<Ticket, SubmitError> {
        let shared = &self.shared;
        let id = CommandId::from_bytes(shared.random());
        let thread = thread_of(id, &new)?;
        let command = Command {
            id,
            thread,
            // Given with the place in the outbox, so that two processes never give the same.
            device_seq: 0,
            based_on: None,
            issued_at_ms: shared.platform.now_ms(),
            body: new.body,
        };
        let host = new.host;
        if shared.direct.is_removed(host)
            && !matches!(command.body, CommandBody::QueueRemove { .. })
        {
            return Err(SubmitError::TakenAway { host });
        }
        let checked = shared
            .ask(|reads| {
                if let Err(refused) = check(reads, host, &command) {
                    return Ok(Err(refused));
                }
                let stored = StoredThread::load(reads, host, thread, 0)?;
                let outstanding = reads.outstanding(Some((host, thread)))?;
                let held = |key: RowKey| match stored.row(key) {
                    // Of a thread that was never opened its open requests are known all the same.
                    None => inbox_row(reads, host, key),
                    found => found,
                };
                let mut overlay =
                    shared.overlay(reads, host, stored.state.clone(), &outstanding, &held)?;
                crate::further::add(reads, &mut overlay.further, &command)?;
                let policy = shared.policy(reads, host)?;
                let device = reads.host(host)?.map(|row| row.device).unwrap_or_default();
                overlay.add(&command, By::Device { device }, policy.as_ref());
                let prediction = overlay
                    .predictions
                    .pop()
                    .map_or(Prediction::SavedOnly, |(_, prediction)| prediction);
                Ok(Ok((prediction, stored.cursor)))
            })
            .map_err(|error| SubmitError::NotSaved {
                why: error.to_string(),
            })?
            .ok_or(SubmitError::Closed)?;
        let (prediction, based_on) = checked?;
        let command = Command {
            based_on,
            ..command
        };
        let ticket = Ticket::new(id, thread, prediction);
        {
            let mut live = lock(&shared.live);
            if live.closed {
                return Err(SubmitError::Closed);
            }
            live.unsaved.push((host, command.clone()));
            // Sent under the lock, so that the order in memory is that of the outbox.
            shared
                .actor
                .send(Message::Submit {
                    host,
                    command,
                    ticket: ticket.shared().clone(),
                })
                .map_err(|_| SubmitError::Closed)?;
        }
        Ok(ticket)
    }

    /// Observes something until the observation is closed or dropped. The first batch is a reset.
    pub fn observe(&self, scope: Scope, sink: Arc<dyn Sink>) -> Observation {
        let shared = self.shared.clone();
        let (shows, renderer): (Shows, Box<dyn Renderer>) = match scope {
            Scope::Hosts => (
                Shows::Hosts,
                Box::new(ListView::new(
                    shared,
                    views::hosts::build,
                    views::hosts::key,
                    Batch::Hosts,
                )),
            ),
            Scope::Threads { filter, limit } => (
                Shows::Threads,
                Box::new(ThreadsView::new(shared, filter, limit)),
            ),
            Scope::Inbox => (
                Shows::Inbox,
                Box::new(ListView::new(
                    shared,
                    views::inbox::build,
                    views::inbox::key,
                    Batch::Inbox,
                )),
            ),
            Scope::Delivery => (
                Shows::Delivery,
                Box::new(ListView::new(
                    shared,
                    views::delivery::build,
                    views::delivery::key,
                    Batch::Delivery,
                )),
            ),
            Scope::Timeline { host, thread, tail } => (
                Shows::Timeline(host, thread),
                Box::new(TimelineView::new(shared, host, thread, tail)),
            ),
        };
        // Registered under the same lock that `changed` takes: nothing falls between the first batch and the rest.
        let id = {
            let mut observers = lock(&self.shared.observers);
            let id = self.shared.delivery.add(renderer, sink);
            observers.insert(id, shows);
            id
        };
        if let Shows::Timeline(host, thread) = shows {
            let _ = self.shared.actor.send(Message::Observe { host, thread });
        }
        Observation {
            shared: self.shared.clone(),
            id,
            shows,
            open: Mutex::new(true),
        }
    }

    /// Says what may be counted on. Coming to the foreground and a change of network make links try at once.
    pub fn set_environment(&self, environment: Environment) {
        let before = {
            let mut live = lock(&self.shared.live);
            std::mem::replace(&mut live.environment, environment)
        };
        let woke = environment.foreground && !before.foreground;
        let moved = environment.network != before.network && environment.network != Network::None;
        if woke || moved {
            let _ = self.shared.actor.send(Message::Environment);
        }
    }

    /// Sends a parked command after all, because its person said so. Says whether it was there.
    ///
    /// # Errors
    /// The outbox could not be written, or the core is closed.
    pub fn send_parked(&self, command: CommandId) -> Result<bool, QueryError> {
        self.change(|reply| Message::Unpark { command, reply })
    }

    /// Takes a command out of the outbox that was never handed to a host (saved, expired or parked). Says whether it
    /// was there and could be taken.
    ///
    /// # Errors
    /// The outbox could not be written, or the core is closed.
    pub fn discard(&self, command: CommandId) -> Result<bool, QueryError> {
        self.change(|reply| Message::Discard { command, reply })
    }

    fn change(
        &self,
        message: impl FnOnce(mpsc::Sender<Result<bool, String>>) -> Message,
    ) -> Result<bool, QueryError> {
        let (reply, answer) = mpsc::channel();
        self.shared
            .actor
            .send(message(reply))
            .map_err(|_| QueryError::Closed)?;
        answer
            .recv()
            .map_err(|_| QueryError::Closed)?
            .map_err(|why| QueryError::Database { why })
    }

    /// Ends everything: links say goodbye, threads are joined, the lease is free for another process. What was
    /// submitted is saved. Closing again does nothing.
    pub fn close(&self) {
        lock(&self.shared.live).closed = true;
        self.shared.delivery.close();
        self.shared.stop_reading();
        let _ = self.shared.actor.send(Message::Close);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Core")
            .field(&self.shared.config.data_dir)
            .finish()
    }
}

/// An observation; it ends when it is closed or dropped.
pub struct Observation {
    shared: Arc<Shared>,
    id: ObservationId,
    shows: Shows,
    open: Mutex<bool>,
}

impl Observation {
    /// Ends it. A batch that is being delivered may still arrive; none follows. Closing again does nothing.
    pub fn close(&self) {
        if !std::mem::take(&mut *lock(&self.open)) {
            return;
        }
        lock(&self.shared.observers).remove(&self.id);
        self.shared.delivery.remove(self.id);
        if let Shows::Timeline(host, thread) = self.shows {
            let _ = self.shared.actor.send(Message::Unobserve { host, thread });
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Observation").field(&self.shows).finish()
    }
}

fn open_error(dir: &Path, error: &StoreError) -> CoreError {
    let path = dir.to_owned();
    let why = error.to_string();
    match error {
        StoreError::NewerDatabase { .. } => CoreError::Newer { path, why },
        StoreError::DiskFull { .. } => CoreError::Full { path, why },
        StoreError::ReadOnly { .. } => CoreError::ReadOnly { path, why },
        StoreError::Io { .. } | StoreError::Locked { .. } => CoreError::DataDir { path, why },
        _ => CoreError::Database { path, why },
    }
}

fn thread_of(id: CommandId, new: &NewCommand) -> Result<ThreadId, SubmitError> {
    let makes_one = new.body.makes_thread();
    match new.thread {
        None if makes_one => Ok(id.derive("thread")),
        Some(thread) if !makes_one => Ok(thread),
        _ => Err(SubmitError::Thread {
            command: new.body.name().to_owned(),
            needs_thread: !makes_one,
        }),
    }
}

/// What can be said against a command here, whatever the host would say.
fn check(reads: &Reading<'_>, host: HostId, command: &Command) -> Result<(), SubmitError> {
    let stored = |error: StoreError| SubmitError::NotSaved {
        why: error.to_string(),
    };
    match reads.host(host).map_err(stored)? {
        None => return Err(SubmitError::UnknownHost { host }),
        Some(row) if row.revoked => return Err(SubmitError::Revoked { host }),
        Some(_) => {}
    }
    let invalid = |field: &str, problem: String| SubmitError::Invalid {
        field: field.to_owned(),
        problem,
    };
    match &command.body {
        CommandBody::MessageSend {
            text, attachments, ..
        } => {
            if text.len() > limits::MESSAGE_TEXT {
                let most = limits::MESSAGE_TEXT;
                return Err(invalid("text", format!("it is longer than {most} bytes")));
            }
            if text.trim().is_empty() && attachments.is_empty() {
                return Err(invalid("text", "there is nothing to send".to_owned()));
            }
        }
        CommandBody::ThreadCreate { title, .. }
        | CommandBody::ThreadFork { title, .. }
        | CommandBody::ThreadImport { title, .. } => {
            if title.chars().count() > limits::TITLE_CHARS {
                let most = limits::TITLE_CHARS;
                return Err(invalid(
                    "title",
                    format!("it is longer than {most} characters"),
                ));
            }
        }
        CommandBody::RequestAnswer {
            request, answer, ..
        } => {
            let held = reads.open_request(host, *request).map_err(stored)?;
            if let Some(entry) = held
                && !views::inbox::is_verified(&entry.request)
                && allows(&entry.request, answer)
            {
                return Err(SubmitError::Unverified);
            }
        }
        CommandBody::RunInterrupt { .. }
        | CommandBody::ThreadRollback { .. }
        | CommandBody::ThreadCompact
        | CommandBody::ThreadSignIn
        | CommandBody::ThreadSelect { .. }
        | CommandBody::QueueRemove { .. }
        | CommandBody::QueueRelease { .. } => {}
    }
    let size = pilothouse_domain::hash::canonical_json(command).len() + FRAME_AROUND;
    if size > limits::WIRE_FRAME {
        let most = limits::WIRE_FRAME;
        return Err(invalid(
            "command",
            format!("it has {size} bytes, at most {most} can be sent"),
        ));
    }
    Ok(())
}

/// Whether an answer lets the agent go on: only a clear refusal does not.
fn allows(request: &pilothouse_domain::RuntimeRequest, answer: &Answer) -> bool {
    let Answer::Choose { option, .. } = answer else {
        return true;
    };
    let subject: pilothouse_domain::Subject =
        pilothouse_json::from_str(&request.subject).unwrap_or_default();
    !subject
        .options
        .iter()
        .any(|offered| offered.id == *option && offered.effect.denies())
}

fn inbox_row(reads: &Reading<'_>, host: HostId, key: RowKey) -> Option<pilothouse_domain::Row> {
    if key.kind != pilothouse_domain::row::RowKind::Request {
        return None;
    }
    let request = pilothouse_domain::RequestId::from_bytes(*key.id.as_bytes());
    let entry = reads.open_request(host, request).ok().flatten()?;
    Some(pilothouse_domain::Row::Request(entry.request))
}
