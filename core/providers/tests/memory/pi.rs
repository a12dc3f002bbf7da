//! pi.

use crate::{MIB, crowded, fed, hold_to_the_budget, line, lines, long};
use pilothouse_providers::pi::{Call, Codec, Received};
use serde_json::{Value, json};
use std::ops::Range;

fed!(Codec, Received, Send);

/// A codec in a turn.
pub(crate) fn codec() -> Codec {
    let mut codec = Codec::new("life");
    let (call, _) = codec.call(Call::State);
    let state = json!({"sessionFile": "/s.jsonl", "sessionId": "s"});
    codec.receive(&line(&json!({"id": format!("r{call}"), "type": "response", "command": "x", "success": true, "data": state})));
    codec.receive(&line(&json!({"type": "agent_start"})));
    codec.receive(&line(&json!({"type": "message_start", "message": {"role": "user", "content": "go", "timestamp": 1}})));
    codec
}

fn begins(call: &str, tool: &str, args: Value) -> Value {
    json!({"type": "tool_execution_start", "toolCallId": call, "toolName": tool, "args": args})
}

#[test]
fn tools_that_never_end_are_remembered_within_the_budget() {
    hold_to_the_budget("pi: 300 tools of 400 KiB", codec, 300, |number| {
        line(&begins(
            &format!("c{number}"),
            "read",
            json!({"path": long(number, 400 * 1024)}),
        ))
    });
    hold_to_the_budget(
        "pi: announced, and then called with 10 MiB",
        codec,
        20,
        |number| {
            let call = format!("c{}", number / 2);
            line(&match number % 2 {
                0 => {
                    json!({"type": "message_end", "message": {"role": "assistant", "timestamp": number, "content": [{"type": "toolCall", "id": call, "name": "bash", "arguments": {}}]}})
                }
                _ => begins(&call, "bash", json!({"command": long(number, 10 * MIB)})),
            })
        },
    );
    hold_to_the_budget("pi: arguments of values", codec, 6, |number| {
        format!("{{\"type\":\"tool_execution_start\",\"toolCallId\":\"c{number}\",\"toolName\":\"x\",\"args\":{{\"a\":{}}}}}\n", crowded(900_000)).into_bytes()
    });
    hold_to_the_budget(
        "pi: a little output of a command of 10 MiB",
        codec,
        6,
        |number| {
            if number == 0 {
                return line(&begins(
                    "c",
                    "bash",
                    json!({"command": long(number, 10 * MIB)}),
                ));
            }
            lines((0..500).map(|one| {
            let text = "y".repeat(number * 500 + one + 1);
            json!({"type": "tool_execution_update", "toolCallId": "c", "partialResult": {"content": [{"type": "text", "text": text}]}})
        }))
        },
    );
}

/// Requests with these numbers.
pub(crate) fn asks(numbers: Range<usize>) -> Vec<u8> {
    lines(numbers.map(|id| {
        json!({"type": "extension_ui_request", "id": format!("d{id}"), "method": "confirm", "title": long(id, 300), "message": "x"})
    }))
}

#[test]
fn requests_wait_within_the_budget() {
    hold_to_the_budget("pi: 100,000 requests", codec, 100, |number| {
        asks(number * 1000..(number + 1) * 1000)
    });
    hold_to_the_budget("pi: requests of 10 MiB", codec, 6, |number| {
        line(
            &json!({"type": "extension_ui_request", "id": number, "method": "select", "title": long(number, 5 * MIB), "options": [long(number, 5 * MIB)]}),
        )
    });
    hold_to_the_budget("pi: requests about a tool of 10 MiB", codec, 6, |number| {
        let command = long(0, 10 * MIB);
        if number == 0 {
            return line(&begins("c", "bash", json!({"command": command})));
        }
        lines((0..100).map(|one| {
            let asked = json!({"tool": "bash", "call": "c", "input": {"command": "ls"}, "cwd": "/w"});
            json!({"type": "extension_ui_request", "id": format!("d{}", number * 100 + one), "method": "input", "title": "pilothouse-gate", "placeholder": asked.to_string()})
        }))
    });
}

#[test]
fn words_and_names_are_remembered_within_the_budget() {
    hold_to_the_budget("pi: words", codec, 40, |number| {
        lines((0..500).map(|one| {
            let at = number * 500 + one;
            match one % 3 {
                0 => json!({"type": "message_start", "message": {"role": "assistant", "timestamp": at}}),
                _ => json!({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": at, "delta": long(at, 2000)}}),
            }
        }))
    });
    hold_to_the_budget("pi: names of 10 MiB", codec, 6, |number| {
        let text = long(number, 10 * MIB);
        line(&match number % 3 {
            0 => begins(&text, "x", Value::Null),
            1 => begins("c", &text, Value::Null),
            _ => {
                json!({"type": "message_end", "message": {"role": "assistant", "timestamp": number, "content": [{"type": "text", "text": text}]}})
            }
        })
    });
}
