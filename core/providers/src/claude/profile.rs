//! What Claude Code can do as measured, and how our modes are said in its words (docs/agents-probes.md, section 10).

use crate::rpc::facts;
use pilothouse_domain::{
    Capabilities, Mode,
    policy::{Contract, MustAsk},
};
use std::collections::BTreeMap;

/// The version on which everything here was measured.
pub const MEASURED_VERSION: &str = "2.1.332";
/// When.
pub const MEASURED_AT: &str = "2026-12-01";

/// Before what Claude Code has to ask: changes, in the mode that asks. It runs commands unasked that it takes for reading, or that
/// the person's settings allow; in plan mode it writes its plan.
pub(super) fn contract(configured: &BTreeMap<Mode, String>) -> Contract {
    let asks = mode(Mode::Ask, configured).is_ok_and(|said| said == "default");
    Contract {
        ask: if asks {
            MustAsk::CHANGES
        } else {
            MustAsk::default()
        },
        // Plans and memories; drafts of its own under the directory for temporary files.
        own_files: &[".claude", "scratchpad"],
        ..Contract::default()
    }
}

/// The permission mode in which nothing is asked. It is entered only for [`Mode::FullAccess`].
pub const BYPASS: &str = "bypassPermissions";
/// Its other modes, which host.toml may name for ours.
pub const MODES: [&str; 5] = ["default", "acceptEdits", "plan", "dontAsk", "auto"];

/// How a mode of ours is said, unless the person configured otherwise.
///
/// # Errors
/// In words, where what is configured is no mode of the agent, or would lift every check without the person having chosen
/// that for the thread.
pub fn mode(mode: Mode, configured: &BTreeMap<Mode, String>) -> Result<String, String> {
    let usual = match mode {
        Mode::ReadOnly => "plan",
        Mode::Ask => "default",
        Mode::AutoEdit => "acceptEdits",
        Mode::FullAccess => BYPASS,
    };
    match configured.get(&mode) {
        None => Ok(usual.to_owned()),
        Some(said) if MODES.contains(&said.as_str()) => Ok(said.clone()),
        Some(said) if said == BYPASS && mode == Mode::FullAccess => Ok(said.clone()),
        Some(said) if said == BYPASS => Err(format!(
            "host.toml says `{BYPASS}` for the mode `{}`, and only `{}` may lift every check; change modes of this agent there",
            mode.name(),
            Mode::FullAccess.name()
        )),
        Some(said) => Err(format!(
            "host.toml says `{said}` for the mode `{}`, which is no mode of Claude Code; it has {}",
            mode.name(),
            MODES.join(", ")
        )),
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
    fn only_full_access_lifts_every_check_whatever_is_configured() {
        let nothing = BTreeMap::new();
        for one in Mode::ALL {
            let said = mode(one, &nothing).unwrap();
            assert_eq!(said == BYPASS, one == Mode::FullAccess);
            let bypass = [(one, BYPASS.to_owned())].into();
            assert_eq!(mode(one, &bypass).is_ok(), one == Mode::FullAccess);
            let odd = [(one, "yolo".to_owned())].into();
            assert!(mode(one, &odd).is_err());
            let other = [(one, "dontAsk".to_owned())].into();
            assert_eq!(mode(one, &other).as_deref(), Ok("dontAsk"));
        }
    }
}
