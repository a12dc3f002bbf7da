//! A real codex in a private home against the scripted model on a free port.

use crate::heard;
use pilothouse_domain::{
    Answer, Incarnation, Mode, NativeId, OptionId, ProviderEvent, ProviderEventKind, Subject,
    provider::TurnStatus,
    request::{AnswerDelivery, RequestKind},
    run::RunError,
    thread::Selection,
};
use pilothouse_providers::{
    codex::{CodexAdapter, Deadlines},
    contract::{
        AgentRuntime, InputFile, Launch, OpenThread, ProviderAdapter as _, Response, RuntimeEvents,
        SendTurn,
    },
    mcp::McpServers,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Generous: the machine may be busy. Nothing waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// codex's `TMPDIR`: a home beneath it gets no helper programs, and its sandbox then fails with an older bwrap
/// (docs/agents-probes.md, section 7).
pub(crate) const ELSEWHERE: &str = "/var/tmp";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A pinned agent or runtime. Without it these tests fail: a skipped test shows nothing.
pub(crate) fn installed(variable: &str, agent: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        let output = Command::new(root().join("scripts/agents"))
            .arg(agent)
            .stderr(Stdio::inherit())
            .output()
            .expect("scripts/agents runs");
        assert!(output.status.success(), "{agent} could not be installed");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().last().expect("it prints a path").to_owned()
    })
}

/// The pinned codex.
pub(crate) fn codex() -> &'static str {
    static CODEX: OnceLock<String> = OnceLock::new();
    CODEX.get_or_init(|| installed("PILOTHOUSE_CODEX", "codex"))
}

/// The scripted model; it ends with this value.
pub(crate) struct Model {
    child: Child,
    pub(crate) port: u16,
    log: PathBuf,
}

impl Model {
    pub(crate) fn start(scripts: &Value, dir: &Path) -> Self {
        let file = dir.join("scripts.json");
        std::fs::write(&file, scripts.to_string()).unwrap();
        let server = std::env::var("PILOTHOUSE_MODEL_SERVER")
            .map_or_else(|_| root().join("tests/model/model.mjs"), PathBuf::from);
        let mut child = Command::new("node")
            .arg(server)
            .arg("0")
            .arg(dir.join("model.log"))
            .arg("--scripts")
            .arg(&file)
            .arg("--exit-with-stdin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        Self {
            child,
            port,
            log: dir.join("model.log"),
        }
    }

    /// What reached it so far, a line of JSON per request; before the first there is no file.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Lets the steps that hold this name go on.
    pub(crate) fn release(&self, name: &str) {
        self.ask("PUT", &format!("/_release/{name}"), "");
    }

    /// Registers a script.
    pub(crate) fn script(&self, name: &str, steps: &Value) {
        self.ask("PUT", &format!("/_script/{name}"), &steps.to_string());
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One codex with its home, its workspace and its model.
pub(crate) struct World {
    pub(crate) runtime: Arc<dyn AgentRuntime>,
    pub(crate) events: mpsc::Receiver<RuntimeEvents>,
    pub(crate) seen: Vec<ProviderEvent>,
    next: usize,
    pub(crate) model: Model,
    pub(crate) dir: TempDir,
    pub(crate) mode: Mode,
    /// Servers of tools that it is given.
    mcp: McpServers,
}

pub(crate) fn launch(command: &[&str], cwd: &Path) -> Launch {
    Launch {
        agent: "codex".into(),
        incarnation: Incarnation::from_bytes([7; 16]),
        command: command.iter().map(|&word| word.to_owned()).collect(),
        modes: BTreeMap::new(),
        mcp: pilothouse_providers::mcp::McpServers::default(),
        env: BTreeMap::new(),
        cwd: cwd.to_owned(),
        wrapper: Vec::new(),
        sandbox: None,
        opens: None,
        pid_file: None,
    }
}

pub(crate) fn selection(mode: Mode) -> Selection {
    Selection {
        agent: "codex".into(),
        model: Some("gpt-5.5".to_owned()),
        effort: Some("low".to_owned()),
        mode,
        sandbox: None,
    }
}

impl World {
    /// Starts codex; `scripts` maps a script's name to its steps.
    pub(crate) async fn start(scripts: Value) -> Self {
        let (dir, model) = Self::prepare(&scripts);
        let (runtime, events) = Self::launch_codex(&dir).await;
        Self::around(dir, model, runtime, events)
    }

    /// The same with servers of tools, which are made for the directory that all of it stands in.
    pub(crate) async fn start_given(scripts: Value, mcp: impl Fn(&Path) -> McpServers) -> Self {
        let (dir, model) = Self::prepare(&scripts);
        let mcp = mcp(dir.path());
        let (runtime, events) = Self::launch_given(&dir, mcp.clone()).await;
        let mut world = Self::around(dir, model, runtime, events);
        world.mcp = mcp;
        world
    }

    /// A home, a workspace and a model.
    pub(crate) fn prepare(scripts: &Value) -> (TempDir, Model) {
        let dir = tempfile::tempdir().unwrap();
        let model = Model::start(scripts, dir.path());
        let home = dir.path().join("home");
        let written = Command::new(root().join("scripts/agents"))
            .arg("home")
            .arg(&home)
            .arg(model.port.to_string())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(written.success());
        std::fs::create_dir(dir.path().join("workspace")).unwrap();
        (dir, model)
    }

    /// A codex that was started already.
    pub(crate) fn around(
        dir: TempDir,
        model: Model,
        runtime: Arc<dyn AgentRuntime>,
        events: mpsc::Receiver<RuntimeEvents>,
    ) -> Self {
        Self {
            runtime,
            events,
            seen: Vec::new(),
            next: 0,
            model,
            dir,
            mode: Mode::Ask,
            mcp: McpServers::default(),
        }
    }

    async fn launch_codex(dir: &TempDir) -> (Arc<dyn AgentRuntime>, mpsc::Receiver<RuntimeEvents>) {
        Self::launch_given(dir, McpServers::default()).await
    }

    async fn launch_given(
        dir: &TempDir,
        mcp: McpServers,
    ) -> (Arc<dyn AgentRuntime>, mpsc::Receiver<RuntimeEvents>) {
        let (sender, events) = mpsc::channel(64);
        let mut launch = launch(
            &[
                codex(),
                "app-server",
                "--enable",
                "default_mode_request_user_input",
                "--enable",
                "request_permissions_tool",
            ],
            &dir.path().join("workspace"),
        );
        launch.mcp = mcp;
        // Tests that run at the same time have one incarnation and must not share its record.
        launch.pid_file = Some(dir.path().join("codex.pid"));
        // Its commands run in login shells: of a home of their own, or they would read the person's profile.
        for home in ["CODEX_HOME", "HOME"] {
            let path = dir.path().join("home").display().to_string();
            launch.env.insert(home.to_owned(), path);
        }
        let own = [("LOCAL_KEY", "sk-local"), ("TMPDIR", ELSEWHERE)];
        for (name, value) in own {
            launch.env.insert(name.to_owned(), value.to_owned());
        }
        let runtime = CodexAdapter::with_deadlines(Deadlines {
            handshake: PATIENCE,
            ..Deadlines::default()
        })
        .start(launch, sender)
        .await
        .expect("codex starts");
        (runtime, events)
    }

    /// Another process over the same home.
    pub(crate) async fn restart(&mut self) {
        let (runtime, events) = Self::launch_given(&self.dir, self.mcp.clone()).await;
        self.goes_on_with(runtime, events);
    }

    /// What comes from now on comes from another runtime.
    pub(crate) fn goes_on_with(
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

    pub(crate) async fn open(&self, resume: Option<NativeId>) -> NativeId {
        self.runtime
            .open_thread(OpenThread {
                resume,
                cwd: self.workspace(),
                selection: selection(self.mode),
            })
            .await
            .expect("a conversation opens")
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

    pub(crate) async fn choose(&self, asked: &Asked, option: &str) -> AnswerDelivery {
        let response = asked.response(Answer::Choose {
            option: OptionId::from(option),
            note: None,
        });
        self.runtime.respond(response).await.expect("it is taken")
    }
}

pub(crate) struct Asked {
    pub(crate) thread: NativeId,
    pub(crate) request: NativeId,
    pub(crate) kind: RequestKind,
    pub(crate) subject: Subject,
    pub(crate) unknown_fields: bool,
}

impl Asked {
    pub(crate) fn response(&self, answer: Answer) -> Response {
        Response {
            thread: self.thread.clone(),
            request: self.request.clone(),
            kind: self.kind,
            subject: self.subject.clone(),
            answer,
        }
    }
}

/// A step of a script that runs a command.
pub(crate) fn run(cmd: &str) -> Value {
    json!({"text": "I run it.", "tools": [{"name": "exec_command", "args": {"cmd": cmd}}]})
}

/// A step of a script that only says something.
pub(crate) fn say(text: &str) -> Value {
    json!({ "text": text })
}

/// A file that goes with a message.
pub(crate) fn picture(dir: &Path, name: &str, bytes: &[u8]) -> InputFile {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    InputFile {
        name: name.to_owned(),
        media_type: "image/png".to_owned(),
        bytes: bytes.len() as u64,
        path,
    }
}

/// Of a command that is longer than what is shown of one, a part is shown, and it is said that it is a part.
pub(crate) fn assert_cut_short(told: &[ProviderEventKind]) {
    let subject = told.iter().find_map(|kind| match kind {
        ProviderEventKind::RequestOpened { subject, .. } => Some(subject),
        _ => None,
    });
    let subject = subject.expect("it is asked");
    assert!(subject.incomplete, "a part is shown");
    assert!(
        subject
            .command
            .as_ref()
            .is_some_and(|shown| shown.len() <= 256 * 1024)
    );
}
