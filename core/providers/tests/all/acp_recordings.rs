//! All recordings of the seven ACP agents, whole, cut and split, through codec, ingest and apply.

use crate::{
    every::{Recording, every_recording},
    labels::outcome,
    replay::{Recorded, load_of, names_of},
    stage::Stage,
};
use pilothouse_domain::{Answer, EffectOutcome, NativeId, ProviderEvent};
use pilothouse_providers::acp::{Call, Codec, Received, profile};
use serde_json::Value;
use std::path::PathBuf;

/// The agents that were recorded.
const AGENTS: [&str; 7] = [
    "claude-agent-acp",
    "codex-acp",
    "copilot",
    "gemini-cli",
    "hermes-acp",
    "opencode-acp",
    "qwen-code",
];

/// A recording as far as it was replayed.
struct Replay {
    codec: Codec,
    stage: Stage,
    received: Vec<Received>,
}

impl Recording for Replay {
    type Heard = Received;

    fn all() -> Vec<(&'static str, String)> {
        let of = |agent: &'static str| {
            let names = names_of(agent);
            assert!(names.len() >= 10, "the recordings of {agent} are there");
            names.into_iter().map(move |name| (agent, name))
        };
        AGENTS.into_iter().flat_map(of).collect()
    }

    /// Frames that their recorder left out stand in the recordings by a mark.
    fn records(agent: &str, name: &str) -> Vec<Recorded> {
        let mut records = load_of(agent, name);
        records.retain(|record| !record.frame["params"].is_string());
        records
    }

    fn new(_: &str, _: &[Recorded]) -> Self {
        Self {
            codec: Codec::new("life"),
            stage: Stage::new("acp", profile::capabilities()),
            received: Vec::new(),
        }
    }

    fn step(&mut self, record: &Recorded) {
        match (record.dir.as_str(), record.frame.get("method")) {
            ("c2s", Some(_)) => self.client_says(&record.frame),
            ("c2s", None) => self.client_answers(&record.frame),
            _ => {
                for one in self.codec.receive(&record.line) {
                    if let Received::Event(event) = &one {
                        self.stage.event(event);
                    }
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

// The process was killed, or its input closed, while a request waited or a turn went on.
every_recording!(Replay, |name| !name.ends_with("_a"));

impl Replay {
    fn client_says(&mut self, frame: &Value) {
        let params = &frame["params"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let session = NativeId(text(&params["sessionId"]));
        let cwd = PathBuf::new();
        let method = text(&frame["method"]);
        let Some(id) = frame["id"].as_u64() else {
            assert_eq!(method, "session/cancel");
            let turn = self.codec.active_turn(&session).cloned();
            if let Some(turn) = turn {
                self.stage.interrupt(&session);
                assert!(self.codec.cancel(&session, &turn).is_some());
            }
            return;
        };
        let call = match method.as_str() {
            "initialize" => Call::Initialize {
                version: String::new(),
            },
            "session/new" => Call::New {
                cwd,
                mcp: Vec::new(),
            },
            "session/load" => Call::Load {
                session,
                cwd,
                mcp: Vec::new(),
            },
            "session/resume" => Call::Resume {
                session,
                cwd,
                mcp: Vec::new(),
            },
            "session/set_mode" => Call::SetMode {
                session,
                mode: text(&params["modeId"]),
            },
            "session/set_config_option" => Call::SetConfig {
                session,
                config: text(&params["configId"]),
                value: text(&params["value"]),
            },
            // A second prompt while one goes on is never sent by us.
            "session/prompt" if self.codec.active_turn(&session).is_none() => {
                let turn = NativeId(format!("turn {id}"));
                let said = text(&params["prompt"][0]["text"]);
                if let Some(send) = self.stage.say(&session, &said) {
                    self.stage.accepted(&session, &send, &turn);
                }
                Call::Prompt {
                    session,
                    turn,
                    text: said,
                }
            }
            _ => Call::Foreign { method },
        };
        self.codec.register(id, call);
    }

    /// An answer of the recorded client: ours to the same request must be the same frame.
    fn client_answers(&mut self, frame: &Value) {
        let request = NativeId(frame["id"].to_string());
        let Some(subject) = self.stage.asked(&request).cloned() else {
            return;
        };
        for option in subject.options {
            let answer = Answer::Choose {
                option: option.id,
                note: None,
            };
            let line = self.codec.clone().answer(&request, &answer);
            if line.is_ok_and(|line| serde_json::from_slice::<Value>(&line).unwrap() == *frame) {
                self.codec.answer(&request, &answer).unwrap();
                self.stage
                    .answered(&request, answer, &EffectOutcome::Written);
                return;
            }
        }
        let outcome = &frame["result"]["outcome"]["outcome"];
        assert_eq!(outcome, "cancelled", "every answer was an offered option");
    }
}

/// Recordings and what a person reads in them, checked by hand against their frames.
const LABELS: &[(&str, &str, &[&str])] = &[
    (
        "copilot",
        "01_init_prompt_allow",
        &[
            "run Completed",
            "run Completed",
            "user `go [[script:copilotsh]]` Completed",
            "reasoning `Let me think.` Completed",
            "assistant `Running.` Completed",
            "command `echo hi > made.txt; echo shown` exit Some(0) Completed",
            "assistant `All done.` Completed",
            "user `go [[script:copilotplan]… 25 f55e3ce1` Completed",
            "assistant `P` Completed",
            "assistant `planned` Completed",
            "request Command answered allow_once",
        ],
    ),
    (
        "copilot",
        "02_load_resume",
        &[
            "run Completed",
            "user `plain` Completed",
            "assistant `planned` Completed",
            "assistant `planned` Completed",
            "assistant `planned` Completed",
            "assistant `planned` Completed",
            "assistant `planned` Completed",
            "assistant `planned` Completed",
        ],
    ),
    (
        "copilot",
        "03_reject",
        &[
            "run Completed",
            "user `go [[script:copilotsh]]` Completed",
            "reasoning `Let me think.` Completed",
            "assistant `Running.` Completed",
            "command `echo hi > made.txt; echo shown` exit None Declined",
            "assistant `Info: Operation cancelle… 33 5bec8e7f` Completed",
            "request Command answered reject_once",
        ],
    ),
    (
        "copilot",
        "05_cancel_pending_permission",
        &[
            "run Interrupted",
            "user `go [[script:copilotsh]]` Completed",
            "reasoning `Let me think.` Completed",
            "assistant `Running.` Completed",
            "command `echo hi > made.txt; echo shown` exit None Interrupted",
            "interrupt Completed",
            "request Command Withdrawn",
        ],
    ),
    (
        "copilot",
        "06_parallel_permissions",
        &[
            "run Completed",
            "user `go [[script:copilotpar]]` Completed",
            "assistant `two` Completed",
            "command `touch p1.txt` exit Some(0) Completed",
            "command `touch p2.txt` exit Some(0) Completed",
            "assistant `both` Completed",
            "request Command answered allow_once",
            "request Command answered allow_once",
        ],
    ),
    (
        "copilot",
        "07_model_500",
        &[
            "run Failed (ModelService)",
            "user `go [[script:copilote500]… 25 4ce7ceb4` Completed",
            "assistant `Info: Request failed due… 62 a4919dd4` Completed",
            "assistant `Info: Request failed due… 62 a4919dd4` Completed",
            "assistant `Info: Request failed due… 62 a4919dd4` Completed",
            "assistant `Info: Request failed due… 62 a4919dd4` Completed",
            "assistant `Info: Request failed due… 62 a4919dd4` Completed",
            "assistant `Error: Failed to get res… 134 ecc464f1` Completed",
            "error ModelService Failed",
        ],
    ),
    (
        "hermes-acp",
        "11_dangerous_command",
        &[
            "run Completed",
            "user `go [[script:hdanger]]` Completed",
            "command `rm -rf /home/dev/acp/ws/zzz` exit None Completed",
            "assistant `\n\nx` Completed",
            "request Command answered allow_once",
        ],
    ),
    (
        "hermes-acp",
        "10_client_fs_terminal",
        &[
            "run Completed",
            "user `go [[script:hermesacpw]]` Completed",
            "assistant `Writing.` Completed",
            "change cap_hermes-acp.txt Unfinished",
            "assistant `\n\nThen shell` Completed",
            "tool terminal: echo term Completed",
            "assistant `\n\nend` Completed",
            "request FileChange answered allow_once",
        ],
    ),
    (
        "hermes-acp",
        "02_load_resume",
        &[
            "run Completed",
            "user `plain` Completed",
            "assistant `planned` Completed",
        ],
    ),
    (
        "hermes-acp",
        "07_model_500",
        &[
            "run Failed (ModelService)",
            "user `go [[script:hermesacpe50… 27 5149658e` Completed",
            "assistant `API call failed after 3 … 57 87bacf24` Completed",
            "error ModelService Failed",
        ],
    ),
    (
        "gemini-cli",
        "01_init_prompt_allow",
        &[
            "run Completed",
            "run Completed",
            "user `go [[script:geminiclish]… 25 cf9bc9c8` Completed",
            "reasoning `****\nLet me think****\n.` Completed",
            "assistant `Running.` Completed",
            "approval Completed",
            "tool echo hi > made.txt; echo shown Completed",
            "assistant `All done.` Completed",
            "user `go [[script:geminiclipla… 27 0bff80a0` Completed",
            "assistant `P` Completed",
            "approval Completed",
            "tool Set 2 todo(s) Completed",
            "assistant `planned` Completed",
            "request Command answered proceed_once",
            "request Tool answered proceed_once",
        ],
    ),
    (
        "gemini-cli",
        "05_cancel_pending_permission",
        &[
            "run Interrupted",
            "user `go [[script:geminiclish]… 25 cf9bc9c8` Completed",
            "reasoning `****\nLet me think****\n.` Completed",
            "assistant `Running.` Completed",
            "approval Completed",
            "interrupt Completed",
            "request Command Withdrawn",
        ],
    ),
    (
        "codex-acp",
        "01_init_prompt_allow",
        &[
            "run Completed",
            "run Completed",
            "user `go [[script:codexacpsh]]` Completed",
            "reasoning `\n\nLet me think.` Completed",
            "assistant `Running.` Completed",
            "command `echo hi > made.txt; echo shown` exit Some(0) Completed",
            "assistant `All done.` Completed",
            "user `go [[script:codexacpplan… 26 b89fafd2` Completed",
            "assistant `P` Completed",
            "todo Look InProgress, Do Pending Completed",
            "assistant `planned` Completed",
            "request Command answered allow_once",
        ],
    ),
    (
        "codex-acp",
        "03_reject",
        &[
            "run Interrupted",
            "user `go [[script:codexacpsh]]` Completed",
            "reasoning `\n\nLet me think.` Completed",
            "assistant `Running.` Completed",
            "command `echo hi > made.txt; echo shown` exit None Declined",
            "request Command answered cancel",
        ],
    ),
    (
        "codex-acp",
        "07_model_500",
        &[
            "run Failed (ModelService)",
            "user `go [[script:codexacpe500… 26 0f788b79` Completed",
            "assistant `We’re currently experien… 77 b16656b9` Completed",
            "error ModelService Failed",
        ],
    ),
    (
        "claude-agent-acp",
        "01_init_prompt_allow",
        &[
            "run Completed",
            "run Completed",
            "user `go [[script:claudeagenta… 30 5d7b4c1e` Completed",
            "reasoning `Let me think.` Completed",
            "assistant `Running.` Completed",
            "command `echo hi > made.txt; echo shown` exit None Completed",
            "assistant `All done.` Completed",
            "user `go [[script:claudeagenta… 32 bcd1a7b3` Completed",
            "assistant `P` Completed",
            "assistant `planned` Completed",
            "request Command answered allow-once",
        ],
    ),
    (
        "claude-agent-acp",
        "10_client_fs_terminal",
        &[
            "run Completed",
            "user `go [[script:claudeagenta… 29 0610b6e4` Completed",
            "assistant `Writing.` Completed",
            "change cap_claude-agent-acp.txt Completed",
            "assistant `Then shell` Completed",
            "command `echo term` exit None Completed",
            "assistant `end` Completed",
            "request FileChange answered allow-once",
        ],
    ),
    (
        "opencode-acp",
        "01_init_prompt_allow",
        &[
            "run Completed",
            "run Completed",
            "user `go [[script:opencodeacps… 27 2d8a7024` Completed",
            "reasoning `Let me think.` Completed",
            "assistant `Running.` Completed",
            "command `echo hi > made.txt; echo shown` exit Some(0) Completed",
            "assistant `All done.` Completed",
            "user `go [[script:opencodeacpp… 29 732fce1a` Completed",
            "assistant `P` Completed",
            "tool 2 todos Completed",
            "assistant `planned` Completed",
            "request Command answered once",
        ],
    ),
    (
        "qwen-code",
        "03_reject",
        &[
            "run Completed",
            "user `go [[script:qwencodesh]]` Completed",
            "reasoning `Let me think.` Completed",
            "assistant `Running.` Completed",
            "command `echo hi > made.txt; echo shown` exit None Declined",
            "request Command answered cancel",
        ],
    ),
];

#[test]
fn nineteen_recordings_end_as_a_person_reads_them() {
    let mut wrong = Vec::new();
    for (agent, name, lines) in LABELS {
        let came_to = outcome(&Replay::of(agent, name).stage);
        if came_to != *lines {
            wrong.push(format!("{agent}/{name} came to {came_to:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(LABELS.len() >= 19);
}
