//! Golden files: one sample of each shape that is stored or sent. A change that breaks them breaks what stands in
//! people's logs and on their wires; one that only adds is written anew with `PILOTHOUSE_WRITE_GOLDEN=1`.

mod samples;

use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeSet, fmt::Debug, path::PathBuf};

/// Compares the samples with their file, both ways.
#[expect(
    clippy::disallowed_methods,
    reason = "a test reads its own golden files and one switch"
)]
fn hold<T>(file: &str, samples: &[T])
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(file);
    // One sample a line, so that a change shows as the line of its sample.
    let lines: Vec<String> = samples
        .iter()
        .map(|sample| serde_json::to_string(sample).unwrap())
        .collect();
    let text = lines.join("\n") + "\n";
    if std::env::var("PILOTHOUSE_WRITE_GOLDEN").is_ok() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
    for (line, encoded) in golden.lines().zip(&lines) {
        assert_eq!(line, encoded, "{file}");
    }
    assert_eq!(golden, text, "{file}");
    let decoded: Vec<T> = golden
        .lines()
        .map(|line| pilothouse_json::from_str(line).unwrap())
        .collect();
    assert_eq!(decoded, samples, "{file}");
    // Also as whoever has another reader, and with the fields in another order.
    for (line, sample) in golden.lines().zip(samples) {
        assert_eq!(&serde_json::from_str::<T>(line).unwrap(), sample, "{file}");
        let sorted: serde_json::Value = serde_json::from_str(line).unwrap();
        let sorted = pilothouse_json::from_str::<T>(&sorted.to_string());
        assert_eq!(&sorted.unwrap(), sample, "{file}");
    }
    let distinct: BTreeSet<&String> = lines.iter().collect();
    assert_eq!(distinct.len(), lines.len(), "{file} has a sample twice");
}

/// Checks that every name is that of a sample: the value of `tag` in its JSON.
fn cover<T: Serialize>(tag: &str, samples: &[T], names: &[&str]) {
    let found: BTreeSet<String> = samples
        .iter()
        .map(|sample| {
            let value = serde_json::to_value(sample).unwrap();
            value[tag].as_str().unwrap().to_owned()
        })
        .collect();
    let expected: BTreeSet<String> = names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_event_is_written_and_read_as_ever() {
    let events = samples::events();
    let names: Vec<_> = events.iter().map(samples::event_name).collect();
    cover("type", &events, &names);
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), samples::EVENTS);
    hold("events.jsonl", &events);
}

#[test]
fn every_command_and_outcome_is_written_and_read_as_ever() {
    let commands = samples::commands();
    let bodies: Vec<_> = commands.iter().map(|c| c.body.clone()).collect();
    cover("command", &bodies, crate::CommandBody::NAMES);
    hold("commands.jsonl", &commands);
    hold("outcomes.jsonl", &samples::outcomes());
    hold("notices.jsonl", &samples::notices());
}

#[test]
fn every_refusal_is_written_and_read_as_ever() {
    let refusals = samples::refusals();
    let names: Vec<_> = refusals.iter().map(samples::refusal_name).collect();
    cover("refusal", &refusals, &names);
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), samples::REFUSALS);
    hold("refusals.jsonl", &refusals);
}

#[test]
fn every_provider_event_is_written_and_read_as_ever() {
    let events = samples::provider_events();
    let names: Vec<_> = events.iter().map(samples::provider_event_name).collect();
    let kinds: Vec<_> = events.iter().map(|event| event.kind.clone()).collect();
    cover("event", &kinds, &names);
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), samples::PROVIDER_EVENTS);
    hold("provider_events.jsonl", &events);
}

#[test]
fn every_item_is_written_and_read_as_ever() {
    let items = samples::items();
    let kinds: Vec<_> = items.iter().map(samples::item_name).collect();
    cover("kind", &items, &kinds);
    let distinct: BTreeSet<_> = kinds.iter().collect();
    assert_eq!(distinct.len(), samples::ITEMS);
    hold("items.jsonl", &items);
}

#[test]
fn every_row_is_written_and_read_as_ever() {
    let rows = samples::rows();
    let kinds: Vec<_> = rows.iter().map(|row| row.key().kind.name()).collect();
    cover("row", &rows, &kinds);
    assert_eq!(kinds.iter().collect::<BTreeSet<_>>().len(), 10);
    hold("rows.jsonl", &rows);
    hold("summaries.jsonl", &[samples::summary()]);
}

#[test]
fn entries_effects_bindings_and_state_are_written_and_read_as_ever() {
    hold("entries.jsonl", &samples::entries());
    hold("effects.jsonl", &samples::effects());
    hold("effect_outcomes.jsonl", &samples::effect_outcomes());
    hold("bindings.jsonl", &samples::bindings());
    hold("state.jsonl", &samples::states());
    hold("policy.jsonl", &[samples::policy()]);
    hold("request_statuses.jsonl", &samples::request_statuses());
}
