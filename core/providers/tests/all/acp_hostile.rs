//! Bytes that no ACP agent would send: bounded memory, a clean state, a message.

use crate::{
    acp_codec::{Agent, kinds, permission, text},
    fuzz::{anything, line, mutate},
    replay::{load_of, names_of},
};
use pilothouse_domain::{
    Answer, ItemContent, NativeId, OptionId, ProviderEventKind, limits, provider::TurnStatus,
    provider_event::Resolution, request::OptionEffect,
};
use pilothouse_providers::acp::{Call, CallError, Codec, FRAME_LIMIT, RAW_LIMIT, Received};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// What the codec may hold whatever comes: a line that is not whole yet, what it remembers of conversations, and what
/// waits for answers.
const HELD: usize = 3 * FRAME_LIMIT + 1024 * 1024;

#[test]
fn a_line_of_a_hundred_megabytes_is_skipped_in_bounded_memory_and_the_next_frame_is_read() {
    let mut agent = Agent::new();
    agent.prompt();
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..100 {
        assert!(agent.codec.receive(&piece).is_empty());
        assert!(agent.codec.held_bytes() <= FRAME_LIMIT + 64 * 1024);
    }
    let end = agent.codec.receive(b"\n");
    assert!(
        matches!(&end[..], [Received::Event(event)] if matches!(&event.kind, ProviderEventKind::Unknown { label, raw } if label.contains("104857600") && raw.len() <= RAW_LIMIT)),
        "{end:?}"
    );
    assert_eq!(agent.update(text("agent_message_chunk", "here")).len(), 1);
}

#[test]
fn a_frame_that_is_too_long_leaves_nobody_waiting() {
    let long = "y".repeat(FRAME_LIMIT);
    let mut agent = Agent::new();
    let (_, call) = agent.prompt();
    let asked = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"k\",\"method\":\"session/request_permission\",\"params\":{{\"x\":\"{long}\"}}}}\n"
    );
    let received = agent.codec.receive(asked.as_bytes());
    let refused = received.iter().find_map(|one| match one {
        Received::Send(bytes) => serde_json::from_slice::<Value>(bytes).ok(),
        _ => None,
    });
    assert_eq!(refused.map(|line| line["id"].clone()), Some(json!("k")));
    // The prompt's own answer: its turn has ended, as failed.
    let answered = format!("{{\"jsonrpc\":\"2.0\",\"id\":{call},\"result\":\"{long}\"}}\n");
    let received = agent.codec.receive(answered.as_bytes());
    assert!(
        received
            .iter()
            .any(|one| matches!(one, Received::Event(event)
        if matches!(event.kind, ProviderEventKind::TurnEnded { status: TurnStatus::Failed, .. })))
    );
    assert_eq!(agent.codec.active_turn(&Agent::session()), None);
    let (call, _) = agent.codec.call(Call::New {
        cwd: "/".into(),
        mcp: Vec::new(),
    });
    let answered = format!("{{\"jsonrpc\":\"2.0\",\"id\":{call},\"result\":\"{long}\"}}\n");
    let received = agent.codec.receive(answered.as_bytes());
    assert!(received.contains(&Received::Reply {
        call,
        reply: Err(CallError::Unreadable {
            method: "session/new".to_owned()
        }),
    }));
}

#[test]
fn deep_nesting_broken_text_and_lone_surrogates_are_told_and_the_next_frame_is_read() {
    let mut agent = Agent::new();
    agent.prompt();
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}{}}}\n",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let told = agent.codec.receive(deep.as_bytes());
    assert!(
        matches!(&told[..], [Received::Event(event)] if matches!(event.kind, ProviderEventKind::Unknown { .. }))
    );
    let broken = b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"a\xff\\ud800b\\u001b[2J\"}}}}\n";
    let told = agent.codec.receive(broken);
    let [Received::Event(event)] = &told[..] else {
        panic!("{told:?}")
    };
    let ProviderEventKind::ItemAppended { text, .. } = &event.kind else {
        panic!("{event:?}")
    };
    // Terminal escapes are kept as they came; whoever shows them hides them.
    assert_eq!(text, "a\u{fffd}\u{fffd}b\u{1b}[2J");
}

#[test]
fn a_hundred_thousand_requests_are_refused_beyond_a_bound_and_each_is_answered() {
    let mut agent = Agent::new();
    agent.prompt();
    let mut opened = 0;
    for id in 0..100_000 {
        let kinds = agent.ask(json!(id), permission("t", "ls"));
        opened += kinds
            .iter()
            .filter(|kind| matches!(kind, ProviderEventKind::RequestOpened { .. }))
            .count();
    }
    assert_eq!(opened, limits::OPEN_REQUESTS);
    assert_eq!(
        agent.codec.pending_requests().count(),
        limits::OPEN_REQUESTS
    );
    assert_eq!(agent.sent.len(), 100_000 - limits::OPEN_REQUESTS);
    assert!(
        agent
            .sent
            .iter()
            .all(|line| line["error"]["code"] == -32600)
    );
}

#[test]
fn ids_that_repeat_or_lie_are_never_taken_for_another() {
    let mut agent = Agent::new();
    let (_, call) = agent.prompt();
    agent.ask(json!(0), permission("t", "ls"));
    // The same again is the same; another thing under the same number is another request.
    let again = agent.ask(json!(0), permission("t", "ls"));
    assert!(matches!(
        &again[..],
        [ProviderEventKind::RequestOpened { .. }]
    ));
    let other = agent.ask(json!(0), permission("t", "rm -rf /"));
    assert!(matches!(
        &other[..],
        [
            ProviderEventKind::RequestClosed {
                resolution: Resolution::Withdrawn,
                ..
            },
            ProviderEventKind::RequestOpened { .. }
        ]
    ));
    // A text is no number.
    agent.ask(json!("0"), permission("t", "pwd"));
    assert_eq!(agent.codec.pending_requests().count(), 2);
    // Answers to calls that nobody made, and twice to one that was, change nothing.
    let lies = [json!(999), json!("1"), json!(null), json!(-1), json!(1.5)];
    for id in lies {
        let frame = json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn"}});
        let told = kinds(agent.receive(&frame));
        assert!(matches!(
            &told[..],
            [ProviderEventKind::Diagnostic { .. } | ProviderEventKind::Unknown { .. }]
        ));
    }
    assert!(agent.codec.active_turn(&Agent::session()).is_some());
    agent.end(call, "end_turn");
    let twice = agent.end(call, "end_turn");
    assert!(matches!(&twice[..], [ProviderEventKind::Diagnostic { .. }]));
    // What is cancelled without having been asked is nothing.
    let frame =
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 77}});
    assert!(agent.receive(&frame).is_empty());
}

#[test]
fn each_request_is_opened_or_answered_even_when_its_fields_are_missing() {
    let methods = [
        "session/request_permission",
        "elicitation/create",
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/output",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/release",
        "craft/drainMidTurnQueue",
        "_vendor/anything",
        "something/newer",
    ];
    let bodies = [
        json!(null),
        json!([]),
        json!({}),
        json!("text"),
        json!({"sessionId": 5, "toolCall": 7, "options": {}}),
        json!({"sessionId": "s", "toolCall": {"toolCallId": 7}, "options": [{}, 5, {"optionId": ""}]}),
        json!({"sessionId": "s", "toolCall": {"toolCallId": "t", "content": [1, {"type": "diff"}], "rawInput": [[]], "locations": {}}, "options": [{"optionId": "a"}]}),
        json!({"sessionId": "s", "mode": "form", "requestedSchema": {"properties": {"a": 7}}}),
        json!({"sessionId": "s", "mode": "url", "url": 5}),
        json!({"sessionId": "elsewhere", "mode": "dream"}),
    ];
    for method in methods {
        for (number, body) in bodies.iter().enumerate() {
            let mut agent = Agent::new();
            let frame = json!({"jsonrpc": "2.0", "method": method, "id": "x", "params": body});
            let told = agent.receive(&frame);
            let opened = agent.codec.pending_requests().count();
            assert_eq!(
                agent.sent.len() + opened,
                1,
                "{method} with body {number}: {told:?}"
            );
            assert!(agent.sent.iter().all(|answer| answer["id"] == "x"));
            let silent = method.starts_with("craft/");
            assert!(silent || !told.is_empty(), "{method} is never silent");
        }
    }
}

#[test]
fn a_request_that_offers_no_way_to_refuse_can_be_refused() {
    let mut agent = Agent::new();
    agent.prompt();
    let mut params = permission("t", "ls");
    params["options"] = json!([{"optionId": "yes", "name": "Do it", "kind": "allow_once"}, {"optionId": "yes", "name": "Twice the same", "kind": "reject_once"}, {"optionId": "odd", "name": "Odd", "kind": "allow_everything"}]);
    let told = agent.ask(json!(3), params);
    let [
        ProviderEventKind::RequestOpened {
            subject,
            unknown_fields,
            request,
            ..
        },
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert!(
        unknown_fields,
        "an id that repeats and a kind that is not known forbid one tap"
    );
    let effects: Vec<_> = subject.options.iter().map(|option| option.effect).collect();
    assert_eq!(
        effects,
        [
            OptionEffect::AllowOnce,
            OptionEffect::Other,
            OptionEffect::Deny
        ]
    );
    let refusal = Answer::Choose {
        option: OptionId::from(subject.options[2].id.as_str()),
        note: None,
    };
    let line = agent.codec.answer(request, &refusal).unwrap();
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["result"], json!({"outcome": {"outcome": "cancelled"}}));
}

#[test]
fn tools_and_words_without_end_are_held_in_bounded_memory() {
    let mut agent = Agent::new();
    let (_, call) = agent.prompt();
    let body = "z".repeat(100 * 1024);
    for number in 0..400 {
        let id = format!("t{number}");
        agent.update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": body, "kind": "edit", "rawInput": {"x": body},
            "content": [{"type": "diff", "path": "/a", "oldText": null, "newText": body}]}));
        agent.update(json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": id, "entries": [{"content": "x"}]}}));
        agent.update(json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": id, "content": {"type": "text", "text": body}}));
        agent.update(json!({"sessionUpdate": "subagent_update", "sessionId": id, "title": body}));
        assert!(agent.codec.held_bytes() <= HELD, "after {number}");
    }
    for _ in 0..20 {
        agent.update(text("user_message_chunk", &body));
    }
    let end = agent.end(call, "end_turn");
    let said = end.iter().find_map(|kind| match kind {
        ProviderEventKind::ItemClosed {
            content: ItemContent::UserMessage { text, .. },
            ..
        } => Some(text.len()),
        _ => None,
    });
    assert!(said.is_some_and(|bytes| bytes <= 256 * 1024), "{said:?}");
}

/// All frames of the agents.
fn frames() -> &'static Vec<Value> {
    static FRAMES: OnceLock<Vec<Value>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        [
            "copilot",
            "hermes-acp",
            "codex-acp",
            "qwen-code",
            "gemini-cli",
        ]
        .iter()
        .flat_map(|agent| names_of(agent).into_iter().map(move |name| (agent, name)))
        .flat_map(|(agent, name)| load_of(agent, &name))
        .filter(|record| record.dir == "s2c")
        .map(|record| record.frame)
        .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_of_recorded_frames_makes_the_codec_panic(
        picks in proptest::collection::vec((any::<prop::sample::Index>(), proptest::collection::vec(any::<u8>(), 1..7), anything()), 1..40)
    ) {
        let mut codec = Codec::new("life");
        let session = NativeId::from("s");
        codec.register(1, Call::Initialize { version: String::new() });
        codec.register(2, Call::New { cwd: "/".into(), mcp: Vec::new() });
        codec.register(3, Call::Prompt { session: session.clone(), turn: "t".into(), text: String::new() });
        codec.register(4, Call::Load { session, cwd: "/".into(), mcp: Vec::new() });
        for (pick, walk, with) in picks {
            let mut frame = frames()[pick.index(frames().len())].clone();
            mutate(&mut frame, &walk, &with);
            for one in codec.receive(&line(&frame)) {
                if let Received::Event(event) = one
                    && let ProviderEventKind::Unknown { label, raw } = event.kind
                {
                    prop_assert!(label.len() <= 200 && raw.len() <= RAW_LIMIT);
                }
            }
        }
        prop_assert!(codec.held_bytes() <= HELD);
    }
}
