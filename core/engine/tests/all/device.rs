//! A device under test: a core on a directory, a clock that tests move, and observers that can be waited on.

use crate::host::{FakeHost, HOST, choose, selection};
use pilothouse_domain::{CommandBody, ContentHash, DispatchMode, RequestId, ThreadId};
use pilothouse_engine::{
    Batch, Core, CoreConfig, DeliveryRow, DeviceKey, DeviceKeyError, Environment, HostRow,
    InboxRow, LinkState, LogLevel, NewCommand, Observation, Platform, Scope, Sink, ThreadHeader,
    ThreadRow, Ticket, TicketOutcome, TimelineRow,
};
use pilothouse_wire::identity::FileKey;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Generous: only a bug lets it pass.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct TestPlatform {
    key: Arc<dyn DeviceKey>,
    now: AtomicU64,
    pub(crate) log: Mutex<Vec<String>>,
}

impl TestPlatform {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            key: Arc::new(FileKey::generate().unwrap()),
            now: AtomicU64::new(1_900_000_000_000),
            log: Mutex::default(),
        })
    }

    pub(crate) fn until_logged(&self, words: &str) {
        let deadline = Instant::now() + DEADLINE;
        while !self
            .log
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains(words))
        {
            assert!(
                Instant::now() < deadline,
                "waited too long for `{words}` in the log"
            );
            std::thread::yield_now();
        }
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Platform for TestPlatform {
    fn device_key(&self) -> Result<Arc<dyn DeviceKey>, DeviceKeyError> {
        Ok(self.key.clone())
    }

    fn now_ms(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn random(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).unwrap();
    }

    fn log(&self, level: LogLevel, target: &str, message: &str) {
        self.log
            .lock()
            .unwrap()
            .push(format!("{level:?} {target}: {message}"));
    }
}

pub(crate) fn open(dir: &Path, platform: &Arc<TestPlatform>) -> Arc<Core> {
    let config = CoreConfig {
        data_dir: dir.to_owned(),
        device_name: "test phone".to_owned(),
        platform: "test".to_owned(),
    };
    Core::open(config, platform.clone()).unwrap()
}

/// A device that can die and come back.
pub(crate) struct Device {
    pub(crate) dir: TempDir,
    pub(crate) platform: Arc<TestPlatform>,
    pub(crate) core: Arc<Core>,
}

impl Device {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let platform = TestPlatform::new();
        let core = open(dir.path(), &platform);
        Self {
            dir,
            platform,
            core,
        }
    }

    pub(crate) fn paired(host: &FakeHost) -> Self {
        let device = Self::new();
        block_on(device.core.pair(&host.code())).unwrap();
        device
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Closes the core and opens it again.
    pub(crate) fn reopen(&mut self) {
        self.core.close();
        self.core = open(self.dir.path(), &self.platform);
    }

    pub(crate) fn hosts(&self) -> Watch<HostRow> {
        watch(&self.core, Scope::Hosts)
    }

    pub(crate) fn inbox(&self) -> Watch<InboxRow> {
        watch(&self.core, Scope::Inbox)
    }

    pub(crate) fn threads(&self) -> Watch<ThreadRow> {
        watch(&self.core, Scope::threads(200))
    }

    pub(crate) fn delivery(&self) -> Watch<DeliveryRow> {
        watch(&self.core, Scope::Delivery)
    }

    pub(crate) fn timeline(&self, thread: ThreadId) -> Timeline {
        timeline(&self.core, thread)
    }

    pub(crate) fn synchronised(&self) {
        self.hosts().until("the link is synchronised", |rows| {
            rows.iter().any(|row| row.link == LinkState::Synchronised)
        });
    }

    pub(crate) fn offline(&self) {
        self.hosts().until("the link is down", |rows| {
            rows.iter()
                .any(|row| matches!(row.link, LinkState::Unreachable { .. }))
        });
    }

    /// A person who looks whenever the connection is lost: no backoff is waited out. Also calls into the core from a
    /// sink.
    pub(crate) fn impatient(&self) -> Observation {
        let core = Arc::downgrade(&self.core);
        self.core.observe(
            Scope::Hosts,
            Arc::new(move |_: Batch| {
                if let Some(core) = core.upgrade() {
                    for foreground in [false, true] {
                        core.set_environment(Environment {
                            foreground,
                            ..Environment::default()
                        });
                    }
                }
            }),
        )
    }

    pub(crate) fn create(&self, title: &str) -> Ticket {
        self.core
            .submit(NewCommand {
                host: HOST,
                thread: None,
                body: CommandBody::ThreadCreate {
                    title: title.to_owned(),
                    workspace: "w".into(),
                    selection: selection(),
                },
            })
            .unwrap()
    }

    pub(crate) fn send(&self, thread: ThreadId, text: &str) -> Ticket {
        self.core.submit(message(thread, text)).unwrap()
    }

    pub(crate) fn answer(&self, row: &InboxRow, option: &str) -> Ticket {
        self.core
            .submit(answer(row.thread, row.request, row.content_hash, option))
            .unwrap()
    }
}

pub(crate) fn message(thread: ThreadId, text: &str) -> NewCommand {
    NewCommand {
        host: HOST,
        thread: Some(thread),
        body: CommandBody::MessageSend {
            text: text.to_owned(),
            attachments: Vec::new(),
            dispatch: DispatchMode::QueueAfterActive,
            accept_stop: Vec::new(),
        },
    }
}

pub(crate) fn answer(
    thread: ThreadId,
    request: RequestId,
    content_hash: ContentHash,
    option: &str,
) -> NewCommand {
    NewCommand {
        host: HOST,
        thread: Some(thread),
        body: CommandBody::RequestAnswer {
            request,
            content_hash,
            answer: choose(option),
        },
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, future)
            .await
            .expect("waited too long")
    })
}

pub(crate) fn outcome(ticket: &Ticket) -> TicketOutcome {
    block_on(ticket.outcome())
}

pub(crate) fn accepted(ticket: &Ticket) -> bool {
    matches!(outcome(ticket), TicketOutcome::Accepted { .. })
}

struct Held<T> {
    rows: Mutex<(T, u32)>,
    changed: Condvar,
}

impl<T: Clone + std::fmt::Debug> Held<T> {
    fn until(&self, what: &str, good: impl Fn(&T, u32) -> bool) -> T {
        let deadline = Instant::now() + DEADLINE;
        let mut held = self.rows.lock().unwrap();
        while !good(&held.0, held.1) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "waited too long until {what}: {:#?}",
                held.0
            );
            held = self.changed.wait_timeout(held, left).unwrap().0;
        }
        held.0.clone()
    }

    fn change(&self, work: impl FnOnce(&mut T)) {
        let mut held = self.rows.lock().unwrap();
        work(&mut held.0);
        held.1 += 1;
        self.changed.notify_all();
    }
}

/// A list as an observer holds it.
pub(crate) struct Watch<T> {
    held: Arc<Held<Vec<T>>>,
    _observation: Observation,
}

impl<T: Clone + std::fmt::Debug> Watch<T> {
    /// Waits until the list is as wanted; the first batch has come by then.
    pub(crate) fn until(&self, what: &str, good: impl Fn(&[T]) -> bool) -> Vec<T> {
        self.held
            .until(what, |rows, batches| batches > 0 && good(rows))
    }

    pub(crate) fn first(&self) -> Vec<T> {
        self.until("the first batch", |_| true)
    }
}

trait Listed: Sized + Clone + Send + 'static {
    fn apply(batch: Batch, rows: &mut Vec<Self>);
}

macro_rules! listed {
    ($($row:ident of $case:ident),*) => {$(
        impl Listed for $row {
            fn apply(batch: Batch, rows: &mut Vec<Self>) {
                match batch {
                    Batch::$case(batch) => batch.apply(rows),
                    other => panic!("{other:?}"),
                }
            }
        }
    )*};
}
listed!(HostRow of Hosts, ThreadRow of Threads, InboxRow of Inbox, DeliveryRow of Delivery);

fn watch<T: Listed + std::fmt::Debug>(core: &Core, scope: Scope) -> Watch<T> {
    let held = Arc::new(Held {
        rows: Mutex::new((Vec::new(), 0)),
        changed: Condvar::new(),
    });
    let sink = held.clone();
    let observation = core.observe(
        scope,
        Arc::new(move |batch: Batch| {
            let first = sink.rows.lock().unwrap().1 == 0;
            assert_eq!(
                first,
                batch.is_reset(),
                "the first batch of a list, and only it, is a reset"
            );
            sink.change(|rows| T::apply(batch, rows));
        }),
    );
    Watch {
        held,
        _observation: observation,
    }
}

/// A timeline as an observer holds it.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) rows: Vec<TimelineRow>,
    pub(crate) header: Option<ThreadHeader>,
    pub(crate) resets: u32,
    /// Ids of rows in the order in which they came up, removed ones included.
    pub(crate) updates: u32,
}

impl Shown {
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.text.text.as_str()).collect()
    }

    pub(crate) fn header(&self) -> &ThreadHeader {
        self.header.as_ref().unwrap()
    }
}

pub(crate) struct Timeline {
    held: Arc<Held<Shown>>,
    pub(crate) observation: Observation,
}

impl Timeline {
    pub(crate) fn until(&self, what: &str, good: impl Fn(&Shown) -> bool) -> Shown {
        self.held
            .until(what, |shown, batches| batches > 0 && good(shown))
    }
}

pub(crate) fn timeline(core: &Core, thread: ThreadId) -> Timeline {
    let (held, sink) = timeline_sink(|_| {});
    let observation = core.observe(
        Scope::Timeline {
            host: HOST,
            thread,
            tail: 100,
        },
        sink,
    );
    Timeline { held, observation }
}

/// A timeline whose sink does something with each batch first.
pub(crate) fn timeline_with(
    core: &Core,
    thread: ThreadId,
    first: impl Fn(&Batch) + Send + Sync + 'static,
) -> Timeline {
    let (held, sink) = timeline_sink(first);
    let observation = core.observe(
        Scope::Timeline {
            host: HOST,
            thread,
            tail: 100,
        },
        sink,
    );
    Timeline { held, observation }
}

fn timeline_sink(
    first: impl Fn(&Batch) + Send + Sync + 'static,
) -> (Arc<Held<Shown>>, Arc<dyn Sink>) {
    let shown = Shown {
        rows: Vec::new(),
        header: None,
        resets: 0,
        updates: 0,
    };
    let held = Arc::new(Held {
        rows: Mutex::new((shown, 0)),
        changed: Condvar::new(),
    });
    let sink = held.clone();
    let sink = Arc::new(move |batch: Batch| {
        first(&batch);
        let Batch::Timeline(batch) = batch else {
            panic!("{batch:?}")
        };
        sink.change(|shown| {
            batch.apply(&mut shown.rows);
            shown.resets += u32::from(batch.reset);
            shown.updates += 1;
            shown.header = Some(batch.header.clone());
        });
    });
    (held, sink)
}
