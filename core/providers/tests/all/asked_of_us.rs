//! Everything that the pinned agents can ask of their client, by their own programs: nothing of it is left without a person or an
//! answer. codex' ten requests are held in `hostile`.

use crate::{claude_world::claude, fuzz::line, opencode_stage::opencode, pi_world::pi_command};
use pilothouse_domain::{NativeId, ProviderEventKind};
use pilothouse_providers::{claude, opencode, pi};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path, process::Command};

/// The words in quotes of all places in a file where a pattern fits.
fn quoted(patterns: &[&str], file: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let output = Command::new("grep")
            .args(["-a", "-o", "-h", "-e", pattern])
            .arg(file)
            .output()
            .expect("grep runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let places = text
            .lines()
            .filter_map(|line| line.split('"').nth(1).map(str::to_owned));
        let before = found.len();
        found.extend(places);
        assert!(
            found.len() > before,
            "nothing in {} is `{pattern}`",
            file.display()
        );
    }
    found
}

fn names(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn each_control_request_that_claude_can_send_is_opened_or_answered() {
    let sent = quoted(
        &[
            "sendRequest({subtype:\"[a-z_]*\"",
            "OAuthToken({subtype:\"[a-z_]*\"",
            "{subtype:\"[a-z_]*\",\\.\\.\\.[A-Za-z]*({instanceId",
            "return{subtype:\"elicitation\"",
        ],
        Path::new(claude()),
    );
    let (opened, answered) = (
        ["can_use_tool", "elicitation", "request_user_dialog"],
        [
            "hook_callback",
            "host_auth_token_refresh",
            "mcp_message",
            "oauth_token_refresh",
            "register_device_hooks",
            "remote_control_work_secret",
            "remote_plumbing_call",
            "remote_tool_call",
            "upload_device_hook_template",
        ],
    );
    assert_eq!(sent, names(&[&opened[..], &answered[..]].concat()));
    for (subtypes, is_opened) in [(&opened[..], true), (&answered[..], false)] {
        for subtype in subtypes {
            let mut codec = claude::Codec::serving("life", "s".into());
            codec.call(claude::Call::Prompt {
                turn: Some("u1".into()),
                client_id: "c".to_owned(),
                content: Vec::new(),
            });
            codec.receive(&line(
                &json!({"type": "command_lifecycle", "command_uuid": "u1", "state": "started"}),
            ));
            let request = json!({"subtype": subtype, "tool_name": "Bash", "input": {"command": "x"},
                "mode": "form", "message": "m", "requested_schema": {"type": "object", "properties": {}}});
            let frame = json!({"type": "control_request", "request_id": "x", "request": request});
            let received = codec.receive(&line(&frame));
            let refusals = received.iter().filter_map(|one| match one {
                claude::Received::Send(bytes) => serde_json::from_slice::<Value>(bytes).ok(),
                _ => None,
            });
            let refusals: Vec<_> = refusals.collect();
            assert_eq!(
                codec.pending_requests().count() == 1,
                is_opened,
                "{subtype}"
            );
            assert_eq!(refusals.len() == 1, !is_opened, "{subtype}");
            for refusal in refusals {
                assert_eq!(refusal["response"]["subtype"], "error", "{subtype}");
                assert_eq!(refusal["response"]["request_id"], "x");
            }
        }
    }
}

#[test]
fn each_dialog_that_pi_can_open_is_opened_and_what_only_tells_waits_for_nobody() {
    let command = pi_command();
    let script = Path::new(&command[1]);
    let types = script
        .ancestors()
        .map(|dir| dir.join("modes/rpc/rpc-types.d.ts"))
        .find(|file| file.is_file())
        .expect("pi brings the types of its interface");
    let known = quoted(&["^ *method: \"[A-Za-z_]*\""], &types);
    let (asks, tells) = (
        ["confirm", "editor", "input", "select"],
        [
            "notify",
            "setStatus",
            "setTitle",
            "setWidget",
            "set_editor_text",
        ],
    );
    assert_eq!(known, names(&[&asks[..], &tells[..]].concat()));
    for (methods, is_opened) in [(&asks[..], true), (&tells[..], false)] {
        for method in methods {
            let mut codec = pi::Codec::new("life");
            let (state, _) = codec.call(pi::Call::State);
            let answer = json!({"id": format!("r{state}"), "type": "response", "command": "get_state",
                "success": true, "data": {"sessionFile": "/s.jsonl", "sessionId": "s"}});
            codec.receive(&line(&answer));
            let (prompt, _) = codec.call(pi::Call::Prompt {
                client_id: "c".to_owned(),
                text: "go".to_owned(),
                pictures: Vec::new(),
            });
            let user = json!({"role": "user", "content": "go", "timestamp": 1});
            for frame in [
                json!({"id": format!("r{prompt}"), "type": "response", "command": "x", "success": true,
                    "data": {"disposition": "started"}}),
                json!({"type": "agent_start"}),
                json!({"type": "message_start", "message": user}),
            ] {
                codec.receive(&line(&frame));
            }
            let frame = json!({"type": "extension_ui_request", "id": "x", "method": method, "title": "t",
                "message": "m", "options": ["a", "b"]});
            codec.receive(&line(&frame));
            assert_eq!(codec.pending_requests().count() == 1, is_opened, "{method}");
        }
    }
}

#[test]
fn each_event_of_opencode_that_waits_for_an_answer_is_opened() {
    let known = quoted(&["\"[a-z][A-Za-z0-9.]*\\.asked\""], Path::new(opencode()));
    // The second interface says the same of its own conversations, which are not used.
    let (opened, passed) = (
        ["permission.asked", "question.asked"],
        ["permission.v2.asked", "question.v2.asked"],
    );
    assert_eq!(known, names(&[&opened[..], &passed[..]].concat()));
    for name in opened {
        let mut codec = opencode::Codec::new();
        codec.open(&opencode::Session {
            id: NativeId::from("ses_1"),
            directory: "/w".to_owned(),
            parent: None,
            created_ms: 0,
            rules: Vec::new(),
            model: None,
            reverted: None,
        });
        let question = json!({"question": "q", "header": "h", "options": []});
        let properties = json!({"id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": ["x"],
            "metadata": {"command": "x"}, "always": [], "questions": [question]});
        let event = json!({"id": "evt_1", "type": name, "properties": properties});
        let told = codec.receive(format!("data: {event}\n\n").as_bytes());
        let is_opened = |told: &opencode::Told| match told {
            opencode::Told::Event(event) => {
                matches!(event.kind, ProviderEventKind::RequestOpened { .. })
            }
            opencode::Told::Do(_) => false,
        };
        assert!(told.iter().any(is_opened), "{name}: {told:?}");
    }
}
