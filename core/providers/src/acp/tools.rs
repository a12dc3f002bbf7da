//! Tool calls: what an agent tells of one in pieces becomes an item.
//!
//! Every piece may leave out what was told before, so a tool is remembered, at most [`KEPT`] bytes of each of its texts.
//! Output of a command is given on as it grows; other results only at the end, because agents repeat them whole.

use super::diff;
use crate::rpc::frames::{cut, list, text_of};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId,
    item::{FileAction, FileChange},
};
use serde_json::Value;
use std::hash::{DefaultHasher, Hasher as _};

/// Bytes of each text of a tool that are remembered between two pieces.
const KEPT: usize = 64 * 1024;
/// Places named by a tool that are remembered.
const PLACES: usize = 64;

/// A tool call as far as it was told.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    /// Our item.
    pub(super) item: NativeId,
    /// The turn in which it was first seen.
    pub(super) turn: Option<NativeId>,
    /// Whether its item was opened: one that only a request named was not.
    pub(super) opened: bool,
    pub(super) ended: bool,
    /// A person refused it.
    pub(super) declined: bool,
    pub(super) kind: String,
    pub(super) title: String,
    name: String,
    arguments: String,
    pub(super) command: Option<String>,
    cwd: Option<String>,
    pub(super) places: Vec<String>,
    pub(super) changes: Vec<FileChange>,
    result: String,
    exit_code: Option<i64>,
    /// Length and hash of the output that was given on.
    streamed: (usize, u64),
    /// What was last given out, without its output.
    shown: Option<ItemContent>,
}

/// What a piece of a tool call comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// The item is now this.
    Content(ItemContent),
    /// Output was added to the item.
    Output(String),
    /// The item ended.
    End(ItemStatus, ItemContent),
    /// Words that its item has no place for: why a change to a file failed.
    Failure(String),
}

impl Tool {
    pub(super) fn new(item: NativeId, turn: Option<NativeId>) -> Self {
        Self {
            item,
            turn,
            opened: false,
            ended: false,
            declined: false,
            kind: String::new(),
            title: String::new(),
            name: String::new(),
            arguments: String::new(),
            command: None,
            cwd: None,
            places: Vec::new(),
            changes: Vec::new(),
            result: String::new(),
            exit_code: None,
            streamed: (0, hash(b"")),
            shown: None,
        }
    }

    /// The same tool as an item of ours.
    pub(super) fn renamed(mut self, item: NativeId, turn: Option<NativeId>) -> Self {
        self.item = item;
        self.turn = turn;
        self
    }

    /// Takes from a request about this tool what it tells more exactly, and gives the item as it is now if that changed it.
    /// `told` is what the request says of the tool where it names the tool's own id; by another id only what is missing is
    /// taken.
    pub(super) fn asked(&mut self, told: Option<&Value>, asked: &Self) -> Option<ItemContent> {
        match told {
            Some(told) => self.learn(told),
            None => {
                if self.command.is_none() {
                    self.command.clone_from(&asked.command);
                }
                if self.changes.is_empty() {
                    self.changes.clone_from(&asked.changes);
                }
            }
        }
        let content = self.content(String::new());
        if self.ended || self.shown.as_ref() == Some(&content) {
            return None;
        }
        self.shown = Some(content.clone());
        Some(content)
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        let changes = self.changes.iter().map(|change| change.diff.len() as usize);
        // What was last shown holds the same again.
        2 * (self.title.len() + self.arguments.len() + changes.sum::<usize>()) + self.result.len()
    }

    /// Lets go of what only the item's end needed.
    fn slim(&mut self) {
        self.ended = true;
        self.shown = None;
        self.changes = Vec::new();
        self.arguments = String::new();
        self.result = String::new();
    }

    /// Takes what a piece tells of the tool itself, without its output.
    pub(super) fn learn(&mut self, told: &Value) {
        let keep = |text: String| cut(&text, KEPT);
        if let Some(kind) = text_of(told, "kind") {
            self.kind = cut(&kind, 64);
        }
        if let Some(title) = text_of(told, "title").filter(|title| !title.is_empty()) {
            self.title = keep(title);
        }
        if let Some(name) = text_of(told, "name") {
            self.name = cut(&name, 256);
        }
        if let Some(input) = told.get("rawInput").filter(|input| is_said(input)) {
            self.command = command_line(input).map(keep).or(self.command.take());
            self.cwd = cwd(input).or(self.cwd.take());
            self.arguments = keep(match input {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
        }
        let places: Vec<_> = list(told, "locations")
            .iter()
            .filter_map(|place| text_of(place, "path"))
            .take(PLACES)
            .collect();
        if !places.is_empty() {
            self.places = places;
        }
        let changes = changes(told);
        if !changes.is_empty() {
            self.changes = changes;
        }
        if let Some(code) = exit_code(told) {
            self.exit_code = Some(code);
        }
    }

    /// A piece of the tool call; `first` for the one that announces it.
    pub(super) fn piece(&mut self, told: &Value, first: bool) -> Vec<Piece> {
        if self.ended && !says_anew(told) {
            // All that matters of it was said at its end.
            return Vec::new();
        }
        self.learn(told);
        let status = text_of(told, "status").unwrap_or_default();
        let ended = match status.as_str() {
            "completed" => Some(ItemStatus::Completed),
            "failed" if self.declined => Some(ItemStatus::Declined),
            "failed" => Some(ItemStatus::Failed),
            _ => None,
        };
        // What stands beside the input of a call that has not begun describes the call.
        let begun = matches!(status.as_str(), "in_progress" | "completed" | "failed");
        let says_output = ended.is_some() || (!first && (begun || told.get("rawInput").is_none()));
        let output = says_output.then(|| output(told)).flatten();
        if let Some(output) = &output {
            self.result = cut(output, KEPT);
        }
        let mut pieces = Vec::new();
        let content = self.content(String::new());
        if ended.is_none() && self.shown.as_ref() != Some(&content) {
            self.shown = Some(content.clone());
            pieces.push(Piece::Content(content));
        }
        if let Some(delta) = terminal_output(told).filter(|delta| !delta.is_empty()) {
            pieces.push(Piece::Output(delta));
        }
        match ended {
            Some(status) => {
                if let ItemContent::FileChange { .. } = self.content(String::new())
                    && status == ItemStatus::Failed
                    && !self.result.is_empty()
                {
                    pieces.push(Piece::Failure(self.result.clone()));
                }
                let text = output.unwrap_or_else(|| self.unstreamed());
                pieces.push(Piece::End(status, self.content(text)));
                self.slim();
            }
            None => pieces.extend(output.and_then(|output| self.grown(&output))),
        }
        pieces
    }

    /// The item when its turn ended before it.
    pub(super) fn unfinished(&self) -> ItemContent {
        self.content(self.unstreamed())
    }

    /// The result that has not been given on.
    fn unstreamed(&self) -> String {
        if self.is_command() {
            String::new()
        } else {
            self.result.clone()
        }
    }

    fn is_command(&self) -> bool {
        self.changes.is_empty() && self.kind == "execute" && self.command.is_some()
    }

    /// What a command's output has more than what was given on; nothing if it is not the same output grown.
    fn grown(&mut self, output: &str) -> Option<Piece> {
        let (length, sum) = self.streamed;
        let more = output.get(length..).filter(|more| !more.is_empty())?;
        if !self.is_command() || hash(&output.as_bytes()[..length]) != sum {
            return None;
        }
        let more = more.to_owned();
        self.streamed = (output.len(), hash(output.as_bytes()));
        Some(Piece::Output(more))
    }

    fn content(&self, output: String) -> ItemContent {
        if !self.changes.is_empty() {
            return ItemContent::FileChange {
                changes: self.changes.clone(),
            };
        }
        if let Some(command) = self.command.as_ref().filter(|_| self.is_command()) {
            return ItemContent::Command {
                command: command.clone(),
                cwd: self.cwd.clone().unwrap_or_default(),
                output: Body::inline(output),
                agent_output: None,
                exit_code: self.exit_code,
                duration_ms: None,
            };
        }
        let name = if self.title.is_empty() {
            &self.name
        } else {
            &self.title
        };
        let arguments = if self.arguments.is_empty() {
            self.places.join("\n")
        } else {
            self.arguments.clone()
        };
        ItemContent::Tool {
            server: None,
            name: if name.is_empty() {
                "tool".to_owned()
            } else {
                cut(name, 512)
            },
            arguments: Body::inline(arguments),
            result: Body::inline(output),
        }
    }
}

/// Whether a request is about this tool though it names another id: hermes numbers its requests by themselves.
pub(super) fn is_about(tool: &Tool, asked: &Tool) -> bool {
    if tool.kind != asked.kind || tool.ended {
        return false;
    }
    let command = asked.command.as_deref().is_some_and(|command| {
        tool.command.as_deref() == Some(command)
            || (!command.is_empty() && tool.command.is_none() && tool.title.ends_with(command))
    });
    let path = |path: &String| {
        tool.places.contains(path) || tool.changes.iter().any(|change| change.path == *path)
    };
    command
        || asked
            .changes
            .iter()
            .map(|change| &change.path)
            .chain(&asked.places)
            .any(path)
}

/// Whether a piece after the tool's end says the end anew.
fn says_anew(told: &Value) -> bool {
    matches!(
        told.get("status").and_then(Value::as_str),
        Some("completed" | "failed")
    ) && told.get("content").is_some()
}

/// Whether an input says anything.
fn is_said(input: &Value) -> bool {
    match input {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// The exact command line of a tool's input, as the measured agents name it.
pub(super) fn command_line(input: &Value) -> Option<String> {
    let command = input.get("command").or_else(|| input.get("cmd"))?;
    match command {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Array(words) => {
            let words: Option<Vec<String>> = words
                .iter()
                .map(|word| word.as_str().map(str::to_owned))
                .collect();
            words
                .filter(|words| !words.is_empty())
                .map(|words| crate::rpc::answers::shell_line(&words))
        }
        _ => None,
    }
}

/// Where a tool's input says that it runs.
pub(super) fn cwd(input: &Value) -> Option<String> {
    ["cwd", "workdir", "directory"]
        .iter()
        .find_map(|key| text_of(input, key))
        .filter(|cwd| !cwd.is_empty())
}

/// The changes to files among a tool's content.
pub(super) fn changes(told: &Value) -> Vec<FileChange> {
    list(told, "content")
        .iter()
        .filter(|part| part.get("type").and_then(Value::as_str) == Some("diff"))
        .filter_map(|part| {
            let path = text_of(part, "path")?;
            let old = part.get("oldText").and_then(Value::as_str);
            let new = part.get("newText").and_then(Value::as_str);
            let (action, diff) = match (old.filter(|old| !old.is_empty()), new) {
                (None, Some(new)) => (FileAction::Add, new.to_owned()),
                (Some(old), Some(new)) => (FileAction::Update, diff::unified(old, new)),
                (Some(old), None) => (FileAction::Delete, diff::unified(old, "")),
                (None, None) => return None,
            };
            Some(FileChange {
                path,
                action,
                moved_to: None,
                diff: Body::inline(diff),
            })
        })
        .collect()
}

/// The words among a tool's content; what is no text is named.
pub(super) fn texts(told: &Value) -> Option<String> {
    let parts: Vec<String> = list(told, "content")
        .iter()
        .filter_map(
            |part| match part.get("type").and_then(Value::as_str).unwrap_or_default() {
                "content" => super::content::text(part.get("content").unwrap_or(&Value::Null)),
                "diff" | "terminal" => None,
                other => Some(format!(
                    "[{other}] {}",
                    cut(&part.to_string(), super::content::SHOWN)
                )),
            },
        )
        .collect();
    Some(parts.join("\n")).filter(|text| !text.is_empty())
}

/// What a tool gave: its words, or its raw output where it has none.
fn output(told: &Value) -> Option<String> {
    texts(told).or_else(|| {
        let raw = told.get("rawOutput")?;
        ["output", "text", "content", "stdout"]
            .iter()
            .find_map(|key| text_of(raw, key))
            .or_else(|| raw.as_str().map(str::to_owned))
            .or_else(|| is_said(raw).then(|| raw.to_string()))
    })
}

/// Output of a command that codex-acp tells in passing.
fn terminal_output(told: &Value) -> Option<String> {
    text_of(told.get("_meta")?.get("terminal_output_delta")?, "data")
}

/// The exit code, wherever an agent puts it.
fn exit_code(told: &Value) -> Option<i64> {
    let code = |value: &Value| {
        ["exitCode", "exit_code", "exit"]
            .iter()
            .find_map(|key| value.get(*key).and_then(Value::as_i64))
    };
    let raw = told.get("rawOutput");
    let of_raw = raw.and_then(|raw| {
        code(raw)
            .or_else(|| raw.get("metadata").and_then(code))
            .or_else(|| list(raw, "contents").iter().find_map(code))
    });
    let of_terminal = || told.get("_meta")?.get("terminal_exit").and_then(code);
    of_raw.or_else(of_terminal)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
