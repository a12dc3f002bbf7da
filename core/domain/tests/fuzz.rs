//! Every golden sample, mutated: what reads at all is written and read again as the same, nothing panics, and what a
//! newer version adds is passed over or kept as its type says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by panicking and reads its own files"
)]

#[path = "../../../tests/support/mutate.rs"]
mod mutate;

use mutate::{Dice, rounds};
use pilothouse_domain::{
    Command, Effect, EffectOutcome, Entry, Event, ItemContent, LoggedEvent, Policy, ProviderEvent,
    Refusal, RequestStatus, Row, ThreadState, ThreadSummary,
    binding::Binding,
    command::{Notice, Outcome},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::fmt::Debug;

fn golden(file: &str) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(!lines.is_empty(), "{file} is empty");
    lines
}

/// Reads it; what reads is written and read again as the same.
fn read<T: Serialize + DeserializeOwned + PartialEq + Debug>(text: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(text).ok()?;
    let written = serde_json::to_string(&read).unwrap();
    let again: T = serde_json::from_str(&written)
        .unwrap_or_else(|error| panic!("what was written does not read: {error}\n{written}"));
    assert_eq!(again, read, "{written}");
    assert_eq!(serde_json::to_string(&again).unwrap(), written);
    Some(read)
}

fn fuzz<T: Serialize + DeserializeOwned + PartialEq + Debug>(file: &str, times: u64) {
    let lines = golden(file);
    let values: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        let plain: T = read(line.as_bytes()).expect("a golden line reads");
        assert_eq!(serde_json::to_string(&plain).unwrap(), *line, "{file}");
    }
    let mut taken = 0;
    rounds(times, |dice: &mut Dice| {
        let value = dice.one(&values).clone();
        let changed = dice.changed(&value, &values);
        taken += u64::from(read::<T>(changed.to_string().as_bytes()).is_some());
        let line = dice.one(&lines).clone();
        let damaged = dice.damaged(line.as_bytes());
        let _ = serde_json::from_slice::<T>(&damaged);
        // Nobody writes a field twice: what is known refuses it, and what is kept as unknown keeps its last.
        if let Ok(once) = serde_json::from_slice::<Value>(&damaged) {
            read::<T>(once.to_string().as_bytes());
        }
    });
    // Mutations that nothing ever takes would test the JSON parser alone.
    assert!(taken > 0, "no mutation of {file} was taken");
}

#[test]
fn mutated_samples_are_refused_or_read_the_same_twice() {
    fuzz::<Event>("events.jsonl", 4000);
    fuzz::<LoggedEvent>("events.jsonl", 4000);
    fuzz::<ProviderEvent>("provider_events.jsonl", 3000);
    fuzz::<Entry>("entries.jsonl", 2000);
    fuzz::<Command>("commands.jsonl", 2000);
    fuzz::<Outcome>("outcomes.jsonl", 1000);
    fuzz::<Notice>("notices.jsonl", 1000);
    fuzz::<Refusal>("refusals.jsonl", 2000);
    fuzz::<ItemContent>("items.jsonl", 2000);
    fuzz::<Row>("rows.jsonl", 2000);
    fuzz::<ThreadSummary>("summaries.jsonl", 1000);
    fuzz::<Effect>("effects.jsonl", 1000);
    fuzz::<EffectOutcome>("effect_outcomes.jsonl", 1000);
    fuzz::<Binding>("bindings.jsonl", 1000);
    fuzz::<ThreadState>("state.jsonl", 1000);
    fuzz::<Policy>("policy.jsonl", 1000);
    fuzz::<RequestStatus>("request_statuses.jsonl", 1000);
}

/// A field that this version does not know is passed over, at every depth where there are named fields.
fn passes_over<T: DeserializeOwned + PartialEq + Debug>(file: &str) {
    for line in golden(file) {
        let plain: T = serde_json::from_str(&line).unwrap();
        let mut value: Value = serde_json::from_str(&line).unwrap();
        value
            .as_object_mut()
            .expect("a sample is an object")
            .insert("of_a_newer_version".to_owned(), Value::from(vec![1, 2]));
        let read: T = serde_json::from_value(value)
            .unwrap_or_else(|error| panic!("{file}: a new field is in the way: {error}\n{line}"));
        assert_eq!(read, plain, "{file}");
    }
}

#[test]
fn a_field_of_a_newer_version_is_passed_over() {
    passes_over::<Event>("events.jsonl");
    passes_over::<LoggedEvent>("events.jsonl");
    passes_over::<Entry>("entries.jsonl");
    passes_over::<Command>("commands.jsonl");
    passes_over::<Outcome>("outcomes.jsonl");
    passes_over::<Refusal>("refusals.jsonl");
    passes_over::<ItemContent>("items.jsonl");
    passes_over::<Row>("rows.jsonl");
    passes_over::<ThreadSummary>("summaries.jsonl");
    passes_over::<ThreadState>("state.jsonl");
    passes_over::<Policy>("policy.jsonl");
}

/// Every text in a tag's place: an unknown word is an error in a command, an effect and the rest, and an event that is
/// kept word for word in a log.
#[test]
fn an_unknown_word_is_refused_and_in_a_log_kept_word_for_word() {
    fn refused<T: DeserializeOwned + Debug>(file: &str, tag: &str) {
        for line in golden(file) {
            let mut value: Value = serde_json::from_str(&line).unwrap();
            let place = value
                .pointer_mut(tag)
                .unwrap_or_else(|| panic!("{file} has no {tag}"));
            *place = Value::from("of.a_newer_version");
            let read: Result<T, _> = serde_json::from_value(value);
            assert!(read.is_err(), "{file}: {read:?}");
        }
    }
    refused::<Event>("events.jsonl", "/type");
    refused::<Command>("commands.jsonl", "/body/command");
    refused::<Outcome>("outcomes.jsonl", "/outcome");
    refused::<Refusal>("refusals.jsonl", "/refusal");
    refused::<Row>("rows.jsonl", "/row");
    refused::<EffectOutcome>("effect_outcomes.jsonl", "/result");
    refused::<RequestStatus>("request_statuses.jsonl", "/status");
    for line in golden("events.jsonl") {
        let mut value: Value = serde_json::from_str(&line).unwrap();
        for skippable in [true, false] {
            value["type"] = Value::from("of.a_newer_version");
            value["skippable"] = Value::from(skippable);
            let read: LoggedEvent = serde_json::from_value(value.clone()).unwrap();
            let LoggedEvent::Unknown(unknown) = &read else {
                panic!("{read:?} is taken for something known");
            };
            assert_eq!(unknown.skippable, skippable);
            assert_eq!(serde_json::to_value(&read).unwrap(), value);
        }
    }
}
