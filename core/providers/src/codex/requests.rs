//! What codex asks of a person: ten server requests become a [`Subject`] with codex' own options, or are answered at once,
//! so that nothing is left hanging.
//!
//! Each request has its list of known fields. A field beyond it may matter to what is approved, so it forbids one-tap
//! approval (`unknown_fields`).

use super::{elicitation, items, options};
use crate::rpc::{
    answers::{Answers, Decision, shell_line},
    asked::Opened,
    frames::{cut, has_unknown, id_of, list, text_of, text_or_empty, texts},
};
use pilothouse_domain::{
    NativeId, Subject,
    item::FileChange,
    request::{Choice, Question, RequestKind},
};
use serde_json::{Value, json};

/// What to do with a request of codex.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A person is to answer.
    Person(Box<Opened>),
    /// It is answered at once.
    AnswerNow {
        /// With this.
        result: Value,
        /// What happened, for the log.
        remark: String,
    },
    /// It is refused at once.
    Refuse {
        /// In these words.
        message: String,
        /// Whether the frame should be shown as unknown.
        unknown: bool,
    },
}

const PLACE: [&str; 4] = ["threadId", "turnId", "itemId", "startedAtMs"];
const COMMAND: [&str; 11] = [
    "kind",
    "approvalId",
    "environmentId",
    "reason",
    "networkApprovalContext",
    "command",
    "cwd",
    "commandActions",
    "additionalPermissions",
    "proposedExecpolicyAmendment",
    "proposedNetworkPolicyAmendments",
];

/// Reads a request. `changes` gives what stands in a file-change item that was reported before.
pub(crate) fn read(
    method: &str,
    params: &Value,
    changes: impl Fn(&NativeId, &NativeId) -> Option<Vec<FileChange>>,
) -> Asked {
    let opened = match method {
        "item/commandExecution/requestApproval" => command(params),
        "item/fileChange/requestApproval" => file_change(params, changes),
        "item/permissions/requestApproval" => permissions(params),
        "item/tool/requestUserInput" => user_input(params),
        "mcpServer/elicitation/request" => elicitation::read(params),
        "execCommandApproval" => legacy_command(params),
        "applyPatchApproval" => legacy_patch(params),
        "item/tool/call" => {
            let tool = cut(&text_or_empty(params, "tool"), 120);
            return Asked::AnswerNow {
                result: json!({
                    "contentItems": [{"type": "inputText", "text": format!("Pilothouse offers no tool `{tool}`.")}],
                    "success": false,
                }),
                remark: format!("codex called a tool that nobody here offers: `{tool}`"),
            };
        }
        "account/chatgptAuthTokens/refresh" => {
            return Asked::Refuse {
                message: "Pilothouse holds no sign-in of codex; run `codex login` on the host"
                    .to_owned(),
                unknown: false,
            };
        }
        "attestation/generate" => {
            return Asked::Refuse {
                message: "Pilothouse makes no attestation".to_owned(),
                unknown: false,
            };
        }
        _ => {
            return Asked::Refuse {
                message: format!(
                    "Pilothouse does not know the request `{}`",
                    cut(method, 120)
                ),
                unknown: true,
            };
        }
    };
    match opened {
        Some(opened) => Asked::Person(Box::new(opened)),
        None => Asked::Refuse {
            message: format!("Pilothouse could not read the request `{method}`"),
            unknown: true,
        },
    }
}

/// Thread, turn and item as the current requests name them.
pub(crate) fn place(params: &Value) -> Option<(NativeId, Option<NativeId>, Option<NativeId>)> {
    Some((
        id_of(params, "threadId")?,
        id_of(params, "turnId"),
        id_of(params, "itemId"),
    ))
}

fn command(params: &Value) -> Option<Opened> {
    let (thread, turn, item) = place(params)?;
    let mut unknown = has_unknown(params, &[&PLACE, &COMMAND, &["availableDecisions"]]);
    let mut subject = Subject {
        command: text_of(params, "command"),
        cwd: text_of(params, "cwd"),
        reason: text_of(params, "reason"),
        ..Subject::default()
    };
    if let Some(network) = params
        .get("networkApprovalContext")
        .filter(|network| !network.is_null())
    {
        unknown |= has_unknown(network, &[&["host", "protocol"]]);
        subject.reach.push(format!(
            "connect to {} ({})",
            text_or_empty(network, "host"),
            text_or_empty(network, "protocol")
        ));
    }
    if let Some(more) = params
        .get("additionalPermissions")
        .filter(|more| !more.is_null())
    {
        unknown |= reach(more, &mut subject.reach);
    }
    environment(params, &mut subject.reach);
    match text_of(params, "kind").as_deref() {
        None | Some("command") => {}
        Some("humanCommand") => subject.reach.push("a command typed by a person".to_owned()),
        Some("writeStdin") => subject
            .reach
            .push("input for a terminal that runs already".to_owned()),
        Some(other) => {
            subject.reach.push(format!("codex calls it `{other}`"));
            unknown = true;
        }
    }
    subject.incomplete = subject.command.is_none();
    let mut decisions = options::offered(
        params
            .get("availableDecisions")
            .filter(|list| list.is_array()),
    );
    unknown |= decisions.iter().any(Decision::is_unknown);
    options::add_decline(&mut decisions);
    subject.options = decisions
        .iter()
        .map(|decision| decision.option.clone())
        .collect();
    Some(Opened {
        thread,
        turn,
        item,
        kind: RequestKind::Command,
        subject,
        unknown_fields: unknown,
        answers: Answers::Decisions(decisions),
    })
}

fn file_change(
    params: &Value,
    changes: impl Fn(&NativeId, &NativeId) -> Option<Vec<FileChange>>,
) -> Option<Opened> {
    let (thread, turn, item) = place(params)?;
    let changes = item
        .as_ref()
        .and_then(|item| changes(&thread, item))
        .unwrap_or_default();
    let decisions = options::file_change();
    let mut subject = Subject {
        incomplete: changes.is_empty(),
        changes,
        reason: text_of(params, "reason"),
        options: decisions
            .iter()
            .map(|decision| decision.option.clone())
            .collect(),
        ..Subject::default()
    };
    grant_root(params, &mut subject.reach);
    Some(Opened {
        thread,
        turn,
        item,
        kind: RequestKind::FileChange,
        subject,
        unknown_fields: has_unknown(params, &[&PLACE, &["reason", "grantRoot"]]),
        answers: Answers::Decisions(decisions),
    })
}

fn permissions(params: &Value) -> Option<Opened> {
    let (thread, turn, item) = place(params)?;
    let asked = params
        .get("permissions")
        .filter(|asked| asked.is_object())?;
    let mut subject = Subject {
        cwd: text_of(params, "cwd"),
        reason: text_of(params, "reason"),
        ..Subject::default()
    };
    let mut unknown = reach(asked, &mut subject.reach);
    unknown |= has_unknown(
        params,
        &[&PLACE, &["environmentId", "cwd", "reason", "permissions"]],
    );
    environment(params, &mut subject.reach);
    subject.incomplete = subject.reach.is_empty();
    let decisions = options::permissions(asked);
    subject.options = decisions
        .iter()
        .map(|decision| decision.option.clone())
        .collect();
    Some(Opened {
        thread,
        turn,
        item,
        kind: RequestKind::Permission,
        subject,
        unknown_fields: unknown,
        answers: Answers::Decisions(decisions),
    })
}

fn user_input(params: &Value) -> Option<Opened> {
    let (thread, turn, item) = place(params)?;
    let mut unknown = has_unknown(
        params,
        &[&PLACE, &["questions", "isBlocking", "autoResolutionMs"]],
    );
    let questions: Vec<_> = list(params, "questions")
        .iter()
        .map(|question| {
            unknown |= has_unknown(
                question,
                &[&["id", "header", "question", "isOther", "isSecret", "options"]],
            );
            let choices: Vec<_> = list(question, "options")
                .iter()
                .map(|choice| Choice {
                    label: text_or_empty(choice, "label"),
                    description: text_of(choice, "description").filter(|text| !text.is_empty()),
                })
                .collect();
            Question {
                id: text_or_empty(question, "id"),
                header: text_or_empty(question, "header"),
                text: text_or_empty(question, "question"),
                multi_select: false,
                optional: false,
                free_text: choices.is_empty()
                    || question.get("isOther") == Some(&Value::Bool(true)),
                secret: question.get("isSecret") == Some(&Value::Bool(true)),
                choices,
            }
        })
        .collect();
    Some(Opened {
        thread,
        turn,
        item,
        kind: RequestKind::UserInput,
        subject: Subject {
            incomplete: questions.is_empty(),
            questions,
            ..Subject::default()
        },
        unknown_fields: unknown,
        answers: Answers::Questions,
    })
}

fn legacy_command(params: &Value) -> Option<Opened> {
    let words = texts(params, "command");
    let decisions = options::legacy();
    Some(Opened {
        thread: id_of(params, "conversationId")?,
        turn: None,
        item: id_of(params, "callId"),
        kind: RequestKind::Command,
        subject: Subject {
            incomplete: words.is_empty(),
            command: (!words.is_empty()).then(|| shell_line(&words)),
            cwd: text_of(params, "cwd"),
            reason: text_of(params, "reason"),
            options: decisions
                .iter()
                .map(|decision| decision.option.clone())
                .collect(),
            ..Subject::default()
        },
        unknown_fields: has_unknown(
            params,
            &[&[
                "conversationId",
                "callId",
                "approvalId",
                "command",
                "cwd",
                "reason",
                "parsedCmd",
            ]],
        ),
        answers: Answers::Decisions(decisions),
    })
}

fn legacy_patch(params: &Value) -> Option<Opened> {
    let changes = items::legacy_changes(params.get("fileChanges").unwrap_or(&Value::Null));
    let decisions = options::legacy();
    let mut subject = Subject {
        incomplete: changes.is_empty(),
        changes,
        reason: text_of(params, "reason"),
        options: decisions
            .iter()
            .map(|decision| decision.option.clone())
            .collect(),
        ..Subject::default()
    };
    grant_root(params, &mut subject.reach);
    Some(Opened {
        thread: id_of(params, "conversationId")?,
        turn: None,
        item: id_of(params, "callId"),
        kind: RequestKind::ApplyPatch,
        subject,
        unknown_fields: has_unknown(
            params,
            &[&[
                "conversationId",
                "callId",
                "fileChanges",
                "reason",
                "grantRoot",
            ]],
        ),
        answers: Answers::Decisions(decisions),
    })
}

fn grant_root(params: &Value, reach: &mut Vec<String>) {
    if let Some(root) = text_of(params, "grantRoot") {
        reach.push(format!(
            "write anywhere under {root} until the session ends"
        ));
    }
}

fn environment(params: &Value, reach: &mut Vec<String>) {
    if let Some(name) = text_of(params, "environmentId").filter(|name| name != "local") {
        reach.push(format!("in the environment `{name}`, not on this host"));
    }
}

/// Writes out a set of permissions; whether it holds anything that is not known.
fn reach(permissions: &Value, out: &mut Vec<String>) -> bool {
    let mut unknown = has_unknown(permissions, &[&["network", "fileSystem"]]);
    if let Some(network) = permissions.get("network").filter(|value| !value.is_null()) {
        unknown |= has_unknown(network, &[&["enabled"]]);
        if network.get("enabled") != Some(&Value::Bool(false)) {
            out.push("use the network".to_owned());
        }
    }
    let Some(files) = permissions
        .get("fileSystem")
        .filter(|value| !value.is_null())
    else {
        return unknown;
    };
    unknown |= has_unknown(files, &[&["read", "write", "entries", "globScanMaxDepth"]]);
    for access in ["read", "write"] {
        for path in texts(files, access) {
            push_new(out, format!("{access} {path}"));
        }
    }
    for entry in list(files, "entries") {
        unknown |= has_unknown(entry, &[&["path", "access"]]);
        let path = entry.get("path").unwrap_or(&Value::Null);
        let name = match path.get("type").and_then(Value::as_str) {
            Some("path") => text_or_empty(path, "path"),
            Some("glob_pattern") => text_or_empty(path, "pattern"),
            // Codex' own names for places; shown as it writes them.
            _ => path.get("value").unwrap_or(path).to_string(),
        };
        push_new(out, format!("{} {name}", text_or_empty(entry, "access")));
    }
    unknown
}

fn push_new(out: &mut Vec<String>, line: String) {
    if !out.contains(&line) {
        out.push(line);
    }
}
