//! `host.toml`: read by hand over the parser's spans, so that every complaint names its line and the nearest valid word.
//!
//! All problems of a file are reported at once. What comes out is checked: directories exist, protocols are known,
//! commands are not empty. `~` and `$HOME` at the beginning of a value are expanded; nothing else is.

mod agent;
mod mcp;

pub use mcp::McpConfig;

use pilothouse_domain::{AgentName, Mode, WorkspaceId, policy::Sandbox};
use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Protocol families that Pilothouse speaks or will speak, as `protocol` names them.
pub const PROTOCOLS: &[&str] = &[
    "codex", "claude", "opencode", "acp", "pi", "openclaw", "replay",
];

/// Bytes of a configuration; more is somebody else's file.
const MAX_BYTES: u64 = 1024 * 1024;

/// What `host.toml` says, checked. Empty without a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Where it was read, if there is one.
    pub file: Option<PathBuf>,
    /// `[host]`.
    pub host: HostSection,
    /// `[agents.NAME]`, in the order of the file.
    pub agents: Vec<(AgentName, AgentConfig)>,
    /// `[workspaces.NAME]`, in the order of the file.
    pub workspaces: Vec<(WorkspaceId, PathBuf)>,
    /// `[defaults] mode`.
    pub default_mode: Mode,
    /// `[[mcp]]`, in the order of the file.
    pub mcp: Vec<McpConfig>,
}

/// `[host]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSection {
    /// What the host calls itself; the machine's name otherwise.
    pub name: Option<String>,
    /// Where it listens.
    pub listen: Option<SocketAddr>,
    /// Names under which devices may ask for it, besides the machine's own.
    pub allow_hosts: Vec<String>,
    /// `name:port` or `address:port` to put first into pairing codes, e.g. of a VPN or a port-forward.
    pub addresses: Vec<String>,
    /// See [`LedgerConfig::idle_look`](pilothouse_ledger::LedgerConfig::idle_look); said in minutes.
    pub idle_look: Option<Duration>,
}

/// `[agents.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// Its protocol family, one of [`PROTOCOLS`].
    pub protocol: String,
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// Environment added to the host's own.
    pub env: BTreeMap<String, String>,
    /// How modes are said to it, where its family does not know: only of agents that speak `acp`, and as
    /// the names of opencode's agents.
    pub modes: BTreeMap<Mode, String>,
    /// In what it may run without asking before it acts, the usual one first; empty for one that is to ask. Only of agents
    /// that speak `pi`.
    pub sandboxes: Vec<Sandbox>,
    /// Working directory of a process that serves several threads.
    pub cwd: Option<PathBuf>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}; check --config, or remove it to use what is installed")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What stands in it is wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<Problem>),
}

/// One thing that is wrong in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and the nearest valid word.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}: {}", self.file, self.line, self.what)
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong in it.
    pub fn read(path: &Path, home: Option<&Path>) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if metadata.len() > MAX_BYTES {
            let problem = std::io::Error::other(format!("it has over {MAX_BYTES} bytes"));
            return Err(unreadable(problem));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let name = path
            .file_name()
            .map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        let mut config = Self::parse(&text, &name, home)?;
        config.file = Some(path.to_owned());
        Ok(config)
    }

    /// Reads a text; `file` is how problems name it.
    ///
    /// # Errors
    /// [`ConfigError::Wrong`].
    pub fn parse(text: &str, file: &str, home: Option<&Path>) -> Result<Self, ConfigError> {
        let mut reader = Reader {
            text,
            file,
            home,
            problems: Vec::new(),
        };
        let mut config = Self::default();
        match DeTable::parse(text) {
            Ok(table) => reader.root(table.get_ref(), &mut config),
            Err(error) => {
                let place = error.span().unwrap_or(0..0);
                let lines = error.message().replace('\n', ", ");
                reader.problem(&place, lines);
            }
        }
        if reader.problems.is_empty() {
            return Ok(config);
        }
        reader.problems.sort_by_key(|problem| problem.line);
        Err(ConfigError::Wrong(reader.problems))
    }
}

/// The valid word that is meant, if one is near.
pub(crate) fn nearest<'a>(word: &str, valid: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    // The first knows words that begin alike, the second letters that changed places.
    let score = |candidate: &str| {
        strsim::jaro_winkler(&word, candidate)
            .max(strsim::normalized_damerau_levenshtein(&word, candidate) + 0.1)
    };
    let best = valid
        .iter()
        .copied()
        .max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) >= 0.75).then_some(best)
}

/// `; did you mean …?`, or the list of what there is.
fn meant(word: &str, valid: &[&str]) -> String {
    match nearest(word, valid) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!(
            "; valid: {}",
            valid
                .iter()
                .map(|v| format!("`{v}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

type Value<'i> = Spanned<DeValue<'i>>;

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    home: Option<&'a Path>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, place: &Range<usize>, what: impl Into<String>) {
        let before = self.text.as_bytes().get(..place.start).unwrap_or_default();
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line,
            what: what.into(),
        });
    }

    fn root(&mut self, table: &DeTable<'_>, config: &mut Config) {
        let mut servers = Vec::new();
        for (key, value) in ordered(table) {
            match key.get_ref().as_ref() {
                "host" => self.section(value, "[host]", |reader, table| {
                    reader.host(table, &mut config.host)
                }),
                "agents" => self.section(value, "[agents]", |reader, table| {
                    for (name, value) in ordered(table) {
                        let at = format!("[agents.{}]", name.get_ref());
                        reader.name(name, &at);
                        reader.section(value, &at, |reader, table| {
                            if let Some(agent) = reader.agent(table, &at, &name.span()) {
                                config
                                    .agents
                                    .push((AgentName(name.get_ref().to_string()), agent));
                            }
                        });
                    }
                }),
                "workspaces" => self.section(value, "[workspaces]", |reader, table| {
                    for (name, value) in ordered(table) {
                        let at = format!("[workspaces.{}]", name.get_ref());
                        reader.name(name, &at);
                        reader.section(value, &at, |reader, table| {
                            if let Some(path) = reader.workspace(table, &at, &name.span()) {
                                config
                                    .workspaces
                                    .push((WorkspaceId(name.get_ref().to_string()), path));
                            }
                        });
                    }
                }),
                "defaults" => self.section(value, "[defaults]", |reader, table| {
                    for (key, value) in ordered(table) {
                        match key.get_ref().as_ref() {
                            "mode" => config.default_mode = reader.mode(value).unwrap_or_default(),
                            _ => reader.unknown_key(key, "[defaults]", &["mode"]),
                        }
                    }
                }),
                "mcp" => servers = self.mcp_servers(value),
                _ => self.unknown_key(
                    key,
                    "the file",
                    &["host", "agents", "workspaces", "defaults", "mcp"],
                ),
            }
        }
        self.check_mcp(servers, config);
    }

    fn host(&mut self, table: &DeTable<'_>, host: &mut HostSection) {
        const KEYS: &[&str] = &["name", "listen", "allow_hosts", "addresses", "idle_minutes"];
        for (key, value) in ordered(table) {
            match key.get_ref().as_ref() {
                "name" => host.name = self.text_value(value, "name"),
                "listen" => {
                    if let Some(text) = self.text_value(value, "listen") {
                        match listen_address(&text) {
                            Ok(address) => host.listen = Some(address),
                            Err(problem) => self.problem(&value.span(), problem),
                        }
                    }
                }
                "allow_hosts" => host.allow_hosts = self.texts(value, "allow_hosts"),
                "addresses" => {
                    host.addresses = self.texts(value, "addresses");
                    let wrong: Vec<_> = host
                        .addresses
                        .iter()
                        .filter(|a| !has_port(a))
                        .cloned()
                        .collect();
                    for address in wrong {
                        self.problem(
                            &value.span(),
                            format!("`{address}` in `addresses` has no port; write it as `{address}:7433`"),
                        );
                    }
                }
                "idle_minutes" => host.idle_look = self.minutes(value, "idle_minutes"),
                _ => self.unknown_key(key, "[host]", KEYS),
            }
        }
    }

    /// Minutes, also parts of one: about a second at least, a week at most.
    fn minutes(&mut self, value: &Value<'_>, name: &str) -> Option<Duration> {
        const LEAST: f64 = 0.02;
        const WEEK: f64 = 7.0 * 24.0 * 60.0;
        let minutes = match value.get_ref() {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix())
                .ok()
                .map(f64::from),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let minutes = minutes.filter(|minutes| (LEAST..=WEEK).contains(minutes));
        if minutes.is_none() {
            self.problem(
                &value.span(),
                format!("`{name}` has to be a number of minutes from {LEAST} to {WEEK}"),
            );
        }
        minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes))
    }

    fn workspace(
        &mut self,
        table: &DeTable<'_>,
        at: &str,
        place: &Range<usize>,
    ) -> Option<PathBuf> {
        let before = self.problems.len();
        let mut path = None;
        for (key, value) in ordered(table) {
            match key.get_ref().as_ref() {
                "path" => path = self.directory(value, "path"),
                _ => self.unknown_key(key, at, &["path"]),
            }
        }
        if path.is_none() && self.problems.len() == before {
            self.problem(
                place,
                format!("{at} has no `path`; e.g. `path = \"~/src/app\"`"),
            );
        }
        path
    }

    fn mode(&mut self, value: &Value<'_>) -> Option<Mode> {
        let text = self.text_value(value, "mode")?;
        self.mode_named(&text, &value.span())
    }

    fn mode_named(&mut self, text: &str, place: &Range<usize>) -> Option<Mode> {
        let names = Mode::ALL.map(Mode::name);
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == text);
        if found.is_none() {
            self.problem(
                place,
                format!("unknown mode `{text}`{}", meant(text, &names)),
            );
        }
        found
    }

    /// A directory that is there; links are followed, so that one place has one name.
    fn directory(&mut self, value: &Value<'_>, key: &str) -> Option<PathBuf> {
        let text = self.text_value(value, key)?;
        let path = PathBuf::from(self.expand(&text));
        let problem = if !path.is_absolute() {
            format!("`{key}` has to be absolute, or begin with `~`: `{text}`")
        } else {
            match path.canonicalize() {
                Ok(real) if real.is_dir() => return Some(real),
                Ok(_) => format!("`{key}` is no directory: `{}`", path.display()),
                Err(error) => format!("`{key}` cannot be used: `{}`: {error}", path.display()),
            }
        };
        self.problem(&value.span(), problem);
        None
    }

    /// Names stand in commands and on screens.
    fn name(&mut self, name: &Spanned<std::borrow::Cow<'_, str>>, at: &str) {
        let text = name.get_ref();
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty() || text.chars().count() > 64 || !text.chars().all(plain) {
            self.problem(
                &name.span(),
                format!("the name in {at} may have 1 to 64 letters, digits, `-`, `_` and `.`"),
            );
        }
    }

    fn expand(&self, text: &str) -> String {
        let Some(home) = self.home else {
            return text.to_owned();
        };
        for prefix in ["~", "$HOME", "${HOME}"] {
            if let Some(rest) = text.strip_prefix(prefix)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                return format!("{}{rest}", home.display());
            }
        }
        text.to_owned()
    }

    fn section(&mut self, value: &Value<'_>, at: &str, read: impl FnOnce(&mut Self, &DeTable<'_>)) {
        match value.get_ref().as_table() {
            Some(table) => read(self, table),
            None => {
                let found = value.get_ref().type_str();
                self.problem(
                    &value.span(),
                    format!("{at} has to be a table, this is a {found}"),
                );
            }
        }
    }

    fn text_value(&mut self, value: &Value<'_>, key: &str) -> Option<String> {
        let text = self.text_or_empty(value, key)?;
        if text.trim().is_empty() {
            self.problem(&value.span(), format!("`{key}` is empty"));
            return None;
        }
        Some(text)
    }

    fn text_or_empty(&mut self, value: &Value<'_>, key: &str) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            let found = value.get_ref().type_str();
            self.problem(
                &value.span(),
                format!("`{key}` has to be a text in quotes, this is a {found}"),
            );
        }
        text
    }

    fn texts(&mut self, value: &Value<'_>, key: &str) -> Vec<String> {
        let Some(array) = value.get_ref().as_array() else {
            let found = value.get_ref().type_str();
            self.problem(
                &value.span(),
                format!("`{key}` has to be a list of texts, this is a {found}"),
            );
            return Vec::new();
        };
        array
            .iter()
            .filter_map(|value| self.text_or_empty(value, key))
            .collect()
    }

    fn unknown_key(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, at: &str, valid: &[&str]) {
        let name = key.get_ref();
        self.problem(
            &key.span(),
            format!("unknown key `{name}` in {at}{}", meant(name, valid)),
        );
    }
}

/// The entries in the order of the file.
fn ordered<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(&'t Spanned<std::borrow::Cow<'i, str>>, &'t Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn has_port(address: &str) -> bool {
    address
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0))
}

/// Reads where to listen: `ADDRESS:PORT`; an address alone gets the default port, a port alone all interfaces.
///
/// # Errors
/// What is wrong with it, in words.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(
            address,
            pilothouse_wire::websocket::DEFAULT_PORT,
        ));
    }
    if let Some(port) = text
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok())
    {
        return Ok(SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), port));
    }
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(SocketAddr::new(
            std::net::Ipv6Addr::UNSPECIFIED.into(),
            port,
        ));
    }
    Err(format!(
        "`{text}` is no place to listen at; write ADDRESS:PORT, e.g. `0.0.0.0:7433` or `127.0.0.1:7433`"
    ))
}
