//! What a ledger tells those who follow it: the summary feed over all threads, and one thread's log.

use crate::{
    AgentName, Cursor, Entry, Epoch, Mode, RunId, ThreadId, WorkspaceId,
    event::HoldReason,
    policy::Sandbox,
    request::RuntimeRequest,
    row::{ActiveSummary, LiveText, OpenItem, Row, Snapshot, ThreadSummary, WaitingCounts},
    run::{BlockedOn, RunStatus},
    state::EndedRun,
    thread::Lineage,
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, DeserializeOwned},
};

/// A place in the summary feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FeedCursor {
    /// The ledger's epoch.
    pub epoch: Epoch,
    /// Grows with each change of any summary.
    pub revision: u64,
}

/// One thread in the feed: its line, and all that waits in it. Replaces what was known of the thread, so a card can
/// neither be missed nor stay behind (CASES 20, 23).
///
/// A newer host may say of a thread what this version does not know. Then only this thread is less than it is: its requests
/// that read are kept, its line is without what does not read and says so ([`NEWER`]), and every other thread is as ever
/// (docs/decisions/040).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedThread {
    /// Its line.
    pub summary: ThreadSummary,
    /// All its open requests.
    pub requests: Vec<RuntimeRequest>,
}

/// What stands as the last line of a thread of which a newer host said something that does not read.
pub const NEWER: &str = "a newer version says more of this thread: update this program";

impl<'de> Deserialize<'de> for FeedThread {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = pilothouse_json::raw(from)?;
        if let Ok(Whole { summary, requests }) = pilothouse_json::from_str(&text) {
            return Ok(Self { summary, requests });
        }
        pilothouse_json::from_str(&text)
            .map(|Parts { summary, requests }| Self {
                summary: summary.into(),
                requests: requests
                    .into_iter()
                    .filter_map(|request| request.0)
                    .collect(),
            })
            .map_err(|error| de::Error::custom(format_args!("{error} of the thread")))
    }
}

/// A [`FeedThread`] of which everything reads.
#[derive(Deserialize)]
struct Whole {
    summary: ThreadSummary,
    requests: Vec<RuntimeRequest>,
}

/// A [`FeedThread`] with what does not read left out.
#[derive(Deserialize)]
struct Parts {
    summary: Line,
    requests: Vec<Readable<RuntimeRequest>>,
}

/// What every version says of a thread, and of the rest what reads.
#[derive(Deserialize)]
struct Line {
    thread: ThreadId,
    title: String,
    workspace: WorkspaceId,
    agent: AgentName,
    mode: Readable<Mode>,
    sandbox: Option<Readable<Sandbox>>,
    #[serde(default)]
    lineage: Readable<Lineage>,
    active: Option<Active>,
    #[serde(default)]
    last_run: Readable<EndedRun>,
    waiting: WaitingCounts,
    queued: u32,
    held: Option<Readable<HoldReason>>,
    sign_in_problem: Option<String>,
    archived: bool,
    created_at_ms: u64,
    updated_at_ms: u64,
    seq: u64,
}

/// An [`ActiveSummary`] as far as it reads.
#[derive(Deserialize)]
struct Active {
    run: RunId,
    status: Readable<RunStatus>,
    blocked_on: Readable<BlockedOn>,
    since_ms: u64,
}

impl From<Active> for ActiveSummary {
    fn from(active: Active) -> Self {
        Self {
            run: active.run,
            status: active.status.0.unwrap_or(RunStatus::Running),
            blocked_on: active.blocked_on.0.unwrap_or(BlockedOn::None),
            since_ms: active.since_ms,
        }
    }
}

impl From<Line> for ThreadSummary {
    fn from(line: Line) -> Self {
        Self {
            thread: line.thread,
            title: line.title,
            workspace: line.workspace,
            agent: line.agent,
            // Nothing is promised of a mode that is not known.
            mode: line.mode.0.unwrap_or(Mode::FullAccess),
            // Its agent does not ask; nothing is promised of where it runs, either.
            sandbox: line
                .sandbox
                .map(|sandbox| sandbox.0.unwrap_or(Sandbox::None)),
            lineage: line.lineage.0,
            active: line.active.map(ActiveSummary::from),
            last_run: line.last_run.0,
            waiting: line.waiting,
            queued: line.queued,
            held: line.held.map(|held| held.0.unwrap_or(HoldReason::Person)),
            sign_in_problem: line.sign_in_problem,
            last_line: NEWER.to_owned(),
            archived: line.archived,
            created_at_ms: line.created_at_ms,
            updated_at_ms: line.updated_at_ms,
            seq: line.seq,
        }
    }
}

/// A value, if this version reads it.
struct Readable<T>(Option<T>);

impl<T> Default for Readable<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Readable<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = pilothouse_json::raw(from)?;
        Ok(Self(pilothouse_json::from_str(&text).ok()))
    }
}

/// A step of the summary feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedUpdate {
    /// The place after this step.
    pub cursor: FeedCursor,
    /// Whether everything known before is to be forgotten first (a new epoch, or a cursor that is ahead).
    pub reset: bool,
    /// Threads that are new or changed.
    pub threads: Vec<FeedThread>,
    /// Threads that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<ThreadId>,
    /// What waits over all threads, at that place.
    pub counts: WaitingCounts,
    /// Whether more is on its way already (a page of a long catch-up).
    #[serde(default)]
    pub more: bool,
}

/// The answer to a subscription of a thread's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed {
    /// `None`: the cursor was good, entries follow from there. Otherwise start anew from `snapshot` and `rows`.
    pub gap: Option<GapReason>,
    /// The state, for a gap.
    pub snapshot: Option<Box<Snapshot>>,
    /// The newest rows, for a gap; with the snapshot at most 50 KB unless a single row is larger.
    pub rows: Vec<Row>,
    /// Whether older items exist than those in `rows`.
    pub older: bool,
    /// Texts of open items at the high-water mark.
    pub open_items: Vec<OpenItem>,
    /// The place of the log that all of this holds at.
    pub high_water: Cursor,
}

/// Why a cursor was not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// None was given.
    Fresh,
    /// The ledger started a new epoch.
    Epoch,
    /// The chain differs: the ledger lost entries to a power cut, or was restored.
    Chain,
    /// The device is ahead of the ledger.
    Ahead,
    /// It is too far behind for entries to be worth sending.
    Behind,
}

/// What follows on a subscribed thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadUpdate {
    /// Entries, without gaps.
    Entries(Vec<Entry>),
    /// Text that streams.
    Live(LiveText),
}
