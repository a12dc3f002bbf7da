//! Rows as the engine gives them, made by hand.

use pilothouse_domain::{
    AgentName, ContentHash, DispatchMode, HostId, ItemId, ItemStatus, MessageId, Mode, Position,
    RequestId, RunId, RunStatus, Scope, Subject, ThreadId, ThreadSummary, WorkspaceId,
    item::{FileAction, FileChange},
    request::{Choice, OptionEffect, Question, RequestKind, RequestOption, RiskHint},
    row::{ActiveSummary, WaitingCounts},
    run::BlockedOn,
};
use pilothouse_engine::{
    ActiveRow, AgentRow, ChangeRow, HostRow, InboxRow, InboxState, LinkState, ListOp, QueueRow,
    RowContent, RowText, SignedOutRow, SubjectRow, ThreadHeader, ThreadRow, TimelineBatch,
    TimelineRow,
};

/// The time at which every example is looked at.
pub(super) const NOW: u64 = 1_800_000_125_000;

pub(super) fn host_id() -> HostId {
    HostId::from_bytes([1; 16])
}

pub(super) fn thread_id() -> ThreadId {
    ThreadId::from_bytes([2; 16])
}

pub(super) fn run_id(n: u8) -> RunId {
    RunId::from_bytes([0x30 + n; 16])
}

pub(super) fn item_id(n: u8) -> ItemId {
    ItemId::from_bytes([0x40 + n; 16])
}

pub(super) fn request_id(n: u8) -> RequestId {
    RequestId::from_bytes([0x50 + n; 16])
}

pub(super) fn host(link: LinkState) -> HostRow {
    HostRow {
        host: host_id(),
        name: "studio".to_owned(),
        addresses: vec![
            "192.168.1.5:7433".to_owned(),
            "studio.example.net:7433".to_owned(),
        ],
        link,
        last_seen_ms: Some(NOW - 60_000),
        waiting: WaitingCounts {
            approvals: 2,
            questions: 1,
        },
        scopes: vec![Scope::Read, Scope::Operate, Scope::Approve],
        agents: vec![AgentRow {
            name: AgentName::from("codex"),
            family: "codex".to_owned(),
            modes: vec![Mode::ReadOnly, Mode::Ask],
            sandboxes: Vec::new(),
        }],
        workspaces: vec![WorkspaceId::from("app")],
        default_mode: Mode::Ask,
        direct: None,
        signed_out: vec![SignedOutRow {
            agent: AgentName::from("codex"),
            family: "codex".to_owned(),
            threads: 20,
            thread: thread_id(),
            sign_in: vec!["codex login".to_owned()],
            can_sign_in: true,
            request: None,
            problem: None,
        }],
    }
}

pub(super) fn thread(title: &str) -> ThreadRow {
    ThreadRow {
        host: host_id(),
        host_name: "studio".to_owned(),
        summary: ThreadSummary {
            thread: thread_id(),
            title: title.to_owned(),
            workspace: WorkspaceId::from("app"),
            agent: AgentName::from("codex"),
            mode: Mode::Ask,
            sandbox: None,
            lineage: None,
            active: Some(ActiveSummary {
                run: run_id(1),
                status: RunStatus::Waiting,
                blocked_on: BlockedOn::Approval,
                since_ms: NOW - 125_000,
            }),
            last_run: None,
            waiting: WaitingCounts {
                approvals: 1,
                questions: 0,
            },
            queued: 1,
            held: None,
            sign_in_problem: None,
            last_line: "I will run the tests.".to_owned(),
            archived: false,
            created_at_ms: NOW - 600_000,
            updated_at_ms: NOW - 5_000,
            seq: 17,
        },
        pending: false,
        outstanding: 0,
    }
}

pub(super) fn option(id: &str, label: &str, effect: OptionEffect, reach: &str) -> RequestOption {
    RequestOption {
        id: id.into(),
        label: label.to_owned(),
        effect,
        reach: reach.to_owned(),
    }
}

pub(super) fn codex_options() -> Vec<RequestOption> {
    vec![
        option(
            "accept",
            "Yes, run it",
            OptionEffect::AllowOnce,
            "this once",
        ),
        option(
            "acceptForSession",
            "Yes, and don't ask again for this command",
            OptionEffect::AllowSession,
            "this exact command, until the session ends",
        ),
        option(
            "decline",
            "No",
            OptionEffect::Deny,
            "this once; the turn goes on",
        ),
        option(
            "cancel",
            "No, and stop",
            OptionEffect::DenyAndStop,
            "the turn is stopped",
        ),
    ]
}

/// A request that asks for this, with the hash that fits.
pub(super) fn request(n: u8, kind: RequestKind, subject: &Subject) -> InboxRow {
    let raw = serde_json::to_string(subject).unwrap();
    let text = |text: &pilothouse_domain::Body| RowText {
        text: text.preview().to_owned(),
        bytes: text.len(),
        ..RowText::default()
    };
    let change = |change: &FileChange| ChangeRow {
        path: change.path.clone(),
        action: change.action,
        moved_to: change.moved_to.clone(),
        diff: text(&change.diff),
    };
    InboxRow {
        host: host_id(),
        host_name: "studio".to_owned(),
        thread: thread_id(),
        thread_title: "Fix the flaky test".to_owned(),
        workspace: WorkspaceId::from("app"),
        agent: AgentName::from("codex"),
        request: request_id(n),
        content_hash: ContentHash::of(&raw),
        kind,
        title: "Run a command".to_owned(),
        subject: SubjectRow {
            command: subject.command.clone(),
            cwd: subject.cwd.clone(),
            changes: subject.changes.iter().map(change).collect(),
            reach: subject.reach.clone(),
            reason: subject.reason.clone(),
            text: subject.text.clone(),
            sign_in: subject.sign_in.clone(),
            questions: subject.questions.clone(),
            options: subject.options.clone(),
            incomplete: subject.incomplete,
            unreadable: false,
        },
        shown: String::new(),
        hidden_revealed: false,
        raw_subject: raw,
        verified: true,
        one_tap_allowed: true,
        default_to_no: false,
        hints: Vec::new(),
        asked_before: 0,
        opened_at_ms: NOW - 125_000,
        expires_at_ms: None,
        state: InboxState::Pending,
        refused: None,
        online: true,
    }
}

pub(super) fn command_request(command: &str) -> InboxRow {
    let subject = Subject {
        command: Some(command.to_owned()),
        cwd: Some("/home/ada/app".to_owned()),
        reason: Some("The tests have to pass before the commit.".to_owned()),
        options: codex_options(),
        ..Subject::default()
    };
    request(1, RequestKind::Command, &subject)
}

pub(super) fn change_request() -> InboxRow {
    let subject = Subject {
        changes: vec![
            FileChange {
                path: "src/main.rs".to_owned(),
                action: FileAction::Update,
                moved_to: None,
                diff: pilothouse_domain::Body::inline(
                    "@@ -1,2 +1,2 @@\n fn main() {\n-    old();\n+    new();",
                ),
            },
            FileChange {
                path: "notes.txt".to_owned(),
                action: FileAction::Delete,
                moved_to: None,
                diff: pilothouse_domain::Body::inline(""),
            },
        ],
        options: codex_options(),
        ..Subject::default()
    };
    InboxRow {
        hints: vec![RiskHint::DeletesFiles, RiskHint::TooLongForOneTap],
        one_tap_allowed: false,
        ..request(2, RequestKind::FileChange, &subject)
    }
}

pub(super) fn questions() -> Vec<Question> {
    let choice = |label: &str, description: Option<&str>| Choice {
        label: label.to_owned(),
        description: description.map(str::to_owned),
    };
    let question = |id: &str, header: &str, text: &str| Question {
        id: id.to_owned(),
        header: header.to_owned(),
        text: text.to_owned(),
        choices: Vec::new(),
        multi_select: false,
        optional: false,
        free_text: false,
        secret: false,
    };
    vec![
        Question {
            choices: vec![
                choice("Staging", Some("a copy")),
                choice("Production", None),
            ],
            ..question("db", "Database", "Which database?")
        },
        Question {
            choices: vec![choice("unit", None), choice("browser", None)],
            multi_select: true,
            free_text: true,
            ..question("tests", "Tests", "Which tests?")
        },
        Question {
            free_text: true,
            secret: true,
            ..question("token", "Token", "What is the token?")
        },
    ]
}

pub(super) fn question_request() -> InboxRow {
    let subject = Subject {
        questions: questions(),
        ..Subject::default()
    };
    InboxRow {
        hints: vec![RiskHint::NeedsAnswer],
        ..request(3, RequestKind::UserInput, &subject)
    }
}

pub(super) fn text(text: &str) -> RowText {
    RowText {
        text: text.to_owned(),
        bytes: text.len() as u64,
        ..RowText::default()
    }
}

pub(super) fn item(n: u8, status: ItemStatus, content: RowContent, said: &str) -> TimelineRow {
    TimelineRow {
        id: item_id(n),
        position: Some(Position {
            run: 1,
            arrival: u64::from(n),
        }),
        run: Some(run_id(1)),
        node: None,
        status,
        content,
        text: text(said),
        opened_at_ms: NOW - 10_000,
        closed_at_ms: (!status.is_live()).then_some(NOW - 8_500),
        anomaly: None,
        pending: false,
        delivery: None,
    }
}

pub(super) fn header() -> ThreadHeader {
    ThreadHeader {
        host: host_id(),
        thread: thread_id(),
        title: "Fix the flaky test".to_owned(),
        workspace: Some(WorkspaceId::from("app")),
        selection: None,
        lineage: None,
        rolling_back: None,
        usage: None,
        limits: Vec::new(),
        active: None,
        last_run: None,
        queue: Vec::new(),
        queue_revision: 3,
        held: None,
        waiting: WaitingCounts::default(),
        affordances: None,
        outstanding: 0,
        read_only: None,
        synchronised: true,
        older: false,
        cursor: None,
        digest: None,
    }
}

pub(super) fn running(status: RunStatus, blocked_on: BlockedOn) -> ThreadHeader {
    let active = ActiveRow {
        run: run_id(1),
        ordinal: Some(1),
        attempt: None,
        status,
        blocked_on,
        since_ms: Some(NOW - 20_000),
        interrupting: false,
        pending: false,
    };
    ThreadHeader {
        active: Some(active),
        ..header()
    }
}

pub(super) fn queued(n: u8, preview: &str) -> QueueRow {
    QueueRow {
        run: run_id(n),
        message: MessageId::from_bytes([0x60 + n; 16]),
        preview: preview.to_owned(),
        dispatch: DispatchMode::QueueAfterActive,
        pending: false,
    }
}

/// A batch that inserts these rows at the end of `before` rows.
pub(super) fn inserts(
    reset: bool,
    before: u32,
    rows: Vec<TimelineRow>,
    header: ThreadHeader,
) -> TimelineBatch {
    let ops = (before..)
        .zip(rows)
        .map(|(index, row)| ListOp::Insert { index, row })
        .collect();
    TimelineBatch {
        reset,
        ops,
        texts: Vec::new(),
        header,
    }
}
