//! What a permission request can be answered with: once, by what the agent suggests to remember, or not.

use crate::rpc::{
    answers::Decision,
    frames::{cut, list, text_of, text_or_empty, texts},
};
use pilothouse_domain::request::OptionEffect;
use serde_json::{Value, json};

/// Suggestions of one request that are offered.
const SUGGESTIONS: usize = 16;
/// Bytes of a label.
const LABEL: usize = 512;
/// What the agent is told where a person refuses without words.
const REFUSED: &str = "The user refused this. It was not done.";
/// What it is told where a person refuses and stops the turn without words.
const STOPPED: &str = "The user refused this and stopped the turn. It was not done.";

/// The decisions on a tool, with the agent's suggestions verbatim. `remember` is false where the agent says that nothing may
/// be remembered for it. The flag says whether any suggestion was not known.
pub(super) fn of_tool(request: &Value, remember: bool) -> (Vec<Decision>, bool) {
    let mut decisions = vec![Decision::new(
        "allow",
        "Allow once",
        OptionEffect::AllowOnce,
        "this, this once",
        json!({"behavior": "allow"}),
    )];
    let suggestions = list(request, "permission_suggestions");
    let mut unknown = suggestions.len() > SUGGESTIONS;
    if remember {
        for (at, update) in suggestions.iter().take(SUGGESTIONS).enumerate() {
            match suggestion(at, update) {
                Some(offered) => decisions.extend(offered),
                None => unknown = true,
            }
        }
    }
    decisions.extend(refusals("Deny", "Deny and stop"));
    (decisions, unknown)
}

/// The decisions on a plan.
pub(super) fn of_plan() -> Vec<Decision> {
    let accept_edits = json!({
        "behavior": "allow",
        "updatedPermissions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
    });
    let mut decisions = vec![
        Decision::new(
            "approve",
            "Approve the plan",
            OptionEffect::AllowOnce,
            "the agent goes on by this plan, and asks before changes and commands",
            json!({"behavior": "allow"}),
        ),
        Decision::new(
            "approve_and_accept_edits",
            "Approve, and accept edits",
            OptionEffect::AllowSession,
            "the agent goes on by this plan, and changes files without asking until the next message",
            accept_edits,
        ),
    ];
    decisions.extend(refusals("Keep planning", "Reject and stop"));
    decisions
}

/// What can be said to questions besides answers.
pub(super) fn of_questions() -> Vec<Decision> {
    refusals("Do not answer", "Do not answer, and stop")
}

/// A single way out of something that this version cannot show whole.
pub(super) fn dismiss(label: &str, reach: &str, result: Value) -> Vec<Decision> {
    vec![Decision::new(
        "dismiss",
        label,
        OptionEffect::Deny,
        reach,
        result,
    )]
}

fn refusals(deny: &str, stop: &str) -> Vec<Decision> {
    let deny = Decision {
        words_at: Some("/message"),
        ..Decision::new(
            "deny",
            deny,
            OptionEffect::Deny,
            "this is not done; the agent is told so, with your words if you give any, and goes on",
            json!({"behavior": "deny", "message": REFUSED}),
        )
    };
    let stop = Decision {
        words_at: Some("/message"),
        ..Decision::new(
            "deny_and_stop",
            stop,
            OptionEffect::DenyAndStop,
            "this is not done and the turn is stopped",
            json!({"behavior": "deny", "message": STOPPED, "interrupt": true}),
        )
    };
    vec![deny, stop]
}

/// What the agent suggests to remember, as it says it; `None` if this version does not know it.
fn suggestion(at: usize, update: &Value) -> Option<Vec<Decision>> {
    let destination = text_or_empty(update, "destination");
    let reach = reach(&destination)?;
    let session = destination == "session";
    let effect = if session {
        OptionEffect::AllowSession
    } else {
        OptionEffect::AllowRule
    };
    let allow = |id: String, label: String, effect, reach: String, update: &Value| {
        let result = json!({"behavior": "allow", "updatedPermissions": [update]});
        Decision::new(&id, &cut(&label, LABEL), effect, &reach, result)
    };
    match text_or_empty(update, "type").as_str() {
        kind @ ("addRules" | "replaceRules") => {
            if text_of(update, "behavior").as_deref() != Some("allow") {
                return None;
            }
            let rules = rules(update)?;
            let mut decisions = Vec::new();
            if !session && kind == "addRules" {
                let mut for_session = update.clone();
                *for_session.get_mut("destination")? = json!("session");
                decisions.push(allow(
                    format!("session/{at}"),
                    format!("Allow {rules} for this session"),
                    OptionEffect::AllowSession,
                    format!("{rules}, until the agent's process ends"),
                    &for_session,
                ));
            }
            decisions.push(allow(
                format!("suggestion/{at}"),
                format!("Always allow {rules}"),
                effect,
                format!("{rules}, {reach}"),
                update,
            ));
            Some(decisions)
        }
        "addDirectories" => {
            let directories = texts(update, "directories");
            if directories.is_empty() {
                return None;
            }
            let directories = directories.join(", ");
            Some(vec![allow(
                format!("suggestion/{at}"),
                format!("Allow, and let it work in {directories}"),
                effect,
                format!("this, and work in {directories}, {reach}"),
                update,
            )])
        }
        "setMode" => {
            let mode = text_of(update, "mode")?;
            Some(vec![allow(
                format!("suggestion/{at}"),
                format!("Allow, and go on in mode {mode}"),
                // What a mode lets pass is more than what is asked here.
                OptionEffect::Other,
                format!(
                    "this, and everything that the agent's mode `{mode}` lets pass, until the next message"
                ),
                update,
            )])
        }
        _ => None,
    }
}

/// The rules as the agent writes them: `Bash(git status:*)`.
fn rules(update: &Value) -> Option<String> {
    let rules: Option<Vec<String>> = list(update, "rules")
        .iter()
        .map(|rule| {
            let tool = text_of(rule, "toolName")?;
            Some(match text_of(rule, "ruleContent") {
                Some(content) => format!("{tool}({content})"),
                None => tool,
            })
        })
        .collect();
    rules
        .map(|rules| rules.join(", "))
        .filter(|rules| !rules.is_empty())
}

/// How far something that is remembered there reaches.
fn reach(destination: &str) -> Option<&'static str> {
    Some(match destination {
        "session" | "cliArg" => "until the agent's process ends",
        "localSettings" => "in this project, for you (.claude/settings.local.json)",
        "projectSettings" => "in this project, for everybody (.claude/settings.json)",
        "userSettings" => "in all your projects (settings.json of your Claude home)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(decisions: &[Decision]) -> Vec<&str> {
        decisions
            .iter()
            .map(|decision| decision.option.id.as_str())
            .collect()
    }

    #[test]
    fn a_suggestion_goes_back_exactly_as_it_came_and_for_the_session_with_that_alone_changed() {
        let update = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch a"}],
            "behavior": "allow", "destination": "localSettings", "new": 1});
        let request = json!({"permission_suggestions": [update]});
        let (decisions, unknown) = of_tool(&request, true);
        assert!(!unknown);
        assert_eq!(
            ids(&decisions),
            [
                "allow",
                "session/0",
                "suggestion/0",
                "deny",
                "deny_and_stop"
            ]
        );
        assert_eq!(decisions[2].result["updatedPermissions"][0], update);
        assert_eq!(
            decisions[1].result["updatedPermissions"][0]["destination"],
            "session"
        );
        assert_eq!(decisions[1].result["updatedPermissions"][0]["new"], 1);
    }

    #[test]
    fn what_must_not_be_remembered_or_is_not_known_is_not_offered() {
        let update = json!({"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"});
        let request = json!({"permission_suggestions": [update]});
        assert_eq!(
            ids(&of_tool(&request, false).0),
            ["allow", "deny", "deny_and_stop"]
        );
        for odd in [
            json!({}),
            json!({"type": "addRules", "rules": [], "behavior": "allow", "destination": "session"}),
            json!({"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "deny", "destination": "session"}),
            json!({"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "moon"}),
            json!(7),
        ] {
            let (decisions, unknown) = of_tool(&json!({"permission_suggestions": [odd]}), true);
            assert!(unknown);
            assert_eq!(ids(&decisions), ["allow", "deny", "deny_and_stop"]);
        }
    }
}
