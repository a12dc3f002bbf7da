//! Agents that speak ACP.

use crate::{MIB, fed, hold_to_the_budget, line, lines, long};
use pilothouse_providers::acp::{Call, Codec, Received};
use serde_json::{Value, json};
use std::ops::Range;

fed!(Codec, Received, Send);

/// A codec in a turn of a conversation `s`.
pub(crate) fn codec() -> Codec {
    let mut codec = Codec::new("life");
    codec.call(Call::Initialize {
        version: "1".to_owned(),
    });
    codec.call(Call::New {
        cwd: "/".into(),
        mcp: Vec::new(),
    });
    codec.receive(&line(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "agentCapabilities": {}}})));
    codec.receive(&line(
        &json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s"}}),
    ));
    codec.prompt(&"s".into(), "go".to_owned()).unwrap();
    codec
}

fn update(session: &str, update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

fn tool(call: &str, more: Value) -> Value {
    let mut tool = json!({"sessionUpdate": "tool_call", "toolCallId": call, "title": "x"});
    for (key, value) in more.as_object().unwrap() {
        tool[key] = value.clone();
    }
    tool
}

#[test]
fn tools_of_many_conversations_are_remembered_within_the_budget() {
    hold_to_the_budget(
        "acp: 320 conversations of 250 tools",
        codec,
        320,
        |number| {
            lines((0..250).map(|one| {
                let session = long(number, 400);
                update(
                    &session,
                    tool(&long(one, 400), json!({"rawInput": {"x": 1}})),
                )
            }))
        },
    );
    hold_to_the_budget("acp: diffs of 8 MiB", codec, 8, |number| {
        let diff = json!({"type": "diff", "path": "/a", "oldText": null, "newText": long(number, 8 * MIB)});
        line(&update(
            "s",
            tool(
                &format!("t{number}"),
                json!({"kind": "edit", "content": [diff]}),
            ),
        ))
    });
    hold_to_the_budget(
        "acp: 300 conversations that are set",
        codec,
        300,
        |number| {
            let values: Vec<Value> = (0..16)
                .map(|one| json!({"value": long(one, 1000), "name": "x"}))
                .collect();
            let options: Vec<Value> = (0..64).map(|one| json!({"id": long(one, 1000), "category": long(one, 1000), "type": "select", "currentValue": long(one, 1000), "options": values})).collect();
            line(&update(
                &format!("c{number}"),
                json!({"sessionUpdate": "config_option_update", "configOptions": options}),
            ))
        },
    );
}

fn ask(id: usize, command: String) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {"sessionId": "s",
            "toolCall": {"toolCallId": format!("t{id}"), "title": "x", "kind": "execute", "rawInput": {"command": command}},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}})
}

/// Requests with these numbers.
pub(crate) fn asks(numbers: Range<usize>) -> Vec<u8> {
    lines(numbers.map(|id| ask(id, long(id, 300))))
}

#[test]
fn requests_wait_within_the_budget() {
    hold_to_the_budget("acp: 100,000 requests", codec, 100, |number| {
        asks(number * 1000..(number + 1) * 1000)
    });
    hold_to_the_budget("acp: requests of 10 MiB", codec, 6, |number| {
        line(&ask(number, long(number, 10 * MIB)))
    });
    hold_to_the_budget("acp: a form of 5 MiB", codec, 6, |number| {
        let fields: Value = (0..50)
            .map(|one| {
                (
                    long(one, 50 * 1024),
                    json!({"type": "string", "enum": [long(one, 50 * 1024)]}),
                )
            })
            .collect();
        line(
            &json!({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": {"sessionId": "s", "mode": "form", "message": "x",
            "requestedSchema": {"type": "object", "properties": fields}}}),
        )
    });
}

#[test]
fn words_plans_and_names_are_remembered_within_the_budget() {
    hold_to_the_budget("acp: words in many conversations", codec, 60, |number| {
        lines((0..400).map(|one| {
            let session = long(number * 400 + one, 2000);
            update(&session, json!({"sessionUpdate": "user_message_chunk", "messageId": session, "content": {"type": "text", "text": "x"}}))
        }))
    });
    hold_to_the_budget(
        "acp: plans of 1 MiB in 200 conversations",
        codec,
        100,
        |number| {
            let entries: Vec<Value> = (0..500).map(|one| json!({"content": long(one, 2000), "priority": "high", "status": "pending"})).collect();
            line(&update(
                &format!("c{number}"),
                json!({"sessionUpdate": "plan", "entries": entries}),
            ))
        },
    );
    hold_to_the_budget("acp: names of 10 MiB", codec, 8, |number| {
        let text = long(number, 10 * MIB);
        line(&match number % 4 {
            0 => update(&text, tool("t", json!({}))),
            1 => update("s", tool(&text, json!({}))),
            2 => update("s", tool("t", json!({"locations": [{"path": text}]}))),
            _ => update(
                "s",
                tool("t", json!({"title": text, "rawInput": {"cwd": text.len()}})),
            ),
        })
    });
}
