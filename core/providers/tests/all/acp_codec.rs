//! The ACP codec, frame by frame: what agents may send in what order, and what comes of it.

use pilothouse_domain::{
    Answer, ItemContent, ItemStatus, NativeId, OptionId, ProviderEvent, ProviderEventKind, Subject,
    provider::TurnStatus,
    provider_event::Resolution,
    request::{OptionEffect, RequestKind},
};
use pilothouse_providers::acp::{Call, Codec, Received, Reply};
use serde_json::{Value, json};

/// A codec with a conversation `s`, opened.
pub(crate) struct Agent {
    pub(crate) codec: Codec,
    /// Lines of ours that the codec wants written.
    pub(crate) sent: Vec<Value>,
}

impl Agent {
    pub(crate) fn new() -> Self {
        Self::of_version("test-agent", "1")
    }

    pub(crate) fn of_version(name: &str, version: &str) -> Self {
        let mut agent = Self {
            codec: Codec::new("life"),
            sent: Vec::new(),
        };
        agent.codec.call(Call::Initialize {
            version: "1".to_owned(),
        });
        agent.codec.call(Call::New {
            cwd: "/".into(),
            mcp: Vec::new(),
        });
        agent.receive(&json!({"jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": 1, "agentInfo": {"name": name, "version": version}, "agentCapabilities": {},
        }}));
        agent.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s"}}));
        agent
    }

    pub(crate) fn session() -> NativeId {
        NativeId::from("s")
    }

    pub(crate) fn receive(&mut self, frame: &Value) -> Vec<ProviderEvent> {
        let line = format!("{frame}\n");
        let mut events = Vec::new();
        for one in self.codec.receive(line.as_bytes()) {
            match one {
                Received::Event(event) => events.push(event),
                Received::Send(bytes) => self.sent.push(serde_json::from_slice(&bytes).unwrap()),
                Received::Reply { .. } => {}
            }
        }
        events
    }

    pub(crate) fn update(&mut self, update: Value) -> Vec<ProviderEventKind> {
        let params = json!({"sessionId": "s", "update": update});
        let frame = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        kinds(self.receive(&frame))
    }

    pub(crate) fn ask(&mut self, id: Value, params: Value) -> Vec<ProviderEventKind> {
        let method = "session/request_permission";
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        kinds(self.receive(&frame))
    }

    /// Begins a turn; its number as a call.
    pub(crate) fn prompt(&mut self) -> (NativeId, u64) {
        let (turn, line) = self
            .codec
            .prompt(&Self::session(), "go".to_owned())
            .expect("no turn goes on");
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line["params"]["prompt"][0]["text"], "go");
        (turn, line["id"].as_u64().unwrap())
    }

    pub(crate) fn end(&mut self, call: u64, reason: &str) -> Vec<ProviderEventKind> {
        let result = json!({"stopReason": reason});
        kinds(self.receive(&json!({"jsonrpc": "2.0", "id": call, "result": result})))
    }
}

pub(crate) fn kinds(events: Vec<ProviderEvent>) -> Vec<ProviderEventKind> {
    events.into_iter().map(|event| event.kind).collect()
}

pub(crate) fn text(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

pub(crate) fn permission(call: &str, command: &str) -> Value {
    json!({
        "sessionId": "s",
        "toolCall": {"toolCallId": call, "title": command, "kind": "execute", "status": "pending", "rawInput": {"command": command}},
        "options": [
            {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "all", "name": "Allow for session", "kind": "allow_always"},
            {"optionId": "no", "name": "Deny", "kind": "reject_once"},
        ],
    })
}

fn opened(kinds: &[ProviderEventKind]) -> Vec<(NativeId, RequestKind, Subject, Option<NativeId>)> {
    kinds
        .iter()
        .filter_map(|kind| match kind {
            ProviderEventKind::RequestOpened {
                request,
                kind,
                subject,
                item,
                ..
            } => Some((request.clone(), *kind, (**subject).clone(), item.clone())),
            _ => None,
        })
        .collect()
}

fn choose(option: &str) -> Answer {
    Answer::Choose {
        option: OptionId::from(option),
        note: None,
    }
}

#[test]
fn words_stream_into_one_item_that_ends_where_a_tool_begins_or_the_turn_is_over() {
    let mut agent = Agent::new();
    let (turn, call) = agent.prompt();
    let first = agent.update(text("agent_message_chunk", "Hel"));
    let more = agent.update(text("agent_message_chunk", "lo."));
    let [
        ProviderEventKind::ItemAppended {
            item, text: word, ..
        },
    ] = &first[..]
    else {
        panic!("{first:#?}")
    };
    assert_eq!(word, "Hel");
    assert!(
        matches!(&more[..], [ProviderEventKind::ItemAppended { item: same, .. }] if same == item)
    );
    let tool = agent.update(
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "kind": "read"}),
    );
    assert!(
        matches!(&tool[0], ProviderEventKind::ItemClosed { item: closed, status: ItemStatus::Completed, .. } if closed == item),
        "{tool:#?}"
    );
    let after = agent.update(text("agent_message_chunk", "Done."));
    assert!(
        matches!(&after[..], [ProviderEventKind::ItemAppended { item: other, .. }] if other != item)
    );
    let frame = json!({"jsonrpc": "2.0", "id": call, "result": {"stopReason": "end_turn"}});
    let end = agent.receive(&frame);
    assert!(
        end.iter()
            .all(|event| event.place.turn.as_ref() == Some(&turn))
    );
    assert!(matches!(
        end.last().map(|event| &event.kind),
        Some(ProviderEventKind::TurnEnded {
            status: TurnStatus::Completed,
            error: None
        })
    ));
    // The tool that never ended is closed with its turn.
    assert!(end.iter().any(|event| matches!(
        &event.kind,
        ProviderEventKind::ItemClosed {
            status: ItemStatus::Unfinished,
            content: ItemContent::Tool { .. },
            ..
        }
    )));
    assert_eq!(agent.codec.active_turn(&Agent::session()), None);
}

#[test]
fn a_permission_shows_the_agents_own_words_and_the_answer_names_its_option() {
    let mut agent = Agent::new();
    agent.prompt();
    agent.update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "run", "kind": "execute", "rawInput": {"command": "ls"}}));
    let asked = opened(&agent.ask(json!(0), permission("t", "ls")));
    let [(request, kind, subject, item)] = &asked[..] else {
        panic!("{asked:#?}")
    };
    assert_eq!(request.as_str(), "0");
    assert_eq!(*kind, RequestKind::Command);
    assert_eq!(subject.command.as_deref(), Some("ls"));
    assert!(item.is_some(), "it is about the tool that was announced");
    let labels: Vec<_> = subject
        .options
        .iter()
        .map(|option| (option.label.as_str(), option.effect))
        .collect();
    assert_eq!(
        labels,
        [
            ("Allow once", OptionEffect::AllowOnce),
            ("Allow for session", OptionEffect::AllowRule),
            ("Deny", OptionEffect::Deny)
        ]
    );
    let line = agent.codec.answer(request, &choose("yes")).unwrap();
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(
        line,
        json!({"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}})
    );
    assert!(
        agent.codec.answer(request, &choose("no")).is_err(),
        "answered once"
    );
}

#[test]
fn stopping_a_turn_answers_what_it_asks_with_cancelled() {
    let mut agent = Agent::new();
    let (turn, call) = agent.prompt();
    agent.ask(json!("a"), permission("t", "ls"));
    let lines = agent.codec.cancel(&Agent::session(), &turn).unwrap();
    let lines: Vec<Value> = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines[0]["method"], "session/cancel");
    assert_eq!(
        lines[1],
        json!({"jsonrpc": "2.0", "id": "a", "result": {"outcome": {"outcome": "cancelled"}}})
    );
    assert!(
        agent
            .codec
            .answer(&NativeId::from("\"a\""), &choose("yes"))
            .is_err()
    );
    // Text may still come; then the end, which closes the request.
    agent.update(text("agent_message_chunk", "late"));
    let end = agent.end(call, "cancelled");
    assert!(end.iter().any(|kind| matches!(
        kind,
        ProviderEventKind::RequestClosed {
            resolution: Resolution::Withdrawn,
            ..
        }
    )));
    assert!(matches!(
        end.last(),
        Some(ProviderEventKind::TurnEnded {
            status: TurnStatus::Interrupted,
            ..
        })
    ));
    assert!(
        agent.sent.is_empty(),
        "nothing is answered twice: {:?}",
        agent.sent
    );
    assert!(
        agent.codec.cancel(&Agent::session(), &turn).is_none(),
        "it is over"
    );
}

#[test]
fn case_16_of_five_requests_one_is_unreadable_and_four_survive() {
    let mut agent = Agent::new();
    agent.prompt();
    let mut bad = permission("t2", "x");
    bad.as_object_mut().unwrap().remove("toolCall");
    let mut all = Vec::new();
    for (at, params) in [
        permission("t0", "a"),
        permission("t1", "b"),
        bad,
        permission("t3", "c"),
        permission("t4", "d"),
    ]
    .into_iter()
    .enumerate()
    {
        all.extend(opened(&agent.ask(json!(at), params)));
    }
    let commands: Vec<_> = all
        .iter()
        .map(|(_, kind, subject, _)| (*kind, subject.command.clone().unwrap_or_default()))
        .collect();
    assert_eq!(
        commands,
        [
            (RequestKind::Command, "a".to_owned()),
            (RequestKind::Command, "b".to_owned()),
            (RequestKind::Unknown, String::new()),
            (RequestKind::Command, "c".to_owned()),
            (RequestKind::Command, "d".to_owned()),
        ]
    );
    let (request, _, subject, _) = &all[2];
    assert!(subject.incomplete);
    assert!(
        subject
            .reason
            .as_deref()
            .unwrap()
            .starts_with("unreadable request")
    );
    assert!(
        agent.codec.answer(request, &choose("no")).is_ok(),
        "it can be refused"
    );
    assert_eq!(agent.codec.pending_requests().count(), 4);
}

#[test]
fn history_that_is_told_while_a_conversation_is_loaded_is_not_told_twice() {
    let mut codec = Codec::new("life");
    let (load, _) = codec.call(Call::Load {
        session: NativeId::from("s"),
        cwd: "/".into(),
        mcp: Vec::new(),
    });
    let mut replay = String::new();
    for update in [
        text("user_message_chunk", "go"),
        text("agent_message_chunk", "old words"),
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "status": "completed"}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}),
    ] {
        let params = json!({"sessionId": "s", "update": update});
        replay +=
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
        replay.push('\n');
    }
    let told = codec.receive(replay.as_bytes());
    let shown = told.iter().filter(|one| {
        !matches!(one, Received::Event(event) if matches!(event.kind, ProviderEventKind::Diagnostic { .. }))
    });
    assert_eq!(shown.count(), 0, "{told:#?}");
    let answer = json!({"jsonrpc": "2.0", "id": load, "result": {"modes": {"currentModeId": "ask", "availableModes": []}}});
    let answered = codec.receive(format!("{answer}\n").as_bytes());
    assert!(matches!(
        answered.last(),
        Some(Received::Reply {
            reply: Ok(Reply::Session { .. }),
            ..
        })
    ));
    let params = json!({"sessionId": "s", "update": text("agent_message_chunk", "new")});
    let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
    assert_eq!(codec.receive(format!("{line}\n").as_bytes()).len(), 1);
}
