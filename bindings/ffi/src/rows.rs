//! Rows of lists: hosts, threads, what waits, what is on its way.

use pilothouse_domain::{
    AgentName, Answer, AttemptId, CommandId, ContentHash, DispatchMode, HostId, ItemId, MessageId,
    Mode, RequestId, RunId, RunStatus, Scope as Grant, ThreadId, WorkspaceId,
    event::HoldReason,
    policy::Sandbox,
    provider::AccountLimit,
    request::{Question, RequestKind, RequestOption, RiskHint, SignInSteps},
    row::WaitingCounts,
    run::{BlockedOn, Usage},
    thread::Selection,
};
use pilothouse_engine::{
    ActiveRow, AgentRow, ChangeRow, DeliveryRow, DeliveryState, DirectRow, HostRow, InboxRow,
    InboxState, LinkState, QueueRow, SignedOutRow, SubjectRow,
};

/// A paired host.
#[uniffi::remote(Record)]
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
    pub scopes: Vec<Grant>,
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
    #[uniffi(default = [])]
    pub signed_out: Vec<SignedOutRow>,
}

/// An agent whose sign-in was refused.
#[uniffi::remote(Record)]
pub struct SignedOutRow {
    /// The agent.
    pub agent: AgentName,
    /// Its protocol family.
    pub family: String,
    /// Threads that wait for it, at least 1.
    pub threads: u64,
    /// The one of them to try with: releasing its queue lets it try, and the others follow once it gets through.
    pub thread: ThreadId,
    /// What a person types on the host to sign in: a command, and what is typed into the program it starts, if anything.
    /// Empty where the way is the agent's own and not known.
    pub sign_in: Vec<String>,
    /// Whether it can be signed in from a device, by `CommandBody.ThreadSignIn` in `thread`, as far as its family goes.
    #[uniffi(default = false)]
    pub can_sign_in: bool,
    /// The open request that says how, once that was begun, from whichever device.
    #[uniffi(default = None)]
    pub request: Option<RequestId>,
    /// Why the last one that was begun in `thread` came to nothing.
    #[uniffi(default = None)]
    pub problem: Option<String>,
}

/// An agent that is driven from this device, with no daemon: no checkpoints of files, no wake-up, on this device only, and only
/// while this program runs.
#[uniffi::remote(Record)]
pub struct DirectRow {
    /// Which server it is, `codex` or `opencode`.
    pub family: String,
    /// Why the agent cannot be reached at the moment; it is tried again by itself. `null`: it can, or nothing was asked of it yet.
    pub unreached: Option<String>,
    /// It was taken away: its threads can be read, and nothing is sent to it.
    pub removed: bool,
}

/// An agent that a host offers.
#[uniffi::remote(Record)]
pub struct AgentRow {
    /// Its name there.
    pub name: AgentName,
    /// Its protocol family.
    pub family: String,
    /// Modes it can be given.
    pub modes: Vec<Mode>,
    /// For one that does not ask before it acts: in what it may run, the usual one first.
    #[uniffi(default = [])]
    pub sandboxes: Vec<Sandbox>,
}

/// How the link to a host stands.
#[uniffi::remote(Enum)]
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

/// The run being worked on.
#[uniffi::remote(Record)]
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
#[uniffi::remote(Record)]
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
#[uniffi::remote(Record)]
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
#[uniffi::remote(Enum)]
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
#[uniffi::remote(Record)]
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
    #[uniffi(default = None)]
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
#[uniffi::remote(Record)]
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
#[uniffi::remote(Enum)]
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

/// A thread in a list.
#[derive(Debug, Clone, uniffi::Record)]
pub struct ThreadRow {
    /// Its host.
    pub host: HostId,
    /// The host's name.
    pub host_name: String,
    /// The thread.
    pub thread: ThreadId,
    /// Its title.
    pub title: String,
    /// Where it works.
    pub workspace: WorkspaceId,
    /// Its agent.
    pub agent: AgentName,
    /// What the agent may do without asking.
    pub mode: Mode,
    /// Its agent does not ask before it acts, and runs in this; `null` for one that asks.
    pub sandbox: Option<Sandbox>,
    /// The thread it came from.
    pub forked_from: Option<ThreadId>,
    /// Status of the run being worked on.
    pub status: Option<RunStatus>,
    /// What that run waits for.
    pub blocked_on: BlockedOn,
    /// Host time that run started, Unix ms.
    pub active_since_ms: Option<u64>,
    /// How the last run ended.
    pub last_status: Option<RunStatus>,
    /// What waits for a person.
    pub waiting: WaitingCounts,
    /// Runs in the queue.
    pub queued: u32,
    /// Why the queue does not go on.
    pub held: Option<HoldReason>,
    /// Last line of the agent's last words, at most 120 characters.
    pub last_line: String,
    /// Whether it is put away.
    pub archived: bool,
    /// Host time it was made, Unix ms.
    pub created_at_ms: u64,
    /// Host time of its last change, Unix ms.
    pub updated_at_ms: u64,
    /// Whether it is only predicted: its `ThreadCreate` is in the outbox.
    pub pending: bool,
    /// Commands for it in the outbox.
    pub outstanding: u32,
}

impl From<pilothouse_engine::ThreadRow> for ThreadRow {
    fn from(row: pilothouse_engine::ThreadRow) -> Self {
        let summary = row.summary;
        Self {
            host: row.host,
            host_name: row.host_name,
            thread: summary.thread,
            title: summary.title,
            workspace: summary.workspace,
            agent: summary.agent,
            mode: summary.mode,
            sandbox: summary.sandbox,
            forked_from: summary.lineage.map(|lineage| lineage.parent),
            status: summary.active.map(|active| active.status),
            blocked_on: summary
                .active
                .map_or(BlockedOn::None, |active| active.blocked_on),
            active_since_ms: summary.active.map(|active| active.since_ms),
            last_status: summary.last_run.map(|run| run.status),
            waiting: summary.waiting,
            queued: summary.queued,
            held: summary.held,
            last_line: summary.last_line,
            archived: summary.archived,
            created_at_ms: summary.created_at_ms,
            updated_at_ms: summary.updated_at_ms,
            pending: row.pending,
            outstanding: row.outstanding,
        }
    }
}

/// What stands above a timeline.
#[derive(Debug, Clone, uniffi::Record)]
pub struct ThreadHeader {
    /// Its host.
    pub host: HostId,
    /// The thread.
    pub thread: ThreadId,
    /// Its title.
    pub title: String,
    /// Where it works.
    pub workspace: Option<WorkspaceId>,
    /// What it runs on.
    pub selection: Option<Selection>,
    /// The thread it came from.
    pub forked_from: Option<ThreadId>,
    /// The run being worked on.
    pub active: Option<ActiveRow>,
    /// How the last run ended.
    pub last_status: Option<RunStatus>,
    /// Tokens of the run being worked on, or of the last one that ended.
    pub usage: Option<Usage>,
    /// Limits of the account that its agent works with, as it last said.
    pub limits: Vec<AccountLimit>,
    /// Runs that wait, in order.
    pub queue: Vec<QueueRow>,
    /// The queue's revision, for edits.
    pub queue_revision: u64,
    /// Why the queue does not go on.
    pub held: Option<HoldReason>,
    /// The last run that ended and stands: what a rollback names as seen.
    pub last_run: Option<RunId>,
    /// The first of the runs that are being taken back.
    pub rolling_back: Option<RunId>,
    /// What waits for a person.
    pub waiting: WaitingCounts,
    /// What can be done now; `null` while the thread is not held on this device.
    pub affordances: Option<Affordances>,
    /// Commands for it in the outbox.
    pub outstanding: u32,
    /// Why it is read-only: it holds events of a newer version.
    pub read_only: Option<String>,
    /// Whether what is shown is the host's latest.
    pub synchronised: bool,
    /// Whether older items exist than those shown.
    pub older: bool,
}

impl From<pilothouse_engine::ThreadHeader> for ThreadHeader {
    fn from(header: pilothouse_engine::ThreadHeader) -> Self {
        Self {
            host: header.host,
            thread: header.thread,
            title: header.title,
            workspace: header.workspace,
            selection: header.selection,
            forked_from: header.lineage.map(|lineage| lineage.parent),
            active: header.active,
            last_status: header.last_run.map(|run| run.status),
            usage: header.usage,
            limits: header.limits,
            queue: header.queue,
            queue_revision: header.queue_revision,
            held: header.held,
            last_run: header.last_run.map(|run| run.id),
            rolling_back: header.rolling_back,
            waiting: header.waiting,
            affordances: header.affordances.map(Into::into),
            outstanding: header.outstanding,
            read_only: header.read_only,
            synchronised: header.synchronised,
            older: header.older,
        }
    }
}

/// Tokens used, as the agent counts them.
#[uniffi::remote(Record)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: u64,
    /// Of those, tokens read from a cache.
    pub cached_input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Of those, tokens of reasoning.
    pub reasoning: u64,
    /// Size of the model's context, if the agent tells.
    pub context_window: Option<u64>,
    /// What it cost as the agent says, in billionths of a US dollar; `None` if it does not say, never 0.
    pub cost_nano_usd: Option<u64>,
}

/// A window of time in which an account may use so much and no more.
#[uniffi::remote(Record)]
pub struct AccountLimit {
    /// The agent's name for it.
    pub name: String,
    /// How much of it is used, percent.
    pub used_percent: u32,
    /// How long it is, minutes.
    pub window_minutes: Option<u64>,
    /// When it begins anew, Unix ms.
    pub resets_at_ms: Option<u64>,
    /// Whether the agent says that it is used up.
    pub reached: bool,
}

/// What can be done with a thread now; computed by the rules by which the host decides.
#[derive(Debug, Clone, uniffi::Record)]
pub struct Affordances {
    /// A message as a run of its own, now.
    pub start: Offer,
    /// A message after those before it.
    pub queue: Offer,
    /// A message into the active run.
    pub steer: Offer,
    /// A message into the active run, by stopping and starting it again.
    pub restart: Offer,
    /// Stopping the active run.
    pub interrupt: Offer,
    /// Letting a held queue go on.
    pub release_queue: Offer,
    /// A thread that begins as this one stands after its last run.
    pub fork: Offer,
    /// A thread that begins as this one stood after an earlier run.
    pub fork_from_run: Offer,
    /// Taking back the last runs. Files stay as they are.
    pub rollback: Offer,
    /// Having the agent shorten its context.
    pub compact: Offer,
    /// Signing the agent in, where the thread is held for it.
    pub sign_in: Offer,
    /// Another model or effort from the next turn on.
    pub switch_model: Offer,
    /// Another mode from the next turn on.
    pub switch_mode: Offer,
    /// Pictures with a message.
    pub send_images: Offer,
    /// Other files with a message.
    pub send_files: Offer,
}

/// Whether something can be done.
#[derive(Debug, Clone, uniffi::Enum)]
pub enum Offer {
    /// As asked.
    Available,
    /// It can, and it ends what is named.
    Destructive {
        /// Running items that would be stopped.
        items: Vec<ItemId>,
        /// What its person is told.
        words: String,
    },
    /// Not now.
    Unavailable {
        /// Why, for a person.
        reason: String,
    },
}

impl From<pilothouse_orchestrator::Affordances> for Affordances {
    fn from(given: pilothouse_orchestrator::Affordances) -> Self {
        Self {
            start: given.start.into(),
            queue: given.queue.into(),
            steer: given.steer.into(),
            restart: given.restart.into(),
            interrupt: given.interrupt.into(),
            release_queue: given.release_queue.into(),
            fork: given.fork.into(),
            fork_from_run: given.fork_from_run.into(),
            rollback: given.rollback.into(),
            compact: given.compact.into(),
            sign_in: given.sign_in.into(),
            switch_model: given.switch_model.into(),
            switch_mode: given.switch_mode.into(),
            send_images: given.send_images.into(),
            send_files: given.send_files.into(),
        }
    }
}

impl From<pilothouse_orchestrator::Offer> for Offer {
    fn from(offer: pilothouse_orchestrator::Offer) -> Self {
        match offer {
            pilothouse_orchestrator::Offer::Available => Self::Available,
            pilothouse_orchestrator::Offer::Destructive { items, words } => Self::Destructive {
                items,
                words: words.to_owned(),
            },
            pilothouse_orchestrator::Offer::Unavailable { reason } => Self::Unavailable {
                reason: reason.words().to_owned(),
            },
        }
    }
}
