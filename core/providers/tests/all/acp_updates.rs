//! What an ACP agent tells besides words and permissions: forms, lists, notices, subagents, and all of it late or twice.

use crate::acp_codec::{Agent, kinds, permission, text};
use pilothouse_domain::{
    Answer, ItemContent, ItemStatus, NativeId, ProviderEventKind, Subject,
    item::TodoStatus,
    provider::TurnStatus,
    provider_event::Resolution,
    request::{QuestionReply, RequestKind},
    run::ErrorCode,
};
use serde_json::{Value, json};

fn ask(agent: &mut Agent, params: Value) -> (NativeId, Subject) {
    let frame =
        json!({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": params});
    match kinds(agent.receive(&frame)).remove(0) {
        ProviderEventKind::RequestOpened {
            request,
            subject,
            kind,
            ..
        } => {
            assert_eq!(kind, RequestKind::Elicitation);
            (request, *subject)
        }
        other => panic!("{other:?}"),
    }
}

fn reply(question: &str, chosen: &[&str], text: Option<&str>) -> QuestionReply {
    QuestionReply {
        question: question.to_owned(),
        chosen: chosen.iter().map(|&word| word.to_owned()).collect(),
        text: text.map(str::to_owned),
    }
}

#[test]
fn a_form_becomes_questions_and_their_answers_fill_it() {
    let mut agent = Agent::new();
    agent.prompt();
    let (request, subject) = ask(
        &mut agent,
        json!({"sessionId": "s", "mode": "form", "message": "Where to?", "requestedSchema": {"type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "title": "Place", "oneOf": [{"const": "eu", "title": "Europe"}, {"const": "us", "title": "America"}]},
            "count": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        }}}),
    );
    assert_eq!(subject.reason.as_deref(), Some("Where to?"));
    assert_eq!(subject.questions.len(), 3);
    let replies = |place: Vec<QuestionReply>| Answer::Reply { replies: place };
    let missing = replies(vec![reply("count", &[], Some("3"))]);
    assert!(
        agent.codec.answer(&request, &missing).is_err(),
        "`place` is required"
    );
    let whole = replies(vec![
        reply("place", &["Europe"], None),
        reply("count", &[], Some("3")),
        reply("tags", &["a", "b"], None),
    ]);
    let line = agent.codec.answer(&request, &whole).unwrap();
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["id"], 5);
    assert_eq!(line["result"]["action"], "accept");
    assert_eq!(
        line["result"]["content"],
        json!({"place": "eu", "count": 3, "tags": ["a", "b"]})
    );
}

#[test]
fn a_form_that_requires_nothing_can_be_accepted_as_it_is_and_one_that_cannot_be_read_only_refused()
{
    let schema = |required: Value, kind: &str| {
        json!({"sessionId": "s", "mode": "form", "message": "m", "requestedSchema":
            {"type": "object", "required": required, "properties": {"place": {"type": kind}}}})
    };
    let options = |subject: &Subject| {
        let ids = subject.options.iter().map(|option| option.id.to_string());
        ids.collect::<Vec<_>>()
    };
    let table = [
        (json!([]), "string", &["accept", "decline", "cancel"][..]),
        (json!(["place"]), "string", &["decline", "cancel"]),
        (json!([]), "object", &["decline", "cancel"]),
    ];
    for (required, kind, offered) in table {
        let mut agent = Agent::new();
        agent.prompt();
        let (request, subject) = ask(&mut agent, schema(required, kind));
        assert_eq!(options(&subject), offered, "{kind}");
        assert_eq!(subject.incomplete, kind == "object");
        assert_eq!(subject.questions.is_empty(), kind == "object");
        if offered.contains(&"accept") {
            assert!(subject.questions[0].optional);
            // Accepting it so says that nothing is filled in.
            assert_eq!(subject.options[0].label, "Accept without filling in");
            assert!(subject.options[0].reach.contains("every field left out"));
            let empty = Answer::Reply {
                replies: vec![reply("place", &[], Some(" "))],
            };
            let line = agent.codec.answer(&request, &empty).unwrap();
            let line: Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(line["result"]["content"], json!({}));
        }
    }
}

#[test]
fn a_link_shows_where_it_leads_and_is_closed_when_the_agent_says_that_it_is_done() {
    let mut agent = Agent::new();
    agent.prompt();
    let (request, subject) = ask(
        &mut agent,
        json!({"sessionId": "s", "mode": "url", "elicitationId": "e", "url": "https://example.com/sign", "message": "Sign in"}),
    );
    assert_eq!(subject.reach, ["open https://example.com/sign"]);
    let done = json!({"jsonrpc": "2.0", "method": "elicitation/complete", "params": {"elicitationId": "e"}});
    let closed = kinds(agent.receive(&done));
    assert!(
        matches!(&closed[..], [ProviderEventKind::RequestClosed { request: closed, resolution: Resolution::Answered }] if *closed == request)
    );
    assert_eq!(agent.sent[0]["result"]["action"], "cancel");
    assert!(kinds(agent.receive(&done)).is_empty(), "once");
}

#[test]
fn a_request_that_the_agent_takes_back_is_withdrawn_and_answered_as_cancelled() {
    let mut agent = Agent::new();
    agent.prompt();
    agent.ask(json!(0), permission("t", "ls"));
    let frame = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 0}});
    let closed = kinds(agent.receive(&frame));
    assert!(matches!(
        &closed[..],
        [ProviderEventKind::RequestClosed {
            resolution: Resolution::Withdrawn,
            ..
        }]
    ));
    assert_eq!(agent.sent[0]["error"]["code"], -32800);
    assert_eq!(agent.codec.pending_requests().count(), 0);
}

#[test]
fn lists_by_id_are_shown_together_and_go_when_they_are_removed() {
    let mut agent = Agent::new();
    agent.prompt();
    let list = |id: &str, word: &str| json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": id, "entries": [{"content": word, "status": "in_progress"}]}});
    let entries = |kinds: Vec<ProviderEventKind>| match kinds.into_iter().next() {
        Some(ProviderEventKind::TodoList { entries }) => entries
            .into_iter()
            .map(|entry| {
                assert_eq!(entry.status, TodoStatus::InProgress);
                entry.text
            })
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(entries(agent.update(list("b", "two"))), ["two"]);
    assert_eq!(entries(agent.update(list("a", "one"))), ["one", "two"]);
    let gone = json!({"sessionUpdate": "plan_removed", "planId": "b"});
    assert_eq!(entries(agent.update(gone.clone())), ["one"]);
    assert!(agent.update(gone).is_empty());
    let words = agent.update(json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "c", "content": "# Do it"}}));
    assert!(matches!(
        &words[..],
        [ProviderEventKind::ItemClosed {
            content: ItemContent::Plan { .. },
            ..
        }]
    ));
}

#[test]
fn notices_compactions_and_messages_between_agents_are_shown() {
    let mut agent = Agent::new();
    agent.prompt();
    let notice = |severity: &str| json!({"sessionUpdate": "notice", "severity": severity, "title": "Disk", "description": "nearly full"});
    assert!(matches!(
        &agent.update(notice("error"))[..],
        [ProviderEventKind::Error { error, will_retry: false }] if error.code == ErrorCode::Agent && error.message == "Disk: nearly full"
    ));
    assert!(matches!(
        &agent.update(notice("info"))[..],
        [ProviderEventKind::Unknown { label, raw }] if label == "notice (info)" && raw == "Disk: nearly full"
    ));
    let compaction = |status: &str| json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": status});
    let opened = agent.update(compaction("in_progress"));
    let [ProviderEventKind::ItemOpened { item, .. }] = &opened[..] else {
        panic!("{opened:?}")
    };
    agent.update(json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": {"type": "text", "text": "in short"}}));
    let closed = agent.update(compaction("completed"));
    assert!(
        matches!(&closed[..], [ProviderEventKind::ItemClosed { item: same, status: ItemStatus::Completed, content: ItemContent::Compaction { text }, .. }] if same == item && text.preview() == "in short"),
        "{closed:?}"
    );
    let message = agent.update(json!({"sessionUpdate": "session_message", "messageId": "m", "content": [{"type": "text", "text": "psst"}]}));
    assert!(matches!(
        &message[..],
        [ProviderEventKind::Unknown { raw, .. }] if raw == "psst"
    ));
    // A kind that nobody knows yet, with all it says.
    let newer = agent.update(json!({"sessionUpdate": "mood_update", "mood": "fine"}));
    assert!(matches!(
        &newer[..],
        [ProviderEventKind::Unknown { label, raw }] if label == "session/update mood_update" && raw.contains("fine")
    ));
    let vendor =
        json!({"jsonrpc": "2.0", "method": "_vendor/thing", "params": {"sessionId": "s", "x": 1}});
    assert!(matches!(
        &kinds(agent.receive(&vendor))[..],
        [ProviderEventKind::Unknown { label, .. }] if label == "_vendor/thing"
    ));
}

#[test]
fn what_a_subagent_does_stands_under_it_and_its_requests_come_home() {
    let mut agent = Agent::new();
    agent.prompt();
    let told = |state: Value| json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "search", "state": state});
    let opened = agent.update(told(json!({"state": "running"})));
    assert!(matches!(
        &opened[..],
        [ProviderEventKind::ChildOpened { child, title, .. }] if child.as_str() == "child" && title == "search"
    ));
    let params = json!({"sessionId": "child", "update": text("agent_message_chunk", "found")});
    let frame = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
    let words = agent.receive(&frame);
    assert_eq!(words[0].place.home(), Some(&Agent::session()));
    assert_eq!(words[0].place.thread, Some(NativeId::from("child")));
    let mut asked = permission("t", "ls");
    asked["sessionId"] = json!("child");
    let frame =
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": asked});
    let asked = agent.receive(&frame);
    assert!(
        asked
            .iter()
            .any(|event| event.place.home() == Some(&Agent::session())
                && matches!(event.kind, ProviderEventKind::RequestOpened { .. }))
    );
    let closed = agent.update(told(json!({"state": "idle", "stopReason": "end_turn"})));
    assert!(matches!(
        closed.last(),
        Some(ProviderEventKind::ChildClosed {
            status: TurnStatus::Completed,
            ..
        })
    ));
}

#[test]
fn what_comes_after_the_turn_belongs_to_it_and_is_whole_with_each_piece() {
    let mut agent = Agent::new();
    let (turn, call) = agent.prompt();
    agent.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "run", "kind": "execute", "rawInput": {"command": "sleep 1"}}));
    agent.end(call, "end_turn");
    let late = |update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}});
    let first = agent.receive(&late(text("agent_message_chunk", "By ")));
    let second = agent.receive(&late(text("agent_message_chunk", "the way.")));
    assert_eq!(second[0].place.turn, Some(turn.clone()));
    let said = |events: &[pilothouse_domain::ProviderEvent]| match &events[0].kind {
        ProviderEventKind::ItemClosed {
            item,
            content: ItemContent::AssistantMessage { text },
            ..
        } => (item.clone(), text.preview().to_owned()),
        other => panic!("{other:?}"),
    };
    assert_eq!(said(&first).0, said(&second).0);
    assert_eq!(said(&second).1, "By the way.");
    let ended = agent.receive(&late(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "content": [{"type": "content", "content": {"type": "text", "text": "slept"}}]})));
    assert_eq!(ended[0].place.turn, Some(turn));
    assert!(matches!(
        &ended[0].kind,
        ProviderEventKind::ItemClosed { status: ItemStatus::Completed, content: ItemContent::Command { output, .. }, .. } if output.preview() == "slept"
    ));
    // The same id in the next turn is another tool.
    let before = match &ended[0].kind {
        ProviderEventKind::ItemClosed { item, .. } => item.clone(),
        other => panic!("{other:?}"),
    };
    let (_, _) = agent.prompt();
    let again = agent.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "run", "kind": "execute", "rawInput": {"command": "ls"}}));
    assert!(matches!(
        &again[..],
        [ProviderEventKind::ItemOpened { item, .. }] if *item != before
    ));
}

#[test]
fn the_output_of_a_command_grows_and_only_what_is_new_is_given_on() {
    let mut agent = Agent::new();
    agent.prompt();
    agent.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}}));
    let piece = |status: &str, words: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status, "content": [{"type": "content", "content": {"type": "text", "text": words}}], "rawOutput": {"exitCode": 2}});
    let mut output = String::new();
    for words in ["a\n", "a\n", "a\nb\n", "x\n"] {
        for kind in agent.update(piece("in_progress", words)) {
            if let ProviderEventKind::ItemAppended { text, .. } = kind {
                output += &text;
            }
        }
    }
    assert_eq!(
        output, "a\nb\n",
        "what is not the same output grown waits for the end"
    );
    let end = agent.update(piece("failed", "a\nb\nc\n"));
    assert!(matches!(
        &end[..],
        [ProviderEventKind::ItemClosed { status: ItemStatus::Failed, content: ItemContent::Command { output, exit_code: Some(2), .. }, .. }] if output.preview() == "a\nb\nc\n"
    ));
}

#[test]
fn every_way_in_which_a_turn_can_stop_is_told() {
    for (reason, status, code) in [
        ("end_turn", TurnStatus::Completed, None),
        ("cancelled", TurnStatus::Interrupted, None),
        ("max_tokens", TurnStatus::Failed, Some(ErrorCode::Limit)),
        (
            "max_turn_requests",
            TurnStatus::Failed,
            Some(ErrorCode::Limit),
        ),
        ("refusal", TurnStatus::Failed, Some(ErrorCode::Agent)),
        ("vanished", TurnStatus::Failed, Some(ErrorCode::Protocol)),
    ] {
        let mut agent = Agent::new();
        let (_, call) = agent.prompt();
        let end = agent.end(call, reason);
        let Some(ProviderEventKind::TurnEnded {
            status: ended,
            error,
        }) = end.last()
        else {
            panic!("{reason}: {end:?}")
        };
        assert_eq!(
            (*ended, error.as_ref().map(|error| error.code)),
            (status, code),
            "{reason}"
        );
    }
    for (code, expected) in [
        (-32000, ErrorCode::SignIn),
        (-32002, ErrorCode::Resume),
        (-32603, ErrorCode::Agent),
    ] {
        let mut agent = Agent::new();
        let (_, call) = agent.prompt();
        let error =
            json!({"code": code, "message": "Internal error", "data": {"details": "because"}});
        let end = kinds(agent.receive(&json!({"jsonrpc": "2.0", "id": call, "error": error})));
        let Some(ProviderEventKind::TurnEnded {
            status: TurnStatus::Failed,
            error: Some(error),
        }) = end.last()
        else {
            panic!("{code}: {end:?}")
        };
        assert_eq!(error.code, expected);
        assert!(error.message.contains("because"), "{error:?}");
    }
}
