//! All recordings of codex, whole, cut and split.

use crate::{
    every::{Recording, every_recording},
    labels::{LABELS, outcome},
    replay::Replay,
};

// The connection was cut while a request waited.
every_recording!(Replay, |name| !name.ends_with("_a"));

#[test]
fn ten_recordings_end_as_a_person_reads_them() {
    let mut wrong = Vec::new();
    for label in LABELS {
        let lines = outcome(&Replay::of("codex", label.recording).stage);
        if lines != label.lines {
            wrong.push(format!("{} came to {lines:#?}", label.recording));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(LABELS.len() >= 10);
}
