//! The thin driver: the adapter contract over one [`Link`].

use super::{
    attaching,
    choice::Choice,
    link::Link,
    looking::Scope,
    outgoing::{Call, Prompt},
    profile,
    replies::{CallError, Reply, Session},
    rules::Rule,
    servers::Servers,
    signing_in::Signer,
};
use crate::{
    contract::{
        AgentRuntime, Compacting, Conversations, Escalation, Forking, History, InterruptError,
        Interrupting, OpenError, OpenThread, RespondError, Response, Reverting, SendError,
        SendTurn, SigningIn, Steering, TurnAccepted,
    },
    naming::FindFiles,
    process::agent::AgentProcess,
    rpc::{CallFailure as _, greeting, session::lock},
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue, Mode, NativeId, ProviderEvent,
    provider::{OfferedCommand, OfferedModel},
    request::AnswerDelivery,
    run::{ErrorCode, RunError},
    thread::Selection,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
    time::SystemTime,
};

/// A running opencode.
pub(super) struct OpencodeRuntime {
    pub(super) link: Arc<Link>,
    pub(super) process: Arc<AgentProcess>,
    pub(super) servers: Servers,
    pub(super) signer: Signer,
    pub(super) capabilities: Capabilities,
    pub(super) choice: Choice,
    /// The rules that each conversation has of ours.
    pub(super) permitted: Mutex<BTreeMap<NativeId, Vec<Rule>>>,
    /// Conversations for which a model was chosen by name.
    chosen: Mutex<BTreeSet<NativeId>>,
    /// Conversations whose person was not told yet which rules hold, in an opencode that somebody else started.
    pub(super) untold: Mutex<BTreeSet<NativeId>>,
    /// Taken while a turn of a conversation is being started, so that two cannot start at once.
    starting: Mutex<BTreeMap<NativeId, Arc<tokio::sync::Mutex<()>>>>,
}

impl Drop for OpencodeRuntime {
    fn drop(&mut self) {
        let _ = self.process.escalate(Escalation::Kill);
    }
}

pub(super) fn run_error(code: ErrorCode, message: impl Into<String>) -> RunError {
    RunError {
        code,
        message: message.into(),
    }
}

impl OpencodeRuntime {
    pub(super) fn new(
        link: Arc<Link>,
        process: Arc<AgentProcess>,
        choice: Choice,
        servers: Servers,
        signer: Signer,
    ) -> Self {
        Self {
            link,
            servers,
            signer,
            capabilities: profile::capabilities(),
            process,
            choice,
            permitted: Mutex::default(),
            chosen: Mutex::default(),
            untold: Mutex::default(),
            starting: Mutex::default(),
        }
    }

    pub(super) fn process(&self) -> &AgentProcess {
        &self.process
    }

    pub(super) async fn handshake(
        &mut self,
    ) -> Result<(Vec<ProviderEvent>, hyper::body::Incoming), CallError> {
        let deadlines = self.link.deadlines;
        let health = self
            .link
            .patiently(Call::Health, deadlines.first, deadlines.handshake)
            .await
            .map_err(|error| match error {
                CallError::Refused { status: 401, .. } => CallError::WrongPassword,
                error => error,
            })?;
        let Reply::Health { version } = health else {
            return Err(CallError::Lost);
        };
        if let Reply::Agents(agents) = self
            .link
            .patiently(Call::Agents, deadlines.call, deadlines.handshake)
            .await?
        {
            self.choice.agents = agents;
        }
        // Without it models are not checked, and opencode is used all the same.
        let models = self.link.call(Call::Providers).await;
        let mut diagnostics = Vec::new();
        match models {
            Ok(Reply::Models(models)) => self.choice.models = models,
            Ok(_) => {}
            Err(error) => diagnostics.push(error.to_string()),
        }
        if version != profile::MEASURED_VERSION {
            diagnostics.push(format!(
                "opencode {version} runs; what it does was measured with {}",
                profile::MEASURED_VERSION
            ));
        }
        match self.link.call(Call::Config).await {
            Ok(Reply::Configured(model)) => self.choice.configured = model,
            Ok(_) => {}
            Err(error) => diagnostics.push(error.to_string()),
        }
        self.learn_sign_in(&version).await;
        let stream = self.link.listen().await?;
        let first = greeting(
            self.link.incarnation(),
            version,
            self.capabilities.clone(),
            diagnostics,
        );
        Ok((first, stream))
    }

    async fn open(&self, open: OpenThread) -> Result<NativeId, OpenError> {
        self.check_workspace(&open.cwd).await?;
        let problems = self.servers.add(&self.link, &open.cwd).await;
        let mode = open.selection.mode;
        let call = match &open.resume {
            None => Call::Create {
                directory: open.cwd.display().to_string(),
                rules: self.rules(mode, None),
            },
            Some(session) => Call::Get {
                session: session.clone(),
            },
        };
        let session = match self.link.call(call).await {
            Ok(Reply::Session(session)) => *session,
            Ok(_) => return Err(strange_open()),
            Err(error) => return Err(self.open_error(error, open.resume.as_ref())),
        };
        let resumed = open.resume.is_some();
        if resumed && !self.is_place(&open.cwd, &session).await? {
            let message = format!(
                "the conversation works in {}, not in {}",
                session.directory,
                open.cwd.display()
            );
            return Err(OpenError::Refused {
                error: run_error(ErrorCode::Resume, message),
            });
        }
        let directory = session.directory.clone();
        let id = self.adopt(session, mode, !resumed).await;
        self.servers.to_be_told(&id, problems);
        if resumed {
            match self.link.synchronise(&directory, Scope::One(&id)).await {
                Ok(()) => {}
                // Without it what waits would be taken for answered.
                Err(error) if error.may_pass() => return Err(self.open_error(error, Some(&id))),
                Err(error) => {
                    tracing::warn!(%error, conversation = %id, "what a conversation did meanwhile could not be read");
                }
            }
        }
        Ok(id)
    }

    /// opencode takes a directory that is not there as any other.
    async fn check_workspace(&self, cwd: &Path) -> Result<(), OpenError> {
        let there = match self.process.is_far() {
            false => cwd.is_dir(),
            true => match self.link.call(Call::Look).await {
                Ok(_) => true,
                Err(error @ (CallError::Refused { .. } | CallError::NotFound { .. }))
                    if !error.may_pass() =>
                {
                    false
                }
                Err(error) => return Err(self.open_error(error, None)),
            },
        };
        if there {
            return Ok(());
        }
        let message = format!("the workspace {} is not there", cwd.display());
        Err(OpenError::Refused {
            error: run_error(ErrorCode::Start, message),
        })
    }

    /// Whether a conversation's directory is that of the workspace.
    async fn is_place(&self, cwd: &Path, session: &Session) -> Result<bool, OpenError> {
        if !self.process.is_far() {
            return Ok(same_place(cwd, Path::new(&session.directory)));
        }
        let place = self.link.call(Call::Place).await;
        let place = place.map_err(|error| self.open_error(error, Some(&session.id)))?;
        Ok(matches!(place, Reply::Place(place) if place == session.directory))
    }

    /// Takes a conversation up.
    pub(super) async fn adopt(&self, session: Session, mode: Mode, is_new: bool) -> NativeId {
        let id = session.id.clone();
        let holds = self.holds(&session, mode);
        if self.process.is_far() && is_new {
            lock(&self.untold).insert(id.clone());
        }
        self.link.with_codec(|codec| {
            codec.open(&session);
            // A turn may go on in another mode than what was chosen for the next one.
            if is_new || holds {
                codec.set_mode(&id, mode);
            }
        });
        self.link.prove(&id).await;
        id
    }

    /// Why a conversation could not be opened or read. A call that was cut says nothing of opencode while it is connected.
    pub(super) fn open_error(&self, error: CallError, thread: Option<&NativeId>) -> OpenError {
        let code = match thread {
            Some(_) => ErrorCode::Resume,
            None => ErrorCode::Start,
        };
        match (error, thread) {
            (CallError::NotFound { .. }, Some(thread)) => OpenError::NotFound {
                thread: thread.clone(),
            },
            (CallError::Lost | CallError::Unreachable { .. }, _) if self.process.has_exited() => {
                OpenError::Lost
            }
            (error, _) if error.may_pass() => OpenError::Unanswered {
                error: error.run_error(code),
            },
            (error, _) => OpenError::Refused {
                error: error.run_error(code),
            },
        }
    }

    async fn send(&self, send: SendTurn) -> Result<TurnAccepted, SendError> {
        let refused = |code, message: String| SendError::Refused {
            error: run_error(code, message),
        };
        let Selection {
            model,
            effort,
            mode,
            ..
        } = send.selection;
        if let Some(problem) = self.choice.unknown_agent(mode) {
            return Err(refused(ErrorCode::Agent, problem));
        }
        let by_name = model.is_some();
        let model = model.or_else(|| self.choice.own_model(mode));
        if model.is_none() && lock(&self.chosen).contains(&send.thread) {
            return Err(refused(ErrorCode::Agent, self.choice.no_own_model()));
        }
        let chosen = self
            .choice
            .model(model.as_deref(), effort.as_deref())
            .map_err(|problem| refused(ErrorCode::Agent, problem))?;
        let command = self.named(&send.text, mode, !send.attachments.is_empty());
        let command = command
            .await
            .map_err(|problem| refused(ErrorCode::Agent, problem))?;
        // opencode looks at each file before it answers: 4.5 s for a picture of 10 MB.
        let deadlines = self.link.deadlines;
        let patience = deadlines.call + deadlines.file * send.attachments.len() as u32;
        let files = match send.attachments.is_empty() {
            true => Vec::new(),
            false => {
                let model = match &chosen.model {
                    Some(model) => Some(model.clone()),
                    None => self.model_of(&send.thread).await,
                };
                let model = model.and_then(|model| self.choice.known(&model));
                attaching::read(send.attachments, model)
                    .await
                    .map_err(|problem| refused(ErrorCode::Agent, problem))?
            }
        };
        let starting = Arc::clone(lock(&self.starting).entry(send.thread.clone()).or_default());
        let _starting = starting.lock().await;
        let still_runs = || match self.process.has_exited() {
            false => Ok(()),
            true => {
                let message = "opencode's process has ended; nothing was sent".to_owned();
                Err(refused(ErrorCode::RuntimeLost, message))
            }
        };
        still_runs()?;
        if self
            .link
            .with_codec(|codec| codec.active_turn(&send.thread).is_some())
        {
            return Err(SendError::Busy);
        }
        self.read_sign_ins_anew(&send.thread).await;
        let agent = command.as_ref().and_then(|named| named.agent.as_deref());
        self.permit(&send.thread, mode, agent)
            .await
            .map_err(|error| refused(self.not_sent(&error), error.to_string()))?;
        self.link.prove(&send.thread).await;
        still_runs()?;
        let prompt = Prompt {
            session: send.thread.clone(),
            turn: NativeId(String::new()),
            text: send.text,
            command,
            files,
            agent: self.choice.agent(mode).map(str::to_owned),
            model: chosen.model,
            variant: chosen.variant,
        };
        let begun = self
            .link
            .with_codec(|codec| codec.prompt(&send.thread, &send.client_id, now_ms(), prompt));
        let Some(prompt) = begun else {
            return Err(SendError::Busy);
        };
        if by_name {
            lock(&self.chosen).insert(send.thread.clone());
        }
        let turn = prompt.turn.clone();
        match self.link.say(prompt, patience).await {
            Ok(()) => {
                self.link
                    .with_codec(|codec| codec.accepted(&send.thread, &turn));
                self.tell_rules(&send.thread, &turn, mode).await;
                self.servers.tell(&self.link, &send.thread, &turn).await;
                Ok(TurnAccepted { turn: Some(turn) })
            }
            Err(error) if !error.may_be_done() => {
                self.link
                    .with_codec(|codec| codec.not_begun(&send.thread, &turn));
                Err(refused(self.not_sent(&error), error.to_string()))
            }
            // It may have been heard: what the conversation holds tells.
            Err(_) => {
                self.link.forget_unless_taken(send.thread, turn);
                Err(SendError::Unknown)
            }
        }
    }

    /// Why a message was not sent.
    fn not_sent(&self, error: &CallError) -> ErrorCode {
        match error {
            CallError::NotFound { .. } => ErrorCode::Resume,
            CallError::Lost | CallError::Unreachable { .. } if self.process.has_exited() => {
                ErrorCode::RuntimeLost
            }
            _ => ErrorCode::Agent,
        }
    }

    /// Provider and model that a conversation takes if none is chosen, as far as known.
    pub(super) async fn model_of(&self, session: &NativeId) -> Option<(String, String)> {
        let get = Call::Get {
            session: session.clone(),
        };
        let of_conversation = match self.link.call(get).await {
            Ok(Reply::Session(session)) => session.model,
            _ => None,
        };
        of_conversation.or_else(|| self.choice.configured.clone())
    }

    pub(super) async fn stop_turn(
        &self,
        thread: NativeId,
        turn: NativeId,
    ) -> Result<(), InterruptError> {
        let call = self.link.with_codec(|codec| codec.stop(&thread, &turn));
        let Some(call) = call else {
            return Err(InterruptError::TurnEnded);
        };
        let deadlines = self.link.deadlines;
        match self.link.call_within(call, deadlines.interrupt).await {
            Ok(_) => {
                self.link.confirm_stop(thread, turn, deadlines.settle);
                Ok(())
            }
            Err(CallError::Lost | CallError::Unreachable { .. }) if self.process.has_exited() => {
                Err(InterruptError::Lost)
            }
            Err(error) => {
                if !error.may_be_done() {
                    self.link
                        .with_codec(|codec| codec.not_stopped(&thread, &turn));
                }
                Err(InterruptError::NotTaken {
                    problem: error.to_string(),
                })
            }
        }
    }
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

pub(super) fn strange_open() -> OpenError {
    OpenError::Refused {
        error: run_error(
            ErrorCode::Protocol,
            "opencode answered with something else than a conversation",
        ),
    }
}

/// Whether two paths name the same directory.
fn same_place(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

impl AgentRuntime for OpencodeRuntime {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn process_id(&self) -> Option<u32> {
        self.process.id()
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
            self.link.stopping();
            self.process.stop(self.link.deadlines.stop).await;
        })
    }

    fn signal(&self, signal: Escalation) -> std::io::Result<()> {
        self.process.escalate(signal)
    }

    fn steering(&self) -> Option<&dyn Steering> {
        None
    }

    fn interrupting(&self) -> Option<&dyn Interrupting> {
        Some(self)
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }

    fn pending<'r>(&'r self, _expected: &'r [NativeId]) -> BoxFuture<'r, Option<Vec<NativeId>>> {
        let known = self
            .link
            .with_codec(|codec| codec.pending_requests().cloned().collect());
        Box::pin(std::future::ready(Some(known)))
    }

    fn forking(&self) -> Option<&dyn Forking> {
        Some(self)
    }

    fn reverting(&self) -> Option<&dyn Reverting> {
        Some(self)
    }

    fn conversations(&self) -> Option<&dyn Conversations> {
        Some(self)
    }

    fn files(&self) -> Option<&dyn FindFiles> {
        Some(self)
    }

    fn models(&self) -> Vec<OfferedModel> {
        self.choice.offered()
    }

    /// They are those of the directory that the process serves.
    fn commands<'r>(&'r self, _cwd: &'r Path) -> BoxFuture<'r, Vec<OfferedCommand>> {
        Box::pin(async {
            let commands = self.own_commands().await.unwrap_or_default();
            commands.into_iter().map(|known| known.offered).collect()
        })
    }

    fn compacting(&self) -> Option<&dyn Compacting> {
        Some(self)
    }

    fn signing_in(&self) -> Option<&dyn SigningIn> {
        let able = self.capabilities.value(CapabilityFlag::SignIn) == CapabilityValue::Yes;
        able.then_some(self as &dyn SigningIn)
    }
}
