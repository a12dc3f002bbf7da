//! opencode.

use crate::{MIB, fed, hold_to_the_budget, long};
use pilothouse_providers::opencode::{Codec, Session, Told};
use serde_json::{Value, json};
use std::ops::Range;

fed!(Codec, Told, Do);

fn event(name: &str, properties: Value) -> Vec<u8> {
    let event = json!({"id": "evt_1", "type": name, "properties": properties});
    format!("data: {event}\n\n").into_bytes()
}

fn events(all: impl Iterator<Item = (&'static str, Value)>) -> Vec<u8> {
    all.flat_map(|(name, told)| event(name, told)).collect()
}

/// A codec with a conversation in which a turn goes on.
pub(crate) fn codec() -> Codec {
    let mut codec = Codec::new();
    codec.open(&Session {
        id: "s".into(),
        directory: "/w".to_owned(),
        parent: None,
        created_ms: 0,
        rules: Vec::new(),
        model: None,
        reverted: None,
    });
    assert!(codec.prompted(&"s".into(), "m".into()));
    codec.receive(&event(
        "message.updated",
        json!({"sessionID": "s", "info": {"id": "m", "role": "user", "time": {"created": 1}}}),
    ));
    codec.receive(&event(
        "session.status",
        json!({"sessionID": "s", "status": {"type": "busy"}}),
    ));
    codec
}

fn child(number: usize) -> (&'static str, Value) {
    let info = json!({"id": format!("c{number}"), "directory": long(number, 4000), "parentID": "s", "title": long(number, 4000)});
    (
        "session.created",
        json!({"sessionID": format!("c{number}"), "info": info}),
    )
}

fn tool(session: &str, id: &str, input: Value) -> (&'static str, Value) {
    let part = json!({"id": id, "messageID": id, "sessionID": session, "type": "tool", "tool": "x_y", "callID": id,
        "state": {"status": "running", "input": input}});
    (
        "message.part.updated",
        json!({"sessionID": session, "part": part}),
    )
}

#[test]
fn messages_of_subagents_are_remembered_within_the_budget() {
    hold_to_the_budget(
        "opencode: 300 subagents of 600 messages",
        codec,
        300,
        |number| {
            let session = format!("c{number}");
            let told = (0..600).map(|one| {
            let id = long(number * 600 + one, 500);
            match one % 2 {
                0 => tool(&session, &id, json!({"a": one})),
                _ => ("message.updated", json!({"sessionID": session, "info": {"id": id, "role": "assistant", "time": {"created": 1}}})),
            }
        });
            events([child(number)].into_iter().chain(told))
        },
    );
    hold_to_the_budget("opencode: inputs of 60 KiB", codec, 200, |number| {
        let session = format!("c{}", number / 4);
        let told = (0..8).map(|one| {
            tool(
                &session,
                &format!("p{number}.{one}"),
                json!({"a": long(one, 60 * 1024)}),
            )
        });
        events([child(number / 4)].into_iter().chain(told))
    });
}

fn ask(id: usize, pattern: String) -> (&'static str, Value) {
    (
        "permission.asked",
        json!({"id": format!("per{id}"), "sessionID": "s", "permission": "bash", "patterns": [pattern], "metadata": {}, "always": []}),
    )
}

/// Requests with these numbers.
pub(crate) fn asks(numbers: Range<usize>) -> Vec<u8> {
    events(numbers.map(|id| ask(id, long(id, 300))))
}

#[test]
fn requests_wait_within_the_budget() {
    hold_to_the_budget("opencode: 100,000 requests", codec, 100, |number| {
        asks(number * 1000..(number + 1) * 1000)
    });
    hold_to_the_budget("opencode: requests of 10 MiB", codec, 6, |number| {
        let (name, told) = ask(number, long(number, 10 * MIB));
        event(name, told)
    });
    hold_to_the_budget("opencode: diffs of 10 MiB", codec, 8, |number| {
        let id = format!("p{number}");
        let asked = json!({"id": format!("per{number}"), "sessionID": "s", "permission": "edit", "patterns": ["a"], "always": [],
            "metadata": {"filepath": "/a", "diff": long(number, 10 * MIB)}, "tool": {"messageID": id, "callID": id}});
        let (name, part) = tool("s", &id, json!({}));
        [event(name, part), event("permission.asked", asked)].concat()
    });
}

#[test]
fn words_and_names_are_remembered_within_the_budget() {
    hold_to_the_budget("opencode: deltas of unknown parts", codec, 60, |number| {
        events((0..400).map(|one| {
            let id = long(number * 400 + one, 500);
            ("message.part.delta", json!({"sessionID": "s", "messageID": id, "partID": id, "field": "text", "delta": "x"}))
        }))
    });
    hold_to_the_budget("opencode: names of 10 MiB", codec, 6, |number| {
        let text = long(number, 10 * MIB);
        let (name, told) = match number % 3 {
            0 => (
                "session.updated",
                json!({"sessionID": "s", "info": {"id": "s", "directory": "/w", "revert": {"messageID": text}}}),
            ),
            1 => (
                "session.created",
                json!({"sessionID": "c", "info": {"id": "c", "directory": "/w", "parentID": "s", "title": text}}),
            ),
            _ => tool("s", "p", json!({"a": text})),
        };
        event(name, told)
    });
}
