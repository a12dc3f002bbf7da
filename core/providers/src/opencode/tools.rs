//! Tool calls of opencode as items.

use super::conversation::Unsaid;
use crate::{
    diff::{CELLS, unified},
    rpc::frames::{cut, list, text_of, text_or_empty},
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus,
    item::{FileAction, FileChange},
};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Bytes of a tool's arguments.
const ARGUMENTS: usize = 64 * 1024;
/// Files that one call changes; more are not shown.
const FILES: usize = 256;

/// The item of a tool call; `None` for one that is shown otherwise. `output` is what it gave so far, `shown` the changes that
/// a permission showed for it.
pub(super) fn content(
    tool: &str,
    state: &Value,
    directory: &str,
    shown: &[FileChange],
    output: String,
) -> Option<ItemContent> {
    let input = state.get("input").unwrap_or(&Value::Null);
    Some(match tool {
        // The todo list and the request say the same.
        "todowrite" | "todoread" | "question" => return None,
        "bash" => ItemContent::Command {
            command: text_or_empty(input, "command"),
            cwd: workdir(input, directory),
            output: Body::inline(output),
            agent_output: None,
            exit_code: state.pointer("/metadata/exit").and_then(Value::as_i64),
            duration_ms: duration(state),
        },
        "write" | "edit" | "multiedit" | "patch" | "apply_patch" => {
            let changes = changes(tool, state, shown);
            if changes.is_empty() {
                return Some(other(tool, input, output));
            }
            ItemContent::FileChange { changes }
        }
        "grep" | "glob" | "list" | "codesearch" => ItemContent::FileSearch {
            query: cut(&query(input), ARGUMENTS),
            result: Body::inline(output),
        },
        "websearch" => ItemContent::WebSearch {
            query: cut(&query(input), ARGUMENTS),
        },
        "task" => ItemContent::Subagent {
            child: None,
            title: cut(&text_or_empty(input, "description"), 512),
            result: Body::inline(result_of_task(&output).to_owned()),
        },
        _ => other(tool, input, output),
    })
}

/// What a permission for a tool does not say: the directory of a command, which may be another than the conversation's, and the
/// arguments of a tool of an MCP server or a plugin, of which it says the name alone.
pub(super) fn unsaid(tool: &str, input: &Value, directory: &str) -> Option<Unsaid> {
    match tool {
        "bash" => Some(Unsaid::Directory(workdir(input, directory))),
        "write" | "edit" | "multiedit" | "patch" | "apply_patch" | "read" | "grep" | "glob"
        | "list" | "codesearch" | "websearch" | "webfetch" | "task" => None,
        _ => {
            let mut arguments = serde_json::to_string_pretty(input).ok()?;
            arguments.shrink_to_fit();
            Some(Unsaid::Arguments(arguments))
        }
    }
}

/// Where a command runs: opencode takes its `workdir` from the conversation's directory on.
fn workdir(input: &Value, directory: &str) -> String {
    match text_of(input, "workdir").filter(|within| !within.is_empty()) {
        Some(within) => {
            let path: PathBuf = Path::new(directory).join(within).components().collect();
            path.to_string_lossy().into_owned()
        }
        None => directory.to_owned(),
    }
}

/// The server whose tool that is, of those that are known, and the tool: opencode calls it `SERVER_TOOL`, with `_` in the place
/// of what it does not take in a name.
pub(super) fn server_of(name: &str, servers: &[String]) -> Option<(String, String)> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let found = servers.iter().filter_map(|server| {
        let said: String = server
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        let tool = name.strip_prefix(&said)?.strip_prefix('_')?;
        (!tool.is_empty()).then(|| (server.clone(), tool.to_owned()))
    });
    // Of `a` and `a_b` it is the longer one.
    found.max_by_key(|(server, _)| server.len())
}

/// How a command ended that opencode stopped: it calls that completed, without an exit code, and says why in its output
/// (docs/agents-probes.md, section 11). A stop that a person asked for is told by its words, everything else is a failure.
pub(super) fn cut_short(tool: &str, state: &Value) -> Option<ItemStatus> {
    if tool != "bash" || state.pointer("/metadata/exit") != Some(&Value::Null) {
        return None;
    }
    let output = state.get("output").and_then(Value::as_str);
    let asked = "User aborted the command\n</shell_metadata>";
    match output.unwrap_or_default().trim_end().ends_with(asked) {
        true => Some(ItemStatus::Interrupted),
        false => Some(ItemStatus::Failed),
    }
}

fn other(tool: &str, input: &Value, output: String) -> ItemContent {
    let arguments = match input {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    ItemContent::Tool {
        server: None,
        name: cut(tool, 512),
        arguments: Body::inline(cut(&arguments, ARGUMENTS)),
        result: Body::inline(output),
    }
}

/// The changes that a call makes, from what it is given before and what it tells after.
fn changes(tool: &str, state: &Value, shown: &[FileChange]) -> Vec<FileChange> {
    let input = state.get("input").unwrap_or(&Value::Null);
    let path = text_or_empty(input, "filePath");
    let told = state.pointer("/metadata/diff").and_then(Value::as_str);
    let exists = state.pointer("/metadata/exists").and_then(Value::as_bool);
    if let Some(diff) = told.filter(|diff| !diff.is_empty() && !path.is_empty()) {
        return vec![of_diff(path, diff)];
    }
    if !shown.is_empty() {
        return shown.to_vec();
    }
    let mut work = CELLS;
    let one = |action, diff: String| {
        vec![FileChange {
            path: path.clone(),
            action,
            moved_to: None,
            diff: Body::inline(diff),
        }]
    };
    match tool {
        "patch" | "apply_patch" => of_patch(&text_or_empty(input, "patchText")),
        _ if path.is_empty() => Vec::new(),
        "write" => {
            let action = match exists {
                Some(false) => FileAction::Add,
                _ => FileAction::Update,
            };
            one(action, text_or_empty(input, "content"))
        }
        "edit" => {
            let (old, new) = (
                text_or_empty(input, "oldString"),
                text_or_empty(input, "newString"),
            );
            one(FileAction::Update, unified(&old, &new, &mut work))
        }
        _ => {
            let pieces: Vec<_> = list(input, "edits")
                .iter()
                .map(|edit| {
                    let (old, new) = (
                        text_or_empty(edit, "oldString"),
                        text_or_empty(edit, "newString"),
                    );
                    unified(&old, &new, &mut work)
                })
                .collect();
            one(FileAction::Update, pieces.join("\n"))
        }
    }
}

/// A change by its unified diff.
pub(super) fn of_diff(path: String, diff: &str) -> FileChange {
    let hunks = || diff.lines().filter(|line| line.starts_with("@@ "));
    let action = if hunks().count() > 0 && hunks().all(|line| line.starts_with("@@ -0,0 ")) {
        FileAction::Add
    } else if hunks().count() > 0 && hunks().all(|line| line.contains(" +0,0 @@")) {
        FileAction::Delete
    } else {
        FileAction::Update
    };
    FileChange {
        path,
        action,
        moved_to: None,
        diff: Body::inline(diff),
    }
}

/// The changes of a patch in the form `*** Add File: …`.
fn of_patch(patch: &str) -> Vec<FileChange> {
    let mut changes: Vec<FileChange> = Vec::new();
    let mut text = String::new();
    let finish = |changes: &mut Vec<FileChange>, text: &mut String| {
        if let Some(change) = changes.last_mut() {
            change.diff = Body::inline(std::mem::take(text));
        }
        text.clear();
    };
    for line in patch.lines() {
        let header = [
            ("*** Add File: ", FileAction::Add),
            ("*** Update File: ", FileAction::Update),
            ("*** Delete File: ", FileAction::Delete),
        ]
        .into_iter()
        .find_map(|(mark, action)| Some((line.strip_prefix(mark)?, action)));
        if let Some((path, action)) = header {
            finish(&mut changes, &mut text);
            if changes.len() == FILES {
                break;
            }
            changes.push(FileChange {
                path: path.to_owned(),
                action,
                moved_to: None,
                diff: Body::default(),
            });
        } else if let Some(to) = line.strip_prefix("*** Move to: ") {
            if let Some(change) = changes.last_mut() {
                change.moved_to = Some(to.to_owned());
            }
        } else if !line.starts_with("*** ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    finish(&mut changes, &mut text);
    changes
}

fn query(input: &Value) -> String {
    let fields: Vec<_> = ["pattern", "query", "path", "include"]
        .iter()
        .filter_map(|key| text_of(input, key))
        .collect();
    fields.join(" ")
}

fn duration(state: &Value) -> Option<u64> {
    let at = |key: &str| state.pointer(key).and_then(Value::as_u64);
    at("/time/end")?.checked_sub(at("/time/start")?)
}

/// What a subagent said, without the frame that is put around it for the model.
fn result_of_task(output: &str) -> &str {
    let inner = || {
        let (_, rest) = output.split_once("<task_result>\n")?;
        let (inner, _) = rest.split_once("\n</task_result>")?;
        Some(inner)
    };
    inner().unwrap_or(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_of_several_files_is_one_change_each() {
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n*** Update File: b.txt\n*** Move to: c.txt\n@@\n-x\n+y\n*** Delete File: d.txt\n*** End Patch\n";
        let state = json!({"input": {"patchText": patch}});
        let Some(ItemContent::FileChange { changes }) =
            content("apply_patch", &state, "/w", &[], String::new())
        else {
            panic!("no change")
        };
        let told: Vec<_> = changes
            .iter()
            .map(|change| (change.path.as_str(), change.action, change.diff.preview()))
            .collect();
        assert_eq!(
            told,
            [
                ("a.txt", FileAction::Add, "+one\n"),
                ("b.txt", FileAction::Update, "@@\n-x\n+y\n"),
                ("d.txt", FileAction::Delete, "")
            ]
        );
        assert_eq!(changes[1].moved_to.as_deref(), Some("c.txt"));
    }

    #[test]
    fn a_subagents_result_is_told_without_its_frame() {
        let framed = "<task id=\"ses_1\" state=\"completed\">\n<task_result>\nChild result 42\n</task_result>\n</task>";
        assert_eq!(result_of_task(framed), "Child result 42");
        assert_eq!(result_of_task("plain"), "plain");
    }
}
