//! Messages: golden files, versions older and newer, and hostile input.

use crate::{
    examples::{of_device, of_host},
    negotiation,
};
use pilothouse_domain::{CommandId, Refusal};
use pilothouse_wire::{
    duplex::{Frame, MAX_FRAME},
    message::{
        ByeReason, DecodeError, DeviceMessage, EncodeError, ErrorAbout, ErrorCode, HostMessage,
        Message, WireError, decode, encode,
    },
};
use proptest::prelude::*;
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Debug, fs, path::PathBuf};

fn golden_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden")
}

fn check_golden<M: Message + PartialEq + Debug>(
    side: &str,
    examples: Vec<(&'static str, M)>,
) -> Vec<String> {
    let mut names = Vec::new();
    for (name, message) in examples {
        let file = format!("{side}.{name}.json");
        let path = golden_dir().join(&file);
        let written = serde_json::to_string_pretty(&message).unwrap() + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(golden_dir()).unwrap();
            fs::write(&path, &written).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(
            golden, written,
            "{file} (if the change is meant: UPDATE_GOLDEN=1)"
        );
        assert_eq!(
            decode::<M>(&Frame::Text(golden)).unwrap(),
            message,
            "{file}"
        );
        let Frame::Text(sent) = encode(&message).unwrap() else {
            panic!()
        };
        assert_eq!(
            serde_json::from_str::<Value>(&sent).unwrap()["type"],
            message.type_name()
        );
        names.push(file);
    }
    names
}

#[test]
fn every_message_is_written_and_read_as_its_golden_file_says() {
    let mut names: BTreeSet<String> = check_golden("device", of_device()).into_iter().collect();
    names.extend(check_golden("host", of_host()));
    names.extend(check_golden(
        "device",
        vec![negotiation::offering(), negotiation::wording()],
    ));
    names.extend(check_golden("host", vec![negotiation::choosing()]));
    let on_disk: BTreeSet<String> = fs::read_dir(golden_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        on_disk, names,
        "a golden file without a test, or the other way round"
    );
}

#[test]
fn every_type_has_a_golden_file_and_is_on_the_list() {
    fn check<M: Message>(examples: Vec<(&'static str, M)>) {
        let seen: BTreeSet<_> = examples
            .iter()
            .map(|(_, message)| message.type_name())
            .collect();
        assert_eq!(seen, M::TYPES.iter().copied().collect());
        // Serde's own list of variants, out of its message for an unknown one.
        let error = serde_json::from_str::<M>(r#"{"type":"?"}"#)
            .err()
            .unwrap()
            .to_string();
        let listed: BTreeSet<_> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(listed, seen, "{error}");
    }
    check(of_device());
    check(of_host());
}

#[test]
fn unknown_fields_are_ignored_wherever_they_stand() {
    fn check<M: Message + PartialEq + Debug>(examples: Vec<(&'static str, M)>) {
        for (name, message) in examples {
            let mut value = serde_json::to_value(&message).unwrap();
            value["of_next_year"] = serde_json::json!({"x": [1]});
            let frame = Frame::Text(value.to_string());
            assert_eq!(decode::<M>(&frame).unwrap(), message, "{name}");
        }
    }
    check(of_device());
    check(of_host());
}

fn device(text: &str) -> DecodeError {
    decode::<DeviceMessage>(&Frame::Text(text.into())).unwrap_err()
}

#[test]
fn an_unknown_type_can_be_answered() {
    let error = device(r#"{"type":"of_next_year","x":1}"#);
    assert_eq!(
        error,
        DecodeError::Unknown {
            kind: "of_next_year".into()
        }
    );
    let answer = WireError::of_decode(&error);
    assert_eq!(
        answer.about,
        ErrorAbout::Message {
            kind: "of_next_year".into()
        }
    );
    assert_eq!(answer.code, ErrorCode::Unsupported);
}

#[test]
fn an_unknown_or_malformed_command_is_answered_with_a_refusal() {
    let expected = CommandId::from_bytes([0x33; 16]);
    let id = expected;
    let with = |body: &str| {
        device(&format!(
            r#"{{"type":"command","command":{{"id":"{id}","thread":"{id}","device_seq":1,"issued_at_ms":1,"body":{body}}}}}"#
        ))
    };
    assert_eq!(
        with(r#"{"command":"thread.paint","colour":"blue"}"#),
        DecodeError::Command {
            id: expected,
            refusal: Refusal::UnknownCommand {
                name: "thread.paint".into()
            }
        }
    );
    for body in [
        r#"{"command":"message.send","text":"x","dispatch":{"mode":"of_next_year"}}"#,
        r#"{"command":"queue.release"}"#,
        r#"{"command":"queue.release","revision":-1}"#,
    ] {
        let DecodeError::Command {
            id,
            refusal: Refusal::Invalid { problem, .. },
        } = with(body)
        else {
            panic!("{body}")
        };
        assert_eq!(id, expected);
        assert!(!problem.is_empty());
    }
    assert!(matches!(
        device(r#"{"type":"command","command":{"id":"x"}}"#),
        DecodeError::Malformed { .. }
    ));
}

#[test]
fn an_unknown_query_is_answered_by_its_number() {
    let error = device(r#"{"type":"query","id":9,"query":{"query":"weather"}}"#);
    assert!(matches!(error, DecodeError::Query { id: 9, .. }), "{error}");
    assert_eq!(
        WireError::of_decode(&error).about,
        ErrorAbout::Query { id: 9 }
    );
}

#[test]
fn reasons_and_error_kinds_of_a_newer_version_are_read_as_other() {
    let read = |text: &str| decode::<HostMessage>(&Frame::Text(text.into())).unwrap();
    let bye = read(r#"{"type":"bye","reason":{"why":"of_next_year","x":1}}"#);
    assert_eq!(
        bye,
        HostMessage::Bye {
            reason: ByeReason::Other
        }
    );
    let error = read(
        r#"{"type":"error","about":{"what":"moon"},"code":"of_next_year","message":"m","next_step":"n"}"#,
    );
    let HostMessage::Error(error) = error else {
        panic!()
    };
    assert_eq!(
        (error.about, error.code),
        (ErrorAbout::Connection, ErrorCode::Other)
    );
}

#[test]
fn frames_that_are_no_messages_are_told_apart() {
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "{\"type\":7}",
        "{\"type\":\"ping\"",
        "\u{0}",
        "\"ping\"",
    ] {
        assert!(
            matches!(device(text), DecodeError::NotAMessage(_)),
            "{text:?}"
        );
    }
    assert!(matches!(
        device(r#"{"type":"ping"}"#),
        DecodeError::Malformed { .. }
    ));
    assert!(matches!(
        device(r#"{"type":"ping","nonce":"x"}"#),
        DecodeError::Malformed { .. }
    ));
    let binary = decode::<DeviceMessage>(&Frame::Binary(b"{}".to_vec())).unwrap_err();
    assert!(matches!(binary, DecodeError::NotAMessage(_)));
    let deep = format!(r#"{{"type":"ping","nonce":{}}}"#, "[".repeat(100_000));
    assert!(matches!(
        device(&deep),
        DecodeError::NotAMessage(_) | DecodeError::Malformed { .. }
    ));
    let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(100_000));
    assert!(
        device(&long).to_string().len() < 400,
        "what a peer says is cut"
    );
    assert!(
        device(&"x".repeat(MAX_FRAME + 1))
            .to_string()
            .contains("1048576")
    );
}

#[test]
fn a_message_over_one_mebibyte_is_not_written() {
    let big = DeviceMessage::OutcomeQuery {
        command_ids: vec![CommandId::default(); 40_000],
    };
    let error = encode(&big).unwrap_err();
    assert!(
        matches!(error, EncodeError::TooLarge { kind: "outcome_query", size } if size > MAX_FRAME),
        "{error}"
    );
}

/// Replaces, removes or repeats something somewhere in a JSON value.
fn mutate(value: &mut Value, at: &mut u32, how: u8) {
    if *at == 0 {
        *value = match how % 8 {
            0 => Value::Null,
            1 => Value::from(-1),
            2 => Value::from(u64::MAX),
            3 => Value::from("\u{202e}"),
            4 => Value::Array(vec![value.clone(), value.clone()]),
            5 => serde_json::json!({"type": value.clone()}),
            6 => Value::Bool(true),
            _ => Value::from(1.5),
        };
    }
    *at = at.wrapping_sub(1);
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| mutate(value, at, how)),
        Value::Object(map) => map.values_mut().for_each(|value| mutate(value, at, how)),
        _ => {}
    }
}

fn read_both(text: String) {
    let frame = Frame::Text(text);
    if let Err(error) = decode::<DeviceMessage>(&frame) {
        let _ = WireError::of_decode(&error);
    }
    let _ = decode::<HostMessage>(&frame);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_never_panics_on_any_text(text in "\\PC{0,200}", json in "[\\[\\]{}\":,a-z0-9\\\\.eE+-]{0,200}") {
        read_both(text);
        read_both(json);
    }

    #[test]
    fn decoding_never_panics_on_mutated_messages(which in any::<prop::sample::Index>(), at in 0u32..120, how in any::<u8>()) {
        let mut all: Vec<Value> = of_device().iter().map(|(_, m)| serde_json::to_value(m).unwrap()).collect();
        all.extend(of_host().iter().map(|(_, m)| serde_json::to_value(m).unwrap()));
        let mut value = which.get(&all).clone();
        let mut at = at;
        mutate(&mut value, &mut at, how);
        read_both(value.to_string());
    }

    #[test]
    fn decoding_never_panics_on_damaged_bytes(
        which in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(), byte in any::<char>(),
    ) {
        let all = of_host();
        let text = serde_json::to_string(&which.get(&all).1).unwrap();
        let mut chars: Vec<char> = text.chars().collect();
        let place = cut.index(chars.len());
        chars[place] = byte;
        read_both(chars.iter().collect());
        read_both(chars[..place].iter().collect());
    }
}
