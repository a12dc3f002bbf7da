//! Parts that several samples share.

use super::{agents::items, domain::*, id};

pub(in crate::golden) fn selection() -> Selection {
    Selection {
        agent: "codex".into(),
        model: Some("gpt-5.5".into()),
        effort: None,
        mode: Mode::Ask,
        sandbox: None,
    }
}

pub(in crate::golden) fn by_device() -> Actor {
    Actor::Device {
        device: id!(DeviceId, 1),
    }
}

pub(in crate::golden) fn message() -> ConversationMessage {
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

pub(in crate::golden) fn error() -> RunError {
    RunError {
        code: ErrorCode::ModelService,
        message: "503".into(),
    }
}

pub(in crate::golden) fn usage() -> Usage {
    Usage {
        input: 1200,
        cached_input: 1000,
        output: 80,
        reasoning: 10,
        ..Usage::default()
    }
}

pub(in crate::golden) fn end() -> TurnEnd {
    TurnEnd {
        status: TurnStatus::Completed,
        correlation: Correlation::Strong,
    }
}

pub(in crate::golden) fn session() -> ProviderSession {
    ProviderSession {
        id: id!(SessionId, 4),
        agent: "codex".into(),
        driver: "codex".into(),
        version: Some("0.171.0".into()),
        incarnation: id!(Incarnation, 5),
        status: SessionStatus::Ready,
        capability_version: 1,
        models: Vec::new(),
        commands: Vec::new(),
        limits: Vec::new(),
    }
}

pub(in crate::golden) fn provider_thread() -> ProviderThread {
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

pub(in crate::golden) fn capabilities() -> Capabilities {
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

pub(in crate::golden) fn stored() -> Body {
    Body::Stored(StoredBody {
        hash: BlobHash::of(b"long"),
        bytes: 70_000,
        head: "first".into(),
        tail: "last".into(),
        dropped: 12,
    })
}

pub(in crate::golden) fn item() -> TurnItem {
    TurnItem {
        id: id!(ItemId, 7),
        position: Position { run: 1, arrival: 9 },
        run: id!(RunId, 3),
        node: id!(NodeId, 8),
        status: ItemStatus::Open,
        content: items().remove(3),
        opened_at_ms: 10,
        closed_at_ms: Some(11),
        anomaly: None,
    }
}

pub(in crate::golden) fn change() -> FileChange {
    FileChange {
        path: "src/lib.rs".into(),
        action: FileAction::Update,
        moved_to: Some("src/main.rs".into()),
        diff: Body::inline("+x"),
    }
}

pub(in crate::golden) fn subject() -> Subject {
    Subject {
        command: Some("touch c1".into()),
        cwd: Some("/home/dev/project".into()),
        changes: vec![change()],
        reach: vec!["write /opt".into()],
        reason: Some("to see".into()),
        text: Some("a plan".into()),
        sign_in: Some(SignInSteps {
            url: "https://auth.example.org/device".into(),
            code: Some("ABCD-1234".into()),
        }),
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
            optional: true,
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

pub(in crate::golden) fn request() -> RuntimeRequest {
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

pub(in crate::golden) fn choice() -> Answer {
    Answer::Choose {
        option: "accept".into(),
        note: Some("and quickly".into()),
    }
}

pub(in crate::golden) fn words() -> Answer {
    Answer::Reply {
        replies: vec![QuestionReply {
            question: "q1".into(),
            chosen: vec!["Red".into()],
            text: Some("a dark one".into()),
        }],
    }
}

pub(in crate::golden) fn node() -> ExecutionNode {
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

pub(in crate::golden) fn plan() -> PlanArtifact {
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

pub(in crate::golden) fn offered() -> OfferedModel {
    OfferedModel {
        id: "gpt-5.5".into(),
        name: "GPT 5.5".into(),
        efforts: vec!["low".into(), "high".into()],
        default_effort: Some("low".into()),
        is_default: true,
        images: Some(false),
    }
}

pub(in crate::golden) fn offered_command() -> OfferedCommand {
    OfferedCommand {
        name: "/hail".into(),
        description: "Greets someone.".into(),
        argument_hint: "NAME".into(),
    }
}

pub(in crate::golden) fn limit() -> AccountLimit {
    AccountLimit {
        name: "codex primary".into(),
        used_percent: 40,
        window_minutes: Some(300),
        resets_at_ms: Some(41),
        reached: true,
    }
}

pub(in crate::golden) fn transfer() -> ContextTransfer {
    ContextTransfer {
        id: id!(TransferId, 37),
        kind: TransferKind::Fork,
        source: id!(ThreadId, 16),
        base_point: None,
        source_point: super::commands::cursor(),
        source_run: Some(id!(RunId, 17)),
        status: TransferStatus::Pending,
    }
}

pub(in crate::golden) fn steer() -> DispatchMode {
    DispatchMode::SteerActive { run: id!(RunId, 3) }
}
