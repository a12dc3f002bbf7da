//! What scripts read: every object that is printed, as it is documented in docs/cli.md.

use super::{golden, rows::*};
use crate::client::{
    args::ClientCommand,
    failure::{Candidate, Code, Failure},
    json::{self, Op},
};
use clap::Subcommand as _;
use pilothouse_domain::{
    AttemptId, CommandId, ContentHash, ConversationKey, DeviceId, ItemStatus, MessageId, Mode,
    Refusal, RequestStatus, RunStatus, ThreadId,
    command::NoticeKind,
    event::HoldReason,
    provider::{FoundFile, NativeConversation, OfferedCommand, OfferedModel},
    request::{Answer, AnswerDelivery, QuestionReply},
    run::BlockedOn,
    state::EndedRun,
    thread::Selection,
};
use pilothouse_engine::{InboxRow, InboxState, LinkState, RowContent, ThreadCounts, ThreadHeader};

fn command_id() -> CommandId {
    CommandId::from_bytes([8; 16])
}

/// Every object once: the type, and how it is printed.
fn examples() -> Vec<String> {
    let away = LinkState::Unreachable {
        since_ms: NOW - 1000,
        next_try_ms: None,
        reason: "connection refused".to_owned(),
    };
    let mut thread = thread("Fix the flaky test");
    thread.summary.last_run = Some(EndedRun {
        id: run_id(2),
        ordinal: 1,
        status: RunStatus::Completed,
    });
    let sending = InboxRow {
        state: InboxState::Sending {
            answer: secret_reply(),
            on_host: true,
        },
        ..question_request()
    };
    let answered = RequestStatus::Answered {
        answer: None,
        by: Some(DeviceId::from_bytes([9; 16])),
        delivery: AnswerDelivery::Confirmed,
        at_ms: NOW,
    };
    let held = ThreadHeader {
        queue: vec![queued(3, "Then update the changelog")],
        held: Some(HoldReason::Person),
        last_run: Some(EndedRun {
            id: run_id(2),
            ordinal: 1,
            status: RunStatus::Completed,
        }),
        ..running(RunStatus::Waiting, BlockedOn::Approval)
    };
    let command = RowContent::Command {
        command: "make test".to_owned(),
        cwd: "/home/ada/app".to_owned(),
        exit_code: Some(0),
        duration_ms: Some(1_200),
        agent_output: None,
    };
    let message = item(
        1,
        ItemStatus::Open,
        RowContent::AssistantMessage,
        "I will run",
    );
    let mut failure = Failure::refused("answering", &Refusal::NotReady).about(command_id());
    failure.candidates = vec![Candidate {
        id: "a1b2".to_owned(),
        label: "Fix the flaky test: make test".to_owned(),
    }];
    let offline = Failure::new(Code::Unconfirmed, "sending the message: the host did not confirm it within 15 s; it is in the outbox and will be sent").about(command_id());
    vec![
        json::line(
            "joined",
            json::Joined {
                host: host_id(),
                name: "studio".to_owned(),
            },
        ),
        json::line("host", json::Host::from(&host(LinkState::Synchronised))),
        json::line("host", json::Host::from(&host(away))),
        json::line(
            "threads",
            json::Threads::of(
                &ThreadCounts {
                    all: 50_000,
                    waiting: 3,
                    running: 2,
                    failed: 7,
                    archived: 12,
                    outstanding: 1,
                },
                true,
                Some(thread.summary.thread),
            ),
        ),
        json::line("thread", json::Thread::from(&thread)),
        json::line(
            "thread_gone",
            json::ThreadGone {
                thread: thread_id(),
            },
        ),
        json::line(
            "created",
            json::Created {
                thread: thread_id(),
                host: host_id(),
                command: command_id(),
            },
        ),
        json::line(
            "forked",
            json::Forked {
                thread: thread_id(),
                host: host_id(),
                command: command_id(),
                source: ThreadId::from_bytes([7; 16]),
                after: Some(run_id(2)),
            },
        ),
        json::line(
            "session",
            json::NativeSession {
                host: host_id(),
                agent: "claude".into(),
                workspace: "app".into(),
                conversation: NativeConversation {
                    key: ConversationKey::from_bytes([8; 16]),
                    title: "What was begun at the desk".to_owned(),
                    updated_at_ms: Some(1_800_000_000_000),
                    thread: Some(thread_id()),
                },
            },
        ),
        json::line(
            "sessions",
            json::NativeSessions {
                host: host_id(),
                next: Some("50".to_owned()),
            },
        ),
        json::line(
            "imported",
            json::Imported {
                thread: thread_id(),
                host: host_id(),
                command: command_id(),
                key: ConversationKey::from_bytes([8; 16]),
            },
        ),
        json::line(
            "rolled_back",
            json::RolledBack {
                thread: thread_id(),
                host: host_id(),
                command: command_id(),
                before: run_id(2),
                runs: 3,
            },
        ),
        json::line(
            "compacted",
            json::Compacted {
                thread: thread_id(),
                host: host_id(),
                command: command_id(),
                run: run_id(2),
                run_status: Some(RunStatus::Completed),
            },
        ),
        json::line(
            "commands",
            json::Commands {
                thread: thread_id(),
                host: host_id(),
                commands: vec![OfferedCommand {
                    name: "/hail".to_owned(),
                    description: "Greets someone.".to_owned(),
                    argument_hint: "NAME".to_owned(),
                }],
            },
        ),
        json::line(
            "files",
            json::Files {
                thread: thread_id(),
                host: host_id(),
                files: vec![FoundFile {
                    path: "src/parser.rs".to_owned(),
                }],
            },
        ),
        json::line(
            "selection",
            json::Chosen {
                thread: thread_id(),
                host: host_id(),
                command: Some(command_id()),
                selection: Selection {
                    agent: "codex".into(),
                    model: Some("gpt-5.5".to_owned()),
                    effort: None,
                    mode: Mode::AutoEdit,
                    sandbox: None,
                },
                models: vec![OfferedModel {
                    id: "gpt-5.5".to_owned(),
                    name: "GPT-5.5".to_owned(),
                    efforts: vec!["low".to_owned(), "high".to_owned()],
                    default_effort: Some("low".to_owned()),
                    is_default: true,
                    images: Some(true),
                }],
            },
        ),
        json::line(
            "sent",
            json::Sent {
                thread: thread_id(),
                host: host_id(),
                command: command_id(),
                message: command_id().derive("message"),
                run: command_id().derive("run"),
                notice: Some(NoticeKind::QueuedInstead {
                    message: MessageId::from_bytes([7; 16]),
                }),
            },
        ),
        json::line(
            "request",
            json::Request::from(&command_request("make test")),
        ),
        json::line("request", json::Request::from(&change_request())),
        json::line("request", json::Request::from(&sending)),
        json::line(
            "request_gone",
            json::RequestGone {
                request: request_id(1),
            },
        ),
        json::line(
            "answered",
            json::Answered {
                request: request_id(1),
                thread: thread_id(),
                host: host_id(),
                command: command_id(),
                content_hash: ContentHash::of("{}"),
                answer: Answer::Choose {
                    option: "accept".into(),
                    note: None,
                },
                confirmed: (&answered).into(),
            },
        ),
        json::line(
            "interrupted",
            json::Interrupted {
                thread: thread_id(),
                host: host_id(),
                command: command_id(),
                run: run_id(1),
                attempt: AttemptId::from_bytes([6; 16]),
                run_status: Some(RunStatus::Interrupted),
            },
        ),
        json::line("queue", json::QueueLine::from(&held)),
        json::line(
            "queue_changed",
            json::QueueChanged {
                thread: thread_id(),
                host: host_id(),
                command: command_id(),
                removed: Some(run_id(3)),
            },
        ),
        json::line(
            "reset",
            json::Reset {
                thread: thread_id(),
            },
        ),
        json::line("item", json::Item::new(Op::Insert, 0, &message)),
        json::line(
            "item",
            json::Item::new(
                Op::Update,
                1,
                &item(2, ItemStatus::Completed, command, "1 passed\n"),
            ),
        ),
        json::line("item", json::Gone::at(1)),
        json::line(
            "text",
            json::Text {
                item: item_id(1),
                at: 10,
                text: " the tests",
            },
        ),
        json::line("standing", json::Standing::from(&held)),
        json::line(
            "idle",
            json::Idle {
                thread: Some(thread_id()),
                last_run: Some(RunStatus::Completed),
            },
        ),
        json::line("error", json::ErrorLine::from(&failure)),
        json::line("error", json::ErrorLine::from(&offline)),
    ]
}

fn secret_reply() -> Answer {
    let reply = |question: &str, text: &str| QuestionReply {
        question: question.to_owned(),
        chosen: Vec::new(),
        text: Some(text.to_owned()),
    };
    Answer::Reply {
        replies: vec![reply("tests", "the slow ones"), reply("token", "s3cret")],
    }
}

#[test]
fn every_object_keeps_its_names() {
    golden("objects.jsonl", &(examples().join("\n") + "\n"));
}

#[test]
fn every_object_is_one_line_and_names_its_type_first() {
    for example in examples() {
        assert!(example.starts_with("{\"type\":\""), "{example}");
        assert!(!example.contains('\n'), "{example}");
        assert!(
            serde_json::from_str::<serde_json::Value>(&example)
                .unwrap()
                .is_object()
        );
    }
}

#[test]
fn every_object_is_documented_with_its_fields() {
    let manual = include_str!("../../../../../docs/cli.md");
    for example in examples() {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&example).unwrap();
        let kind = object["type"].as_str().unwrap();
        let section = manual
            .split("\n### ")
            .find(|section| section.starts_with(&format!("`{kind}`")))
            .unwrap_or_else(|| panic!("docs/cli.md has no section for `{kind}`"));
        for field in object.keys() {
            assert!(
                section.contains(&format!("\"{field}\"")),
                "docs/cli.md does not show `{field}` of `{kind}`"
            );
        }
    }
}

/// What stands in the first cell of each row of the manual's table with this head.
fn first_cells<'m>(manual: &'m str, head: &str) -> Vec<&'m str> {
    let rows = manual.lines().skip_while(|line| *line != head).skip(2);
    let rows = rows.take_while(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.get(2..)?.split(" | ").next());
    cells.collect()
}

#[test]
fn every_verb_stands_in_both_tables_of_the_manual() {
    let manual = include_str!("../../../../../docs/cli.md");
    let does = first_cells(manual, "| verb | what it does |");
    let prints = first_cells(manual, "| verb | prints |");
    let all = ClientCommand::augment_subcommands(clap::Command::new("pilothouse"));
    let mut verbs = Vec::new();
    for verb in all.get_subcommands() {
        let name = verb.get_name();
        let below = verb.get_subcommands();
        let below: Vec<_> = below
            .map(|sub| format!("{name} {}", sub.get_name()))
            .collect();
        if below.is_empty() {
            verbs.push(name.to_owned());
        }
        verbs.extend(below);
    }
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in verbs {
        let begins = |cell: &&str| {
            let rest = cell.strip_prefix(&format!("`{verb}"));
            rest.is_some_and(|rest| rest.starts_with(['`', ' ']))
        };
        assert!(does.iter().any(begins), "what {verb} does");
        let spans = prints.iter().flat_map(|cell| cell.split(", "));
        assert!(
            spans.into_iter().any(|cell| begins(&cell)),
            "what {verb} prints"
        );
    }
}

#[test]
fn a_request_holds_the_exact_text_that_its_hash_is_over() {
    let row = command_request("make test");
    let object: serde_json::Value =
        serde_json::from_str(&json::line("request", json::Request::from(&row))).unwrap();
    assert_eq!(
        object["content_hash"],
        ContentHash::of(object["subject_text"].as_str().unwrap()).to_string()
    );
    assert_eq!(object["subject"]["command"], "make test");
    assert_eq!(object["subject"]["options"][0]["id"], "accept");
}

#[test]
fn a_secret_answer_is_in_no_output() {
    let row = InboxRow {
        state: InboxState::Sending {
            answer: secret_reply(),
            on_host: false,
        },
        ..question_request()
    };
    let line = json::line("request", json::Request::from(&row));
    assert!(!line.contains("s3cret"), "{line}");
    assert!(line.contains("the slow ones"));
    let words =
        crate::client::show::request::render(&row, "a1b2", NOW, crate::client::style::Style::PLAIN);
    assert!(!words.contains("s3cret"), "{words}");
    let refusal = Refusal::AlreadyAnswered {
        request: request_id(1),
        by: None,
        answer: Some(secret_reply()),
        at_ms: NOW,
    };
    let failure = Failure::refused("answering", &refusal);
    let line = json::line("error", json::ErrorLine::from(&failure));
    assert!(!line.contains("s3cret"), "{line}");
}
