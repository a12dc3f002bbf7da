//! The thin driver: the adapter contract over one [`Session`].

use super::{
    codec::Codec,
    gate::{self, GateFile},
    listing::SessionFolders,
    outgoing::Call,
    profile::{self, Dialect},
    replies::{CallError, Reply, State},
    starting,
};
use crate::{
    contract::{
        AgentRuntime, Compacting, Conversations, Escalation, EventSender, Forking, History,
        InterruptError, Interrupting, Launch, OpenError, OpenThread, ProcessSharing,
        ProviderAdapter, RespondError, Response, Reverting, SendError, SendTurn, StartError, Steer,
        SteerError, Steering, TurnAccepted,
    },
    mcp::ValueFile,
    picture,
    process::{Life, StopTimers},
    rpc::{
        CallFailure as _,
        session::{Session, lock},
    },
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    Capabilities, Mode, NativeId,
    policy::{Contract, MustAsk, Sandbox},
    provider::{OfferedCommand, OfferedModel},
    request::AnswerDelivery,
    run::{ErrorCode, RunError},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
    time::Duration,
};

/// Bytes of the pictures of one message: pi says them again, in base64, in a frame that must be read
/// ([`FRAME_LIMIT`](crate::rpc::frames::FRAME_LIMIT)).
const PICTURES: u64 = 11 * 1024 * 1024;

/// How long an agent may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For its handshake. The slowest measured took 2.6 s (omp).
    pub handshake: Duration,
    /// For an ordinary command.
    pub call: Duration,
    /// For taking a line, before its input counts as stuck.
    pub write: Duration,
    /// For an interrupt: pi answers when its turn has ended.
    pub interrupt: Duration,
    /// For shortening a conversation, which asks the model.
    pub compact: Duration,
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
            interrupt: Duration::from_secs(10),
            compact: Duration::from_secs(300),
            stop: StopTimers::default(),
            life: Life::default(),
        }
    }
}

/// The pi family.
#[derive(Debug, Clone, Copy, Default)]
pub struct PiAdapter {
    deadlines: Deadlines,
}

impl PiAdapter {
    /// With the usual deadlines.
    pub fn new() -> Self {
        Self::default()
    }

    /// With other deadlines.
    pub fn with_deadlines(deadlines: Deadlines) -> Self {
        Self { deadlines }
    }
}

impl ProviderAdapter for PiAdapter {
    fn family(&self) -> &'static str {
        "pi"
    }

    fn profile(&self) -> Capabilities {
        profile::capabilities()
    }

    /// omp has only one of them: another is refused before anything is sent.
    fn modes(&self) -> Vec<Mode> {
        Mode::ALL.to_vec()
    }

    /// Of pi with the gate; omp has full access alone.
    fn contract(&self, _: &BTreeMap<String, String>, _: &BTreeMap<Mode, String>) -> Contract {
        Contract {
            read_only: MustAsk::BOTH,
            ask: MustAsk::BOTH,
            auto_edit: MustAsk::COMMANDS,
            own_files: &[],
        }
    }

    fn takes_mcp(&self, command: &[String], sandbox: Option<Sandbox>) -> Result<(), &'static str> {
        starting::takes_mcp(Dialect::of_command(command), sandbox)
    }

    fn sharing(&self) -> ProcessSharing {
        ProcessSharing::PerThread
    }

    /// omp's were not looked at.
    fn conversations(&self, launch: &Launch) -> Option<Arc<dyn Conversations>> {
        let is_pi = Dialect::of_command(&launch.command) == Dialect::Pi;
        is_pi.then(|| Arc::new(SessionFolders::of(launch)) as Arc<dyn Conversations>)
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(starting::start(self.deadlines, launch, events))
    }
}

/// A running agent.
pub(super) struct PiRuntime {
    pub(super) session: Arc<Session<Codec>>,
    pub(super) deadlines: Deadlines,
    pub(super) dialect: Dialect,
    /// Where its process works, and so all its tools.
    pub(super) cwd: PathBuf,
    /// In what it runs, if it does not ask.
    pub(super) sandbox: Option<Sandbox>,
    /// Taken while a turn is being started or a session loaded, so that two cannot at once.
    pub(super) starting: tokio::sync::Mutex<()>,
    /// Kept as long as the process may load it anew, with every session that it loads.
    pub(super) gate_file: Option<GateFile>,
    /// The same of the extension that brings it its servers of tools.
    pub(super) _servers: Option<ValueFile>,
    /// What it was set to at its start, before anything was chosen or loaded.
    pub(super) own: OnceLock<State>,
    /// Whether an effort was chosen, or came with a session: pi keeps it.
    pub(super) effort_set: AtomicBool,
    /// What it can run on, as it said at its start.
    pub(super) models: Mutex<Vec<OfferedModel>>,
}

impl Drop for PiRuntime {
    fn drop(&mut self) {
        let _ = self.session.process.escalate(Escalation::Kill);
    }
}

pub(super) fn refused(code: ErrorCode, message: impl Into<String>) -> RunError {
    RunError {
        code,
        message: message.into(),
    }
}

impl PiRuntime {
    pub(super) async fn call(&self, call: Call) -> Result<Reply, CallError> {
        self.session.call(call, self.deadlines.call).await
    }

    async fn send(&self, send: SendTurn) -> Result<TurnAccepted, SendError> {
        let refusal = |code, message: String| SendError::Refused {
            error: RunError { code, message },
        };
        let pictures = picture::encoded(&send.attachments, "pi", PICTURES).await;
        let pictures = pictures.map_err(|problem| refusal(ErrorCode::Agent, problem))?;
        if gate::is_command(&send.text) {
            let message =
                "what asks is chosen with the thread's mode, not with a message".to_owned();
            return Err(refusal(ErrorCode::Agent, message));
        }
        let _starting = self.starting.lock().await;
        let gone = || {
            let message = "the agent's process has ended; nothing was sent".to_owned();
            refusal(ErrorCode::RuntimeLost, message)
        };
        if self.session.is_over() {
            return Err(gone());
        }
        if lock(&self.session.codec).is_busy() {
            return Err(SendError::Busy);
        }
        match self.select(&send.selection).await {
            Ok(()) => {}
            Err(CallError::Lost) => return Err(gone()),
            Err(error) => return Err(refusal(ErrorCode::Agent, error.to_string())),
        }
        if !pictures.is_empty() {
            self.sees_pictures()
                .map_err(|problem| refusal(ErrorCode::Agent, problem))?;
        }
        let call = Call::Prompt {
            client_id: send.client_id,
            text: send.text,
            pictures,
        };
        match self.call(call).await {
            Ok(Reply::Turn { turn }) => Ok(TurnAccepted { turn: Some(turn) }),
            Err(CallError::Busy { .. }) => Err(SendError::Busy),
            Err(error @ CallError::Refused { .. }) => {
                Err(refusal(ErrorCode::Agent, error.to_string()))
            }
            // It was taken, but as what is not known.
            Ok(_) | Err(_) => Err(SendError::Unknown),
        }
    }

    /// pi says "image omitted" to a model that takes none, and nobody hears of it.
    fn sees_pictures(&self) -> Result<(), String> {
        let codec = lock(&self.session.codec);
        let state = codec.state();
        if state.pictures == Some(false) {
            return Err(format!(
                "the model `{}` takes no pictures; nothing was sent",
                state.model
            ));
        }
        Ok(())
    }

    /// Writes lines and waits until the pipe has them.
    async fn write(&self, lines: Vec<u8>) -> Result<(), ()> {
        if lines.is_empty() {
            return Ok(());
        }
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

    async fn put_words(&self, steer: Steer) -> Result<(), SteerError> {
        let is_going = || lock(&self.session.codec).active_turn() == Some(&steer.turn);
        if gate::is_command(&steer.text) {
            let message = "what asks is chosen with the thread's mode, not with a message";
            let error = refused(ErrorCode::Agent, message);
            return Err(SteerError::Refused { error });
        }
        if !is_going() {
            return Err(SteerError::TurnEnded);
        }
        let call = Call::Steer {
            client_id: steer.client_id.clone(),
            text: steer.text.clone(),
        };
        match self.call(call).await {
            Ok(_) => {}
            Err(error @ (CallError::Refused { .. } | CallError::Busy { .. })) => {
                let error = error.run_error(ErrorCode::Agent);
                return Err(SteerError::Refused { error });
            }
            Err(_) => return Err(SteerError::Unknown),
        }
        // pi keeps what came too late for its next turn: it is taken back, or else it was heard.
        let unheard = || lock(&self.session.codec).is_unheard(&steer.client_id);
        if !is_going() && unheard() {
            let taken = self.call(Call::ClearQueue).await;
            if matches!(taken, Ok(Reply::TakenBack(1..))) && unheard() {
                lock(&self.session.codec).forget_sent();
                return Err(SteerError::TurnEnded);
            }
        }
        Ok(())
    }

    async fn stop_turn(&self, turn: NativeId) -> Result<(), InterruptError> {
        let lines = lock(&self.session.codec).dismiss(&turn);
        let Some(lines) = lines else {
            return Err(InterruptError::TurnEnded);
        };
        let lost = |error: CallError| match error {
            CallError::Lost => InterruptError::Lost,
            error => InterruptError::NotTaken {
                problem: error.to_string(),
            },
        };
        if self.write(lines).await.is_err() {
            return Err(match self.session.is_over() {
                true => InterruptError::Lost,
                false => InterruptError::NotTaken {
                    problem: "it does not read its input".to_owned(),
                },
            });
        }
        let deadline = self.deadlines.interrupt;
        // What waits to be put into the turn would begin another; omp 18.2.3 goes on with it all the same.
        let (_, stopped) = tokio::join!(
            self.session.call(Call::ClearQueue, deadline),
            self.session.call(Call::Abort, deadline),
        );
        stopped.map(|_| ()).map_err(lost)
    }
}

impl AgentRuntime for PiRuntime {
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
        Some(self)
    }

    fn interrupting(&self) -> Option<&dyn Interrupting> {
        Some(self)
    }

    /// omp's sessions were not read back in any recording.
    fn history(&self) -> Option<&dyn History> {
        (self.dialect == Dialect::Pi).then_some(self as &dyn History)
    }

    fn forking(&self) -> Option<&dyn Forking> {
        (self.dialect == Dialect::Pi).then_some(self as &dyn Forking)
    }

    /// By the extension that asks: without it nothing is taken back.
    fn reverting(&self) -> Option<&dyn Reverting> {
        self.gate_file.is_some().then_some(self as &dyn Reverting)
    }

    fn models(&self) -> Vec<OfferedModel> {
        lock(&self.models).clone()
    }

    fn commands<'r>(&'r self, _cwd: &'r Path) -> BoxFuture<'r, Vec<OfferedCommand>> {
        Box::pin(async {
            match self.call(Call::Commands).await {
                // Those of the extension that asks are not a person's.
                Ok(Reply::Commands(mut commands)) => {
                    commands.retain(|command| !command.name.starts_with("/pilothouse-"));
                    commands
                }
                _ => Vec::new(),
            }
        })
    }

    fn compacting(&self) -> Option<&dyn Compacting> {
        (self.dialect == Dialect::Pi).then_some(self as &dyn Compacting)
    }
}

impl Steering for PiRuntime {
    fn steer(&self, steer: Steer) -> BoxFuture<'_, Result<(), SteerError>> {
        Box::pin(self.put_words(steer))
    }
}

impl Interrupting for PiRuntime {
    fn interrupt(
        &self,
        _thread: NativeId,
        turn: NativeId,
    ) -> BoxFuture<'_, Result<(), InterruptError>> {
        Box::pin(self.stop_turn(turn))
    }
}
