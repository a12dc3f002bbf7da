//! What Claude Code asks for, shown as far as it is known and no further.

use crate::{claude_hostile::Agent, stage::Stage};
use pilothouse_domain::{
    ItemContent, ItemStatus, ProviderEvent, ProviderEventKind, Row, Subject,
    provider_event::NativePlace,
};
use pilothouse_providers::claude::{Received, profile};
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

/// Ids of calls that a gateway counts anew in each message name another call each time, for a new process, too.
#[test]
fn a_call_whose_id_comes_again_is_an_item_of_its_own() {
    let mut stage = Stage::new("claude", profile::capabilities());
    let place = NativePlace {
        thread: Some("s".into()),
        root: None,
        turn: Some("u1".into()),
    };
    for kind in [
        ProviderEventKind::ThreadBound,
        ProviderEventKind::TurnStarted,
    ] {
        let place = place.clone();
        stage.event(&ProviderEvent { place, kind });
    }
    let mut agent = Agent::new();
    let calls = [
        ("m1", "ls", "a file", false),
        ("m2", "make", "it broke", true),
        ("m3", "date", "today", false),
    ];
    for (number, (message, command, output, failed)) in calls.into_iter().enumerate() {
        if number == 2 {
            agent = Agent::new();
        }
        let frames = [
            json!({"type": "assistant", "message": {"id": message, "content":
                [{"type": "tool_use", "id": "call_0", "name": "Bash", "input": {"command": command}}]}}),
            json!({"type": "user", "message": {"content":
                [{"type": "tool_result", "tool_use_id": "call_0", "content": output, "is_error": failed}]}}),
        ];
        for one in frames.iter().flat_map(|frame| agent.receive(frame)) {
            if let Received::Event(event) = one {
                stage.event(&event);
            }
        }
    }
    let rows = stage
        .threads
        .values()
        .flat_map(|memory| memory.rows.0.values());
    let mut shown: Vec<_> = rows
        .filter_map(|row| match row {
            Row::Item(item) => match &item.content {
                ItemContent::Command {
                    command, output, ..
                } => Some((command.clone(), output.preview().to_owned(), item.status)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    shown.sort_by(|one, other| one.1.cmp(&other.1));
    let item =
        |command: &str, output: &str, status| (command.to_owned(), output.to_owned(), status);
    assert_eq!(
        shown,
        [
            item("ls", "a file", ItemStatus::Completed),
            item("make", "it broke", ItemStatus::Failed),
            item("date", "today", ItemStatus::Completed),
        ]
    );
}
