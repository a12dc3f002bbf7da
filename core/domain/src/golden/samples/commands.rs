//! Commands, what comes of them, refusals.

use super::{domain::*, id, parts::*};

pub(in crate::golden) fn commands() -> Vec<Command> {
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
        CommandBody::ThreadFork {
            title: "Another way".into(),
            source: id!(ThreadId, 16),
            run: Some(id!(RunId, 17)),
            workspace: ForkWorkspace::SameTree,
        },
        CommandBody::ThreadImport {
            title: "What was begun at the desk".into(),
            workspace: "project".into(),
            selection: selection(),
            conversation: id!(ConversationKey, 36),
        },
        CommandBody::ThreadRollback {
            before: id!(RunId, 3),
            last: id!(RunId, 34),
        },
        CommandBody::ThreadCompact,
        CommandBody::ThreadSignIn,
        CommandBody::ThreadSelect {
            model: Some("gpt-5.5".into()),
            effort: Some("high".into()),
            mode: Mode::AutoEdit,
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

pub(in crate::golden) fn cursor() -> Cursor {
    Cursor {
        epoch: id!(Epoch, 20),
        seq: 3,
        chain: Chain(Digest::from_bytes([21; 32])),
    }
}

pub(in crate::golden) fn notices() -> Vec<Notice> {
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

pub(in crate::golden) fn outcomes() -> Vec<Outcome> {
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

pub(in crate::golden) fn refusal_name(refusal: &Refusal) -> &'static str {
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
        Refusal::UnknownConversation { .. } => "unknown_conversation",
        Refusal::AlreadyHere { .. } => "already_here",
        Refusal::UnknownRun { .. } => "unknown_run",
        Refusal::UnfitRun { .. } => "unfit_run",
        Refusal::UnknownRequest { .. } => "unknown_request",
        Refusal::UnknownAgent { .. } => "unknown_agent",
        Refusal::UnknownModel { .. } => "unknown_model",
        Refusal::UnknownEffort { .. } => "unknown_effort",
        Refusal::UnknownWorkspace { .. } => "unknown_workspace",
        Refusal::Full { .. } => "full",
        Refusal::Invalid { .. } => "invalid",
        Refusal::Expired => "expired",
        Refusal::UnknownCommand { .. } => "unknown_command",
    }
}

pub(in crate::golden) fn refusals() -> Vec<Refusal> {
    let run = id!(RunId, 3);
    let request = id!(RequestId, 12);
    let stale = |what| Refusal::Stale { what };
    vec![
        Refusal::Unsupported {
            capability: CapabilityFlag::Interrupt,
            fallback: None,
        },
        Refusal::Unsupported {
            capability: CapabilityFlag::ForkThread,
            fallback: Some(Fallback::NewThread),
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
        stale(StaleWhat::LastRun { now: Some(run) }),
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
        Refusal::UnknownConversation {
            conversation: id!(ConversationKey, 36),
        },
        Refusal::AlreadyHere {
            thread: id!(ThreadId, 15),
        },
        Refusal::UnknownRun { run },
        Refusal::UnfitRun {
            run,
            unfit: Unfit::RolledBack,
        },
        Refusal::UnknownRequest { request },
        Refusal::UnknownAgent {
            agent: "codx".into(),
            known: vec!["codex".into()],
        },
        Refusal::UnknownModel {
            model: "gpt-5".into(),
            nearest: vec!["gpt-5.5".into()],
        },
        Refusal::UnknownEffort {
            effort: "hi".into(),
            known: vec!["high".into(), "low".into()],
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
            name: "thread.sing".into(),
        },
    ]
}
