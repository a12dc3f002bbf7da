//! An agent whose every word is the test's: the adapter contract without a process, so that orders and losses that a
//! real agent shows once a year can be shown at will. Real agents are driven in the end-to-end tests.

use futures_util::future::BoxFuture;
use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue, Incarnation, Mode, NativeId, ProviderEvent,
    ProviderEventKind,
    capability::{Fact, Source},
    provider::OfferedModel,
    provider_event::NativePlace,
    request::{AnswerDelivery, LostReason},
};
use pilothouse_providers::contract::{
    AgentRuntime, Compacting, Compaction, Escalation, EventSender, ForkThread, Forking, History,
    InterruptError, Interrupting, Launch, OpenError, OpenThread, ProcessSharing, ProviderAdapter,
    RespondError, Response, RevertError, Reverted, Reverting, RuntimeEvents, SendError, SendTurn,
    StartError, Steer, SteerError, Steering, TurnAccepted,
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};
use tokio::sync::{Notify, mpsc};

/// What the ledger asked of the agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Call {
    Opened { resume: Option<NativeId> },
    Sent(SendTurn),
    Steered(Steer),
    Interrupted { turn: NativeId },
    Responded(Response),
    Signalled(Escalation),
    Stopped,
    Forked(ForkThread),
    Reverted { thread: NativeId, from: NativeId },
    Compacted { thread: NativeId },
}

/// The test's end of the agent.
#[derive(Clone)]
pub(crate) struct Script {
    calls: mpsc::UnboundedSender<Call>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    events: Option<(Incarnation, EventSender)>,
    turns: u32,
    /// What the next `send_turn` answers instead of a turn.
    refuse: Option<SendError>,
    /// Whether it says itself that an answer has come, by an event of its own.
    confirms: bool,
    /// What the next `revert` answers instead of having done it.
    revert: Option<Result<Reverted, RevertError>>,
    /// What the next `revert` waits for.
    revert_gate: Option<Arc<Notify>>,
    /// A conversation that the next fork does not find.
    nothing_to_fork: Option<NativeId>,
    /// What the next start waits for.
    gate: Option<Arc<Notify>>,
    /// Its account was changed: its model takes no pictures any more.
    other_account: bool,
    /// What it remembers of its conversation; `None`: it cannot be asked.
    history: Option<Vec<ProviderEvent>>,
    /// What it still waits for when it is taken up again, where it knows.
    waits_for: Option<Vec<NativeId>>,
    /// It runs where no process of it is the ledger's: what ends is a connection.
    elsewhere: bool,
    /// The connection ends before the next interrupt is answered: what the ledger hears of that waits for this.
    lost_interrupt: Option<Arc<Notify>>,
}

impl Script {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Call>) {
        let (calls, seen) = mpsc::unbounded_channel();
        (
            Self {
                calls,
                state: Arc::default(),
            },
            seen,
        )
    }

    /// It runs where no process of it is the ledger's, which remembers where it left it.
    pub(crate) fn runs_elsewhere(self) -> Self {
        self.state.lock().unwrap().elsewhere = true;
        self
    }

    /// The connection ends before the next interrupt is answered. That it is lost is told once the returned gate is opened.
    pub(crate) fn lose_interrupt(&self) -> Arc<Notify> {
        let gate = Arc::new(Notify::new());
        self.state.lock().unwrap().lost_interrupt = Some(Arc::clone(&gate));
        gate
    }

    pub(crate) fn refuse_next(&self, error: SendError) {
        self.state.lock().unwrap().refuse = Some(error);
    }

    /// The life of the process that runs now.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        let state = self.state.lock().unwrap();
        state.events.as_ref().map(|(incarnation, _)| *incarnation)
    }

    /// The next `revert` is answered so.
    pub(crate) fn answer_revert(&self, answer: Result<Reverted, RevertError>) {
        self.state.lock().unwrap().revert = Some(answer);
    }

    /// The next `revert` waits until the returned gate is opened.
    pub(crate) fn hold_revert(&self) -> Arc<Notify> {
        let gate = Arc::new(Notify::new());
        self.state.lock().unwrap().revert_gate = Some(Arc::clone(&gate));
        gate
    }

    /// The next fork does not find the conversation.
    pub(crate) fn forget_source(&self) {
        self.state.lock().unwrap().nothing_to_fork = Some(NativeId::from("native"));
    }

    /// Turns are counted on from this one, as an agent does that remembers its conversation.
    pub(crate) fn count_turns_from(&self, turns: u32) {
        self.state.lock().unwrap().turns = turns;
    }

    /// From now on the agent itself says when an answer has come.
    pub(crate) fn confirm_answers(&self) {
        self.state.lock().unwrap().confirms = true;
    }

    /// It remembers its conversation, and writes down what it is told before it begins.
    pub(crate) fn remember(&self, history: Vec<ProviderEvent>) {
        self.state.lock().unwrap().history = Some(history);
    }

    /// When it is taken up again it waits for these requests.
    pub(crate) fn waits_for(&self, requests: &[&str]) {
        let requests = requests.iter().map(|request| NativeId::from(*request));
        self.state.lock().unwrap().waits_for = Some(requests.collect());
    }

    /// The next start waits until the returned gate is opened.
    pub(crate) fn hold_start(&self) -> Arc<Notify> {
        let gate = Arc::new(Notify::new());
        self.state.lock().unwrap().gate = Some(Arc::clone(&gate));
        gate
    }

    /// Waits until a start waits that was held.
    pub(crate) async fn is_starting(&self) {
        while self.state.lock().unwrap().gate.is_some() {
            tokio::task::yield_now().await;
        }
    }

    /// The agent says something about its one conversation.
    pub(crate) async fn say(&self, turn: Option<u32>, kind: ProviderEventKind) {
        self.say_in("native", turn, kind).await;
    }

    /// The agent says something about one of its conversations.
    pub(crate) async fn say_in(&self, thread: &str, turn: Option<u32>, kind: ProviderEventKind) {
        let place = NativePlace {
            thread: Some(NativeId::from(thread)),
            root: None,
            turn: turn.map(|n| NativeId(format!("turn-{n}"))),
        };
        self.emit(ProviderEvent { place, kind }).await;
    }

    /// Another account is signed in, with which its model takes no pictures.
    pub(crate) async fn changes_account(&self) {
        self.state.lock().unwrap().other_account = true;
        let place = NativePlace::default();
        let kind = ProviderEventKind::AbilitiesChanged;
        self.emit(ProviderEvent { place, kind }).await;
    }

    /// The agent's process ends, or the connection with one that runs elsewhere.
    pub(crate) async fn die(&self) {
        let kind = ProviderEventKind::SessionEnded {
            reason: LostReason::AgentExited,
            detail: "killed".into(),
        };
        let event = ProviderEvent {
            place: NativePlace::default(),
            kind,
        };
        let ended = self.state.lock().unwrap().events.take();
        tell(ended, event).await;
    }

    async fn emit(&self, event: ProviderEvent) {
        let events = self.state.lock().unwrap().events.clone();
        tell(events, event).await;
    }

    fn note(&self, call: Call) {
        let _ = self.calls.send(call);
    }
}

async fn tell(to: Option<(Incarnation, EventSender)>, event: ProviderEvent) {
    let (incarnation, sender) = to.expect("the agent runs");
    sender
        .send(RuntimeEvents {
            incarnation,
            events: vec![event],
        })
        .await
        .expect("the ledger listens");
}

impl ProviderAdapter for Script {
    fn family(&self) -> &'static str {
        "scripted"
    }

    fn profile(&self) -> Capabilities {
        let mut known = Capabilities {
            version: 1,
            ..Capabilities::default()
        };
        for &flag in CapabilityFlag::ALL {
            let (version, observed_at) = ("1".into(), "2026-11-30".into());
            let fact = Fact {
                value: CapabilityValue::Yes,
                detail: None,
                source: Source::Profile,
                version,
                observed_at,
            };
            known.learn(flag, fact);
        }
        known
    }

    fn modes(&self) -> Vec<Mode> {
        Mode::ALL.to_vec()
    }

    fn sharing(&self) -> ProcessSharing {
        ProcessSharing::PerAgent
    }

    fn runs_elsewhere(&self) -> bool {
        self.state.lock().unwrap().elsewhere
    }

    fn attach(
        &self,
        launch: Launch,
        _: PathBuf,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        self.start(launch, events)
    }

    fn start(
        &self,
        launch: Launch,
        events: EventSender,
    ) -> BoxFuture<'_, Result<Arc<dyn AgentRuntime>, StartError>> {
        Box::pin(async move {
            let gate = self.state.lock().unwrap().gate.take();
            if let Some(gate) = gate {
                gate.notified().await;
            }
            self.state.lock().unwrap().events = Some((launch.incarnation, events));
            let ready = ProviderEventKind::SessionReady {
                incarnation: launch.incarnation,
                version: "1".into(),
                capabilities: self.profile(),
            };
            self.emit(ProviderEvent {
                place: NativePlace::default(),
                kind: ready,
            })
            .await;
            Ok(Arc::new(self.clone()) as Arc<dyn AgentRuntime>)
        })
    }
}

impl AgentRuntime for Script {
    fn capabilities(&self) -> Capabilities {
        self.profile()
    }

    fn process_id(&self) -> Option<u32> {
        None
    }

    fn open_thread(&self, open: OpenThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        self.note(Call::Opened {
            resume: open.resume,
        });
        Box::pin(async { Ok(NativeId::from("native")) })
    }

    fn send_turn(&self, send: SendTurn) -> BoxFuture<'_, Result<TurnAccepted, SendError>> {
        let mut state = self.state.lock().unwrap();
        state.turns += 1;
        let turn = Some(NativeId(format!("turn-{}", state.turns)));
        let result = state.refuse.take().map_or(Ok(TurnAccepted { turn }), Err);
        drop(state);
        self.note(Call::Sent(send));
        Box::pin(async { result })
    }

    fn respond(&self, response: Response) -> BoxFuture<'_, Result<AnswerDelivery, RespondError>> {
        self.note(Call::Responded(response));
        let delivery = match self.state.lock().unwrap().confirms {
            true => AnswerDelivery::Confirmed,
            false => AnswerDelivery::Written,
        };
        Box::pin(async move { Ok(delivery) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        self.note(Call::Stopped);
        Box::pin(async {})
    }

    fn signal(&self, signal: Escalation) -> std::io::Result<()> {
        self.note(Call::Signalled(signal));
        Ok(())
    }

    fn steering(&self) -> Option<&dyn Steering> {
        Some(self)
    }

    fn interrupting(&self) -> Option<&dyn Interrupting> {
        Some(self)
    }

    fn models(&self) -> Vec<OfferedModel> {
        let other_account = self.state.lock().unwrap().other_account;
        let model = |id: &str, is_default| OfferedModel {
            id: id.into(),
            name: id.into(),
            efforts: vec!["low".into(), "high".into()],
            default_effort: None,
            is_default,
            images: Some(is_default && !other_account),
        };
        vec![model("big", true), model("small", false)]
    }

    fn forking(&self) -> Option<&dyn Forking> {
        Some(self)
    }

    fn reverting(&self) -> Option<&dyn Reverting> {
        Some(self)
    }

    fn compacting(&self) -> Option<&dyn Compacting> {
        Some(self)
    }

    fn pending<'r>(&'r self, _: &'r [NativeId]) -> BoxFuture<'r, Option<Vec<NativeId>>> {
        let waits_for = self.state.lock().unwrap().waits_for.clone();
        Box::pin(async { waits_for })
    }

    fn history(&self) -> Option<&dyn History> {
        let remembers = self.state.lock().unwrap().history.is_some();
        remembers.then_some(self as &dyn History)
    }
}

impl History for Script {
    fn read(
        &self,
        _: NativeId,
        turns: u32,
    ) -> BoxFuture<'_, Result<Vec<ProviderEvent>, OpenError>> {
        let state = self.state.lock().unwrap();
        let mut events = state.history.clone().unwrap_or_default();
        let mut newest = Vec::new();
        for event in events.iter().rev() {
            if !newest.contains(&event.place.turn) {
                newest.push(event.place.turn.clone());
            }
        }
        newest.truncate(turns as usize);
        events.retain(|event| newest.contains(&event.place.turn));
        Box::pin(async { Ok(events) })
    }

    fn proves_absence(&self) -> bool {
        true
    }
}

impl Reverting for Script {
    fn revert(
        &self,
        thread: NativeId,
        from: NativeId,
    ) -> BoxFuture<'_, Result<Reverted, RevertError>> {
        self.note(Call::Reverted { thread, from });
        let gate = self.state.lock().unwrap().revert_gate.take();
        let result = self.state.lock().unwrap().revert.take();
        Box::pin(async move {
            if let Some(gate) = gate {
                gate.notified().await;
            }
            result.unwrap_or(Ok(Reverted::Forgotten))
        })
    }
}

impl Compacting for Script {
    fn compact(&self, thread: NativeId) -> BoxFuture<'_, Result<Compaction, SendError>> {
        self.note(Call::Compacted { thread });
        Box::pin(async { Ok(Compaction::Turn { turn: None }) })
    }
}

impl Forking for Script {
    fn fork(&self, fork: ForkThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        self.note(Call::Forked(fork));
        let gone = std::mem::take(&mut self.state.lock().unwrap().nothing_to_fork);
        Box::pin(async move {
            match gone {
                Some(thread) => Err(OpenError::NotFound { thread }),
                None => Ok(NativeId::from("copy")),
            }
        })
    }
}

impl Steering for Script {
    fn steer(&self, steer: Steer) -> BoxFuture<'_, Result<(), SteerError>> {
        self.note(Call::Steered(steer));
        Box::pin(async { Ok(()) })
    }
}

impl Interrupting for Script {
    fn interrupt(&self, _: NativeId, turn: NativeId) -> BoxFuture<'_, Result<(), InterruptError>> {
        let lost = self.state.lock().unwrap().lost_interrupt.take();
        self.note(Call::Interrupted { turn });
        Box::pin(async move {
            let Some(told) = lost else { return Ok(()) };
            told.notified().await;
            Err(InterruptError::Lost)
        })
    }
}
