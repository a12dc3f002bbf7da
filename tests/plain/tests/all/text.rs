//! Texts of JSON as they are written: fields in any order and more than once, numbers and strings in any of their spellings.

use crate::mutate::Dice;

/// A value as it is written.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// A string, number or word.
    Atom(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// Spellings at the edges of what a field can hold, and beyond what JSON is.
const ATOMS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1",
    "1",
    "255",
    "256",
    "65536",
    "4294967296",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "1.0",
    "1e2",
    "1E-2",
    "1e400",
    "01",
    "-",
    "+1",
    ".5",
    "1.",
    "NaN",
    "Infinity",
    "-Infinity",
    "nul",
    "\"\"",
    "\"\\u0041\\n\\/\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\"",
    "\"\\ude00\"",
    "\"\\ud83d\\u0041\"",
    "\"\\u00g0\"",
    "\"\\x\"",
    "\"\u{0}\"",
    "'a'",
    "",
    "[]",
    "{}",
    "[1,]",
    "{\"a\":1,}",
    "{a:1}",
];

impl Node {
    /// Of a text that is JSON.
    pub(crate) fn read(text: &str) -> Self {
        Self::of(&serde_json::from_str(text).unwrap())
    }

    fn of(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Array(items) => Self::List(items.iter().map(Self::of).collect()),
            serde_json::Value::Object(fields) => {
                let field = |(key, value): (&String, _)| (quoted(key), Self::of(value));
                Self::Object(fields.iter().map(field).collect())
            }
            atom => Self::Atom(atom.to_string()),
        }
    }

    pub(crate) fn write(&self, into: &mut String, space: &str) {
        let mut between = "";
        match self {
            Self::Atom(text) => into.push_str(text),
            Self::List(items) => {
                into.push('[');
                for item in items {
                    into.push_str(std::mem::replace(&mut between, ","));
                    into.push_str(space);
                    item.write(into, space);
                }
                into.push(']');
            }
            Self::Object(fields) => {
                into.push('{');
                for (key, value) in fields {
                    into.push_str(std::mem::replace(&mut between, ","));
                    into.push_str(space);
                    into.push_str(key);
                    into.push_str(space);
                    into.push(':');
                    value.write(into, space);
                }
                into.push('}');
            }
        }
    }

    /// A part of it, at any depth.
    pub(crate) fn part(&self, dice: &mut Dice) -> Self {
        let inner = match self {
            Self::List(items) if !items.is_empty() => dice.one(items),
            Self::Object(fields) if !fields.is_empty() => &dice.one(fields).1,
            _ => return self.clone(),
        };
        match dice.once_in(3) {
            true => self.clone(),
            false => inner.part(dice),
        }
    }

    /// One change at some depth.
    pub(crate) fn change(&mut self, dice: &mut Dice, others: &[Self]) {
        let here = dice.once_in(4);
        match self {
            Self::List(items) if !items.is_empty() && !here => {
                let at = dice.below(items.len());
                items[at].change(dice, others);
            }
            Self::Object(fields) if !fields.is_empty() && !here => {
                let at = dice.below(fields.len());
                fields[at].1.change(dice, others);
            }
            Self::Object(fields) if !fields.is_empty() => {
                let at = dice.below(fields.len());
                match dice.below(9) {
                    0 => drop(fields.remove(at)),
                    // The tag behind what it is the tag of, among others.
                    1 => fields.rotate_left(at),
                    2 => fields.reverse(),
                    3 => fields.push(fields[at].clone()),
                    4 => fields.insert(0, (fields[at].0.clone(), other(dice, others))),
                    5 => fields.insert(at, ("\"more\"".to_owned(), other(dice, others))),
                    6 => fields[at].0 = escaped(&fields[at].0, dice),
                    7 => fields[at].1 = other(dice, others),
                    _ => *self = Self::List(fields.drain(..).map(|(_, value)| value).collect()),
                }
            }
            Self::List(items) if dice.once_in(2) => items.push(other(dice, others)),
            Self::Atom(text) if dice.once_in(3) => *text = escaped(text, dice),
            any => *any = other(dice, others),
        }
    }
}

fn other(dice: &mut Dice, others: &[Node]) -> Node {
    match dice.below(8) {
        0..4 => Node::Atom((*dice.one(ATOMS)).to_owned()),
        4 => {
            let depth = 110 + dice.below(30);
            let inner = Node::Atom((*dice.one(ATOMS)).to_owned());
            (0..depth).fold(inner, |inner, _| Node::List(vec![inner]))
        }
        _ => dice.one(others).part(dice),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A string with one of its characters written by its number, and so one that cannot be borrowed from its text.
fn escaped(written: &str, dice: &mut Dice) -> String {
    let Ok(text) = serde_json::from_str::<String>(written) else {
        return written.to_owned();
    };
    let at = dice.below(text.chars().count());
    let mut out = String::from("\"");
    for (place, character) in text.chars().enumerate() {
        if place == at {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04X}"));
            }
        } else {
            out.push_str(quoted(&character.to_string()).trim_matches('"'));
            if character == '"' {
                out.push_str("\\\"");
            }
        }
    }
    out.push('"');
    out
}
