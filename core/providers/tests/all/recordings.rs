//! All recordings of codex, whole, cut and split.

use crate::{
    labels::{LABELS, outcome},
    replay::{Replay, load, names},
};
use pilothouse_domain::{ProviderEventKind, RequestStatus, Row};
use pilothouse_orchestrator::memory::MemoryThread;
use pilothouse_providers::codex::{Codec, Received};

/// Frames at which a long recording is cut, unless PILOTHOUSE_RECORDING_CUTS=all.
const CUTS: usize = 300;

#[test]
fn no_frame_of_any_recording_is_unknown() {
    let mut unknown = Vec::new();
    for name in names() {
        for one in Replay::of(&load(&name)).received {
            if let Received::Event(event) = one
                && let ProviderEventKind::Unknown { label, raw } = event.kind
            {
                unknown.push(format!("{name}: {label}: {raw}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn ten_recordings_end_as_a_person_reads_them() {
    let mut wrong = Vec::new();
    for label in LABELS {
        let lines = outcome(&Replay::of(&load(label.recording)).stage);
        if lines != label.lines {
            wrong.push(format!("{} came to {lines:#?}", label.recording));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(LABELS.len() >= 10);
}

#[test]
fn every_recording_cut_at_each_frame_leaves_nothing_open_once_the_runtime_is_lost() {
    let all = std::env::var("PILOTHOUSE_RECORDING_CUTS").is_ok_and(|cuts| cuts == "all");
    let mut failures = Vec::new();
    for name in names() {
        let records = load(&name);
        let step = if all {
            1
        } else {
            records.len().div_ceil(CUTS).max(1)
        };
        let mut replay = Replay::new();
        for (at, record) in records.iter().enumerate() {
            replay.step(record);
            if at % step == 0 || at + 1 == records.len() {
                for left in replay.stage.left_open_after_loss() {
                    failures.push(format!("{name} cut after frame {at}: {left}"));
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures, first: {}",
        failures.len(),
        failures[0]
    );
}

#[test]
fn a_recording_split_at_odd_bytes_gives_the_same() {
    for name in names() {
        let bytes: Vec<u8> = load(&name)
            .into_iter()
            .filter(|record| record.dir != "c2s")
            .flat_map(|record| record.line)
            .collect();
        let whole = Codec::new().receive(&bytes);
        for length in [1, 3, 7, 1021] {
            if bytes.len() > 200_000 && length < 7 {
                continue;
            }
            let mut codec = Codec::new();
            let split: Vec<_> = bytes
                .chunks(length)
                .flat_map(|chunk| codec.receive(chunk))
                .collect();
            assert!(split == whole, "{name} in pieces of {length} bytes");
        }
    }
}

#[test]
fn what_a_device_replays_from_the_log_is_what_the_ledger_has() {
    for name in names() {
        for memory in Replay::of(&load(&name)).stage.threads.values() {
            let again = MemoryThread::replay(
                memory.state.thread,
                pilothouse_domain::Policy::default(),
                &memory.entries,
            );
            assert_eq!(again.digest(), memory.digest(), "{name}");
            assert!(again.rows == memory.rows, "{name}");
        }
    }
}

#[test]
fn no_request_of_a_recording_that_went_to_its_end_stays_pending() {
    for name in names() {
        // Recordings whose connection was cut while a request waited.
        if name.ends_with("_a") {
            continue;
        }
        for memory in Replay::of(&load(&name)).stage.threads.values() {
            for row in memory.rows.0.values() {
                if let Row::Request(request) = row {
                    assert!(
                        !matches!(request.status, RequestStatus::Pending),
                        "{name}: {request:#?}"
                    );
                }
            }
        }
    }
}
