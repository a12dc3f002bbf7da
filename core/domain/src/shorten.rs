//! What an agent says may be of any size, and has to fit where it goes all the same: texts lose their middle and lists their
//! end, no more of either than is needed. Only what is too large altogether comes here, so most values never do.

use crate::{Subject, limits};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Bytes that texts keep and values that lists keep, tried in this order.
const STEPS: [(usize, usize); 6] = [
    (64 * 1024, 4096),
    (16 * 1024, 1024),
    (4 * 1024, 256),
    (1024, 128),
    (256, 64),
    (64, 32),
];

/// The value with its longest texts and lists shortened as little as makes it fit; `None` if nothing does.
pub fn shortened<T: Serialize + DeserializeOwned>(
    value: &T,
    fits: impl Fn(&T) -> bool,
) -> Option<T> {
    let whole: Value = pilothouse_json::from_str(&serde_json::to_string(value).ok()?).ok()?;
    STEPS.iter().find_map(|&(bytes, values)| {
        let mut less = whole.clone();
        shorten(&mut less, bytes, values);
        pilothouse_json::from_str(&less.to_string())
            .ok()
            .filter(&fits)
    })
}

/// The exact text of what a request is about, as it is shown, hashed and sent. What would fit into no frame is shortened; then
/// it is one that does not show everything.
pub fn fit_subject(subject: &mut Subject) -> String {
    // As it stands in an event: a string in JSON, in which no character takes more than twice its bytes, since none of those
    // that would stands in JSON.
    let fits = |text: &String| {
        2 * text.len() < limits::SUBJECT_ENCODED
            || serde_json::to_string(text)
                .is_ok_and(|encoded| encoded.len() <= limits::SUBJECT_ENCODED)
    };
    let text = subject_text(subject);
    if fits(&text) {
        return text;
    }
    let shorter = shortened(subject, |less| fits(&subject_text(less)));
    *subject = Subject {
        incomplete: true,
        ..shorter.unwrap_or_default()
    };
    subject_text(subject)
}

/// The text of a subject.
pub fn subject_text(subject: &Subject) -> String {
    #[expect(
        clippy::expect_used,
        reason = "a subject has string keys and no failing Serialize"
    )]
    serde_json::to_string(subject).expect("a subject serialises")
}

fn shorten(value: &mut Value, bytes: usize, values: usize) {
    match value {
        Value::String(text) => cut(text, bytes),
        Value::Array(list) => {
            list.truncate(values);
            list.iter_mut().for_each(|one| shorten(one, bytes, values));
        }
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|one| shorten(one, bytes, values)),
        _ => {}
    }
}

/// Leaves the beginning and the end of a longer text, and says between them how much is missing.
fn cut(text: &mut String, bytes: usize) {
    if text.len() <= bytes {
        return;
    }
    let head = text.floor_char_boundary(bytes / 2);
    let tail = text.ceil_char_boundary(text.len() - bytes / 2);
    let missing = format!(" […{} bytes left out…] ", tail - head);
    text.replace_range(head..tail, &missing);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn size(value: &Value) -> usize {
        value.to_string().len()
    }

    #[test]
    fn no_more_is_taken_than_makes_it_fit() {
        let value =
            json!({"id": "a", "short": "words", "long": "é".repeat(50_000), "list": [1, 2, 3]});
        let less = shortened(&value, |less| size(less) <= 20_000).unwrap();
        assert_eq!(
            (&less["id"], &less["short"]),
            (&json!("a"), &json!("words"))
        );
        assert_eq!(less["list"], json!([1, 2, 3]));
        let long = less["long"].as_str().unwrap();
        assert!(
            long.len() > 15_000 && size(&less) <= 20_000,
            "{}",
            long.len()
        );
        assert!(long.starts_with("éé") && long.ends_with("éé"), "both ends");
        assert!(
            long.contains("83616 bytes left out"),
            "{}",
            &long[8_190..8_230]
        );
    }

    #[test]
    fn a_list_without_an_end_loses_its_end() {
        let value = json!(vec!["word"; 500_000]);
        let less = shortened(&value, |less| size(less) <= 10_000).unwrap();
        assert_eq!(less.as_array().unwrap().len(), 1024);
    }

    #[test]
    fn what_no_shortening_makes_fit_is_left() {
        assert_eq!(shortened(&json!({"a": 1}), |_| false), None);
    }
}
