//! `session/update` and other notifications: each known kind becomes events, or stands in [`PASSED_OVER`] with its reason;
//! any other is shown as it is.

use super::{
    codec::{Codec, Received},
    content::{self, id_of},
    conversation::{COLLECTED, Speaking},
    extras::{collect, compaction, named, notice, plan_update, subagent, todo_list, todos},
    told::says_anew,
    tools::{Piece, Stage, Tool},
};
use crate::rpc::{
    commands::slash_commands,
    event,
    frames::{RAW_LIMIT, cut, text_of},
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    run::{ErrorCode, RunError},
};
use serde_json::Value;

/// Bytes of the agent's last words that are looked at when its turn ends.
const LAST_WORDS: usize = 400;
/// Bytes of words between two turns up to which they are told whole with each piece; longer ones when they have grown by a
/// quarter, and when they end.
const TOLD_WHOLE: usize = 4 * 1024;

/// What a notification or request becomes that no timeline needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// A line in the host's log.
    Diagnostic,
    /// Nothing.
    Nothing,
}

/// Updates, notifications and requests that are passed over, each with the reason. Requests are refused all the same.
pub const PASSED_OVER: &[(&str, Passed, &str)] = &[
    (
        "session/update session_info_update",
        Passed::Nothing,
        "the agent's own title and state of the conversation",
    ),
    (
        "session/update prompt_suggestions_update",
        Passed::Nothing,
        "proposals for a next message; not asked for",
    ),
    (
        "_auth/status_update",
        Passed::Diagnostic,
        "the state of the agent's sign-in (claude-agent-acp, codex-acp)",
    ),
    (
        "qwen/notify/session/prompt-suggestion",
        Passed::Nothing,
        "a proposal for a next message",
    ),
    (
        "craft/drainMidTurnQueue",
        Passed::Nothing,
        "qwen asks after each batch of tools for messages to put into the turn; steering waits in our queue",
    ),
];

/// How a method or kind of update is passed over, if it is.
pub(super) fn passed_over(name: &str) -> Option<Passed> {
    PASSED_OVER
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, passed, _)| *passed)
}

/// Methods of the protocol that a client may offer and this one does not.
pub(super) fn is_unoffered(method: &str) -> bool {
    method.starts_with("fs/") || method.starts_with("terminal/")
}

/// Reads `session/update`.
pub(super) fn read(codec: &mut Codec, params: &Value, out: &mut Vec<Received>) {
    let update = params.get("update").unwrap_or(&Value::Null);
    let kind = text_of(update, "sessionUpdate");
    let (Some(session), Some(kind)) = (codec.session_of(params), kind) else {
        let raw = cut(&params.to_string(), RAW_LIMIT);
        codec.unknown(
            params,
            "session/update that names no kind".to_owned(),
            raw,
            out,
        );
        return;
    };
    if settings(codec, &session, &kind, update, out) {
        return;
    }
    if codec.conversation(&session).loading {
        // Its history: it was told when it happened.
        return;
    }
    if understood(codec, &session, &kind, update, out).is_some() {
        return;
    }
    let label = cut(&format!("session/update {kind}"), 120);
    match passed_over(&label) {
        Some(_) => {}
        None => {
            let raw = cut(&update.to_string(), RAW_LIMIT);
            let place = codec.place(&session);
            event(out, place, ProviderEventKind::Unknown { label, raw });
        }
    }
}

/// Notifications that are no update.
pub(super) fn other(codec: &mut Codec, method: &str, params: &Value, out: &mut Vec<Received>) {
    let mode = || text_of(params, "currentModeId");
    if method == "qwen/notify/session/mode-update"
        && let (Some(session), Some(mode)) = (codec.session_of(params), mode())
    {
        mode_changed(codec, &session, &mode, out);
        return;
    }
    let raw = cut(&params.to_string(), RAW_LIMIT);
    match passed_over(method) {
        Some(Passed::Nothing) => {}
        Some(Passed::Diagnostic) => {
            let message = format!("{method}: {}", cut(&raw, 512));
            let place = codec
                .session_of(params)
                .map(|session| codec.place(&session))
                .unwrap_or_default();
            event(out, place, ProviderEventKind::Diagnostic { message });
        }
        None => codec.unknown(params, cut(method, 120), raw, out),
    }
}

/// Updates of what a conversation is set to; they hold while it is being loaded, too.
fn settings(
    codec: &mut Codec,
    session: &NativeId,
    kind: &str,
    update: &Value,
    out: &mut Vec<Received>,
) -> bool {
    match kind {
        "current_mode_update" => {
            let Some(mode) = text_of(update, "currentModeId") else {
                return false;
            };
            mode_changed(codec, session, &mode, out);
        }
        "available_commands_update" => {
            let Some(listed) = update.get("availableCommands").and_then(Value::as_array) else {
                return false;
            };
            let commands = slash_commands(listed);
            let kind = ProviderEventKind::CommandsOffered { commands };
            event(out, codec.place(session), kind);
        }
        "config_option_update" => {
            let mut told = false;
            codec.set(session, |settings| told = settings.learn_options(update));
            return told;
        }
        "usage_update" => {
            let size = update.get("size").and_then(Value::as_u64);
            let known = codec.conversation(session);
            known.usage.window = size.filter(|size| *size > 0);
            // Agents without ids of messages count tokens when an answer of the model is whole: other words are other ones.
            let unnamed = |speaking: &Speaking| speaking.said_as.1.is_none();
            if known.speaking.as_ref().is_some_and(unnamed) {
                codec.hush(session, out);
            }
        }
        _ => return false,
    }
    true
}

fn mode_changed(codec: &mut Codec, session: &NativeId, mode: &str, out: &mut Vec<Received>) {
    codec.set(session, |settings| settings.mode_is(mode));
    let message = format!("the agent's mode is now `{}`", cut(mode, 200));
    let place = codec.place(session);
    event(out, place, ProviderEventKind::Diagnostic { message });
}

/// `None` if the update is not known, or lacks what makes it one of its kind.
fn understood(
    codec: &mut Codec,
    session: &NativeId,
    kind: &str,
    update: &Value,
    out: &mut Vec<Received>,
) -> Option<()> {
    match kind {
        "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" => {
            if let Some(told) = update.get("_meta").and_then(|meta| meta.get("usage")) {
                codec.conversation(session).usage.add(told);
            }
            let text = content::texts(update.get("content")?);
            if !is_said_mode(codec, session, kind, &text) {
                let message = id_of(update, "messageId");
                speak(codec, session, kind, message, &text, out);
            }
        }
        "tool_call" | "tool_call_update" => {
            let call = id_of(update, "toolCallId")?;
            tool(codec, session, call, update, kind == "tool_call", out);
        }
        "plan" => {
            let entries = todos(update.get("entries")?);
            todo_list(codec, session, NativeId(String::new()), Some(entries), out);
        }
        "plan_update" => plan_update(codec, session, update.get("plan")?, out)?,
        "plan_removed" => {
            let id = id_of(update, "planId")?;
            todo_list(codec, session, id, None, out);
        }
        "notice" => notice(codec, session, update, out)?,
        "compaction_update" => compaction(codec, session, update, out)?,
        "compaction_summary_chunk" => {
            let id = NativeId(format!("compaction {}", id_of(update, "compactionId")?));
            let more = content::texts(update.get("content")?);
            named(codec, session, &id, |text| collect(text, &more));
        }
        "subagent_update" => subagent(codec, session, update, out)?,
        "session_message" | "session_message_chunk" => {
            let words = content::texts(update.get("content")?);
            let label = "message between agents".to_owned();
            let raw = cut(&words, RAW_LIMIT);
            let place = codec.place(session);
            event(out, place, ProviderEventKind::Unknown { label, raw });
        }
        _ => return None,
    }
    Some(())
}

/// gemini says a change of its mode as if it were its answer.
fn is_said_mode(codec: &mut Codec, session: &NativeId, kind: &str, text: &str) -> bool {
    if !codec.quirks.says_mode || kind != "agent_message_chunk" {
        return false;
    }
    let Some(mode) = text.strip_prefix("[MODE_UPDATE] ") else {
        return false;
    };
    codec.set(session, |settings| settings.mode_is(mode));
    true
}

/// Words are given on piece by piece while a turn goes on. A message ends where other words or a tool begin.
fn speak(
    codec: &mut Codec,
    session: &NativeId,
    kind: &str,
    message: Option<NativeId>,
    text: &str,
    out: &mut Vec<Received>,
) {
    if text.is_empty() {
        return;
    }
    let said_as = (kind.to_owned(), message);
    let place = codec.place(session);
    let known = codec.conversation(session);
    let in_turn = known.turn.is_some() || place.root.is_some();
    let goes_on = known.speaking.as_ref().is_some_and(|speaking| {
        // What is collected goes on in another item where one would be too long.
        let collected = speaking.collected().len();
        speaking.said_as == said_as && (collected == 0 || collected + text.len() <= COLLECTED)
    });
    if !goes_on {
        codec.hush(session, out);
        let item = NativeId(codec.mint("text"));
        let empty = Body::default();
        let content = match kind {
            "agent_message_chunk" => ItemContent::AssistantMessage { text: empty },
            "agent_thought_chunk" => ItemContent::Reasoning { text: empty },
            _ => ItemContent::UserMessage {
                message: None,
                text: empty,
                attachments: Vec::new(),
            },
        };
        codec.conversation(session).speaking = Some(Speaking {
            item,
            said_as,
            content,
            closed_at: None,
        });
    }
    let known = codec.conversation(session);
    if kind == "agent_message_chunk" {
        if !goes_on {
            known.last_words.clear();
        }
        let room = LAST_WORDS.saturating_sub(known.last_words.len());
        known.last_words.push_str(&cut(text, room));
    }
    let Some(speaking) = &mut known.speaking else {
        return;
    };
    let item = speaking.item.clone();
    match &mut speaking.content {
        // A person's words become an item when they are whole.
        ItemContent::UserMessage {
            text: Body::Inline(words),
            ..
        } => collect(words, text),
        // Between two turns nothing says when words end.
        ItemContent::AssistantMessage {
            text: Body::Inline(words),
        }
        | ItemContent::Reasoning {
            text: Body::Inline(words),
        } if !in_turn => {
            collect(words, text);
            let length = words.len();
            let grown = |before: usize| length <= TOLD_WHOLE || length - before >= before / 4;
            if speaking.closed_at.is_some_and(|before| !grown(before)) {
                return;
            }
            speaking.closed_at = Some(length);
            let kind = ProviderEventKind::ItemClosed {
                item,
                status: ItemStatus::Completed,
                content: speaking.content.clone(),
                client_id: None,
            };
            event(out, place, kind);
        }
        shape => {
            let kind = ProviderEventKind::ItemAppended {
                item,
                text: text.to_owned(),
                shape: Box::new(shape.clone()),
            };
            event(out, place, kind);
        }
    }
}

/// Whether what is told of a tool is told of another one than the known one of that id.
fn is_another(known: &Tool, turn: Option<&NativeId>, announces: bool, told: &Value) -> bool {
    let of_this_turn = known.turn.as_ref() == turn;
    if announces {
        return known.stage != Stage::Open || !of_this_turn;
    }
    // The end of one that was never announced, as some agents tell it; a late piece of what was left is its own.
    !of_this_turn && known.stage == Stage::Ended && says_anew(told)
}

fn tool(
    codec: &mut Codec,
    session: &NativeId,
    call: NativeId,
    told: &Value,
    announces: bool,
    out: &mut Vec<Received>,
) {
    let place = codec.place(session);
    let known = codec.conversation(session).tool(&call);
    if known.is_none_or(|known| is_another(known, place.turn.as_ref(), announces, told)) {
        let item = NativeId(codec.mint("tool"));
        let tool = Tool::new(item, place.turn.clone());
        put_tool(codec, session, call.clone(), tool, out);
    }
    if announces {
        codec.hush(session, out);
    }
    let altered = codec.conversation(session).alter(&call, |tool| {
        let pieces = tool.piece(told, announces && !tool.opened);
        let opened = std::mem::replace(&mut tool.opened, true);
        // Only output needs it, and it may be long.
        let needs_shape = pieces.iter().any(|piece| matches!(piece, Piece::Output(_)));
        let shape = needs_shape.then(|| tool.unfinished());
        (pieces, opened, shape, tool.item.clone(), tool.turn.clone())
    });
    let Some((pieces, mut opened, shape, item, turn)) = altered else {
        return;
    };
    let mut place = place;
    // A late piece belongs where its tool began.
    if place.root.is_none() && turn.is_some() {
        place.turn = turn;
    }
    for piece in pieces {
        let (place, item) = (place.clone(), item.clone());
        match piece {
            Piece::Content(content) if opened => {
                codec.item_changed(session, &item, &content, place, out);
            }
            Piece::Content(content) => {
                let kind = ProviderEventKind::ItemOpened {
                    item,
                    content,
                    client_id: None,
                };
                event(out, place, kind);
            }
            Piece::Output(text) => {
                let Some(shape) = shape.clone() else { continue };
                let shape = Box::new(shape);
                event(
                    out,
                    place,
                    ProviderEventKind::ItemAppended { item, text, shape },
                );
            }
            Piece::End(status, content) => {
                let kind = ProviderEventKind::ItemClosed {
                    item: item.clone(),
                    status,
                    content: content.clone(),
                    client_id: None,
                };
                event(out, place, kind);
                codec.ask_anew(session, &item, &content, out);
            }
            Piece::Failure(message) => {
                let error = RunError {
                    code: ErrorCode::Agent,
                    message: cut(&message, RAW_LIMIT),
                };
                let kind = ProviderEventKind::Error {
                    error,
                    will_retry: false,
                };
                event(out, place, kind);
            }
        }
        opened = true;
    }
}

/// Remembers a tool; what is given up for it is closed.
pub(super) fn put_tool(
    codec: &mut Codec,
    session: &NativeId,
    call: NativeId,
    tool: Tool,
    out: &mut Vec<Received>,
) {
    for gone in codec.conversation(session).put_tool(call, tool) {
        codec.gave_up(session, &gone, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_passed_over_has_a_reason_and_stands_once() {
        for (at, (name, _, reason)) in PASSED_OVER.iter().enumerate() {
            assert!(!reason.is_empty());
            assert!(PASSED_OVER[..at].iter().all(|(before, ..)| before != name));
        }
    }
}
