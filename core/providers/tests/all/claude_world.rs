//! A real Claude Code in a private home against the scripted model.

use crate::heard;
use crate::support::{Asked, Model, PATIENCE, installed};
use pilothouse_domain::{
    Answer, Incarnation, ItemContent, ItemStatus, Mode, NativeId, OptionId, ProviderEvent,
    ProviderEventKind, provider::TurnStatus, request::AnswerDelivery, run::RunError,
    thread::Selection,
};
use pilothouse_providers::{
    claude::{ClaudeAdapter, Deadlines},
    contract::{
        AgentRuntime, Launch, OpenThread, ProviderAdapter as _, RuntimeEvents, SendTurn, StartError,
    },
    mcp::McpServers,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// The model of the tests: one that the agent takes as it is.
pub(crate) const MODEL: &str = "claude-sonnet-4-5";

/// The pinned Claude Code.
pub(crate) fn claude() -> &'static str {
    static CLAUDE: OnceLock<String> = OnceLock::new();
    CLAUDE.get_or_init(|| installed("PILOTHOUSE_CLAUDE", "claude"))
}

/// One Claude Code with its home, its workspace and its model.
pub(crate) struct World {
    pub(crate) runtime: Arc<dyn AgentRuntime>,
    pub(crate) events: mpsc::Receiver<RuntimeEvents>,
    pub(crate) seen: Vec<ProviderEvent>,
    next: usize,
    pub(crate) model: Model,
    pub(crate) dir: TempDir,
    pub(crate) selection: Selection,
    pub(crate) arguments: Vec<String>,
    /// Servers of tools that it is given.
    mcp: McpServers,
    /// What host.toml says for modes.
    pub(crate) modes: BTreeMap<Mode, String>,
    lives: AtomicU8,
}

/// A selection in that mode.
pub(crate) fn selection(mode: Mode) -> Selection {
    Selection {
        agent: "claude".into(),
        model: Some(MODEL.to_owned()),
        effort: None,
        mode,
        sandbox: None,
    }
}

/// How to start it in a directory against a model.
pub(crate) fn launch(dir: &Path, port: u16, life: u8) -> Launch {
    let home = |name: &str| dir.join(name).display().to_string();
    let env = [
        ("HOME", home("home")),
        ("CLAUDE_CONFIG_DIR", home("claude")),
        ("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{port}")),
        ("ANTHROPIC_API_KEY", "sk-ant-local".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
        // It runs as root in containers.
        ("IS_SANDBOX", "1".to_owned()),
        // Otherwise tools of servers are looked up by a tool of their own.
        ("ENABLE_TOOL_SEARCH", "false".to_owned()),
    ];
    Launch {
        agent: "claude".into(),
        incarnation: Incarnation::from_bytes([life; 16]),
        command: vec![claude().to_owned()],
        env: env.map(|(name, value)| (name.to_owned(), value)).into(),
        modes: BTreeMap::new(),
        mcp: pilothouse_providers::mcp::McpServers::default(),
        cwd: dir.join("workspace"),
        wrapper: Vec::new(),
        sandbox: None,
        opens: None,
        pid_file: None,
    }
}

impl World {
    /// Starts it in the mode that asks; `scripts` maps a script's name to its steps.
    pub(crate) async fn start(scripts: Value) -> Self {
        Self::start_with(scripts, selection(Mode::Ask), &[]).await
    }

    pub(crate) async fn start_with(
        scripts: Value,
        selection: Selection,
        arguments: &[&str],
    ) -> Self {
        Self::start_all(scripts, selection, arguments, |_| McpServers::default()).await
    }

    /// The same with servers of tools, which are made for the directory that all of it stands in.
    pub(crate) async fn start_given(
        scripts: Value,
        selection: Selection,
        mcp: impl Fn(&Path) -> McpServers,
    ) -> Self {
        Self::start_all(scripts, selection, &[], mcp).await
    }

    async fn start_all(
        scripts: Value,
        selection: Selection,
        arguments: &[&str],
        mcp: impl Fn(&Path) -> McpServers,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let model = Model::start(&scripts, dir.path());
        for name in ["workspace", "home", "claude"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        // What is remembered for a project must not land in a directory above.
        let made = Command::new("git")
            .args(["init", "--quiet"])
            .arg(dir.path().join("workspace"))
            .status()
            .unwrap();
        assert!(made.success());
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let lives = AtomicU8::new(1);
        let mcp = mcp(dir.path());
        let modes = BTreeMap::new();
        let given = (&selection, &mcp, &modes);
        let (runtime, events) = start(&dir, &model, 1, None, given, &arguments)
            .await
            .expect("claude starts");
        Self {
            runtime,
            events,
            seen: Vec::new(),
            next: 0,
            model,
            dir,
            selection,
            arguments,
            mcp,
            modes,
            lives,
        }
    }

    /// Another process over the same home, for that conversation.
    pub(crate) async fn restart(&mut self, resume: Option<NativeId>) {
        let life = self.lives.fetch_add(1, Ordering::Relaxed) + 1;
        let (runtime, events) = start(
            &self.dir,
            &self.model,
            life,
            resume,
            (&self.selection, &self.mcp, &self.modes),
            &self.arguments,
        )
        .await
        .expect("claude starts again");
        self.runtime = runtime;
        self.events = events;
        self.next = self.seen.len();
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    pub(crate) fn opening(&self, resume: Option<NativeId>) -> OpenThread {
        OpenThread {
            resume,
            cwd: self.workspace(),
            selection: self.selection.clone(),
        }
    }

    pub(crate) async fn open(&self, resume: Option<NativeId>) -> NativeId {
        self.runtime
            .open_thread(self.opening(resume))
            .await
            .expect("a conversation opens")
    }

    pub(crate) fn message(&self, thread: &NativeId, text: &str) -> SendTurn {
        SendTurn {
            thread: thread.clone(),
            client_id: format!("id of {text}"),
            text: text.to_owned(),
            attachments: Vec::new(),
            selection: self.selection.clone(),
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

    pub(crate) async fn answer(&self, asked: &Asked, answer: Answer) -> AnswerDelivery {
        self.runtime
            .respond(asked.response(answer))
            .await
            .expect("it is taken")
    }

    pub(crate) async fn choose(&self, asked: &Asked, option: &str) -> AnswerDelivery {
        self.answer(
            asked,
            Answer::Choose {
                option: OptionId::from(option),
                note: None,
            },
        )
        .await
    }

    /// Each item's last end, in order of their ends.
    pub(crate) fn ends(&self) -> Vec<(ItemContent, ItemStatus)> {
        self.seen
            .iter()
            .filter_map(|event| match &event.kind {
                ProviderEventKind::ItemClosed {
                    content, status, ..
                } => Some((content.clone(), *status)),
                _ => None,
            })
            .collect()
    }

    /// What the agent said.
    pub(crate) fn said(&self) -> Vec<String> {
        self.ends()
            .into_iter()
            .filter_map(|(content, _)| match content {
                ItemContent::AssistantMessage { text } => Some(text.preview().to_owned()),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn statuses_of_commands(&self) -> Vec<ItemStatus> {
        self.ends()
            .into_iter()
            .filter(|(content, _)| matches!(content, ItemContent::Command { .. }))
            .map(|(_, status)| status)
            .collect()
    }

    /// Waits until the agent has written some words of a conversation into its own file.
    pub(crate) async fn written(&self, thread: &NativeId, words: &str) {
        let projects = self.dir.path().join("claude/projects");
        let holds = || {
            let folders = std::fs::read_dir(&projects).into_iter().flatten().flatten();
            folders
                .map(|folder| folder.path().join(format!("{thread}.jsonl")))
                .filter_map(|file| std::fs::read_to_string(file).ok())
                .any(|text| text.contains(words))
        };
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds() {
                // The file system tells nobody.
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        waited.await.expect("it writes it down");
    }

    /// What the model was told, as the scripted model wrote it down.
    pub(crate) fn told(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("model.log")).unwrap_or_default()
    }

    /// The marks of all messages that the last request to the model held.
    pub(crate) fn last_marks(&self) -> Vec<String> {
        let told = self.told();
        let lines = told.lines().rev();
        let requests = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let marks = requests.filter_map(|request| request["marks"].as_object().cloned());
        let last = marks.into_iter().find(|marks| !marks.is_empty());
        last.into_iter().flatten().map(|(mark, _)| mark).collect()
    }

    /// The last request as it was asked.
    pub(crate) fn last_asked(&self) -> Asked {
        let asked = self.seen.iter().rev().find_map(asked);
        asked.expect("something was asked")
    }

    /// Everything that was shown and this version could not read.
    pub(crate) fn unknown(&self) -> Vec<&ProviderEventKind> {
        self.seen
            .iter()
            .map(|event| &event.kind)
            .filter(|kind| matches!(kind, ProviderEventKind::Unknown { .. }))
            .collect()
    }
}

fn asked(event: &ProviderEvent) -> Option<Asked> {
    match &event.kind {
        ProviderEventKind::RequestOpened {
            request,
            kind,
            subject,
            unknown_fields,
            ..
        } => Some(Asked {
            thread: event.place.home()?.clone(),
            request: request.clone(),
            kind: *kind,
            subject: (**subject).clone(),
            unknown_fields: *unknown_fields,
        }),
        _ => None,
    }
}

/// An answer with words.
pub(crate) fn choose(option: &str, note: &str) -> Answer {
    Answer::Choose {
        option: OptionId::from(option),
        note: Some(note.to_owned()),
    }
}

async fn start(
    dir: &TempDir,
    model: &Model,
    life: u8,
    resume: Option<NativeId>,
    (selection, mcp, modes): (&Selection, &McpServers, &BTreeMap<Mode, String>),
    arguments: &[String],
) -> Result<(Arc<dyn AgentRuntime>, mpsc::Receiver<RuntimeEvents>), StartError> {
    let (sender, events) = mpsc::channel(1024);
    let mut launch = launch(dir.path(), model.port, life);
    launch.command.extend(arguments.iter().cloned());
    launch.mcp = mcp.clone();
    launch.modes = modes.clone();
    launch.opens = Some(OpenThread {
        resume,
        cwd: launch.cwd.clone(),
        selection: selection.clone(),
    });
    let deadlines = Deadlines {
        handshake: PATIENCE,
        ..Deadlines::default()
    };
    let runtime = ClaudeAdapter::with_deadlines(deadlines)
        .start(launch, sender)
        .await?;
    Ok((runtime, events))
}

/// A step of a script that runs a command.
pub(crate) fn run(command: &str) -> Value {
    json!({"text": "I run it.", "tools": [{"name": "Bash", "args": {"command": command, "description": "a test"}}]})
}

/// A step of a script that calls a tool.
pub(crate) fn call(name: &str, args: Value) -> Value {
    json!({"tools": [{"name": name, "args": args}]})
}
