//! Turns: how they begin, what they sum up, how they end, and what the agent does between its answers.

use super::codec::{Codec, Received};
use super::outgoing;
use crate::rpc::{
    event,
    frames::{cut, text_of, text_or_empty},
    turn_end,
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    provider::TurnStatus,
    provider_event::Resolution,
    run::{ErrorCode, RunError, Usage},
};
use serde_json::Value;

/// Bytes of an agent's words in an error.
const WORDS: usize = 4 * 1024;

/// A turn that goes on.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) id: NativeId,
    /// The prompt of ours that began it.
    pub(super) prompt: Option<u64>,
    /// It was asked to stop.
    pub(super) stopping: bool,
    /// Why the last answer of the model ended.
    pub(super) stop: Stop,
    pub(super) usage: Usage,
}

/// Why an answer of the model ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Stop {
    /// By itself, or for a tool.
    #[default]
    Well,
    /// At the limit of its length.
    Length,
    /// It was stopped.
    Aborted,
    /// It failed.
    Failed(RunError),
}

impl Stop {
    /// As an assistant message tells.
    pub(super) fn of(message: &Value) -> Self {
        let words = || cut(&text_or_empty(message, "errorMessage"), WORDS);
        match message.get("stopReason").and_then(Value::as_str) {
            Some("length") => Self::Length,
            Some("aborted") => Self::Aborted,
            Some("error") => Self::Failed(failure(&words())),
            _ => Self::Well,
        }
    }

    /// What becomes of the last part of an answer that ended so.
    pub(super) fn leaves(&self) -> ItemStatus {
        match self {
            Self::Well | Self::Length => ItemStatus::Completed,
            Self::Aborted => ItemStatus::Interrupted,
            Self::Failed(_) => ItemStatus::Unfinished,
        }
    }
}

/// An error of the model's service. Its words begin with the status of HTTP where there was one (pi 1.6.0, recordings 06).
pub(super) fn failure(words: &str) -> RunError {
    let status = words.split(|c: char| !c.is_ascii_digit()).next();
    let code = match status.and_then(|digits| digits.parse::<u16>().ok()) {
        Some(401 | 403) => ErrorCode::SignIn,
        Some(429) => ErrorCode::Limit,
        Some(500..=599) => ErrorCode::ModelService,
        _ if words.starts_with("Connection error") => ErrorCode::ModelService,
        _ => ErrorCode::Agent,
    };
    RunError {
        code,
        message: if words.is_empty() {
            "the model failed without a word".to_owned()
        } else {
            words.to_owned()
        },
    }
}

impl Codec {
    /// Begins a turn, if none goes on.
    pub(super) fn begin_turn(&mut self, id: NativeId, out: &mut Vec<Received>) {
        if self.turn.is_some() {
            return;
        }
        self.turn = Some(Turn {
            id: id.clone(),
            prompt: self.starting,
            stopping: false,
            stop: Stop::Well,
            usage: Usage::default(),
        });
        event(out, self.place(), ProviderEventKind::TurnStarted);
        self.begun(&id, out);
    }

    /// Begins a turn for what comes before any message of it. What comes while the agent rests begins none.
    pub(super) fn ensure_turn(&mut self, out: &mut Vec<Received>) {
        if self.turn.is_none() && (self.running || self.starting.is_some()) {
            let id = self.mint("turn");
            self.begin_turn(id, out);
        }
    }

    /// A message was a command of an extension: it is done, without a turn of the agent's unless the command began one.
    pub(super) fn handled(&mut self, out: &mut Vec<Received>) {
        self.ensure_turn(out);
        let at = self.sent.iter().position(|sent| sent.begins_turn);
        if let Some(sent) = at.and_then(|at| self.sent.remove(at)) {
            let item = self.mint("message");
            let kind = ProviderEventKind::ItemClosed {
                item,
                status: ItemStatus::Completed,
                content: ItemContent::UserMessage {
                    message: None,
                    text: Body::inline(sent.text),
                    attachments: Vec::new(),
                },
                client_id: Some(sent.client_id).filter(|id| !id.is_empty()),
            };
            event(out, self.place(), kind);
        }
        if !self.running {
            self.settled(false, out);
        }
    }

    /// A message was refused after nobody waited for that any more: its run is told so as the end of a turn.
    pub(super) fn refused_late(&mut self, words: &str, out: &mut Vec<Received>) {
        self.ensure_turn(out);
        let at = self.sent.iter().position(|sent| sent.begins_turn);
        at.and_then(|at| self.sent.remove(at));
        if let Some(turn) = self.turn.as_mut() {
            let words = cut(words, WORDS);
            turn.stop = Stop::Failed(RunError {
                code: ErrorCode::Agent,
                message: format!("the agent refused the message: {words}"),
            });
        }
        self.settled(false, out);
    }

    /// The agent rests: its turn is over, with all that it left open.
    pub(super) fn settled(&mut self, aborted: bool, out: &mut Vec<Received>) {
        self.running = false;
        if self.starting.is_some() && self.turn.is_none() {
            // It began and ended without a message.
            self.ensure_turn(out);
        }
        self.hush(ItemStatus::Unfinished, out);
        let Some(turn) = self.turn.as_ref() else {
            return;
        };
        let place = self.place();
        let (status, error) = match turn.stop.clone() {
            _ if aborted => (TurnStatus::Interrupted, None),
            Stop::Well => (TurnStatus::Completed, None),
            Stop::Aborted => (TurnStatus::Interrupted, None),
            Stop::Failed(_) if turn.stopping => (TurnStatus::Interrupted, None),
            Stop::Failed(error) => (TurnStatus::Failed, Some(error)),
            Stop::Length => {
                let error = RunError {
                    code: ErrorCode::Limit,
                    message: "the model reached the limit of its answer's length".to_owned(),
                };
                (TurnStatus::Failed, Some(error))
            }
        };
        let left_as = match status {
            TurnStatus::Interrupted => ItemStatus::Interrupted,
            _ => ItemStatus::Unfinished,
        };
        for (item, content) in self.tools.leave_open() {
            let kind = ProviderEventKind::ItemClosed {
                item,
                status: left_as,
                content,
                client_id: None,
            };
            event(out, place.clone(), kind);
        }
        let (home, id) = (self.home.clone(), turn.id.clone());
        self.turn = None;
        self.last = Some(id.clone());
        if let Some(home) = home {
            for (request, pending) in self.requests.take_of(&home, &id) {
                if !pending.answered {
                    let line = outgoing::response_line(&pending.id, outgoing::dismissed());
                    out.push(Received::Send(line));
                }
                let kind = ProviderEventKind::RequestClosed {
                    request,
                    resolution: Resolution::Withdrawn,
                };
                event(out, pending.place, kind);
            }
        }
        for kind in turn_end(status, error) {
            event(out, place.clone(), kind);
        }
    }

    /// The model failed and is asked again.
    pub(super) fn retries(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let error = failure(&cut(&text_or_empty(frame, "errorMessage"), WORDS));
        let kind = ProviderEventKind::Error {
            error,
            will_retry: true,
        };
        event(out, self.place(), kind);
    }

    /// Asking again is over: what came of it holds for the turn.
    pub(super) fn retried(&mut self, frame: &Value) {
        if frame.get("success") == Some(&Value::Bool(false))
            && let Some(words) = text_of(frame, "finalError")
            && let Some(turn) = self.turn.as_mut()
            && !matches!(turn.stop, Stop::Aborted)
        {
            turn.stop = Stop::Failed(failure(&cut(&words, WORDS)));
        }
    }

    /// The context is being shortened. What was asked for by us has its answer, and is no item.
    pub(super) fn compaction_began(&mut self, frame: &Value, out: &mut Vec<Received>) {
        if self.is_asked_to_compact(frame) {
            return;
        }
        let item = self.mint("compaction");
        self.compacting = Some(item.clone());
        let kind = ProviderEventKind::ItemOpened {
            item,
            content: ItemContent::Compaction {
                text: Body::default(),
            },
            client_id: None,
        };
        event(out, self.place(), kind);
    }

    pub(super) fn compaction_ended(&mut self, frame: &Value, out: &mut Vec<Received>) {
        if self.is_asked_to_compact(frame) && self.compacting.is_none() {
            return;
        }
        let item = match self.compacting.take() {
            Some(item) => item,
            None => self.mint("compaction"),
        };
        let result = frame.get("result").filter(|result| !result.is_null());
        let (status, text) = match result {
            Some(result) => (ItemStatus::Completed, text_or_empty(result, "summary")),
            None if frame.get("aborted") == Some(&Value::Bool(true)) => {
                (ItemStatus::Interrupted, String::new())
            }
            None => (ItemStatus::Failed, text_or_empty(frame, "errorMessage")),
        };
        let kind = ProviderEventKind::ItemClosed {
            item,
            status,
            content: ItemContent::Compaction {
                text: Body::inline(text),
            },
            client_id: None,
        };
        event(out, self.place(), kind);
    }

    fn is_asked_to_compact(&self, frame: &Value) -> bool {
        frame.get("reason").and_then(Value::as_str) == Some("manual") && self.waits_for_compact()
    }
}
