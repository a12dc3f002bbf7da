//! Events of the stream, each to whoever reads it.

use super::{
    codec::{Codec, Told, id_of, tell, unknown},
    passed_over::{Passed, passed},
    replies,
};
use crate::rpc::frames::{RAW_LIMIT, cut, json_of_line, text_of, text_or_empty};
use pilothouse_domain::{ProviderEventKind, provider_event::NativePlace};
use serde_json::Value;

impl Codec {
    /// Reads an event.
    pub(super) fn frame(&mut self, data: &[u8], out: &mut Vec<Told>) {
        let text = String::from_utf8_lossy(data);
        let unreadable = |problem: String, out: &mut Vec<Told>| {
            let raw = cut(&text, RAW_LIMIT);
            unknown(NativePlace::default(), cut(&problem, 120), raw, out);
        };
        let mut value = match json_of_line(&text) {
            Ok(Value::Object(value)) => Value::Object(value),
            Ok(_) => {
                self.unreadable_in_a_row = self.unreadable_in_a_row.saturating_add(1);
                return unreadable("not a JSON object".to_owned(), out);
            }
            Err(error) => {
                self.unreadable_in_a_row = self.unreadable_in_a_row.saturating_add(1);
                return unreadable(format!("not JSON: {error}"), out);
            }
        };
        self.unreadable_in_a_row = 0;
        // The stream of all directories wraps each event.
        if let Some(payload) = value.get_mut("payload").filter(|inner| inner.is_object()) {
            value = payload.take();
        }
        let Some(name) = text_of(&value, "type") else {
            return unreadable("an event without a type".to_owned(), out);
        };
        self.telling |= !name.starts_with("server.");
        let properties = value
            .get_mut("properties")
            .map(Value::take)
            .unwrap_or_default();
        self.event(&name, &properties, &text, out);
    }

    fn event(&mut self, name: &str, told: &Value, raw: &str, out: &mut Vec<Told>) {
        let session = id_of(told, "sessionID");
        if let Some(session) = &session {
            match name {
                "message.part.delta" => return self.delta(session, told, out),
                "message.part.updated" => {
                    let part = told.get("part").unwrap_or(&Value::Null);
                    return self.part(session, part, raw, out);
                }
                "message.updated" => {
                    let info = told.get("info").unwrap_or(&Value::Null);
                    return self.message(session, info, out);
                }
                "session.status" => return self.status(session, told, out),
                "session.error" => return self.error(session, told, out),
                "session.created" | "session.updated" => return self.session(told),
                "permission.asked" | "question.asked" => {
                    return self.asked(name == "question.asked", told, out);
                }
                "permission.replied" | "question.replied" | "question.rejected" => {
                    return self.replied(session, told, out);
                }
                "todo.updated" => return self.todos(session, told, out),
                "session.deleted" => out.extend(self.deleted(session)),
                _ => {}
            }
        }
        match passed(name) {
            Some((Passed::Nothing, _)) => {}
            Some((Passed::Diagnostic, reason)) => {
                let message = format!("{name} ({reason})");
                let place = session
                    .and_then(|session| self.place(&session))
                    .unwrap_or_default();
                tell(place, ProviderEventKind::Diagnostic { message }, out);
            }
            None => {
                // An event of a conversation that is not ours is not ours either.
                let place = match &session {
                    Some(session) => match self.place(session) {
                        Some(place) => place,
                        None => return,
                    },
                    None => NativePlace::default(),
                };
                unknown(place, cut(name, 120), cut(raw, RAW_LIMIT), out);
            }
        }
    }

    /// What a conversation is, anew.
    fn session(&mut self, told: &Value) {
        let info = told.get("info").unwrap_or(&Value::Null);
        let Some(session) = replies::session(info) else {
            return;
        };
        match self.roots.get_mut(&session.id) {
            Some(known) => known.reverted = session.reverted,
            None => self.adopt(&session, &text_or_empty(info, "title")),
        }
    }
}
