//! The thread under test: `decide`, `ingest` and `apply` as a ledger uses them, a device that follows, and the comparison
//! of both with the oracle.

use super::oracle::{AskStatus, Errand, Oracle, Stage, Told};
use crate::world::{create, device, policy};
use pilothouse_domain::{
    AttemptId, CapabilityFlag, Cause, Command, CommandBody, CommandId, Effect, EffectKind,
    EffectOutcome, Entry, Epoch, Event, Incarnation, ItemContent, ItemId, LoggedEvent, NativeId,
    Policy, ProviderEvent, ProviderEventKind, Refusal, RequestId, RequestStatus, Row, RunId,
    SessionId, ThreadState,
    binding::{BindingKey, BindingTarget},
    capability::CapabilityValue,
    command::NoticeKind,
    hash,
    ids::{IdMint, LogPlace},
    limits,
    provider_event::NativePlace,
    refusal::StaleWhat,
    request::LostReason,
    row::RowKind,
    thread::{Actor, Delivery, Lifecycle},
};
use pilothouse_orchestrator::{
    Decision, Ingested, Rows, SessionContext, Verdict, decide, decide_internal, ingest,
    ingest_outcome, memory::MemoryThread, next_internal, runtime_lost,
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Sim {
    pub(crate) oracle: Oracle,
    pub(crate) thread: MemoryThread,
    /// The same thread on a device, from what was sent to it.
    follower: MemoryThread,
    pub(crate) policy: Policy,
    pub(crate) session: SessionContext,
    pub(crate) create: Command,
    pub(crate) commands: u64,
    /// Effects whose outcome is open.
    pub(crate) effects: Vec<Effect>,
    fresh_effects: Vec<Effect>,
    seen_entries: usize,
    ids: BTreeSet<String>,
    last_ordinal: u32,
    closed_requests: BTreeSet<RequestId>,
}

/// An outcome in the oracle's words.
pub(crate) fn words(result: &Result<Decision, Refusal>) -> String {
    let refusal = match result {
        Ok(decision) => match &decision.verdict {
            Verdict::Accepted { notice: None } => return "accepted".to_owned(),
            Verdict::Accepted {
                notice: Some(notice),
            } => {
                return match notice.what {
                    NoticeKind::QueuedInstead { .. } => "accepted:queued_instead",
                    NoticeKind::FollowsQueued { .. } => "accepted:follows_queued",
                    _ => "accepted:something else",
                }
                .to_owned();
            }
            Verdict::Refused(refusal) => refusal,
        },
        Err(refusal) => refusal,
    };
    let code = refusal.code();
    match refusal {
        Refusal::Stale { what } => match what {
            StaleWhat::Content { .. } => "stale:content",
            StaleWhat::Attempt => "stale:attempt",
            StaleWhat::Run { .. } => "stale:run",
            StaleWhat::QueueRevision { .. } => "stale:queue",
            StaleWhat::RunningItem { .. } => "stale:running_item",
            StaleWhat::LastRun { .. } => "stale:last_run",
        }
        .to_owned(),
        Refusal::TurnEnded {
            status, message, ..
        } => {
            let status = status.map_or(String::new(), |status| format!("{status:?}"));
            let kept = message.map_or("", |_| "kept");
            // A message that is kept is the only thing that a refusal may leave behind.
            assert_eq!(message.is_some(), result.is_ok());
            format!("{code}:{status}:{kept}")
        }
        Refusal::NotRespondable { status, .. } => format!("{code}:{status:?}"),
        Refusal::Invalid { field, .. } => format!("{code}:{field}"),
        _ => code.to_owned(),
    }
}

impl Sim {
    pub(crate) fn new(steers: bool, stops: bool) -> Self {
        let value = |yes| {
            if yes {
                CapabilityValue::Yes
            } else {
                CapabilityValue::No
            }
        };
        let mut policy = policy(value(steers), value(stops));
        for agent in policy.agents.values_mut() {
            let known = &mut agent.capabilities;
            known.insert(CapabilityFlag::RollbackThread, value(stops));
            known.insert(CapabilityFlag::CompactOnRequest, value(stops));
            known.insert(CapabilityFlag::ForkThread, value(steers || stops));
            known.insert(CapabilityFlag::ForkFromTurn, value(steers));
            known.insert(CapabilityFlag::ModelSwitchInSession, value(steers));
            known.insert(CapabilityFlag::RuntimeModeSwitchInSession, value(stops));
        }
        let create = create(CommandId::from_bytes([5; 16]));
        let thread = MemoryThread::new(create.thread, policy.clone());
        Self {
            oracle: Oracle::new(create.thread, steers, stops),
            follower: thread.clone(),
            thread,
            policy,
            session: SessionContext {
                agent: "codex".into(),
                family: "codex".to_owned(),
                session: SessionId::from_bytes([3; 16]),
                incarnation: Incarnation::from_bytes([4; 16]),
                host_time_ms: 0,
                contract: Default::default(),
            },
            create,
            commands: 0,
            effects: Vec::new(),
            fresh_effects: Vec::new(),
            seen_entries: 0,
            ids: BTreeSet::new(),
            last_ordinal: 0,
            closed_requests: BTreeSet::new(),
        }
    }

    fn mint(&self) -> IdMint {
        IdMint::at(LogPlace {
            epoch: Epoch::default(),
            boot: 1,
            thread: self.thread.state.thread,
            seq: self.thread.cursor().seq + 1,
        })
    }

    /// Decides a command on the ledger's state, and on the device's, which must foresee the same.
    pub(crate) fn decide(&self, actor: Actor, command: &Command) -> Result<Decision, Refusal> {
        // A fork is a thread of its own; this one is what it comes from.
        let fork = matches!(command.body, CommandBody::ThreadFork { .. })
            .then(|| ThreadState::empty(command.thread));
        let on = |thread: &MemoryThread| {
            let found = thread.look_up(command);
            let state = fork.as_ref().unwrap_or(&thread.state);
            decide(state, &found, actor, command, &self.policy)
        };
        let decided = on(&self.thread);
        let foreseen = on(&self.follower);
        assert_eq!(
            foreseen, decided,
            "a device foresees what the ledger decides"
        );
        decided
    }

    /// One command: judged by both, taken by both. Gives the outcome in words.
    pub(crate) fn command(
        &mut self,
        actor: Actor,
        command: &Command,
        stoppable: &[String],
    ) -> String {
        let expected = self.oracle.judge(actor, command, stoppable);
        let decided = self.decide(actor, command);
        let outcome = words(&decided);
        assert_eq!(outcome, expected, "{command:?}");
        if matches!(command.body, CommandBody::ThreadFork { .. }) {
            return outcome;
        }
        if let Ok(decision) = decided {
            let by = match actor {
                Actor::Device { device } => device,
                _ => device(9),
            };
            self.oracle.take(by, command);
            let cause = Cause::Command {
                command: command.id,
                device: by,
            };
            self.append(cause, decision);
        }
        outcome
    }

    pub(crate) fn append(&mut self, cause: Cause, decision: Decision) {
        // A ledger keeps effects with the entry that asks for them.
        assert!(
            decision.effects.is_empty() || !decision.events.is_empty(),
            "{:?} without an entry",
            decision.effects
        );
        self.fresh_effects.extend(decision.effects);
        self.thread.append(cause, decision.events);
    }

    /// What the ledger does of its own accord, as after each append.
    pub(crate) fn settle(&mut self) {
        for rounds in 0.. {
            let Some(internal) = next_internal(&self.thread.state) else {
                break;
            };
            assert!(rounds < 8, "{internal:?} leads to itself");
            let decision = decide_internal(&self.thread.state, &internal, &mut self.mint());
            assert_ne!(decision.events, [], "{internal:?} does nothing");
            let name = internal.name().to_owned();
            self.append(Cause::Internal { name }, decision);
        }
        self.oracle.settle();
    }

    fn ingested(&mut self, cause: Cause, ingested: Ingested) {
        for binding in ingested.bindings {
            self.thread.bindings.insert(binding.key, binding.target);
        }
        for append in ingested.live {
            let text = self.thread.streamed.entry(append.item).or_default();
            text.push_str(&append.text);
        }
        self.append(
            cause,
            Decision {
                events: ingested.events,
                effects: ingested.effects,
                ..Decision::default()
            },
        );
    }

    pub(crate) fn agent(&mut self, turn: Option<&str>, kind: ProviderEventKind) {
        let place = NativePlace {
            thread: Some("T".into()),
            root: None,
            turn: turn.map(NativeId::from),
        };
        let event = ProviderEvent { place, kind };
        let mut mint = self.mint();
        let ingested = ingest(
            &self.thread.state,
            &self.thread,
            &self.session,
            &event,
            &mut mint,
        );
        let session = self.session.session;
        self.ingested(Cause::Provider { session }, ingested);
    }

    pub(crate) fn outcome(&mut self, effect: &Effect, outcome: &EffectOutcome) {
        let (mut mint, session) = (self.mint(), Some(&self.session));
        let state = &self.thread.state;
        let ingested = ingest_outcome(state, &self.thread, session, effect, outcome, &mut mint);
        self.ingested(Cause::Effect { effect: effect.id }, ingested);
    }

    pub(crate) fn lose_runtime(&mut self, reason: LostReason) {
        let ingested = runtime_lost(
            &self.thread.state,
            &self.thread,
            reason,
            "gone",
            &mut self.mint(),
        );
        let fact = "runtime_lost".to_owned();
        self.ingested(Cause::Host { fact }, ingested);
    }

    pub(crate) fn attempt(&self, id: AttemptId) -> usize {
        let at = self.oracle.tries.iter().position(|t| t.id == Some(id));
        at.expect("an errand's try is known")
    }

    pub(crate) fn item(&self, native: &str) -> Option<ItemId> {
        let key = BindingKey::Item {
            thread: "T".into(),
            item: native.into(),
        };
        match self.thread.bindings.get(&key) {
            Some(BindingTarget::Item { item, .. }) => Some(*item),
            _ => None,
        }
    }

    fn row<T>(&self, kind: RowKind, id: &[u8; 16], of: impl Fn(Row) -> Option<T>) -> Option<T> {
        self.thread.rows.get(kind.key(id)).and_then(of)
    }

    // The comparison.

    /// Reads what was appended since the last time, hands it to the device, and checks that all three agree.
    pub(crate) fn check(&mut self) {
        let fresh: Vec<Entry> = self.thread.entries[self.seen_entries..].to_vec();
        self.seen_entries = self.thread.entries.len();
        let mut asked = Vec::new();
        for entry in &fresh {
            let sent = serde_json::to_string(entry).unwrap();
            self.follower.fold(serde_json::from_str(&sent).unwrap());
            for logged in &entry.events {
                if let LoggedEvent::Known(event) = logged {
                    self.check_event(event, &mut asked);
                }
            }
        }
        assert_eq!(self.follower.state, self.thread.state);
        let meta = self.thread.state.meta.as_ref();
        if let (Some(meta), Some(chosen)) = (meta, &self.oracle.chosen) {
            assert_eq!(meta.selection, *chosen);
        }
        self.oracle.has_conversation = self.thread.state.provider_thread.is_some();
        assert_eq!(self.follower.digest(), self.thread.digest());
        self.learn(asked);
        self.compare_runs();
        self.compare_asks();
        self.compare_items();
        self.compare_errands();
        self.compare_summary();
        let size = hash::canonical_json(&self.thread.state).len();
        assert!(size <= limits::STATE_BYTES, "{size} bytes of state");
    }

    fn fresh_id(&mut self, id: String) {
        assert!(self.ids.insert(id.clone()), "{id} was given twice");
    }

    fn check_event(&mut self, event: &Event, asked: &mut Vec<RequestId>) {
        match event {
            Event::RunStarted { run, ordinal, .. } => {
                self.fresh_id(format!("start of {run}"));
                assert_eq!(*ordinal, self.last_ordinal + 1, "ordinals rise by one");
                self.last_ordinal = *ordinal;
            }
            Event::RunQueued { run, .. } => self.fresh_id(format!("queueing of {run}")),
            Event::RunEnded { run, .. } => self.fresh_id(format!("end of {run}")),
            Event::AttemptStarted { attempt, .. } => self.fresh_id(format!("attempt {attempt}")),
            Event::AttemptEnded { attempt, .. } => self.fresh_id(format!("end of {attempt}")),
            // A message that moves to another run takes its item along.
            Event::ItemOpened { item }
                if matches!(item.content, ItemContent::UserMessage { .. }) => {}
            Event::ItemOpened { item } => {
                self.fresh_id(format!("item {}", item.id));
                self.fresh_id(format!("position {:?}", item.position));
            }
            Event::MessageAdded { message } => self.fresh_id(format!("message {}", message.id)),
            Event::NoticeRaised { notice } => self.fresh_id(format!("notice {}", notice.id)),
            Event::RequestOpened { request } => {
                assert!(
                    !self.closed_requests.contains(&request.id),
                    "a request that was closed is opened again"
                );
                asked.push(request.id);
            }
            Event::RequestClosed { request, .. } => {
                assert!(
                    self.closed_requests.insert(*request),
                    "{request} is closed twice"
                );
            }
            _ => {}
        }
    }

    /// Ids that the thread minted, for what the oracle knows already.
    fn learn(&mut self, asked: Vec<RequestId>) {
        let state = &self.thread.state;
        let known: BTreeSet<RequestId> = self.oracle.asks.iter().filter_map(|a| a.id).collect();
        let mut new = asked.into_iter().filter(|id| !known.contains(id));
        for ask in self.oracle.asks.iter_mut().filter(|ask| ask.id.is_none()) {
            ask.id = Some(new.next().expect("what was asked is a request"));
        }
        assert_eq!(new.next(), None, "a request that nobody made");
        let mut seen: Vec<(usize, RunId)> = Vec::new();
        let waiting = self.oracle.line.iter().zip(&state.queue);
        seen.extend(waiting.map(|(run, queued)| (*run, queued.run)));
        if let (Some(work), Some(active)) = (&self.oracle.work, &state.active) {
            seen.push((work.run, active.id));
            let slot = active.attempt.as_ref().expect("a run has an attempt");
            let attempt = &mut self.oracle.tries[work.attempt];
            assert_eq!(*attempt.id.get_or_insert(slot.id), slot.id);
        }
        if let (Some(run), Some(ended)) = (self.oracle.last, &state.last_run) {
            seen.push((run, ended.id));
        }
        for (run, id) in seen {
            assert_eq!(
                *self.oracle.runs[run].id.get_or_insert(id),
                id,
                "another run"
            );
        }
    }

    fn compare_runs(&self) {
        let (oracle, state) = (&self.oracle, &self.thread.state);
        assert_eq!(state.active.is_some(), oracle.work.is_some());
        assert_eq!(state.rollback.is_some(), oracle.taking_back.is_some());
        if let (Some(work), Some(active)) = (&oracle.work, &state.active) {
            assert_eq!((active.status, active.blocked_on), oracle.status(work.run));
            assert_eq!(Some(active.ordinal), oracle.runs[work.run].ordinal);
            assert_eq!(active.attempts, work.tries);
            let slot = active.attempt.as_ref().unwrap();
            assert_eq!(slot.message, oracle.tries[work.attempt].message);
            if work.stage == Stage::Sent {
                assert_eq!(slot.turn, None, "a turn that was not taken up");
            }
            let asked = active.interrupting == Some(slot.id);
            assert_eq!(asked, work.stop_asked);
            assert_eq!(active.restart_pending, work.again);
            assert_eq!(active.answered, work.spoke);
        }
        let line: Vec<_> = oracle.line.iter().map(|run| oracle.runs[*run].id).collect();
        let queue: Vec<_> = state.queue.iter().map(|queued| Some(queued.run)).collect();
        assert_eq!(queue, line);
        assert!(
            line.len() <= limits::QUEUED_RUNS,
            "the line is over its cap"
        );
        assert_eq!(state.queue_revision, oracle.edits);
        assert_eq!(state.held, oracle.held);
        assert!(
            state.held.is_none() || !state.queue.is_empty(),
            "held for nothing"
        );
        for (n, run) in oracle.runs.iter().enumerate() {
            // A run that came and went unseen has no id here.
            let Some(id) = run.id else { continue };
            let row = self
                .row(RowKind::Run, id.as_bytes(), |row| match row {
                    Row::Run(run) => Some(run),
                    _ => None,
                })
                .expect("a run has a row");
            assert_eq!((row.status, row.blocked_on), oracle.status(n), "run {n}");
            assert_eq!(row.ordinal, run.ordinal);
            assert_eq!(row.message, run.message);
        }
        for (id, told) in &oracle.told {
            let delivery = self
                .row(RowKind::Message, id.as_bytes(), |row| match row {
                    Row::Message(message) => Some(message.delivery),
                    _ => None,
                })
                .expect("a message has a row");
            let seen = match delivery {
                Delivery::OnHost => Told::OnHost,
                Delivery::Started => Told::Started,
                Delivery::Failed { .. } => Told::Failed,
                Delivery::Unknown => Told::Unknown,
                Delivery::Saved => panic!("a device's word in a log"),
            };
            assert_eq!(seen, *told, "message {id}");
        }
    }

    fn compare_asks(&self) {
        let mut open = BTreeMap::new();
        for ask in &self.oracle.asks {
            let id = ask.id.unwrap();
            let row = self.thread.request(id).expect("a request has a row");
            let seen = match &row.status {
                RequestStatus::Pending => AskStatus::Pending,
                RequestStatus::Answering { answer, by, .. } => {
                    AskStatus::Answering(answer.clone(), *by)
                }
                RequestStatus::Answered { answer, .. } => AskStatus::Answered(answer.clone()),
                RequestStatus::Withdrawn => AskStatus::Withdrawn,
                RequestStatus::Expired => AskStatus::Expired,
                RequestStatus::Lost { .. } => AskStatus::Lost,
            };
            assert_eq!(seen, ask.status, "request {id}");
            if ask.is_open() {
                assert_eq!(row.content_hash, ask.shown());
                open.insert(id, matches!(ask.status, AskStatus::Answering(..)));
            }
        }
        let slots = &self.thread.state.requests;
        let held: BTreeMap<_, _> = slots.iter().map(|slot| (slot.id, slot.answering)).collect();
        assert_eq!(held, open);
    }

    /// The thread's line in lists.
    fn compare_summary(&self) {
        let oracle = &self.oracle;
        let Some(summary) = &self.thread.summary else {
            assert_eq!(oracle.life, None);
            return;
        };
        let waiting = |questions: bool| {
            let asks = oracle.asks.iter();
            let of = asks.filter(|ask| ask.status == AskStatus::Pending);
            of.filter(|ask| ask.kind.is_question() == questions).count()
        };
        let counts = (summary.waiting.approvals, summary.waiting.questions);
        assert_eq!(counts, (waiting(false) as u32, waiting(true) as u32));
        assert_eq!(summary.queued as usize, oracle.line.len());
        assert_eq!(summary.held, oracle.held);
        let active = summary.active.as_ref().map(|a| (a.status, a.blocked_on));
        assert_eq!(
            active,
            oracle.work.as_ref().map(|work| oracle.status(work.run))
        );
        assert_eq!(self.follower.summary, self.thread.summary);
    }

    fn compare_items(&self) {
        let open: Vec<_> = self
            .oracle
            .items
            .iter()
            .map(|item| (self.item(&item.native), item.background))
            .collect();
        let held: Vec<_> = self
            .thread
            .state
            .items
            .iter()
            .map(|slot| (Some(slot.id), slot.background))
            .collect();
        assert_eq!(held, open);
    }

    /// What is to reach the agent, in order, each once.
    fn compare_errands(&mut self) {
        let expected = std::mem::take(&mut self.oracle.errands);
        let new = std::mem::take(&mut self.fresh_effects);
        assert_eq!(new.len(), expected.len(), "{new:?} instead of {expected:?}");
        for (effect, errand) in new.iter().zip(&expected) {
            let same = match (&effect.kind, errand) {
                (EffectKind::SendTurn { message, .. }, Errand::Turn(sent)) => message == sent,
                (EffectKind::Steer { message, .. }, Errand::Words(sent)) => message == sent,
                (EffectKind::Interrupt { .. }, Errand::Stop)
                | (EffectKind::Compact { .. }, Errand::Shorten) => true,
                (EffectKind::Revert { before, .. }, Errand::Forget(first)) => before == first,
                (EffectKind::Respond { request, answer }, Errand::Answer(asked, sent)) => {
                    (request, answer) == (asked, sent)
                }
                _ => false,
            };
            assert!(same, "{effect:?} instead of {errand:?}");
        }
        for effect in new {
            self.fresh_id(format!("effect {}", effect.id));
            self.effects.push(effect);
        }
    }

    /// Puts the thread away, or takes it out again: on both sides, as an event would.
    pub(crate) fn force_life(&mut self, life: Lifecycle) {
        for thread in [&mut self.thread, &mut self.follower] {
            thread.state.meta.as_mut().expect("it was made").lifecycle = life;
        }
        self.oracle.life = Some(life);
    }

    /// An event of a newer version.
    pub(crate) fn unknown(&mut self, event: LoggedEvent) {
        let mut entry = self.thread.entries.last().expect("it was made").clone();
        entry.events = vec![event];
        self.thread.fold(entry.clone());
        self.follower.fold(entry);
        self.oracle.read_only = true;
    }

    /// From nothing but the log's text: the same thread.
    pub(crate) fn check_replay(&self) {
        let text = serde_json::to_string(&self.thread.entries).unwrap();
        let entries: Vec<Entry> = serde_json::from_str(&text).unwrap();
        let thread = self.thread.state.thread;
        let replayed = MemoryThread::replay(thread, self.policy.clone(), &entries);
        assert_eq!(replayed.digest(), self.thread.digest());
        assert_eq!(replayed.rows, self.thread.rows);
        assert_eq!(replayed.summary, self.thread.summary);
        let text = hash::canonical_json(&self.thread.state);
        let snapshot: ThreadState = serde_json::from_slice(&text).unwrap();
        assert_eq!(snapshot, self.thread.state);
    }
}
