//! Forms that are asked of a person in the words of MCP's elicitation, which ACP took over.

use super::{
    answers::{Answers, Decision},
    budget,
    frames::{UNREADABLE, cut, list, text_of, text_or_empty, texts},
};
use pilothouse_domain::{
    Subject,
    request::{Choice, OptionEffect, Question},
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

/// Reads a form into the questions of what is asked, and what it can be answered with; `raw` is what is shown instead if a field is
/// of a shape that this version does not know.
pub(crate) fn asked(schema: &Value, raw: &Value, subject: &mut Subject) -> Answers {
    match form(schema) {
        Some((form, questions)) => {
            subject.questions = questions;
            // One that needs nothing, without fields or with none that is required, can be accepted as it is.
            let accept = match form.fields.as_slice() {
                [] => Some(ACCEPT),
                fields if fields.iter().all(|field| !field.required) => Some(ACCEPT_EMPTY),
                _ => None,
            };
            let decisions = decisions(accept);
            Answers::Form { form, decisions }
        }
        None => unreadable(raw, subject),
    }
}

/// What can be done about what this version cannot read: shown as it came, it can only be refused.
pub(crate) fn unreadable(raw: &Value, subject: &mut Subject) -> Answers {
    subject.incomplete = true;
    subject.text = Some(cut(&raw.to_string(), UNREADABLE));
    Answers::Decisions(decisions(None))
}

/// How accepting is offered, and what it reaches.
type Accept = (&'static str, &'static str);

/// Accepting what has no fields.
pub(crate) const ACCEPT: Accept = ("Accept", "the asker is told that you accept");

/// Accepting a form that requires nothing.
const ACCEPT_EMPTY: Accept = (
    "Accept without filling in",
    "the asker is told that you accept, with every field left out",
);

/// What can be chosen besides filling it.
pub(crate) fn decisions(accept: Option<Accept>) -> Vec<Decision> {
    let decision = |word: &str, label: &str, effect, reach: &str, content: Value| {
        let result = json!({"action": word, "content": content, "_meta": null});
        Decision::new(word, label, effect, reach, result)
    };
    let mut decisions = Vec::new();
    if let Some((label, reach)) = accept {
        decisions.push(decision(
            "accept",
            label,
            OptionEffect::AllowOnce,
            reach,
            json!({}),
        ));
    }
    decisions.push(decision(
        "decline",
        "Decline",
        OptionEffect::Deny,
        "the asker is told that you decline",
        Value::Null,
    ));
    decisions.push(decision(
        "cancel",
        "Cancel",
        OptionEffect::Other,
        "the asker is told that you gave no answer",
        Value::Null,
    ));
    decisions
}

/// Reads the schema; `None` if a field is of a shape that this version does not know.
fn form(schema: &Value) -> Option<(Form, Vec<Question>)> {
    let required = texts(schema, "required");
    let mut fields = Vec::new();
    let mut questions = Vec::new();
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
        let required = required.contains(name);
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
            optional: !required,
        });
        fields.push(Field {
            name: name.clone(),
            kind,
            required,
            choices,
        });
    }
    Some((Form { fields }, questions))
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
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        let choice = |(label, value): &(String, Value)| {
            size_of::<(String, Value)>() + budget::block(label.len()) + budget::json(value)
        };
        let field = |field: &Field| {
            let choices = field.choices.iter().map(choice).sum::<usize>();
            size_of::<Field>() + budget::block(field.name.len()) + choices
        };
        self.fields.iter().map(field).sum()
    }

    /// The filled form, without the fields that were left out, or which field is wrong.
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
