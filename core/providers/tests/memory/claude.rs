//! Claude Code.

use crate::{HELD_LIMIT, MIB, crowded, fed, hold_to_the_budget, line, lines, long};
use pilothouse_providers::claude::{Call, Codec, Received};
use serde_json::{Value, json};
use std::ops::Range;

fed!(Codec, Received, Send);

/// A codec in a turn.
pub(crate) fn codec() -> Codec {
    let mut codec = Codec::serving("life", "s".into());
    codec.call(Call::Prompt {
        turn: Some("u".into()),
        client_id: "c".to_owned(),
        content: Vec::new(),
    });
    codec.receive(&line(
        &json!({"type": "command_lifecycle", "command_uuid": "u", "state": "started"}),
    ));
    codec
}

fn uses(child: Option<&str>, call: &str, name: &str, input: Value) -> Value {
    let block = json!({"type": "tool_use", "id": call, "name": name, "input": input});
    json!({"type": "assistant", "parent_tool_use_id": child, "message": {"id": "m", "content": [block]}})
}

fn subagent(number: usize) -> Value {
    json!({"type": "system", "subtype": "task_started", "task_id": format!("c{number}"), "task_type": "local_agent",
        "tool_use_id": format!("t{number}"), "description": long(number, 4000)})
}

#[test]
fn subagents_are_remembered_within_the_budget() {
    hold_to_the_budget(
        "claude: 256 subagents with 500 KiB each",
        codec,
        256,
        |number| {
            let call = format!("x{number}");
            let tool = uses(
                Some(&format!("t{number}")),
                &call,
                "Write",
                json!({"file_path": "/a", "content": long(number, 500 * 1024)}),
            );
            lines([subagent(number), tool].into_iter())
        },
    );
    hold_to_the_budget("claude: 300 subagents of 200 tools", codec, 300, |number| {
        let tools = (0..200).map(|one| {
            let input = json!({"pattern": long(one, 600)});
            uses(
                Some(&format!("t{number}")),
                &long(number * 200 + one, 512),
                "Grep",
                input,
            )
        });
        lines([subagent(number)].into_iter().chain(tools))
    });
    hold_to_the_budget("claude: todo lists of subagents", codec, 260, |number| {
        let todos: Vec<Value> = (0..512)
            .map(|one| json!({"content": long(one, 2000), "status": "pending"}))
            .collect();
        let child = format!("t{number}");
        let did = json!({"type": "user", "parent_tool_use_id": child, "message": {"content": [{"type": "tool_result", "tool_use_id": "w", "content": "ok"}]}});
        lines(
            [
                subagent(number),
                uses(Some(&child), "w", "TodoWrite", json!({ "todos": todos })),
                did,
            ]
            .into_iter(),
        )
    });
}

/// Nothing here is over: what waits, what is spoken and what is to be done of subagents that go on, and then their tools.
#[test]
fn subagents_that_all_go_on_are_remembered_within_the_budget() {
    let most = hold_to_the_budget("claude: live subagents", codec, 40 + 256 + 64, |number| {
        let child = format!("t{}", number.saturating_sub(40) % 256);
        match number {
            ..40 => line(&ask(
                number,
                "Bash",
                json!({"command": long(number, 400 * 1024)}),
            )),
            40..296 => {
                let todos: Vec<Value> = (0..512)
                    .map(|one| json!({"content": long(one, 127)}))
                    .collect();
                let listed = uses(Some(&child), "w", "TodoWrite", json!({ "todos": todos }));
                let did = json!({"type": "user", "parent_tool_use_id": child, "message": {"content": [
                    {"type": "tool_result", "tool_use_id": "w", "content": "ok"}]}});
                let stream = |event: Value| json!({"type": "stream_event", "parent_tool_use_id": child, "event": event});
                let begins =
                    stream(json!({"type": "message_start", "message": {"id": long(number, 480)}}));
                let pieces = (0..64).map(|index| {
                    stream(json!({"type": "content_block_delta", "index": index,
                    "delta": {"type": "text_delta", "text": "x"}}))
                });
                lines(
                    [subagent(number - 40), listed, did, begins]
                        .into_iter()
                        .chain(pieces),
                )
            }
            _ => line(&uses(
                Some(&child),
                "x",
                "Write",
                json!({"file_path": "/a", "content": long(number, 500 * 1024)}),
            )),
        }
    });
    assert!(most <= HELD_LIMIT, "{} MiB", most / MIB);
}

#[test]
fn tools_that_never_end_are_remembered_within_the_budget() {
    hold_to_the_budget("claude: tools of 10 MiB", codec, 8, |number| {
        let name = [
            "Bash",
            "Grep",
            "WebSearch",
            "Agent",
            "ExitPlanMode",
            "Write",
            "mcp__a__b",
            "TodoWrite",
        ][number % 8];
        let text = long(number, 10 * MIB);
        let input = json!({"command": text});
        let input = match name {
            "Grep" => json!({"pattern": text}),
            "WebSearch" => json!({"query": text}),
            "Agent" => json!({"description": text}),
            "ExitPlanMode" => json!({"plan": text}),
            "Write" => json!({"file_path": text, "content": "x"}),
            "TodoWrite" => json!({"todos": [{"content": text}]}),
            _ => input,
        };
        line(&uses(None, &format!("x{number}"), name, input))
    });
    hold_to_the_budget("claude: inputs of values", codec, 4, |number| {
        let input = crowded(900_000);
        format!("{{\"type\":\"assistant\",\"message\":{{\"id\":\"m\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"x{number}\",\"name\":\"TodoWrite\",\"input\":{{\"todos\":{input}}}}}]}}}}\n").into_bytes()
    });
}

fn ask(id: usize, tool: &str, input: Value) -> Value {
    json!({"type": "control_request", "request_id": format!("r{id}"), "request": {"subtype": "can_use_tool",
            "tool_name": tool, "input": input, "tool_use_id": format!("x{id}")}})
}

/// Requests with these numbers.
pub(crate) fn asks(numbers: Range<usize>) -> Vec<u8> {
    lines(numbers.map(|id| ask(id, "Bash", json!({"command": long(id, 300)}))))
}

#[test]
fn requests_wait_within_the_budget() {
    hold_to_the_budget("claude: 100,000 requests", codec, 100, |number| {
        asks(number * 1000..(number + 1) * 1000)
    });
    hold_to_the_budget("claude: requests of 10 MiB", codec, 8, |number| {
        line(&ask(
            number,
            "Write",
            json!({"file_path": "/a", "content": long(number, 10 * MIB)}),
        ))
    });
    hold_to_the_budget(
        "claude: questions with 10 MiB beside them",
        codec,
        6,
        |number| {
            let asked = json!([{"question": "which", "options": [{"label": "a"}]}]);
            line(&ask(
                number,
                "AskUserQuestion",
                json!({"questions": asked, "beside": long(number, 10 * MIB)}),
            ))
        },
    );
    hold_to_the_budget(
        "claude: questions with values beside them",
        codec,
        4,
        |number| {
            let values = crowded(900_000);
            format!("{{\"type\":\"control_request\",\"request_id\":\"r{number}\",\"request\":{{\"subtype\":\"can_use_tool\",\"tool_name\":\"AskUserQuestion\",\"input\":{{\"questions\":[{{\"question\":\"q\",\"options\":[]}}],\"x\":{values}}}}}}}\n").into_bytes()
        },
    );
}

#[test]
fn words_tasks_and_names_are_remembered_within_the_budget() {
    hold_to_the_budget("claude: words of unknown messages", codec, 40, |number| {
        lines((0..500).map(|one| {
            let id = long(number * 500 + one, 2000);
            match one % 2 {
                0 => json!({"type": "stream_event", "parent_tool_use_id": id, "event": {"type": "message_start", "message": {"id": id}}}),
                _ => json!({"type": "stream_event", "agent_id": id, "event": {"type": "content_block_delta", "index": one, "delta": {"type": "text_delta", "text": "x"}}}),
            }
        }))
    });
    hold_to_the_budget("claude: a todo list that changes", codec, 40, |number| {
        let call = |one: usize| format!("w{number}.{one}");
        lines((0..50).flat_map(|one| {
            let (name, input) = match number < 20 {
                true => ("TaskCreate", json!({"subject": long(one, 4000)})),
                false => ("TaskUpdate", json!({"taskId": "1", "status": "completed"})),
            };
            let did = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": call(one), "content": "ok"}]},
                "tool_use_result": {"task": {"id": format!("{}", number * 50 + one)}}});
            [uses(None, &call(one), name, input), did]
        }))
    });
    hold_to_the_budget("claude: titles and names of 10 MiB", codec, 8, |number| {
        let text = long(number, 10 * MIB);
        line(&match number % 4 {
            0 => {
                json!({"type": "system", "subtype": "task_started", "task_id": text, "tool_use_id": "t", "task_type": "local_agent"})
            }
            1 => {
                json!({"type": "system", "subtype": "task_started", "task_id": "c", "tool_use_id": text, "description": "x"})
            }
            2 => {
                json!({"type": "system", "subtype": "init", "cwd": text, "permissionMode": "default", "session_id": "s"})
            }
            _ => {
                json!({"type": "system", "subtype": "init", "cwd": "/", "permissionMode": text, "session_id": "s"})
            }
        })
    });
}
