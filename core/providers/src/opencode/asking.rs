//! Permissions and questions of opencode as requests, from its stream of events and from its lists.

use super::{
    codec::{Codec, Settling, Told, id_of, tell, unknown},
    conversation::{HELD, KEPT},
    outgoing::Call,
    requests,
    rules::{self, Action},
};
use crate::rpc::{
    Received,
    asked::{Opened, request_id},
    budget,
    frames::{RAW_LIMIT, cut, text_of, text_or_empty},
};
use pilothouse_domain::{
    NativeId, ProviderEventKind,
    provider_event::{NativePlace, Resolution},
    request::RequestKind,
};
use serde_json::{Value, json};

/// A permission for a command that is not shown before its tool is told.
#[derive(Debug, Clone)]
pub(super) struct Early {
    pub(super) session: NativeId,
    item: NativeId,
    told: Value,
}

impl Early {
    /// Bytes that it holds beside itself.
    pub(super) fn weight(&self) -> usize {
        budget::id(Some(&self.session)) + budget::id(Some(&self.item)) + budget::json(&self.told)
    }
}

impl Codec {
    /// opencode asks for a tool of a server before it says what it is called with (docs/agents-probes.md, section 15): the
    /// request then shows it, as another one than before.
    pub(super) fn show_input(&mut self, item: &NativeId, input: &str, out: &mut Vec<Told>) {
        self.requests.change(
            |pending| {
                let opened = &pending.opened;
                opened.item.as_ref() == Some(item)
                    && opened.kind == RequestKind::Tool
                    && opened.subject.text.is_none()
            },
            |pending| requests::show_input(&mut pending.opened.subject, input),
            |place, kind| tell(place, kind, out),
        );
    }

    /// A tool has begun, or has ended already: what waited for that is asked, if it is still to be.
    pub(super) fn release(&mut self, item: &NativeId, ended: bool, out: &mut Vec<Told>) {
        let early = self.early.iter().filter(|(_, early)| early.item == *item);
        let ids: Vec<NativeId> = early.map(|(id, _)| id.clone()).collect();
        for id in ids {
            if let Some(early) = self.early.remove(&id).filter(|_| !ended) {
                self.ask(false, &early.told, out);
            }
        }
    }

    /// `permission.asked` and `question.asked`. A command is asked for before its tool is told, which follows at once and says
    /// where it runs: the request is opened then. Where nothing follows, a list that holds it opens it as incomplete.
    pub(super) fn asked(&mut self, question: bool, told: &Value, out: &mut Vec<Told>) {
        match self.early(question, told) {
            Some((id, early)) => {
                if let Some(oldest) = self.early.insert(id, early) {
                    self.ask(false, &oldest.told, out);
                }
            }
            None => self.ask(question, told, out),
        }
    }

    /// What is asked, if it is a command whose tool has not begun.
    fn early(&mut self, question: bool, told: &Value) -> Option<(NativeId, Early)> {
        if question || text_of(told, "permission")? != "bash" || budget::json(told) > KEPT {
            return None;
        }
        let (id, session) = (id_of(told, "id")?, id_of(told, "sessionID")?);
        let call = NativeId::from(told.pointer("/tool/callID")?.as_str()?);
        let known = self.conversation_mut(&session)?;
        let (item, part) = known.part_of_call(&call)?;
        let has_begun = part.opened || part.ended;
        let early = Early {
            session,
            item,
            told: told.clone(),
        };
        (!has_begun).then(|| (request_id(&json!(id.0)), early))
    }

    /// What is asked, as one of a list is.
    pub(super) fn ask(&mut self, question: bool, told: &Value, out: &mut Vec<Told>) {
        let (Some(id), Some(session)) =
            (id_of(told, "id").map(|id| id.0), id_of(told, "sessionID"))
        else {
            let raw = cut(&told.to_string(), RAW_LIMIT);
            let label = "a request without an id or a conversation".to_owned();
            return unknown(NativePlace::default(), label, raw, out);
        };
        let key = request_id(&json!(id));
        self.early.remove(&key);
        let Some(place) = self.place(&session) else {
            return;
        };
        let settling = self.settling.get(&key).copied();
        if self.over.contains(&key) || settling == Some(Settling::Called) {
            return;
        }
        if place.root.is_some() {
            self.announce(&session, None, out);
        }
        let mode = self.mode_of(&session);
        let Some(known) = self.conversation_mut(&session) else {
            return;
        };
        // What a request is about must be a call of this very conversation.
        let call = told.pointer("/tool/callID").and_then(Value::as_str);
        let room = HELD.saturating_sub(known.held());
        let item = call
            .and_then(|call| known.part_of_call(&NativeId::from(call)))
            .filter(|(_, part)| !part.ended)
            .map(|(item, part)| {
                let changes = requests::changes(told.get("metadata").unwrap_or(&Value::Null));
                let size: u64 = changes.iter().map(|change| change.diff.len()).sum();
                if (size as usize) <= KEPT.min(room) {
                    part.changes = changes;
                }
                (item, part.unsaid.clone())
            });
        let (item, unsaid) = item.map_or((None, None), |(item, unsaid)| (Some(item), unsaid));
        let opened = match question {
            true => requests::question(session.clone(), told, None),
            false => requests::permission(session.clone(), told, item, unsaid),
        };
        let settled = match (&place.root, question, settling) {
            (Some(_), false, None) => rules::settled(mode, &text_or_empty(told, "permission")),
            _ => None,
        };
        if let Some(action) = settled {
            self.settling.insert(key, Settling::Called);
            out.push(Told::Do(Call::Reply {
                request: id,
                question: false,
                body: match action {
                    Action::Allow => json!({"reply": "once"}),
                    Action::Ask | Action::Deny => json!({
                        "reply": "reject",
                        "message": "This conversation may only read. Go on without it."
                    }),
                },
            }));
            return;
        }
        let mut opened = opened;
        let closed = |place, kind| tell(place, kind, out);
        if !self.requests.takes(&json!(id), &place, &mut opened, closed) {
            return self.refuse(id, question, place, out);
        }
        opened.turn.clone_from(&place.turn);
        self.open_request(id, place, opened, out);
    }

    pub(super) fn open_request(
        &mut self,
        id: String,
        place: NativePlace,
        opened: Opened,
        out: &mut Vec<Told>,
    ) {
        let mut told: Vec<Received<(), ()>> = Vec::new();
        self.requests.open(json!(id), place, opened, &mut told);
        out.extend(told.into_iter().filter_map(|one| match one {
            Received::Event(event) => Some(Told::Event(event)),
            Received::Reply { .. } | Received::Send(_) => None,
        }));
    }

    /// Too many requests wait: this one is refused at once, so that nothing hangs.
    fn refuse(&mut self, id: String, question: bool, place: NativePlace, out: &mut Vec<Told>) {
        let message = "refused a request: too many wait already".to_owned();
        tell(place, ProviderEventKind::Diagnostic { message }, out);
        out.push(Told::Do(Call::Reply {
            request: id,
            question,
            body: match question {
                true => json!({}),
                false => json!({"reply": "reject"}),
            },
        }));
    }

    /// `permission.replied`, `question.replied` and `question.rejected`.
    pub(super) fn replied(&mut self, session: &NativeId, told: &Value, out: &mut Vec<Told>) {
        let Some(id) = text_of(told, "requestID") else {
            return;
        };
        let request = request_id(&json!(id));
        if self
            .early
            .get(&request)
            .is_some_and(|early| early.session == *session)
        {
            self.early.remove(&request);
        }
        // One that is answered by another conversation's name is none of ours.
        let ours = self
            .requests
            .get(&request)
            .is_some_and(|pending| pending.opened.thread == *session);
        if !ours {
            return;
        }
        let Some(pending) = self.requests.take(&request) else {
            return;
        };
        self.over.insert(request.clone(), ());
        let question = pending.opened.kind == RequestKind::UserInput;
        let refused = match question {
            true => told.get("answers").is_none(),
            false => told.get("reply").and_then(Value::as_str) == Some("reject"),
        };
        let mut resolution = Resolution::Answered;
        if let Some(known) = self.conversation_mut(session)
            && refused
        {
            if let Some(part) = pending
                .opened
                .item
                .as_ref()
                .and_then(|item| known.parts.get_mut(item))
            {
                part.declined = true;
            }
            if let Some(turn) = &mut known.turn {
                // Whether words went with it shows in what follows: then a message of the model does.
                turn.refused = true;
            }
            if known.rejecting && !pending.answered {
                // Taken along by the refusal of another.
                resolution = Resolution::Withdrawn;
            }
        }
        let kind = ProviderEventKind::RequestClosed {
            request,
            resolution,
        };
        tell(pending.place, kind, out);
    }
}
