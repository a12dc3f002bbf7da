//! Codex' items as the timeline's.

use crate::rpc::frames::{self, cut, list, text_of, text_or_empty, texts};
use pilothouse_domain::{
    Body, ItemContent, ItemStatus,
    item::{FileAction, FileChange},
    run::{ErrorCode, RunError},
};
use serde_json::Value;

/// Bytes of an item of an unknown type that are kept.
const UNKNOWN_ITEM: usize = frames::RAW_LIMIT;
/// Characters of a subagent's title.
const TITLE: usize = 200;

/// What an item is. Types that this version does not know are kept verbatim.
pub(crate) fn content(item: &Value) -> ItemContent {
    let text = |key: &str| Body::inline(text_or_empty(item, key));
    match item.get("type").and_then(Value::as_str).unwrap_or("") {
        "userMessage" => ItemContent::UserMessage {
            message: None,
            text: Body::inline(user_text(list(item, "content"))),
            attachments: Vec::new(),
        },
        "agentMessage" => ItemContent::AssistantMessage { text: text("text") },
        "reasoning" => {
            let mut parts = texts(item, "summary");
            parts.extend(texts(item, "content"));
            ItemContent::Reasoning {
                text: Body::inline(parts.join("\n\n")),
            }
        }
        "plan" => ItemContent::Plan {
            plan: None,
            text: text("text"),
        },
        "commandExecution" => ItemContent::Command {
            command: text_or_empty(item, "command"),
            cwd: text_or_empty(item, "cwd"),
            output: text("aggregatedOutput"),
            agent_output: None,
            exit_code: item.get("exitCode").and_then(Value::as_i64),
            duration_ms: item.get("durationMs").and_then(Value::as_u64),
        },
        "fileChange" => ItemContent::FileChange {
            changes: file_changes(item),
        },
        "mcpToolCall" => ItemContent::Tool {
            server: text_of(item, "server"),
            name: text_or_empty(item, "tool"),
            arguments: json_body(item.get("arguments")),
            result: match item.get("error").filter(|error| !error.is_null()) {
                Some(error) => {
                    Body::inline(text_of(error, "message").unwrap_or_else(|| error.to_string()))
                }
                None => mcp_result(item.get("result")),
            },
        },
        "dynamicToolCall" => ItemContent::Tool {
            server: text_of(item, "namespace"),
            name: text_or_empty(item, "tool"),
            arguments: json_body(item.get("arguments")),
            result: json_body(item.get("contentItems")),
        },
        "collabAgentToolCall" if item.get("tool").and_then(Value::as_str) == Some("spawnAgent") => {
            ItemContent::Subagent {
                child: None,
                title: title(&text_or_empty(item, "prompt")),
                result: Body::default(),
            }
        }
        "collabAgentToolCall" => ItemContent::Tool {
            server: Some("agents".to_owned()),
            name: text_or_empty(item, "tool"),
            arguments: Body::inline(text_or_empty(item, "prompt")),
            result: json_body(
                item.get("agentsStates")
                    .filter(|states| states.as_object().is_none_or(|states| !states.is_empty())),
            ),
        },
        "subAgentActivity" => ItemContent::Subagent {
            child: None,
            title: title(&text_or_empty(item, "agentPath")),
            result: text("kind"),
        },
        "webSearch" => ItemContent::WebSearch {
            query: text_or_empty(item, "query"),
        },
        "contextCompaction" => ItemContent::Compaction {
            text: Body::default(),
        },
        "enteredReviewMode" | "exitedReviewMode" => tool("review", text("review")),
        "imageView" => tool("view image", text("path")),
        "imageGeneration" => tool(
            "generate image",
            Body::inline(
                text_of(item, "savedPath").unwrap_or_else(|| text_or_empty(item, "status")),
            ),
        ),
        "sleep" => tool(
            "sleep",
            Body::inline(format!(
                "{} ms",
                item.get("durationMs").and_then(Value::as_u64).unwrap_or(0)
            )),
        ),
        "functionCallOutput" => ItemContent::Tool {
            server: text_of(item, "namespace"),
            name: text_or_empty(item, "name"),
            arguments: Body::default(),
            result: json_body(item.get("output")),
        },
        "hookPrompt" => ItemContent::Tool {
            server: None,
            name: "hook".to_owned(),
            arguments: Body::default(),
            result: Body::inline(
                list(item, "fragments")
                    .iter()
                    .map(|fragment| text_or_empty(fragment, "text"))
                    .collect::<Vec<_>>()
                    .join("\n"),
            ),
        },
        other => ItemContent::Unknown {
            label: cut(&format!("item {other}"), 120),
            raw: Body::inline(cut(&item.to_string(), UNKNOWN_ITEM)),
        },
    }
}

fn tool(name: &str, result: Body) -> ItemContent {
    ItemContent::Tool {
        server: None,
        name: name.to_owned(),
        arguments: Body::default(),
        result,
    }
}

/// How an item ended; `None` while it goes on. Most types carry no status: they ended by being reported as ended.
pub(crate) fn ended_as(item: &Value) -> Option<ItemStatus> {
    match item.get("status").and_then(Value::as_str) {
        Some("inProgress" | "pending" | "running") => None,
        Some("failed" | "errored" | "incomplete") => Some(ItemStatus::Failed),
        Some("declined") => Some(ItemStatus::Declined),
        Some("interrupted") => Some(ItemStatus::Interrupted),
        _ => Some(ItemStatus::Completed),
    }
}

/// The changes of a `fileChange` item or a `patchUpdated` notification.
pub(crate) fn file_changes(value: &Value) -> Vec<FileChange> {
    list(value, "changes")
        .iter()
        .map(|change| {
            let kind = change.get("kind").unwrap_or(&Value::Null);
            FileChange {
                path: text_or_empty(change, "path"),
                action: action(kind),
                moved_to: text_of(kind, "move_path"),
                diff: Body::inline(text_or_empty(change, "diff")),
            }
        })
        .collect()
}

/// The changes of a legacy patch approval: a map by path.
pub(crate) fn legacy_changes(value: &Value) -> Vec<FileChange> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(path, change)| FileChange {
            path: path.clone(),
            action: action(change),
            moved_to: text_of(change, "move_path"),
            diff: Body::inline(
                text_of(change, "unified_diff").unwrap_or_else(|| text_or_empty(change, "content")),
            ),
        })
        .collect()
}

fn action(kind: &Value) -> FileAction {
    match kind.get("type").and_then(Value::as_str) {
        Some("add") => FileAction::Add,
        Some("delete") => FileAction::Delete,
        _ => FileAction::Update,
    }
}

/// What a person said: the texts, and a line for each thing that is not text.
fn user_text(parts: &[Value]) -> String {
    parts
        .iter()
        .map(|part| {
            text_of(part, "text").unwrap_or_else(|| {
                let what = text_or_empty(part, "type");
                match text_of(part, "path").or_else(|| text_of(part, "name")) {
                    Some(name) => format!("[{what}: {name}]"),
                    None => format!("[{what}]"),
                }
            })
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn json_body(value: Option<&Value>) -> Body {
    Body::inline(match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    })
}

/// The texts of an MCP result, or its JSON where it holds anything else.
fn mcp_result(result: Option<&Value>) -> Body {
    let Some(result) = result.filter(|result| !result.is_null()) else {
        return Body::default();
    };
    let content = list(result, "content");
    let parts: Vec<_> = content
        .iter()
        .filter_map(|part| text_of(part, "text"))
        .collect();
    if !parts.is_empty() && parts.len() == content.len() {
        Body::inline(parts.join("\n"))
    } else {
        json_body(Some(result))
    }
}

/// One line for a subagent.
pub(crate) fn title(text: &str) -> String {
    text.lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("subagent")
        .trim()
        .chars()
        .take(TITLE)
        .collect()
}

/// Why a turn failed. `codexErrorInfo` is a word, or an object with the word as its only key.
pub(crate) fn run_error(error: &Value) -> RunError {
    let info = error.get("codexErrorInfo").unwrap_or(&Value::Null);
    let (word, status) = match info {
        Value::String(word) => (word.as_str(), None),
        Value::Object(object) => object.iter().next().map_or(("", None), |(word, inner)| {
            (
                word.as_str(),
                inner.get("httpStatusCode").and_then(Value::as_u64),
            )
        }),
        _ => ("", None),
    };
    let code = match (word, status) {
        ("contextWindowExceeded", _) => ErrorCode::ContextFull,
        ("sessionBudgetExceeded" | "usageLimitExceeded" | "rateLimitExceeded", _) => {
            ErrorCode::Limit
        }
        ("unauthorized", _) | (_, Some(401 | 403)) => ErrorCode::SignIn,
        (_, Some(429)) => ErrorCode::Limit,
        (
            "serverOverloaded"
            | "internalServerError"
            | "httpConnectionFailed"
            | "responseStreamConnectionFailed"
            | "responseStreamDisconnected"
            | "responseTooManyFailedAttempts"
            | "flexUnavailable"
            | "modelNotFound"
            | "policyCapacityUnavailable",
            _,
        ) => ErrorCode::ModelService,
        _ => ErrorCode::Agent,
    };
    let mut message = text_or_empty(error, "message");
    if let Some(details) = text_of(error, "additionalDetails") {
        message = format!("{message} ({details})");
    }
    RunError {
        code,
        message: cut(&message, 4096),
    }
}
