//! What a host allows. Data, versioned, part of `welcome`; the same on host and device, so both decide alike.

use crate::{AgentName, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an agent may do without asking; chosen per thread, translated by each family into its own parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Only look; nothing is changed or run outside a read-only sandbox.
    ReadOnly,
    /// Ask before every command that is not known to be harmless and before every change. The default.
    #[default]
    Ask,
    /// Change files of the workspace and run commands inside the sandbox; ask to leave it.
    AutoEdit,
    /// Everything, without asking. Only ever by a person's explicit choice for that thread.
    FullAccess,
}

impl Mode {
    /// Every mode, from the narrowest.
    pub const ALL: [Self; 4] = [Self::ReadOnly, Self::Ask, Self::AutoEdit, Self::FullAccess];

    /// Its name as written in commands and configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Ask => "ask",
            Self::AutoEdit => "auto_edit",
            Self::FullAccess => "full_access",
        }
    }
}

/// Before what an agent has to ask, in each mode, as its family is started and told here. What is not named is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contract {
    /// In [`Mode::ReadOnly`], where nothing of it may happen at all.
    pub read_only: MustAsk,
    /// In [`Mode::Ask`].
    pub ask: MustAsk,
    /// In [`Mode::AutoEdit`].
    pub auto_edit: MustAsk,
    /// Names of directories whose files are the agent's own: it writes them without asking, in every mode.
    pub own_files: &'static [&'static str],
}

/// Before what an agent has to ask in a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MustAsk {
    /// Before every command.
    pub commands: bool,
    /// Before every change to a file.
    pub changes: bool,
}

impl MustAsk {
    /// Before both.
    pub const BOTH: Self = Self {
        commands: true,
        changes: true,
    };
    /// Before commands alone.
    pub const COMMANDS: Self = Self {
        commands: true,
        changes: false,
    };
    /// Before changes alone.
    pub const CHANGES: Self = Self {
        commands: false,
        changes: true,
    };
}

impl Contract {
    /// What it says of a mode. Who chose full access is asked nothing.
    pub fn of(&self, mode: Mode) -> MustAsk {
        match mode {
            Mode::ReadOnly => self.read_only,
            Mode::Ask => self.ask,
            Mode::AutoEdit => self.auto_edit,
            Mode::FullAccess => MustAsk::default(),
        }
    }

    /// Whether a file is the agent's own.
    pub fn is_own(&self, path: &str) -> bool {
        path.split(['/', '\\'])
            .any(|part| self.own_files.contains(&part))
    }
}

/// In what an agent runs that does not ask before it acts (DESIGN section 6): such a one starts in nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// bubblewrap: the workspace can be written, the system's programs can be read, nothing else is there.
    Bwrap,
    /// None.
    None,
}

impl Sandbox {
    /// All of them, the safest first.
    pub const ALL: [Self; 2] = [Self::Bwrap, Self::None];

    /// Its name as written in commands and configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::None => "none",
        }
    }

    /// What can go wrong in it, for a person who chooses.
    pub fn risk(self) -> &'static str {
        match self {
            Self::Bwrap => {
                "without asking it can change and delete everything in the workspace, read the agent's own keys, and send \
                 both anywhere; the rest of the machine it can neither read nor change"
            }
            Self::None => {
                "without asking it can do everything that you can: change and delete your files, read your keys, send \
                 them anywhere"
            }
        }
    }
}

/// What a host allows and offers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policy {
    /// Grows with each change.
    pub version: u32,
    /// Agents that can be chosen, with what their family declares before a session exists.
    pub agents: BTreeMap<AgentName, AgentPolicy>,
    /// Workspaces that can be named.
    pub workspaces: Vec<WorkspaceId>,
    /// The mode of a thread that names none.
    pub default_mode: Mode,
}

/// What is declared of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentPolicy {
    /// The protocol family, e.g. `codex`.
    pub family: String,
    /// Modes that it can be given.
    pub modes: Vec<Mode>,
    /// Its profile's capabilities, overridden by a session's handshake.
    pub capabilities: crate::capability::CapabilitySet,
    /// For an agent that does not ask before it acts: in what it may run, the one that is taken unless a thread names
    /// another first. Empty for one that asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sandboxes: Vec<Sandbox>,
}
