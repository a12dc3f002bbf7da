//! The beginnings and ends of turns: receipts of messages, and results.

use super::{
    codec::{Codec, Received},
    content,
    outgoing::Call,
    replies::{self, CallError, Reply},
};
use crate::rpc::{
    cost::nano_usd,
    event,
    frames::{cut, list, text_of},
    turn_end,
};
use pilothouse_domain::{
    ItemStatus, NativeId, ProviderEventKind,
    provider::TurnStatus,
    provider_event::Resolution,
    run::{ErrorCode, RunError, Usage},
};
use serde_json::Value;
use std::collections::VecDeque;

/// Messages that are remembered.
const SENT: usize = 256;
/// Bytes of the agent's words in an error.
const WORDS: usize = 2048;

/// Messages that were sent.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent {
    /// Those with an id: the id, the client id, and how many pictures went with it.
    named: VecDeque<(NativeId, String, usize)>,
    /// Those without one that have begun no turn yet: the turn's id, which is ours, and the client id.
    unnamed: VecDeque<(NativeId, String)>,
}

impl Sent {
    pub(super) fn named(&mut self, id: NativeId, client_id: String, content: &[Value]) {
        let pictures = content::pictures(content).count();
        self.named.push_back((id, client_id, pictures));
        if self.named.len() > SENT {
            self.named.pop_front();
        }
    }

    pub(super) fn unnamed(&mut self, turn: NativeId, client_id: String) {
        self.unnamed.push_back((turn, client_id));
        if self.unnamed.len() > SENT {
            self.unnamed.pop_front();
        }
    }

    /// Whether a message without an id has begun no turn yet.
    pub(super) fn waits_unnamed(&self) -> bool {
        !self.unnamed.is_empty()
    }

    /// The client id of a message.
    pub(super) fn client_id(&self, id: &str) -> Option<String> {
        self.find(id).map(|(_, client_id, _)| client_id.clone())
    }

    /// How many pictures went with a message.
    pub(super) fn pictures(&self, id: &str) -> usize {
        self.find(id).map_or(0, |(_, _, pictures)| *pictures)
    }

    fn find(&self, id: &str) -> Option<&(NativeId, String, usize)> {
        self.named.iter().find(|(known, ..)| known.as_str() == id)
    }
}

/// Why the agent could not speak with its model, as it said in a message of its own making.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) words: String,
    pub(super) status: Option<u64>,
}

impl Codec {
    /// The turn that goes on; one that nobody asked for begins where the agent works all the same.
    pub(super) fn ensure_turn(&mut self, out: &mut Vec<Received>) {
        if self.turn.is_some() || !self.beginning {
            return;
        }
        match self.sent.unnamed.pop_front() {
            Some((turn, _)) => {
                let call = self.take_call(turn.as_str());
                self.begin(turn, call, out);
            }
            None => {
                let turn = NativeId(self.mint("turn"));
                self.begin(turn, None, out);
            }
        }
    }

    fn begin(&mut self, turn: NativeId, call: Option<(u64, Call)>, out: &mut Vec<Received>) {
        self.turn = Some(turn.clone());
        self.beginning = false;
        self.stopping = false;
        self.failure = None;
        event(out, self.place(None), ProviderEventKind::TurnStarted);
        if let Some((call, _)) = call {
            let reply = Ok(Reply::Turn { turn });
            out.push(Received::Reply { call, reply });
        }
    }

    /// Reads `command_lifecycle`: what becomes of a message.
    pub(super) fn lifecycle(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let (Some(id), Some(state)) = (text_of(frame, "command_uuid"), text_of(frame, "state"))
        else {
            return self.unknown("command_lifecycle", frame, out);
        };
        match state.as_str() {
            // It would be put into the turn that goes on.
            "queued" if self.is_busy() && self.turn.as_ref().map(NativeId::as_str) != Some(&id) => {
                // Its sender waits on: whether it was taken back in time is not known yet.
                if self.is_waiting(&id) {
                    let (_, line) = self.call(Call::CancelMessage {
                        message: NativeId(id),
                    });
                    out.push(Received::Send(line));
                }
            }
            "started" => {
                let call = self.take_call(&id);
                let ours = call.is_some() || self.sent.client_id(&id).is_some();
                match (self.turn.clone(), call) {
                    (None, call) if ours => self.begin(NativeId(id), call, out),
                    // One of the agent's own: it begins a turn when it works.
                    (None, _) => self.beginning = true,
                    (Some(turn), Some((call, _))) => {
                        let reply = Ok(Reply::Steered { turn });
                        out.push(Received::Reply { call, reply });
                    }
                    (Some(_), None) => {}
                }
            }
            "cancelled" => self.taken_back(&NativeId(id), out),
            "discarded" | "refused" => {
                if let Some((call, _)) = self.take_call(&id) {
                    let reply = Err(replies::refused(&format!("the message was {state}")));
                    out.push(Received::Reply { call, reply });
                }
            }
            "queued" | "completed" => {}
            _ => self.unknown("command_lifecycle", frame, out),
        }
    }

    /// A message that waited does not wait any more, and nobody will read it.
    pub(super) fn taken_back(&mut self, message: &NativeId, out: &mut Vec<Received>) {
        if let Some((call, _)) = self.take_call(message.as_str()) {
            let reply = Err(CallError::Busy);
            out.push(Received::Reply { call, reply });
        }
    }

    /// Reads `result`: the turn is over, with all that it left open.
    pub(super) fn result(&mut self, frame: &Value, out: &mut Vec<Received>) {
        self.beginning |= self.turn.is_none() && !self.sent.unnamed.is_empty();
        self.ensure_turn(out);
        let (status, error) = self.ending(frame);
        if self.turn.is_none() {
            self.nothing_ran(error, out);
            self.beginning = false;
            return;
        }
        let left_as = match status {
            TurnStatus::Interrupted => ItemStatus::Interrupted,
            TurnStatus::Completed | TurnStatus::Failed => ItemStatus::Unfinished,
        };
        let place = self.place(None);
        let mut open = self.main.hush();
        open.extend(self.main.leave_open());
        for (item, content) in open {
            let kind = ProviderEventKind::ItemClosed {
                item,
                status: left_as,
                content,
                client_id: None,
            };
            event(out, place.clone(), kind);
        }
        let total = frame.get("total_cost_usd").and_then(nano_usd);
        let cost = total.map(|total| total.saturating_sub(self.cost));
        self.cost = total.unwrap_or(self.cost);
        if let Some(usage) = usage(frame, cost) {
            event(out, place.clone(), ProviderEventKind::Usage { usage });
        }
        self.last = self.turn.take();
        self.beginning = false;
        self.stopping = false;
        self.failure = None;
        if let (Some(session), Some(turn)) = (self.session().cloned(), self.last.clone()) {
            // What a subagent asks belongs to no turn, and waits on.
            for (request, pending) in self.requests.take_of(&session, &turn) {
                let resolution = if pending.answered {
                    Resolution::Answered
                } else {
                    Resolution::Withdrawn
                };
                let kind = ProviderEventKind::RequestClosed {
                    request,
                    resolution,
                };
                event(out, pending.place, kind);
            }
        }
        for kind in turn_end(status, error) {
            event(out, place.clone(), kind);
        }
    }

    /// A result without a turn: the agent could not even begin.
    fn nothing_ran(&mut self, error: Option<RunError>, out: &mut Vec<Received>) {
        let Some(error) = error else {
            return self.diagnostic("a result of no turn".to_owned(), out);
        };
        let missing = error.message.starts_with("No conversation found");
        let failure = if missing {
            CallError::NoConversation {
                message: error.message.clone(),
            }
        } else {
            replies::refused(&error.message)
        };
        // Otherwise it says nothing of a message that is on its way.
        if missing || self.is_greeting() {
            self.fail_calls(&failure, out);
        }
        if !missing {
            let kind = ProviderEventKind::Error {
                error,
                will_retry: false,
            };
            event(out, self.place(None), kind);
        }
    }

    /// How a turn ended. An API failure is a success with an error flag; an end that this version does not know is none.
    fn ending(&self, frame: &Value) -> (TurnStatus, Option<RunError>) {
        let reason = text_of(frame, "terminal_reason").unwrap_or_default();
        if matches!(reason.as_str(), "aborted_streaming" | "aborted_tools") {
            return (TurnStatus::Interrupted, None);
        }
        let subtype = text_of(frame, "subtype").unwrap_or_default();
        let failed = frame.get("is_error") != Some(&Value::Bool(false)) || subtype != "success";
        if !failed {
            return (TurnStatus::Completed, None);
        }
        let said = text_of(frame, "result").filter(|words| !words.is_empty());
        let errors = list(frame, "errors").iter().filter_map(Value::as_str);
        let errors = errors.collect::<Vec<_>>().join("; ");
        let words = said
            .or_else(|| self.failure.as_ref().map(|failure| failure.words.clone()))
            .or_else(|| Some(errors).filter(|errors| !errors.is_empty()))
            .unwrap_or_else(|| format!("the turn ended as `{subtype}` ({reason})"));
        let status = frame
            .get("api_error_status")
            .and_then(Value::as_u64)
            .or_else(|| self.failure.as_ref().and_then(|failure| failure.status));
        let code = match (reason.as_str(), subtype.as_str(), status) {
            ("prompt_too_long", ..) => ErrorCode::ContextFull,
            (_, "error_max_turns" | "error_max_budget_usd", _)
            | ("max_turns" | "budget_exhausted", ..) => ErrorCode::Limit,
            ("api_error" | "model_error", _, status) => code_of(status),
            (_, _, status @ Some(_)) => code_of(status),
            _ => ErrorCode::Agent,
        };
        let error = RunError {
            code,
            message: cut(&words, WORDS),
        };
        (TurnStatus::Failed, Some(error))
    }
}

/// What an HTTP status of the model's service says; none is a connection that broke.
pub(super) fn code_of(status: Option<u64>) -> ErrorCode {
    match status {
        Some(401 | 403) => ErrorCode::SignIn,
        Some(429) => ErrorCode::Limit,
        Some(400..=499) => ErrorCode::Agent,
        _ => ErrorCode::ModelService,
    }
}

/// The tokens of the turn. The agent counts what was read fresh, what came from its cache and what went into it apart.
fn usage(frame: &Value, cost: Option<u64>) -> Option<Usage> {
    let told = frame.get("usage").filter(|usage| usage.is_object())?;
    let count = |key: &str| told.get(key).and_then(Value::as_u64).unwrap_or(0);
    let cached = count("cache_read_input_tokens");
    let window = frame
        .get("modelUsage")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|models| models.values())
        .filter_map(|model| model.get("contextWindow").and_then(Value::as_u64))
        .max();
    let usage = Usage {
        input: count("input_tokens")
            .saturating_add(count("cache_creation_input_tokens"))
            .saturating_add(cached),
        cached_input: cached,
        output: count("output_tokens"),
        reasoning: told
            .get("output_tokens_details")
            .and_then(|details| details.get("thinking_tokens"))
            .and_then(Value::as_u64)
            .unwrap_or(0),
        context_window: window.filter(|window| *window > 0),
        cost_nano_usd: cost.filter(|cost| *cost > 0),
    };
    (usage.input > 0 || usage.output > 0).then_some(usage)
}
