//! Servers of tools and data (MCP) that an agent is given beside its own (decision 032).
//!
//! What is configured holds no secret's value: [`McpServers::at`] looks values up for each start, and what it gives is handed to
//! the agent by its pipe, its socket, or a file that only this user can read. Nothing of it is logged: its values stand in no
//! `Debug` text, and are taken out of what the agent writes.

use crate::rpc;
use pilothouse_domain::{ProviderEvent, provider_event::NativePlace};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How long a server may take to start, where the agent takes such a bound: the first turn waits for servers in most agents, and
/// their own bounds are 30 s and more.
pub const START: Duration = Duration::from_secs(10);
/// Bytes of a file with a value.
const VALUE_BYTES: u64 = 64 * 1024;

/// The servers that are configured for an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpServers(Arc<[McpSetting]>);

/// A configured server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSetting {
    /// Its name: 1 to 64 ASCII letters, digits, `_` and `-`.
    pub name: String,
    /// Directories of the workspaces that it is for, without symbolic links; all where `None`.
    pub workspaces: Option<Vec<PathBuf>>,
    /// How it is reached.
    pub reach: McpReach<McpValue>,
}

/// How a server is reached, with values of `V`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpReach<V> {
    /// By the pipes of a process that the agent starts.
    Stdio {
        /// Program and arguments; never empty.
        command: Vec<String>,
        /// Added to its environment.
        env: BTreeMap<String, V>,
    },
    /// By streamable HTTP.
    Http {
        /// Where.
        url: String,
        /// Added to each request.
        headers: BTreeMap<String, V>,
    },
}

/// Where the value of a variable or a header comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum McpValue {
    /// It is configured itself.
    Plain(String),
    /// An environment variable of the host.
    Variable {
        /// Its name.
        name: String,
        /// Put before it.
        prefix: String,
    },
    /// The text of a file, without white space around it.
    File {
        /// Where.
        path: PathBuf,
        /// Put before it.
        prefix: String,
    },
}

impl fmt::Debug for McpValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(_) => f.write_str("Plain(…)"),
            Self::Variable { name, .. } => write!(f, "Variable({name})"),
            Self::File { path, .. } => write!(f, "File({})", path.display()),
        }
    }
}

impl McpValue {
    /// What it is now.
    ///
    /// # Errors
    /// Why there is none, in words that do not hold it.
    fn look_up(&self) -> Result<String, String> {
        let (prefix, found) = match self {
            Self::Plain(text) => return Ok(text.clone()),
            Self::Variable { name, prefix } => {
                let found = std::env::var(name)
                    .map_err(|_| format!("the host's environment has no `{name}`"))?;
                (prefix, found)
            }
            Self::File { path, prefix } => {
                let found = read(path)
                    .map_err(|problem| format!("`{}` cannot be read: {problem}", path.display()))?;
                (prefix, found)
            }
        };
        let found = found.trim();
        if found.is_empty() || found.contains(char::is_control) {
            return Err(format!("{self:?} is empty, or more than one line"));
        }
        Ok(format!("{prefix}{found}"))
    }
}

fn read(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    if metadata.len() > VALUE_BYTES {
        return Err(format!("it has over {VALUE_BYTES} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// The value of a variable or a header, for the agent alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub(crate) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

/// A server as an agent is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub reach: McpReach<Hidden>,
}

/// The servers of a start, and what is to be said of those that cannot be had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// In the order of the configuration.
    pub servers: Vec<McpServer>,
    /// Why others are left out, each in words for a person.
    pub left_out: Vec<String>,
}

impl Given {
    /// Leaves servers out of which a value cannot be given as it is.
    pub(crate) fn leave_out(&mut self, problem: impl Fn(&str) -> Option<String>) {
        let left_out = &mut self.left_out;
        self.servers.retain(|server| {
            let (McpReach::Stdio { env: values, .. }
            | McpReach::Http {
                headers: values, ..
            }) = &server.reach;
            let problem = values.values().find_map(|value| problem(&value.0));
            left_out.extend(problem.iter().map(|what| not_started(&server.name, what)));
            problem.is_none()
        });
    }
}

impl McpServers {
    /// Those settings, in their order.
    pub fn new(settings: impl IntoIterator<Item = McpSetting>) -> Self {
        Self(settings.into_iter().collect())
    }

    /// The settings.
    pub fn settings(&self) -> &[McpSetting] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those for a conversation that works in a directory, with their values as they are now.
    pub fn at(&self, cwd: &Path) -> Given {
        let mut given = Given::default();
        let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let is_for = |setting: &&McpSetting| match &setting.workspaces {
            Some(places) => places.iter().any(|place| cwd.starts_with(place)),
            None => true,
        };
        for setting in self.0.iter().filter(is_for) {
            match setting.look_up() {
                Ok(server) => given.servers.push(server),
                Err(problem) => given.left_out.push(not_started(
                    &setting.name,
                    &format!("{problem}; mend that on the host"),
                )),
            }
        }
        given
    }

    /// Every value that could be a secret, to be taken out of what is shown.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let values = self.0.iter().flat_map(|setting| match &setting.reach {
            McpReach::Stdio { env: values, .. }
            | McpReach::Http {
                headers: values, ..
            } => values.values(),
        });
        let values = values
            .filter_map(|value| value.look_up().ok())
            // A path is no secret.
            .filter(|value| !value.starts_with('/'));
        // Of `Bearer TOKEN` the token alone, too.
        values
            .flat_map(|value| {
                let last = value.split_whitespace().next_back().map(str::to_owned);
                [Some(value), last]
            })
            .flatten()
            .collect()
    }
}

impl McpSetting {
    fn look_up(&self) -> Result<McpServer, String> {
        let all = |values: &BTreeMap<String, McpValue>| {
            values
                .iter()
                .map(|(name, value)| Ok((name.clone(), Hidden(value.look_up()?))))
                .collect::<Result<BTreeMap<_, _>, String>>()
        };
        let reach = match &self.reach {
            McpReach::Stdio { command, env } => McpReach::Stdio {
                command: command.clone(),
                env: all(env)?,
            },
            McpReach::Http { url, headers } => McpReach::Http {
                url: url.clone(),
                headers: all(headers)?,
            },
        };
        Ok(McpServer {
            name: self.name.clone(),
            reach,
        })
    }
}

/// The server and the tool of a tool's name as `mcp__SERVER__TOOL`.
pub(crate) fn tool_of(name: &str) -> (Option<&str>, &str) {
    name.strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .map_or((None, name), |(server, tool)| (Some(server), tool))
}

/// What a person reads above the arguments of a call.
pub(crate) fn call_of(server: &str, tool: &str) -> String {
    format!("{tool} of the MCP server {server}")
}

/// What is said of a server whose tools are not there.
pub(crate) fn not_started(name: &str, problem: &str) -> String {
    format!("the MCP server `{name}` is not there: {problem}")
}

/// What is said of servers, as the first events of a process that serves one conversation.
pub(crate) fn notices(told: Vec<String>) -> impl Iterator<Item = ProviderEvent> {
    told.into_iter().map(|raw| ProviderEvent {
        place: NativePlace::default(),
        kind: rpc::notice(raw),
    })
}

/// A file with values that only this user can read. It goes with this value; what a host leaves that was killed, the next one
/// removes ([`remove_left`]).
#[derive(Debug)]
pub(crate) struct ValueFile {
    path: PathBuf,
    /// A directory that was made for it alone.
    own: Option<PathBuf>,
}

/// How its name begins.
const FILE: &str = "mcp-";

impl ValueFile {
    /// Writes it beside `neighbour`, a file of the host's own; without one, into a directory of its own. `name` is of this life
    /// of the process and no other.
    ///
    /// # Errors
    /// What the system says if there is no room, or something is there already.
    pub(crate) fn write(name: &str, neighbour: Option<&Path>, text: &str) -> io::Result<Self> {
        let name = format!("{FILE}{name}");
        let written = match neighbour.and_then(Path::parent) {
            Some(dir) => Self {
                path: dir.join(name),
                own: None,
            },
            None => {
                let dir = std::env::temp_dir().join(format!("pilothouse-{name}"));
                // Fails where somebody has put anything there.
                fs::DirBuilder::new().mode(0o700).create(&dir)?;
                Self {
                    path: dir.join(name),
                    own: Some(dir),
                }
            }
        };
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&written.path)?
            .write_all(text.as_bytes())?;
        Ok(written)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        if let Some(dir) = &self.own {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Removes what a host that was killed left of values, before anything is started.
pub fn remove_left(dir: &Path) {
    for file in fs::read_dir(dir).into_iter().flatten().flatten() {
        if file.file_name().to_string_lossy().starts_with(FILE) {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Values as JSON.
pub(crate) fn values(values: &BTreeMap<String, Hidden>) -> Map<String, Value> {
    let each = values.iter();
    each.map(|(name, value)| (name.clone(), json!(value.0)))
        .collect()
}

/// The program and the arguments of a command.
pub(crate) fn program(command: &[String]) -> (&str, &[String]) {
    match command.split_first() {
        Some((program, arguments)) => (program, arguments),
        None => ("", &[]),
    }
}

/// The servers as most clients configure them: `{NAME: {command, args, env} | {type: "http", url, headers}}`.
pub(crate) fn usual(servers: &[McpServer]) -> Map<String, Value> {
    let each = servers.iter().map(|server| {
        let config = match &server.reach {
            McpReach::Stdio { command, env } => {
                let (program, arguments) = program(command);
                json!({"command": program, "args": arguments, "env": values(env)})
            }
            McpReach::Http { url, headers } => {
                json!({"type": "http", "url": url, "headers": values(headers)})
            }
        };
        (server.name.clone(), config)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: McpValue, workspaces: Option<Vec<PathBuf>>) -> McpSetting {
        McpSetting {
            name: name.to_owned(),
            workspaces,
            reach: McpReach::Http {
                url: "https://box.example/mcp".to_owned(),
                headers: [("Authorization".to_owned(), value)].into(),
            },
        }
    }

    #[test]
    fn values_are_those_of_the_moment_and_what_is_missing_is_said_without_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let from_file = McpValue::File {
            path: path.clone(),
            prefix: "Bearer ".to_owned(),
        };
        let servers = McpServers::new([setting("docs", from_file, None)]);
        let first = servers.at(dir.path());
        assert!(first.servers.is_empty());
        assert!(first.left_out[0].starts_with("the MCP server `docs` is not there: "));
        for token in ["first-token", "second-token"] {
            std::fs::write(&path, format!("{token}\n")).unwrap();
            let given = servers.at(dir.path());
            let told = usual(&given.servers)["docs"]["headers"]["Authorization"].clone();
            assert_eq!(told, json!(format!("Bearer {token}")));
            assert!(servers.secrets().contains(&token.to_owned()));
            assert!(!format!("{given:?}{servers:?}").contains(token));
        }
        std::fs::write(&path, "two\nlines-of-secrets").unwrap();
        let given = servers.at(dir.path());
        assert!(given.servers.is_empty() && !given.left_out[0].contains("secrets"));
    }

    #[test]
    fn the_server_of_an_mcp_tool_is_told_apart() {
        let of = tool_of;
        assert_eq!(of("mcp__desk__ask__twice"), (Some("desk"), "ask__twice"));
        assert_eq!(of("Bash"), (None, "Bash"));
        assert_eq!(of("mcp__odd"), (None, "mcp__odd"));
    }

    #[test]
    fn a_server_is_given_in_the_workspaces_that_it_is_for_and_below() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        let below = place.join("app/deep");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir(place.join("other")).unwrap();
        let plain = McpValue::Plain("x".to_owned());
        let only = Some(vec![place.join("app")]);
        let servers = McpServers::new([
            setting("one", plain.clone(), only),
            setting("all", plain, None),
        ]);
        let names = |cwd: &Path| {
            let given = servers.at(cwd).servers.into_iter();
            given.map(|server| server.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&below), ["one", "all"]);
        assert_eq!(names(&place.join("other")), ["all"]);
    }
}
