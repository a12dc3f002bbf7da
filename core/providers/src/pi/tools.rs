//! Tool calls: announced by the model, begun and ended by pi.
//!
//! A call is remembered from its announcement on, because a request about it may come before it begins. Of all calls the
//! oldest are forgotten.

use super::codec::{Codec, Received};
use crate::{
    acp::content,
    diff, mcp,
    rpc::{
        bounded::Bounded,
        budget::{self, Excess},
        event,
        frames::{cut, list, text_of, text_or_empty},
        growth::Growth,
    },
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId, ProviderEventKind,
    item::{FileAction, FileChange},
};
use serde_json::Value;

/// Calls that are remembered.
const TOOLS: usize = 256;
/// Bytes of a call's id.
const ID: usize = 512;

/// A call as far as it was told.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    item: NativeId,
    pub(super) name: String,
    pub(super) args: Value,
    opened: bool,
    ended: bool,
    /// A person refused it.
    declined: bool,
    /// The file that it writes was there, as our gate said.
    overwrites: bool,
    growth: Growth,
    /// Bytes that it holds beside itself.
    weight: usize,
}

impl Tool {
    fn weigh(&mut self) {
        self.weight = budget::json(&self.args)
            + budget::id(Some(&self.item))
            + budget::block(self.name.len());
    }

    /// Whether it has an item that is to be closed.
    fn is_open(&self) -> bool {
        self.opened && !self.ended
    }

    fn content(&self, result: Option<&Value>, duration_ms: Option<u64>) -> ItemContent {
        let mut content = content_of(&self.name, &self.args, result, duration_ms);
        if self.overwrites
            && let ItemContent::FileChange { changes } = &mut content
        {
            for change in changes {
                change.action = FileAction::Update;
            }
        }
        content
    }
}

/// All calls that are remembered, by their ids.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    known: Bounded<Tool>,
    /// Open ones that had to go, to be closed.
    dropped: Vec<Tool>,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            known: Bounded::new(TOOLS),
            dropped: Vec::new(),
        }
    }
}

/// The id of a call, bounded.
pub(super) fn call_of(frame: &Value) -> Option<NativeId> {
    let id = text_of(frame, "toolCallId").or_else(|| text_of(frame, "id"))?;
    Some(NativeId(cut(&id, ID)))
}

/// The item of a call that a message announced.
pub(super) fn item_of(message: &NativeId, call: &NativeId) -> NativeId {
    NativeId(format!("{message}/{call}"))
}

/// The calls that a message of the model holds: their ids, tools and arguments.
pub(super) fn calls(message: &Value) -> impl Iterator<Item = (NativeId, String, &Value)> {
    list(message, "content")
        .iter()
        .filter(|part| part.get("type").and_then(Value::as_str) == Some("toolCall"))
        .filter_map(|part| {
            let args = part.get("arguments").unwrap_or(&Value::Null);
            Some((call_of(part)?, cut(&text_or_empty(part, "name"), ID), args))
        })
}

impl Tools {
    pub(super) fn weight(&self) -> usize {
        self.known.weight(|tool| tool.weight)
    }

    fn put(&mut self, call: NativeId, item: NativeId, name: String, args: Value) {
        let mut tool = Tool {
            item,
            name,
            args,
            opened: false,
            ended: false,
            declined: false,
            overwrites: false,
            growth: Growth::default(),
            weight: 0,
        };
        tool.weigh();
        let gone = self.known.insert(call, tool);
        self.dropped.extend(gone.filter(Tool::is_open));
    }

    /// Gives up those that have ended, then the oldest, as long as there is an excess.
    pub(super) fn shed(&mut self, excess: &mut Excess) {
        self.known
            .shed_where(excess, |tool| tool.weight, |tool| tool.ended);
        let gone = self.known.shed(excess, |tool| tool.weight).into_iter();
        let open = gone.map(|(_, tool)| tool).filter(Tool::is_open);
        self.dropped.extend(open);
    }

    /// Those that were given up while they went on: their items, to be closed.
    pub(super) fn dropped(&mut self) -> Vec<(NativeId, ItemContent)> {
        let dropped = std::mem::take(&mut self.dropped).into_iter();
        dropped
            .map(|tool| {
                let content = tool.content(None, None);
                (tool.item, content)
            })
            .collect()
    }

    /// Remembers the calls of a message of the model. An id that comes again is another call's.
    pub(super) fn announce(&mut self, message: &NativeId, whole: &Value) {
        for (call, name, args) in calls(whole) {
            let item = item_of(message, &call);
            self.put(call, item, name, args.clone());
        }
    }

    /// A call that was announced and has not ended.
    pub(super) fn get(&self, call: &NativeId) -> Option<&Tool> {
        self.known.get(call).filter(|tool| !tool.ended)
    }

    /// The only announced call that fits, of those that have not ended.
    pub(super) fn only(&self, fits: impl Fn(&Tool) -> bool) -> Option<NativeId> {
        let mut fitting = self
            .known
            .iter()
            .filter(|(_, tool)| !tool.ended && fits(tool));
        let (call, _) = fitting.next()?;
        // Of two that would fit none is guessed.
        fitting.next().is_none().then(|| call.clone())
    }

    /// A person refused what was asked for a call.
    pub(super) fn declined(&mut self, item: &NativeId) {
        if let Some(tool) = self.known.values_mut().find(|tool| tool.item == *item) {
            tool.declined = true;
        }
    }

    /// The file that a call writes was there.
    pub(super) fn overwrites(&mut self, call: &NativeId) {
        if let Some(tool) = self.known.get_mut(call) {
            tool.overwrites = true;
        }
    }

    /// Takes all calls of a turn out; gives those that were begun and not ended.
    pub(super) fn leave_open(&mut self) -> Vec<(NativeId, ItemContent)> {
        let mut left = Vec::new();
        while let Some((_, tool)) = self.known.pop_oldest() {
            if tool.is_open() {
                let content = tool.content(None, None);
                left.push((tool.item, content));
            }
        }
        left
    }
}

/// Whether a tool runs commands.
pub(super) fn is_shell(name: &str) -> bool {
    matches!(name, "bash" | "powershell")
}

/// What a call is as an item. Without a result it is what it is while it goes on.
fn content_of(
    name: &str,
    args: &Value,
    result: Option<&Value>,
    duration_ms: Option<u64>,
) -> ItemContent {
    let output = result.map(output).unwrap_or_default();
    match name {
        name if is_shell(name) => ItemContent::Command {
            command: text_or_empty(args, "command"),
            cwd: text_or_empty(args, "cwd"),
            output: Body::inline(output),
            agent_output: None,
            exit_code: result.and_then(exit_code),
            duration_ms,
        },
        "edit" | "write" => match change(name, args) {
            Some(change) => ItemContent::FileChange {
                changes: vec![change],
            },
            None => tool(name, args, output),
        },
        _ => tool(name, args, output),
    }
}

fn tool(name: &str, args: &Value, output: String) -> ItemContent {
    let arguments = match args {
        Value::Null => String::new(),
        args => args.to_string(),
    };
    let (server, name) = mcp::tool_of(name);
    ItemContent::Tool {
        server: server.map(str::to_owned),
        name: if name.is_empty() { "tool" } else { name }.to_owned(),
        arguments: Body::inline(arguments),
        result: Body::inline(output),
    }
}

/// What `edit` and `write` change, as far as their arguments say. Whether a file that is written was there is not said.
pub(super) fn change(name: &str, args: &Value) -> Option<FileChange> {
    let path = text_of(args, "path").or_else(|| text_of(args, "file_path"))?;
    let (action, diff) = if name == "write" {
        (FileAction::Add, text_of(args, "content")?)
    } else {
        let (mut pieces, mut cells) = (Vec::new(), diff::CELLS);
        for edit in list(args, "edits").iter().chain([args]) {
            if let (Some(old), Some(new)) = (text_of(edit, "oldText"), text_of(edit, "newText")) {
                pieces.push(diff::unified(&old, &new, &mut cells));
            }
        }
        if pieces.is_empty() {
            return None;
        }
        (FileAction::Update, pieces.join("\n"))
    };
    Some(FileChange {
        path,
        action,
        moved_to: None,
        diff: Body::inline(diff),
    })
}

/// What a result says, without pi's words around a command's output where it tells that by itself.
fn output(result: &Value) -> String {
    let own = result.get("structuredContent");
    let whole = own.filter(|own| own.get("truncated") != Some(&Value::Bool(true)));
    whole
        .and_then(|own| text_of(own, "output"))
        .unwrap_or_else(|| content::texts(result.get("content").unwrap_or(&Value::Null)))
}

fn exit_code(result: &Value) -> Option<i64> {
    ["structuredContent", "details"].iter().find_map(|place| {
        let told = result.get(*place)?;
        ["exit_code", "exitCode"]
            .iter()
            .find_map(|key| told.get(*key).and_then(Value::as_i64))
    })
}

impl Codec {
    /// The item of a call that something is about, opened if it was not.
    pub(super) fn shown_tool(
        &mut self,
        call: &NativeId,
        out: &mut Vec<Received>,
    ) -> Option<NativeId> {
        let place = self.place();
        let tool = self.tools.known.get_mut(call).filter(|tool| !tool.ended)?;
        if !tool.opened {
            tool.opened = true;
            let kind = ProviderEventKind::ItemOpened {
                item: tool.item.clone(),
                content: tool.content(None, None),
                client_id: None,
            };
            let item = tool.item.clone();
            event(out, place, kind);
            return Some(item);
        }
        Some(tool.item.clone())
    }

    /// The call of a frame, remembered now if it was not announced.
    fn tool_call(&mut self, frame: &Value, out: &mut Vec<Received>) -> Option<NativeId> {
        let Some(call) = call_of(frame) else {
            self.other("tool_execution without an id", frame, out);
            return None;
        };
        self.ensure_turn(out);
        if self.tools.get(&call).is_none() {
            let item = self.mint("tool");
            let name = cut(&text_or_empty(frame, "toolName"), ID);
            let args = frame.get("args").cloned().unwrap_or_default();
            self.tools.put(call.clone(), item, name, args);
        }
        Some(call)
    }

    pub(super) fn tool_started(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let Some(call) = self.tool_call(frame, out) else {
            return;
        };
        // What runs is what it is told to run now, not what was announced: extensions may have changed it.
        if let Some(tool) = self.tools.known.get_mut(&call)
            && let Some(args) = frame.get("args")
            && tool.args != *args
        {
            tool.args = args.clone();
            tool.weigh();
            if tool.opened {
                let kind = ProviderEventKind::ItemUpdated {
                    item: tool.item.clone(),
                    content: tool.content(None, None),
                };
                event(out, self.place(), kind);
            }
        }
        self.shown_tool(&call, out);
    }

    pub(super) fn tool_told(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let Some(call) = self.tool_call(frame, out) else {
            return;
        };
        self.shown_tool(&call, out);
        let told = frame.pointer("/partialResult/content");
        let text = content::texts(told.unwrap_or(&Value::Null));
        let Some(tool) = self.tools.known.get_mut(&call) else {
            return;
        };
        if is_shell(&tool.name)
            && let Some(more) = tool.growth.more(&text)
        {
            // What it is called with was told when it began.
            let shape = content_of(&tool.name, &Value::Null, None, None);
            let kind = ProviderEventKind::ItemAppended {
                item: tool.item.clone(),
                text: more,
                shape: Box::new(shape),
            };
            event(out, self.place(), kind);
        }
    }

    pub(super) fn tool_ended(&mut self, frame: &Value, out: &mut Vec<Received>) {
        let Some(call) = self.tool_call(frame, out) else {
            return;
        };
        let place = self.place();
        let stopping = self.turn.as_ref().is_some_and(|turn| turn.stopping);
        let Some(tool) = self.tools.known.get_mut(&call) else {
            return;
        };
        let failed = frame.get("isError") == Some(&Value::Bool(true));
        let status = match (failed, tool.declined) {
            (false, _) => ItemStatus::Completed,
            (true, true) => ItemStatus::Declined,
            (true, false) if stopping => ItemStatus::Interrupted,
            (true, false) => ItemStatus::Failed,
        };
        let result = frame.get("result").unwrap_or(&Value::Null);
        let duration = frame.get("durationMs").and_then(Value::as_u64);
        let mut content = tool.content(Some(result), duration);
        // Words of the gate are not what the command wrote.
        if tool.declined
            && failed
            && let ItemContent::Command { output, .. } = &mut content
        {
            *output = Body::default();
        }
        let item = tool.item.clone();
        tool.ended = true;
        tool.args = Value::Null;
        tool.weigh();
        let lost = match (&content, status) {
            (ItemContent::FileChange { .. }, ItemStatus::Failed) => Some(output(result)),
            _ => None,
        };
        let kind = ProviderEventKind::ItemClosed {
            item,
            status,
            content,
            client_id: None,
        };
        event(out, place.clone(), kind);
        // A change to a file has no place for the words why it failed.
        if let Some(words) = lost.filter(|words| !words.is_empty()) {
            let kind = ProviderEventKind::Error {
                error: pilothouse_domain::run::RunError {
                    code: pilothouse_domain::run::ErrorCode::Agent,
                    message: cut(&words, crate::rpc::frames::RAW_LIMIT),
                },
                will_retry: true,
            };
            event(out, place, kind);
        }
    }
}
