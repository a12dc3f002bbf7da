//! Starts opencode, or takes up one that an earlier host left running.

use super::{
    choice::Choice,
    driver::OpencodeRuntime,
    http::{Connector, Http, Plain},
    link::Link,
    profile,
    rules::{FLOOR, PERMISSION},
    servers::Servers,
    signing_in::{SignIns, Signer},
};
use crate::{
    contract::{AgentRuntime, EventSender, Launch, ProcessSharing, ProviderAdapter, StartError},
    process::{
        StopTimers,
        agent::AgentProcess,
        detached::{DetachedProcess, DetachedRecord},
    },
    rpc::session::STDERR_SHOWN,
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    Capabilities, Mode,
    policy::{Contract, MustAsk, Sandbox},
};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long opencode may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Until it listens and answers. It took 3 s at its first start, on a busy machine 7 s.
    pub handshake: Duration,
    /// For one try of the first calls: those that come right after it listens may never be answered.
    pub first: Duration,
    /// For an ordinary call.
    pub call: Duration,
    /// For taking an interrupt, before a signal is the next step.
    pub interrupt: Duration,
    /// More for each file that goes with a prompt.
    pub file: Duration,
    /// For any sign on its stream of events, which has one every 10 s.
    pub silent: Duration,
    /// For an event of a turn that goes on, before opencode is asked whether one was missed: a little less than between two
    /// signs on its stream.
    pub quiet: Duration,
    /// For being reached again once its stream was cut.
    pub reconnect: Duration,
    /// For its end to be seen once its connections ended: the system closes them first.
    pub ending: Duration,
    /// After an abort, before its status is asked for.
    pub settle: Duration,
    /// For ending.
    pub stop: StopTimers,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(60),
            first: Duration::from_secs(2),
            call: Duration::from_secs(30),
            interrupt: Duration::from_secs(10),
            file: Duration::from_secs(15),
            silent: Duration::from_secs(35),
            quiet: Duration::from_secs(9),
            reconnect: Duration::from_secs(60),
            ending: Duration::from_millis(250),
            settle: Duration::from_secs(2),
            stop: StopTimers::default(),
        }
    }
}

/// The opencode family.
#[derive(Debug, Clone, Default)]
pub struct OpencodeAdapter {
    deadlines: Deadlines,
    sign_ins: Arc<SignIns>,
}

impl OpencodeAdapter {
    /// With the usual deadlines.
    pub fn new() -> Self {
        Self::default()
    }

    /// With other deadlines.
    pub fn with_deadlines(deadlines: Deadlines) -> Self {
        Self {
            deadlines,
            ..Self::default()
        }
    }

    async fn start_process(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        let secret = random_secret().map_err(|problem| StartError::Spawn {
            agent: launch.agent.clone(),
            program: String::new(),
            problem,
        })?;
        let secrets = [
            ("OPENCODE_SERVER_PASSWORD", secret.as_str()),
            (PERMISSION, FLOOR),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ];
        let arguments = ["--hostname", "127.0.0.1", "--port", "0"];
        let process =
            DetachedProcess::start(&launch, "opencode", &arguments, &secrets, &secret, None)
                .await?;
        let known = match self.listening(&process).await {
            Ok(address) => process
                .set_endpoint(&address.to_string())
                .map(|()| address)
                .map_err(|error| format!("where it listens could not be recorded: {error}")),
            Err(problem) => Err(problem),
        };
        let process = AgentProcess::from(process);
        match known {
            Ok(address) => {
                self.connect(
                    launch,
                    (process, false),
                    Box::new(Plain(address)),
                    &secret,
                    events,
                )
                .await
            }
            Err(problem) => Err(failed(&launch, &process, problem, self.deadlines).await),
        }
    }

    async fn attach_process(
        &self,
        launch: Launch,
        record: PathBuf,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        let spawn_error = |problem: String| StartError::Spawn {
            agent: launch.agent.clone(),
            program: launch.command.first().cloned().unwrap_or_default(),
            problem,
        };
        let known = DetachedRecord::read(&record)
            .ok_or_else(|| spawn_error("its record cannot be read".to_owned()))?;
        let (secret, endpoint) = (known.secret.clone(), known.endpoint.clone());
        let address: SocketAddr = endpoint
            .parse()
            .map_err(|_| spawn_error("it had not said yet where it listens".to_owned()))?;
        let process = DetachedProcess::attach(&record, known, &launch)
            .map_err(|error| spawn_error(error.to_string()))?;
        let connector = Box::new(Plain(address));
        self.connect(launch, (process.into(), true), connector, &secret, events)
            .await
    }

    /// Where it listens, as it says on its output.
    async fn listening(&self, process: &DetachedProcess) -> Result<SocketAddr, String> {
        let began = Instant::now();
        loop {
            let said = process.written(64 * 1024);
            // Only a whole line: of half a port another would be read.
            let mut whole = said
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let told = whole.find_map(|line| {
                line.split_once("listening on http://")?
                    .1
                    .trim()
                    .parse()
                    .ok()
            });
            if let Some(address) = told {
                return Ok(address);
            }
            if process.has_exited() {
                return Err(format!("it ended ({})", process.exited().await));
            }
            if began.elapsed() > self.deadlines.handshake {
                return Err(format!(
                    "it did not say where it listens within {} s",
                    self.deadlines.handshake.as_secs()
                ));
            }
            // Its output is a file: nothing tells when it grows.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Speaks with an opencode, which listens already, and was at work before (`goes_on`) or was not.
    pub(super) async fn connect(
        &self,
        launch: Launch,
        (process, goes_on): (AgentProcess, bool),
        connector: Box<dyn Connector>,
        secret: &str,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        let deadlines = self.deadlines;
        let process = Arc::new(process);
        let link = Link::new(
            Http::new(connector, secret, &launch.cwd),
            Arc::clone(&process),
            launch.incarnation,
            deadlines,
            events,
        );
        let choice = Choice::new(launch.modes.clone());
        let servers = Servers::new(launch.mcp.clone(), goes_on);
        let signer = Signer::new(Arc::clone(&self.sign_ins));
        let mut runtime = OpencodeRuntime::new(Arc::clone(&link), process, choice, servers, signer);
        match runtime.handshake().await {
            Ok((first, stream)) => {
                link.run(first, stream).await;
                Ok(Arc::new(runtime))
            }
            Err(error) => {
                let problem = error.to_string();
                Err(failed(&launch, runtime.process(), problem, deadlines).await)
            }
        }
    }
}

async fn failed(
    launch: &Launch,
    process: &AgentProcess,
    problem: String,
    deadlines: Deadlines,
) -> StartError {
    process.stop(deadlines.stop).await;
    process.stderr().finished(Duration::from_secs(3)).await;
    StartError::Handshake {
        agent: launch.agent.clone(),
        problem,
        stderr: process.stderr().tail(STDERR_SHOWN),
    }
}

fn random_secret() -> Result<String, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl ProviderAdapter for OpencodeAdapter {
    fn family(&self) -> &'static str {
        "opencode"
    }

    fn profile(&self) -> Capabilities {
        profile::capabilities()
    }

    fn modes(&self) -> Vec<Mode> {
        Mode::ALL.to_vec()
    }

    fn contract(&self, env: &BTreeMap<String, String>, _: &BTreeMap<Mode, String>) -> Contract {
        // With rules of the person's own, what asks is theirs to say.
        if env.contains_key(PERMISSION) {
            return Contract::default();
        }
        Contract {
            read_only: MustAsk::BOTH,
            ask: MustAsk::BOTH,
            auto_edit: MustAsk::COMMANDS,
            own_files: &[],
        }
    }

    fn takes_mcp(&self, _: &[String], _: Option<Sandbox>) -> Result<(), &'static str> {
        Ok(())
    }

    fn sharing(&self) -> ProcessSharing {
        ProcessSharing::PerWorkspace
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.start_process(launch, events))
    }

    fn outlives_host(&self) -> bool {
        true
    }

    fn attach(
        &self,
        launch: Launch,
        record: PathBuf,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.attach_process(launch, record, events))
    }
}
