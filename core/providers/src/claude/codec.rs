//! The codec: bytes from the agent in, events and frames for it out. No clock, no process, no waiting.

use super::{
    conversation::Conversation,
    messages,
    outgoing::{self, Call, CallId},
    passed_over::{self, Passed},
    replies::{self, CallError, Reply},
    system, tasks,
    tools::Tool,
    turns::Sent,
};
use crate::rpc::{
    self, Peer,
    asked::{AnswerProblem, Requests, is_bounded, request_id},
    bounded::Bounded,
    budget::{self, Budget, Excess},
    event,
    frames::{FRAME_LIMIT, Line, Lines, RAW_LIMIT, cut, json_of_line, scalars, text_of, too_large},
};
use pilothouse_domain::{
    Answer, ItemStatus, NativeId, ProviderEventKind, Subject,
    provider::AccountLimit,
    provider_event::{NativePlace, Resolution},
    request::RequestKind,
};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// Calls of ours that may wait at a time.
const WAITING_CALLS: usize = 1024;
/// Subagents that are known, and background tasks.
const CHILDREN: usize = 256;
/// Bytes of the name of a permission mode.
pub(super) const MODE: usize = 64;
/// Bytes of a conversation's id.
const SESSION: usize = 256;

/// What came of bytes from the agent.
pub type Received = rpc::Received<Reply, CallError>;

/// A line from the agent, read.
enum Frame {
    Object(Value),
    Unreadable { problem: String, raw: String },
    Oversized { bytes: u64, raw: String },
}

/// State of one connection to one agent process.
#[derive(Debug, Clone)]
pub struct Codec {
    /// Makes ids of ours differ from those of other lives of the process.
    life: String,
    lines: Lines,
    next_call: u64,
    next_id: u64,
    /// Calls that wait, by the id that stands in their answer; messages by their own.
    calls: BTreeMap<CallId, (u64, Call)>,
    order: VecDeque<CallId>,
    /// The conversation that this process serves.
    home: Option<NativeId>,
    /// The conversation as the agent calls it now, if that is another.
    renamed: Option<String>,
    pub(super) main: Conversation,
    /// Subagents, by their task.
    pub(super) children: Bounded<tasks::Child>,
    /// Background work that is no subagent: the tool it began as, by its task.
    pub(super) tasks: Bounded<NativeId>,
    /// Subagents by the tool that started them.
    pub(super) by_tool: Bounded<NativeId>,
    pub(super) requests: Requests,
    pub(super) turn: Option<NativeId>,
    /// The turn before.
    pub(super) last: Option<NativeId>,
    /// The agent said that it begins something.
    pub(super) beginning: bool,
    /// Somebody asked to stop what goes on.
    pub(super) stopping: bool,
    pub(super) sent: Sent,
    pub(super) settings: super::selecting::Settings,
    /// Where its shell is; empty if that is not known.
    pub(super) cwd: String,
    /// The compaction that goes on, or was the last.
    pub(super) compaction: Option<NativeId>,
    pub(super) compaction_ended: bool,
    /// The agent's words of why it could not speak with its model.
    pub(super) failure: Option<super::turns::Failure>,
    /// What all turns of this process have cost so far, in billionths of a US dollar.
    pub(super) cost: u64,
    /// Limits of the account, as last said.
    pub(super) limits: Vec<AccountLimit>,
    /// Servers of tools that were named at the start, and how each was when a turn last began.
    pub(super) servers: Bounded<String>,
    budget: Budget,
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
            order: VecDeque::new(),
            home: None,
            renamed: None,
            main: Conversation::default(),
            children: Bounded::new(CHILDREN),
            tasks: Bounded::new(CHILDREN),
            by_tool: Bounded::new(CHILDREN),
            requests: Requests::default(),
            servers: Bounded::new(CHILDREN),
            turn: None,
            last: None,
            beginning: false,
            stopping: false,
            sent: Sent::default(),
            settings: super::selecting::Settings::default(),
            cwd: String::new(),
            compaction: None,
            compaction_ended: true,
            failure: None,
            cost: 0,
            limits: Vec::new(),
            budget: Budget::default(),
            unreadable_in_a_row: 0,
        }
    }

    /// A codec for a process that was told which conversation it serves.
    pub fn serving(life: &str, session: NativeId) -> Self {
        Self {
            home: Some(session),
            ..Self::new(life)
        }
    }

    /// Registers a call and gives its number and its line.
    pub fn call(&mut self, call: Call) -> (u64, Vec<u8>) {
        let line = outgoing::call_line(self.next_call, &call);
        let id = outgoing::call_id(self.next_call);
        (self.register(id, call), line)
    }

    /// Registers a call that was written by somebody else under that id (replay of recordings), and gives its number.
    pub fn register(&mut self, id: CallId, call: Call) -> u64 {
        let number = self.next_call;
        self.next_call += 1;
        let key = match &call {
            Call::Prompt {
                turn: Some(turn),
                client_id,
                content,
            } => {
                self.sent.named(turn.clone(), client_id.clone(), content);
                turn.0.clone()
            }
            Call::Prompt {
                turn: None,
                client_id,
                ..
            } => {
                let turn = NativeId(self.mint("turn"));
                self.sent.unnamed(turn.clone(), client_id.clone());
                turn.0
            }
            Call::Interrupt => {
                self.stopping |= self.turn.is_some();
                id
            }
            _ => id,
        };
        self.calls.insert(key.clone(), (number, call));
        self.order.push_back(key);
        while self.order.len() > WAITING_CALLS
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
        number
    }

    /// Forgets a call whose answer is no longer waited for.
    pub fn forget(&mut self, call: u64) {
        self.calls.retain(|_, (number, _)| *number != call);
        let calls = &self.calls;
        self.order.retain(|id| calls.contains_key(id));
    }

    /// Whether a call waits for its answer.
    pub(super) fn is_waiting(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// Takes a call out whose answer came.
    pub(super) fn take_call(&mut self, id: &str) -> Option<(u64, Call)> {
        let found = self.calls.remove(id)?;
        self.order.retain(|waiting| waiting != id);
        Some(found)
    }

    /// Whether its handshake is not over.
    pub(super) fn is_greeting(&self) -> bool {
        let mut calls = self.calls.values();
        calls.any(|(_, call)| matches!(call, Call::Initialize))
    }

    /// Fails every call that waits.
    pub(super) fn fail_calls(&mut self, error: &CallError, out: &mut Vec<Received>) {
        self.order.clear();
        for (call, _) in std::mem::take(&mut self.calls).into_values() {
            let reply = Err(error.clone());
            out.push(Received::Reply { call, reply });
        }
    }

    /// The conversation that this process serves, once it is known.
    pub fn session(&self) -> Option<&NativeId> {
        self.home.as_ref()
    }

    /// The turn that is going on.
    pub fn active_turn(&self) -> Option<&NativeId> {
        self.turn.as_ref()
    }

    /// Whether the agent is at something, or has said that it begins something.
    pub fn is_busy(&self) -> bool {
        self.turn.is_some() || self.beginning
    }

    /// What would end with the process though no turn goes on, in words for a person; empty if nothing would.
    pub(super) fn outlasting(&self) -> Vec<String> {
        let mut outlasting = self.main.in_background();
        let children = self.children.values();
        outlasting.extend(children.flat_map(|child| child.conversation.in_background()));
        let asked = self.requests.ids().count();
        if asked > 0 {
            outlasting.push(format!("{asked} open request(s)"));
        }
        outlasting
    }

    /// What the conversation is set to, as far as the agent told.
    pub(super) fn settings(&self) -> &super::selecting::Settings {
        &self.settings
    }

    /// Requests that wait for an answer.
    pub fn pending_requests(&self) -> impl Iterator<Item = &NativeId> {
        self.requests.ids()
    }

    /// Bytes held at the moment: what is remembered, and the frame that is not whole yet.
    pub fn held_bytes(&self) -> usize {
        self.lines.held() + self.weight()
    }

    /// Bytes of what is remembered. Messages and calls are our own, and are not counted.
    fn weight(&self) -> usize {
        self.requests.held()
            + self.main.weight()
            + self.children.weight(tasks::Child::weight)
            + self.tasks.weight(|tool| budget::id(Some(tool)))
            + self.by_tool.weight(|task| budget::id(Some(task)))
    }

    /// Gives up what is least needed beyond the budget, and says so: subagents and tools that have ended, then todo lists of
    /// subagents, then the oldest tools. Requests are none of it.
    fn fit(&mut self, read: usize, out: &mut Vec<Received>) {
        if !self.budget.is_due(read) {
            return;
        }
        let mut excess = Excess::of(self.weight());
        self.children
            .shed_where(&mut excess, tasks::Child::weight, tasks::Child::has_ended);
        let children = self.children.values_mut();
        let all = children.map(|child| &mut child.conversation);
        for conversation in all.chain([&mut self.main]) {
            conversation.shed_ended(&mut excess);
        }
        for child in self.children.values_mut() {
            child.conversation.shed_todos(&mut excess);
        }
        let mut gone = Vec::new();
        for (child, known) in self.children.iter_mut() {
            let tools = known.conversation.shed(&mut excess);
            gone.extend(tools.into_iter().map(|tool| (Some(child.clone()), tool)));
        }
        let tools = self.main.shed(&mut excess);
        gone.extend(tools.into_iter().map(|tool| (None, tool)));
        self.main.shed_todos(&mut excess);
        self.budget.weighed(self.weight());
        for (child, tool) in gone {
            self.gave_up(child.as_ref(), tool, out);
        }
        if let Some(message) = excess.in_words() {
            self.diagnostic(message, out);
        }
    }

    /// Closes an open tool that is forgotten.
    pub(super) fn gave_up(
        &self,
        child: Option<&NativeId>,
        mut tool: Tool,
        out: &mut Vec<Received>,
    ) {
        let kind = ProviderEventKind::ItemClosed {
            item: tool.item.clone(),
            status: ItemStatus::Unfinished,
            content: tool.end(),
            client_id: None,
        };
        event(out, self.place(child), kind);
    }

    /// Unreadable lines since the last readable frame.
    pub fn unreadable_in_a_row(&self) -> u32 {
        self.unreadable_in_a_row
    }

    /// Takes bytes as they come, split anywhere.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<Received> {
        let mut frames = Vec::new();
        let read = self.lines.split(bytes, &mut |line| frames.push(read(line)));
        let mut out = self.take(frames);
        self.fit(read, &mut out);
        out
    }

    /// The stream has ended: reads what is left of the last line.
    pub fn finish(&mut self) -> Vec<Received> {
        let mut frames = Vec::new();
        self.lines.rest(&mut |line| frames.push(read(line)));
        self.take(frames)
    }

    /// Whether a pending request is the one that was shown: an agent may use an id again for something else.
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

    /// A conversation's state: a subagent's, or the main one.
    pub(super) fn conversation(&mut self, child: Option<&NativeId>) -> &mut Conversation {
        match child {
            Some(child) => &mut self.children.entry(child).conversation,
            None => &mut self.main,
        }
    }

    /// Where something happens now. What comes between two turns belongs to the last one.
    pub(super) fn place(&self, child: Option<&NativeId>) -> NativePlace {
        match child {
            Some(child) => NativePlace {
                thread: Some(child.clone()),
                root: self.home.clone(),
                turn: None,
            },
            None => NativePlace {
                thread: self.home.clone(),
                root: None,
                turn: self.turn.as_ref().or(self.last.as_ref()).cloned(),
            },
        }
    }

    /// Something that this version cannot read: shown as it is.
    pub(super) fn unknown(&self, label: &str, frame: &Value, out: &mut Vec<Received>) {
        let kind = ProviderEventKind::Unknown {
            label: cut(label, 120),
            raw: cut(&frame.to_string(), RAW_LIMIT),
        };
        event(out, self.place(None), kind);
    }

    /// A line for the host's log.
    pub(super) fn diagnostic(&self, message: String, out: &mut Vec<Received>) {
        event(
            out,
            self.place(None),
            ProviderEventKind::Diagnostic { message },
        );
    }

    fn take(&mut self, frames: Vec<Frame>) -> Vec<Received> {
        let mut out = Vec::new();
        for frame in frames {
            match frame {
                Frame::Object(frame) => {
                    self.unreadable_in_a_row = 0;
                    self.frame(&frame, &mut out);
                }
                Frame::Unreadable { problem, raw } => {
                    self.unreadable_in_a_row = self.unreadable_in_a_row.saturating_add(1);
                    let label = cut(&problem, 120);
                    let kind = ProviderEventKind::Unknown { label, raw };
                    event(&mut out, self.place(None), kind);
                }
                Frame::Oversized { bytes, raw } => {
                    self.unreadable_in_a_row = 0;
                    self.oversized(bytes, raw, &mut out);
                }
            }
        }
        out
    }

    /// The keys of a frame come in any order, so of one that was too long only what it happens to begin with is known. What it
    /// would have ended ends with its turn; a request is refused, since its agent waits.
    fn oversized(&mut self, bytes: u64, raw: String, out: &mut Vec<Received>) {
        let head: BTreeMap<String, Value> = scalars(&raw).collect();
        let label = too_large(bytes);
        let kind = ProviderEventKind::Unknown { label, raw };
        event(out, self.place(None), kind);
        if head.get("type").and_then(Value::as_str) == Some("control_request")
            && let Some(id) = head.get("request_id")
            && id.is_string()
            && is_bounded(id)
        {
            let message = "it is too long to be shown to a person, so it was refused";
            out.push(Received::Send(outgoing::error_line(id, message)));
            let told =
                format!("Claude Code asked for something in at least {bytes} bytes: {message}");
            event(out, self.place(None), rpc::notice(told));
        }
    }

    fn frame(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let kind = frame.get("type").and_then(Value::as_str);
        self.conversation_is(frame, out);
        match kind {
            Some("stream_event") => messages::streamed(self, frame, out),
            Some("assistant") => messages::assistant(self, frame, out),
            Some("user") => messages::user(self, frame, out),
            Some("system") => system::read(self, frame, out),
            Some("result") => self.result(frame, out),
            Some("rate_limit_event") => system::limits(self, frame, out),
            Some("command_lifecycle") => self.lifecycle(frame, out),
            Some("control_request") => self.ask(frame, out),
            Some("control_response") => self.reply(frame, out),
            Some("control_cancel_request") => {
                if let Some(id) = frame.get("request_id") {
                    self.close(&request_id(id), Resolution::Withdrawn, out);
                }
            }
            Some(kind) => self.other(kind, frame, out),
            None => self.unknown("frame without a type", frame, out),
        }
    }

    /// A frame of a kind that is passed over with a reason, or shown as it is.
    pub(super) fn other(&mut self, name: &str, frame: &Value, out: &mut Vec<Received>) {
        match passed_over::passed_over(name) {
            Some(Passed::Nothing) => {}
            Some(Passed::Diagnostic) => {
                let message = format!("{name}: {}", cut(&frame.to_string(), 512));
                self.diagnostic(message, out);
            }
            None => self.unknown(name, frame, out),
        }
    }

    /// Learns which conversation the frames are about. One that is called otherwise later stays the one it was for us.
    fn conversation_is(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let Some(id) = frame.get("session_id").and_then(Value::as_str) else {
            return;
        };
        match &self.home {
            None if !id.is_empty() && id.len() <= SESSION => {
                self.home = Some(NativeId(id.to_owned()));
                event(out, self.place(None), ProviderEventKind::ThreadBound);
            }
            Some(home)
                if home.as_str() != id && !id.is_empty() && self.renamed.as_deref() != Some(id) =>
            {
                let message = format!(
                    "the agent calls the conversation {home} now {}",
                    cut(id, 80)
                );
                self.renamed = Some(cut(id, SESSION));
                self.diagnostic(message, out);
            }
            _ => {}
        }
    }

    fn reply(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let response = frame.get("response").unwrap_or(&Value::Null);
        let Some(id) = text_of(response, "request_id") else {
            return self.unknown("control response without an id", frame, out);
        };
        let Some((call, made)) = self.take_call(&id) else {
            // Our own answer, sent back: the agent has it.
            let request = request_id(&Value::String(id));
            if self
                .requests
                .get(&request)
                .is_some_and(|pending| pending.answered)
            {
                self.close(&request, Resolution::Answered, out);
            } else {
                let message = "the agent answered a call that nobody made or waits for";
                self.diagnostic(message.to_owned(), out);
            }
            return;
        };
        let reply = replies::read(&made, response);
        self.replied(&made, &reply, out);
        out.push(Received::Reply { call, reply });
    }

    /// What an answer tells beside what its caller learns.
    fn replied(&mut self, made: &Call, reply: &Result<Reply, CallError>, out: &mut Vec<Received>) {
        match (made, reply) {
            (Call::Initialize, Ok(Reply::Initialized(hello))) => {
                self.settings.mode = cut(&hello.mode, MODE);
            }
            (Call::SetMode { .. }, Ok(Reply::Mode(mode))) => self.settings.mode = cut(mode, MODE),
            (Call::SetModel { model }, Ok(Reply::Model(used))) => {
                self.settings.model.clone_from(model);
                if let Some(chosen) = model.as_ref().filter(|chosen| {
                    // A short name stands for whatever is its newest.
                    chosen.starts_with("claude-") && *chosen != used && !used.is_empty()
                }) {
                    let kind = ProviderEventKind::ModelRerouted {
                        from: cut(chosen, 200),
                        to: cut(used, 200),
                    };
                    event(out, self.place(None), kind);
                }
            }
            (Call::SetEffort { effort }, Ok(_)) => self.settings.effort.clone_from(effort),
            (Call::CancelMessage { message }, Ok(Reply::Cancelled(true))) => {
                self.taken_back(message, out);
            }
            _ => {}
        }
    }
}

impl Peer for Codec {
    const NAME: &'static str = "Claude Code";
    const ALWAYS_ANSWERS: bool = true;

    fn working(&self) -> Vec<NativePlace> {
        let place = self.place(None);
        let works = self.turn.is_some() && !self.requests.waits_in(&place);
        works.then_some(place).into_iter().collect()
    }

    fn probe() -> Call {
        Call::Alive
    }

    rpc::by_own_methods!();
}

fn read(line: Line<'_>) -> Frame {
    let text = |bytes: &[u8]| cut(&String::from_utf8_lossy(bytes), RAW_LIMIT);
    match line {
        Line::TooLong { bytes, start } => Frame::Oversized {
            bytes,
            raw: text(start),
        },
        Line::Whole(line) => match json_of_line(&String::from_utf8_lossy(line)) {
            Ok(value) if value.is_object() => Frame::Object(value),
            Ok(_) => Frame::Unreadable {
                problem: "not a JSON object".to_owned(),
                raw: text(line),
            },
            Err(error) => Frame::Unreadable {
                problem: format!("not JSON: {error}"),
                raw: text(line),
            },
        },
    }
}
