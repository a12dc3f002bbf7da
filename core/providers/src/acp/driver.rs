//! The thin driver: the adapter contract over one [`Session`].

use super::{
    codec::Codec,
    outgoing::{Call, PROTOCOL},
    profile,
    replies::{CallError, Hello, Reply},
};
use crate::{
    contract::{
        AgentRuntime, Escalation, EventSender, History, InterruptError, Interrupting, Launch,
        OpenError, OpenThread, ProcessSharing, ProviderAdapter, RespondError, Response, SendError,
        SendTurn, StartError, Steering, TurnAccepted,
    },
    mcp::{self, McpReach, McpServer, McpServers},
    process::{BoundProcess, Life, StopTimers},
    rpc::{
        self, CallFailure as _, date, greeting,
        session::{STDERR_SHOWN, Session, lock},
    },
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    AgentName, Capabilities, Mode, NativeId, ProviderEvent,
    policy::Sandbox,
    request::AnswerDelivery,
    run::{ErrorCode, RunError},
};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::oneshot;

/// How long an agent may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For its handshake. The slowest measured took 7 s at its first start.
    pub handshake: Duration,
    /// For an ordinary call.
    pub call: Duration,
    /// For taking a line, before its input counts as stuck.
    pub write: Duration,
    /// For ending.
    pub stop: StopTimers,
    /// For a sign of life while it works.
    pub life: Life,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(60),
            call: Duration::from_secs(60),
            write: Duration::from_secs(10),
            stop: StopTimers::default(),
            life: Life::default(),
        }
    }
}

/// The ACP family.
#[derive(Debug, Clone, Copy, Default)]
pub struct AcpAdapter {
    deadlines: Deadlines,
}

impl AcpAdapter {
    /// With the usual deadlines.
    pub fn new() -> Self {
        Self::default()
    }

    /// With other deadlines.
    pub fn with_deadlines(deadlines: Deadlines) -> Self {
        Self { deadlines }
    }

    async fn start_session(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> Result<Arc<dyn AgentRuntime>, StartError> {
        let started = BoundProcess::start(&launch, &[]).await?;
        let (ready, first) = oneshot::channel();
        let session = Session::start(
            started,
            Codec::new(&launch.incarnation.to_string()),
            profile::capabilities(),
            launch.incarnation,
            (self.deadlines.stop, self.deadlines.life),
            events,
            first,
        );
        // From here on dropping it, also by cancelling this start, kills the process.
        let mut runtime = AcpRuntime {
            session,
            deadlines: self.deadlines,
            hello: Hello::default(),
            modes: launch.modes,
            mcp: launch.mcp,
            starting: tokio::sync::Mutex::default(),
        };
        match runtime.handshake().await {
            Ok(first_events) => {
                // If the reader is gone, the process is, and the first call will say so.
                let _ = ready.send(first_events);
                Ok(Arc::new(runtime))
            }
            Err(error) => {
                drop(ready);
                runtime.session.stop().await;
                Err(runtime.handshake_error(&launch.agent, error).await)
            }
        }
    }
}

impl ProviderAdapter for AcpAdapter {
    fn family(&self) -> &'static str {
        "acp"
    }

    fn profile(&self) -> Capabilities {
        profile::capabilities()
    }

    /// Which of them an agent has is known when it runs: another is refused before anything is sent.
    fn modes(&self) -> Vec<Mode> {
        Mode::ALL.to_vec()
    }

    fn takes_mcp(&self, _: &[String], _: Option<Sandbox>) -> Result<(), &'static str> {
        Ok(())
    }

    fn sharing(&self) -> ProcessSharing {
        ProcessSharing::PerThread
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.start_session(launch, events))
    }
}

/// A running agent.
pub(super) struct AcpRuntime {
    pub(super) session: Arc<Session<Codec>>,
    pub(super) deadlines: Deadlines,
    pub(super) hello: Hello,
    /// How our modes are said to it, as the person configured.
    pub(super) modes: std::collections::BTreeMap<Mode, String>,
    /// Servers of tools for its conversation.
    mcp: McpServers,
    /// Taken while a turn is being started, so that two cannot start at once.
    starting: tokio::sync::Mutex<()>,
}

impl Drop for AcpRuntime {
    fn drop(&mut self) {
        let _ = self.session.process.escalate(Escalation::Kill);
    }
}

impl AcpRuntime {
    async fn handshake(&mut self) -> Result<Vec<ProviderEvent>, String> {
        let hello = Call::Initialize {
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let reply = self.session.call(hello, self.deadlines.handshake).await;
        let hello = match reply {
            Ok(Reply::Initialized(hello)) => *hello,
            Ok(_) => return Err("its answer to initialize is none".to_owned()),
            Err(CallError::Lost) => {
                return Err(format!(
                    "it ended ({})",
                    self.session.process.exited().await
                ));
            }
            Err(error) => return Err(error.to_string()),
        };
        if hello.protocol != PROTOCOL {
            return Err(format!(
                "it speaks version {} of the Agent Client Protocol, and this version of Pilothouse only {PROTOCOL}",
                hello.protocol
            ));
        }
        let today = date::day(SystemTime::now());
        let capabilities = profile::capabilities_of(&hello, &today);
        *lock(&self.session.capabilities) = capabilities.clone();
        let mut diagnostics = Vec::new();
        match profile::measured_version(&hello.name) {
            Some(version) if version != hello.version => diagnostics.push(format!(
                "{} {} runs; what it does was measured with {version}",
                hello.name, hello.version
            )),
            Some(_) => {}
            None => diagnostics.push(format!(
                "nobody measured the agent `{}` {}: which of its modes asks is its own affair, unless host.toml says it",
                hello.name, hello.version
            )),
        }
        let version = hello.version.clone();
        self.hello = hello;
        let incarnation = self.session.incarnation();
        Ok(greeting(incarnation, version, capabilities, diagnostics))
    }

    async fn handshake_error(&self, agent: &AgentName, problem: String) -> StartError {
        let stderr = self.session.process.stderr();
        stderr.finished(Duration::from_millis(500)).await;
        StartError::Handshake {
            agent: agent.clone(),
            problem,
            stderr: stderr.tail(STDERR_SHOWN),
        }
    }

    async fn open(&self, open: OpenThread) -> Result<NativeId, OpenError> {
        let refused = |code, message| OpenError::Refused {
            error: RunError { code, message },
        };
        if !open.cwd.is_dir() {
            return Err(refused(
                ErrorCode::Start,
                format!("the workspace {} is not there", open.cwd.display()),
            ));
        }
        let cwd = open.cwd.clone();
        let mcp = self.servers(&cwd);
        let call = match &open.resume {
            None => Call::New { cwd, mcp },
            // What is told again is passed over; hermes makes a new conversation of one that it cannot resume.
            Some(session) if self.hello.load => Call::Load {
                session: session.clone(),
                cwd,
                mcp,
            },
            Some(session) if self.hello.resume => Call::Resume {
                session: session.clone(),
                cwd,
                mcp,
            },
            Some(_) => {
                return Err(refused(
                    ErrorCode::Resume,
                    format!(
                        "{} cannot take up a conversation again; start a new thread to go on",
                        self.name()
                    ),
                ));
            }
        };
        let session = match self.session.call(call, self.deadlines.call).await {
            Ok(Reply::Session { session, empty, .. }) => {
                if let Some(thread) = &open.resume
                    && empty
                    && profile::quirks(&self.hello.name).empty_load
                {
                    return Err(OpenError::NotFound {
                        thread: thread.clone(),
                    });
                }
                session
            }
            Ok(_) => {
                return Err(refused(
                    ErrorCode::Protocol,
                    "the agent answered with something else than a conversation".to_owned(),
                ));
            }
            Err(error) => return Err(self.open_error(error, open.resume.as_ref())),
        };
        match self.select(&session, &open.selection).await {
            Ok(()) => {
                if open.resume.is_none() && self.keeps_its_mode(open.selection.mode) {
                    // Once in each conversation, where its person reads.
                    let raw = format!(
                        "nobody measured {} {}: it stays in the mode that it starts in, and whether it asks before it acts is its own affair. Name its mode that asks in host.toml: modes = {{ ask = \"…\" }}",
                        self.name(),
                        self.hello.version
                    );
                    lock(&self.session.codec).tell(rpc::notice(raw));
                }
                Ok(session)
            }
            Err(CallError::Lost) => Err(OpenError::Lost),
            Err(error) => Err(refused(ErrorCode::Start, error.to_string())),
        }
    }

    /// The servers that it is given, of those that it says it can reach; of the others its person is told.
    fn servers(&self, cwd: &Path) -> Vec<McpServer> {
        let given = self.mcp.at(cwd);
        let mut told = given.left_out;
        let mut servers = given.servers;
        servers.retain(|server| {
            let reached = self.hello.http || matches!(server.reach, McpReach::Stdio { .. });
            if !reached {
                let problem = format!("{} reaches no servers by HTTP", self.name());
                told.push(mcp::not_started(&server.name, &problem));
            }
            reached
        });
        let mut codec = lock(&self.session.codec);
        for told in told {
            codec.tell(rpc::notice(told));
        }
        servers
    }

    /// What a person calls it.
    pub(super) fn name(&self) -> &str {
        match self.hello.name.as_str() {
            "" => "the agent",
            name => name,
        }
    }

    fn open_error(&self, error: CallError, thread: Option<&NativeId>) -> OpenError {
        match (error, thread) {
            (CallError::NoConversation { .. }, Some(thread)) => OpenError::NotFound {
                thread: thread.clone(),
            },
            (CallError::Lost, _) => OpenError::Lost,
            (CallError::SignIn { message }, _) => OpenError::Refused {
                error: self.sign_in(&message),
            },
            (error, Some(_)) => OpenError::Refused {
                error: error.run_error(ErrorCode::Resume),
            },
            (error, None) => OpenError::Refused {
                error: error.run_error(ErrorCode::Start),
            },
        }
    }

    /// A sign-in is the person's, at the host: its ways are named, none is tried.
    fn sign_in(&self, message: &str) -> RunError {
        let ways = match &self.hello.sign_in[..] {
            [] => "it names no way to do so".to_owned(),
            ways => format!("its ways: {}", ways.join("; ")),
        };
        RunError {
            code: ErrorCode::SignIn,
            message: format!(
                "{} needs a sign-in on the host ({message}); {ways}",
                self.name()
            ),
        }
    }

    async fn send(&self, send: SendTurn) -> Result<TurnAccepted, SendError> {
        let refused = |code, message: String| SendError::Refused {
            error: RunError { code, message },
        };
        if let Some(attachment) = send.attachments.first() {
            return Err(refused(
                ErrorCode::Agent,
                format!(
                    "`{}` cannot be sent: attachments are not handed to ACP agents yet",
                    attachment.name
                ),
            ));
        }
        let _starting = self.starting.lock().await;
        let gone = || {
            refused(
                ErrorCode::RuntimeLost,
                "the agent's process has ended; nothing was sent".to_owned(),
            )
        };
        if self.session.is_over() {
            return Err(gone());
        }
        if lock(&self.session.codec)
            .active_turn(&send.thread)
            .is_some()
        {
            return Err(SendError::Busy);
        }
        match self.select(&send.thread, &send.selection).await {
            Ok(()) => {}
            Err(CallError::Lost) => return Err(gone()),
            Err(CallError::SignIn { message }) => {
                return Err(SendError::Refused {
                    error: self.sign_in(&message),
                });
            }
            Err(error) => return Err(refused(ErrorCode::Agent, error.to_string())),
        }
        let begun = lock(&self.session.codec).prompt(&send.thread, send.text);
        let Some((turn, line)) = begun else {
            return Err(SendError::Busy);
        };
        match self.write(line).await {
            Ok(()) => Ok(TurnAccepted { turn: Some(turn) }),
            Err(()) => Err(SendError::Unknown),
        }
    }

    /// Writes lines and waits until the pipe has them.
    async fn write(&self, lines: Vec<u8>) -> Result<(), ()> {
        tokio::time::timeout(self.deadlines.write, self.session.write(lines))
            .await
            .unwrap_or(Err(()))
    }

    async fn give(&self, response: Response) -> Result<AnswerDelivery, RespondError> {
        let line = self.session.answer_line(&response)?;
        match self.write(line).await {
            Ok(()) => Ok(AnswerDelivery::Written),
            Err(()) => Err(RespondError::Lost),
        }
    }

    async fn stop_turn(&self, thread: NativeId, turn: NativeId) -> Result<(), InterruptError> {
        let lines = lock(&self.session.codec).cancel(&thread, &turn);
        let Some(lines) = lines else {
            return Err(InterruptError::TurnEnded);
        };
        match self.write(lines).await {
            Ok(()) => Ok(()),
            Err(()) if self.session.is_over() => Err(InterruptError::Lost),
            Err(()) => Err(InterruptError::NotTaken {
                problem: "it does not read its input".to_owned(),
            }),
        }
    }
}

impl AgentRuntime for AcpRuntime {
    fn capabilities(&self) -> Capabilities {
        lock(&self.session.capabilities).clone()
    }

    fn process_id(&self) -> Option<u32> {
        self.session.process.id()
    }

    fn open_thread(&self, open: OpenThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        Box::pin(self.open(open))
    }

    fn send_turn(&self, send: SendTurn) -> BoxFuture<'_, Result<TurnAccepted, SendError>> {
        Box::pin(self.send(send))
    }

    fn respond(&self, response: Response) -> BoxFuture<'_, Result<AnswerDelivery, RespondError>> {
        Box::pin(self.give(response))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.session.stop())
    }

    fn signal(&self, signal: Escalation) -> std::io::Result<()> {
        self.session.process.escalate(signal)
    }

    fn steering(&self) -> Option<&dyn Steering> {
        None
    }

    fn interrupting(&self) -> Option<&dyn Interrupting> {
        Some(self)
    }

    /// What is told when a conversation is loaded has no ids that could be told from what was told before.
    fn history(&self) -> Option<&dyn History> {
        None
    }
}

impl Interrupting for AcpRuntime {
    fn interrupt(
        &self,
        thread: NativeId,
        turn: NativeId,
    ) -> BoxFuture<'_, Result<(), InterruptError>> {
        Box::pin(self.stop_turn(thread, turn))
    }
}
