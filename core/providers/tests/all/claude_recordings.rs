//! All recordings of Claude Code, whole, cut and split, through codec, ingest and apply.

use crate::{
    claude_labels::LABELS,
    every::{Recording, every_recording},
    labels::outcome,
    replay::{Recorded, load_of, names_of},
    stage::Stage,
};
use pilothouse_domain::{
    Answer, Effect, EffectKind, EffectOutcome, NativeId, ProviderEvent, ProviderEventKind,
    RequestStatus, Row, Subject,
    provider_event::{NativePlace, Resolution},
    request::{OptionEffect, QuestionReply},
};
use pilothouse_providers::claude::{
    AnswerProblem, Call, CallError, Codec, Received, Reply, profile,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Recordings in which the client answered otherwise than we ever do: with a changed input, or with all suggestions at once.
const ODD_ANSWERS: [&str; 2] = ["02_updated_input", "02_allow_always_rule"];

/// A recording as far as it was replayed.
pub(crate) struct Replay {
    name: String,
    pub(crate) codec: Codec,
    pub(crate) stage: Stage,
    pub(crate) received: Vec<Received>,
    session: NativeId,
    /// Inputs of what was asked, by request.
    inputs: BTreeMap<String, Value>,
    sending: BTreeMap<u64, Effect>,
}

impl Recording for Replay {
    type Heard = Received;

    fn all() -> Vec<(&'static str, String)> {
        let names = names_of("claude");
        assert!(names.len() >= 40, "the recordings of claude are there");
        names.into_iter().map(|name| ("claude", name)).collect()
    }

    /// Answers that their recorder left out stand in the recordings by a mark.
    fn records(agent: &str, name: &str) -> Vec<Recorded> {
        let mut records = load_of(agent, name);
        records.retain(|record| record.frame.is_object() && !record.frame["response"].is_string());
        records
    }

    fn new(name: &str, records: &[Recorded]) -> Self {
        let session = records
            .iter()
            .filter(|record| record.dir != "c2s")
            .find_map(|record| record.frame["session_id"].as_str())
            .unwrap_or("none");
        let session = NativeId::from(session);
        let mut stage = Stage::new("claude", profile::capabilities());
        stage.event(&ProviderEvent {
            place: NativePlace {
                thread: Some(session.clone()),
                ..NativePlace::default()
            },
            kind: ProviderEventKind::ThreadBound,
        });
        Self {
            name: name.to_owned(),
            codec: Codec::serving("life", session.clone()),
            stage,
            received: Vec::new(),
            session,
            inputs: BTreeMap::new(),
            sending: BTreeMap::new(),
        }
    }

    fn step(&mut self, record: &Recorded) {
        let kind = record.frame["type"].as_str().unwrap_or_default();
        match (record.dir.as_str(), kind) {
            ("c2s", "control_request") => self.client_calls(&record.frame),
            ("c2s", "control_response") => self.client_answers(&record.frame),
            ("c2s", "user") => self.client_says(&record.frame),
            ("c2s", _) => {}
            _ => {
                if kind == "control_request" {
                    let id = record.frame["request_id"].as_str().unwrap().to_owned();
                    let input = record.frame["request"]["input"].clone();
                    self.inputs.insert(id, input);
                }
                for one in self.codec.receive(&record.line) {
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
        let mut codec = Codec::new("life");
        move |bytes| codec.receive(bytes)
    }
}

/// Whether the process was not killed while a request waited or a turn went on, nor had ended when it was written to.
fn goes_to_its_end(name: &str) -> bool {
    let dead = name.ends_with("_a") || name == "10_kill_pending_permission_b";
    !(name.starts_with("10_kill") && dead)
}

every_recording!(Replay, goes_to_its_end);

impl Replay {
    fn take(&mut self, one: &Received) {
        match one {
            Received::Event(event) => self.stage.event(event),
            Received::Reply {
                call,
                reply: Ok(Reply::Turn { turn }),
            } => {
                if let Some(send) = self.sending.remove(call) {
                    self.stage.accepted(&self.session.clone(), &send, turn);
                }
            }
            Received::Reply { .. } | Received::Send(_) => {}
        }
    }

    fn client_calls(&mut self, frame: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = text(&frame["request_id"]);
        let request = &frame["request"];
        let call = match text(&request["subtype"]).as_str() {
            "initialize" => Call::Initialize,
            "interrupt" => {
                self.stage.interrupt(&self.session.clone());
                Call::Interrupt
            }
            "set_permission_mode" => Call::SetMode {
                mode: text(&request["mode"]),
            },
            "set_model" => Call::SetModel {
                model: Some(text(&request["model"])),
            },
            other => Call::Foreign {
                method: other.to_owned(),
            },
        };
        self.codec.register(id, call);
    }

    fn client_says(&mut self, frame: &Value) {
        let content = frame["message"]["content"].as_array().unwrap().clone();
        let said = content
            .iter()
            .find_map(|block| block["text"].as_str())
            .unwrap_or("[image]");
        // A second message while a turn goes on is never sent by us.
        let send = self.stage.say(&self.session.clone(), said);
        let client_id = match send.as_ref().map(|send| &send.kind) {
            Some(EffectKind::SendTurn { message, .. }) => message.to_string(),
            _ => "another client's".to_owned(),
        };
        let call = self.codec.register(
            String::new(),
            Call::Prompt {
                turn: frame["uuid"].as_str().map(NativeId::from),
                client_id,
                content,
            },
        );
        if let Some(send) = send {
            self.sending.insert(call, send);
        }
    }

    /// An answer of the recorded client: ours to the same request must be the same frame.
    fn client_answers(&mut self, frame: &Value) {
        let id = frame["response"]["request_id"].as_str().unwrap();
        let request = NativeId(json!(id).to_string());
        let Some(subject) = self.stage.asked(&request).cloned() else {
            return;
        };
        let input = &self.inputs[id];
        let given = &frame["response"]["response"];
        let answers = possible(&subject, given);
        let wanted = without_repeated_input(given, input);
        let found = answers.iter().find(|answer| {
            // Tried on a copy, so that only the right answer is given.
            let line = self.codec.clone().answer(&request, answer);
            line.is_ok_and(|line| {
                let written: Value = serde_json::from_slice(&line).unwrap();
                assert_eq!(written["response"]["request_id"], id);
                with_words(&written["response"]["response"], &wanted) == wanted
            })
        });
        let answer = found.or_else(|| {
            assert!(
                ODD_ANSWERS.contains(&self.name.as_str()),
                "{}: every answer is one of ours: {given}",
                self.name
            );
            answers.first()
        });
        let answer = answer.unwrap().clone();
        self.codec.answer(&request, &answer).expect("it fits");
        self.stage
            .answered(&request, answer, &EffectOutcome::Acknowledged);
    }
}

/// Every answer that could have been given.
fn possible(subject: &Subject, given: &Value) -> Vec<Answer> {
    let mut answers: Vec<Answer> = subject
        .options
        .iter()
        .map(|option| Answer::Choose {
            option: option.id.clone(),
            note: None,
        })
        .collect();
    let told = given["updatedInput"]["answers"]
        .as_object()
        .or(given["content"].as_object());
    if let Some(told) = told {
        let replies = told
            .iter()
            .map(|(id, words)| {
                let question = subject.questions.iter().find(|one| one.id == *id).unwrap();
                let words = words
                    .as_str()
                    .map_or_else(|| words.to_string(), str::to_owned);
                let mut own = Vec::new();
                let mut chosen = Vec::new();
                for part in words.split(", ") {
                    if question.choices.iter().any(|choice| choice.label == part) {
                        chosen.push(part.to_owned());
                    } else {
                        own.push(part);
                    }
                }
                QuestionReply {
                    question: id.clone(),
                    chosen,
                    text: Some(own.join(", ")).filter(|text| !text.is_empty()),
                }
            })
            .collect();
        answers.push(Answer::Reply { replies });
    }
    answers
}

/// The recorded client gave the input back where we give none: both mean that it stays as it is.
fn without_repeated_input(given: &Value, input: &Value) -> Value {
    let mut given = given.clone();
    if given["behavior"] == "allow" && given["updatedInput"] == *input {
        given.as_object_mut().unwrap().remove("updatedInput");
    }
    given
}

/// Our answer with the recorded client's words for our own, and without what only says that there is nothing.
fn with_words(ours: &Value, wanted: &Value) -> Value {
    let mut ours = ours.clone();
    let fields = ours.as_object_mut().unwrap();
    if fields.contains_key("message") && wanted.get("message").is_some() {
        fields.insert("message".to_owned(), wanted["message"].clone());
    }
    fields.retain(|_, value| !value.is_null());
    if wanted.get("content").is_none() && fields.get("content") == Some(&json!({})) {
        fields.remove("content");
    }
    ours
}

#[test]
fn nothing_of_a_recording_that_went_to_its_end_stays_open() {
    for (agent, name) in Replay::all() {
        if !goes_to_its_end(&name) {
            continue;
        }
        let replay = Replay::of(agent, &name);
        assert!(!replay.codec.is_busy(), "{name}");
        assert_eq!(replay.codec.pending_requests().count(), 0, "{name}");
        for memory in replay.stage.threads.values() {
            assert!(memory.state.active.is_none(), "{name}");
            let open = &memory.state.items;
            assert!(open.is_empty(), "{name}: {open:?}");
        }
    }
}

#[test]
fn a_conversation_that_is_not_there_fails_whoever_waits_and_is_no_event() {
    let mut codec = Codec::new("life");
    let (number, _) = codec.call(Call::Initialize);
    let frames = Replay::records("claude", "09_life_resume_bogus");
    let received: Vec<Received> = frames
        .iter()
        .filter(|record| record.dir != "c2s")
        .flat_map(|record| codec.receive(&record.line))
        .collect();
    assert!(
        received.iter().any(|one| matches!(
            one,
            Received::Reply { call, reply: Err(CallError::NoConversation { .. }) } if *call == number
        )),
        "{received:?}"
    );
    assert!(!codec.is_busy());
}

#[test]
fn case_35_a_permission_that_waits_when_a_person_stops_the_turn_is_withdrawn_and_not_answerable() {
    let replay = Replay::of("claude", "07_interrupt_pending_permission");
    let late = Answer::Choose {
        option: "allow".into(),
        note: None,
    };
    assert_withdrawn(&replay, &late);
}

#[test]
fn case_15_a_question_that_the_agent_takes_back_is_withdrawn_and_not_answerable() {
    let mut records = Replay::records("claude", "03_ask_user_question");
    let asks = records
        .iter()
        .position(|record| record.dir != "c2s" && record.frame["type"] == "control_request")
        .expect("it asks");
    records.truncate(asks + 1);
    let mut replay = Replay::new("03_ask_user_question", &records);
    for record in &records {
        replay.step(record);
    }
    let waiting: Vec<NativeId> = replay.codec.pending_requests().cloned().collect();
    let [request] = &waiting[..] else {
        panic!("one question waits: {waiting:?}")
    };
    let question = replay.stage.asked(request).unwrap().questions[0].clone();
    let taken_back = json!({
        "type": "control_cancel_request",
        "request_id": records[asks].frame["request_id"],
    });
    for one in replay.codec.receive(format!("{taken_back}\n").as_bytes()) {
        replay.take(&one);
        replay.received.push(one);
    }
    let late = Answer::Reply {
        replies: vec![QuestionReply {
            question: question.id,
            chosen: vec![question.choices[0].label.clone()],
            text: None,
        }],
    };
    assert_withdrawn(&replay, &late);
    assert!(replay.codec.is_busy(), "nobody stopped the turn");
}

/// What was asked is closed as taken back, for the agent's side and for a person's, and no answer goes to it any more.
fn assert_withdrawn(replay: &Replay, late: &Answer) {
    let closed = replay.received.iter().filter_map(|one| match one {
        Received::Event(ProviderEvent {
            kind:
                ProviderEventKind::RequestClosed {
                    request,
                    resolution,
                },
            ..
        }) => Some((request.clone(), *resolution)),
        _ => None,
    });
    let closed: Vec<_> = closed.collect();
    let [(request, Resolution::Withdrawn)] = &closed[..] else {
        panic!("one request, taken back: {closed:?}")
    };
    let answer = replay.codec.clone().answer(request, late);
    let request = request.clone();
    assert_eq!(answer, Err(AnswerProblem::NotPending { request }));
    let statuses: Vec<_> = replay
        .stage
        .threads
        .values()
        .flat_map(|memory| memory.rows.0.values())
        .filter_map(|row| match row {
            Row::Request(request) => Some(request.status.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, [RequestStatus::Withdrawn]);
}

#[test]
fn case_11_every_variant_of_an_answer_is_told_to_the_agent_by_the_request_that_it_answers() {
    let mut tried = 0;
    for name in ["01_basic_allow", "06_subagent", "19_mcp_elicitation"] {
        let records = Replay::records("claude", name);
        let mut replay = Replay::new(name, &records);
        for record in &records {
            replay.step(record);
            let waiting: Vec<NativeId> = replay.codec.pending_requests().cloned().collect();
            for request in waiting {
                let Some(subject) = replay.stage.asked(&request) else {
                    continue;
                };
                for option in &subject.options {
                    let answer = Answer::Choose {
                        option: option.id.clone(),
                        note: None,
                    };
                    let Ok(line) = replay.codec.clone().answer(&request, &answer) else {
                        continue;
                    };
                    let frame: Value = serde_json::from_slice(&line).unwrap();
                    let id = frame["response"]["request_id"].to_string();
                    assert_eq!(id, request.as_str());
                    let said = &frame["response"]["response"];
                    if let Some(behavior) = said.get("behavior") {
                        assert_eq!(
                            behavior == "allow",
                            option.effect.allows() || option.effect == OptionEffect::Other
                        );
                    }
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn twenty_recordings_end_as_a_person_reads_them() {
    let mut wrong = Vec::new();
    for (name, lines) in LABELS {
        let came_to = outcome(&Replay::of("claude", name).stage);
        if came_to != *lines {
            wrong.push(format!("{name} came to {came_to:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(LABELS.len() >= 20);
}
