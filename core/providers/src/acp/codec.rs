//! The codec: bytes from an agent in, events and frames for it out. No clock, no process, no waiting.

use super::{
    conversation::Conversation,
    outgoing::{self, Call},
    profile::{self, Quirks},
    replies::{self, CallError, Reply},
    requests, updates,
};
use crate::rpc::{
    self, Peer,
    asked::{AnswerProblem, Opened, Requests, request_id},
    bounded::Bounded,
    event,
    frames::{FRAME_LIMIT, Frame, Lines, RAW_LIMIT, RpcError, cut, head, text_of},
};
use pilothouse_domain::{
    Answer, NativeId, ProviderEventKind, Subject,
    provider_event::{NativePlace, Resolution},
    request::RequestKind,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Calls of ours that may wait at a time.
const WAITING_CALLS: usize = 1024;
/// Conversations of one process that are known, its subagents' included.
const CONVERSATIONS: usize = 256;
/// Links to be opened that are remembered until the agent says that they were.
const LINKS: usize = 256;

/// What came of bytes from an agent.
pub type Received = rpc::Received<Reply, CallError>;

/// State of one connection to one agent process.
#[derive(Debug, Clone)]
pub struct Codec {
    /// Makes ids of ours differ from those of other lives of the process.
    life: String,
    lines: Lines,
    next_call: u64,
    next_id: u64,
    calls: BTreeMap<u64, Call>,
    pub(super) quirks: Quirks,
    /// With these words the agent says that a turn failed which it ends as if it had not.
    pub(super) failures: Vec<String>,
    pub(super) conversations: Bounded<Conversation>,
    /// Subagents' conversations, with the one they work for.
    pub(super) children: Bounded<NativeId>,
    /// The conversation that this process serves: what names none belongs to it.
    home: Option<NativeId>,
    pub(super) requests: Requests,
    /// Requests to open a link, by the link's id.
    links: Bounded<NativeId>,
    unreadable_in_a_row: u32,
}

impl Codec {
    /// A codec for a new process. `life` names this life of it and no other.
    pub fn new(life: &str) -> Self {
        Self {
            life: life.to_owned(),
            lines: Lines::new(FRAME_LIMIT),
            next_call: 1,
            next_id: 1,
            calls: BTreeMap::new(),
            quirks: Quirks::default(),
            failures: Vec::new(),
            conversations: Bounded::new(CONVERSATIONS),
            children: Bounded::new(CONVERSATIONS),
            home: None,
            requests: Requests::default(),
            links: Bounded::new(LINKS),
            unreadable_in_a_row: 0,
        }
    }

    /// Registers a call and gives its number and its line.
    pub fn call(&mut self, call: Call) -> (u64, Vec<u8>) {
        let id = self.next_call;
        let line = outgoing::call_line(id, &call);
        self.register(id, call);
        (id, line)
    }

    /// Registers a call that was written by somebody else under that number (replay of recordings).
    pub fn register(&mut self, id: u64, call: Call) {
        self.next_call = self.next_call.max(id.saturating_add(1));
        match &call {
            Call::Load { session, .. } | Call::Resume { session, .. } => {
                self.conversation(session).loading = true;
            }
            Call::Prompt { session, turn, .. } => {
                let turn = turn.clone();
                let known = self.conversation(session);
                known.turn = Some(turn);
                // What was said between two turns was closed as it came.
                known.speaking = None;
                known.last_words.clear();
            }
            _ => {}
        }
        self.calls.insert(id, call);
        if self.calls.len() > WAITING_CALLS {
            self.calls.pop_first();
        }
    }

    /// Begins a turn: its id, which is ours, and the line; `None` while another turn goes on in that conversation.
    pub fn prompt(&mut self, session: &NativeId, text: String) -> Option<(NativeId, Vec<u8>)> {
        if self.active_turn(session).is_some() {
            return None;
        }
        let turn = NativeId(self.mint("turn"));
        let (_, line) = self.call(Call::Prompt {
            session: session.clone(),
            turn: turn.clone(),
            text,
        });
        Some((turn, line))
    }

    /// Stops a turn: the lines to write; `None` if that turn is not going on. What the agent asks in it is answered with
    /// `cancelled`, as the protocol demands.
    pub fn cancel(&mut self, session: &NativeId, turn: &NativeId) -> Option<Vec<u8>> {
        if self.active_turn(session) != Some(turn) {
            return None;
        }
        let mut lines = outgoing::cancel_line(session);
        for (_, pending) in self.requests.iter_mut() {
            let concerned = pending.place.turn.as_ref() == Some(turn)
                || pending.place.root.as_ref() == Some(session);
            if concerned && !pending.answered {
                pending.answered = true;
                let result = requests::withdrawn(&pending.opened);
                lines.extend(outgoing::result_line(&pending.id, &result));
            }
        }
        Some(lines)
    }

    /// Forgets a call whose answer is no longer waited for.
    pub fn forget(&mut self, call: u64) {
        self.calls.remove(&call);
    }

    /// The turn that is going on in a conversation.
    pub fn active_turn(&self, session: &NativeId) -> Option<&NativeId> {
        self.conversations.get(session)?.turn.as_ref()
    }

    /// Requests that wait for an answer.
    pub fn pending_requests(&self) -> impl Iterator<Item = &NativeId> {
        self.requests.ids()
    }

    /// Bytes held in buffers and for tools at the moment.
    pub fn held_bytes(&self) -> usize {
        let tools = self.conversations.values().map(Conversation::held);
        self.lines.held() + tools.sum::<usize>()
    }

    /// Unreadable lines since the last readable frame.
    pub fn unreadable_in_a_row(&self) -> u32 {
        self.unreadable_in_a_row
    }

    /// What a conversation is set to, as far as the agent told.
    pub fn settings(&self, session: &NativeId) -> super::Settings {
        self.conversations
            .get(session)
            .map(|conversation| conversation.settings.clone())
            .unwrap_or_default()
    }

    /// The agent took a setting that it does not report by itself.
    pub(crate) fn set(&mut self, session: &NativeId, set: impl FnOnce(&mut super::Settings)) {
        set(&mut self.conversation(session).settings);
    }

    /// Takes bytes as they come, split anywhere.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<Received> {
        let mut frames = Vec::new();
        self.lines.push(bytes, &mut frames);
        self.take(frames)
    }

    /// The stream has ended: reads what is left of the last line.
    pub fn finish(&mut self) -> Vec<Received> {
        let mut frames = Vec::new();
        self.lines.finish(&mut frames);
        self.take(frames)
    }

    /// The frame for a person's answer. The protocol confirms none: the request is done with.
    ///
    /// # Errors
    /// [`AnswerProblem::NotPending`] if the agent does not wait for it or it was answered already, [`AnswerProblem::Unfit`]
    /// if the answer does not fit what was asked.
    pub fn answer(
        &mut self,
        request: &NativeId,
        answer: &Answer,
    ) -> Result<Vec<u8>, AnswerProblem> {
        let (id, result) = self.requests.answer(request, answer)?;
        if let Some(pending) = self.requests.take(request)
            && let Answer::Choose { option, .. } = answer
            && requests::refuses(&pending.opened, option)
            && let Some(item) = &pending.opened.item
        {
            self.conversation(&pending.opened.thread).declined(item);
        }
        Ok(outgoing::result_line(&id, &result))
    }

    /// Whether a pending request is the one that was shown: an agent may use a number again for something else.
    pub fn is_same_request(
        &self,
        request: &NativeId,
        thread: &NativeId,
        kind: RequestKind,
        shown: &Subject,
    ) -> bool {
        self.requests.is_same(request, thread, kind, shown)
    }

    /// An id of ours that no other life of the process has.
    pub(super) fn mint(&mut self, what: &str) -> String {
        let id = self.next_id;
        self.next_id += 1;
        format!("{what}/{}.{id}", self.life)
    }

    /// A conversation's state, made if it is new.
    pub(super) fn conversation(&mut self, session: &NativeId) -> &mut Conversation {
        self.conversations.entry(session)
    }

    /// The conversation that a frame names, or the one that this process serves.
    pub(super) fn session_of(&self, params: &Value) -> Option<NativeId> {
        text_of(params, "sessionId")
            .map(NativeId)
            .or_else(|| self.home.clone())
    }

    /// Where something in that conversation happens now. What comes between two turns belongs to the last one.
    pub(super) fn place(&self, session: &NativeId) -> NativePlace {
        let root = self.children.get(session).cloned();
        let turn = self
            .conversations
            .get(session)
            .filter(|_| root.is_none())
            .and_then(|known| known.turn.as_ref().or(known.last.as_ref()))
            .cloned();
        NativePlace {
            thread: Some(session.clone()),
            root,
            turn,
        }
    }

    fn take(&mut self, frames: Vec<Frame>) -> Vec<Received> {
        let mut out = Vec::new();
        for frame in frames {
            match &frame {
                Frame::Unreadable { .. } => {
                    self.unreadable_in_a_row = self.unreadable_in_a_row.saturating_add(1);
                }
                _ => self.unreadable_in_a_row = 0,
            }
            match frame {
                Frame::Notification { method, params } => self.notice(&method, &params, &mut out),
                Frame::Request { id, method, params } => self.ask(id, &method, &params, &mut out),
                Frame::Response { id, result } => self.reply(id, result, &mut out),
                Frame::Unreadable { problem, raw } => {
                    self.unknown(&Value::Null, cut(&problem, 120), raw, &mut out);
                }
                Frame::Oversized { bytes, raw } => self.oversized(bytes, raw, &mut out),
            }
        }
        out
    }

    /// Something that this version cannot read: shown as it is.
    pub(super) fn unknown(
        &self,
        params: &Value,
        label: String,
        raw: String,
        out: &mut Vec<Received>,
    ) {
        let place = self
            .session_of(params)
            .map(|session| self.place(&session))
            .unwrap_or_default();
        event(out, place, ProviderEventKind::Unknown { label, raw });
    }

    /// A frame that was too long may be one that somebody waits for: its head tells.
    fn oversized(&mut self, bytes: u64, raw: String, out: &mut Vec<Received>) {
        let head = head(&raw);
        let label = format!("frame of {bytes} bytes (at most {FRAME_LIMIT} are read)");
        self.unknown(&Value::Null, label, raw, out);
        match (head.id, head.method) {
            (Some(id), Some(_)) => {
                let refusal = outgoing::error_line(&id, -32600, "the request is too large");
                out.push(Received::Send(refusal));
            }
            (Some(id), None) => {
                if let Some((id, call)) = id
                    .as_u64()
                    .and_then(|id| Some((id, self.calls.remove(&id)?)))
                {
                    let method = call.method().to_owned();
                    self.answered(id, &call, Err(CallError::Unreadable { method }), out);
                }
            }
            (None, _) => {}
        }
    }

    fn reply(&mut self, id: Option<u64>, result: Result<Value, RpcError>, out: &mut Vec<Received>) {
        let Some((id, call)) = id.and_then(|id| Some((id, self.calls.remove(&id)?))) else {
            let message = match result {
                Ok(_) => "the agent answered a call that nobody made or waits for".to_owned(),
                Err(error) => format!(
                    "the agent reported an error to nobody ({}): {}",
                    error.code,
                    replies::words(&error)
                ),
            };
            let place = NativePlace::default();
            event(out, place, ProviderEventKind::Diagnostic { message });
            return;
        };
        let result = result.map_err(|error| replies::call_error(&call, &error));
        self.answered(id, &call, result, out);
    }

    fn answered(
        &mut self,
        id: u64,
        call: &Call,
        result: Result<Value, CallError>,
        out: &mut Vec<Received>,
    ) {
        if let Call::Prompt { session, turn, .. } = call {
            self.turn_over(session, turn, result, out);
            return;
        }
        if let Call::Load { session, .. } | Call::Resume { session, .. } = call {
            self.conversation(session).loading = false;
        }
        let reply = result.and_then(|result| replies::read(call, &result));
        match &reply {
            Ok(Reply::Initialized(hello)) => {
                self.quirks = profile::quirks(&hello.name);
                self.failures = profile::failures(&hello.name, &hello.version);
            }
            Ok(Reply::Session {
                session,
                settings,
                empty,
            }) => {
                let asked_for_new = matches!(call, Call::New { .. });
                if asked_for_new || !(self.quirks.empty_load && *empty) {
                    self.home = Some(session.clone());
                    let known = self.conversation(session);
                    if !settings.is_empty() {
                        known.settings = settings.clone();
                    }
                    let place = self.place(session);
                    event(out, place, ProviderEventKind::ThreadBound);
                }
            }
            Ok(Reply::Settings(settings)) => {
                if let Call::SetConfig { session, .. } = call {
                    let known = self.conversation(session);
                    known.settings.options.clone_from(&settings.options);
                }
            }
            _ => {}
        }
        out.push(Received::Reply { call: id, reply });
    }

    fn notice(&mut self, method: &str, params: &Value, out: &mut Vec<Received>) {
        match method {
            "session/update" => updates::read(self, params, out),
            "$/cancel_request" => {
                self.withdraw(params.get("requestId"), Resolution::Withdrawn, out)
            }
            "elicitation/complete" => {
                let link = text_of(params, "elicitationId").map(NativeId);
                if let Some(request) = link.and_then(|link| self.links.remove(&link)) {
                    self.close(&request, Resolution::Answered, out);
                }
            }
            _ => updates::other(self, method, params, out),
        }
    }

    /// `$/cancel_request`: the agent no longer waits. It still gets an answer, as JSON-RPC demands.
    fn withdraw(&mut self, id: Option<&Value>, how: Resolution, out: &mut Vec<Received>) {
        if let Some(id) = id {
            self.close(&request_id(id), how, out);
        }
    }

    fn close(&mut self, request: &NativeId, resolution: Resolution, out: &mut Vec<Received>) {
        let Some(pending) = self.requests.take(request) else {
            return;
        };
        if !pending.answered {
            out.push(Received::Send(match resolution {
                Resolution::Answered => outgoing::result_line(
                    &pending.id,
                    &serde_json::json!({"action": "accept", "content": {}}),
                ),
                _ => outgoing::error_line(&pending.id, -32800, "the request was cancelled"),
            }));
        }
        let kind = ProviderEventKind::RequestClosed {
            request: request.clone(),
            resolution,
        };
        event(out, pending.place, kind);
    }

    fn ask(&mut self, id: Value, method: &str, params: &Value, out: &mut Vec<Received>) {
        match method {
            "session/request_permission" => {
                let Some(session) = self.session_of(params) else {
                    self.refuse(&id, method, params, -32602, "it names no session", out);
                    return;
                };
                let opened = self.permission(session, params, out);
                self.open(id, method, opened, out);
            }
            "elicitation/create" => {
                let Some(session) = self.session_of(params) else {
                    self.refuse(&id, method, params, -32602, "it names no session", out);
                    return;
                };
                let item = text_of(params, "toolCallId")
                    .map(NativeId)
                    .and_then(|call| self.conversations.get(&session)?.tool(&call))
                    .filter(|tool| tool.opened)
                    .map(|tool| tool.item.clone());
                if let Some(link) = text_of(params, "elicitationId") {
                    self.links.insert(NativeId(link), request_id(&id));
                }
                let opened = requests::elicitation(session, params, item);
                self.open(id, method, opened, out);
            }
            _ if updates::is_unoffered(method) => {
                let message = "not offered by this client, as its handshake said";
                out.push(Received::Send(outgoing::error_line(&id, -32601, message)));
                let message = format!("refused `{}`: {message}", cut(method, 120));
                let place = NativePlace::default();
                event(out, place, ProviderEventKind::Diagnostic { message });
            }
            _ if updates::passed_over(method).is_some() => {
                out.push(Received::Send(outgoing::error_line(
                    &id,
                    -32601,
                    "method not found",
                )));
            }
            _ => self.refuse(&id, method, params, -32601, "method not found", out),
        }
    }

    /// Refuses a request and shows it.
    fn refuse(
        &self,
        id: &Value,
        method: &str,
        params: &Value,
        code: i64,
        message: &str,
        out: &mut Vec<Received>,
    ) {
        out.push(Received::Send(outgoing::error_line(id, code, message)));
        let label = cut(&format!("request {method}"), 120);
        self.unknown(params, label, cut(&params.to_string(), RAW_LIMIT), out);
    }

    fn permission(&mut self, session: NativeId, params: &Value, out: &mut Vec<Received>) -> Opened {
        let quirks = self.quirks;
        let place = self.place(&session);
        let known = self.conversation(&session);
        let mut changed = None;
        let asked = requests::permission(session.clone(), params, quirks, |id, asked, told| {
            let own = known.tool(id).is_some();
            let call = if own { id.clone() } else { known.about(asked)? };
            let tool = known.tool_mut(&call)?;
            let content = tool.asked(own.then_some(told), asked);
            changed = content
                .filter(|_| tool.opened)
                .map(|content| (tool.item.clone(), content));
            Some(&*tool)
        });
        if let Some((item, content)) = changed {
            event(out, place, ProviderEventKind::ItemUpdated { item, content });
        }
        // The request may be the first that is heard of the tool: its later pieces say less.
        if let (Some(call), Some(tool)) = (asked.call, asked.tool)
            && self.conversation(&session).tool(&call).is_none()
            && asked.opened.item.is_none()
        {
            let item = NativeId(self.mint("tool"));
            let turn = self.place(&session).turn;
            let tool = tool.renamed(item, turn);
            self.conversation(&session).put_tool(call, tool);
        }
        asked.opened
    }

    fn open(&mut self, id: Value, method: &str, mut opened: Opened, out: &mut Vec<Received>) {
        let session = opened.thread.clone();
        self.hush(&session, out);
        let place = self.place(&session);
        if self.requests.is_full() {
            let message = "too many requests wait already";
            out.push(Received::Send(outgoing::error_line(&id, -32600, message)));
            let message = format!("refused `{method}`: {message}");
            event(out, place, ProviderEventKind::Diagnostic { message });
            return;
        }
        opened.turn.clone_from(&place.turn);
        self.requests.open(id, place, opened, out);
    }
}

impl Peer for Codec {
    const NAME: &'static str = "the agent";
    // The protocol has no call for this, and not every agent answers one that it does not know.
    const ALWAYS_ANSWERS: bool = false;

    fn working(&self) -> Vec<NativePlace> {
        let turns = self
            .conversations
            .iter()
            .filter(|(_, known)| known.turn.is_some())
            .map(|(session, _)| self.place(session));
        turns
            .filter(|place| !self.requests.waits_in(place))
            .collect()
    }

    fn probe() -> Call {
        Call::Foreign {
            method: "_pilothouse/alive".to_owned(),
        }
    }

    rpc::by_own_methods!();
}
