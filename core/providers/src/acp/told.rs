//! What a frame tells of a tool: its command, its changes to files, its words, its end. Read once per frame.

use crate::diff;
use crate::rpc::frames::{cut, list, text_of};
use pilothouse_domain::{
    Body,
    item::{FileAction, FileChange},
};
use serde_json::Value;
use std::hash::{DefaultHasher, Hasher as _};

/// Bytes of a path; Linux takes none that is longer.
pub(super) const PATH: usize = 4096;
/// Changes to files that are read of one frame.
const DIFFS: usize = 1024;
/// Keys under which an input names its command, the first that says one first.
pub(super) const COMMAND: [&str; 2] = ["command", "cmd"];
/// Keys under which an input says where it runs.
pub(super) const CWD: [&str; 3] = ["cwd", "workdir", "directory"];

/// Whether a piece after the tool's end says the end anew.
pub(super) fn says_anew(told: &Value) -> bool {
    matches!(
        told.get("status").and_then(Value::as_str),
        Some("completed" | "failed")
    ) && told.get("content").is_some()
}

/// Whether an input says anything.
pub(super) fn is_said(input: &Value) -> bool {
    match input {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// A command as a line for a shell: a text as it is, words quoted; `None` if it is neither, or says nothing.
pub(super) fn line_of(command: &Value) -> Option<String> {
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

/// The exact command line of a tool's input, as the measured agents name it.
pub(super) fn command_line(input: &Value) -> Option<String> {
    COMMAND
        .iter()
        .find_map(|key| input.get(*key).and_then(line_of))
}

/// Where a tool's input says that it runs.
pub(super) fn cwd(input: &Value) -> Option<String> {
    CWD.iter()
        .filter_map(|key| text_of(input, key))
        .find(|cwd| !cwd.is_empty())
}

/// The changes to files among a tool's content.
#[derive(Debug, Clone)]
pub(super) struct Changes {
    pub(super) list: Vec<FileChange>,
    /// Whether these are all that the content holds, and in full.
    pub(super) whole: bool,
    /// Differs where the changes do.
    pub(super) mark: u64,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            whole: true,
            mark: 0,
        }
    }
}

/// Reads the changes, all in one budget of comparing.
pub(super) fn changes(told: &Value) -> Changes {
    let is_diff = |part: &&Value| part.get("type").and_then(Value::as_str) == Some("diff");
    let parts = || list(told, "content").iter().filter(is_diff);
    let mut cells = diff::CELLS;
    let mut whole = true;
    let mut read = Vec::new();
    let mut hasher = DefaultHasher::new();
    for part in parts().take(DIFFS) {
        let Some(change) = change(part, &mut cells) else {
            whole = false;
            continue;
        };
        whole &= part.get("path").and_then(Value::as_str) == Some(&change.path);
        hasher.write(change.path.as_bytes());
        hasher.write_u8(change.action as u8);
        hasher.write(change.diff.preview().as_bytes());
        read.push(change);
    }
    whole &= parts().nth(DIFFS).is_none();
    Changes {
        list: read,
        whole,
        mark: hasher.finish(),
    }
}

/// One change; `None` if it does not say which file, or what of it.
fn change(part: &Value, cells: &mut usize) -> Option<FileChange> {
    let path = cut(&text_of(part, "path")?, PATH);
    let side = |key: &str| match part.get(key) {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(text.as_str())),
        Some(_) => None,
    };
    let old = side("oldText")?.filter(|old| !old.is_empty());
    let (action, diff) = match (old, side("newText")?) {
        (None, Some(new)) => (FileAction::Add, new.to_owned()),
        (Some(old), Some(new)) => (FileAction::Update, diff::unified(old, new, cells)),
        (Some(old), None) => (FileAction::Delete, diff::unified(old, "", cells)),
        (None, None) => return None,
    };
    Some(FileChange {
        path,
        action,
        moved_to: None,
        diff: Body::inline(diff),
    })
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
pub(super) fn output(told: &Value) -> Option<String> {
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
pub(super) fn terminal_output(told: &Value) -> Option<String> {
    text_of(told.get("_meta")?.get("terminal_output_delta")?, "data")
}

/// The exit code, wherever an agent puts it.
pub(super) fn exit_code(told: &Value) -> Option<i64> {
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
