//! Tool calls: a `tool_use` block and its result become an item.

use super::content;
use crate::{
    diff, mcp,
    rpc::budget,
    rpc::frames::{cut, list, text_of, text_or_empty},
};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus, NativeId,
    item::{FileAction, FileChange},
};
use serde_json::Value;

/// Bytes of a name.
const NAME: usize = 512;
/// Bytes of the input of a todo tool that is remembered until it has ended; of a larger one nothing is told.
const INPUT: usize = 256 * 1024;

/// A tool call.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    /// Its item, as [`item_of`] names it.
    pub(super) item: NativeId,
    pub(super) name: String,
    /// Whether it has an item: a question and a todo list are shown otherwise.
    pub(super) opened: bool,
    pub(super) ended: bool,
    /// Whether it goes on as a task when its result has come.
    pub(super) background: bool,
    /// A person refused it.
    pub(super) declined: bool,
    /// What the item is until it ends.
    content: ItemContent,
    /// Of a todo tool, what it was asked to do.
    pub(super) input: Value,
}

/// The item of a call. Ids of the agent's own service come once; those that another model or a gateway gives (`call_0`) may
/// come again in every message.
pub(super) fn item_of(message: &str, call: &NativeId) -> NativeId {
    if call.as_str().starts_with("toolu_") {
        return call.clone();
    }
    NativeId(format!("{message}#{call}"))
}

/// How a tool call ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ended {
    pub(super) status: ItemStatus,
    pub(super) content: ItemContent,
    /// Words that its item has no place for: why a change to a file failed.
    pub(super) failure: Option<String>,
}

impl Tool {
    /// The call as its block tells it.
    pub(super) fn new(item: NativeId, name: &str, input: &Value, cwd: &str) -> Self {
        let quiet = is_quiet(name);
        Self {
            item,
            name: cut(name, NAME),
            opened: !quiet,
            ended: false,
            background: false,
            declined: false,
            content: opening(name, input, cwd),
            input: match quiet && budget::json(input) <= INPUT {
                true => input.clone(),
                false => Value::Null,
            },
        }
    }

    /// What it is, in words for a person.
    pub(super) fn in_words(&self) -> String {
        const SHOWN: usize = 120;
        match &self.content {
            ItemContent::Subagent { title, .. } => format!("the subagent `{}`", cut(title, SHOWN)),
            ItemContent::Command { command, .. } => {
                format!("the command `{}`", cut(command, SHOWN))
            }
            _ => format!("the tool `{}`", self.name),
        }
    }

    /// What the item is until it ends.
    pub(super) fn content(&self) -> &ItemContent {
        &self.content
    }

    /// The plan's words.
    pub(super) fn plan(&self) -> Option<&str> {
        match &self.content {
            ItemContent::Plan { text, .. } => Some(text.preview()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// Whether it may leave the agent's shell in another directory, as far as its words tell.
    pub(super) fn may_move(&self) -> bool {
        match (&*self.name, &self.content) {
            ("EnterWorktree" | "ExitWorktree", _) => true,
            (_, ItemContent::Command { command, .. }) => moves(command),
            ("PowerShell", ItemContent::Tool { arguments, .. }) => moves(arguments.preview()),
            _ => false,
        }
    }

    /// Whether it has an item that is to be closed.
    pub(super) fn is_open(&self) -> bool {
        self.opened && !self.ended
    }

    /// Bytes that it holds beside itself.
    pub(super) fn weight(&self) -> usize {
        let body = |body: &Body| budget::block(usize::try_from(body.len()).unwrap_or(usize::MAX));
        let content = match &self.content {
            ItemContent::FileChange { changes } => budget::changes(changes),
            ItemContent::Command { command, cwd, .. } => {
                budget::block(command.len()) + budget::block(cwd.len())
            }
            ItemContent::Tool { arguments, .. } => body(arguments) + 2 * NAME,
            ItemContent::Plan { text, .. } => body(text),
            ItemContent::FileSearch { query, .. } | ItemContent::WebSearch { query } => {
                budget::block(query.len())
            }
            _ => NAME,
        };
        let names = budget::block(self.name.len()) + budget::id(Some(&self.item));
        content + names + budget::json(&self.input)
    }

    /// Ends it: what it was. Only what names it is remembered.
    pub(super) fn end(&mut self) -> ItemContent {
        self.ended = true;
        self.background = false;
        self.input = Value::Null;
        let slim = ItemContent::Tool {
            server: None,
            name: String::new(),
            arguments: Body::default(),
            result: Body::default(),
        };
        std::mem::replace(&mut self.content, slim)
    }

    /// Ends it with its result. `told` is what stands beside the result.
    pub(super) fn result(&mut self, block: &Value, told: &Value, interrupted: bool) -> Ended {
        let words = content::texts(block.get("content").unwrap_or(&Value::Null));
        let failed = block.get("is_error") == Some(&Value::Bool(true));
        let status = match (failed, interrupted && !self.declined) {
            (false, _) => ItemStatus::Completed,
            (true, true) => ItemStatus::Interrupted,
            (true, false) if self.declined || was_refused(told, block) => ItemStatus::Declined,
            (true, false) => ItemStatus::Failed,
        };
        let content = self.end();
        let mut failure = None;
        let content = match content {
            ItemContent::Command { command, cwd, .. } => ItemContent::Command {
                command,
                cwd,
                exit_code: exit_code(&words).filter(|_| failed),
                output: Body::inline(words),
                agent_output: None,
                duration_ms: None,
            },
            ItemContent::FileChange { changes } => {
                failure = Some(words).filter(|_| status == ItemStatus::Failed);
                ItemContent::FileChange {
                    changes: made(told.get("tool_use_result")).unwrap_or(changes),
                }
            }
            ItemContent::FileSearch { query, .. } => ItemContent::FileSearch {
                query,
                result: Body::inline(words),
            },
            ItemContent::Subagent { child, title, .. } => ItemContent::Subagent {
                child,
                title,
                result: Body::inline(words),
            },
            ItemContent::Tool {
                server,
                name,
                arguments,
                ..
            } => ItemContent::Tool {
                server,
                name,
                arguments,
                result: Body::inline(words),
            },
            other => other,
        };
        Ended {
            status,
            content,
            failure,
        }
    }

    /// A quiet tool as the item that shows its failure.
    pub(super) fn shown(&self, result: &Value) -> ItemContent {
        ItemContent::Tool {
            server: None,
            name: self.name.clone(),
            arguments: Body::inline(self.input.to_string()),
            result: Body::inline(content::texts(
                result.get("content").unwrap_or(&Value::Null),
            )),
        }
    }
}

/// Tools that are shown by other means than an item of their own, unless they fail.
fn is_quiet(name: &str) -> bool {
    matches!(
        name,
        "AskUserQuestion" | "TodoWrite" | "TaskCreate" | "TaskUpdate" | "TaskGet" | "TaskList"
    )
}

/// JSON as a text that takes no more memory than it has bytes: it is remembered.
fn text_of_json(value: &Value) -> String {
    let mut text = value.to_string();
    text.shrink_to_fit();
    text
}

/// Whether a shell's words name a command that changes its directory.
fn moves(words: &str) -> bool {
    const MOVE: [&str; 7] = [
        "cd",
        "chdir",
        "pushd",
        "popd",
        "set-location",
        "push-location",
        "pop-location",
    ];
    words
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_')))
        .any(|word| MOVE.iter().any(|one| word.eq_ignore_ascii_case(one)))
}

/// The item that a call opens.
fn opening(name: &str, input: &Value, cwd: &str) -> ItemContent {
    match name {
        "Bash" if input.get("command").is_some_and(Value::is_string) => ItemContent::Command {
            command: text_or_empty(input, "command"),
            cwd: cwd.to_owned(),
            output: Body::default(),
            agent_output: None,
            exit_code: None,
            duration_ms: None,
        },
        "Glob" | "Grep" => ItemContent::FileSearch {
            query: text_or_empty(input, "pattern"),
            result: Body::default(),
        },
        "WebSearch" => ItemContent::WebSearch {
            query: text_or_empty(input, "query"),
        },
        "Agent" | "Task" => ItemContent::Subagent {
            child: None,
            title: cut(&text_or_empty(input, "description"), NAME),
            result: Body::default(),
        },
        "ExitPlanMode" => ItemContent::Plan {
            plan: None,
            text: Body::inline(text_or_empty(input, "plan")),
        },
        _ => {
            let changes = changes(name, input);
            if !changes.is_empty() {
                return ItemContent::FileChange { changes };
            }
            let (server, tool) = mcp::tool_of(name);
            ItemContent::Tool {
                server: server.map(|server| cut(server, NAME)),
                name: cut(tool, NAME),
                arguments: Body::inline(text_of_json(input)),
                result: Body::default(),
            }
        }
    }
}

/// The changes to files that a call asks for, as its input says.
pub(super) fn changes(name: &str, input: &Value) -> Vec<FileChange> {
    // By the tool: what it does not read is no path of its own.
    let field = match name {
        "NotebookEdit" => "notebook_path",
        _ => "file_path",
    };
    let Some(path) = text_of(input, field) else {
        return Vec::new();
    };
    let change = |action, diff: String| FileChange {
        path: path.clone(),
        action,
        moved_to: None,
        diff: Body::inline(diff),
    };
    // All edits of one call are compared within the same bound.
    let mut cells = diff::CELLS;
    let mut edit = |edit: &Value| {
        let old = text_of(edit, "old_string")?;
        let new = text_of(edit, "new_string")?;
        Some(diff::unified(&old, &new, &mut cells))
    };
    match name {
        // Whether the file was there is known only afterwards.
        "Write" => text_of(input, "content")
            .map(|content| change(FileAction::Add, content))
            .into_iter()
            .collect(),
        "Edit" => edit(input)
            .map(|diff| change(FileAction::Update, diff))
            .into_iter()
            .collect(),
        "MultiEdit" => {
            let edits: Option<Vec<_>> = list(input, "edits").iter().map(&mut edit).collect();
            edits
                .filter(|edits| !edits.is_empty())
                .map(|edits| change(FileAction::Update, edits.join("\n")))
                .into_iter()
                .collect()
        }
        "NotebookEdit" => text_of(input, "new_source")
            .map(|source| change(FileAction::Update, source))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

/// The change that was made, as the agent tells it beside the result.
fn made(told: Option<&Value>) -> Option<Vec<FileChange>> {
    let told = told?;
    let path = text_of(told, "filePath")?;
    let (action, diff) = match text_of(told, "type").as_deref() {
        Some("create") => (FileAction::Add, text_of(told, "content")?),
        _ => (FileAction::Update, hunks(told)?),
    };
    Some(vec![FileChange {
        path,
        action,
        moved_to: None,
        diff: Body::inline(diff),
    }])
}

/// The hunks of a structured patch as a unified diff.
fn hunks(told: &Value) -> Option<String> {
    let mut diff = String::new();
    for hunk in list(told, "structuredPatch") {
        let number = |key: &str| hunk.get(key).and_then(Value::as_u64);
        diff.push_str(&format!(
            "@@ -{},{} +{},{} @@\n",
            number("oldStart")?,
            number("oldLines")?,
            number("newStart")?,
            number("newLines")?
        ));
        for line in list(hunk, "lines") {
            diff.push_str(line.as_str()?);
            diff.push('\n');
        }
    }
    Some(diff).filter(|diff| !diff.is_empty())
}

/// Whether a person's answer or a rule kept the call from being made.
fn was_refused(told: &Value, result: &Value) -> bool {
    let call = result.get("tool_use_id");
    list(told, "tool_result_meta")
        .iter()
        .filter(|meta| meta.get("id") == call)
        .any(|meta| {
            let refused =
                |kind: &Value| matches!(kind.as_str(), Some("user-rejected" | "permission-rule"));
            meta.get("non_execution_kind").is_some_and(refused)
                || meta
                    .get("permission_decision")
                    .and_then(|decision| text_of(decision, "decision"))
                    .is_some_and(|decision| decision == "reject")
        })
}

/// The exit code with which the words of a failed command begin: `Exit code 1`.
fn exit_code(words: &str) -> Option<i64> {
    let first = words.lines().next()?;
    first.strip_prefix("Exit code ")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A field that the tool does not read cannot stand for the file that it changes.
    #[test]
    fn the_path_of_a_change_is_the_one_that_its_tool_reads() {
        let both = json!({"file_path": "/shown", "notebook_path": "/changed", "new_source": "x",
            "content": "x", "old_string": "a", "new_string": "b"});
        for (name, path) in [
            ("NotebookEdit", "/changed"),
            ("Write", "/shown"),
            ("Edit", "/shown"),
        ] {
            assert_eq!(changes(name, &both)[0].path, path, "{name}");
        }
        let other = json!({"file_path": "/shown", "new_source": "x"});
        assert_eq!(changes("NotebookEdit", &other), []);
    }

    #[test]
    fn a_patch_is_told_as_a_diff_and_a_new_file_whole() {
        let told = json!({"filePath": "/a", "type": "update", "structuredPatch": [
            {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": ["-a", "+b", "+c"]}
        ]});
        let changes = made(Some(&told)).unwrap();
        assert_eq!(
            changes[0].diff,
            Body::inline("@@ -1,1 +1,2 @@\n-a\n+b\n+c\n")
        );
        let told = json!({"filePath": "/a", "type": "create", "content": "x"});
        assert_eq!(made(Some(&told)).unwrap()[0].action, FileAction::Add);
    }
}
