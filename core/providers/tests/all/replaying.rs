//! Recordings played to a client: every turn ends, requests wait for their answers, no name comes twice.

use crate::support::root;
use pilothouse_providers::replay::{Arguments, Player, Recording, ReplayError};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Every recording of the project.
fn files() -> Vec<PathBuf> {
    let families = std::fs::read_dir(root().join("tests/recordings")).unwrap();
    let families = families.map(|family| family.unwrap().path());
    let files = families
        .filter(|family| family.is_dir())
        .flat_map(|family| std::fs::read_dir(family).unwrap());
    let mut files: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    files.sort();
    files
}

/// A client of a player, with a clock that only it moves.
struct Client {
    player: Player,
    now_ms: u64,
    calls: u64,
    acp: bool,
    /// What the player sent.
    seen: Vec<Value>,
}

impl Client {
    fn new(path: &Path, life: &str) -> Self {
        let recording = Recording::read(path).unwrap();
        let acp = recording.family().name() == "acp";
        Self {
            player: Player::new(recording, life, 4),
            now_ms: 0,
            calls: 0,
            acp,
            seen: Vec::new(),
        }
    }

    fn codex(name: &str) -> Self {
        Self::new(&root().join("tests/recordings/codex").join(name), "life")
    }

    /// Calls, and gives what it was answered with at once.
    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.take();
        self.answer_to(id)
            .unwrap_or_else(|| panic!("{method} is not answered: {:#?}", self.seen))
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.calls += 1;
        let frame = json!({"id": self.calls, "method": method, "params": params});
        self.player.receive(&frame, self.now_ms);
        self.calls
    }

    fn answer_to(&self, id: u64) -> Option<Value> {
        let mut frames = self.seen.iter();
        let found = frames.find(|frame| frame["id"] == id && frame.get("method").is_none());
        found.cloned()
    }

    fn take(&mut self) -> Vec<Value> {
        let taken = self.player.take(self.now_ms);
        self.seen.extend(taken.iter().cloned());
        taken
    }

    /// Lets time pass until a request comes, or nothing more does.
    fn until_asked(&mut self) -> Option<Value> {
        loop {
            let taken = self.take();
            let asked = taken
                .into_iter()
                .find(|frame| frame.get("method").is_some() && frame.get("id").is_some());
            if asked.is_some() {
                return asked;
            }
            let due = self.player.due_ms()?;
            assert!(
                due <= self.now_ms + 1000,
                "a pause of {} ms",
                due - self.now_ms
            );
            self.now_ms = due.max(self.now_ms);
        }
    }

    /// Says yes to whatever is asked.
    fn allow(&mut self, request: &Value) {
        let options = request["params"]["options"].as_array();
        let allows = options.and_then(|options| {
            let mut options = options.iter();
            options.find(|option| {
                option["kind"]
                    .as_str()
                    .is_some_and(|kind| kind.starts_with("allow"))
            })
        });
        let result = match allows {
            Some(option) => {
                json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}})
            }
            None => json!({"decision": "accept", "action": "accept", "answers": {}}),
        };
        self.player
            .receive(&json!({"id": request["id"], "result": result}), self.now_ms);
    }

    /// Opens a conversation.
    fn open(&mut self) -> String {
        let (method, place) = match self.acp {
            true => ("session/new", "/result/sessionId"),
            false => ("thread/start", "/result/thread/id"),
        };
        let answer = self.call(method, json!({"cwd": "/here", "mcpServers": []}));
        answer.pointer(place).unwrap().as_str().unwrap().to_owned()
    }

    fn prompt(&mut self, conversation: &str, words: &str) -> u64 {
        let parts = json!([{"type": "text", "text": words}]);
        match self.acp {
            true => self.send(
                "session/prompt",
                json!({"sessionId": conversation, "prompt": parts}),
            ),
            false => self.send(
                "turn/start",
                json!({"threadId": conversation, "input": parts, "clientUserMessageId": words}),
            ),
        }
    }
}

#[test]
fn every_recorded_turn_is_played_to_its_end_and_no_name_comes_twice() {
    let mut played = 0;
    for path in files() {
        let Ok(recording) = Recording::read(&path) else {
            continue;
        };
        let turns = recording.turns();
        let mut client = Client::new(&path, "life");
        client.call("initialize", json!({}));
        let conversation = client.open();
        let mut names = BTreeSet::new();
        // Once more than there are: the first again.
        for turn in 0..=turns {
            let call = client.prompt(&conversation, &format!("turn {turn}"));
            let mut asked = 0;
            while let Some(request) = client.until_asked() {
                client.allow(&request);
                asked += 1;
                assert!(asked < 1000, "{}", path.display());
            }
            let waits = client.player.due_ms();
            assert_eq!(waits, None, "{} turn {turn}", path.display());
            if let Some(answer) = client.answer_to(call)
                && let Some(name) = answer.pointer("/result/turn/id")
            {
                assert!(
                    names.insert(name.to_string()),
                    "{}: {name} again",
                    path.display()
                );
            }
            played += 1;
        }
    }
    assert!(played > 60, "{played} turns were played");
}

#[test]
fn a_request_waits_for_its_answer_and_the_recorded_one_lets_the_turn_go_on() {
    let mut client = Client::codex("02_command_approval_accept.jsonl");
    client.call("initialize", json!({}));
    let thread = client.open();
    client.prompt(&thread, "my own words");
    let request = client.until_asked().expect("it asks");
    assert_eq!(client.until_asked(), None);
    assert_eq!(client.player.due_ms(), None, "nothing goes on by itself");
    client.allow(&request);
    assert_eq!(client.until_asked(), None);
    let methods: Vec<_> = client
        .seen
        .iter()
        .filter_map(|frame| frame["method"].as_str())
        .collect();
    assert_eq!(methods.last(), Some(&"turn/completed"));
    let resolved = client
        .seen
        .iter()
        .find(|frame| frame["method"] == "serverRequest/resolved");
    assert_eq!(resolved.unwrap()["params"]["requestId"], request["id"]);
    let said = client
        .seen
        .iter()
        .find(|frame| frame["params"]["item"]["type"] == "userMessage");
    let said = &said.unwrap()["params"]["item"];
    assert_eq!(said["content"][0]["text"], "my own words");
    assert_eq!(said["clientId"], "my own words");
    let text = serde_json::to_string(&client.seen).unwrap();
    assert!(text.contains("After decision."));
    assert!(
        !text.contains("\"01a22c59-ede3-7650-8422-71b2f975ec25\""),
        "the recorded name of the conversation"
    );
}

#[test]
fn an_answer_that_was_not_recorded_ends_the_turn_with_a_word_and_the_next_prompt_plays_on() {
    let mut client = Client::codex("02_command_approval_accept.jsonl");
    let thread = client.open();
    client.prompt(&thread, "one");
    let request = client.until_asked().expect("it asks");
    let no = json!({"id": request["id"], "result": {"decision": "decline"}});
    client.player.receive(&no, client.now_ms);
    assert_eq!(client.until_asked(), None);
    let text = serde_json::to_string(&client.seen).unwrap();
    assert!(text.contains("only knows the other answer"), "{text}");
    assert!(!text.contains("After decision."));
    assert_eq!(client.seen.last().unwrap()["method"], "turn/completed");
    client.prompt(&thread, "two");
    assert!(client.until_asked().is_some());
}

#[test]
fn an_interrupted_turn_ends_as_interrupted_and_a_second_prompt_waits_for_the_first() {
    let mut client = Client::codex("02_command_approval_accept.jsonl");
    let thread = client.open();
    client.prompt(&thread, "one");
    client.until_asked().expect("it asks");
    let busy = client.prompt(&thread, "two");
    client.take();
    assert!(
        client.answer_to(busy).unwrap()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("already")
    );
    client.call("turn/interrupt", json!({"threadId": thread}));
    let last = client
        .seen
        .iter()
        .rev()
        .find(|frame| frame["method"] == "turn/completed")
        .unwrap();
    assert_eq!(last["params"]["turn"]["status"], "interrupted");
    assert_eq!(client.until_asked(), None);
}

#[test]
fn what_is_no_recording_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let read = |text: &str| {
        let path = dir.path().join("it.jsonl");
        std::fs::write(&path, text).unwrap();
        Recording::read(&path).unwrap_err()
    };
    assert!(matches!(read(""), ReplayError::NoTurn { .. }));
    assert!(matches!(
        read("no json\n"),
        ReplayError::Broken { line: 1, .. }
    ));
    let fine = "{\"t\":0,\"dir\":\"note\",\"frame\":1}\n";
    assert!(matches!(
        read(&format!("{fine}{{\"t\":1}}\n")),
        ReplayError::Broken { line: 2, .. }
    ));
    assert!(matches!(
        read(&format!("{fine}{{\"dir\":\"up\",\"frame\":1}}\n")),
        ReplayError::Broken { line: 2, .. }
    ));
    let missing = Recording::read(&dir.path().join("none.jsonl")).unwrap_err();
    assert!(missing.to_string().contains("none.jsonl"), "{missing}");
    assert!(missing.to_string().contains("check the path"), "{missing}");
    for (command, word) in [
        (vec![], "no recording"),
        (vec!["a", "--speed", "0"], "--speed 0"),
        (vec!["a", "--speed", "x"], "--speed x"),
        (vec!["a", "--loud"], "--loud"),
        (vec!["a", "--speed"], "--speed"),
    ] {
        let command: Vec<String> = command.into_iter().map(str::to_owned).collect();
        let error = Arguments::read(&command).unwrap_err().to_string();
        assert!(
            error.contains(word) && error.contains("command = "),
            "{error}"
        );
    }
}
