//! What opencode tells: the recorded turn again and again, each time under other ids.

use super::decode::{DELTAS, Decode, Stream};
use anyhow::{Context as _, Result, ensure};
use pilothouse_domain::{NativeId, ProviderEvent};
use pilothouse_providers::opencode::{Codec, Session, Told};
use pilothouse_tests::places;
use serde_json::Value;
use std::collections::BTreeSet;

const RECORDING: &str = "tests/recordings/opencode/01_prompt_permission_once.jsonl";
/// The conversation of the recording.
const SESSION: &str = "ses_dd3993022ffeh4sUZby2oxQ6Wc";

/// A codec that has opened the conversation.
pub(super) fn codec() -> Box<dyn Decode> {
    let mut codec = Codec::new();
    codec.open(&Session {
        id: NativeId::from(SESSION),
        directory: "/home/dev/oc/ws".to_owned(),
        parent: None,
        created_ms: 0,
        rules: Vec::new(),
        model: None,
        reverted: None,
    });
    Box::new(codec)
}

impl Decode for Codec {
    fn begin(&mut self) {}

    fn receive(&mut self, bytes: &[u8]) -> Vec<ProviderEvent> {
        Self::receive(self, bytes)
            .into_iter()
            .filter_map(|told| match told {
                Told::Event(event) => Some(event),
                Told::Do(_) => None,
            })
            .collect()
    }
}

/// The ids of messages, parts and requests in an event.
fn ids(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text)
            if ["msg_", "prt_", "per_"]
                .iter()
                .any(|head| text.starts_with(head)) =>
        {
            found.insert(text.clone());
        }
        Value::Array(list) => list.iter().for_each(|one| ids(one, found)),
        Value::Object(object) => object.values().for_each(|one| ids(one, found)),
        _ => {}
    }
}

pub(super) fn stream(turns: u64) -> Result<Stream> {
    let file = places::root().join(RECORDING);
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let mut turn: Vec<(String, usize)> = Vec::new();
    let mut known = BTreeSet::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line)?;
        let frame = &record["frame"];
        let Some(name) = frame["type"].as_str().filter(|_| record["dir"] == "s2c") else {
            continue;
        };
        if frame["properties"]["sessionID"] != SESSION {
            continue;
        }
        ids(&frame["properties"], &mut known);
        let copies = if name.ends_with("delta") { DELTAS } else { 1 };
        turn.push((frame.to_string(), copies));
    }
    ensure!(
        known.len() >= 6 && turn.len() > 30,
        "{} holds no turn",
        file.display()
    );
    let mut stream = Stream::default();
    for number in 0..turns {
        stream.turns.push(Vec::new());
        for (line, copies) in &turn {
            let line = known.iter().fold(line.clone(), |line, id| {
                line.replace(id, &format!("{id}-{number}"))
            });
            for _ in 0..*copies {
                stream.push(&format!("data: {line}\n"));
            }
        }
    }
    Ok(stream)
}
