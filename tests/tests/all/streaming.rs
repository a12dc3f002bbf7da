//! A streamed answer over real codex, host, TLS and device: its text comes while it is said, and all of it. What it costs on
//! the socket is measured by `scripts/bench --only deltas`.

use crate::stories::conversation;
use pilothouse_domain::{Mode, ThreadId};
use pilothouse_tests::{Device, Relay, World};
use serde_json::json;
use std::time::{Duration, Instant};

/// Characters of the answer, and per delta: 1,000 deltas in about 10 s.
const CHARACTERS: usize = 10_000;
const CHUNK: f64 = 10.0;
const SECONDS: f64 = 10.0;

/// An answer as agents write them: prose of changing words, a list, code.
fn answer() -> String {
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(repository.join("docs/agents-probes.md")).unwrap();
    let text: String = text.chars().take(CHARACTERS).collect();
    assert_eq!(text.chars().count(), CHARACTERS);
    text
}

fn speaks(world: &World, device: &Device, thread: ThreadId, name: &str, steps: serde_json::Value) {
    world.model.script(name, &steps);
    let sent = device.say(thread, &format!("go [[script:{name}]] [[id:{name}]]"));
    device.accepted(&sent);
}

#[test]
fn a_long_answer_comes_while_it_is_said() {
    let world = World::start();
    let relay = Relay::start(world.host.address(), Duration::ZERO);
    let device = Device::pair(
        &world.dir().join("phone"),
        "phone",
        &world.host,
        Some(relay.address()),
    );
    let thread = device.new_thread("codex", Mode::Ask);
    speaks(
        &world,
        &device,
        thread,
        "first",
        json!([{"text": "Ready."}]),
    );
    device.completed(thread, 1);

    let text = answer();
    let deltas = CHARACTERS as f64 / CHUNK;
    let steps = json!([{"text": text, "chunk": CHUNK, "delay": SECONDS * 1000.0 / deltas}]);
    device.idle(thread);
    let (before, begun) = (relay.records().count, Instant::now());
    speaks(&world, &device, thread, "long", steps);
    device.completed(thread, 2);
    let (frames, took) = (relay.records().count - before, begun.elapsed());
    assert!(took > Duration::from_secs(8), "it streamed: {took:?}");
    // A text over 4 KB stands by its address, with its beginning.
    let shown = conversation(&device, thread);
    assert!(
        shown
            .last()
            .is_some_and(|shown| shown.starts_with(&text[..1000]))
    );
    // About five a second.
    assert!(frames > 30, "the text came in {frames} frames");
}
