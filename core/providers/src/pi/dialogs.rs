//! What extensions ask of a person: permissions of our own gate and of omp, and any other dialog as a question.

use super::{
    gate, outgoing,
    tools::{self, Tools},
};
use crate::rpc::{
    answers::{Answers, Decision},
    asked::Opened,
    frames::{UNREADABLE, cut, has_unknown, list, text_of, text_or_empty},
};
use pilothouse_domain::{
    Body, NativeId, Subject,
    item::{FileAction, FileChange},
    request::{Choice, OptionEffect, Question, RequestKind},
};
use serde_json::{Value, json};
use std::time::Duration;

/// Bytes of a text in a subject; of a longer one only the beginning is shown, and it is never approvable in one tap.
const TEXT: usize = 128 * 1024;
/// Choices of one dialog; more are not shown.
const CHOICES: usize = 64;
/// Bytes of a choice's label.
const LABEL: usize = 1024;
/// Arguments of a change to a file that its diff says.
const SAID_BY_CHANGE: &[&str] = &["path", "content", "edits", "oldText", "newText"];
/// The only question of a dialog.
const QUESTION: &str = "value";
/// What omp offers where it asks for permission (omp 18.2.3, recording 03).
const OMP_APPROVE: &str = "Approve";
const OMP_DENY: &str = "Deny";

/// A dialog that is asked.
pub(super) struct Asked {
    pub(super) opened: Opened,
    /// The call that it is about.
    pub(super) call: Option<NativeId>,
}

/// Whether a method of an extension waits for an answer.
pub(super) fn is_dialog(method: &str) -> bool {
    matches!(method, "select" | "confirm" | "input" | "editor")
}

/// How long a dialog waits before the extension goes on without an answer, and without a word; `None` if it waits for ever.
pub(super) fn time(frame: &Value) -> Option<Duration> {
    let milliseconds = frame.get("timeout")?.as_u64()?;
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}

/// Reads a dialog.
pub(super) fn read(home: &NativeId, method: &str, frame: &Value, tools: &mut Tools) -> Asked {
    let title = text_or_empty(frame, "title");
    if method == "input" && title == gate::NAME {
        return permission(home, frame, tools);
    }
    if method == "select"
        && let Some(tool) = omp_tool(&title, frame)
    {
        return omp_permission(home, &title, &tool, frame, tools);
    }
    let mut subject = Subject::default();
    let mut whole = Whole(true);
    let mut reasons = Vec::new();
    if let Some(seconds) = frame.get("timeout").and_then(Value::as_u64) {
        reasons.push(format!(
            "without an answer the extension goes on by itself after {} s",
            seconds.div_ceil(1000)
        ));
    }
    let mut unknown = has_unknown(
        frame,
        &[&[
            "id",
            "method",
            "title",
            "message",
            "options",
            "placeholder",
            "prefill",
            "timeout",
        ]],
    );
    let (kind, answers) = if method == "confirm" {
        let texts = [title, text_or_empty(frame, "message")];
        subject.text = whole.text(texts.join("\n")).filter(|text| !text.is_empty());
        (RequestKind::Permission, Answers::Decisions(confirm()))
    } else {
        let choices = choices(frame);
        unknown |= choices.len() > CHOICES;
        subject.questions = vec![Question {
            id: QUESTION.to_owned(),
            header: String::new(),
            text: whole.text(title).unwrap_or_default(),
            choices: choices
                .into_iter()
                .take(CHOICES)
                .map(|label| Choice {
                    label,
                    description: None,
                })
                .collect(),
            multi_select: false,
            optional: false,
            free_text: method != "select",
            secret: false,
        }];
        let filled = text_of(frame, "prefill").or_else(|| text_of(frame, "placeholder"));
        subject.text = filled
            .and_then(|text| whole.text(text))
            .filter(|text| !text.is_empty());
        (RequestKind::UserInput, Answers::Lists(vec![dismiss()]))
    };
    subject.reason = Some(reasons.join("\n")).filter(|reason| !reason.is_empty());
    subject.incomplete = !whole.0;
    subject.options = answers.options();
    Asked {
        opened: opened(home, kind, subject, unknown, answers),
        call: None,
    }
}

/// Whether all texts were short enough to be shown whole.
struct Whole(bool);

impl Whole {
    fn text(&mut self, text: String) -> Option<String> {
        self.0 &= text.len() <= TEXT;
        Some(cut(&text, TEXT))
    }

    fn change(&mut self, change: FileChange) -> FileChange {
        FileChange {
            diff: match change.diff {
                Body::Inline(text) => Body::Inline(self.text(text).unwrap_or_default()),
                stored => stored,
            },
            ..change
        }
    }
}

fn opened(
    home: &NativeId,
    kind: RequestKind,
    subject: Subject,
    unknown_fields: bool,
    answers: Answers,
) -> Opened {
    Opened {
        thread: home.clone(),
        turn: None,
        item: None,
        kind,
        subject,
        unknown_fields,
        answers,
    }
}

fn choices(frame: &Value) -> Vec<String> {
    list(frame, "options")
        .iter()
        .filter_map(|option| match option {
            Value::String(label) => Some(label.clone()),
            option => text_of(option, "label"),
        })
        .map(|label| cut(&label, LABEL))
        .collect()
}

fn dismiss() -> Decision {
    Decision::new(
        "dismiss",
        "Dismiss",
        OptionEffect::Other,
        "the extension is told that nobody answered",
        outgoing::dismissed(),
    )
}

fn confirm() -> Vec<Decision> {
    let decision = |id, label, effect, reach, yes: bool| {
        Decision::new(id, label, effect, reach, json!({ "confirmed": yes }))
    };
    let asked = "what the extension asks for, this once";
    vec![
        decision("yes", "Yes", OptionEffect::AllowOnce, asked, true),
        decision(
            "no",
            "No",
            OptionEffect::Deny,
            "the extension is told no",
            false,
        ),
    ]
}

/// What our gate asks: the call as pi would run it.
fn permission(home: &NativeId, frame: &Value, tools: &mut Tools) -> Asked {
    let asked = text_of(frame, "placeholder")
        .and_then(|text| crate::rpc::frames::json(&text).ok())
        .filter(|asked| text_of(asked, "tool").is_some());
    let Some(asked) = asked else {
        let answers = Answers::Decisions(decisions("this", None));
        let subject = Subject {
            reason: Some("unreadable request: the gate did not say what it asks for".to_owned()),
            text: Some(cut(&frame.to_string(), UNREADABLE)),
            options: answers.options(),
            incomplete: true,
            ..Subject::default()
        };
        return Asked {
            opened: opened(home, RequestKind::Unknown, subject, true, answers),
            call: None,
        };
    };
    let tool = text_or_empty(&asked, "tool");
    let input = asked.get("input").unwrap_or(&Value::Null);
    let overwrites = asked.get("overwrites") == Some(&Value::Bool(true));
    let call = text_of(&asked, "call").map(NativeId);
    let call = call.filter(|call| tools.get(call).is_some_and(|known| known.name == tool));
    if let Some(call) = call.as_ref().filter(|_| overwrites) {
        tools.overwrites(call);
    }
    let mut whole = Whole(true);
    let mut subject = Subject {
        cwd: text_of(&asked, "cwd"),
        reason: text_of(&asked, "place")
            .and_then(|place| whole.text(format!("the path leads to {place}"))),
        ..Subject::default()
    };
    let mut rest = input.clone();
    let (kind, session) = match tool.as_str() {
        tool if tools::is_shell(tool) => {
            subject.command = text_of(input, "command").and_then(|text| whole.text(text));
            subject.incomplete = subject.command.is_none();
            remove(&mut rest, &["command"]);
            (RequestKind::Command, "this exact command")
        }
        "edit" | "write" => {
            let change = tools::change(&tool, input).map(|mut change| {
                if overwrites {
                    change.action = FileAction::Update;
                }
                whole.change(change)
            });
            if change.is_some() {
                remove(&mut rest, SAID_BY_CHANGE);
            }
            subject.incomplete = change.is_none();
            subject.changes.extend(change);
            (
                RequestKind::FileChange,
                "any change by this tool of the file at this path",
            )
        }
        _ => (RequestKind::Tool, "this tool with exactly these arguments"),
    };
    let mut texts = Vec::new();
    if kind == RequestKind::Tool {
        texts.push(cut(&tool, LABEL));
    }
    texts.extend(unsaid(&rest));
    subject.text = whole.text(texts.join("\n")).filter(|text| !text.is_empty());
    subject.incomplete |= !whole.0;
    // Where it is not known which file it is, nothing is allowed but this once.
    let session = Some(session).filter(|_| asked.get("once") != Some(&Value::Bool(true)));
    let answers = Answers::Decisions(decisions("this", session));
    subject.options = answers.options();
    let unknown = has_unknown(
        &asked,
        &[&[
            "tool",
            "call",
            "input",
            "cwd",
            "overwrites",
            "place",
            "once",
        ]],
    );
    Asked {
        opened: opened(home, kind, subject, unknown, answers),
        call,
    }
}

/// The arguments that are not shown otherwise; `None` if there are none.
fn unsaid(rest: &Value) -> Option<String> {
    let some = rest.as_object().is_none_or(|fields| !fields.is_empty()) && !rest.is_null();
    some.then(|| serde_json::to_string_pretty(rest).unwrap_or_default())
}

fn remove(rest: &mut Value, keys: &[&str]) {
    if let Value::Object(fields) = rest {
        for key in keys {
            fields.remove(*key);
        }
    }
}

/// What can be answered to our gate; `session` says what it would not ask for again.
fn decisions(what: &str, session: Option<&str>) -> Vec<Decision> {
    let mut decisions = vec![Decision::new(
        "allow",
        "Allow",
        OptionEffect::AllowOnce,
        &format!("{what}, this once"),
        json!({"decision": "allow"}),
    )];
    if let Some(session) = session {
        decisions.push(Decision::new(
            "allow_session",
            "Allow for this session",
            OptionEffect::AllowSession,
            &format!("{session}, until pi's process ends"),
            json!({"decision": "allow_session"}),
        ));
    }
    decisions.extend([
        Decision {
            words_at: Some("/reason"),
            ..Decision::new(
                "deny",
                "Deny",
                OptionEffect::Deny,
                "this is not done; the model is told so, with your words",
                json!({"decision": "deny", "reason": null}),
            )
        },
        Decision {
            words_at: Some("/reason"),
            ..Decision::new(
                "deny_stop",
                "Deny and stop",
                OptionEffect::DenyAndStop,
                "this is not done and the turn is stopped",
                json!({"decision": "deny_stop", "reason": null}),
            )
        },
    ]);
    decisions
}

/// The tool for which omp asks permission.
fn omp_tool(title: &str, frame: &Value) -> Option<String> {
    let tool = title.lines().next()?.strip_prefix("Allow tool: ")?;
    (choices(frame) == [OMP_APPROVE, OMP_DENY]).then(|| tool.to_owned())
}

fn omp_permission(home: &NativeId, title: &str, tool: &str, frame: &Value, tools: &Tools) -> Asked {
    let said = title.split_once('\n').map_or("", |(_, said)| said);
    let command = said.strip_prefix("Command: ");
    // Exactly the call that the title names, or none: the title may be cut.
    let call = tools.only(|known| {
        known.name == tool
            && command.is_none_or(|command| {
                known.args.get("command").and_then(Value::as_str) == Some(command)
            })
    });
    let known = call.as_ref().and_then(|call| tools.get(call));
    let mut whole = Whole(true);
    let mut subject = Subject::default();
    let change = known.and_then(|known| tools::change(&known.name, &known.args));
    let mut rest = known.map_or(Value::Null, |known| known.args.clone());
    let kind = match (command, change) {
        (Some(command), _) => {
            subject.incomplete = known.is_none();
            subject.command = whole.text(command.to_owned());
            subject.cwd = text_of(&rest, "cwd");
            if subject.cwd.is_some() {
                remove(&mut rest, &["cwd"]);
            }
            remove(&mut rest, &["command"]);
            RequestKind::Command
        }
        (None, Some(change)) => {
            subject.changes.push(whole.change(change));
            remove(&mut rest, SAID_BY_CHANGE);
            RequestKind::FileChange
        }
        (None, None) => {
            rest = Value::Null;
            subject.text = whole.text(title.to_owned());
            if let Some(known) = known {
                let args = known.args.to_string();
                subject.text = whole.text(format!("{title}\n{args}"));
            }
            subject.incomplete = known.is_none();
            RequestKind::Tool
        }
    };
    if let Some(rest) = unsaid(&rest) {
        subject.text = whole.text(rest);
    }
    subject.incomplete |= !whole.0;
    let answers = Answers::Decisions(vec![
        Decision::new(
            "approve",
            OMP_APPROVE,
            OptionEffect::AllowOnce,
            "this, this once",
            json!({ "value": OMP_APPROVE }),
        ),
        Decision::new(
            "deny",
            OMP_DENY,
            OptionEffect::Deny,
            "this is not done",
            json!({ "value": OMP_DENY }),
        ),
    ]);
    subject.options = answers.options();
    let unknown = has_unknown(frame, &[&["id", "method", "title", "options"]]);
    Asked {
        opened: opened(home, kind, subject, unknown, answers),
        call,
    }
}

/// A person's answer in pi's words: a decision for our gate is a text, and so are words.
pub(super) fn given(result: Value) -> Value {
    if result.get("decision").is_some() {
        return json!({ "value": result.to_string() });
    }
    match list(&result, "answers") {
        [] => result,
        lists => {
            let words: Vec<&str> = lists
                .iter()
                .flat_map(|words| words.as_array().map_or(&[][..], Vec::as_slice))
                .filter_map(Value::as_str)
                .collect();
            json!({ "value": words.join("\n") })
        }
    }
}
