//! A world for one test: everything that has to run, in a directory that goes away with it.

use crate::{
    device::Device, host::Host, issuer::Issuer, model::Model, opencode_home::needs_no_registry,
    places, process::kill_group, proxy::Proxy,
};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// opencode's configuration: the scripted model, under two names, and nothing else. Titles are not made: what reaches the model
/// is what was said.
const OPENCODE_CONFIG: &str = r#"{"autoupdate": false, "share": "disabled", "snapshot": false, "model": "local/scripted", "small_model": "local/scripted", "enabled_providers": ["local"], "agent": {"title": {"disable": true}}, "provider": {"local": {"npm": "@ai-sdk/openai-compatible", "name": "Local", "options": {"baseURL": "http://127.0.0.1:{port}/v1", "apiKey": "sk-local"}, "models": {"scripted": {"name": "Scripted", "tool_call": true, "reasoning": true, "attachment": true, "modalities": {"input": ["text", "image"], "output": ["text"]}, "limit": {"context": 128000, "output": 8192}}, "scripted-2": {"name": "Scripted 2", "tool_call": true, "reasoning": true, "limit": {"context": 128000, "output": 8192}}}}}}"#;

/// opencode's environment: a home of its own, the scripted model, and nothing that it would fetch.
pub(crate) const OPENCODE_ENV: &[(&str, &str)] = &[
    ("HOME", "{home}"),
    ("XDG_DATA_HOME", "{home}/data"),
    ("XDG_CONFIG_HOME", "{home}/config"),
    ("XDG_STATE_HOME", "{home}/state"),
    ("XDG_CACHE_HOME", "{home}/opencode-cache"),
    ("OPENCODE_CONFIG_CONTENT", OPENCODE_CONFIG),
    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
];

/// What a world is to have.
#[derive(Default)]
pub struct Setup {
    fakes: Vec<(String, Vec<String>)>,
    codex_arguments: Vec<String>,
    by_account: bool,
    agents: Vec<Agent>,
    sandboxes: Vec<String>,
    recordings: Vec<(String, PathBuf)>,
    idle_minutes: Option<&'static str>,
    host_toml: String,
    state: Option<PathBuf>,
    program: Option<PathBuf>,
}

/// An agent besides codex.
struct Agent {
    name: String,
    protocol: &'static str,
    command: Vec<String>,
    env: Vec<(String, String)>,
}

impl Setup {
    /// Real codex and nothing else.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another agent that claims to be codex: tests/support/fake-codex.mjs with these arguments.
    pub fn fake(mut self, name: &str, arguments: &[&str]) -> Self {
        self.fakes.push((
            name.to_owned(),
            arguments.iter().map(|&text| text.to_owned()).collect(),
        ));
        self
    }

    /// Arguments of real codex after `app-server`.
    pub fn codex_arguments(mut self, arguments: &[&str]) -> Self {
        self.codex_arguments = arguments.iter().map(|&text| text.to_owned()).collect();
        self
    }

    /// Codex that talks to its model as an account, which is signed in to at a service of the test; it is not, at first.
    pub fn by_account(mut self) -> Self {
        self.by_account = true;
        self
    }

    /// Codex over its pipes, so that it dies with its host.
    pub fn bound(self) -> Self {
        self.codex_arguments(&["--stdio"])
    }

    /// Another agent, which speaks ACP: its command line and what is added to its environment. A `{port}` in a value is the
    /// scripted model's, and `{home}` a private directory.
    pub fn acp(self, name: &str, command: &[&str], env: &[(&str, &str)]) -> Self {
        self.agent("acp", name, command, env)
    }

    fn agent(
        mut self,
        protocol: &'static str,
        name: &str,
        command: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        self.agents.push(Agent {
            name: name.to_owned(),
            protocol,
            command: command.iter().map(|&word| word.to_owned()).collect(),
            env: env
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        });
        self
    }

    /// Real copilot, as `copilot`, against the scripted model.
    pub fn copilot(self) -> Self {
        let copilot = places::copilot();
        let command = [&*copilot.to_string_lossy(), "--acp"];
        self.acp(
            "copilot",
            &command,
            &[
                ("HOME", "{home}"),
                ("COPILOT_PROVIDER_BASE_URL", "http://127.0.0.1:{port}/v1"),
                ("COPILOT_PROVIDER_TYPE", "openai"),
                ("COPILOT_PROVIDER_API_KEY", "local"),
                ("COPILOT_MODEL", "scripted"),
                ("COPILOT_OFFLINE", "true"),
            ],
        )
    }

    /// Real pi, as `pi`, against the scripted model. It asks, unless it is given sandboxes.
    pub fn pi(mut self, sandboxes: &[&str]) -> Self {
        self.sandboxes = sandboxes.iter().map(|&name| name.to_owned()).collect();
        let (node, pi) = (places::node(), places::pi());
        let (node, pi) = (node.to_string_lossy(), pi.to_string_lossy());
        let command = [&*node, &*pi, "--provider", "local", "--model", "scripted"];
        let env = [
            ("HOME", "{home}"),
            ("PI_OFFLINE", "1"),
            ("PI_TELEMETRY", "0"),
        ];
        self.agent("pi", "pi", &command, &env)
    }

    /// Real Claude Code, as `claude`, against the scripted model.
    pub fn claude(self) -> Self {
        let claude = places::claude();
        let env = [
            ("HOME", "{home}"),
            ("CLAUDE_CONFIG_DIR", "{home}/claude"),
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:{port}"),
            ("ANTHROPIC_API_KEY", "local"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            // It tries for minutes by itself, also what is refused.
            ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ];
        self.agent("claude", "claude", &[&*claude.to_string_lossy()], &env)
    }

    /// Real opencode by its own interface, as `opencode`, against the scripted model. It is configured as it comes: to allow
    /// everything, so that what asks does so because of Pilothouse.
    pub fn opencode(self) -> Self {
        let opencode = places::opencode();
        let command = [&*opencode.to_string_lossy(), "serve"];
        self.agent("opencode", "opencode", &command, OPENCODE_ENV)
    }

    /// The same opencode, whose model's provider is signed in to at a service of the test, by a `page` alone or by a `code` that
    /// the page shows (tests/support/opencode-sign-in.mjs); it is not, at first.
    pub fn opencode_by_account(mut self, by: &str) -> Self {
        self.by_account = true;
        let mut out = self.opencode();
        let plugin = places::support("opencode-sign-in.mjs");
        let plugin = format!("{{\"plugin\": [\"file://{}\"], ", plugin.display());
        let env = out.agents.last_mut().map(|agent| &mut agent.env);
        let env = env.expect("opencode was added");
        for (_, value) in env.iter_mut() {
            *value = value.replace(", \"apiKey\": \"sk-local\"", "");
            if value.starts_with('{') && value.contains("autoupdate") {
                value.replace_range(..1, &plugin);
            }
        }
        env.push(("SIGN_IN_ISSUER".to_owned(), "{issuer}".to_owned()));
        env.push(("SIGN_IN_BY".to_owned(), by.to_owned()));
        out
    }

    /// A recording as an agent: a file of tests/recordings, played without pauses.
    pub fn recording(mut self, name: &str, file: &str) -> Self {
        let file = places::root().join("tests/recordings").join(file);
        self.recordings.push((name.to_owned(), file));
        self
    }

    /// Agents without anything to do are looked at so often, as host.toml says it.
    pub fn idle_minutes(mut self, minutes: &'static str) -> Self {
        self.idle_minutes = Some(minutes);
        self
    }

    /// More of host.toml; a `{dir}` in it is the world's directory.
    pub fn host_toml(mut self, text: &str) -> Self {
        self.host_toml.push_str(text);
        self
    }

    /// Where the host keeps its state.
    pub fn state(mut self, state: &Path) -> Self {
        self.state = Some(state.to_owned());
        self
    }

    /// The host's program; this version's otherwise.
    pub fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Starts it all.
    pub fn start(self) -> World {
        let dir = tempfile::Builder::new()
            .prefix("pilothouse-")
            .tempdir()
            .expect("a temporary directory");
        let root = dir.path();
        let model = Model::start(root);
        let workspace = root.join("workspace");
        make_workspace(&workspace);
        let codex_home = root.join("codex-home");
        write_codex_home(&codex_home, model.port());
        let issuer = self.by_account.then(|| Issuer::start(root));
        let mut configured = self.config(root, &workspace, &codex_home, model.port());
        if let Some(issuer) = &issuer {
            let codex = codex_home.join("config.toml");
            let told = fs::read_to_string(&codex).expect("codex' configuration");
            let told = told.replace("env_key = \"LOCAL_KEY\"", "requires_openai_auth = true");
            let url = issuer.url();
            let own = format!(
                "chatgpt_base_url = \"{url}/backend-api\"\ncli_auth_credentials_store = \"file\"\n"
            );
            fs::write(&codex, own + &told).expect("codex' configuration");
            // What it would ask of others than these two servers gets nowhere.
            let env = format!(
                "LOCAL_KEY = \"local\", CODEX_APP_SERVER_LOGIN_ISSUER = \"{url}\", HTTPS_PROXY = \"http://127.0.0.1:9\""
            );
            configured = configured.replace("LOCAL_KEY = \"local\"", &env);
            configured = configured.replace("{issuer}", &url);
        }
        let config = root.join("host.toml");
        fs::write(&config, configured).expect("host.toml");
        let state = self.state.unwrap_or_else(|| root.join("state"));
        let program = self.program.unwrap_or_else(places::pilothouse);
        let left = LeftRunning(state.join("pids"));
        let host = Host::start(program, root, state, config);
        World {
            host,
            left,
            issuer,
            model,
            workspace,
            dir,
        }
    }

    fn config(&self, root: &Path, workspace: &Path, codex_home: &Path, port: u16) -> String {
        let text = |value: &str| serde_json::Value::from(value).to_string();
        let path = |path: &Path| text(&path.to_string_lossy());
        let list = |parts: &[String]| {
            parts
                .iter()
                .map(|part| text(part))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut command = vec![
            places::codex().to_string_lossy().into_owned(),
            "app-server".to_owned(),
        ];
        command.extend(self.codex_arguments.iter().cloned());
        let agent_home = root.join("agent-home");
        fs::create_dir_all(&agent_home).expect("a home for the agent");
        let idle = self
            .idle_minutes
            .map(|said| format!("idle_minutes = {said}\n"));
        let mut out = format!(
            "[host]\nname = \"e2e\"\n{}\n[workspaces.demo]\npath = {}\n\n[agents.codex]\nprotocol = \"codex\"\ncommand = [{}]\nenv = {{ CODEX_HOME = {}, LOCAL_KEY = \"local\", TMPDIR = \"/var/tmp\", HOME = {} }}\n",
            idle.unwrap_or_default(),
            path(workspace),
            list(&command),
            path(codex_home),
            path(&agent_home),
        );
        for (name, arguments) in &self.fakes {
            let mut command = vec![
                "node".to_owned(),
                places::support("fake-codex.mjs")
                    .to_string_lossy()
                    .into_owned(),
            ];
            command.extend(arguments.iter().cloned());
            let _ = write!(
                out,
                "\n[agents.{name}]\nprotocol = \"codex\"\ncommand = [{}]\n",
                list(&command)
            );
        }
        for (name, file) in &self.recordings {
            let _ = write!(
                out,
                "\n[agents.{name}]\nprotocol = \"replay\"\ncommand = [{}, \"--speed\", \"100000\"]\n",
                path(file)
            );
        }
        for agent in &self.agents {
            let home = root.join(format!("home-of-{}", agent.name));
            places::agent_home(&home);
            let mut more = String::new();
            if agent.protocol == "opencode" {
                needs_no_registry(&home.join("config"));
            }
            if agent.protocol == "pi" {
                write_pi_home(&home, port);
                if !self.sandboxes.is_empty() {
                    more = format!("sandbox = [{}]\n", list(&self.sandboxes));
                }
            }
            let env: Vec<String> = agent
                .env
                .iter()
                .map(|(name, value)| {
                    let value = value
                        .replace("{port}", &port.to_string())
                        .replace("{home}", &home.to_string_lossy());
                    format!("{name} = {}", text(&value))
                })
                .collect();
            let _ = write!(
                out,
                "\n[agents.{}]\nprotocol = \"{}\"\ncommand = [{}]\n{more}env = {{ {} }}\n",
                agent.name,
                agent.protocol,
                list(&agent.command),
                env.join(", ")
            );
        }
        let more = self.host_toml.replace("{dir}", &root.to_string_lossy());
        out + "\n" + &more
    }
}

/// What pi needs to find the scripted model.
fn write_pi_home(home: &Path, port: u16) {
    let agent = home.join(".pi/agent");
    fs::create_dir_all(&agent).expect("a home for pi");
    let models = serde_json::json!({"providers": {"local": {
        "baseUrl": format!("http://127.0.0.1:{port}/v1"),
        "api": "openai-completions",
        "apiKey": "sk-local",
        "models": [
            {"id": "scripted", "reasoning": true, "input": ["text", "image"], "contextWindow": 128_000, "maxTokens": 8192},
            {"id": "scripted-2", "reasoning": true, "contextWindow": 128_000, "maxTokens": 8192},
        ],
    }}});
    fs::write(agent.join("models.json"), models.to_string()).expect("models.json");
    // A short conversation can be shortened, too.
    let settings = serde_json::json!({"compaction": {"keepRecentTokens": 1}});
    fs::write(agent.join("settings.json"), settings.to_string()).expect("settings.json");
}

/// A running world. Dropped, it is gone: host first, so that its agents go with it.
pub struct World {
    /// The host.
    pub host: Host,
    #[expect(dead_code, reason = "dropped after the host")]
    left: LeftRunning,
    /// Where codex or opencode is signed in, for a world that was set up so.
    pub issuer: Option<Issuer>,
    /// The model behind codex.
    pub model: Model,
    /// The workspace `demo`, a git repository.
    pub workspace: PathBuf,
    dir: TempDir,
}

impl World {
    /// The environment of an opencode in a home: the scripted model, and nothing that it would fetch.
    pub fn opencode_env(&self, home: &Path) -> Vec<(&'static str, String)> {
        let port = self.model.port().to_string();
        let home = home.to_string_lossy();
        let filled = |text: &str| text.replace("{port}", &port).replace("{home}", &home);
        OPENCODE_ENV
            .iter()
            .map(|(name, value)| (*name, filled(value)))
            .collect()
    }

    /// Real codex and nothing else.
    pub fn start() -> Self {
        Setup::new().start()
    }

    /// Real codex and nothing else, as [`Setup::bound`].
    pub fn start_bound() -> Self {
        Setup::new().bound().start()
    }

    /// All that codex wrote down of its conversations.
    pub fn rollouts(&self) -> String {
        fn read(dir: &Path, out: &mut String) {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    read(&path, out);
                } else {
                    out.push_str(&fs::read_to_string(path).unwrap_or_default());
                }
            }
        }
        let mut out = String::new();
        read(&self.dir().join("codex-home/sessions"), &mut out);
        out
    }

    /// The world's directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A device, paired.
    pub fn device(&self, name: &str) -> Device {
        Device::pair(&self.dir().join(name), name, &self.host, None)
    }

    /// A proxy before the host, and a device that knows no other way to it.
    pub fn device_behind_proxy(&self, name: &str) -> (Device, Proxy) {
        let proxy = Proxy::start(self.host.address());
        let device = Device::pair(
            &self.dir().join(name),
            name,
            &self.host,
            Some(proxy.address()),
        );
        (device, proxy)
    }

    /// A file of the workspace.
    pub fn file(&self, name: &str) -> PathBuf {
        self.workspace.join(name)
    }

    /// What is in a file of the workspace, if it is there.
    pub fn text_of(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.file(name)).ok()
    }
}

/// Ends the agents that outlive their host, by the host's own records.
struct LeftRunning(PathBuf);

impl Drop for LeftRunning {
    fn drop(&mut self) {
        for file in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = file.path();
            if path
                .extension()
                .is_none_or(|extension| extension != "detached")
            {
                continue;
            }
            let record = fs::read(&path).unwrap_or_default();
            let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
            if let Some(pid) = record["pid"].as_u64().and_then(|pid| pid.try_into().ok()) {
                kill_group(pid);
            }
        }
    }
}

fn make_workspace(dir: &Path) {
    fs::create_dir_all(dir).expect("a workspace");
    fs::write(dir.join("README.md"), "A workspace.\n").expect("a file");
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=test",
                "-c",
                "user.email=test@example.invalid",
            ])
            .args(arguments)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git is installed");
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "begin"]);
}

fn write_codex_home(dir: &Path, port: u16) {
    let output = Command::new(places::root().join("scripts/agents"))
        .arg("home")
        .arg(dir)
        .arg(port.to_string())
        .output()
        .expect("scripts/agents can be run");
    assert!(
        output.status.success(),
        "scripts/agents home: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
