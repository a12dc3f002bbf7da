//! A log that a newer host has written, in the hands of this host and this device: what may be skipped is skipped,
//! anything else makes its thread, and only it, read-only.

use crate::stories::conversation;
use pilothouse_domain::{Cause, Entry, Mode, Refusal, ThreadId, entry::LOG_FORMAT};
use pilothouse_tests::{Cli, Device, Setup, World, until};
use rusqlite::Connection;

/// Appends an entry with one event, as a newer host would: the chain goes on, and the kept state is of a version of its own.
fn append_newer(world: &World, thread: ThreadId, event: &str) {
    let last = world.host.ledger(|ledger| {
        let head = ledger.cursor(thread)?;
        ledger.entries_after(thread, head.seq - 1, usize::MAX)
    });
    let last = last.last().expect("a thread that has begun");
    let event_hash = *blake3::hash(event.as_bytes()).as_bytes();
    let mut entry = Entry {
        seq: last.seq + 1,
        log_format: LOG_FORMAT,
        cause: Cause::Clock,
        ..last.clone()
    };
    entry.chain = last.chain.extend(&entry.header(), &[event_hash]);
    let database = Connection::open(world.host.state().join("ledger.db")).unwrap();
    let number: i64 = database
        .query_row(
            "SELECT number FROM threads WHERE thread = ?1",
            [thread.as_bytes()],
            |row| row.get(0),
        )
        .unwrap();
    let chain = serde_json::to_value(entry.chain).unwrap();
    let chain = chain.as_str().unwrap();
    let changed = database
        .execute(
            "INSERT INTO entries SELECT place + 1, epoch, log_format, host_time_ms, unhex(?2), ?3, ?4, ?5 FROM entries \
             WHERE place >> 40 = ?1 ORDER BY place DESC LIMIT 1",
            (
                number,
                chain,
                event_hash,
                serde_json::to_string(&entry.cause).unwrap(),
                format!("[{event}]"),
            ),
        )
        .unwrap();
    assert_eq!(changed, 1);
    database
        .execute(
            "UPDATE threads SET seq = seq + 1, chain = unhex(?2) WHERE number = ?1",
            (number, chain),
        )
        .unwrap();
    database
        .execute(
            "UPDATE states SET version = version + 1 WHERE thread = ?1",
            [number],
        )
        .unwrap();
    database
        .execute(
            "UPDATE summaries SET json = json_set(json, '$.seq', json_extract(json, '$.seq') + 1), \
             revision = (SELECT max(revision) + 1 FROM summaries) WHERE thread = ?1",
            [thread.as_bytes()],
        )
        .unwrap();
}

fn thread_that_talked(device: &Device) -> ThreadId {
    let thread = device.new_thread("fake", Mode::Ask);
    device.accepted(&device.say(thread, "hello"));
    device.completed(thread, 1);
    thread
}

#[test]
fn events_of_a_newer_host_are_skipped_or_make_their_thread_read_only_for_old_and_new_devices() {
    let mut world = Setup::new().fake("fake", &["ok"]).start();
    let phone = world.device("phone");
    let skips = thread_that_talked(&phone);
    let stops = thread_that_talked(&phone);
    // A type that is known, with something in it that is not.
    let half = thread_that_talked(&phone);
    assert!(world.host.stop().success());
    append_newer(
        &world,
        skips,
        r#"{"type":"weather.changed","skippable":true,"to":"rain"}"#,
    );
    append_newer(&world, stops, r#"{"type":"goal.set","goal":"win"}"#);
    append_newer(
        &world,
        half,
        r#"{"type":"queue.held","reason":"full_moon"}"#,
    );
    world.host.restart();
    world.host.verify();
    phone.network_changes();
    // The phone goes on from where it was, the tablet gets everything anew.
    let tablet = world.device("tablet");
    for device in [&phone, &tablet] {
        for thread in [skips, stops, half] {
            device.watch(thread);
            device.same_as(&world.host, thread);
            until("what was said", || match conversation(device, thread) {
                said if said == ["hello", "fine"] => Ok(()),
                said => Err(format!("{said:#?}")),
            });
        }
    }
    for device in [&phone, &tablet] {
        let run = device.timeline(skips).last_run().unwrap().ordinal + 1;
        device.accepted(&device.say(skips, "go on"));
        device.completed(skips, run);
        for (thread, kind) in [(stops, "goal.set"), (half, "queue.held")] {
            let header = device.timeline(thread).header.unwrap();
            let reason = header.read_only.expect("the thread is read-only");
            assert!(reason.contains(kind), "{reason}");
            let refusal = device.refused(&device.say(thread, "go on"));
            assert!(matches!(refusal, Refusal::ReadOnly { .. }), "{refusal:?}");
        }
    }
    // What the person reads.
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    let (code, said) = cli.read(&world.host, &["send", &stops.to_string(), "go on"]);
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains("goal.set") && said.contains("update"),
        "{said}"
    );

    // It stays so, and everything else goes on.
    world.host.kill_9();
    world.host.restart();
    phone.network_changes();
    phone.synchronised();
    let refusal = phone.refused(&phone.say(stops, "and now?"));
    assert!(matches!(refusal, Refusal::ReadOnly { .. }), "{refusal:?}");
    thread_that_talked(&phone);
    world.host.verify();
}
