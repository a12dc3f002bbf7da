//! The scripted model server: what the agent's model answers, and its own count of what reached it.

use crate::{places, process::Process};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The script of requests without tools, as those for a title or a summary mostly are.
pub const WITHOUT_TOOLS: &str = "(no-tools)";

/// A running model server.
pub struct Model {
    _process: Process,
    port: u16,
    log: PathBuf,
}

/// How often a prompt that was marked by `[[id:MARK]]` reached the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Requests that had it anywhere in their conversation.
    pub requests: u64,
    /// How often it stood in one request at most; 2 means that it was delivered twice.
    pub most_in_one_request: u64,
    /// Requests that began a turn with it.
    pub first_steps: u64,
}

impl Model {
    /// Starts one on a free port.
    pub fn start(dir: &Path) -> Self {
        let log = dir.join("model.jsonl");
        let mut command = Command::new("node");
        command
            .arg(places::model_server())
            .arg("0")
            .arg(&log)
            .arg("--exit-with-stdin");
        let process = Process::start("model", command, dir);
        let port = process.line("its port", |line| {
            line.strip_prefix("model on ")?.parse().ok()
        });
        Self {
            _process: process,
            port,
            log,
        }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Registers what a prompt with `[[script:NAME]]` is answered with: a JSON list of steps.
    pub fn script(&self, name: &str, steps: &Value) {
        self.ask("PUT", &format!("/_script/{name}"), &steps.to_string());
    }

    /// Lets every step that holds NAME go on.
    pub fn release(&self, name: &str) {
        self.ask("PUT", &format!("/_release/{name}"), "");
    }

    /// Waits until a script was asked for `count` times.
    ///
    /// # Panics
    /// It was not.
    pub fn reached(&self, name: &str, count: u64) {
        let ms = crate::patience().as_millis();
        let answer = self.ask("GET", &format!("/_wait/{name}?count={count}&ms={ms}"), "");
        assert_eq!(
            answer["reached"],
            true,
            "the model was asked for {name}: {}",
            self.counts()
        );
    }

    /// Counts of all requests, scripts and marks.
    pub fn counts(&self) -> Value {
        self.ask("GET", "/_log", "")
    }

    /// How often a script was asked for its step.
    pub fn steps(&self, name: &str, step: u64) -> u64 {
        self.counts()["scripts"][name]["steps"][step.to_string()]
            .as_u64()
            .unwrap_or(0)
    }

    /// What it knows of a mark; zeros if it never saw it.
    pub fn mark(&self, mark: &str) -> Mark {
        let counts = self.counts();
        let seen = &counts["marks"][mark];
        let number = |field: &str| seen[field].as_u64().unwrap_or(0);
        Mark {
            requests: number("requests"),
            most_in_one_request: number("most_in_one_request"),
            first_steps: number("first_steps"),
        }
    }

    /// The model and the effort that the newest request asked for that picked a script.
    pub fn chosen(&self, script: &str) -> Option<(String, Option<String>)> {
        let word = |line: &Value, key: &str| line[key].as_str().map(str::to_owned);
        let requests = self.requests();
        let mut picked = requests
            .iter()
            .rev()
            .filter(|line| line["script"] == script);
        picked.find_map(|line| Some((word(line, "model")?, word(line, "effort"))))
    }

    /// By what the newest request that picked a script said who asks: its `Authorization`, as it came.
    pub fn authorization(&self, script: &str) -> Option<String> {
        let requests = self.requests();
        let mut picked = requests
            .iter()
            .rev()
            .filter(|line| line["script"] == script);
        picked.find_map(|line| line["authorization"].as_str().map(str::to_owned))
    }

    /// The pictures that the last request held, in order: SHA-256 in hex.
    pub fn pictures(&self) -> Vec<String> {
        let hash = |picture: &Value| picture["sha256"].as_str().map(str::to_owned);
        let requests = self.requests();
        let last = requests
            .iter()
            .rev()
            .find_map(|line| line["pictures"].as_array());
        last.into_iter().flatten().filter_map(hash).collect()
    }

    /// The marks that the newest request that picked a script held in any message, whoever said it.
    pub fn held(&self, script: &str) -> BTreeSet<String> {
        let requests = self.requests();
        let mut picked = requests.iter().rev();
        let newest = picked.find(|line| line["script"] == script);
        let counts = newest
            .into_iter()
            .flat_map(|line| [&line["marks"], &line["answered"]]);
        let marks = counts.filter_map(Value::as_object).flat_map(|of| of.keys());
        marks.cloned().collect()
    }

    /// What tools gave back, as the newest request that picked a script told, in order: the last eight.
    pub fn results_of(&self, script: &str) -> Vec<String> {
        let requests = self.requests();
        let mut picked = requests.iter().rev();
        let newest = picked.find(|line| line["script"] == script);
        let results = newest.and_then(|line| line["tool_results"].as_array());
        let text = |result: &Value| result["text"].as_str().map(str::to_owned);
        results.into_iter().flatten().filter_map(text).collect()
    }

    /// What tools gave back, as the model was told in its last request that held any, in order.
    pub fn results(&self) -> Vec<String> {
        let text = |result: &Value| result["text"].as_str().map(str::to_owned);
        let requests = self.requests();
        let mut told = requests
            .iter()
            .rev()
            .filter_map(|line| line["tool_results"].as_array());
        let last = told.find(|results| !results.is_empty());
        last.into_iter().flatten().filter_map(text).collect()
    }

    /// The tools that an agent gave its model in the last request that had any.
    pub fn tools(&self) -> Vec<String> {
        let requests = self.requests();
        let given = requests
            .iter()
            .rev()
            .filter_map(|line| line["tools"].as_array());
        let mut given = given.filter(|tools| !tools.is_empty());
        let names = given.next().into_iter().flatten();
        names
            .filter_map(|tool| tool.as_str().map(str::to_owned))
            .collect()
    }

    /// Requests so far, of whatever kind.
    pub fn total(&self) -> u64 {
        self.counts()["total"].as_u64().unwrap_or(0)
    }

    /// The newest user message of every request so far, in order.
    pub fn prompts(&self) -> Vec<String> {
        let requests = self.requests().into_iter();
        requests
            .filter_map(|line| line["user"].as_str().map(str::to_owned))
            .collect()
    }

    /// What it wrote down of every request so far, in order.
    fn requests(&self) -> Vec<Value> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    fn ask(&self, verb: &str, path: &str, body: &str) -> Value {
        ask(self.port, verb, path, body)
    }
}

/// Asks a server of the tests on a port of 127.0.0.1.
pub(crate) fn ask(port: u16, verb: &str, path: &str, body: &str) -> Value {
    let exchange = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(crate::patience() + Duration::from_secs(10)))?;
        // HTTP/1.0: the answer comes in one piece and ends with the connection.
        write!(
            stream,
            "{verb} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer =
        exchange().unwrap_or_else(|error| panic!("a server of the test, {verb} {path}: {error}"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    assert!(
        head.contains(" 200 "),
        "a server of the test, {verb} {path}: {answer}"
    );
    serde_json::from_str(body)
        .unwrap_or_else(|error| panic!("a server of the test, {verb} {path}: {error}: {body}"))
}
