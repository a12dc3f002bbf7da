//! A recording, replayed through the codec and, per conversation, through decide, ingest, apply and project.

use crate::{every::Recording, stage::Stage, support::root};
use pilothouse_domain::{
    Answer, Effect, EffectOutcome, Mode, NativeId, ProviderEvent, request::QuestionReply,
};
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
    let names = names_of("codex");
    assert!(names.len() >= 50, "the recordings are there");
    names
}

/// The recordings of an agent.
pub(crate) fn names_of(agent: &str) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder(agent))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    names.sort();
    names
}

fn folder(agent: &str) -> PathBuf {
    root().join("tests/recordings").join(agent)
}

pub(crate) fn load(name: &str) -> Vec<Recorded> {
    load_of("codex", name)
}

/// A recording of an agent.
pub(crate) fn load_of(agent: &str, name: &str) -> Vec<Recorded> {
    let text = fs::read_to_string(folder(agent).join(format!("{name}.jsonl"))).unwrap();
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
            mcp: Vec::new(),
        },
        "thread/resume" => Call::ThreadResume {
            thread,
            cwd: PathBuf::new(),
            model: None,
            permissions,
            mcp: Vec::new(),
        },
        "thread/turns/list" => Call::TurnsList {
            thread,
            limit: 50,
            cursor: None,
            whole: true,
        },
        "turn/start" => Call::TurnStart {
            thread,
            client_id,
            text,
            images: Vec::new(),
            cwd: None,
            model: None,
            effort: None,
            permissions,
            plans: None,
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
    pub(crate) stage: Stage,
    /// What came of the codec, in order.
    pub(crate) received: Vec<Received>,
    /// Effects whose outcome a reply brings.
    sending: BTreeMap<u64, (NativeId, Effect)>,
}

impl Replay {
    fn client_calls(&mut self, frame: &Value) {
        let Some(id) = frame["id"].as_u64() else {
            return;
        };
        let call = call_of(frame);
        if let Call::TurnStart { thread, text, .. } = &call
            && let Some(send) = self.stage.say(thread, text)
        {
            self.sending.insert(id, (thread.clone(), send));
        }
        if let Call::TurnInterrupt { thread, .. } = &call {
            self.stage.interrupt(thread);
        }
        self.codec.register(id, call);
    }

    /// An answer of the recorded client: ours to the same request must be the same frame.
    fn client_answers(&mut self, frame: &Value) {
        let request = NativeId(frame["id"].to_string());
        let Some(subject) = self.stage.asked(&request) else {
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
        self.stage
            .answered(&request, answer, &EffectOutcome::Acknowledged);
    }

    fn take(&mut self, one: &Received) {
        match one {
            Received::Event(event) => self.stage.event(event),
            Received::Reply {
                call,
                reply: Ok(Reply::Turn { turn, known_before }),
            } => {
                if let Some((thread, send)) = self.sending.remove(call) {
                    assert!(!known_before, "an idle conversation starts a turn");
                    self.stage.accepted(&thread, &send, turn);
                }
            }
            Received::Reply { .. } | Received::Send(_) => {}
        }
    }
}

impl Recording for Replay {
    type Heard = Received;

    fn all() -> Vec<(&'static str, String)> {
        names().into_iter().map(|name| ("codex", name)).collect()
    }

    fn records(agent: &str, name: &str) -> Vec<Recorded> {
        load_of(agent, name)
    }

    fn new(_: &str, _: &[Recorded]) -> Self {
        Self {
            codec: Codec::new(),
            stage: Stage::new("codex", profile::capabilities()),
            received: Vec::new(),
            sending: BTreeMap::new(),
        }
    }

    fn step(&mut self, record: &Recorded) {
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

    fn stage(&self) -> &Stage {
        &self.stage
    }

    fn heard(&self) -> &[Received] {
        &self.received
    }

    fn event(heard: &Received) -> Option<&ProviderEvent> {
        match heard {
            Received::Event(event) => Some(event),
            _ => None,
        }
    }

    fn reader(_: &str, _: &str) -> impl FnMut(&[u8]) -> Vec<Received> {
        let mut codec = Codec::new();
        move |bytes| codec.receive(bytes)
    }
}
