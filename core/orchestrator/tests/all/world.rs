//! A thread with an agent `codex` on it, one person at a device, and short words for what both do.

use pilothouse_domain::{
    Answer, Body, CapabilityFlag, CapabilityValue, Command, CommandBody, CommandId, ContentHash,
    DeviceId, DispatchMode, Effect, EffectKind, EffectOutcome, Event, Incarnation, ItemContent,
    ItemId, ItemStatus, LoggedEvent, MessageId, Mode, NativeId, OptionId, Policy, ProviderEvent,
    ProviderEventKind, Refusal, RequestId, Row, Run, RunId, RuntimeRequest, SessionId, Subject,
    ThreadId, TurnItem,
    capability::{Capabilities, CapabilitySet, Fact, Source},
    policy::AgentPolicy,
    provider::TurnStatus,
    provider_event::{NativePlace, Resolution},
    request::{Choice, OptionEffect, Question, QuestionReply, RequestKind, RequestOption},
    row::RowKind,
    run::RunError,
    thread::{Actor, ConversationMessage, Selection},
};
use pilothouse_orchestrator::{Rows, SessionContext, Verdict, memory::MemoryThread};

pub(crate) const PHONE: u8 = 1;
pub(crate) const TABLET: u8 = 2;

pub(crate) struct World {
    pub(crate) thread: MemoryThread,
    pub(crate) session: SessionContext,
    pub(crate) turns: u32,
    pub(crate) place: NativePlace,
    commands: u64,
}

pub(crate) fn device(n: u8) -> DeviceId {
    DeviceId::from_bytes([n; 16])
}

pub(crate) fn command_id(n: u64) -> CommandId {
    let mut bytes = [7; 16];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    CommandId::from_bytes(bytes)
}

pub(crate) fn policy(steering: CapabilityValue, interrupt: CapabilityValue) -> Policy {
    let mut capabilities = CapabilitySet::default();
    capabilities.insert(CapabilityFlag::ActiveSteering, steering);
    capabilities.insert(CapabilityFlag::Interrupt, interrupt);
    Policy {
        version: 1,
        agents: [(
            "codex".into(),
            AgentPolicy {
                family: "codex".to_owned(),
                modes: vec![Mode::ReadOnly, Mode::Ask, Mode::AutoEdit],
                capabilities,
                sandboxes: Vec::new(),
            },
        )]
        .into(),
        workspaces: vec!["project".into()],
        default_mode: Mode::Ask,
    }
}

pub(crate) fn create(id: CommandId) -> Command {
    Command {
        id,
        thread: id.derive("thread"),
        device_seq: 1,
        based_on: None,
        issued_at_ms: 1,
        body: CommandBody::ThreadCreate {
            title: "Make the tests pass".to_owned(),
            workspace: "project".into(),
            selection: Selection {
                agent: "codex".into(),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
        },
    }
}

pub(crate) fn full_policy() -> Policy {
    policy(CapabilityValue::Yes, CapabilityValue::Yes)
}

impl World {
    /// A thread on an agent that can be steered and stopped.
    pub(crate) fn new() -> Self {
        Self::on(full_policy())
    }

    /// A thread on an agent that can be stopped, not steered.
    pub(crate) fn without_steering() -> Self {
        Self::on(policy(CapabilityValue::No, CapabilityValue::Yes))
    }

    pub(crate) fn on(policy: Policy) -> Self {
        let command = create(command_id(0));
        let mut thread = MemoryThread::new(command.thread, policy);
        let actor = Actor::Device {
            device: device(PHONE),
        };
        thread.command(actor, &command).expect("the thread is new");
        Self {
            thread,
            session: SessionContext {
                agent: "codex".into(),
                family: "codex".to_owned(),
                session: SessionId::from_bytes([3; 16]),
                incarnation: Incarnation::from_bytes([4; 16]),
                host_time_ms: 0,
                contract: Default::default(),
            },
            turns: 0,
            place: NativePlace {
                thread: Some("T".into()),
                root: None,
                turn: None,
            },
            commands: 0,
        }
    }

    pub(crate) fn make(&mut self, body: CommandBody) -> Command {
        self.commands += 1;
        Command {
            id: command_id(self.commands),
            thread: self.thread.state.thread,
            device_seq: self.commands,
            based_on: None,
            issued_at_ms: 1,
            body,
        }
    }

    pub(crate) fn submit_as(&mut self, who: u8, command: &Command) -> Result<Verdict, Refusal> {
        let actor = Actor::Device {
            device: device(who),
        };
        self.thread.command(actor, command)
    }

    pub(crate) fn submit(&mut self, body: CommandBody) -> Result<Verdict, Refusal> {
        let command = self.make(body);
        self.submit_as(PHONE, &command)
    }

    /// Sends a message; gives its id, its own run's and what came of it.
    pub(crate) fn say(
        &mut self,
        text: &str,
        dispatch: DispatchMode,
    ) -> (MessageId, RunId, Result<Verdict, Refusal>) {
        self.say_stopping(text, dispatch, &[])
    }

    pub(crate) fn say_stopping(
        &mut self,
        text: &str,
        dispatch: DispatchMode,
        accept_stop: &[ItemId],
    ) -> (MessageId, RunId, Result<Verdict, Refusal>) {
        let command = self.make(CommandBody::MessageSend {
            text: text.to_owned(),
            attachments: Vec::new(),
            dispatch,
            accept_stop: accept_stop.to_vec(),
        });
        let result = self.submit_as(PHONE, &command);
        (
            command.id.derive("message"),
            command.id.derive("run"),
            result,
        )
    }

    /// Sends a message that starts at once; the agent does not have it yet.
    pub(crate) fn start(&mut self, text: &str) -> RunId {
        let (_, run, result) = self.say(text, DispatchMode::StartImmediately);
        assert_eq!(result, Ok(Verdict::Accepted { notice: None }));
        run
    }

    /// Sends a message that starts at once, and has the agent take it up.
    pub(crate) fn running(&mut self, text: &str) -> RunId {
        let run = self.start(text);
        self.take_up();
        run
    }

    /// The agent takes up the turn last sent.
    pub(crate) fn take_up(&mut self) -> Effect {
        let effect = self.sent().expect("a turn was sent");
        self.turns += 1;
        let turn = NativeId(format!("U{}", self.turns));
        self.place.turn = Some(turn.clone());
        let outcome = EffectOutcome::TurnAccepted {
            native_thread: "T".into(),
            native_turn: Some(turn),
        };
        let session = self.session.clone();
        self.thread.outcome(Some(&session), &effect, &outcome);
        self.agent(ProviderEventKind::TurnStarted);
        effect
    }

    /// The effect that sends a turn, if one waits.
    pub(crate) fn sent(&mut self) -> Option<Effect> {
        let at = self
            .thread
            .effects
            .iter()
            .position(|effect| matches!(effect.kind, EffectKind::SendTurn { .. }))?;
        Some(self.thread.effects.remove(at))
    }

    /// Every effect that waits.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.thread.effects)
    }

    pub(crate) fn outcome(&mut self, effect: &Effect, outcome: EffectOutcome) {
        let session = self.session.clone();
        self.thread.outcome(Some(&session), effect, &outcome);
    }

    pub(crate) fn agent(&mut self, kind: ProviderEventKind) {
        let place = self.place.clone();
        self.agent_at(place, kind);
    }

    pub(crate) fn agent_at(&mut self, place: NativePlace, kind: ProviderEventKind) {
        let session = self.session.clone();
        self.thread
            .provider(&session, &ProviderEvent { place, kind });
    }

    pub(crate) fn end_turn(&mut self, status: TurnStatus) {
        self.agent(ProviderEventKind::TurnEnded {
            status,
            error: None,
        });
    }

    pub(crate) fn fail_turn(&mut self, error: RunError) {
        self.agent(ProviderEventKind::TurnEnded {
            status: TurnStatus::Failed,
            error: Some(error),
        });
    }

    pub(crate) fn open(&mut self, item: &str, content: ItemContent) {
        self.agent(ProviderEventKind::ItemOpened {
            item: item.into(),
            content,
            client_id: None,
        });
    }

    pub(crate) fn append(&mut self, item: &str, text: &str, shape: ItemContent) {
        self.agent(ProviderEventKind::ItemAppended {
            item: item.into(),
            text: text.to_owned(),
            shape: Box::new(shape),
        });
    }

    pub(crate) fn close(&mut self, item: &str, status: ItemStatus, content: ItemContent) {
        self.agent(ProviderEventKind::ItemClosed {
            item: item.into(),
            status,
            content,
            client_id: None,
        });
    }

    pub(crate) fn ask(
        &mut self,
        request: &str,
        item: Option<&str>,
        kind: RequestKind,
        subject: Subject,
    ) {
        self.agent(ProviderEventKind::RequestOpened {
            request: request.into(),
            item: item.map(NativeId::from),
            kind,
            subject: Box::new(subject),
            unknown_fields: false,
        });
    }

    pub(crate) fn resolved(&mut self, request: &str, resolution: Resolution) {
        self.agent(ProviderEventKind::RequestClosed {
            request: request.into(),
            resolution,
        });
    }

    pub(crate) fn answer_as(
        &mut self,
        who: u8,
        request: RequestId,
        content_hash: ContentHash,
        answer: Answer,
    ) -> Result<Verdict, Refusal> {
        let command = self.make(CommandBody::RequestAnswer {
            request,
            content_hash,
            answer,
        });
        self.submit_as(who, &command)
    }

    pub(crate) fn answer(
        &mut self,
        request: &RuntimeRequest,
        option: &str,
    ) -> Result<Verdict, Refusal> {
        self.answer_as(PHONE, request.id, request.content_hash, choose(option))
    }

    pub(crate) fn interrupt(&mut self, hold_queue: bool) -> Result<Verdict, Refusal> {
        let active = self.thread.state.active.clone().expect("a run is active");
        let attempt = active.attempt.expect("it has an attempt").id;
        self.submit(CommandBody::RunInterrupt {
            run: active.id,
            attempt,
            hold_queue,
        })
    }

    // Reading.

    pub(crate) fn run(&self, id: RunId) -> Run {
        match self.thread.rows.get(RowKind::Run.key(id.as_bytes())) {
            Some(Row::Run(run)) => run,
            _ => panic!("no run {id}"),
        }
    }

    pub(crate) fn message(&self, id: MessageId) -> ConversationMessage {
        match self.thread.rows.get(RowKind::Message.key(id.as_bytes())) {
            Some(Row::Message(message)) => message,
            _ => panic!("no message {id}"),
        }
    }

    /// The timeline, in order.
    pub(crate) fn items(&self) -> Vec<TurnItem> {
        let mut items: Vec<TurnItem> = self
            .thread
            .rows
            .0
            .values()
            .filter_map(|row| match row {
                Row::Item(item) => Some(item.clone()),
                _ => None,
            })
            .collect();
        items.sort_by_key(|item| item.position);
        items
    }

    /// Every request there ever was, in the order of asking.
    pub(crate) fn requests(&self) -> Vec<RuntimeRequest> {
        let mut asked = Vec::new();
        for event in self.events() {
            if let Event::RequestOpened { request } = event
                && !asked.contains(&request.id)
            {
                asked.push(request.id);
            }
        }
        asked
            .into_iter()
            .map(|id| self.thread.request(id).expect("it has a row"))
            .collect()
    }

    pub(crate) fn request(&self) -> RuntimeRequest {
        self.requests().pop().expect("a request was asked")
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.thread
            .entries
            .iter()
            .flat_map(|entry| &entry.events)
            .filter_map(|event| match event {
                LoggedEvent::Known(event) => Some((**event).clone()),
                LoggedEvent::Unknown(_) => None,
            })
            .collect()
    }

    pub(crate) fn queue(&self) -> Vec<RunId> {
        self.thread.state.queue.iter().map(|q| q.run).collect()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.thread.state.queue_revision
    }
}

pub(crate) fn thread_id(world: &World) -> ThreadId {
    world.thread.state.thread
}

pub(crate) fn choose(option: &str) -> Answer {
    Answer::Choose {
        option: OptionId::from(option),
        note: None,
    }
}

pub(crate) fn reply(question: &str, chosen: &[&str], text: Option<&str>) -> Answer {
    Answer::Reply {
        replies: vec![QuestionReply {
            question: question.to_owned(),
            chosen: chosen.iter().map(|&label| label.to_owned()).collect(),
            text: text.map(str::to_owned),
        }],
    }
}

pub(crate) fn assistant(text: &str) -> ItemContent {
    ItemContent::AssistantMessage {
        text: Body::inline(text),
    }
}

pub(crate) fn command(line: &str, output: &str) -> ItemContent {
    ItemContent::Command {
        command: line.to_owned(),
        cwd: "/home/dev/project".to_owned(),
        output: Body::inline(output),
        agent_output: None,
        exit_code: None,
        duration_ms: None,
    }
}

/// What codex sends with an approval: its own options, verbatim.
pub(crate) fn approval(line: &str) -> Subject {
    Subject {
        command: Some(line.to_owned()),
        cwd: Some("/home/dev/project".to_owned()),
        options: options(),
        ..Subject::default()
    }
}

pub(crate) fn options() -> Vec<RequestOption> {
    let option = |id: &str, label: &str, effect| RequestOption {
        id: id.into(),
        label: label.to_owned(),
        effect,
        reach: "this once".to_owned(),
    };
    vec![
        option("accept", "Allow", OptionEffect::AllowOnce),
        option(
            "acceptForSession",
            "Allow for this session",
            OptionEffect::AllowSession,
        ),
        option("decline", "Deny", OptionEffect::Deny),
        option("cancel", "Deny and stop", OptionEffect::DenyAndStop),
    ]
}

pub(crate) fn question(id: &str, labels: &[&str], multi_select: bool, free_text: bool) -> Question {
    Question {
        id: id.to_owned(),
        header: "Colour".to_owned(),
        text: "Which one?".to_owned(),
        choices: labels
            .iter()
            .map(|&label| Choice {
                label: label.to_owned(),
                description: None,
            })
            .collect(),
        multi_select,
        optional: false,
        free_text,
        secret: false,
    }
}

pub(crate) fn questions(questions: Vec<Question>) -> Subject {
    Subject {
        questions,
        ..Subject::default()
    }
}

pub(crate) fn handshake(flags: &[(CapabilityFlag, CapabilityValue)]) -> ProviderEventKind {
    let mut capabilities = Capabilities {
        version: 1,
        ..Capabilities::default()
    };
    for (flag, value) in flags {
        capabilities.learn(
            *flag,
            Fact {
                value: *value,
                detail: None,
                source: Source::Handshake,
                version: "0.171.0".to_owned(),
                observed_at: "2026-11-30".to_owned(),
            },
        );
    }
    ProviderEventKind::SessionReady {
        incarnation: Incarnation::from_bytes([4; 16]),
        version: "0.171.0".to_owned(),
        capabilities,
    }
}
