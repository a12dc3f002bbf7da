//! Forms and links that an MCP server asks a person about, through codex.

use super::requests;
use crate::{
    mcp,
    rpc::{
        answers::{Answers, Decision},
        asked::Opened,
        form,
        frames::{cut, has_unknown, text_of, text_or_empty, texts},
    },
};
use pilothouse_domain::{
    NativeId, Subject,
    request::{OptionEffect, RequestKind},
};
use serde_json::{Value, json};

/// Bytes of a tool's arguments that are shown; of longer ones the beginning, and they are never approvable in one tap.
const TEXT: usize = 128 * 1024;
/// Thread, turn and item.
type Place = (NativeId, Option<NativeId>, Option<NativeId>);

/// What is known of a request that asks before a tool is called. `turnId` and `threadId` say where.
const FIELDS: [&str; 8] = [
    "threadId",
    "turnId",
    "serverName",
    "environmentId",
    "mode",
    "message",
    "requestedSchema",
    "_meta",
];
const META: [&str; 7] = [
    "codex_approval_kind",
    "persist",
    "tool_name",
    "tool_title",
    "tool_description",
    "tool_params",
    "tool_params_display",
];

/// Reads `mcpServer/elicitation/request`.
pub(crate) fn read(params: &Value) -> Option<Opened> {
    let (thread, turn, item) = requests::place(params)?;
    let server = text_or_empty(params, "serverName");
    if let Some(meta) = params.get("_meta")
        && text_of(meta, "codex_approval_kind").as_deref() == Some("mcp_tool_call")
    {
        return Some(tool_call((thread, turn, item), &server, params, meta));
    }
    let mode = text_or_empty(params, "mode");
    let mut subject = Subject {
        reason: text_of(params, "message").or_else(|| text_of(params, "description")),
        reach: vec![format!("asked by the MCP server `{server}`")],
        ..Subject::default()
    };
    let answers = match mode.as_str() {
        "form" => {
            let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
            form::asked(schema, params, &mut subject)
        }
        "url" => {
            subject
                .reach
                .push(format!("open {}", text_or_empty(params, "url")));
            Answers::Decisions(form::decisions(Some(form::ACCEPT)))
        }
        other => {
            // Verification of a person and forms of OpenAI's own shape: shown, and can only be refused here.
            subject.reach.push(format!(
                "a kind of question that can only be refused here: `{other}`"
            ));
            form::unreadable(params, &mut subject)
        }
    };
    subject.options = answers.options();
    Some(Opened {
        thread,
        turn,
        item,
        kind: RequestKind::Elicitation,
        unknown_fields: subject.incomplete,
        subject,
        answers,
    })
}

/// codex asks in the same way before it calls a tool of a server.
fn tool_call((thread, turn, item): Place, server: &str, params: &Value, meta: &Value) -> Opened {
    let tool = text_of(meta, "tool_name");
    let given = meta.get("tool_params").filter(|given| !given.is_null());
    let mut unknown = has_unknown(params, &[&FIELDS]) || has_unknown(meta, &[&META]);
    // What else the form would want could not be given with a decision.
    let properties = params.pointer("/requestedSchema/properties");
    unknown |= properties
        .and_then(Value::as_object)
        .is_none_or(|all| !all.is_empty());
    let mut decisions = vec![Decision::new(
        "accept",
        "Allow once",
        OptionEffect::AllowOnce,
        "this call, this once",
        json!({"action": "accept", "content": null, "_meta": null}),
    )];
    for kept in texts(meta, "persist") {
        let (id, label, effect, reach) = match kept.as_str() {
            "session" => (
                "accept_session",
                "Allow this tool for this session",
                OptionEffect::AllowSession,
                "this tool with any arguments, without asking until codex ends",
            ),
            "always" => (
                "accept_always",
                "Always allow this tool",
                OptionEffect::AllowRule,
                "this tool with any arguments, without asking; of a server in codex' own config.toml for ever, of another until \
                 codex ends",
            ),
            _ => {
                unknown = true;
                continue;
            }
        };
        let result = json!({"action": "accept", "content": null, "_meta": {"persist": kept}});
        decisions.push(Decision::new(id, label, effect, reach, result));
    }
    let refused = |action: &str| json!({"action": action, "content": null, "_meta": null});
    decisions.push(Decision::new(
        "decline",
        "Deny",
        OptionEffect::Deny,
        "this is not done; the turn goes on",
        refused("decline"),
    ));
    decisions.push(Decision::new(
        "cancel",
        "Deny and stop",
        OptionEffect::DenyAndStop,
        "this is not done and the turn is stopped",
        refused("cancel"),
    ));
    let arguments = given.and_then(|given| serde_json::to_string_pretty(given).ok());
    let name = tool.clone().unwrap_or_default();
    let text = [Some(mcp::call_of(server, &name)), arguments.clone()];
    let text = text.into_iter().flatten().collect::<Vec<_>>().join("\n");
    let whole = text.len() <= TEXT;
    let answers = Answers::Decisions(decisions);
    Opened {
        thread,
        turn,
        item,
        kind: RequestKind::Tool,
        subject: Subject {
            reason: text_of(params, "message"),
            text: Some(cut(&text, TEXT)),
            options: answers.options(),
            incomplete: tool.is_none() || arguments.is_none() || !whole,
            ..Subject::default()
        },
        unknown_fields: unknown,
        answers,
    }
}
