//! Enums with tags, and what may stand in their variants.

use pilothouse_json::Tagged;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, fmt::Debug};

#[derive(Debug, Clone, PartialEq, Serialize, Tagged)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Thing {
    Nothing,
    Named {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    #[serde(rename = "box.of")]
    BoxOf {
        things: Vec<Thing>,
    },
    Wrapped(Inner),
    Beside {
        id: u32,
        #[serde(flatten)]
        inner: Box<Inner>,
    },
    Within {
        #[serde(flatten)]
        light: Light,
    },
    Either {
        id: u32,
        #[serde(flatten)]
        plain: Plain,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Inner {
    words: BTreeMap<String, i64>,
    #[serde(default)]
    light: Light,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Tagged)]
#[serde(rename_all = "snake_case", tag = "light")]
enum Light {
    On {
        watts: u64,
    },
    #[default]
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, PartialEq, Serialize, Tagged)]
#[serde(tag = "row", content = "value", rename_all = "snake_case")]
enum Row {
    Thing(Box<Thing>),
    Pair { left: u8, right: i8 },
    Empty,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Plain {
    Word,
    Number(u16),
    Both(u32, String),
    Fields { deep: Option<bool> },
    Deep(Box<Plain>),
}

/// Reads it by every way there is.
fn read<T: DeserializeOwned + PartialEq + Debug>(text: &str) -> T {
    let ours: T = pilothouse_json::from_str(text).unwrap();
    assert_eq!(serde_json::from_str::<T>(text).unwrap(), ours);
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::from_value::<T>(value).unwrap(), ours);
    ours
}

fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    let text = serde_json::to_string(&value).unwrap();
    assert_eq!(read::<T>(&text), value, "{text}");
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    assert_eq!(read::<T>(&pretty), value, "{pretty}");
}

fn inner() -> Inner {
    Inner {
        words: BTreeMap::from([("a \"b\"".to_owned(), -5), ("ü".to_owned(), 7)]),
        light: Light::On { watts: 60 },
    }
}

#[test]
fn what_serde_writes_is_read_as_it_was() {
    same(Thing::Nothing);
    same(Thing::Named {
        name: "a\n\u{1F600}".to_owned(),
        size: Some(u64::MAX),
    });
    same(Thing::BoxOf {
        things: vec![
            Thing::Nothing,
            Thing::Wrapped(inner()),
            Thing::BoxOf { things: Vec::new() },
        ],
    });
    same(Thing::Beside {
        id: 3,
        inner: Box::new(inner()),
    });
    same(Thing::Within {
        light: Light::On { watts: 1 },
    });
    for plain in [
        Plain::Number(9),
        Plain::Fields { deep: Some(true) },
        Plain::Deep(Box::new(Plain::Word)),
    ] {
        same(Thing::Either { id: 1, plain });
    }
    same(Row::Thing(Box::new(Thing::Wrapped(inner()))));
    same(Row::Pair {
        left: 255,
        right: -128,
    });
    same(Row::Empty);
    same([
        Plain::Word,
        Plain::Number(9),
        Plain::Both(1, "x".to_owned()),
        Plain::Fields { deep: Some(true) },
    ]);
}

#[test]
fn a_tag_may_stand_anywhere_and_what_is_not_known_is_passed_over() {
    let named = Thing::Named {
        name: "x".to_owned(),
        size: None,
    };
    assert_eq!(
        read::<Thing>(
            r#"{"name":"x","more":{"kind":"nothing","a":[1,{}]},"kind":"named","size":null}"#
        ),
        named
    );
    assert_eq!(
        read::<Thing>(r#"{"a":1,"kind":"nothing","b":[]}"#),
        Thing::Nothing
    );
    assert_eq!(
        read::<Thing>(r#"{"words":{},"id":3,"kind":"beside","light":{"watts":2,"light":"on"}}"#),
        Thing::Beside {
            id: 3,
            inner: Box::new(Inner {
                words: BTreeMap::new(),
                light: Light::On { watts: 2 }
            })
        },
    );
    assert_eq!(
        read::<Row>(r#"{"value":{"left":1,"right":2},"more":1,"row":"pair"}"#),
        Row::Pair { left: 1, right: 2 }
    );
    assert_eq!(
        read::<Row>(r#"{"row":"thing","value":{"kind":"nothing"},"more":{}}"#),
        Row::Thing(Box::new(Thing::Nothing))
    );
    assert_eq!(read::<Row>(r#"{"row":"empty","value":null}"#), Row::Empty);
    assert_eq!(
        read::<Light>(r#"{"light":"blinks","often":[3]}"#),
        Light::Other
    );
    assert_eq!(
        read::<(Light, Light)>(r#"[{"light":"x"} , {"light":"on","watts":1}]"#),
        (Light::Other, Light::On { watts: 1 })
    );
}

#[test]
fn what_is_not_of_the_enum_is_refused_with_its_reason() {
    for (text, reason) in [
        (r#"{"name":"x"}"#, "missing field `kind`"),
        (
            r#"{"kind":"other"}"#,
            "unknown variant `other`, expected one of `nothing`, `named`, `box.of`",
        ),
        (
            r#"{"kind":"either","id":1,"Other":2}"#,
            "no variant of [\"Word\", \"Number\"",
        ),
        (r#"{"kind":7}"#, "invalid type: number, expected a string"),
        (r#"{"kind":"named"}"#, "missing field `name`"),
        (
            r#"{"kind":"named","name":"x","name":"y"}"#,
            "duplicate field `name`",
        ),
        (
            r#"{"kind":"named","name":"x","size":-1}"#,
            "invalid value: integer `-1`, expected u64",
        ),
        (
            r#"{"kind":"named","name":"x","size":18446744073709551616}"#,
            "number outside of what fits",
        ),
        (
            r#"{"kind":"named","name":"x","kind":"nothing"}"#,
            "duplicate field `kind`",
        ),
        (
            r#"{"kind":"nothing","a":1,"kind":"nothing"}"#,
            "duplicate field `kind`",
        ),
        (
            r#"{"kind":"wrapped","words":{},"kind":"nothing"}"#,
            "duplicate field `kind`",
        ),
        (r#"{"kind":"named","name":"x"} {}"#, "trailing characters"),
        (r#"{"kind":"named","name":"x""#, "EOF while parsing"),
        (r#"{"kind":"nothing","a":tru}"#, "expected ident"),
        (r#"["nothing"]"#, "expected an object"),
        (r#""nothing""#, "expected an object"),
    ] {
        let error = pilothouse_json::from_str::<Thing>(text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{text}: {error}");
        assert!(error.contains(" at line 1 column "), "{text}: {error}");
        assert!(serde_json::from_str::<Thing>(text).is_err(), "{text}");
    }
    for (text, reason) in [
        (r#"{"row":"thing"}"#, "missing field `value`"),
        (
            r#"{"row":"pair","value":{"left":1,"right":2},"row":"empty"}"#,
            "duplicate field `row`",
        ),
        (
            r#"{"row":"thing","value":{"kind":"nothing"},"value":{"kind":"nothing"}}"#,
            "duplicate field `value`",
        ),
        (r#"{"row":"empty","value":{}}"#, "invalid type: map"),
    ] {
        let error = pilothouse_json::from_str::<Row>(text).unwrap_err();
        assert!(error.to_string().starts_with(reason), "{text}: {error}");
    }
    assert!(pilothouse_json::from_str::<[u8; 2]>("[1,2,3]").is_err());
    assert!(pilothouse_json::from_str::<Plain>(r#"{"Number":1,"Word":null}"#).is_err());
    assert!(pilothouse_json::from_str::<Plain>(r#""Number""#).is_err());
}

#[test]
fn a_value_s_text_is_given_as_it_stands() {
    struct Raw(String);
    impl<'de> Deserialize<'de> for Raw {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            pilothouse_json::raw(from).map(|text| Self(text.into_owned()))
        }
    }
    let read: Vec<Raw> = pilothouse_json::from_str(r#"[ {"b" :1, "a":"\u0041"} ,2]"#).unwrap();
    assert_eq!(
        read.iter().map(|raw| raw.0.as_str()).collect::<Vec<_>>(),
        [r#"{"b" :1, "a":"\u0041"}"#, "2"]
    );
    let read: Vec<Raw> = serde_json::from_str(r#"[ {"b" :1, "a":"\u0041"} ,2]"#).unwrap();
    assert_eq!(
        read.iter().map(|raw| raw.0.as_str()).collect::<Vec<_>>(),
        [r#"{"b":1,"a":"A"}"#, "2"]
    );
}

#[test]
fn what_nobody_asks_for_is_json_and_no_more() {
    let nothing = |value: &str| {
        pilothouse_json::from_str::<Thing>(&format!(r#"{{"kind":"nothing","more":{value}}}"#))
    };
    for value in [r#""\ud83d""#, "1e400", r#"{"a":1,"a":2}"#] {
        assert_eq!(nothing(value).unwrap(), Thing::Nothing, "{value}");
    }
    for value in [r#""\ud83""#, r#""\x""#, "01", "[1,]", "\"\n\""] {
        assert!(nothing(value).is_err(), "{value}");
    }
    assert!(pilothouse_json::from_str::<String>(r#""\ud83d""#).is_err());
}

#[test]
fn an_error_names_the_place_in_the_whole_text() {
    for (text, place) in [
        ("{\n  \"kind\": \"named\",\n  \"name\": 1e400\n}", (3, 10)),
        ("[\n\n 1e400 ]", (3, 6)),
    ] {
        let thing = pilothouse_json::from_str::<Thing>(text).unwrap_err();
        let value = pilothouse_json::from_str::<serde_json::Value>(text).unwrap_err();
        let error = if text.starts_with('{') { thing } else { value };
        assert_eq!((error.line(), error.column()), place, "{error}");
    }
}
