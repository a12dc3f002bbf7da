//! After events may have been missed: what opencode says now is compared with what is known.

use super::{
    codec::{Codec, Told, id_of, tell},
    history::begun_by,
    replies::{Entries, Working},
};
use crate::rpc::{asked::request_id, frames::list};
use pilothouse_domain::{
    NativeId, ProviderEventKind,
    provider_event::Resolution,
    request::RequestKind,
    run::{ErrorCode, RunError},
};
use serde_json::Value;
use std::collections::BTreeMap;

impl Codec {
    /// Compares what waits in a directory with what is known: what came unseen is opened, and what is gone is closed.
    /// `working` is what the conversations of that directory did *before* the lists were read: a stopped conversation leaves
    /// its requests in them; `before` are the requests that were known then.
    pub fn waiting(
        &mut self,
        directory: &str,
        working: &BTreeMap<NativeId, Working>,
        permissions: &Entries,
        questions: &Entries,
        before: &[NativeId],
    ) -> Vec<Told> {
        let mut out = Vec::new();
        let mut there = Vec::new();
        for (list, question) in [(permissions, false), (questions, true)] {
            for told in &list.0 {
                let id = id_of(told, "id").map(|id| request_id(&id.0.into()));
                let session = id_of(told, "sessionID");
                there.extend(id);
                if session.is_some_and(|session| working.contains_key(&session)) {
                    self.ask(question, told, &mut out);
                }
            }
        }
        let gone: Vec<_> = self
            .requests
            .iter()
            .filter(|(id, pending)| {
                before.contains(id)
                    && !there.contains(id)
                    // A sign-in stands in none of its lists.
                    && pending.opened.kind != RequestKind::Auth
                    && self
                        .conversation(&pending.opened.thread)
                        .is_some_and(|known| known.directory == directory)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for request in gone {
            if let Some(pending) = self.requests.take(&request) {
                self.over.insert(request.clone(), ());
                let kind = ProviderEventKind::RequestClosed {
                    request,
                    resolution: Resolution::Unsaid,
                };
                tell(pending.place, kind, &mut out);
            }
        }
        out
    }

    /// Takes in what a conversation's messages are that does nothing, although nothing was heard of the end of its turn: ends
    /// were lost on streams that lived. A turn whose message opencode took and never wrote down has failed.
    pub fn fell_silent(&mut self, session: &NativeId, messages: &Entries) -> Vec<Told> {
        let mut out = self.synchronise(session, None, messages);
        if let Some(turn) = self
            .conversation_mut(session)
            .and_then(|known| known.turn.as_mut())
            .filter(|turn| turn.accepted && !turn.seen)
        {
            turn.error = Some(RunError {
                code: ErrorCode::Agent,
                message: "opencode took the message and said nothing more of it".to_owned(),
            });
            self.end_turn(session, &mut out);
        }
        out
    }

    /// Takes in what a conversation's messages are now, after events may have been missed. `working` is what it did *before*
    /// they were read; `None` if it was idle.
    pub fn synchronise(
        &mut self,
        session: &NativeId,
        working: Option<Working>,
        messages: &Entries,
    ) -> Vec<Told> {
        let mut out = Vec::new();
        let known = self.conversation(session);
        let Some(known) = known else { return out };
        let going_on = known.turn.as_ref().map(|turn| turn.id.clone());
        let newest = messages.0.iter().rev().find_map(begun_by);
        // Messages before the turn that goes on were told when they came; in an idle conversation all were.
        let from = match (&going_on, working) {
            (Some(turn), _) => Some(turn.clone()),
            (None, Some(_)) => newest,
            (None, None) => None,
        };
        // By their places: an id of ours is of this machine's clock, one of opencode's of its own.
        let place = from.and_then(|from| {
            messages
                .0
                .iter()
                .position(|message| id_of(&message["info"], "id").as_ref() == Some(&from))
        });
        for (at, message) in messages.0.iter().enumerate() {
            let info = message.get("info").unwrap_or(&Value::Null);
            let Some(id) = id_of(info, "id") else {
                continue;
            };
            if place.is_some_and(|place| at >= place) {
                self.message(session, info, &mut out);
                for part in list(message, "parts") {
                    self.part(session, part, "", &mut out);
                }
            } else {
                self.remember(session, &id, info);
            }
        }
        let Some(turn) = self
            .conversation_mut(session)
            .and_then(|known| known.turn.as_mut())
        else {
            return out;
        };
        match working {
            Some(working) if turn.seen => {
                turn.alive = true;
                turn.retrying = working == Working::Retrying;
            }
            Some(_) => {}
            None if turn.seen => self.end_turn(session, &mut out),
            None => {}
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencode::replies::Session;
    use pilothouse_domain::{ItemContent, provider::TurnStatus};
    use serde_json::json;

    fn opened(turn: &str) -> (Codec, NativeId) {
        let session = NativeId::from("ses_1");
        let mut codec = Codec::new();
        codec.open(&Session {
            id: session.clone(),
            directory: "/w".to_owned(),
            parent: None,
            created_ms: 0,
            rules: Vec::new(),
            model: None,
            reverted: None,
        });
        assert!(codec.prompted(&session, NativeId::from(turn)));
        codec.accepted(&session, &NativeId::from(turn));
        (codec, session)
    }

    fn user(id: &str) -> Value {
        json!({"info": {"id": id, "sessionID": "ses_1", "role": "user", "time": {"created": 1}},
            "parts": [{"id": format!("prt_{id}"), "messageID": id, "sessionID": "ses_1", "type": "text", "text": "go"}]})
    }

    fn assistant(id: &str, parent: &str, text: &str, error: Value) -> Value {
        let mut info = json!({"id": id, "sessionID": "ses_1", "role": "assistant", "parentID": parent,
            "time": {"created": 2, "completed": 3}, "finish": "stop"});
        if !error.is_null() {
            info["error"] = error;
        }
        json!({"info": info, "parts": [{"id": format!("prt_{id}"), "messageID": id, "sessionID": "ses_1",
            "type": "text", "text": text, "time": {"start": 2, "end": 3}}]})
    }

    /// What was said, and how the turn ended.
    fn told(
        mut codec: Codec,
        session: &NativeId,
        messages: Vec<Value>,
    ) -> (Vec<String>, Option<TurnStatus>) {
        let (mut said, mut ended) = (Vec::new(), None);
        for told in codec.synchronise(session, None, &Entries(messages)) {
            let Told::Event(event) = told else { continue };
            match event.kind {
                ProviderEventKind::ItemClosed {
                    content: ItemContent::AssistantMessage { text },
                    ..
                } => said.push(text.preview().to_owned()),
                ProviderEventKind::TurnEnded { status, .. } => ended = Some(status),
                _ => {}
            }
        }
        (said, ended)
    }

    #[test]
    fn what_a_turn_said_is_told_though_our_clock_is_ahead_of_opencodes() {
        let turn = "msg_ff0000000000-ours";
        let (codec, session) = opened(turn);
        let messages = vec![
            user("msg_010000000000aaaa"),
            assistant(
                "msg_010000000001aaaa",
                "msg_010000000000aaaa",
                "before",
                Value::Null,
            ),
            user(turn),
            assistant("msg_020000000000aaaa", turn, "missed", Value::Null),
        ];
        let (said, ended) = told(codec, &session, messages);
        assert_eq!(said, ["missed"]);
        assert_eq!(ended, Some(TurnStatus::Completed));
    }

    #[test]
    fn a_turn_before_is_not_taken_for_this_one_though_our_clock_is_behind_opencodes() {
        let turn = "msg_000000000001-ours";
        let (codec, session) = opened(turn);
        let aborted = json!({"name": "MessageAbortedError", "data": {"message": "x"}});
        let messages = vec![
            user("msg_010000000000aaaa"),
            assistant(
                "msg_010000000001aaaa",
                "msg_010000000000aaaa",
                "before",
                aborted,
            ),
            user(turn),
            assistant("msg_020000000000aaaa", turn, "now", Value::Null),
        ];
        let (said, ended) = told(codec, &session, messages);
        assert_eq!(said, ["now"]);
        assert_eq!(ended, Some(TurnStatus::Completed));
    }
}
