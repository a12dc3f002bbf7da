//! `[agents.NAME]`, read.

use super::{AgentConfig, PROTOCOLS, Reader, Value, meant, ordered};
use pilothouse_domain::policy::Sandbox;
use std::{collections::BTreeMap, ops::Range};
use toml::de::DeTable;

impl Reader<'_> {
    pub(super) fn agent(
        &mut self,
        table: &DeTable<'_>,
        at: &str,
        place: &Range<usize>,
    ) -> Option<AgentConfig> {
        const KEYS: &[&str] = &["protocol", "command", "env", "modes", "sandbox", "cwd"];
        let (mut protocol, mut command, mut cwd) = (None, None, None);
        let mut sandboxes = Vec::new();
        let (mut env, mut modes) = (BTreeMap::new(), BTreeMap::new());
        let before = self.problems.len();
        for (key, value) in ordered(table) {
            match key.get_ref().as_ref() {
                "protocol" => protocol = self.protocol(value),
                "command" => command = self.command(value, at),
                "env" => self.section(value, &format!("`env` of {at}"), |reader, table| {
                    for (key, value) in ordered(table) {
                        let name = key.get_ref().to_string();
                        if let Some(text) = reader.text_or_empty(value, &format!("env.{name}")) {
                            env.insert(name, reader.expand(&text));
                        }
                    }
                }),
                "modes" => self.section(value, &format!("`modes` of {at}"), |reader, table| {
                    for (key, value) in ordered(table) {
                        if let Some(mode) = reader.mode_named(key.get_ref(), &key.span())
                            && let Some(text) =
                                reader.text_value(value, &format!("modes.{}", mode.name()))
                        {
                            modes.insert(mode, text);
                        }
                    }
                }),
                "sandbox" => sandboxes = self.sandboxes(value),
                "cwd" => cwd = self.directory(value, "cwd"),
                _ => self.unknown_key(key, at, KEYS),
            }
        }
        if self.problems.len() > before {
            return None;
        }
        let Some(command) = command else {
            self.problem(
                place,
                format!("{at} has no `command`; e.g. `command = [\"codex\", \"app-server\"]`"),
            );
            return None;
        };
        let Some(protocol) = protocol else {
            let first = command.first().map_or("", String::as_str);
            let guess = PROTOCOLS
                .iter()
                .find(|protocol| first.ends_with(*protocol))
                .unwrap_or(&"codex");
            self.problem(
                place,
                format!("{at} has no `protocol`; e.g. `protocol = \"{guess}\"`"),
            );
            return None;
        };
        if !modes.is_empty() && !matches!(protocol.as_str(), "acp" | "claude" | "opencode") {
            let problem = format!(
                "`modes` of {at} is only for `protocol = \"acp\"`, `\"claude\"` and `\"opencode\"`; `{protocol}` has its own words for them"
            );
            self.problem(place, problem);
            return None;
        }
        if !sandboxes.is_empty() && protocol != "pi" {
            let problem = format!(
                "`sandbox` of {at} is only for `protocol = \"pi\"`; an agent that speaks `{protocol}` asks before it acts"
            );
            self.problem(place, problem);
            return None;
        }
        Some(AgentConfig {
            protocol,
            command,
            env,
            modes,
            sandboxes,
            cwd,
        })
    }

    /// One sandbox, or a list of them, the usual one first.
    fn sandboxes(&mut self, value: &Value<'_>) -> Vec<Sandbox> {
        let texts = match value.get_ref().as_str() {
            Some(text) => vec![text.to_owned()],
            None => self.texts(value, "sandbox"),
        };
        if texts.is_empty() {
            self.problem(&value.span(), "`sandbox` names none".to_owned());
        }
        let names = Sandbox::ALL.map(Sandbox::name);
        let mut found = Vec::new();
        for text in texts {
            match Sandbox::ALL.into_iter().find(|one| one.name() == text) {
                Some(one) if found.contains(&one) => {}
                Some(one) => found.push(one),
                None => {
                    let problem = format!("unknown sandbox `{text}`{}", meant(&text, &names));
                    self.problem(&value.span(), problem);
                }
            }
        }
        found
    }

    fn protocol(&mut self, value: &Value<'_>) -> Option<String> {
        let text = self.text_value(value, "protocol")?;
        let built = crate::agents::built_protocols();
        if built.contains(&text.as_str()) {
            return Some(text);
        }
        let problem = if PROTOCOLS.contains(&text.as_str()) {
            let built = built
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ");
            format!(
                "protocol `{text}` is not supported by this version, which speaks {built}; update pilothouse"
            )
        } else {
            format!("unknown protocol `{text}`{}", meant(&text, PROTOCOLS))
        };
        self.problem(&value.span(), problem);
        None
    }

    pub(super) fn command(&mut self, value: &Value<'_>, at: &str) -> Option<Vec<String>> {
        if let Some(text) = value.get_ref().as_str() {
            let parts: Vec<_> = text
                .split_whitespace()
                .map(|part| format!("\"{part}\""))
                .collect();
            self.problem(
                &value.span(),
                format!(
                    "`command` of {at} is a list of program and arguments; write `command = [{}]`",
                    parts.join(", ")
                ),
            );
            return None;
        }
        let command: Vec<_> = self
            .texts(value, "command")
            .iter()
            .map(|part| self.expand(part))
            .collect();
        if command.first().is_none_or(String::is_empty) {
            self.problem(
                &value.span(),
                format!("`command` of {at} is empty; name a program"),
            );
            return None;
        }
        Some(command)
    }
}
