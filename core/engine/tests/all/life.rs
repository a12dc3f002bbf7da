//! Opening, closing, pairing, and two processes on one directory.

use crate::{
    device::{Device, TestPlatform, accepted, answer, block_on, open},
    host::{FakeHost, command_subject},
};
use pilothouse_domain::request::RequestKind;
use pilothouse_engine::{
    Core, CoreConfig, CoreError, LinkState, PairError, Scope, SubmitError, TicketOutcome,
};
use std::{
    fs,
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
    sync::Arc,
};

fn try_open(dir: &Path) -> Result<Arc<Core>, CoreError> {
    let config = CoreConfig {
        data_dir: dir.to_owned(),
        device_name: "test".to_owned(),
        platform: "test".to_owned(),
    };
    Core::open(config, TestPlatform::new())
}

#[test]
fn two_cores_share_a_directory_one_holds_the_links_and_the_other_answers_through_it() {
    let host = FakeHost::start();
    let thread = host.thread(40, "Shared");
    host.ask(thread, 1, RequestKind::Command, &command_subject("ls"));
    let first = Device::paired(&host);
    first.synchronised();
    let connections = host.connections();

    let second = Device {
        dir: tempfile::tempdir().unwrap(),
        platform: first.platform.clone(),
        core: open(&first.path(), &first.platform),
    };
    second.hosts().until("it says who holds the link", |rows| {
        rows[0].link == LinkState::HeldElsewhere
    });
    let row = second
        .inbox()
        .until("it sees what waits", |rows| rows.len() == 1)[0]
        .clone();
    let watching = first.inbox();
    let ticket = second.answer(&row, "accept");
    assert!(
        accepted(&ticket),
        "its answer went out over the first one's link"
    );
    watching.until("the first one shows it", |rows| {
        rows[0].state != pilothouse_engine::InboxState::Pending
    });
    assert_eq!(
        host.connections(),
        connections,
        "the second one did not dial"
    );

    first.core.close();
    second.hosts().until("the links are taken over", |rows| {
        rows[0].link == LinkState::Synchronised
    });
    let created = second.create("By the second");
    assert!(accepted(&created));
}

#[test]
fn a_pairing_code_works_once_and_says_why_it_does_not() {
    let host = FakeHost::start();
    let code = host.code();
    let device = Device::new();
    block_on(device.core.pair(&code)).unwrap();
    device.synchronised();
    let other = Device::new();
    match block_on(other.core.pair(&code)) {
        Err(error @ PairError::Refused { .. }) => {
            assert!(error.to_string().contains("already used"), "{error}");
            assert!(!error.retryable());
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        block_on(other.core.pair("https://example.org")),
        Err(PairError::Code { .. })
    ));
    let mut gone = FakeHost::start();
    let code = gone.code();
    gone.stop();
    match block_on(other.core.pair(&code)) {
        Err(error @ PairError::Unreachable { .. }) => assert!(error.retryable()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_closed_core_leaves_the_directory_free_and_refuses_what_comes_later() {
    let host = FakeHost::start();
    let device = Device::paired(&host);
    let ticket = device.create("Last words");
    device.core.close();
    device.core.close();
    ticket.durable().unwrap();
    assert_eq!(
        device
            .core
            .submit(crate::device::message(ticket.thread(), "late"))
            .unwrap_err(),
        SubmitError::Closed
    );
    assert!(matches!(
        block_on(device.core.pair(&host.code())),
        Err(PairError::Closed)
    ));
    let again = open(&device.path(), &device.platform);
    let watch = Device {
        dir: tempfile::tempdir().unwrap(),
        platform: device.platform.clone(),
        core: again,
    };
    watch.synchronised();
    watch
        .threads()
        .until("what was submitted last was saved and sent", |rows| {
            rows.len() == 1 && !rows[0].pending
        });
}

#[test]
fn a_core_can_be_closed_from_inside_a_sink() {
    let device = Device::new();
    let (done, ended) = std::sync::mpsc::channel();
    let core = device.core.clone();
    let _observation = device.core.observe(
        Scope::Hosts,
        Arc::new(move |_| {
            core.close();
            done.send(()).unwrap();
        }),
    );
    ended.recv_timeout(crate::device::DEADLINE).unwrap();
}

#[test]
fn a_directory_that_cannot_be_used_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    match try_open(&file.join("data")) {
        Err(error) => {
            assert!(error.to_string().contains("file/data"), "{error}");
            assert!(!error.retryable());
        }
        Ok(_) => panic!("a file is no directory"),
    }

    let newer = dir.path().join("newer");
    try_open(&newer).unwrap().close();
    let db = newer.join("replica.db");
    // SQLite keeps the schema's version at byte 60 of the file, big-endian.
    let mut raw = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&db)
        .unwrap();
    let mut version = [0; 4];
    raw.seek(SeekFrom::Start(60)).unwrap();
    raw.read_exact(&mut version).unwrap();
    raw.seek(SeekFrom::Start(60)).unwrap();
    raw.write_all(&(u32::from_be_bytes(version) + 40).to_be_bytes())
        .unwrap();
    drop(raw);
    match try_open(&newer) {
        Err(error @ CoreError::Newer { .. }) => {
            assert!(error.to_string().contains("update this program"), "{error}")
        }
        other => panic!("{other:?}"),
    }

    let damaged = dir.path().join("damaged");
    fs::create_dir(&damaged).unwrap();
    fs::write(
        damaged.join("replica.db"),
        "this is no database, by far".repeat(100),
    )
    .unwrap();
    assert!(matches!(
        try_open(&damaged),
        Err(CoreError::Database { .. })
    ));
}

#[test]
fn an_answer_from_a_core_without_links_and_without_an_owner_is_sent_by_the_next_owner() {
    let host = FakeHost::start();
    let thread = host.thread(40, "Handed on");
    host.ask(thread, 1, RequestKind::Command, &command_subject("ls"));
    let first = Device::paired(&host);
    let row = first.inbox().until("it waits", |rows| rows.len() == 1)[0].clone();
    let second = open(&first.path(), &first.platform);
    let ticket = second
        .submit(answer(row.thread, row.request, row.content_hash, "decline"))
        .unwrap();
    ticket.durable().unwrap();
    second.close();
    drop(second);
    let third = open(&first.path(), &first.platform);
    first.core.close();
    let found = third.query(pilothouse_engine::Query::Outcome {
        command: ticket.command_id(),
    });
    assert!(found.is_ok(), "{found:?}");
    while host
        .lock()
        .taken
        .last()
        .is_none_or(|command| command.id != ticket.command_id())
    {
        std::thread::yield_now();
    }
    assert!(matches!(
        ticket.poll_outcome(),
        None | Some(TicketOutcome::Accepted { .. })
    ));
    third.close();
}

#[test]
fn a_second_core_sees_a_timeline_live_that_only_it_observes() {
    use crate::host::{item, words};
    use pilothouse_domain::{Event, ItemStatus};
    let host = FakeHost::start();
    let thread = host.thread(40, "Watched twice");
    let first = Device::paired(&host);
    first.synchronised();
    let second = Device {
        dir: tempfile::tempdir().unwrap(),
        platform: first.platform.clone(),
        core: open(&first.path(), &first.platform),
    };
    let timeline = second.timeline(thread);
    timeline.until("it is current, by the first one's link", |shown| {
        shown.header().synchronised
    });
    host.append(
        thread,
        vec![Event::ItemOpened {
            item: item(1, ItemStatus::Open, words("")),
        }],
    );
    let id = item(1, ItemStatus::Open, words("")).id;
    for piece in ["Hal", "lo"] {
        host.live(thread, id, piece);
    }
    timeline.until("text streams through the shared file", |shown| {
        shown.texts() == ["Hallo"]
    });
    host.append(
        thread,
        vec![Event::ItemClosed {
            item: id,
            status: ItemStatus::Completed,
            content: Some(words("Hallo.")),
            streamed: None,
        }],
    );
    let shown = timeline.until("its final text stands", |shown| shown.texts() == ["Hallo."]);
    assert_eq!(
        shown.header().digest,
        Some(host.lock().threads[&thread].digest())
    );
    assert_eq!(shown.resets, 1);
}
