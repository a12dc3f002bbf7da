//! What an agent asks of a person: permissions with the agent's own options, and forms.
//!
//! A field that is not known may matter to what is approved, so it forbids one-tap approval (`unknown_fields`). What
//! cannot be read is still a request, shown as unreadable with whatever options could be read: nothing is left hanging,
//! and one bad request takes no other with it (CASES 16).

use super::{
    profile::Quirks,
    tools::{self, Tool},
};
use crate::rpc::{
    answers::{Answers, Decision},
    asked::Opened,
    form,
    frames::{cut, has_unknown, list, text_of, text_or_empty},
};
use pilothouse_domain::{
    Body, NativeId, OptionId, Subject,
    item::FileChange,
    request::{OptionEffect, RequestKind},
};
use serde_json::{Map, Value, json};

/// Bytes of a text in a subject; of a longer one only the beginning is shown, and it is never approvable in one tap.
const TEXT: usize = 128 * 1024;
/// Bytes of an unreadable request that are shown.
const UNREADABLE: usize = 16 * 1024;
/// Options of one request; more are not shown.
const OPTIONS: usize = 32;
/// Bytes of an option's label.
const LABEL: usize = 1024;
/// Our own way out of a request that offers no refusal.
const CANCELLED: &str = "pilothouse/cancelled";

/// A permission that is asked for.
pub(super) struct Permission {
    pub(super) opened: Opened,
    /// The tool it is about, as far as the request itself tells.
    pub(super) tool: Option<Tool>,
    /// The tool's id.
    pub(super) call: Option<NativeId>,
}

/// Reads `session/request_permission`. `known` gives the tool that the request is about, by its id or by what it asks for.
pub(super) fn permission<'t>(
    session: NativeId,
    params: &Value,
    quirks: Quirks,
    known: impl FnOnce(&NativeId, &Tool, &Value) -> Option<&'t Tool>,
) -> Permission {
    let call = params.get("toolCall").filter(|call| call.is_object());
    let id = call
        .and_then(|call| text_of(call, "toolCallId"))
        .map(NativeId);
    let (decisions, unknown_options) = decisions(params, quirks);
    let (Some(call), Some(id), Some(_)) = (
        call,
        id.clone(),
        params.get("options").filter(|options| options.is_array()),
    ) else {
        return Permission {
            opened: unreadable(session, params, decisions),
            tool: None,
            call: id,
        };
    };
    let mut asked = Tool::new(NativeId(String::new()), None);
    asked.learn(call);
    let tool = known(&id, &asked, call);
    let kind = kind(call, &asked, tool);
    let mut subject = subject(kind, call, &asked, tool);
    let answers = Answers::Decisions(decisions);
    subject.options = answers.options();
    let unknown_fields = unknown_options
        || has_unknown(params, &[&["sessionId", "toolCall", "options", "_meta"]])
        || has_unknown(
            call,
            &[&[
                "toolCallId",
                "title",
                "name",
                "kind",
                "status",
                "content",
                "locations",
                "rawInput",
                "rawOutput",
                "_meta",
            ]],
        )
        || list(call, "content").iter().any(|part| {
            let part = part.get("type").and_then(Value::as_str);
            !matches!(part, Some("content" | "diff" | "terminal"))
        });
    Permission {
        opened: Opened {
            thread: session,
            turn: None,
            item: tool
                .filter(|tool| tool.opened)
                .map(|tool| tool.item.clone()),
            kind,
            subject,
            unknown_fields,
            answers,
        },
        tool: Some(asked),
        call: Some(id),
    }
}

/// A request that cannot be read, with the options that could be.
fn unreadable(session: NativeId, params: &Value, decisions: Vec<Decision>) -> Opened {
    let answers = Answers::Decisions(decisions);
    Opened {
        thread: session,
        turn: None,
        item: None,
        kind: RequestKind::Unknown,
        subject: Subject {
            reason: Some("unreadable request: the agent did not say what it asks for".to_owned()),
            text: Some(cut(&params.to_string(), UNREADABLE)),
            options: answers.options(),
            incomplete: true,
            ..Subject::default()
        },
        unknown_fields: true,
        answers,
    }
}

fn kind(call: &Value, asked: &Tool, tool: Option<&Tool>) -> RequestKind {
    let word = match asked.kind.as_str() {
        "" => tool.map_or("", |tool| tool.kind.as_str()),
        word => word,
    };
    match word {
        "execute" => RequestKind::Command,
        "edit" | "delete" | "move" => RequestKind::FileChange,
        "read" => RequestKind::FileRead,
        "switch_mode" if plan(call).is_some() => RequestKind::Plan,
        "switch_mode" => RequestKind::Permission,
        "" if asked.command.is_some() => RequestKind::Command,
        "" if !asked.changes.is_empty() => RequestKind::FileChange,
        _ => RequestKind::Tool,
    }
}

/// The plan that a request to leave a planning mode carries.
fn plan(call: &Value) -> Option<String> {
    call.get("rawInput")
        .and_then(|input| text_of(input, "plan"))
}

fn subject(kind: RequestKind, call: &Value, asked: &Tool, tool: Option<&Tool>) -> Subject {
    let input = call.get("rawInput").unwrap_or(&Value::Null);
    let mut subject = Subject::default();
    let mut whole = true;
    let mut bounded = |text: String| {
        whole &= text.len() <= TEXT;
        cut(&text, TEXT)
    };
    // Not the remembered ones: those are cut.
    let command = tools::command_line(input).filter(|_| kind == RequestKind::Command);
    let own_changes = tools::changes(call);
    let mut rest = input.clone();
    if let Value::Object(fields) = &mut rest {
        match kind {
            RequestKind::Command => said_elsewhere(fields, command.as_deref()),
            RequestKind::Plan => {
                fields.remove("plan");
            }
            // The changes say the same, and exactly.
            RequestKind::FileChange if !own_changes.is_empty() => fields.clear(),
            _ => {}
        }
    }
    let mut reasons: Vec<String> = Vec::new();
    let title = text_or_empty(call, "title");
    if command.as_deref() != Some(title.as_str()) {
        reasons.push(title);
    }
    reasons.extend(tools::texts(call));
    reasons.extend(text_of(input, "description").filter(|_| kind == RequestKind::Command));
    reasons.retain(|reason| !reason.is_empty());
    reasons.dedup();
    subject.reason = Some(bounded(reasons.join("\n"))).filter(|reason| !reason.is_empty());
    let mut texts: Vec<String> = Vec::new();
    match kind {
        RequestKind::Command => {
            subject.incomplete = command.is_none();
            subject.command = command.map(&mut bounded);
            subject.cwd = tools::cwd(input);
        }
        RequestKind::FileChange => {
            let changes = if own_changes.is_empty() {
                tool.map(|tool| tool.changes.clone()).unwrap_or_default()
            } else {
                own_changes
            };
            subject.incomplete = changes.is_empty();
            subject.changes = changes
                .into_iter()
                .map(|change| bounded_change(change, &mut bounded))
                .collect();
            if subject.changes.is_empty() {
                texts.extend(places(&asked.kind, asked, tool));
            }
        }
        RequestKind::Plan => texts.extend(plan(call)),
        _ => {
            texts.push(title_of(asked, tool));
            texts.extend(places(&asked.kind, asked, tool));
        }
    }
    if rest.as_object().is_none_or(|fields| !fields.is_empty()) && !rest.is_null() {
        texts.push(match rest {
            Value::String(text) => text,
            other => serde_json::to_string_pretty(&other).unwrap_or_default(),
        });
    }
    texts.retain(|text| !text.is_empty());
    subject.text = Some(bounded(texts.join("\n"))).filter(|text| !text.is_empty());
    subject.incomplete |= !whole;
    subject
}

/// Drops what a command's input says twice.
fn said_elsewhere(fields: &mut Map<String, Value>, command: Option<&str>) {
    for key in ["cwd", "workdir", "directory", "description"] {
        if fields.get(key).is_some_and(Value::is_string) {
            fields.remove(key);
        }
    }
    if let Some(command) = command {
        fields.remove("command");
        fields.remove("cmd");
        // copilot lists the command again in its parts.
        if fields.get("commands") == Some(&json!([command])) {
            fields.remove("commands");
        }
    }
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

fn title_of(asked: &Tool, tool: Option<&Tool>) -> String {
    if asked.title.is_empty() {
        tool.map(|tool| tool.title.clone()).unwrap_or_default()
    } else {
        asked.title.clone()
    }
}

/// The paths that a request names, each with what for.
fn places(kind: &str, asked: &Tool, tool: Option<&Tool>) -> Vec<String> {
    let places = if asked.places.is_empty() {
        tool.map(|tool| tool.places.clone()).unwrap_or_default()
    } else {
        asked.places.clone()
    };
    let kind = if kind.is_empty() { "use" } else { kind };
    places
        .into_iter()
        .map(|path| format!("{kind} {path}"))
        .collect()
}

/// The agent's options in its order and its words; whether any of it was not known.
fn decisions(params: &Value, quirks: Quirks) -> (Vec<Decision>, bool) {
    let mut decisions: Vec<Decision> = Vec::new();
    let listed = list(params, "options");
    let mut unknown = listed.len() > OPTIONS;
    for option in listed.iter().take(OPTIONS) {
        let id = text_of(option, "optionId").filter(|id| !id.is_empty() && id != CANCELLED);
        let Some(id) = id.filter(|id| decisions.iter().all(|known| known.option.id.as_str() != id))
        else {
            unknown = true;
            continue;
        };
        unknown |= has_unknown(option, &[&["optionId", "name", "kind", "_meta"]]);
        let kind = text_or_empty(option, "kind");
        let label = text_of(option, "name").filter(|name| !name.is_empty());
        let label = cut(label.as_deref().unwrap_or(&id), LABEL);
        let (effect, reach) = effect(&kind, &decisions, quirks);
        unknown |= effect == OptionEffect::Other;
        let result = json!({"outcome": {"outcome": "selected", "optionId": id}});
        decisions.push(Decision::new(&id, &label, effect, reach, result));
    }
    let refuses = |decision: &Decision| {
        matches!(
            decision.option.effect,
            OptionEffect::Deny | OptionEffect::DenyAndStop
        )
    };
    if !decisions.iter().any(refuses) {
        decisions.push(Decision::new(
            CANCELLED,
            "Refuse",
            OptionEffect::Deny,
            "the agent offers no refusal: it is told that nobody answered",
            cancelled(),
        ));
    }
    (decisions, unknown)
}

/// What an option does as far as the protocol says: its kind is a hint, its name the agent's word.
fn effect(kind: &str, before: &[Decision], quirks: Quirks) -> (OptionEffect, &'static str) {
    let once_already = before
        .iter()
        .any(|decision| decision.option.effect == OptionEffect::AllowOnce);
    match kind {
        "allow_once" if once_already => (
            OptionEffect::Other,
            "another of the agent's ways to allow this once: its name says what else it does",
        ),
        "allow_once" => (OptionEffect::AllowOnce, "this, this once"),
        "allow_always" => (
            OptionEffect::AllowRule,
            "more than this once: how far, only the agent's own words on it say",
        ),
        "reject_once" if quirks.reject_stops => (
            OptionEffect::DenyAndStop,
            "this is not done and the turn is stopped",
        ),
        "reject_once" => (OptionEffect::Deny, "this is not done"),
        "reject_always" => (
            OptionEffect::Deny,
            "this is not done, now and later: how long, only the agent's own words on it say",
        ),
        _ => (
            OptionEffect::Other,
            "the agent's own kind of answer; this version does not know how far it reaches",
        ),
    }
}

/// The answer to a permission request whose turn was stopped.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

/// Reads `elicitation/create`.
pub(super) fn elicitation(session: NativeId, params: &Value, item: Option<NativeId>) -> Opened {
    let mut subject = Subject {
        reason: text_of(params, "message").map(|text| cut(&text, TEXT)),
        ..Subject::default()
    };
    let mut unknown = false;
    let answers = match text_of(params, "mode").as_deref() {
        Some("form") => {
            let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
            let form = form::form(schema, &mut subject.questions);
            unknown = form.is_none();
            subject.incomplete = form.is_none();
            if form.is_none() {
                subject.questions.clear();
                subject.text = Some(cut(&params.to_string(), UNREADABLE));
            }
            // A form without fields only asks whether to go on.
            let accept = subject.questions.is_empty() && !subject.incomplete;
            Answers::Form {
                form: form.unwrap_or_default(),
                decisions: form::decisions(accept),
            }
        }
        Some("url") => {
            subject.reach.push(format!(
                "open {}",
                cut(&text_or_empty(params, "url"), 8 * 1024)
            ));
            Answers::Decisions(form::decisions(true))
        }
        _ => {
            unknown = true;
            subject.incomplete = true;
            subject.text = Some(cut(&params.to_string(), UNREADABLE));
            Answers::Decisions(form::decisions(false))
        }
    };
    subject.options = answers.options();
    Opened {
        thread: session,
        turn: None,
        item,
        kind: RequestKind::Elicitation,
        subject,
        unknown_fields: unknown,
        answers,
    }
}

/// The result that takes an unanswered request back, by its kind.
pub(super) fn withdrawn(opened: &Opened) -> Value {
    if opened.kind == RequestKind::Elicitation {
        json!({"action": "cancel"})
    } else {
        cancelled()
    }
}

/// Whether a person's answer to a permission refuses it.
pub(super) fn refuses(opened: &Opened, option: &OptionId) -> bool {
    opened.subject.options.iter().any(|one| {
        one.id == *option && matches!(one.effect, OptionEffect::Deny | OptionEffect::DenyAndStop)
    })
}
