//! What opencode asks of a person: permissions and questions.
//!
//! A field that is not known may matter to what is approved, so it forbids one-tap approval. What cannot be read is still a
//! request, shown as unreadable with the answers that every permission takes.

use super::{conversation::Unsaid, tools};
use crate::rpc::{
    answers::{Answers, Decision},
    asked::Opened,
    frames::{UNREADABLE, cut, has_unknown, list, text_of, text_or_empty, texts},
};
use pilothouse_domain::{
    NativeId, Subject,
    item::FileChange,
    request::{Choice, OptionEffect, Question, RequestKind},
};
use serde_json::{Value, json};

/// Bytes of a text in a subject; of a longer one only the beginning is shown, and it is never approvable in one tap.
const TEXT: usize = 128 * 1024;
/// Questions of one request, and choices of one question; of more the request is shown as incomplete.
const QUESTIONS: usize = 32;
/// Bytes of the rules that an answer grants; it is not offered where they are more than can be shown.
const RULES: usize = 16 * 1024;
/// Patterns that are shown.
const PATTERNS: usize = 64;

/// Option: allows this once.
pub(super) const ONCE: &str = "once";
/// Option: allows this and the like.
pub(super) const ALWAYS: &str = "always";
/// Option: refuses and ends the turn.
pub(super) const REJECT: &str = "reject";
/// Option: refuses with words, and the turn goes on. Sent as `reject` with a message.
pub(super) const REJECT_AND_GO_ON: &str = "reject_and_go_on";
/// What the model is told where the person gives no words.
const GO_ON: &str = "The user refused this. Go on without it.";

/// A permission that is asked for. `item` is the tool's item, `unsaid` what was told there and is not said here.
pub(super) fn permission(
    session: NativeId,
    told: &Value,
    item: Option<NativeId>,
    unsaid: Option<Unsaid>,
) -> Opened {
    let name = text_or_empty(told, "permission");
    let always = texts(told, "always");
    let answers = Answers::Decisions(decisions(&name, &always));
    let metadata = told.get("metadata").filter(|value| value.is_object());
    let (Some(metadata), false) = (metadata, name.is_empty()) else {
        return Opened {
            thread: session,
            turn: None,
            item,
            kind: RequestKind::Unknown,
            subject: Subject {
                reason: Some(
                    "unreadable request: opencode did not say what it asks for".to_owned(),
                ),
                text: Some(cut(&told.to_string(), UNREADABLE)),
                options: answers.options(),
                incomplete: true,
                ..Subject::default()
            },
            unknown_fields: true,
            answers,
        };
    };
    let kind = match name.as_str() {
        "bash" => RequestKind::Command,
        "edit" => RequestKind::FileChange,
        "read" | "glob" | "grep" | "list" => RequestKind::FileRead,
        "external_directory" | "doom_loop" | "webfetch" | "websearch" => RequestKind::Permission,
        _ => RequestKind::Tool,
    };
    let mut subject = Subject {
        options: answers.options(),
        ..Subject::default()
    };
    let patterns: Vec<String> = texts(told, "patterns");
    let known: &[&str] = match kind {
        RequestKind::Command => {
            let command = text_of(metadata, "command");
            subject.cwd = match &unsaid {
                Some(Unsaid::Directory(directory)) => Some(directory.clone()),
                Some(Unsaid::Arguments(_)) | None => None,
            };
            subject.incomplete = command.is_none() || subject.cwd.is_none();
            subject.command = Some(command.unwrap_or_else(|| patterns.join("\n")));
            &["command"]
        }
        RequestKind::FileChange => {
            subject.changes = changes(metadata);
            subject.incomplete = subject.changes.is_empty();
            &["filepath", "diff"]
        }
        _ => &[],
    };
    let rest: serde_json::Map<String, Value> = metadata
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !known.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !matches!(kind, RequestKind::Command | RequestKind::FileChange) {
        subject.incomplete |= patterns.len() > PATTERNS;
        subject.reason = Some(name.clone());
        subject.reach = patterns.into_iter().take(PATTERNS).collect();
    }
    let mut unknown = false;
    if !rest.is_empty() {
        unknown = matches!(kind, RequestKind::Command | RequestKind::FileChange);
        subject.text = serde_json::to_string_pretty(&rest).ok();
    } else if kind == RequestKind::Tool {
        // Of a tool of an MCP server opencode says only the name.
        subject.text = match unsaid {
            Some(Unsaid::Arguments(input)) => Some(input),
            Some(Unsaid::Directory(_)) | None => None,
        };
        subject.incomplete |= subject.text.is_none();
    }
    bound(&mut subject);
    let grants_more = !always.is_empty() && !subject.options.iter().any(|one| one.id.0 == ALWAYS);
    let unknown_fields = unknown
        || grants_more
        || has_unknown(
            told,
            &[&[
                "id",
                "sessionID",
                "permission",
                "patterns",
                "metadata",
                "always",
                "tool",
            ]],
        );
    Opened {
        thread: session,
        turn: None,
        item,
        kind,
        subject,
        unknown_fields,
        answers,
    }
}

/// Shows what a tool is called with, in a request that did not know it yet.
pub(super) fn show_input(subject: &mut Subject, input: &str) {
    subject.text = Some(input.to_owned());
    // Of more patterns than are shown it stays incomplete.
    subject.incomplete = subject.reach.len() >= PATTERNS;
    bound(subject);
}

/// The changes that a permission shows.
pub(super) fn changes(metadata: &Value) -> Vec<FileChange> {
    match (text_of(metadata, "filepath"), text_of(metadata, "diff")) {
        (Some(path), Some(diff)) => vec![tools::of_diff(path, &diff)],
        _ => Vec::new(),
    }
}

/// Cuts what is too long to be shown.
fn bound(subject: &mut Subject) {
    let mut whole = true;
    for text in [&mut subject.command, &mut subject.text]
        .into_iter()
        .flatten()
        .chain(&mut subject.reach)
    {
        if text.len() > TEXT {
            whole = false;
            *text = cut(text, TEXT);
        }
    }
    for change in &mut subject.changes {
        if change.diff.len() as usize > TEXT {
            whole = false;
            change.diff = pilothouse_domain::Body::inline(cut(change.diff.preview(), TEXT));
        }
    }
    subject.incomplete |= !whole;
}

fn decisions(permission: &str, always: &[String]) -> Vec<Decision> {
    let mut decisions = vec![Decision::new(
        ONCE,
        "Allow once",
        OptionEffect::AllowOnce,
        "only this",
        json!({"reply": "once"}),
    )];
    let rules = always.join("`, `");
    if !always.is_empty() && rules.len() <= RULES {
        decisions.push(Decision::new(
            ALWAYS,
            "Allow always",
            OptionEffect::AllowSession,
            &format!(
                "{permission} of `{rules}` in every conversation of this project, until opencode ends"
            ),
            json!({"reply": "always"}),
        ));
    }
    let mut go_on = Decision::new(
        REJECT_AND_GO_ON,
        "Reject all, and go on",
        OptionEffect::DenyAll,
        "refuses this and everything else that this conversation waits for; the model is told and goes on",
        json!({"reply": "reject", "message": GO_ON}),
    );
    go_on.words_at = Some("/message");
    decisions.push(go_on);
    decisions.push(Decision::new(
        REJECT,
        "Reject all, and stop",
        OptionEffect::DenyAndStop,
        "refuses this and everything else that this conversation waits for, and ends the turn",
        json!({"reply": "reject"}),
    ));
    decisions
}

/// Questions that are asked.
pub(super) fn question(session: NativeId, told: &Value, item: Option<NativeId>) -> Opened {
    let asked = list(told, "questions");
    let questions: Vec<Question> = asked
        .iter()
        .take(QUESTIONS)
        .enumerate()
        .map(|(at, one)| Question {
            id: at.to_string(),
            header: cut(&text_or_empty(one, "header"), 1024),
            text: cut(&text_or_empty(one, "question"), TEXT),
            choices: list(one, "options")
                .iter()
                .take(QUESTIONS)
                .map(|option| Choice {
                    label: cut(&text_or_empty(option, "label"), 1024),
                    description: text_of(option, "description").map(|text| cut(&text, TEXT)),
                })
                .collect(),
            multi_select: one.get("multiple") == Some(&Value::Bool(true)),
            optional: false,
            // opencode offers words of one's own unless it says otherwise.
            free_text: one.get("custom") != Some(&Value::Bool(false)),
            secret: false,
        })
        .collect();
    let answers = Answers::Lists(vec![Decision::new(
        REJECT,
        "Dismiss, and stop",
        OptionEffect::DenyAndStop,
        "answers nothing and ends the turn",
        json!({}),
    )]);
    let incomplete = asked.is_empty()
        || asked.len() > QUESTIONS
        || asked
            .iter()
            .any(|one| list(one, "options").len() > QUESTIONS);
    let unknown_fields = has_unknown(told, &[&["id", "sessionID", "questions", "tool"]])
        || asked.iter().any(|one| {
            has_unknown(
                one,
                &[&["question", "header", "options", "multiple", "custom"]],
            )
        });
    Opened {
        thread: session,
        turn: None,
        item,
        kind: RequestKind::UserInput,
        subject: Subject {
            questions,
            options: answers.options(),
            incomplete,
            ..Subject::default()
        },
        unknown_fields,
        answers,
    }
}
