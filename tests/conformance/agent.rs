//! The agents that are played with: how each is started, and how a model says to it what it is to do.

use pilothouse_tests::{Setup, World, places};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};

/// An agent with a protocol family of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Agent {
    Claude,
    Codex,
    Opencode,
    Pi,
}

impl Agent {
    pub(crate) const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Opencode, Self::Pi];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Pi => "pi",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.name() == name)
    }

    /// Starts a world in which its host has it.
    pub(crate) fn world(self) -> World {
        let setup = Setup::new();
        match self {
            Self::Claude => setup.claude().start(),
            Self::Codex => setup.codex_arguments(self.arguments()).start(),
            Self::Opencode => setup.opencode().start(),
            Self::Pi => {
                let world = setup.pi(&[]).start();
                let extensions = world.dir().join("home-of-pi/.pi/agent/extensions");
                fs::create_dir_all(&extensions).expect("a place for pi's extensions");
                fs::copy(places::support("pi-ask.mjs"), extensions.join("ask.js"))
                    .expect("an extension for pi");
                world
            }
        }
    }

    /// What its server is started with beside the usual: what codex keeps behind switches (questions outside its plan mode, todo
    /// lists, subagents).
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Codex => &[
                "--enable",
                "default_mode_request_user_input",
                "--enable",
                "multi_agent_v2",
                "-c",
                "tools.update_plan.enabled=true",
            ],
            _ => &[],
        }
    }

    /// What the program itself calls its version.
    pub(crate) fn version(self) -> String {
        let mut command = match self {
            Self::Claude => Command::new(places::claude()),
            Self::Codex => Command::new(places::codex()),
            Self::Opencode => Command::new(places::opencode()),
            Self::Pi => {
                let mut command = Command::new(places::node());
                command.arg(places::pi());
                command
            }
        };
        let home = tempfile::tempdir().expect("a temporary directory");
        let output = command
            .arg("--version")
            .env("HOME", home.path())
            .output()
            .unwrap_or_else(|error| panic!("{} --version: {error}", self.name()));
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let mut words = said.split_whitespace();
        let version = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        version
            .unwrap_or_else(|| panic!("{} --version said {said}", self.name()))
            .to_owned()
    }

    /// The call that runs a command.
    pub(crate) fn run(self, command: &str) -> Value {
        match self {
            Self::Codex => json!({"name": "exec_command", "args": {"cmd": command}}),
            Self::Claude => {
                json!({"name": "Bash", "args": {"command": command, "description": "try it"}})
            }
            Self::Opencode => {
                json!({"name": "bash", "args": {"command": command, "description": "try it"}})
            }
            Self::Pi => json!({"name": "bash", "args": {"command": command}}),
        }
    }

    /// The call that makes a file of the workspace.
    pub(crate) fn write(self, workspace: &Path, name: &str, text: &str) -> Value {
        let path = workspace.join(name);
        match self {
            Self::Codex => {
                let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
                let patch =
                    format!("*** Begin Patch\n*** Add File: {name}\n{lines}*** End Patch\n");
                json!({"custom": true, "name": "apply_patch", "input": patch})
            }
            Self::Claude => json!({"name": "Write", "args": {"file_path": path, "content": text}}),
            Self::Opencode => json!({"name": "write", "args": {"filePath": path, "content": text}}),
            Self::Pi => json!({"name": "write", "args": {"path": name, "content": text}}),
        }
    }

    /// Whether it asks for all that it calls in one step at once, or for the next only when the one before was answered.
    pub(crate) fn asks_at_once(self) -> bool {
        matches!(self, Self::Codex | Self::Opencode)
    }

    /// The call that asks its person for a colour, red or blue.
    pub(crate) fn question(self) -> Value {
        let options = json!([
            {"label": "Red", "description": "warm"},
            {"label": "Blue", "description": "cold"},
        ]);
        let one = json!({"question": "Which colour?", "header": "Colour", "options": options});
        match self {
            Self::Codex => {
                let mut one = one;
                one["id"] = "colour".into();
                json!({"name": "request_user_input", "args": {"questions": [one]}})
            }
            Self::Claude => {
                let mut one = one;
                one["multiSelect"] = false.into();
                json!({"name": "AskUserQuestion", "args": {"questions": [one]}})
            }
            Self::Opencode => json!({"name": "question", "args": {"questions": [one]}}),
            Self::Pi => {
                json!({"name": "ask", "args": {"question": "Which colour?", "choices": ["Red", "Blue"]}})
            }
        }
    }

    /// The steps by which a list with one thing to do is made and worked off.
    pub(crate) fn todo(self) -> Vec<Value> {
        let step = |tool: Value| json!({"tools": [tool]});
        match self {
            Self::Codex => ["in_progress", "completed"]
                .map(|status| {
                    let plan = json!([{"step": "Look", "status": status}]);
                    step(json!({"name": "update_plan", "args": {"plan": plan}}))
                })
                .to_vec(),
            Self::Opencode => ["in_progress", "completed"]
                .map(|status| {
                    let todos = json!([{"content": "Look", "status": status, "priority": "high", "id": "1"}]);
                    step(json!({"name": "todowrite", "args": {"todos": todos}}))
                })
                .to_vec(),
            Self::Claude | Self::Pi => vec![
                step(json!({"name": "TaskCreate", "args": {"subject": "Look", "description": "look at it", "activeForm": "Looking"}})),
                step(json!({"name": "TaskUpdate", "args": {"taskId": "1", "status": "in_progress"}})),
                step(json!({"name": "TaskUpdate", "args": {"taskId": "1", "status": "completed"}})),
            ],
        }
    }

    /// The model that is given a todo list, where not every one is.
    pub(crate) fn todo_model(self) -> Option<&'static str> {
        (self == Self::Claude).then_some("claude-sonnet-4-5")
    }

    /// The steps by which a plan is proposed.
    pub(crate) fn plan(self) -> Vec<Value> {
        match self {
            Self::Codex => vec![
                json!({"text": "Here it is.\n<proposed_plan>\n# Plan\n- paint it red\n</proposed_plan>\n"}),
            ],
            _ => vec![
                json!({"text": "Here it is.", "tools": [{"name": "ExitPlanMode", "args": {"plan": "# Plan\n- paint it red"}}]}),
            ],
        }
    }

    /// The steps by which a subagent is given this prompt, and waited for.
    pub(crate) fn delegate(self, prompt: &str) -> Vec<Value> {
        match self {
            Self::Codex => vec![
                json!({"text": "Over to you.", "tools": [{"name": "spawn_agent", "namespace": "collaboration", "args": {"task_name": "kid", "message": prompt, "fork_turns": "none"}}]}),
                json!({"tools": [{"name": "wait_agent", "namespace": "collaboration", "args": {"timeout_ms": 30000}}]}),
            ],
            Self::Claude => vec![
                json!({"text": "Over to you.", "tools": [{"name": "Agent", "args": {"description": "kid", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": false}}]}),
            ],
            Self::Opencode | Self::Pi => vec![
                json!({"text": "Over to you.", "tools": [{"name": "task", "args": {"description": "kid", "prompt": prompt, "subagent_type": "general"}}]}),
            ],
        }
    }

    /// A model of it besides the one it takes by itself, where it does not say which it has.
    pub(crate) fn other_model(self) -> &'static str {
        match self {
            Self::Claude => "claude-opus-4-5",
            Self::Codex => "gpt-5.6-luna",
            Self::Opencode | Self::Pi => "local/scripted-2",
        }
    }
}
