//! All recordings of pi and omp, whole, cut and split, through codec, ingest and apply.

use crate::{
    every::{Recording, every_recording},
    labels::outcome,
    replay::{Recorded, load_of, names_of},
    stage::Stage,
};
use pilothouse_domain::{
    Answer, EffectOutcome, NativeId, ProviderEvent, ProviderEventKind, provider::TurnStatus,
    request::QuestionReply,
};
use pilothouse_providers::pi::{Call, Codec, Received, Reply, profile};
use pilothouse_providers::picture::{Encoded, Picture};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A recording as far as it was replayed.
pub(crate) struct Replay {
    codec: Codec,
    pub(crate) stage: Stage,
    pub(crate) received: Vec<Received>,
    /// Prompts whose turn has not begun: the effect that sent each.
    sending: BTreeMap<u64, pilothouse_domain::Effect>,
}

/// The pictures that went with a recorded prompt.
fn pictures(frame: &Value) -> Vec<Encoded> {
    let images = frame["images"].as_array().into_iter().flatten();
    let picture = |image: &Value| Encoded {
        kind: Picture::Png,
        data: image["data"].as_str().unwrap().to_owned(),
    };
    images.map(picture).collect()
}

impl Recording for Replay {
    type Heard = Received;

    fn all() -> Vec<(&'static str, String)> {
        let of = |agent: &'static str| names_of(agent).into_iter().map(move |name| (agent, name));
        let all: Vec<_> = of("pi").chain(of("omp")).collect();
        assert!(all.len() >= 16, "the recordings are there");
        all
    }

    /// What their recorder left out is put back as far as it is needed: which session omp has.
    fn records(agent: &str, name: &str) -> Vec<Recorded> {
        let mut records = load_of(agent, name);
        for record in &mut records {
            if record.frame["data"].is_string() {
                record.frame["data"] = json!({"sessionId": "of-omp", "isStreaming": false});
                record.line = record.frame.to_string().into_bytes();
                record.line.push(b'\n');
            }
        }
        records
    }

    fn new(_: &str, _: &[Recorded]) -> Self {
        Self {
            codec: Codec::new("life"),
            stage: Stage::new("pi", profile::capabilities()),
            received: Vec::new(),
            sending: BTreeMap::new(),
        }
    }

    fn step(&mut self, record: &Recorded) {
        if record.dir == "c2s" {
            if record.frame["type"] == "extension_ui_response" {
                self.client_answers(&record.frame);
            } else {
                self.client_says(&record.frame);
            }
            return;
        }
        for one in self.codec.receive(&record.line) {
            match &one {
                Received::Event(event) => self.stage.event(event),
                Received::Reply {
                    call,
                    reply: Ok(Reply::Turn { turn }),
                } => {
                    if let (Some(home), Some(send)) =
                        (self.codec.home().cloned(), self.sending.remove(call))
                    {
                        self.stage.accepted(&home, &send, turn);
                    }
                }
                _ => {}
            }
            self.received.push(one);
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

every_recording!(Replay, |_| true);

impl Replay {
    fn client_says(&mut self, frame: &Value) {
        let id = frame["id"]
            .as_str()
            .unwrap()
            .trim_start_matches('r')
            .parse()
            .unwrap();
        let text = frame["message"].as_str().unwrap_or_default().to_owned();
        let client_id = String::new();
        let name = frame["type"].as_str().unwrap();
        let call = match name {
            "get_state" => Call::Opened,
            "prompt" if text.starts_with("/pilothouse-gate") => Call::Command { text },
            // A second prompt while one goes on is never sent by us.
            "prompt" if !self.codec.is_busy() => {
                let said = if text.is_empty() { "a picture" } else { &text };
                let home = self.codec.home().cloned();
                if let Some(send) = home.and_then(|home| self.stage.say(&home, said)) {
                    self.sending.insert(id, send);
                }
                Call::Prompt {
                    client_id,
                    text,
                    pictures: pictures(frame),
                }
            }
            "steer" => Call::Steer { client_id, text },
            "clear_queue" => Call::ClearQueue,
            "abort" => {
                if let Some(home) = self.codec.home().cloned() {
                    self.stage.interrupt(&home);
                }
                Call::Abort
            }
            "get_entries" => Call::Entries,
            "get_available_models" => Call::Models,
            "clone" => Call::Clone,
            _ => Call::Foreign {
                name: name.to_owned(),
            },
        };
        self.codec.register(id, call);
    }

    /// An answer of the recorded client: ours to the same request must be the same frame.
    fn client_answers(&mut self, frame: &Value) {
        let request = NativeId(frame["id"].to_string());
        let subject = self.stage.asked(&request).cloned().expect("it was asked");
        let chosen = subject.options.iter().map(|option| Answer::Choose {
            option: option.id.clone(),
            note: None,
        });
        let replied = subject.questions.iter().flat_map(|question| {
            question.choices.iter().map(|choice| Answer::Reply {
                replies: vec![QuestionReply {
                    question: question.id.clone(),
                    chosen: vec![choice.label.clone()],
                    text: None,
                }],
            })
        });
        let given = frame["value"].as_str().unwrap_or_default();
        let typed = subject.questions.iter().map(|question| Answer::Reply {
            replies: vec![QuestionReply {
                question: question.id.clone(),
                chosen: Vec::new(),
                text: Some(given.to_owned()),
            }],
        });
        let reason = serde_json::from_str::<Value>(given).unwrap_or_default();
        let noted = subject.options.iter().map(|option| Answer::Choose {
            option: option.id.clone(),
            note: reason["reason"].as_str().map(str::to_owned),
        });
        let answer = chosen
            .chain(replied)
            .chain(typed)
            .chain(noted)
            .find(|answer| {
                let line = self.codec.clone().answer(&request, answer);
                line.is_ok_and(|line| serde_json::from_slice::<Value>(&line).unwrap() == *frame)
            });
        let answer = answer.expect("every answer was one that is offered");
        self.codec.answer(&request, &answer).unwrap();
        self.stage
            .answered(&request, answer, &EffectOutcome::Written);
    }
}

/// A session that was read back says with the same ids what was heard when it happened, so that it changes nothing.
#[test]
fn what_is_read_back_is_what_was_heard() {
    let replay = Replay::of("pi", "01_basic");
    let heard: Vec<_> = replay
        .received
        .iter()
        .filter_map(|one| match one {
            Received::Event(event) => Some(event),
            _ => None,
        })
        .filter_map(|event| match &event.kind {
            ProviderEventKind::ItemClosed { item, content, .. } => {
                Some((event.place.clone(), item, content))
            }
            _ => None,
        })
        .collect();
    let read = replay
        .received
        .iter()
        .find_map(|one| match one {
            Received::Reply {
                reply: Ok(Reply::Entries(entries)),
                ..
            } => Some(entries.clone().last(10)),
            _ => None,
        })
        .expect("the entries were asked for");
    let kinds: Vec<_> = read.iter().map(|event| &event.kind).collect();
    assert!(
        matches!(
            kinds[..],
            [
                ProviderEventKind::TurnStarted,
                ..,
                ProviderEventKind::TurnEnded {
                    status: TurnStatus::Completed,
                    error: None
                }
            ]
        ),
        "{kinds:#?}"
    );
    assert_eq!(read.len(), 6, "{read:#?}");
    for event in &read[1..5] {
        let ProviderEventKind::ItemClosed { item, content, .. } = &event.kind else {
            panic!("{event:?}");
        };
        assert!(
            heard.contains(&(event.place.clone(), item, content)),
            "{event:?}"
        );
    }
}

/// Recordings and what a person reads in them, checked by hand against their frames.
const LABELS: &[(&str, &str, &[&str])] = &[
    (
        "pi",
        "01_basic",
        &[
            "run Completed",
            "user `go [[script:p1]]` Completed",
            "reasoning `Let me think.` Completed",
            "assistant `I will write.` Completed",
            "command `echo hi > out.txt; echo shown` exit Some(0) Completed",
            "assistant `All done.` Completed",
            "compaction `Compaction failed: Nothi… 57 c6cc44ea` Failed",
        ],
    ),
    (
        "pi",
        "02_abort_text",
        &[
            "run Interrupted",
            "run Completed",
            "user `go [[script:psl]]` Completed",
            "assistant `word word word word word… 45 b94ef721` Interrupted",
            "interrupt Completed",
            "user `plain` Completed",
            "assistant `word word word word word… 300 fe8d8744` Completed",
        ],
    ),
    (
        "pi",
        "03_abort_tool",
        &[
            "run Interrupted",
            "user `go [[script:pslp]]` Completed",
            "assistant `Run` Completed",
            "command `echo a; sleep 12; echo b` exit None Interrupted",
            "interrupt Completed",
        ],
    ),
    (
        "pi",
        "04_steer_followup",
        &[
            "run Completed",
            "user `go [[script:psl]]` Completed",
            "assistant `word word word word word… 300 fe8d8744` Completed",
            "user `steer me` Completed",
            "assistant `word word word word word… 300 fe8d8744` Completed",
            "user `follow me` Completed",
            "assistant `word word word word word… 300 fe8d8744` Completed",
        ],
    ),
    (
        "pi",
        "05_extension_confirm",
        &[
            "run Completed",
            "user `go [[script:prm]]` Completed",
            "command `rm -rf /home/dev/project/nothing` exit Some(0) Completed",
            "question Completed",
            "assistant `after` Completed",
            "request UserInput answered Yes",
        ],
    ),
    (
        "pi",
        "06_error_401",
        &[
            "run Failed (SignIn)",
            "user `go [[script:pe401]]` Completed",
            "error SignIn (tries again) Failed",
            "error SignIn (tries again) Failed",
            "error SignIn (tries again) Failed",
            "error SignIn Failed",
        ],
    ),
    (
        "pi",
        "06_error_500",
        &[
            "run Completed",
            "user `go [[script:pe500]]` Completed",
            "error ModelService (tries again) Failed",
            "assistant `ok now` Completed",
        ],
    ),
    (
        "pi",
        "06_error_die",
        &[
            "run Failed (ModelService)",
            "user `go [[script:pedie]]` Completed",
            "error ModelService (tries again) Failed",
            "error ModelService (tries again) Failed",
            "error ModelService (tries again) Failed",
            "error ModelService Failed",
        ],
    ),
    (
        "pi",
        "07_resume",
        &[
            "run Completed",
            "user `plain` Completed",
            "assistant `All done.` Completed",
        ],
    ),
    (
        "pi",
        "10_gate",
        &[
            "run Completed",
            "run Completed",
            "run Completed",
            "run Interrupted",
            "run Completed",
            "user `go [[script:once]]` Completed",
            "assistant `I run it.` Completed",
            "command `touch once.txt` exit Some(0) Completed",
            "assistant `after` Completed",
            "user `go [[script:twice]]` Completed",
            "assistant `I run it.` Completed",
            "command `echo x >> s.txt` exit Some(0) Completed",
            "assistant `I run it.` Completed",
            "command `echo x >> s.txt` exit Some(0) Completed",
            "assistant `after` Completed",
            "user `go [[script:no]]` Completed",
            "assistant `I run it.` Completed",
            "command `touch no.txt` exit None Declined",
            "assistant `after` Completed",
            "user `go [[script:stop]]` Completed",
            "assistant `I run it.` Completed",
            "command `touch stop.txt` exit None Declined",
            "user `go [[script:file]]` Completed",
            "change a.txt Completed",
            "change a.txt Completed",
            "assistant `done` Completed",
            "request Command answered allow",
            "request Command answered allow_session",
            "request Command answered deny",
            "request Command answered deny_stop",
            "request FileChange answered allow",
            "request FileChange answered allow",
        ],
    ),
    (
        "omp",
        "01_basic",
        &[
            "run Completed",
            "user `go [[script:p1]]` Completed",
            "reasoning `Let me think.` Completed",
            "assistant `I will write.` Completed",
            "command `echo hi > out.txt; echo shown` exit None Completed",
            "assistant `All done.` Completed",
        ],
    ),
    (
        "omp",
        "02_abort",
        &[
            "run Interrupted",
            "run Interrupted",
            "user `go [[script:psl]]` Completed",
            "assistant `word word word word word… 45 b94ef721` Interrupted",
            "interrupt Completed",
            "user `s` Completed",
        ],
    ),
    (
        "omp",
        "03_always_ask",
        &[
            "run Completed",
            "user `go [[script:pask]]` Completed",
            "command `touch asked.txt` exit None Completed",
            "assistant `after` Completed",
            "request Command answered approve",
        ],
    ),
];

#[test]
fn labelled_recordings_come_to_what_was_read_by_hand() {
    let mut wrong = Vec::new();
    for (agent, name, lines) in LABELS {
        let seen = outcome(&Replay::of(agent, name).stage);
        if seen != *lines {
            wrong.push(format!("{agent}/{name}: {seen:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
