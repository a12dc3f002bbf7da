//! A watched thread as running text, as on a pipe.

use super::{golden, rows::*};
use crate::client::{
    show::{self, live::Live},
    style::Style,
};
use pilothouse_domain::{
    DeviceId, ItemStatus, MessageId, RequestStatus, RunStatus,
    event::HoldReason,
    item::{FileAction, TodoEntry, TodoStatus},
    request::{Answer, AnswerDelivery, LostReason, RequestKind},
    run::{BlockedOn, ErrorCode},
    state::EndedRun,
    thread::Delivery,
};
use pilothouse_engine::{
    AppendText, ChangeRow, ListOp, RequestOutline, RowContent, RowText, ThreadHeader,
    TimelineBatch, TimelineRow,
};

fn outline(status: RequestStatus) -> Option<Box<RequestOutline>> {
    Some(Box::new(RequestOutline {
        kind: RequestKind::Command,
        title: "Run a command".to_owned(),
        status,
    }))
}

/// One row of every kind, with `said` wherever an agent has words.
pub(super) fn every_kind(said: &str) -> Vec<TimelineRow> {
    let done = ItemStatus::Completed;
    let request = request_id(1);
    let by = DeviceId::from_bytes([9; 16]);
    let answer = Answer::Choose {
        option: "accept".into(),
        note: None,
    };
    let answered = RequestStatus::Answered {
        answer: Some(answer.clone()),
        by: Some(by),
        delivery: AnswerDelivery::Confirmed,
        at_ms: NOW,
    };
    let lost = RequestStatus::Lost {
        reason: LostReason::AgentExited,
        answer: Some(answer),
    };
    let change = |path: &str, action, diff: &str| ChangeRow {
        path: path.to_owned(),
        action,
        moved_to: None,
        diff: text(diff),
    };
    let s = || said.to_owned();
    let rows = vec![
        (
            done,
            RowContent::UserMessage {
                message: Some(MessageId::from_bytes([7; 16])),
                attachments: Vec::new(),
            },
            said,
        ),
        (done, RowContent::Reasoning, said),
        (done, RowContent::AssistantMessage, said),
        (
            done,
            RowContent::Command {
                command: s(),
                cwd: "/home/ada/app".to_owned(),
                exit_code: Some(0),
                duration_ms: Some(1_234),
                agent_output: None,
            },
            said,
        ),
        (
            ItemStatus::Failed,
            RowContent::Command {
                command: "false".to_owned(),
                cwd: s(),
                exit_code: Some(1),
                duration_ms: None,
                agent_output: None,
            },
            "",
        ),
        (
            ItemStatus::Declined,
            RowContent::Command {
                command: "rm -rf /".to_owned(),
                cwd: "/".to_owned(),
                exit_code: None,
                duration_ms: None,
                agent_output: None,
            },
            "",
        ),
        (
            done,
            RowContent::FileChange {
                changes: vec![
                    change("a.rs", FileAction::Update, "-old\n+new"),
                    change(said, FileAction::Add, said),
                ],
            },
            "",
        ),
        (done, RowContent::FileSearch { query: s() }, "3 files"),
        (done, RowContent::WebSearch { query: s() }, ""),
        (
            ItemStatus::Interrupted,
            RowContent::Tool {
                server: Some("files".to_owned()),
                name: s(),
                arguments: text("{\"path\": \"a\"}"),
            },
            "",
        ),
        (done, RowContent::Plan, said),
        (
            done,
            RowContent::Todo {
                entries: vec![
                    TodoEntry {
                        text: s(),
                        status: TodoStatus::Completed,
                    },
                    TodoEntry {
                        text: "second".to_owned(),
                        status: TodoStatus::InProgress,
                    },
                    TodoEntry {
                        text: "third".to_owned(),
                        status: TodoStatus::Pending,
                    },
                ],
            },
            "",
        ),
        (
            ItemStatus::Open,
            RowContent::Approval {
                request,
                asked: outline(RequestStatus::Pending),
            },
            "",
        ),
        (
            done,
            RowContent::Approval {
                request,
                asked: outline(answered),
            },
            "",
        ),
        (
            done,
            RowContent::Question {
                request,
                asked: outline(lost),
            },
            "",
        ),
        (
            done,
            RowContent::Approval {
                request,
                asked: outline(RequestStatus::Withdrawn),
            },
            "",
        ),
        (
            done,
            RowContent::Error {
                code: ErrorCode::Limit,
                message: s(),
                will_retry: true,
            },
            "",
        ),
        (done, RowContent::Compaction, ""),
        (done, RowContent::Interrupt { note: s() }, ""),
        (
            done,
            RowContent::Subagent {
                child: None,
                title: s(),
            },
            "found it",
        ),
        (
            done,
            RowContent::ModelRerouted {
                from: "large".to_owned(),
                to: s(),
            },
            "",
        ),
        (
            ItemStatus::Unfinished,
            RowContent::Unknown { label: s() },
            "",
        ),
    ];
    (1..)
        .zip(rows)
        .map(|(n, (status, content, text))| item(n, status, content, text))
        .collect()
}

#[test]
fn every_kind_of_item_is_readable() {
    let mut live = Live::new(Style::PLAIN);
    let ended = ThreadHeader {
        last_run: Some(EndedRun {
            id: run_id(1),
            ordinal: 1,
            status: RunStatus::Completed,
        }),
        ..header()
    };
    golden(
        "timeline.txt",
        &live.timeline(&inserts(
            true,
            0,
            every_kind("some words\nof the agent"),
            ended,
        )),
    );
}

fn command(status: ItemStatus, output: &str) -> TimelineRow {
    let content = RowContent::Command {
        command: "make test".to_owned(),
        cwd: "/home/ada/app".to_owned(),
        exit_code: (!status.is_live()).then_some(0),
        duration_ms: None,
        agent_output: None,
    };
    item(2, status, content, output)
}

fn texts(header: ThreadHeader, texts: &[(u8, u64, &str)]) -> TimelineBatch {
    let texts = texts
        .iter()
        .map(|(n, at, text)| AppendText {
            id: item_id(*n),
            at: *at,
            text: (*text).to_owned(),
        })
        .collect();
    TimelineBatch {
        reset: false,
        ops: Vec::new(),
        texts,
        header,
    }
}

fn update(index: u32, row: TimelineRow, header: ThreadHeader) -> TimelineBatch {
    TimelineBatch {
        reset: false,
        ops: vec![ListOp::Update { index, row }],
        texts: Vec::new(),
        header,
    }
}

#[test]
fn a_run_reads_as_one_story_however_it_streams() {
    let mut live = Live::new(Style::PLAIN);
    let at_work = || running(RunStatus::Running, BlockedOn::None);
    let mut story = live.timeline(&inserts(
        true,
        0,
        vec![item(
            1,
            ItemStatus::Open,
            RowContent::AssistantMessage,
            "I will ",
        )],
        at_work(),
    ));
    story += &live.timeline(&texts(at_work(), &[(1, 7, "run the te")]));
    story += &live.timeline(&texts(at_work(), &[(1, 17, "sts.\nFirst")]));
    story += &live.timeline(&inserts(
        false,
        1,
        vec![command(ItemStatus::Open, "")],
        running(RunStatus::Waiting, BlockedOn::Approval),
    ));
    story += &live.inbox(&[command_request("make test")], |_| "a1b2".to_owned(), NOW);
    // Seen again with an answer on its way: the text was shown already.
    story += &live.inbox(&[command_request("make test")], |_| "a1b2".to_owned(), NOW);
    story += &live.timeline(&texts(at_work(), &[(2, 0, "1 passed\n")]));
    story += &live.timeline(&texts(at_work(), &[(1, 27, " the unit tests")]));
    story += &live.timeline(&texts(at_work(), &[(2, 9, "2 passed\n")]));
    story += &live.timeline(&update(
        1,
        command(ItemStatus::Completed, "1 passed\n2 passed\n"),
        at_work(),
    ));
    let whole = item(
        1,
        ItemStatus::Completed,
        RowContent::AssistantMessage,
        "I will run the tests.\nFirst the unit tests, all of them.",
    );
    let ended = ThreadHeader {
        last_run: Some(EndedRun {
            id: run_id(1),
            ordinal: 1,
            status: RunStatus::Completed,
        }),
        ..header()
    };
    story += &live.timeline(&update(0, whole, ended));
    golden("story.txt", &story);
    assert!(live.is_idle());
}

#[test]
fn a_final_text_that_differs_from_what_was_streamed_is_shown_as_such() {
    let mut live = Live::new(Style::PLAIN);
    live.timeline(&inserts(
        true,
        0,
        vec![item(
            1,
            ItemStatus::Open,
            RowContent::AssistantMessage,
            "I wil run",
        )],
        header(),
    ));
    let told = live.timeline(&update(
        0,
        item(
            1,
            ItemStatus::Completed,
            RowContent::AssistantMessage,
            "I will run",
        ),
        header(),
    ));
    assert!(told.contains("[final text]\n  I will run"), "{told}");
}

#[test]
fn a_long_text_that_was_streamed_whole_is_not_repeated_when_it_is_stored() {
    let mut live = Live::new(Style::PLAIN);
    let long = "word ".repeat(2000);
    live.timeline(&inserts(
        true,
        0,
        vec![item(
            1,
            ItemStatus::Open,
            RowContent::AssistantMessage,
            &long,
        )],
        header(),
    ));
    let mut closed = item(1, ItemStatus::Completed, RowContent::AssistantMessage, "");
    closed.text = RowText {
        text: long[..1000].to_owned(),
        tail: Some(long[long.len() - 1000..].to_owned()),
        bytes: long.len() as u64,
        ..RowText::default()
    };
    assert_eq!(live.timeline(&update(0, closed, header())), "\n");
}

#[test]
fn a_jump_in_what_streams_is_told() {
    let mut live = Live::new(Style::PLAIN);
    live.timeline(&inserts(
        true,
        0,
        vec![command(ItemStatus::Open, "begin\n")],
        header(),
    ));
    let told = live.timeline(&texts(header(), &[(2, 1_000, "end\n")]));
    assert!(told.contains("[994 bytes are not shown]\n  end"), "{told}");
}

#[test]
fn a_flood_of_output_is_cut_and_says_so_once() {
    let mut live = Live::new(Style::PLAIN);
    let flood = "line\n".repeat(500);
    let mut told = live.timeline(&inserts(
        true,
        0,
        vec![command(ItemStatus::Open, &flood)],
        header(),
    ));
    told += &live.timeline(&texts(header(), &[(2, 2_500, &flood)]));
    assert_eq!(told.matches("  line\n").count(), 200);
    assert_eq!(told.matches("more output").count(), 1);
}

#[test]
fn a_predicted_message_and_the_hosts_are_one() {
    let mut live = Live::new(Style::PLAIN);
    let message = MessageId::from_bytes([7; 16]);
    let content = || RowContent::UserMessage {
        message: Some(message),
        attachments: Vec::new(),
    };
    let mut predicted = item(1, ItemStatus::Completed, content(), "hello");
    predicted.id = pilothouse_domain::ItemId::from_bytes(*message.as_bytes());
    predicted.pending = true;
    predicted.delivery = Some(Delivery::Saved);
    let first = live.timeline(&inserts(true, 0, vec![predicted], header()));
    assert_eq!(first, "you (saved here, not on the host yet)\n  hello\n");
    let mut real = item(2, ItemStatus::Completed, content(), "hello");
    real.delivery = Some(Delivery::Started);
    let batch = TimelineBatch {
        ops: vec![
            ListOp::Remove { index: 0 },
            ListOp::Insert {
                index: 0,
                row: real,
            },
        ],
        ..inserts(false, 0, Vec::new(), header())
    };
    assert_eq!(live.timeline(&batch), "");
}

#[test]
fn idle_means_that_nothing_runs_waits_or_is_on_its_way() {
    let idle = |header: &ThreadHeader| show::live::is_idle(header);
    assert!(idle(&header()));
    assert!(!idle(&ThreadHeader {
        synchronised: false,
        ..header()
    }));
    assert!(!idle(&ThreadHeader {
        outstanding: 1,
        ..header()
    }));
    assert!(!idle(&running(RunStatus::Finalizing, BlockedOn::None)));
    let queue = vec![queued(2, "later")];
    assert!(!idle(&ThreadHeader {
        queue: queue.clone(),
        ..header()
    }));
    assert!(idle(&ThreadHeader {
        queue,
        held: Some(HoldReason::Failed),
        ..header()
    }));
}

#[test]
fn lines_are_broken_before_the_terminal_breaks_them() {
    let mut live = Live::new(Style {
        width: Some(40),
        ..Style::PLAIN
    });
    let words = "The quick brown fox jumps over the lazy dog and an averylongwordthatdoesnotfitintothisnarrowterminalatall.";
    let told = live.timeline(&inserts(
        true,
        0,
        vec![item(
            1,
            ItemStatus::Completed,
            RowContent::AssistantMessage,
            words,
        )],
        header(),
    ));
    assert!(
        told.lines().all(|line| line.chars().count() <= 40),
        "{told}"
    );
    assert!(
        told.lines().skip(1).all(|line| line.starts_with("  ")),
        "{told}"
    );
}

#[test]
fn the_line_at_the_bottom_tells_what_runs_and_for_how_long() {
    let mut live = Live::new(Style::PLAIN);
    live.timeline(&inserts(
        true,
        0,
        vec![command(ItemStatus::Open, "")],
        ThreadHeader {
            outstanding: 1,
            ..running(RunStatus::Running, BlockedOn::None)
        },
    ));
    let bottom = live.bottom(NOW).unwrap();
    assert_eq!(
        bottom,
        "running for 20 s · $ make test in /home/ada/app (10 s) · 1 not confirmed by the…"
    );
}

#[test]
fn a_run_that_is_only_predicted_is_not_shown_as_running() {
    let mut predicted = running(RunStatus::Starting, BlockedOn::None);
    if let Some(active) = &mut predicted.active {
        active.pending = true;
    }
    assert_eq!(show::live::standing(&predicted), "waits for the host");
}
