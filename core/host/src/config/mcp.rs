//! `[[mcp]]`, read.

use super::{Config, Reader, Value, meant, ordered};
use pilothouse_domain::{AgentName, WorkspaceId};
use pilothouse_providers::{
    mcp::{McpReach, McpServers, McpSetting, McpValue},
    registry,
};
use std::{collections::BTreeMap, ops::Range, path::PathBuf};
use toml::de::DeTable;

/// Servers; more are a mistake.
const SERVERS: usize = 64;

/// `[[mcp]]`: a server of tools that agents are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpConfig {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub reach: McpReach<McpValue>,
    /// The agents that are given it; all that take any where `None`.
    pub agents: Option<Vec<AgentName>>,
    /// The workspaces that it is for; all where `None`.
    pub workspaces: Option<Vec<WorkspaceId>>,
}

impl Config {
    /// The servers that an agent is given.
    pub fn mcp_of(&self, agent: &AgentName) -> McpServers {
        let of_agent = self.mcp.iter().filter(|server| {
            let agents = server.agents.as_ref();
            agents.is_none_or(|agents| agents.contains(agent))
        });
        McpServers::new(of_agent.map(|server| McpSetting {
            name: server.name.clone(),
            workspaces: server.workspaces.as_ref().map(|names| {
                let places = self.workspaces.iter();
                let named = places.filter(|(name, _)| names.contains(name));
                named.map(|(_, path)| path.clone()).collect()
            }),
            reach: server.reach.clone(),
        }))
    }
}

/// A server with the place where it stands.
pub(super) type Placed = (Range<usize>, McpConfig);

impl Reader<'_> {
    pub(super) fn mcp_servers(&mut self, value: &Value<'_>) -> Vec<Placed> {
        let Some(array) = value.get_ref().as_array() else {
            let problem = "write each server as `[[mcp]]`, with two brackets";
            self.problem(&value.span(), problem);
            return Vec::new();
        };
        if array.len() > SERVERS {
            self.problem(&value.span(), format!("at most {SERVERS} `[[mcp]]`"));
        }
        let mut found = Vec::new();
        for value in array.iter().take(SERVERS) {
            let place = value.span();
            self.section(value, "[[mcp]]", |reader, table| {
                found.extend(
                    reader
                        .mcp_server(table, &place)
                        .map(|server| (place, server)),
                );
            });
        }
        found
    }

    fn mcp_server(&mut self, table: &DeTable<'_>, place: &Range<usize>) -> Option<McpConfig> {
        const KEYS: &[&str] = &[
            "name",
            "command",
            "env",
            "url",
            "headers",
            "agents",
            "workspaces",
        ];
        let before = self.problems.len();
        let (mut name, mut command, mut url) = (None, None, None);
        let (mut env, mut headers) = (None, None);
        let (mut agents, mut workspaces) = (None, None);
        for (key, value) in ordered(table) {
            match key.get_ref().as_ref() {
                "name" => name = self.mcp_name(value),
                "command" => command = self.command(value, "[[mcp]]"),
                "url" => url = self.mcp_url(value),
                "env" => env = Some(self.mcp_values(value, "env")),
                "headers" => headers = Some(self.mcp_values(value, "headers")),
                "agents" => agents = self.names(value, "agents"),
                "workspaces" => workspaces = self.names(value, "workspaces"),
                _ => self.unknown_key(key, "[[mcp]]", KEYS),
            }
        }
        if self.problems.len() > before {
            return None;
        }
        let Some(name) = name else {
            self.problem(place, "[[mcp]] has no `name`; e.g. `name = \"docs\"`");
            return None;
        };
        let problem = match (&command, &url) {
            (Some(_), Some(_)) => "has a `command` and a `url`; it is reached by one of them",
            (None, None) => {
                "has neither a `command` nor a `url`; e.g. `command = [\"npx\", \"-y\", \"my-server\"]`"
            }
            (Some(_), None) if headers.is_some() => {
                "has `headers`, which only a server with a `url` gets; write `env`"
            }
            (None, Some(_)) if env.is_some() => {
                "has an `env`, which only a server with a `command` gets; write `headers`"
            }
            (None, Some(url)) if headers.is_some() && is_in_the_clear(url) => {
                "would be sent its `headers` in the clear; write https://, or take them out"
            }
            _ => "",
        };
        if !problem.is_empty() {
            self.problem(place, format!("the MCP server `{name}` {problem}"));
            return None;
        }
        let reach = match url {
            Some(url) => McpReach::Http {
                url,
                headers: headers.unwrap_or_default(),
            },
            None => McpReach::Stdio {
                command: command?,
                env: env.unwrap_or_default(),
            },
        };
        Some(McpConfig {
            name,
            reach,
            agents: agents.map(|names| names.into_iter().map(AgentName).collect()),
            workspaces: workspaces.map(|names| names.into_iter().map(WorkspaceId).collect()),
        })
    }

    /// A name that every agent takes.
    fn mcp_name(&mut self, value: &Value<'_>) -> Option<String> {
        let name = self.text_value(value, "name")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.len() > 64 || !name.chars().all(plain) {
            let problem =
                "the `name` of [[mcp]] may have 1 to 64 letters of a to z, digits, `-` and `_`";
            self.problem(&value.span(), problem);
            return None;
        }
        Some(name)
    }

    fn mcp_url(&mut self, value: &Value<'_>) -> Option<String> {
        let url = self.text_value(value, "url")?;
        let rest = url
            .strip_prefix("https://")
            .or_else(|| url.strip_prefix("http://"));
        let problem = match rest {
            None | Some("") => "`url` of [[mcp]] begins with https:// or http://",
            // Not repeated: it may hold a secret.
            Some(rest)
                if rest
                    .split('/')
                    .next()
                    .is_some_and(|host| host.contains('@')) =>
            {
                "`url` of [[mcp]] holds a user or a password; put it into `headers`"
            }
            Some(_) if url.contains(|c: char| c.is_whitespace() || c.is_control()) => {
                "`url` of [[mcp]] holds a blank"
            }
            Some(_) => return Some(url),
        };
        self.problem(&value.span(), problem);
        None
    }

    /// Values that are written here, or come from elsewhere.
    fn mcp_values(&mut self, value: &Value<'_>, at: &str) -> BTreeMap<String, McpValue> {
        let mut found = BTreeMap::new();
        self.section(value, &format!("`{at}` of [[mcp]]"), |reader, table| {
            for (key, value) in ordered(table) {
                let name = key.get_ref().to_string();
                let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '=' | ':');
                if name.is_empty() || !name.chars().all(plain) {
                    reader.problem(&key.span(), format!("`{name}` in `{at}` is no name"));
                } else if let Some(value) = reader.mcp_value(value, &format!("{at}.{name}")) {
                    found.insert(name, value);
                }
            }
        });
        found
    }

    fn mcp_value(&mut self, value: &Value<'_>, at: &str) -> Option<McpValue> {
        const KEYS: &[&str] = &["env", "file", "prefix"];
        let Some(table) = value.get_ref().as_table() else {
            if value.get_ref().as_str().is_none() {
                let problem = format!(
                    "`{at}` is a text, or `{{ env = \"NAME\" }}` or `{{ file = \"PATH\" }}` where it is a secret"
                );
                self.problem(&value.span(), problem);
            }
            let text = value.get_ref().as_str()?;
            if text.contains(|c: char| c.is_control()) {
                self.problem(&value.span(), format!("`{at}` is more than one line"));
            }
            return Some(McpValue::Plain(self.expand(text)));
        };
        let before = self.problems.len();
        let (mut name, mut file, mut prefix) = (None, None, String::new());
        for (key, value) in ordered(table) {
            match key.get_ref().as_ref() {
                "env" => name = self.text_value(value, "env"),
                "file" => file = self.text_value(value, "file"),
                "prefix" => prefix = self.text_or_empty(value, "prefix").unwrap_or_default(),
                _ => self.unknown_key(key, &format!("`{at}`"), KEYS),
            }
        }
        if self.problems.len() > before {
            return None;
        }
        match (name, file) {
            (Some(name), None) => Some(McpValue::Variable { name, prefix }),
            (None, Some(file)) => {
                let path = PathBuf::from(self.expand(&file));
                if path.is_absolute() {
                    return Some(McpValue::File { path, prefix });
                }
                let problem = format!("`file` of `{at}` has to be absolute, or begin with `~`");
                self.problem(&value.span(), problem);
                None
            }
            _ => {
                let problem = format!("`{at}` names either an `env` or a `file`");
                self.problem(&value.span(), problem);
                None
            }
        }
    }

    /// One name, or a list of them.
    fn names(&mut self, value: &Value<'_>, key: &str) -> Option<Vec<String>> {
        let names = match value.get_ref().as_str() {
            Some(name) => vec![name.to_owned()],
            None => self.texts(value, key),
        };
        if names.is_empty() {
            self.problem(
                &value.span(),
                format!("`{key}` of [[mcp]] names none; leave it out for all"),
            );
            return None;
        }
        Some(names)
    }

    /// What can be judged only when the whole file was read.
    pub(super) fn check_mcp(&mut self, servers: Vec<Placed>, config: &mut Config) {
        for (place, server) in &servers {
            self.check_agents(place, server, config);
            let known: Vec<_> = config
                .workspaces
                .iter()
                .map(|(id, _)| id.0.as_str())
                .collect();
            for workspace in server.workspaces.iter().flatten() {
                if !known.contains(&workspace.0.as_str()) {
                    let what = format!(
                        "the MCP server `{}` is for the workspace `{workspace}`, which is not there",
                        server.name
                    );
                    self.problem(place, with_meant(what, &workspace.0, &known));
                }
            }
        }
        for (at, (place, server)) in servers.iter().enumerate() {
            let clash = servers[..at].iter().any(|(_, before)| {
                // One agent takes `-` and `_` for the same.
                before.name.replace('-', "_") == server.name.replace('-', "_")
                    && meet(&before.agents, &server.agents)
                    && meet(&before.workspaces, &server.workspaces)
            });
            if clash {
                let problem = format!(
                    "a second MCP server `{}` for the same agents and workspaces; name it otherwise (`-` and `_` count as one)",
                    server.name
                );
                self.problem(place, problem);
            }
        }
        config.mcp = servers.into_iter().map(|(_, server)| server).collect();
    }

    fn check_agents(&mut self, place: &Range<usize>, server: &McpConfig, config: &Config) {
        for agent in server.agents.iter().flatten() {
            let what = format!(
                "the MCP server `{}` is for the agent `{agent}`",
                server.name
            );
            if config.agents.is_empty() {
                let names = crate::agents::findable_names();
                if !names.contains(&agent.0.as_str()) {
                    let what = format!("{what}, which is none that is found by itself");
                    self.problem(place, with_meant(what, &agent.0, &names));
                }
                continue;
            }
            let Some((_, known)) = config.agents.iter().find(|(name, _)| name == agent) else {
                let names: Vec<_> = config
                    .agents
                    .iter()
                    .map(|(name, _)| name.0.as_str())
                    .collect();
                self.problem(
                    place,
                    with_meant(
                        format!("{what}, which is not in [agents]"),
                        &agent.0,
                        &names,
                    ),
                );
                continue;
            };
            let adapter = registry::adapter(&known.protocol, &known.command);
            let sandbox = known.sandboxes.first().copied();
            let taken = adapter.map(|adapter| adapter.takes_mcp(&known.command, sandbox));
            if let Some(Err(reason)) = taken {
                let problem = format!("{what}, which cannot be given any: {reason}");
                self.problem(place, problem);
            }
        }
    }
}

fn with_meant(what: String, word: &str, valid: &[&str]) -> String {
    match valid {
        [] => format!("{what}; there is none"),
        valid => format!("{what}{}", meant(word, valid)),
    }
}

/// Whether two restrictions leave anything in common; `None` is none.
fn meet<T: PartialEq>(a: &Option<Vec<T>>, b: &Option<Vec<T>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.iter().any(|one| b.contains(one)),
        _ => true,
    }
}

/// Whether what is sent there can be read on the way.
fn is_in_the_clear(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_here = |address: std::net::IpAddr| address.is_loopback();
    host != "localhost" && !host.parse().is_ok_and(is_here)
}
