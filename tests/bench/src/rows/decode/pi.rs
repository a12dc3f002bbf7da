//! What pi tells in a turn.

use super::{DELTAS, Decode, SESSION, Stream};
use anyhow::Result;
use pilothouse_domain::ProviderEvent;
use pilothouse_providers::pi::{Call, Codec, Received};
use serde_json::{Value, json};

impl Decode for Codec {
    fn begin(&mut self) {
        let text = "go on".to_owned();
        let client_id = String::new();
        self.call(Call::Prompt {
            client_id,
            text,
            pictures: Vec::new(),
        });
    }

    fn receive(&mut self, bytes: &[u8]) -> Vec<ProviderEvent> {
        Self::receive(self, bytes)
            .into_iter()
            .filter_map(|received| match received {
                Received::Event(event) => Some(event),
                _ => None,
            })
            .collect()
    }
}

/// A codec that has its session.
pub(super) fn codec() -> Box<dyn Decode> {
    let mut codec = Codec::new("bench");
    codec.call(Call::State);
    let state = json!({"id": "r1", "type": "response", "command": "get_state", "success": true, "data": {"sessionFile": SESSION}});
    codec.receive(format!("{state}\n").as_bytes());
    Box::new(codec)
}

/// Turns as pi tells them: thoughts and words in pieces, with the tokens that it counts beside each, a command with its
/// output, and the end that repeats everything.
pub(super) fn stream(turns: u64) -> Result<Stream> {
    let mut stream = Stream::default();
    let usage = json!({
        "input": 100, "output": 20, "cacheRead": 0, "cacheWrite": 0, "reasoning": 0, "totalTokens": 120,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0, "totalFromProvider": false},
    });
    for number in 0..turns {
        stream.turns.push(Vec::new());
        let mut push = |frame: &Value| stream.push(&frame.to_string());
        let at = 1_796_000_000_000u64 + number * 10;
        let call = format!("call-{number}");
        push(
            &json!({"id": format!("r{}", number + 2), "type": "response", "command": "prompt", "success": true, "data": {"disposition": "started"}}),
        );
        push(&json!({"type": "agent_start"}));
        push(&json!({"type": "turn_start"}));
        let user = json!({"role": "user", "content": [{"type": "text", "text": "go on"}], "timestamp": at});
        push(&json!({"type": "message_start", "message": user}));
        push(&json!({"type": "message_end", "message": user}));
        let piece = |kind: &str, part: u64, key: &str, text: &str| json!({"type": "message_update", "usage": usage, "assistantMessageEvent": {"type": kind, "contentIndex": part, key: text}});
        push(
            &json!({"type": "message_start", "message": {"role": "assistant", "content": [], "timestamp": at + 1}}),
        );
        let (thoughts, words) = ("Let me look at it ", "all of them pass ");
        for _ in 0..4 * DELTAS {
            push(&piece("thinking_delta", 0, "delta", thoughts));
        }
        for _ in 0..5 * DELTAS {
            push(&piece("text_delta", 1, "delta", words));
        }
        let (thought, said) = (thoughts.repeat(4 * DELTAS), words.repeat(5 * DELTAS));
        push(&piece("thinking_end", 0, "content", &thought));
        push(&piece("text_end", 1, "content", &said));
        let args = json!({"command": "cargo test --workspace"});
        let answer = json!({"role": "assistant", "usage": usage, "stopReason": "toolUse", "timestamp": at + 1, "content": [
            {"type": "thinking", "thinking": thought}, {"type": "text", "text": said},
            {"type": "toolCall", "id": call, "name": "bash", "arguments": args},
        ]});
        push(&json!({"type": "message_end", "message": answer}));
        push(
            &json!({"type": "tool_execution_start", "toolCallId": call, "toolName": "bash", "args": args}),
        );
        let output = "test result: ok. 42 passed; 0 failed; 0 ignored\n".repeat(8);
        let result = json!({"content": [{"type": "text", "text": output}], "structuredContent": {"output": output, "truncated": false, "exit_code": 0}});
        push(
            &json!({"type": "tool_execution_update", "toolCallId": call, "toolName": "bash", "args": args, "partialResult": result}),
        );
        push(
            &json!({"type": "tool_execution_end", "toolCallId": call, "toolName": "bash", "result": result, "isError": false, "durationMs": 18}),
        );
        push(&json!({"type": "turn_end", "message": answer, "toolResults": []}));
        push(&json!({"type": "agent_end", "messages": [user, answer], "willRetry": false}));
        push(&json!({"type": "agent_settled", "aborted": false}));
    }
    Ok(stream)
}
