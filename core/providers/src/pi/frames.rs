//! One line of pi: an object with a `type`.

use crate::rpc::frames::{Line, RAW_LIMIT, cut, json_of_line};
use serde_json::{Map, Value};

/// One line from the agent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    /// What it is called, and all of it.
    Typed {
        /// Its `type`.
        kind: String,
        /// The whole object, without its `type`.
        frame: Value,
    },
    /// A line that is no frame.
    Unreadable {
        /// Why, for a person.
        problem: String,
        /// Its beginning.
        raw: String,
    },
    /// A line that is longer than is read, of which only the beginning is known.
    Oversized {
        /// Its length in bytes.
        bytes: u64,
        /// Its beginning.
        raw: String,
    },
}

/// Reads one line. Only a line feed ends one: U+2028 and U+2029 may stand in a text.
pub(super) fn read(line: Line<'_>) -> Frame {
    let bytes = match line {
        Line::Whole(bytes) => bytes,
        Line::TooLong { bytes, start } => {
            return Frame::Oversized {
                bytes,
                raw: cut(&String::from_utf8_lossy(start), RAW_LIMIT),
            };
        }
    };
    let text = String::from_utf8_lossy(bytes);
    let unreadable = |problem: String| Frame::Unreadable {
        problem,
        raw: cut(&text, RAW_LIMIT),
    };
    let mut object: Map<String, Value> = match json_of_line(&text) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return unreadable("not a JSON object".to_owned()),
        Err(error) => return unreadable(format!("not JSON: {error}")),
    };
    match object.remove("type") {
        Some(Value::String(kind)) => Frame::Typed {
            kind,
            frame: Value::Object(object),
        },
        Some(_) => unreadable("its type is not a text".to_owned()),
        None => unreadable("it has no type".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_typed_object_is_unreadable_not_fatal() {
        let deep = format!(
            "{{\"type\":\"x\",\"a\":{}{}}}",
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        for line in [
            deep.as_str(),
            "[1]",
            "{}",
            "{\"type\":5}",
            "\u{0}",
            "{\"type\":\"x\",\"n\":1e999}",
        ] {
            let frame = read(Line::Whole(line.as_bytes()));
            assert!(
                matches!(frame, Frame::Unreadable { .. }),
                "{}",
                cut(line, 60)
            );
        }
    }

    #[test]
    fn separators_that_are_no_line_feed_stay_in_the_text() {
        let line = "{\"type\":\"x\",\"t\":\"a\u{2028}b\u{2029}c\"}\r";
        let Frame::Typed { kind, frame } = read(Line::Whole(line.as_bytes())) else {
            panic!("not read");
        };
        assert_eq!(
            (kind.as_str(), &frame["t"]),
            ("x", &Value::from("a\u{2028}b\u{2029}c"))
        );
    }
}
