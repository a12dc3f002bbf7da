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
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
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
            launch.command =
                sandbox::bwrap(&launch, &needs).map_err(|problem| StartError::Sandbox {
                    agent: launch.agent.clone(),
                    sandbox,
                    problem: problem.to_string(),
                })?;
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
        models: Mutex::default(),
        starting: tokio::sync::Mutex::default(),
        gate_file: file,
    };
    match runtime.handshake().await {
        Ok(first_events) => {
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
