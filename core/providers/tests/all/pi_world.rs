//! A real pi in a private home against the scripted model on a free port.

use crate::heard;
use crate::support::{Asked, Model, PATIENCE, installed};
use pilothouse_domain::{
    Answer, Incarnation, Mode, NativeId, OptionId, ProviderEvent, ProviderEventKind,
    provider::TurnStatus, run::RunError, thread::Selection,
};
use pilothouse_providers::mcp::McpServers;
use pilothouse_providers::{
    contract::{
        AgentRuntime, Launch, OpenThread, ProviderAdapter as _, RuntimeEvents, SendTurn, StartError,
    },
    pi::{Deadlines, PiAdapter},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, OnceLock},
};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// The words that start the pinned pi with the Node that it needs, against the scripted model.
pub(crate) fn pi_command() -> Vec<String> {
    static WORDS: OnceLock<[String; 2]> = OnceLock::new();
    let [node, pi] = WORDS.get_or_init(|| {
        [
            installed("PILOTHOUSE_NODE", "node"),
            installed("PILOTHOUSE_PI", "pi"),
        ]
    });
    let rest = ["--provider", "local", "--model", "scripted"].map(str::to_owned);
    [node.clone(), pi.clone()].into_iter().chain(rest).collect()
}

/// One pi with its home, its workspace and its model.
pub(crate) struct PiWorld {
    pub(crate) runtime: Arc<dyn AgentRuntime>,
    pub(crate) events: mpsc::Receiver<RuntimeEvents>,
    pub(crate) seen: Vec<ProviderEvent>,
    next: usize,
    pub(crate) model: Model,
    pub(crate) dir: TempDir,
    pub(crate) mode: Mode,
}

/// A home, a workspace and a model, and how pi is started with them.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) model: Model,
}

impl Place {
    pub(crate) fn new(scripts: &Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let model = Model::start(scripts, dir.path());
        let agent = dir.path().join("home/.pi/agent");
        std::fs::create_dir_all(&agent).unwrap();
        let provider = json!({
            "baseUrl": format!("http://127.0.0.1:{}/v1", model.port),
            "api": "openai-completions",
            "apiKey": "sk-local",
            "models": [
                {"id": "scripted", "reasoning": true, "input": ["text", "image"], "contextWindow": 128_000, "maxTokens": 8192},
                {"id": "other", "reasoning": false, "contextWindow": 64_000, "maxTokens": 8192},
            ],
        });
        let models = json!({"providers": {"local": provider}});
        std::fs::write(agent.join("models.json"), models.to_string()).unwrap();
        // Failures of the model are tried again at once.
        let settings = json!({"retry": {"baseDelayMs": 10}});
        std::fs::write(agent.join("settings.json"), settings.to_string()).unwrap();
        std::fs::create_dir(dir.path().join("workspace")).unwrap();
        Self { dir, model }
    }

    pub(crate) fn launch(&self) -> Launch {
        let home = self.dir.path().join("home").display().to_string();
        let env = [
            ("HOME", home.as_str()),
            ("PI_OFFLINE", "1"),
            ("PI_TELEMETRY", "0"),
        ];
        Launch {
            agent: "pi".into(),
            incarnation: Incarnation::from_bytes(life()),
            command: pi_command(),
            modes: BTreeMap::new(),
            mcp: pilothouse_providers::mcp::McpServers::default(),
            env: env
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            cwd: self.dir.path().join("workspace"),
            wrapper: Vec::new(),
            sandbox: None,
            opens: None,
            pid_file: None,
        }
    }
}

/// Another one for each life: files of lives that go on at once must not meet.
pub(crate) fn life() -> [u8; 16] {
    static LIVES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let n = LIVES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    bytes
}

pub(crate) async fn start(
    launch: Launch,
) -> Result<(Arc<dyn AgentRuntime>, mpsc::Receiver<RuntimeEvents>), StartError> {
    let (sender, events) = mpsc::channel(64);
    let adapter = PiAdapter::with_deadlines(Deadlines {
        handshake: PATIENCE,
        ..Deadlines::default()
    });
    let runtime = adapter.start(launch, sender).await?;
    Ok((runtime, events))
}

pub(crate) fn selection(mode: Mode) -> Selection {
    Selection {
        agent: "pi".into(),
        model: None,
        effort: None,
        mode,
        sandbox: None,
    }
}

impl PiWorld {
    /// Starts pi; `scripts` maps a script's name to its steps.
    pub(crate) async fn start(scripts: Value) -> Self {
        let place = Place::new(&scripts);
        let launch = place.launch();
        Self::launched(place, launch, Mode::Ask).await
    }

    /// The same with servers of tools, which are made for the directory that all of it stands in.
    pub(crate) async fn start_given(
        scripts: Value,
        mcp: impl Fn(&std::path::Path) -> McpServers,
    ) -> Self {
        let place = Place::new(&scripts);
        let launch = Launch {
            mcp: mcp(place.dir.path()),
            ..place.launch()
        };
        Self::launched(place, launch, Mode::Ask).await
    }

    pub(crate) async fn launched(place: Place, launch: Launch, mode: Mode) -> Self {
        let (runtime, events) = start(launch).await.expect("pi starts");
        Self {
            runtime,
            events,
            seen: Vec::new(),
            next: 0,
            model: place.model,
            dir: place.dir,
            mode,
        }
    }

    /// Another process over the same home.
    pub(crate) async fn restart(self) -> Self {
        let place = Place {
            dir: self.dir,
            model: self.model,
        };
        let launch = place.launch();
        Self::launched(place, launch, self.mode).await
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.workspace().join(file).exists()
    }

    pub(crate) async fn open(&self, resume: Option<NativeId>) -> NativeId {
        self.runtime
            .open_thread(OpenThread {
                resume,
                cwd: self.workspace(),
                selection: selection(self.mode),
            })
            .await
            .expect("a session opens")
    }

    pub(crate) fn message(&self, thread: &NativeId, text: &str) -> SendTurn {
        SendTurn {
            thread: thread.clone(),
            client_id: format!("id of {text}"),
            text: text.to_owned(),
            attachments: Vec::new(),
            selection: selection(self.mode),
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
        self.until("a request", |event| match &event.kind {
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
        })
        .await
    }

    pub(crate) async fn choose(&self, asked: &Asked, option: &str, note: Option<&str>) {
        let response = asked.response(Answer::Choose {
            option: OptionId::from(option),
            note: note.map(str::to_owned),
        });
        self.runtime.respond(response).await.expect("it is taken");
    }

    /// Whether all that the model was sent so far holds these words.
    pub(crate) fn model_read(&self, words: &str) -> bool {
        self.model.log().contains(words)
    }
}

/// A step of a script in which pi runs a command.
pub(crate) fn bash(command: &str) -> Value {
    json!({"text": "I run it.", "tools": [{"name": "bash", "args": {"command": command}}]})
}
