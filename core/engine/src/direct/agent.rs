//! What a person says of an agent that is driven from here.

use pilothouse_domain::{ContentHash, HostId, WorkspaceId};
use pilothouse_providers::endpoint::{Endpoint, EndpointRefusal, Trust};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Characters of a name.
const NAME_CHARS: usize = 80;
/// Directories of an agent.
const DIRECTORIES: usize = 64;

/// Which agent's own server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectFamily {
    /// `codex app-server`, over WebSocket with a bearer token.
    Codex,
    /// `opencode serve`, over HTTP with a password for its user `opencode`.
    Opencode,
}

impl DirectFamily {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Opencode => "opencode",
        }
    }
}

/// An agent that is driven from this device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectAgent {
    /// What it is called here, 1 to 80 characters.
    pub name: String,
    /// Which server it is.
    pub family: DirectFamily,
    /// Where it listens: `wss://…`, `https://…`; without TLS (`ws://…`, `http://…`) only on this machine's loopback, where a
    /// forward of SSH's ends, or where `private_network` is said. No secret stands in it.
    pub url: String,
    /// SHA-256 of the public key that its server must have; `None` leaves that to the public authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<ContentHash>,
    /// The person says that the address lies inside a private network.
    #[serde(default)]
    pub private_network: bool,
    /// Directories of the agent's machine that threads can work in: absolute paths there, 1 to 64.
    pub directories: Vec<String>,
}

/// What is said anew of an agent; what is `None` stays as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectChange {
    /// Where it listens, as [`DirectAgent::url`].
    pub url: Option<String>,
    /// Why what is said there is safe.
    pub trust: Option<Trust>,
}

/// What is kept of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    #[serde(flatten)]
    pub(crate) agent: DirectAgent,
    /// How often its secret was given anew: whoever drives it with the one before starts anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) secrets: u32,
    /// It was taken away; what was said there stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) removed: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Why an agent is not driven from here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectError {
    /// Nothing may be said to its address.
    #[error(transparent)]
    Refused(#[from] EndpointRefusal),
    /// Something said of it cannot be so.
    #[error("{field}: {problem}")]
    Invalid {
        /// What.
        field: &'static str,
        /// Why.
        problem: String,
    },
    /// An agent of this name is driven from here, or one at this address.
    #[error("{what} is that of {name}, which is driven from this device already")]
    Taken {
        /// What.
        what: &'static str,
        /// By which.
        name: String,
    },
    /// It could not be kept.
    #[error("it cannot be kept: {why}")]
    NotKept {
        /// Why.
        why: String,
    },
    /// No agent of that id is driven from here.
    #[error("no agent {host} is driven from this device")]
    Unknown {
        /// Which.
        host: HostId,
    },
    /// It is not driven from here any more, and its secret is still kept.
    #[error(
        "it is not driven from here any more, but its secret could not be forgotten: {why}; remove it again"
    )]
    SecretKept {
        /// Why.
        why: String,
    },
    /// The core is closed.
    #[error("the core is closed")]
    Closed,
}

impl DirectError {
    pub(super) fn not_kept(error: impl ToString) -> Self {
        Self::NotKept {
            why: error.to_string(),
        }
    }

    /// Whether the same may succeed later with nothing changed by its person.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::NotKept { .. } | Self::SecretKept { .. })
    }

    /// What a person can do.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Refused(_) => {
                "use TLS, forward the port by SSH, or mark the address as one of your private network"
            }
            Self::Invalid { .. } => "change that and try again",
            Self::Taken { .. } => {
                "choose another name, or change the agent that is there (`pilothouse direct set`)"
            }
            Self::NotKept { .. } => {
                "check that the device's storage and its store of secrets can be used, then try again"
            }
            Self::Unknown { .. } => "choose one of those that are driven from this device",
            Self::SecretKept { .. } => "remove it again",
            Self::Closed => "open the data directory again",
        }
    }
}

impl DirectAgent {
    /// It without the blanks around what was typed.
    pub(crate) fn trimmed(&self) -> Self {
        let trim = |text: &String| text.trim().to_owned();
        Self {
            name: trim(&self.name),
            url: trim(&self.url),
            directories: self.directories.iter().map(trim).collect(),
            ..self.clone()
        }
    }

    /// It with what is said anew.
    pub(crate) fn changed(&self, change: &DirectChange) -> Self {
        let mut agent = self.clone();
        if let Some(url) = &change.url {
            agent.url.clone_from(url);
        }
        if let Some(trust) = &change.trust {
            (agent.pin, agent.private_network) = match trust {
                Trust::Usual => (None, false),
                Trust::Pinned(pin) => (Some(*pin), false),
                Trust::PrivateNetwork => (None, true),
            };
        }
        agent.trimmed()
    }

    /// That no other agent has its name or its address.
    pub(crate) fn is_apart_from<'a>(
        &self,
        mut others: impl Iterator<Item = &'a Self>,
    ) -> Result<(), DirectError> {
        let same = |other: &&Self| other.name == self.name || other.url == self.url;
        match others.find(same) {
            Some(other) => Err(DirectError::Taken {
                what: match other.name == self.name {
                    true => "its name",
                    false => "its address",
                },
                name: other.name.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Its address, if something may be said to it.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, EndpointRefusal> {
        let trust = match (self.pin, self.private_network) {
            (Some(pin), _) => Trust::Pinned(pin),
            (None, true) => Trust::PrivateNetwork,
            (None, false) => Trust::Usual,
        };
        Endpoint::parse(&self.url, trust)
    }

    pub(crate) fn check(&self) -> Result<(), DirectError> {
        let invalid = |field, problem: &str| {
            Err(DirectError::Invalid {
                field,
                problem: problem.to_owned(),
            })
        };
        let name = &self.name;
        if name.is_empty()
            || name.chars().count() > NAME_CHARS
            || name.chars().any(char::is_control)
        {
            return invalid("name", "1 to 80 characters are expected");
        }
        if self.directories.is_empty() || self.directories.len() > DIRECTORIES {
            return invalid("directories", "1 to 64 are expected");
        }
        let is_path = |path: &String| path.starts_with('/') && !path.chars().any(char::is_control);
        if !self.directories.iter().all(is_path) {
            return invalid(
                "directories",
                "absolute paths of the agent's machine are expected",
            );
        }
        let workspaces = self.workspaces();
        if workspaces.len() != self.directories.len() {
            return invalid("directories", "one is named twice");
        }
        Ok(())
    }

    /// Its directories as workspaces: named by their last part, the whole path where that names two.
    pub(crate) fn workspaces(&self) -> std::collections::BTreeMap<WorkspaceId, PathBuf> {
        let last = |path: &str| {
            let part = path.trim_end_matches('/').rsplit('/').next();
            part.filter(|part| !part.is_empty())
                .unwrap_or("/")
                .to_owned()
        };
        let twice = |name: &str| {
            let same = self.directories.iter().filter(|path| last(path) == name);
            same.count() > 1
        };
        self.directories
            .iter()
            .map(|path| {
                let name = last(path);
                let name = if twice(&name) { path.clone() } else { name };
                (WorkspaceId::from(name.as_str()), PathBuf::from(path))
            })
            .collect()
    }
}
