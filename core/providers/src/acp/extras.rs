//! Updates that most agents do not send yet: plans by id, notices, compactions, subagents.

use super::{
    codec::{Codec, Received},
    content,
    conversation::{COLLECTED, NAMED},
};
use crate::rpc::{
    event,
    frames::{RAW_LIMIT, cut, text_of, text_or_empty},
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    item::{TodoEntry, TodoStatus},
    provider::TurnStatus,
    run::{ErrorCode, RunError},
};
use serde_json::Value;

/// Adds to a text as far as it may grow.
pub(super) fn collect(words: &mut String, more: &str) {
    let room = COLLECTED.saturating_sub(words.len());
    words.push_str(&cut(more, room));
}

pub(super) fn todos(entries: &Value) -> Vec<TodoEntry> {
    entries
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .take(512)
        .map(|entry| TodoEntry {
            text: cut(&text_or_empty(entry, "content"), 4096),
            status: match text_of(entry, "status").as_deref() {
                Some("completed") => TodoStatus::Completed,
                Some("in_progress") => TodoStatus::InProgress,
                _ => TodoStatus::Pending,
            },
        })
        .collect()
}

/// Several lists are shown as one, in the order of their ids.
pub(super) fn todo_list(
    codec: &mut Codec,
    session: &NativeId,
    id: String,
    entries: Option<Vec<TodoEntry>>,
    out: &mut Vec<Received>,
) {
    let lists = &mut codec.conversation(session).todos;
    match entries {
        Some(entries) => {
            lists.insert(id, entries);
            if lists.len() > NAMED {
                lists.pop_first();
            }
        }
        None if lists.remove(&id).is_none() => return,
        None => {}
    }
    let entries = lists.values().flatten().cloned().collect();
    let place = codec.place(session);
    event(out, place, ProviderEventKind::TodoList { entries });
}

pub(super) fn plan_update(
    codec: &mut Codec,
    session: &NativeId,
    plan: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let id = text_of(plan, "planId")?;
    match text_of(plan, "type").as_deref() {
        Some("items") => {
            let entries = todos(plan.get("entries")?);
            todo_list(codec, session, id, Some(entries), out);
        }
        Some("markdown") => {
            let text = text_of(plan, "content").or_else(|| text_of(plan, "markdown"))?;
            let (item, _) = named(codec, session, &NativeId(format!("plan {id}")), |_| {});
            let kind = ProviderEventKind::ItemClosed {
                item,
                status: ItemStatus::Completed,
                content: ItemContent::Plan {
                    plan: None,
                    text: Body::inline(text),
                },
                client_id: None,
            };
            event(out, codec.place(session), kind);
        }
        _ => return None,
    }
    Some(())
}

/// The item and the collected text of something that has an id of the agent's own.
pub(super) fn named(
    codec: &mut Codec,
    session: &NativeId,
    id: &NativeId,
    change: impl FnOnce(&mut String),
) -> (NativeId, String) {
    if codec.conversation(session).named.get(id).is_none() {
        let item = NativeId(codec.mint("named"));
        let named = &mut codec.conversation(session).named;
        named.insert(id.clone(), (item, String::new()));
    }
    let Some((item, text)) = codec.conversation(session).named.get_mut(id) else {
        return (id.clone(), String::new());
    };
    change(text);
    (item.clone(), text.clone())
}

pub(super) fn notice(
    codec: &Codec,
    session: &NativeId,
    update: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let title = text_of(update, "title")?;
    let severity = text_or_empty(update, "severity");
    let words = match text_of(update, "description") {
        Some(more) => format!("{title}: {more}"),
        None => title,
    };
    let kind = if severity == "error" {
        ProviderEventKind::Error {
            error: RunError {
                code: ErrorCode::Agent,
                message: cut(&words, RAW_LIMIT),
            },
            will_retry: false,
        }
    } else {
        ProviderEventKind::Unknown {
            label: cut(&format!("notice ({severity})"), 120),
            raw: cut(&words, RAW_LIMIT),
        }
    };
    event(out, codec.place(session), kind);
    Some(())
}

pub(super) fn compaction(
    codec: &mut Codec,
    session: &NativeId,
    update: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let id = NativeId(format!("compaction {}", text_of(update, "compactionId")?));
    let whole = update
        .get("summary")
        .filter(|summary| summary.is_array())
        .map(content::texts);
    let (item, summary) = named(codec, session, &id, |text| {
        if let Some(whole) = whole {
            text.clear();
            collect(text, &whole);
        }
    });
    let words = text_of(update, "error").unwrap_or(summary);
    let content = ItemContent::Compaction {
        text: Body::inline(words),
    };
    let status = match text_of(update, "status").as_deref() {
        Some("completed") => Some(ItemStatus::Completed),
        Some("failed") => Some(ItemStatus::Failed),
        Some("cancelled") => Some(ItemStatus::Interrupted),
        _ => None,
    };
    let kind = match status {
        Some(status) => ProviderEventKind::ItemClosed {
            item,
            status,
            content,
            client_id: None,
        },
        None => ProviderEventKind::ItemOpened {
            item,
            content,
            client_id: None,
        },
    };
    event(out, codec.place(session), kind);
    Some(())
}

pub(super) fn subagent(
    codec: &mut Codec,
    session: &NativeId,
    update: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let child = NativeId(text_of(update, "sessionId")?);
    if child == *session {
        return None;
    }
    if !codec.children.contains(&child) {
        let root = codec.place(session);
        let home = root.root.clone().unwrap_or_else(|| session.clone());
        codec.children.insert(child.clone(), home);
        let title = text_of(update, "title").or_else(|| text_of(update, "description"));
        let kind = ProviderEventKind::ChildOpened {
            child: child.clone(),
            item: None,
            title: cut(&title.unwrap_or_else(|| "subagent".to_owned()), 500),
        };
        event(out, root, kind);
    }
    let state = update.get("state").unwrap_or(&Value::Null);
    if text_of(state, "state").as_deref() == Some("idle") {
        codec.hush(&child, out);
        let status = match text_of(state, "stopReason").as_deref() {
            Some("end_turn") | None => TurnStatus::Completed,
            Some("cancelled") => TurnStatus::Interrupted,
            Some(_) => TurnStatus::Failed,
        };
        let kind = ProviderEventKind::ChildClosed { child, status };
        event(out, codec.place(session), kind);
    }
    Some(())
}
