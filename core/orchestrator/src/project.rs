//! `project`: what an event does to the rows a screen reads. The same on host and device; the only clock in it is the
//! host's time of the entry. A row that is not there is not made up: an event about it changes nothing.

use crate::Rows;
use pilothouse_domain::{
    AttemptId, Event, ItemContent, MessageId, NodeId, ProviderThreadId, ProviderTurnId,
    RequestStatus, Row, RunId, RunStatus, RuntimeRequest, ThreadState, TurnItem,
    event::RollbackOutcome,
    provider::{ProviderSession, ProviderThread, ProviderTurn},
    request::Respondability,
    row::RowKind,
    run::{AttemptStatus, BlockedOn, ExecutionNode, NodeKind, NodeStatus, Run, RunAttempt},
    thread::{ConversationMessage, Delivery},
};

/// Writes an event's rows. `state_before` is the state the event is applied to.
pub fn project(rows: &mut dyn Rows, state_before: &ThreadState, host_time_ms: u64, event: &Event) {
    let mut at = At {
        rows,
        state: state_before,
        now: host_time_ms,
    };
    match event {
        Event::MessageAdded { message } => at.rows.put(Row::Message(message.clone())),
        Event::MessageDelivery { message, delivery } => {
            at.message(*message, |row| row.delivery = delivery.clone());
        }
        Event::RunQueued { .. }
        | Event::RunDequeued { .. }
        | Event::RunStarted { .. }
        | Event::RunStatusChanged { .. }
        | Event::RunEnded { .. }
        | Event::UsageRecorded { .. } => at.run_event(event),
        Event::AttemptStarted { .. }
        | Event::AttemptBound { .. }
        | Event::AttemptEnded { .. }
        | Event::TurnEnded { .. } => at.attempt_event(event),
        Event::SessionChanged { .. }
        | Event::SessionStatusChanged { .. }
        | Event::CapabilitiesLearned { .. }
        | Event::ModelsOffered { .. }
        | Event::CommandsOffered { .. }
        | Event::LimitsReported { .. }
        | Event::ProviderThreadChanged { .. }
        | Event::ProviderThreadStatusChanged { .. } => at.provider_event(event),
        Event::ItemOpened { .. }
        | Event::ItemUpdated { .. }
        | Event::ItemClosed { .. }
        | Event::ItemBackground { .. } => at.item_event(event),
        Event::AnomalyFound { item, anomaly, .. } => {
            at.item(*item, |row| row.anomaly = Some(*anomaly));
        }
        Event::NodeOpened { node } => at.rows.put(Row::Node(node.clone())),
        Event::NodeStatusChanged { node, status } => at.node(*node, |row| row.status = *status),
        Event::RequestOpened { .. }
        | Event::RequestChanged { .. }
        | Event::RequestAnswering { .. }
        | Event::RequestClosed { .. } => at.request_event(event),
        Event::RollbackEnded { outcome, .. } => at.rollback_event(outcome),
        Event::PlanUpdated { plan } => at.rows.put(Row::Plan(plan.clone())),
        Event::ThreadCreated { .. }
        | Event::ThreadSelected { .. }
        | Event::InterruptRequested { .. }
        | Event::InterruptStep { .. }
        | Event::RestartPending { .. }
        | Event::QueueHeld { .. }
        | Event::RollbackRequested { .. }
        | Event::ImportRequested { .. }
        | Event::ImportEnded { .. }
        | Event::TransferRecorded { .. }
        | Event::TransferStatusChanged { .. }
        | Event::NoticeRaised { .. }
        | Event::SignInAsked { .. }
        | Event::SignInFailed { .. }
        | Event::FrameUnreadable { .. }
        | Event::DevicePaired { .. }
        | Event::DeviceRevoked { .. } => {}
    }
}

struct At<'a> {
    rows: &'a mut dyn Rows,
    state: &'a ThreadState,
    now: u64,
}

macro_rules! changing {
    ($name:ident, $id:ty, $kind:ident, $row:ident, $value:ty) => {
        fn $name(&mut self, id: $id, change: impl FnOnce(&mut $value)) {
            if let Some(Row::$row(mut row)) = self.rows.get(RowKind::$kind.key(id.as_bytes())) {
                change(&mut row);
                self.rows.put(Row::$row(row));
            }
        }
    };
}

impl At<'_> {
    changing!(message, MessageId, Message, Message, ConversationMessage);
    changing!(run, RunId, Run, Run, Run);
    changing!(attempt, AttemptId, Attempt, Attempt, RunAttempt);
    changing!(node, NodeId, Node, Node, ExecutionNode);
    changing!(item, pilothouse_domain::ItemId, Item, Item, TurnItem);
    changing!(
        session,
        pilothouse_domain::SessionId,
        Session,
        Session,
        ProviderSession
    );
    changing!(
        provider_thread,
        ProviderThreadId,
        ProviderThread,
        ProviderThread,
        ProviderThread
    );
    changing!(turn, ProviderTurnId, Turn, Turn, ProviderTurn);

    fn run_event(&mut self, event: &Event) {
        match event {
            Event::RunQueued {
                run,
                message,
                dispatch,
                origin,
                ..
            } => {
                self.rows.put(Row::Run(Run {
                    id: *run,
                    ordinal: None,
                    status: RunStatus::Queued,
                    blocked_on: BlockedOn::None,
                    origin: *origin,
                    message: Some(*message),
                    dispatch: Some(*dispatch),
                    attempt: None,
                    supersedes: None,
                    usage: None,
                    error: None,
                    started_at_ms: None,
                    ended_at_ms: None,
                }));
                self.message(*message, |row| {
                    row.run = *run;
                    row.delivery = Delivery::OnHost;
                });
            }
            Event::RunDequeued { run, .. } => {
                let now = self.now;
                let mut message = None;
                self.run(*run, |row| {
                    row.status = RunStatus::Cancelled;
                    row.ended_at_ms = Some(now);
                    message = row.message;
                });
                if let Some(message) = message {
                    self.message(message, |row| {
                        row.delivery = Delivery::Failed {
                            reason: "taken out of the queue".to_owned(),
                        };
                    });
                }
            }
            Event::RunStarted {
                run,
                message,
                ordinal,
                origin,
                dispatch,
                supersedes,
            } => {
                self.rows.put(Row::Run(Run {
                    id: *run,
                    ordinal: Some(*ordinal),
                    status: RunStatus::Starting,
                    blocked_on: BlockedOn::None,
                    origin: *origin,
                    message: *message,
                    dispatch: *dispatch,
                    attempt: None,
                    supersedes: *supersedes,
                    usage: None,
                    error: None,
                    started_at_ms: Some(self.now),
                    ended_at_ms: None,
                }));
                if let Some(message) = message {
                    self.message(*message, |row| row.run = *run);
                }
            }
            Event::RunStatusChanged {
                run,
                status,
                blocked_on,
            } => self.run(*run, |row| {
                row.status = *status;
                row.blocked_on = *blocked_on;
            }),
            Event::RunEnded { run, status, error } => {
                let now = self.now;
                self.run(*run, |row| {
                    row.status = *status;
                    row.blocked_on = BlockedOn::None;
                    row.error.clone_from(error);
                    row.ended_at_ms = Some(now);
                });
            }
            Event::UsageRecorded { run, usage } => self.run(*run, |row| row.usage = Some(*usage)),
            _ => {}
        }
    }

    fn rollback_event(&mut self, outcome: &RollbackOutcome) {
        let RollbackOutcome::Applied { runs, head } = outcome else {
            return;
        };
        for run in runs {
            self.run(*run, |row| row.status = RunStatus::RolledBack);
        }
        let seen = head.map_or(0, |head| head.ordinal);
        if let Some(current) = self.state.provider_thread {
            self.provider_thread(current, |row| row.coverage = row.coverage.min(seen));
        }
    }

    fn attempt_event(&mut self, event: &Event) {
        match event {
            Event::AttemptStarted {
                attempt,
                run,
                ordinal,
                reason,
                root_node,
                message,
            } => {
                self.rows.put(Row::Attempt(RunAttempt {
                    id: *attempt,
                    run: *run,
                    ordinal: *ordinal,
                    root_node: *root_node,
                    reason: *reason,
                    status: AttemptStatus::Starting,
                    provider_thread: None,
                    turn: None,
                    correlation: None,
                }));
                self.rows.put(Row::Node(ExecutionNode {
                    id: *root_node,
                    parent: None,
                    run: *run,
                    kind: NodeKind::RootTurn,
                    title: "Turn".to_owned(),
                    status: NodeStatus::Running,
                    counts_for_run: true,
                }));
                self.run(*run, |row| {
                    row.attempt = Some(*attempt);
                    row.status = RunStatus::Starting;
                    row.blocked_on = BlockedOn::None;
                });
                if let Some(message) = message {
                    self.message(*message, |row| row.run = *run);
                }
            }
            Event::AttemptBound {
                attempt,
                provider_thread,
                turn,
            } => {
                let mut run = None;
                self.attempt(*attempt, |row| {
                    row.provider_thread = Some(*provider_thread);
                    row.turn = Some(*turn);
                    row.status = AttemptStatus::Running;
                    run = Some(row.run);
                });
                self.rows.put(Row::Turn(ProviderTurn {
                    id: *turn,
                    provider_thread: *provider_thread,
                    attempt: *attempt,
                    ended: None,
                }));
                if let Some(run) = run {
                    let mut ordinal = None;
                    self.run(run, |row| {
                        if row.status == RunStatus::Starting {
                            row.status = RunStatus::Running;
                        }
                        ordinal = row.ordinal;
                    });
                    self.provider_thread(*provider_thread, |row| {
                        row.coverage = row.coverage.max(ordinal.unwrap_or(0));
                    });
                }
            }
            Event::AttemptEnded {
                attempt,
                status,
                correlation,
                ..
            } => {
                let mut ended = None;
                self.attempt(*attempt, |row| {
                    row.status = *status;
                    row.correlation = Some(*correlation);
                    ended = Some((row.run, row.root_node));
                });
                let Some((run, root)) = ended else { return };
                self.node(root, |row| {
                    row.status = match status {
                        AttemptStatus::Completed => NodeStatus::Completed,
                        AttemptStatus::Failed => NodeStatus::Failed,
                        _ => NodeStatus::Interrupted,
                    };
                });
                let is_active = self.state.active.as_ref().is_some_and(|active| {
                    active.id == run && active.attempt.as_ref().is_some_and(|a| a.id == *attempt)
                });
                if is_active {
                    self.run(run, |row| {
                        row.status = RunStatus::Finalizing;
                        row.blocked_on = BlockedOn::None;
                    });
                }
            }
            Event::TurnEnded { turn, end } => self.turn(*turn, |row| row.ended = Some(*end)),
            _ => {}
        }
    }

    fn provider_event(&mut self, event: &Event) {
        match event {
            Event::SessionChanged { session } => self.rows.put(Row::Session(session.clone())),
            Event::LimitsReported { session, limits } => {
                self.session(*session, |row| row.limits.clone_from(limits));
            }
            Event::CommandsOffered { session, commands } => {
                self.session(*session, |row| row.commands.clone_from(commands));
            }
            Event::ModelsOffered { session, models } => {
                self.session(*session, |row| row.models.clone_from(models));
            }
            Event::SessionStatusChanged { session, status } => {
                self.session(*session, |row| row.status = status.clone());
            }
            Event::CapabilitiesLearned {
                session,
                capabilities,
            } => self.session(*session, |row| {
                row.capability_version = capabilities.version;
            }),
            Event::ProviderThreadChanged { provider_thread } => {
                self.rows.put(Row::ProviderThread(provider_thread.clone()));
            }
            Event::ProviderThreadStatusChanged {
                provider_thread,
                status,
            } => self.provider_thread(*provider_thread, |row| row.status = status.clone()),
            _ => {}
        }
    }

    fn item_event(&mut self, event: &Event) {
        let now = self.now;
        match event {
            Event::ItemOpened { item } => {
                let mut row = item.clone();
                row.opened_at_ms = now;
                row.closed_at_ms = (!row.status.is_live()).then_some(now);
                // Our own messages stand in the log once, as messages; their items name them.
                if let ItemContent::UserMessage {
                    message: Some(message),
                    text,
                    attachments,
                } = &mut row.content
                    && text.is_empty()
                    && let Some(Row::Message(known)) =
                        self.rows.get(RowKind::Message.key(message.as_bytes()))
                {
                    *text = known.text;
                    *attachments = known.attachments;
                }
                self.rows.put(Row::Item(row));
            }
            Event::ItemUpdated { item, content } => self.item(*item, |row| {
                let kept = row.content.streamed().cloned();
                row.content = content.clone();
                if let (Some(kept), Some(now)) = (kept, row.content.streamed_mut())
                    && now.is_empty()
                {
                    *now = kept;
                }
            }),
            Event::ItemClosed {
                item,
                status,
                content,
                streamed,
            } => self.item(*item, |row| {
                row.status = *status;
                row.closed_at_ms = Some(now);
                if let Some(content) = content {
                    row.content = content.clone();
                }
                if let (Some(streamed), Some(text)) = (streamed, row.content.streamed_mut()) {
                    *text = streamed.clone();
                }
            }),
            Event::ItemBackground { item, .. } => self.item(*item, |row| {
                row.status = pilothouse_domain::ItemStatus::Background;
            }),
            _ => {}
        }
    }

    fn request_event(&mut self, event: &Event) {
        let now = self.now;
        match event {
            Event::RequestOpened { request } => {
                let mut row = request.clone();
                row.opened_at_ms = now;
                self.rows.put(Row::Request(row));
            }
            Event::RequestChanged {
                request,
                subject,
                content_hash,
                one_tap_allowed,
                default_to_no,
                hints,
            } => self.request(*request, |row| {
                row.subject.clone_from(subject);
                row.content_hash = *content_hash;
                row.one_tap_allowed = *one_tap_allowed;
                row.default_to_no = *default_to_no;
                row.hints.clone_from(hints);
            }),
            Event::RequestAnswering {
                request,
                answer,
                by,
                ..
            } => self.request(*request, |row| {
                row.status = RequestStatus::Answering {
                    answer: answer.clone(),
                    by: *by,
                    at_ms: now,
                };
            }),
            Event::RequestClosed { request, status } => self.request(*request, |row| {
                row.status = status.clone();
                match &mut row.status {
                    RequestStatus::Answered { at_ms, .. } => *at_ms = now,
                    RequestStatus::Lost { reason, .. } => {
                        row.respondability = Respondability::NotResumable { reason: *reason };
                    }
                    _ => {}
                }
            }),
            _ => {}
        }
    }

    fn request(
        &mut self,
        id: pilothouse_domain::RequestId,
        change: impl FnOnce(&mut RuntimeRequest),
    ) {
        if let Some(Row::Request(mut row)) = self.rows.get(RowKind::Request.key(id.as_bytes())) {
            change(&mut row);
            self.rows.put(Row::Request(row));
        }
    }
}
