//! What agents have to ask before, against what they did: all recordings of the four families, replayed into threads whose mode
//! is to ask.

use crate::{claude_recordings, every::Recording as _, opencode_replay, pi_recordings, replay};
use pilothouse_domain::Mode;
use pilothouse_providers::registry;
use std::collections::BTreeMap;

/// Recordings whose agent was not made to ask, or had been granted it before: how many things they show as done unasked, and
/// why that was right there.
const NOT_ASKING: [(&str, &str, usize, &str); 5] = [
    ("claude", "09_life_a", 1, "was in the mode `acceptEdits`"),
    (
        "codex",
        "03_filechange_auto",
        1,
        "was told to change files of the workspace by itself",
    ),
    (
        "opencode",
        "01_prompt_permission_reject",
        1,
        "its process had `always` for `echo *`, from another conversation",
    ),
    ("pi", "01_basic", 1, "had no gate"),
    (
        "pi",
        "05_extension_confirm",
        1,
        "had an extension that asks in its own words",
    ),
];

/// Everything that a recording shows as done unasked.
fn unasked(family: &str, name: &str) -> Vec<String> {
    match family {
        "codex" => replay::Replay::of(family, name).stage.unasked(),
        "claude" => claude_recordings::Replay::of(family, name).stage.unasked(),
        "opencode" => opencode_replay::Replay::of(family, name).stage.unasked(),
        "pi" => pi_recordings::Replay::of(family, name).stage.unasked(),
        other => panic!("{other} is none of the four"),
    }
}

#[test]
fn of_all_recordings_exactly_those_whose_agent_was_not_made_to_ask_show_something_unasked() {
    let mut recordings = 0;
    for family in ["codex", "claude", "opencode", "pi"] {
        for name in replay::names_of(family) {
            recordings += 1;
            let found = unasked(family, &name);
            let expected = NOT_ASKING
                .iter()
                .find(|(of, named, ..)| *of == family && *named == name)
                .map_or(0, |(_, _, number, _)| *number);
            assert_eq!(found.len(), expected, "{family}/{name}: {found:#?}");
        }
    }
    assert!(recordings >= 140, "{recordings} recordings");
}

#[test]
fn nothing_is_demanded_where_a_person_changed_what_the_agent_asks_before() {
    let contract = |family: &str, env: &[(&str, &str)], modes: &[(Mode, &str)]| {
        let owned = |text: &&str| (*text).to_owned();
        let env: BTreeMap<_, _> = env.iter().map(|(k, v)| (owned(k), owned(v))).collect();
        let modes: BTreeMap<_, _> = modes.iter().map(|(mode, v)| (*mode, owned(v))).collect();
        let adapter = registry::family(family).unwrap();
        adapter.contract(&env, &modes).of(Mode::Ask)
    };
    let rules = ("OPENCODE_PERMISSION", r#"{"bash":"allow"}"#);
    assert!(contract("opencode", &[], &[]).commands);
    assert!(!contract("opencode", &[rules], &[]).commands);
    assert!(contract("claude", &[], &[]).changes);
    assert!(!contract("claude", &[], &[(Mode::Ask, "acceptEdits")]).changes);
    for family in registry::families() {
        let contract = family.contract(&BTreeMap::new(), &BTreeMap::new());
        let free = contract.of(Mode::FullAccess);
        assert!(!free.commands && !free.changes, "{}", family.family());
    }
}
