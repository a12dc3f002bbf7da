//! What an ACP agent asks is shown as it is, for the tool that it is about, as long as it can be answered.

use crate::acp_codec::{Agent, kinds, permission, text};
use pilothouse_domain::{
    Answer, ItemContent, NativeId, OptionId, ProviderEvent, ProviderEventKind, Subject,
    provider_event::Resolution, request::RequestKind,
};
use pilothouse_providers::acp::Received;
use serde_json::{Value, json};

fn subject(kinds: &[ProviderEventKind]) -> Subject {
    kinds
        .iter()
        .rev()
        .find_map(|kind| match kind {
            ProviderEventKind::RequestOpened { subject, .. } => Some((**subject).clone()),
            _ => None,
        })
        .unwrap_or_else(|| panic!("nothing is asked: {kinds:?}"))
}

fn asked(tool: Value) -> Subject {
    let mut agent = Agent::new();
    agent.prompt();
    let mut params = permission("t", "");
    params["toolCall"] = tool;
    subject(&agent.ask(json!(1), params))
}

fn command(input: Value) -> Subject {
    asked(json!({"toolCallId": "t", "title": "run", "kind": "execute", "rawInput": input}))
}

fn edit(input: Value, content: Value) -> Value {
    json!({"toolCallId": "t", "title": "write", "kind": "edit", "rawInput": input, "content": content})
}

fn diff(path: &str, old: Option<&str>, new: &str) -> Value {
    json!({"type": "diff", "path": path, "oldText": old, "newText": new})
}

fn choose(option: &str) -> Answer {
    Answer::Choose {
        option: OptionId::from(option),
        note: None,
    }
}

/// A frame of the conversation `session`.
fn of(session: &str, mut params: Value, method: &str, id: Option<u64>) -> Value {
    params["sessionId"] = json!(session);
    let mut frame = json!({"jsonrpc": "2.0", "method": method, "params": params});
    if let Some(id) = id {
        frame["id"] = json!(id);
    }
    frame
}

fn is_answerable(agent: &Agent, request: &str, kind: RequestKind, shown: &Subject) -> bool {
    let request = NativeId::from(request);
    agent
        .codec
        .is_same_request(&request, &Agent::session(), kind, shown)
}

#[test]
fn no_half_of_a_command_is_hidden_behind_the_other() {
    let two = command(json!({"command": "ls", "cmd": "rm -rf ~/x"}));
    assert_eq!(two.command.as_deref(), Some("ls"));
    assert!(two.text.unwrap().contains("rm -rf ~/x"));
    let two = command(json!({"command": "ls", "cwd": "/a", "workdir": "/b", "directory": ""}));
    assert_eq!(two.cwd.as_deref(), Some("/a"));
    let text = two.text.unwrap();
    assert!(text.contains("/b") && !text.contains("directory"), "{text}");
    let later = command(json!({"command": "ls", "cwd": "", "workdir": "/b"}));
    assert_eq!(
        (later.cwd.as_deref(), later.text),
        (Some("/b"), None),
        "an empty place is none"
    );
    let same = command(json!({"command": ["ls", "-l"], "cmd": "ls -l", "commands": ["ls -l"]}));
    assert_eq!(same.text, None, "what says the same is said once");
    let unreadable = command(json!({"command": "", "cmd": 5}));
    assert!(unreadable.incomplete && unreadable.text.is_some());
}

#[test]
fn an_edit_shows_all_that_its_input_says_beside_its_changes() {
    let path = "/w/a.txt";
    let own = json!([diff(path, None, "abc\n")]);
    let said = asked(edit(
        json!({"file_path": path, "content": "abc\n"}),
        own.clone(),
    ));
    assert_eq!((said.text, said.incomplete), (None, false));
    let more = asked(edit(
        json!({"file_path": path, "content": "evil\n", "then": "chmod +x"}),
        own.clone(),
    ));
    let text = more.text.unwrap();
    assert!(text.contains("evil") && text.contains("chmod +x"), "{text}");
    let index = format!("Index: {path}\n=====\n--- {path}\n+++ {path}\n@@ -0,0 +1,1 @@\n+abc\n");
    let said = asked(edit(json!({"filepath": path, "diff": index}), own.clone()));
    assert_eq!(said.text, None, "the same diff is shown once");
    for other in [
        index.replace("+abc", "+abd"),
        index.replace("+++ /w/a.txt", "+++ /etc/passwd"),
    ] {
        let said = asked(edit(json!({"filepath": path, "diff": other}), own.clone()));
        assert!(said.text.is_some(), "{other}");
    }
    let mut elsewhere = edit(json!({}), own);
    elsewhere["locations"] = json!([{"path": path}, {"path": "/etc/passwd"}]);
    let text = asked(elsewhere).text.unwrap();
    assert!(
        text.contains("/etc/passwd") && !text.contains(path),
        "{text}"
    );
}

#[test]
fn a_change_that_cannot_be_read_leaves_its_request_incomplete() {
    let good = diff("/w/a.txt", None, "abc\n");
    for bad in [
        json!({"type": "diff"}),
        json!({"type": "diff", "path": 5, "newText": "x"}),
        json!({"type": "diff", "path": "/w/b.txt"}),
        json!({"type": "diff", "path": "/w/b.txt", "oldText": 7, "newText": "x"}),
        diff(&"/w".repeat(4096), None, "x"),
    ] {
        let beside = asked(edit(json!({}), json!([good, bad])));
        assert!(beside.incomplete, "{bad}");
        assert!(!beside.changes.is_empty());
    }
    let many = vec![good; 2000];
    assert!(asked(edit(json!({}), json!(many))).incomplete);
}

#[test]
fn changes_are_shown_whatever_kind_of_tool_they_are_of() {
    for kind in ["other", "execute", "switch_mode"] {
        let mut tool = edit(
            json!({"command": "ls"}),
            json!([diff("/w/a", None, "abc\n")]),
        );
        tool["kind"] = json!(kind);
        assert_eq!(asked(tool).changes.len(), 1, "{kind}");
    }
}

#[test]
fn a_tool_that_was_left_open_is_not_what_a_later_request_is_about() {
    let mut agent = Agent::new();
    let (_, call) = agent.prompt();
    let mut tool = edit(json!({}), json!([diff("/w/a.txt", None, "harmless\n")]));
    tool["sessionUpdate"] = json!("tool_call");
    agent.update(tool);
    agent.end(call, "end_turn");
    agent.prompt();
    let mut params = permission("t", "");
    params["toolCall"] = json!({"toolCallId": "t", "title": "write", "kind": "edit"});
    let told = agent.ask(json!(1), params);
    let shown = subject(&told);
    assert!(shown.changes.is_empty() && shown.incomplete, "{shown:?}");
    assert!(
        told.iter()
            .all(|kind| !matches!(kind, ProviderEventKind::RequestOpened { item: Some(_), .. }))
    );
}

#[test]
fn an_id_that_is_announced_again_after_its_end_is_another_tool() {
    let mut agent = Agent::new();
    agent.prompt();
    let tool = |command: &str, status: &str| json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "run", "kind": "execute", "status": status, "rawInput": {"command": command}});
    let item = |kinds: &[ProviderEventKind]| {
        kinds.iter().find_map(|kind| match kind {
            ProviderEventKind::ItemOpened { item, .. }
            | ProviderEventKind::ItemClosed { item, .. } => Some(item.clone()),
            _ => None,
        })
    };
    let first = item(&agent.update(tool("ls", "completed")));
    let second = item(&agent.update(tool("pwd", "in_progress")));
    assert!(first.is_some() && second.is_some());
    assert_ne!(first, second);
}

#[test]
fn a_request_whose_diff_changes_while_it_waits_can_be_answered_as_it_is_shown_then() {
    let mut agent = Agent::new();
    agent.prompt();
    let piece = |kind: &str, new: &str| {
        let mut tool = edit(json!({}), json!([diff("/w/a.txt", None, new)]));
        tool["sessionUpdate"] = json!(kind);
        tool
    };
    agent.update(piece("tool_call", "one\n"));
    let mut params = permission("t", "");
    params["toolCall"] = json!({"toolCallId": "t", "title": "write", "kind": "edit"});
    let first = subject(&agent.ask(json!(1), params));
    assert_eq!(first.changes[0].diff.preview(), "one\n");
    let anew = subject(&agent.update(piece("tool_call_update", "two\n")));
    assert_eq!(anew.changes[0].diff.preview(), "two\n");
    assert!(is_answerable(&agent, "1", RequestKind::FileChange, &anew));
    assert!(!is_answerable(&agent, "1", RequestKind::FileChange, &first));

    // One that names its changes itself still asks for those.
    let mut params = permission("t", "");
    params["toolCall"] = edit(json!({}), json!([diff("/w/a.txt", None, "own\n")]));
    let own = subject(&agent.ask(json!(2), params));
    let told = agent.update(piece("tool_call_update", "three\n"));
    let again = told.iter().find_map(|kind| match kind {
        ProviderEventKind::RequestOpened {
            request, subject, ..
        } if request.as_str() == "2" => Some((**subject).clone()),
        _ => None,
    });
    assert_eq!(again.as_ref(), Some(&own), "it is shown again as it asks");
    assert!(is_answerable(&agent, "2", RequestKind::FileChange, &own));
}

#[test]
fn a_request_of_a_conversation_that_nobody_announced_comes_home() {
    let mut agent = Agent::new();
    agent.prompt();
    let frame = of(
        "nobody",
        permission("t", "ls"),
        "session/request_permission",
        Some(1),
    );
    let told = agent.receive(&frame);
    let asked = told
        .iter()
        .find(|event| matches!(event.kind, ProviderEventKind::RequestOpened { .. }));
    assert_eq!(asked.unwrap().place.home(), Some(&Agent::session()));
}

fn child_asks(agent: &mut Agent) {
    agent.update(json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "x"}));
    let frame = of(
        "child",
        permission("t", "ls"),
        "session/request_permission",
        Some(1),
    );
    agent.receive(&frame);
}

fn withdrawn(events: &[ProviderEventKind]) -> usize {
    let closed = events.iter().filter(|kind| {
        matches!(
            kind,
            ProviderEventKind::RequestClosed {
                resolution: Resolution::Withdrawn,
                ..
            }
        )
    });
    closed.count()
}

#[test]
fn what_a_subagent_asked_ends_with_the_turn_that_was_stopped() {
    let mut agent = Agent::new();
    let (turn, call) = agent.prompt();
    child_asks(&mut agent);
    agent.codec.cancel(&Agent::session(), &turn).unwrap();
    assert_eq!(withdrawn(&agent.end(call, "cancelled")), 1);
    assert_eq!(agent.codec.pending_requests().count(), 0);
}

#[test]
fn what_a_subagent_asked_ends_with_it_and_the_agent_is_told() {
    let mut agent = Agent::new();
    agent.prompt();
    child_asks(&mut agent);
    let told = agent.update(json!({"sessionUpdate": "subagent_update", "sessionId": "child", "state": {"state": "idle"}}));
    assert_eq!(withdrawn(&told), 1);
    assert_eq!(agent.sent[0]["result"]["outcome"]["outcome"], "cancelled");
}

#[test]
fn no_agent_makes_the_conversation_that_it_serves_its_subagents() {
    let mut agent = Agent::new();
    agent.prompt();
    let frame = of(
        "other",
        json!({"update": {"sessionUpdate": "subagent_update", "sessionId": "s"}}),
        "session/update",
        None,
    );
    agent.receive(&frame);
    let frame = of(
        "s",
        json!({"update": text("agent_message_chunk", "hi")}),
        "session/update",
        None,
    );
    let told: Vec<ProviderEvent> = agent.receive(&frame);
    assert_eq!(told[0].place.root, None);
}

#[test]
fn a_link_that_is_done_answers_for_nobody_and_goes_with_its_request() {
    let mut agent = Agent::new();
    agent.prompt();
    let ask = |agent: &mut Agent, id: u64, mode: &str| {
        let params = json!({"mode": mode, "elicitationId": "e", "url": "https://example.com", "message": "m",
            "requestedSchema": {"type": "object", "properties": {}}});
        agent.receive(&of("s", params, "elicitation/create", Some(id)));
    };
    let done = json!({"jsonrpc": "2.0", "method": "elicitation/complete", "params": {"elicitationId": "e"}});
    // A form is answered by its person.
    ask(&mut agent, 1, "form");
    assert!(kinds(agent.receive(&done)).is_empty());
    assert!(agent.codec.answer(&"1".into(), &choose("cancel")).is_ok());
    // A link that was answered is no other request's, whatever number that has.
    ask(&mut agent, 2, "url");
    assert!(agent.codec.answer(&"2".into(), &choose("decline")).is_ok());
    agent.ask(json!(2), permission("t", "ls"));
    assert!(kinds(agent.receive(&done)).is_empty());
    assert_eq!(agent.codec.pending_requests().count(), 1);
    ask(&mut agent, 3, "url");
    assert_eq!(kinds(agent.receive(&done)).len(), 1);
    assert_eq!(agent.sent[0]["result"], json!({"action": "cancel"}));
}

#[test]
fn an_id_that_is_too_long_to_be_told_from_another_is_refused() {
    let mut agent = Agent::new();
    agent.prompt();
    let long = "i".repeat(10_000);
    agent.ask(json!(long), permission("t", "ls"));
    assert_eq!(agent.sent[0]["id"], json!(long));
    assert_eq!(agent.codec.pending_requests().count(), 0);
    let mut params = permission("t", "ls");
    params["options"][0]["optionId"] = json!(long);
    let told = agent.ask(json!(1), params);
    assert!(told.iter().any(|kind| matches!(
        kind,
        ProviderEventKind::RequestOpened {
            unknown_fields: true,
            ..
        }
    )));
}

#[test]
fn options_that_are_not_told_stay_and_an_answer_without_them_sets_nothing() {
    let mut agent = Agent::new();
    let options = json!([{"id": "mode", "category": "mode", "currentValue": "a", "options": [{"value": "a"}, {"value": "b"}]}]);
    agent.update(json!({"sessionUpdate": "config_option_update", "configOptions": options}));
    let before = agent.codec.settings(&Agent::session());
    let told = agent.update(json!({"sessionUpdate": "config_option_update"}));
    assert!(
        matches!(&told[..], [ProviderEventKind::Unknown { .. }]),
        "{told:?}"
    );
    let (call, _) = agent
        .codec
        .call(pilothouse_providers::acp::Call::SetConfig {
            session: Agent::session(),
            config: "mode".to_owned(),
            value: "b".to_owned(),
        });
    agent.receive(&json!({"jsonrpc": "2.0", "id": call, "result": {}}));
    assert_eq!(agent.codec.settings(&Agent::session()), before);
    assert_ne!(before, pilothouse_providers::acp::Settings::default());
}

#[test]
fn only_words_that_a_measured_version_was_heard_to_say_mean_that_a_conversation_is_gone() {
    use pilothouse_domain::{provider::TurnStatus, run::ErrorCode};
    let code = |name: &str, version: &str| {
        let mut agent = Agent::of_version(name, version);
        let (_, call) = agent.prompt();
        let error = json!({"code": -32602, "message": "Session not found: s"});
        let end = kinds(agent.receive(&json!({"jsonrpc": "2.0", "id": call, "error": error})));
        match end.last() {
            Some(ProviderEventKind::TurnEnded {
                status: TurnStatus::Failed,
                error: Some(error),
            }) => error.code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code("gemini-cli", "0.61.0"), ErrorCode::Resume);
    assert_eq!(code("gemini-cli", "0.62.0"), ErrorCode::Agent);
    assert_eq!(code("somebody", "1"), ErrorCode::Agent);
}

#[test]
fn a_persons_words_between_two_turns_are_told_before_the_next_one() {
    let mut agent = Agent::new();
    let (_, call) = agent.prompt();
    agent.end(call, "end_turn");
    agent.update(text("user_message_chunk", "typed elsewhere"));
    let (turn, _) = agent.prompt();
    let told = agent.codec.receive(
        b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"x\"}}}}\n",
    );
    let said = told.iter().find_map(|one| match one {
        Received::Event(event) => match &event.kind {
            ProviderEventKind::ItemClosed {
                content: ItemContent::UserMessage { text, .. },
                ..
            } => Some((text.preview(), event.place.turn != Some(turn.clone()))),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(said, Some(("typed elsewhere", true)), "{told:?}");
}

#[test]
fn the_beginning_of_the_last_words_tells_why_a_turn_failed_though_they_come_in_pieces() {
    use pilothouse_domain::provider::TurnStatus;
    let mut agent = Agent::of_version("hermes-agent", "0.19.0");
    let (_, call) = agent.prompt();
    agent.update(text("agent_message_chunk", "API call "));
    agent.update(text("agent_message_chunk", "failed after 3 retries"));
    let end = agent.end(call, "end_turn");
    assert!(
        matches!(
            end.last(),
            Some(ProviderEventKind::TurnEnded {
                status: TurnStatus::Failed,
                ..
            })
        ),
        "{end:?}"
    );
}

#[test]
fn tokens_of_a_turn_that_failed_are_not_counted_in_the_next() {
    let mut agent = Agent::new();
    let (_, call) = agent.prompt();
    let mut piece = text("agent_message_chunk", "x");
    piece["_meta"] = json!({"usage": {"inputTokens": 7, "outputTokens": 1}});
    agent.update(piece);
    let error = json!({"code": -32603, "message": "broken"});
    agent.receive(&json!({"jsonrpc": "2.0", "id": call, "error": error}));
    let (_, call) = agent.prompt();
    let end = agent.end(call, "end_turn");
    assert!(
        end.iter()
            .all(|kind| !matches!(kind, ProviderEventKind::Usage { .. })),
        "{end:?}"
    );
}
