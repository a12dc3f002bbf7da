//! The codec: bytes from codex in, events and frames for codex out. No clock, no process, no waiting.

use super::{
    items,
    lineage::{Lineage, REMEMBERED},
    notifications,
    outgoing::{self, Call},
    replies::{self, CallError, Reply, Settings},
    requests::{self, Asked},
    terminals::Begun,
};
use crate::rpc::{
    self, Peer,
    asked::{AnswerProblem, Opened, Requests, request_id},
    bounded::Bounded,
    budget::{self, Budget},
    event,
    frames::{
        FRAME_LIMIT, Frame, Lines, RAW_LIMIT, RpcError, cut, head, id_of, list, text_of, too_large,
    },
};
use pilothouse_domain::{
    Answer, ItemContent, NativeId, ProviderEvent, ProviderEventKind, Subject,
    item::FileChange,
    limits,
    provider::AccountLimit,
    provider_event::{NativePlace, Resolution},
    request::RequestKind,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Calls of ours that may wait at a time.
const WAITING_CALLS: usize = 4096;
/// File-change items whose changes are remembered for their request.
const REMEMBERED_PATCHES: usize = 256;

/// What came of bytes from codex.
pub type Received = rpc::Received<Reply, CallError>;

#[derive(Debug, Clone)]
struct Waiting {
    call: Call,
    /// The turn that was going on when the call was written.
    active: Option<NativeId>,
}

/// Remarks about a conversation that wait for its next turn.
const TOLD_AT_ONCE: usize = 64;

/// State of one connection to one codex process.
#[derive(Debug, Clone)]
pub struct Codec {
    lines: Lines,
    next_call: u64,
    calls: BTreeMap<u64, Waiting>,
    pub(super) lineage: Lineage,
    pub(super) requests: Requests,
    /// Changes of file-change items, by conversation and item.
    pub(super) patches: Bounded<Vec<FileChange>>,
    /// Commands that have begun and not ended.
    pub(super) begun: Bounded<Begun>,
    /// Commands that were called under the id of an item, by their hashes.
    pub(super) called: Bounded<Vec<u64>>,
    /// Tokens that a conversation had used before its current turn.
    pub(super) usage: Bounded<notifications::TurnUsage>,
    /// What each conversation is set to, as far as codex told.
    pub(super) settings: Bounded<Settings>,
    /// Limits of the account, as last told.
    pub(super) limits: Vec<AccountLimit>,
    /// What is to be told of a conversation's servers of tools as soon as a turn of it begins.
    pub(super) untold: Bounded<Vec<String>>,
    /// Others may be connected with the same codex.
    shared: bool,
    pub(super) budget: Budget,
    unreadable_in_a_row: u32,
}

impl Default for Codec {
    fn default() -> Self {
        Self::new()
    }
}

impl Codec {
    /// A codec for a new process.
    pub fn new() -> Self {
        Self {
            lines: Lines::new(FRAME_LIMIT),
            next_call: 1,
            calls: BTreeMap::new(),
            lineage: Lineage::new(),
            requests: Requests::default(),
            patches: Bounded::new(REMEMBERED_PATCHES),
            begun: Bounded::new(REMEMBERED_PATCHES),
            called: Bounded::new(REMEMBERED_PATCHES),
            usage: Bounded::new(REMEMBERED_PATCHES),
            settings: Bounded::new(REMEMBERED),
            limits: Vec::new(),
            untold: Bounded::new(REMEMBERED_PATCHES),
            shared: false,
            budget: Budget::default(),
            unreadable_in_a_row: 0,
        }
    }

    /// A codec for a process with which others may be connected as well: what they answer is resolved here, too.
    pub fn shared() -> Self {
        Self {
            shared: true,
            ..Self::new()
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
        let active = match &call {
            Call::TurnStart { thread, .. } => self.lineage.active_turn(thread).cloned(),
            _ => None,
        };
        self.next_call = self.next_call.max(id.saturating_add(1));
        self.calls.insert(id, Waiting { call, active });
        if self.calls.len() > WAITING_CALLS {
            self.calls.pop_first();
        }
    }

    /// Forgets a call whose answer is no longer waited for.
    pub fn forget(&mut self, call: u64) {
        self.calls.remove(&call);
    }

    /// Tells something in a conversation: now, where a turn goes on in it, or in its next turn.
    pub(super) fn tell(&mut self, thread: &NativeId, told: Vec<String>) {
        if told.is_empty() {
            return;
        }
        let mut all = self.untold.get(thread).cloned().unwrap_or_default();
        all.extend(told);
        all.truncate(TOLD_AT_ONCE);
        self.untold.insert(thread.clone(), all);
    }

    /// The line that ends the handshake.
    pub fn initialized(&self) -> Vec<u8> {
        outgoing::initialized_line()
    }

    /// The turn that is going on in a conversation, as far as codex told.
    pub fn active_turn(&self, thread: &NativeId) -> Option<&NativeId> {
        self.lineage.active_turn(thread)
    }

    /// What a conversation is set to, as far as codex told.
    pub fn settings(&self, thread: &NativeId) -> Settings {
        self.settings.get(thread).cloned().unwrap_or_default()
    }

    /// Requests that wait for an answer, or were answered and not resolved yet.
    pub fn pending_requests(&self) -> impl Iterator<Item = &NativeId> {
        self.requests.ids()
    }

    /// Bytes held at the moment: what is remembered, and the frame that is not whole yet.
    pub fn held_bytes(&self) -> usize {
        self.lines.held() + self.weight()
    }

    /// Unreadable lines since the last readable frame.
    pub fn unreadable_in_a_row(&self) -> u32 {
        self.unreadable_in_a_row
    }

    /// Takes bytes as they come, split anywhere.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<Received> {
        let mut frames = Vec::new();
        let read = self.lines.push(bytes, &mut frames);
        let mut out = self.take(frames);
        self.fit(read, &mut out);
        out
    }

    /// The stream has ended: reads what is left of the last line.
    pub fn finish(&mut self) -> Vec<Received> {
        let mut frames = Vec::new();
        self.lines.finish(&mut frames);
        self.take(frames)
    }

    /// The frame for a person's answer. The request stays pending until codex says that it is resolved.
    ///
    /// # Errors
    /// [`AnswerProblem::NotPending`] if codex does not wait for it or it was answered already, [`AnswerProblem::Unfit`] if
    /// the answer does not fit what was asked.
    pub fn answer(
        &mut self,
        request: &NativeId,
        answer: &Answer,
    ) -> Result<Vec<u8>, AnswerProblem> {
        let begun_here = self.signing_in() == Some(request);
        let (id, result) = self.requests.answer(request, answer)?;
        // Codex asked nothing: a call of ours began it, and another ends it.
        if begun_here {
            return Ok(self.call(Call::LoginCancel { login: id }).1);
        }
        Ok(outgoing::result_line(&id, &result))
    }

    /// Whether a pending request is the one that was shown: codex may use a number again for something else.
    pub fn is_same_request(
        &self,
        request: &NativeId,
        thread: &NativeId,
        kind: RequestKind,
        shown: &Subject,
    ) -> bool {
        self.requests.is_same(request, thread, kind, shown)
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
                Frame::Notification { method, params } => {
                    notifications::read(self, &method, &params, &mut out);
                }
                Frame::Request { id, method, params } => self.ask(id, &method, &params, &mut out),
                Frame::Response { id, result } => self.reply(id, result, &mut out),
                Frame::Unreadable { problem, raw } => {
                    event(
                        &mut out,
                        NativePlace::default(),
                        ProviderEventKind::Unknown {
                            label: cut(&problem, 120),
                            raw,
                        },
                    );
                }
                Frame::Oversized { bytes, raw } => self.oversized(bytes, &raw, &mut out),
            }
        }
        out
    }

    /// A frame that was too long may be one that somebody waits for: its head tells.
    fn oversized(&mut self, bytes: u64, raw: &str, out: &mut Vec<Received>) {
        event(
            out,
            NativePlace::default(),
            ProviderEventKind::Unknown {
                label: too_large(bytes),
                raw: raw.to_owned(),
            },
        );
        let head = head(raw);
        match (head.id, head.method) {
            (Some(id), Some(_)) => {
                out.push(Received::Send(outgoing::error_line(
                    &id,
                    -32600,
                    "the request is too large",
                )));
            }
            (Some(id), None) => {
                if let Some(id) = id.as_u64()
                    && let Some(waiting) = self.calls.remove(&id)
                {
                    out.push(Received::Reply {
                        call: id,
                        reply: Err(CallError::Unreadable {
                            method: waiting.call.method().to_owned(),
                        }),
                    });
                }
            }
            (None, _) => {}
        }
    }

    fn reply(&mut self, id: Option<u64>, result: Result<Value, RpcError>, out: &mut Vec<Received>) {
        let Some((id, waiting)) = id.and_then(|id| Some((id, self.calls.remove(&id)?))) else {
            event(
                out,
                NativePlace::default(),
                ProviderEventKind::Diagnostic {
                    message: match result {
                        Ok(_) => "codex answered a call that nobody made or waits for".to_owned(),
                        Err(error) => format!(
                            "codex reported an error to nobody ({}): {}",
                            error.code,
                            cut(&error.message, 512)
                        ),
                    },
                },
            );
            return;
        };
        if let (Call::TerminalsList { thread, items }, Ok(result)) = (&waiting.call, &result) {
            self.end_terminals(thread, items, result, out);
        }
        if let (Call::LoginStart { thread }, Ok(result)) = (&waiting.call, &result)
            && self.sign_in_begun(thread, result, out).is_none()
        {
            let method = waiting.call.method().to_owned();
            let reply = Err(CallError::Unreadable { method });
            out.push(Received::Reply { call: id, reply });
            return;
        }
        let mut told = Vec::new();
        let reply = result.map_err(replies::call_error).and_then(|result| {
            if let Call::TurnsList { thread, .. } | Call::LastTurn { thread, .. } = &waiting.call {
                self.history(thread, &result);
            }
            if let Call::LastTurn { thread, told: true } = &waiting.call {
                told = self.last_turn(thread, &result);
            }
            let reply = replies::read(&waiting.call, &result, &self.lineage, |turn| {
                waiting.active.as_ref() == Some(turn)
            });
            if let Ok(Reply::Turn { turn, known_before }) = &reply
                && !known_before
                && let Call::TurnStart { thread, .. } = &waiting.call
                && !self.lineage.knows_turn(turn)
            {
                // The answer can come before `turn/started`.
                self.lineage.turn_started(thread, turn, None);
            }
            reply
        });
        out.extend(told.into_iter().map(Received::Event));
        if let Ok(Reply::Thread(loaded)) = &reply {
            self.lineage.thread_opened(loaded.thread.clone());
            self.settings
                .insert(loaded.thread.clone(), loaded.settings.clone());
            event(
                out,
                self.lineage.place(Some(loaded.thread.clone()), None),
                ProviderEventKind::ThreadBound,
            );
        }
        out.push(Received::Reply { call: id, reply });
    }

    /// Takes over which turn goes on, and what stands in changes that a request may be about.
    fn history(&mut self, thread: &NativeId, result: &Value) {
        for turn in list(result, "data") {
            let Some(id) = id_of(turn, "id") else {
                continue;
            };
            let goes_on = text_of(turn, "status").as_deref() == Some("inProgress");
            self.lineage.turn_is(thread, &id, goes_on);
            for item in list(turn, "items").iter().filter(|_| goes_on) {
                if let (Some(id), ItemContent::FileChange { changes }) =
                    (id_of(item, "id"), items::content(item))
                {
                    self.remember_patch(thread, &id, &changes);
                }
            }
        }
    }

    fn remember_patch(&mut self, thread: &NativeId, item: &NativeId, changes: &[FileChange]) {
        let key = patch_key(thread, item);
        if budget::changes(changes) <= limits::SUBJECT_TEXT {
            self.patches.insert(key, changes.to_vec());
        } else {
            self.patches.remove(&key);
        }
    }

    /// The newest turn of a subagent's conversation, which may have ended unseen.
    fn last_turn(&mut self, thread: &NativeId, result: &Value) -> Vec<ProviderEvent> {
        let Some(turn) = list(result, "data").first() else {
            return Vec::new();
        };
        let mut events = replies::turn_events(thread, turn, &self.lineage);
        if let Some((status, _)) = replies::turn_end(turn)
            && let Some(place) = self.lineage.close_child(thread)
        {
            let child = thread.clone();
            let kind = ProviderEventKind::ChildClosed { child, status };
            events.push(ProviderEvent { place, kind });
        }
        events
    }

    /// Links a subagent's conversation to the one that began it.
    pub(super) fn adopt(&mut self, child: &NativeId, parent: &NativeId) {
        self.lineage.adopt(child, parent);
    }

    fn ask(&mut self, id: Value, method: &str, params: &Value, out: &mut Vec<Received>) {
        let asked = requests::read(method, params, |thread, item| {
            self.patches.get(&patch_key(thread, item)).cloned()
        });
        match asked {
            Asked::Person(opened) => self.open(id, method, *opened, out),
            Asked::AnswerNow { result, remark } => {
                out.push(Received::Send(outgoing::result_line(&id, &result)));
                let place = self.lineage.place(id_of(params, "threadId"), None);
                event(
                    out,
                    place,
                    ProviderEventKind::Diagnostic { message: remark },
                );
            }
            Asked::Refuse { message, unknown } => {
                out.push(Received::Send(outgoing::error_line(&id, -32601, &message)));
                let place = self
                    .lineage
                    .place(id_of(params, "threadId"), id_of(params, "turnId"));
                let kind = if unknown {
                    ProviderEventKind::Unknown {
                        label: cut(&format!("request {method}"), 120),
                        raw: cut(&params.to_string(), RAW_LIMIT),
                    }
                } else {
                    ProviderEventKind::Diagnostic {
                        message: format!("refused `{method}`: {message}"),
                    }
                };
                event(out, place, kind);
            }
        }
    }

    fn open(&mut self, id: Value, method: &str, mut opened: Opened, out: &mut Vec<Received>) {
        // Legacy requests name no turn.
        if opened.turn.is_none() {
            opened.turn = self.lineage.active_turn(&opened.thread).cloned();
        }
        let place = self
            .lineage
            .place(Some(opened.thread.clone()), opened.turn.clone());
        if self
            .requests
            .takes(&id, &place, &mut opened, |place, kind| {
                event(out, place, kind)
            })
        {
            return self.requests.open(id, place, opened, out);
        }
        let message = "too many requests wait already";
        out.push(Received::Send(outgoing::error_line(&id, -32600, message)));
        let message = format!("refused `{method}`: {message}");
        event(out, place, ProviderEventKind::Diagnostic { message });
    }

    /// Whether a request that is resolved, and was not answered by us, was answered over another connection. One that the end of
    /// its turn takes back is resolved after that end.
    fn was_answered_elsewhere(&self, opened: &Opened) -> bool {
        let goes_on = self.lineage.active_turn(&opened.thread);
        self.shared && goes_on.is_some() && goes_on == opened.turn.as_ref()
    }

    /// `serverRequest/resolved`.
    pub(super) fn resolved(
        &mut self,
        thread: Option<NativeId>,
        id: &Value,
        out: &mut Vec<Received>,
    ) {
        let request = request_id(id);
        let (place, resolution) = match self.requests.take(&request) {
            Some(pending) if pending.answered || self.was_answered_elsewhere(&pending.opened) => {
                (pending.place, Resolution::Answered)
            }
            Some(pending) => (pending.place, Resolution::Withdrawn),
            None => (self.lineage.place(thread, None), Resolution::Unsaid),
        };
        event(
            out,
            place,
            ProviderEventKind::RequestClosed {
                request,
                resolution,
            },
        );
    }

    /// What stands in a file-change item; a request about it that waits is opened anew with it.
    pub(super) fn patch_changed(
        &mut self,
        thread: &NativeId,
        item: &NativeId,
        changes: &[FileChange],
        out: &mut Vec<Received>,
    ) {
        // One that cannot be shown whole is taken from its item, where it is shown as far as it can be.
        let shown = match budget::changes(changes) {
            ..=limits::SUBJECT_TEXT => changes,
            _ => &[],
        };
        self.requests.change(
            |pending| {
                let opened = &pending.opened;
                opened.thread == *thread
                    && opened.item.as_ref() == Some(item)
                    && opened.kind == RequestKind::FileChange
                    && opened.subject.changes != shown
            },
            |pending| {
                let subject = &mut pending.opened.subject;
                subject.incomplete = shown.is_empty();
                subject.changes = shown.to_vec();
            },
            |place, kind| event(out, place, kind),
        );
        self.remember_patch(thread, item, shown);
    }
}

pub(super) fn patch_key(thread: &NativeId, item: &NativeId) -> NativeId {
    NativeId(format!("{thread}\u{0}{item}"))
}

impl Peer for Codec {
    const NAME: &'static str = "codex";
    const ALWAYS_ANSWERS: bool = true;

    fn working(&self) -> Vec<NativePlace> {
        let active = self.lineage.active_turns();
        active
            .filter(|place| !self.requests.waits_in(place))
            .collect()
    }

    fn probe() -> Call {
        Call::AccountRead
    }

    rpc::by_own_methods!();
}
