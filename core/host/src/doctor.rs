//! The doctor: what this host has, what is missing, and what to do about it. Looks, and changes nothing.

use crate::{
    agents::{Agent, SignIn},
    config::ConfigError,
    state::{StatePath, home},
};
use pilothouse_domain::WorkspaceId;
use pilothouse_wire::{
    identity::HostIdentity,
    message::{AgentInfo, AgentReadiness, CheckOutcome, DoctorCheck, DoctorReport, WorkspaceInfo},
    websocket::DEFAULT_PORT,
};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// Below this a run can fail at any moment.
const SPACE_LEAST: u64 = 64 * 1024 * 1024;
/// Below this a person should look.
const SPACE_GOOD: u64 = 1024 * 1024 * 1024;
/// How long what an agent said of itself is believed.
const PROBE_KEPT: Duration = Duration::from_secs(30);
/// No clock was right before this program was made: 2026-11-01, Unix s.
const MADE_AT: u64 = 1_793_491_200;

/// What there is to be looked at.
pub(crate) struct Examiner {
    state: StatePath,
    config_file: Option<PathBuf>,
    config_problem: Option<String>,
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
    pub(crate) paired: usize,
    pub(crate) connected: usize,
}

#[derive(Clone)]
struct Probe {
    program: Option<PathBuf>,
    /// `None` for one that is not asked.
    version: Result<Option<String>, String>,
    sign_in: SignIn,
}

impl Examiner {
    pub(crate) fn new(
        state: StatePath,
        config: Result<Option<PathBuf>, &ConfigError>,
        agents: Vec<Agent>,
        workspaces: Vec<(WorkspaceId, PathBuf)>,
    ) -> Self {
        let (config_file, config_problem) = match config {
            Ok(file) => (file, None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            state,
            config_file,
            config_problem,
            agents,
            workspaces,
            probes: tokio::sync::Mutex::default(),
        }
    }

    /// Every check; `daemon` if this process is one.
    pub(crate) async fn examine(&self, daemon: Option<&DaemonFacts>) -> DoctorReport {
        let mut checks = vec![daemon_check(daemon), self.config_check()];
        checks.extend([
            self.state_check(),
            self.space_check(),
            self.certificate_check(),
        ]);
        checks.push(port_check(daemon));
        checks.push(self.clock_check(SystemTime::now()));
        let probes = self.probes().await;
        for (agent, probe) in self.agents.iter().zip(probes) {
            checks.extend(agent_checks(agent, probe));
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
        DoctorReport { checks }
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
        match (&self.config_problem, &self.config_file) {
            (Some(problem), _) => failed(
                "config",
                problem,
                "correct the file; the daemon does not start with it",
            ),
            (None, Some(file)) => ok("config", &file.display().to_string()),
            (None, None) => ok("config", "none; agents are found by themselves"),
        }
    }

    fn state_check(&self) -> DoctorCheck {
        let dir = self.state.dir();
        if !dir.exists() {
            return skipped(
                "state",
                &format!("{} is made at the first start", dir.display()),
            );
        }
        let probe = dir.join(format!(".doctor-{}", std::process::id()));
        let written = std::fs::write(&probe, b"written by the doctor");
        let _ = std::fs::remove_file(&probe);
        match written {
            Ok(()) => ok("state", &dir.display().to_string()),
            Err(error) => failed(
                "state",
                &format!("{} cannot be written: {error}", dir.display()),
                "make it writable, or use --state",
            ),
        }
    }

    fn space_check(&self) -> DoctorCheck {
        let Some(dir) = self.state.dir().ancestors().find(|dir| dir.exists()) else {
            return skipped("space", "no such disk");
        };
        let Ok(stat) = rustix::fs::statvfs(dir) else {
            return skipped("space", "the disk does not say");
        };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let found = format!("{} MiB free at {}", free / (1024 * 1024), dir.display());
        match free {
            n if n < SPACE_LEAST => failed(
                "space",
                &found,
                "free some space: nothing can be recorded soon",
            ),
            n if n < SPACE_GOOD => warning("space", &found, "free some space before it is used up"),
            _ => ok("space", &found),
        }
    }

    fn certificate_check(&self) -> DoctorCheck {
        let path = self.state.dir().join(HostIdentity::FILE);
        if !path.exists() {
            return skipped("certificate", "the host's key is made at the first start");
        }
        match HostIdentity::load_or_create(&path) {
            Ok(identity) => ok(
                "certificate",
                &format!("fingerprint {}", identity.spki_sha256()),
            ),
            Err(error) => failed(
                "certificate",
                &error.to_string(),
                "restore the file; a new one breaks every pairing",
            ),
        }
    }

    /// A clock that stands before the last write went back: times on screens are wrong then, and codes do not expire.
    fn clock_check(&self, now: SystemTime) -> DoctorCheck {
        let unix = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        if unix.as_secs() < MADE_AT {
            return failed(
                "clock",
                "the clock is before November 2026",
                "set it (e.g. `timedatectl set-ntp true`)",
            );
        }
        let written = ["ledger.db-wal", "ledger.db"].iter().filter_map(|file| {
            std::fs::metadata(self.state.dir().join(file))
                .and_then(|metadata| metadata.modified())
                .ok()
        });
        match written.max().and_then(|at| at.duration_since(now).ok()) {
            Some(ahead) if ahead > Duration::from_secs(60) => warning(
                "clock",
                &format!(
                    "the clock stands {} s before the last recorded write",
                    ahead.as_secs()
                ),
                "set it (e.g. `timedatectl set-ntp true`)",
            ),
            _ => ok("clock", "not before anything recorded"),
        }
    }
}

fn daemon_check(daemon: Option<&DaemonFacts>) -> DoctorCheck {
    match daemon {
        Some(facts) => {
            let devices = match facts.paired {
                1 => "1 device is paired".to_owned(),
                n => format!("{n} devices are paired"),
            };
            let found = format!(
                "running as process {}; {devices}, {} connected",
                std::process::id(),
                facts.connected
            );
            match facts.paired {
                0 => warning("daemon", &found, "pair a device: run `pilothouse pair`"),
                _ => ok("daemon", &found),
            }
        }
        None => warning("daemon", "not running", "start it: `pilothouse host`"),
    }
}

fn port_check(daemon: Option<&DaemonFacts>) -> DoctorCheck {
    match daemon {
        Some(facts) if facts.opens_when_paired => ok(
            "port",
            &format!(
                "listening on {} only; opens to other machines at the first `pilothouse pair`",
                facts.listening
            ),
        ),
        Some(facts) if facts.listening.ip().is_loopback() => warning(
            "port",
            &format!(
                "listening on {}: only this machine can connect",
                facts.listening
            ),
            "for a phone set `listen = \"0.0.0.0:7433\"` under [host], or use an SSH forward",
        ),
        Some(facts) => ok("port", &format!("listening on {}", facts.listening)),
        None => match std::net::TcpListener::bind(("127.0.0.1", DEFAULT_PORT)) {
            Ok(_) => ok("port", &format!("{DEFAULT_PORT} is free")),
            Err(error) => failed(
                "port",
                &format!("{DEFAULT_PORT} cannot be used: {error}"),
                "stop the program that has it (`ss -ltnp`), or choose another with --listen",
            ),
        },
    }
}

fn agent_checks(agent: &Agent, probe: Probe) -> Vec<DoctorCheck> {
    let name = format!("agent.{}", agent.name);
    let program = agent.config.command.first().map_or("", String::as_str);
    let mut checks = vec![match (&probe.program, probe.version) {
        (None, _) => failed(
            &name,
            &format!("`{program}` is not there"),
            "install it, or correct its `command` in host.toml",
        ),
        (Some(path), Ok(Some(version))) => ok(&name, &format!("{version} at {}", path.display())),
        (Some(path), Ok(None)) => {
            let found = format!(
                "{}; it tells its version when it is started",
                path.display()
            );
            ok(&name, &found)
        }
        (Some(_), Err(problem)) => failed(
            &name,
            &problem,
            "start it in a terminal to see what is wrong",
        ),
    }];
    let name = format!("{name}.sign_in");
    checks.push(match probe.sign_in {
        _ if probe.program.is_none() => skipped(&name, "the program is not there"),
        SignIn::Found(how) => ok(&name, &how),
        SignIn::Missing(found) => {
            let how = if program.ends_with("codex") {
                format!("run `{program} login`")
            } else {
                "sign in".to_owned()
            };
            warning(
                &name,
                &found,
                &format!("{how} as this user, or give it a key in `env` of host.toml"),
            )
        }
        SignIn::Unknown => skipped(&name, "not known how to look"),
    });
    checks
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
