//! A recording, read: the turns in it, what its calls were answered with, and which of its strings are ids.

use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

/// Bytes of a recording at most.
pub const RECORDING_BYTES: u64 = 64 * 1024 * 1024;

/// Why a recording cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It is not said which, or how.
    #[error(
        "{problem}; write `command = [\"FILE.jsonl\"]`, or `[\"FILE.jsonl\", \"--speed\", \"4\"]`"
    )]
    Arguments {
        /// What is wrong.
        problem: String,
    },
    /// The file cannot be read.
    #[error("the recording {} cannot be read: {problem}; check the path", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        problem: String,
    },
    /// It is none, or is damaged.
    #[error("{} line {line} is no line of a recording: {problem}; see tests/recordings/codex/README.md for the format", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// Nothing of it can be played.
    #[error("the recording {} holds no turn of codex or of an ACP agent; record one from the handshake to a turn's end", path.display())]
    NoTurn {
        /// The file.
        path: PathBuf,
    },
    /// This version has no adapter for it.
    #[error("the recording is of `{family}`, which this version does not speak; update pilothouse")]
    Family {
        /// The family.
        family: &'static str,
    },
    /// The player's pipes.
    #[error("the player cannot go on: {problem}")]
    Pipe {
        /// What the system says.
        problem: String,
    },
}

/// Whose frames were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `codex app-server`.
    Codex,
    /// The Agent Client Protocol.
    Acp,
}

impl Family {
    /// As `protocol` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Acp => "acp",
        }
    }

    /// The call that starts a turn.
    fn of_prompt(method: &str) -> Option<Self> {
        match method {
            "turn/start" => Some(Self::Codex),
            "session/prompt" => Some(Self::Acp),
            _ => None,
        }
    }
}

/// A step of a recorded turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// The agent sent this, so many milliseconds after the step before.
    Sent { after_ms: u64, frame: Value },
    /// The agent waited for the answer to the request of that id, and got this.
    Answered { request: String, answer: Value },
}

/// A recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    pub(super) family: Family,
    pub(super) turns: Vec<Vec<Step>>,
    /// The first result of each call, by its method.
    pub(super) results: BTreeMap<String, Value>,
    /// Strings that name something: each time they are played they name something else.
    pub(super) ids: BTreeSet<String>,
    /// The recorded conversation.
    pub(super) conversation: String,
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ReplayError`] with the line at which it is none.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let unreadable = |error: std::io::Error| ReplayError::Unreadable {
            path: path.to_owned(),
            problem: error.to_string(),
        };
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        if length > RECORDING_BYTES {
            let problem = format!("it has {length} bytes, at most {RECORDING_BYTES} are taken");
            return Err(unreadable(std::io::Error::other(problem)));
        }
        let mut reading = Reading::default();
        for (index, line) in BufReader::new(file.take(RECORDING_BYTES))
            .lines()
            .enumerate()
        {
            let line = line.map_err(unreadable)?;
            let broken = |problem: String| ReplayError::Broken {
                path: path.to_owned(),
                line: index + 1,
                problem,
            };
            if !line.trim().is_empty() {
                let record =
                    serde_json::from_str(&line).map_err(|error| broken(error.to_string()))?;
                reading
                    .record(&record)
                    .map_err(|problem| broken(problem.to_owned()))?;
            }
        }
        reading.finish().ok_or_else(|| ReplayError::NoTurn {
            path: path.to_owned(),
        })
    }

    /// Whose it is.
    pub fn family(&self) -> Family {
        self.family
    }

    /// How many turns it holds.
    pub fn turns(&self) -> usize {
        self.turns.len()
    }
}

#[derive(Default)]
struct Reading {
    family: Option<Family>,
    turns: Vec<Vec<Step>>,
    results: BTreeMap<String, Value>,
    ids: BTreeSet<String>,
    /// Methods of the client's calls, by id.
    calls: BTreeMap<String, String>,
    last_ms: u64,
}

impl Reading {
    fn record(&mut self, record: &Value) -> Result<(), &'static str> {
        let (Some(direction), Some(frame)) = (record["dir"].as_str(), record.get("frame")) else {
            return Err("it has no `dir` and `frame`");
        };
        let at_ms = record["t"]
            .as_f64()
            .map_or(self.last_ms, |t| (t.max(0.0) * 1000.0) as u64);
        match direction {
            "c2s" => self.of_client(frame),
            "s2c" => self.of_agent(frame, at_ms),
            "note" | "s2c-raw" => return Ok(()),
            _ => return Err("its `dir` is none of c2s, s2c, s2c-raw and note"),
        }
        collect_ids(frame, "", &mut self.ids);
        self.last_ms = at_ms;
        Ok(())
    }

    fn of_client(&mut self, frame: &Value) {
        match (frame["method"].as_str(), frame.get("id")) {
            (Some(method), Some(id)) => {
                self.calls.insert(id.to_string(), method.to_owned());
                if let Some(family) = Family::of_prompt(method) {
                    self.family.get_or_insert(family);
                    self.turns.push(Vec::new());
                }
            }
            (None, Some(id)) => self.push(Step::Answered {
                request: id.to_string(),
                answer: frame.clone(),
            }),
            _ => {}
        }
    }

    fn of_agent(&mut self, frame: &Value, at_ms: u64) {
        let is_answer = frame.get("method").is_none();
        let call = frame
            .get("id")
            .filter(|_| is_answer)
            .and_then(|id| self.calls.get(&id.to_string()));
        if let Some(method) = call
            && Family::of_prompt(method).is_none()
        {
            if let Some(result) = frame.get("result") {
                let method = method.clone();
                self.results.entry(method).or_insert_with(|| result.clone());
            }
            return;
        }
        self.push(Step::Sent {
            after_ms: at_ms.saturating_sub(self.last_ms),
            frame: frame.clone(),
        });
    }

    fn push(&mut self, step: Step) {
        if let Some(turn) = self.turns.last_mut() {
            turn.push(step);
        }
    }

    fn finish(mut self) -> Option<Recording> {
        let family = self.family?;
        let conversation = match family {
            Family::Codex => {
                let opened = ["thread/start", "thread/resume"];
                let opened = opened.iter().find_map(|method| self.results.get(*method))?;
                opened["thread"]["id"].as_str()?.to_owned()
            }
            Family::Acp => self.results.get("session/new")?["sessionId"]
                .as_str()?
                .to_owned(),
        };
        self.turns.retain(|turn| !turn.is_empty());
        self.ids.remove(&conversation);
        (!self.turns.is_empty()).then_some(Recording {
            family,
            turns: self.turns,
            results: self.results,
            ids: self.ids,
            conversation,
        })
    }
}

/// Gathers what names a thread, turn, item, session or tool call.
fn collect_ids(value: &Value, under: &str, ids: &mut BTreeSet<String>) {
    const NAMES: [&str; 8] = [
        "threadId",
        "turnId",
        "itemId",
        "rootTurnId",
        "sessionId",
        "toolCallId",
        "callId",
        "messageId",
    ];
    const NAMED: [&str; 5] = ["thread", "turn", "item", "items", "turns"];
    let mut object = |object: &Map<String, Value>| {
        for (name, value) in object {
            match value {
                Value::String(text)
                    if NAMES.contains(&name.as_str())
                        || (name == "id" && NAMED.contains(&under)) =>
                {
                    ids.insert(text.clone());
                }
                value => collect_ids(value, name, ids),
            }
        }
    };
    match value {
        Value::Object(map) => object(map),
        Value::Array(values) => {
            for value in values {
                collect_ids(value, under, ids);
            }
        }
        _ => {}
    }
}
