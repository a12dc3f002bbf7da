//! Threads of ours behind a replayed recording: decide, ingest, apply and project, as a ledger runs them.

use pilothouse_domain::{
    Answer, Capabilities, Command, CommandBody, CommandId, DeviceId, DispatchMode, Effect,
    EffectKind, EffectOutcome, Incarnation, ItemStatus, Mode, NativeId, Policy, ProviderEvent,
    ProviderEventKind, RequestId, RequestStatus, Row, SessionId, Subject, ThreadId,
    binding::{BindingKey, BindingTarget},
    policy::AgentPolicy,
    provider_event::NativePlace,
    request::LostReason,
    thread::{Actor, Selection},
};
use pilothouse_orchestrator::{SessionContext, memory::MemoryThread};
use pilothouse_providers::registry;
use std::collections::BTreeMap;

/// One thread of ours per conversation that was opened.
pub(crate) struct Stage {
    pub(crate) threads: BTreeMap<NativeId, MemoryThread>,
    /// Requests that wait, with what was shown.
    asked: BTreeMap<NativeId, Subject>,
    commands: u8,
    pub(crate) session: SessionContext,
    capabilities: Capabilities,
}

impl Stage {
    pub(crate) fn new(family: &str, capabilities: Capabilities) -> Self {
        Self {
            threads: BTreeMap::new(),
            asked: BTreeMap::new(),
            commands: 0,
            session: SessionContext {
                agent: family.into(),
                family: family.to_owned(),
                session: SessionId::from_bytes([3; 16]),
                incarnation: Incarnation::from_bytes([7; 16]),
                host_time_ms: 1_800_000_000_000,
                contract: registry::family(family)
                    .map(|adapter| adapter.contract(&BTreeMap::new(), &BTreeMap::new()))
                    .unwrap_or_default(),
            },
            capabilities,
        }
    }

    fn policy(&self) -> Policy {
        let agent = AgentPolicy {
            family: self.session.family.clone(),
            modes: Mode::ALL.to_vec(),
            capabilities: self.capabilities.set(),
            sandboxes: Vec::new(),
        };
        Policy {
            version: 1,
            agents: [(self.session.agent.clone(), agent)].into(),
            workspaces: vec!["work".into()],
            default_mode: Mode::Ask,
        }
    }

    /// A person's message in an idle thread: the effect that sends it. `None` while a run goes on, or without a thread.
    pub(crate) fn say(&mut self, thread: &NativeId, text: &str) -> Option<Effect> {
        if self.threads.get(thread)?.state.active.is_some() {
            return None;
        }
        let effects = self.command(
            thread,
            CommandBody::MessageSend {
                text: text.to_owned(),
                attachments: Vec::new(),
                dispatch: DispatchMode::StartImmediately,
                accept_stop: Vec::new(),
            },
        );
        let [send] = &effects[..] else {
            panic!("a message sends itself: {effects:?}")
        };
        assert!(matches!(send.kind, EffectKind::SendTurn { .. }));
        Some(send.clone())
    }

    /// The agent took a turn.
    pub(crate) fn accepted(&mut self, thread: &NativeId, send: &Effect, turn: &NativeId) {
        let outcome = EffectOutcome::TurnAccepted {
            native_thread: thread.clone(),
            native_turn: Some(turn.clone()),
        };
        let memory = self.threads.get_mut(thread).unwrap();
        memory.outcome(Some(&self.session), send, &outcome);
    }

    /// A person stops what runs, if anything does.
    pub(crate) fn interrupt(&mut self, thread: &NativeId) {
        if let Some(active) = self
            .threads
            .get(thread)
            .and_then(|memory| memory.state.active.clone())
            && let Some(attempt) = active.attempt
            && active.barrier.is_none()
        {
            self.command(
                thread,
                CommandBody::RunInterrupt {
                    run: active.id,
                    attempt: attempt.id,
                    hold_queue: true,
                },
            );
        }
    }

    /// What a request that waits offers.
    pub(crate) fn asked(&self, request: &NativeId) -> Option<&Subject> {
        self.asked.get(request)
    }

    /// A person's answer, and what came of giving it to the agent.
    pub(crate) fn answered(&mut self, request: &NativeId, answer: Answer, outcome: &EffectOutcome) {
        let Some((thread, id)) = self.request_of(request) else {
            return;
        };
        let hash = self.threads[&thread].request(id).unwrap().content_hash;
        let effects = self.command(
            &thread,
            CommandBody::RequestAnswer {
                request: id,
                content_hash: hash,
                answer,
            },
        );
        let [respond] = &effects[..] else {
            panic!("an answer responds: {effects:?}")
        };
        let memory = self.threads.get_mut(&thread).unwrap();
        memory.outcome(Some(&self.session), respond, outcome);
    }

    fn command(&mut self, thread: &NativeId, body: CommandBody) -> Vec<pilothouse_domain::Effect> {
        self.commands += 1;
        let memory = self.threads.get_mut(thread).unwrap();
        let command = Command {
            id: CommandId::from_bytes([self.commands; 16]),
            thread: memory.state.thread,
            device_seq: u64::from(self.commands),
            based_on: None,
            issued_at_ms: 0,
            body,
        };
        let device = Actor::Device {
            device: DeviceId::from_bytes([9; 16]),
        };
        memory
            .command(device, &command)
            .expect("a recorded act is a command that is taken");
        std::mem::take(&mut memory.effects)
    }

    fn request_of(&self, native: &NativeId) -> Option<(NativeId, RequestId)> {
        self.threads.iter().find_map(|(thread, memory)| {
            memory
                .bindings
                .iter()
                .find_map(|(key, target)| match (key, target) {
                    (
                        BindingKey::Request { request, .. },
                        BindingTarget::Request {
                            request: id,
                            open: true,
                            ..
                        },
                    ) if request == native => Some((thread.clone(), *id)),
                    _ => None,
                })
        })
    }

    pub(crate) fn event(&mut self, event: &ProviderEvent) {
        match &event.kind {
            ProviderEventKind::RequestOpened {
                request, subject, ..
            } => {
                self.asked.insert(request.clone(), (**subject).clone());
            }
            ProviderEventKind::RequestClosed { request, .. } => {
                self.asked.remove(request);
            }
            ProviderEventKind::ThreadBound => {
                let native = event.place.thread.clone().unwrap();
                if !self.threads.contains_key(&native) {
                    let memory = self.new_thread(native.clone());
                    self.threads.insert(native, memory);
                }
            }
            _ => {}
        }
        if let Some(memory) = event
            .place
            .home()
            .and_then(|home| self.threads.get_mut(home))
        {
            memory.provider(&self.session, event);
        }
    }

    fn new_thread(&mut self, native: NativeId) -> MemoryThread {
        let number = self.threads.len() as u8 + 1;
        let create = CommandId::from_bytes([100 + number; 16]);
        let thread: ThreadId = create.derive("thread");
        let mut memory = MemoryThread::new(thread, self.policy());
        let command = Command {
            id: create,
            thread,
            device_seq: 1,
            based_on: None,
            issued_at_ms: 0,
            body: CommandBody::ThreadCreate {
                title: native.to_string(),
                workspace: "work".into(),
                selection: Selection {
                    agent: self.session.agent.clone(),
                    model: None,
                    effort: None,
                    mode: Mode::Ask,
                    sandbox: None,
                },
            },
        };
        let device = Actor::Device {
            device: DeviceId::from_bytes([9; 16]),
        };
        memory.command(device, &command).unwrap();
        memory.provider(
            &self.session,
            &ProviderEvent {
                place: NativePlace::default(),
                kind: ProviderEventKind::SessionReady {
                    incarnation: self.session.incarnation,
                    version: "1".to_owned(),
                    capabilities: self.capabilities.clone(),
                },
            },
        );
        memory
    }

    /// What was done without asking, as its rows say it.
    pub(crate) fn unasked(&self) -> Vec<String> {
        let rows = self
            .threads
            .values()
            .flat_map(|memory| memory.rows.0.values());
        let items = rows.filter_map(|row| match row {
            Row::Item(item) => item.anomaly.map(|_| format!("{:?}", item.content)),
            _ => None,
        });
        items.collect()
    }

    /// What of a thread is open after its runtime was lost at this point; empty if all is well.
    pub(crate) fn left_open_after_loss(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (native, memory) in &self.threads {
            let mut memory = memory.clone();
            memory.lose_runtime(LostReason::AgentExited, "cut");
            let state = &memory.state;
            if state.active.is_some()
                || !state.requests.is_empty()
                || !state.items.is_empty()
                || !state.nodes.is_empty()
            {
                left.push(format!(
                    "{native}: active {:?}, requests {:?}, items {:?}, nodes {:?}",
                    state.active, state.requests, state.items, state.nodes
                ));
            }
            let rows = memory.rows.0.values().filter(|row| match row {
                Row::Item(item) => item.status == ItemStatus::Open,
                Row::Request(request) => request.status == RequestStatus::Pending,
                _ => false,
            });
            left.extend(rows.map(|row| format!("{native}: {row:?}")));
        }
        left
    }
}
