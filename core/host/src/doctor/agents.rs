//! The agents: there, of which version, signed in; and, on demand, started to see whether they take the handshake.

use super::{Probe, failed, ok, skipped, warning};
use crate::{
    agents::{Agent, SignIn, find_program},
    daemon::wrapper,
};
use pilothouse_domain::{Incarnation, ProviderEventKind, policy::Sandbox};
use pilothouse_providers::contract::{Launch, RuntimeEvents};
use pilothouse_wire::message::DoctorCheck;
use std::{path::Path, time::Duration};
use tokio::{sync::mpsc, time::timeout};

/// Time for an agent to start and take its handshake; the slowest measured took 7 s.
const HANDSHAKE: Duration = Duration::from_secs(90);
/// Events of a probed agent that are held.
const EVENTS: usize = 256;

pub(super) fn checks(agent: &Agent, probe: &Probe) -> Vec<DoctorCheck> {
    let name = format!("agent.{}", agent.name);
    let program = agent.config.command.first().map_or("", String::as_str);
    let found = match (&probe.program, &probe.version) {
        (None, _) => failed(
            &name,
            &format!("`{program}` is not there"),
            "install it, or correct its `command` in host.toml",
        ),
        (Some(path), Ok(Some(version))) => ok(&name, &format!("{version} at {}", path.display())),
        (Some(path), Ok(None)) => ok(
            &name,
            &format!(
                "{}; it tells its version when it is started",
                path.display()
            ),
        ),
        (Some(_), Err(problem)) => failed(
            &name,
            problem,
            "start it in a terminal to see what is wrong",
        ),
    };
    let name = format!("{name}.sign_in");
    let sign_in = match &probe.sign_in {
        _ if probe.program.is_none() => skipped(&name, "the program is not there"),
        SignIn::Found(how) => ok(&name, how),
        SignIn::Missing(found) => {
            let how = if program.ends_with("codex") {
                format!("run `{program} login`")
            } else if program.ends_with("claude") {
                format!("run `{program}` and use /login")
            } else {
                "sign in".to_owned()
            };
            let step = format!("{how} as this user, or give it a key in `env` of host.toml");
            warning(&name, found, &step)
        }
        SignIn::Unknown => skipped(&name, "not known how to look"),
    };
    let mut checks = vec![found, sign_in];
    checks.extend(unasked(agent));
    checks
}

/// That an agent does not ask before it acts, and in what its threads may run.
fn unasked(agent: &Agent) -> Option<DoctorCheck> {
    let sandboxes = &agent.config.sandboxes;
    let usual = sandboxes.first()?;
    let name = format!("agent.{}.sandbox", agent.name);
    let path = std::env::var_os("PATH");
    if sandboxes.contains(&Sandbox::Bwrap) && find_program("bwrap", path.as_deref()).is_none() {
        return Some(failed(
            &name,
            "bubblewrap is not installed, so it cannot be started in `bwrap`",
            "apt install bubblewrap",
        ));
    }
    let names: Vec<_> = sandboxes.iter().map(|sandbox| sandbox.name()).collect();
    let found = format!(
        "does not ask before it acts; runs in {}: {}",
        names.join(" or "),
        usual.risk()
    );
    let step = "take `sandbox` of this agent out of host.toml if it is to ask";
    Some(warning(&name, &found, step))
}

/// Starts an agent, takes its handshake and ends it again. Nothing is asked of it.
pub(super) async fn handshake(agent: &Agent, probe: &Probe, cwd: &Path, deep: bool) -> DoctorCheck {
    let name = format!("agent.{}.handshake", agent.name);
    if probe.program.is_none() {
        return skipped(&name, "the program is not there");
    }
    if !deep {
        return skipped(&name, "`pilothouse doctor --deep` starts it to see");
    }
    let mut life = [0; 16];
    if let Err(error) = getrandom::fill(&mut life) {
        return skipped(&name, &format!("the system gives no randomness: {error}"));
    }
    let launch = Launch {
        agent: agent.name.clone(),
        incarnation: Incarnation::from_bytes(life),
        command: agent.config.command.clone(),
        env: agent.config.env.clone(),
        modes: agent.config.modes.clone(),
        mcp: agent.mcp.clone(),
        cwd: agent.config.cwd.clone().unwrap_or_else(|| cwd.to_owned()),
        wrapper: wrapper(),
        sandbox: agent.config.sandboxes.first().copied(),
        opens: None,
        pid_file: None,
    };
    let step = "start it in a terminal to see what is wrong";
    let (sender, events) = mpsc::channel(EVENTS);
    match timeout(HANDSHAKE, agent.adapter.start(launch, sender)).await {
        Ok(Ok(runtime)) => {
            let gathering = tokio::spawn(gather(events));
            runtime.stop().await;
            drop(runtime);
            let (version, remarks) = gathering.await.unwrap_or_default();
            match remarks.first() {
                Some(remark) => warning(
                    &name,
                    &format!("{version}: {remark}"),
                    "see to it, then look again",
                ),
                None => ok(&name, &format!("taken by {version}")),
            }
        }
        Ok(Err(error)) => failed(&name, &error.to_string(), step),
        Err(_) => {
            let found = format!("it was not taken within {} s", HANDSHAKE.as_secs());
            failed(&name, &found, step)
        }
    }
}

/// Reads to the end of a session: its version, and what the agent had to remark.
async fn gather(mut events: mpsc::Receiver<RuntimeEvents>) -> (String, Vec<String>) {
    let (mut version, mut remarks) = ("an unknown version".to_owned(), Vec::new());
    while let Some(batch) = events.recv().await {
        for event in batch.events {
            match event.kind {
                ProviderEventKind::SessionReady { version: told, .. } => version = told,
                ProviderEventKind::Diagnostic { message } => remarks.push(message),
                _ => {}
            }
        }
    }
    (version, remarks)
}
