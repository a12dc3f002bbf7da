//! A recording of opencode, replayed through the codec and, per conversation, through decide, ingest, apply and project.

use crate::{
    every::Recording,
    replay::{Recorded, load_of},
    stage::Stage,
};
use pilothouse_domain::{Answer, EffectOutcome, NativeId, ProviderEvent, request::QuestionReply};
use pilothouse_providers::opencode::{Call, Codec, Reply, Session, Told, Working, profile};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Recordings of the first interface; the second is not used.
pub(crate) fn names() -> Vec<String> {
    let names: Vec<_> = crate::replay::names_of("opencode");
    assert!(names.len() >= 30, "the recordings are there");
    names
}

/// Something that the recorded client did, whose answer is not there yet.
struct Asked {
    path: String,
    call: Option<Call>,
}

/// A recording as far as it was replayed.
pub(crate) struct Replay {
    pub(crate) codec: Codec,
    pub(crate) stage: Stage,
    pub(crate) told: Vec<Told>,
    asked: VecDeque<Asked>,
    /// What the conversations did when their status was read last.
    working: BTreeMap<NativeId, Working>,
    /// The names that opencode gave to the messages of the prompts.
    named: VecDeque<Option<NativeId>>,
}

/// The bytes of an event as opencode writes them.
pub(crate) fn sse(record: &Recorded) -> Vec<u8> {
    match &record.frame {
        Value::String(raw) => raw.clone().into_bytes(),
        frame => format!("data: {frame}\n\n").into_bytes(),
    }
}

/// Whether a line of a recording is an event of the stream.
pub(crate) fn is_event(record: &Recorded) -> bool {
    record.dir != "c2s" && record.frame.get("http").is_none()
}

/// For each prompt the name of the message that it became, if the recording shows it.
fn names_of_prompts(records: &[Recorded]) -> VecDeque<Option<NativeId>> {
    let mut seen = BTreeSet::new();
    let mut names = VecDeque::new();
    for (at, record) in records.iter().enumerate() {
        let path = record.frame["path"].as_str().unwrap_or_default();
        let is_prompt = record.dir == "c2s"
            && record.frame["http"] == "POST"
            && (path.ends_with("/prompt_async") || path.ends_with("/message"))
            && !path.starts_with("/api");
        if is_prompt {
            let session = path.split('/').nth(2).unwrap();
            let name = records[at..]
                .iter()
                .filter_map(|record| user_message(&record.frame, session))
                .find(|name| !seen.contains(name));
            seen.extend(name.clone());
            names.push_back(name);
        } else if let Some(session) = record.frame["properties"]["sessionID"].as_str() {
            seen.extend(user_message(&record.frame, session));
        }
    }
    names
}

/// The message of a person in a conversation that an event tells of.
fn user_message(frame: &Value, session: &str) -> Option<NativeId> {
    let told = &frame["properties"];
    let ours = frame["type"] == "message.updated"
        && told["sessionID"] == session
        && told["info"]["role"] == "user";
    ours.then(|| NativeId(told["info"]["id"].as_str().unwrap().to_owned()))
}

impl Replay {
    fn take(&mut self, told: Vec<Told>) {
        for one in told {
            if let Told::Event(event) = &one {
                self.stage.event(event);
            }
            self.told.push(one);
        }
    }

    /// A conversation that was made before the recording begins, or is copied in it.
    fn open(&mut self, session: &Session) {
        if session.parent.is_some() || self.codec.is_open(&session.id) {
            return;
        }
        self.codec.open(session);
        let bound = pilothouse_domain::ProviderEvent {
            place: pilothouse_domain::provider_event::NativePlace {
                thread: Some(session.id.clone()),
                ..Default::default()
            },
            kind: pilothouse_domain::ProviderEventKind::ThreadBound,
        };
        self.take(vec![Told::Event(bound)]);
    }

    fn client_calls(&mut self, frame: &Value) {
        let path = frame["path"].as_str().unwrap().to_owned();
        let body = &frame["body"];
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let directory = "/home/dev/oc/ws".to_owned();
        let session = NativeId(parts.get(1).copied().unwrap_or_default().to_owned());
        let post = frame["http"] == "POST";
        let call = match &parts[..] {
            ["session"] if post => Some(Call::Create {
                directory,
                rules: Vec::new(),
            }),
            ["session", "status"] => Some(Call::Status { directory }),
            ["session", _, "prompt_async" | "message"] if post => {
                self.prompt(&session, body);
                None
            }
            ["session", _, "message"] => {
                self.known(&session);
                Some(Call::Messages {
                    session,
                    limit: 100,
                    before: None,
                })
            }
            ["session", _, "abort"] => {
                let turn = self.codec.active_turn(&session).cloned();
                if let Some(turn) = turn {
                    self.stage.interrupt(&session);
                    assert!(self.codec.stop(&session, &turn).is_some());
                }
                None
            }
            ["session", _, "children"] => Some(Call::Children { session }),
            ["session", _, "fork"] => Some(Call::Fork {
                session,
                before: None,
            }),
            ["permission"] => Some(Call::Permissions { directory }),
            ["question"] => Some(Call::Questions { directory }),
            ["permission" | "question", id, _] => {
                self.client_answers(id, frame);
                None
            }
            _ => None,
        };
        self.asked.push_back(Asked { path, call });
    }

    /// A conversation that the recorded client names without having made it.
    fn known(&mut self, session: &NativeId) {
        self.open(&Session {
            id: session.clone(),
            directory: "/home/dev/oc/ws".to_owned(),
            parent: None,
            created_ms: 0,
            rules: Vec::new(),
            model: None,
            reverted: None,
        });
    }

    /// A second prompt while one goes on is never sent by us. The recorded client let opencode name the message.
    fn prompt(&mut self, session: &NativeId, body: &Value) {
        self.known(session);
        let named = self.named.pop_front().unwrap();
        let Some(turn) = named.filter(|_| self.codec.active_turn(session).is_none()) else {
            return;
        };
        let text = body["parts"][0]["text"].as_str().unwrap();
        if let Some(send) = self.stage.say(session, text) {
            self.stage.accepted(session, &send, &turn);
        }
        assert!(self.codec.prompted(session, turn));
    }

    /// An answer of the recorded client: ours to the same request must be the same call.
    fn client_answers(&mut self, id: &str, frame: &Value) {
        let request = NativeId(json!(id).to_string());
        let Some(subject) = self.stage.asked(&request).cloned() else {
            return;
        };
        let note = frame["body"]["message"].as_str().map(str::to_owned);
        let mut answers: Vec<Answer> = Vec::new();
        for option in &subject.options {
            answers.push(Answer::Choose {
                option: option.id.clone(),
                note: note.clone(),
            });
        }
        if let Some(lists) = frame["body"]["answers"].as_array() {
            let replies = lists
                .iter()
                .enumerate()
                .map(|(at, words)| QuestionReply {
                    question: at.to_string(),
                    chosen: words
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|word| word.as_str().unwrap().to_owned())
                        .collect(),
                    text: None,
                })
                .collect();
            answers.push(Answer::Reply { replies });
        }
        let same = |call: &Call| {
            let asked = call.request();
            let body = asked.body.unwrap_or_default();
            let recorded = match &frame["body"] {
                Value::Null => json!({}),
                body => body.clone(),
            };
            asked.path == frame["path"].as_str().unwrap() && body == recorded
        };
        let answer = answers.into_iter().find(|answer| {
            // Tried on a copy, so that only the right answer is given.
            self.codec
                .clone()
                .answer(&request, answer)
                .is_ok_and(|call| same(&call))
        });
        let answer = answer.expect("every recorded answer is one that is offered");
        self.codec.answer(&request, &answer).unwrap();
        self.stage
            .answered(&request, answer, &EffectOutcome::Acknowledged);
    }

    fn client_is_answered(&mut self, frame: &Value) {
        let path = frame["path"].as_str().unwrap();
        let Some(at) = self.asked.iter().position(|asked| asked.path == path) else {
            return;
        };
        let asked = self.asked.remove(at).unwrap();
        let Some(call) = asked.call else { return };
        let status = frame["http"].as_u64().unwrap() as u16;
        let body = frame["body"].to_string();
        let reply = self.codec.answered(&call, status, body.as_bytes());
        match (reply, call) {
            (Ok(Reply::Session(session)), Call::Create { .. } | Call::Fork { .. }) => {
                self.open(&session);
            }
            (Ok(Reply::Working(working)), _) => self.working = working,
            (Ok(Reply::Waiting(list)), Call::Permissions { .. }) => {
                // The list of a stopped conversation holds what it had asked.
                let working = self.working_now();
                let none = Default::default();
                let told = self
                    .codec
                    .waiting("/elsewhere", &working, &list, &none, &[]);
                self.take(told);
            }
            (Ok(Reply::Messages(messages)), Call::Messages { session, .. }) => {
                let working = self.working_now().get(&session).copied();
                let told = self.codec.synchronise(&session, working, &messages);
                self.take(told);
            }
            (Ok(Reply::Children(children)), _) => self.codec.adopt_children(&children),
            _ => {}
        }
    }

    /// What conversations do: as was read, or as the codec knows.
    fn working_now(&self) -> BTreeMap<NativeId, Working> {
        let mut working = self.working.clone();
        let open: Vec<NativeId> = self.codec.opened().map(|(id, _)| id.clone()).collect();
        for session in open {
            if self.codec.active_turn(&session).is_some() {
                working.insert(session, Working::Busy);
            }
        }
        working
    }
}

impl Recording for Replay {
    type Heard = Told;

    fn all() -> Vec<(&'static str, String)> {
        names().into_iter().map(|name| ("opencode", name)).collect()
    }

    fn records(agent: &str, name: &str) -> Vec<Recorded> {
        load_of(agent, name)
    }

    fn new(_: &str, records: &[Recorded]) -> Self {
        Self {
            codec: Codec::new(),
            stage: Stage::new("opencode", profile::capabilities()),
            told: Vec::new(),
            asked: VecDeque::new(),
            working: BTreeMap::new(),
            named: names_of_prompts(records),
        }
    }

    fn step(&mut self, record: &Recorded) {
        if record.dir == "c2s" {
            self.client_calls(&record.frame);
        } else if record.frame.get("http").is_some() {
            self.client_is_answered(&record.frame);
        } else {
            let told = self.codec.receive(&sse(record));
            self.take(told);
        }
    }

    fn stage(&self) -> &Stage {
        &self.stage
    }

    fn heard(&self) -> &[Told] {
        &self.told
    }

    fn event(heard: &Told) -> Option<&ProviderEvent> {
        match heard {
            Told::Event(event) => Some(event),
            _ => None,
        }
    }

    /// With its conversations open, as they are in the middle of it.
    fn reader(agent: &str, name: &str) -> impl FnMut(&[u8]) -> Vec<Told> {
        let mut codec = Self::of(agent, name).codec;
        move |bytes| codec.receive(bytes)
    }

    fn written(record: &Recorded) -> Option<Vec<u8>> {
        is_event(record).then(|| sse(record))
    }
}
