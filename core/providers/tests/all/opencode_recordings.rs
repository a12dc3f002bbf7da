//! All recordings of opencode's first interface, whole, cut and split, through codec, ingest and apply.

use crate::{
    every::{Recording, every_recording},
    labels::{Label, outcome},
    opencode_replay::{Replay, is_event, names, sse},
    replay::load_of,
};
use pilothouse_providers::opencode::Codec;

/// Whether it was not cut while something went on.
fn goes_to_its_end(name: &str) -> bool {
    !(name.ends_with("_a") || name.starts_with("17_") || name.starts_with("18_"))
}

every_recording!(Replay, goes_to_its_end);

#[test]
fn no_run_of_a_recording_that_went_to_its_end_stays_open() {
    for name in names() {
        // The last prompt of 10 was being tried again until the recording ended.
        if !goes_to_its_end(&name) || name.starts_with("10_") {
            continue;
        }
        for memory in Replay::of("opencode", &name).stage.threads.values() {
            assert_eq!(memory.state.active, None, "{name}");
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
            "reasoning `t t t t t t t t t t t t … 40 23ca63a5` Completed",
            "assistant `word word word word word… 45 b94ef721` Interrupted",
            "interrupt Completed",
            "user `plain again` Completed",
            "reasoning `t t t t t t t t t t t t … 40 23ca63a5` Completed",
            "assistant `word word word word word… 300 fe8d8744` Completed",
        ],
    },
    // A second client's prompt: one end for both.
    Label {
        recording: "06_prompt_while_busy",
        lines: &[
            "run Completed",
            "user `go [[script:osl2]]` Completed",
            "assistant `word word word word word… 200 61947983` Completed",
            "user `second message` Completed",
            "assistant `word word word word word… 200 61947983` Completed",
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
            "assistant `Child` Completed of `kid task (@general subagent)`",
            "change ch.txt Completed of `kid task (@general subagent)`",
            "assistant `Child result 42` Completed of `kid task (@general subagent)`",
            "assistant `Parent done` Completed",
            "request FileChange answered once of `kid task (@general subagent)`",
            "subagent node `kid task (@general subagent)` Completed under the turn",
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
            "assistant `word word word word word… 300 fe8d8744` Completed",
        ],
    },
    // One command that was stopped, one that took too long: opencode calls both completed.
    Label {
        recording: "21_command_cut_short",
        lines: &[
            "run Interrupted",
            "run Completed",
            "user `go [[script:oat]]` Completed",
            "assistant `I will run it.` Completed",
            "command `echo begun > begun.txt; sleep 300` exit None Interrupted",
            "interrupt Completed",
            "user `go [[script:ott]]` Completed",
            "assistant `I will run another.` Completed",
            "command `echo late; sleep 300` exit None Failed",
            "assistant `After it.` Completed",
            "request Command answered once",
            "request Command answered once",
        ],
    },
];

#[test]
fn twelve_recordings_end_as_a_person_reads_them() {
    let mut wrong = Vec::new();
    for label in LABELS {
        let lines = outcome(&Replay::of("opencode", label.recording).stage);
        if lines != label.lines {
            wrong.push(format!("{} came to {lines:#?}", label.recording));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn model_errors_are_tried_again_for_ever_and_a_stop_ends_that() {
    let lines = outcome(&Replay::of("opencode", "10_model_errors").stage);
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
