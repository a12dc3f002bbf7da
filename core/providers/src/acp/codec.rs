//! The codec: bytes from an agent in, events and frames for it out. No clock, no process, no waiting.

use super::{
    content::id_of,
    conversation::Conversation,
    conversations::Conversations,
    outgoing::{self, Call},
    profile::{self, Missing, Quirks},
    replies::{self, CallError, Reply},
    requests,
    tools::Tool,
};
use crate::rpc::{
    self, Peer,
    asked::{AnswerProblem, Requests},
    bounded::Bounded,
    event,
    frames::{FRAME_LIMIT, Frame, Lines, RpcError, cut, head, too_large},
};
use pilothouse_domain::{
    Answer, ItemStatus, NativeId, ProviderEventKind, Subject, provider_event::NativePlace,
    request::RequestKind,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Calls of ours that may wait at a time.
const WAITING_CALLS: usize = 1024;
/// Subagents of one process that are known.
const CHILDREN: usize = 1024;
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
    /// With these errors it says that a conversation is not there.
    missing: Vec<Missing>,
    pub(super) conversations: Conversations,
    /// Subagents' conversations, with the one they work for.
    pub(super) children: Bounded<NativeId>,
    /// The conversation that this process serves: what names none belongs to it.
    pub(super) home: Option<NativeId>,
    pub(super) requests: Requests,
    /// Requests to open a link, by the link's id.
    pub(super) links: Bounded<NativeId>,
    /// What a call of ours ended, to be told with what comes next.
    late: Vec<Received>,
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
            missing: Vec::new(),
            conversations: Conversations::default(),
            children: Bounded::new(CHILDREN),
            home: None,
            requests: Requests::default(),
            links: Bounded::new(LINKS),
            late: Vec::new(),
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
                self.conversations.ours(session).loading = true;
            }
            Call::Prompt { session, turn, .. } => {
                self.conversations.ours(session);
                // What was said between two turns belongs to the one before.
                let mut late = std::mem::take(&mut self.late);
                self.hush(session, &mut late);
                self.late = late;
                let known = self.conversation(session);
                known.turn = Some(turn.clone());
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

    /// Bytes held in buffers, of conversations and for requests at the moment.
    pub fn held_bytes(&self) -> usize {
        self.lines.held() + self.conversations.held() + self.requests.held()
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
        if let Some(pending) = self.take_request(request)
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

    /// Something to be told with what comes next, in what runs then.
    pub(super) fn tell(&mut self, kind: ProviderEventKind) {
        event(&mut self.late, NativePlace::default(), kind);
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
        id_of(params, "sessionId").or_else(|| self.home.clone())
    }

    /// The conversation of ours for which a subagent's works. One that nobody announced works for the one that this process
    /// serves, or what it asks would be asked nowhere; but it may be the one whose start is not answered yet.
    fn root_of(&self, session: &NativeId) -> Option<NativeId> {
        if self.conversations.is_ours(session) {
            return None;
        }
        let announced = self.children.get(session);
        let is_starting = || {
            let mut calls = self.calls.values();
            calls.any(|call| match call {
                Call::New { .. } => true,
                Call::Foreign { method } => method == "session/fork",
                _ => false,
            })
        };
        announced
            .or_else(|| self.home.as_ref().filter(|_| !is_starting()))
            .cloned()
    }

    /// Where something in that conversation happens now. What comes between two turns belongs to the last one.
    pub(super) fn place(&self, session: &NativeId) -> NativePlace {
        let root = self.root_of(session);
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
        let mut out = std::mem::take(&mut self.late);
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
            self.fit(&mut out);
        }
        out
    }

    /// Gives up what is remembered beyond its bound, and says so.
    fn fit(&mut self, out: &mut Vec<Received>) {
        let (open, gone) = self.conversations.fit();
        if gone == 0 {
            return;
        }
        for (session, tool) in open {
            self.gave_up(&session, &tool, out);
        }
        let message = format!(
            "{gone} of the agent's tools and lists were forgotten: they are too many, or too large"
        );
        event(
            out,
            NativePlace::default(),
            ProviderEventKind::Diagnostic { message },
        );
    }

    /// Closes an open tool that is forgotten.
    pub(super) fn gave_up(&self, session: &NativeId, tool: &Tool, out: &mut Vec<Received>) {
        let mut place = self.place(session);
        if tool.turn.is_some() {
            place.turn.clone_from(&tool.turn);
        }
        let kind = ProviderEventKind::ItemClosed {
            item: tool.item.clone(),
            status: ItemStatus::Unfinished,
            content: tool.unfinished(),
            client_id: None,
        };
        event(out, place, kind);
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
        let label = too_large(bytes);
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
        let result = result.map_err(|error| replies::call_error(&call, &error, &self.missing));
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
                self.missing = profile::missing(&hello.name, &hello.version);
            }
            Ok(Reply::Session {
                session,
                settings,
                empty,
            }) => {
                let asked_for_new = matches!(call, Call::New { .. });
                if asked_for_new || !(self.quirks.empty_load && *empty) {
                    self.home = Some(session.clone());
                    let known = self.conversations.ours(session);
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
}

impl Peer for Codec {
    const NAME: &'static str = "the agent";
    // The protocol has no call for this, and not every agent answers one that it does not know.
    const ALWAYS_ANSWERS: bool = false;

    fn working(&self) -> Vec<NativePlace> {
        let turns = self
            .conversations
            .all_ours()
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
