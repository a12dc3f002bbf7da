//! The thin driver: the adapter contract over one [`Session`].

use super::{
    adapter::Deadlines,
    codec::Codec,
    outgoing::{Call, Image},
    profile::{self, Permissions},
    replies::{CallError, LoadedThread, Reply, Settings},
    selecting,
};
use crate::{
    contract::{
        AgentRuntime, Compacting, Conversations, Escalation, Forking, History, InputFile,
        Interrupting, OpenError, OpenThread, RespondError, Response, Reverting, SendError,
        SendTurn, SigningIn, StartError, Steering, TurnAccepted,
    },
    mcp::{Given, McpServers},
    naming::FindFiles,
    picture,
    process::agent::AgentProcess,
    rpc::{
        CallFailure as _, facts, greeting,
        session::{STDERR_SHOWN, Session, lock},
    },
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    AgentName, Capabilities, CapabilityFlag, CapabilityValue, Mode, NativeId, ProviderEvent,
    provider::{OfferedCommand, OfferedModel},
    request::AnswerDelivery,
    run::{ErrorCode, RunError},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Bytes of pictures that go to a codex elsewhere with one message: as text they are a third more, and codex tells them again.
const FAR_PICTURES: u64 = 8 * 1024 * 1024;

/// What is known of a loaded conversation.
#[derive(Debug, Clone, Default)]
struct Loaded {
    /// Where it should work, if codex resumed it elsewhere.
    cwd: Option<PathBuf>,
    /// What holds where nothing is chosen; `None` where codex does not say.
    default: Option<Settings>,
    /// Whether it may be planning: that holds for a turn and those that follow.
    plans: bool,
    /// Taken while a turn is being started, so that two cannot start at once.
    starting: Arc<tokio::sync::Mutex<()>>,
}

/// A running codex.
pub(super) struct CodexRuntime {
    pub(super) session: Arc<Session<Codec>>,
    /// Servers of tools for its conversations.
    pub(super) mcp: McpServers,
    threads: Mutex<BTreeMap<NativeId, Loaded>>,
    models: Mutex<Vec<OfferedModel>>,
    pub(super) deadlines: Deadlines,
    /// It was at work before this connection.
    goes_on: bool,
    /// Something that was taken up again waited for a person.
    waits: AtomicBool,
    /// Taken while a sign-in is being begun, so that two cannot be: codex would give up the first.
    pub(super) signing_in: tokio::sync::Mutex<()>,
}

impl Drop for CodexRuntime {
    fn drop(&mut self) {
        let _ = self.session.process.escalate(Escalation::Kill);
    }
}

impl CodexRuntime {
    pub(super) fn new(
        session: Arc<Session<Codec>>,
        mcp: McpServers,
        goes_on: bool,
        deadlines: Deadlines,
    ) -> Self {
        Self {
            session,
            mcp,
            threads: Mutex::default(),
            models: Mutex::default(),
            deadlines,
            goes_on,
            waits: AtomicBool::new(false),
            signing_in: tokio::sync::Mutex::default(),
        }
    }

    /// Notes whether a conversation that is taken up again waits for a person.
    pub(super) fn note_waiting(&self, waits: bool) {
        self.waits.fetch_or(waits, Ordering::AcqRel);
    }

    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    pub(super) async fn handshake(&self) -> Result<Vec<ProviderEvent>, CallError> {
        let deadlines = self.deadlines;
        let hello = Call::Initialize {
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let version = match self.session.call(hello, deadlines.handshake).await? {
            Reply::Initialized { version } => version,
            _ => {
                return Err(CallError::Unreadable {
                    method: "initialize".to_owned(),
                });
            }
        };
        let initialized = lock(&self.session.codec).initialized();
        self.session
            .write(initialized)
            .await
            .map_err(|()| CallError::Lost)?;
        // Neither is needed to work: an agent that refuses them is used all the same.
        let (models, account) = tokio::join!(
            self.session.call(Call::ModelList, deadlines.handshake),
            self.session.call(Call::AccountRead, deadlines.handshake),
        );
        let mut diagnostics = Vec::new();
        if version != profile::MEASURED_VERSION {
            diagnostics.push(format!(
                "codex {version} runs; what it does was measured with {}",
                profile::MEASURED_VERSION
            ));
        }
        match account {
            Ok(Reply::Account { ready, by_account }) => {
                self.learn_sign_in(by_account, &version);
                if !ready {
                    let told = "codex is not signed in; run `codex login` on the host";
                    diagnostics.push(told.to_owned());
                }
            }
            Ok(_) => {}
            Err(error) => diagnostics.push(format!("account/read: {error}")),
        }
        match models {
            Ok(Reply::Models(models)) => self.learn_models(models, &version),
            Ok(_) => {}
            Err(error) => diagnostics.push(format!("model/list: {error}")),
        }
        let incarnation = self.session.incarnation();
        let capabilities = self.capabilities();
        Ok(greeting(incarnation, version, capabilities, diagnostics))
    }

    /// What it offers, as it said just now.
    fn learn_models(&self, models: Vec<OfferedModel>, version: &str) {
        let value = if models.len() > 1 {
            CapabilityValue::Yes
        } else {
            CapabilityValue::No
        };
        let fact = facts::seen(value, version, SystemTime::now());
        lock(&self.session.capabilities).learn(CapabilityFlag::ModelSwitchInSession, fact);
        *lock(&self.models) = models;
    }

    /// Another account may have other models.
    async fn ask_for_models(&self) {
        let flag = CapabilityFlag::ModelSwitchInSession;
        let version = lock(&self.session.capabilities)
            .facts
            .get(&flag)
            .map(|fact| fact.version.clone());
        let models = self.session.call(Call::ModelList, self.deadlines.call);
        match models.await {
            Ok(Reply::Models(models)) => self.learn_models(models, &version.unwrap_or_default()),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "what codex offers now is not known"),
        }
    }

    pub(super) async fn handshake_error(&self, agent: &AgentName, error: &CallError) -> StartError {
        let process = &self.session.process;
        let stderr = process.stderr();
        stderr.finished(Duration::from_millis(500)).await;
        StartError::Handshake {
            agent: agent.clone(),
            problem: match error {
                CallError::Lost => format!("it ended ({})", process.exited().await),
                other => other.to_string(),
            },
            stderr: stderr.tail(STDERR_SHOWN),
        }
    }

    /// What holds for conversations of a directory where nothing is chosen.
    async fn default_in(&self, cwd: &Path) -> Option<Settings> {
        let cwd = cwd.to_owned();
        let configured = self
            .session
            .call(Call::ConfigRead { cwd }, self.deadlines.call);
        match configured.await {
            Ok(Reply::Configured(configured)) => {
                Some(selecting::default_of(configured, &lock(&self.models)))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "codex does not say its default model");
                None
            }
        }
    }

    /// A directory can be looked at only where codex runs on this machine.
    pub(super) fn check_place(&self, cwd: &Path) -> Result<(), OpenError> {
        match &self.session.process {
            AgentProcess::Far(_) => Ok(()),
            AgentProcess::Bound(_) | AgentProcess::Detached(_) => check_place(cwd),
        }
    }

    async fn open(&self, open: OpenThread) -> Result<NativeId, OpenError> {
        self.check_place(&open.cwd)?;
        let permissions = Permissions::from(open.selection.mode);
        let (cwd, model) = (open.cwd.clone(), open.selection.model.clone());
        let Given {
            servers: mcp,
            left_out,
        } = self.mcp.at(&open.cwd);
        let call = match &open.resume {
            None => Call::ThreadStart {
                cwd,
                model,
                permissions,
                mcp,
            },
            Some(thread) => Call::ThreadResume {
                thread: thread.clone(),
                cwd,
                model,
                permissions,
                mcp,
            },
        };
        let subagents = match &open.resume {
            Some(thread) if self.goes_on => self.look_back(thread).await,
            _ => Vec::new(),
        };
        let thread = self
            .load(call, &open.cwd, permissions, open.resume.as_ref())
            .await?;
        self.join(subagents).await;
        lock(&self.session.codec).tell(&thread, left_out);
        Ok(thread)
    }

    /// Makes a call that loads a conversation; `known` is one that has to be there for it.
    pub(super) async fn load(
        &self,
        call: Call,
        cwd: &Path,
        permissions: Permissions,
        known: Option<&NativeId>,
    ) -> Result<NativeId, OpenError> {
        let default = self.default_in(cwd).await;
        match self.session.call(call, self.deadlines.call).await {
            Ok(Reply::Thread(loaded)) => Ok(self.loaded(cwd, permissions, loaded, default)),
            Ok(_) => Err(OpenError::Refused {
                error: RunError {
                    code: ErrorCode::Protocol,
                    message: "codex answered with something else than a conversation".to_owned(),
                },
            }),
            Err(error) => Err(open_error(error, known)),
        }
    }

    /// Compares what was asked for with what codex says is in force; each turn sends policy and sandbox again.
    fn loaded(
        &self,
        cwd: &Path,
        permissions: Permissions,
        loaded: LoadedThread,
        default: Option<Settings>,
    ) -> NativeId {
        let elsewhere = !same_place(cwd, Path::new(&loaded.cwd));
        if loaded.policy != permissions.policy()
            || loaded.sandbox != permissions.sandbox_type()
            || loaded.reviewer != "user"
            || elsewhere
        {
            tracing::warn!(
                thread = %loaded.thread,
                policy = loaded.policy,
                sandbox = loaded.sandbox,
                reviewer = loaded.reviewer,
                cwd = loaded.cwd,
                "codex loaded a conversation with other settings than asked for; the next turn sets them"
            );
        }
        self.note_waiting(loaded.waits);
        let mut threads = lock(&self.threads);
        let known = threads.entry(loaded.thread.clone()).or_default();
        known.cwd = elsewhere.then(|| cwd.to_owned());
        known.default = default;
        known.plans = loaded.plans;
        loaded.thread
    }

    /// Pictures as codex is given them: by their files, or themselves where it cannot read our files.
    async fn pictures(&self, files: Vec<InputFile>) -> Result<Vec<Image>, String> {
        if let AgentProcess::Far(_) = &self.session.process {
            let pictures = picture::encoded(&files, "a codex elsewhere", FAR_PICTURES).await?;
            return Ok(pictures.into_iter().map(Image::Itself).collect());
        }
        // Codex puts words in the place of a picture that it cannot read.
        picture::kinds(&files, "codex").await?;
        let files = files.into_iter();
        Ok(files.map(|file| Image::File(file.path)).collect())
    }

    async fn send(&self, send: SendTurn) -> Result<TurnAccepted, SendError> {
        let refused = |code, message: String| SendError::Refused {
            error: RunError { code, message },
        };
        let images = self
            .pictures(send.attachments)
            .await
            .map_err(|problem| refused(ErrorCode::Agent, problem))?;
        // In the one mode in which nothing can be changed it plans.
        let plans = send.selection.mode == Mode::ReadOnly;
        let Loaded {
            cwd,
            starting,
            default,
            plans: planned,
        } = {
            let mut threads = lock(&self.threads);
            let known = threads.entry(send.thread.clone()).or_default();
            let before = known.clone();
            // Until it is certain that the turn was taken.
            known.plans |= plans;
            before
        };
        let thread = send.thread.clone();
        let _starting = starting.lock().await;
        if self.session.is_over() {
            return Err(refused(
                ErrorCode::RuntimeLost,
                "codex' process has ended; nothing was sent".to_owned(),
            ));
        }
        if lock(&self.session.codec)
            .active_turn(&send.thread)
            .is_some()
        {
            return Err(SendError::Busy);
        }
        let now = lock(&self.session.codec).settings(&send.thread);
        let chosen =
            selecting::chosen(&send.selection, default.as_ref(), &now, &lock(&self.models))
                .map_err(|problem| refused(ErrorCode::Agent, problem))?;
        let model = chosen.model.clone().or(now.model);
        let call = Call::TurnStart {
            thread: send.thread,
            client_id: send.client_id,
            text: send.text,
            images,
            cwd,
            model: chosen.model,
            effort: chosen.effort,
            permissions: Permissions::from(send.selection.mode),
            plans: model
                .filter(|_| plans || planned)
                .map(|model| (plans, model)),
        };
        match self.session.call(call, self.deadlines.call).await {
            Ok(Reply::Turn {
                turn,
                known_before: true,
            }) => Err(SendError::Steered { turn }),
            Ok(Reply::Turn { turn, .. }) => {
                if let Some(known) = lock(&self.threads).get_mut(&thread) {
                    known.plans = plans;
                }
                Ok(TurnAccepted { turn: Some(turn) })
            }
            // It was taken, but as what is not known.
            Ok(_)
            | Err(CallError::Lost | CallError::Timeout { .. } | CallError::Unreadable { .. }) => {
                Err(SendError::Unknown)
            }
            Err(error @ CallError::NoConversation { .. }) => {
                Err(refused(ErrorCode::Resume, error.to_string()))
            }
            Err(error) => Err(refused(ErrorCode::Agent, error.to_string())),
        }
    }

    async fn give(&self, response: Response) -> Result<AnswerDelivery, RespondError> {
        let session = &self.session;
        let line = self.session.answer_line(&response)?;
        let confirmation = session
            .await_resolution(&response.request)
            .ok_or(RespondError::Lost)?;
        let confirm = self.deadlines.confirm;
        match tokio::time::timeout(confirm, session.write(line)).await {
            Ok(Ok(())) => {}
            Ok(Err(())) | Err(_) => return Err(RespondError::Lost),
        }
        match tokio::time::timeout(confirm, confirmation).await {
            Ok(Ok(())) => Ok(AnswerDelivery::Confirmed),
            Ok(Err(_)) => Err(RespondError::Lost),
            // What was written may have got no farther than a dead connection; the next one shows whether it waits still.
            Err(_) if self.session.process.is_far() => Err(RespondError::Lost),
            Err(_) => Ok(AnswerDelivery::Written),
        }
    }

    fn offers(&self, flag: CapabilityFlag) -> bool {
        lock(&self.session.capabilities).value(flag) == CapabilityValue::Yes
    }
}

impl AgentRuntime for CodexRuntime {
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
        self.offers(CapabilityFlag::ActiveSteering)
            .then_some(self as &dyn Steering)
    }

    fn interrupting(&self) -> Option<&dyn Interrupting> {
        self.offers(CapabilityFlag::Interrupt)
            .then_some(self as &dyn Interrupting)
    }

    fn history(&self) -> Option<&dyn History> {
        self.offers(CapabilityFlag::ReadThreadSnapshot)
            .then_some(self as &dyn History)
    }

    fn pending<'r>(&'r self, expected: &'r [NativeId]) -> BoxFuture<'r, Option<Vec<NativeId>>> {
        Box::pin(async { Some(self.asked_again(expected).await) })
    }

    fn reverting(&self) -> Option<&dyn Reverting> {
        self.offers(CapabilityFlag::RollbackThread)
            .then_some(self as &dyn Reverting)
    }

    fn compacting(&self) -> Option<&dyn Compacting> {
        self.offers(CapabilityFlag::CompactOnRequest)
            .then_some(self as &dyn Compacting)
    }

    fn commands<'r>(&'r self, cwd: &'r Path) -> BoxFuture<'r, Vec<OfferedCommand>> {
        Box::pin(async {
            let cwd = cwd.to_owned();
            let call = self
                .session
                .call(Call::SkillsList { cwd }, self.deadlines.call);
            match call.await {
                Ok(Reply::Commands(commands)) => commands,
                _ => Vec::new(),
            }
        })
    }

    fn signing_in(&self) -> Option<&dyn SigningIn> {
        self.offers(CapabilityFlag::SignIn)
            .then_some(self as &dyn SigningIn)
    }

    fn conversations(&self) -> Option<&dyn Conversations> {
        self.offers(CapabilityFlag::ListConversations)
            .then_some(self as &dyn Conversations)
    }

    fn files(&self) -> Option<&dyn FindFiles> {
        Some(self)
    }

    fn models(&self) -> Vec<OfferedModel> {
        lock(&self.models).clone()
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.ask_for_models())
    }

    fn forking(&self) -> Option<&dyn Forking> {
        self.offers(CapabilityFlag::ForkThread)
            .then_some(self as &dyn Forking)
    }
}

/// Codex would start where there is nothing all the same, and fail at every command.
fn check_place(cwd: &Path) -> Result<(), OpenError> {
    if cwd.is_dir() {
        return Ok(());
    }
    Err(OpenError::Refused {
        error: RunError {
            code: ErrorCode::Start,
            message: format!("the workspace {} is not there", cwd.display()),
        },
    })
}

pub(super) fn open_error(error: CallError, thread: Option<&NativeId>) -> OpenError {
    match (error, thread) {
        (CallError::NoConversation { .. }, Some(thread)) => OpenError::NotFound {
            thread: thread.clone(),
        },
        (CallError::Lost, _) => OpenError::Lost,
        (error @ CallError::Timeout { .. }, _) => OpenError::Unanswered {
            error: error.run_error(ErrorCode::Resume),
        },
        (error, Some(_)) => OpenError::Refused {
            error: error.run_error(ErrorCode::Resume),
        },
        (error, None) => OpenError::Refused {
            error: error.run_error(ErrorCode::Start),
        },
    }
}

/// Whether two paths name the same directory.
fn same_place(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
