//! What is asked of a far agent, said as commands on its ledger's threads.

use super::{FarError, mirror::Mirror, runtime::RemoteRuntime};
use crate::{
    contract::{
        Compaction, InputFile, InterruptError, OpenError, OpenThread, RespondError, Response,
        RevertError, Reverted, SendError, SendTurn, Steer, SteerError, TurnAccepted,
    },
    rpc::session::lock,
};
use pilothouse_domain::{
    CommandBody, CommandId, DispatchMode, NativeId, Outcome, ProviderEvent, Refusal, RequestId,
    RequestStatus, RunId, Subject, ThreadId, ThreadState,
    command::NoticeKind,
    event::RollbackOutcome,
    refusal::{StaleWhat, Unfit},
    request::AnswerDelivery,
    run::{ErrorCode, RunError},
    thread::{Attachment, Selection},
};
use std::time::Duration;
use tokio::sync::oneshot;

/// Bytes of rows that a history is read from.
const HISTORY_BYTES: u32 = 256 * 1024;
/// How long the far agent's word about an answer, or about taking back turns, is waited for.
const CONFIRM: Duration = Duration::from_secs(30);
/// What conversations are called there.
pub(super) const TITLE: &str = "Steered from another host";

fn run_error(code: ErrorCode, problem: impl std::fmt::Display) -> RunError {
    RunError {
        code,
        message: problem.to_string(),
    }
}

fn refused(code: ErrorCode, problem: impl std::fmt::Display) -> SendError {
    SendError::Refused {
        error: run_error(code, problem),
    }
}

fn open_refused(code: ErrorCode, problem: impl std::fmt::Display) -> OpenError {
    OpenError::Refused {
        error: run_error(code, problem),
    }
}

fn random_command() -> Result<CommandId, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(CommandId::from_bytes(bytes))
}

/// Whether a thread shows that a run began.
fn begun(state: &ThreadState, run: RunId) -> bool {
    state.active.as_ref().is_some_and(|active| active.id == run)
        || state.last_run.is_some_and(|last| last.id == run)
}

impl RemoteRuntime {
    pub(super) async fn command(
        &self,
        id: CommandId,
        thread: ThreadId,
        body: CommandBody,
    ) -> Result<Outcome, FarError> {
        self.following.adapter.far.command(id, thread, body).await
    }

    pub(super) async fn open(&self, open: OpenThread) -> Result<NativeId, OpenError> {
        if let Some(native) = open.resume {
            let not_found = || OpenError::NotFound {
                thread: native.clone(),
            };
            let thread: ThreadId = native.as_str().parse().map_err(|_| not_found())?;
            return match self.following.follow(thread).await {
                Ok(_) => Ok(native),
                Err(FarError::NotFound(_)) => Err(not_found()),
                Err(FarError::Lost) => Err(OpenError::Lost),
                Err(error @ FarError::Unreachable(_)) => {
                    Err(open_refused(ErrorCode::Resume, error))
                }
            };
        }
        let body = CommandBody::ThreadCreate {
            title: TITLE.to_owned(),
            workspace: self.following.adapter.workspace.clone(),
            selection: self.there(open.selection),
        };
        self.make(body).await
    }

    /// What a thread runs on, as the far ledger names it.
    fn there(&self, selection: Selection) -> Selection {
        Selection {
            agent: self.following.adapter.agent.clone(),
            ..selection
        }
    }

    /// Makes a thread there and follows it.
    pub(super) async fn make(&self, body: CommandBody) -> Result<NativeId, OpenError> {
        let id = random_command().map_err(|problem| open_refused(ErrorCode::Start, problem))?;
        let thread: ThreadId = id.derive("thread");
        match self.command(id, thread, body).await {
            Ok(Outcome::Accepted { .. }) => {}
            Ok(Outcome::Refused { refusal }) => {
                return Err(open_refused(ErrorCode::Start, refusal));
            }
            Err(FarError::Lost) => return Err(OpenError::Lost),
            Err(error) => return Err(open_refused(ErrorCode::Start, error)),
        }
        self.following
            .follow(thread)
            .await
            .map_err(|error| match error {
                FarError::Lost => OpenError::Lost,
                error => open_refused(ErrorCode::Start, error),
            })?;
        Ok(NativeId(thread.to_string()))
    }

    pub(super) async fn send(&self, send: SendTurn) -> Result<TurnAccepted, SendError> {
        let no_thread = || refused(ErrorCode::Resume, "the conversation is not loaded");
        let followed = self
            .following
            .followed(&send.thread)
            .ok_or_else(no_thread)?;
        let state = followed.state().ok_or_else(no_thread)?;
        if state.active.is_some() {
            return Err(SendError::Busy);
        }
        self.select(&state, &send.selection).await?;
        let attachments = self.attach_files(send.attachments).await?;
        let id = random_command().map_err(|problem| refused(ErrorCode::Agent, problem))?;
        lock(&followed.mirror).say(id.derive("message"), send.client_id);
        let body = CommandBody::MessageSend {
            text: send.text,
            attachments,
            dispatch: DispatchMode::StartImmediately,
            accept_stop: Vec::new(),
        };
        let run: RunId = id.derive("run");
        match self.command(id, state.thread, body).await {
            Ok(Outcome::Accepted { notice, .. }) => {
                let queued = notice
                    .is_some_and(|notice| matches!(notice.what, NoticeKind::QueuedInstead { .. }));
                if queued {
                    self.take_back(state.thread, run, state.queue_revision + 1)
                        .await;
                    return Err(SendError::Busy);
                }
                followed.shows(|state| begun(state, run)).await;
                Ok(TurnAccepted {
                    turn: Some(NativeId(run.to_string())),
                })
            }
            Ok(Outcome::Refused { refusal }) => Err(refused(ErrorCode::Agent, refusal)),
            Err(FarError::Lost) => Err(SendError::Unknown),
            Err(error) => Err(refused(ErrorCode::Agent, error)),
        }
    }

    /// Takes a message out of the far queue: the one that waits is the ledger's here.
    pub(super) async fn take_back(&self, thread: ThreadId, run: RunId, mut revision: u64) {
        for _ in 0..3 {
            let Ok(id) = random_command() else { return };
            let body = CommandBody::QueueRemove { run, revision };
            match self.command(id, thread, body).await {
                Ok(Outcome::Refused {
                    refusal:
                        Refusal::Stale {
                            what: StaleWhat::QueueRevision { now },
                        },
                }) => revision = now,
                _ => return,
            }
        }
    }

    /// Chooses what the next turn runs on, if that is something else.
    pub(super) async fn select(
        &self,
        state: &ThreadState,
        wanted: &Selection,
    ) -> Result<(), SendError> {
        let same = state.meta.as_ref().is_some_and(|meta| {
            let now = &meta.selection;
            (&now.model, &now.effort, now.mode) == (&wanted.model, &wanted.effort, wanted.mode)
        });
        if same {
            return Ok(());
        }
        let id = random_command().map_err(|problem| refused(ErrorCode::Agent, problem))?;
        let body = CommandBody::ThreadSelect {
            model: wanted.model.clone(),
            effort: wanted.effort.clone(),
            mode: wanted.mode,
        };
        match self.command(id, state.thread, body).await {
            Ok(Outcome::Accepted { .. }) => Ok(()),
            Ok(Outcome::Refused { refusal }) => Err(refused(ErrorCode::Agent, refusal)),
            Err(error) => Err(refused(ErrorCode::Agent, error)),
        }
    }

    pub(super) async fn attach_files(
        &self,
        files: Vec<InputFile>,
    ) -> Result<Vec<Attachment>, SendError> {
        let mut attachments = Vec::with_capacity(files.len());
        for file in files {
            let unread = |error: &dyn std::fmt::Display| {
                refused(
                    ErrorCode::Agent,
                    format!("`{}` cannot be sent: {error}", file.name),
                )
            };
            let bytes = tokio::fs::read(&file.path)
                .await
                .map_err(|error| unread(&error))?;
            let size = bytes.len() as u64;
            let kept = self.following.adapter.far.keep(bytes).await;
            let hash = kept.map_err(|error| unread(&error))?;
            attachments.push(Attachment {
                name: file.name,
                media_type: file.media_type,
                hash,
                bytes: size,
            });
        }
        Ok(attachments)
    }

    pub(super) async fn put_in(&self, steer: Steer) -> Result<(), SteerError> {
        let refused = |problem: &dyn std::fmt::Display| SteerError::Refused {
            error: run_error(ErrorCode::Agent, problem),
        };
        let (Some(followed), Ok(run)) = (
            self.following.followed(&steer.thread),
            steer.turn.as_str().parse::<RunId>(),
        ) else {
            return Err(SteerError::TurnEnded);
        };
        let Some(state) = followed.state() else {
            return Err(SteerError::TurnEnded);
        };
        // The far ledger would keep the message in its queue: that is the ledger's here.
        if state.active.is_none_or(|active| active.id != run) {
            return Err(SteerError::TurnEnded);
        }
        let id = random_command().map_err(|problem| refused(&problem))?;
        lock(&followed.mirror).say(id.derive("message"), steer.client_id);
        let body = CommandBody::MessageSend {
            text: steer.text,
            attachments: Vec::new(),
            dispatch: DispatchMode::SteerActive { run },
            accept_stop: Vec::new(),
        };
        match self.command(id, state.thread, body).await {
            Ok(Outcome::Accepted { .. }) => Ok(()),
            Ok(Outcome::Refused {
                refusal: Refusal::TurnEnded { .. },
            }) => {
                let kept = id.derive("run");
                self.take_back(state.thread, kept, state.queue_revision + 1)
                    .await;
                Err(SteerError::TurnEnded)
            }
            Ok(Outcome::Refused { refusal }) => Err(refused(&refusal)),
            Err(FarError::Lost) => Err(SteerError::Unknown),
            Err(error) => Err(refused(&error)),
        }
    }

    pub(super) async fn stop_turn(
        &self,
        thread: NativeId,
        turn: NativeId,
    ) -> Result<(), InterruptError> {
        let state = self
            .following
            .followed(&thread)
            .and_then(|followed| followed.state());
        let active = state.and_then(|state| Some((state.thread, state.active?)));
        let Some((thread, active)) = active else {
            return Err(InterruptError::TurnEnded);
        };
        if active.id.to_string() != turn.0 {
            return Err(InterruptError::TurnEnded);
        }
        let not_taken = |problem: String| InterruptError::NotTaken { problem };
        let Some(attempt) = active.attempt else {
            return Err(not_taken("it is between two attempts".to_owned()));
        };
        let body = CommandBody::RunInterrupt {
            run: active.id,
            attempt: attempt.id,
            hold_queue: false,
        };
        let id = random_command().map_err(not_taken)?;
        match self.command(id, thread, body).await {
            Ok(Outcome::Accepted { .. }) => Ok(()),
            Ok(Outcome::Refused {
                refusal: Refusal::TurnEnded { .. },
            }) => Err(InterruptError::TurnEnded),
            Ok(Outcome::Refused { refusal }) => Err(not_taken(refusal.to_string())),
            Err(FarError::Lost) => Err(InterruptError::Lost),
            Err(error) => Err(not_taken(error.to_string())),
        }
    }

    pub(super) async fn give(&self, response: Response) -> Result<AnswerDelivery, RespondError> {
        let request = response.request.as_str().parse::<RequestId>();
        let request = request.map_err(|_| RespondError::NotPending)?;
        let followed = self.following.asking(request);
        let followed = followed.ok_or(RespondError::NotPending)?;
        let asked = lock(&followed.mirror).request(request).cloned();
        let asked = asked.ok_or(RespondError::NotPending)?;
        // Only what was shown here is answered there.
        let mut now: Subject = pilothouse_json::from_str(&asked.subject).unwrap_or_default();
        self.following.fetch_changes(&mut now).await;
        if asked.kind != response.kind || now != response.subject {
            return Err(RespondError::NotPending);
        }
        let unfit = |problem: String| RespondError::Unfit { problem };
        let id = random_command().map_err(unfit)?;
        let (waiter, confirmed) = oneshot::channel();
        lock(&followed.waiting).answers.insert(request, waiter);
        let body = CommandBody::RequestAnswer {
            request,
            content_hash: asked.content_hash,
            answer: response.answer,
        };
        let thread = followed.state().map(|state| state.thread);
        let thread = thread.ok_or(RespondError::NotPending)?;
        match self.command(id, thread, body).await {
            Ok(Outcome::Accepted { .. }) => {}
            Ok(Outcome::Refused { refusal }) => {
                return Err(match refusal {
                    Refusal::Invalid { .. } | Refusal::Forbidden { .. } => {
                        unfit(refusal.to_string())
                    }
                    _ => RespondError::NotPending,
                });
            }
            Err(FarError::Unreachable(problem)) => return Err(unfit(problem)),
            Err(_) => return Err(RespondError::Lost),
        }
        match tokio::time::timeout(CONFIRM, confirmed).await {
            Ok(Ok(RequestStatus::Answered { delivery, .. })) => Ok(delivery),
            Ok(_) => Err(RespondError::Lost),
            Err(_) => Ok(AnswerDelivery::Written),
        }
    }

    pub(super) async fn read_back(
        &self,
        thread: NativeId,
        turns: u32,
    ) -> Result<Vec<ProviderEvent>, OpenError> {
        let not_found = || OpenError::NotFound {
            thread: thread.clone(),
        };
        let id: ThreadId = thread.as_str().parse().map_err(|_| not_found())?;
        let (state, rows) = self
            .following
            .adapter
            .far
            .look(id, HISTORY_BYTES)
            .await
            .map_err(|error| match error {
                FarError::NotFound(_) => not_found(),
                FarError::Lost => OpenError::Lost,
                error => open_refused(ErrorCode::Resume, error),
            })?;
        let mut events = match self.following.followed(&thread) {
            Some(followed) => lock(&followed.mirror).history(&rows, turns),
            None => Mirror::new(state.thread).history(&rows, turns),
        };
        for event in &mut events {
            self.following.fetch(event).await;
        }
        Ok(events)
    }

    pub(super) async fn forget_from(
        &self,
        thread: NativeId,
        from: NativeId,
    ) -> Result<Reverted, RevertError> {
        let refused = |problem: &dyn std::fmt::Display| RevertError::Refused {
            error: run_error(ErrorCode::Agent, problem),
        };
        let followed = self
            .following
            .followed(&thread)
            .ok_or_else(|| refused(&"the conversation is not loaded"))?;
        let (Some(state), Ok(before)) = (followed.state(), from.as_str().parse::<RunId>()) else {
            return Ok(Reverted::NotThere);
        };
        let Some(last) = state.last_run else {
            return Ok(Reverted::NotThere);
        };
        let id = random_command().map_err(|problem| refused(&problem))?;
        let (waiter, done) = oneshot::channel();
        lock(&followed.waiting).rollback = Some(waiter);
        let body = CommandBody::ThreadRollback {
            before,
            last: last.id,
        };
        match self.command(id, state.thread, body).await {
            Ok(Outcome::Accepted { .. }) => {}
            Ok(Outcome::Refused { refusal }) => {
                return match refusal {
                    Refusal::UnknownRun { .. }
                    | Refusal::UnfitRun {
                        unfit: Unfit::RolledBack,
                        ..
                    } => Ok(Reverted::NotThere),
                    Refusal::Busy { .. }
                    | Refusal::UnfitRun {
                        unfit: Unfit::GoesOn,
                        ..
                    } => Err(RevertError::Busy),
                    refusal => Err(refused(&refusal)),
                };
            }
            Err(FarError::Unreachable(problem)) => return Err(refused(&problem)),
            Err(_) => return Err(RevertError::Unknown),
        }
        match tokio::time::timeout(CONFIRM, done).await {
            Ok(Ok(RollbackOutcome::Applied { .. })) => Ok(Reverted::Forgotten),
            Ok(Ok(RollbackOutcome::Refused { error })) => Err(RevertError::Refused { error }),
            Ok(Err(_)) | Err(_) => Err(RevertError::Unknown),
        }
    }

    pub(super) async fn shorten(&self, thread: NativeId) -> Result<Compaction, SendError> {
        let no_thread = || refused(ErrorCode::Resume, "the conversation is not loaded");
        let followed = self.following.followed(&thread).ok_or_else(no_thread)?;
        let state = followed.state().ok_or_else(no_thread)?;
        if state.active.is_some() {
            return Err(SendError::Busy);
        }
        let id = random_command().map_err(|problem| refused(ErrorCode::Agent, problem))?;
        let run: RunId = id.derive("run");
        match self
            .command(id, state.thread, CommandBody::ThreadCompact)
            .await
        {
            Ok(Outcome::Accepted { .. }) => {
                followed.shows(|state| begun(state, run)).await;
                Ok(Compaction::Turn {
                    turn: Some(NativeId(run.to_string())),
                })
            }
            Ok(Outcome::Refused { refusal }) => Err(refused(ErrorCode::Agent, refusal)),
            Err(FarError::Lost) => Err(SendError::Unknown),
            Err(error) => Err(refused(ErrorCode::Agent, error)),
        }
    }
}
