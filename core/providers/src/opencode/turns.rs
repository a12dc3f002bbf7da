//! Messages, statuses and errors: how turns begin, go on and end.
//!
//! A turn is what opencode does from a person's message until it is idle, and has that message's id. opencode is idle twice
//! after an abort; it is idle once more for an abort that stopped nothing, which may be heard after the next prompt was sent:
//! so an end counts only once opencode has begun to work on the turn's message.

use super::{
    codec::{Codec, Told, id_of, is_copied, speaker, tell},
    conversation::{Speaker, Turn},
    outgoing,
};
use crate::rpc::{
    cost::nano_usd,
    frames::{cut, list, text_of, text_or_empty},
    turn_end,
};
use pilothouse_domain::{
    NativeId, ProviderEventKind,
    item::{TodoEntry, TodoStatus},
    provider::TurnStatus,
    provider_event::{NativePlace, Resolution},
    run::{ErrorCode, RunError},
};
use serde_json::Value;

/// Lines of a todo list.
const TODOS: usize = 256;
/// Bytes of opencode's words in an error.
const WORDS: usize = 1024;

impl Codec {
    /// A message began or changed.
    pub(super) fn message(&mut self, session: &NativeId, info: &Value, out: &mut Vec<Told>) {
        let Some(id) = id_of(info, "id") else {
            return;
        };
        let Some(known) = self.conversation_mut(session) else {
            return;
        };
        let ours = known.turn.as_ref().is_some_and(|turn| turn.id == id);
        if !ours && is_copied(info, known.created_ms) {
            known.messages.insert(id, Speaker::Copied);
            return;
        }
        let is_new = known.messages.get(&id).is_none();
        let speaker = speaker(info);
        if speaker == Speaker::User {
            if let Some(turn) = known
                .turn
                .as_mut()
                .filter(|turn| turn.id == id && !turn.seen)
            {
                turn.seen = true;
                self.remember(session, &id, info);
                return self.begun(session, out);
            }
            if is_new {
                self.remember(session, &id, info);
            }
            return;
        }
        let completed = info.pointer("/time/completed").is_some();
        let parent = id_of(info, "parentID");
        if known.turn.is_none() {
            if completed || !is_new {
                // The end of what a turn left behind.
                return self.remember(session, &id, info);
            }
            let turn = parent.unwrap_or_else(|| id.clone());
            self.begin(session, turn, out);
        }
        let of_before = |turn: &Turn| !turn.seen;
        if self
            .conversation(session)
            .and_then(|known| known.turn.as_ref())
            .is_some_and(of_before)
        {
            // The end of an aborted turn, heard after the next prompt was sent.
            return self.remember(session, &id, info);
        }
        let context = self
            .contexts
            .get(&(
                text_or_empty(info, "providerID"),
                text_or_empty(info, "modelID"),
            ))
            .copied();
        let failure = info
            .get("error")
            .filter(|error| error.is_object())
            .map(failure);
        let Some(known) = self.conversation_mut(session) else {
            return;
        };
        let Some(turn) = known.turn.as_mut() else {
            return;
        };
        turn.alive |= turn.seen;
        turn.usage.context_window = context.or(turn.usage.context_window);
        if is_new {
            turn.error = None;
            turn.refused = false;
        }
        match failure {
            Some(Failure::Aborted) => turn.aborted = true,
            Some(Failure::Error(error)) => turn.error = Some(error),
            None => {}
        }
        if !completed {
            turn.open_message = Some(id.clone());
        } else if turn.open_message.as_ref() == Some(&id) {
            turn.open_message = None;
        }
        known.messages.insert(id, speaker);
    }

    /// Begins a turn that nobody here started, or a subagent's.
    pub(super) fn begin(&mut self, session: &NativeId, id: NativeId, out: &mut Vec<Told>) {
        let Some(known) = self.conversation_mut(session) else {
            return;
        };
        known.turn = Some(Turn {
            seen: true,
            ..Turn::new(id)
        });
        self.begun(session, out);
    }

    /// opencode has taken a turn up.
    fn begun(&mut self, session: &NativeId, out: &mut Vec<Told>) {
        let Some(place) = self.place(session) else {
            return;
        };
        if place.root.is_some() {
            self.announce(session, None, out);
        } else {
            tell(place, ProviderEventKind::TurnStarted, out);
        }
    }

    /// Tells of a subagent, once for each time that it works.
    pub(super) fn announce(
        &mut self,
        child: &NativeId,
        item: Option<NativeId>,
        out: &mut Vec<Told>,
    ) {
        let Some(known) = self.conversation_mut(child) else {
            return;
        };
        let Some(parent) = known.parent.clone() else {
            return;
        };
        if std::mem::replace(&mut known.announced, true) {
            return;
        }
        let title = match known.title.as_str() {
            "" => "Subagent".to_owned(),
            title => title.to_owned(),
        };
        if let Some(place) = self.place(&parent) {
            let kind = ProviderEventKind::ChildOpened {
                child: child.clone(),
                item,
                title,
            };
            tell(place, kind, out);
        }
    }

    /// `session.status`.
    pub(super) fn status(&mut self, session: &NativeId, told: &Value, out: &mut Vec<Told>) {
        let status = told.get("status").unwrap_or(&Value::Null);
        let kind = text_or_empty(status, "type");
        if kind == "idle" {
            return self.idle(session, out);
        }
        let Some(place) = self.place(session) else {
            return;
        };
        if let Some(turn) = self
            .conversation_mut(session)
            .and_then(|known| known.turn.as_mut())
        {
            turn.alive |= turn.seen;
            turn.retrying = kind == "retry";
        }
        if kind == "retry" {
            let attempt = status.get("attempt").and_then(Value::as_u64).unwrap_or(1);
            let message = text_or_empty(status, "message");
            let error = RunError {
                code: code_of_words(&message),
                message: cut(
                    &format!(
                        "{message} (attempt {attempt} failed; opencode tries again until it is stopped)"
                    ),
                    WORDS,
                ),
            };
            let kind = ProviderEventKind::Error {
                error,
                will_retry: true,
            };
            tell(place, kind, out);
        }
    }

    /// opencode says that a conversation does nothing.
    fn idle(&mut self, session: &NativeId, out: &mut Vec<Told>) {
        let Some(turn) = self
            .conversation_mut(session)
            .and_then(|known| known.turn.as_mut())
        else {
            return;
        };
        if !turn.seen || !turn.alive {
            // The end of an abort that stopped nothing, heard after the next prompt was sent.
            return;
        }
        if turn.aborted && turn.open_message.is_some() && !turn.ended_once {
            turn.ended_once = true;
            return;
        }
        self.end_turn(session, out);
    }

    /// A turn is over, with all that it left open.
    pub(super) fn end_turn(&mut self, session: &NativeId, out: &mut Vec<Told>) {
        let Some(place) = self.place(session) else {
            return;
        };
        let Some(known) = self.conversation_mut(session) else {
            return;
        };
        let Some(turn) = known.turn.take() else {
            return;
        };
        known.last = Some(turn.id.clone());
        known.rejecting = false;
        let was_announced = std::mem::replace(&mut known.announced, false);
        let (status, error) = ending(turn);
        self.refused |= matches!(&error, Some(error) if error.code == ErrorCode::SignIn);
        self.early.retain(|early| early.session != *session);
        for (request, pending) in self.requests.take_in(session) {
            self.over.insert(request.clone(), ());
            let kind = ProviderEventKind::RequestClosed {
                request,
                resolution: Resolution::Withdrawn,
            };
            tell(pending.place, kind, out);
        }
        if place.root.is_none() {
            for kind in turn_end(status, error) {
                tell(place.clone(), kind, out);
            }
        } else if was_announced {
            let child = session.clone();
            tell(place, ProviderEventKind::ChildClosed { child, status }, out);
        }
    }

    /// A conversation is there no more, and none that works for it: what goes on in them has failed.
    pub fn deleted(&mut self, session: &NativeId) -> Vec<Told> {
        let mut out = Vec::new();
        let below = self.children.iter().map(|(child, _)| child);
        let gone: Vec<NativeId> = below
            .filter(|child| self.root_of(child) == Some(session))
            .chain([session])
            .cloned()
            .collect();
        for session in gone {
            let turn = self
                .conversation_mut(&session)
                .and_then(|known| known.turn.as_mut());
            if let Some(turn) = turn.filter(|turn| turn.seen || turn.accepted) {
                turn.error = Some(RunError {
                    code: ErrorCode::Agent,
                    message: "somebody deleted the conversation".to_owned(),
                });
                self.end_turn(&session, &mut out);
            }
        }
        out
    }

    /// `session.error`.
    pub(super) fn error(&mut self, session: &NativeId, told: &Value, out: &mut Vec<Told>) {
        let Some(place) = self.place(session) else {
            return;
        };
        let error = told.get("error").unwrap_or(&Value::Null);
        let overflow = text_or_empty(error, "name") == "ContextOverflowError";
        let turn = self
            .conversation_mut(session)
            .and_then(|known| known.turn.as_mut());
        match (failure(error), turn) {
            (Failure::Aborted, Some(turn)) => turn.aborted |= turn.seen,
            (Failure::Aborted, None) => {}
            (Failure::Error(error), Some(turn)) => {
                turn.error = Some(error.clone());
                if !turn.seen {
                    // opencode could not even take the message up, and says nothing more of it.
                    self.end_turn(session, out);
                } else if overflow {
                    // No end: a compaction follows.
                    let kind = ProviderEventKind::Error {
                        error,
                        will_retry: true,
                    };
                    tell(place, kind, out);
                }
            }
            (Failure::Error(error), None) => {
                // opencode says why a turn failed once more after its end, with its own stack.
                let message = error.message;
                tell(place, ProviderEventKind::Diagnostic { message }, out);
            }
        }
    }

    /// `todo.updated`.
    pub(super) fn todos(&mut self, session: &NativeId, told: &Value, out: &mut Vec<Told>) {
        let Some(place) = self.place(session) else {
            return;
        };
        let entries = list(told, "todos")
            .iter()
            .take(TODOS)
            .map(|todo| TodoEntry {
                text: cut(&text_or_empty(todo, "content"), WORDS),
                status: match text_or_empty(todo, "status").as_str() {
                    "in_progress" => TodoStatus::InProgress,
                    "completed" | "cancelled" => TodoStatus::Completed,
                    _ => TodoStatus::Pending,
                },
            })
            .collect();
        tell(place, ProviderEventKind::TodoList { entries }, out);
    }

    /// Adds what a step of the model took to the turn of the whole thread.
    pub(super) fn used(&mut self, session: &NativeId, part: &Value, out: &mut Vec<Told>) {
        let count = |at: &str| part.pointer(at).and_then(Value::as_u64).unwrap_or(0);
        let cached = count("/tokens/cache/read");
        let input = count("/tokens/input")
            .saturating_add(cached)
            .saturating_add(count("/tokens/cache/write"));
        let reasoning = count("/tokens/reasoning");
        let output = count("/tokens/output").saturating_add(reasoning);
        let Some(root) = self.root_of(session).cloned() else {
            return;
        };
        let Some(turn) = self
            .conversation_mut(&root)
            .and_then(|known| known.turn.as_mut())
        else {
            return;
        };
        let sum = &mut turn.usage;
        sum.input = sum.input.saturating_add(input);
        sum.cached_input = sum.cached_input.saturating_add(cached);
        sum.output = sum.output.saturating_add(output);
        sum.reasoning = sum.reasoning.saturating_add(reasoning);
        sum.cost_nano_usd = match (sum.cost_nano_usd, part.get("cost").and_then(nano_usd)) {
            (known, None) => known,
            (known, Some(more)) => Some(known.unwrap_or(0).saturating_add(more)),
        };
        let usage = *sum;
        if let Some(place) = self.place(&root) {
            tell(place, ProviderEventKind::Usage { usage }, out);
        }
    }

    /// Where a message of a person stands: in the turn that goes on, or in the one that it begins.
    pub(super) fn place_of_message(
        &mut self,
        session: &NativeId,
        message: &NativeId,
        out: &mut Vec<Told>,
    ) -> Option<NativePlace> {
        let known = self.conversation(session)?;
        if known.turn.is_none() {
            if known.last.as_ref() == Some(message) {
                return self.place(session);
            }
            self.begin(session, message.clone(), out);
        }
        self.place(session)
    }
}

/// Our id of a message, if it is ours.
pub(super) fn client_id(message: &NativeId) -> Option<String> {
    outgoing::client_id(message)
}

/// How a turn ended. What a person refused without words, or stopped, is no success.
fn ending(turn: Turn) -> (TurnStatus, Option<RunError>) {
    if turn.aborted || turn.refused || turn.retrying {
        return (TurnStatus::Interrupted, None);
    }
    match turn.error {
        Some(error) => (TurnStatus::Failed, Some(error)),
        None if turn.stopping || turn.open_message.is_some() => (TurnStatus::Interrupted, None),
        None => (TurnStatus::Completed, None),
    }
}

enum Failure {
    Aborted,
    Error(RunError),
}

/// Reads an error of a message or a conversation.
fn failure(error: &Value) -> Failure {
    let name = text_or_empty(error, "name");
    let data = error.get("data").unwrap_or(&Value::Null);
    let message = text_of(data, "message").unwrap_or_else(|| name.clone());
    // Where opencode itself failed, its stack follows.
    let message = message.split("\n    at ").next().unwrap_or_default();
    let status = data.get("statusCode").and_then(Value::as_u64);
    let code = match (name.as_str(), status) {
        ("MessageAbortedError", _) => return Failure::Aborted,
        ("ProviderAuthError", _) | (_, Some(401 | 403)) => ErrorCode::SignIn,
        ("ContextOverflowError", _) => ErrorCode::ContextFull,
        ("MessageOutputLengthError", _) | (_, Some(402 | 429)) => ErrorCode::Limit,
        ("APIError", _) => ErrorCode::ModelService,
        _ => ErrorCode::Agent,
    };
    Failure::Error(RunError {
        code,
        message: cut(message, WORDS),
    })
}

/// What kind of failure opencode tries again for: it tells only the service's words.
fn code_of_words(words: &str) -> ErrorCode {
    let words = words.to_ascii_lowercase();
    let has = |some: &[&str]| some.iter().any(|one| words.contains(one));
    if has(&["unauthorized", "api key", "authentication", "401", "403"]) {
        ErrorCode::SignIn
    } else if has(&[
        "rate limit",
        "too many requests",
        "quota",
        "429",
        "usage limit",
    ]) {
        ErrorCode::Limit
    } else {
        ErrorCode::ModelService
    }
}
