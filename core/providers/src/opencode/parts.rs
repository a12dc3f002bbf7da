//! Parts of messages as items, and requests about them.
//!
//! A part's id is its item's. Text comes as an empty part, then in deltas, then whole; a tool as pending, running (again and
//! again, with all of its output so far) and completed or error.

use super::{
    codec::{Codec, Settling, Told, id_of, tell, unknown},
    conversation::{Part, Speaker},
    outgoing::Call,
    requests,
    rules::{self, Action},
    tools,
    turns::client_id,
};
use crate::rpc::{
    Received,
    asked::{Opened, request_id},
    frames::{RAW_LIMIT, cut, text_of, text_or_empty},
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    provider_event::{NativePlace, Resolution},
    request::RequestKind,
    run::{ErrorCode, RunError},
};
use serde_json::{Value, json};

/// Bytes of changes that are kept for the tool that they were asked for.
const KEPT: usize = 64 * 1024;
/// Bytes of them in one conversation.
const HELD: usize = 1024 * 1024;

impl Codec {
    /// `message.part.updated`.
    pub(super) fn part(
        &mut self,
        session: &NativeId,
        part: &Value,
        raw: &str,
        out: &mut Vec<Told>,
    ) {
        let (Some(id), Some(message)) = (id_of(part, "id"), id_of(part, "messageID")) else {
            return self.strange(session, "a part without an id", part, raw, out);
        };
        let Some(known) = self.conversation(session) else {
            return;
        };
        let kind = text_or_empty(part, "type");
        let speaker = match known.messages.get(&message) {
            Some(Speaker::Copied) => return,
            Some(&speaker) => speaker,
            // Only what the assistant says takes time.
            None if part.get("time").is_some() || kind == "tool" => Speaker::Assistant,
            None => Speaker::User,
        };
        match (kind.as_str(), speaker) {
            ("text", Speaker::User) => self.said(session, &message, id, part, out),
            ("compaction", Speaker::User) => {
                self.place_of_message(session, &message, out);
            }
            ("text" | "reasoning", _) => self.words(session, speaker, id, &kind, part, out),
            // A command that a subagent does has no words.
            ("file" | "subtask", Speaker::User) => {
                self.said_without_words(session, &message, id, out)
            }
            ("tool", _) => self.tool(session, id, part, out),
            ("step-finish", _) => self.used(session, part, out),
            // The beginning of a step, the state of the files, what a person attached, and what another event says.
            (
                "step-start" | "snapshot" | "patch" | "agent" | "retry" | "subtask" | "compaction"
                | "file",
                _,
            ) => {}
            (other, _) => {
                let label = format!("part `{}`", cut(other, 100));
                self.strange(session, &label, part, raw, out);
            }
        }
    }

    fn strange(
        &self,
        session: &NativeId,
        label: &str,
        part: &Value,
        raw: &str,
        out: &mut Vec<Told>,
    ) {
        let Some(place) = self.place(session) else {
            return;
        };
        let raw = match raw {
            "" => cut(&part.to_string(), RAW_LIMIT),
            raw => cut(raw, RAW_LIMIT),
        };
        unknown(place, label.to_owned(), raw, out);
    }

    /// A person's words.
    fn said(
        &mut self,
        session: &NativeId,
        message: &NativeId,
        id: NativeId,
        part: &Value,
        out: &mut Vec<Told>,
    ) {
        let flagged = |name: &str| part.get(name) == Some(&Value::Bool(true));
        if flagged("synthetic") || flagged("ignored") {
            return;
        }
        let Some(known) = self.conversation_mut(session) else {
            return;
        };
        known.parts.entry(message).ended = true;
        if std::mem::replace(&mut known.parts.entry(&id).ended, true) {
            return;
        }
        self.tell_said(session, message, id, text_or_empty(part, "text"), out);
    }

    /// A file of a person's, which comes after the words that it goes with. One without any is a message all the same.
    fn said_without_words(
        &mut self,
        session: &NativeId,
        message: &NativeId,
        id: NativeId,
        out: &mut Vec<Told>,
    ) {
        let Some(known) = self.conversation_mut(session) else {
            return;
        };
        if !std::mem::replace(&mut known.parts.entry(message).ended, true) {
            self.tell_said(session, message, id, String::new(), out);
        }
    }

    fn tell_said(
        &mut self,
        session: &NativeId,
        message: &NativeId,
        id: NativeId,
        text: String,
        out: &mut Vec<Told>,
    ) {
        let of_child = self.root_of(session) != Some(session);
        let Some(place) = self.place_of_message(session, message, out) else {
            return;
        };
        if of_child {
            // What a subagent is told is its title, and stands among its tool's arguments.
            return;
        }
        let kind = ProviderEventKind::ItemClosed {
            item: id,
            status: ItemStatus::Completed,
            content: ItemContent::UserMessage {
                message: None,
                text: Body::inline(text),
                attachments: Vec::new(),
            },
            client_id: client_id(message),
        };
        tell(place, kind, out);
    }

    /// The assistant's words, or its reasoning, or what it sums up.
    fn words(
        &mut self,
        session: &NativeId,
        speaker: Speaker,
        id: NativeId,
        kind: &str,
        part: &Value,
        out: &mut Vec<Told>,
    ) {
        let Some(place) = self.place(session) else {
            return;
        };
        let Some(known) = self.conversation_mut(session) else {
            return;
        };
        let reasoning = kind == "reasoning";
        let aborted = known.turn.as_ref().is_some_and(|turn| turn.aborted);
        let ended = part.pointer("/time/end").is_some();
        let state = known.parts.entry(&id);
        if state.ended {
            return;
        }
        state.reasoning = reasoning;
        let text = text_or_empty(part, "text");
        if speaker == Speaker::Summary && !reasoning {
            // It is no answer, and is shown when it is whole.
            if !ended {
                return;
            }
            state.ended = true;
            let kind = ProviderEventKind::ItemClosed {
                item: id,
                status: ItemStatus::Completed,
                content: ItemContent::Compaction {
                    text: Body::inline(text),
                },
                client_id: None,
            };
            return tell(place, kind, out);
        }
        let first = !std::mem::replace(&mut state.opened, true);
        state.ended = ended;
        let nothing_new = !first && !ended && text.is_empty();
        if nothing_new {
            return;
        }
        let content = spoken(reasoning, text);
        let kind = if ended {
            ProviderEventKind::ItemClosed {
                item: id,
                status: match aborted {
                    true => ItemStatus::Interrupted,
                    false => ItemStatus::Completed,
                },
                content,
                client_id: None,
            }
        } else if first {
            ProviderEventKind::ItemOpened {
                item: id,
                content,
                client_id: None,
            }
        } else {
            ProviderEventKind::ItemUpdated { item: id, content }
        };
        tell(place, kind, out);
    }

    /// `message.part.delta`.
    pub(super) fn delta(&mut self, session: &NativeId, told: &Value, out: &mut Vec<Told>) {
        let (Some(item), Some(text)) = (
            id_of(told, "partID"),
            text_of(told, "delta").filter(|text| !text.is_empty()),
        ) else {
            return;
        };
        let field = told.get("field").and_then(Value::as_str);
        let Some(known) = self.conversation_mut(session) else {
            return;
        };
        if field.is_some_and(|field| field != "text") {
            return;
        }
        let message = id_of(told, "messageID");
        let sums_up = message
            .and_then(|message| known.messages.get(&message))
            .is_some_and(|&speaker| speaker != Speaker::Assistant);
        let state = known.parts.entry(&item);
        if state.ended || (sums_up && !state.reasoning) {
            return;
        }
        state.opened = true;
        let shape = Box::new(spoken(state.reasoning, String::new()));
        if let Some(place) = self.place(session) {
            tell(
                place,
                ProviderEventKind::ItemAppended { item, text, shape },
                out,
            );
        }
    }

    fn tool(&mut self, session: &NativeId, id: NativeId, part: &Value, out: &mut Vec<Told>) {
        let Some(place) = self.place(session) else {
            return;
        };
        let (name, state) = (text_or_empty(part, "tool"), part.get("state"));
        let state = state.unwrap_or(&Value::Null);
        let status = text_or_empty(state, "status");
        let of_server = tools::server_of(&name, &self.servers);
        let Some(known) = self.conversation_mut(session) else {
            return;
        };
        if let Some(call) = id_of(part, "callID") {
            known.calls.insert(call, id.clone());
        }
        let directory = known.directory.clone();
        let aborted = known.turn.as_ref().is_none_or(|turn| turn.aborted);
        let room = HELD.saturating_sub(known.held()).min(KEPT);
        let kept = known.parts.entry(&id);
        if kept.ended || status == "pending" {
            return;
        }
        let mut learned = None;
        if kept.input.is_none()
            && tools::is_asked_by_name(&name)
            && let Some(input) = state.get("input").filter(|input| input.is_object())
        {
            let input = serde_json::to_string_pretty(input).ok();
            kept.input = input.filter(|input| input.len() <= room);
            kept.input.iter_mut().for_each(String::shrink_to_fit);
            learned.clone_from(&kept.input);
        }
        let error = text_or_empty(state, "error");
        let cut_short = tools::cut_short(&name, state);
        let ended = match status.as_str() {
            "completed" => cut_short.or(Some(ItemStatus::Completed)),
            "error" if kept.declined => Some(ItemStatus::Declined),
            "error" if state.pointer("/metadata/interrupted").is_some() => {
                Some(ItemStatus::Interrupted)
            }
            "error" if aborted && name == "task" => Some(ItemStatus::Interrupted),
            "error" => Some(ItemStatus::Failed),
            _ => None,
        };
        let output = match status.as_str() {
            "completed" => text_or_empty(state, "output"),
            _ if ended.is_some() => error.clone(),
            _ => String::new(),
        };
        let mut content = tools::content(&name, state, &directory, &kept.changes, output);
        if let Some(ItemContent::Tool { server, name, .. }) = &mut content
            && let Some((known, tool)) = of_server
        {
            (*server, *name) = (Some(known), tool);
        }
        let more = match &content {
            Some(ItemContent::Command { .. }) if ended.is_none() => state
                .pointer("/metadata/output")
                .and_then(Value::as_str)
                .and_then(|whole| kept.output.more(whole)),
            _ => None,
        };
        let first = !std::mem::replace(&mut kept.opened, true);
        if ended.is_some() {
            *kept = Part {
                opened: true,
                ended: true,
                ..Part::default()
            };
        }
        let Some(content) = content else { return };
        if let Some(input) = learned {
            self.show_input(&id, &input, out);
        }
        if let (Some(ItemStatus::Failed), ItemContent::FileChange { .. }) = (ended, &content)
            && !error.is_empty()
        {
            // Its item has no place for why it failed.
            let kind = ProviderEventKind::Error {
                error: RunError {
                    code: ErrorCode::Agent,
                    message: cut(&error, 1024),
                },
                will_retry: false,
            };
            tell(place.clone(), kind, out);
        }
        let shape = || match &content {
            ItemContent::Command { command, cwd, .. } => ItemContent::Command {
                command: command.clone(),
                cwd: cwd.clone(),
                output: Body::default(),
                agent_output: None,
                exit_code: None,
                duration_ms: None,
            },
            other => other.clone(),
        };
        let appended = more.map(|text| ProviderEventKind::ItemAppended {
            item: id.clone(),
            text,
            shape: Box::new(shape()),
        });
        let item = id.clone();
        let kind = match (ended, first) {
            (Some(status), _) => ProviderEventKind::ItemClosed {
                item,
                status,
                content,
                client_id: None,
            },
            (None, true) => ProviderEventKind::ItemOpened {
                item,
                content,
                client_id: None,
            },
            (None, false) => ProviderEventKind::ItemUpdated { item, content },
        };
        tell(place.clone(), kind, out);
        if let Some(kind) = appended {
            tell(place, kind, out);
        }
        if name == "task"
            && ended.is_none()
            && let Some(child) = state.pointer("/metadata/sessionId").and_then(Value::as_str)
        {
            self.announce(&NativeId::from(child), Some(id), out);
        }
    }

    /// `permission.asked` and `question.asked`, and what a list of either holds.
    /// opencode asks for a tool of a server before it says what it is called with (docs/agents-probes.md, section 15): the
    /// request then shows it, as another one than before.
    fn show_input(&mut self, item: &NativeId, input: &str, out: &mut Vec<Told>) {
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

    pub(super) fn ask(&mut self, question: bool, told: &Value, out: &mut Vec<Told>) {
        let (Some(id), Some(session)) =
            (id_of(told, "id").map(|id| id.0), id_of(told, "sessionID"))
        else {
            let raw = cut(&told.to_string(), RAW_LIMIT);
            let label = "a request without an id or a conversation".to_owned();
            return unknown(NativePlace::default(), label, raw, out);
        };
        let key = request_id(&json!(id));
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
        let directory = known.directory.clone();
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
                (item, part.input.clone())
            });
        let (item, input) = item.map_or((None, None), |(item, input)| (Some(item), input));
        let opened = match question {
            true => requests::question(session.clone(), told, None),
            false => requests::permission(session.clone(), told, &directory, item, input),
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

fn spoken(reasoning: bool, text: String) -> ItemContent {
    let text = Body::inline(text);
    match reasoning {
        true => ItemContent::Reasoning { text },
        false => ItemContent::AssistantMessage { text },
    }
}
