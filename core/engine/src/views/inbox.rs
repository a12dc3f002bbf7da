//! What waits for a person. Every row is checked here again: text against hash, and what may be approved in one tap.

use crate::{
    api::MOST_IN_INBOX,
    rows::{InboxRow, InboxState, SubjectRow},
    shared::{Outstanding, Reading, Shared, refused_answers},
    views::item::change_of,
};
use pilothouse_domain::{
    AgentName, CommandBody, ContentHash, HostId, RequestId, RequestStatus, RuntimeRequest, Subject,
    ThreadId, ThreadSummary, WorkspaceId,
    request::{Respondability, RiskHint},
};
use pilothouse_orchestrator::{assess, masked, reveal_hidden};
use pilothouse_store::StoreError;
use std::collections::BTreeMap;

/// Where a request stands besides its own row.
pub(crate) struct Surroundings<'a> {
    pub(crate) host: HostId,
    pub(crate) host_name: &'a str,
    pub(crate) thread: ThreadId,
    pub(crate) summary: Option<&'a ThreadSummary>,
    /// This device's answer that is on its way.
    pub(crate) sending: Option<&'a Outstanding>,
    /// Why this device's last answer was not taken.
    pub(crate) refused: Option<String>,
    pub(crate) online: bool,
}

/// The rows that wait longest, in that order.
pub(crate) fn build(shared: &Shared, reads: &Reading<'_>) -> Result<Vec<InboxRow>, StoreError> {
    let hosts: BTreeMap<HostId, String> = reads
        .hosts()?
        .into_iter()
        .map(|host| (host.host, host.name))
        .collect();
    let outstanding = reads.outstanding(None)?;
    let refused = refused_answers(&outstanding);
    let mut answers: BTreeMap<RequestId, &Outstanding> = BTreeMap::new();
    for waiting in outstanding.iter().filter(|held| held.is_on_its_way()) {
        if let CommandBody::RequestAnswer { request, .. } = &waiting.command.body {
            answers.entry(*request).or_insert(waiting);
        }
    }
    let mut rows = Vec::new();
    for (host, entry) in reads.inbox(MOST_IN_INBOX)? {
        let summary = reads.summary(host, entry.thread)?;
        let around = Surroundings {
            host,
            host_name: hosts.get(&host).map_or("", String::as_str),
            thread: entry.thread,
            summary: summary.as_ref(),
            sending: answers.get(&entry.request.id).copied(),
            refused: refused.get(&entry.request.id).cloned(),
            online: shared.is_up(host),
        };
        rows.push(row_of(&entry.request, &around));
    }
    Ok(rows)
}

/// By what a row is known.
pub(crate) fn key(row: &InboxRow) -> (HostId, RequestId) {
    (row.host, row.request)
}

/// Whether the host's hash is that of the text it came with.
pub(crate) fn is_verified(request: &RuntimeRequest) -> bool {
    ContentHash::of(&request.subject) == request.content_hash
}

/// One request as a row.
pub(crate) fn row_of(request: &RuntimeRequest, around: &Surroundings<'_>) -> InboxRow {
    let verified = is_verified(request);
    let parsed: Option<Subject> = pilothouse_json::from_str(&request.subject).ok();
    let unreadable = parsed
        .as_ref()
        .is_none_or(|subject| has_unknown_fields(&request.subject, subject));
    let subject = parsed.unwrap_or_default();
    let own = assess(request.kind, &subject, unreadable);
    let mut hints = request.hints.clone();
    for hint in own.hints {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    if !verified && !hints.contains(&RiskHint::NoExactText) {
        hints.push(RiskHint::NoExactText);
    }
    let live = request.respondability == Respondability::Live;
    let one_tap_allowed =
        request.one_tap_allowed && own.one_tap_allowed && verified && !unreadable && live;
    let text = exact_text(&subject, &request.subject, unreadable);
    let shown = reveal_hidden(&text);
    InboxRow {
        host: around.host,
        host_name: around.host_name.to_owned(),
        thread: around.thread,
        thread_title: around
            .summary
            .map(|summary| summary.title.clone())
            .unwrap_or_default(),
        workspace: around.summary.map_or_else(
            || WorkspaceId::from(""),
            |summary| summary.workspace.clone(),
        ),
        agent: around
            .summary
            .map_or_else(|| AgentName::from(""), |summary| summary.agent.clone()),
        request: request.id,
        content_hash: request.content_hash,
        kind: request.kind,
        title: request.title.clone(),
        subject: subject_row(&subject, unreadable),
        raw_subject: request.subject.clone(),
        hidden_revealed: shown != text,
        shown,
        verified,
        one_tap_allowed,
        default_to_no: request.default_to_no || own.default_to_no || !verified || unreadable,
        hints,
        asked_before: request.asked_before,
        opened_at_ms: request.opened_at_ms,
        expires_at_ms: request.expires_at_ms,
        state: state_of(request, &subject, around.sending),
        refused: around.refused.clone(),
        online: around.online,
    }
}

fn state_of(
    request: &RuntimeRequest,
    subject: &Subject,
    sending: Option<&Outstanding>,
) -> InboxState {
    if let RequestStatus::Answering { answer, .. } = &request.status {
        return InboxState::Sending {
            answer: answer.clone(),
            on_host: true,
        };
    }
    match sending.map(|waiting| &waiting.command.body) {
        Some(CommandBody::RequestAnswer { answer, .. }) => InboxState::Sending {
            answer: masked(&subject.questions, answer),
            on_host: false,
        },
        _ => InboxState::Pending,
    }
}

/// Whether the text holds anything that the read subject does not: compared as JSON, so that order does not matter.
fn has_unknown_fields(text: &str, subject: &Subject) -> bool {
    let value = |text: &str| pilothouse_json::from_str::<serde_json::Value>(text).ok();
    let written = serde_json::to_string(subject).ok();
    match (value(text), written.as_deref().and_then(value)) {
        (Some(came), Some(read)) => !is_covered(&came, &read),
        _ => true,
    }
}

/// Whether everything in `came` stands in `read` as well, apart from empty values that are left out when written.
fn is_covered(came: &serde_json::Value, read: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (came, read) {
        (Value::Object(came), Value::Object(read)) => {
            came.iter().all(|(key, value)| match read.get(key) {
                Some(known) => is_covered(value, known),
                None => is_empty(value) && KNOWN_FIELDS.contains(&key.as_str()),
            })
        }
        (Value::Array(came), Value::Array(read)) => {
            came.len() == read.len() && came.iter().zip(read).all(|(c, r)| is_covered(c, r))
        }
        (came, read) => came == read,
    }
}

/// Fields that are left out when empty, so that an empty one that came is not an unknown one.
const KNOWN_FIELDS: &[&str] = &[
    "command",
    "cwd",
    "changes",
    "reach",
    "reason",
    "text",
    "questions",
    "options",
    "incomplete",
    "choices",
    "optional",
    "description",
    "moved_to",
    "dropped",
];

fn is_empty(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn subject_row(subject: &Subject, unreadable: bool) -> SubjectRow {
    SubjectRow {
        command: subject.command.clone(),
        cwd: subject.cwd.clone(),
        changes: subject.changes.iter().map(change_of).collect(),
        reach: subject.reach.clone(),
        reason: subject.reason.clone(),
        text: subject.text.clone(),
        sign_in: subject.sign_in.clone(),
        questions: subject.questions.clone(),
        options: subject.options.clone(),
        incomplete: subject.incomplete,
        unreadable,
    }
}

/// All that would happen, as text. What cannot be read is shown as it came.
fn exact_text(subject: &Subject, raw: &str, unreadable: bool) -> String {
    if unreadable {
        return raw.to_owned();
    }
    let mut parts: Vec<String> = Vec::new();
    parts.extend(subject.command.clone());
    for change in &subject.changes {
        let verb = match change.action {
            pilothouse_domain::item::FileAction::Add => "add",
            pilothouse_domain::item::FileAction::Delete => "delete",
            pilothouse_domain::item::FileAction::Update => "change",
        };
        let target = match &change.moved_to {
            Some(to) => format!("{verb} {} → {to}", change.path),
            None => format!("{verb} {}", change.path),
        };
        parts.push(target);
        if !change.diff.is_empty() {
            parts.push(change.diff.preview().to_owned());
        }
    }
    parts.extend(subject.reach.iter().cloned());
    parts.extend(subject.text.clone());
    for question in &subject.questions {
        parts.push(question.text.clone());
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilothouse_domain::{
        Answer, Command, CommandId, OptionId,
        request::{OptionEffect, Question, QuestionReply},
    };
    use pilothouse_domain::{Incarnation, NodeId, request::RequestKind, request::RequestOption};
    use pilothouse_orchestrator::MASK;

    fn request(subject: &str) -> RuntimeRequest {
        RuntimeRequest {
            id: RequestId::from_bytes([1; 16]),
            run: None,
            node: NodeId::from_bytes([2; 16]),
            item: None,
            kind: RequestKind::Command,
            title: "Run a command".to_owned(),
            subject: subject.to_owned(),
            content_hash: ContentHash::of(subject),
            respondability: Respondability::Live,
            one_tap_allowed: true,
            default_to_no: false,
            hints: Vec::new(),
            asked_before: 0,
            incarnation: Incarnation::from_bytes([3; 16]),
            status: RequestStatus::Pending,
            opened_at_ms: 5,
            expires_at_ms: None,
        }
    }

    fn harmless() -> String {
        let subject = Subject {
            command: Some("ls".to_owned()),
            cwd: Some("/w".to_owned()),
            options: vec![RequestOption {
                id: OptionId::from("accept"),
                label: "Yes".to_owned(),
                effect: OptionEffect::AllowOnce,
                reach: "this once".to_owned(),
            }],
            ..Subject::default()
        };
        serde_json::to_string(&subject).unwrap()
    }

    fn row(request: &RuntimeRequest) -> InboxRow {
        row_of(
            request,
            &Surroundings {
                host: HostId::from_bytes([9; 16]),
                host_name: "studio",
                thread: ThreadId::from_bytes([8; 16]),
                summary: None,
                sending: None,
                refused: None,
                online: true,
            },
        )
    }

    #[test]
    fn a_harmless_request_may_be_approved_in_one_tap() {
        let row = row(&request(&harmless()));
        assert!(row.verified && row.one_tap_allowed && !row.default_to_no);
        assert_eq!(row.shown, "ls");
        assert!(!row.hidden_revealed);
    }

    #[test]
    fn a_text_that_is_not_what_the_hash_is_of_can_not_be_approved() {
        let mut request = request(&harmless());
        request.subject = request.subject.replace("ls", "rm -rf ~");
        let row = row(&request);
        assert!(!row.verified && !row.one_tap_allowed && row.default_to_no);
        assert!(row.hints.contains(&RiskHint::NoExactText));
    }

    #[test]
    fn a_field_that_this_version_does_not_know_forbids_one_tap_at_any_depth() {
        for (known, with_more) in [
            ("\"command\":\"ls\"", "\"sudo\":true,\"command\":\"ls\""),
            ("\"label\":\"Yes\"", "\"label\":\"Yes\",\"then\":\"rm\""),
        ] {
            let row = row(&request(&harmless().replace(known, with_more)));
            assert!(
                row.subject.unreadable && !row.one_tap_allowed,
                "{with_more}"
            );
            assert!(row.hints.contains(&RiskHint::UnknownFields));
        }
        let broken = row(&request("not json"));
        assert!(broken.subject.unreadable && !broken.one_tap_allowed);
        assert_eq!(broken.shown, "not json");
    }

    #[test]
    fn fields_in_another_order_and_empty_known_ones_are_no_surprise() {
        let text = harmless().replacen('{', "{\"reach\":[],\"incomplete\":false,", 1);
        assert!(!row(&request(&text)).subject.unreadable);
    }

    #[test]
    fn a_secret_on_its_way_is_not_shown() {
        let secret = |secret| Question {
            id: "q".to_owned(),
            header: String::new(),
            text: "Password?".to_owned(),
            choices: Vec::new(),
            multi_select: false,
            free_text: true,
            secret,
            optional: false,
        };
        for (is_secret, shown) in [(true, MASK), (false, "hunter2")] {
            let subject = Subject {
                questions: vec![secret(is_secret)],
                ..Subject::default()
            };
            let request = request(&serde_json::to_string(&subject).unwrap());
            let reply = |text: &str| Answer::Reply {
                replies: vec![QuestionReply {
                    question: "q".to_owned(),
                    chosen: Vec::new(),
                    text: Some(text.to_owned()),
                }],
            };
            let waiting = Outstanding {
                host: HostId::from_bytes([9; 16]),
                command: Command {
                    id: CommandId::from_bytes([7; 16]),
                    thread: ThreadId::from_bytes([8; 16]),
                    device_seq: 1,
                    based_on: None,
                    issued_at_ms: 0,
                    body: CommandBody::RequestAnswer {
                        request: request.id,
                        content_hash: request.content_hash,
                        answer: reply("hunter2"),
                    },
                },
                saved_at_ms: 0,
                state: crate::rows::DeliveryState::Saved,
            };
            assert_eq!(
                state_of(&request, &subject, Some(&waiting)),
                InboxState::Sending {
                    answer: reply(shown),
                    on_host: false,
                }
            );
        }
    }

    #[test]
    fn hidden_characters_are_made_visible_and_forbid_one_tap() {
        let text = harmless().replace("\"ls\"", "\"ls \u{202e}x\"");
        let row = row(&request(&text));
        assert_eq!(row.shown, "ls ⟨U+202E⟩x");
        assert!(row.hidden_revealed && !row.one_tap_allowed);
    }

    #[test]
    fn the_hosts_word_against_one_tap_is_never_raised() {
        let mut request = request(&harmless());
        request.one_tap_allowed = false;
        assert!(!row(&request).one_tap_allowed);
    }
}
