//! From a stored item to a timeline's row.

use crate::rows::{ChangeRow, RequestOutline, RowContent, RowText, TimelineRow};
use pilothouse_domain::{
    Body, ItemContent, ItemId, ItemStatus, MessageId, RequestId, RunId, RuntimeRequest, TurnItem,
    item::FileChange,
    thread::{Attachment, ConversationMessage, Delivery},
};

/// A body as a row holds it.
pub(crate) fn text_of(body: &Body) -> RowText {
    match body {
        Body::Inline(text) => RowText {
            bytes: text.len() as u64,
            text: text.clone(),
            ..RowText::default()
        },
        Body::Stored(stored) => RowText {
            text: stored.head.clone(),
            from: 0,
            bytes: stored.bytes,
            tail: Some(stored.tail.clone()),
            hash: Some(stored.hash),
            dropped: stored.dropped,
        },
    }
}

/// A file's change as a row holds it.
pub(crate) fn change_of(change: &FileChange) -> ChangeRow {
    ChangeRow {
        path: change.path.clone(),
        action: change.action,
        moved_to: change.moved_to.clone(),
        diff: text_of(&change.diff),
    }
}

/// A stored item as a row. `request` finds the request that an approval or question is about.
pub(crate) fn row_of(
    item: &TurnItem,
    request: impl Fn(RequestId) -> Option<RuntimeRequest>,
) -> TimelineRow {
    let (content, text) = content_of(&item.content, request);
    TimelineRow {
        id: item.id,
        position: Some(item.position),
        run: Some(item.run),
        node: Some(item.node),
        status: item.status,
        content,
        text,
        opened_at_ms: item.opened_at_ms,
        closed_at_ms: item.closed_at_ms,
        anomaly: item.anomaly,
        pending: false,
        delivery: None,
    }
}

/// The row of a request about an item, right behind that item: what was asked, and what became of it.
pub(crate) fn asked_row(item: &TurnItem, request: &RuntimeRequest) -> TimelineRow {
    let asked = Some(Box::new(RequestOutline {
        kind: request.kind,
        title: request.title.clone(),
        status: request.status.clone(),
    }));
    let content = if request.kind.is_question() {
        RowContent::Question {
            request: request.id,
            asked,
        }
    } else {
        RowContent::Approval {
            request: request.id,
            asked,
        }
    };
    let open = request.status.is_open();
    TimelineRow {
        id: ItemId::from_bytes(*request.id.as_bytes()),
        position: Some(item.position),
        run: Some(item.run),
        node: Some(item.node),
        status: if open {
            ItemStatus::Open
        } else {
            ItemStatus::Completed
        },
        content,
        text: RowText::default(),
        opened_at_ms: request.opened_at_ms,
        closed_at_ms: None,
        anomaly: None,
        pending: false,
        delivery: None,
    }
}

/// Items as rows, each with the requests that are about it.
pub(crate) fn rows_of<'a>(
    items: impl IntoIterator<Item = &'a TurnItem>,
    about: impl Fn(ItemId) -> Vec<RuntimeRequest>,
    request: impl Fn(RequestId) -> Option<RuntimeRequest>,
) -> Vec<TimelineRow> {
    let mut rows = Vec::new();
    for item in items {
        rows.push(row_of(item, &request));
        // One that asks by an item of its own stands there already.
        if !matches!(
            item.content,
            ItemContent::Approval { .. } | ItemContent::Question { .. }
        ) {
            rows.extend(about(item.id).iter().map(|asked| asked_row(item, asked)));
        }
    }
    rows
}

/// Says at the messages among some rows what went wrong on their way to the agent. Of one that stands in the log nothing
/// else is told: its run's standing does that.
pub(crate) fn tell_delivery(
    rows: &mut [TimelineRow],
    message: impl Fn(MessageId) -> Option<ConversationMessage>,
) {
    for row in rows {
        if let RowContent::UserMessage {
            message: Some(id), ..
        } = &row.content
            && row.delivery.is_none()
        {
            row.delivery = message(*id)
                .map(|message| message.delivery)
                .filter(|way| matches!(way, Delivery::Failed { .. } | Delivery::Unknown));
        }
    }
}

fn content_of(
    content: &ItemContent,
    request: impl Fn(RequestId) -> Option<RuntimeRequest>,
) -> (RowContent, RowText) {
    let outline = |id: RequestId| {
        request(id).map(|row| {
            Box::new(RequestOutline {
                kind: row.kind,
                title: row.title,
                status: row.status,
            })
        })
    };
    let none = RowText::default();
    match content {
        ItemContent::UserMessage {
            message,
            text,
            attachments,
        } => (
            RowContent::UserMessage {
                message: *message,
                attachments: attachments.clone(),
            },
            text_of(text),
        ),
        ItemContent::AssistantMessage { text } => (RowContent::AssistantMessage, text_of(text)),
        ItemContent::Reasoning { text } => (RowContent::Reasoning, text_of(text)),
        ItemContent::Command {
            command,
            cwd,
            output,
            agent_output,
            exit_code,
            duration_ms,
        } => (
            RowContent::Command {
                command: command.clone(),
                cwd: cwd.clone(),
                exit_code: *exit_code,
                duration_ms: *duration_ms,
                agent_output: agent_output.as_ref().map(text_of),
            },
            text_of(output),
        ),
        ItemContent::FileChange { changes } => (
            RowContent::FileChange {
                changes: changes.iter().map(change_of).collect(),
            },
            none,
        ),
        ItemContent::FileSearch { query, result } => (
            RowContent::FileSearch {
                query: query.clone(),
            },
            text_of(result),
        ),
        ItemContent::WebSearch { query } => (
            RowContent::WebSearch {
                query: query.clone(),
            },
            none,
        ),
        ItemContent::Tool {
            server,
            name,
            arguments,
            result,
        } => (
            RowContent::Tool {
                server: server.clone(),
                name: name.clone(),
                arguments: text_of(arguments),
            },
            text_of(result),
        ),
        ItemContent::Plan { text, .. } => (RowContent::Plan, text_of(text)),
        ItemContent::Todo { entries } => (
            RowContent::Todo {
                entries: entries.clone(),
            },
            none,
        ),
        ItemContent::Question { request } => (
            RowContent::Question {
                request: *request,
                asked: outline(*request),
            },
            none,
        ),
        ItemContent::Approval { request } => (
            RowContent::Approval {
                request: *request,
                asked: outline(*request),
            },
            none,
        ),
        ItemContent::Error {
            code,
            message,
            will_retry,
        } => (
            RowContent::Error {
                code: *code,
                message: message.clone(),
                will_retry: *will_retry,
            },
            none,
        ),
        ItemContent::Compaction { text } => (RowContent::Compaction, text_of(text)),
        ItemContent::Interrupt { note } => (RowContent::Interrupt { note: note.clone() }, none),
        ItemContent::Fork { source, run } => (
            RowContent::Fork {
                source: *source,
                run: *run,
            },
            none,
        ),
        ItemContent::Rollback { before, runs } => (
            RowContent::Rollback {
                before: *before,
                runs: *runs,
            },
            none,
        ),
        ItemContent::Subagent {
            child,
            title,
            result,
        } => (
            RowContent::Subagent {
                child: *child,
                title: title.clone(),
            },
            text_of(result),
        ),
        ItemContent::ModelRerouted { from, to } => (
            RowContent::ModelRerouted {
                from: from.clone(),
                to: to.clone(),
            },
            none,
        ),
        ItemContent::Unknown { label, raw } => (
            RowContent::Unknown {
                label: label.clone(),
            },
            text_of(raw),
        ),
    }
}

/// A message that no item of the log shows yet, at the end of the timeline.
pub(crate) fn message_row(
    message: MessageId,
    run: RunId,
    text: &Body,
    attachments: &[Attachment],
    delivery: Delivery,
) -> TimelineRow {
    TimelineRow {
        id: pilothouse_orchestrator::user_item(message),
        position: None,
        run: Some(run),
        node: None,
        status: ItemStatus::Open,
        content: RowContent::UserMessage {
            message: Some(message),
            attachments: attachments.to_vec(),
        },
        text: text_of(text),
        opened_at_ms: 0,
        closed_at_ms: None,
        anomaly: None,
        pending: true,
        delivery: Some(delivery),
    }
}

/// The first line of a text, at most 120 characters.
pub(crate) fn preview(text: &str) -> String {
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    line.trim().chars().take(120).collect()
}
