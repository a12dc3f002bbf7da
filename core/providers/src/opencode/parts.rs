//! Parts of messages as items.
//!
//! A part's id is its item's. Text comes as an empty part, then in deltas, then whole; a tool as pending, running (again and
//! again, with all of its output so far) and completed or error.

use super::{
    codec::{Codec, Told, id_of, tell, unknown},
    conversation::{HELD, KEPT, Part, Speaker, Unsaid},
    tools,
    turns::client_id,
};
use crate::rpc::frames::{RAW_LIMIT, cut, text_of, text_or_empty};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    run::{ErrorCode, RunError},
};
use serde_json::Value;

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
        if kept.unsaid.is_none()
            && let Some(input) = state.get("input").filter(|input| input.is_object())
        {
            let unsaid = tools::unsaid(&name, input, &directory);
            kept.unsaid = unsaid.filter(|unsaid| unsaid.len() <= room);
            learned.clone_from(&kept.unsaid);
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
        self.release(&id, ended.is_some(), out);
        let Some(content) = content else { return };
        if let Some(Unsaid::Arguments(input)) = learned {
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
}

fn spoken(reasoning: bool, text: String) -> ItemContent {
    let text = Body::inline(text);
    match reasoning {
        true => ItemContent::Reasoning { text },
        false => ItemContent::AssistantMessage { text },
    }
}
