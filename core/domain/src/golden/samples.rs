//! The samples. Each `…_name` matches every variant by name, so that a new one does not compile without a sample here.

use crate::{
    binding::*, capability::*, command::*, effect::*, entry::*, event::*, item::*, policy::*,
    provider::*, provider_event::*, refusal::*, request::*, row::*, run::*, state::*, thread::*,
    transfer::*, *,
};

pub(super) const EVENTS: usize = 37;
pub(super) const REFUSALS: usize = 22;
pub(super) const PROVIDER_EVENTS: usize = 19;
pub(super) const ITEMS: usize = 18;

macro_rules! id {
    ($type:ident, $n:literal) => {
        $type::from_bytes([$n; 16])
    };
}

fn selection() -> Selection {
    Selection {
        agent: "codex".into(),
        model: Some("gpt-5.5".into()),
        effort: None,
        mode: Mode::Ask,
    }
}

fn by_device() -> Actor {
    Actor::Device {
        device: id!(DeviceId, 1),
    }
}

fn message() -> ConversationMessage {
    ConversationMessage {
        id: id!(MessageId, 2),
        role: Role::User,
        text: Body::inline("Add a test"),
        attachments: vec![Attachment {
            name: "shot.png".into(),
            media_type: "image/png".into(),
            hash: BlobHash::of(b"png"),
            bytes: 3,
        }],
        run: id!(RunId, 3),
        author: by_device(),
        delivery: Delivery::OnHost,
    }
}

fn error() -> RunError {
    RunError {
        code: ErrorCode::ModelService,
        message: "503".into(),
    }
}

fn usage() -> Usage {
    Usage {
        input: 1200,
        cached_input: 1000,
        output: 80,
        reasoning: 10,
        ..Usage::default()
    }
}

fn end() -> TurnEnd {
    TurnEnd {
        status: TurnStatus::Completed,
        correlation: Correlation::Strong,
    }
}

fn session() -> ProviderSession {
    ProviderSession {
        id: id!(SessionId, 4),
        agent: "codex".into(),
        driver: "codex".into(),
        version: Some("0.171.0".into()),
        incarnation: id!(Incarnation, 5),
        status: SessionStatus::Ready,
        capability_version: 1,
    }
}

fn provider_thread() -> ProviderThread {
    ProviderThread {
        id: id!(ProviderThreadId, 6),
        agent: "codex".into(),
        owner: None,
        coverage: 1,
        status: ProviderThreadStatus::Unavailable {
            reason: "gone".into(),
        },
    }
}

fn capabilities() -> Capabilities {
    let mut known = Capabilities {
        version: 1,
        ..Capabilities::default()
    };
    known.learn(
        CapabilityFlag::PendingRequestsSurviveRestart,
        Fact {
            value: CapabilityValue::Yes,
            detail: Some(Detail::Survives {
                client_loss: true,
                runtime_loss: false,
            }),
            source: Source::Handshake,
            version: "0.171.0".into(),
            observed_at: "2026-11-30".into(),
        },
    );
    known
}

fn stored() -> Body {
    Body::Stored(StoredBody {
        hash: BlobHash::of(b"long"),
        bytes: 70_000,
        head: "first".into(),
        tail: "last".into(),
        dropped: 12,
    })
}

fn item() -> TurnItem {
    TurnItem {
        id: id!(ItemId, 7),
        position: Position { run: 1, arrival: 9 },
        run: id!(RunId, 3),
        node: id!(NodeId, 8),
        status: ItemStatus::Open,
        content: items().remove(3),
        opened_at_ms: 10,
        closed_at_ms: Some(11),
    }
}

fn change() -> FileChange {
    FileChange {
        path: "src/lib.rs".into(),
        action: FileAction::Update,
        moved_to: Some("src/main.rs".into()),
        diff: Body::inline("+x"),
    }
}

fn subject() -> Subject {
    Subject {
        command: Some("touch c1".into()),
        cwd: Some("/home/dev/project".into()),
        changes: vec![change()],
        reach: vec!["write /opt".into()],
        reason: Some("to see".into()),
        text: Some("a plan".into()),
        questions: vec![Question {
            id: "q1".into(),
            header: "Colour".into(),
            text: "Which one?".into(),
            choices: vec![Choice {
                label: "Red".into(),
                description: Some("warm".into()),
            }],
            multi_select: true,
            free_text: false,
            secret: false,
        }],
        options: vec![RequestOption {
            id: "accept".into(),
            label: "Allow".into(),
            effect: OptionEffect::AllowOnce,
            reach: "this once".into(),
        }],
        incomplete: true,
    }
}

fn request() -> RuntimeRequest {
    let subject = serde_json::to_string(&subject()).unwrap();
    RuntimeRequest {
        id: id!(RequestId, 12),
        run: Some(id!(RunId, 3)),
        node: id!(NodeId, 8),
        item: Some(id!(ItemId, 7)),
        kind: RequestKind::Command,
        title: "Run a command".into(),
        content_hash: ContentHash::of(&subject),
        subject,
        respondability: Respondability::Live,
        one_tap_allowed: false,
        default_to_no: true,
        hints: vec![RiskHint::Incomplete],
        asked_before: 1,
        incarnation: id!(Incarnation, 5),
        status: RequestStatus::Pending,
        opened_at_ms: 10,
        expires_at_ms: Some(20),
    }
}

fn choice() -> Answer {
    Answer::Choose {
        option: "accept".into(),
        note: Some("and quickly".into()),
    }
}

fn words() -> Answer {
    Answer::Reply {
        replies: vec![QuestionReply {
            question: "q1".into(),
            chosen: vec!["Red".into()],
            text: Some("a dark one".into()),
        }],
    }
}

fn node() -> ExecutionNode {
    ExecutionNode {
        id: id!(NodeId, 8),
        parent: Some(id!(NodeId, 9)),
        run: id!(RunId, 3),
        kind: NodeKind::Subagent,
        title: "Look".into(),
        status: NodeStatus::Running,
        counts_for_run: false,
    }
}

fn plan() -> PlanArtifact {
    PlanArtifact {
        id: id!(PlanId, 13),
        run: id!(RunId, 3),
        node: id!(NodeId, 8),
        kind: PlanKind::TodoList {
            entries: vec![TodoEntry {
                text: "write it".into(),
                status: TodoStatus::InProgress,
            }],
        },
    }
}

fn steer() -> DispatchMode {
    DispatchMode::SteerActive { run: id!(RunId, 3) }
}

pub(super) fn event_name(event: &Event) -> &'static str {
    match event {
        Event::ThreadCreated { .. } => "thread.created",
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
        Event::NoticeRaised { .. } => "notice.raised",
        Event::FrameUnreadable { .. } => "frame.unreadable",
        Event::DevicePaired { .. } => "device.paired",
        Event::DeviceRevoked { .. } => "device.revoked",
    }
}

pub(super) fn events() -> Vec<Event> {
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

pub(super) fn request_statuses() -> Vec<RequestStatus> {
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

pub(super) fn commands() -> Vec<Command> {
    let send = |dispatch, accept_stop| CommandBody::MessageSend {
        text: "Add a test".into(),
        attachments: message().attachments,
        dispatch,
        accept_stop,
    };
    let bodies = vec![
        CommandBody::ThreadCreate {
            title: "Make the tests pass".into(),
            workspace: "project".into(),
            selection: selection(),
        },
        send(DispatchMode::StartImmediately, vec![]),
        send(DispatchMode::QueueAfterActive, vec![]),
        send(steer(), vec![id!(ItemId, 7)]),
        send(DispatchMode::RestartActive { run: id!(RunId, 3) }, vec![]),
        CommandBody::RunInterrupt {
            run: id!(RunId, 3),
            attempt: id!(AttemptId, 14),
            hold_queue: true,
        },
        CommandBody::RequestAnswer {
            request: id!(RequestId, 12),
            content_hash: ContentHash::of("{}"),
            answer: words(),
        },
        CommandBody::QueueRemove {
            run: id!(RunId, 3),
            revision: 4,
        },
        CommandBody::QueueRelease { revision: 5 },
    ];
    bodies
        .into_iter()
        .map(|body| Command {
            id: id!(CommandId, 19),
            thread: id!(ThreadId, 15),
            device_seq: 6,
            based_on: Some(cursor()),
            issued_at_ms: 7,
            body,
        })
        .collect()
}

fn cursor() -> Cursor {
    Cursor {
        epoch: id!(Epoch, 20),
        seq: 3,
        chain: Chain(Digest::from_bytes([21; 32])),
    }
}

pub(super) fn notices() -> Vec<Notice> {
    let message = id!(MessageId, 2);
    [
        NoticeKind::QueuedInstead { message },
        NoticeKind::SteerMissed { message },
        NoticeKind::FollowsQueued {
            message,
            run: id!(RunId, 3),
        },
        NoticeKind::DeliveryUnknown {
            message: Some(message),
            request: Some(id!(RequestId, 12)),
        },
        NoticeKind::Agent {
            message: "signed out".into(),
        },
    ]
    .into_iter()
    .map(|what| Notice {
        id: id!(NoticeId, 22),
        what,
    })
    .collect()
}

pub(super) fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Accepted {
            cursor: cursor(),
            notice: notices().pop(),
        },
        Outcome::Refused {
            refusal: Refusal::NotReady,
        },
    ]
}

pub(super) fn refusal_name(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unsupported { .. } => "unsupported",
        Refusal::UnsupportedMode { .. } => "unsupported_mode",
        Refusal::NotRespondable { .. } => "not_respondable",
        Refusal::AlreadyAnswered { .. } => "already_answered",
        Refusal::TurnEnded { .. } => "turn_ended",
        Refusal::Stale { .. } => "stale",
        Refusal::Busy { .. } => "busy",
        Refusal::NotReady => "not_ready",
        Refusal::RateLimited => "rate_limited",
        Refusal::DiskFull => "disk_full",
        Refusal::Forbidden { .. } => "forbidden",
        Refusal::UnknownThread { .. } => "unknown_thread",
        Refusal::ThreadExists { .. } => "thread_exists",
        Refusal::ReadOnly { .. } => "read_only",
        Refusal::UnknownRun { .. } => "unknown_run",
        Refusal::UnknownRequest { .. } => "unknown_request",
        Refusal::UnknownAgent { .. } => "unknown_agent",
        Refusal::UnknownWorkspace { .. } => "unknown_workspace",
        Refusal::Full { .. } => "full",
        Refusal::Invalid { .. } => "invalid",
        Refusal::Expired => "expired",
        Refusal::UnknownCommand { .. } => "unknown_command",
    }
}

pub(super) fn refusals() -> Vec<Refusal> {
    let run = id!(RunId, 3);
    let request = id!(RequestId, 12);
    let stale = |what| Refusal::Stale { what };
    vec![
        Refusal::Unsupported {
            capability: CapabilityFlag::Interrupt,
        },
        Refusal::UnsupportedMode {
            agent: "codex".into(),
            mode: Mode::FullAccess,
        },
        Refusal::NotRespondable {
            request,
            status: ClosedAs::Withdrawn,
        },
        Refusal::AlreadyAnswered {
            request,
            by: Some(id!(DeviceId, 1)),
            answer: Some(choice()),
            at_ms: 23,
        },
        Refusal::TurnEnded {
            run,
            status: Some(RunStatus::Completed),
            message: Some(id!(MessageId, 2)),
        },
        stale(StaleWhat::Content {
            now: ContentHash::of("{}"),
        }),
        stale(StaleWhat::Attempt),
        stale(StaleWhat::Run { active: Some(run) }),
        stale(StaleWhat::QueueRevision { now: 24 }),
        stale(StaleWhat::RunningItem {
            item: id!(ItemId, 7),
        }),
        Refusal::Busy {
            what: "restarting".into(),
        },
        Refusal::NotReady,
        Refusal::RateLimited,
        Refusal::DiskFull,
        Refusal::Forbidden {
            scope: Scope::Approve,
        },
        Refusal::UnknownThread {
            thread: id!(ThreadId, 15),
        },
        Refusal::ThreadExists {
            thread: id!(ThreadId, 15),
        },
        Refusal::ReadOnly {
            reason: "newer".into(),
        },
        Refusal::UnknownRun { run },
        Refusal::UnknownRequest { request },
        Refusal::UnknownAgent {
            agent: "codx".into(),
            known: vec!["codex".into()],
        },
        Refusal::UnknownWorkspace {
            workspace: "elsewhere".into(),
            known: vec!["project".into()],
        },
        Refusal::Full {
            what: Cap::Queue,
            cap: 64,
        },
        Refusal::Invalid {
            field: "text".into(),
            problem: "empty".into(),
        },
        Refusal::Expired,
        Refusal::UnknownCommand {
            name: "thread.fork".into(),
        },
    ]
}

pub(super) fn provider_event_name(event: &ProviderEvent) -> &'static str {
    match &event.kind {
        ProviderEventKind::SessionReady { .. } => "session_ready",
        ProviderEventKind::SessionEnded { .. } => "session_ended",
        ProviderEventKind::ThreadBound => "thread_bound",
        ProviderEventKind::TurnStarted => "turn_started",
        ProviderEventKind::TurnEnded { .. } => "turn_ended",
        ProviderEventKind::ItemOpened { .. } => "item_opened",
        ProviderEventKind::ItemUpdated { .. } => "item_updated",
        ProviderEventKind::ItemAppended { .. } => "item_appended",
        ProviderEventKind::ItemClosed { .. } => "item_closed",
        ProviderEventKind::RequestOpened { .. } => "request_opened",
        ProviderEventKind::RequestClosed { .. } => "request_closed",
        ProviderEventKind::TodoList { .. } => "todo_list",
        ProviderEventKind::ChildOpened { .. } => "child_opened",
        ProviderEventKind::ChildClosed { .. } => "child_closed",
        ProviderEventKind::Usage { .. } => "usage",
        ProviderEventKind::ModelRerouted { .. } => "model_rerouted",
        ProviderEventKind::Error { .. } => "error",
        ProviderEventKind::Unknown { .. } => "unknown",
        ProviderEventKind::Diagnostic { .. } => "diagnostic",
    }
}

pub(super) fn provider_events() -> Vec<ProviderEvent> {
    let item: NativeId = "c0n0".into();
    let content = items().remove(1);
    let kinds = vec![
        ProviderEventKind::SessionReady {
            incarnation: id!(Incarnation, 5),
            version: "0.171.0".into(),
            capabilities: capabilities(),
        },
        ProviderEventKind::SessionEnded {
            reason: LostReason::ProtocolError,
            detail: "not JSON".into(),
        },
        ProviderEventKind::ThreadBound,
        ProviderEventKind::TurnStarted,
        ProviderEventKind::TurnEnded {
            status: TurnStatus::Failed,
            error: Some(error()),
        },
        ProviderEventKind::ItemOpened {
            item: item.clone(),
            content: content.clone(),
            client_id: Some("m1".into()),
        },
        ProviderEventKind::ItemUpdated {
            item: item.clone(),
            content: content.clone(),
        },
        ProviderEventKind::ItemAppended {
            item: item.clone(),
            text: "more".into(),
            shape: Box::new(content.clone()),
        },
        ProviderEventKind::ItemClosed {
            item: item.clone(),
            status: ItemStatus::Completed,
            content,
            client_id: Some("m1".into()),
        },
        ProviderEventKind::RequestOpened {
            request: "0".into(),
            item: Some(item.clone()),
            kind: RequestKind::Command,
            subject: Box::new(subject()),
            unknown_fields: true,
        },
        ProviderEventKind::RequestClosed {
            request: "0".into(),
            resolution: Resolution::Unsaid,
        },
        ProviderEventKind::TodoList { entries: vec![] },
        ProviderEventKind::ChildOpened {
            child: "C".into(),
            item: Some(item),
            title: "Look".into(),
        },
        ProviderEventKind::ChildClosed {
            child: "C".into(),
            status: TurnStatus::Interrupted,
        },
        ProviderEventKind::Usage { usage: usage() },
        ProviderEventKind::ModelRerouted {
            from: "a".into(),
            to: "b".into(),
        },
        ProviderEventKind::Error {
            error: error(),
            will_retry: true,
        },
        ProviderEventKind::Unknown {
            label: "thread/goal".into(),
            raw: "{}".into(),
        },
        ProviderEventKind::Diagnostic {
            message: "slow".into(),
        },
    ];
    kinds
        .into_iter()
        .map(|kind| ProviderEvent {
            place: NativePlace {
                thread: Some("C".into()),
                root: Some("T".into()),
                turn: Some("U".into()),
            },
            kind,
        })
        .collect()
}

pub(super) fn item_name(content: &ItemContent) -> &'static str {
    match content {
        ItemContent::UserMessage { .. } => "user_message",
        ItemContent::AssistantMessage { .. } => "assistant_message",
        ItemContent::Reasoning { .. } => "reasoning",
        ItemContent::Command { .. } => "command",
        ItemContent::FileChange { .. } => "file_change",
        ItemContent::FileSearch { .. } => "file_search",
        ItemContent::WebSearch { .. } => "web_search",
        ItemContent::Tool { .. } => "tool",
        ItemContent::Plan { .. } => "plan",
        ItemContent::Todo { .. } => "todo",
        ItemContent::Question { .. } => "question",
        ItemContent::Approval { .. } => "approval",
        ItemContent::Error { .. } => "error",
        ItemContent::Compaction { .. } => "compaction",
        ItemContent::Interrupt { .. } => "interrupt",
        ItemContent::Subagent { .. } => "subagent",
        ItemContent::ModelRerouted { .. } => "model_rerouted",
        ItemContent::Unknown { .. } => "unknown",
    }
}

pub(super) fn items() -> Vec<ItemContent> {
    let text = || Body::inline("text");
    vec![
        ItemContent::UserMessage {
            message: Some(id!(MessageId, 2)),
            text: text(),
            attachments: message().attachments,
        },
        ItemContent::AssistantMessage { text: stored() },
        ItemContent::Reasoning { text: text() },
        ItemContent::Command {
            command: "make".into(),
            cwd: "/home/dev/project".into(),
            output: text(),
            agent_output: Some(text()),
            exit_code: Some(-1),
            duration_ms: Some(25),
        },
        ItemContent::FileChange {
            changes: vec![change()],
        },
        ItemContent::FileSearch {
            query: "fn main".into(),
            result: text(),
        },
        ItemContent::WebSearch {
            query: "rust".into(),
        },
        ItemContent::Tool {
            server: Some("files".into()),
            name: "read".into(),
            arguments: text(),
            result: text(),
        },
        ItemContent::Plan {
            plan: Some(id!(PlanId, 13)),
            text: text(),
        },
        ItemContent::Todo {
            entries: vec![TodoEntry {
                text: "write it".into(),
                status: TodoStatus::Completed,
            }],
        },
        ItemContent::Question {
            request: id!(RequestId, 12),
        },
        ItemContent::Approval {
            request: id!(RequestId, 12),
        },
        ItemContent::Error {
            code: ErrorCode::Limit,
            message: "429".into(),
            will_retry: true,
        },
        ItemContent::Compaction { text: text() },
        ItemContent::Interrupt {
            note: "stop was asked for".into(),
        },
        ItemContent::Subagent {
            child: Some(id!(NodeId, 8)),
            title: "Look".into(),
            result: text(),
        },
        ItemContent::ModelRerouted {
            from: "a".into(),
            to: "b".into(),
        },
        ItemContent::Unknown {
            label: "x".into(),
            raw: text(),
        },
    ]
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::Message(message()),
        Row::Run(Run {
            id: id!(RunId, 3),
            ordinal: Some(1),
            status: RunStatus::Waiting,
            blocked_on: BlockedOn::Question,
            origin: Origin::External,
            message: Some(id!(MessageId, 2)),
            dispatch: Some(steer()),
            attempt: Some(id!(AttemptId, 14)),
            supersedes: Some(id!(RunId, 17)),
            usage: Some(usage()),
            error: Some(error()),
            started_at_ms: Some(26),
            ended_at_ms: Some(27),
        }),
        Row::Attempt(RunAttempt {
            id: id!(AttemptId, 14),
            run: id!(RunId, 3),
            ordinal: 1,
            root_node: id!(NodeId, 9),
            reason: AttemptReason::Initial,
            status: AttemptStatus::Completed,
            provider_thread: Some(id!(ProviderThreadId, 6)),
            turn: Some(id!(ProviderTurnId, 18)),
            correlation: Some(Correlation::Weak),
        }),
        Row::Node(node()),
        Row::Item(item()),
        Row::Request(Box::new(request())),
        Row::Session(session()),
        Row::ProviderThread(provider_thread()),
        Row::Turn(ProviderTurn {
            id: id!(ProviderTurnId, 18),
            provider_thread: id!(ProviderThreadId, 6),
            attempt: id!(AttemptId, 14),
            ended: Some(end()),
        }),
        Row::Plan(plan()),
    ]
}

pub(super) fn summary() -> ThreadSummary {
    ThreadSummary {
        thread: id!(ThreadId, 15),
        title: "Make the tests pass".into(),
        workspace: "project".into(),
        agent: "codex".into(),
        mode: Mode::Ask,
        active: Some(ActiveSummary {
            run: id!(RunId, 3),
            status: RunStatus::Running,
            blocked_on: BlockedOn::None,
            since_ms: 26,
        }),
        last_run: Some(EndedRun {
            id: id!(RunId, 17),
            ordinal: 1,
            status: RunStatus::Completed,
        }),
        waiting: WaitingCounts {
            approvals: 1,
            questions: 2,
        },
        queued: 3,
        held: Some(HoldReason::Failed),
        last_line: "Done.".into(),
        archived: false,
        created_at_ms: 28,
        updated_at_ms: 29,
        seq: 30,
    }
}

pub(super) fn entries() -> Vec<Entry> {
    let causes = [
        Cause::Command {
            command: id!(CommandId, 19),
            device: id!(DeviceId, 1),
        },
        Cause::Internal {
            name: "finish_run".into(),
        },
        Cause::Provider {
            session: id!(SessionId, 4),
        },
        Cause::Effect {
            effect: id!(EffectId, 31),
        },
        Cause::Clock,
        Cause::Host {
            fact: "boot".into(),
        },
    ];
    let unknown = UnknownEvent {
        kind: "goal.set".into(),
        skippable: true,
        rest: serde_json::from_str(r#"{"goal":"win","weight":3}"#).unwrap(),
    };
    causes
        .into_iter()
        .map(|cause| Entry {
            thread: id!(ThreadId, 15),
            epoch: id!(Epoch, 20),
            seq: 3,
            chain: cursor().chain,
            log_format: LOG_FORMAT,
            host_time_ms: 29,
            cause,
            events: vec![
                Event::QueueHeld { reason: None }.into(),
                LoggedEvent::Unknown(unknown.clone()),
            ],
        })
        .collect()
}

pub(super) fn effects() -> Vec<Effect> {
    let run = id!(RunId, 3);
    let attempt = id!(AttemptId, 14);
    let message = id!(MessageId, 2);
    [
        EffectKind::SendTurn {
            run,
            attempt,
            message,
        },
        EffectKind::Steer {
            run,
            attempt,
            turn: id!(ProviderTurnId, 18),
            message,
        },
        EffectKind::Interrupt {
            run,
            attempt,
            turn: None,
        },
        EffectKind::Respond {
            request: id!(RequestId, 12),
            answer: words(),
        },
    ]
    .into_iter()
    .map(|kind| Effect {
        id: id!(EffectId, 31),
        kind,
    })
    .collect()
}

pub(super) fn effect_outcomes() -> Vec<EffectOutcome> {
    vec![
        EffectOutcome::TurnAccepted {
            native_thread: "T".into(),
            native_turn: Some("U".into()),
        },
        EffectOutcome::Steered,
        EffectOutcome::TurnEnded,
        EffectOutcome::Acknowledged,
        EffectOutcome::Written,
        EffectOutcome::Failed { error: error() },
        EffectOutcome::Unknown,
    ]
}

pub(super) fn bindings() -> Vec<Binding> {
    let thread: NativeId = "T".into();
    vec![
        Binding {
            key: BindingKey::Thread {
                thread: thread.clone(),
            },
            target: BindingTarget::Thread {
                provider_thread: id!(ProviderThreadId, 6),
                node: Some(id!(NodeId, 8)),
                run: Some(id!(RunId, 3)),
            },
        },
        Binding {
            key: BindingKey::Turn {
                thread: thread.clone(),
                turn: "U".into(),
            },
            target: BindingTarget::Turn {
                turn: id!(ProviderTurnId, 18),
                attempt: id!(AttemptId, 14),
                run: id!(RunId, 3),
                ordinal: 1,
                node: id!(NodeId, 9),
                ended: true,
            },
        },
        Binding {
            key: BindingKey::Item {
                thread: thread.clone(),
                item: "c0n0".into(),
            },
            target: BindingTarget::Item {
                item: id!(ItemId, 7),
                run: id!(RunId, 3),
                node: id!(NodeId, 9),
                message: Some(id!(MessageId, 2)),
                closed: Some(BlobHash::of(b"closed")),
            },
        },
        Binding {
            key: BindingKey::Request {
                incarnation: id!(Incarnation, 5),
                thread,
                turn: Some("U".into()),
                request: "0".into(),
            },
            target: BindingTarget::Request {
                request: id!(RequestId, 12),
                occurrence: 2,
                open: true,
            },
        },
    ]
}

pub(super) fn policy() -> Policy {
    let mut capabilities = CapabilitySet::default();
    capabilities.insert(CapabilityFlag::Interrupt, CapabilityValue::Yes);
    Policy {
        version: 1,
        agents: [(
            "codex".into(),
            AgentPolicy {
                family: "codex".into(),
                modes: Mode::ALL.to_vec(),
                capabilities,
            },
        )]
        .into(),
        workspaces: vec!["project".into()],
        default_mode: Mode::Ask,
    }
}

pub(super) fn states() -> Vec<ThreadState> {
    let empty = ThreadState::empty(id!(ThreadId, 15));
    let mut full = empty.clone();
    full.meta = Some(ThreadMeta {
        title: "Make the tests pass".into(),
        workspace: "project".into(),
        selection: selection(),
        lineage: None,
        lifecycle: Lifecycle::Active,
    });
    full.active = Some(ActiveRun {
        id: id!(RunId, 3),
        ordinal: 2,
        message: Some(id!(MessageId, 2)),
        origin: Origin::Person,
        status: RunStatus::Finalizing,
        blocked_on: BlockedOn::None,
        attempt: Some(AttemptSlot {
            id: id!(AttemptId, 14),
            message: Some(id!(MessageId, 2)),
            root_node: id!(NodeId, 9),
            status: AttemptStatus::Failed,
            turn: Some(id!(ProviderTurnId, 18)),
        }),
        attempts: 1,
        interrupting: Some(id!(AttemptId, 14)),
        stop_holds_queue: true,
        restart_pending: Some(id!(MessageId, 32)),
        steering: vec![id!(MessageId, 33)],
        answered: true,
        barrier: Some(Barrier {
            end: end(),
            error: Some(error()),
        }),
    });
    full.queue = vec![QueuedRun {
        run: id!(RunId, 34),
        message: id!(MessageId, 35),
        dispatch: steer(),
        origin: Origin::Person,
    }];
    full.held = Some(HoldReason::Interrupted);
    full.requests = vec![RequestSlot {
        id: id!(RequestId, 12),
        kind: RequestKind::UserInput,
        answering: true,
        content: ContentHash::of("{}").mark(),
        node: id!(NodeId, 8),
        item: Some(id!(ItemId, 7)),
    }];
    full.nodes = vec![NodeSlot {
        id: id!(NodeId, 8),
        parent: Some(id!(NodeId, 9)),
        run: id!(RunId, 3),
        kind: NodeKind::Subagent,
        status: NodeStatus::Background,
        provider_thread: Some(id!(ProviderThreadId, 6)),
    }];
    full.items = vec![ItemSlot {
        id: id!(ItemId, 7),
        node: id!(NodeId, 8),
        background: true,
        kind: ItemKind::Tool,
    }];
    full.session = Some(SessionSlot {
        id: id!(SessionId, 4),
        agent: "codex".into(),
        incarnation: id!(Incarnation, 5),
        live: true,
        capability_version: 1,
        capabilities: capabilities().set(),
    });
    full.provider_threads = vec![ProviderThreadSlot {
        id: id!(ProviderThreadId, 6),
        agent: "codex".into(),
        coverage: 2,
        status: ProviderThreadStatus::Divergent,
        owner: None,
    }];
    full.provider_thread = Some(id!(ProviderThreadId, 6));
    full.plan = Some(id!(PlanId, 13));
    full.last_run = summary().last_run;
    full.checkpoints = vec![CheckpointSlot {
        id: id!(CheckpointId, 36),
        run: id!(RunId, 17),
        captured: true,
    }];
    full.transfers = vec![id!(TransferId, 37)];
    full.read_only = Some("newer".into());
    vec![empty, full]
}
