//! Forms and links that an MCP server asks a person about, through codex.

use super::requests;
use crate::rpc::{
    answers::Answers,
    asked::Opened,
    form::{decisions, form},
    frames::{RAW_LIMIT, cut, text_of, text_or_empty},
};
use pilothouse_domain::{Subject, request::RequestKind};
use serde_json::Value;

/// Reads `mcpServer/elicitation/request`.
pub(crate) fn read(params: &Value) -> Option<Opened> {
    let (thread, turn, item) = requests::place(params)?;
    let server = text_or_empty(params, "serverName");
    let mode = text_or_empty(params, "mode");
    let mut subject = Subject {
        reason: text_of(params, "message").or_else(|| text_of(params, "description")),
        reach: vec![format!("asked by the MCP server `{server}`")],
        ..Subject::default()
    };
    let mut unknown = false;
    let answers = match mode.as_str() {
        "form" => {
            let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
            let form = form(schema, &mut subject.questions);
            unknown = form.is_none();
            subject.incomplete = form.is_none();
            let form = form.unwrap_or_default();
            // A form without fields only asks whether to go on.
            let accept = subject.questions.is_empty() && !subject.incomplete;
            Answers::Form {
                form,
                decisions: decisions(accept),
            }
        }
        "url" => {
            subject
                .reach
                .push(format!("open {}", text_or_empty(params, "url")));
            Answers::Decisions(decisions(true))
        }
        other => {
            // Verification of a person and forms of OpenAI's own shape: shown, and can only be refused here.
            unknown = true;
            subject.incomplete = true;
            subject.reach.push(format!(
                "a kind of question that can only be refused here: `{other}`"
            ));
            subject.text = Some(cut(&params.to_string(), RAW_LIMIT));
            Answers::Decisions(decisions(false))
        }
    };
    subject.options = answers.options();
    Some(Opened {
        thread,
        turn,
        item,
        kind: RequestKind::Elicitation,
        subject,
        unknown_fields: unknown,
        answers,
    })
}
