//! The runner's end of a device's process.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long a device may take to answer something that waits for nobody else.
const ANSWER: Duration = Duration::from_secs(60);

/// Everything that a device has said, in all its lives.
#[derive(Default)]
struct Said {
    replies: BTreeMap<u64, Value>,
    outcomes: BTreeMap<String, Value>,
}

struct Life {
    child: Child,
    input: ChildStdin,
}

/// A device.
pub(crate) struct Phone {
    pub(crate) name: String,
    dir: PathBuf,
    logs: PathBuf,
    life: Option<Life>,
    said: Arc<(Mutex<Said>, Condvar)>,
    asked: u64,
}

impl Phone {
    /// Starts one on a data directory that may be new.
    pub(crate) fn start(root: &Path, dir: PathBuf, name: &str) -> Self {
        let mut phone = Self {
            name: name.to_owned(),
            dir,
            logs: root.to_owned(),
            life: None,
            said: Arc::default(),
            asked: 0,
        };
        phone.restart();
        phone
    }

    /// Whether its process runs.
    pub(crate) fn is_up(&self) -> bool {
        self.life.is_some()
    }

    /// Starts its process again.
    pub(crate) fn restart(&mut self) {
        assert!(self.life.is_none(), "{} runs", self.name);
        let errors = self.logs.join(format!("{}.err", self.name));
        let errors = File::options()
            .create(true)
            .append(true)
            .open(&errors)
            .unwrap_or_else(|error| panic!("{}: {error}", errors.display()));
        let mut command = Command::new(std::env::current_exe().expect("a program knows its file"));
        command.arg("device").arg(&self.dir).arg(&self.name);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors);
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take().expect("stdin is piped");
        let output = child.stdout.take().expect("stdout is piped");
        let reading = self.said.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(line) = serde_json::from_str::<Value>(&line) else {
                    continue;
                };
                let mut said = reading.0.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(n) = line["n"].as_u64() {
                    said.replies.insert(n, line);
                } else if let Some(command) = line["outcome"].as_str() {
                    said.outcomes.insert(command.to_owned(), line.clone());
                }
                reading.1.notify_all();
            }
        });
        self.life = Some(Life { child, input });
    }

    /// SIGKILL.
    pub(crate) fn kill_9(&mut self) {
        if let Some(mut life) = self.life.take() {
            let _ = life.child.kill();
            let _ = life.child.wait();
        }
    }

    /// Ends it as a program ends: its input closes.
    pub(crate) fn stop(&mut self) {
        if let Some(life) = self.life.take() {
            drop(life.input);
            let mut child = life.child;
            let began = Instant::now();
            while matches!(child.try_wait(), Ok(None)) {
                assert!(
                    began.elapsed() < ANSWER,
                    "{} does not close within {ANSWER:?}",
                    self.name
                );
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Stops its process for a while, or lets it go on.
    pub(crate) fn freeze(&self, frozen: bool) {
        if let Some(life) = &self.life {
            let signal = if frozen { Signal::STOP } else { Signal::CONT };
            let _ = kill_process(Pid::from_child(&life.child), signal);
        }
    }

    /// Asks without waiting for the answer; gives the number under which it will stand. Nothing is lost here if the device
    /// dies meanwhile: then there is no answer.
    pub(crate) fn ask(&mut self, mut question: Value) -> u64 {
        self.asked += 1;
        question["n"] = json!(self.asked);
        if let Some(life) = &mut self.life {
            // A device that has died shows it by its missing answer.
            let _ = writeln!(life.input, "{question}").and_then(|()| life.input.flush());
        }
        self.asked
    }

    /// What was answered so far.
    pub(crate) fn reply(&self, n: u64) -> Option<Value> {
        let said = self.said.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.replies.get(&n).cloned()
    }

    /// Takes an answer that another process on its data directory gave, as if it were its own; gives its number.
    pub(crate) fn adopt(&mut self, answer: &Result<Value, String>) -> u64 {
        self.asked += 1;
        let reply = match answer {
            Ok(ok) => json!({"n": self.asked, "ok": ok}),
            Err(error) => json!({"n": self.asked, "error": error}),
        };
        let mut said = self.said.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.replies.insert(self.asked, reply);
        self.asked
    }

    /// Another process on its data directory.
    pub(crate) fn beside(&self) -> Self {
        let name = format!("{}-beside", self.name);
        Self::start(&self.logs, self.dir.clone(), &name)
    }

    /// What it said came of a command, in whichever of its lives.
    pub(crate) fn told(&self, command: &str) -> Option<Value> {
        let said = self.said.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.outcomes.get(command).cloned()
    }

    /// Asks and waits for the answer.
    ///
    /// # Panics
    /// The device, which runs, does not answer.
    pub(crate) fn call(&mut self, question: Value) -> Result<Value, String> {
        let what = question.to_string();
        let n = self.ask(question);
        let deadline = Instant::now() + ANSWER;
        let mut said = self.said.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(reply) = said.replies.get(&n) {
                return match reply["error"].as_str() {
                    Some(error) => Err(error.to_owned()),
                    None => Ok(reply["ok"].clone()),
                };
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "{} did not answer {what} within {ANSWER:?}",
                self.name
            );
            said = self
                .said
                .1
                .wait_timeout(said, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// What it shows now.
    pub(crate) fn state(&mut self) -> Value {
        self.call(json!({"do": "state"}))
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Everything it shows, with rows and requests.
    pub(crate) fn dump(&mut self) -> Value {
        self.call(json!({"do": "dump"}))
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        self.kill_9();
    }
}
