//! Disks that are full, and directories that cannot be written to.

use crate::stories::says;
use pilothouse_domain::{CommandBody, Mode, Refusal};
use pilothouse_engine::{DeliveryState, RowContent};
use pilothouse_tests::{
    Device, Proxy, Setup, World,
    mount::{self, Mount},
    process::Process,
    proxy::Way,
    until,
};
use serde_json::json;
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

/// Writes until nothing more fits.
fn fill(dir: &Path) {
    let mut file = File::create(dir.join("filler")).unwrap();
    let block = vec![0x5a; 4096];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&[0x5a]).is_ok() {}
}

#[test]
fn on_a_full_disk_commands_wait_and_are_delivered_once_when_there_is_room_again() {
    if !mount::allowed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _small = Mount::tmpfs(dir.path(), 6 * 1024);
    let world = Setup::new().state(&dir.path().join("state")).start();
    let device = world.device("phone");
    world.model.script("before", &says("Room."));
    let thread = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(thread, "[[script:before]]"));
    device.completed(thread, 1);

    fill(dir.path());
    // The files that are there may have some room inside: a message that is larger than any of it.
    let bulk = "word ".repeat(20_000);
    world.model.script("after", &says("Room again."));
    let sent = device.say(thread, &format!("[[script:after]] [[id:after]] {bulk}"));
    let reason = device.wait("the message to wait for the disk", |seen| {
        seen.delivery.iter().find_map(|row| match &row.state {
            DeliveryState::Waiting { reason } => Some(reason.clone()),
            _ => None,
        })
    });
    assert!(reason.contains("disk is full"), "{reason}");
    assert_eq!(sent.poll_outcome(), None, "a full disk is no final answer");
    // The host still answers: what is there can be read.
    let header = device.timeline(thread).header;
    assert!(header.is_some_and(|header| header.synchronised));

    fs::remove_file(dir.path().join("filler")).unwrap();
    device.accepted(&sent);
    device.completed(thread, 2);
    let mark = world.model.mark("after");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));
    device.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn what_an_agent_says_while_the_disk_is_full_is_kept_and_holds_nobody_up() {
    if !mount::allowed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _small = Mount::tmpfs(dir.path(), 8 * 1024);
    let world = Setup::new().state(&dir.path().join("state")).start();
    let device = world.device("phone");
    let long = "many words ".repeat(12_000);
    world.model.script(
        "long",
        &json!([{"text": long, "chunk": 4000, "hold": "full"}]),
    );
    let speaking = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(speaking, "[[script:long]]"));
    world.model.reached("long", 1);
    let other = device.new_thread("codex", Mode::Ask);

    fill(dir.path());
    world.model.release("full");
    // Another thread's message is told that it waits for the disk, although the agent's words cannot be written either.
    let bulk = "word ".repeat(20_000);
    world.model.script("after", &says("Room again."));
    let sent = device.say(other, &format!("[[script:after]] [[id:after]] {bulk}"));
    device.wait("the message to wait for the disk", |seen| {
        let waits = |state: &DeliveryState| matches!(state, DeliveryState::Waiting { reason } if reason.contains("disk is full"));
        seen.delivery.iter().any(|row| waits(&row.state)).then_some(())
    });
    // What is there can still be read.
    let header = device.timeline(other).header;
    assert!(header.is_some_and(|header| header.synchronised));

    fs::remove_file(dir.path().join("filler")).unwrap();
    device.accepted(&sent);
    device.completed(other, 1);
    device.completed(speaking, 1);
    let rows = device.whole(speaking);
    let said = rows
        .iter()
        .rfind(|row| matches!(row.content, RowContent::AssistantMessage));
    let bytes = said.map(|row| row.text.bytes);
    assert_eq!(
        bytes,
        Some(long.len() as u64),
        "all the agent's words are kept"
    );
    device.same_as(&world.host, speaking);
    world.host.verify();
}

#[test]
fn an_outcome_that_came_while_the_devices_disk_was_full_is_known_once_there_is_room() {
    if !mount::allowed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _small = Mount::tmpfs(dir.path(), 6 * 1024);
    let world = Setup::new().start();
    let proxy = Proxy::start(world.host.address());
    let data = dir.path().join("phone");
    let device = Device::pair(&data, "phone", &world.host, Some(proxy.address()));
    let thread = device.new_thread("codex", Mode::Ask);
    // The file that takes what is new may have some room inside: in several rounds it has none. A refusal stands in no log,
    // from which the device could learn of it otherwise.
    for revision in 1001..1005 {
        proxy.hold(Way::Down);
        let sent = device.submit(Some(thread), CommandBody::QueueRelease { revision });
        until("the host to decide", || {
            let outcome = world.host.outcome(sent.command_id());
            outcome.ok_or_else(|| "no outcome".to_owned())
        });
        fill(dir.path());
        let before = proxy.passed(Way::Down);
        proxy.resume();
        until("the device to be told", || {
            let passed = proxy.passed(Way::Down);
            (passed > before)
                .then_some(())
                .ok_or_else(|| format!("{passed} bytes"))
        });
        fs::remove_file(dir.path().join("filler")).unwrap();
        let refusal = device.refused(&sent);
        assert!(matches!(refusal, Refusal::Stale { .. }), "{refusal}");
    }
}

#[test]
fn a_read_only_state_directory_is_named_with_what_to_do() {
    if !mount::allowed() {
        return;
    }
    let mut world = World::start();
    assert!(world.host.stop().success());
    let state = world.host.state().to_owned();
    let _fixed = Mount::read_only(&state);
    let mut failed = Process::start("read-only", world.host.daemon(), world.dir());
    let status = failed.ended();
    assert_eq!(status.code(), Some(1));
    let said = failed.errors();
    assert!(
        said.contains(&*state.to_string_lossy()),
        "names the directory: {said}"
    );
    assert!(
        said.contains("read-only") || said.contains("Read-only"),
        "says what is wrong: {said}"
    );
    assert!(failed.output().is_empty(), "it never claimed to listen");
}

#[test]
fn a_second_host_on_the_same_state_is_told_who_has_it() {
    let world = World::start();
    let mut second = Process::start("second", world.host.daemon(), world.dir());
    assert_eq!(second.ended().code(), Some(1));
    let said = second.errors();
    assert!(
        said.contains(&world.host.process().id().to_string()),
        "names the process: {said}"
    );
}
