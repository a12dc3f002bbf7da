//! Bytes that no pi would send: bounded memory, a clean state, a message.

use crate::{
    fuzz::{anything, line, mutate},
    replay::{load_of, names_of},
    support::assert_cut_short,
};
use pilothouse_domain::{
    Answer, ItemContent, NativeId, ProviderEvent, ProviderEventKind, limits, provider::TurnStatus,
    provider_event::Resolution,
};
use pilothouse_providers::pi::{Call, CallError, Codec, FRAME_LIMIT, RAW_LIMIT, Received, Reply};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// What the codec may hold whatever comes: a line that is not whole yet, what it remembers of tools, messages on their way.
const HELD: usize = 2 * FRAME_LIMIT + 2 * 1024 * 1024;

/// A codec in whose turn something can happen.
struct Agent {
    codec: Codec,
    /// What was written back at once.
    sent: Vec<Value>,
}

impl Agent {
    fn new() -> Self {
        let mut agent = Self {
            codec: Codec::new("life"),
            sent: Vec::new(),
        };
        let (state, _) = agent.codec.call(Call::State);
        agent.answer(state, &json!({"sessionFile": "/s.jsonl", "sessionId": "s"}));
        agent
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<Received> {
        let received = self.codec.receive(bytes);
        for one in &received {
            if let Received::Send(bytes) = one {
                self.sent.push(serde_json::from_slice(bytes).unwrap());
            }
        }
        received
    }

    fn receive(&mut self, frame: &Value) -> Vec<ProviderEventKind> {
        kinds(self.take(&line(frame)))
    }

    fn answer(&mut self, call: u64, data: &Value) -> Vec<ProviderEventKind> {
        self.receive(&json!({"id": format!("r{call}"), "type": "response", "command": "x", "success": true, "data": data}))
    }

    /// A turn that has begun, with its call.
    fn turn(&mut self) -> NativeId {
        let (call, _) = self.codec.call(Call::Prompt {
            client_id: "c".to_owned(),
            text: "go".to_owned(),
            pictures: Vec::new(),
        });
        self.answer(call, &json!({"disposition": "started"}));
        self.receive(&json!({"type": "agent_start"}));
        self.receive(&json!({"type": "message_start", "message": {"role": "user", "content": "go", "timestamp": 1}}));
        self.codec.active_turn().cloned().expect("it goes on")
    }

    fn words(&mut self, text: &str) -> Vec<ProviderEventKind> {
        self.receive(&json!({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": text}}))
    }

    fn ask(&mut self, id: &Value, command: &str) -> Vec<ProviderEventKind> {
        let asked =
            json!({"tool": "bash", "call": "c1", "input": {"command": command}, "cwd": "/w"});
        self.receive(&json!({"type": "extension_ui_request", "id": id, "method": "input", "title": "pilothouse-gate", "placeholder": asked.to_string()}))
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

#[test]
fn a_line_of_a_hundred_megabytes_is_skipped_in_bounded_memory_and_the_next_frame_is_read() {
    let mut agent = Agent::new();
    agent.turn();
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..100 {
        assert!(agent.codec.receive(&piece).is_empty());
        assert!(agent.codec.held_bytes() <= FRAME_LIMIT + 64 * 1024);
    }
    let end = kinds(agent.codec.receive(b"\n"));
    assert!(
        matches!(&end[..], [ProviderEventKind::Unknown { label, raw }] if label.contains("104857600") && raw.len() <= RAW_LIMIT),
        "{end:?}"
    );
    assert_eq!(agent.words("here").len(), 1);
}

#[test]
fn a_frame_that_is_too_long_leaves_nobody_waiting() {
    let long = "y".repeat(FRAME_LIMIT);
    let mut agent = Agent::new();
    agent.turn();
    let asked = format!(
        "{{\"type\":\"extension_ui_request\",\"id\":\"k\",\"method\":\"select\",\"title\":\"{long}\"}}\n"
    );
    agent.take(asked.as_bytes());
    assert_eq!(
        agent.sent,
        [json!({"type": "extension_ui_response", "id": "k", "cancelled": true})]
    );
    let (call, _) = agent.codec.call(Call::Entries);
    let answered = format!("{{\"id\":\"r{call}\",\"type\":\"response\",\"data\":\"{long}\"}}\n");
    let received = agent.take(answered.as_bytes());
    assert!(received.contains(&Received::Reply {
        call,
        reply: Err(CallError::Unreadable {
            method: "get_entries".to_owned()
        }),
    }));
}

#[test]
fn deep_nesting_broken_text_and_lone_surrogates_are_told_and_the_next_frame_is_read() {
    let mut agent = Agent::new();
    agent.turn();
    let deep = format!(
        "{{\"type\":\"message_update\",\"x\":{}{}}}\n",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let told = kinds(agent.take(deep.as_bytes()));
    assert!(
        matches!(&told[..], [ProviderEventKind::Unknown { .. }]),
        "{told:?}"
    );
    let broken = b"{\"type\":\"message_update\",\"assistantMessageEvent\":{\"type\":\"text_delta\",\"contentIndex\":0,\"delta\":\"a\xff\\ud800b\\u001b[2J\"}}\n";
    let told = kinds(agent.take(broken));
    let [ProviderEventKind::ItemAppended { text, .. }] = &told[..] else {
        panic!("{told:?}")
    };
    // Terminal escapes are kept as they came; whoever shows them hides them.
    assert_eq!(text, "a\u{fffd}\u{fffd}b\u{1b}[2J");
}

#[test]
fn a_hundred_thousand_requests_are_dismissed_beyond_a_bound_and_each_is_answered() {
    let mut agent = Agent::new();
    agent.turn();
    let mut opened = 0;
    for id in 0..100_000 {
        let told = agent.ask(&json!(format!("q{id}")), "ls");
        opened += told
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
    assert!(agent.sent.iter().all(|line| line["cancelled"] == true));
    // The end of the turn answers the others.
    let end = agent.receive(&json!({"type": "agent_settled"}));
    assert_eq!(agent.sent.len(), 100_000);
    assert_eq!(agent.codec.pending_requests().count(), 0);
    assert!(matches!(
        end.last(),
        Some(ProviderEventKind::TurnEnded { .. })
    ));
}

#[test]
fn a_command_that_is_cut_short_is_never_taken_for_the_whole_of_it() {
    let mut agent = Agent::new();
    let told = agent.ask(&json!("k"), &format!("{}; rm -rf /", "ls ".repeat(300_000)));
    assert_cut_short(&told);
}

#[test]
fn ids_that_repeat_or_lie_are_never_taken_for_another() {
    let mut agent = Agent::new();
    agent.turn();
    let first = agent.ask(&json!("a"), "ls");
    let Some(ProviderEventKind::RequestOpened {
        request,
        subject,
        kind,
        ..
    }) = first.first().cloned()
    else {
        panic!("{first:?}")
    };
    let other = agent.ask(&json!("a"), "rm -rf /");
    assert!(
        other.iter().any(|kind| matches!(
            kind,
            ProviderEventKind::RequestClosed {
                resolution: Resolution::Withdrawn,
                ..
            }
        )),
        "{other:?}"
    );
    let home = agent.codec.home().cloned().unwrap();
    assert!(
        !agent.codec.is_same_request(&request, &home, kind, &subject),
        "the answer to the first is not the second's"
    );
    // A text is no number, and answers that nobody waits for change nothing.
    agent.ask(&json!(1), "pwd");
    agent.ask(&json!("1"), "pwd");
    assert_eq!(agent.codec.pending_requests().count(), 3);
    for id in [
        json!("r999"),
        json!("1"),
        json!(1),
        json!(null),
        json!("r-1"),
        json!("r1e9"),
        json!({}),
    ] {
        let told = agent.receive(&json!({"id": id, "type": "response", "command": "prompt", "success": false, "error": "no"}));
        assert!(
            matches!(&told[..], [ProviderEventKind::Diagnostic { .. }]),
            "{told:?}"
        );
    }
    assert!(agent.codec.active_turn().is_some());
    // Ended twice is ended once.
    agent.receive(&json!({"type": "agent_settled"}));
    assert!(agent.receive(&json!({"type": "agent_settled"})).is_empty());
    assert!(
        agent
            .receive(&json!({"type": "agent_end", "isTerminal": true}))
            .is_empty()
    );
}

/// omp takes a prompt and then takes that back, under the same id.
#[test]
fn a_prompt_that_was_taken_and_then_refused_is_refused() {
    let mut agent = Agent::new();
    let (call, _) = agent.codec.call(Call::Prompt {
        client_id: "c".to_owned(),
        text: "go".to_owned(),
        pictures: Vec::new(),
    });
    let taken =
        json!({"id": format!("r{call}"), "type": "response", "command": "prompt", "success": true});
    assert!(agent.take(&line(&taken)).is_empty());
    assert!(agent.codec.is_busy());
    let refused = json!({"id": format!("r{call}"), "type": "response", "command": "prompt", "success": false, "error": "Agent is already processing. Use steer()"});
    let received = agent.take(&line(&refused));
    assert!(
        matches!(
            &received[..],
            [Received::Reply {
                reply: Err(CallError::Busy { .. }),
                ..
            }]
        ),
        "{received:?}"
    );
    assert!(!agent.codec.is_busy());
}

#[test]
fn each_dialog_is_opened_or_dismissed_even_when_its_fields_are_missing() {
    let bodies = [
        json!({}),
        json!({"title": 5, "options": {}, "message": [], "placeholder": 7, "prefill": null}),
        json!({"title": "pilothouse-gate", "placeholder": "not json"}),
        json!({"title": "pilothouse-gate", "placeholder": "{\"tool\":\"bash\"}"}),
        json!({"title": "pilothouse-gate", "placeholder": "{\"tool\":\"edit\",\"input\":{\"path\":5}}"}),
        json!({"title": "Allow tool: bash\nCommand: x", "options": ["Approve", "Deny"]}),
        json!({"title": "Allow tool: ", "options": ["Approve", "Deny"]}),
        json!({"title": "t", "options": [1, null, {"label": "x"}, "y"], "timeout": -1}),
    ];
    for method in ["select", "confirm", "input", "editor", "somethingNewer"] {
        for (number, body) in bodies.iter().enumerate() {
            let mut agent = Agent::new();
            agent.turn();
            let mut frame = body.clone();
            frame["type"] = "extension_ui_request".into();
            frame["method"] = method.into();
            frame["id"] = "x".into();
            let told = agent.receive(&frame);
            let opened = agent.codec.pending_requests().count();
            assert_eq!(
                agent.sent.len() + opened,
                1,
                "{method} with body {number}: {told:?}"
            );
            assert!(!told.is_empty(), "{method} is never silent");
            for kind in told {
                if let ProviderEventKind::RequestOpened {
                    request, subject, ..
                } = kind
                {
                    let whole = !subject.incomplete || method == "select" || method == "input";
                    assert!(whole, "{method} with body {number}: {subject:?}");
                    let line = agent.codec.answer(
                        &request,
                        &Answer::Choose {
                            option: subject.options.last().unwrap().id.clone(),
                            note: None,
                        },
                    );
                    assert!(line.is_ok(), "{method} with body {number} can be put away");
                }
            }
        }
    }
}

/// omp's own question names the command alone: what else it runs with is shown beside it.
#[test]
fn what_omp_asks_for_is_shown_with_all_that_the_call_says() {
    let ask = |name: &str, arguments: Value, title: &str| {
        let mut agent = Agent::new();
        agent.turn();
        let call = json!({"type": "toolCall", "id": "c1", "name": name, "arguments": arguments});
        agent.receive(&json!({"type": "message_end", "message": {"role": "assistant", "content": [call], "stopReason": "toolUse", "timestamp": 2}}));
        let told = agent.receive(&json!({"type": "extension_ui_request", "id": "q", "method": "select", "title": title, "options": ["Approve", "Deny"]}));
        told.into_iter()
            .find_map(|kind| match kind {
                ProviderEventKind::RequestOpened { subject, .. } => Some(*subject),
                _ => None,
            })
            .expect("it is asked")
    };
    let title = "Allow tool: bash\nCommand: make clean";
    let plain = ask("bash", json!({"command": "make clean"}), title);
    assert_eq!((plain.cwd, plain.text), (None, None));
    let whole = ask(
        "bash",
        json!({"command": "make clean", "cwd": "/srv/prod", "env": {"DESTDIR": "/"}}),
        title,
    );
    assert_eq!(whole.command.as_deref(), Some("make clean"));
    assert_eq!(whole.cwd.as_deref(), Some("/srv/prod"));
    let text = whole.text.expect("what is left is shown");
    assert!(
        text.contains("DESTDIR") && !text.contains("/srv/prod"),
        "{text}"
    );
    let change = ask(
        "write",
        json!({"path": "/a", "content": "b", "mode": "0777"}),
        "Allow tool: write\nPath: /a",
    );
    assert_eq!(change.changes.len(), 1);
    let text = change.text.expect("what is left is shown");
    assert!(text.contains("0777") && !text.contains("content"), "{text}");
}

#[test]
fn tools_messages_and_parts_without_end_are_held_in_bounded_memory() {
    let mut agent = Agent::new();
    agent.turn();
    let body = "z".repeat(100 * 1024);
    for number in 0..400 {
        let content: Vec<_> = (0..3)
            .map(|at| json!({"type": "toolCall", "id": format!("t{number}.{at}"), "name": "write", "arguments": {"path": "a", "content": body}}))
            .collect();
        agent.receive(&json!({"type": "message_end", "message": {"role": "assistant", "content": content, "timestamp": number}}));
        agent.receive(&json!({"type": "tool_execution_start", "toolCallId": format!("x{number}"), "toolName": body, "args": {"command": body}}));
        agent.receive(&json!({"type": "tool_execution_update", "toolCallId": format!("x{number}"), "partialResult": {"content": [{"type": "text", "text": body}]}}));
        agent.receive(&json!({"type": "compaction_start", "reason": "threshold"}));
        assert!(agent.codec.held_bytes() <= HELD, "after {number}");
    }
    for at in 0..10_000 {
        agent.receive(&json!({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": at, "delta": "x"}}));
        agent.receive(&json!({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": u64::MAX, "delta": "x"}}));
    }
    let end = agent.receive(&json!({"type": "agent_settled"}));
    assert!(end.len() < 3_000, "{}", end.len());
    assert!(matches!(
        end.last(),
        Some(ProviderEventKind::TurnEnded {
            status: TurnStatus::Completed,
            ..
        })
    ));
}

#[test]
fn words_after_the_end_begin_no_turn_and_words_without_a_beginning_have_an_item() {
    let mut agent = Agent::new();
    agent.turn();
    agent.receive(&json!({"type": "agent_settled"}));
    let late = agent.words("late");
    assert!(
        matches!(&late[..], [ProviderEventKind::ItemAppended { shape, .. }] if matches!(**shape, ItemContent::AssistantMessage { .. })),
        "{late:?}"
    );
    agent.receive(
        &json!({"type": "tool_execution_end", "toolCallId": "t", "toolName": "bash", "result": {}}),
    );
    assert_eq!(agent.codec.active_turn(), None);
}

#[test]
fn entries_whose_parents_go_round_in_a_circle_are_read_once() {
    let mut agent = Agent::new();
    let (call, _) = agent.codec.call(Call::Entries);
    let entry = |id: &str, parent: &str, time: u64| json!({"type": "message", "id": id, "parentId": parent, "message": {"role": "user", "content": id, "timestamp": time}});
    let data = json!({"leafId": "a", "entries": [entry("a", "b", 1), entry("b", "a", 2), entry("c", "c", 3), 5, null]});
    let frame =
        json!({"id": format!("r{call}"), "type": "response", "success": true, "data": data});
    let received = agent.take(&line(&frame));
    let [
        Received::Reply {
            reply: Ok(Reply::Entries(entries)),
            ..
        },
    ] = &received[..]
    else {
        panic!("{received:?}")
    };
    let told = entries.clone().last(100);
    let ends = |event: &&ProviderEvent| matches!(event.kind, ProviderEventKind::ItemClosed { .. });
    assert!(told.iter().filter(ends).count() <= 5);
}

/// All frames of the agents.
fn frames() -> &'static Vec<Value> {
    static FRAMES: OnceLock<Vec<Value>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        ["pi", "omp"]
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
        for call in [Call::State, Call::Prompt { client_id: "c".into(), text: "go".into(), pictures: Vec::new() }, Call::Entries, Call::Models, Call::Efforts, Call::ClearQueue] {
            codec.call(call);
        }
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
