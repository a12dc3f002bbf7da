//! Everything that an earlier version has written into a log, a database, the wire or a terminal is read by this one, and
//! says the same.

use super::{VERSIONS, fixture};
use pilothouse_domain::{
    Command, Effect, EffectOutcome, Entry, Event, ItemContent, LoggedEvent, Outcome, Policy,
    ProviderEvent, Refusal, RequestStatus, Row, ThreadState, ThreadSummary, binding::Binding,
    command::Notice,
};
use pilothouse_wire::{
    duplex::Frame,
    message::{DeviceMessage, HostMessage, Message, decode},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

/// Why a value of an earlier version is not what this version makes of it: the place, in words. Fields may be added;
/// nothing may be missing or different.
fn lost(old: &Value, new: &Value, at: &str) -> Option<String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => old.iter().find_map(|(name, value)| {
            let at = format!("{at}.{name}");
            match new.get(name) {
                Some(found) => lost(value, found, &at),
                None => Some(format!("{at} is missing")),
            }
        }),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => old
            .iter()
            .zip(new)
            .enumerate()
            .find_map(|(index, (old, new))| lost(old, new, &format!("{at}[{index}]"))),
        (old, new) if old == new => None,
        (old, new) => Some(format!("{at} was {old} and is {new}")),
    }
}

/// Reads a value of an earlier version as this version's type.
fn read<T: Serialize + DeserializeOwned>(text: &str) -> Result<T, String> {
    let value: T = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let old: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let new = serde_json::to_value(&value).map_err(|error| error.to_string())?;
    match lost(&old, &new, "it") {
        Some(what) => Err(what),
        None => Ok(value),
    }
}

/// The event of the golden entries that nobody knows, on purpose.
const UNKNOWN: &str = "goal.set";

/// An entry of a log: every event has to be known, an unknown one would make its thread read-only.
fn read_entry(text: &str) -> Result<(), String> {
    let entry: Entry = read(text)?;
    let forgotten = entry.events.iter().find_map(|event| match event {
        LoggedEvent::Unknown(unknown) if unknown.kind != UNKNOWN => Some(unknown.kind.clone()),
        _ => None,
    });
    match forgotten {
        Some(kind) => Err(format!("`{kind}` is not known any more")),
        None => Ok(()),
    }
}

/// Fields of samples that were marked draft, that no program of that version ever filled, and whose shape has changed since:
/// version, file, field. Each stands in docs/compatibility.md.
const CHANGED_DRAFTS: &[(&str, &str, &str)] = &[("first-light", "state.jsonl", "transfers")];

/// A kept sample, but for fields whose draft has changed: those are lists, and read as what its programs wrote.
fn as_written(version: &str, file: &str, sample: &str) -> String {
    let mut value: Value = serde_json::from_str(sample).expect("a sample is JSON");
    for (_, _, field) in CHANGED_DRAFTS
        .iter()
        .filter(|(of, within, _)| (*of, *within) == (version, file))
    {
        assert!(value[field].is_array(), "{version}/{file}: {field}");
        value[field] = Value::Array(Vec::new());
    }
    value.to_string()
}

type Reader = fn(&str) -> Result<(), String>;

/// What is in each file of `domain/`.
const DOMAIN: &[(&str, Reader)] = &[
    ("bindings.jsonl", |text| read::<Binding>(text).map(drop)),
    ("commands.jsonl", |text| read::<Command>(text).map(drop)),
    ("effect_outcomes.jsonl", |text| {
        read::<EffectOutcome>(text).map(drop)
    }),
    ("effects.jsonl", |text| read::<Effect>(text).map(drop)),
    ("entries.jsonl", read_entry),
    ("events.jsonl", |text| read::<Event>(text).map(drop)),
    ("items.jsonl", |text| read::<ItemContent>(text).map(drop)),
    ("notices.jsonl", |text| read::<Notice>(text).map(drop)),
    ("outcomes.jsonl", |text| read::<Outcome>(text).map(drop)),
    ("policy.jsonl", |text| read::<Policy>(text).map(drop)),
    ("provider_events.jsonl", |text| {
        read::<ProviderEvent>(text).map(drop)
    }),
    ("refusals.jsonl", |text| read::<Refusal>(text).map(drop)),
    ("request_statuses.jsonl", |text| {
        read::<RequestStatus>(text).map(drop)
    }),
    ("rows.jsonl", |text| read::<Row>(text).map(drop)),
    ("state.jsonl", |text| read::<ThreadState>(text).map(drop)),
    ("summaries.jsonl", |text| {
        read::<ThreadSummary>(text).map(drop)
    }),
];

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn what_earlier_versions_keep_in_their_logs_and_databases_is_read() {
    for version in VERSIONS {
        let dir = fixture(version).join("domain");
        let known: BTreeSet<String> = DOMAIN.iter().map(|(file, _)| (*file).to_owned()).collect();
        assert_eq!(names(&dir), known, "{version}: a file that nothing reads");
        for (file, reader) in DOMAIN {
            let text = text(&dir.join(file));
            assert!(!text.is_empty(), "{version}/{file} is empty");
            for (line, sample) in text.lines().enumerate() {
                if let Err(what) = reader(&as_written(version, file, sample)) {
                    panic!(
                        "{version}/domain/{file} line {}: {what}: {sample}",
                        line + 1
                    );
                }
            }
        }
    }
}

#[test]
fn what_earlier_versions_say_on_the_wire_is_read() {
    fn message<M: Message>(text: &str) -> Result<(), String> {
        decode::<M>(&Frame::Text(text.to_owned()))
            .map(drop)
            .map_err(|error| error.to_string())?;
        read::<M>(text).map(drop)
    }
    for version in VERSIONS {
        let dir = fixture(version).join("wire");
        let files = names(&dir);
        assert!(files.len() > 40, "{version}: {files:?}");
        for file in files {
            let text = text(&dir.join(&file));
            let outcome = match file.split('.').next() {
                Some("device") => message::<DeviceMessage>(&text),
                Some("host") => message::<HostMessage>(&text),
                _ => Err("it is of neither side".to_owned()),
            };
            if let Err(what) = outcome {
                panic!("{version}/wire/{file}: {what}: {text}");
            }
        }
    }
}

/// Fields that scripts may read stay, with their kind of value. What is printed for an example may say more today.
fn unreadable(old: &Value, new: &Value, at: &str) -> Option<String> {
    let kind = |value: &Value| match value {
        // Absent and present are the same field.
        Value::Null => None,
        Value::Bool(_) => Some("true or false"),
        Value::Number(_) => Some("a number"),
        Value::String(_) => Some("text"),
        Value::Array(_) => Some("a list"),
        Value::Object(_) => Some("an object"),
    };
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => old.iter().find_map(|(name, value)| {
            let at = format!("{at}.{name}");
            match new.get(name) {
                Some(found) => unreadable(value, found, &at),
                None => Some(format!("{at} is gone")),
            }
        }),
        (Value::Array(old), Value::Array(new)) => match (old.first(), new.first()) {
            (Some(old), Some(new)) => unreadable(old, new, &format!("{at}[0]")),
            _ => None,
        },
        (old, new) => match (kind(old), kind(new)) {
            (Some(before), Some(now)) if before != now => {
                Some(format!("{at} was {before} and is {now}"))
            }
            _ => None,
        },
    }
}

#[test]
fn what_scripts_read_of_earlier_versions_is_still_printed() {
    let lines = |path: &Path| -> Vec<Value> {
        text(path)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    // core/host's own tests hold this file to what is printed.
    let now =
        lines(&pilothouse_tests::places::root().join("core/host/golden/client/objects.jsonl"));
    let sort = |value: &Value| {
        let discriminants = ["type", "op", "kind"].map(|name| value[name].clone());
        (
            discriminants.map(|value| value.to_string()),
            value["content"]["kind"].to_string(),
        )
    };
    for version in VERSIONS {
        for old in lines(&fixture(version).join("cli/objects.jsonl")) {
            let candidates: Vec<&Value> =
                now.iter().filter(|new| sort(new) == sort(&old)).collect();
            let first = candidates.first();
            let first = first.unwrap_or_else(|| panic!("{version}: nothing is printed like {old}"));
            let fits = candidates
                .iter()
                .any(|new| unreadable(&old, new, "it").is_none());
            assert!(
                fits,
                "{version}: {}: {old}",
                unreadable(&old, first, "it").unwrap_or_default()
            );
        }
    }
}

#[test]
fn a_shape_that_lost_a_field_or_changed_one_is_found() {
    let old = serde_json::json!({"type": "x", "list": [{"a": 1, "b": null}], "text": "t"});
    let mut added = old.clone();
    added["list"][0]["c"] = 2.into();
    assert_eq!(lost(&old, &added, "it"), None);
    assert_eq!(unreadable(&old, &added, "it"), None);
    let mut gone = old.clone();
    gone["list"][0].as_object_mut().unwrap().remove("a");
    assert_eq!(lost(&old, &gone, "it").unwrap(), "it.list[0].a is missing");
    assert_eq!(
        unreadable(&old, &gone, "it").unwrap(),
        "it.list[0].a is gone"
    );
    let mut other = old.clone();
    other["text"] = 7.into();
    assert_eq!(
        lost(&old, &other, "it").unwrap(),
        "it.text was \"t\" and is 7"
    );
    assert_eq!(
        unreadable(&old, &other, "it").unwrap(),
        "it.text was text and is a number"
    );
    assert!(read::<Refusal>(r#"{"refusal":"moonlight"}"#).is_err());
    let entries = text(&fixture(VERSIONS[0]).join("domain/entries.jsonl"));
    let entry = entries.lines().next().unwrap();
    assert_eq!(read_entry(entry), Ok(()));
    let forgotten = entry.replace("queue.held", "queue.kept");
    assert!(read_entry(&forgotten).unwrap_err().contains("queue.kept"));
}
