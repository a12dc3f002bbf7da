//! The doctor: what this host has, what is missing, and what to do about it. Looks, and leaves
//! nothing changed behind.

mod agents;
mod ledger;
mod machine;

use crate::{
    agents::{Agent, SignIn},
    config::{Config, ConfigError},
    state::{StatePath, home},
};
use pilothouse_domain::WorkspaceId;
use pilothouse_wire::message::{
    AgentInfo, AgentReadiness, CheckOutcome, DoctorCheck, DoctorReport, WorkspaceInfo,
};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// How long what an agent said of itself is believed.
const PROBE_KEPT: Duration = Duration::from_secs(30);

/// What there is to be looked at.
pub(crate) struct Examiner {
    state: StatePath,
    config: Result<Config, String>,
    agents: Vec<Agent>,
    workspaces: Vec<(WorkspaceId, PathBuf)>,
    probes: tokio::sync::Mutex<Option<(Instant, Vec<Probe>)>>,
}

/// What a running daemon knows of itself.
#[derive(Debug, Clone)]
pub(crate) struct DaemonFacts {
    pub(crate) listening: SocketAddr,
    /// It opens to other machines at the first `pair`.
    pub(crate) opens_when_paired: bool,
    /// The paired devices.
    pub(crate) devices: Vec<DeviceFacts>,
}

/// A paired device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceFacts {
    pub(crate) name: String,
    pub(crate) connected: bool,
    /// How long ago it left, if it was here since the host was started.
    pub(crate) left: Option<Duration>,
}

#[derive(Clone)]
struct Probe {
    program: Option<PathBuf>,
    /// `None`: it was not asked.
    version: Result<Option<String>, String>,
    sign_in: SignIn,
}

impl Examiner {
    pub(crate) fn new(
        state: StatePath,
        config: Result<&Config, &ConfigError>,
        agents: Vec<Agent>,
        workspaces: Vec<(WorkspaceId, PathBuf)>,
    ) -> Self {
        Self {
            state,
            config: config.cloned().map_err(ToString::to_string),
            agents,
            workspaces,
            probes: tokio::sync::Mutex::default(),
        }
    }

    /// Every check; `daemon` if this process is one. `deep` starts each agent, and reads the whole ledger however large it is.
    pub(crate) async fn examine(&self, daemon: Option<&DaemonFacts>, deep: bool) -> DoctorReport {
        let host = self.config.as_ref().map(|config| config.host.clone());
        let host = host.unwrap_or_default();
        let mut checks = vec![machine::daemon(daemon), self.config_check()];
        let state = machine::state(&self.state);
        let usable = state.outcome != CheckOutcome::Failed;
        checks.push(state);
        let paired = if usable {
            checks.extend([
                machine::lock(&self.state, daemon),
                machine::space(&self.state),
                machine::certificate(&self.state),
            ]);
            let state = self.state.clone();
            let read = tokio::task::spawn_blocking(move || ledger::checks(&state, deep)).await;
            let (ledger, paired) = read.unwrap_or_default();
            checks.extend(ledger);
            paired
        } else {
            let names = [
                "lock",
                "space",
                "certificate",
                "ledger",
                "wal",
                "log_format",
            ];
            checks.extend(names.map(|name| skipped(name, "the state directory cannot be used")));
            None
        };
        checks.push(machine::port(daemon, host.listen).await);
        checks.push(machine::allowed_hosts(&host.allow_hosts, &host.addresses));
        checks.push(machine::devices(daemon, paired));
        checks.push(machine::clock(&self.state, SystemTime::now()));
        checks.extend(machine::tools());
        self.agents_and_workspaces(deep, &mut checks).await;
        DoctorReport { checks }
    }

    async fn agents_and_workspaces(&self, deep: bool, checks: &mut Vec<DoctorCheck>) {
        if self.config.is_err() {
            let unread = "host.toml has to be read first";
            return checks.extend(["agents", "workspaces"].map(|name| skipped(name, unread)));
        }
        let probes = self.probes().await;
        let cwd = self
            .workspaces
            .first()
            .map_or(self.state.dir(), |(_, path)| path);
        for (agent, probe) in self.agents.iter().zip(&probes) {
            checks.extend(agents::checks(agent, probe));
            checks.push(agents::handshake(agent, probe, cwd, deep).await);
        }
        if self.agents.is_empty() {
            let found = "no agent is installed or configured";
            let step = "install one (e.g. `npm install -g @openai/codex`), or name it in host.toml under [agents.NAME]";
            checks.push(failed("agents", found, step));
        }
        checks.extend(
            self.workspaces
                .iter()
                .map(|(id, path)| workspace_check(id, path)),
        );
        if self.workspaces.is_empty() {
            let step = "start the host in a project's directory, or add [workspaces.NAME] with `path = \"…\"` to host.toml";
            checks.push(failed("workspaces", "there is no workspace", step));
        }
    }

    /// The agents as a device is told of them.
    pub(crate) async fn agents(&self) -> Vec<AgentInfo> {
        let probes = self.probes().await;
        let info = |(agent, probe): (&Agent, Probe)| AgentInfo {
            name: agent.name.clone(),
            family: agent.config.protocol.clone(),
            readiness: match (&probe.program, &probe.version, &probe.sign_in) {
                (None, ..) => AgentReadiness::NotInstalled,
                (_, Err(reason), _) => AgentReadiness::Failed {
                    reason: reason.clone(),
                },
                (_, _, SignIn::Missing(_)) => AgentReadiness::SignedOut,
                _ => AgentReadiness::Ready,
            },
            version: probe.version.ok().flatten(),
            modes: agent.adapter.modes(),
        };
        self.agents.iter().zip(probes).map(info).collect()
    }

    /// The workspaces as a device is told of them.
    pub(crate) fn workspaces(&self) -> Vec<WorkspaceInfo> {
        let info = |(id, path): &(WorkspaceId, PathBuf)| WorkspaceInfo {
            id: id.clone(),
            path: path.display().to_string(),
            available: path.is_dir(),
        };
        self.workspaces.iter().map(info).collect()
    }

    async fn probes(&self) -> Vec<Probe> {
        let mut kept = self.probes.lock().await;
        if let Some((at, probes)) = &*kept
            && at.elapsed() < PROBE_KEPT
        {
            return probes.clone();
        }
        let mut probes = Vec::with_capacity(self.agents.len());
        for agent in &self.agents {
            let program = agent.program();
            let version = match &program {
                Some(_) => agent.version().await,
                None => Err(format!(
                    "`{}` is not there",
                    agent.config.command.first().map_or("", String::as_str)
                )),
            };
            probes.push(Probe {
                program,
                version,
                sign_in: agent.sign_in(),
            });
        }
        *kept = Some((Instant::now(), probes.clone()));
        probes
    }

    fn config_check(&self) -> DoctorCheck {
        match &self.config {
            Err(problem) => failed(
                "config",
                problem,
                "correct the file; the daemon does not start with it",
            ),
            Ok(config) => match &config.file {
                Some(file) => ok("config", &file.display().to_string()),
                None => ok("config", "none; agents are found by themselves"),
            },
        }
    }
}

fn workspace_check(id: &WorkspaceId, path: &Path) -> DoctorCheck {
    let name = format!("workspace.{id}");
    let shown = path.display();
    if !path.is_dir() {
        return failed(
            &name,
            &format!("{shown} is not there"),
            "correct its `path` in host.toml",
        );
    }
    match rustix::fs::access(path, rustix::fs::Access::WRITE_OK) {
        Ok(()) => ok(&name, &shown.to_string()),
        Err(_) => warning(
            &name,
            &format!("{shown} cannot be written by this user"),
            "agents can only read there",
        ),
    }
}

/// The workspaces of a configuration; without any, the directory in which the host was started, unless that is the
/// root or somebody's home.
///
/// # Errors
/// Why that directory is none, and what to do.
pub(crate) fn workspaces(
    configured: &[(WorkspaceId, PathBuf)],
    started_in: &Path,
) -> Result<Vec<(WorkspaceId, PathBuf)>, String> {
    if !configured.is_empty() {
        return Ok(configured.to_vec());
    }
    let real = started_in
        .canonicalize()
        .unwrap_or_else(|_| started_in.to_owned());
    let is_home = home()
        .and_then(|home| home.canonicalize().ok())
        .is_some_and(|home| home == real);
    let name = real
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    match name {
        Some(name) if !is_home => Ok(vec![(WorkspaceId(name), real)]),
        _ => Err(format!(
            "there is no workspace: {} is too much to offer. Start `pilothouse host` in a project's directory, or add \
             to host.toml:\n  [workspaces.app]\n  path = \"~/src/app\"",
            real.display()
        )),
    }
}

fn check(name: &str, outcome: CheckOutcome, finding: &str, next_step: Option<&str>) -> DoctorCheck {
    let next_step = next_step.map(str::to_owned);
    DoctorCheck {
        name: name.to_owned(),
        outcome,
        finding: finding.to_owned(),
        next_step,
    }
}

fn ok(name: &str, finding: &str) -> DoctorCheck {
    check(name, CheckOutcome::Ok, finding, None)
}

fn warning(name: &str, finding: &str, next_step: &str) -> DoctorCheck {
    check(name, CheckOutcome::Warning, finding, Some(next_step))
}

fn failed(name: &str, finding: &str, next_step: &str) -> DoctorCheck {
    check(name, CheckOutcome::Failed, finding, Some(next_step))
}

fn skipped(name: &str, finding: &str) -> DoctorCheck {
    check(name, CheckOutcome::Skipped, finding, None)
}
