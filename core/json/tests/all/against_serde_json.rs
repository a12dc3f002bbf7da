//! What is accepted, and as what, is what serde_json accepts.

use proptest::{collection, option, prelude::*};
use serde_json::{Map, Number, Value};

/// What both say of a text: the value, or that there is none.
fn both(text: &str) -> (Option<Value>, Option<Value>) {
    (
        pilothouse_json::from_str(text).ok(),
        serde_json::from_str(text).ok(),
    )
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|n| Number::from_f64(n).map_or(Value::Null, Value::Number)),
        any::<String>().prop_map(Value::String),
        "[\"\\\\/\u{8}\u{c}\n\r\té\u{1F600}a]{0,8}".prop_map(Value::String),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            collection::vec(("[a-c\"é]{0,3}", inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_is_read_as_serde_json_reads_it(value in value(), pretty: bool) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let (ours, theirs) = both(&text);
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn a_damaged_text_is_accepted_by_both_or_by_neither(
        value in value(),
        at in any::<prop::sample::Index>(),
        instead in option::of("[\\[\\]{}:,\"\\\\0-9a-z .eE+u\u{1}-]"),
    ) {
        let mut characters: Vec<char> = value.to_string().chars().collect();
        let at = at.index(characters.len());
        match instead.and_then(|text| text.chars().next()) {
            Some(character) => characters[at] = character,
            None => characters.truncate(at),
        }
        let text: String = characters.into_iter().collect();
        let (ours, theirs) = both(&text);
        prop_assert_eq!(ours, theirs, "{}", text);
    }

    #[test]
    fn a_text_of_json_s_own_characters_is_accepted_by_both_or_by_neither(
        text in "[\\[\\]{}:,\"\\\\0-9truefalsn .eE+u\u{1}-]{0,12}",
    ) {
        let (ours, theirs) = both(&text);
        prop_assert_eq!(ours, theirs, "{}", text);
        // What nobody asks for has to be JSON as well.
        let ours = pilothouse_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(ours, serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
    }
}

#[test]
fn numbers_and_escapes_at_their_edges() {
    for text in [
        "0",
        "-0",
        "00",
        "01",
        "-",
        "-1",
        "1.",
        "1.5",
        ".5",
        "1e5",
        "1e",
        "1E+5",
        "1e400",
        "-1e400",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        r#""\ud83d\ude00""#,
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ud83dx""#,
        r#""\ud83d\u0041""#,
        r#""\u00""#,
        r#""\u00g0""#,
        r#""\x""#,
        r#""\""#,
        "\"\u{7f}\"",
        "\"\n\"",
        "nul",
        "nulll",
        "truefalse",
        "",
        " ",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{1:2}",
        "{\"a\":1 \"b\":2}",
        "[",
        "{",
        "\"",
        "[1",
        "{\"a\"",
        "{\"a\":",
        "\u{feff}1",
    ] {
        let (ours, theirs) = both(text);
        assert_eq!(ours, theirs, "{text}");
    }
}

#[test]
fn nesting_is_bounded_at_the_same_depth() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [1, 64, 126, 127, 128, 129, 100_000] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let (ours, theirs) = both(&text);
            assert_eq!(ours.is_some(), theirs.is_some(), "{open} {depth}");
            let skipped = pilothouse_json::from_str::<serde::de::IgnoredAny>(&text);
            assert_eq!(
                skipped.is_ok(),
                depth <= pilothouse_json::DEPTH,
                "{open} {depth}"
            );
        }
    }
}

#[test]
fn an_error_names_its_place() {
    let error = pilothouse_json::from_str::<Value>("{\n  \"a\": 1,\n  \"b\": x\n}").unwrap_err();
    assert_eq!((error.line(), error.column()), (3, 7), "{error}");
}
