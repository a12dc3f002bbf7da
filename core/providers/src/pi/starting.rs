//! The start of a process: the gate or the sandbox, the handshake, and what is known from then on.

use super::{
    codec::Codec,
    driver::{Deadlines, PiRuntime},
    gate::GateFile,
    outgoing::Call,
    profile::{self, Dialect},
    replies::{CallError, Reply},
    selecting,
};
use crate::{
    contract::{AgentRuntime, EventSender, Launch, StartError},
    mcp::{self, McpServer, ValueFile},
    process::{
        BoundProcess,
        sandbox::{self, Needs},
    },
    rpc::{
        date, greeting,
        session::{STDERR_SHOWN, Session, lock},
    },
};
use pilothouse_domain::{
    AgentName, CapabilityValue, ProviderEvent, capability::Source, policy::Sandbox,
};
use serde_json::{Map, Value, json};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
    time::{Duration, SystemTime},
};
use tokio::sync::oneshot;

/// Starts pi or omp: so that it asks, or in the sandbox that its thread chose.
pub(super) async fn start(
    deadlines: Deadlines,
    launch: Launch,
    events: EventSender,
) -> Result<Arc<dyn AgentRuntime>, StartError> {
    let dialect = Dialect::of_command(&launch.command);
    let life = launch.incarnation.to_string();
    let mut launch = launch;
    let mut words: Vec<String> = ["--mode", "rpc"].map(str::to_owned).to_vec();
    let mut file = None;
    let given = launch.mcp.at(&launch.cwd);
    let mut told = given.left_out;
    let mut servers = None;
    match takes_mcp(dialect, launch.sandbox) {
        Ok(()) if !given.servers.is_empty() => {
            let written = extension(&life, &launch, &given.servers)?;
            words.push("-e".to_owned());
            words.push(written.path().to_string_lossy().into_owned());
            servers = Some(written);
        }
        Ok(()) => {}
        Err(reason) => {
            let names = given.servers.iter();
            told.extend(names.map(|server| mcp::not_started(&server.name, reason)));
        }
    }
    match (launch.sandbox, dialect) {
        (None, Dialect::Pi) => {
            let written = GateFile::write(&life, launch.pid_file.as_deref()).map_err(|error| {
                StartError::Unconfined {
                    agent: launch.agent.clone(),
                    problem: format!("its permission gate cannot be written: {error}"),
                }
            })?;
            words.push("-e".to_owned());
            words.push(written.path().to_string_lossy().into_owned());
            file = Some(written);
        }
        (None, Dialect::Omp) => {
            words.extend(["--approval-mode", "always-ask"].map(str::to_owned));
        }
        (Some(Sandbox::None), _) => {}
        (Some(sandbox @ Sandbox::Bwrap), _) => {
            let needs = needs(&launch, dialect);
            let failed = |problem: String| StartError::Sandbox {
                agent: launch.agent.clone(),
                sandbox,
                problem,
            };
            // It looks through the workspace.
            let of = launch.clone();
            let made = tokio::task::spawn_blocking(move || sandbox::bwrap(&of, &needs)).await;
            launch.command = made
                .map_err(|error| failed(error.to_string()))?
                .map_err(|problem| failed(problem.to_string()))?;
        }
    }
    let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    let started = BoundProcess::start(&launch, &arguments).await?;
    let (ready, first) = oneshot::channel();
    let session = Session::start(
        started,
        Codec::new(&life),
        profile::capabilities_of(dialect),
        launch.incarnation,
        (deadlines.stop, deadlines.life),
        events,
        first,
    );
    // From here on dropping it, also by cancelling this start, kills the process.
    let runtime = PiRuntime {
        session,
        deadlines,
        dialect,
        cwd: launch.cwd.clone(),
        sandbox: launch.sandbox,
        own: OnceLock::new(),
        effort_set: AtomicBool::new(false),
        models: Mutex::default(),
        starting: tokio::sync::Mutex::default(),
        gate_file: file,
        _servers: servers,
    };
    match runtime.handshake().await {
        Ok(mut first_events) => {
            first_events.extend(mcp::notices(told));
            // If the reader is gone, the process is, and the first call will say so.
            let _ = ready.send(first_events);
            Ok(Arc::new(runtime))
        }
        Err(failure) => {
            drop(ready);
            runtime.session.stop().await;
            Err(runtime.start_error(&launch.agent, failure).await)
        }
    }
}

/// Whether pi or omp can be given servers of tools: they come by an extension, as what asks before their tools do.
pub(super) fn takes_mcp(dialect: Dialect, sandbox: Option<Sandbox>) -> Result<(), &'static str> {
    match (dialect, sandbox) {
        (Dialect::Omp, _) => Err("omp is given none; configure it in omp itself"),
        (Dialect::Pi, Some(_)) => Err("a pi that does not ask is given none"),
        (Dialect::Pi, None) => Ok(()),
    }
}

/// The servers as an extension that registers them, in a file that only this user can read. It stays as long as the process:
/// pi reads it again with each session.
fn extension(life: &str, launch: &Launch, servers: &[McpServer]) -> Result<ValueFile, StartError> {
    let mut configs = mcp::usual(servers);
    for config in configs.values_mut() {
        for values in ["env", "headers"] {
            let values = config.get_mut(values).and_then(Value::as_object_mut);
            for value in values.into_iter().flat_map(Map::values_mut) {
                *value = json!(literally(value.as_str().unwrap_or_default()));
            }
        }
        // As other agents do it: the model sees the tools themselves, and each call is asked for by its name.
        config["exposure"] = json!("direct");
    }
    let source = format!(
        "export default (pi) => {{\n\tfor (const [name, config] of Object.entries({})) pi.registerMcpServer(name, config);\n}};\n",
        json!(configs)
    );
    let name = format!("{life}.js");
    ValueFile::write(&name, launch.pid_file.as_deref(), &source).map_err(|error| {
        StartError::Spawn {
            agent: launch.agent.clone(),
            program: launch.command.first().cloned().unwrap_or_default(),
            problem: format!("its MCP servers cannot be written down for it: {error}"),
        }
    })
}

/// A value as pi takes it for what it is: `$` and a `!` at the beginning have a meaning of their own there.
fn literally(value: &str) -> String {
    let plain = value.replace('$', "$$");
    match plain.strip_prefix('!') {
        Some(rest) => format!("$!{rest}"),
        None => plain,
    }
}

/// Why a start failed after the process had begun.
enum Failure {
    /// It did not take the handshake.
    Handshake(String),
    /// It would act without asking.
    Unasked(String),
}

/// What it needs in a sandbox besides its workspace: its settings and keys, which it must not change, and its sessions.
fn needs(launch: &Launch, dialect: Dialect) -> Needs {
    let variable = |name: &str| {
        launch
            .env
            .get(name)
            .cloned()
            .or_else(|| std::env::var(name).ok())
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = variable("HOME").unwrap_or_default();
    let agent = match dialect {
        Dialect::Pi => variable("PI_CODING_AGENT_DIR").unwrap_or_else(|| home.join(".pi/agent")),
        Dialect::Omp => home.join(".omp/agent"),
    };
    Needs {
        kept: vec![agent.join("sessions")],
        settings: vec![agent],
    }
}

impl PiRuntime {
    async fn handshake(&self) -> Result<Vec<ProviderEvent>, Failure> {
        let failed = |problem| Err(Failure::Handshake(problem));
        match self
            .session
            .call(Call::State, self.deadlines.handshake)
            .await
        {
            Ok(_) => {}
            Err(CallError::Lost) => {
                let exit = self.session.process.exited().await;
                return failed(format!("it ended ({exit})"));
            }
            Err(error) => return failed(error.to_string()),
        }
        // The gate says of itself when its session starts, which is before pi reads its first command.
        let gate = lock(&self.session.codec).gate().cloned();
        let spoken = lock(&self.session.codec).dialect;
        let version = match (&gate, self.sandbox, spoken) {
            (Some(gate), ..) => gate.agent.clone(),
            (None, Some(_), _) => "unknown".to_owned(),
            // It was told to ask on its command line, which only omp understands.
            (None, None, Dialect::Omp) if self.dialect == Dialect::Omp => "unknown".to_owned(),
            (None, None, _) => {
                let problem = "Pilothouse's permission extension did not answer".to_owned();
                return Err(Failure::Unasked(problem));
            }
        };
        let today = date::day(SystemTime::now());
        self.own
            .get_or_init(|| lock(&self.session.codec).state().clone());
        let capabilities = {
            let mut known = lock(&self.session.capabilities);
            let at = (version.as_str(), today.as_str());
            let (value, source) = match self.sandbox {
                None => (CapabilityValue::Yes, Source::Handshake),
                Some(_) => (CapabilityValue::No, Source::User),
            };
            profile::asks(&mut known, value, source, at);
            if self.gate_file.is_none() {
                // What takes back is the extension that asks.
                profile::keeps_all(&mut known, at);
            }
            known.clone()
        };
        // Neither is needed to work: an agent that refuses them is used all the same.
        let (models, efforts) = tokio::join!(self.call(Call::Models), self.call(Call::Efforts));
        if let Ok(Reply::Models(models)) = models {
            let efforts = match efforts {
                Ok(Reply::Efforts(efforts)) => efforts,
                _ => Vec::new(),
            };
            let now = lock(&self.session.codec).state().clone();
            *lock(&self.models) = selecting::offered(&models, &now, &efforts);
        }
        let measured = self.dialect.measured_version();
        let mut noticed = Vec::new();
        if gate.is_some() && version != measured {
            noticed.push(format!(
                "pi {version} runs; what it does was measured with {measured}"
            ));
        }
        let incarnation = self.session.incarnation();
        Ok(greeting(incarnation, version, capabilities, noticed))
    }

    async fn start_error(&self, agent: &AgentName, failure: Failure) -> StartError {
        let agent = agent.clone();
        let problem = match failure {
            Failure::Handshake(problem) => problem,
            Failure::Unasked(problem) => return StartError::Unconfined { agent, problem },
        };
        let stderr = self.session.process.stderr();
        stderr.finished(Duration::from_millis(500)).await;
        let stderr = stderr.tail(STDERR_SHOWN);
        match self.sandbox {
            // Its own words, before it has become the agent.
            Some(sandbox) if stderr.starts_with("bwrap: ") => StartError::Sandbox {
                agent,
                sandbox,
                problem: format!(
                    "{}; look whether this machine lets users make namespaces",
                    stderr.trim_end()
                ),
            },
            _ => StartError::Handshake {
                agent,
                problem,
                stderr,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_neither_a_command_nor_a_variable_for_pi() {
        assert_eq!(literally("!rm $HOME"), "$!rm $$HOME");
        assert_eq!(literally("a!b$"), "a!b$$");
    }
}
