//! Values that tests store, and the way a ledger stores them.

use crate::{Durability, LedgerStore, LedgerTx, StoreError, ledger::rebuild::replay};
use pilothouse_domain::{
    AgentName, Answer, Cause, Command, CommandBody, CommandId, ContentHash, DeviceId, Entry, Epoch,
    Event, HostId, Incarnation, ItemContent, ItemId, ItemStatus, MessageId, Mode, NodeId, OptionId,
    Position, RequestId, RequestStatus, RunId, RuntimeRequest, ThreadId, ThreadState, TurnItem,
    item::Body,
    request::{RequestKind, Respondability},
    thread::{Actor, ConversationMessage, Delivery, Role, Selection},
};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command as Process, Stdio},
};

/// The epoch of every ledger in these tests.
pub(super) const EPOCH: Epoch = Epoch::from_bytes([7; 16]);
/// The host of every replica in these tests.
pub(super) const HOST: HostId = HostId::from_bytes([9; 16]);
/// A device.
pub(super) const DEVICE: DeviceId = DeviceId::from_bytes([1; 16]);
/// The run of [`item`].
pub(super) const RUN: RunId = RunId::from_bytes([2; 16]);
/// The node of [`item`].
pub(super) const NODE: NodeId = NodeId::from_bytes([3; 16]);

pub(super) fn open(dir: &Path) -> LedgerStore {
    LedgerStore::open(dir, EPOCH).unwrap()
}

pub(super) fn thread(n: u8) -> ThreadId {
    ThreadId::from_bytes([n; 16])
}

pub(super) fn command_id(n: u64) -> CommandId {
    CommandId::from_bytes(bytes(n))
}

pub(super) fn bytes(n: u64) -> [u8; 16] {
    let mut bytes = [0xab; 16];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    bytes
}

pub(super) fn cause(n: u64) -> Cause {
    Cause::Command {
        command: command_id(n),
        device: DEVICE,
    }
}

pub(super) fn created(thread: ThreadId) -> Event {
    Event::ThreadCreated {
        thread,
        title: "Tidy up".into(),
        workspace: "home".into(),
        selection: Selection {
            agent: AgentName::from("codex"),
            model: None,
            effort: None,
            mode: Mode::Ask,
            sandbox: None,
        },
        lineage: None,
        actor: Actor::Ledger,
    }
}

pub(super) fn item_id(n: u64) -> ItemId {
    ItemId::from_bytes(bytes(n))
}

/// A finished assistant message, the `n`th of its thread.
pub(super) fn item(n: u64, text: &str) -> TurnItem {
    TurnItem {
        id: item_id(n),
        position: Position { run: 1, arrival: n },
        run: RUN,
        node: NODE,
        status: ItemStatus::Completed,
        content: ItemContent::AssistantMessage {
            text: Body::inline(text),
        },
        opened_at_ms: 5,
        closed_at_ms: Some(6),
        anomaly: None,
    }
}

pub(super) fn message(n: u64, run: RunId, text: &str) -> ConversationMessage {
    ConversationMessage {
        id: MessageId::from_bytes(bytes(n)),
        role: Role::User,
        text: Body::inline(text),
        attachments: Vec::new(),
        run,
        author: Actor::Device { device: DEVICE },
        delivery: Delivery::OnHost,
    }
}

pub(super) fn request(n: u64, kind: RequestKind) -> RuntimeRequest {
    let subject = format!("{{\"command\":\"touch {n}\"}}");
    RuntimeRequest {
        id: RequestId::from_bytes(bytes(n)),
        run: Some(RUN),
        node: NODE,
        item: None,
        kind,
        title: "Run a command".into(),
        content_hash: ContentHash::of(&subject),
        subject,
        respondability: Respondability::Live,
        one_tap_allowed: true,
        default_to_no: false,
        hints: Vec::new(),
        asked_before: 0,
        incarnation: Incarnation::from_bytes([4; 16]),
        status: RequestStatus::Pending,
        opened_at_ms: 7,
        expires_at_ms: None,
    }
}

pub(super) fn answer() -> Answer {
    Answer::Choose {
        option: OptionId::from("accept"),
        note: None,
    }
}

pub(super) fn answer_command(n: u64, thread: ThreadId) -> Command {
    command(
        n,
        thread,
        CommandBody::RequestAnswer {
            request: RequestId::from_bytes(bytes(1)),
            content_hash: ContentHash::of("x"),
            answer: answer(),
        },
    )
}

pub(super) fn release_command(n: u64, thread: ThreadId) -> Command {
    command(n, thread, CommandBody::QueueRelease { revision: n })
}

fn command(n: u64, thread: ThreadId, body: CommandBody) -> Command {
    Command {
        id: command_id(n),
        thread,
        device_seq: 0,
        based_on: None,
        issued_at_ms: 1,
        body,
    }
}

/// Appends events as a ledger does: entry, rows, state, summary.
pub(super) fn append(
    tx: &LedgerTx<'_>,
    thread: ThreadId,
    at_ms: u64,
    events: Vec<Event>,
) -> Result<Entry, StoreError> {
    let mut state: ThreadState = tx.snapshot(thread)?.state;
    let entry = tx.append(thread, Cause::Clock, at_ms, events)?;
    let mut rows = tx.rows(thread)?;
    replay(&mut rows, &mut state, &entry);
    tx.put_state(thread, &state, &entry.cursor())?;
    let summary =
        pilothouse_orchestrator::summarise(tx.summary(thread)?.as_ref(), &state, &entry, &rows);
    tx.put_summary(&summary)?;
    Ok(entry)
}

/// Appends one entry per list of events.
pub(super) fn append_all(
    store: &mut LedgerStore,
    thread: ThreadId,
    entries: Vec<Vec<Event>>,
) -> Vec<Entry> {
    store
        .transaction(
            |tx| {
                entries
                    .into_iter()
                    .zip(1000..)
                    .map(|(events, at_ms)| append(tx, thread, at_ms, events))
                    .collect::<Result<Vec<_>, StoreError>>()
            },
            Durability::Lazy,
        )
        .unwrap()
}

/// Changes a closed database behind the store's back.
pub(super) fn tamper(file: &Path, sql: &str) {
    let conn = rusqlite::Connection::open(file).unwrap();
    let changed = conn.execute(sql, []).unwrap();
    assert!(
        changed > 0 || sql.starts_with("PRAGMA"),
        "nothing was changed by: {sql}"
    );
}

/// This test binary, started again to run one test as another process. Killed when dropped.
pub(super) struct Other {
    child: Child,
    lines: BufReader<ChildStdout>,
}

/// Names the directory that a process of [`Other`] works in.
const DIR: &str = "PILOTHOUSE_STORE_TEST_DIR";

impl Other {
    /// Starts the test of that name (`crash::child_…`); it finds `dir` by [`Other::dir`].
    pub(super) fn start(test: &str, dir: &Path) -> Self {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                &format!("tests::{test}"),
                "--nocapture",
                "--test-threads=1",
            ])
            .env(DIR, dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// In the other process: where to work. `None` in an ordinary run of the tests.
    pub(super) fn dir() -> Option<std::path::PathBuf> {
        std::env::var_os(DIR).map(Into::into)
    }

    /// In the other process: says something to the first one.
    pub(super) fn say(word: &str) {
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nsay:{word}").unwrap();
        out.flush().unwrap();
    }

    /// In the other process: does nothing until it is killed.
    pub(super) fn stay() -> ! {
        loop {
            std::thread::park();
        }
    }

    /// Waits for the next word of the other process.
    pub(super) fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.lines.read_line(&mut line).unwrap() > 0,
                "the other process ended without a word"
            );
            if let Some(word) = line.trim().strip_prefix("say:") {
                return word.to_owned();
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill -9, and waits until it is gone.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Waits for its end by itself.
    pub(super) fn end(mut self) {
        std::io::copy(&mut self.lines, &mut std::io::sink()).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
