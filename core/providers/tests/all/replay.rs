//! A recording, replayed through the codec and, per conversation, through decide, ingest, apply and project.

use crate::support::root;
use pilothouse_domain::{
    Answer, Command, CommandBody, CommandId, DeviceId, DispatchMode, EffectKind, EffectOutcome,
    Incarnation, Mode, NativeId, Policy, ProviderEvent, ProviderEventKind, RequestId, SessionId,
    Subject, ThreadId,
    binding::{BindingKey, BindingTarget},
    policy::AgentPolicy,
    provider_event::NativePlace,
    request::{LostReason, QuestionReply},
    thread::{Actor, Selection},
};
use pilothouse_orchestrator::{SessionContext, memory::MemoryThread};
use pilothouse_providers::codex::{Call, Codec, Permissions, Received, Reply, profile};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::PathBuf};

/// One line of a recording.
pub(crate) struct Recorded {
    pub(crate) dir: String,
    pub(crate) frame: Value,
    /// The frame as codex or the client wrote it.
    pub(crate) line: Vec<u8>,
}

pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 50, "the recordings are there");
    names
}

fn folder() -> PathBuf {
    root().join("tests/recordings/codex")
}

pub(crate) fn load(name: &str) -> Vec<Recorded> {
    let text = fs::read_to_string(folder().join(format!("{name}.jsonl"))).unwrap();
    text.lines()
        .map(|line| {
            let mut record: Value = serde_json::from_str(line).unwrap();
            let frame = record["frame"].take();
            let mut line = match &frame {
                Value::String(raw) => raw.clone().into_bytes(),
                other => other.to_string().into_bytes(),
            };
            line.push(b'\n');
            Recorded {
                dir: record["dir"].as_str().unwrap().to_owned(),
                frame,
                line,
            }
        })
        .filter(|record| record.dir != "note")
        .collect()
}

/// The call that a recorded client made.
pub(crate) fn call_of(frame: &Value) -> Call {
    let params = &frame["params"];
    let thread = NativeId(params["threadId"].as_str().unwrap_or("").to_owned());
    let turn = || {
        let named = params["turnId"]
            .as_str()
            .or(params["expectedTurnId"].as_str());
        NativeId(named.unwrap_or("").to_owned())
    };
    let client_id = params["clientUserMessageId"]
        .as_str()
        .unwrap_or("")
        .to_owned();
    let text = params["input"][0]["text"].as_str().unwrap_or("").to_owned();
    let permissions = Permissions::from(Mode::Ask);
    match frame["method"].as_str().unwrap() {
        "initialize" => Call::Initialize {
            version: String::new(),
        },
        "model/list" => Call::ModelList,
        "account/read" => Call::AccountRead,
        "thread/start" => Call::ThreadStart {
            cwd: PathBuf::new(),
            model: None,
            permissions,
        },
        "thread/resume" => Call::ThreadResume {
            thread,
            cwd: PathBuf::new(),
            model: None,
            permissions,
        },
        "thread/turns/list" => Call::TurnsList {
            thread,
            limit: 50,
            cursor: None,
        },
        "turn/start" => Call::TurnStart {
            thread,
            client_id,
            text,
            cwd: None,
            model: None,
            effort: None,
            permissions,
        },
        "turn/steer" => Call::TurnSteer {
            thread,
            turn: turn(),
            client_id,
            text,
        },
        "turn/interrupt" => Call::TurnInterrupt {
            thread,
            turn: turn(),
        },
        other => Call::Foreign {
            method: other.to_owned(),
        },
    }
}

/// A recording as far as it was replayed.
pub(crate) struct Replay {
    pub(crate) codec: Codec,
    /// One thread of ours per conversation that was opened.
    pub(crate) threads: BTreeMap<NativeId, MemoryThread>,
    /// What came of the codec, in order.
    pub(crate) received: Vec<Received>,
    /// Requests that wait, with what was shown.
    asked: BTreeMap<NativeId, Subject>,
    /// Effects whose outcome a reply brings.
    sending: BTreeMap<u64, (NativeId, pilothouse_domain::Effect)>,
    commands: u8,
    /// Calls that are answered in the recording by anything but the codec's own calls.
    pub(crate) session: SessionContext,
}

fn policy() -> Policy {
    let agent = AgentPolicy {
        family: "codex".to_owned(),
        modes: Mode::ALL.to_vec(),
        capabilities: profile::capabilities().set(),
    };
    Policy {
        version: 1,
        agents: [("codex".into(), agent)].into(),
        workspaces: vec!["work".into()],
        default_mode: Mode::Ask,
    }
}

impl Replay {
    pub(crate) fn new() -> Self {
        Self {
            codec: Codec::new(),
            threads: BTreeMap::new(),
            received: Vec::new(),
            asked: BTreeMap::new(),
            sending: BTreeMap::new(),
            commands: 0,
            session: SessionContext {
                agent: "codex".into(),
                family: "codex".to_owned(),
                session: SessionId::from_bytes([3; 16]),
                incarnation: Incarnation::from_bytes([7; 16]),
                host_time_ms: 1_800_000_000_000,
            },
        }
    }

    pub(crate) fn of(records: &[Recorded]) -> Self {
        let mut replay = Self::new();
        for record in records {
            replay.step(record);
        }
        replay
    }

    pub(crate) fn step(&mut self, record: &Recorded) {
        match (record.dir.as_str(), record.frame.get("method")) {
            ("c2s", Some(_)) => self.client_calls(&record.frame),
            ("c2s", None) => self.client_answers(&record.frame),
            _ => {
                let received = self.codec.receive(&record.line);
                for one in received {
                    self.take(&one);
                    self.received.push(one);
                }
            }
        }
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

    fn client_calls(&mut self, frame: &Value) {
        let Some(id) = frame["id"].as_u64() else {
            return;
        };
        let call = call_of(frame);
        if let Call::TurnStart { thread, text, .. } = &call
            && self
                .threads
                .get(thread)
                .is_some_and(|memory| memory.state.active.is_none())
        {
            let effects = self.command(
                thread,
                CommandBody::MessageSend {
                    text: text.clone(),
                    attachments: Vec::new(),
                    dispatch: DispatchMode::StartImmediately,
                    accept_stop: Vec::new(),
                },
            );
            let [send] = &effects[..] else {
                panic!("a message sends itself: {effects:?}")
            };
            assert!(matches!(send.kind, EffectKind::SendTurn { .. }));
            self.sending.insert(id, (thread.clone(), send.clone()));
        }
        if let Call::TurnInterrupt { thread, .. } = &call
            && let Some(active) = self
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
        self.codec.register(id, call);
    }

    /// An answer of the recorded client: ours to the same request must be the same frame.
    fn client_answers(&mut self, frame: &Value) {
        let request = NativeId(frame["id"].to_string());
        let Some(subject) = self.asked.get(&request) else {
            return;
        };
        let mut answers: Vec<Answer> = subject
            .options
            .iter()
            .map(|option| Answer::Choose {
                option: option.id.clone(),
                note: None,
            })
            .collect();
        if let Some(given) = frame["result"]["answers"].as_object() {
            let replies = given
                .iter()
                .map(|(question, answer)| QuestionReply {
                    question: question.clone(),
                    chosen: vec![answer["answers"][0].as_str().unwrap().to_owned()],
                    text: None,
                })
                .collect();
            answers.push(Answer::Reply { replies });
        }
        let Some(answer) = answers.into_iter().find(|answer| {
            // Tried on a copy, so that only the right answer is given.
            let line = self.codec.clone().answer(&request, answer);
            line.is_ok_and(|line| serde_json::from_slice::<Value>(&line).unwrap() == *frame)
        }) else {
            return;
        };
        let line = self.codec.answer(&request, &answer).expect("it fits");
        let written: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(written, *frame, "the answer is the frame that was recorded");
        let Some((thread, id)) = self.request_of(&request) else {
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
        memory.outcome(Some(&self.session), respond, &EffectOutcome::Acknowledged);
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

    fn take(&mut self, one: &Received) {
        match one {
            Received::Event(event) => self.event(event),
            Received::Reply {
                call,
                reply: Ok(Reply::Turn { turn, known_before }),
            } => {
                if let Some((thread, effect)) = self.sending.remove(call) {
                    assert!(!known_before, "an idle conversation starts a turn");
                    let outcome = EffectOutcome::TurnAccepted {
                        native_thread: thread.clone(),
                        native_turn: Some(turn.clone()),
                    };
                    let memory = self.threads.get_mut(&thread).unwrap();
                    memory.outcome(Some(&self.session), &effect, &outcome);
                }
            }
            Received::Reply { .. } | Received::Send(_) => {}
        }
    }

    fn event(&mut self, event: &ProviderEvent) {
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
        let mut memory = MemoryThread::new(thread, policy());
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
                    agent: "codex".into(),
                    model: None,
                    effort: None,
                    mode: Mode::Ask,
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
                    version: "0.171.0".to_owned(),
                    capabilities: profile::capabilities(),
                },
            },
        );
        memory
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
        }
        left
    }
}
