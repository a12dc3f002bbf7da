//! Bytes that no Claude Code would send: bounded memory, a clean state, a message.

use crate::{
    fuzz::{anything, line, mutate},
    replay::{load_of, names_of},
    stage::Stage,
    support::assert_cut_short,
};
use pilothouse_domain::{
    Answer, NativeId, ProviderEvent, ProviderEventKind, limits,
    provider_event::{NativePlace, Resolution},
    request::{LostReason, OptionEffect, RequestKind},
};
use pilothouse_providers::claude::{
    Call, CallError, Codec, FRAME_LIMIT, RAW_LIMIT, Received, Reply, profile,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// What the codec may hold whatever comes: a line that is not whole yet, and what it remembers of tools.
const HELD: usize = 2 * FRAME_LIMIT + 1024 * 1024;

/// A codec in a turn.
pub(crate) struct Agent {
    codec: Codec,
    sent: Vec<Value>,
}

impl Agent {
    pub(crate) fn new() -> Self {
        let mut agent = Self {
            codec: Codec::serving("life", "s".into()),
            sent: Vec::new(),
        };
        agent.prompt("u1");
        agent.lifecycle("u1", "started");
        assert!(agent.codec.active_turn().is_some());
        agent
    }

    fn prompt(&mut self, id: &str) -> u64 {
        let call = Call::Prompt {
            turn: Some(id.into()),
            client_id: "c".to_owned(),
            content: Vec::new(),
        };
        self.codec.call(call).0
    }

    fn lifecycle(&mut self, id: &str, state: &str) -> Vec<Received> {
        self.receive(&json!({"type": "command_lifecycle", "command_uuid": id, "state": state}))
    }

    pub(crate) fn receive(&mut self, frame: &Value) -> Vec<Received> {
        let received = self.codec.receive(&line(frame));
        for one in &received {
            if let Received::Send(bytes) = one {
                self.sent.push(serde_json::from_slice(bytes).unwrap());
            }
        }
        received
    }

    pub(crate) fn tell(&mut self, frame: &Value) -> Vec<ProviderEventKind> {
        kinds(self.receive(frame))
    }

    pub(crate) fn ask(&mut self, id: &str, command: &str) -> Vec<ProviderEventKind> {
        self.tell(&permission(id, command))
    }
}

fn kinds(received: Vec<Received>) -> Vec<ProviderEventKind> {
    received
        .into_iter()
        .filter_map(|one| match one {
            Received::Event(event) => Some(event.kind),
            _ => None,
        })
        .collect()
}

fn permission(id: &str, command: &str) -> Value {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": "can_use_tool",
        "tool_name": "Bash", "input": {"command": command}, "tool_use_id": "t"}})
}

fn tool_use(message: &str, id: &str, input: Value) -> Value {
    json!({"type": "assistant", "message": {"id": message, "content":
        [{"type": "tool_use", "id": id, "name": "Write", "input": input}]}})
}

#[test]
fn a_line_of_a_hundred_megabytes_is_skipped_in_bounded_memory_and_the_next_frame_is_read() {
    let mut agent = Agent::new();
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
    assert_eq!(agent.ask("k", "ls").len(), 1);
}

/// Feeds a line piece by piece; the memory that the codec holds meanwhile is bounded.
fn receive_long(agent: &mut Agent, line: &str) -> Vec<Received> {
    let mut received = Vec::new();
    for piece in line.as_bytes().chunks(1024 * 1024) {
        received.extend(agent.codec.receive(piece));
        assert!(agent.codec.held_bytes() <= FRAME_LIMIT + 64 * 1024);
    }
    received
}

#[test]
fn a_request_that_is_too_long_to_be_read_is_refused_and_said_if_it_begins_with_its_id() {
    let long = "x".repeat(FRAME_LIMIT);
    let ask = |head: &str, tail: &str| {
        format!(
            "{{{head}\"request\":{{\"subtype\":\"can_use_tool\",\"tool_name\":\"Write\",\"input\":{{\"content\":\"{long}\"}},\"tool_use_id\":\"t\"}}{tail}}}\n"
        )
    };
    let mut agent = Agent::new();
    for head in [
        r#""type":"control_request","request_id":"k","#,
        r#" "request_id" : "k" , "type" : "control_request" , "#,
    ] {
        let received = receive_long(&mut agent, &ask(head, ""));
        let [
            Received::Event(frame),
            Received::Send(refusal),
            Received::Event(notice),
        ] = &received[..]
        else {
            panic!("{received:?}")
        };
        assert!(
            matches!(&frame.kind, ProviderEventKind::Unknown { label, .. } if label.starts_with("frame of"))
        );
        let refusal: Value = serde_json::from_slice(refusal).unwrap();
        let said = &refusal["response"];
        assert_eq!(
            (&said["subtype"], &said["request_id"]),
            (&json!("error"), &json!("k"))
        );
        assert!(said["error"].as_str().unwrap().contains("too long"));
        assert!(
            matches!(&notice.kind, ProviderEventKind::Unknown { label, raw } if label == "notice (warning)" && raw.contains("too long")),
            "{notice:?}"
        );
    }
    // What does not begin with an id, or with one that can be told from every other, is only shown; so is what is no request.
    let endless = format!(
        r#""type":"control_request","request_id":"{}","#,
        "k".repeat(1000)
    );
    for line in [
        ask(r#""type":"control_request","#, r#","request_id":"k""#),
        ask(&endless, ""),
        ask(r#""type":"assistant","request_id":"k","#, ""),
        ask(r#""type":"control_request","request_id":7,"#, ""),
    ] {
        let received = receive_long(&mut agent, &line);
        assert!(
            matches!(&received[..], [Received::Event(event)] if matches!(event.kind, ProviderEventKind::Unknown { .. })),
            "{received:?}"
        );
    }
    assert_eq!(agent.codec.pending_requests().count(), 0);
    assert_eq!(agent.ask("next", "ls").len(), 1);
}

#[test]
fn deep_nesting_broken_text_and_lone_surrogates_are_told_and_the_next_frame_is_read() {
    let mut agent = Agent::new();
    let deep = format!(
        "{{\"type\":\"user\",\"message\":{}{}}}\n",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let told = agent.codec.receive(deep.as_bytes());
    assert!(
        matches!(&told[..], [Received::Event(event)] if matches!(event.kind, ProviderEventKind::Unknown { .. }))
    );
    agent.tell(&json!({"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m"}}}));
    let broken = b"{\"type\":\"stream_event\",\"event\":{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\xff\\ud800b\\u001b[2J\"}}}\n";
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
    let mut opened = 0;
    for id in 0..100_000 {
        let kinds = agent.ask(&format!("r{id}"), "ls");
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
    let refused = |line: &Value| line["response"]["subtype"] == "error";
    assert!(agent.sent.iter().all(refused));
}

#[test]
fn what_is_kept_to_be_sent_back_counts_among_the_bytes_of_what_waits() {
    let mut agent = Agent::new();
    let words = "x".repeat(2 * 1024 * 1024);
    let mut asked = permission("r", "ls");
    // Each suggestion is an option, and the agent wants it back as it wrote it.
    asked["request"]["permission_suggestions"] = json!([{"type": "addRules", "behavior": "allow", "destination": "session",
        "rules": [{"toolName": "Bash", "ruleContent": words}]}]);
    for id in 0..64 {
        asked["request_id"] = json!(format!("r{id}"));
        agent.tell(&asked);
    }
    let waiting = agent.codec.pending_requests().count();
    assert!((1..=8).contains(&waiting), "{waiting} of 2 MiB each wait");
    assert_eq!(agent.sent.len(), 64 - waiting, "the others were refused");
}

#[test]
fn a_conversation_that_is_called_otherwise_stays_the_one_that_it_was_and_that_is_told_once() {
    let mut agent = Agent::new();
    let mut named = permission("k", "ls");
    named["session_id"] = json!("another");
    let received = agent.receive(&named);
    let places: Vec<_> = received
        .iter()
        .filter_map(|one| match one {
            Received::Event(event) => event.place.home(),
            _ => None,
        })
        .collect();
    assert!(
        !places.is_empty() && places.iter().all(|home| home.as_str() == "s"),
        "{received:#?}"
    );
    let told = kinds(received);
    let [
        ProviderEventKind::Diagnostic { message },
        ProviderEventKind::RequestOpened { .. },
    ] = &told[..]
    else {
        panic!("{told:#?}")
    };
    assert!(message.contains("another"), "{message}");
    named["request_id"] = json!("l");
    let again = agent.tell(&named);
    assert!(
        matches!(&again[..], [ProviderEventKind::RequestOpened { .. }]),
        "{again:#?}"
    );
}

#[test]
fn a_command_that_is_cut_short_is_never_taken_for_the_whole_of_it() {
    let mut agent = Agent::new();
    let told = agent.ask("k", &format!("{}; rm -rf /", "ls ".repeat(300_000)));
    assert_cut_short(&told);
}

#[test]
fn ids_that_repeat_or_lie_are_never_taken_for_another() {
    let mut agent = Agent::new();
    agent.ask("k", "ls");
    // The same again is the same; another thing under the same id is another request.
    assert!(matches!(
        &agent.ask("k", "ls")[..],
        [ProviderEventKind::RequestOpened { .. }]
    ));
    assert!(matches!(
        &agent.ask("k", "rm -rf /")[..],
        [
            ProviderEventKind::RequestClosed {
                resolution: Resolution::Withdrawn,
                ..
            },
            ProviderEventKind::RequestOpened { .. }
        ]
    ));
    // Answers to calls that nobody made change nothing, nor do receipts of answers that were never given.
    for id in [json!("k"), json!("pilothouse-999"), json!(7), json!(null)] {
        let frame = json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": {}}});
        assert!(matches!(
            &agent.tell(&frame)[..],
            [ProviderEventKind::Diagnostic { .. } | ProviderEventKind::Unknown { .. }]
        ));
    }
    assert_eq!(agent.codec.pending_requests().count(), 1);
    // A turn that is over twice is over once.
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed"});
    let ends = |kinds: &[ProviderEventKind]| {
        let ended = |kind: &&ProviderEventKind| matches!(kind, ProviderEventKind::TurnEnded { .. });
        kinds.iter().filter(ended).count()
    };
    assert_eq!(ends(&agent.tell(&result)), 1);
    assert_eq!(ends(&agent.tell(&result)), 0);
    // Nor does it refuse a message that is on its way, even as a failure.
    let call = agent.prompt("u2");
    let failed = json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "errors": ["late"]});
    let told = agent.receive(&failed);
    assert!(
        told.iter()
            .all(|one| !matches!(one, Received::Reply { .. })),
        "{told:?}"
    );
    assert!(!agent.codec.is_busy());
    let begun = agent.lifecycle("u2", "started");
    assert!(
        begun
            .iter()
            .any(|one| matches!(one, Received::Reply { call: to, reply: Ok(_) } if *to == call)),
        "{begun:?}"
    );
    agent.tell(&result);
    assert!(!agent.codec.is_busy());
    assert_eq!(agent.codec.pending_requests().count(), 0);
    // What is taken back without having been asked is nothing.
    let frame = json!({"type": "control_cancel_request", "request_id": "never"});
    assert!(agent.receive(&frame).is_empty());
    // Receipts of messages that nobody sent begin nothing.
    agent.lifecycle("stranger", "queued");
    agent.lifecycle("stranger", "started");
    assert_eq!(agent.codec.active_turn(), None);
}

#[test]
fn a_message_that_meets_a_turn_is_taken_back_and_one_that_was_put_into_it_is_told_so() {
    let mut agent = Agent::new();
    let second = agent.prompt("u2");
    agent.lifecycle("u2", "queued");
    let [cancel] = &agent.sent[..] else {
        panic!("{:?}", agent.sent)
    };
    assert_eq!(cancel["request"]["subtype"], "cancel_async_message");
    assert_eq!(cancel["request"]["message_uuid"], "u2");
    let id = cancel["request_id"].clone();
    let taken_back = json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": {"cancelled": true}}});
    let received = agent.receive(&taken_back);
    assert!(received.contains(&Received::Reply {
        call: second,
        reply: Err(CallError::Busy),
    }));
    // Too late: the agent had put it into its turn.
    let third = agent.prompt("u3");
    agent.lifecycle("u3", "queued");
    let received = agent.lifecycle("u3", "started");
    assert!(received.contains(&Received::Reply {
        call: third,
        reply: Ok(Reply::Steered { turn: "u1".into() }),
    }));
    assert_eq!(agent.codec.active_turn(), Some(&"u1".into()));
}

#[test]
fn case_14_a_dialog_that_nobody_knows_is_a_request_and_can_be_dismissed() {
    let dialogs = [
        json!({"subtype": "request_user_dialog", "dialog_kind": "usage_limit", "payload": {"x": 1}}),
        json!({"subtype": "something_newer", "what": "ever"}),
    ];
    for (at, dialog) in dialogs.iter().enumerate() {
        let mut agent = Agent::new();
        let told =
            agent.tell(&json!({"type": "control_request", "request_id": "d", "request": dialog}));
        let [
            ProviderEventKind::RequestOpened {
                request,
                kind,
                subject,
                unknown_fields,
                ..
            },
        ] = &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!(*kind, RequestKind::Unknown);
        assert!(*unknown_fields && subject.incomplete);
        let [option] = &subject.options[..] else {
            panic!("{subject:?}")
        };
        assert_eq!(option.effect, OptionEffect::Deny);
        let answer = Answer::Choose {
            option: option.id.clone(),
            note: None,
        };
        let sent: Value =
            serde_json::from_slice(&agent.codec.answer(request, &answer).unwrap()).unwrap();
        let response = &sent["response"];
        assert_eq!(response["request_id"], "d");
        if at == 0 {
            assert_eq!(response["response"]["behavior"], "cancelled");
        } else {
            assert_eq!(response["subtype"], "error");
        }
    }
}

#[test]
fn each_request_is_opened_or_answered_even_when_its_fields_are_missing() {
    let subtypes = [
        "can_use_tool",
        "elicitation",
        "request_user_dialog",
        "hook_callback",
        "mcp_message",
        "oauth_token_refresh",
        "something_newer",
    ];
    let bodies = [
        json!({}),
        json!({"tool_name": 5, "input": 7}),
        json!({"tool_name": "Bash", "input": {"command": [1]}, "permission_suggestions": {}}),
        json!({"tool_name": "AskUserQuestion", "input": {"questions": [{}, 5, {"question": ""}, {"question": "q", "options": [7, {}]}]}}),
        json!({"tool_name": "ExitPlanMode", "input": {}, "tool_use_id": 5}),
        json!({"tool_name": "Edit", "input": {"file_path": "/a", "old_string": 5}, "agent_id": "nobody"}),
        json!({"mode": "form", "requested_schema": {"properties": {"a": 7}}}),
        json!({"mode": "url", "url": 5}),
        json!({"mode": "dream", "agent_id": ""}),
    ];
    for subtype in subtypes {
        for (number, body) in bodies.iter().enumerate() {
            let mut agent = Agent::new();
            let mut request = body.clone();
            request["subtype"] = json!(subtype);
            let frame = json!({"type": "control_request", "request_id": "x", "request": request});
            let told = agent.tell(&frame);
            let opened = agent.codec.pending_requests().count();
            assert_eq!(
                agent.sent.len() + opened,
                1,
                "{subtype} with body {number}: {told:?}"
            );
            let same = |answer: &Value| answer["response"]["request_id"] == "x";
            assert!(agent.sent.iter().all(same));
            assert!(!told.is_empty(), "{subtype} is never silent");
        }
    }
}

#[test]
fn tools_words_and_subagents_without_end_are_held_in_bounded_memory() {
    let mut agent = Agent::new();
    let body = "z".repeat(100 * 1024);
    for number in 0..600 {
        let id = format!("t{number}");
        agent.tell(&tool_use(
            &id,
            &id,
            json!({"file_path": "/a", "content": body}),
        ));
        agent.tell(&json!({"type": "system", "subtype": "task_started", "task_id": id, "tool_use_id": id, "description": body, "task_type": "local_agent"}));
        agent.tell(&json!({"type": "stream_event", "event": {"type": "message_start", "message": {"id": body}}}));
        agent.tell(&json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": number, "delta": {"type": "text_delta", "text": body}}}));
        agent.ask(&id, &body);
        agent.prompt(&format!("p{number}"));
        assert!(agent.codec.held_bytes() <= HELD, "after {number}");
    }
}

#[test]
fn a_stream_that_was_cut_anywhere_leaves_a_thread_with_nothing_open() {
    let frames = [
        json!({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w"}),
        json!({"type": "stream_event", "session_id": "s", "event": {"type": "message_start", "message": {"id": "m"}}}),
        json!({"type": "stream_event", "session_id": "s", "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}}),
        tool_use("m", "t", json!({"file_path": "/a", "content": "x"})),
        json!({"type": "system", "subtype": "task_started", "task_id": "a", "tool_use_id": "t", "description": "d", "task_type": "local_agent"}),
        permission("k", "ls"),
    ];
    let bytes: Vec<u8> = frames.iter().flat_map(line).collect();
    for at in 0..=bytes.len() {
        let mut codec = Codec::new("life");
        let mut stage = Stage::new("claude", profile::capabilities());
        let received = codec
            .receive(&bytes[..at])
            .into_iter()
            .chain(codec.finish());
        for one in received {
            if let Received::Event(event) = one {
                stage.event(&event);
            }
        }
        stage.event(&ProviderEvent {
            place: NativePlace::default(),
            kind: ProviderEventKind::SessionEnded {
                reason: LostReason::AgentExited,
                detail: String::new(),
            },
        });
        let left = stage.left_open_after_loss();
        assert!(left.is_empty(), "cut at {at}: {left:?}");
    }
}

/// All frames of the agent.
fn frames() -> &'static Vec<Value> {
    static FRAMES: OnceLock<Vec<Value>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        names_of("claude")
            .into_iter()
            .flat_map(|name| load_of("claude", &name))
            .filter(|record| record.dir == "s2c")
            .map(|record| record.frame)
            .filter(|frame| frame.to_string().len() < 16 * 1024)
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_of_recorded_frames_makes_the_codec_panic_or_the_thread_unsound(
        picks in proptest::collection::vec((any::<prop::sample::Index>(), proptest::collection::vec(any::<u8>(), 1..7), anything()), 1..40)
    ) {
        let mut codec = Codec::new("life");
        let mut stage = Stage::new("claude", profile::capabilities());
        codec.call(Call::Initialize);
        codec.call(Call::Prompt { turn: None, client_id: String::new(), content: Vec::new() });
        codec.call(Call::Interrupt);
        for (pick, walk, with) in picks {
            let mut frame = frames()[pick.index(frames().len())].clone();
            mutate(&mut frame, &walk, &with);
            for one in codec.receive(&line(&frame)) {
                if let Received::Event(event) = one {
                    if let ProviderEventKind::Unknown { label, raw } = &event.kind {
                        prop_assert!(label.len() <= 200 && raw.len() <= RAW_LIMIT);
                    }
                    stage.event(&event);
                }
            }
            let waiting: Vec<NativeId> = codec.pending_requests().cloned().collect();
            for request in waiting {
                for option in ["allow", "deny", "dismiss", "session/0"] {
                    let answer = Answer::Choose { option: option.into(), note: Some("no".to_owned()) };
                    let _ = codec.clone().answer(&request, &answer);
                }
            }
        }
        prop_assert!(codec.held_bytes() <= HELD);
        let left = stage.left_open_after_loss();
        prop_assert!(left.is_empty(), "{left:?}");
    }
}
