//! Pictures with a message, end to end: brought to the host over the wire, handed to real codex, seen by its model.

use pilothouse_domain::{
    BlobHash, CapabilityFlag, Mode, Refusal, ThreadId,
    command::{CommandBody, DispatchMode},
    hash,
    refusal::Fallback,
    thread::{Attachment, Delivery},
};
use pilothouse_engine::{RowContent, Ticket};
use pilothouse_tests::{
    Cli, CodexElsewhere, Device, LedgerDir, Setup, World,
    picture::{dot, screenshot},
};
use serde_json::json;
use std::{collections::BTreeSet, fs};

fn sha256(bytes: &[u8]) -> String {
    hash::to_hex(&hash::sha256(bytes))
}

fn bring(device: &Device, name: &str, bytes: &[u8]) -> Attachment {
    let hash = device.core().upload(device.host(), bytes).unwrap();
    assert_eq!(hash, BlobHash::of(bytes));
    Attachment {
        name: name.to_owned(),
        media_type: "image/png".to_owned(),
        hash,
        bytes: bytes.len() as u64,
    }
}

fn send(device: &Device, thread: ThreadId, text: &str, attachments: Vec<Attachment>) -> Ticket {
    let body = CommandBody::MessageSend {
        text: text.to_owned(),
        attachments,
        dispatch: DispatchMode::StartImmediately,
        accept_stop: Vec::new(),
    };
    device.submit(Some(thread), body)
}

#[test]
fn case_43_a_picture_alone_one_with_words_and_twenty_reach_the_model_whole() {
    reach_the_model_whole(&World::start(), "codex", Large::Whole);
}

#[test]
fn case_43_by_claude_code_pictures_reach_the_model_whole() {
    reach_the_model_whole(&Setup::new().claude().start(), "claude", Large::MadeAnew);
}

#[test]
fn case_43_by_pi_pictures_reach_the_model_whole() {
    reach_the_model_whole(
        &Setup::new().pi(&[]).start(),
        "pi",
        Large::Refused("at most 11 MiB"),
    );
}

#[test]
fn case_43_by_opencode_pictures_reach_the_model_whole() {
    reach_the_model_whole(&Setup::new().opencode().start(), "opencode", Large::Whole);
}

#[test]
fn case_43_by_a_codex_elsewhere_pictures_reach_the_model_whole_and_large_ones_as_far_as_they_may() {
    let mut world = World::start();
    world.host.kill_9();
    let server = CodexElsewhere::start(&world, &[]);
    let dir = world.dir().join("phone");
    let device = Device::direct(&dir, "phone", server.agent(), server.secret());
    let ledger = device.own_ledger();
    // 20 of them at once are as much as it takes when they are small.
    reach_the_model(
        &world,
        &device,
        &ledger,
        ("workspace", "codex"),
        (dot_of, Large::Whole),
    );

    let padded = |bytes: usize| {
        let mut picture = dot(7, 7, 7);
        picture.resize(bytes, 0);
        bring(&device, "large.png", &picture)
    };
    let thread = device.new_thread_in("workspace", "codex", Mode::Ask);
    let most = padded(8 << 20);
    device.accepted(&send(&device, thread, "look [[script:say]]", vec![most]));
    device.completed(thread, 1);
    assert_eq!(world.model.pictures().len(), 1);
    let more = vec![padded(8 << 20), padded(1 << 20)];
    device.accepted(&send(&device, thread, "[[id:more]]", more));
    let reason = not_sent(&device, thread);
    assert!(reason.contains("at most 8 MiB"), "{reason}");
    assert_eq!(world.model.mark("more").requests, 0);
    device.accepted(&send(&device, thread, "go on [[script:say]]", Vec::new()));
    device.completed(thread, 3);
}

fn dot_of(n: u8) -> Vec<u8> {
    dot(n, 0, 255)
}

/// 15 screenshots of 1.4 MiB, more than 16 MiB in all, and 5 dots.
fn screenshot_or_dot(n: u8) -> Vec<u8> {
    if n < 15 { screenshot(n) } else { dot_of(n) }
}

/// What comes of 15 screenshots and 5 dots in one message.
#[derive(Clone, Copy)]
enum Large {
    /// The model sees each as it was.
    Whole,
    /// The model sees all, the screenshots as the agent makes them anew: it does so with large pictures.
    MadeAnew,
    /// The message says this and nothing is sent.
    Refused(&'static str),
}

/// Why a thread's message was not sent.
fn not_sent(device: &Device, thread: ThreadId) -> String {
    device.wait("the message to say why", |seen| {
        let rows = &seen.timelines.get(&thread)?.rows;
        rows.iter().find_map(|row| match &row.delivery {
            Some(Delivery::Failed { reason }) => Some(reason.clone()),
            _ => None,
        })
    })
}

fn reach_the_model_whole(world: &World, agent: &str, large: Large) {
    let device = world.device("phone");
    let ledger = world.host.ledger_dir();
    reach_the_model(
        world,
        &device,
        &ledger,
        ("demo", agent),
        (screenshot_or_dot, large),
    );
}

fn reach_the_model(
    world: &World,
    device: &Device,
    ledger: &LedgerDir,
    (workspace, agent): (&str, &str),
    (picture_of, large): (fn(u8) -> Vec<u8>, Large),
) {
    world.model.script("say", &json!([{"text": "I see."}]));
    let thread = device.new_thread_in(workspace, agent, Mode::Ask);
    let cat = dot(1, 2, 3);
    let picture = bring(device, "cat.png", &cat);

    device.accepted(&send(device, thread, "", vec![picture.clone()]));
    device.completed(thread, 1);
    assert_eq!(world.model.pictures(), [sha256(&cat)]);
    let shown = device.whole(thread).remove(0);
    let RowContent::UserMessage { attachments, .. } = shown.content else {
        panic!("{shown:?}")
    };
    assert_eq!(attachments, std::slice::from_ref(&picture));

    device.accepted(&send(device, thread, "look [[script:say]]", vec![picture]));
    device.completed(thread, 2);
    assert_eq!(world.model.pictures(), [sha256(&cat), sha256(&cat)]);

    let other = device.new_thread_in(workspace, agent, Mode::Ask);
    let twenty: Vec<_> = (0..20).map(picture_of).collect();
    let pictures = twenty.iter().enumerate();
    let pictures = pictures
        .map(|(n, picture)| bring(device, &format!("{n}.png"), picture))
        .collect();
    device.accepted(&send(device, other, "all of them [[script:say]]", pictures));
    let expected: Vec<_> = twenty.iter().map(|picture| sha256(picture)).collect();
    match large {
        Large::Refused(why) => {
            let reason = not_sent(device, other);
            assert!(reason.contains(why), "{reason}");
        }
        Large::Whole | Large::MadeAnew => device.completed(other, 1),
    }
    // The conversation goes on, with what is part of it from now on.
    device.accepted(&send(device, other, "and now? [[script:say]]", Vec::new()));
    device.completed(other, 2);
    let came = world.model.pictures();
    match large {
        Large::Whole => assert_eq!(came, expected),
        Large::MadeAnew => {
            assert_eq!(came[15..], expected[15..], "in their order");
            assert_eq!(
                came.iter().collect::<BTreeSet<_>>().len(),
                20,
                "all of them"
            );
        }
        Large::Refused(_) => assert!(came.iter().all(|one| !expected.contains(one))),
    }
    device.same_as_in(ledger, other);
    ledger.verify();
}

#[test]
fn case_43_what_is_wrong_with_a_picture_is_said_at_its_message_and_nothing_is_sent() {
    let world = World::start();
    world.model.script("say", &json!([{"text": "I see."}]));
    let device = world.device("phone");
    let thread = device.new_thread("codex", Mode::Ask);
    // Called a picture and none: codex itself would pass it over with a word to the model.
    let none = bring(&device, "cat.png", b"<svg/>");
    let ticket = send(
        &device,
        thread,
        "look [[id:svg]] [[script:say]]",
        vec![none],
    );
    device.accepted(&ticket);
    let reason = device.wait("the message to say why", |seen| {
        let row = seen.timelines.get(&thread)?.rows.first()?.clone();
        match row.delivery {
            Some(Delivery::Failed { reason }) => Some(reason),
            _ => None,
        }
    });
    assert!(reason.contains("`cat.png` is no picture"), "{reason}");
    assert_eq!(world.model.mark("svg").requests, 0);

    // One that the host was never given is not taken at all.
    let missing = Attachment {
        hash: BlobHash::of(b"elsewhere"),
        name: "dog.png".to_owned(),
        media_type: "image/png".to_owned(),
        bytes: 9,
    };
    let refusal = device.refused(&send(&device, thread, "", vec![missing]));
    assert!(
        matches!(&refusal, Refusal::Invalid { field, .. } if field == "attachments"),
        "{refusal}"
    );
}

#[test]
fn files_that_are_no_pictures_are_refused_by_agents_that_take_none() {
    let world = Setup::new().claude().pi(&[]).start();
    world.model.script("say", &json!([{"text": "I see."}]));
    let device = world.device("phone");
    for agent in ["codex", "claude", "pi"] {
        let thread = device.new_thread(agent, Mode::Ask);
        let file = || Attachment {
            media_type: "text/plain".to_owned(),
            ..bring(&device, "notes.txt", b"words")
        };
        let is_refused = || {
            let sent = send(&device, thread, "[[id:file]]", vec![file()]);
            let expected = Refusal::Unsupported {
                capability: CapabilityFlag::FileInput,
                fallback: Some(Fallback::NameFile),
            };
            assert_eq!(device.refused(&sent), expected, "{agent}");
        };
        // By what is known of it before it ever ran, and by what its session says.
        is_refused();
        device.accepted(&send(&device, thread, "hello [[script:say]]", Vec::new()));
        device.completed(thread, 1);
        is_refused();
    }
    assert_eq!(world.model.mark("file").requests, 0);
}

#[test]
fn a_large_picture_comes_part_by_part_and_the_terminal_attaches_files() {
    let world = World::start();
    world.model.script("say", &json!([{"text": "I see."}]));
    let device = world.device("phone");
    // Three parts and a bit: what was brought is what the host has.
    let large: Vec<u8> = (0..900_000_u32).map(|n| (n % 253) as u8).collect();
    let hash = device.core().upload(world.host.id(), &large).unwrap();
    let stored = world
        .host
        .ledger(|reader| reader.blob(hash, 0, large.len()));
    assert_eq!(stored.as_deref(), Some(&large[..]));
    // Once more is no more work, and no other file.
    assert_eq!(device.core().upload(world.host.id(), &large), Ok(hash));
    let huge = vec![0; 11 * 1024 * 1024];
    assert!(device.core().upload(world.host.id(), &huge).is_err());

    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    let made = cli.run(
        &world.host,
        &["new", "--agent", "codex", "--workspace", "demo", "Look"],
    );
    let thread = made.only("created")["thread"].as_str().unwrap().to_owned();
    let file = world.dir().join("cat.png");
    fs::write(&file, dot(9, 9, 9)).unwrap();
    let path = file.display().to_string();
    let sent = cli.run(
        &world.host,
        &["send", &thread, "[[script:say]]", "--attach", &path],
    );
    assert_eq!(sent.code, 0, "{sent:#?}");
    assert_eq!(
        cli.run(&world.host, &["watch", &thread, "--until-idle"])
            .code,
        0
    );
    assert_eq!(world.model.pictures(), [sha256(&dot(9, 9, 9))]);
    let alone = cli.run(&world.host, &["send", &thread, "--attach", &path]);
    assert_eq!(alone.code, 0, "{alone:#?}");
    let missing = cli.run(
        &world.host,
        &["send", &thread, "x", "--attach", "nowhere.png"],
    );
    assert_eq!(missing.code, 2, "{missing:#?}");
}
