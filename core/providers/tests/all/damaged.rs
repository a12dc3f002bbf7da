//! Recordings of real agents, damaged, split anywhere and put together anew, through the codec and on into a thread: what
//! comes out is always a thread that a device can follow, of bounded size.

use crate::{
    acp_codec::{Agent, permission, text},
    mutate::{Dice, rounds},
    replay::{load, names},
    thread::{follow, session, thread},
};
use pilothouse_providers::{
    acp,
    codex::{Call, Codec, FRAME_LIMIT, Received},
};
use serde_json::{Value, json};

#[test]
fn damaged_recordings_make_threads_that_can_be_followed() {
    let recordings: Vec<Vec<(Value, Vec<u8>)>> = names()
        .iter()
        .map(|name| {
            load(name)
                .into_iter()
                .filter(|record| record.dir == "s2c")
                .map(|record| (record.frame, record.line))
                .collect()
        })
        .filter(|frames: &Vec<_>| !frames.is_empty())
        .collect();
    assert!(
        recordings.len() > 20,
        "only {} recordings",
        recordings.len()
    );
    let session = session();
    let mut events = 0;
    rounds(150, |dice: &mut Dice| {
        let mut codec = Codec::new();
        let (mut thread, policy) = thread();
        let frames = dice.one(&recordings).clone();
        let others = dice.one(&recordings).clone();
        let parts: Vec<Value> = others.iter().map(|(frame, _)| frame.clone()).collect();
        let mut stream = Vec::new();
        for (frame, line) in frames.iter().take(200) {
            match dice.below(12) {
                0 => {
                    stream.extend(dice.changed(frame, &parts).to_string().into_bytes());
                    stream.push(b'\n');
                }
                1 => stream.extend(dice.damaged(line)),
                2 => stream.extend_from_slice(&dice.one(&others).1),
                3 => {
                    // Twice.
                    stream.extend_from_slice(line);
                    stream.extend_from_slice(line);
                }
                4 => {}
                _ => stream.extend_from_slice(line),
            }
        }
        let mut rest = &stream[..];
        let mut received = Vec::new();
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(1 + dice.below(rest.len().min(4096)));
            received.extend(codec.receive(piece));
            assert!(codec.held_bytes() <= FRAME_LIMIT);
            rest = more;
        }
        received.extend(codec.finish());
        for one in received {
            if let Received::Event(event) = one {
                thread.provider(&session, &event);
                events += 1;
            }
        }
        follow(&thread, policy);
    });
    assert!(events > 2000, "only {events} events came of it");
}

/// What an ACP agent may send in a conversation `s`.
fn acp_frames() -> Vec<Value> {
    let update = |update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}});
    let ask = |id: Value, call: &str| json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": permission(call, "make")});
    let tool = |update: &str, status: &str| {
        json!({"sessionUpdate": update, "toolCallId": "t", "title": "make", "kind": "execute", "status": status,
            "content": [{"type": "content", "content": {"type": "text", "text": "out"}},
                {"type": "diff", "path": "/a", "oldText": "x", "newText": "y"}],
            "rawInput": {"command": "make"}, "rawOutput": {"output": "out"}, "locations": [{"path": "/a", "line": 1}]})
    };
    vec![
        update(text("agent_message_chunk", "hello ")),
        update(text("agent_thought_chunk", "hm ")),
        update(text("user_message_chunk", "go")),
        update(tool("tool_call", "pending")),
        update(tool("tool_call_update", "in_progress")),
        update(tool("tool_call_update", "completed")),
        update(tool("tool_call_update", "failed")),
        update(
            json!({"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "pending"}]}),
        ),
        update(json!({"sessionUpdate": "available_commands_update", "availableCommands": []})),
        update(json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"})),
        update(json!({"sessionUpdate": "of_a_newer_version", "x": 1})),
        ask(json!(0), "t"),
        ask(json!("0"), "t"),
        ask(json!(7), "u"),
        json!({"jsonrpc": "2.0", "id": 9, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": "/a"}}),
        json!({"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}),
        json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32603, "message": "no"}}),
        json!({"jsonrpc": "2.0", "id": 99, "result": null}),
    ]
}

#[test]
fn damaged_frames_of_an_acp_agent_make_threads_that_can_be_followed() {
    let frames = acp_frames();
    let (mut events, session) = (0, session());
    rounds(300, |dice: &mut Dice| {
        let mut agent = Agent::new();
        let (mut thread, policy) = thread();
        let mut turn = None;
        for _ in 0..dice.below(60) {
            if turn.is_none() || dice.once_in(15) {
                let begun = agent.codec.prompt(&Agent::session(), "go".to_owned());
                turn = begun.map(|(turn, _)| turn).or(turn);
            }
            let frame = dice.one(&frames).clone();
            let line = match dice.below(4) {
                0 => dice.changed(&frame, &frames).to_string().into_bytes(),
                1 => dice.damaged(frame.to_string().as_bytes()),
                _ => frame.to_string().into_bytes(),
            };
            let at = dice.below(line.len() + 1);
            let mut received = agent.codec.receive(&line[..at]);
            received.extend(agent.codec.receive(&line[at..]));
            received.extend(agent.codec.receive(b"\n"));
            assert!(agent.codec.held_bytes() <= acp::FRAME_LIMIT);
            for one in received {
                if let acp::Received::Event(event) = one {
                    thread.provider(&session, &event);
                    events += 1;
                }
            }
        }
        for one in agent.codec.finish() {
            if let acp::Received::Event(event) = one {
                thread.provider(&session, &event);
            }
        }
        follow(&thread, policy);
    });
    assert!(events > 2000, "only {events} events came of it");
}

/// Both sides count from a small number: what a frame is says its method, never its number.
#[test]
fn a_request_under_the_number_of_a_call_of_ours_is_a_request_and_the_call_still_waits() {
    let mut codec = Codec::new();
    let (call, _) = codec.call(Call::ModelList);
    let params =
        json!({"threadId": "t", "turnId": "u", "itemId": "i", "command": "ls", "cwd": "/"});
    let method = "item/commandExecution/requestApproval";
    let ask = json!({"method": method, "id": call, "params": params});
    let is_reply = |one: &Received| matches!(one, Received::Reply { call: of, .. } if *of == call);
    let received = codec.receive(format!("{ask}\n").as_bytes());
    assert!(!received.iter().any(is_reply), "{received:?}");
    assert_eq!(codec.pending_requests().count(), 1);
    let answer = json!({"id": call, "result": {"data": []}});
    let received = codec.receive(format!("{answer}\n").as_bytes());
    assert!(received.iter().any(is_reply), "{received:?}");
    assert_eq!(codec.pending_requests().count(), 1);
}
