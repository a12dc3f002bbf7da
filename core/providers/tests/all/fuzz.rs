//! Frames that are nearly right.

use proptest::prelude::*;
use serde_json::{Value, json};

/// A frame as a line.
pub(crate) fn line(frame: &Value) -> Vec<u8> {
    let mut bytes = frame.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// Changes one place of a frame, found by walking as the numbers say.
pub(crate) fn mutate(value: &mut Value, walk: &[u8], with: &Value) {
    let Some((&step, rest)) = walk.split_first() else {
        *value = with.clone();
        return;
    };
    match value {
        Value::Object(object) if !object.is_empty() => {
            let key = object
                .keys()
                .nth(step as usize % object.len())
                .unwrap()
                .clone();
            if rest.is_empty() && step % 3 == 0 {
                object.remove(&key);
            } else {
                mutate(&mut object[&key], rest, with);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            let at = step as usize % list.len();
            mutate(&mut list[at], rest, with);
        }
        other => *other = with.clone(),
    }
}

pub(crate) fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
        Just(json!([[]])),
        Just(json!(-1)),
        Just(json!(u64::MAX)),
        Just(json!(1e300)),
        Just(json!(true)),
        "\\PC{0,40}".prop_map(Value::from),
        Just(json!("\u{0}\u{202e}")),
    ]
}
