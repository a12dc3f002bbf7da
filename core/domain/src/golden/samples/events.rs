//! Every event.

use super::{agents::*, commands::*, domain::*, id, kept::summary, parts::*};

pub(in crate::golden) fn event_name(event: &Event) -> &'static str {
    match event {
        Event::ThreadCreated { .. } => "thread.created",
        Event::ThreadSelected { .. } => "thread.selected",
        Event::ModelsOffered { .. } => "session.models",
        Event::CommandsOffered { .. } => "session.commands",
        Event::LimitsReported { .. } => "session.limits",
        Event::MessageAdded { .. } => "message.added",
        Event::MessageDelivery { .. } => "message.delivery",
        Event::RunQueued { .. } => "run.queued",
        Event::RunDequeued { .. } => "run.dequeued",
        Event::RunStarted { .. } => "run.started",
        Event::RunStatusChanged { .. } => "run.status",
        Event::InterruptRequested { .. } => "run.interrupt_requested",
        Event::InterruptStep { .. } => "run.interrupt_step",
        Event::RestartPending { .. } => "run.restart_pending",
        Event::RunEnded { .. } => "run.ended",
        Event::UsageRecorded { .. } => "run.usage",
        Event::AttemptStarted { .. } => "attempt.started",
        Event::AttemptBound { .. } => "attempt.bound",
        Event::AttemptEnded { .. } => "attempt.ended",
        Event::QueueHeld { .. } => "queue.held",
        Event::SignInAsked { .. } => "sign_in.asked",
        Event::SignInFailed { .. } => "sign_in.failed",
        Event::SessionChanged { .. } => "session.changed",
        Event::SessionStatusChanged { .. } => "session.status",
        Event::CapabilitiesLearned { .. } => "session.capabilities",
        Event::ProviderThreadChanged { .. } => "provider_thread.changed",
        Event::ProviderThreadStatusChanged { .. } => "provider_thread.status",
        Event::TurnEnded { .. } => "turn.ended",
        Event::ItemOpened { .. } => "item.opened",
        Event::ItemUpdated { .. } => "item.updated",
        Event::ItemClosed { .. } => "item.closed",
        Event::ItemBackground { .. } => "item.background",
        Event::NodeOpened { .. } => "node.opened",
        Event::NodeStatusChanged { .. } => "node.status",
        Event::RequestOpened { .. } => "request.opened",
        Event::RequestChanged { .. } => "request.changed",
        Event::RequestAnswering { .. } => "request.answering",
        Event::RequestClosed { .. } => "request.closed",
        Event::PlanUpdated { .. } => "plan.updated",
        Event::TransferRecorded { .. } => "transfer.recorded",
        Event::TransferStatusChanged { .. } => "transfer.status",
        Event::RollbackRequested { .. } => "rollback.requested",
        Event::RollbackEnded { .. } => "rollback.ended",
        Event::ImportRequested { .. } => "thread.imports",
        Event::ImportEnded { .. } => "thread.imported",
        Event::NoticeRaised { .. } => "notice.raised",
        Event::AnomalyFound { .. } => "anomaly.found",
        Event::FrameUnreadable { .. } => "frame.unreadable",
        Event::DevicePaired { .. } => "device.paired",
        Event::DeviceRevoked { .. } => "device.revoked",
    }
}

pub(in crate::golden) fn events() -> Vec<Event> {
    let run = id!(RunId, 3);
    let attempt = id!(AttemptId, 14);
    let message_id = id!(MessageId, 2);
    let mut events = vec![
        Event::ThreadCreated {
            thread: id!(ThreadId, 15),
            title: "Make the tests pass".into(),
            workspace: "project".into(),
            selection: selection(),
            lineage: Some(Lineage {
                parent: id!(ThreadId, 16),
                relationship: Relationship::Fork,
                root: id!(ThreadId, 16),
            }),
            actor: by_device(),
        },
        Event::MessageAdded { message: message() },
        Event::RunDequeued {
            run,
            actor: Actor::Ledger,
        },
        Event::RunStarted {
            run,
            message: Some(message_id),
            ordinal: 1,
            origin: Origin::Person,
            dispatch: Some(DispatchMode::StartImmediately),
            supersedes: Some(id!(RunId, 17)),
        },
        Event::RunStatusChanged {
            run,
            status: RunStatus::Waiting,
            blocked_on: BlockedOn::Approval,
        },
        Event::InterruptRequested {
            run,
            attempt,
            actor: by_device(),
            hold_queue: true,
        },
        Event::InterruptStep {
            run,
            step: "protocol".into(),
            note: "acknowledged".into(),
        },
        Event::RestartPending {
            run,
            message: message_id,
        },
        Event::RunEnded {
            run,
            status: RunStatus::Failed,
            error: Some(error()),
        },
        Event::UsageRecorded {
            run,
            usage: usage(),
        },
        Event::AttemptStarted {
            attempt,
            run,
            ordinal: 2,
            reason: AttemptReason::SteeringRestart,
            root_node: id!(NodeId, 9),
            message: Some(message_id),
        },
        Event::AttemptBound {
            attempt,
            provider_thread: id!(ProviderThreadId, 6),
            turn: id!(ProviderTurnId, 18),
        },
        Event::AttemptEnded {
            attempt,
            status: AttemptStatus::Failed,
            correlation: Correlation::Inferred,
            error: Some(error()),
        },
        Event::QueueHeld {
            reason: Some(HoldReason::SteerMissed),
        },
        Event::QueueHeld { reason: None },
        Event::SignInAsked {
            skippable: Skippable,
        },
        Event::SignInFailed {
            problem: "device auth timed out after 15 minutes".into(),
            skippable: Skippable,
        },
        Event::SessionChanged { session: session() },
        Event::SessionStatusChanged {
            session: id!(SessionId, 4),
            status: SessionStatus::Error {
                reason: LostReason::AgentExited,
                detail: "exit status 1".into(),
            },
        },
        Event::CapabilitiesLearned {
            session: id!(SessionId, 4),
            capabilities: capabilities(),
        },
        Event::ProviderThreadChanged {
            provider_thread: provider_thread(),
        },
        Event::ProviderThreadStatusChanged {
            provider_thread: id!(ProviderThreadId, 6),
            status: ProviderThreadStatus::NotLoaded,
        },
        Event::TurnEnded {
            turn: id!(ProviderTurnId, 18),
            end: end(),
        },
        Event::ItemOpened { item: item() },
        Event::ItemUpdated {
            item: id!(ItemId, 7),
            content: items().remove(4),
        },
        Event::ItemClosed {
            item: id!(ItemId, 7),
            status: ItemStatus::Unfinished,
            content: Some(items().remove(1)),
            streamed: Some(stored()),
        },
        Event::ItemBackground {
            item: id!(ItemId, 7),
            owner: BackgroundOwner {
                run,
                node: id!(NodeId, 8),
                actor: Actor::External,
            },
        },
        Event::NodeOpened { node: node() },
        Event::NodeStatusChanged {
            node: id!(NodeId, 8),
            status: NodeStatus::Background,
        },
        Event::RequestOpened {
            request: Box::new(request()),
        },
        Event::RequestChanged {
            request: id!(RequestId, 12),
            subject: "{}".into(),
            content_hash: ContentHash::of("{}"),
            one_tap_allowed: true,
            default_to_no: false,
            hints: vec![RiskHint::UnknownFields],
        },
        Event::RequestAnswering {
            request: id!(RequestId, 12),
            answer: choice(),
            by: id!(DeviceId, 1),
            command: id!(CommandId, 19),
        },
        Event::PlanUpdated { plan: plan() },
        Event::AnomalyFound {
            item: id!(ItemId, 7),
            anomaly: Anomaly::Unasked,
            skippable: Skippable,
        },
        Event::FrameUnreadable {
            detail: "not JSON".into(),
        },
        Event::DevicePaired {
            device: id!(DeviceId, 1),
            name: "Phone".into(),
            spki_sha256: ContentHash::of("key"),
            scopes: Scope::ALL.to_vec(),
        },
        Event::DeviceRevoked {
            device: id!(DeviceId, 1),
        },
    ];
    for delivery in [
        Delivery::Saved,
        Delivery::Started,
        Delivery::Failed {
            reason: "503".into(),
        },
        Delivery::Unknown,
    ] {
        events.push(Event::MessageDelivery {
            message: message_id,
            delivery,
        });
    }
    events.push(Event::ThreadSelected {
        selection: selection(),
        actor: Actor::External,
    });
    events.push(Event::ModelsOffered {
        session: id!(SessionId, 4),
        models: vec![offered()],
    });
    events.push(Event::CommandsOffered {
        session: id!(SessionId, 4),
        commands: vec![offered_command()],
    });
    events.push(Event::LimitsReported {
        session: id!(SessionId, 4),
        limits: vec![limit()],
    });
    events.push(Event::RollbackRequested {
        before: run,
        runs: 2,
        actor: Actor::Ledger,
    });
    for outcome in [
        RollbackOutcome::Applied {
            runs: vec![run, id!(RunId, 34)],
            head: summary().last_run,
        },
        RollbackOutcome::Refused { error: error() },
    ] {
        events.push(Event::RollbackEnded {
            before: run,
            outcome,
        });
    }
    events.push(Event::ImportRequested {
        provider_thread: id!(ProviderThreadId, 35),
        actor: Actor::Ledger,
    });
    for error in [None, Some(error())] {
        events.push(Event::ImportEnded { error });
    }
    events.push(Event::TransferRecorded {
        transfer: transfer(),
    });
    for status in [
        TransferStatus::Pending,
        TransferStatus::Resolved {
            handoff: ContextHandoff {
                strategy: HandoffStrategy::Native,
                channel: None,
                target: id!(ProviderThreadId, 6),
                text: Body::default(),
                text_source: "codex".into(),
                leaves_out: "nothing".into(),
            },
        },
        TransferStatus::Failed {
            reason: "gone".into(),
        },
    ] {
        events.push(Event::TransferStatusChanged {
            transfer: id!(TransferId, 37),
            status,
        });
    }
    for place in [
        QueuePlace::Head,
        QueuePlace::Tail,
        QueuePlace::After { run },
    ] {
        events.push(Event::RunQueued {
            run,
            message: message_id,
            dispatch: steer(),
            place,
            origin: Origin::Person,
        });
    }
    events.extend(
        request_statuses()
            .into_iter()
            .map(|status| Event::RequestClosed {
                request: id!(RequestId, 12),
                status,
            }),
    );
    events.extend(
        notices()
            .into_iter()
            .map(|notice| Event::NoticeRaised { notice }),
    );
    events
}

pub(in crate::golden) fn request_statuses() -> Vec<RequestStatus> {
    vec![
        RequestStatus::Pending,
        RequestStatus::Answering {
            answer: choice(),
            by: id!(DeviceId, 1),
            at_ms: 21,
        },
        RequestStatus::Answered {
            answer: Some(words()),
            by: Some(id!(DeviceId, 1)),
            delivery: AnswerDelivery::Confirmed,
            at_ms: 22,
        },
        RequestStatus::Withdrawn,
        RequestStatus::Expired,
        RequestStatus::Lost {
            reason: LostReason::HostRestarted,
            answer: Some(choice()),
        },
    ]
}
