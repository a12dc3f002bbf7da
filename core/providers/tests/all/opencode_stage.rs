//! A real opencode in a private home against the scripted model on a free port.

use crate::heard;
use crate::opencode_home::needs_no_registry;
use crate::support::{Asked, Model, PATIENCE, installed};
use pilothouse_domain::{
    Answer, Incarnation, Mode, NativeId, OptionId, ProviderEvent, ProviderEventKind,
    provider::TurnStatus, request::AnswerDelivery, run::RunError, thread::Selection,
};
use pilothouse_providers::{
    contract::{AgentRuntime, Launch, OpenThread, ProviderAdapter as _, RuntimeEvents, SendTurn},
    mcp::McpServers,
    opencode::{Deadlines, OpencodeAdapter},
    process::detached::EXTENSION,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// The pinned opencode.
pub(crate) fn opencode() -> &'static str {
    static OPENCODE: OnceLock<String> = OnceLock::new();
    OPENCODE.get_or_init(|| installed("PILOTHOUSE_OPENCODE", "opencode"))
}

/// A private home of opencode, and what its environment must be. The configuration is opencode's own default: it allows
/// everything, so that what asks does so because of Pilothouse.
pub(crate) fn home(dir: &Path, model_port: u16) -> BTreeMap<String, String> {
    let config = json!({
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": false, "share": "disabled", "snapshot": false,
        "model": "local/scripted", "small_model": "local/scripted",
        "enabled_providers": ["local"],
        "provider": {"local": {
            "npm": "@ai-sdk/openai-compatible", "name": "Local",
            "options": {"baseURL": format!("http://127.0.0.1:{model_port}/v1"), "apiKey": "sk-local"},
            "models": {
                "scripted": {
                    "name": "Scripted", "reasoning": true, "tool_call": true,
                    "limit": {"context": 128_000, "output": 8192}
                },
                "seeing": {
                    "name": "Seeing", "tool_call": true, "attachment": true,
                    "modalities": {"input": ["text", "image"], "output": ["text"]},
                    "cost": {"input": 3, "output": 15},
                    "limit": {"context": 128_000, "output": 8192}
                }
            }
        }}
    });
    std::fs::create_dir_all(dir).unwrap();
    let file = dir.join("opencode.json");
    std::fs::write(&file, config.to_string()).unwrap();
    needs_no_registry(&dir.join("config"));
    let at = |name: &str| dir.join(name).display().to_string();
    [
        ("HOME", at("")),
        ("XDG_DATA_HOME", at("data")),
        ("XDG_CONFIG_HOME", at("config")),
        ("XDG_STATE_HOME", at("state")),
        ("XDG_CACHE_HOME", at("cache")),
        ("OPENCODE_CONFIG", file.display().to_string()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// One opencode with its home, its workspace and its model.
pub(crate) struct World {
    pub(crate) runtime: Arc<dyn AgentRuntime>,
    pub(crate) events: mpsc::Receiver<RuntimeEvents>,
    pub(crate) seen: Vec<ProviderEvent>,
    next: usize,
    pub(crate) model: Model,
    pub(crate) dir: TempDir,
    pub(crate) mode: Mode,
}

pub(crate) fn adapter() -> OpencodeAdapter {
    OpencodeAdapter::with_deadlines(Deadlines {
        handshake: PATIENCE,
        settle: Duration::from_millis(500),
        ..Deadlines::default()
    })
}

pub(crate) fn launch(dir: &Path, model_port: u16) -> Launch {
    Launch {
        agent: "opencode".into(),
        incarnation: Incarnation::from_bytes([7; 16]),
        command: vec![opencode().to_owned(), "serve".to_owned()],
        env: home(&dir.join("home"), model_port),
        modes: BTreeMap::new(),
        mcp: pilothouse_providers::mcp::McpServers::default(),
        cwd: dir.join("workspace"),
        wrapper: Vec::new(),
        sandbox: None,
        opens: None,
        pid_file: Some(dir.join("agents/one.pid")),
    }
}

impl World {
    /// Starts opencode; `scripts` maps a script's name to its steps.
    pub(crate) async fn start(scripts: Value) -> Self {
        Self::start_as(scripts, vec![opencode().to_owned(), "serve".to_owned()]).await
    }

    /// The same, by another command line.
    pub(crate) async fn start_as(scripts: Value, command: Vec<String>) -> Self {
        Self::start_by(adapter(), scripts, command, |_| McpServers::default()).await
    }

    /// The same with servers of tools, which are made for the directory that all of it stands in.
    pub(crate) async fn start_given(scripts: Value, mcp: impl Fn(&Path) -> McpServers) -> Self {
        let command = vec![opencode().to_owned(), "serve".to_owned()];
        Self::start_by(adapter(), scripts, command, mcp).await
    }

    /// The same, by another adapter.
    pub(crate) async fn start_by(
        adapter: OpencodeAdapter,
        scripts: Value,
        command: Vec<String>,
        mcp: impl Fn(&Path) -> McpServers,
    ) -> Self {
        let (dir, model) = Self::prepare(&scripts);
        let launch = Launch {
            command,
            mcp: mcp(dir.path()),
            ..launch(dir.path(), model.port)
        };
        Self::launched(dir, model, adapter, launch).await
    }

    /// The same in a workspace that was prepared, with words for its modes as a host is configured with.
    pub(crate) async fn start_in(
        scripts: Value,
        modes: BTreeMap<Mode, String>,
        prepare: impl Fn(&Path),
    ) -> Self {
        let (dir, model) = Self::prepare(&scripts);
        let launch = Launch {
            modes,
            ..launch(dir.path(), model.port)
        };
        prepare(&launch.cwd);
        Self::launched(dir, model, adapter(), launch).await
    }

    /// The same, configured with no model.
    pub(crate) async fn unconfigured(scripts: Value) -> Self {
        let (dir, model) = Self::prepare(&scripts);
        let launch = launch(dir.path(), model.port);
        let file = dir.path().join("home/opencode.json");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        config.as_object_mut().unwrap().remove("model");
        std::fs::write(&file, config.to_string()).unwrap();
        Self::launched(dir, model, adapter(), launch).await
    }

    fn prepare(scripts: &Value) -> (TempDir, Model) {
        let dir = tempfile::tempdir().unwrap();
        let model = Model::start(scripts, dir.path());
        std::fs::create_dir(dir.path().join("workspace")).unwrap();
        (dir, model)
    }

    async fn launched(
        dir: TempDir,
        model: Model,
        adapter: OpencodeAdapter,
        launch: Launch,
    ) -> Self {
        let (sender, events) = mpsc::channel(64);
        let runtime = adapter
            .start(launch, sender)
            .await
            .expect("opencode starts");
        Self {
            runtime,
            events,
            seen: Vec::new(),
            next: 0,
            model,
            dir,
            mode: Mode::Ask,
        }
    }

    /// Another process over the same home.
    pub(crate) async fn restart(&mut self) {
        let (sender, events) = mpsc::channel(64);
        let launch = Launch {
            pid_file: Some(self.dir.path().join("agents/two.pid")),
            ..launch(self.dir.path(), self.model.port)
        };
        let runtime = adapter().start(launch, sender).await.unwrap();
        self.take(runtime, events);
    }

    /// Another host takes up the process, after the one that started it is gone without having ended it.
    pub(crate) async fn taken_up(&mut self) {
        let record = self.dir.path().join("agents/one");
        let record = record.with_extension(EXTENSION);
        std::mem::forget(Arc::clone(&self.runtime));
        let (sender, events) = mpsc::channel(64);
        let launch = launch(self.dir.path(), self.model.port);
        let runtime = adapter().attach(launch, record, sender).await.unwrap();
        self.take(runtime, events);
    }

    /// Goes on with another runtime.
    pub(crate) fn take(
        &mut self,
        runtime: Arc<dyn AgentRuntime>,
        events: mpsc::Receiver<RuntimeEvents>,
    ) {
        self.runtime = runtime;
        self.events = events;
        self.next = self.seen.len();
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    pub(crate) fn selection(&self) -> Selection {
        Selection {
            agent: "opencode".into(),
            model: None,
            effort: None,
            mode: self.mode,
            sandbox: None,
        }
    }

    pub(crate) async fn open(&self, resume: Option<NativeId>) -> NativeId {
        let open = OpenThread {
            resume,
            cwd: self.workspace(),
            selection: self.selection(),
        };
        self.runtime
            .open_thread(open)
            .await
            .expect("a conversation opens")
    }

    pub(crate) fn message(&self, thread: &NativeId, text: &str) -> SendTurn {
        SendTurn {
            thread: thread.clone(),
            client_id: format!("id-of-{}", text.len()),
            text: text.to_owned(),
            attachments: Vec::new(),
            selection: self.selection(),
        }
    }

    pub(crate) async fn send(&self, thread: &NativeId, text: &str) -> NativeId {
        self.runtime
            .send_turn(self.message(thread, text))
            .await
            .expect("a turn starts")
            .turn
            .expect("it has an id")
    }

    /// The next event that `wanted` gives something for; those before it are looked at once.
    pub(crate) async fn until<T>(
        &mut self,
        what: &str,
        wanted: impl Fn(&ProviderEvent) -> Option<T>,
    ) -> T {
        heard::until(
            &mut self.events,
            &mut self.seen,
            &mut self.next,
            what,
            wanted,
        )
        .await
    }

    pub(crate) async fn turn_end(&mut self) -> (TurnStatus, Option<RunError>) {
        self.until("the end of the turn", heard::turn_end).await
    }

    pub(crate) async fn request(&mut self) -> Asked {
        self.until("a request", asked).await
    }

    pub(crate) async fn choose(&self, asked: &Asked, option: &str) -> AnswerDelivery {
        let response = asked.response(Answer::Choose {
            option: OptionId::from(option),
            note: None,
        });
        self.runtime.respond(response).await.expect("it is taken")
    }
}

/// The requests that reached the model, oldest first, without those for titles.
pub(crate) fn asked_of(model: &Model) -> Vec<Value> {
    let log = model.log();
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| {
            line["tools"]
                .as_array()
                .is_some_and(|some| !some.is_empty())
        })
        .collect()
}

/// A request that was opened, with the conversation of the thread.
pub(crate) fn asked(event: &ProviderEvent) -> Option<Asked> {
    match &event.kind {
        ProviderEventKind::RequestOpened {
            request,
            kind,
            subject,
            unknown_fields,
            ..
        } => Some(Asked {
            thread: event.place.home().unwrap().clone(),
            request: request.clone(),
            kind: *kind,
            subject: (**subject).clone(),
            unknown_fields: *unknown_fields,
        }),
        _ => None,
    }
}

/// A step of a script that runs a command.
pub(crate) fn run(command: &str) -> Value {
    json!({"text": "I run it.", "tools": [{"name": "bash", "args": {"command": command, "description": "d"}}]})
}

/// A step of a script that writes a file of the workspace.
pub(crate) fn write(path: &Path, content: &str) -> Value {
    json!({"tools": [{"name": "write", "args": {"filePath": path.display().to_string(), "content": content}}]})
}

/// A step of a script that gives a subagent a script.
pub(crate) fn task(script: &str) -> Value {
    json!({"tools": [{"name": "task", "args": {
        "description": "kid task", "prompt": format!("do [[script:{script}]]"), "subagent_type": "general"
    }}]})
}
