//! All recordings of opencode's first interface, whole, cut and split, through codec, ingest and apply.

use crate::{
    labels::{Label, outcome},
    opencode_replay::{Replay, is_event, names, sse},
    replay::load_of,
};
use pilothouse_domain::{ProviderEventKind, RequestStatus, Row};
use pilothouse_orchestrator::memory::MemoryThread;
use pilothouse_providers::opencode::{Codec, Told};

/// Frames at which a long recording is cut, unless PILOTHOUSE_RECORDING_CUTS=all.
const CUTS: usize = 100;

#[test]
fn no_event_of_any_recording_is_unknown() {
    let mut unknown = Vec::new();
    let mut told = 0;
    for name in names() {
        for one in Replay::of(&name).told {
            told += 1;
            if let Told::Event(event) = one
                && let ProviderEventKind::Unknown { label, raw } = event.kind
            {
                unknown.push(format!("{name}: {label}: {raw}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(told > 500, "{told}");
}

#[test]
fn every_recording_cut_at_each_frame_leaves_nothing_open_once_the_runtime_is_lost() {
    let all = std::env::var("PILOTHOUSE_RECORDING_CUTS").is_ok_and(|cuts| cuts == "all");
    let mut failures = Vec::new();
    for name in names() {
        let records = load_of("opencode", &name);
        let step = match all {
            true => 1,
            false => records.len().div_ceil(CUTS).max(1),
        };
        let mut replay = Replay::new(&records);
        for (at, record) in records.iter().enumerate() {
            replay.step(record);
            if at % step == 0 || at + 1 == records.len() {
                for left in replay.stage.left_open_after_loss() {
                    failures.push(format!("{name} cut after frame {at}: {left}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_recording_split_at_odd_bytes_gives_the_same() {
    for name in names() {
        let records = load_of("opencode", &name);
        let bytes: Vec<u8> = records
            .iter()
            .filter(|record| is_event(record))
            .flat_map(sse)
            .collect();
        // With its conversations open, as they are in the middle of it.
        let codec = Replay::of(&name).codec;
        let whole = codec.clone().receive(&bytes);
        for length in [1, 3, 7, 1021] {
            let mut codec = codec.clone();
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
        for memory in Replay::of(&name).stage.threads.values() {
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
fn no_request_and_no_run_of_a_recording_that_went_to_its_end_stays_open() {
    for name in names() {
        // Cut while something went on; and the last prompt of 10 was being tried again until the recording ended.
        if name.ends_with("_a") || name.starts_with("17_") || name.starts_with("18_") {
            continue;
        }
        for memory in Replay::of(&name).stage.threads.values() {
            assert!(
                memory.state.active.is_none() || name.starts_with("10_"),
                "{name}: {:?}",
                memory.state.active
            );
            for row in memory.rows.0.values() {
                if let Row::Request(request) = row {
                    assert!(
                        !matches!(request.status, RequestStatus::Pending),
                        "{name}: {request:?}"
                    );
                }
            }
        }
    }
}

/// What recordings come to, read by hand from their frames.
const LABELS: &[Label] = &[
    Label {
        recording: "01_prompt_permission_once",
        lines: &[
            "run Completed",
            "user `go [[script:o1]]` Completed",
            "reasoning `Let me think about it.` Completed",
            "assistant `I will write a file.` Completed",
            "command `echo hi > out.txt` exit Some(0) Completed",
            "assistant `All done.` Completed",
            "request Command answered once",
        ],
    },
    // Rejected with words: the model goes on. Rejected without: the turn ends.
    Label {
        recording: "02_edit_reject",
        lines: &[
            "run Completed",
            "user `go [[script:orj]]` Completed",
            "assistant `Edit` Completed",
            "change w1.txt Declined",
            "assistant `After reject.` Completed",
            "request FileChange answered reject_and_go_on",
            "run Interrupted",
            "user `go [[script:orj]]` Completed",
            "assistant `Edit` Completed",
            "change w1.txt Declined",
            "request FileChange answered reject",
        ],
    },
    Label {
        recording: "03_question",
        lines: &[
            "run Interrupted",
            "user `go [[script:oq]]` Completed",
            "question Completed",
            "request UserInput answered reject",
            "run Completed",
            "user `go [[script:oq]]` Completed",
            "question Completed",
            "assistant `Thanks.` Completed",
            "request UserInput answered Blue",
        ],
    },
    Label {
        recording: "04_todo",
        lines: &[
            "run Completed",
            "user `go [[script:otd]]` Completed",
            "todo Look Completed, Do Completed Completed",
            "assistant `ok` Completed",
        ],
    },
    Label {
        recording: "05_abort_pending_permission",
        lines: &[
            "run Interrupted",
            "user `go [[script:oap]]` Completed",
            "change w2.txt Interrupted",
            "interrupt Completed",
            "request FileChange Withdrawn",
        ],
    },
    // Its second abort stops nothing, and is heard after the next prompt was sent.
    Label {
        recording: "05_abort_text",
        lines: &[
            "run Interrupted",
            "run Completed",
            "user `go [[script:osl]]` Completed",
            "reasoning `t t t t t t t t t t t t ` Completed",
            "assistant `word word word word word` Interrupted",
            "interrupt Completed",
            "user `plain again` Completed",
            "reasoning `t t t t t t t t t t t t ` Completed",
            "assistant `word word word word word` Completed",
        ],
    },
    // A second client's prompt: one end for both.
    Label {
        recording: "06_prompt_while_busy",
        lines: &[
            "run Completed",
            "user `go [[script:osl2]]` Completed",
            "assistant `word word word word word` Completed",
            "user `second message` Completed",
            "assistant `word word word word word` Completed",
        ],
    },
    // The copy tells its messages again, which are no turns of its own.
    Label {
        recording: "07_fork_revert",
        lines: &[
            "run Completed",
            "run Completed",
            "run Completed",
            "user `first plain` Completed",
            "assistant `Default scripted reply.` Completed",
            "user `go [[script:ow]]` Completed",
            "assistant `W` Completed",
            "change fr.txt Completed",
            "assistant `ok` Completed",
            "user `after revert plain` Completed",
            "assistant `Default scripted reply.` Completed",
            "request FileChange answered once",
        ],
    },
    Label {
        recording: "08_children",
        lines: &[
            "run Completed",
            "user `go [[script:opar]]` Completed",
            "assistant `Spawn` Completed",
            "subagent `kid task` Completed",
            "assistant `Child` Completed",
            "change ch.txt Completed",
            "assistant `Child result 42` Completed",
            "assistant `Parent done` Completed",
            "request FileChange answered once",
            "subagent node `kid task (@general subagent)` Completed",
        ],
    },
    // Rejecting one takes the other along.
    Label {
        recording: "09_parallel_permissions",
        lines: &[
            "run Interrupted",
            "user `go [[script:op2]]` Completed",
            "assistant `Two` Completed",
            "change p1.txt Declined",
            "change p2.txt Declined",
            "request FileChange answered reject",
            "request FileChange Withdrawn",
        ],
    },
    Label {
        recording: "13_disconnect_midturn_b",
        lines: &[
            "run Completed",
            "user `go [[script:osl]]` Completed",
            "assistant `word word word word word` Completed",
        ],
    },
];

#[test]
fn eleven_recordings_end_as_a_person_reads_them() {
    let mut wrong = Vec::new();
    for label in LABELS {
        let lines = outcome(&Replay::of(label.recording).stage);
        if lines != label.lines {
            wrong.push(format!("{} came to {lines:#?}", label.recording));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn model_errors_are_tried_again_for_ever_and_a_stop_ends_that() {
    let lines = outcome(&Replay::of("10_model_errors").stage);
    let count = |line: &str| lines.iter().filter(|one| *one == line).count();
    // 500 and 429 recover, a context that is full is compacted; 400 and 401 go on until they are stopped; the last is cut.
    assert_eq!(count("run Completed"), 3, "{lines:#?}");
    assert_eq!(count("run Interrupted"), 2);
    assert_eq!(count("run Running"), 1);
    assert_eq!(count("interrupt Completed"), 3);
    assert_eq!(count("error ModelService (tries again) Failed"), 12);
    assert_eq!(count("error ContextFull (tries again) Failed"), 1);
}

#[test]
fn a_codec_without_open_conversations_tells_nothing_of_theirs() {
    let mut codec = Codec::new();
    for record in load_of("opencode", "08_children") {
        if is_event(&record) {
            let told = codec.receive(&sse(&record));
            assert!(told.is_empty(), "{told:?}");
        }
    }
}
