//! What a conversation may do without asking: our modes as opencode's permission rules.
//!
//! A conversation's own rules come after those of its agent, and the last rule that fits holds. So the agent's rules are
//! taken and made as strict as the mode says, or as free; what they deny stays denied in every mode. A subagent's
//! conversation takes none of its parent's rules, and reads its own only once, when it begins (docs/agents-probes.md): so
//! [`FLOOR`] makes every agent ask, and what the mode of the whole thread settles already is answered here ([`settled`]).
//!
//! An opencode that somebody else started has no such floor. There a conversation's own rules hold for all that it does itself,
//! and of its subagents only those may work that ask by their own configuration ([`without_floor`]).

use super::replies::Agent;
use crate::rpc::frames::{list, text_or_empty};
use pilothouse_domain::Mode;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Rules of one agent that are read.
const RULES: usize = 512;

/// The variable by which [`FLOOR`] is set.
pub(super) const PERMISSION: &str = "OPENCODE_PERMISSION";

/// Set as [`PERMISSION`], which opencode puts over the person's configuration: every agent asks, except before what is
/// harmless. What the configuration allows or forbids becomes a question, too (docs/decisions/017).
pub(super) const FLOOR: &str = r#"{"*":"ask","read":{"*":"allow","*.env":"ask","*.env.*":"ask","*.env.example":"allow"},"glob":"allow","grep":"allow","list":"allow","lsp":"allow","todoread":"allow","todowrite":"allow","question":"allow","skill":"allow","task":"allow","codesearch":"allow","bash":{"*":"ask"},"edit":{"*":"ask"},"webfetch":"ask","websearch":"ask"}"#;

/// As `OPENCODE_PERMISSION` of an opencode elsewhere, it makes every subagent ask, too: what a person is told to set.
pub(super) const ADVISED: &str = r#"OPENCODE_PERMISSION='{"*":"ask","read":"allow","glob":"allow","grep":"allow","list":"allow"}'"#;

/// What changes nothing outside the conversation, runs nothing and reaches nothing.
const HARMLESS: &[&str] = &[
    "read",
    "glob",
    "grep",
    "list",
    "lsp",
    "todoread",
    "todowrite",
    "question",
    "skill",
    "task",
    "codesearch",
    "plan_enter",
    "plan_exit",
];

/// One permission rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it is about, e.g. `bash`; may hold `*`.
    pub permission: String,
    /// Which of them, e.g. `git *`.
    pub pattern: String,
    /// What is done with them.
    pub action: Action,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Action {
    Allow,
    Ask,
    Deny,
}

impl Rule {
    fn new(permission: &str, pattern: &str, action: Action) -> Self {
        Self {
            permission: permission.to_owned(),
            pattern: pattern.to_owned(),
            action,
        }
    }

    /// As opencode writes it.
    pub(super) fn json(&self) -> Value {
        let action = match self.action {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        };
        json!({ "permission": self.permission, "pattern": self.pattern, "action": action })
    }

    /// Reads one. An action that is not known is taken as a refusal.
    fn read(value: &Value) -> Self {
        let action = match text_or_empty(value, "action").as_str() {
            "allow" => Action::Allow,
            "ask" => Action::Ask,
            _ => Action::Deny,
        };
        Self {
            permission: text_or_empty(value, "permission"),
            pattern: text_or_empty(value, "pattern"),
            action,
        }
    }

    fn is_harmless(&self) -> bool {
        HARMLESS.contains(&self.permission.as_str())
            // A place outside the workspace that opencode or the person names: its own temporary files.
            || (self.permission == "external_directory" && self.pattern != "*")
    }
}

/// The rules in a field of an object.
pub(super) fn read(value: &Value, field: &str) -> Vec<Rule> {
    let rules = list(value, field);
    // The last one that fits holds.
    rules
        .iter()
        .skip(rules.len().saturating_sub(RULES))
        .map(Rule::read)
        .collect()
}

/// The rules of a conversation in a mode, whose agent has `agent` as its own. None are needed where there is nothing to add.
pub(super) fn of_mode(mode: Mode, agent: &[Rule]) -> Vec<Rule> {
    let mut rules = Vec::new();
    for rule in agent {
        let action = match (mode, rule.action) {
            (_, Action::Deny) => Action::Deny,
            (Mode::FullAccess, _) => Action::Allow,
            (Mode::AutoEdit, _) if rule.permission == "edit" => Action::Allow,
            (_, Action::Allow) if rule.is_harmless() => Action::Allow,
            _ => Action::Ask,
        };
        rules.push(Rule {
            action,
            ..rule.clone()
        });
        if rule.permission == "*" && rule.action != Action::Deny && mode != Mode::FullAccess {
            rules.extend(
                HARMLESS
                    .iter()
                    .map(|&name| Rule::new(name, "*", Action::Allow)),
            );
        }
    }
    match mode {
        Mode::ReadOnly => {
            rules.push(Rule::new("edit", "*", Action::Deny));
            rules.push(Rule::new("bash", "*", Action::Deny));
        }
        Mode::AutoEdit if !names(agent, "edit") => {
            rules.push(Rule::new("edit", "*", Action::Allow));
        }
        Mode::Ask | Mode::AutoEdit | Mode::FullAccess => {}
    }
    rules
}

/// The rules of a conversation where no floor of ours lies under them: they say what is done with everything, and deny every
/// subagent among `agents` that would do unasked what the mode demands to be asked.
pub(super) fn without_floor(
    mode: Mode,
    agent: &[Rule],
    agents: &BTreeMap<String, Agent>,
) -> Vec<Rule> {
    let everything = Rule::new("*", "*", Action::Allow);
    let all: Vec<Rule> = std::iter::once(everything)
        .chain(agent.iter().cloned())
        .collect();
    let mut rules = of_mode(mode, &all);
    if mode == Mode::FullAccess {
        return rules;
    }
    rules.push(Rule::new("task", "*", Action::Deny));
    let asking = agents
        .iter()
        .filter(|(_, subagent)| asks(mode, &subagent.rules));
    rules.extend(asking.map(|(name, _)| Rule::new("task", name, Action::Allow)));
    let forbidden = |rule: &&Rule| rule.permission == "task" && rule.action == Action::Deny;
    rules.extend(agent.iter().filter(forbidden).cloned());
    rules
}

/// Whether whoever has only these rules asks before all that a mode demands to be asked: behind a rule that asks for
/// everything, or denies it, nothing else is allowed than what is harmless.
pub(super) fn asks(mode: Mode, rules: &[Rule]) -> bool {
    if mode == Mode::FullAccess {
        return true;
    }
    let everything =
        |rule: &Rule| rule.permission == "*" && rule.pattern == "*" && rule.action != Action::Allow;
    let settles = |rule: &Rule| {
        rule.action != Action::Allow
            || rule.is_harmless()
            || (mode == Mode::AutoEdit && rule.permission == "edit")
    };
    match rules.iter().rposition(everything) {
        Some(at) => rules[at..].iter().all(settles),
        None => false,
    }
}

/// Whether a rule is about exactly that.
fn names(rules: &[Rule], permission: &str) -> bool {
    rules.iter().any(|rule| rule.permission == permission)
}

/// What the mode of a thread says already to what a subagent asks; `None` where a person is asked.
pub(super) fn settled(mode: Mode, permission: &str) -> Option<Action> {
    match (mode, permission) {
        (Mode::FullAccess, _) | (Mode::AutoEdit, "edit") => Some(Action::Allow),
        (Mode::ReadOnly, "edit" | "bash") => Some(Action::Deny),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// opencode's own rules, and a person's: `git *` without asking, `rm *` never.
    fn agent() -> Vec<Rule> {
        [
            ("*", "*", Action::Allow),
            ("doom_loop", "*", Action::Ask),
            ("external_directory", "*", Action::Ask),
            ("external_directory", "/tmp/opencode/*", Action::Allow),
            ("read", "*", Action::Allow),
            ("read", "*.env", Action::Ask),
            ("edit", "*", Action::Ask),
            ("bash", "*", Action::Ask),
            ("bash", "git *", Action::Allow),
            ("bash", "rm *", Action::Deny),
        ]
        .map(|(permission, pattern, action)| Rule::new(permission, pattern, action))
        .to_vec()
    }

    /// What opencode would do: the last rule that fits.
    fn verdict(rules: &[Rule], permission: &str, pattern: &str) -> Action {
        let fits = |rule: &str, text: &str| match rule.split_once('*') {
            Some((head, tail)) => text.starts_with(head) && text.ends_with(tail),
            None => rule == text,
        };
        rules
            .iter()
            .rev()
            .find(|rule| fits(&rule.permission, permission) && fits(&rule.pattern, pattern))
            .map_or(Action::Ask, |rule| rule.action)
    }

    #[test]
    fn a_mode_asks_for_what_it_says_and_never_does_what_the_person_forbade() {
        use Action::{Allow, Ask, Deny};
        let cases = [
            // permission, pattern: read_only, ask, auto_edit, full_access
            ("bash", "git status", [Deny, Ask, Ask, Allow]),
            ("bash", "make", [Deny, Ask, Ask, Allow]),
            ("bash", "rm -rf x", [Deny, Deny, Deny, Deny]),
            ("edit", "a.txt", [Deny, Ask, Allow, Allow]),
            ("read", "a.txt", [Allow, Allow, Allow, Allow]),
            ("read", "x.env", [Ask, Ask, Ask, Allow]),
            ("grep", "x", [Allow, Allow, Allow, Allow]),
            ("some_mcp_tool", "*", [Ask, Ask, Ask, Allow]),
            ("external_directory", "/etc/*", [Ask, Ask, Ask, Allow]),
            (
                "external_directory",
                "/tmp/opencode/x",
                [Allow, Allow, Allow, Allow],
            ),
        ];
        for (permission, pattern, wanted) in cases {
            for (mode, wanted) in Mode::ALL.into_iter().zip(wanted) {
                let rules = of_mode(mode, &agent());
                assert_eq!(
                    verdict(&rules, permission, pattern),
                    wanted,
                    "{permission} {pattern} in {mode:?}"
                );
            }
        }
    }

    /// As opencode 1.18.33 has them where its person configured nothing (docs/agents-probes.md).
    fn subagents() -> BTreeMap<String, Agent> {
        use Action::{Allow, Ask, Deny};
        let named = |name: &str, rules: &[(&str, &str, Action)]| {
            let rules = rules.iter().map(|(p, q, a)| Rule::new(p, q, *a)).collect();
            let primary = false;
            (
                name.to_owned(),
                Agent {
                    primary,
                    rules,
                    model: None,
                },
            )
        };
        let explore = [
            ("*", "*", Allow),
            ("*", "*", Deny),
            ("grep", "*", Allow),
            ("bash", "*", Allow),
        ];
        let general = [("*", "*", Allow), ("todowrite", "*", Deny)];
        let floored = [("*", "*", Allow), ("*", "*", Ask), ("read", "*", Allow)];
        let editing = [("*", "*", Ask), ("edit", "*", Allow)];
        let one_command = [("*", "*", Ask), ("bash", "git *", Allow)];
        [
            named("explore", &explore),
            named("general", &general),
            named("floored", &floored),
            named("editing", &editing),
            named("one_command", &one_command),
        ]
        .into()
    }

    #[test]
    fn without_a_floor_a_subagent_works_only_if_it_asks_for_what_the_mode_demands() {
        use Action::{Allow, Ask, Deny};
        let cases = [
            ("explore", [Deny, Deny, Deny, Allow]),
            ("general", [Deny, Deny, Deny, Allow]),
            ("floored", [Allow, Allow, Allow, Allow]),
            ("editing", [Deny, Deny, Allow, Allow]),
            ("one_command", [Deny, Deny, Deny, Allow]),
            ("one_that_came_later", [Deny, Deny, Deny, Allow]),
        ];
        for (name, wanted) in cases {
            for (mode, wanted) in Mode::ALL.into_iter().zip(wanted) {
                let rules = without_floor(mode, &agent(), &subagents());
                assert_eq!(verdict(&rules, "task", name), wanted, "{name} in {mode:?}");
            }
        }
        // What the person forbade stays forbidden, and what nobody has a rule for is asked about.
        let forbids = [Rule::new("task", "floored", Deny)];
        let rules = without_floor(Mode::Ask, &forbids, &subagents());
        assert_eq!(verdict(&rules, "task", "floored"), Deny);
        let rules = without_floor(Mode::Ask, &[], &BTreeMap::new());
        assert_eq!(verdict(&rules, "bash", "make"), Ask);
        assert_eq!(verdict(&rules, "read", "a.txt"), Allow);
    }

    #[test]
    fn an_action_that_nobody_knows_refuses() {
        let told = json!({"rules": [{"permission": "bash", "pattern": "*", "action": "perhaps"}]});
        assert_eq!(read(&told, "rules")[0].action, Action::Deny);
        serde_json::from_str::<Value>(FLOOR).unwrap();
    }
}
