//! Codex' own decisions, with what each does and how far it reaches, in exact words (docs/agents-probes.md, section 3).

use crate::rpc::{
    answers::{Decision, shell_line},
    frames::{cut, text_or_empty},
};
use pilothouse_domain::{OptionId, request::OptionEffect};
use serde_json::{Value, json};

/// The decisions that codex lists for a command, in its order; a set that every version knows if it lists none.
pub(crate) fn offered(listed: Option<&Value>) -> Vec<Decision> {
    let words = [json!("accept"), json!("decline"), json!("cancel")];
    let listed = listed
        .and_then(Value::as_array)
        .filter(|listed| !listed.is_empty())
        .map_or(&words[..], Vec::as_slice);
    let mut decisions: Vec<Decision> = Vec::new();
    for word in listed {
        let mut decision = command_decision(word);
        let same = decisions
            .iter()
            .filter(|known| base(&known.option.id) == base(&decision.option.id))
            .count();
        if same > 0 {
            decision.option.id = OptionId(format!("{}#{}", decision.option.id, same + 1));
        }
        decisions.push(decision);
    }
    decisions
}

fn base(id: &OptionId) -> &str {
    id.as_str().split('#').next().unwrap_or_default()
}

/// `decline` is accepted by 0.171.0 though it is not listed: without it the only refusal would stop the turn.
pub(crate) fn add_decline(decisions: &mut Vec<Decision>) {
    if decisions
        .iter()
        .any(|decision| decision.option.effect == OptionEffect::Deny)
    {
        return;
    }
    let before_cancel = decisions
        .iter()
        .position(|decision| decision.option.effect == OptionEffect::DenyAndStop)
        .unwrap_or(decisions.len());
    decisions.insert(before_cancel, command_decision(&json!("decline")));
}

fn command_decision(word: &Value) -> Decision {
    let result = json!({"decision": word});
    if let Some(word) = word.as_str() {
        return match word {
            "accept" => Decision::new(
                word,
                "Approve",
                OptionEffect::AllowOnce,
                "this command, this once; where the sandbox stops it, codex may run it again outside the sandbox",
                result,
            ),
            "acceptForSession" => Decision::new(
                word,
                "Approve for this session",
                OptionEffect::AllowSession,
                "this same command, without asking again until codex ends",
                result,
            ),
            "decline" => Decision::new(
                word,
                "Deny",
                OptionEffect::Deny,
                "this command does not run; the turn goes on",
                result,
            ),
            "cancel" => Decision::new(
                word,
                "Deny and stop",
                OptionEffect::DenyAndStop,
                "this command does not run and the turn is stopped",
                result,
            ),
            other => unknown(other, result),
        };
    }
    let (name, inner) = match word.as_object().and_then(|object| object.iter().next()) {
        Some((name, inner)) => (name.as_str(), inner),
        None => return unknown(&word.to_string(), result),
    };
    match name {
        "acceptWithExecpolicyAmendment" => {
            let rule: Option<Vec<String>> = inner
                .get("execpolicy_amendment")
                .and_then(Value::as_array)
                .map(|words| {
                    words
                        .iter()
                        .filter_map(|word| word.as_str().map(str::to_owned))
                        .collect()
                });
            match rule.filter(|rule| !rule.is_empty()) {
                Some(rule) => Decision::new(
                    name,
                    "Approve and always allow",
                    OptionEffect::AllowRule,
                    &format!(
                        "writes a permanent rule: every command that begins with `{}` runs without asking, in this and every later session",
                        shell_line(&rule)
                    ),
                    result,
                ),
                None => unknown(name, result),
            }
        }
        "applyNetworkPolicyAmendment" => {
            let rule = inner
                .get("network_policy_amendment")
                .unwrap_or(&Value::Null);
            let host = text_or_empty(rule, "host");
            match text_or_empty(rule, "action").as_str() {
                "allow" => Decision::new(
                    name,
                    "Approve and always allow this host",
                    OptionEffect::AllowRule,
                    &format!(
                        "writes a permanent rule: connections to `{host}` are allowed without asking, in this and every later session"
                    ),
                    result,
                ),
                "deny" => Decision::new(
                    name,
                    "Always deny this host",
                    OptionEffect::DenyRule,
                    &format!(
                        "writes a permanent rule: connections to `{host}` are refused without asking, in this and every later session"
                    ),
                    result,
                ),
                _ => unknown(name, result),
            }
        }
        other => unknown(other, result),
    }
}

fn unknown(word: &str, result: Value) -> Decision {
    let word = cut(word, 80);
    Decision::new(
        &word,
        &word,
        OptionEffect::Other,
        "codex' own word; this version does not know how far it reaches",
        result,
    )
}

/// The decisions of a file change: codex lists none, all four were tried.
pub(crate) fn file_change() -> Vec<Decision> {
    let decision = |word: &str, label, effect, reach| {
        Decision::new(word, label, effect, reach, json!({"decision": word}))
    };
    vec![
        decision(
            "accept",
            "Approve",
            OptionEffect::AllowOnce,
            "these changes, this once",
        ),
        decision(
            "acceptForSession",
            "Approve for this session",
            OptionEffect::AllowSession,
            "these changes, and further ones to the same files without asking until codex ends",
        ),
        decision(
            "decline",
            "Deny",
            OptionEffect::Deny,
            "nothing is changed; the turn goes on",
        ),
        decision(
            "cancel",
            "Deny and stop",
            OptionEffect::DenyAndStop,
            "nothing is changed and the turn is stopped",
        ),
    ]
}

/// The decisions of a permission request: what was asked for goes back as it came, or nothing does.
pub(crate) fn permissions(asked: &Value) -> Vec<Decision> {
    let granted: serde_json::Map<String, Value> = asked
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    vec![
        Decision::new(
            "turn",
            "Grant for this turn",
            OptionEffect::AllowOnce,
            "all that is listed, until this turn ends",
            json!({"permissions": granted, "scope": "turn"}),
        ),
        Decision::new(
            "session",
            "Grant for this session",
            OptionEffect::AllowSession,
            "all that is listed, until codex ends",
            json!({"permissions": granted, "scope": "session"}),
        ),
        Decision::new(
            "deny",
            "Deny",
            OptionEffect::Deny,
            "nothing is granted; the turn goes on",
            json!({"permissions": {}, "scope": "turn"}),
        ),
    ]
}

/// The decisions of the two requests of older versions.
pub(crate) fn legacy() -> Vec<Decision> {
    let decision = |id: &str, label, effect, reach, word: Value| Decision {
        // The only decision of codex that takes words.
        words_at: (id == "denied").then_some("/decision/denied/rejection"),
        ..Decision::new(id, label, effect, reach, json!({"decision": word}))
    };
    vec![
        decision(
            "approved",
            "Approve",
            OptionEffect::AllowOnce,
            "this, this once",
            json!("approved"),
        ),
        decision(
            "approved_for_session",
            "Approve for this session",
            OptionEffect::AllowSession,
            "this and the same again, without asking until codex ends",
            json!("approved_for_session"),
        ),
        decision(
            "denied",
            "Deny",
            OptionEffect::Deny,
            "this is not done; the turn goes on",
            json!({"denied": {"rejection": "denied by the user"}}),
        ),
        decision(
            "abort",
            "Deny and stop",
            OptionEffect::DenyAndStop,
            "this is not done and the turn is stopped",
            json!("abort"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_that_an_option_would_write_is_spelt_out() {
        let offered = offered(Some(&json!([
            "accept",
            {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "commit -a"]}},
            "cancel",
        ])));
        assert!(offered[1].option.reach.contains("permanent rule"));
        assert!(offered[1].option.reach.contains("`git 'commit -a'`"));
        assert_eq!(offered[1].option.effect, OptionEffect::AllowRule);
    }

    #[test]
    fn a_way_to_refuse_without_stopping_the_turn_is_always_there() {
        let mut decisions = offered(Some(&json!(["accept", "cancel"])));
        add_decline(&mut decisions);
        let ids: Vec<_> = decisions
            .iter()
            .map(|decision| decision.option.id.as_str())
            .collect();
        assert_eq!(ids, ["accept", "decline", "cancel"]);
    }

    #[test]
    fn a_refusal_for_good_is_never_the_plain_one() {
        let rule = json!({"applyNetworkPolicyAmendment": {"network_policy_amendment": {"host": "a", "action": "deny"}}});
        let mut decisions = offered(Some(&json!(["accept", rule, "cancel"])));
        add_decline(&mut decisions);
        let effects: Vec<_> = decisions
            .iter()
            .map(|decision| (decision.option.id.as_str(), decision.option.effect))
            .collect();
        assert_eq!(
            effects,
            [
                ("accept", OptionEffect::AllowOnce),
                ("applyNetworkPolicyAmendment", OptionEffect::DenyRule),
                ("decline", OptionEffect::Deny),
                ("cancel", OptionEffect::DenyAndStop),
            ]
        );
    }

    #[test]
    fn a_decision_that_is_not_known_is_shown_as_codex_writes_it_and_is_never_an_approval() {
        let decisions = offered(Some(&json!(["acceptForEver", {"x": 1}, 5])));
        assert!(decisions.iter().all(Decision::is_unknown));
        assert!(decisions.iter().all(|d| !d.option.effect.allows()));
        assert_eq!(decisions[0].result, json!({"decision": "acceptForEver"}));
    }

    #[test]
    fn two_decisions_of_the_same_kind_have_different_ids() {
        let rule = |host: &str| json!({"applyNetworkPolicyAmendment": {"network_policy_amendment": {"host": host, "action": "allow"}}});
        let decisions = offered(Some(&json!([rule("a"), rule("b")])));
        assert_ne!(decisions[0].option.id, decisions[1].option.id);
    }
}
