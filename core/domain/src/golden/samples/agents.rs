//! What agents emit, and items.

use super::{domain::*, id, parts::*};

pub(in crate::golden) fn provider_event_name(event: &ProviderEvent) -> &'static str {
    match &event.kind {
        ProviderEventKind::SessionReady { .. } => "session_ready",
        ProviderEventKind::ModelsOffered { .. } => "models_offered",
        ProviderEventKind::CommandsOffered { .. } => "commands_offered",
        ProviderEventKind::Limits { .. } => "limits",
        ProviderEventKind::AbilitiesChanged => "abilities_changed",
        ProviderEventKind::SignedIn => "signed_in",
        ProviderEventKind::SignInFailed { .. } => "sign_in_failed",
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

pub(in crate::golden) fn provider_events() -> Vec<ProviderEvent> {
    let item: NativeId = "c0n0".into();
    let content = items().remove(1);
    let kinds = vec![
        ProviderEventKind::SessionReady {
            incarnation: id!(Incarnation, 5),
            version: "0.171.0".into(),
            capabilities: capabilities(),
        },
        ProviderEventKind::ModelsOffered {
            models: vec![offered()],
        },
        ProviderEventKind::CommandsOffered {
            commands: vec![offered_command()],
        },
        ProviderEventKind::Limits {
            limits: vec![limit()],
        },
        ProviderEventKind::AbilitiesChanged,
        ProviderEventKind::SignedIn,
        ProviderEventKind::SignInFailed {
            message: "device auth timed out after 15 minutes".into(),
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

pub(in crate::golden) fn item_name(content: &ItemContent) -> &'static str {
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
        ItemContent::Fork { .. } => "fork",
        ItemContent::Rollback { .. } => "rollback",
        ItemContent::Subagent { .. } => "subagent",
        ItemContent::ModelRerouted { .. } => "model_rerouted",
        ItemContent::Unknown { .. } => "unknown",
    }
}

pub(in crate::golden) fn items() -> Vec<ItemContent> {
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
        ItemContent::Fork {
            source: id!(ThreadId, 16),
            run: id!(RunId, 17),
        },
        ItemContent::Rollback {
            before: id!(RunId, 3),
            runs: 2,
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
