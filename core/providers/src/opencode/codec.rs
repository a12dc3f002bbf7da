//! The codec: events of opencode and answers to calls in, events and calls out. No clock, no socket, no waiting.

use super::{
    asking::Early,
    conversation::{Conversation, Speaker, Turn},
    outgoing::{self, Call, Prompt},
    replies::{self, CallError, Entries, Model, Reply, Session},
    sse::{Events, Frame},
};
use crate::rpc::{
    asked::{AnswerProblem, Requests, request_id},
    bounded::Bounded,
    budget::Budget,
    frames::{FRAME_LIMIT, cut, text_or_empty, too_large},
};
use pilothouse_domain::{
    Answer, Mode, NativeId, ProviderEvent, ProviderEventKind, Subject,
    provider_event::{NativePlace, Resolution},
    request::RequestKind,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Conversations of subagents that are known.
const CHILDREN: usize = 256;
/// Conversations that may stand above one another.
const DEPTH: usize = 16;
/// Bytes of an id of opencode's; it gives 30.
const ID: usize = 512;
/// Requests that are over and must not be opened again by a list that still holds them.
const OVER: usize = 4096;
/// Commands that are asked for and not shown yet; of more, the oldest are shown as incomplete.
const EARLY: usize = 32;

/// What comes of what opencode says.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are events; a box would cost an allocation for each delta"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Something happened.
    Event(ProviderEvent),
    /// To be called at once: an answer that needs no person.
    Do(Call),
}

/// What became of an answer that needs no person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settling {
    /// It is being given.
    Called,
    /// It did not arrive: a person is asked when what waits is read next.
    Failed,
}

/// State of one opencode process, as far as its conversations were opened here.
#[derive(Debug, Clone)]
pub struct Codec {
    events: Events,
    /// Conversations that were opened here.
    pub(super) roots: BTreeMap<NativeId, Conversation>,
    /// Servers of tools, by their names.
    pub(super) servers: Vec<String>,
    /// Conversations that work for them.
    pub(super) children: Bounded<Conversation>,
    pub(super) requests: Requests,
    /// Requests that are over, by opencode's ids.
    pub(super) over: Bounded<()>,
    /// Commands that are asked for and not shown yet.
    pub(super) early: Bounded<Early>,
    /// Requests of subagents that the mode of their thread answers.
    pub(super) settling: Bounded<Settling>,
    /// Sizes of models' contexts, by provider and model.
    pub(super) contexts: BTreeMap<(String, String), u64>,
    pub(super) budget: Budget,
    /// A turn ended for want of a sign-in, and opencode was not told since to read its own anew.
    pub(super) refused: bool,
    pub(super) unreadable_in_a_row: u32,
    /// The stream has told of something else than itself.
    pub(super) telling: bool,
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
            events: Events::new(FRAME_LIMIT),
            roots: BTreeMap::new(),
            servers: Vec::new(),
            children: Bounded::new(CHILDREN),
            requests: Requests::default(),
            over: Bounded::new(OVER),
            early: Bounded::new(EARLY),
            settling: Bounded::new(OVER),
            contexts: BTreeMap::new(),
            budget: Budget::default(),
            refused: false,
            unreadable_in_a_row: 0,
            telling: false,
        }
    }

    /// Another stream of events begins; what the last one left of an event is thrown away.
    pub fn connected(&mut self) {
        self.events = Events::new(FRAME_LIMIT);
        self.telling = false;
    }

    /// Whether the stream has told of anything that happened: it says that it is connected before it does.
    pub fn is_telling(&self) -> bool {
        self.telling
    }

    /// Takes bytes of the stream of events as they come, split anywhere.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<Told> {
        let mut frames = Vec::new();
        let came = self.events.held() + bytes.len();
        self.events.push(bytes, &mut frames);
        let read = came.saturating_sub(self.events.held());
        let mut out = Vec::new();
        for frame in frames {
            match frame {
                Frame::Data(data) => self.frame(&data, &mut out),
                Frame::Oversized { bytes, raw } => {
                    unknown(NativePlace::default(), too_large(bytes), raw, &mut out)
                }
            }
        }
        self.fit(read, &mut out);
        out
    }

    /// Reads an HTTP answer.
    ///
    /// # Errors
    /// [`CallError`] where opencode refused, or what it says cannot be read.
    pub fn answered(&mut self, call: &Call, status: u16, body: &[u8]) -> Result<Reply, CallError> {
        let reply = replies::read(call, status, body)?;
        if let Reply::Models(models) = &reply {
            self.contexts = contexts(models);
        }
        Ok(reply)
    }

    /// A conversation is opened: its events are told from now on.
    pub fn open(&mut self, session: &Session) {
        let known = self
            .roots
            .entry(session.id.clone())
            .or_insert_with(|| Conversation::new(None, session.directory.clone()));
        known.directory.clone_from(&session.directory);
        known.created_ms = session.created_ms;
        known.reverted.clone_from(&session.reverted);
    }

    /// Whether a conversation is open here.
    pub fn is_open(&self, session: &NativeId) -> bool {
        self.roots.contains_key(session)
    }

    /// Conversations that are open, with where they work.
    pub fn opened(&self) -> impl Iterator<Item = (&NativeId, &str)> {
        self.roots
            .iter()
            .map(|(session, known)| (session, known.directory.as_str()))
    }

    /// What the thread of a conversation may do without asking, as was last chosen.
    pub fn set_mode(&mut self, session: &NativeId, mode: Mode) {
        if let Some(known) = self.roots.get_mut(session) {
            known.mode = mode;
        }
    }

    /// Begins a turn: the call that starts it; `None` while another goes on, or where the conversation is not open. `now_ms`
    /// is the time by opencode's clock, Unix ms: a conversation is ordered by it.
    pub fn prompt(
        &mut self,
        session: &NativeId,
        client_id: &str,
        now_ms: u64,
        prompt: Prompt,
    ) -> Option<Prompt> {
        let turn = outgoing::message_id(now_ms, client_id);
        self.prompted(session, turn.clone()).then(|| Prompt {
            session: session.clone(),
            turn,
            ..prompt
        })
    }

    /// Begins a turn with a prompt that is named already; `false` while another goes on, or where the conversation is not
    /// open.
    pub fn prompted(&mut self, session: &NativeId, turn: NativeId) -> bool {
        let Some(known) = self.roots.get_mut(session) else {
            return false;
        };
        if known.turn.is_some() {
            return false;
        }
        known.rejecting = false;
        known.turn = Some(Turn::new(turn));
        true
    }

    /// A prompt was taken, and waits to be worked on.
    pub fn accepted(&mut self, session: &NativeId, turn: &NativeId) {
        let known = self.roots.get_mut(session);
        let going_on = known.and_then(|known| known.turn.as_mut());
        if let Some(going_on) = going_on.filter(|going_on| going_on.id == *turn) {
            going_on.accepted = true;
        }
    }

    /// A prompt was refused, or never left: its turn has not begun.
    pub fn not_begun(&mut self, session: &NativeId, turn: &NativeId) {
        if let Some(known) = self.roots.get_mut(session)
            && known
                .turn
                .as_ref()
                .is_some_and(|going_on| going_on.id == *turn && !going_on.seen)
        {
            known.turn = None;
        }
    }

    /// Stops a turn; `None` if that turn is not going on.
    pub fn stop(&mut self, session: &NativeId, turn: &NativeId) -> Option<Call> {
        let going_on = self.roots.get_mut(session)?.turn.as_mut()?;
        if going_on.id != *turn {
            return None;
        }
        going_on.stopping = true;
        Some(Call::Abort {
            session: session.clone(),
        })
    }

    /// A call that stops a turn did not arrive: it may end as any other.
    pub fn not_stopped(&mut self, session: &NativeId, turn: &NativeId) {
        let known = self.roots.get_mut(session);
        let going_on = known.and_then(|known| known.turn.as_mut());
        if let Some(going_on) = going_on.filter(|going_on| going_on.id == *turn) {
            going_on.stopping = false;
        }
    }

    /// The turn that is going on in a conversation.
    pub fn active_turn(&self, session: &NativeId) -> Option<&NativeId> {
        Some(&self.roots.get(session)?.turn.as_ref()?.id)
    }

    /// The same, also of a conversation that works for another.
    pub(super) fn active_turn_of(&self, session: &NativeId) -> Option<NativeId> {
        Some(self.conversation(session)?.turn.as_ref()?.id.clone())
    }

    /// Whether opencode has begun with the turn that goes on in a conversation.
    pub(super) fn has_seen(&self, session: &NativeId) -> bool {
        let known = self.roots.get(session);
        known.is_some_and(|known| known.turn.as_ref().is_none_or(|turn| turn.seen))
    }

    /// Turns that go on while nothing in their conversation waits for a person.
    pub fn working(&self) -> Vec<NativePlace> {
        self.roots
            .iter()
            .filter(|(_, known)| known.turn.is_some())
            .filter_map(|(session, _)| self.place(session))
            .filter(|place| !self.requests.waits_in(place))
            .collect()
    }

    /// Whether anything is asked or done in any conversation.
    pub fn is_idle(&self) -> bool {
        self.roots.values().all(|known| known.turn.is_none())
            && self.children.values().all(|known| known.turn.is_none())
    }

    /// Requests that wait for an answer, or were answered and are not confirmed yet.
    pub fn pending_requests(&self) -> impl Iterator<Item = &NativeId> {
        self.requests.ids()
    }

    /// Bytes held in buffers and for tools at the moment.
    pub fn held_bytes(&self) -> usize {
        self.events.held() + self.weight()
    }

    /// Unreadable events since the last readable one.
    pub fn unreadable_in_a_row(&self) -> u32 {
        self.unreadable_in_a_row
    }

    /// The call for a person's answer. The request stays pending until opencode says that it is over.
    ///
    /// # Errors
    /// [`AnswerProblem::NotPending`] if opencode does not wait for it or it was answered already, [`AnswerProblem::Unfit`] if
    /// the answer does not fit what was asked.
    pub fn answer(&mut self, request: &NativeId, answer: &Answer) -> Result<Call, AnswerProblem> {
        let (id, body) = self.requests.answer(request, answer)?;
        let pending = self.requests.get(request);
        let question = pending.is_some_and(|one| one.opened.kind == RequestKind::UserInput);
        let session = pending.map(|one| one.opened.thread.clone());
        let refuses = body.get("reply").and_then(Value::as_str) == Some("reject");
        if refuses && let Some(known) = session.and_then(|session| self.conversation_mut(&session))
        {
            known.rejecting = true;
        }
        Ok(Call::Reply {
            request: id.as_str().unwrap_or_default().to_owned(),
            question,
            body,
        })
    }

    /// An answer may not have arrived: another can be given, and a list that still holds the request opens it again.
    pub fn not_taken(&mut self, request: &NativeId) {
        if let Some(session) = self.requests.not_taken(request)
            && let Some(known) = self.conversation_mut(&session)
        {
            known.rejecting = false;
        }
    }

    /// What came of a call that needed no person. Where an answer did not arrive, its request is one for a person: a list that
    /// still holds it opens it.
    pub fn done(&mut self, call: &Call, arrived: bool) {
        let Call::Reply { request, .. } = call else {
            return;
        };
        let key = request_id(&Value::from(request.as_str()));
        if arrived {
            self.settling.remove(&key);
            self.over.insert(key, ());
        } else if let Some(settling) = self.settling.get_mut(&key) {
            *settling = Settling::Failed;
        }
    }

    /// opencode does not wait for a request any more that was to be answered.
    pub fn not_pending(&mut self, request: &NativeId) -> Vec<Told> {
        let mut out = Vec::new();
        if let Some(pending) = self.requests.take(request) {
            self.over.insert(request.clone(), ());
            let kind = ProviderEventKind::RequestClosed {
                request: request.clone(),
                resolution: Resolution::Withdrawn,
            };
            tell(pending.place, kind, &mut out);
        }
        out
    }

    /// Whether a pending request is the one that was shown.
    pub fn is_same_request(
        &self,
        request: &NativeId,
        thread: &NativeId,
        kind: RequestKind,
        shown: &Subject,
    ) -> bool {
        self.requests.is_same(request, thread, kind, shown)
    }

    /// A conversation's state.
    pub(super) fn conversation(&self, session: &NativeId) -> Option<&Conversation> {
        self.roots
            .get(session)
            .or_else(|| self.children.get(session))
    }

    /// See [`Self::conversation`].
    pub(super) fn conversation_mut(&mut self, session: &NativeId) -> Option<&mut Conversation> {
        match self.roots.get_mut(session) {
            Some(known) => Some(known),
            None => self.children.get_mut(session),
        }
    }

    /// The open conversation that a conversation works for, or is.
    pub(super) fn root_of(&self, session: &NativeId) -> Option<&NativeId> {
        let mut at = session;
        for _ in 0..DEPTH {
            if let Some((root, _)) = self.roots.get_key_value(at) {
                return Some(root);
            }
            at = self.children.get(at)?.parent.as_ref()?;
        }
        None
    }

    /// Where something in a conversation happens now; `None` for one that was not opened here. What comes between two turns
    /// belongs to the last one.
    pub(super) fn place(&self, session: &NativeId) -> Option<NativePlace> {
        let root = self.root_of(session)?;
        let of_child = root != session;
        Some(NativePlace {
            thread: Some(session.clone()),
            root: of_child.then(|| root.clone()),
            turn: match self.roots.get(session) {
                Some(known) => known.current().cloned(),
                None => None,
            },
        })
    }

    /// What the thread that a conversation belongs to may do without asking.
    pub(super) fn mode_of(&self, session: &NativeId) -> Mode {
        self.root_of(session)
            .and_then(|root| self.roots.get(root))
            .map_or(Mode::Ask, |known| known.mode)
    }

    /// A conversation that works for another.
    pub(super) fn adopt(&mut self, session: &Session, title: &str) {
        let Some(parent) = &session.parent else {
            return;
        };
        if self.roots.contains_key(&session.id)
            || session.id == *parent
            || self.root_of(parent).is_none()
        {
            return;
        }
        if self.children.get(&session.id).is_none() {
            let known = Conversation::new(Some(parent.clone()), session.directory.clone());
            self.children.insert(session.id.clone(), known);
        }
        if let Some(known) = self.children.get_mut(&session.id) {
            known.title = cut(title, 512);
        }
    }

    /// Learns the conversations that work for another, after their beginning may have been missed.
    pub fn adopt_children(&mut self, children: &Entries) {
        for value in &children.0 {
            if let Some(session) = replies::session(value) {
                self.adopt(&session, &text_or_empty(value, "title"));
            }
        }
    }

    /// Those of them that are known.
    pub fn children_of(&self, children: &Entries) -> Vec<NativeId> {
        children
            .0
            .iter()
            .filter_map(|value| id_of(value, "id"))
            .filter(|id| self.children.contains(id))
            .collect()
    }

    /// A conversation was idle after it had been told to stop: a turn that opencode has begun is over.
    pub fn stopped(&mut self, session: &NativeId, turn: &NativeId) -> Vec<Told> {
        let mut out = Vec::new();
        if self.active_turn(session) == Some(turn) {
            self.end_turn(session, &mut out);
        }
        out
    }

    /// Remembers who speaks in a message, without telling anything.
    pub(super) fn remember(&mut self, session: &NativeId, id: &NativeId, info: &Value) {
        if let Some(known) = self.conversation_mut(session) {
            known.messages.insert(id.clone(), speaker(info));
        }
    }
}

/// An id; none that nobody would give.
pub(super) fn id_of(value: &Value, key: &str) -> Option<NativeId> {
    let id = value.get(key)?.as_str()?;
    (1..=ID).contains(&id.len()).then(|| NativeId::from(id))
}

/// Whether a message is older than the conversation that it stands in.
pub(super) fn is_copied(info: &Value, created_ms: u64) -> bool {
    info.pointer("/time/created")
        .and_then(Value::as_u64)
        .is_some_and(|created| created < created_ms)
}

/// Who speaks in a message.
pub(super) fn speaker(info: &Value) -> Speaker {
    match text_or_empty(info, "role").as_str() {
        "user" => Speaker::User,
        _ if info.get("summary") == Some(&Value::Bool(true)) => Speaker::Summary,
        _ => Speaker::Assistant,
    }
}

fn contexts(models: &[Model]) -> BTreeMap<(String, String), u64> {
    models
        .iter()
        .filter_map(|model| Some(((model.provider.clone(), model.id.clone()), model.context?)))
        .collect()
}

/// Adds an event.
pub(super) fn tell(place: NativePlace, kind: ProviderEventKind, out: &mut Vec<Told>) {
    out.push(Told::Event(ProviderEvent { place, kind }));
}

/// Something that this version cannot read: shown as it is.
pub(super) fn unknown(place: NativePlace, label: String, raw: String, out: &mut Vec<Told>) {
    tell(place, ProviderEventKind::Unknown { label, raw }, out);
}
