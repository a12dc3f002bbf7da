//! A device in this process: a core on a data directory of its own, with everything it shows gathered.

use crate::{
    host::Host,
    ledger_dir::LedgerDir,
    seen::{Board, Seen, Timeline},
    until::patience,
};
use pilothouse_domain::{
    AgentName, Answer, CommandBody, ContentHash, Digest, DispatchMode, HostId, Mode, OptionId,
    Refusal, RequestId, RequestStatus, RunStatus, ThreadId, WorkspaceId, request::QuestionReply,
    state::EndedRun, thread::Selection,
};
use pilothouse_engine::{
    Core, CoreConfig, DirectAgent, Environment, InboxRow, InboxState, LinkState, Network,
    NewCommand, Observation, Page, Query, QueryError, RequestPage, Scope, SystemPlatform, Ticket,
    TicketOutcome, TimelineRow,
};
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// A device. Dropped, it is closed.
pub struct Device {
    core: Option<Arc<Core>>,
    name: String,
    dir: PathBuf,
    host: HostId,
    board: Arc<Board>,
    observations: Mutex<Vec<Observation>>,
    asked: Mutex<BTreeSet<RequestId>>,
    waiter: tokio::runtime::Runtime,
}

impl Device {
    /// Opens a data directory without waiting for anything but the first batch of each list.
    pub fn open(dir: &Path, name: &str, host: HostId) -> Self {
        let config = CoreConfig {
            data_dir: dir.to_owned(),
            device_name: name.to_owned(),
            platform: "test".to_owned(),
        };
        let core = Core::open(config, Arc::new(SystemPlatform::new(dir)))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let waiter = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime to wait on");
        let device = Self {
            core: Some(core),
            name: name.to_owned(),
            dir: dir.to_owned(),
            host,
            board: Arc::default(),
            observations: Mutex::default(),
            asked: Mutex::default(),
            waiter,
        };
        let threads = Scope::threads(1_000);
        for scope in [Scope::Hosts, threads, Scope::Inbox, Scope::Delivery] {
            device.observe(scope);
        }
        device.wait("the first batches", |seen| {
            seen.first.iter().all(|&first| first).then_some(())
        });
        device
    }

    /// A new device, paired with a host through this address, and caught up with it.
    pub fn pair(dir: &Path, name: &str, host: &Host, through: Option<SocketAddr>) -> Self {
        Self::pair_by(dir, name, host.id(), &host.pairing_code(through))
    }

    /// The same, by a host's pairing code.
    pub fn pair_by(dir: &Path, name: &str, host: HostId, code: &str) -> Self {
        let device = Self::open(dir, name, host);
        let paired = device.block(device.core().pair(code));
        assert_eq!(paired, Ok(host), "{name} pairs");
        device.synchronised();
        device
    }

    /// The ledger of an agent that it drives itself.
    pub fn own_ledger(&self) -> LedgerDir {
        LedgerDir::new(&self.dir.join("direct").join(self.host.to_string()))
    }

    /// A new device that drives an agent's server itself, with no daemon.
    pub fn direct(dir: &Path, name: &str, agent: &DirectAgent, secret: &str) -> Self {
        let mut device = Self::open(dir, name, HostId::default());
        let added = device.core().add_direct(agent, secret);
        device.host = added.unwrap_or_else(|error| panic!("{name}: {error}"));
        device.synchronised();
        device
    }

    /// The host that it works with.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Closes it and opens it again.
    pub fn reopen(mut self) -> Self {
        let (dir, name, host) = (self.dir.clone(), self.name.clone(), self.host);
        self.close();
        drop(self);
        Self::open(&dir, &name, host)
    }

    /// The same in place; the threads that were opened are not opened again.
    pub fn reopen_here(&mut self) {
        self.close();
        *self = Self::open(&self.dir, &self.name, self.host);
    }

    /// Closes it.
    pub fn close(&mut self) {
        self.observations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        if let Some(core) = self.core.take() {
            core.close();
        }
    }

    /// The core.
    pub fn core(&self) -> &Arc<Core> {
        self.core.as_ref().expect("the device is open")
    }

    /// Its data directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn observe(&self, scope: Scope) {
        let board = self.board.clone();
        let observation = self
            .core()
            .observe(scope, Arc::new(move |batch| board.take(batch)));
        self.observations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(observation);
    }

    /// Opens a thread.
    pub fn watch(&self, thread: ThreadId) {
        self.observe(Scope::Timeline {
            host: self.host,
            thread,
            tail: 400,
        });
        self.wait("the thread's first batch", |seen| {
            seen.timelines.contains_key(&thread).then_some(())
        });
    }

    /// What is shown now.
    pub fn seen(&self) -> Seen {
        self.board
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until what is shown has what is looked for.
    ///
    /// # Panics
    /// It takes too long; says what is shown instead.
    pub fn wait<T>(&self, what: &str, mut look: impl FnMut(&Seen) -> Option<T>) -> T {
        let patience = patience();
        let deadline = Instant::now() + patience;
        let mut seen = self
            .board
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(found) = look(&seen) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                seen.inboxes.clear();
                panic!(
                    "{} waited {patience:?} for {what}; it shows {seen:#?}",
                    self.name
                );
            }
            seen = self
                .board
                .changed
                .wait_timeout(seen, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits for a future of the core.
    pub fn block<T>(&self, future: impl Future<Output = T>) -> T {
        let patience = patience();
        self.waiter
            .block_on(async { tokio::time::timeout(patience, future).await })
            .unwrap_or_else(|_| {
                let mut seen = self.seen();
                seen.inboxes.clear();
                panic!("{} waited {patience:?}; it shows {seen:#?}", self.name)
            })
    }

    /// Waits until what is shown is what the host has.
    pub fn synchronised(&self) {
        self.links(&LinkState::Synchronised);
    }

    /// Waits until the link to the host stands so.
    pub fn links(&self, link: &LinkState) {
        self.wait("the host", |seen| {
            let host = seen.hosts.iter().find(|row| row.host == self.host)?;
            (host.link == *link).then_some(())
        });
    }

    /// Waits until the connection to the host is gone.
    pub fn offline(&self) {
        self.wait("the connection's end", |seen| {
            let host = seen.hosts.iter().find(|row| row.host == self.host)?;
            matches!(host.link, LinkState::Unreachable { .. }).then_some(())
        });
    }

    /// Waits until the connection to the host is gone, or something else is so.
    pub fn offline_or(&self, otherwise: impl Fn() -> bool) {
        let offline = |seen: &Seen| {
            let host = seen.hosts.iter().find(|row| row.host == self.host);
            host.is_some_and(|host| matches!(host.link, LinkState::Unreachable { .. }))
        };
        crate::until("the connection's end", || {
            if otherwise() || offline(&self.seen()) {
                Ok(())
            } else {
                Err("connected".to_owned())
            }
        });
    }

    /// Makes it try to connect at once, as a phone does when its network changes.
    pub fn network_changes(&self) {
        for network in [Network::Unmetered, Network::Metered] {
            self.core().set_environment(Environment {
                network,
                ..Environment::default()
            });
        }
    }

    /// Submits a command.
    pub fn submit(&self, thread: Option<ThreadId>, body: CommandBody) -> Ticket {
        let ticket = self
            .core()
            .submit(NewCommand {
                host: self.host,
                thread,
                body,
            })
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        ticket
            .durable()
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        ticket
    }

    /// What came of a command.
    pub fn outcome(&self, ticket: &Ticket) -> TicketOutcome {
        self.block(ticket.outcome())
    }

    /// Waits until the host took a command.
    pub fn accepted(&self, ticket: &Ticket) {
        let outcome = self.outcome(ticket);
        assert!(
            matches!(outcome, TicketOutcome::Accepted { .. }),
            "{}: {outcome:?}",
            self.name
        );
    }

    /// Waits until the host refused a command.
    pub fn refused(&self, ticket: &Ticket) -> Refusal {
        match self.outcome(ticket) {
            TicketOutcome::Refused { refusal } => refusal,
            other => panic!("{}: {other:?}", self.name),
        }
    }

    /// Makes a thread in workspace `demo` and opens it.
    pub fn new_thread(&self, agent: &str, mode: Mode) -> ThreadId {
        self.new_thread_in("demo", agent, mode)
    }

    /// Makes a thread and opens it.
    pub fn new_thread_in(&self, workspace: &str, agent: &str, mode: Mode) -> ThreadId {
        let ticket = self.submit(
            None,
            CommandBody::ThreadCreate {
                title: format!("with {agent}"),
                workspace: WorkspaceId::from(workspace),
                selection: Selection {
                    agent: AgentName::from(agent),
                    model: None,
                    effort: None,
                    mode,
                    sandbox: None,
                },
            },
        );
        self.accepted(&ticket);
        self.watch(ticket.thread());
        ticket.thread()
    }

    /// Sends a message that starts a run, or is queued behind the one that goes on.
    pub fn say(&self, thread: ThreadId, text: &str) -> Ticket {
        self.submit(
            Some(thread),
            CommandBody::MessageSend {
                text: text.to_owned(),
                attachments: Vec::new(),
                dispatch: DispatchMode::StartImmediately,
                accept_stop: Vec::new(),
            },
        )
    }

    /// Answers a request as it is shown, by one of its options.
    pub fn choose(&self, row: &InboxRow, option: &str) -> Ticket {
        self.answer_with(row.thread, row.request, row.content_hash, option)
    }

    /// Answers whatever is named.
    pub fn answer_with(
        &self,
        thread: ThreadId,
        request: RequestId,
        content_hash: ContentHash,
        option: &str,
    ) -> Ticket {
        let answer = Answer::Choose {
            option: OptionId::from(option),
            note: None,
        };
        self.submit(
            Some(thread),
            CommandBody::RequestAnswer {
                request,
                content_hash,
                answer,
            },
        )
    }

    /// Answers a question by choices and words.
    pub fn reply(&self, row: &InboxRow, replies: Vec<QuestionReply>) -> Ticket {
        let answer = Answer::Reply { replies };
        let (request, content_hash) = (row.request, row.content_hash);
        self.submit(
            Some(row.thread),
            CommandBody::RequestAnswer {
                request,
                content_hash,
                answer,
            },
        )
    }

    /// Asks the active run of a thread to stop.
    pub fn interrupt(&self, thread: ThreadId) -> Ticket {
        let (run, attempt) = self.wait("a run that can be stopped", |seen| {
            let active = seen
                .timelines
                .get(&thread)?
                .header
                .as_ref()?
                .active
                .as_ref()?;
            Some((active.run, active.attempt?))
        });
        self.submit(
            Some(thread),
            CommandBody::RunInterrupt {
                run,
                attempt,
                hold_queue: false,
            },
        )
    }

    /// Waits until a thread asks something that this has not given before.
    pub fn asked(&self, thread: ThreadId) -> InboxRow {
        let mut given = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let row = self.wait("a request", |seen| {
            let new = |row: &&InboxRow| {
                row.thread == thread
                    && row.state == InboxState::Pending
                    && !given.contains(&row.request)
            };
            seen.inbox.iter().find(new).cloned()
        });
        given.insert(row.request);
        row
    }

    /// Waits until a thread asks something that this has not given before, or its run of this ordinal has ended.
    pub fn asked_or_ended(&self, thread: ThreadId, ordinal: u32) -> Option<InboxRow> {
        let mut given = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let row = self.wait("a request or the run's end", |seen| {
            let new = |row: &&InboxRow| {
                row.thread == thread
                    && row.state == InboxState::Pending
                    && !given.contains(&row.request)
            };
            if let Some(row) = seen.inbox.iter().find(new) {
                return Some(Some(row.clone()));
            }
            let timeline = seen.timelines.get(&thread)?;
            let ended = timeline
                .last_run()
                .filter(|run| run.ordinal == ordinal && timeline.is_idle());
            ended.map(|_| None)
        });
        given.extend(row.as_ref().map(|row| row.request));
        row
    }

    /// Waits until nothing waits for a person.
    pub fn nothing_waits(&self) {
        self.wait("an empty inbox", |seen| seen.inbox.is_empty().then_some(()));
    }

    /// Waits until nothing runs or waits in a thread any more, and its last run has this ordinal.
    pub fn ended(&self, thread: ThreadId, ordinal: u32) -> EndedRun {
        self.wait("the run's end", |seen| {
            let timeline = seen.timelines.get(&thread)?;
            timeline
                .last_run()
                .filter(|run| run.ordinal == ordinal && timeline.is_idle())
        })
    }

    /// Waits until the run of this ordinal has ended, as completed.
    pub fn completed(&self, thread: ThreadId, ordinal: u32) {
        let run = self.ended(thread, ordinal);
        assert_eq!(
            run.status,
            RunStatus::Completed,
            "{:#?}",
            self.timeline(thread)
        );
    }

    /// Waits until a thread is idle.
    pub fn idle(&self, thread: ThreadId) -> Timeline {
        self.wait("the thread to be idle", |seen| {
            seen.timelines
                .get(&thread)
                .filter(|timeline| timeline.is_idle())
                .cloned()
        })
    }

    /// Waits until a request has a status that is looked for.
    pub fn status<T>(
        &self,
        thread: ThreadId,
        request: RequestId,
        look: impl Fn(&RequestStatus) -> Option<T>,
    ) -> T {
        crate::until("the request's status", || {
            // Between the feed's word that it waits no more and the thread's own entries it is not held at all.
            let held = self
                .held_request(thread, request)
                .map_err(|error| error.to_string())?;
            let status = held.request.status;
            look(&status).ok_or_else(|| format!("{status:?}"))
        })
    }

    /// A thread as it is shown.
    pub fn timeline(&self, thread: ThreadId) -> Timeline {
        self.seen()
            .timelines
            .get(&thread)
            .cloned()
            .unwrap_or_default()
    }

    /// All rows of a thread: what is shown, and the older ones that are asked for page by page.
    pub fn whole(&self, thread: ThreadId) -> Vec<TimelineRow> {
        let timeline = self.timeline(thread);
        let mut older = timeline.header.is_some_and(|header| header.older);
        let mut rows = timeline.rows;
        while older {
            let before = rows.iter().find_map(|row| row.position);
            let before = before.expect("a row with a place, where older ones exist");
            let (host, max_bytes) = (self.host, 64 * 1024);
            let page = self.core().query(Query::OlderItems {
                host,
                thread,
                before,
                max_bytes,
            });
            let Ok(Page::Items {
                rows: mut page,
                older: more,
            }) = page
            else {
                panic!("{}: {page:?}", self.name)
            };
            assert!(!page.is_empty() || !more, "a page without rows");
            page.append(&mut rows);
            rows = page;
            older = more;
        }
        rows
    }

    /// A request, open or closed, as far as it is held.
    pub fn request(&self, thread: ThreadId, request: RequestId) -> RequestPage {
        self.held_request(thread, request)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// The same, or why it is not held.
    ///
    /// # Errors
    /// It is not held here (yet).
    pub fn held_request(
        &self,
        thread: ThreadId,
        request: RequestId,
    ) -> Result<RequestPage, QueryError> {
        let thread = Some(thread);
        match self.core().query(Query::Request {
            host: self.host,
            thread,
            request,
        })? {
            Page::Request(page) => Ok(*page),
            other => panic!("{}: {other:?}", self.name),
        }
    }

    /// The digest of a thread, as it is held.
    pub fn digest(&self, thread: ThreadId) -> Result<Digest, QueryError> {
        match self.core().query(Query::Digest {
            host: self.host,
            thread,
        })? {
            Page::Digest { digest, .. } => Ok(digest),
            other => panic!("{}: {other:?}", self.name),
        }
    }

    /// Waits until a thread's digest is that of the host's log.
    pub fn same_as(&self, host: &Host, thread: ThreadId) {
        self.same_as_in(&host.ledger_dir(), thread);
    }

    /// Waits until a thread's digest is that of a ledger's log.
    pub fn same_as_in(&self, ledger: &LedgerDir, thread: ThreadId) {
        crate::until(&format!("{} to have the host's digest", self.name), || {
            let (own, theirs) = (self.digest(thread), ledger.digest(thread));
            if own.as_ref() == Ok(&theirs) {
                Ok(())
            } else {
                Err(format!("{own:?} here, {theirs:?} there"))
            }
        });
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.close();
    }
}

/// What of an inbox a person would compare.
pub fn ids(rows: &[InboxRow]) -> Vec<RequestId> {
    rows.iter().map(|row| row.request).collect()
}
