//! The ledgers of agents that are driven from here, opened when their link first dials.

use super::{DirectAgent, DirectFamily, Said, own_device, secret_name};
use crate::{actor::Message, api::LogLevel, delivery::lock, rows::DirectRow, shared::Shared};
use pilothouse_domain::{
    AgentName, Capabilities, CapabilityFlag, CapabilityValue, ContentHash, HostId, Mode, Policy,
    Scope, policy::AgentPolicy,
};
use pilothouse_ledger::{
    AgentSpec, Clock, IDLE_LOOK, Ledger, LedgerConfig, NewDevice, SystemClock,
};
use pilothouse_providers::{
    codex::FarCodexAdapter, contract::ProviderAdapter, opencode::FarOpencodeAdapter,
};
use pilothouse_serve::{Facts, Patience, Served, Sessions};
use pilothouse_wire::{
    connect::{AddressFailure, AttemptError, ConnectError},
    duplex::{BoxFuture, Duplex as _, memory_pair},
    link::{Dialer, Dialled},
    message::{
        AgentInfo, AgentReadiness, CheckOutcome, DoctorCheck, DoctorReport, Incoming, Outgoing,
        WorkspaceInfo,
    },
    opening::{Opening, read_opening},
};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::OnceCell;

/// What a person said of an agent, in its directory.
const SAID: &str = "direct.json";
/// Frames on their way between the core and its ledger, each way.
const ON_THE_WAY: usize = 64;
/// Time for the core to take one frame of its own.
const STALL: Duration = Duration::from_secs(600);

/// All agents that are driven from here.
pub(crate) struct DirectHosts {
    dir: PathBuf,
    agents: Mutex<BTreeMap<HostId, Known>>,
}

struct Known {
    said: Said,
    unreached: Option<String>,
    served: Opened,
    /// What was opened before something else was said of it; closed before anything is opened again.
    before: Option<Opened>,
}

/// A ledger, once it was opened.
type Opened = Arc<OnceCell<Arc<Served>>>;

impl DirectHosts {
    /// Those that are kept in a data directory.
    pub(crate) fn read(data_dir: &Path) -> Self {
        let dir = data_dir.join("direct");
        let mut agents = BTreeMap::new();
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let host = entry.file_name().to_string_lossy().parse::<HostId>();
            if let (Ok(host), Some(said)) = (host, said(&entry.path())) {
                agents.insert(host, Known::new(said));
            }
        }
        Self {
            dir,
            agents: Mutex::new(agents),
        }
    }

    /// Keeps what a person says of an agent, in place of what was said before.
    pub(crate) fn put(&self, host: HostId, said: &Said) -> io::Result<()> {
        let dir = self.dir.join(host.to_string());
        fs::create_dir_all(&dir)?;
        let aside = dir.join("direct.part");
        let mut file = fs::File::create(&aside)?;
        io::Write::write_all(&mut file, &serde_json::to_vec_pretty(said)?)?;
        file.sync_all()?;
        fs::rename(&aside, dir.join(SAID))?;
        take_in(&mut lock(&self.agents), host, said.clone());
        Ok(())
    }

    /// Looks again at what is kept: another process may have changed it. Gives those of which something else is said now.
    pub(crate) fn reread(&self) -> Vec<HostId> {
        let mut agents = lock(&self.agents);
        let hosts: Vec<HostId> = agents.keys().copied().collect();
        let changed = |host: &HostId| {
            let said = said(&self.dir.join(host.to_string()));
            said.is_some_and(|said| take_in(&mut agents, *host, said))
        };
        hosts.into_iter().filter(changed).collect()
    }

    /// What is kept of an agent.
    pub(crate) fn said(&self, host: HostId) -> Option<Said> {
        self.holds(host).then(|| {
            lock(&self.agents)
                .get(&host)
                .map(|known| known.said.clone())
        })?
    }

    /// Whether an agent was taken away.
    pub(crate) fn is_removed(&self, host: HostId) -> bool {
        let agents = lock(&self.agents);
        agents.get(&host).is_some_and(|known| known.said.removed)
    }

    /// Those that were not taken away.
    pub(crate) fn agents(&self) -> Vec<(HostId, DirectAgent)> {
        let agents = lock(&self.agents);
        let there = agents.iter().filter(|(_, known)| !known.said.removed);
        there
            .map(|(host, known)| (*host, known.said.agent.clone()))
            .collect()
    }

    /// Whether a host is an agent that is driven from here; another process may have added it.
    pub(crate) fn holds(&self, host: HostId) -> bool {
        let mut agents = lock(&self.agents);
        if !agents.contains_key(&host)
            && let Some(said) = said(&self.dir.join(host.to_string()))
        {
            agents.insert(host, Known::new(said));
        }
        agents.contains_key(&host)
    }

    /// As a screen shows it; `None` for a host that is one.
    pub(crate) fn row(&self, host: HostId) -> Option<DirectRow> {
        lock(&self.agents).get(&host).map(|known| DirectRow {
            family: known.said.agent.family.name().to_owned(),
            unreached: known.unreached.clone(),
            removed: known.said.removed,
        })
    }

    /// Notes whether an agent is reached; says whether that is news.
    fn note(&self, host: HostId, unreached: Option<String>) -> bool {
        let mut agents = lock(&self.agents);
        let Some(known) = agents.get_mut(&host) else {
            return false;
        };
        let news = known.unreached != unreached;
        known.unreached = unreached;
        news
    }

    /// Closes all ledgers; what goes on with their agents goes on.
    pub(crate) async fn close(&self) {
        let open: Vec<_> = lock(&self.agents)
            .values()
            .flat_map(|known| std::iter::once(&known.served).chain(&known.before))
            .filter_map(|opened| opened.get().cloned())
            .collect();
        for served in open {
            served.ledger.shutdown().await;
        }
    }
}

/// What a person said of the agent whose directory it is.
fn said(dir: &Path) -> Option<Said> {
    serde_json::from_slice(&fs::read(dir.join(SAID)).ok()?).ok()
}

/// Takes in what is said of an agent; says whether it is something else than before.
fn take_in(agents: &mut BTreeMap<HostId, Known>, host: HostId, said: Said) -> bool {
    let before = agents.remove(&host);
    let same = before.as_ref().is_some_and(|known| known.said == said);
    let known = match before {
        Some(known) if same => known,
        Some(known) => Known {
            // A ledger has one owner: of those before the last, none was opened beside the next.
            before: known
                .served
                .get()
                .map(|_| known.served.clone())
                .or(known.before),
            ..Known::new(said)
        },
        None => Known::new(said),
    };
    agents.insert(host, known);
    !same
}

impl Known {
    fn new(said: Said) -> Self {
        Self {
            said,
            unreached: None,
            served: Arc::default(),
            before: None,
        }
    }
}

/// Dials the ledger of an agent that is driven from here.
pub(crate) struct DirectDialer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) host: HostId,
}

impl Dialer for DirectDialer {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, ConnectError>> {
        Box::pin(async move {
            let served = self.served().await.map_err(|problem| ConnectError {
                failures: vec![AddressFailure {
                    address: "this device".to_owned(),
                    error: AttemptError::Unreachable(problem),
                }],
            })?;
            let (here, there) = memory_pair(ON_THE_WAY);
            tokio::spawn(serve(served, there));
            Ok(Dialled {
                duplex: Box::new(here),
                address: "this device".to_owned(),
            })
        })
    }
}

async fn serve(served: Arc<Served>, end: pilothouse_wire::duplex::MemoryDuplex) {
    let (sender, receiver) = Box::new(end).split();
    let (outgoing, mut incoming) = (Outgoing::new(sender), Incoming::new(receiver));
    let Ok(Opening::Hello(hello)) = read_opening(&mut incoming, true).await else {
        return;
    };
    let Ok(Some(device)) = served.ledger.device_by_spki(ContentHash::default()).await else {
        return;
    };
    pilothouse_serve::run(
        served,
        device,
        hello,
        "memory".to_owned(),
        outgoing,
        incoming,
    )
    .await;
}

impl DirectDialer {
    async fn served(&self) -> Result<Arc<Served>, String> {
        let gone = || "it is not driven from here any more".to_owned();
        let found = lock(&self.shared.direct.agents)
            .get(&self.host)
            .map(|known| {
                let before = known.before.as_ref().and_then(|before| before.get());
                (
                    known.said.clone(),
                    Arc::clone(&known.served),
                    before.cloned(),
                )
            });
        let (said, served, before) = found.ok_or_else(gone)?;
        if let Some(before) = before {
            before.ledger.shutdown().await;
        }
        served
            .get_or_try_init(|| self.open(said))
            .await
            .map(Arc::clone)
    }

    /// Opens the ledger. The agent itself is reached when it is first needed, or when something goes on with it.
    async fn open(&self, said: Said) -> Result<Arc<Served>, String> {
        let adapter = match said.removed {
            true => None,
            false => Some(self.adapter(&said).await?),
        };
        let agent = said.agent;
        let modes = adapter.as_ref().map(|adapter| adapter.modes());
        let ledger = self.ledger(&agent, adapter).await?;
        let device = NewDevice {
            device: own_device(self.host),
            name: self.shared.config.device_name.clone(),
            spki_sha256: ContentHash::default(),
            scopes: Scope::ALL.to_vec(),
        };
        let known = ledger.device_by_spki(ContentHash::default()).await;
        if !matches!(known, Ok(Some(_))) {
            ledger
                .pair_device(device)
                .await
                .map_err(|error| error.to_string())?;
        }
        tokio::spawn(watch(
            Arc::clone(&self.shared),
            self.host,
            ledger.unreached(),
        ));
        let facts = Arc::new(DirectFacts {
            agent: agent.clone(),
            modes,
        });
        let software = format!("pilothouse-engine/{} direct", env!("CARGO_PKG_VERSION"));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Ok(Arc::new(Served::new(
            self.host,
            (agent.name, software),
            ledger,
            clock,
            Arc::<Sessions>::default(),
            Patience { stall: STALL },
            facts,
        )))
    }

    /// What speaks with the agent.
    async fn adapter(&self, said: &Said) -> Result<Arc<dyn ProviderAdapter>, String> {
        let agent = &said.agent;
        let endpoint = agent.endpoint().map_err(|refusal| refusal.to_string())?;
        let (shared, name) = (
            Arc::clone(&self.shared),
            secret_name(self.host, said.secrets),
        );
        let secret = tokio::task::spawn_blocking(move || shared.platform.secret(&name))
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("its secret cannot be read: {error}"))?
            .ok_or("its secret is not kept on this device any more; add the agent again")?;
        Ok(match agent.family {
            DirectFamily::Codex => Arc::new(FarCodexAdapter::new(endpoint, secret)),
            DirectFamily::Opencode => Arc::new(FarOpencodeAdapter::new(endpoint, secret)),
        })
    }

    async fn ledger(
        &self,
        agent: &DirectAgent,
        adapter: Option<Arc<dyn ProviderAdapter>>,
    ) -> Result<Ledger, String> {
        let name = AgentName::from(agent.family.name());
        let workspaces = agent.workspaces();
        let offered = adapter.as_ref().map(|adapter| {
            let offered = AgentPolicy {
                family: adapter.family().to_owned(),
                modes: adapter.modes(),
                capabilities: without_daemon(adapter.profile()).set(),
                sandboxes: Vec::new(),
            };
            (name.clone(), offered)
        });
        let policy = Policy {
            version: 1,
            agents: offered.into_iter().collect(),
            workspaces: workspaces.keys().cloned().collect(),
            default_mode: Mode::Ask,
        };
        let spec = adapter.map(|adapter| {
            let spec = AgentSpec {
                adapter,
                command: Vec::new(),
                env: BTreeMap::new(),
                modes: BTreeMap::new(),
                mcp: pilothouse_providers::mcp::McpServers::default(),
                cwd: None,
            };
            (name, spec)
        });
        let config = LedgerConfig {
            dir: self.shared.direct.dir.join(self.host.to_string()),
            policy,
            agents: spec.into_iter().collect(),
            workspaces,
            wrapper: Vec::new(),
            clock: Arc::new(SystemClock),
            idle_look: IDLE_LOOK,
            new_epoch: false,
        };
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || Ledger::open(config, runtime))
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())
    }
}

/// What an agent can do where no daemon of ours stands beside it.
fn without_daemon(mut known: Capabilities) -> Capabilities {
    for flag in [
        CapabilityFlag::AppCanCheckpointFilesystem,
        CapabilityFlag::NestedCheckpointScopes,
    ] {
        if let Some(fact) = known.facts.get_mut(&flag) {
            fact.value = CapabilityValue::No;
        }
    }
    known
}

/// Shows whether the agent is reached.
async fn watch(
    shared: Arc<Shared>,
    host: HostId,
    mut unreached: tokio::sync::watch::Receiver<pilothouse_ledger::Unreached>,
) {
    loop {
        let problem = unreached.borrow_and_update().values().next().cloned();
        if let Some(problem) = &problem {
            shared.log(LogLevel::Info, "direct", &format!("not reached: {problem}"));
        }
        if shared.direct.note(host, problem) && shared.actor.send(Message::HostsChanged).is_err() {
            return;
        }
        if unreached.changed().await.is_err() {
            return;
        }
    }
}

/// What can be asked of it beside its ledger.
struct DirectFacts {
    agent: DirectAgent,
    /// Modes that it can be given; `None` of one that was taken away.
    modes: Option<Vec<Mode>>,
}

impl Facts for DirectFacts {
    fn agents(&self) -> BoxFuture<'_, Vec<AgentInfo>> {
        let info = self.modes.clone().map(|modes| AgentInfo {
            name: AgentName::from(self.agent.family.name()),
            family: self.agent.family.name().to_owned(),
            version: None,
            readiness: AgentReadiness::Unknown,
            modes,
        });
        Box::pin(std::future::ready(info.into_iter().collect()))
    }

    fn workspaces(&self) -> Vec<WorkspaceInfo> {
        self.agent
            .workspaces()
            .into_iter()
            .map(|(id, path)| WorkspaceInfo {
                id,
                path: path.display().to_string(),
                available: true,
            })
            .collect()
    }

    fn doctor(&self) -> BoxFuture<'_, DoctorReport> {
        let check = DoctorCheck {
            name: "direct".to_owned(),
            outcome: CheckOutcome::Ok,
            finding: super::DIRECT_LIMITS.to_owned(),
            next_step: None,
        };
        Box::pin(std::future::ready(DoctorReport {
            checks: vec![check],
        }))
    }
}
