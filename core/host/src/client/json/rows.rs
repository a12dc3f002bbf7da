//! Rows of the views as JSON.

use super::Op;
use crate::client::show::live;
use pilothouse_domain::{
    AgentName, ContentHash, HostId, ItemId, ItemStatus, MessageId, Mode, Position, RequestId,
    RunId, RunStatus, Scope, ThreadId, WorkspaceId,
    event::HoldReason,
    item::Anomaly,
    policy::Sandbox,
    provider::AccountLimit,
    request::{Answer, RequestKind, RiskHint},
    row::{ActiveSummary, WaitingCounts},
    run::{BlockedOn, Usage},
    thread::Delivery,
};
use pilothouse_engine::{
    AgentRow, ChangeRow, HostRow, InboxRow, InboxState, LinkState, RequestOutline, RowContent,
    RowText, ThreadCounts, ThreadHeader, ThreadRow, TimelineRow, masked,
};
use serde::Serialize;
use serde_json::{Value, json};

/// `host`
#[derive(Debug, Serialize)]
pub(crate) struct Host<'a> {
    host: HostId,
    name: &'a str,
    addresses: &'a [String],
    link: &'static str,
    unreachable_since_ms: Option<u64>,
    reason: Option<&'a str>,
    last_seen_ms: Option<u64>,
    waiting: WaitingCounts,
    scopes: &'a [Scope],
    agents: Vec<Agent<'a>>,
    workspaces: &'a [WorkspaceId],
    default_mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    direct: Option<Direct<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signed_out: Vec<SignedOut<'a>>,
}

#[derive(Debug, Serialize)]
struct SignedOut<'a> {
    agent: &'a AgentName,
    threads: u64,
    thread: ThreadId,
    sign_in: &'a [String],
    can_sign_in: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Direct<'a> {
    family: &'a str,
    unreached: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
}

#[derive(Debug, Serialize)]
struct Agent<'a> {
    name: &'a AgentName,
    family: &'a str,
    modes: &'a [Mode],
}

impl<'a> From<&'a AgentRow> for Agent<'a> {
    fn from(row: &'a AgentRow) -> Self {
        Self {
            name: &row.name,
            family: &row.family,
            modes: &row.modes,
        }
    }
}

impl<'a> From<&'a HostRow> for Host<'a> {
    fn from(row: &'a HostRow) -> Self {
        let (since, reason) = match &row.link {
            LinkState::Unreachable {
                since_ms, reason, ..
            } => (
                Some(*since_ms),
                Some(reason.as_str()).filter(|reason| !reason.is_empty()),
            ),
            _ => (None, None),
        };
        Self {
            host: row.host,
            name: &row.name,
            addresses: &row.addresses,
            link: match row.link {
                LinkState::Unreachable { .. } => "unreachable",
                LinkState::Reachable => "reachable",
                LinkState::Authenticated => "authenticated",
                LinkState::Synchronised => "synchronised",
                LinkState::Revoked => "revoked",
                LinkState::HeldElsewhere => "held_elsewhere",
            },
            unreachable_since_ms: since,
            reason,
            last_seen_ms: row.last_seen_ms,
            waiting: row.waiting,
            scopes: &row.scopes,
            agents: row.agents.iter().map(Agent::from).collect(),
            workspaces: &row.workspaces,
            default_mode: row.default_mode,
            direct: row.direct.as_ref().map(|direct| Direct {
                family: &direct.family,
                unreached: direct.unreached.as_deref(),
                removed: direct.removed,
            }),
            signed_out: row
                .signed_out
                .iter()
                .map(|row| SignedOut {
                    agent: &row.agent,
                    threads: row.threads,
                    thread: row.thread,
                    sign_in: &row.sign_in,
                    can_sign_in: row.can_sign_in,
                    request: row.request,
                    problem: row.problem.as_deref(),
                })
                .collect(),
        }
    }
}

/// `threads`: what there is beside the page that follows.
#[derive(Debug, Serialize)]
pub(crate) struct Threads {
    all: u64,
    waiting: u64,
    running: u64,
    failed: u64,
    archived: u64,
    outstanding: u32,
    more: bool,
    /// Behind which thread the next page begins.
    next: Option<ThreadId>,
}

impl Threads {
    pub(crate) fn of(counts: &ThreadCounts, more: bool, next: Option<ThreadId>) -> Self {
        Self {
            all: counts.all,
            waiting: counts.waiting,
            running: counts.running,
            failed: counts.failed,
            archived: counts.archived,
            outstanding: counts.outstanding,
            more,
            next,
        }
    }
}

/// `thread`
#[derive(Debug, Serialize)]
pub(crate) struct Thread<'a> {
    thread: ThreadId,
    host: HostId,
    host_name: &'a str,
    title: &'a str,
    workspace: &'a WorkspaceId,
    agent: &'a AgentName,
    mode: Mode,
    /// In what an agent runs that does not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<Sandbox>,
    forked_from: Option<ThreadId>,
    active: Option<ActiveSummary>,
    last_run: Option<LastRun>,
    waiting: WaitingCounts,
    queued: u32,
    held: Option<HoldReason>,
    last_line: &'a str,
    archived: bool,
    pending: bool,
    outstanding: u32,
    created_at_ms: u64,
    updated_at_ms: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct LastRun {
    run: RunId,
    ordinal: u32,
    status: RunStatus,
}

impl From<pilothouse_domain::state::EndedRun> for LastRun {
    fn from(run: pilothouse_domain::state::EndedRun) -> Self {
        Self {
            run: run.id,
            ordinal: run.ordinal,
            status: run.status,
        }
    }
}

impl<'a> From<&'a ThreadRow> for Thread<'a> {
    fn from(row: &'a ThreadRow) -> Self {
        let summary = &row.summary;
        Self {
            thread: summary.thread,
            host: row.host,
            host_name: &row.host_name,
            title: &summary.title,
            workspace: &summary.workspace,
            agent: &summary.agent,
            mode: summary.mode,
            sandbox: summary.sandbox,
            forked_from: summary.lineage.map(|lineage| lineage.parent),
            active: summary.active,
            last_run: summary.last_run.map(LastRun::from),
            waiting: summary.waiting,
            queued: summary.queued,
            held: summary.held,
            last_line: &summary.last_line,
            archived: summary.archived,
            pending: row.pending,
            outstanding: row.outstanding,
            created_at_ms: summary.created_at_ms,
            updated_at_ms: summary.updated_at_ms,
        }
    }
}

/// `request`
#[derive(Debug, Serialize)]
pub(crate) struct Request<'a> {
    request: RequestId,
    host: HostId,
    host_name: &'a str,
    thread: ThreadId,
    thread_title: &'a str,
    workspace: &'a WorkspaceId,
    agent: &'a AgentName,
    kind: RequestKind,
    title: &'a str,
    state: &'static str,
    answer: Option<Value>,
    refused: Option<&'a str>,
    content_hash: ContentHash,
    verified: bool,
    one_tap_allowed: bool,
    default_to_no: bool,
    hints: &'a [RiskHint],
    asked_before: u32,
    opened_at_ms: u64,
    expires_at_ms: Option<u64>,
    online: bool,
    /// The subject, read as JSON; `null` if it is none.
    subject: Option<Value>,
    /// The exact text that `content_hash` is over.
    subject_text: &'a str,
}

impl<'a> From<&'a InboxRow> for Request<'a> {
    fn from(row: &'a InboxRow) -> Self {
        let (state, answer) = match &row.state {
            InboxState::Pending => ("pending", None),
            InboxState::Sending {
                answer,
                on_host: false,
            } => ("sending", Some(answer)),
            InboxState::Sending {
                answer,
                on_host: true,
            } => ("on_host", Some(answer)),
        };
        Self {
            request: row.request,
            host: row.host,
            host_name: &row.host_name,
            thread: row.thread,
            thread_title: &row.thread_title,
            workspace: &row.workspace,
            agent: &row.agent,
            kind: row.kind,
            title: &row.title,
            state,
            answer: answer.map(|answer| answer_of(answer, row)),
            refused: row.refused.as_deref(),
            content_hash: row.content_hash,
            verified: row.verified,
            one_tap_allowed: row.one_tap_allowed,
            default_to_no: row.default_to_no,
            hints: &row.hints,
            asked_before: row.asked_before,
            opened_at_ms: row.opened_at_ms,
            expires_at_ms: row.expires_at_ms,
            online: row.online,
            subject: serde_json::from_str(&row.raw_subject).ok(),
            subject_text: &row.raw_subject,
        }
    }
}

fn answer_of(answer: &Answer, row: &InboxRow) -> Value {
    serde_json::to_value(masked(&row.subject.questions, answer)).unwrap_or(Value::Null)
}

/// `item`
#[derive(Debug, Serialize)]
pub(crate) struct Item {
    op: Op,
    index: u32,
    item: ItemId,
    run: Option<RunId>,
    position: Option<Position>,
    status: ItemStatus,
    pending: bool,
    delivery: Option<Delivery>,
    opened_at_ms: u64,
    closed_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anomaly: Option<Anomaly>,
    content: Value,
    text: Value,
}

impl Item {
    pub(crate) fn new(op: Op, index: u32, row: &TimelineRow) -> Self {
        Self {
            op,
            index,
            item: row.id,
            run: row.run,
            position: row.position,
            status: row.status,
            pending: row.pending,
            delivery: row.delivery.clone(),
            opened_at_ms: row.opened_at_ms,
            closed_at_ms: row.closed_at_ms,
            anomaly: row.anomaly,
            content: content(&row.content),
            text: text(&row.text),
        }
    }
}

/// `item` with `op` = `remove`
#[derive(Debug, Serialize)]
pub(crate) struct Gone {
    op: &'static str,
    index: u32,
}

impl Gone {
    pub(crate) fn at(index: u32) -> Self {
        Self {
            op: "remove",
            index,
        }
    }
}

fn text(text: &RowText) -> Value {
    json!({
        "text": text.text,
        "from": text.from,
        "bytes": text.bytes,
        "tail": text.tail,
        "hash": text.hash,
        "dropped": text.dropped,
    })
}

fn change(change: &ChangeRow) -> Value {
    json!({ "path": change.path, "action": change.action, "moved_to": change.moved_to, "diff": text(&change.diff) })
}

fn outline(asked: Option<&RequestOutline>) -> Value {
    asked.map_or(Value::Null, |asked| json!({ "kind": asked.kind, "title": asked.title, "status": outline_status(asked) }))
}

/// A request's status without the words of an answer: one may be a secret, and the outline does not know which.
fn outline_status(asked: &RequestOutline) -> Value {
    let mut status = serde_json::to_value(&asked.status).unwrap_or(Value::Null);
    if let Some(replies) = status
        .pointer_mut("/answer/replies")
        .and_then(Value::as_array_mut)
    {
        for reply in replies {
            if let Some(reply) = reply.as_object_mut() {
                reply.remove("text");
            }
        }
    }
    status
}

fn content(content: &RowContent) -> Value {
    match content {
        RowContent::UserMessage {
            message,
            attachments,
        } => json!({ "kind": "user_message", "message": message, "attachments": attachments }),
        RowContent::AssistantMessage => json!({ "kind": "assistant_message" }),
        RowContent::Reasoning => json!({ "kind": "reasoning" }),
        RowContent::Command {
            command,
            cwd,
            exit_code,
            duration_ms,
            agent_output,
        } => json!({
            "kind": "command",
            "command": command,
            "cwd": cwd,
            "exit_code": exit_code,
            "duration_ms": duration_ms,
            "agent_output": agent_output.as_ref().map(text),
        }),
        RowContent::FileChange { changes } => {
            json!({ "kind": "file_change", "changes": changes.iter().map(change).collect::<Vec<_>>() })
        }
        RowContent::FileSearch { query } => json!({ "kind": "file_search", "query": query }),
        RowContent::WebSearch { query } => json!({ "kind": "web_search", "query": query }),
        RowContent::Tool {
            server,
            name,
            arguments,
        } => {
            json!({ "kind": "tool", "server": server, "name": name, "arguments": text(arguments) })
        }
        RowContent::Plan => json!({ "kind": "plan" }),
        RowContent::Todo { entries } => json!({ "kind": "todo", "entries": entries }),
        RowContent::Question { request, asked } => {
            json!({ "kind": "question", "request": request, "asked": outline(asked.as_deref()) })
        }
        RowContent::Approval { request, asked } => {
            json!({ "kind": "approval", "request": request, "asked": outline(asked.as_deref()) })
        }
        RowContent::Error {
            code,
            message,
            will_retry,
        } => json!({ "kind": "error", "code": code, "message": message, "will_retry": will_retry }),
        RowContent::Compaction => json!({ "kind": "compaction" }),
        RowContent::Interrupt { note } => json!({ "kind": "interrupt", "note": note }),
        RowContent::Fork { source, run } => {
            json!({ "kind": "fork", "source": source, "run": run })
        }
        RowContent::Rollback { before, runs } => {
            json!({ "kind": "rollback", "before": before, "runs": runs })
        }
        RowContent::Subagent { child, title } => {
            json!({ "kind": "subagent", "child": child, "title": title })
        }
        RowContent::ModelRerouted { from, to } => {
            json!({ "kind": "model_rerouted", "from": from, "to": to })
        }
        RowContent::Unknown { label } => json!({ "kind": "unknown", "label": label }),
    }
}

/// `standing`: how a watched thread stands.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Standing {
    thread: ThreadId,
    host: HostId,
    title: String,
    active: Option<Active>,
    last_run: Option<LastRun>,
    usage: Option<Usage>,
    limits: Vec<AccountLimit>,
    queue: Vec<Queued>,
    queue_revision: u64,
    held: Option<HoldReason>,
    waiting: WaitingCounts,
    outstanding: u32,
    read_only: Option<String>,
    synchronised: bool,
    idle: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Active {
    run: RunId,
    ordinal: Option<u32>,
    status: RunStatus,
    blocked_on: BlockedOn,
    since_ms: Option<u64>,
    interrupting: bool,
    pending: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Queued {
    run: RunId,
    message: MessageId,
    preview: String,
    #[serde(flatten)]
    dispatch: pilothouse_domain::DispatchMode,
    pending: bool,
}

pub(super) fn queued(header: &ThreadHeader) -> Vec<Queued> {
    let one = |row: &pilothouse_engine::QueueRow| Queued {
        run: row.run,
        message: row.message,
        preview: row.preview.clone(),
        dispatch: row.dispatch,
        pending: row.pending,
    };
    header.queue.iter().map(one).collect()
}

impl From<&ThreadHeader> for Standing {
    fn from(header: &ThreadHeader) -> Self {
        Self {
            thread: header.thread,
            host: header.host,
            title: header.title.clone(),
            active: header.active.as_ref().map(|active| Active {
                run: active.run,
                ordinal: active.ordinal,
                status: active.status,
                blocked_on: active.blocked_on,
                since_ms: active.since_ms,
                interrupting: active.interrupting,
                pending: active.pending,
            }),
            last_run: header.last_run.map(LastRun::from),
            usage: header.usage,
            limits: header.limits.clone(),
            queue: queued(header),
            queue_revision: header.queue_revision,
            held: header.held,
            waiting: header.waiting,
            outstanding: header.outstanding,
            read_only: header.read_only.clone(),
            synchronised: header.synchronised,
            idle: live::is_idle(header),
        }
    }
}
