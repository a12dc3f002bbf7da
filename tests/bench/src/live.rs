//! A real host process with a scripted agent, and devices in this process that note when they are told something.

use anyhow::{Context as _, Result, anyhow, bail};
use pilothouse_domain::{
    AgentName, Answer, BlobHash, CommandBody, Cursor, Digest, DispatchMode, HostId, Mode, OptionId,
    ThreadId, WorkspaceId, thread::Selection,
};
use pilothouse_engine::{
    Batch, Core, CoreConfig, InboxRow, LinkState, NewCommand, Observation, Page, Query, QueryError,
    Scope, SystemPlatform, Ticket, TicketOutcome,
};
use pilothouse_tests::{Host, places};
use serde::de::DeserializeOwned;
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Only a fault makes anything wait this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Unix time, ms, with its fractions, as the scripted agent writes it.
pub(crate) fn unix_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64() * 1000.0)
}

/// The file of the agent's calls, in the world's directory.
const CALLS: &str = "calls.jsonl";

/// A host with one agent, `fake`, and one workspace, `demo`.
pub(crate) struct World {
    pub(crate) host: Host,
    times: PathBuf,
    dir: PathBuf,
}

impl World {
    /// Starts it; the host's state is in `state`, which may hold a ledger.
    pub(crate) fn start(dir: &Path, state: PathBuf) -> Result<Self> {
        let (workspace, times) = (dir.join("workspace"), dir.join("times.jsonl"));
        fs::create_dir_all(&workspace)?;
        let text = |path: &Path| serde_json::to_string(&path.to_string_lossy());
        let config = dir.join("host.toml");
        fs::write(
            &config,
            format!(
                "[host]\nname = \"bench\"\n\n[workspaces.demo]\npath = {}\n\n[agents.fake]\nprotocol = \"codex\"\ncommand = [\"node\", {}, \"ok\", {}, {}]\n",
                text(&workspace)?,
                text(&places::support("fake-codex.mjs"))?,
                text(&times)?,
                text(&dir.join(CALLS))?
            ),
        )?;
        Ok(Self {
            host: Host::start(places::pilothouse(), dir, state, config),
            times,
            dir: dir.to_owned(),
        })
    }

    /// A new device, paired and caught up.
    pub(crate) fn device(&self, name: &str) -> Result<Phone> {
        self.device_through(name, None)
    }

    /// The same, at another address than the host's.
    pub(crate) fn device_through(&self, name: &str, through: Option<SocketAddr>) -> Result<Phone> {
        let phone = Phone::open(&self.dir.join(name), name)?;
        phone.pair_through(&self.host, through)?;
        Ok(phone)
    }

    /// What the agent wrote down, a line each.
    pub(crate) fn times<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        lines(&self.times)
    }

    /// The calls that the agent was given, a line each.
    pub(crate) fn calls<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        lines(&self.dir.join(CALLS))
    }
}

fn lines<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).context("a line of the agent"))
        .collect()
}

/// What a device was told, and when (Unix time, ms).
pub(crate) struct Told {
    pub(crate) at: f64,
    pub(crate) batch: Batch,
}

/// A device that only notes what it is told.
pub(crate) struct Phone {
    pub(crate) core: Arc<Core>,
    waiter: tokio::runtime::Runtime,
}

/// An observation with what it was told.
pub(crate) struct Watch {
    _observation: Observation,
    told: mpsc::Receiver<Told>,
}

impl Watch {
    /// What it is told next.
    pub(crate) fn next(&self) -> Result<Told> {
        self.told
            .recv_timeout(PATIENCE)
            .map_err(|error| anyhow!("the device was told nothing: {error}"))
    }

    /// Batches until one of them gives what is looked for.
    pub(crate) fn until<T>(&self, mut look: impl FnMut(&Told) -> Option<T>) -> Result<T> {
        loop {
            if let Some(found) = look(&self.next()?) {
                return Ok(found);
            }
        }
    }
}

impl Phone {
    pub(crate) fn open(dir: &Path, name: &str) -> Result<Self> {
        let config = CoreConfig {
            data_dir: dir.to_owned(),
            device_name: name.to_owned(),
            platform: "bench".to_owned(),
        };
        let core = Core::open(config, Arc::new(SystemPlatform::new(dir)))
            .map_err(|error| anyhow!("{name}: {error}"))?;
        let waiter = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        Ok(Self { core, waiter })
    }

    /// Pairs with a host and waits until everything of its list is here.
    pub(crate) fn pair(&self, host: &Host) -> Result<HostId> {
        self.pair_through(host, None)
    }

    fn pair_through(&self, host: &Host, through: Option<SocketAddr>) -> Result<HostId> {
        let code = host.pairing_code(through);
        let id = self
            .block(self.core.pair(&code))?
            .map_err(|error| anyhow!("pairing: {error}"))?;
        self.synchronised()?;
        Ok(id)
    }

    /// Waits until a host's list is here.
    pub(crate) fn synchronised(&self) -> Result<()> {
        let hosts = self.watch(Scope::Hosts);
        let mut rows = Vec::new();
        hosts.until(|told| {
            let Batch::Hosts(batch) = &told.batch else {
                return None;
            };
            batch.apply(&mut rows);
            rows.iter()
                .any(|row| row.link == LinkState::Synchronised)
                .then_some(())
        })
    }

    pub(crate) fn block<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        self.waiter
            .block_on(async { tokio::time::timeout(PATIENCE, future).await })
            .context("a device waited in vain")
    }

    pub(crate) fn watch(&self, scope: Scope) -> Watch {
        let (sender, told) = mpsc::channel();
        let observation = self.core.observe(
            scope,
            Arc::new(move |batch| {
                let _ = sender.send(Told {
                    at: unix_ms(),
                    batch,
                });
            }),
        );
        Watch {
            _observation: observation,
            told,
        }
    }

    pub(crate) fn submit(
        &self,
        host: HostId,
        thread: Option<ThreadId>,
        body: CommandBody,
    ) -> Result<Ticket> {
        self.core
            .submit(NewCommand { host, thread, body })
            .map_err(|error| anyhow!("submitting: {error}"))
    }

    /// Waits until a command was taken; the log's place right after it.
    pub(crate) fn taken(&self, ticket: &Ticket) -> Result<Cursor> {
        match self.block(ticket.outcome())? {
            TicketOutcome::Accepted { cursor, .. } => Ok(cursor),
            other => bail!("a command was not taken: {other:?}"),
        }
    }

    /// Makes a thread of the scripted agent.
    pub(crate) fn create(&self, host: HostId, title: &str) -> Result<ThreadId> {
        let body = CommandBody::ThreadCreate {
            title: title.to_owned(),
            workspace: WorkspaceId::from("demo"),
            selection: Selection {
                agent: AgentName::from("fake"),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
        };
        let ticket = self.submit(host, None, body)?;
        self.taken(&ticket)?;
        Ok(ticket.thread())
    }

    /// Sends a message.
    pub(crate) fn say(&self, host: HostId, thread: ThreadId, text: &str) -> Result<Ticket> {
        let body = CommandBody::MessageSend {
            text: text.to_owned(),
            attachments: Vec::new(),
            dispatch: DispatchMode::QueueAfterActive,
            accept_stop: Vec::new(),
        };
        self.submit(host, Some(thread), body)
    }

    /// Allows what a request asks.
    pub(crate) fn allow(&self, row: &InboxRow) -> Result<Ticket> {
        let body = CommandBody::RequestAnswer {
            request: row.request,
            content_hash: row.content_hash,
            answer: Answer::Choose {
                option: OptionId::from("accept"),
                note: None,
            },
        };
        self.submit(row.host, Some(row.thread), body)
    }

    /// The digest of a thread as it is held here.
    pub(crate) fn digest(&self, host: HostId, thread: ThreadId) -> Result<Digest> {
        match self
            .core
            .query(Query::Digest { host, thread })
            .map_err(|error| anyhow!("{error}"))?
        {
            Page::Digest { digest, .. } => Ok(digest),
            other => bail!("{other:?} is no digest"),
        }
    }

    /// The digest of a thread as it is held here once it is as wanted, or after all patience.
    pub(crate) fn digest_in_the_end(
        &self,
        host: HostId,
        thread: ThreadId,
        wanted: Digest,
    ) -> Result<Digest> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let held = self.digest(host, thread);
            if Instant::now() > deadline || held.as_ref().is_ok_and(|held| *held == wanted) {
                return held;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How long the host takes to answer a question that costs it nothing: part of a text that it does not have, ms.
    pub(crate) fn round_trip(&self, host: HostId) -> Result<f64> {
        let query = Query::Body {
            host,
            hash: BlobHash::from_bytes([0x5a; 32]),
            offset: 0,
            len: 1,
        };
        let began = Instant::now();
        match self.core.query(query) {
            Err(QueryError::Answered { .. }) => Ok(began.elapsed().as_secs_f64() * 1000.0),
            other => bail!("the host said {other:?} of a text that it does not have"),
        }
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        self.core.close();
    }
}
