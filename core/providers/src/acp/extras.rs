//! Updates that most agents do not send yet: plans by id, notices, compactions, subagents.

use super::{
    codec::{Codec, Received},
    content::{self, id_of},
    conversation::{COLLECTED, NAMED, TodoList},
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

/// Entries of a todo list that are shown.
const TODOS: usize = 512;
/// Bytes of their texts together.
const TODO_TEXT: usize = 64 * 1024;

/// Adds to a text as far as it may grow.
pub(super) fn collect(words: &mut String, more: &str) {
    let room = COLLECTED.saturating_sub(words.len());
    words.push_str(&cut(more, room));
}

/// Entries of a todo list: as many as there is room for, and then how many more there are.
pub(super) fn todos(entries: &Value) -> Vec<TodoEntry> {
    let told = entries.as_array().map_or(&[][..], Vec::as_slice);
    let mut room = TODO_TEXT;
    let mut read = Vec::new();
    for entry in told.iter().take(TODOS) {
        let text = cut(&text_or_empty(entry, "content"), 4096);
        let Some(left) = room.checked_sub(text.len()) else {
            break;
        };
        room = left;
        let status = match text_of(entry, "status").as_deref() {
            Some("completed") => TodoStatus::Completed,
            Some("in_progress") => TodoStatus::InProgress,
            _ => TodoStatus::Pending,
        };
        read.push(TodoEntry { text, status });
    }
    if read.len() < told.len() {
        read.push(TodoEntry {
            text: format!("… and {} more", told.len() - read.len()),
            status: TodoStatus::Pending,
        });
    }
    read
}

/// Several lists are shown as one, in the order of their ids.
pub(super) fn todo_list(
    codec: &mut Codec,
    session: &NativeId,
    id: NativeId,
    entries: Option<Vec<TodoEntry>>,
    out: &mut Vec<Received>,
) {
    let lists = &mut codec.conversation(session).todos;
    match entries {
        Some(entries) => {
            lists.insert(id, TodoList::new(entries));
            if lists.len() > NAMED {
                lists.pop_first();
            }
        }
        None if lists.remove(&id).is_none() => return,
        None => {}
    }
    let entries = lists.values().flat_map(TodoList::entries).cloned();
    let entries = entries.collect();
    let place = codec.place(session);
    event(out, place, ProviderEventKind::TodoList { entries });
}

pub(super) fn plan_update(
    codec: &mut Codec,
    session: &NativeId,
    plan: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    let id = id_of(plan, "planId")?;
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
    let id = NativeId(format!("compaction {}", id_of(update, "compactionId")?));
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
    let child = id_of(update, "sessionId")?;
    if child == *session || codec.conversations.is_ours(&child) {
        return None;
    }
    let place = codec.place(session);
    if !codec.children.contains(&child) {
        let home = place.root.clone().unwrap_or_else(|| session.clone());
        codec.children.insert(child.clone(), home);
        let title = text_of(update, "title").or_else(|| text_of(update, "description"));
        let kind = ProviderEventKind::ChildOpened {
            child: child.clone(),
            item: None,
            title: cut(&title.unwrap_or_else(|| "subagent".to_owned()), 500),
        };
        event(out, place.clone(), kind);
    }
    let state = update.get("state").unwrap_or(&Value::Null);
    if text_of(state, "state").as_deref() == Some("idle") {
        codec.hush(&child, out);
        let asked = codec
            .requests
            .take_where(|pending| pending.opened.thread == child);
        codec.withdraw_all(asked, out);
        codec.conversations.forget(&child);
        let status = match text_of(state, "stopReason").as_deref() {
            Some("end_turn") | None => TurnStatus::Completed,
            Some("cancelled") => TurnStatus::Interrupted,
            Some(_) => TurnStatus::Failed,
        };
        event(out, place, ProviderEventKind::ChildClosed { child, status });
    }
    Some(())
}
