//! A thread in memory: state, rows, bindings and log in ordered maps. A device predicts on it, tests and the replay of
//! recordings run on it; a ledger keeps the same in its database.

use crate::{
    Bindings, Decision, Ingested, Lookups, RollbackRuns, Rows, SessionContext, SourceThread,
    Verdict, apply, apply_entry, decide, decide_internal, ingest, ingest_outcome, lookups,
    next_internal, project, rollback_of, runtime_lost, source_of, summarise,
};
use pilothouse_domain::{
    Body, Cause, Chain, Command, Cursor, Digest, Effect, EffectOutcome, Entry, Epoch, Event,
    ItemId, LoggedEvent, Policy, ProviderEvent, Refusal, RequestId, Row, RowKey, Run, RunId,
    RunStatus, RuntimeRequest, ThreadId, ThreadState, ThreadSummary, TurnItem,
    binding::{BindingKey, BindingTarget},
    entry::LOG_FORMAT,
    hash,
    ids::{IdMint, LogPlace},
    request::LostReason,
    row::RowKind,
    thread::Actor,
};
use std::collections::BTreeMap;

/// Rows in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryRows(pub BTreeMap<RowKey, Row>);

impl Rows for MemoryRows {
    fn get(&self, key: RowKey) -> Option<Row> {
        self.0.get(&key).cloned()
    }

    fn put(&mut self, row: Row) {
        self.0.insert(row.key(), row);
    }
}

/// A thread with everything a ledger keeps of it.
#[derive(Debug, Clone)]
pub struct MemoryThread {
    /// What its log folds into.
    pub state: ThreadState,
    /// What a screen reads.
    pub rows: MemoryRows,
    /// Which app ids the native ids stand for.
    pub bindings: BTreeMap<BindingKey, BindingTarget>,
    /// Text streamed into open items.
    pub streamed: BTreeMap<ItemId, String>,
    /// Its log.
    pub entries: Vec<Entry>,
    /// Effects asked for and not yet taken by the caller.
    pub effects: Vec<Effect>,
    /// Its line in lists.
    pub summary: Option<ThreadSummary>,
    /// Host time of the next entry, Unix ms; moves by one per entry.
    pub now_ms: u64,
    epoch: Epoch,
    /// What the host allows and offers.
    pub policy: Policy,
}

impl Bindings for MemoryThread {
    fn get(&self, key: &BindingKey) -> Option<BindingTarget> {
        self.bindings.get(key).cloned()
    }

    fn streamed(&self, item: ItemId) -> Option<Body> {
        self.streamed.get(&item).cloned().map(Body::Inline)
    }

    fn request(&self, request: RequestId) -> Option<RuntimeRequest> {
        MemoryThread::request(self, request)
    }

    fn row(&self, key: RowKey) -> Option<Row> {
        self.rows.get(key)
    }

    fn last_items(&self, most: usize) -> Vec<TurnItem> {
        let items = self.rows.0.values().filter_map(|row| match row {
            Row::Item(item) => Some(item),
            _ => None,
        });
        let mut items: Vec<TurnItem> = items.cloned().collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.position));
        items.truncate(most);
        items
    }
}

impl MemoryThread {
    /// A thread before its first entry.
    pub fn new(thread: ThreadId, policy: Policy) -> Self {
        Self {
            state: ThreadState::empty(thread),
            rows: MemoryRows::default(),
            bindings: BTreeMap::new(),
            streamed: BTreeMap::new(),
            entries: Vec::new(),
            effects: Vec::new(),
            summary: None,
            now_ms: 1_800_000_000_000,
            epoch: Epoch::default(),
            policy,
        }
    }

    /// The same thread made from its entries alone: state, rows and summary, as a device has them.
    pub fn replay(thread: ThreadId, policy: Policy, entries: &[Entry]) -> Self {
        let mut memory = Self::new(thread, policy);
        for entry in entries {
            memory.fold(entry.clone());
        }
        memory
    }

    /// A request's row.
    pub fn request(&self, id: RequestId) -> Option<RuntimeRequest> {
        match self.rows.get(RowKind::Request.key(id.as_bytes())) {
            Some(Row::Request(row)) => Some(*row),
            _ => None,
        }
    }

    /// The place after the last entry.
    pub fn cursor(&self) -> Cursor {
        self.entries.last().map_or(
            Cursor {
                epoch: self.epoch,
                ..Cursor::default()
            },
            Entry::cursor,
        )
    }

    /// The digest at the last entry.
    pub fn digest(&self) -> Digest {
        self.state.digest(&self.cursor())
    }

    /// What `decide` looks up for a command.
    pub fn look_up(&self, command: &Command) -> Lookups {
        let keys = lookups(&self.state, command);
        Lookups {
            request: keys.request.and_then(|id| self.request(id)),
            run: keys
                .run
                .and_then(|id| match self.rows.get(RowKind::Run.key(id.as_bytes())) {
                    Some(Row::Run(run)) => Some(run),
                    _ => None,
                }),
            messages: keys
                .messages
                .iter()
                .filter_map(
                    |id| match self.rows.get(RowKind::Message.key(id.as_bytes())) {
                        Some(Row::Message(message)) => Some(message),
                        _ => None,
                    },
                )
                .collect(),
            source: keys
                .source
                .filter(|(source, _)| *source == self.state.thread)
                .map(|(_, run)| Box::new(self.as_source(run))),
            conversation: None,
            rollback: keys
                .rollback
                .and_then(|before| self.taken_back(before))
                .map(Box::new),
            signed_out: false,
            models: keys
                .session
                .and_then(
                    |id| match self.rows.get(RowKind::Session.key(id.as_bytes())) {
                        Some(Row::Session(session)) => Some(session.models),
                        _ => None,
                    },
                )
                .unwrap_or_default(),
        }
    }

    /// What a rollback from a run on takes back.
    fn taken_back(&self, before: RunId) -> Option<RollbackRuns> {
        let Some(Row::Run(first)) = self.rows.get(RowKind::Run.key(before.as_bytes())) else {
            return None;
        };
        let mut runs: Vec<Run> = self
            .rows
            .0
            .values()
            .filter_map(|row| match row {
                Row::Run(run) if run.ordinal.is_some() => Some(run.clone()),
                _ => None,
            })
            .collect();
        runs.sort_by_key(|run| run.ordinal);
        let from = first.ordinal.unwrap_or(u32::MAX);
        let (earlier, later): (Vec<_>, Vec<_>) =
            runs.into_iter().partition(|run| run.ordinal < Some(from));
        let head = earlier
            .into_iter()
            .rfind(|run| run.status != RunStatus::RolledBack);
        Some(rollback_of(first, later, head))
    }

    /// The thread as one that another is to begin from.
    pub fn as_source(&self, run: Option<RunId>) -> SourceThread {
        source_of(self.state.clone(), self.cursor(), run, |key| {
            self.rows.get(key)
        })
    }

    /// Decides the fork of this thread; gives the new one if it was taken.
    ///
    /// # Errors
    /// Why it was not.
    pub fn fork(&self, actor: Actor, command: &Command) -> Result<Self, Refusal> {
        let mut fork = Self::new(command.thread, self.policy.clone());
        let found = self.look_up(command);
        let decision = decide(&fork.state, &found, actor, command, &self.policy)?;
        let name = command.body.name().to_owned();
        fork.decided(Cause::Internal { name }, decision);
        Ok(fork)
    }

    /// Decides a command and, if it was taken, appends what it leads to and what follows of itself.
    pub fn command(&mut self, actor: Actor, command: &Command) -> Result<Verdict, Refusal> {
        let found = self.look_up(command);
        let decision = decide(&self.state, &found, actor, command, &self.policy)?;
        let verdict = decision.verdict.clone();
        let cause = match actor {
            Actor::Device { device } => Cause::Command {
                command: command.id,
                device,
            },
            _ => Cause::Internal {
                name: command.body.name().to_owned(),
            },
        };
        self.decided(cause, decision);
        Ok(verdict)
    }

    /// Takes something an agent did.
    pub fn provider(&mut self, session: &SessionContext, event: &ProviderEvent) {
        let mut mint = self.mint();
        let ingested = ingest(&self.state, &*self, session, event, &mut mint);
        self.ingested(
            Cause::Provider {
                session: session.session,
            },
            ingested,
        );
    }

    /// Takes what came of an effect.
    pub fn outcome(
        &mut self,
        session: Option<&SessionContext>,
        effect: &Effect,
        outcome: &EffectOutcome,
    ) {
        let mut mint = self.mint();
        let ingested = ingest_outcome(&self.state, &*self, session, effect, outcome, &mut mint);
        self.ingested(Cause::Effect { effect: effect.id }, ingested);
    }

    /// Takes the loss of the runtime.
    pub fn lose_runtime(&mut self, reason: LostReason, detail: &str) {
        let mut mint = self.mint();
        let ingested = runtime_lost(&self.state, &*self, reason, detail, &mut mint);
        self.ingested(
            Cause::Host {
                fact: "runtime_lost".to_owned(),
            },
            ingested,
        );
    }

    fn mint(&self) -> IdMint {
        IdMint::at(LogPlace {
            epoch: self.epoch,
            boot: 1,
            thread: self.state.thread,
            seq: self.cursor().seq + 1,
        })
    }

    fn ingested(&mut self, cause: Cause, ingested: Ingested) {
        for binding in ingested.bindings {
            self.bindings.insert(binding.key, binding.target);
        }
        for append in ingested.live {
            self.streamed
                .entry(append.item)
                .or_default()
                .push_str(&append.text);
        }
        self.decided(
            cause,
            Decision {
                events: ingested.events,
                effects: ingested.effects,
                ..Decision::default()
            },
        );
    }

    fn decided(&mut self, cause: Cause, decision: Decision) {
        self.effects.extend(decision.effects);
        self.append(cause, decision.events);
        while let Some(internal) = next_internal(&self.state) {
            let decision = decide_internal(&self.state, &internal, &mut self.mint());
            if decision.events.is_empty() {
                break;
            }
            self.effects.extend(decision.effects);
            let name = format!("{internal:?}");
            self.append(Cause::Internal { name }, decision.events);
        }
    }

    /// Appends an entry of these events; none make none.
    pub fn append(&mut self, cause: Cause, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let before = self.cursor();
        let mut entry = Entry {
            thread: self.state.thread,
            epoch: self.epoch,
            seq: before.seq + 1,
            chain: Chain::default(),
            log_format: LOG_FORMAT,
            host_time_ms: self.now_ms,
            cause,
            events: events.into_iter().map(LoggedEvent::from).collect(),
        };
        let hashes: Vec<[u8; 32]> = entry
            .events
            .iter()
            .map(|event| hash::blake3_parts(&[&hash::canonical_json(event)]))
            .collect();
        entry.chain = before.chain.extend(&entry.header(), &hashes);
        self.fold(entry);
    }

    /// Folds an entry that stands in the log already.
    pub fn fold(&mut self, entry: Entry) {
        self.now_ms = entry.host_time_ms + 1;
        for logged in &entry.events {
            match logged {
                LoggedEvent::Known(event) => {
                    project(&mut self.rows, &self.state, entry.host_time_ms, event);
                    apply(&mut self.state, event);
                    if let Event::ItemClosed { item, .. } = &**event {
                        self.streamed.remove(item);
                    }
                }
                LoggedEvent::Unknown(_) => {
                    let mut only = entry.clone();
                    only.events = vec![logged.clone()];
                    apply_entry(&mut self.state, &only);
                }
            }
        }
        self.summary = Some(summarise(
            self.summary.as_ref(),
            &self.state,
            &entry,
            &self.rows,
        ));
        self.entries.push(entry);
    }
}
