//! codex.

use crate::{MIB, crowded, fed, hold_to_the_budget, line, lines, long};
use pilothouse_providers::codex::{Call, Codec, FRAME_LIMIT, Received};
use serde_json::{Value, json};
use std::ops::Range;

const COMMAND: &str = "item/commandExecution/requestApproval";

fed!(Codec, Received, Send);

fn told(method: &str, params: Value) -> Value {
    json!({"method": method, "params": params})
}

fn asked(id: usize, method: &str, params: Value) -> Value {
    json!({"id": id, "method": method, "params": params})
}

fn patch(number: usize, bytes: usize) -> Value {
    let changes = json!([{"path": "/a", "kind": {"type": "update"}, "diff": long(number, bytes)}]);
    let item = json!({"type": "fileChange", "id": format!("i{number}"), "changes": changes, "status": "inProgress"});
    told(
        "item/started",
        json!({"threadId": "t", "turnId": "u", "item": item}),
    )
}

#[test]
fn patches_are_remembered_within_the_budget() {
    hold_to_the_budget("codex: patches of 8 MiB", Codec::new, 10, |number| {
        line(&patch(number, 8 * MIB))
    });
    hold_to_the_budget("codex: patches of 500 KiB", Codec::new, 200, |number| {
        line(&patch(number, 500 * 1024))
    });
}

#[test]
fn one_patch_that_many_requests_are_about_is_not_held_for_each() {
    hold_to_the_budget("codex: requests about a patch", Codec::new, 20, |number| {
        if number % 2 == 0 {
            return line(&patch(0, 400 * 1024 + number));
        }
        let ask = |id: usize| {
            let about = json!({"threadId": "t", "turnId": "u", "itemId": "i0"});
            asked(id, "item/fileChange/requestApproval", about)
        };
        lines((0..60).map(|id| ask(id % 40)))
    });
}

/// Requests with these numbers.
pub(crate) fn asks(numbers: Range<usize>) -> Vec<u8> {
    lines(numbers.map(|id| {
        let params = json!({"threadId": "t", "turnId": "u", "itemId": long(id % 1000, 600), "command": "ls"});
        asked(id, COMMAND, params)
    }))
}

#[test]
fn requests_wait_within_the_budget() {
    hold_to_the_budget("codex: 100,000 requests", Codec::new, 100, |number| {
        asks(number * 1000..(number + 1) * 1000)
    });
    hold_to_the_budget("codex: requests of 15 MiB", Codec::new, 6, |number| {
        let params = json!({"threadId": "t", "turnId": "u", "itemId": "i", "command": long(number, 15 * MIB)});
        line(&asked(number, COMMAND, params))
    });
    hold_to_the_budget(
        "codex: decisions of a million values",
        Codec::new,
        8,
        |number| {
            let decisions = format!(
                "[{{\"acceptWithExecpolicyAmendment\":{{\"execpolicy_amendment\":{}}}}}]",
                crowded(900_000)
            );
            format!("{{\"id\":{number},\"method\":\"{COMMAND}\",\"params\":{{\"threadId\":\"t\",\"command\":\"ls\",\"availableDecisions\":{decisions}}}}}\n").into_bytes()
        },
    );
}

#[test]
fn what_never_ends_is_remembered_within_the_budget() {
    hold_to_the_budget("codex: commands that never end", Codec::new, 10, |number| {
        lines((0..500).map(|one| {
            let item = json!({"type": "commandExecution", "id": long(number * 500 + one, 4000), "command": "x"});
            told("item/started", json!({"threadId": "t", "turnId": long(number, 4000), "item": item}))
        }))
    });
    hold_to_the_budget("codex: turns that never end", Codec::new, 20, |number| {
        lines((0..500).map(|one| {
            let id = number * 500 + one;
            let turn = json!({"id": long(id, 3000), "rootTurnId": long(id / 2, 3000)});
            told(
                "turn/started",
                json!({"threadId": long(id, 3000), "turn": turn}),
            )
        }))
    });
    hold_to_the_budget("codex: ids of 10 MiB", Codec::new, 8, |number| {
        line(&told(
            "turn/started",
            json!({"threadId": "t", "turn": {"id": long(number, 10 * MIB)}}),
        ))
    });
}

#[test]
fn deltas_of_nothing_titles_and_settings_are_remembered_within_the_budget() {
    hold_to_the_budget("codex: deltas of unknown items", Codec::new, 10, |number| {
        lines((0..500).map(|one| {
            let item = long(number * 500 + one, 4000);
            told(
                "item/agentMessage/delta",
                json!({"threadId": item, "turnId": item, "itemId": item, "delta": "x"}),
            )
        }))
    });
    hold_to_the_budget("codex: titles of 10 MiB", Codec::new, 8, |number| {
        let item = json!({"type": "subAgentActivity", "id": "i", "kind": "started",
            "agentThreadId": format!("c{number}"), "agentPath": long(number, 10 * MIB)});
        line(&told(
            "item/started",
            json!({"threadId": "t", "turnId": "u", "item": item}),
        ))
    });
    hold_to_the_budget("codex: settings and servers", Codec::new, 40, |number| {
        lines((0..400).map(|one| {
            let id = long(number * 400 + one, 2000);
            match one % 2 {
                0 => told("thread/settings/updated", json!({"threadId": id, "threadSettings": {"model": long(one, 256), "effort": long(one, 256)}})),
                _ => told("mcpServer/startupStatus/updated", json!({"threadId": id, "name": long(one, 2000), "status": "failed", "error": long(one, 2000)})),
            }
        }))
    });
}

#[test]
fn a_frame_of_values_and_a_frame_without_end_cost_no_more_than_is_declared() {
    hold_to_the_budget("codex: a frame of values", Codec::new, 4, |number| {
        let values = match number {
            0 => crowded(8_000_000),
            1 => crowded(1_000_000),
            2 => format!("[{}0]", "[],".repeat(5_000_000)),
            _ => {
                let fields: Vec<String> = (0..500_000).map(|key| format!("\"{key}\":0")).collect();
                format!("{{{}}}", fields.join(","))
            }
        };
        format!("{{\"method\":\"some/thing\",\"params\":{values}}}\n").into_bytes()
    });
    hold_to_the_budget("codex: a line of 112 MiB", Codec::new, 7, |_| {
        vec![b'x'; FRAME_LIMIT]
    });
}

#[test]
fn a_history_is_remembered_within_the_budget() {
    let codec = || {
        let mut codec = Codec::new();
        for number in 1..=30 {
            let mut thread = number.to_string();
            thread.insert(0, 't');
            codec.register(
                number,
                Call::TurnsList {
                    thread: thread.as_str().into(),
                    limit: 10,
                    cursor: None,
                    whole: true,
                },
            );
        }
        codec
    };
    hold_to_the_budget("codex: histories", codec, 30, |number| {
        let items: Vec<Value> = (0..8)
            .map(|one| patch(number * 8 + one, 400 * 1024)["params"]["item"].clone())
            .collect();
        let turn = json!({"id": "u", "status": "inProgress", "items": items});
        line(&json!({"id": number + 1, "result": {"data": [turn]}}))
    });
}
