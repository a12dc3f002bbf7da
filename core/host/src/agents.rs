//! Which agents this host has: those of `host.toml`, or what is installed.

use crate::{
    config::{AgentConfig, Config},
    state::{Notes, home},
};
use pilothouse_domain::{AgentName, CapabilityFlag, CapabilityValue, Mode, policy::AgentPolicy};
use pilothouse_ledger::AgentSpec;
use pilothouse_providers::{
    contract::ProviderAdapter, mcp::McpServers, process::exec_supervised, registry,
    replay::ReplayAdapter,
};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{process::Command, time::timeout};

/// Time for an agent to say its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Characters of a version that are shown.
const VERSION_CHARS: usize = 60;

/// An agent that is found without configuration.
struct Findable {
    /// What it is called here.
    name: &'static str,
    family: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

/// Agents that are found without configuration, by the names that their packages give their programs. Each says its
/// version when asked with `--version`, and starts nothing then.
const FINDABLE: &[Findable] = &[
    findable("codex", "codex", "codex", &["app-server"]),
    findable("claude", "claude", "claude", &[]),
    findable("copilot", "acp", "copilot", &["--acp"]),
    findable("gemini", "acp", "gemini", &["--acp"]),
    findable("hermes", "acp", "hermes-acp", &[]),
    findable("omp", "pi", "omp", &[]),
    findable("opencode", "opencode", "opencode", &["serve"]),
    findable("pi", "pi", "pi", &[]),
    findable("qwen", "acp", "qwen", &["--acp"]),
];

/// Other ways to start them that a person may have configured, which answer `--version` just so.
const ALSO_KNOWN: &[(&str, &[&str])] = &[("opencode", &["acp"])];

const fn findable(
    name: &'static str,
    family: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
) -> Findable {
    Findable {
        name,
        family,
        program,
        arguments,
    }
}

/// Where programs are besides `PATH`, under the home directory: where npm, cargo and installers put them.
const USUAL_PLACES: &[&str] = &[
    ".local/bin",
    ".npm-global/bin",
    "bin",
    ".cargo/bin",
    ".bun/bin",
    ".volta/bin",
];

/// What agents are called that are found without configuration.
pub(crate) fn findable_names() -> Vec<&'static str> {
    FINDABLE.iter().map(|known| known.name).collect()
}

/// The protocols that this version speaks.
pub(crate) fn built_protocols() -> Vec<&'static str> {
    registry::families()
        .iter()
        .map(|adapter| adapter.family())
        .chain([registry::REPLAY])
        .collect()
}

/// An agent that can be started.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) name: AgentName,
    pub(crate) config: AgentConfig,
    pub(crate) adapter: Arc<dyn ProviderAdapter>,
    /// The servers of tools that it is given.
    pub(crate) mcp: McpServers,
}

impl Agent {
    pub(crate) fn spec(&self) -> AgentSpec {
        AgentSpec {
            adapter: self.adapter.clone(),
            command: self.config.command.clone(),
            env: self.config.env.clone(),
            modes: self.config.modes.clone(),
            mcp: self.mcp.clone(),
            cwd: self.config.cwd.clone(),
        }
    }

    pub(crate) fn policy(&self) -> AgentPolicy {
        let mut capabilities = self.adapter.profile().set();
        let mut modes = self.adapter.modes();
        let sandboxes = self.config.sandboxes.clone();
        if !sandboxes.is_empty() {
            // It does not ask, so no other mode would be true of it.
            modes = vec![Mode::FullAccess];
            for flag in [
                CapabilityFlag::CommandApproval,
                CapabilityFlag::FileChangeApproval,
            ] {
                capabilities.insert(flag, CapabilityValue::No);
            }
        }
        AgentPolicy {
            family: self.config.protocol.clone(),
            modes,
            capabilities,
            sandboxes,
        }
    }

    fn is_recording(&self) -> bool {
        self.config.protocol == registry::REPLAY
    }

    /// Where its program is; `None` if it is not there.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        let program = self.config.command.first()?;
        if self.is_recording() {
            return Some(PathBuf::from(program)).filter(|path| path.is_file());
        }
        let path = self
            .config
            .env
            .get("PATH")
            .map(Into::into)
            .or_else(|| std::env::var_os("PATH"));
        find_program(program, path.as_deref())
    }

    /// Asks it for its version. Only a program that is known to answer `--version` with nothing else is asked: any other
    /// command line could start an agent, or something else, with arguments it was never meant to have. `None` for those.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub(crate) async fn version(&self) -> Result<Option<String>, String> {
        if self.is_recording() {
            // A recording is read to its end.
            let command = self.config.command.clone();
            let read = tokio::task::spawn_blocking(move || {
                let recording = ReplayAdapter::new(&command);
                recording
                    .describe()
                    .map(str::to_owned)
                    .map_err(ToString::to_string)
            });
            return read.await.map_err(|error| error.to_string())?.map(Some);
        }
        let Some(asked) = self.version_command() else {
            return Ok(None);
        };
        let (program, arguments) = asked.split_first().unwrap_or((&"", &[]));
        let mut child = Command::new(program);
        child
            .args(arguments)
            .envs(&self.config.env)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        if let Some(cwd) = &self.config.cwd {
            child.current_dir(cwd);
        }
        let shown = asked.join(" ");
        let output = match timeout(VERSION_TIMEOUT, child.output()).await {
            Ok(output) => {
                output.map_err(|error| format!("`{shown}` cannot be started: {error}"))?
            }
            Err(_) => {
                return Err(format!(
                    "`{shown}` gave no answer in {} s",
                    VERSION_TIMEOUT.as_secs()
                ));
            }
        };
        if !output.status.success() {
            return Err(format!("`{shown}` ended with {}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        let plain = |line: &str| {
            line.chars()
                .filter(|c| !c.is_control())
                .take(VERSION_CHARS)
                .collect()
        };
        line.map(|line| Some(plain(line)))
            .ok_or_else(|| format!("`{shown}` said nothing"))
    }

    /// The words that ask for the version: the command without what starts its server, and `--version`.
    fn version_command(&self) -> Option<Vec<&str>> {
        let words = self.config.command.iter().map(String::as_str);
        if self.config.protocol == "codex" {
            let program = words.take_while(|word| *word != "app-server");
            return Some(program.chain(["--version"]).collect());
        }
        let words: Vec<&str> = words.collect();
        let (program, arguments) = words.split_first()?;
        let name = program.rsplit('/').next()?;
        FINDABLE
            .iter()
            .map(|known| (known.program, known.arguments))
            .chain(ALSO_KNOWN.iter().copied())
            .any(|known| known == (name, arguments))
            .then(|| vec![*program, "--version"])
    }

    /// Whether somebody is signed in, as far as its files tell. Only looks whether they are there, never into secrets.
    pub(crate) fn sign_in(&self) -> SignIn {
        if self.is_recording() {
            return SignIn::Found("a recording needs none".to_owned());
        }
        let variable = |name: &str| {
            self.config
                .env
                .get(name)
                .cloned()
                .or_else(|| std::env::var(name).ok())
                .filter(|value| !value.is_empty())
        };
        match self.config.protocol.as_str() {
            "codex" => codex_sign_in(&variable),
            "claude" => claude_sign_in(&variable),
            _ => SignIn::Unknown,
        }
    }
}

fn codex_sign_in(variable: &dyn Fn(&str) -> Option<String>) -> SignIn {
    let Some(dir) = variable("CODEX_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(home()?.join(".codex")))
    else {
        return SignIn::Unknown;
    };
    if dir.join("auth.json").is_file() {
        return SignIn::Found(format!("signed in: {}", dir.join("auth.json").display()));
    }
    if let Some(name) = ["CODEX_API_KEY", "OPENAI_API_KEY"]
        .into_iter()
        .find(|name| variable(name).is_some())
    {
        return SignIn::Found(format!("a key in {name}"));
    }
    let config = std::fs::read_to_string(dir.join("config.toml")).unwrap_or_default();
    if config
        .lines()
        .any(|line| line.trim_start().starts_with("model_provider"))
    {
        return SignIn::Found("its own model provider in config.toml".to_owned());
    }
    SignIn::Missing(format!("no sign-in in {}", dir.display()))
}

fn claude_sign_in(variable: &dyn Fn(&str) -> Option<String>) -> SignIn {
    // A key goes before an account, as it does for the agent.
    let keys = [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    ];
    if let Some(name) = keys.into_iter().find(|name| variable(name).is_some()) {
        return SignIn::Found(format!("a key or a provider in {name}"));
    }
    let dir = variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let Some(dir) = dir.or_else(|| Some(home()?.join(".claude"))) else {
        return SignIn::Unknown;
    };
    let file = dir.join(".credentials.json");
    if file.is_file() {
        return SignIn::Found(format!("signed in: {}", file.display()));
    }
    SignIn::Missing(format!("no sign-in in {}", dir.display()))
}

/// Whether somebody is signed in at an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SignIn {
    /// Yes, and how it shows.
    Found(String),
    /// Nothing that looks like it.
    Missing(String),
    /// Not known how to look.
    Unknown,
}

/// The agents of a configuration, or the installed ones if it names none. The second value is where found ones are, to
/// be remembered.
pub(crate) fn choose(config: &Config, notes: &Notes) -> (Vec<Agent>, BTreeMap<String, PathBuf>) {
    if config.agents.is_empty() {
        let (mut agents, places) = find_installed(notes);
        for agent in &mut agents {
            agent.mcp = config.mcp_of(&agent.name);
        }
        return (agents, places);
    }
    let agents = config.agents.iter().filter_map(|(name, agent)| {
        let adapter = registry::adapter(&agent.protocol, &agent.command)?;
        Some(Agent {
            name: name.clone(),
            config: agent.clone(),
            adapter,
            mcp: config.mcp_of(name),
        })
    });
    (agents.collect(), BTreeMap::new())
}

fn find_installed(notes: &Notes) -> (Vec<Agent>, BTreeMap<String, PathBuf>) {
    let mut agents = Vec::new();
    let mut places = BTreeMap::new();
    for Findable {
        name,
        family,
        program,
        arguments,
    } in FINDABLE
    {
        let usual = || {
            home()
                .into_iter()
                .flat_map(|home| USUAL_PLACES.iter().map(move |place| home.join(place)))
        };
        let found = find_program(program, std::env::var_os("PATH").as_deref())
            .or_else(|| {
                notes
                    .agents
                    .get(*name)
                    .filter(|path| is_program(path))
                    .cloned()
            })
            .or_else(|| {
                usual()
                    .map(|place| place.join(program))
                    .find(|path| is_program(path))
            });
        let (Some(path), Some(adapter)) = (found, registry::family(family)) else {
            continue;
        };
        if !is_its_package(name, &path) {
            continue;
        }
        let mut command = vec![path.to_string_lossy().into_owned()];
        command.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let protocol = (*family).to_owned();
        agents.push(Agent {
            name: AgentName::from(*name),
            config: AgentConfig {
                protocol,
                command,
                env: BTreeMap::new(),
                modes: BTreeMap::new(),
                sandboxes: Vec::new(),
                cwd: None,
            },
            adapter,
            mcp: McpServers::default(),
        });
        places.insert((*name).to_owned(), path);
    }
    (agents, places)
}

/// Whether a program is the agent's of that name. Others have called a program `pi`, too.
fn is_its_package(name: &str, program: &Path) -> bool {
    let real = || program.canonicalize().unwrap_or_default();
    name != "pi" || real().to_string_lossy().contains("/pi-coding-agent/")
}

/// Where a program is: itself if it is a path, else the first of that name in `path`.
pub(crate) fn find_program(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    std::env::split_paths(path?)
        .map(|dir| dir.join(program))
        .find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Becomes an agent, in a process group of its own that dies with the daemon. Returns only if that failed.
pub(crate) fn exec(parent: u32, command: &[OsString]) -> ExitCode {
    let Err(error) = exec_supervised(parent, command);
    // The daemon keeps the agent's stderr and shows its end.
    let _ = writeln!(io::stderr(), "pilothouse agent-exec: {error}");
    ExitCode::from(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(protocol: &str, command: &[&str]) -> Agent {
        Agent {
            name: "a".into(),
            config: AgentConfig {
                protocol: protocol.to_owned(),
                command: command.iter().map(|&word| word.to_owned()).collect(),
                env: BTreeMap::new(),
                modes: BTreeMap::new(),
                sandboxes: Vec::new(),
                cwd: None,
            },
            adapter: registry::family(protocol).unwrap(),
            mcp: McpServers::default(),
        }
    }

    #[test]
    fn only_programs_that_are_known_to_take_it_are_asked_for_their_version() {
        let asked = |protocol, command: &[&str]| {
            let agent = agent(protocol, command);
            agent.version_command().map(|words| words.join(" "))
        };
        let said = |words: &str| Some(words.to_owned());
        assert_eq!(
            asked("codex", &["/x/codex", "app-server", "-c"]),
            said("/x/codex --version")
        );
        assert_eq!(
            asked("acp", &["/x/opencode", "acp"]),
            said("/x/opencode --version")
        );
        assert_eq!(
            asked("opencode", &["opencode", "serve"]),
            said("opencode --version")
        );
        assert_eq!(
            asked("acp", &["copilot", "--acp"]),
            said("copilot --version")
        );
        assert_eq!(asked("acp", &["hermes-acp"]), said("hermes-acp --version"));
        assert_eq!(asked("claude", &["claude"]), said("claude --version"));
        // Other arguments, another program, a runtime with a script.
        assert_eq!(asked("acp", &["gemini"]), None);
        assert_eq!(asked("acp", &["gemini", "--acp", "--yolo"]), None);
        assert_eq!(asked("acp", &["goose", "acp"]), None);
        assert_eq!(asked("acp", &["node", "agent.js", "--acp"]), None);
    }

    #[test]
    fn what_is_found_has_a_name_of_its_own_and_a_family_that_is_spoken() {
        for (at, one) in FINDABLE.iter().enumerate() {
            assert!(registry::family(one.family).is_some(), "{}", one.name);
            assert!(FINDABLE[..at].iter().all(|other| other.name != one.name));
        }
    }
}
