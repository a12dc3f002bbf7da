//! The core of one verb's life: opened on the data directory, its views gathered, its commands confirmed.

mod direct;

use super::{
    args::{DeviceArgs, PatienceArgs},
    failure::{Code, Failure},
    pick,
    text::span,
};
use pilothouse_domain::{
    AgentName, BlobHash, CommandBody, Cursor, HostId, RequestId, ThreadId, WorkspaceId,
    command::Notice,
    provider::{FoundFile, NativeConversation, OfferedCommand, OfferedModel},
};
use pilothouse_engine::{
    Batch, Core, CoreConfig, HostRow, InboxRow, LinkState, NewCommand, Observation, Page,
    Platform as _, Query, QueryError, RequestPage, Scope, SystemPlatform, ThreadCounts,
    ThreadFilter, ThreadHeader, ThreadPage, ThreadPlace, ThreadRow, Ticket, TicketOutcome,
    TimelineRow,
};
use std::{
    env,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

/// How long a list waits for hosts before it shows what is stored.
const SETTLE: Duration = Duration::from_secs(3);
/// How long a command waits to be confirmed.
const CONFIRM: Duration = Duration::from_secs(15);

/// Threads that `watch` has in view: the newest.
const WINDOW: u32 = 200;
/// Threads that a beginning of an id is looked for among, at most: if it fits more, it says too little anyway.
const NAMED: u32 = 100;

/// What was seen of the views that are looked at; `None` until the first batch.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) hosts: Option<Vec<HostRow>>,
    /// The newest threads.
    pub(crate) threads: Option<Vec<ThreadRow>>,
    /// How many there are of all.
    pub(crate) counts: ThreadCounts,
    pub(crate) inbox: Option<Vec<InboxRow>>,
    pub(crate) rows: Vec<TimelineRow>,
    pub(crate) header: Option<ThreadHeader>,
}

/// An opened core.
pub(crate) struct Device {
    core: Arc<Core>,
    platform: Arc<SystemPlatform>,
    patience: Option<Duration>,
    batches: Receiver<Batch>,
    sender: Sender<Batch>,
    observations: Vec<Observation>,
    runtime: tokio::runtime::Runtime,
    pub(crate) seen: Seen,
}

/// Where this device keeps its data.
pub(crate) fn data_dir(args: &DeviceArgs) -> Result<PathBuf, Failure> {
    if let Some(dir) = &args.data {
        return Ok(dir.clone());
    }
    let set = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_DATA_HOME")
        .filter(|dir| dir.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".local/share")));
    base.map(|base| base.join("pilothouse")).ok_or_else(|| {
        Failure::new(
            Code::Usage,
            "there is no directory for this device's data: neither XDG_DATA_HOME nor HOME is set",
        )
        .next("give one with --data DIR")
    })
}

/// What this machine calls itself.
fn machine_name() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    if name.is_empty() {
        "terminal".to_owned()
    } else {
        name.chars().take(80).collect()
    }
}

impl Device {
    pub(crate) fn open(
        args: &DeviceArgs,
        patience: Option<PatienceArgs>,
        name: Option<&str>,
    ) -> Result<Self, Failure> {
        let data_dir = data_dir(args)?;
        let platform = Arc::new(SystemPlatform::new(&data_dir));
        let config = CoreConfig {
            data_dir,
            device_name: name.map_or_else(machine_name, str::to_owned),
            platform: "linux-cli".to_owned(),
        };
        let core = Core::open(config, platform.clone())
            .map_err(|error| Failure::new(Code::Error, error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| {
                Failure::new(
                    Code::Error,
                    format!("starting to wait for the host: {error}"),
                )
            })?;
        let (sender, batches) = mpsc::channel();
        let patience = patience
            .and_then(|patience| patience.timeout)
            .map(Duration::from_secs_f64);
        Ok(Self {
            core,
            platform,
            patience,
            batches,
            sender,
            observations: Vec::new(),
            runtime,
            seen: Seen::default(),
        })
    }

    /// This device's clock, Unix ms.
    pub(crate) fn now_ms(&self) -> u64 {
        self.platform.now_ms()
    }

    /// When a verb that waits by default gives up.
    pub(crate) fn confirm_by(&self) -> Instant {
        Instant::now() + self.patience.unwrap_or(CONFIRM)
    }

    /// When a verb that waits for ever by default gives up.
    pub(crate) fn given_deadline(&self) -> Option<Instant> {
        self.patience.map(|patience| Instant::now() + patience)
    }

    pub(crate) fn observe(&mut self, scope: Scope) {
        let sender = self.sender.clone();
        // A send fails only when this device is gone; then nobody looks any more.
        let sink = move |batch: Batch| drop(sender.send(batch));
        self.observations
            .push(self.core.observe(scope, Arc::new(sink)));
    }

    /// The next batch, applied to what was seen; `None` when the time is up.
    pub(crate) fn next(&mut self, until: Option<Instant>) -> Option<Batch> {
        let batch = match until {
            None => self.batches.recv().ok()?,
            Some(until) => match self
                .batches
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(batch) => batch,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            },
        };
        match &batch {
            Batch::Hosts(list) => list.apply(self.seen.hosts.get_or_insert_default()),
            Batch::Threads(list) => {
                list.apply(self.seen.threads.get_or_insert_default());
                self.seen.counts = list.counts;
            }
            Batch::Inbox(list) => list.apply(self.seen.inbox.get_or_insert_default()),
            Batch::Timeline(timeline) => {
                timeline.apply(&mut self.seen.rows);
                self.seen.header = Some(timeline.header.clone());
            }
            Batch::Delivery(_) => {}
        }
        Some(batch)
    }

    /// Takes batches until `found` finds something; `None` when the time is up.
    pub(crate) fn wait<T>(
        &mut self,
        until: Option<Instant>,
        mut found: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<T> {
        loop {
            if let Some(value) = found(self) {
                return Some(value);
            }
            self.next(until)?;
        }
    }

    /// Waits until every host has either been caught up with or turned out to be away. What is observed afterwards begins
    /// with that.
    pub(crate) fn settle(&mut self) -> &[HostRow] {
        if self.seen.hosts.is_none() {
            self.observe(Scope::Hosts);
        }
        let until = Instant::now() + self.patience.unwrap_or(SETTLE);
        self.wait(Some(until), |device| {
            let hosts = device.seen.hosts.as_ref()?;
            hosts
                .iter()
                .all(|host| is_settled(&host.link))
                .then_some(())
        });
        self.seen.hosts.as_deref().unwrap_or_default()
    }

    /// The paired hosts, without waiting for any.
    pub(crate) fn hosts(&mut self) -> Vec<HostRow> {
        if self.seen.hosts.is_none() {
            self.observe(Scope::Hosts);
        }
        self.wait(Some(first_batch()), |device| device.seen.hosts.clone())
            .unwrap_or_default()
    }

    /// Looks at the newest threads of all hosts.
    pub(crate) fn observe_threads(&mut self) {
        self.observe(Scope::threads(WINDOW));
    }

    /// Threads as they are stored now.
    pub(crate) fn threads(
        &self,
        filter: ThreadFilter,
        after: Option<ThreadPlace>,
        limit: u32,
    ) -> Result<ThreadPage, Failure> {
        self.thread_page(Query::Threads {
            filter,
            after,
            limit,
        })
    }

    /// Threads whose id begins so, as they are stored now.
    fn threads_named(&self, beginning: &str) -> Result<Vec<ThreadRow>, Failure> {
        let page = self.thread_page(Query::ThreadsNamed {
            beginning: beginning.to_owned(),
            limit: NAMED,
        })?;
        Ok(page.rows)
    }

    /// A thread's line as it is stored now.
    pub(crate) fn line(&self, thread: ThreadId) -> Option<ThreadRow> {
        let found = self.threads_named(&thread.to_string());
        found.ok()?.into_iter().next()
    }

    fn thread_page(&self, query: Query) -> Result<ThreadPage, Failure> {
        match self.query(query) {
            Ok(Page::Threads(page)) => Ok(page),
            Ok(_) => Ok(ThreadPage::default()),
            Err(error) => Err(Failure::new(
                Code::Error,
                format!("reading the list of threads: {error}"),
            )),
        }
    }

    /// All that waits as it is stored now.
    pub(crate) fn inbox(&mut self) -> Vec<InboxRow> {
        self.seen.inbox = None;
        self.observe(Scope::Inbox);
        self.wait(Some(first_batch()), |device| device.seen.inbox.clone())
            .unwrap_or_default()
    }

    /// A request as it is shown to a person. Whether the host is connected is not known where another process holds the
    /// link, and then nothing is said about it.
    pub(crate) fn shown(&self, row: &InboxRow) -> InboxRow {
        let elsewhere = self
            .seen
            .hosts
            .iter()
            .flatten()
            .any(|host| host.host == row.host && host.link == LinkState::HeldElsewhere);
        InboxRow {
            online: row.online || elsewhere,
            ..row.clone()
        }
    }

    /// The host that a person means; the only one if none is named.
    pub(crate) fn pick_host(&mut self, given: Option<&str>) -> Result<HostRow, Failure> {
        let hosts = self.hosts();
        match (given, hosts.as_slice()) {
            (_, []) => Err(no_host()),
            (None, [one]) => Ok(one.clone()),
            (None, several) => {
                let mut failure =
                    Failure::new(Code::Usage, format!("{} hosts are paired", several.len()))
                        .next("name one with --host");
                failure.candidates = several
                    .iter()
                    .map(|host| super::failure::Candidate {
                        id: host.host.to_string(),
                        label: host.name.clone(),
                    })
                    .collect();
                Err(failure)
            }
            (Some(given), _) => pick::pick(
                "host",
                given,
                &hosts,
                |host| host.host.to_string(),
                |host| Some(host.name.clone()),
                |host| host.name.clone(),
                "`pilothouse hosts`",
            )
            .cloned(),
        }
    }

    /// The thread that a person means: among what is stored, else among what the hosts have now.
    pub(crate) fn pick_thread(&mut self, given: &str) -> Result<ThreadRow, Failure> {
        let find = |device: &Self| {
            pick::pick(
                "thread",
                given,
                &device.threads_named(given)?,
                |row| row.summary.thread.to_string(),
                |_| None,
                |row| format!("{} › {}", row.host_name, row.summary.title),
                "`pilothouse threads`",
            )
            .cloned()
        };
        match find(self) {
            Err(failure) if failure.code == Code::NothingThere => {
                if self.settle().is_empty() {
                    return Err(no_host());
                }
                find(self)
            }
            found => found,
        }
    }

    /// Looks at a thread and waits until what is shown is what the host has, or the host turns out to be away.
    pub(crate) fn look_at(
        &mut self,
        host: HostId,
        thread: ThreadId,
        until: Instant,
    ) -> Result<ThreadHeader, Failure> {
        if self.seen.hosts.is_none() {
            self.observe(Scope::Hosts);
        }
        self.observe(Scope::Timeline {
            host,
            thread,
            tail: 50,
        });
        let header = self.wait(Some(until), |device| {
            let header = device.seen.header.as_ref()?;
            let link = device
                .seen
                .hosts
                .as_ref()?
                .iter()
                .find(|row| row.host == host)
                .map(|row| &row.link);
            // A process that does not hold the link itself is shown what the other one stores.
            let away = link.is_none_or(|link| match link {
                LinkState::Unreachable { reason, .. } => !reason.is_empty(),
                LinkState::Revoked | LinkState::HeldElsewhere => true,
                LinkState::Reachable | LinkState::Authenticated | LinkState::Synchronised => false,
            });
            (header.synchronised || away).then(|| header.clone())
        });
        header.or_else(|| self.seen.header.clone()).ok_or_else(|| {
            Failure::new(
                Code::Unconfirmed,
                format!("thread {thread} could not be read in time"),
            )
            .next("try again with a longer --timeout")
        })
    }

    /// Submits a command; it is in the outbox, on disk, when this returns.
    pub(crate) fn submit(
        &self,
        host: HostId,
        thread: Option<ThreadId>,
        body: CommandBody,
    ) -> Result<Ticket, Failure> {
        let ticket = self
            .core
            .submit(NewCommand { host, thread, body })
            .map_err(|error| Failure::new(Code::Error, error.to_string()))?;
        ticket
            .durable()
            .map_err(|error| Failure::new(Code::Error, error.to_string()))?;
        Ok(ticket)
    }

    /// Waits for what the host says to a command.
    pub(crate) fn confirm(
        &mut self,
        ticket: &Ticket,
        doing: &str,
        until: Instant,
    ) -> Result<Option<Notice>, Failure> {
        let confirmed = self.confirm_at(ticket, doing, until);
        confirmed.map(|(_, notice)| notice)
    }

    /// As [`Self::confirm`]; with the log's place right after it.
    pub(crate) fn confirm_at(
        &mut self,
        ticket: &Ticket,
        doing: &str,
        until: Instant,
    ) -> Result<(Cursor, Option<Notice>), Failure> {
        let began = Instant::now();
        let left = until.saturating_duration_since(began);
        let outcome = self
            .runtime
            .block_on(async { tokio::time::timeout(left, ticket.outcome()).await });
        let failure = match outcome {
            Ok(TicketOutcome::Accepted { cursor, notice }) => return Ok((cursor, notice)),
            Ok(TicketOutcome::Refused { refusal }) => Failure::refused(doing, &refusal),
            Ok(TicketOutcome::Expired) => Failure::new(
                Code::Error,
                format!("{doing}: it waited too long in the outbox and was not sent"),
            )
            .next("decide anew"),
            Ok(TicketOutcome::Parked { reason }) => Failure::new(
                Code::Error,
                format!("{doing}: it is kept but not sent: {reason}"),
            ),
            Err(_) => {
                let waited = began.elapsed() + Duration::from_millis(999);
                let waited = span(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
                Failure::new(Code::Unconfirmed, format!("{doing}: the host did not confirm it within {waited}; it is in the outbox and will be sent"))
                    .next("keep `pilothouse watch` running, or use any verb while the host is reachable, and it is sent; `pilothouse hosts` shows the link")
            }
        };
        Err(failure.about(ticket.command_id()))
    }

    /// A request, open or closed, as far as it is held.
    pub(crate) fn request(
        &self,
        host: HostId,
        thread: Option<ThreadId>,
        request: RequestId,
    ) -> Option<RequestPage> {
        match self.query(Query::Request {
            host,
            thread,
            request,
        }) {
            Ok(Page::Request(page)) => Some(*page),
            Ok(_) | Err(_) => None,
        }
    }

    /// Commands of its own that a thread's agent has named.
    pub(crate) fn commands(&self, host: HostId, thread: ThreadId) -> Vec<OfferedCommand> {
        match self.query(Query::Commands { host, thread }) {
            Ok(Page::Commands(commands)) => commands,
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    /// Models that a thread's agent has said it offers.
    pub(crate) fn models(&self, host: HostId, thread: ThreadId) -> Vec<OfferedModel> {
        match self.query(Query::Models { host, thread }) {
            Ok(Page::Models(models)) => models,
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    /// A page of the conversations that an agent has by itself, and where the next begins.
    pub(crate) fn conversations(
        &self,
        host: HostId,
        agent: &AgentName,
        workspace: &WorkspaceId,
        after: Option<String>,
    ) -> Result<(Vec<NativeConversation>, Option<String>), Failure> {
        let asked = Query::Conversations {
            host,
            agent: agent.clone(),
            workspace: workspace.clone(),
            after,
        };
        match self.query(asked) {
            Ok(Page::Conversations {
                conversations,
                next,
            }) => Ok((conversations, next)),
            Ok(_) => Err(strange_answer()),
            Err(error) => {
                let what = format!("listing the conversations: {error}");
                Err(Failure::new(Code::Unconfirmed, what).next(error.next_step()))
            }
        }
    }

    /// Files that a thread's agent finds by a part of their path.
    pub(crate) fn files(&self, row: &ThreadRow, text: &str) -> Result<Vec<FoundFile>, Failure> {
        let asked = Query::Files {
            host: row.host,
            agent: row.summary.agent.clone(),
            workspace: row.summary.workspace.clone(),
            text: text.to_owned(),
        };
        match self.query(asked) {
            Ok(Page::Files(files)) => Ok(files),
            Ok(_) => Err(strange_answer()),
            Err(error) => {
                let what = format!("looking files up: {error}");
                Err(Failure::new(Code::Unconfirmed, what).next(error.next_step()))
            }
        }
    }

    /// Brings a file to a host; gives its address.
    pub(crate) fn upload(&self, host: HostId, bytes: &[u8]) -> Result<BlobHash, QueryError> {
        self.core.upload(host, bytes)
    }

    fn query(&self, query: Query) -> Result<Page, QueryError> {
        self.core.query(query)
    }

    /// Pairs with the host that the code names.
    pub(crate) fn pair(&mut self, code: &str, until: Instant) -> Result<HostId, Failure> {
        let core = self.core.clone();
        let left = until.saturating_duration_since(Instant::now());
        match self.runtime.block_on(async { tokio::time::timeout(left, core.pair(code)).await }) {
            Ok(Ok(host)) => Ok(host),
            Ok(Err(error)) => {
                let what = format!("pairing: {error}");
                let said = what.contains(error.next_step());
                let failure = Failure::new(Code::Error, what);
                Err(if said { failure } else { failure.next(error.next_step()) })
            }
            Err(_) => Err(Failure::new(Code::Unconfirmed, "pairing: the host did not answer in time")
                .next("check that the host runs and that this machine can reach it, then try again with a new code")),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.observations.clear();
        self.core.close();
    }
}

/// The first batch is delivered from what is stored; only a broken core takes longer.
fn first_batch() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn is_settled(link: &LinkState) -> bool {
    match link {
        LinkState::Synchronised | LinkState::Revoked | LinkState::HeldElsewhere => true,
        LinkState::Unreachable { reason, .. } => !reason.is_empty(),
        LinkState::Reachable | LinkState::Authenticated => false,
    }
}

pub(crate) fn no_host() -> Failure {
    Failure::new(Code::NothingThere, "no host is paired with this device")
        .next("run `pilothouse pair` on the host, then `pilothouse join CODE` here")
}

fn strange_answer() -> Failure {
    Failure::new(Code::Error, "the host answered something else")
}
