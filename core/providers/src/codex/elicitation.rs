//! Forms and links that an MCP server asks a person about, through codex.

use super::{
    answers::Answers,
    frames::{list, text_of, text_or_empty, texts},
    options::Decision,
    requests::{self, Opened},
};
use pilothouse_domain::{
    OptionId, Subject,
    request::{Choice, OptionEffect, Question, RequestKind, RequestOption},
};
use serde_json::{Map, Value, json};

/// A flat form: what each field takes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Form {
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq)]
struct Field {
    name: String,
    kind: Kind,
    required: bool,
    /// Label and value of each choice.
    choices: Vec<(String, Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Integer,
    Boolean,
    Several,
}

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
            Answers::decisions(decisions(true))
        }
        other => {
            // Verification of a person and forms of OpenAI's own shape: shown, and can only be refused here.
            unknown = true;
            subject.incomplete = true;
            subject.reach.push(format!(
                "a kind of question that can only be refused here: `{other}`"
            ));
            subject.text = Some(super::frames::cut(
                &params.to_string(),
                super::frames::RAW_LIMIT,
            ));
            Answers::decisions(decisions(false))
        }
    };
    if let Answers::Decisions(list)
    | Answers::Form {
        decisions: list, ..
    } = &answers
    {
        subject.options = list
            .iter()
            .map(|decision| decision.option.clone())
            .collect();
    }
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

fn decisions(accept: bool) -> Vec<Decision> {
    let decision = |word: &str, label: &str, effect, reach: &str, content: Value| Decision {
        option: RequestOption {
            id: OptionId::from(word),
            label: label.to_owned(),
            effect,
            reach: reach.to_owned(),
        },
        result: json!({"action": word, "content": content, "_meta": null}),
    };
    let mut decisions = Vec::new();
    if accept {
        decisions.push(decision(
            "accept",
            "Accept",
            OptionEffect::AllowOnce,
            "the server is told that you accept",
            json!({}),
        ));
    }
    decisions.push(decision(
        "decline",
        "Decline",
        OptionEffect::Deny,
        "the server is told that you decline",
        Value::Null,
    ));
    decisions.push(decision(
        "cancel",
        "Cancel",
        OptionEffect::Other,
        "the server is told that you gave no answer",
        Value::Null,
    ));
    decisions
}

/// Reads the schema; `None` if a field is of a shape that this version does not know.
fn form(schema: &Value, questions: &mut Vec<Question>) -> Option<Form> {
    let required = texts(schema, "required");
    let mut fields = Vec::new();
    for (name, property) in schema.get("properties").and_then(Value::as_object)? {
        let (kind, choices) = match property.get("type").and_then(Value::as_str) {
            Some("boolean") => (
                Kind::Boolean,
                vec![
                    ("Yes".to_owned(), json!(true)),
                    ("No".to_owned(), json!(false)),
                ],
            ),
            Some("number") => (Kind::Number, Vec::new()),
            Some("integer") => (Kind::Integer, Vec::new()),
            Some("array") => (Kind::Several, choices(property.get("items")?)),
            Some("string") => (Kind::Text, choices(property)),
            _ => return None,
        };
        if kind == Kind::Several && choices.is_empty() {
            return None;
        }
        questions.push(Question {
            id: name.clone(),
            header: text_of(property, "title").unwrap_or_else(|| name.clone()),
            text: text_of(property, "description").unwrap_or_else(|| name.clone()),
            choices: choices
                .iter()
                .map(|(label, _)| Choice {
                    label: label.clone(),
                    description: None,
                })
                .collect(),
            multi_select: kind == Kind::Several,
            free_text: choices.is_empty(),
            secret: false,
        });
        fields.push(Field {
            name: name.clone(),
            kind,
            required: required.contains(name),
            choices,
        });
    }
    Some(Form { fields })
}

/// The choices of an enumeration, with or without titles.
fn choices(property: &Value) -> Vec<(String, Value)> {
    for key in ["oneOf", "anyOf"] {
        let titled = list(property, key);
        if !titled.is_empty() {
            return titled
                .iter()
                .map(|choice| {
                    let value = text_or_empty(choice, "const");
                    (
                        text_of(choice, "title").unwrap_or_else(|| value.clone()),
                        json!(value),
                    )
                })
                .collect();
        }
    }
    let names = texts(property, "enumNames");
    texts(property, "enum")
        .into_iter()
        .enumerate()
        .map(|(at, value)| (names.get(at).unwrap_or(&value).clone(), json!(value)))
        .collect()
}

impl Form {
    /// The filled form, or which field is wrong.
    pub(crate) fn content(&self, given: &[(&str, Vec<String>)]) -> Result<Value, String> {
        let mut content = Map::new();
        for field in &self.fields {
            let words = given
                .iter()
                .find(|(name, _)| *name == field.name)
                .map_or(&[][..], |(_, words)| words.as_slice());
            let Some(word) = words.first() else {
                if field.required {
                    return Err(format!("`{}` needs an answer", field.name));
                }
                continue;
            };
            let chosen = |word: &String| {
                field
                    .choices
                    .iter()
                    .find(|(label, _)| label == word)
                    .map(|(_, value)| value.clone())
            };
            let value = match field.kind {
                Kind::Several => Value::Array(words.iter().filter_map(chosen).collect()),
                Kind::Integer => word
                    .parse::<i64>()
                    .map(Value::from)
                    .map_err(|_| format!("`{}` needs a whole number", field.name))?,
                Kind::Number => word
                    .parse::<f64>()
                    .ok()
                    .and_then(serde_json::Number::from_f64)
                    .map(Value::Number)
                    .ok_or_else(|| format!("`{}` needs a number", field.name))?,
                Kind::Boolean | Kind::Text => chosen(word).unwrap_or_else(|| json!(word)),
            };
            content.insert(field.name.clone(), value);
        }
        Ok(Value::Object(content))
    }
}
