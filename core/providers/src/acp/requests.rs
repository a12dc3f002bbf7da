//! What an agent asks of a person: permissions with the agent's own options, and forms.
//!
//! A field that is not known may matter to what is approved, so it forbids one-tap approval (`unknown_fields`). What
//! cannot be read is still a request, shown as unreadable with whatever options could be read: nothing is left hanging,
//! and one bad request takes no other with it (CASES 16).

use super::{
    content::id_of,
    profile::Quirks,
    told::{self, COMMAND, CWD, PATH},
    tools::Tool,
};
use crate::rpc::{
    answers::{Answers, Decision},
    asked::Opened,
    form,
    frames::{UNREADABLE, cut, has_unknown, list, text_of, text_or_empty},
};
use pilothouse_domain::{
    Body, NativeId, OptionId, Subject,
    item::{FileAction, FileChange},
    request::{OptionEffect, RequestKind},
};
use serde_json::{Map, Value, json};

/// Bytes of a text in a subject; of a longer one only the beginning is shown, and it is never approvable in one tap.
const TEXT: usize = 128 * 1024;
/// Bytes of all texts of a subject; what is beyond is not shown, and it is never approvable in one tap.
const SUBJECT: usize = 512 * 1024;
/// Options of one request; more are not shown.
const OPTIONS: usize = 32;
/// Bytes of an option's label.
const LABEL: usize = 1024;
/// Bytes of an option's id, which goes back as it came.
const OPTION_ID: usize = 1024;
/// Our own way out of a request that offers no refusal.
const CANCELLED: &str = "pilothouse/cancelled";

/// A permission that is asked for.
pub(super) struct Permission {
    pub(super) opened: Opened,
    /// The tool it is about, as far as the request itself tells.
    pub(super) tool: Option<Tool>,
    /// The tool's id.
    pub(super) call: Option<NativeId>,
    /// Whether it names the changes to files itself.
    pub(super) own_changes: bool,
}

/// Reads `session/request_permission`. `known` gives the tool that the request is about, by its id or by what it asks for.
pub(super) fn permission<'t>(
    session: NativeId,
    params: &Value,
    quirks: Quirks,
    known: impl FnOnce(&NativeId, &Tool, &Value) -> Option<&'t Tool>,
) -> Permission {
    let call = params.get("toolCall").filter(|call| call.is_object());
    let id = call.and_then(|call| id_of(call, "toolCallId"));
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
            own_changes: false,
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
        own_changes: !asked.changes.list.is_empty(),
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
        "" if !asked.changes.list.is_empty() => RequestKind::FileChange,
        _ => RequestKind::Tool,
    }
}

/// The plan that a request to leave a planning mode carries.
fn plan(call: &Value) -> Option<String> {
    call.get("rawInput")
        .and_then(|input| text_of(input, "plan"))
}

/// The texts of a subject, cut to what is shown of them.
struct Texts {
    room: usize,
    /// Whether none was cut.
    whole: bool,
}

impl Texts {
    fn new() -> Self {
        Self {
            room: SUBJECT,
            whole: true,
        }
    }

    fn take(&mut self, text: &str, limit: usize) -> String {
        let shown = cut(text, limit.min(self.room));
        self.whole &= shown.len() == text.len();
        self.room -= shown.len();
        shown
    }

    /// Nothing of an empty text.
    fn take_some(&mut self, text: &str) -> Option<String> {
        Some(self.take(text, TEXT)).filter(|text| !text.is_empty())
    }

    fn changes(&mut self, changes: &[FileChange]) -> Vec<FileChange> {
        let shown = changes.iter().map(|change| FileChange {
            path: self.take(&change.path, PATH),
            diff: match &change.diff {
                Body::Inline(text) => Body::Inline(self.take(text, TEXT)),
                stored @ Body::Stored(_) => stored.clone(),
            },
            ..change.clone()
        });
        shown.collect()
    }
}

/// Shows other changes to files in a request.
pub(super) fn show_changes(subject: &mut Subject, changes: &[FileChange]) {
    let mut texts = Texts::new();
    subject.changes = texts.changes(changes);
    subject.incomplete |= !texts.whole || changes.is_empty();
}

fn subject(kind: RequestKind, call: &Value, asked: &Tool, tool: Option<&Tool>) -> Subject {
    let input = call.get("rawInput").unwrap_or(&Value::Null);
    let mut subject = Subject::default();
    let mut shown = Texts::new();
    // Not the remembered ones: those are cut.
    let command = told::command_line(input).filter(|_| kind == RequestKind::Command);
    let cwd = told::cwd(input).filter(|_| kind == RequestKind::Command);
    let own_changes = &asked.changes.list;
    let mut rest = input.clone();
    if let Value::Object(fields) = &mut rest {
        match kind {
            RequestKind::Command => said_elsewhere(fields, command.as_deref(), cwd.as_deref()),
            RequestKind::Plan if plan(call).is_some() => {
                fields.remove("plan");
            }
            RequestKind::FileChange if asked.kind == "edit" && !own_changes.is_empty() => {
                said_by_changes(fields, call, own_changes);
            }
            _ => {}
        }
    }
    let mut reasons: Vec<String> = Vec::new();
    let title = text_or_empty(call, "title");
    if command.as_deref() != Some(title.as_str()) {
        reasons.push(title);
    }
    reasons.extend(told::texts(call));
    reasons.extend(text_of(input, "description").filter(|_| kind == RequestKind::Command));
    reasons.retain(|reason| !reason.is_empty());
    reasons.dedup();
    // What exactly is done comes first, for where there is too much of everything.
    subject.command = command.map(|command| shown.take(&command, TEXT));
    subject.cwd = cwd.map(|cwd| shown.take(&cwd, PATH));
    let mut texts: Vec<String> = Vec::new();
    match kind {
        RequestKind::Command => subject.incomplete = subject.command.is_none(),
        RequestKind::FileChange => {
            let of_tool = tool.filter(|_| own_changes.is_empty());
            let changes = of_tool.map_or(own_changes, |tool| &tool.changes.list);
            let told_whole = asked.is_whole() && of_tool.is_none_or(Tool::is_whole);
            subject.incomplete = changes.is_empty() || !told_whole;
            subject.changes = shown.changes(changes);
            let places = places_of(asked, tool).iter();
            let beside = places.filter(|path| changes.iter().all(|one| one.path != **path));
            texts.extend(beside.map(|path| place(&asked.kind, path)));
        }
        RequestKind::Plan => texts.extend(plan(call)),
        _ => {
            texts.push(title_of(asked, tool));
            let of_tool = tool.filter(|_| asked.places.is_empty());
            subject.incomplete = !asked.is_whole() || of_tool.is_some_and(|tool| !tool.is_whole());
            let places = places_of(asked, tool).iter();
            texts.extend(places.map(|path| place(&asked.kind, path)));
        }
    }
    if kind != RequestKind::FileChange {
        subject.changes = shown.changes(own_changes);
    }
    if rest.as_object().is_none_or(|fields| !fields.is_empty()) && !rest.is_null() {
        texts.push(match rest {
            Value::String(text) => text,
            other => serde_json::to_string_pretty(&other).unwrap_or_default(),
        });
    }
    texts.retain(|text| !text.is_empty());
    subject.text = shown.take_some(&texts.join("\n"));
    subject.reason = shown.take_some(&reasons.join("\n"));
    subject.incomplete |= !shown.whole;
    subject
}

/// Drops of a command's input what is shown as its command, its place or its reason; everything else is still to be shown.
fn said_elsewhere(fields: &mut Map<String, Value>, command: Option<&str>, cwd: Option<&str>) {
    fields.retain(|key, value| {
        let said = match key.as_str() {
            key if COMMAND.contains(&key) => {
                command.is_some() && told::line_of(value).as_deref() == command
            }
            // copilot lists the command again in its parts.
            "commands" => command.is_some_and(|command| *value == json!([command])),
            key if CWD.contains(&key) => value.as_str().is_some_and(|place| {
                // An empty place is none.
                place.is_empty() || Some(place) == cwd
            }),
            "description" => value.is_string(),
            _ => false,
        };
        !said
    });
}

/// Drops of an edit's input what its changes show: the file's path, and the texts of which they are made.
fn said_by_changes(fields: &mut Map<String, Value>, call: &Value, changes: &[FileChange]) {
    let is_text = |text: &str, side: &str| {
        let parts = list(call, "content").iter();
        parts
            .into_iter()
            .any(|part| part.get(side).and_then(Value::as_str) == Some(text))
    };
    fields.retain(|key, value| {
        let text = value.as_str();
        let said = match key.as_str() {
            "path" | "file_path" | "filePath" | "filepath" | "fileName" => {
                text.is_some_and(|path| changes.iter().any(|change| change.path == path))
            }
            "content" | "new_string" | "newString" => {
                text.is_some_and(|text| is_text(text, "newText"))
            }
            "old_string" | "oldString" => text.is_some_and(|text| is_text(text, "oldText")),
            "diff" => text.is_some_and(|diff| is_diff_of(diff, call, changes)),
            // hermes puts them one level deeper.
            "arguments" => {
                if let Value::Object(fields) = &mut *value {
                    said_by_changes(fields, call, changes);
                }
                value.as_object().is_some_and(Map::is_empty)
            }
            _ => false,
        };
        !said
    });
}

/// Whether a unified diff adds and removes exactly the lines that the only change does, and names no other file.
fn is_diff_of(diff: &str, call: &Value, changes: &[FileChange]) -> bool {
    let [change] = changes else { return false };
    let Some(at) = diff.find("@@ ") else {
        return false;
    };
    let (head, hunks) = diff.split_at(at);
    let names_it = head.lines().all(|line| {
        let named = ["Index: ", "--- ", "+++ "].map(|mark| line.strip_prefix(mark));
        let named = named.into_iter().flatten().next();
        line.chars().all(|c| c == '=') || named.is_some_and(|path| path.trim_end() == change.path)
    });
    let changed = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with(['+', '-']));
        lines.map(str::to_owned).collect()
    };
    let shown = match change.action {
        FileAction::Add => {
            let parts = list(call, "content").iter();
            let added = parts
                .filter_map(|part| text_of(part, "newText"))
                .collect::<String>();
            added.lines().map(|line| format!("+{line}")).collect()
        }
        FileAction::Update | FileAction::Delete => changed(change.diff.preview()),
    };
    names_it && changed(hunks) == shown
}

fn title_of(asked: &Tool, tool: Option<&Tool>) -> String {
    if asked.title.is_empty() {
        tool.map(|tool| tool.title.clone()).unwrap_or_default()
    } else {
        asked.title.clone()
    }
}

/// The paths that a request names.
fn places_of<'t>(asked: &'t Tool, tool: Option<&'t Tool>) -> &'t [String] {
    match tool {
        Some(tool) if asked.places.is_empty() => &tool.places,
        _ => &asked.places,
    }
}

/// A path, and what for.
fn place(kind: &str, path: &str) -> String {
    let kind = if kind.is_empty() { "use" } else { kind };
    format!("{kind} {path}")
}

/// The agent's options in its order and its words; whether any of it was not known.
fn decisions(params: &Value, quirks: Quirks) -> (Vec<Decision>, bool) {
    let mut decisions: Vec<Decision> = Vec::new();
    let listed = list(params, "options");
    let mut unknown = listed.len() > OPTIONS;
    for option in listed.iter().take(OPTIONS) {
        let id = text_of(option, "optionId")
            .filter(|id| !id.is_empty() && id.len() <= OPTION_ID && id != CANCELLED);
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
    if !decisions
        .iter()
        .any(|decision| decision.option.effect.denies())
    {
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
            OptionEffect::DenyRule,
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
    let mut shown = Texts::new();
    let message = text_of(params, "message");
    let mut subject = Subject {
        reason: message.map(|text| shown.take(&text, TEXT)),
        ..Subject::default()
    };
    let answers = match text_of(params, "mode").as_deref() {
        Some("form") => {
            let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
            form::asked(schema, params, &mut subject)
        }
        Some("url") => {
            let url = shown.take(&text_or_empty(params, "url"), 8 * 1024);
            subject.reach.push(format!("open {url}"));
            Answers::Decisions(form::decisions(Some(form::ACCEPT)))
        }
        _ => form::unreadable(params, &mut subject),
    };
    subject.options = answers.options();
    let unknown = subject.incomplete;
    subject.incomplete |= !shown.whole;
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
        one.id == *option && (one.effect.denies() || one.effect == OptionEffect::DenyRule)
    })
}
