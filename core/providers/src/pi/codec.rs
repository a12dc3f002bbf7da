//! The codec: bytes from pi in, events and frames out. No clock, no process, no waiting.

use super::{
    asking::Timed,
    dialogs,
    frames::{self, Frame},
    gate::GateState,
    messages::{Sent, Speaking},
    outgoing::{self, Call},
    passed_over::{Passed, passed_over},
    profile::Dialect,
    replies::{self, CallError, Reply, State},
    tools::Tools,
    turns::Turn,
};
use crate::rpc::{
    self, Peer,
    asked::{AnswerProblem, Requests},
    budget::{Budget, Excess},
    event,
    frames::{FRAME_LIMIT, Lines, RAW_LIMIT, cut, head, text_or_empty, too_large},
};
use pilothouse_domain::{
    Answer, ItemStatus, NativeId, ProviderEventKind, Subject, provider_event::NativePlace,
    request::RequestKind,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Commands of ours that may wait at a time.
const WAITING_CALLS: usize = 1024;
/// Messages handed over that were not heard of yet.
const SENT: usize = 64;

/// What came of bytes from an agent.
pub type Received = rpc::Received<Reply, CallError>;

/// State of one process.
#[derive(Debug, Clone)]
pub struct Codec {
    /// Makes ids of ours differ from those of other lives of the process.
    life: String,
    lines: Lines,
    next_call: u64,
    next_id: u64,
    calls: BTreeMap<u64, Call>,
    pub(super) dialect: Dialect,
    pub(super) state: State,
    pub(super) gate: Option<GateState>,
    /// The session that is loaded: all that this process says belongs to it.
    pub(super) home: Option<NativeId>,
    /// A run of the agent goes on, whoever started it.
    pub(super) running: bool,
    /// The prompt that was acknowledged or is to be, and has no turn yet. It stays when nobody waits for its answer any more:
    /// pi may still be at it.
    pub(super) starting: Option<u64>,
    pub(super) turn: Option<Turn>,
    /// The turn before.
    pub(super) last: Option<NativeId>,
    pub(super) speaking: Option<Speaking>,
    /// How often a time was met as that of a message, of the newest ones.
    pub(super) times: rpc::bounded::Bounded<u32>,
    pub(super) sent: VecDeque<Sent>,
    pub(super) tools: Tools,
    pub(super) requests: Requests,
    pub(super) timed: Timed,
    /// The item of a compaction that goes on.
    pub(super) compacting: Option<NativeId>,
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
            dialect: Dialect::Pi,
            state: State::default(),
            gate: None,
            home: None,
            running: false,
            starting: None,
            turn: None,
            last: None,
            speaking: None,
            times: rpc::bounded::Bounded::new(super::messages::TIMES),
            sent: VecDeque::new(),
            tools: Tools::default(),
            requests: Requests::default(),
            timed: Timed::default(),
            compacting: None,
            budget: Budget::default(),
            unreadable_in_a_row: 0,
        }
    }

    /// Registers a command and gives its number and its line.
    pub fn call(&mut self, call: Call) -> (u64, Vec<u8>) {
        let id = self.next_call;
        let line = outgoing::call_line(id, &call);
        self.register(id, call);
        (id, line)
    }

    /// Registers a command that was written by somebody else under that number (replay of recordings).
    pub fn register(&mut self, id: u64, call: Call) {
        self.next_call = self.next_call.max(id.saturating_add(1));
        let sent = match &call {
            Call::Prompt {
                client_id,
                text,
                pictures,
            } => {
                self.starting = Some(id);
                Some(Sent {
                    pictures: pictures.len(),
                    ..Sent::new(client_id, text, true)
                })
            }
            Call::Steer { client_id, text } => Some(Sent::new(client_id, text, false)),
            Call::Abort => {
                if let Some(turn) = self.turn.as_mut() {
                    turn.stopping = true;
                }
                None
            }
            _ => None,
        };
        if let Some(sent) = sent {
            self.sent.push_back(sent);
            if self.sent.len() > SENT {
                self.sent.pop_front();
            }
        }
        self.calls.insert(id, call);
        if self.calls.len() > WAITING_CALLS {
            self.calls.pop_first();
        }
    }

    /// Forgets a command whose answer is no longer waited for. What comes of a prompt is read all the same.
    pub fn forget(&mut self, call: u64) {
        self.calls.remove(&call);
    }

    /// The turn that is going on.
    pub fn active_turn(&self) -> Option<&NativeId> {
        self.turn.as_ref().map(|turn| &turn.id)
    }

    /// Whether a turn goes on, or is about to.
    pub fn is_busy(&self) -> bool {
        let waits = |call| self.calls.contains_key(&call);
        self.running || self.turn.is_some() || self.starting.is_some_and(waits)
    }

    /// Whether a message that was handed over has not been heard of.
    pub(super) fn is_unheard(&self, client_id: &str) -> bool {
        self.sent.iter().any(|sent| sent.client_id == client_id)
    }

    /// Forgets messages that were taken back before they were heard.
    pub(super) fn forget_sent(&mut self) {
        self.sent.retain(|sent| sent.begins_turn);
    }

    /// The session that is loaded.
    pub fn home(&self) -> Option<&NativeId> {
        self.home.as_ref()
    }

    /// What the session is set to, as it last said.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What the permission gate last said of itself.
    pub(super) fn gate(&self) -> Option<&GateState> {
        self.gate.as_ref()
    }

    /// The lines that dismiss what is asked in a turn that is about to be stopped; `None` if that turn is not going on.
    pub(super) fn dismiss(&mut self, turn: &NativeId) -> Option<Vec<u8>> {
        self.turn.as_ref().filter(|going| going.id == *turn)?;
        let mut lines = Vec::new();
        for (_, pending) in self.requests.iter_mut() {
            if pending.place.turn.as_ref() == Some(turn) && !pending.answered {
                pending.answered = true;
                lines.extend(outgoing::response_line(&pending.id, outgoing::dismissed()));
            }
        }
        Some(lines)
    }

    /// Requests that wait for an answer.
    pub fn pending_requests(&self) -> impl Iterator<Item = &NativeId> {
        self.requests.ids()
    }

    /// Bytes held at the moment: what is remembered, and the frame that is not whole yet.
    pub fn held_bytes(&self) -> usize {
        self.lines.held() + self.weight()
    }

    /// Bytes of what is remembered. Messages and commands are our own, and are not counted.
    fn weight(&self) -> usize {
        let speaking = self.speaking.as_ref().map_or(0, Speaking::weight);
        self.requests.held() + self.tools.weight() + self.times.weight(|_| 0) + speaking
    }

    /// Gives up what is least needed beyond the budget, and says so: the oldest calls of tools. Requests are none of it.
    fn fit(&mut self, read: usize, out: &mut Vec<Received>) {
        let mut told = None;
        if self.budget.is_due(read) {
            let mut excess = Excess::of(self.weight());
            self.tools.shed(&mut excess);
            self.budget.weighed(self.weight());
            told = excess.in_words();
        }
        for (item, content) in self.tools.dropped() {
            let kind = ProviderEventKind::ItemClosed {
                item,
                status: ItemStatus::Unfinished,
                content,
                client_id: None,
            };
            event(out, self.place(), kind);
        }
        if let Some(message) = told {
            self.diagnostic(message, out);
        }
    }

    /// Unreadable lines since the last readable frame.
    pub fn unreadable_in_a_row(&self) -> u32 {
        self.unreadable_in_a_row
    }

    /// Takes bytes as they come, split anywhere.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<Received> {
        let mut read = Vec::new();
        let came = self
            .lines
            .split(bytes, &mut |line| read.push(frames::read(line)));
        let mut out = self.take(read);
        self.fit(came, &mut out);
        out
    }

    /// The stream has ended: reads what is left of the last line.
    pub fn finish(&mut self) -> Vec<Received> {
        let mut read = Vec::new();
        self.lines.rest(&mut |line| read.push(frames::read(line)));
        self.take(read)
    }

    /// The frame for a person's answer. pi confirms none: the request is done with.
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
            && let Some(item) = &pending.opened.item
            && pending
                .opened
                .subject
                .options
                .iter()
                .any(|one| one.id == *option && one.effect.denies())
        {
            self.tools.declined(item);
        }
        Ok(outgoing::response_line(&id, dialogs::given(result)))
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
    pub(super) fn mint(&mut self, what: &str) -> NativeId {
        let id = self.next_id;
        self.next_id += 1;
        NativeId(format!("{what}/{}.{id}", self.life))
    }

    /// Where something happens now. What comes between two turns belongs to the last one.
    pub(super) fn place(&self) -> NativePlace {
        NativePlace {
            thread: self.home.clone(),
            root: None,
            turn: self.active_turn().or(self.last.as_ref()).cloned(),
        }
    }

    fn take(&mut self, read: Vec<Frame>) -> Vec<Received> {
        let mut out = Vec::new();
        for frame in read {
            match frame {
                Frame::Typed { kind, frame } => {
                    self.unreadable_in_a_row = 0;
                    self.frame(&kind, &frame, &mut out);
                }
                Frame::Unreadable { problem, raw } => {
                    self.unreadable_in_a_row = self.unreadable_in_a_row.saturating_add(1);
                    self.unknown(cut(&problem, 120), raw, &mut out);
                }
                Frame::Oversized { bytes, raw } => {
                    self.unreadable_in_a_row = 0;
                    self.oversized(bytes, raw, &mut out);
                }
            }
        }
        out
    }

    /// Something that this version cannot read: shown as it is.
    pub(super) fn unknown(&self, label: String, raw: String, out: &mut Vec<Received>) {
        let kind = ProviderEventKind::Unknown { label, raw };
        event(out, self.place(), kind);
    }

    /// Something for the host's log.
    pub(super) fn diagnostic(&self, message: String, out: &mut Vec<Received>) {
        event(out, self.place(), ProviderEventKind::Diagnostic { message });
    }

    /// A frame that was too long may be one that somebody waits for: its head tells.
    fn oversized(&mut self, bytes: u64, raw: String, out: &mut Vec<Received>) {
        let head = head(&raw);
        let label = too_large(bytes);
        self.unknown(label, raw, out);
        match (head.id, head.method) {
            (Some(id), Some(_)) => {
                let line = outgoing::response_line(&id, outgoing::dismissed());
                out.push(Received::Send(line));
            }
            (Some(id), None) => {
                if let Some((id, call)) =
                    outgoing::id_of(&id).and_then(|id| Some((id, self.calls.remove(&id)?)))
                {
                    let method = call.method().to_owned();
                    self.answered(id, &call, Err(CallError::Unreadable { method }), out);
                }
            }
            (None, _) => {}
        }
    }

    fn frame(&mut self, kind: &str, frame: &Value, out: &mut Vec<Received>) {
        match kind {
            "message_update" => self.piece(frame, out),
            "message_start" => self.message_started(frame.get("message"), out),
            "message_end" => self.message_ended(frame.get("message"), out),
            "tool_execution_start" => self.tool_started(frame, out),
            "tool_execution_update" => self.tool_told(frame, out),
            "tool_execution_end" => self.tool_ended(frame, out),
            "response" => self.response(frame, out),
            "extension_ui_request" => self.ui(frame, out),
            "agent_start" => self.running = true,
            "agent_end" => {
                if frame.get("isTerminal") == Some(&Value::Bool(true)) {
                    self.settled(false, out);
                }
            }
            "agent_settled" => {
                self.settled(frame.get("aborted") == Some(&Value::Bool(true)), out);
            }
            "auto_retry_start" => self.retries(frame, out),
            "auto_retry_end" => self.retried(frame),
            "compaction_start" => self.compaction_began(frame, out),
            "compaction_end" => self.compaction_ended(frame, out),
            // Only omp greets.
            "ready" => self.dialect = Dialect::Omp,
            _ => self.other(kind, frame, out),
        }
    }

    /// Passes over what is known to say nothing, and shows the rest.
    pub(super) fn other(&self, name: &str, frame: &Value, out: &mut Vec<Received>) {
        match passed_over(name) {
            Some(Passed::Nothing) => {}
            Some(Passed::Diagnostic) => {
                let message = format!("{name}: {}", cut(&frame.to_string(), 512));
                self.diagnostic(message, out);
            }
            None => {
                let raw = cut(&frame.to_string(), RAW_LIMIT);
                self.unknown(cut(name, 120), raw, out);
            }
        }
    }

    fn response(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let id = frame.get("id").and_then(outgoing::id_of);
        let success = frame.get("success") == Some(&Value::Bool(true));
        let Some((id, call)) = id.and_then(|id| Some((id, self.calls.get(&id)?.clone()))) else {
            let error = text_or_empty(frame, "error");
            // A prompt that was heard of before it was acknowledged: a command of an extension that asked something. Or one
            // whose answer was waited for too briefly.
            let begun = self.turn.as_ref().and_then(|turn| turn.prompt);
            let late = self.starting;
            if id.is_some() && success && (begun == id || late == id) {
                if frame.pointer("/data/disposition") == Some(&json!("handled")) {
                    self.handled(out);
                }
                return;
            }
            if id.is_some() && late == id {
                self.refused_late(&error, out);
                return;
            }
            let command = cut(&text_or_empty(frame, "command"), 120);
            let message = if success {
                format!("the agent answered `{command}`, which nobody asked or waits for")
            } else {
                format!(
                    "the agent reports an error of `{command}` to nobody: {}",
                    cut(&error, 512)
                )
            };
            self.diagnostic(message, out);
            return;
        };
        if let Call::Prompt { .. } = call
            && success
        {
            // The answer comes when its message is heard of: until then omp may still take it back.
            if frame.pointer("/data/disposition") == Some(&json!("handled")) {
                self.handled(out);
            }
            return;
        }
        self.calls.remove(&id);
        let result = if success {
            Ok(frame.get("data").unwrap_or(&Value::Null))
        } else {
            Err(replies::refusal(&call, frame))
        };
        let result = result.and_then(|data| replies::read(&call, self.home.as_ref(), data));
        self.answered(id, &call, result, out);
    }

    fn answered(
        &mut self,
        id: u64,
        call: &Call,
        reply: Result<Reply, CallError>,
        out: &mut Vec<Received>,
    ) {
        match (&reply, call) {
            (Ok(Reply::State(state)), _) => {
                let home = NativeId(state.session.clone());
                if self.home.as_ref() != Some(&home) {
                    self.home = Some(home);
                    self.last = None;
                }
                self.state = (**state).clone();
                if let Call::Opened = call {
                    event(out, self.place(), ProviderEventKind::ThreadBound);
                }
            }
            (Ok(Reply::TakenBack(count)), _) => self.taken_back(*count, out),
            // Another session is loaded: which, only its state tells.
            (Ok(Reply::Done), Call::Switch { .. } | Call::Clone | Call::Fork { .. }) => {
                self.home = None;
                self.last = None;
            }
            (Err(_), Call::Prompt { client_id, .. } | Call::Steer { client_id, .. }) => {
                self.sent.retain(|sent| sent.client_id != *client_id);
                if self.starting == Some(id) {
                    self.starting = None;
                }
            }
            _ => {}
        }
        out.push(Received::Reply { call: id, reply });
    }

    /// The turn of the prompt that waits for one has begun.
    pub(super) fn begun(&mut self, turn: &NativeId, out: &mut Vec<Received>) {
        if let Some(call) = self.starting.take()
            && self.calls.remove(&call).is_some()
        {
            let turn = turn.clone();
            out.push(Received::Reply {
                call,
                reply: Ok(Reply::Turn { turn }),
            });
        }
    }

    /// Whether we asked for the context to be shortened.
    pub(super) fn waits_for_compact(&self) -> bool {
        self.calls
            .values()
            .any(|call| matches!(call, Call::Compact))
    }
}

impl Peer for Codec {
    const NAME: &'static str = "the agent";
    // Its commands are read while a turn goes on (recordings 02 and 04).
    const ALWAYS_ANSWERS: bool = true;

    fn working(&self) -> Vec<NativePlace> {
        let place = self.place();
        if self.turn.is_none() || self.requests.waits_in(&place) {
            return Vec::new();
        }
        vec![place]
    }

    fn probe() -> Call {
        Call::State
    }

    fn timed(&mut self) -> Vec<(u64, Duration)> {
        Codec::timed(self)
    }

    fn expire(&mut self, timed: u64) -> Vec<Received> {
        Codec::expire(self, timed)
    }

    rpc::by_own_methods!();
}
