//! The thin driver: the adapter contract over the process that serves a thread.

use super::{
    outgoing::{self, Call},
    profile,
    replies::{CallError, Reply},
    starting::{Conversation, Failed, Process, Starting, is_uuid, needs_bypass, uuid},
    transcript::Files,
};
use crate::{
    contract::{
        AgentRuntime, Compacting, Conversations, Escalation, EventSender, Forking, History,
        InterruptError, Interrupting, Launch, OpenError, OpenThread, ProcessSharing,
        ProviderAdapter, RespondError, Response, Reverting, RuntimeEvents, SendError, SendTurn,
        StartError, Steering, TurnAccepted,
    },
    picture,
    process::{Life, StopTimers},
    rpc::session::lock,
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    Capabilities, Mode, NativeId, ProviderEvent, ProviderEventKind,
    policy::{Contract, Sandbox},
    provider::{OfferedCommand, OfferedModel},
    provider_event::NativePlace,
    request::{AnswerDelivery, LostReason},
    run::{ErrorCode, RunError},
    thread::Selection,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// Bytes of the pictures of one message: 30 MiB were taken in 5 s.
const PICTURES: u64 = 32 * 1024 * 1024;

/// How long Claude Code may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For its handshake. 0.3 to 0.5 s were measured, without servers of tools.
    pub handshake: Duration,
    /// For an ordinary call, and for beginning a turn.
    pub call: Duration,
    /// For confirming an answer, before it counts as written.
    pub confirm: Duration,
    /// For taking an interrupt, before a signal is the next step.
    pub interrupt: Duration,
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
            confirm: Duration::from_secs(10),
            interrupt: Duration::from_secs(10),
            stop: StopTimers::default(),
            life: Life::default(),
        }
    }
}

/// The claude family.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaudeAdapter {
    deadlines: Deadlines,
}

impl ClaudeAdapter {
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
        let opens = launch.opens.as_ref();
        let resume = opens.and_then(|opens| opens.resume.clone());
        let may_bypass = opens.is_some_and(|opens| needs_bypass(opens.selection.mode));
        let starting = Starting {
            launch,
            deadlines: self.deadlines,
        };
        let mut missing = None;
        let mut process = None;
        if let Some(session) = resume {
            if is_uuid(session.as_str()) {
                let conversation = Conversation::Resumed(session.clone());
                let started = starting.process(&conversation, may_bypass, 0, events.clone());
                process = match started.await {
                    Ok(process) => Some(process),
                    Err(Failed::NoConversation) => None,
                    Err(Failed::Start(error)) => return Err(error),
                };
            }
            // Whoever asks for it is told so by a process that has another.
            missing = process.is_none().then_some(session);
        }
        let process = match process {
            Some(process) => process,
            None => {
                let session = NativeId(uuid(*starting.launch.incarnation.as_bytes()));
                let conversation = Conversation::New(session);
                starting
                    .process(&conversation, may_bypass, 1, events.clone())
                    .await
                    .map_err(|failed| starting.error(failed))?
            }
        };
        Ok(Arc::new(ClaudeRuntime {
            files: Files::of(&starting.launch),
            starting,
            process: Mutex::new(Arc::new(process)),
            events: events.downgrade(),
            missing,
            generation: AtomicU32::new(2),
            messages: AtomicU32::new(0),
            beginning: tokio::sync::Mutex::default(),
        }))
    }
}

impl Starting {
    pub(super) fn error(&self, failed: Failed) -> StartError {
        match failed {
            Failed::Start(error) => error,
            Failed::NoConversation => StartError::Handshake {
                agent: self.launch.agent.clone(),
                problem: "it looked for a conversation that it does not have".to_owned(),
                stderr: String::new(),
            },
        }
    }
}

impl ProviderAdapter for ClaudeAdapter {
    fn family(&self) -> &'static str {
        "claude"
    }

    fn profile(&self) -> Capabilities {
        profile::capabilities()
    }

    fn modes(&self) -> Vec<Mode> {
        Mode::ALL.to_vec()
    }

    fn contract(&self, _: &BTreeMap<String, String>, modes: &BTreeMap<Mode, String>) -> Contract {
        profile::contract(modes)
    }

    fn takes_mcp(&self, _: &[String], _: Option<Sandbox>) -> Result<(), &'static str> {
        Ok(())
    }

    fn sharing(&self) -> ProcessSharing {
        ProcessSharing::PerThread
    }

    fn conversations(&self, launch: &Launch) -> Option<Arc<dyn Conversations>> {
        Some(Arc::new(Files::of(launch)))
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(self.start_session(launch, events))
    }
}

/// The agent of a thread: one process at a time.
pub(super) struct ClaudeRuntime {
    pub(super) starting: Starting,
    process: Mutex<Arc<Process>>,
    /// Open as long as a process runs: whoever listens waits for its end.
    events: mpsc::WeakSender<RuntimeEvents>,
    /// The conversation that it was started for and does not have.
    missing: Option<NativeId>,
    /// Processes started so far.
    generation: AtomicU32,
    /// Messages sent so far.
    messages: AtomicU32,
    /// The conversations as the agent writes them down.
    pub(super) files: Files,
    /// Taken while a turn is begun or the process changed, so that two cannot be at once.
    pub(super) beginning: tokio::sync::Mutex<()>,
}

pub(super) fn refused(code: ErrorCode, message: impl Into<String>) -> RunError {
    RunError {
        code,
        message: message.into(),
    }
}

impl ClaudeRuntime {
    pub(super) fn process(&self) -> Arc<Process> {
        Arc::clone(&lock(&self.process))
    }

    /// Another process takes the place of the one that runs, which nobody hears of. Nothing goes on in it. It serves the first
    /// of these conversations that is there.
    pub(super) async fn replace(
        &self,
        conversations: &[Conversation],
        may_bypass: bool,
    ) -> Result<(), Failed> {
        let Some(events) = self.events.upgrade() else {
            return Err(Failed::NoConversation);
        };
        // Both would write the same conversation, and the file with the process id holds one.
        self.process().retire().await;
        let mut failed = Failed::NoConversation;
        for conversation in conversations {
            let generation = self.generation.fetch_add(1, Ordering::Relaxed);
            match self
                .starting
                .process(conversation, may_bypass, generation, events.clone())
                .await
            {
                Ok(process) => {
                    *lock(&self.process) = Arc::new(process);
                    return Ok(());
                }
                Err(Failed::NoConversation) => {}
                Err(other) => {
                    failed = other;
                    break;
                }
            }
        }
        // None runs any more.
        let batch = RuntimeEvents {
            incarnation: self.starting.launch.incarnation,
            events: vec![ProviderEvent {
                place: NativePlace::default(),
                kind: ProviderEventKind::SessionEnded {
                    reason: LostReason::AgentExited,
                    detail: "Claude Code was to be started anew and could not be".to_owned(),
                },
            }],
        };
        let _ = events.send(batch).await;
        Err(failed)
    }

    /// Sets what the selection names. A process that was started with its checks on gives way to one that may lift them.
    async fn select(&self, selection: &Selection) -> Result<(), CallError> {
        let process = self.process();
        if needs_bypass(selection.mode) && !process.may_bypass {
            let outlasting = lock(&process.session.codec).outlasting();
            if !outlasting.is_empty() {
                return Err(CallError::Refused {
                    message: format!(
                        "full access needs Claude Code to be started anew, which would end what goes on in it: {}; let it end, or \
                         have it ended, and say it again",
                        outlasting.join(", ")
                    ),
                });
            }
            // One that has seen no message is not there to be taken up: it is begun again, as a copy if it was to be one.
            let conversations = [
                Conversation::Resumed(process.serves.clone()),
                process.began.clone(),
            ];
            self.replace(&conversations, true)
                .await
                .map_err(|failed| CallError::Refused {
                    message: self.starting.error(failed).to_string(),
                })?;
        }
        let process = self.process();
        process
            .select(
                selection,
                &self.starting.launch.modes,
                self.starting.deadlines.call,
            )
            .await
    }

    async fn open(&self, open: OpenThread) -> Result<NativeId, OpenError> {
        let process = self.process();
        if !open.cwd.is_dir() {
            let message = format!("the workspace {} is not there", open.cwd.display());
            let error = refused(ErrorCode::Start, message);
            return Err(OpenError::Refused { error });
        }
        match open.resume {
            Some(thread) if self.missing.as_ref() == Some(&thread) => {
                return Err(OpenError::NotFound { thread });
            }
            Some(thread) if thread != process.serves => {
                let message = format!("this process of Claude Code does not serve {thread}");
                let error = refused(ErrorCode::Resume, message);
                return Err(OpenError::Refused { error });
            }
            _ => {}
        }
        let _beginning = self.beginning.lock().await;
        self.selected(&open.selection).await
    }

    pub(super) async fn selected(&self, selection: &Selection) -> Result<NativeId, OpenError> {
        match self.select(selection).await {
            Ok(()) => Ok(self.process().serves.clone()),
            Err(CallError::Lost) => Err(OpenError::Lost),
            Err(error) => Err(OpenError::Refused {
                error: refused(ErrorCode::Start, error.to_string()),
            }),
        }
    }

    async fn send(&self, send: SendTurn) -> Result<TurnAccepted, SendError> {
        let pictures = picture::encoded(&send.attachments, "Claude Code", PICTURES).await;
        let pictures = pictures.map_err(|problem| SendError::Refused {
            error: refused(ErrorCode::Agent, problem),
        })?;
        // A block of empty words is none that its model takes.
        let words = (!send.text.is_empty() || pictures.is_empty())
            .then(|| outgoing::text_block(&send.text));
        let pictures = pictures.into_iter().map(outgoing::picture_block);
        let content = words.into_iter().chain(pictures).collect();
        let turn = self
            .begin(send.client_id, content, Some(&send.selection))
            .await?;
        Ok(TurnAccepted { turn: Some(turn) })
    }

    /// Begins a turn with a message, and waits for the receipt.
    pub(super) async fn begin(
        &self,
        client_id: String,
        content: Vec<Value>,
        selection: Option<&Selection>,
    ) -> Result<NativeId, SendError> {
        let refuse = |code, message: String| SendError::Refused {
            error: refused(code, message),
        };
        let gone = || {
            refuse(
                ErrorCode::RuntimeLost,
                "the agent's process has ended; nothing was sent".to_owned(),
            )
        };
        let _beginning = self.beginning.lock().await;
        let process = self.process();
        if process.session.is_over() {
            return Err(gone());
        }
        if lock(&process.session.codec).is_busy() {
            return Err(SendError::Busy);
        }
        if let Some(selection) = selection {
            match self.select(selection).await {
                Ok(()) => {}
                Err(CallError::Lost) => return Err(gone()),
                Err(error) => return Err(refuse(ErrorCode::Agent, error.to_string())),
            }
        }
        let call = Call::Prompt {
            turn: Some(self.fresh_id()),
            client_id,
            content,
        };
        let deadline = self.starting.deadlines.call;
        match self.process().session.call(call, deadline).await {
            Ok(Reply::Turn { turn }) => Ok(turn),
            Ok(Reply::Steered { turn }) => Err(SendError::Steered { turn }),
            Err(CallError::Busy) => Err(SendError::Busy),
            Err(error @ CallError::NoConversation { .. }) => {
                Err(refuse(ErrorCode::Resume, error.to_string()))
            }
            Err(error @ CallError::Refused { .. }) => {
                Err(refuse(ErrorCode::Agent, error.to_string()))
            }
            // It was taken, but as what is not known.
            Ok(_)
            | Err(CallError::Lost | CallError::Timeout { .. } | CallError::Unreadable { .. }) => {
                Err(SendError::Unknown)
            }
        }
    }

    /// An id that no other message or conversation has: what the incarnation lends it names this life of the agent. The number
    /// comes first, for the agent takes ids for one that differ in their last twelve digits only.
    pub(super) fn fresh_id(&self) -> NativeId {
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        let mut bytes = *self.starting.launch.incarnation.as_bytes();
        // It is counted in 32 bits: more messages than that no process lives to see.
        for (byte, of_number) in bytes.iter_mut().zip(number.to_be_bytes()) {
            *byte = of_number;
        }
        NativeId(uuid(bytes))
    }

    async fn give(&self, response: Response) -> Result<AnswerDelivery, RespondError> {
        let session = &self.process().session;
        let line = session.answer_line(&response)?;
        let confirmation = session
            .await_resolution(&response.request)
            .ok_or(RespondError::Lost)?;
        let confirm = self.starting.deadlines.confirm;
        match tokio::time::timeout(confirm, session.write(line)).await {
            Ok(Ok(())) => {}
            Ok(Err(())) | Err(_) => return Err(RespondError::Lost),
        }
        match tokio::time::timeout(confirm, confirmation).await {
            Ok(Ok(())) => Ok(AnswerDelivery::Confirmed),
            Ok(Err(_)) => Err(RespondError::Lost),
            Err(_) => Ok(AnswerDelivery::Written),
        }
    }

    async fn stop_turn(&self, thread: NativeId, turn: NativeId) -> Result<(), InterruptError> {
        let process = self.process();
        let goes_on =
            thread == process.serves && lock(&process.session.codec).active_turn() == Some(&turn);
        if !goes_on {
            return Err(InterruptError::TurnEnded);
        }
        let deadline = self.starting.deadlines.interrupt;
        match process.session.call(Call::Interrupt, deadline).await {
            Ok(_) => Ok(()),
            Err(CallError::Lost) => Err(InterruptError::Lost),
            Err(error) => Err(InterruptError::NotTaken {
                problem: error.to_string(),
            }),
        }
    }
}

impl AgentRuntime for ClaudeRuntime {
    fn capabilities(&self) -> Capabilities {
        lock(&self.process().session.capabilities).clone()
    }

    fn process_id(&self) -> Option<u32> {
        self.process().session.process.id()
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
        Box::pin(async {
            let process = self.process();
            process.session.stop().await;
        })
    }

    fn signal(&self, signal: Escalation) -> std::io::Result<()> {
        self.process().session.process.escalate(signal)
    }

    /// A message that reaches it in a turn is put into the turn at its next tool, or begins one of its own if none comes:
    /// which of both is known only afterwards (docs/decisions/015-claude-turns.md).
    fn steering(&self) -> Option<&dyn Steering> {
        None
    }

    fn interrupting(&self) -> Option<&dyn Interrupting> {
        Some(self)
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }

    fn forking(&self) -> Option<&dyn Forking> {
        Some(self)
    }

    fn reverting(&self) -> Option<&dyn Reverting> {
        Some(self)
    }

    fn models(&self) -> Vec<OfferedModel> {
        self.process().hello.offered()
    }

    fn commands<'r>(&'r self, _cwd: &'r Path) -> BoxFuture<'r, Vec<OfferedCommand>> {
        let commands = self.process().hello.commands.clone();
        Box::pin(std::future::ready(commands))
    }

    fn compacting(&self) -> Option<&dyn Compacting> {
        Some(self)
    }
}

impl Interrupting for ClaudeRuntime {
    fn interrupt(
        &self,
        thread: NativeId,
        turn: NativeId,
    ) -> BoxFuture<'_, Result<(), InterruptError>> {
        Box::pin(self.stop_turn(thread, turn))
    }
}
