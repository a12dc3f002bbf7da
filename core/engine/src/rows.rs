//! View rows: plain records with everything that a screen needs, so that no screen asks twice.

use pilothouse_domain::{
    AgentName, AttemptId, BlobHash, CommandId, ContentHash, Cursor, DispatchMode, HostId, ItemId,
    ItemStatus, MessageId, Mode, NodeId, Position, RequestId, RunId, RunStatus, Scope, ThreadId,
    ThreadSummary, WorkspaceId,
    event::HoldReason,
    item::{Anomaly, FileAction, TodoEntry},
    policy::Sandbox,
    provider::AccountLimit,
    request::{Answer, Question, RequestKind, RequestOption, RiskHint, SignInSteps},
    row::WaitingCounts,
    run::{BlockedOn, ErrorCode, Usage},
    state::EndedRun,
    thread::{Attachment, Delivery, Lineage, Selection},
};
use pilothouse_store::ThreadPlace;

/// A paired host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRow {
    /// The host.
    pub host: HostId,
    /// What it calls itself.
    pub name: String,
    /// `host:port`, the one that worked last first.
    pub addresses: Vec<String>,
    /// How the link to it stands.
    pub link: LinkState,
    /// Device time of the last sign of life, Unix ms.
    pub last_seen_ms: Option<u64>,
    /// What waits for a person there.
    pub waiting: WaitingCounts,
    /// What this device may do there, as last told.
    pub scopes: Vec<Scope>,
    /// Agents that a thread can be made with.
    pub agents: Vec<AgentRow>,
    /// Workspaces that a thread can be made in.
    pub workspaces: Vec<WorkspaceId>,
    /// The mode of a thread that names none.
    pub default_mode: Mode,
    /// For an agent that is driven from this device, with no daemon.
    pub direct: Option<DirectRow>,
    /// Agents whose sign-in was refused, by name: one notice each, however many threads wait for it. It goes when a turn of
    /// one of them ends well.
    pub signed_out: Vec<SignedOutRow>,
}

/// An agent whose sign-in was refused (docs/decisions/034).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedOutRow {
    /// The agent.
    pub agent: AgentName,
    /// Its protocol family.
    pub family: String,
    /// Threads that wait for it, at least 1.
    pub threads: u64,
    /// The one of them to try with: what releasing its queue brings through lets the others follow.
    pub thread: ThreadId,
    /// What a person types on the host to sign in: a command, and what is typed into the program it starts, if anything.
    /// Empty where the way is the agent's own and not known.
    pub sign_in: Vec<String>,
    /// Whether it can be signed in from a device, by `thread.sign_in` in `thread`, as far as its family goes.
    pub can_sign_in: bool,
    /// The open request that says how, once that was begun, from whichever device.
    pub request: Option<RequestId>,
    /// Why the last one that was begun in `thread` came to nothing.
    pub problem: Option<String>,
}

/// How an agent of a family is signed in, on its host: Pilothouse never touches a sign-in.
pub(crate) fn signing_in(family: &str) -> &'static [&'static str] {
    match family {
        "codex" => &["codex login"],
        "claude" => &["claude", "/login"],
        "opencode" => &["opencode auth login"],
        "pi" => &["pi", "/login"],
        _ => &[],
    }
}

/// An agent that is driven from this device: see [`crate::DIRECT_LIMITS`]. Its link is always there; whether the agent is, is
/// another matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectRow {
    /// Which server it is, `codex` or `opencode`.
    pub family: String,
    /// Why the agent cannot be reached at the moment, in words; it is tried again by itself. `None`: it can, or nothing was
    /// asked of it yet.
    pub unreached: Option<String>,
    /// It was taken away: its threads can be read, and nothing is sent to it.
    pub removed: bool,
}

/// An agent that a host offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// Its name there.
    pub name: AgentName,
    /// Its protocol family.
    pub family: String,
    /// Modes it can be given.
    pub modes: Vec<Mode>,
    /// For one that does not ask before it acts: in what it may run, the usual one first.
    pub sandboxes: Vec<Sandbox>,
}

/// How the link to a host stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// No connection.
    Unreachable {
        /// Device time since when, Unix ms.
        since_ms: u64,
        /// Device time of the next try, Unix ms, if one is due by itself.
        next_try_ms: Option<u64>,
        /// Why, in words with a next step; empty while the first try is under way.
        reason: String,
    },
    /// Its address answers.
    Reachable,
    /// Both sides have proven who they are.
    Authenticated,
    /// What is shown is what the host has now.
    Synchronised,
    /// The host has revoked this device; nothing is tried any more.
    Revoked,
    /// Another process with the same data directory holds the link; what is shown is what that process has stored.
    HeldElsewhere,
}

/// A line of the list of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRow {
    /// The host.
    pub host: HostId,
    /// The host's name.
    pub host_name: String,
    /// The line itself.
    pub summary: ThreadSummary,
    /// Whether it is only predicted: made on this device, not yet confirmed by its host.
    pub pending: bool,
    /// Commands of this device that wait to be confirmed.
    pub outstanding: u32,
}

impl ThreadRow {
    /// Its place in the list.
    pub fn place(&self) -> ThreadPlace {
        ThreadPlace::of(self.host, &self.summary)
    }
}

/// How many threads there are, on the host of a list's filter or on all, whatever a window shows of them. Threads that
/// are only predicted do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadCounts {
    /// All that are not archived.
    pub all: u64,
    /// Those in which something waits for a person.
    pub waiting: u64,
    /// Those that work without one.
    pub running: u64,
    /// Those whose last run failed.
    pub failed: u64,
    /// Those that are put away.
    pub archived: u64,
    /// Commands of this device that wait to be confirmed.
    pub outstanding: u32,
}

/// An entry of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineRow {
    /// Its id; a predicted one has its message's.
    pub id: ItemId,
    /// Its place, given by the ledger; `None` for what is only predicted.
    pub position: Option<Position>,
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// The node it stands under.
    pub node: Option<NodeId>,
    /// Where it stands.
    pub status: ItemStatus,
    /// What it is.
    pub content: RowContent,
    /// Its main text: words, reasoning, output, result. What [`crate::AppendText`] appends to.
    pub text: RowText,
    /// Host time it was opened, Unix ms; 0 for what is only predicted.
    pub opened_at_ms: u64,
    /// Host time it was closed, Unix ms.
    pub closed_at_ms: Option<u64>,
    /// What its person should know of it, found by the host.
    pub anomaly: Option<Anomaly>,
    /// Whether it is only predicted.
    pub pending: bool,
    /// How far a message of a person got: `Saved` while it is in the outbox; of one that stands in the log only what went
    /// wrong (`Failed`, `Unknown`).
    pub delivery: Option<Delivery>,
}

/// A text that may be held in part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowText {
    /// The part that is held: all of it, or its head, or (of an open item) its tail.
    pub text: String,
    /// Offset of `text` in the whole, UTF-8 bytes.
    pub from: u64,
    /// Size of the whole, UTF-8 bytes.
    pub bytes: u64,
    /// Its last bytes, where `text` is only its head.
    pub tail: Option<String>,
    /// Address of the whole, to be fetched by [`crate::Query::Body`].
    pub hash: Option<BlobHash>,
    /// Bytes that were dropped from its middle for good.
    pub dropped: u64,
}

impl RowText {
    /// Adds streamed text at its offset: what is there already is trimmed, a jump begins a new tail.
    pub fn append(&mut self, at: u64, text: &str) {
        let end = self.from + self.text.len() as u64;
        if at > end {
            self.text.clear();
            self.from = at;
            self.text.push_str(text);
        } else {
            let known = usize::try_from(end - at).unwrap_or(usize::MAX);
            if let Some(new) = text.get(known..) {
                self.text.push_str(new);
            }
        }
        self.bytes = self.bytes.max(self.from + self.text.len() as u64);
    }

    /// Whether `text` is all of it.
    pub fn is_whole(&self) -> bool {
        self.from == 0 && self.bytes == self.text.len() as u64
    }
}

/// What an entry of a timeline is; its main text stands in [`TimelineRow::text`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "fields and cases are those of the domain's `ItemContent`"
)]
pub enum RowContent {
    UserMessage {
        message: Option<MessageId>,
        attachments: Vec<Attachment>,
    },
    AssistantMessage,
    Reasoning,
    Command {
        command: String,
        cwd: String,
        exit_code: Option<i64>,
        duration_ms: Option<u64>,
        agent_output: Option<RowText>,
    },
    FileChange {
        changes: Vec<ChangeRow>,
    },
    FileSearch {
        query: String,
    },
    WebSearch {
        query: String,
    },
    Tool {
        server: Option<String>,
        name: String,
        arguments: RowText,
    },
    Plan,
    Todo {
        entries: Vec<TodoEntry>,
    },
    Question {
        request: RequestId,
        asked: Option<Box<RequestOutline>>,
    },
    Approval {
        request: RequestId,
        asked: Option<Box<RequestOutline>>,
    },
    Error {
        code: ErrorCode,
        message: String,
        will_retry: bool,
    },
    Compaction,
    Interrupt {
        note: String,
    },
    Fork {
        source: ThreadId,
        run: RunId,
    },
    Rollback {
        before: RunId,
        runs: u32,
    },
    Subagent {
        child: Option<NodeId>,
        title: String,
    },
    ModelRerouted {
        from: String,
        to: String,
    },
    Unknown {
        label: String,
    },
}

/// A request as its timeline entry shows it, open or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestOutline {
    /// What kind.
    pub kind: RequestKind,
    /// One line.
    pub title: String,
    /// Where it stands, with who answered what.
    pub status: pilothouse_domain::RequestStatus,
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRow {
    /// Its path as the agent names it.
    pub path: String,
    /// What happens to it.
    pub action: FileAction,
    /// Its new path.
    pub moved_to: Option<String>,
    /// The diff.
    pub diff: RowText,
}

/// How a thread stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadHeader {
    /// The host.
    pub host: HostId,
    /// The thread.
    pub thread: ThreadId,
    /// Its title; empty while nothing is known of the thread.
    pub title: String,
    /// Where it works.
    pub workspace: Option<WorkspaceId>,
    /// What it runs on.
    pub selection: Option<Selection>,
    /// The thread it came from.
    pub lineage: Option<Lineage>,
    /// The run being worked on.
    pub active: Option<ActiveRow>,
    /// The last run that ended.
    pub last_run: Option<EndedRun>,
    /// Tokens of the run being worked on, or of the last one that ended, as far as the agent has counted.
    pub usage: Option<Usage>,
    /// Limits of the account that its agent works with, as it last said.
    pub limits: Vec<AccountLimit>,
    /// Runs that wait, in order, predicted ones last.
    pub queue: Vec<QueueRow>,
    /// The queue's revision, which queue edits name.
    pub queue_revision: u64,
    /// Why the queue does not go on.
    pub held: Option<HoldReason>,
    /// The first of the runs that are being taken back.
    pub rolling_back: Option<RunId>,
    /// Requests that wait for a person here.
    pub waiting: WaitingCounts,
    /// What can be offered now; `None` while the thread's state is not held.
    pub affordances: Option<pilothouse_orchestrator::Affordances>,
    /// Commands of this device on this thread that the host has not confirmed.
    pub outstanding: u32,
    /// Why the thread can only be read, if so.
    pub read_only: Option<String>,
    /// Whether what is shown is what the host has now.
    pub synchronised: bool,
    /// Whether older items than those shown exist; see [`crate::Query::OlderItems`].
    pub older: bool,
    /// The place of the log that rows and state hold at.
    pub cursor: Option<Cursor>,
    /// The state's digest at `cursor`, without predictions.
    pub digest: Option<pilothouse_domain::Digest>,
}

/// The run being worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveRow {
    /// The run.
    pub run: RunId,
    /// Its ordinal; `None` while it is only predicted.
    pub ordinal: Option<u32>,
    /// The attempt that counts.
    pub attempt: Option<AttemptId>,
    /// Where it stands.
    pub status: RunStatus,
    /// What it waits for.
    pub blocked_on: BlockedOn,
    /// Host time it started, Unix ms.
    pub since_ms: Option<u64>,
    /// Whether somebody asked it to stop.
    pub interrupting: bool,
    /// Whether it is only predicted.
    pub pending: bool,
}

/// A run that waits in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    /// The run.
    pub run: RunId,
    /// Its message.
    pub message: MessageId,
    /// Its first line, at most 120 characters; empty where the message is not held.
    pub preview: String,
    /// How it was asked for.
    pub dispatch: DispatchMode,
    /// Whether it is only predicted.
    pub pending: bool,
}

/// A request that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxRow {
    /// The host.
    pub host: HostId,
    /// The host's name.
    pub host_name: String,
    /// The thread.
    pub thread: ThreadId,
    /// The thread's title.
    pub thread_title: String,
    /// Where the thread works.
    pub workspace: WorkspaceId,
    /// The agent that asks.
    pub agent: AgentName,
    /// The request.
    pub request: RequestId,
    /// What an answer must name: the hash the host gave.
    pub content_hash: ContentHash,
    /// What kind.
    pub kind: RequestKind,
    /// One line.
    pub title: String,
    /// The subject, read.
    pub subject: SubjectRow,
    /// The subject as it came, exact UTF-8 JSON.
    pub raw_subject: String,
    /// The text to show in full before approving, with characters that are hidden or pass for others made visible. Not all
    /// that there is: the folder, and a sign-in's page and code, stand in `subject`, and of a diff kept by hash this holds
    /// only the head.
    pub shown: String,
    /// Whether `shown` differs from what was sent, because it held such characters.
    pub hidden_revealed: bool,
    /// Whether what is shown is proven to be what an answer is for: the device's own hash equals the host's. Without,
    /// nothing can be approved.
    pub verified: bool,
    /// Whether one tap outside the app may approve it: the host's word, lowered by this device's own check.
    pub one_tap_allowed: bool,
    /// Whether the safe default is to refuse.
    pub default_to_no: bool,
    /// Why, of host and device together.
    pub hints: Vec<RiskHint>,
    /// How often the agent asked the same before.
    pub asked_before: u32,
    /// Host time it was opened, Unix ms.
    pub opened_at_ms: u64,
    /// Host time it expires, Unix ms.
    pub expires_at_ms: Option<u64>,
    /// Where it stands.
    pub state: InboxState,
    /// Why this device's last answer to it was not taken, if so.
    pub refused: Option<String>,
    /// Whether the host is connected: otherwise an answer is saved and sent later.
    pub online: bool,
}

/// Where a request stands, as far as this device can say. It is never shown as answered before the host said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxState {
    /// Waits for a person.
    Pending,
    /// An answer is on its way.
    Sending {
        /// The answer.
        answer: Answer,
        /// Whether the host has recorded it (from whichever device) and only the agent is still to be told.
        on_host: bool,
    },
}

/// A subject, read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubjectRow {
    /// The exact command line.
    pub command: Option<String>,
    /// Where it would run.
    pub cwd: Option<String>,
    /// Changes it would make.
    pub changes: Vec<ChangeRow>,
    /// What it would reach.
    pub reach: Vec<String>,
    /// The agent's words.
    pub reason: Option<String>,
    /// A plan, or the text of an unknown request.
    pub text: Option<String>,
    /// How to sign the agent in: the page to open, and what to enter there.
    pub sign_in: Option<SignInSteps>,
    /// Questions, in order.
    pub questions: Vec<Question>,
    /// The agent's own options, in its order.
    pub options: Vec<RequestOption>,
    /// Whether the agent's frame held only part of what it asks for.
    pub incomplete: bool,
    /// Whether it could not be read at all, or has parts that this version does not know.
    pub unreadable: bool,
}

/// A command in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// The command.
    pub command: CommandId,
    /// Its host.
    pub host: HostId,
    /// Its thread.
    pub thread: ThreadId,
    /// Its name, e.g. `message.send`.
    pub kind: String,
    /// What it says, at most 120 characters.
    pub preview: String,
    /// The request it answers, if it is an answer.
    pub request: Option<RequestId>,
    /// Device time it was saved, Unix ms.
    pub saved_at_ms: u64,
    /// Device time at which it expires unless it was handed over before, Unix ms.
    pub expires_at_ms: u64,
    /// Where it stands.
    pub state: DeliveryState,
}

/// Where a command in the outbox stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryState {
    /// Saved; not handed over yet.
    Saved,
    /// Handed to a connection; the host has not said what came of it.
    Sent,
    /// The host could not take it just now; it is tried again.
    Waiting {
        /// Why.
        reason: String,
    },
    /// It is not sent by itself any more.
    Parked {
        /// Why, with a next step.
        reason: String,
    },
    /// The host has taken it; what it led to is on its way to this device.
    OnHost,
    /// It waited too long and was never sent. It stays here until it is discarded, or for a day.
    Expired,
    /// The host did not take it. It stays here for a day.
    Refused {
        /// Why, with a next step.
        reason: String,
    },
}
