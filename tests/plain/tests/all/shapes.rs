//! Every shape that has golden files: what is accepted, and as what, is what serde's own code accepts, whatever is done to it.

use crate::{mutate::rounds, text::Node};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug, fs, path::Path};

/// What became of a text: how both read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Same,
    Neither,
    /// Only serde's own code takes it, by one of the [`STRICTER`] rules.
    Stricter(&'static str),
    /// Only this reader takes it, by one of the [`LAXER`] rules.
    Laxer(&'static str),
}

/// Where this reader refuses what serde's code takes, each by the words of its refusal.
const STRICTER: &[&str] = &[
    // Objects as arrays of what their fields hold: nobody writes that, and every shape would hold the code for it.
    "invalid type: sequence, expected an object",
    // A variant by its number, where serde has kept the object aside first.
    "invalid type: number, expected a string",
    // serde_json passes over what nobody reads at any depth.
    "recursion limit exceeded",
];

/// Where this reader takes what serde's code refuses, each by the words of that refusal. All are about a field that nobody
/// reads: serde keeps it aside as a value where its object has a tag, and passes over it where it has none; here it is
/// passed over in both.
const LAXER: &[&str] = &[
    "lone leading surrogate in hex escape",
    "unexpected end of hex escape",
    "number out of range",
];

fn compare<O: DeserializeOwned + Debug, T: DeserializeOwned + Debug>(text: &str) -> Said {
    let ours = pilothouse_json::from_str::<O>(text);
    let theirs = serde_json::from_str::<T>(text);
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{text}");
            Said::Same
        }
        (Err(error), Err(_)) => {
            let place = (error.line(), error.column());
            assert_ne!(place.0, 0, "{error} names no place in {text}");
            let line = text.split('\n').nth(place.0 - 1);
            assert!(
                line.is_some_and(|line| place.1 <= line.len() + 1),
                "{error} names a place that is not in {text}"
            );
            Said::Neither
        }
        (Err(error), Ok(theirs)) => {
            let words = error.to_string();
            let rule = STRICTER.iter().find(|&&rule| words.starts_with(rule));
            let rule = rule.unwrap_or_else(|| panic!("{error}, not {theirs:?}: {text}"));
            Said::Stricter(rule)
        }
        (Ok(ours), Err(error)) => {
            let words = error.to_string();
            let rule = LAXER.iter().find(|&&rule| words.starts_with(rule));
            Said::Laxer(rule.unwrap_or_else(|| panic!("{ours:?}, not {error}: {text}")))
        }
    }
}

/// A shape: its golden texts and both ways to read them.
struct Shape {
    name: &'static str,
    texts: Vec<String>,
    compare: fn(&str) -> Said,
}

fn golden(of: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../core")
        .join(of)
}

fn lines(file: &str) -> Vec<String> {
    let text = fs::read_to_string(golden("domain/golden").join(file)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn messages(side: &str) -> Vec<String> {
    let files = fs::read_dir(golden("wire/golden")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let of_side = |path: &std::path::PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(side)
    };
    files
        .iter()
        .filter(|&path| of_side(path))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

macro_rules! shapes {
    ($($file:literal: $($name:ident)::+),* $(,)?) => {
        vec![$(Shape {
            name: $file,
            texts: lines($file),
            compare: compare::<pilothouse_domain::$($name)::+, pilothouse_plain_domain::$($name)::+>,
        }),*]
    };
}

fn shapes() -> Vec<Shape> {
    use pilothouse_plain_wire::message as plain;
    use pilothouse_wire::message as ours;
    let mut shapes = shapes! {
        "bindings.jsonl": binding::Binding,
        "commands.jsonl": Command,
        "effect_outcomes.jsonl": EffectOutcome,
        "effects.jsonl": Effect,
        "entries.jsonl": Entry,
        "events.jsonl": Event,
        "items.jsonl": ItemContent,
        "notices.jsonl": command::Notice,
        "outcomes.jsonl": Outcome,
        "policy.jsonl": Policy,
        "provider_events.jsonl": ProviderEvent,
        "refusals.jsonl": Refusal,
        "request_statuses.jsonl": RequestStatus,
        "rows.jsonl": Row,
        "state.jsonl": ThreadState,
        "summaries.jsonl": ThreadSummary,
    };
    let files = fs::read_dir(golden("domain/golden")).unwrap().count();
    assert_eq!(shapes.len(), files, "a golden file has no shape here");
    shapes.push(Shape {
        name: "device",
        texts: messages("device."),
        compare: compare::<ours::DeviceMessage, plain::DeviceMessage>,
    });
    shapes.push(Shape {
        name: "host",
        texts: messages("host."),
        compare: compare::<ours::HostMessage, plain::HostMessage>,
    });
    shapes
}

#[test]
fn every_golden_text_is_read_as_serde_reads_it() {
    for Shape {
        name,
        texts,
        compare,
    } in shapes()
    {
        assert!(!texts.is_empty(), "{name}");
        for text in texts {
            assert_eq!(compare(&text), Said::Same, "{name}: {text}");
        }
    }
}

#[test]
fn whatever_is_done_to_a_text_it_is_read_as_serde_reads_it() {
    let shapes = shapes();
    let nodes: Vec<Vec<Node>> = shapes
        .iter()
        .map(|shape| shape.texts.iter().map(|text| Node::read(text)).collect())
        .collect();
    let all: Vec<Node> = nodes.iter().flatten().cloned().collect();
    let mut said = BTreeMap::<Said, u32>::new();
    rounds(20_000, |dice| {
        let which = dice.below(shapes.len());
        let mut node = dice.one(&nodes[which]).clone();
        for _ in 0..=dice.below(3) {
            node.change(dice, &all);
        }
        let mut text = String::new();
        node.write(&mut text, ["", " ", "\n"][dice.below(3)]);
        match dice.below(8) {
            0 => text = String::from_utf8_lossy(&dice.damaged(text.as_bytes())).into_owned(),
            1 => text.push_str(["x", " {}", "\u{0}", " \n\t\r", ","][dice.below(5)]),
            _ => {}
        }
        *said.entry((shapes[which].compare)(&text)).or_default() += 1;
    });
    // A run in which nothing is taken, or nothing refused, would prove nothing.
    let taken = said.get(&Said::Same).copied().unwrap_or_default();
    let refused = said.get(&Said::Neither).copied().unwrap_or_default();
    assert!(taken > 2000 && refused > 2000, "{said:?}");
}
