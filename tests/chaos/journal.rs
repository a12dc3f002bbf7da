//! The scripted agent's own log: what reached it and what it did, synced by it line by line.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// A line of the log.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Unix ms.
    pub(crate) at: u64,
    pub(crate) pid: u32,
    pub(crate) what: String,
    fields: Value,
}

impl Line {
    fn text(&self, field: &str) -> &str {
        self.fields[field].as_str().unwrap_or_default()
    }
}

/// An answer as it reached the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// `yes`, `no` or `cancel`.
    pub(crate) option: String,
    /// The request that the answer itself names, if it names one.
    pub(crate) names: Option<String>,
}

/// A message as it reached the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Unix ms.
    pub(crate) at: u64,
    pub(crate) pid: u32,
    /// The agent's own name of the conversation.
    pub(crate) session: String,
}

/// A message of the agent, as far as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// When it was whole, Unix ms.
    pub(crate) at: u64,
    pub(crate) pid: u32,
    pub(crate) text: String,
}

/// What the log says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    pub(crate) lines: Vec<Line>,
}

impl Journal {
    /// Reads it. A last line that was cut off by a kill is not there.
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let fields: Value = serde_json::from_str(line).ok()?;
            Some(Line {
                at: fields["at"].as_u64()?,
                pid: u32::try_from(fields["pid"].as_u64()?).ok()?,
                what: fields["log"].as_str()?.to_owned(),
                fields,
            })
        });
        Self {
            lines: lines.collect(),
        }
    }

    fn of<'a>(&'a self, what: &'a str) -> impl Iterator<Item = &'a Line> {
        self.lines.iter().filter(move |line| line.what == what)
    }

    /// Every agent process so far.
    pub(crate) fn pids(&self) -> BTreeSet<u32> {
        self.of("start").map(|line| line.pid).collect()
    }

    /// Every agent process so far, with when it began.
    pub(crate) fn started(&self) -> BTreeMap<u32, u64> {
        self.of("start").map(|line| (line.pid, line.at)).collect()
    }

    /// Where a message reached the agent, as a prompt or as words into a running turn; one element per time that it did.
    pub(crate) fn arrivals(&self, name: &str) -> Vec<Arrival> {
        let lines = self.lines.iter();
        lines
            .filter(|line| matches!(line.what.as_str(), "prompt" | "steer"))
            .filter(|line| line.text("name") == name)
            .map(|line| Arrival {
                at: line.at,
                pid: line.pid,
                session: line.text("session").to_owned(),
            })
            .collect()
    }

    /// The conversations that each process has opened.
    pub(crate) fn sessions(&self) -> BTreeMap<u32, BTreeSet<String>> {
        let mut sessions: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for line in self.of("session") {
            let session = line.text("session").to_owned();
            sessions.entry(line.pid).or_default().insert(session);
        }
        sessions
    }

    /// When the agent first did something at a message that its host sees: a word, a question or the end of its turn. Late
    /// where it did something else first, which the log does not hold.
    pub(crate) fn reacted(&self, name: &str) -> Option<u64> {
        let of_it = |line: &&Line| match line.what.as_str() {
            "said" | "end" => line.text("name") == name,
            "ask" => line.text("request").split('.').next() == Some(name),
            _ => false,
        };
        self.lines.iter().find(of_it).map(|line| line.at)
    }

    /// How often the agent was told to stop in a conversation in a span of time.
    pub(crate) fn stops(&self, session: &str, from: u64, until: u64) -> usize {
        self.of("cancel")
            .filter(|line| line.text("session") == session && (from..=until).contains(&line.at))
            .count()
    }

    /// When the agent had told the host that it took a message.
    pub(crate) fn taken(&self, name: &str) -> Option<u64> {
        let mut taken = self.of("taken");
        taken
            .find(|line| line.text("name") == name)
            .map(|line| line.at)
    }

    /// Prompts that came while the agent worked on another.
    pub(crate) fn busy(&self) -> Vec<String> {
        let busy = self
            .of("prompt")
            .filter(|line| line.fields["busy"] == Value::Bool(true));
        busy.map(|line| line.text("name").to_owned()).collect()
    }

    /// Requests that were asked, with when and by which process.
    pub(crate) fn asked(&self) -> BTreeMap<String, (u64, u32)> {
        let asked = self.of("ask");
        asked
            .map(|line| (line.text("request").to_owned(), (line.at, line.pid)))
            .collect()
    }

    /// Answers to a request, in their order, with when.
    pub(crate) fn answers(&self, request: &str) -> Vec<(u64, Given)> {
        let answers = self
            .of("answer")
            .filter(|line| line.text("request") == request);
        let given = |line: &Line| Given {
            option: match line.text("option") {
                "allow" | "yes" => "yes",
                "deny" | "decline" | "no" => "no",
                other => other,
            }
            .to_owned(),
            names: line.fields["names"].as_str().map(str::to_owned),
        };
        answers.map(|line| (line.at, given(line))).collect()
    }

    /// How often the thing that was asked for was done.
    pub(crate) fn effects(&self, request: &str) -> usize {
        let effects = self.of("effect");
        effects
            .filter(|line| line.text("request") == request)
            .count()
    }

    /// What the agent said in the turn of a message, each of its messages by itself.
    pub(crate) fn said(&self, name: &str) -> Vec<Word> {
        let said = self.of("said").filter(|line| line.text("name") == name);
        said.map(|line| Word {
            at: line.at,
            pid: line.pid,
            text: line.text("text").to_owned(),
        })
        .collect()
    }

    /// How the turn of a message ended for the agent.
    pub(crate) fn ended(&self, name: &str) -> Option<String> {
        let mut ended = self.of("end");
        ended
            .find(|line| line.text("name") == name)
            .map(|line| line.text("reason").to_owned())
    }

    /// When the turn of a message ended for the agent.
    pub(crate) fn ended_at(&self, name: &str) -> Option<u64> {
        let mut ended = self.of("end");
        ended
            .find(|line| line.text("name") == name)
            .map(|line| line.at)
    }

    /// Messages whose turn goes on until it is stopped, and goes on still, as long as its process is there.
    pub(crate) fn hanging(&self, is_alive: impl Fn(u32) -> bool) -> Vec<String> {
        let hanging = self.of("hang").filter(|line| is_alive(line.pid));
        hanging
            .map(|line| line.text("name").to_owned())
            .filter(|name| self.ended(name).is_none())
            .collect()
    }

    /// Agents that ended by themselves in the middle of a turn: when, and which.
    pub(crate) fn exits(&self) -> Vec<(u64, u32)> {
        self.of("exit").map(|line| (line.at, line.pid)).collect()
    }

    /// How many lines there are of a kind.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.of(what).count()
    }
}
