//! A ledger in a directory of its own, one scripted agent, one device, and one follower of a thread.

use crate::agent::{Call, Script};
use pilothouse_domain::{
    Answer, Body, Command, CommandBody, CommandId, ContentHash, Cursor, DeviceId, DispatchMode,
    Entry, Event, ItemContent, ItemStatus, LoggedEvent, Mode, NativeId, OptionId, Outcome, Policy,
    ProviderEventKind, Scope, Subject, ThreadId, ThreadState,
    feed::ThreadUpdate,
    policy::AgentPolicy,
    provider::TurnStatus,
    request::{OptionEffect, RequestKind, RequestOption},
    row::LiveText,
    thread::Selection,
};
use pilothouse_ledger::{
    AgentSpec, Clock, Ledger, LedgerConfig, Principal, Subscription, SystemClock,
};
use pilothouse_providers::contract::ProviderAdapter;
use std::{collections::BTreeMap, future::Future, path::Path, sync::Arc, time::Duration};
use tokio::sync::mpsc;

pub(crate) struct World {
    pub(crate) dir: Arc<tempfile::TempDir>,
    pub(crate) ledger: Ledger,
    pub(crate) script: Script,
    pub(crate) calls: mpsc::UnboundedReceiver<Call>,
    pub(crate) thread: ThreadId,
    seq: u64,
}

/// Everything waits for an event; only a fault makes it wait this long.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::within(tempfile::tempdir().unwrap()).await
    }

    /// A new ledger in an empty directory, with a thread.
    pub(crate) async fn within(dir: tempfile::TempDir) -> Self {
        Self::open(Arc::new(dir)).with_thread().await
    }

    /// With a thread.
    pub(crate) async fn with_thread(mut self) -> Self {
        let world = &mut self;
        let command = CommandId::from_bytes([1; 16]);
        world.thread = command.derive("thread");
        let body = CommandBody::ThreadCreate {
            title: "A thread".into(),
            workspace: "here".into(),
            selection: Selection {
                agent: "agent".into(),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
        };
        let made = world.command_as(command, body).await;
        assert!(matches!(made, Outcome::Accepted { .. }), "{made:?}");
        self
    }

    /// Opens a ledger on a directory that may hold one already.
    pub(crate) fn open(dir: Arc<tempfile::TempDir>) -> Self {
        Self::open_looking(dir, pilothouse_ledger::IDLE_LOOK)
    }

    /// Opens a ledger that looks that often for agents without anything to do.
    pub(crate) fn open_looking(dir: Arc<tempfile::TempDir>, idle_look: Duration) -> Self {
        Self::open_with(dir, |config| config.idle_look = idle_look)
    }

    /// A new ledger by another clock, with a thread.
    pub(crate) async fn by(clock: Arc<dyn Clock>) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let world = Self::open_with(dir, |config| config.clock = clock);
        world.with_thread().await
    }

    /// A new ledger whose agent runs elsewhere, with a thread.
    pub(crate) async fn elsewhere() -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let (script, calls) = Script::new();
        let agent = (script.runs_elsewhere(), calls);
        Self::open_for(dir, agent, |_| {}).with_thread().await
    }

    fn open_with(dir: Arc<tempfile::TempDir>, set: impl FnOnce(&mut LedgerConfig)) -> Self {
        Self::open_for(dir, Script::new(), set)
    }

    fn open_for(
        dir: Arc<tempfile::TempDir>,
        (script, calls): (Script, mpsc::UnboundedReceiver<Call>),
        set: impl FnOnce(&mut LedgerConfig),
    ) -> Self {
        let mut config = config(dir.path(), &script);
        set(&mut config);
        let ledger = Ledger::open(config, tokio::runtime::Handle::current()).unwrap();
        Self {
            dir,
            ledger,
            script,
            calls,
            thread: ThreadId::default(),
            seq: 0,
        }
    }

    /// The same ledger in a new life, as after kill -9: nothing is told to the old one.
    pub(crate) async fn reopened(self) -> Self {
        self.ledger.shutdown().await;
        let mut next = Self::open(self.dir);
        (next.thread, next.seq) = (self.thread, self.seq);
        next
    }

    /// The same ledger in a new life, whose agent runs elsewhere and has gone on.
    pub(crate) async fn reopened_beside_its_agent(self) -> Self {
        self.ledger.shutdown().await;
        let mut next = Self::open_for(self.dir, (self.script, self.calls), |_| {});
        (next.thread, next.seq) = (self.thread, self.seq);
        next
    }

    pub(crate) fn principal() -> Principal {
        Principal {
            device: DeviceId::from_bytes([7; 16]),
            scopes: Scope::ALL.to_vec(),
        }
    }

    /// The command that was sent last.
    pub(crate) fn last_command(&self) -> CommandId {
        CommandId::from_bytes([self.seq as u8 + 100; 16])
    }

    pub(crate) fn next_command(&mut self, body: CommandBody) -> Command {
        self.seq += 1;
        Command {
            id: self.last_command(),
            thread: self.thread,
            device_seq: self.seq,
            based_on: None,
            issued_at_ms: 0,
            body,
        }
    }

    pub(crate) async fn command_as(&mut self, id: CommandId, body: CommandBody) -> Outcome {
        let command = Command {
            id,
            ..self.next_command(body)
        };
        soon(
            "an outcome",
            self.ledger.command(Self::principal(), command),
        )
        .await
    }

    pub(crate) async fn command(&mut self, body: CommandBody) -> Outcome {
        let command = self.next_command(body);
        soon(
            "an outcome",
            self.ledger.command(Self::principal(), command),
        )
        .await
    }

    pub(crate) async fn send(&mut self, text: &str, dispatch: DispatchMode) -> Outcome {
        let body = CommandBody::MessageSend {
            text: text.into(),
            attachments: vec![],
            dispatch,
            accept_stop: vec![],
        };
        self.command(body).await
    }

    /// The next call of the ledger to the agent.
    pub(crate) async fn call(&mut self) -> Call {
        soon("a call to the agent", self.calls.recv())
            .await
            .expect("the agent is held")
    }

    /// Waits until a message was given to the agent.
    pub(crate) async fn sent(&mut self) -> String {
        loop {
            if let Call::Sent(turn) = self.call().await {
                return turn.text;
            }
        }
    }

    pub(crate) async fn follow(&self, cursor: Option<Cursor>) -> Follower {
        let subscription = self
            .ledger
            .subscribe(self.thread, cursor, 64 * 1024)
            .await
            .unwrap();
        Follower::new(self.thread, subscription)
    }
}

pub(crate) fn config(dir: &Path, script: &Script) -> LedgerConfig {
    let declared = AgentPolicy {
        family: "scripted".into(),
        modes: Mode::ALL.to_vec(),
        capabilities: script.profile().set(),
        sandboxes: Vec::new(),
    };
    let spec = AgentSpec {
        adapter: Arc::new(script.clone()),
        command: vec!["none".into()],
        env: BTreeMap::new(),
        modes: BTreeMap::new(),
        mcp: pilothouse_providers::mcp::McpServers::default(),
        cwd: None,
    };
    LedgerConfig {
        dir: dir.to_owned(),
        policy: Policy {
            version: 1,
            agents: BTreeMap::from([("agent".into(), declared)]),
            workspaces: vec!["here".into()],
            default_mode: Mode::Ask,
        },
        agents: BTreeMap::from([("agent".into(), spec)]),
        workspaces: BTreeMap::from([("here".into(), dir.to_owned())]),
        wrapper: vec![],
        clock: Arc::new(SystemClock),
        new_epoch: false,
        idle_look: pilothouse_ledger::IDLE_LOOK,
    }
}

/// A device's view of a thread: only applies.
pub(crate) struct Follower {
    pub(crate) subscription: Subscription,
    pub(crate) state: ThreadState,
    pub(crate) cursor: Cursor,
    pub(crate) entries: Vec<Entry>,
    pub(crate) live: Vec<LiveText>,
}

impl Follower {
    fn new(thread: ThreadId, subscription: Subscription) -> Self {
        let (state, cursor) = match &subscription.answer.snapshot {
            Some(snapshot) => (snapshot.state.clone(), snapshot.cursor),
            None => (ThreadState::empty(thread), Cursor::default()),
        };
        Self {
            subscription,
            state,
            cursor,
            entries: vec![],
            live: vec![],
        }
    }

    /// Goes on until an event is seen that `wanted` picks.
    pub(crate) async fn until<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&Event) -> Option<T>,
    ) -> T {
        loop {
            let update = soon(what, self.subscription.next())
                .await
                .unwrap()
                .expect("the ledger is open");
            let entries = match update {
                ThreadUpdate::Live(text) => {
                    self.live.push(text);
                    continue;
                }
                ThreadUpdate::Entries(entries) => entries,
            };
            let mut found = None;
            for entry in entries {
                assert_eq!(entry.seq, self.cursor.seq + 1, "a gap in the entries");
                pilothouse_orchestrator::apply_entry(&mut self.state, &entry);
                self.cursor = entry.cursor();
                for event in &entry.events {
                    if let LoggedEvent::Known(event) = event
                        && found.is_none()
                    {
                        found = wanted(event);
                    }
                }
                self.entries.push(entry);
            }
            if let Some(found) = found {
                return found;
            }
        }
    }
}

pub(crate) fn assistant(text: &str) -> ItemContent {
    ItemContent::AssistantMessage {
        text: Body::inline(text),
    }
}

pub(crate) fn closed(item: &str, text: &str) -> ProviderEventKind {
    ProviderEventKind::ItemClosed {
        item: NativeId::from(item),
        status: ItemStatus::Completed,
        content: assistant(text),
        client_id: None,
    }
}

pub(crate) fn delta(item: &str, text: &str) -> ProviderEventKind {
    ProviderEventKind::ItemAppended {
        item: NativeId::from(item),
        text: text.into(),
        shape: Box::new(assistant("")),
    }
}

pub(crate) fn asks(request: &str, command: &str) -> ProviderEventKind {
    let option = |id: &str, effect| RequestOption {
        id: id.into(),
        label: id.into(),
        effect,
        reach: "once".into(),
    };
    ProviderEventKind::RequestOpened {
        request: NativeId::from(request),
        item: None,
        kind: RequestKind::Command,
        subject: Box::new(Subject {
            command: Some(command.into()),
            cwd: Some("/".into()),
            options: vec![
                option("accept", OptionEffect::AllowOnce),
                option("decline", OptionEffect::Deny),
            ],
            ..Subject::default()
        }),
        unknown_fields: false,
    }
}

pub(crate) fn ended(status: TurnStatus) -> ProviderEventKind {
    ProviderEventKind::TurnEnded {
        status,
        error: None,
    }
}

pub(crate) fn answer(
    request: pilothouse_domain::RequestId,
    hash: ContentHash,
    option: &str,
) -> CommandBody {
    let option = OptionId::from(option);
    CommandBody::RequestAnswer {
        request,
        content_hash: hash,
        answer: Answer::Choose { option, note: None },
    }
}
