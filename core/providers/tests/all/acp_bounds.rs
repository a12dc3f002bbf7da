//! What is remembered of an ACP agent is bounded in bytes, and what had to go is said.

use crate::acp_codec::{Agent, permission, text};
use pilothouse_domain::{ItemContent, ItemStatus, NativeId, ProviderEventKind};
use pilothouse_providers::acp::{Codec, FRAME_LIMIT, Received};
use serde_json::json;
use std::process::Command;

/// KiB of address space of the process that is told huge names. All of one kind would not fit into it.
const ADDRESS_SPACE: usize = 320 * 1024;
/// Bytes of a huge name, and how many of each kind are told.
const HUGE: usize = 15 * 1024 * 1024;
const NAMES: usize = 24;
const _: () = assert!(HUGE * NAMES > ADDRESS_SPACE * 1024);

/// Set in the process that is started with that bound.
const BOUNDED: &str = "PILOTHOUSE_TEST_BOUNDED";

fn tell_huge_names() {
    let huge = "p".repeat(HUGE);
    let mut codec = Codec::new("life");
    for number in 0..NAMES {
        for (session, call, more) in [
            ("s", "a", format!("\"locations\":[{{\"path\":\"{huge}\"}}]")),
            ("s", "b", format!("\"rawInput\":{{\"cwd\":\"{huge}\"}}")),
            (&huge, "c", "\"title\":\"x\"".to_owned()),
        ] {
            let frame = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{session}{number}\",\"update\":{{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"{call}{number}\",{more}}}}}}}\n",
            );
            assert!(frame.len() < FRAME_LIMIT);
            drop(more);
            assert_eq!(codec.receive(frame.as_bytes()).len(), 1, "it is read");
        }
    }
    assert!(codec.held_bytes() < FRAME_LIMIT);
}

#[test]
fn huge_names_do_not_add_up_to_more_than_a_small_process_has() {
    if std::env::var_os(BOUNDED).is_some() {
        tell_huge_names();
        return;
    }
    let own = std::env::current_exe().unwrap();
    let name = "acp_bounds::huge_names_do_not_add_up_to_more_than_a_small_process_has";
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "ulimit -v {ADDRESS_SPACE}; exec \"$0\" --exact {name} --test-threads 1"
        ))
        .arg(own)
        .env(BOUNDED, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(told.contains("1 passed"), "{told}");
}

#[test]
fn no_number_of_other_conversations_makes_the_one_that_is_served_be_forgotten() {
    let mut agent = Agent::new();
    let (turn, _) = agent.prompt();
    for number in 0..2000 {
        let params =
            json!({"sessionId": format!("c{number}"), "update": text("agent_message_chunk", "x")});
        agent.receive(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }
    assert_eq!(agent.codec.active_turn(&Agent::session()), Some(&turn));
}

#[test]
fn a_tool_of_a_conversation_that_had_to_go_is_closed() {
    let mut agent = Agent::new();
    agent.prompt();
    let mut closed = 0;
    for number in 0..1000 {
        let tool = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"});
        let params = json!({"sessionId": format!("c{number}"), "update": tool});
        let frame = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        let told = agent.receive(&frame);
        let ends = told
            .iter()
            .filter(|event| matches!(event.kind, ProviderEventKind::ItemClosed { .. }));
        closed += ends.count();
    }
    assert_eq!(closed, 1000 - 256);
}

#[test]
fn tools_of_all_conversations_share_one_budget_and_what_had_to_go_is_closed() {
    let mut agent = Agent::new();
    agent.prompt();
    let body = "z".repeat(1024 * 1024);
    let (mut opened, mut closed, mut said) = (0, 0, 0);
    for number in 0..64 {
        let tool = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "kind": "edit",
            "content": [{"type": "diff", "path": "/a", "oldText": null, "newText": body}]});
        let params = json!({"sessionId": format!("c{number}"), "update": tool});
        let frame = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        for event in agent.receive(&frame) {
            match event.kind {
                ProviderEventKind::ItemOpened { .. } => opened += 1,
                ProviderEventKind::ItemClosed {
                    status: ItemStatus::Unfinished,
                    ..
                } => closed += 1,
                ProviderEventKind::Diagnostic { message } if message.contains("forgotten") => {
                    said += 1;
                }
                _ => {}
            }
        }
        assert!(agent.codec.held_bytes() <= 17 * 1024 * 1024);
    }
    assert_eq!(opened, 64);
    assert!(closed >= 64 - 16, "{closed}");
    assert!(said > 0);
}

#[test]
fn requests_wait_within_a_budget_of_bytes_and_each_is_answered_or_open() {
    let mut agent = Agent::new();
    agent.prompt();
    let command = "c".repeat(100 * 1024);
    for number in 0..500 {
        agent.ask(json!(number), permission("t", &command));
        assert!(agent.codec.held_bytes() <= 18 * 1024 * 1024);
    }
    let open = agent.codec.pending_requests().count();
    assert!((10..200).contains(&open), "{open}");
    assert_eq!(agent.sent.len(), 500 - open);
    // There is room again when one is answered.
    for request in agent.codec.pending_requests().cloned().collect::<Vec<_>>() {
        let frame = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request.as_str().parse::<u64>().unwrap()}});
        agent.receive(&frame);
    }
    assert!(agent.codec.held_bytes() < 1024 * 1024);
}

#[test]
fn a_subject_of_many_large_changes_is_cut_and_says_so() {
    let mut agent = Agent::new();
    agent.prompt();
    let body = "z\n".repeat(50 * 1024);
    let parts: Vec<_> = (0..40)
        .map(|number| json!({"type": "diff", "path": format!("/a{number}"), "newText": body}))
        .collect();
    let mut params = permission("t", "");
    params["toolCall"] = json!({"toolCallId": "t", "title": "x", "kind": "edit", "content": parts});
    let told = agent.ask(json!(1), params);
    let Some(ProviderEventKind::RequestOpened { subject, .. }) = told.last() else {
        panic!("nothing is asked")
    };
    assert!(subject.incomplete);
    assert_eq!(subject.changes.len(), 40, "each file is named");
    let shown: u64 = subject.changes.iter().map(|one| one.diff.len()).sum();
    assert!(shown <= 512 * 1024, "{shown}");
}

#[test]
fn words_between_two_turns_cost_no_more_than_a_few_times_their_length() {
    let mut agent = Agent::new();
    let (_, call) = agent.prompt();
    agent.end(call, "end_turn");
    let piece = "0123456789".repeat(10);
    let mut told = 0;
    for _ in 0..2000 {
        for kind in agent.update(text("agent_message_chunk", &piece)) {
            if let ProviderEventKind::ItemClosed {
                content: ItemContent::AssistantMessage { text },
                ..
            } = kind
            {
                told += text.len();
            }
        }
    }
    let length = 2000 * piece.len() as u64;
    assert!(told <= 8 * length, "{told} bytes for {length}");
    // The end of it is told before what comes next.
    agent.prompt();
    let end: Vec<_> = agent
        .codec
        .receive(b"{\"jsonrpc\":\"2.0\",\"method\":\"_x/y\",\"params\":{}}\n");
    let whole = end.iter().any(|one| {
        matches!(one, Received::Event(event) if matches!(&event.kind,
            ProviderEventKind::ItemClosed { content: ItemContent::AssistantMessage { text }, .. } if text.len() == length))
    });
    assert!(whole, "{:?}", end.len());
}

#[test]
fn a_conversation_of_a_subagent_is_forgotten_with_its_end() {
    let mut agent = Agent::new();
    agent.prompt();
    let child = |state: &str| json!({"sessionUpdate": "subagent_update", "sessionId": "child", "state": {"state": state}});
    agent.update(child("running"));
    let tool = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "kind": "edit",
        "content": [{"type": "diff", "path": "/a", "newText": "z".repeat(100_000)}]});
    let params = json!({"sessionId": "child", "update": tool});
    agent.receive(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    assert!(agent.codec.held_bytes() > 100_000);
    agent.update(child("idle"));
    assert!(agent.codec.held_bytes() < 16 * 1024);
    assert_eq!(agent.codec.active_turn(&NativeId::from("child")), None);
}
