//! What Claude Code asks for, shown as far as it is known and no further.

use crate::claude_hostile::Agent;
use pilothouse_domain::{ProviderEventKind, Subject};
use serde_json::{Value, json};

/// What a request shows, and whether it must be looked at.
fn shown(told: &[ProviderEventKind]) -> (Subject, bool) {
    let [
        ProviderEventKind::RequestOpened {
            subject,
            unknown_fields,
            ..
        },
    ] = told
    else {
        panic!("{told:?}")
    };
    ((**subject).clone(), *unknown_fields)
}

#[test]
fn after_a_command_that_may_have_moved_the_shell_no_directory_is_named_until_it_is_told_again() {
    let mut agent = Agent::new();
    let init = json!({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/ws"});
    agent.receive(&init);
    let ran = |agent: &mut Agent, id: &str, command: &str| {
        agent.receive(
            &json!({"type": "assistant", "message": {"id": id, "content":
            [{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}]}}),
        );
        agent.receive(&json!({"type": "user", "message": {"content":
            [{"type": "tool_result", "tool_use_id": id, "content": ""}]}}));
    };
    let at = |agent: &mut Agent, id: &str| {
        let (subject, looked_at) = shown(&agent.ask(id, "git reset --hard"));
        (subject.cwd, looked_at)
    };
    let known = (Some("/ws".to_owned()), false);
    assert_eq!(at(&mut agent, "k1"), known);
    ran(&mut agent, "t1", "ls abcd; ./cd-rom");
    assert_eq!(at(&mut agent, "k2"), known);
    for (number, command) in ["cd /ws/other", "true&&pushd x", "(popd)"]
        .iter()
        .enumerate()
    {
        ran(&mut agent, &format!("m{number}"), command);
        assert_eq!(at(&mut agent, &format!("l{number}")), (None, true));
        agent.receive(&init);
        assert_eq!(at(&mut agent, &format!("n{number}")), known);
    }
}

#[test]
fn what_the_diff_of_a_change_does_not_say_is_shown_beside_it() {
    let mut agent = Agent::new();
    let mut ask = |id: &str, edit: Value| {
        let asked = json!({"type": "control_request", "request_id": id, "request": {"subtype": "can_use_tool",
            "tool_name": "MultiEdit", "input": {"file_path": "/a", "edits": [edit]}, "tool_use_id": "t"}});
        let (subject, _) = shown(&agent.tell(&asked));
        assert_eq!(subject.changes.len(), 1);
        subject.text
    };
    let plain = json!({"old_string": "a", "new_string": "b", "replace_all": false});
    assert_eq!(ask("k1", plain), None);
    let all = json!({"old_string": "a", "new_string": "b", "replace_all": true});
    let text = ask("k2", all).expect("all places are said");
    assert!(text.contains("\"replace_all\": true"), "{text}");
}
