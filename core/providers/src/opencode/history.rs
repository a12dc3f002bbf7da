//! A conversation's messages as the events of its turns.

use super::{
    codec::{Codec, Told, id_of, speaker},
    conversation::Speaker,
    replies::{Entries, Session, Working},
};
use crate::rpc::frames::{list, text_of, text_or_empty};
use pilothouse_domain::{NativeId, ProviderEvent, ProviderEventKind};
use serde_json::{Value, json};

impl Codec {
    /// The last turns of a conversation as events, oldest first, at most `turns`. `working` is what the conversation did
    /// *before* its messages were read. What its process left open when it was killed is told as interrupted.
    pub fn past(
        session: &Session,
        working: Option<Working>,
        messages: &Entries,
        turns: u32,
    ) -> Vec<ProviderEvent> {
        let mut codec = Self::new();
        // What was copied from another conversation is this one's past, too.
        codec.open(&Session {
            created_ms: 0,
            ..session.clone()
        });
        let mut out = Vec::new();
        let id_of_message = |message: &Value| id_of(message.get("info")?, "id");
        let reverted = session.reverted.as_ref().map(|from| {
            let mut ids = messages.0.iter().map(id_of_message);
            // Where it stands before what was read, its id alone tells; that is by the clock of who gave it.
            let there = ids.any(|id| id.as_ref() == Some(from));
            (from, there)
        });
        for message in &messages.0 {
            let info = message.get("info").unwrap_or(&Value::Null);
            let Some(id) = id_of(info, "id") else {
                continue;
            };
            if reverted.is_some_and(|(from, there)| if there { id == *from } else { id > *from }) {
                break;
            }
            let parts = list(message, "parts");
            if speaker(info) == Speaker::User && begins_turn(parts) {
                codec.end_turn(&session.id, &mut out);
                codec.remember(&session.id, &id, info);
                codec.begin(&session.id, id, &mut out);
            } else if speaker(info) != Speaker::User && codec.active_turn(&session.id).is_none() {
                // Its turn began before the first message that was read.
                continue;
            } else {
                codec.message(&session.id, info, &mut out);
            }
            for part in parts {
                let settled = match working {
                    Some(_) => None,
                    None => settled(part),
                };
                codec.part(&session.id, settled.as_ref().unwrap_or(part), "", &mut out);
            }
        }
        if working.is_none() {
            codec.end_turn(&session.id, &mut out);
        }
        let events: Vec<_> = out
            .into_iter()
            .filter_map(|told| match told {
                Told::Event(event) => Some(event),
                Told::Do(_) => None,
            })
            .collect();
        newest(events, turns)
    }
}

impl Codec {
    /// The message that begins the turn after a turn; `None` if that is the last.
    ///
    /// # Errors
    /// In words, if the messages do not hold the turn.
    pub fn turn_after(messages: &Entries, turn: &NativeId) -> Result<Option<NativeId>, String> {
        let begins: Vec<NativeId> = messages.0.iter().filter_map(begun_by).collect();
        match begins.iter().position(|id| id == turn) {
            Some(at) => Ok(begins.get(at + 1).cloned()),
            None => Err(format!(
                "the conversation does not hold the turn {turn} (any more)"
            )),
        }
    }

    /// The ids of a message and of all that follow it, the newest first; none if the messages do not hold it.
    pub fn messages_from(messages: &Entries, from: &NativeId) -> Vec<NativeId> {
        let ids = messages
            .0
            .iter()
            .filter_map(|message| id_of(message.get("info")?, "id"));
        let mut following: Vec<_> = ids.skip_while(|id| id != from).collect();
        following.reverse();
        following
    }

    /// Provider and model of the last answer.
    pub(super) fn last_model(messages: &[Value]) -> Option<(String, String)> {
        messages.iter().rev().find_map(|message| {
            let info = message.get("info")?;
            Some((text_of(info, "providerID")?, text_of(info, "modelID")?))
        })
    }
}

/// The id of a message that begins a turn.
pub(super) fn begun_by(message: &Value) -> Option<NativeId> {
    let info = message.get("info")?;
    (speaker(info) == Speaker::User && begins_turn(list(message, "parts")))
        .then(|| id_of(info, "id"))?
}

/// Whether a person said something in a message of theirs.
fn begins_turn(parts: &[Value]) -> bool {
    parts.iter().any(|part| {
        let kind = text_or_empty(part, "type");
        let synthetic = part.get("synthetic") == Some(&Value::Bool(true));
        matches!(kind.as_str(), "file" | "subtask") || (kind == "text" && !synthetic)
    })
}

/// A part of a conversation that does nothing any more: what is still open in it ended with its process.
fn settled(part: &Value) -> Option<Value> {
    let status = part.pointer("/state/status").and_then(Value::as_str);
    let kind = part.get("type").and_then(Value::as_str);
    match (kind, status) {
        (Some("tool"), Some("running" | "pending")) => {
            let mut part = part.clone();
            let state = part.get_mut("state")?.as_object_mut()?;
            state.insert("status".to_owned(), json!("error"));
            state.insert(
                "error".to_owned(),
                json!("opencode ended before the tool did"),
            );
            state.insert("metadata".to_owned(), json!({"interrupted": true}));
            Some(part)
        }
        (Some("text" | "reasoning"), _) if part.get("time").is_some() => {
            let mut part = part.clone();
            let time = part.get_mut("time")?.as_object_mut()?;
            if time.contains_key("end") {
                return None;
            }
            time.insert("end".to_owned(), json!(0));
            Some(part)
        }
        _ => None,
    }
}

/// The events of the newest turns.
fn newest(events: Vec<ProviderEvent>, turns: u32) -> Vec<ProviderEvent> {
    let begins: Vec<usize> = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.kind == ProviderEventKind::TurnStarted)
        .map(|(at, _)| at)
        .collect();
    let skip = begins.len().saturating_sub(turns as usize);
    let from = begins.get(skip).copied().unwrap_or(events.len());
    events.into_iter().skip(from).collect()
}
