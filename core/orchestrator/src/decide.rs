//! `decide`: a person's command, checked against the state and turned into facts and effects. Every refusal is typed;
//! nothing is half done.

use crate::{
    Decision, LookupKeys, Lookups, Verdict,
    answer::{self, check_message},
    degrade::{self, Feature, Service, running_tools},
    draft::{Draft, Start, StartIds},
};
use pilothouse_domain::{
    AttemptId, Command, CommandBody, DispatchMode, EffectKind, Event, ItemContent, ItemId,
    ItemStatus, MessageId, Policy, Refusal, RunId, ThreadState,
    command::{Notice, NoticeKind, Scope},
    event::{HoldReason, QueuePlace},
    item::Body,
    limits,
    refusal::StaleWhat,
    run::{AttemptReason, Origin},
    state::{ActiveRun, Cap},
    thread::{Actor, Attachment, ConversationMessage, Delivery, Lifecycle, Role},
};

/// What `decide` needs besides the state.
pub fn lookups(state: &ThreadState, command: &Command) -> LookupKeys {
    let mut keys = LookupKeys::default();
    match &command.body {
        CommandBody::RequestAnswer { request, .. } => keys.request = Some(*request),
        CommandBody::RunInterrupt { run, .. } | CommandBody::QueueRemove { run, .. } => {
            keys.run = Some(*run);
        }
        CommandBody::MessageSend {
            dispatch: DispatchMode::SteerActive { run } | DispatchMode::RestartActive { run },
            ..
        } => keys.run = Some(*run),
        CommandBody::ThreadFork { source, run, .. } => keys.source = Some((*source, *run)),
        CommandBody::ThreadImport { conversation, .. } => keys.conversation = Some(*conversation),
        CommandBody::ThreadRollback { before, .. } => keys.rollback = Some(*before),
        CommandBody::ThreadSelect { .. } => {
            keys.session = state.session.as_ref().map(|session| session.id);
        }
        CommandBody::ThreadCreate { .. }
        | CommandBody::ThreadCompact
        | CommandBody::ThreadSignIn
        | CommandBody::MessageSend { .. }
        | CommandBody::QueueRelease { .. } => {}
    }
    keys
}

/// Decides a command.
///
/// `actor` is who sent it; scopes are checked by the ledger, in the same transaction, before this is asked.
pub fn decide(
    state: &ThreadState,
    lookups: &Lookups,
    actor: Actor,
    command: &Command,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    if let Some(reason) = &state.read_only {
        return Err(Refusal::ReadOnly {
            reason: reason.clone(),
        });
    }
    let mut deciding = Deciding {
        draft: Draft::on(state),
        lookups,
        actor,
        command,
        policy,
    };
    let verdict = match &command.body {
        CommandBody::ThreadCreate {
            title,
            workspace,
            selection,
        } => deciding.create(title, workspace, selection)?,
        CommandBody::ThreadFork {
            title,
            source,
            run,
            workspace,
        } => deciding.fork(title, *source, *run, *workspace)?,
        CommandBody::ThreadImport {
            title,
            workspace,
            selection,
            conversation,
        } => deciding.import(title, workspace, selection, *conversation)?,
        body => {
            deciding.check_thread()?;
            deciding.in_thread(body)?
        }
    };
    deciding.draft.settle();
    Ok(Decision {
        events: deciding.draft.events,
        effects: deciding.draft.effects,
        verdict,
    })
}

pub(crate) struct Deciding<'a> {
    pub(crate) draft: Draft<'a>,
    pub(crate) lookups: &'a Lookups,
    pub(crate) actor: Actor,
    pub(crate) command: &'a Command,
    pub(crate) policy: &'a Policy,
}

pub(crate) fn busy(what: &str) -> Refusal {
    Refusal::Busy {
        what: what.to_owned(),
    }
}

pub(crate) fn accepted() -> Verdict {
    Verdict::Accepted { notice: None }
}

pub(crate) fn invalid(field: &str, problem: impl Into<String>) -> Refusal {
    Refusal::Invalid {
        field: field.to_owned(),
        problem: problem.into(),
    }
}

impl Deciding<'_> {
    fn check_thread(&self) -> Result<(), Refusal> {
        let unknown = Refusal::UnknownThread {
            thread: self.command.thread,
        };
        match &self.draft.state.meta {
            _ if self.command.thread != self.draft.state.thread => Err(unknown),
            None => Err(unknown),
            Some(meta) => match meta.lifecycle {
                Lifecycle::Active => self.check_sandbox(&meta.selection),
                Lifecycle::Deleted => Err(unknown),
                // What was asked before it was put away can still be answered and stopped.
                Lifecycle::Archived => match self.command.body {
                    CommandBody::MessageSend { .. }
                    | CommandBody::ThreadRollback { .. }
                    | CommandBody::ThreadSelect { .. }
                    | CommandBody::ThreadCompact
                    | CommandBody::ThreadSignIn => {
                        Err(invalid("thread", "it is archived; take it out first"))
                    }
                    _ => Ok(()),
                },
            },
        }
    }

    fn in_thread(&mut self, body: &CommandBody) -> Result<Verdict, Refusal> {
        match body {
            CommandBody::ThreadCreate { .. }
            | CommandBody::ThreadFork { .. }
            | CommandBody::ThreadImport { .. } => Ok(accepted()),
            CommandBody::MessageSend {
                text,
                attachments,
                dispatch,
                accept_stop,
            } => {
                check_message(text, attachments)?;
                self.check_files(attachments)?;
                match dispatch {
                    DispatchMode::StartImmediately => self.start(text, attachments),
                    DispatchMode::QueueAfterActive => self.queue(text, attachments),
                    DispatchMode::SteerActive { run } | DispatchMode::RestartActive { run } => {
                        self.steer(*run, text, attachments, accept_stop)
                    }
                }
            }
            CommandBody::RunInterrupt {
                run,
                attempt,
                hold_queue,
            } => self.interrupt(*run, *attempt, *hold_queue),
            CommandBody::RequestAnswer {
                request,
                content_hash,
                answer,
            } => {
                let Actor::Device { device } = self.actor else {
                    return Err(Refusal::Forbidden {
                        scope: Scope::Approve,
                    });
                };
                answer::decide_answer(self, device, *request, *content_hash, answer)?;
                Ok(accepted())
            }
            CommandBody::ThreadRollback { before, last } => self.rollback(*before, *last),
            CommandBody::ThreadCompact => self.compact(),
            CommandBody::ThreadSignIn => self.sign_in(),
            CommandBody::ThreadSelect {
                model,
                effort,
                mode,
            } => self.select(model.as_deref(), effort.as_deref(), *mode),
            CommandBody::QueueRemove { run, revision } => self.remove(*run, *revision),
            CommandBody::QueueRelease { revision } => self.release(*revision),
        }
    }

    /// Whether the agent takes what goes with a message. Only a yes is one: a file that it passes over in silence would be
    /// worse than a refusal.
    fn check_files(&self, attachments: &[Attachment]) -> Result<(), Refusal> {
        for file in attachments {
            let feature = if file.media_type.starts_with("image/") {
                Feature::SendImages
            } else {
                Feature::SendFiles
            };
            if let Service::Refused(row) = degrade::serve(feature, &self.draft.state, self.policy) {
                return Err(row.refusal());
            }
        }
        Ok(())
    }

    fn message_id(&self) -> MessageId {
        self.command.id.derive("message")
    }

    pub(crate) fn own_run(&self) -> RunId {
        self.command.id.derive("run")
    }

    fn notice(&self, what: NoticeKind) -> Notice {
        Notice {
            id: self.command.id.derive("notice"),
            what,
        }
    }

    fn add_message(&mut self, run: RunId, text: &str, attachments: &[Attachment]) {
        let message = ConversationMessage {
            id: self.message_id(),
            role: Role::User,
            text: Body::inline(text),
            attachments: attachments.to_vec(),
            run,
            author: self.actor,
            delivery: Delivery::OnHost,
        };
        self.draft.emit(Event::MessageAdded { message });
    }

    fn dispatch(&self) -> DispatchMode {
        match &self.command.body {
            CommandBody::MessageSend { dispatch, .. } => *dispatch,
            _ => DispatchMode::QueueAfterActive,
        }
    }

    fn run_now(&mut self, text: &str, attachments: &[Attachment]) {
        let run = self.own_run();
        self.add_message(run, text, attachments);
        let start = Start {
            run,
            message: self.message_id(),
            origin: Origin::Person,
            dispatch: Some(self.dispatch()),
            supersedes: None,
            reason: AttemptReason::Initial,
        };
        let ids = StartIds {
            attempt: self.command.id.derive("attempt"),
            node: self.command.id.derive("node"),
            effect: self.command.id.derive("effect"),
        };
        self.draft.start_run(&start, ids);
    }

    fn check_queue(&self) -> Result<(), Refusal> {
        if self.draft.state.is_full(Cap::Queue) {
            return Err(Refusal::Full {
                what: Cap::Queue,
                cap: limits::QUEUED_RUNS as u64,
            });
        }
        Ok(())
    }

    pub(crate) fn put_in_queue(
        &mut self,
        place: QueuePlace,
        text: &str,
        attachments: &[Attachment],
    ) -> Result<(), Refusal> {
        self.check_queue()?;
        let run = self.own_run();
        self.add_message(run, text, attachments);
        self.draft.emit(Event::RunQueued {
            run,
            message: self.message_id(),
            dispatch: self.dispatch(),
            place,
            origin: Origin::Person,
        });
        Ok(())
    }

    fn start(&mut self, text: &str, attachments: &[Attachment]) -> Result<Verdict, Refusal> {
        if self.waits_for_sign_in() {
            return self.wait_for_sign_in(text, attachments);
        }
        if self.reads_first() {
            self.read_first();
            self.put_in_queue(QueuePlace::Tail, text, attachments)?;
            return Ok(accepted());
        }
        if self.draft.state.rests() {
            // Before a held queue, which stays held: this is the person's word for this message alone.
            self.run_now(text, attachments);
            return Ok(accepted());
        }
        self.put_in_queue(QueuePlace::Tail, text, attachments)?;
        let notice = self.notice(NoticeKind::QueuedInstead {
            message: self.message_id(),
        });
        Ok(Verdict::Accepted {
            notice: Some(notice),
        })
    }

    fn queue(&mut self, text: &str, attachments: &[Attachment]) -> Result<Verdict, Refusal> {
        if self.waits_for_sign_in() {
            return self.wait_for_sign_in(text, attachments);
        }
        if self.reads_first() {
            self.read_first();
        }
        let state = &self.draft.state;
        if state.rests() && state.held.is_none() && state.queue.is_empty() {
            self.run_now(text, attachments);
        } else {
            self.put_in_queue(QueuePlace::Tail, text, attachments)?;
        }
        Ok(accepted())
    }

    fn steer(
        &mut self,
        run: RunId,
        text: &str,
        attachments: &[Attachment],
        accept_stop: &[ItemId],
    ) -> Result<Verdict, Refusal> {
        let state = &self.draft.state;
        if let Some(active) = state
            .active
            .as_ref()
            .filter(|active| active.id == run && active.barrier.is_none())
        {
            let active = active.clone();
            return self.steer_active(&active, text, attachments, accept_stop);
        }
        if let Some(at) = state.queue.iter().position(|queued| queued.run == run) {
            // Behind those that follow the same run already, so that several keep their order.
            let follows = |dispatch: DispatchMode| matches!(dispatch, DispatchMode::SteerActive { run: r } | DispatchMode::RestartActive { run: r } if r == run);
            let last = state.queue[at + 1..]
                .iter()
                .take_while(|queued| follows(queued.dispatch))
                .last()
                .map_or(run, |queued| queued.run);
            self.put_in_queue(QueuePlace::After { run: last }, text, attachments)?;
            let notice = self.notice(NoticeKind::FollowsQueued {
                message: self.message_id(),
                run,
            });
            return Ok(Verdict::Accepted {
                notice: Some(notice),
            });
        }
        self.missed(run, text, attachments)
    }

    /// The turn was over: the message is kept at the queue's head and its person is asked. Never a start.
    fn missed(
        &mut self,
        run: RunId,
        text: &str,
        attachments: &[Attachment],
    ) -> Result<Verdict, Refusal> {
        self.check_queue()?;
        let message = self.message_id();
        let kept = self.own_run();
        self.add_message(kept, text, attachments);
        let dispatch = self.dispatch();
        self.draft
            .keep_missed(kept, message, dispatch, HoldReason::SteerMissed);
        let notice = self.notice(NoticeKind::SteerMissed { message });
        self.draft.emit(Event::NoticeRaised { notice });
        Ok(Verdict::Refused(Refusal::TurnEnded {
            run,
            status: self.ended_status(run),
            message: Some(message),
        }))
    }

    fn ended_status(&self, run: RunId) -> Option<pilothouse_domain::RunStatus> {
        let last = self.draft.state.last_run.filter(|ended| ended.id == run);
        let status = last
            .map(|ended| ended.status)
            .or_else(|| self.lookups.run.as_ref().map(|row| row.status));
        status.filter(|status| status.is_terminal())
    }

    fn steer_active(
        &mut self,
        active: &ActiveRun,
        text: &str,
        attachments: &[Attachment],
        accept_stop: &[ItemId],
    ) -> Result<Verdict, Refusal> {
        let Some(attempt) = &active.attempt else {
            return Err(busy("the run is between two attempts"));
        };
        if active.restart_pending.is_some() {
            return Err(busy("the run is being restarted with another message"));
        }
        let feature = match self.dispatch() {
            DispatchMode::RestartActive { .. } => Feature::Restart,
            _ => Feature::Steer,
        };
        match degrade::serve(feature, &self.draft.state, self.policy) {
            Service::Refused(row) => Err(row.refusal()),
            Service::Native if feature == Feature::Steer => {
                let Some(turn) = attempt.turn else {
                    return Err(busy("the agent has not taken up the turn yet"));
                };
                if !attachments.is_empty() {
                    return Err(invalid(
                        "attachments",
                        "they cannot go into a running turn; send them to the queue",
                    ));
                }
                self.add_message(active.id, text, attachments);
                let message = self.message_id();
                self.draft.open_user_item(message);
                self.draft.effect(
                    self.command.id.derive("effect"),
                    EffectKind::Steer {
                        run: active.id,
                        attempt: attempt.id,
                        turn,
                        message,
                    },
                );
                Ok(accepted())
            }
            Service::Native | Service::Degraded(..) => {
                if let Some(item) = running_tools(&self.draft.state, active)
                    .into_iter()
                    .find(|item| !accept_stop.contains(item))
                {
                    return Err(Refusal::Stale {
                        what: StaleWhat::RunningItem { item },
                    });
                }
                // A stop, or a turn that ends by itself, sends the message back to the queue.
                self.check_queue()?;
                self.add_message(active.id, text, attachments);
                let message = self.message_id();
                self.draft.open_user_item(message);
                self.draft.emit(Event::RestartPending {
                    run: active.id,
                    message,
                });
                if active.interrupting != Some(attempt.id) {
                    self.draft.effect(
                        self.command.id.derive("effect"),
                        EffectKind::Interrupt {
                            run: active.id,
                            attempt: attempt.id,
                            turn: attempt.turn,
                        },
                    );
                }
                Ok(accepted())
            }
        }
    }

    fn interrupt(
        &mut self,
        run: RunId,
        attempt: AttemptId,
        hold_queue: bool,
    ) -> Result<Verdict, Refusal> {
        let Some(active) = self.draft.state.active.clone().filter(|a| a.id == run) else {
            return Err(match self.ended_status(run) {
                Some(status) => Refusal::TurnEnded {
                    run,
                    status: Some(status),
                    message: None,
                },
                None => Refusal::UnknownRun { run },
            });
        };
        let Some(current) = active.attempt.as_ref().filter(|a| a.id == attempt) else {
            return Err(Refusal::Stale {
                what: StaleWhat::Attempt,
            });
        };
        if active.barrier.is_some() {
            return Err(Refusal::TurnEnded {
                run,
                status: None,
                message: None,
            });
        }
        if let Service::Refused(row) =
            degrade::serve(Feature::Interrupt, &self.draft.state, self.policy)
        {
            return Err(row.refusal());
        }
        let asked_before = active.interrupting == Some(attempt);
        let says_more = hold_queue && !active.stop_holds_queue;
        if asked_before && !says_more && active.restart_pending.is_none() {
            return Ok(accepted());
        }
        self.draft.emit(Event::InterruptRequested {
            run,
            attempt,
            actor: self.actor,
            hold_queue,
        });
        if let Some(message) = active.restart_pending {
            // A stop outweighs the restart that was to come: its message waits at the head instead.
            let kept = self.own_run();
            self.draft.emit(Event::RunQueued {
                run: kept,
                message,
                dispatch: DispatchMode::RestartActive { run },
                place: QueuePlace::Head,
                origin: Origin::Person,
            });
        }
        if !asked_before || active.restart_pending.is_some() {
            let content = ItemContent::Interrupt {
                note: "stop was asked for".to_owned(),
            };
            let item = self.command.id.derive("item");
            self.draft
                .open_in_active(item, content, ItemStatus::Completed);
        }
        if !asked_before {
            self.draft.effect(
                self.command.id.derive("effect"),
                EffectKind::Interrupt {
                    run,
                    attempt,
                    turn: current.turn,
                },
            );
        }
        Ok(accepted())
    }
}
