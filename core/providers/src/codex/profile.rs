//! What codex can do as measured, and how our modes are said in its words (docs/agents-probes.md).

use crate::rpc::facts;
use pilothouse_domain::{
    Capabilities, Mode,
    policy::{Contract, MustAsk},
};
use serde_json::{Value, json};

/// The version on which everything here was measured.
pub const MEASURED_VERSION: &str = "0.171.0";
/// When.
pub const MEASURED_AT: &str = "2026-11-30";

/// Before what codex has to ask. Commands that it takes for reading run unasked even where it asks for everything, and all run
/// unasked inside its sandbox: only changes tell.
pub const CONTRACT: Contract = Contract {
    read_only: MustAsk::CHANGES,
    ask: MustAsk::CHANGES,
    auto_edit: MustAsk {
        commands: false,
        changes: false,
    },
    own_files: &[],
};

/// What a conversation may do without asking, in codex' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    mode: Mode,
}

impl From<Mode> for Permissions {
    fn from(mode: Mode) -> Self {
        Self { mode }
    }
}

impl Permissions {
    /// `approvalPolicy`. Only `untrusted` asks before every command and every patch.
    pub fn policy(self) -> &'static str {
        match self.mode {
            Mode::Ask => "untrusted",
            Mode::AutoEdit => "on-request",
            Mode::ReadOnly | Mode::FullAccess => "never",
        }
    }

    /// `sandbox` of `thread/start` and `thread/resume`.
    pub fn sandbox(self) -> &'static str {
        match self.mode {
            Mode::ReadOnly => "read-only",
            Mode::Ask | Mode::AutoEdit => "workspace-write",
            Mode::FullAccess => "danger-full-access",
        }
    }

    /// The sandbox's type as codex reports it.
    pub fn sandbox_type(self) -> &'static str {
        match self.mode {
            Mode::ReadOnly => "readOnly",
            Mode::Ask | Mode::AutoEdit => "workspaceWrite",
            Mode::FullAccess => "dangerFullAccess",
        }
    }

    /// `sandboxPolicy` of `turn/start`, which has another shape.
    pub fn sandbox_policy(self) -> Value {
        match self.mode {
            Mode::ReadOnly => json!({"type": "readOnly", "networkAccess": false}),
            Mode::Ask | Mode::AutoEdit => json!({
                "type": "workspaceWrite",
                "writableRoots": [],
                "networkAccess": false,
                "excludeTmpdirEnvVar": false,
                "excludeSlashTmp": false,
            }),
            Mode::FullAccess => json!({"type": "dangerFullAccess"}),
        }
    }
}

/// The measured capabilities, from `profile.json`.
pub fn capabilities() -> Capabilities {
    facts::measured(include_str!("profile.json"), MEASURED_VERSION, MEASURED_AT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_is_said_in_the_only_words_under_which_codex_asks_for_everything() {
        let ask = Permissions::from(Mode::default());
        assert_eq!(
            (ask.policy(), ask.sandbox()),
            ("untrusted", "workspace-write")
        );
    }

    #[test]
    fn only_full_access_lifts_the_sandbox() {
        for mode in Mode::ALL {
            let full = Permissions::from(mode).sandbox() == "danger-full-access";
            assert_eq!(full, mode == Mode::FullAccess);
        }
    }
}
