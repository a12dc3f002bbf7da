//! Tool calls: what an agent tells of one in pieces becomes an item.
//!
//! Every piece may leave out what was told before, so a tool is remembered, at most [`KEPT`] bytes of each of its texts.
//! Output of a command is given on as it grows; other results only at the end, because agents repeat them whole.

use super::told::{
    Changes, PATH, changes, command_line, cwd, exit_code, is_said, output, says_anew,
    terminal_output,
};
use crate::rpc::{
    budget,
    frames::{cut, list, text_of},
};
use pilothouse_domain::{Body, ItemContent, ItemStatus, NativeId};
use serde_json::Value;
use std::hash::{DefaultHasher, Hasher as _};

/// Bytes of each text of a tool that are remembered between two pieces.
const KEPT: usize = 64 * 1024;
/// Places named by a tool that are remembered.
const PLACES: usize = 64;

/// How far a tool has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It goes on.
    Open,
    /// Its turn ended before it did: late pieces are still its own, but no request is about it any more.
    Left,
    /// It has ended.
    Ended,
}

/// A tool call as far as it was told.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    /// Our item.
    pub(super) item: NativeId,
    /// The turn in which it was first seen.
    pub(super) turn: Option<NativeId>,
    /// Whether its item was opened: one that only a request named was not.
    pub(super) opened: bool,
    pub(super) stage: Stage,
    /// A person refused it.
    pub(super) declined: bool,
    pub(super) kind: String,
    pub(super) title: String,
    name: String,
    arguments: String,
    pub(super) command: Option<String>,
    cwd: Option<String>,
    pub(super) places: Vec<String>,
    /// Whether these are all places that were told.
    places_whole: bool,
    pub(super) changes: Changes,
    result: String,
    exit_code: Option<i64>,
    /// Length and hash of the output that was given on.
    streamed: (usize, u64),
    /// The mark of what was last given out, without its output.
    shown: Option<u64>,
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
            stage: Stage::Open,
            declined: false,
            kind: String::new(),
            title: String::new(),
            name: String::new(),
            arguments: String::new(),
            command: None,
            cwd: None,
            places: Vec::new(),
            places_whole: true,
            changes: Changes::default(),
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
            Some(told) => self.take(told, asked.changes.clone()),
            None => {
                if self.command.is_none() {
                    self.command.clone_from(&asked.command);
                }
                if self.changes.list.is_empty() {
                    self.changes.clone_from(&asked.changes);
                }
            }
        }
        let mark = self.mark();
        if self.stage != Stage::Open || self.shown == Some(mark) {
            return None;
        }
        self.shown = Some(mark);
        Some(self.content(String::new()))
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        let texts = [
            &self.kind,
            &self.title,
            &self.name,
            &self.arguments,
            &self.result,
        ];
        let known = [&self.command, &self.cwd].into_iter().flatten();
        let places = self.places.iter();
        let texts = texts.into_iter().chain(known).chain(places);
        budget::changes(&self.changes.list)
            + texts
                .map(|text| size_of::<String>() + budget::block(text.len()))
                .sum::<usize>()
            + budget::id(Some(&self.item))
            + budget::id(self.turn.as_ref())
    }

    /// Whether everything that was told of its files is remembered, and in full.
    pub(super) fn is_whole(&self) -> bool {
        self.places_whole && self.changes.whole
    }

    /// Lets go of what only the item's end needed.
    fn slim(&mut self) {
        self.stage = Stage::Ended;
        self.shown = None;
        self.changes = Changes::default();
        self.arguments = String::new();
        self.result = String::new();
    }

    /// Takes what a piece tells of the tool itself, without its output.
    pub(super) fn learn(&mut self, told: &Value) {
        self.take(told, changes(told));
    }

    fn take(&mut self, told: &Value, changes: Changes) {
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
            self.cwd = cwd(input).map(|cwd| cut(&cwd, PATH)).or(self.cwd.take());
            self.arguments = keep(match input {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
        }
        let told_places = list(told, "locations");
        if !told_places.is_empty() {
            let read = told_places
                .iter()
                .filter_map(|place| text_of(place, "path"));
            let places: Vec<String> = read.take(PLACES).collect();
            self.places_whole =
                places.len() == told_places.len() && places.iter().all(|place| place.len() <= PATH);
            self.places = places.iter().map(|place| cut(place, PATH)).collect();
        }
        if changes.list.is_empty() {
            self.changes.whole &= changes.whole;
        } else {
            self.changes = changes;
        }
        if let Some(code) = exit_code(told) {
            self.exit_code = Some(code);
        }
    }

    /// A piece of the tool call; `first` for the one that announces it.
    pub(super) fn piece(&mut self, told: &Value, first: bool) -> Vec<Piece> {
        if self.stage == Stage::Ended && !says_anew(told) {
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
        let mark = self.mark();
        if ended.is_none() && self.shown != Some(mark) {
            self.shown = Some(mark);
            pieces.push(Piece::Content(self.content(String::new())));
        }
        if let Some(delta) = terminal_output(told).filter(|delta| !delta.is_empty()) {
            pieces.push(Piece::Output(delta));
        }
        match ended {
            Some(status) => {
                if !self.changes.list.is_empty()
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
        self.changes.list.is_empty() && self.kind == "execute" && self.command.is_some()
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

    /// Differs where [`Self::content`] does, and costs no copy of it.
    fn mark(&self) -> u64 {
        if !self.changes.list.is_empty() {
            return self.changes.mark;
        }
        let mut hasher = DefaultHasher::new();
        let parts = (&self.command, &self.cwd, self.exit_code, self.is_command());
        std::hash::Hash::hash(&parts, &mut hasher);
        let parts = (&self.title, &self.name, &self.arguments, &self.places);
        std::hash::Hash::hash(&parts, &mut hasher);
        hasher.finish()
    }

    fn content(&self, output: String) -> ItemContent {
        if !self.changes.list.is_empty() {
            return ItemContent::FileChange {
                changes: self.changes.list.clone(),
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
    if tool.kind != asked.kind || tool.stage != Stage::Open {
        return false;
    }
    let command = asked.command.as_deref().is_some_and(|command| {
        tool.command.as_deref() == Some(command)
            || (!command.is_empty() && tool.command.is_none() && tool.title.ends_with(command))
    });
    let path = |path: &String| {
        tool.places.contains(path) || tool.changes.list.iter().any(|change| change.path == *path)
    };
    command
        || asked
            .changes
            .list
            .iter()
            .map(|change| &change.path)
            .chain(&asked.places)
            .any(path)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
