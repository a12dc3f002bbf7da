//! What the agent asks of a person: tools, plans, questions, forms of MCP servers, and dialogs that nobody knows.
//!
//! A field that is not known may matter to what is approved, so it forbids one-tap approval (`unknown_fields`), and so does
//! the agent's own word that a person has to look (`requires_user_interaction`, `default_to_no`). What cannot be read is
//! still shown: the agent waits for it (CASES 14).

use super::{options, tools};
use crate::{
    mcp,
    rpc::{
        answers::{Answers, Decision},
        asked::Opened,
        form,
        frames::{UNREADABLE, cut, has_unknown, list, text_of, text_or_empty},
    },
};
use pilothouse_domain::{
    Body, NativeId, Subject,
    item::FileChange,
    request::{Choice, Question, RequestKind},
};
use serde_json::{Map, Value, json};

/// Bytes of a text in a subject; of a longer one only the beginning is shown, and it is never approvable in one tap.
const TEXT: usize = 128 * 1024;
/// Questions of one request, and choices of one question, that are shown.
const SHOWN: usize = 32;

/// Fields of `can_use_tool` that are shown, or do not matter to what is approved.
const KNOWN: &[&str] = &[
    "subtype",
    "tool_name",
    "mcp_server",
    "input",
    "permission_suggestions",
    "blocked_path",
    "decision_reason",
    "decision_reason_type",
    "decision_reason_code",
    "decision_reason_rule_source",
    "decision_reason_hook_event",
    "decision_reason_hook_source",
    "decision_reason_hook_plugin_id",
    "auto_modes_check_raised",
    "server_policy_ask_only",
    "classifier_approvable",
    "suppress_always_allow_rule",
    "rule_usually_offered",
    "default_to_no",
    "matched_ask_rule",
    "title",
    "display_name",
    "tool_use_id",
    "agent_id",
    "description",
    "requires_user_interaction",
];

/// Reads `can_use_tool`. `tool` is what is known of the call, `cwd` where the agent's shell is; empty if that is not known.
pub(super) fn tool(
    thread: NativeId,
    request: &Value,
    tool: Option<&tools::Tool>,
    cwd: &str,
) -> Opened {
    let name = text_of(request, "tool_name");
    let input = request.get("input").filter(|input| input.is_object());
    let (Some(name), Some(input)) = (name, input) else {
        return unreadable(thread, request);
    };
    let is_set = |flag: &str| request.get(flag) == Some(&Value::Bool(true));
    let item = tool
        .filter(|tool| tool.opened)
        .map(|tool| tool.item.clone());
    let kind = kind(&name, input);
    let mut subject = subject(kind, &name, request, input, tool, cwd);
    let (answers, unknown) = match kind {
        RequestKind::UserInput => {
            let unknown = questions(input, &mut subject);
            let answers = Answers::Within {
                input: input.clone(),
                decisions: options::of_questions(),
            };
            (answers, unknown)
        }
        RequestKind::Plan => (Answers::Decisions(options::of_plan()), false),
        _ => {
            let remember = !is_set("suppress_always_allow_rule");
            let (decisions, unknown) = options::of_tool(request, remember);
            (Answers::Decisions(decisions), unknown)
        }
    };
    subject.options = answers.options();
    // Plans and questions are never answered in one tap.
    let must_look = !matches!(kind, RequestKind::Plan | RequestKind::UserInput)
        && (is_set("requires_user_interaction") || is_set("default_to_no"));
    let somewhere = kind == RequestKind::Command && subject.cwd.is_none();
    Opened {
        thread,
        turn: None,
        item,
        kind,
        subject,
        unknown_fields: unknown || must_look || somewhere || has_unknown(request, &[KNOWN]),
        answers,
    }
}

fn kind(name: &str, input: &Value) -> RequestKind {
    match name {
        "Bash" if input.get("command").is_some_and(Value::is_string) => RequestKind::Command,
        "Read" | "Glob" | "Grep" => RequestKind::FileRead,
        "ExitPlanMode" => RequestKind::Plan,
        "AskUserQuestion" if !list(input, "questions").is_empty() => RequestKind::UserInput,
        _ if !tools::changes(name, input).is_empty() => RequestKind::FileChange,
        _ => RequestKind::Tool,
    }
}

fn subject(
    kind: RequestKind,
    name: &str,
    request: &Value,
    input: &Value,
    tool: Option<&tools::Tool>,
    cwd: &str,
) -> Subject {
    let mut subject = Subject::default();
    let mut whole = true;
    let mut bounded = |text: String| {
        whole &= text.len() <= TEXT;
        cut(&text, TEXT)
    };
    let mut reasons: Vec<String> = ["title", "description", "decision_reason"]
        .into_iter()
        .filter_map(|key| text_of(request, key))
        .filter(|reason| !reason.is_empty())
        .collect();
    reasons.dedup();
    subject.reason = Some(bounded(reasons.join("\n"))).filter(|reason| !reason.is_empty());
    let mut rest = input.as_object().cloned().unwrap_or_default();
    let said = request.get("description");
    if said.is_some() && rest.get("description") == said {
        rest.remove("description");
    }
    let mut texts = Vec::new();
    match kind {
        RequestKind::Command => {
            rest.remove("command");
            subject.command = text_of(input, "command").map(&mut bounded);
            subject.cwd = Some(cwd.to_owned()).filter(|cwd| !cwd.is_empty());
        }
        RequestKind::FileChange => {
            said_by_changes(&mut rest, name);
            let asked = tools::changes(name, input);
            subject.changes = asked
                .into_iter()
                .map(|change| bounded_change(change, &mut bounded))
                .collect();
        }
        RequestKind::Plan => {
            // The request itself holds no plan: its words stand in the block before it.
            rest.remove("plan");
            let plan = text_of(input, "plan").filter(|plan| !plan.is_empty());
            let plan = plan.or_else(|| tool.and_then(tools::Tool::plan).map(str::to_owned));
            subject.incomplete = plan.is_none();
            texts.extend(plan);
        }
        RequestKind::UserInput => {
            rest.remove("questions");
        }
        _ => texts.push(match mcp::tool_of(name) {
            (Some(server), tool) => mcp::call_of(server, tool),
            (None, name) => name.to_owned(),
        }),
    }
    if !rest.is_empty() {
        texts.push(serde_json::to_string_pretty(&rest).unwrap_or_default());
    }
    texts.retain(|text| !text.is_empty());
    subject.text = Some(bounded(texts.join("\n"))).filter(|text| !text.is_empty());
    if let Some(path) = text_of(request, "blocked_path") {
        subject
            .reach
            .push(format!("outside of what is allowed: {}", bounded(path)));
    }
    subject.incomplete |= !whole;
    subject
}

/// Drops what the changes of a call say already.
fn said_by_changes(rest: &mut Map<String, Value>, name: &str) {
    let said: &[&str] = match name {
        "Write" => &["file_path", "content"],
        "Edit" => &["file_path", "old_string", "new_string"],
        "MultiEdit" if rest.get("edits").is_some_and(are_plain) => &["file_path", "edits"],
        "MultiEdit" => &["file_path"],
        "NotebookEdit" => &["notebook_path", "new_source"],
        _ => &[],
    };
    for key in said {
        rest.remove(*key);
    }
    // One place, as the diff shows it.
    if rest.get("replace_all") == Some(&Value::Bool(false)) {
        rest.remove("replace_all");
    }
}

/// Whether a diff says all of each edit.
fn are_plain(edits: &Value) -> bool {
    let is_plain = |edit: &Value| {
        edit.as_object().is_some_and(|fields| {
            fields.iter().all(|(key, value)| match key.as_str() {
                "old_string" | "new_string" => true,
                "replace_all" => *value == Value::Bool(false),
                _ => false,
            })
        })
    };
    edits
        .as_array()
        .is_some_and(|edits| edits.iter().all(is_plain))
}

fn bounded_change(change: FileChange, bounded: &mut impl FnMut(String) -> String) -> FileChange {
    FileChange {
        diff: match change.diff {
            Body::Inline(text) => Body::Inline(bounded(text)),
            stored => stored,
        },
        ..change
    }
}

/// Reads the questions; whether any of it was not known. A question is named by its words: so the agent wants its answers.
fn questions(input: &Value, subject: &mut Subject) -> bool {
    let asked = list(input, "questions");
    let mut unknown = asked.len() > SHOWN;
    for question in asked.iter().take(SHOWN) {
        unknown |= has_unknown(
            question,
            &[&[
                "question",
                "header",
                "options",
                "multiSelect",
                "multi_select",
            ]],
        );
        let Some(text) = text_of(question, "question").filter(|text| {
            !text.is_empty() && subject.questions.iter().all(|known| known.id != *text)
        }) else {
            unknown = true;
            subject.incomplete = true;
            continue;
        };
        let offered = list(question, "options");
        unknown |= offered.len() > SHOWN;
        let choices = offered
            .iter()
            .take(SHOWN)
            .filter_map(|option| {
                let preview = text_of(option, "preview");
                let described = text_of(option, "description");
                Some(Choice {
                    label: text_of(option, "label")?,
                    description: match (described, preview) {
                        (Some(described), Some(preview)) => Some(format!("{described}\n{preview}")),
                        (described, preview) => described.or(preview),
                    },
                })
            })
            .collect();
        subject.questions.push(Question {
            id: text.clone(),
            header: text_or_empty(question, "header"),
            text,
            choices,
            multi_select: question.get("multiSelect") == Some(&Value::Bool(true)),
            optional: false,
            free_text: true,
            secret: false,
        });
    }
    unknown
}

/// The result for answered questions: the input as it came, with the answers beside it, each as one text.
pub(super) fn answered(input: &Value, subject: &Subject, lists: &Value) -> Value {
    let given = lists.get("answers").and_then(Value::as_array);
    let answers: Map<String, Value> = subject
        .questions
        .iter()
        .zip(given.map_or(&[][..], Vec::as_slice))
        .filter_map(|(question, words)| {
            let words: Vec<_> = words.as_array()?.iter().filter_map(Value::as_str).collect();
            (!words.is_empty()).then(|| (question.id.clone(), json!(words.join(", "))))
        })
        .collect();
    let mut input = input.clone();
    if let Value::Object(fields) = &mut input {
        fields.insert("answers".to_owned(), Value::Object(answers));
    }
    json!({"behavior": "allow", "updatedInput": input})
}

/// Reads `elicitation`.
pub(super) fn elicitation(thread: NativeId, request: &Value) -> Opened {
    let server = text_or_empty(request, "mcp_server_name");
    let mut reasons: Vec<String> = ["title", "description", "message"]
        .into_iter()
        .filter_map(|key| text_of(request, key))
        .filter(|words| !words.is_empty())
        .collect();
    if !server.is_empty() {
        reasons.push(format!("asked by the MCP server {server}"));
    }
    let mut subject = Subject {
        reason: Some(cut(&reasons.join("\n"), TEXT)).filter(|reason| !reason.is_empty()),
        ..Subject::default()
    };
    let answers = match text_of(request, "mode").as_deref() {
        Some("url") if request.get("url").is_some_and(Value::is_string) => {
            let url = text_or_empty(request, "url");
            subject.reach.push(format!("open {}", cut(&url, 8 * 1024)));
            Answers::Decisions(form::decisions(Some(form::ACCEPT)))
        }
        None | Some("form") => {
            let schema = request.get("requested_schema").unwrap_or(&Value::Null);
            form::asked(schema, request, &mut subject)
        }
        Some(_) => form::unreadable(request, &mut subject),
    };
    subject.options = answers.options();
    Opened {
        thread,
        turn: None,
        item: None,
        kind: RequestKind::Elicitation,
        unknown_fields: subject.incomplete,
        subject,
        answers,
    }
}

/// A dialog or request of a kind that this version cannot show: that the agent waits is shown all the same.
pub(super) fn unknown(thread: NativeId, subtype: &str, request: &Value) -> Opened {
    let decisions = if subtype == "request_user_dialog" {
        options::dismiss(
            "Dismiss",
            "the agent is told that you closed the dialog",
            json!({"behavior": "cancelled"}),
        )
    } else {
        options::dismiss(
            "Refuse",
            "the agent is told that this cannot be answered here",
            json!({ERROR: "not supported by this client"}),
        )
    };
    open_unknown(
        thread,
        format!(
            "the agent waits for something that this version cannot show ({}); answer it at the host, or dismiss it",
            cut(subtype, 120)
        ),
        request,
        decisions,
    )
}

/// In a result: that it is an error, with these words.
pub(super) const ERROR: &str = "pilothouse/error";

/// A request that cannot be read.
fn unreadable(thread: NativeId, request: &Value) -> Opened {
    let deny = json!({"behavior": "deny", "message": "The request could not be read."});
    open_unknown(
        thread,
        "unreadable request: the agent did not say what it asks for".to_owned(),
        request,
        options::dismiss("Deny", "this is not done", deny),
    )
}

fn open_unknown(
    thread: NativeId,
    reason: String,
    request: &Value,
    decisions: Vec<Decision>,
) -> Opened {
    let answers = Answers::Decisions(decisions);
    Opened {
        thread,
        turn: None,
        item: None,
        kind: RequestKind::Unknown,
        subject: Subject {
            reason: Some(reason),
            text: Some(cut(&request.to_string(), UNREADABLE)),
            options: answers.options(),
            incomplete: true,
            ..Subject::default()
        },
        unknown_fields: true,
        answers,
    }
}
