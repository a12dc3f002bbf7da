//! Messages: a person's as they are heard, the model's as they are spoken.

use super::{
    codec::{Codec, Received},
    turns::Stop,
};
use crate::{
    acp::content,
    rpc::{
        bounded::Bounded,
        budget,
        cost::nano_usd,
        event,
        frames::{RAW_LIMIT, cut, list, text_of, text_or_empty},
    },
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    run::{ErrorCode, RunError, Usage},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Times of messages that are remembered, to tell two of one millisecond apart.
pub(super) const TIMES: usize = 512;
/// Parts of one message that are followed.
const PARTS: usize = 1024;

/// A message that was handed over and not heard of yet.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) client_id: String,
    pub(super) text: String,
    /// Whether a turn begins with it.
    pub(super) begins_turn: bool,
    /// How many pictures go with it.
    pub(super) pictures: usize,
}

impl Sent {
    pub(super) fn new(client_id: &str, text: &str, begins_turn: bool) -> Self {
        Self {
            client_id: client_id.to_owned(),
            text: text.to_owned(),
            begins_turn,
            pictures: 0,
        }
    }
}

/// What a part of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Words,
    Thought,
}

impl Part {
    pub(super) fn item(self, text: String) -> ItemContent {
        let text = Body::inline(text);
        match self {
            Self::Words => ItemContent::AssistantMessage { text },
            Self::Thought => ItemContent::Reasoning { text },
        }
    }
}

/// A message of the model that is being spoken.
#[derive(Debug, Clone)]
pub(super) struct Speaking {
    pub(super) id: NativeId,
    /// Parts that were begun: what each is, and whether it has ended.
    parts: BTreeMap<u64, (Part, bool)>,
}

impl Speaking {
    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        budget::id(Some(&self.id)) + self.parts.len() * 2 * size_of::<(u64, (Part, bool))>()
    }
}

/// The id of a message: whose it is, and its time, with a count if that time was met before.
pub(super) fn id(times: &mut Bounded<u32>, role: char, message: &Value) -> Option<NativeId> {
    let time = message.get("timestamp").filter(|time| time.is_number())?;
    let plain = NativeId(format!("{role}{time}"));
    let met = times.entry(&plain);
    *met = met.saturating_add(1);
    Some(match *met {
        1 => plain,
        count => NativeId(format!("{plain}#{count}")),
    })
}

/// The id of a part of a message.
pub(super) fn part_id(message: &NativeId, at: u64) -> NativeId {
    NativeId(format!("{message}.{at}"))
}

/// The turn that begins with a person's message.
pub(super) fn turn_id(message: &NativeId) -> NativeId {
    NativeId(format!("turn {message}"))
}

/// Whether a turn has the name that its message has in pi's file, too: where something else came first, it has one of ours.
pub(super) fn is_begun_by_message(turn: &NativeId) -> bool {
    turn.0.starts_with("turn u")
}

/// The words and thoughts of a whole message of the model, by their places.
pub(super) fn parts(message: &Value) -> impl Iterator<Item = (u64, Part, String)> {
    list(message, "content")
        .iter()
        .zip(0u64..)
        .filter_map(
            |(part, at)| match part.get("type").and_then(Value::as_str) {
                Some("text") => Some((at, Part::Words, text_or_empty(part, "text"))),
                Some("thinking") => Some((at, Part::Thought, text_or_empty(part, "thinking"))),
                _ => None,
            },
        )
}

/// The ends of the parts of a whole message, each with its place and status: all ended well but the last, which ended as
/// the message did. Empty parts are none.
pub(super) fn closed(
    message: &NativeId,
    whole: &[(u64, Part, String)],
    status: ItemStatus,
) -> Vec<(ProviderEventKind, (u64, ItemStatus))> {
    let last = whole.last().map(|(at, ..)| *at);
    whole
        .iter()
        .filter(|(.., text)| !text.is_empty())
        .map(|(at, part, text)| {
            let status = if last == Some(*at) {
                status
            } else {
                ItemStatus::Completed
            };
            let kind = ProviderEventKind::ItemClosed {
                item: part_id(message, *at),
                status,
                content: part.item(text.clone()),
                client_id: None,
            };
            (kind, (*at, status))
        })
        .collect()
}

/// A person's words: one text, or a list of blocks.
pub(super) fn said(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(blocks) => content::texts(blocks),
        None => String::new(),
    }
}

/// What a message's tokens come to: pi counts cached ones beside the others.
pub(super) fn tokens(message: &Value) -> Usage {
    let count = |key: &str| {
        message
            .get("usage")
            .and_then(|usage| usage.get(key))
            .and_then(Value::as_u64)
            .unwrap_or(0)
    };
    let cached = count("cacheRead");
    Usage {
        input: count("input")
            .saturating_add(cached)
            .saturating_add(count("cacheWrite")),
        cached_input: cached,
        output: count("output"),
        reasoning: count("reasoning"),
        context_window: None,
        cost_nano_usd: message.pointer("/usage/cost/total").and_then(nano_usd),
    }
}

impl Codec {
    pub(super) fn message_started(&mut self, message: Option<&Value>, out: &mut Vec<Received>) {
        let Some(message) = message else { return };
        match message.get("role").and_then(Value::as_str) {
            Some("user") => self.heard(message, out),
            Some("assistant") => {
                self.ensure_turn(out);
                self.hush(ItemStatus::Unfinished, out);
                let id = match id(&mut self.times, 'a', message) {
                    Some(id) => id,
                    None => self.mint("answer"),
                };
                self.speaking = Some(Speaking {
                    id,
                    parts: BTreeMap::new(),
                });
            }
            // Its end says all of it.
            _ => {}
        }
    }

    /// A person's message reached the model.
    fn heard(&mut self, message: &Value, out: &mut Vec<Received>) {
        let item = match id(&mut self.times, 'u', message) {
            Some(id) => id,
            None => self.mint("message"),
        };
        let text = said(message);
        let begins = self.turn.is_none() && (self.running || self.starting.is_some());
        if begins {
            self.begin_turn(turn_id(&item), out);
        }
        let by_text = self.sent.iter().position(|sent| sent.text == text);
        // pi expands templates and skills: what begins our turn is ours whatever became of its words.
        let at = by_text.or_else(|| self.sent.iter().position(|sent| begins && sent.begins_turn));
        let sent = at.and_then(|at| self.sent.remove(at));
        if let Some(sent) = &sent {
            self.left_out(sent, message, &text, out);
        }
        let kind = ProviderEventKind::ItemClosed {
            item,
            status: ItemStatus::Completed,
            content: ItemContent::UserMessage {
                message: None,
                text: Body::inline(text),
                attachments: Vec::new(),
            },
            client_id: sent.map(|sent| sent.client_id).filter(|id| !id.is_empty()),
        };
        event(out, self.place(), kind);
    }

    /// Words were taken back before the turn heard them, the newest first. If it is being stopped, they are lost and that is
    /// told; otherwise who took them back knows what becomes of them.
    pub(super) fn taken_back(&mut self, count: u32, out: &mut Vec<Received>) {
        if !self.turn.as_ref().is_some_and(|turn| turn.stopping) {
            return;
        }
        for _ in 0..count {
            let at = self.sent.iter().rposition(|sent| !sent.begins_turn);
            let Some(sent) = at.and_then(|at| self.sent.remove(at)) else {
                return;
            };
            let words = cut(&sent.text, RAW_LIMIT);
            let error = RunError {
                code: ErrorCode::Agent,
                message: format!(
                    "pi had not read this yet, and it was taken back with the stop; send it again if it still holds: {words}"
                ),
            };
            let kind = ProviderEventKind::Error {
                error,
                will_retry: false,
            };
            event(out, self.place(), kind);
        }
    }

    /// Says how many pictures of a message its model does not see: the agent puts words in their place and goes on.
    fn left_out(&self, sent: &Sent, message: &Value, said: &str, out: &mut Vec<Received>) {
        let is_picture =
            |block: &&Value| block.get("type").and_then(Value::as_str) == Some("image");
        let shown = list(message, "content").iter().filter(is_picture).count();
        let missing = sent.pictures.saturating_sub(shown);
        if missing == 0 {
            return;
        }
        let words = said.strip_prefix(sent.text.as_str()).unwrap_or_default();
        let error = RunError {
            code: ErrorCode::Agent,
            message: format!(
                "pi left out {missing} of {} pictures: {}",
                sent.pictures,
                cut(words.trim(), RAW_LIMIT)
            ),
        };
        let kind = ProviderEventKind::Error {
            error,
            will_retry: false,
        };
        event(out, self.place(), kind);
    }

    /// A piece of the message that is being spoken.
    pub(super) fn piece(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let Some(piece) = frame.get("assistantMessageEvent") else {
            self.other("message_update without an event", frame, out);
            return;
        };
        let kind = piece.get("type").and_then(Value::as_str).unwrap_or("");
        let (part, ends) = match kind {
            "text_delta" => (Part::Words, false),
            "thinking_delta" => (Part::Thought, false),
            "text_end" => (Part::Words, true),
            "thinking_end" => (Part::Thought, true),
            _ => {
                let name = format!("message_update {}", cut(kind, 100));
                self.other(&name, frame, out);
                return;
            }
        };
        if self.speaking.is_none() {
            self.ensure_turn(out);
            let id = self.mint("answer");
            self.speaking = Some(Speaking {
                id,
                parts: BTreeMap::new(),
            });
        }
        let Some(speaking) = self.speaking.as_mut() else {
            return;
        };
        let at = piece
            .get("contentIndex")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        if speaking.parts.len() >= PARTS && !speaking.parts.contains_key(&at) {
            let raw = cut(&frame.to_string(), RAW_LIMIT);
            self.unknown(format!("part beyond the {PARTS}th of a message"), raw, out);
            return;
        }
        let item = part_id(&speaking.id, at);
        let begun = speaking.parts.entry(at).or_insert((part, false));
        let kind = if ends {
            begun.1 = true;
            ProviderEventKind::ItemClosed {
                item,
                status: ItemStatus::Completed,
                content: part.item(text_or_empty(piece, "content")),
                client_id: None,
            }
        } else {
            let text = text_or_empty(piece, "delta");
            if text.is_empty() {
                return;
            }
            ProviderEventKind::ItemAppended {
                item,
                text,
                shape: Box::new(part.item(String::new())),
            }
        };
        event(out, self.place(), kind);
    }

    pub(super) fn message_ended(&mut self, message: Option<&Value>, out: &mut Vec<Received>) {
        let Some(message) = message.filter(|message| message.is_object()) else {
            return;
        };
        match message.get("role").and_then(Value::as_str) {
            // It was heard at its beginning: its end repeats it.
            Some("user") => {}
            Some("assistant") => self.answer_ended(message, out),
            Some("custom") => {
                let words = said(message);
                if message.get("display") == Some(&Value::Bool(true)) && !words.is_empty() {
                    let label = match text_of(message, "customType") {
                        Some(name) => format!("message of an extension ({})", cut(&name, 80)),
                        None => "message of an extension".to_owned(),
                    };
                    self.unknown(label, cut(&words, RAW_LIMIT), out);
                }
            }
            role => {
                let name = format!("message {}", cut(role.unwrap_or("of nobody"), 80));
                self.other(&name, message, out);
            }
        }
    }

    /// An answer of the model is whole.
    fn answer_ended(&mut self, message: &Value, out: &mut Vec<Received>) {
        self.ensure_turn(out);
        let speaking = match self.speaking.take() {
            Some(speaking) => speaking,
            None => Speaking {
                id: match id(&mut self.times, 'a', message) {
                    Some(id) => id,
                    None => self.mint("answer"),
                },
                parts: BTreeMap::new(),
            },
        };
        let stop = Stop::of(message);
        let status = stop.leaves();
        let place = self.place();
        let mut begun = speaking.parts;
        let whole: Vec<_> = parts(message).collect();
        for (kind, item) in closed(&speaking.id, &whole, status) {
            let at = item.0;
            let known = begun.remove(&at);
            // Its own end said so already, unless it was the one that was cut off.
            if known.is_some_and(|(_, ended)| ended) && item.1 == ItemStatus::Completed {
                continue;
            }
            event(out, place.clone(), kind);
        }
        // What the whole message does not hold any more keeps what was said of it.
        for (at, (part, _)) in begun.into_iter().filter(|(_, (_, ended))| !ended) {
            let kind = ProviderEventKind::ItemClosed {
                item: part_id(&speaking.id, at),
                status: match status {
                    ItemStatus::Completed => ItemStatus::Unfinished,
                    other => other,
                },
                content: part.item(String::new()),
                client_id: None,
            };
            event(out, place.clone(), kind);
        }
        self.tools.announce(&speaking.id, message);
        let told = tokens(message);
        let window = Some(self.state.window).filter(|window| *window > 0);
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        turn.stop = stop;
        if told != Usage::default() {
            let sum = &mut turn.usage;
            sum.input = sum.input.saturating_add(told.input);
            sum.cached_input = sum.cached_input.saturating_add(told.cached_input);
            sum.output = sum.output.saturating_add(told.output);
            sum.reasoning = sum.reasoning.saturating_add(told.reasoning);
            sum.context_window = window;
            sum.cost_nano_usd = match (sum.cost_nano_usd, told.cost_nano_usd) {
                (Some(before), Some(more)) => Some(before.saturating_add(more)),
                (before, more) => before.or(more),
            };
            let usage = turn.usage;
            event(out, place, ProviderEventKind::Usage { usage });
        }
    }

    /// Ends the words that are being spoken without an end of their own.
    pub(super) fn hush(&mut self, status: ItemStatus, out: &mut Vec<Received>) {
        let Some(speaking) = self.speaking.take() else {
            return;
        };
        for (at, (part, ended)) in speaking.parts {
            if ended {
                continue;
            }
            let kind = ProviderEventKind::ItemClosed {
                item: part_id(&speaking.id, at),
                status,
                content: part.item(String::new()),
                client_id: None,
            };
            event(out, self.place(), kind);
        }
    }
}
