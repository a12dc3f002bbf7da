//! The effect runner: does what the writer committed, one effect after another per thread, and brings the outcome back.
//!
//! The steps of an interrupt beyond the protocol's run beside it, because the turn they wait for may never end.

use crate::{
    escalation, files,
    plan::{Conversation, ForkPlan, OpenPlan, Plan, SendPlan},
    runtimes::{Running, Runtimes, SessionFacts, session_event},
    work::{Changed, Foreign, Past},
    writer::Job,
};
use futures_util::FutureExt;
use pilothouse_domain::{
    Effect, EffectKind, EffectOutcome, NativeId, ProviderEvent, ProviderEventKind, ThreadId,
    request::AnswerDelivery,
    run::{ErrorCode, RunError},
};
use pilothouse_providers::contract::{
    ForkThread, History, InterruptError, OpenError, OpenThread, RespondError, Response, SendError,
    SendTurn, Steer, SteerError,
};
use std::{
    collections::BTreeMap, panic::AssertUnwindSafe, path::PathBuf, sync::Arc, time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Turns that are read back when a conversation is resumed.
pub(crate) const HISTORY_TURNS: u32 = 8;

/// How long an interrupt waits for the effects before it. A turn that is just being started is named within this time;
/// an agent that does not answer at all must be stoppable all the same.
const OVERTAKE_AFTER: Duration = Duration::from_secs(3);

/// Hands effects to their threads' runners.
pub(crate) struct EffectRunner {
    runtimes: Arc<Runtimes>,
    jobs: mpsc::WeakSender<Job>,
    runtime: tokio::runtime::Handle,
    /// The ledger's directory, where files of messages are laid out.
    dir: PathBuf,
    threads: BTreeMap<ThreadId, mpsc::UnboundedSender<Step>>,
}

/// A step of a thread's runner.
enum Step {
    /// Do this.
    Do(Effect),
    /// Say what the agent can do now.
    Look(Changed),
    /// Say that everything before was done.
    Passed(oneshot::Sender<()>),
}

impl EffectRunner {
    pub(crate) fn new(
        runtimes: Arc<Runtimes>,
        jobs: mpsc::WeakSender<Job>,
        runtime: tokio::runtime::Handle,
        dir: PathBuf,
    ) -> Self {
        Self {
            runtimes,
            jobs,
            runtime,
            dir,
            threads: BTreeMap::new(),
        }
    }

    /// Says what a thread's agent can do now, after the effects of the thread before.
    pub(crate) fn look_again(&mut self, changed: Changed) {
        let (_, queue) = self.lane(changed.thread);
        let _ = queue.send(Step::Look(changed));
    }

    fn lane(&mut self, thread: ThreadId) -> (Lane, &mpsc::UnboundedSender<Step>) {
        self.threads.retain(|_, queue| !queue.is_closed());
        let lane = Lane {
            thread,
            runtimes: Arc::clone(&self.runtimes),
            jobs: self.jobs.clone(),
            dir: self.dir.clone(),
        };
        let queue = self.threads.entry(thread).or_insert_with(|| {
            let (queue, inbox) = mpsc::unbounded_channel();
            self.runtime.spawn(lane.clone().run(inbox));
            queue
        });
        (lane, queue)
    }

    /// Does an effect after those of its thread before it; an interrupt does not wait for ever.
    pub(crate) fn dispatch(&mut self, thread: ThreadId, effect: Effect) {
        let runtime = self.runtime.clone();
        let (lane, queue) = self.lane(thread);
        // The lane ends only with the ledger; then the effect stays unfinished on disk and is marked at the next boot.
        if matches!(effect.kind, EffectKind::Interrupt { .. }) {
            let (passed, before) = oneshot::channel();
            let _ = queue.send(Step::Passed(passed));
            runtime.spawn(lane.overtake(effect, before));
        } else {
            let _ = queue.send(Step::Do(effect));
        }
    }
}

/// The effects of one thread, in order.
#[derive(Clone)]
pub(crate) struct Lane {
    thread: ThreadId,
    pub(crate) runtimes: Arc<Runtimes>,
    jobs: mpsc::WeakSender<Job>,
    dir: PathBuf,
}

/// What came of an effect, and in which session.
pub(crate) struct Done {
    pub(crate) session: Option<SessionFacts>,
    pub(crate) outcome: EffectOutcome,
}

impl Lane {
    async fn run(self, mut inbox: mpsc::UnboundedReceiver<Step>) {
        while let Some(step) = inbox.recv().await {
            match step {
                Step::Do(effect) => {
                    self.runtimes.settled(self.thread).await;
                    if self.complete(effect).await.is_none() {
                        return;
                    }
                }
                Step::Passed(passed) => {
                    let _ = passed.send(());
                }
                Step::Look(changed) => self.look(changed).await,
            }
        }
    }

    /// Does an interrupt after the effects before it, or before they are done if that takes too long. Only an agent that
    /// is still being started is waited for: there is nothing yet that could be stopped.
    async fn overtake(self, effect: Effect, mut before: oneshot::Receiver<()>) -> Option<()> {
        self.runtimes.settled(self.thread).await;
        let passed = tokio::time::timeout(OVERTAKE_AFTER, &mut before)
            .await
            .is_ok();
        let mut plan = self.plan(&effect).await?;
        if !passed && matches!(plan, Plan::NotYet) {
            let _ = before.await;
            plan = self.plan(&effect).await?;
        }
        self.finish(effect, plan).await
    }

    /// Does an effect and brings its outcome back; `None` when the ledger is closed.
    async fn complete(&self, effect: Effect) -> Option<()> {
        let plan = self.plan(&effect).await?;
        self.finish(effect, plan).await
    }

    async fn plan(&self, effect: &Effect) -> Option<Plan> {
        self.ask(|reply| Job::Plan {
            thread: self.thread,
            effect: effect.clone(),
            reply,
        })
        .await
    }

    async fn finish(&self, effect: Effect, plan: Plan) -> Option<()> {
        // A fault in an adapter costs one effect, whose outcome is then not known.
        let done = AssertUnwindSafe(self.perform(plan)).catch_unwind().await;
        let Done { session, outcome } = done.unwrap_or_else(|_| {
            tracing::error!(thread = %self.thread, "an adapter failed on an effect");
            Done {
                session: None,
                outcome: EffectOutcome::Unknown,
            }
        });
        let job = Job::Outcome {
            thread: self.thread,
            effect,
            session,
            outcome,
        };
        self.jobs.upgrade()?.send(job).await.ok()
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.jobs.upgrade()?.send(job(reply)).await.ok()?;
        answer.await.ok()
    }

    async fn perform(&self, plan: Plan) -> Done {
        match plan {
            Plan::Send(send) => self.send(send).await,
            Plan::Steer {
                incarnation,
                thread,
                turn,
                message,
                text,
            } => {
                let Some(running) = self.runtimes.find(incarnation).await else {
                    return Done {
                        session: None,
                        outcome: EffectOutcome::TurnEnded,
                    };
                };
                let Some(steering) = running.runtime.steering() else {
                    return failed(
                        Some(&running),
                        ErrorCode::Agent,
                        "the agent cannot be steered",
                    );
                };
                let steer = Steer {
                    thread,
                    turn,
                    client_id: message.to_string(),
                    text,
                };
                let outcome = match steering.steer(steer).await {
                    Ok(()) => EffectOutcome::Steered,
                    Err(SteerError::TurnEnded) => EffectOutcome::TurnEnded,
                    Err(SteerError::Refused { error }) => EffectOutcome::Failed { error },
                    Err(SteerError::Unknown) => EffectOutcome::Unknown,
                };
                Done {
                    session: Some(running.facts()),
                    outcome,
                }
            }
            Plan::Interrupt {
                incarnation,
                turn,
                run,
                attempt,
            } => {
                // The turn ends with the agent's process; where a connection is made anew, the stop is asked for again over it.
                let Some(running) = self.runtimes.find(incarnation).await else {
                    return Done {
                        session: None,
                        outcome: EffectOutcome::Written,
                    };
                };
                let taken = match (running.runtime.interrupting(), turn) {
                    (Some(interrupting), Some((thread, turn))) => {
                        interrupting.interrupt(thread, turn).await
                    }
                    (None, _) => Err(InterruptError::NotTaken {
                        problem: "it offers none".into(),
                    }),
                    // The steps that need no turn are left: an agent that answers nothing must not run for ever.
                    (_, None) => Err(InterruptError::NotTaken {
                        problem: "it has not said which turn it is".into(),
                    }),
                };
                let gone = matches!(taken, Err(InterruptError::Lost));
                let outcome = match taken {
                    Ok(()) => EffectOutcome::Acknowledged,
                    Err(InterruptError::TurnEnded) => EffectOutcome::TurnEnded,
                    Err(InterruptError::Lost) => EffectOutcome::Written,
                    Err(InterruptError::NotTaken { problem }) => EffectOutcome::Failed {
                        error: RunError {
                            code: ErrorCode::Agent,
                            message: problem,
                        },
                    },
                };
                let session = running.facts();
                // Also where the agent says that the turn is over: if it is not, the steps go on; if it is, the first says so.
                if !gone {
                    let watch = escalation::Watch {
                        thread: self.thread,
                        run,
                        attempt,
                        running,
                        runtimes: Arc::clone(&self.runtimes),
                    };
                    tokio::spawn(watch.run(self.jobs.clone()));
                }
                Done {
                    session: Some(session),
                    outcome,
                }
            }
            Plan::Respond {
                incarnation,
                thread,
                native,
                kind,
                subject,
                answer,
            } => {
                let Some(running) = self.runtimes.find(incarnation).await else {
                    return Done {
                        session: None,
                        outcome: EffectOutcome::Unknown,
                    };
                };
                let response = Response {
                    thread,
                    request: native,
                    kind,
                    subject: *subject,
                    answer,
                };
                let outcome = match running.runtime.respond(response).await {
                    Ok(AnswerDelivery::Confirmed) => EffectOutcome::Acknowledged,
                    Ok(AnswerDelivery::Written | AnswerDelivery::Inferred) => {
                        EffectOutcome::Written
                    }
                    Err(RespondError::Lost) => EffectOutcome::Unknown,
                    Err(error) => EffectOutcome::Failed {
                        error: RunError {
                            code: ErrorCode::Agent,
                            message: error.to_string(),
                        },
                    },
                };
                Done {
                    session: Some(running.facts()),
                    outcome,
                }
            }
            Plan::Revert { open, turns } => self.revert(open, turns).await,
            Plan::Import { open, again } => self.import(open, again).await,
            Plan::Compact(open) => self.compact(open).await,
            Plan::SignIn(open) => self.sign_in(open).await,
            Plan::Impossible { problem } => failed(None, ErrorCode::Start, &problem),
            Plan::NotYet | Plan::Gone => Done {
                session: None,
                outcome: EffectOutcome::TurnEnded,
            },
        }
    }

    async fn send(&self, plan: SendPlan) -> Done {
        let attachments = match files::lay_out(self.dir.clone(), plan.attachments).await {
            Ok(attachments) => attachments,
            Err(problem) => return failed(None, ErrorCode::Start, &problem),
        };
        let (running, native) = match self.open(&plan.open).await {
            Ok(opened) => opened,
            Err(done) => return done,
        };
        let turn = SendTurn {
            thread: native.clone(),
            client_id: plan.message.to_string(),
            text: plan.text,
            attachments,
            selection: plan.open.selection,
        };
        let outcome = match running.runtime.send_turn(turn).await {
            Ok(accepted) => EffectOutcome::TurnAccepted {
                native_thread: native,
                native_turn: accepted.turn,
            },
            Err(error) => not_sent(error),
        };
        Done {
            session: Some(running.facts()),
            outcome,
        }
    }

    /// Has the thread's agent running and its conversation loaded.
    pub(crate) async fn open(&self, plan: &OpenPlan) -> Result<(Arc<Running>, NativeId), Done> {
        let opens = OpenThread {
            resume: plan.conversation.as_ref().map(|known| known.native.clone()),
            cwd: plan.cwd.clone(),
            selection: plan.selection.clone(),
        };
        let agent = &plan.selection.agent;
        let running = self
            .runtimes
            .ensure(agent, &plan.workspace, self.thread, opens)
            .await
            .map_err(|error| failed(None, ErrorCode::Start, &error.to_string()))?;
        if plan.session != Some(running.facts.incarnation)
            && !self.introduce(&running, &plan.selection, true).await
        {
            return Err(closing(&running));
        }
        let native = self.conversation(&running, plan).await?;
        if plan.session != Some(running.facts.incarnation) {
            self.ask_for_commands(&running, plan.cwd.clone(), native.clone());
        }
        Ok((running, native))
    }

    /// The conversation to work in: the thread's own, resumed if this process has not loaded it, a copy of the one that it
    /// was forked from, or a new one.
    async fn conversation(
        &self,
        running: &Arc<Running>,
        plan: &OpenPlan,
    ) -> Result<NativeId, Done> {
        let known = plan.conversation.as_ref();
        if let Some(Conversation { native, .. }) =
            known.filter(|known| running.has_opened(&known.native))
        {
            return Ok(native.clone());
        }
        let opened = match &plan.fork {
            Some(fork) => self.copy(running, plan, fork).await?,
            None => self.load(running, plan).await,
        };
        let native = opened.map_err(|error| match error {
            OpenError::NotFound { .. } if plan.fork.is_some() => failed(
                Some(running),
                ErrorCode::Resume,
                "the agent no longer has the conversation that this one was forked from; start a new thread",
            ),
            OpenError::NotFound { .. } => failed(
                Some(running),
                ErrorCode::Resume,
                "the agent no longer has this conversation; start a new thread to go on",
            ),
            OpenError::Refused { error } | OpenError::Unanswered { error } => Done {
                session: Some(running.facts()),
                outcome: EffectOutcome::Failed { error },
            },
            OpenError::Lost => failed(
                Some(running),
                ErrorCode::RuntimeLost,
                "the agent's process ended",
            ),
        })?;
        running.note_opened(native.clone());
        if !self
            .tell(
                running,
                session_event(ProviderEventKind::ThreadBound, Some(native.clone())),
            )
            .await
        {
            return Err(closing(running));
        }
        // Also one that has seen no run as far as the log knows: the message that was on its way may be there.
        if known.is_some_and(|known| known.native == native) {
            self.compare_history(running, &native).await;
        }
        Ok(native)
    }

    /// Resumes the thread's own conversation, or starts one.
    async fn load(&self, running: &Arc<Running>, plan: &OpenPlan) -> Result<NativeId, OpenError> {
        let known = plan.conversation.as_ref();
        let open = |resume: Option<NativeId>| OpenThread {
            resume,
            cwd: plan.cwd.clone(),
            selection: plan.selection.clone(),
        };
        let mut opened = running
            .runtime
            .open_thread(open(known.map(|known| known.native.clone())))
            .await;
        // A conversation that never saw a message is often not kept by its agent: nothing is lost by a new one.
        if known.is_some_and(|known| !known.has_history)
            && matches!(opened, Err(OpenError::NotFound { .. }))
        {
            opened = running.runtime.open_thread(open(None)).await;
            // Nor is any message that was on its way into it.
            if let Some(Conversation { native, .. }) = known.filter(|_| opened.is_ok()) {
                self.compare_with(running, native, Vec::new(), HISTORY_TURNS, Foreign::No)
                    .await;
            }
        }
        opened
    }

    /// Has the agent copy the conversation that the thread was forked from. If the host dies before the copy is bound, the
    /// next try makes another, and the agent keeps one that nobody uses.
    async fn copy(
        &self,
        running: &Arc<Running>,
        plan: &OpenPlan,
        fork: &ForkPlan,
    ) -> Result<Result<NativeId, OpenError>, Done> {
        let Some(forking) = running.runtime.forking() else {
            return Err(failed(
                Some(running),
                ErrorCode::Agent,
                "the agent as it runs now cannot copy a conversation; make a new thread",
            ));
        };
        let Some(source) = fork.source.clone() else {
            return Err(failed(
                Some(running),
                ErrorCode::Resume,
                "nothing is known any more of what this thread was forked from; make a new thread",
            ));
        };
        let fork = ForkThread {
            source,
            through: fork.through.clone(),
            whole: fork.whole,
            cwd: plan.cwd.clone(),
            selection: plan.selection.clone(),
        };
        Ok(forking.fork(fork).await)
    }

    /// Reads back what happened while nobody listened. A conversation that cannot be read goes on all the same.
    async fn compare_history(&self, running: &Running, native: &NativeId) {
        let Some(history) = running.runtime.history() else {
            return;
        };
        match history.read(native.clone(), HISTORY_TURNS).await {
            Ok(events) => {
                self.compare_with(running, native, events, HISTORY_TURNS, Foreign::No)
                    .await;
            }
            Err(error) => {
                tracing::warn!(%error, thread = %self.thread, "a resumed conversation could not be read back");
            }
        }
    }

    /// Brings the last turns of a conversation to the writer. `false`: it wants more of them.
    pub(crate) async fn compare_with(
        &self,
        running: &Running,
        native: &NativeId,
        events: Vec<ProviderEvent>,
        turns: u32,
        foreign: Foreign,
    ) -> bool {
        let session = running.facts();
        let past = Past {
            conversation: native.clone(),
            events,
            turns,
            foreign,
            proves_absence: running
                .runtime
                .history()
                .is_some_and(History::proves_absence),
        };
        self.ask(|reply| Job::History {
            thread: self.thread,
            session,
            past,
            reply,
        })
        .await
        .unwrap_or(true)
    }

    /// Brings an event to the writer and waits until it is in the log.
    pub(crate) async fn tell(&self, running: &Running, event: ProviderEvent) -> bool {
        let session = running.facts();
        self.ask(|reply| Job::Session {
            thread: self.thread,
            session,
            event: Box::new(event),
            reply,
        })
        .await
        .is_some_and(|written| written)
    }
}

/// What came of a turn that was not taken as one.
pub(crate) fn not_sent(error: SendError) -> EffectOutcome {
    match error {
        SendError::Steered { .. } => EffectOutcome::Steered,
        SendError::Busy => EffectOutcome::Failed {
            error: RunError {
                code: ErrorCode::Agent,
                message: error.to_string(),
            },
        },
        SendError::Refused { error } => EffectOutcome::Failed { error },
        SendError::Unknown => EffectOutcome::Unknown,
    }
}

fn closing(running: &Running) -> Done {
    failed(Some(running), ErrorCode::Start, "the ledger is closing")
}

pub(crate) fn failed(running: Option<&Running>, code: ErrorCode, message: &str) -> Done {
    Done {
        session: running.map(Running::facts),
        outcome: EffectOutcome::Failed {
            error: RunError {
                code,
                message: message.into(),
            },
        },
    }
}
