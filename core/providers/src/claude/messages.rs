//! Messages: what the model says, piece by piece and whole, and what comes back to it.

use super::{
    codec::{Codec, Received},
    content, tasks,
    tools::{self, Tool},
    turns::Failure,
};
use crate::rpc::{
    event,
    frames::{RAW_LIMIT, cut, text_of, text_or_empty},
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    provider_event::Resolution,
    run::{ErrorCode, RunError},
};
use serde_json::Value;

/// Bytes of an id of a message or a tool.
const ID: usize = 512;
/// Bytes of the summary of a compaction.
const SUMMARY: usize = 256 * 1024;

/// Reads `stream_event`: a piece of what the model says. It comes for the main conversation only.
pub(super) fn streamed(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) {
    let piece = frame.get("event").unwrap_or(&Value::Null);
    let child = codec.child_of(frame);
    match piece.get("type").and_then(Value::as_str) {
        Some("message_start") => {
            if child.is_none() {
                codec.ensure_turn(out);
            }
            let id = piece
                .get("message")
                .and_then(|message| text_of(message, "id"))
                .unwrap_or_default();
            let id = cut(&id, ID);
            let given_up = codec.conversation(child.as_ref()).message_begins(id);
            let place = codec.place(child.as_ref());
            for (item, content) in given_up {
                let kind = ProviderEventKind::ItemClosed {
                    item,
                    status: ItemStatus::Unfinished,
                    content,
                    client_id: None,
                };
                event(out, place.clone(), kind);
            }
        }
        Some("content_block_delta") => {
            if !delta(codec, child.as_ref(), piece, out) {
                codec.unknown("stream_event content_block_delta", frame, out);
            }
        }
        // What they say comes again with the block or the turn.
        Some(
            "content_block_start"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
            | "ping",
        ) => {}
        Some("error") => {
            let words = text_of(piece.get("error").unwrap_or(piece), "message");
            let error = RunError {
                code: ErrorCode::ModelService,
                message: cut(&words.unwrap_or_else(|| piece.to_string()), RAW_LIMIT),
            };
            let place = codec.place(child.as_ref());
            let kind = ProviderEventKind::Error {
                error,
                will_retry: true,
            };
            event(out, place, kind);
        }
        Some(other) => codec.other(&format!("stream_event {}", cut(other, 80)), frame, out),
        None => codec.unknown("stream_event without a type", frame, out),
    }
}

/// Whether the piece was of a kind that is known.
fn delta(
    codec: &mut Codec,
    child: Option<&NativeId>,
    piece: &Value,
    out: &mut Vec<Received>,
) -> bool {
    let Some(index) = piece.get("index").and_then(Value::as_u64) else {
        return false;
    };
    let delta = piece.get("delta").unwrap_or(&Value::Null);
    let (text, shape): (&Value, fn() -> ItemContent) =
        match delta.get("type").and_then(Value::as_str) {
            Some("text_delta") => (&delta["text"], || ItemContent::AssistantMessage {
                text: Body::default(),
            }),
            Some("thinking_delta") => (&delta["thinking"], || ItemContent::Reasoning {
                text: Body::default(),
            }),
            // The input of a tool comes whole with its block; signatures are for the model's service, and citations stand in
            // the text.
            Some("input_json_delta" | "signature_delta" | "citations_delta") => return true,
            _ => return false,
        };
    let Some(text) = text.as_str() else {
        return false;
    };
    if text.is_empty() {
        return true;
    }
    let Some((item, shape)) = codec.conversation(child).speak(index, shape) else {
        // Pieces of a message whose beginning was not heard: the block comes whole.
        return true;
    };
    let kind = ProviderEventKind::ItemAppended {
        item,
        text: text.to_owned(),
        shape: Box::new(shape),
    };
    event(out, codec.place(child), kind);
    true
}

/// Reads `assistant`: blocks of a message, whole.
pub(super) fn assistant(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) {
    let message = frame.get("message").unwrap_or(&Value::Null);
    let child = codec.child_of(frame);
    if child.is_none() {
        codec.ensure_turn(out);
    }
    if frame.get("is_api_error_message") == Some(&Value::Bool(true)) {
        // The result says it again, and fails the turn.
        let words = content::texts(message.get("content").unwrap_or(&Value::Null));
        codec.failure = Some(Failure {
            words: cut(&words, RAW_LIMIT),
            status: frame.get("api_error_status").and_then(Value::as_u64),
        });
        return;
    }
    let id = text_of(message, "id").map(|id| cut(&id, ID));
    let blocks = message.get("content").and_then(Value::as_array);
    let (Some(id), Some(blocks)) = (id, blocks) else {
        return codec.unknown("assistant", frame, out);
    };
    let aborted = frame.get("aborted") == Some(&Value::Bool(true));
    for block in blocks {
        let (item, spoken) = codec.conversation(child.as_ref()).whole(&id);
        let kind = text_or_empty(block, "type");
        let content = match kind.as_str() {
            "text" => ItemContent::AssistantMessage {
                text: Body::inline(text_or_empty(block, "text")),
            },
            "thinking" => ItemContent::Reasoning {
                text: Body::inline(text_or_empty(block, "thinking")),
            },
            // What of its thinking the model does not show.
            "redacted_thinking" => continue,
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                tool_begins(codec, child.as_ref(), (&id, block), out);
                continue;
            }
            kind if kind.ends_with("_tool_result") => {
                tool_ends(codec, child.as_ref(), block, frame, out);
                continue;
            }
            _ => {
                codec.unknown(&format!("assistant block {}", cut(&kind, 80)), block, out);
                continue;
            }
        };
        if !spoken && content.streamed().is_none_or(Body::is_empty) {
            continue;
        }
        let kind = ProviderEventKind::ItemClosed {
            item,
            status: if aborted {
                ItemStatus::Interrupted
            } else {
                ItemStatus::Completed
            },
            content,
            client_id: None,
        };
        event(out, codec.place(child.as_ref()), kind);
    }
}

fn tool_begins(
    codec: &mut Codec,
    child: Option<&NativeId>,
    (message, block): (&str, &Value),
    out: &mut Vec<Received>,
) {
    let (Some(id), Some(name)) = (text_of(block, "id"), text_of(block, "name")) else {
        return codec.unknown("tool_use without an id or a name", block, out);
    };
    let call = NativeId(cut(&id, ID));
    let input = block.get("input").unwrap_or(&Value::Null);
    let tool = Tool::new(tools::item_of(message, &call), &name, input, &codec.cwd);
    let place = codec.place(child);
    if tool.opened {
        let kind = ProviderEventKind::ItemOpened {
            item: tool.item.clone(),
            content: tool.content().clone(),
            client_id: None,
        };
        event(out, place.clone(), kind);
    }
    for gone in codec.conversation(child).put_tool(call, tool) {
        codec.gave_up(child, gone, out);
    }
}

fn tool_ends(
    codec: &mut Codec,
    child: Option<&NativeId>,
    block: &Value,
    frame: &Value,
    out: &mut Vec<Received>,
) {
    let Some(id) = text_of(block, "tool_use_id") else {
        return codec.unknown("tool_result without an id", block, out);
    };
    let call = NativeId(cut(&id, ID));
    let known = codec.conversation(child).tool(&call);
    let Some(item) = known.map(|tool| tool.item.clone()) else {
        return codec.diagnostic("a result of a tool that was never called".to_owned(), out);
    };
    codec.asked_about_is_over(&item, out);
    let stopping = codec.stopping;
    let place = codec.place(child);
    let Some(tool) = codec.conversation(child).tool_mut(&call) else {
        return;
    };
    if tool.ended {
        return;
    }
    let failed = block.get("is_error") == Some(&Value::Bool(true));
    if !tool.opened {
        let name = tool.name.clone();
        let input = tool.input.clone();
        let shown = tool.shown(block);
        let declined = tool.declined;
        let ended = tool.result(block, frame, stopping);
        if !failed {
            tasks::todo(codec, child, &name, &input, frame, out);
        } else if !(declined || name == "AskUserQuestion") {
            let kind = ProviderEventKind::ItemClosed {
                item,
                status: ended.status,
                content: shown,
                client_id: None,
            };
            event(out, place, kind);
        }
        return;
    }
    if tool.background && !failed {
        // It goes on: its end comes with its task's.
        return;
    }
    let moved = child.is_none() && !tool.declined && tool.may_move();
    let ended = tool.result(block, frame, stopping);
    if let Some(words) = ended.failure.filter(|words| !words.is_empty()) {
        let error = RunError {
            code: ErrorCode::Agent,
            message: cut(&words, RAW_LIMIT),
        };
        let kind = ProviderEventKind::Error {
            error,
            will_retry: false,
        };
        event(out, place.clone(), kind);
    }
    let kind = ProviderEventKind::ItemClosed {
        item,
        status: ended.status,
        content: ended.content,
        client_id: None,
    };
    event(out, place, kind);
    if moved {
        // Its shell stays where a command leaves it, if it may be there. Only its next word on it tells.
        codec.cwd.clear();
    }
}

/// Reads `user`: results of tools, echoes of messages, and what the agent itself tells its model.
pub(super) fn user(codec: &mut Codec, frame: &Value, out: &mut Vec<Received>) {
    let message = frame.get("message").unwrap_or(&Value::Null);
    let child = codec.child_of(frame);
    let said = message.get("content").unwrap_or(&Value::Null);
    let blocks = said.as_array().map_or(&[][..], Vec::as_slice);
    let is_result =
        |block: &&Value| block.get("type").and_then(Value::as_str) == Some("tool_result");
    let mut results = false;
    for block in blocks.iter().filter(is_result) {
        results = true;
        tool_ends(codec, child.as_ref(), block, frame, out);
    }
    if results {
        return;
    }
    if !(said.is_string() || said.is_array()) {
        return codec.unknown("user", frame, out);
    }
    let words = content::texts(said);
    let id = text_of(frame, "uuid").unwrap_or_default();
    let replay = frame.get("isReplay") == Some(&Value::Bool(true));
    let content = ItemContent::UserMessage {
        message: None,
        text: Body::inline(words.clone()),
        attachments: Vec::new(),
    };
    if let Some(client_id) = codec.sent.client_id(&id).filter(|_| replay) {
        // A message that no person wrote is shown by what comes of it.
        if client_id.is_empty() {
            return;
        }
        left_out(codec, &id, blocks, out);
        let kind = ProviderEventKind::ItemClosed {
            item: NativeId(id),
            status: ItemStatus::Completed,
            content,
            client_id: Some(client_id),
        };
        event(out, codec.place(None), kind);
    } else if child.is_some() {
        // The task that a subagent was given.
        let item = NativeId(if id.is_empty() {
            codec.mint("text")
        } else {
            id
        });
        let kind = ProviderEventKind::ItemClosed {
            item,
            status: ItemStatus::Completed,
            content,
            client_id: None,
        };
        event(out, codec.place(child.as_ref()), kind);
    } else if let Some(output) = local_output(&words) {
        // What a slash command printed.
        let item = NativeId(codec.mint("text"));
        let kind = ProviderEventKind::ItemClosed {
            item,
            status: ItemStatus::Completed,
            content: ItemContent::AssistantMessage {
                text: Body::inline(output),
            },
            client_id: None,
        };
        event(out, codec.place(None), kind);
    } else if let Some(item) = codec
        .compaction
        .clone()
        .filter(|_| words.starts_with("This session is being continued"))
    {
        let kind = ProviderEventKind::ItemClosed {
            item,
            status: ItemStatus::Completed,
            content: ItemContent::Compaction {
                text: Body::inline(cut(&words, SUMMARY)),
            },
            client_id: None,
        };
        event(out, codec.place(None), kind);
    } else {
        let message = format!(
            "told to the model by the agent itself: {}",
            cut(&words, 400)
        );
        codec.diagnostic(message, out);
    }
}

/// Says which pictures of a message its model does not see: the agent puts words in their place and goes on.
fn left_out(codec: &Codec, message: &str, blocks: &[Value], out: &mut Vec<Received>) {
    let sent = codec.sent.pictures(message);
    let missing = sent.saturating_sub(content::pictures(blocks).count());
    if missing == 0 {
        return;
    }
    let words: Vec<String> = blocks
        .iter()
        .filter_map(|block| text_of(block, "text"))
        .filter(|text| text.starts_with("[Image could not be processed"))
        .collect();
    let error = RunError {
        code: ErrorCode::Agent,
        message: cut(
            &format!(
                "Claude Code left out {missing} of {sent} pictures: {}",
                words.join(" ")
            ),
            RAW_LIMIT,
        ),
    };
    let kind = ProviderEventKind::Error {
        error,
        will_retry: false,
    };
    event(out, codec.place(None), kind);
}

/// What a slash command of the agent printed, without the tags around it.
fn local_output(words: &str) -> Option<&str> {
    let rest = words.strip_prefix("<local-command-stdout>")?;
    let inner = rest
        .split_once("</local-command-stdout>")
        .map_or(rest, |(inner, _)| inner);
    Some(inner.trim()).filter(|inner| !inner.is_empty())
}

impl Codec {
    /// The subagent that a frame is about: by its task, or by the tool that started it.
    pub(super) fn child_of(&self, frame: &Value) -> Option<NativeId> {
        if let Some(agent) = text_of(frame, "agent_id").filter(|agent| !agent.is_empty()) {
            return Some(NativeId(cut(&agent, ID)));
        }
        let tool = text_of(frame, "parent_tool_use_id").filter(|tool| !tool.is_empty())?;
        let tool = NativeId(cut(&tool, ID));
        Some(self.by_tool.get(&tool).cloned().unwrap_or(tool))
    }

    /// A tool has ended: what was asked about it is over, if the agent has not said so.
    fn asked_about_is_over(&mut self, item: &NativeId, out: &mut Vec<Received>) {
        let about: Vec<_> = self
            .requests
            .iter()
            .filter(|(_, pending)| pending.opened.item.as_ref() == Some(item))
            .map(|(request, pending)| (request.clone(), pending.answered))
            .collect();
        for (request, answered) in about {
            let resolution = if answered {
                Resolution::Answered
            } else {
                Resolution::Withdrawn
            };
            self.close(&request, resolution, out);
        }
    }
}
