//! The outbox: order, exactly once, expiry, and what builds on what.

use crate::{
    device::{Device, accepted, message, outcome},
    host::{FakeHost, HOST},
};
use pilothouse_domain::{CommandBody, Refusal, thread::Delivery};
use pilothouse_engine::{DeliveryState, Page, Prediction, Query, SubmitError, TicketOutcome};

fn sent_texts(host: &FakeHost) -> Vec<String> {
    host.lock()
        .taken
        .iter()
        .map(|command| match &command.body {
            CommandBody::MessageSend { text, .. } => text.clone(),
            other => other.name().to_owned(),
        })
        .collect()
}

#[test]
fn what_was_written_offline_is_predicted_at_once_and_sent_in_order_once_the_host_is_back() {
    let mut host = FakeHost::start();
    let device = Device::paired(&host);
    device.synchronised();
    host.stop();
    device.offline();

    let created = device.create("Offline");
    assert!(matches!(created.prediction(), Prediction::Events(_)));
    created.durable().unwrap();
    let thread = created.thread();
    let tickets = [
        device.send(thread, "one"),
        device.send(thread, "two"),
        device.send(thread, "three"),
    ];
    for ticket in &tickets {
        assert!(
            matches!(ticket.prediction(), Prediction::Events(_)),
            "{:?}",
            ticket.prediction()
        );
        ticket.durable().unwrap();
        assert_eq!(ticket.poll_outcome(), None);
    }
    let threads = device.threads();
    threads.until("the new thread is listed as pending", |rows| {
        rows.len() == 1 && rows[0].pending
    });
    let timeline = device.timeline(thread);
    let shown = timeline.until(
        "the first message and two queued ones are predicted",
        |shown| shown.texts() == ["one"] && shown.header().queue.len() == 2,
    );
    assert!(shown.rows[0].pending && shown.rows[0].position.is_none());
    assert_eq!(shown.rows[0].delivery, Some(Delivery::Saved));
    let active = shown.header().active.as_ref().unwrap();
    assert!(
        active.pending && active.ordinal.is_none(),
        "a prediction shows no ordinal"
    );

    host.resume();
    assert!(accepted(&created));
    for ticket in &tickets {
        assert!(accepted(ticket));
    }
    assert_eq!(sent_texts(&host), ["thread.create", "one", "two", "three"]);
    assert!(host.lock().arrivals.values().all(|times| *times == 1));
    let shown = timeline.until(
        "the ledger's rows have taken the place of the predicted ones",
        |shown| {
            shown.rows.iter().all(|row| !row.pending)
                && shown.header().synchronised
                && shown.header().outstanding == 0
        },
    );
    assert_eq!(shown.texts(), ["one"]);
    assert_eq!(
        shown
            .header()
            .queue
            .iter()
            .map(|row| (row.preview.as_str(), row.pending))
            .collect::<Vec<_>>(),
        [("two", false), ("three", false)]
    );
    threads.until("the thread is listed as the host has it", |rows| {
        !rows[0].pending && rows[0].outstanding == 0
    });
    device
        .delivery()
        .until("nothing is on its way", <[_]>::is_empty);
}

#[test]
fn what_was_written_before_the_device_died_is_sent_after_it_is_opened_again() {
    let mut host = FakeHost::start();
    let mut device = Device::paired(&host);
    device.synchronised();
    host.stop();
    device.offline();
    let created = device.create("Before");
    let sent = device.send(created.thread(), "survives");
    sent.durable().unwrap();
    let id = sent.command_id();
    device.reopen();
    device
        .delivery()
        .until("both are still in the outbox", |rows| rows.len() == 2);
    host.resume();
    device.delivery().until("both are through", <[_]>::is_empty);
    assert_eq!(sent_texts(&host), ["thread.create", "survives"]);
    match device.core.query(Query::Outcome { command: id }).unwrap() {
        Page::Outcome {
            outcome: Some(TicketOutcome::Accepted { .. }),
            ..
        } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn case_24_a_cut_between_commit_and_acknowledgement_never_delivers_twice() {
    let host = FakeHost::start();
    let device = Device::paired(&host);
    let _impatient = device.impatient();
    let created = device.create("Cuts");
    assert!(accepted(&created));
    for round in 0..20 {
        // A fixed sequence that cuts before some of the acknowledgements, up to twice for the same command.
        host.with(|world| world.cuts = [1, 0, 2, 1, 0][round % 5]);
        let ticket = device.send(created.thread(), &format!("message {round}"));
        assert!(accepted(&ticket), "round {round}");
        host.with(|world| world.cuts = 0);
    }
    let texts = sent_texts(&host);
    let expected: Vec<String> = std::iter::once("thread.create".to_owned())
        .chain((0..20).map(|n| format!("message {n}")))
        .collect();
    assert_eq!(
        texts, expected,
        "each took effect exactly once and in order"
    );
    assert!(
        host.lock().asked >= 12,
        "outcomes were asked before anything was sent again"
    );
    assert!(
        host.lock().arrivals.values().all(|times| *times == 1),
        "what had landed was not sent again"
    );
}

#[test]
fn case_25_a_poisoned_head_lets_the_healthy_rest_through_and_parks_what_builds_on_it() {
    let mut host = FakeHost::start();
    let device = Device::paired(&host);
    let [first, second] = [device.create("A"), device.create("B")];
    assert!(accepted(&first) && accepted(&second));
    host.stop();
    device.offline();
    host.with(|world| {
        world.refusals.push_back(Refusal::Invalid {
            field: "text".to_owned(),
            problem: "no".to_owned(),
        })
    });
    let poisoned = device.send(first.thread(), "poison");
    let behind = device.send(first.thread(), "builds on it");
    host.resume();
    assert!(matches!(
        outcome(&poisoned),
        TicketOutcome::Refused {
            refusal: Refusal::Invalid { .. }
        }
    ));
    let healthy = [
        device.send(second.thread(), "healthy"),
        device.send(second.thread(), "too"),
    ];
    assert!(healthy.iter().all(accepted));
    match outcome(&behind) {
        TicketOutcome::Parked { reason } => assert!(reason.contains("discard it"), "{reason}"),
        other => panic!("{other:?}"),
    }
    device
        .delivery()
        .until("one is refused, one parked", |rows| {
            rows.len() == 2
                && rows
                    .iter()
                    .any(|row| matches!(row.state, DeliveryState::Refused { .. }))
                && rows
                    .iter()
                    .any(|row| matches!(row.state, DeliveryState::Parked { .. }))
        });

    assert!(
        device.core.send_parked(behind.command_id()).unwrap(),
        "its person may send it all the same"
    );
    device
        .delivery()
        .until("it is through", |rows| rows.len() == 1);
    assert!(sent_texts(&host).contains(&"builds on it".to_owned()));
}

#[test]
fn a_transient_refusal_stops_its_line_and_is_tried_again_by_itself() {
    let host = FakeHost::start();
    let device = Device::paired(&host);
    let created = device.create("Busy");
    assert!(accepted(&created));
    host.with(|world| world.refusals = vec![Refusal::NotReady, Refusal::DiskFull].into());
    let delivery = device.delivery();
    let tickets = [
        device.send(created.thread(), "first"),
        device.send(created.thread(), "second"),
    ];
    delivery.until("it says that it waits and why", |rows| {
        rows.iter().any(|row| matches!(&row.state, DeliveryState::Waiting { reason } if reason.contains("again")))
    });
    assert!(tickets.iter().all(accepted));
    assert_eq!(sent_texts(&host), ["thread.create", "first", "second"]);
}

#[test]
fn a_message_that_waited_too_long_expires_is_never_sent_and_can_be_discarded() {
    let mut host = FakeHost::start();
    let device = Device::paired(&host);
    let created = device.create("Old");
    assert!(accepted(&created));
    host.stop();
    device.offline();
    let old = device.send(created.thread(), "old news");
    old.durable().unwrap();
    device
        .platform
        .pass(pilothouse_domain::limits::MESSAGE_EXPIRES_MS + 1);
    assert_eq!(outcome(&old), TicketOutcome::Expired);
    let timeline = device.timeline(created.thread());
    let shown = timeline.until("it is shown as failed", |shown| shown.rows.len() == 1);
    assert!(matches!(
        shown.rows[0].delivery,
        Some(Delivery::Failed { .. })
    ));
    host.resume();
    let fresh = device.send(created.thread(), "fresh");
    assert!(accepted(&fresh));
    assert_eq!(sent_texts(&host), ["thread.create", "fresh"]);
    assert!(device.core.discard(old.command_id()).unwrap());
    timeline.until("it is gone", |shown| shown.texts() == ["fresh"]);
}

#[test]
fn a_restored_host_does_not_get_again_what_it_may_have_had() {
    let mut host = FakeHost::start();
    let device = Device::paired(&host);
    let created = device.create("Restored");
    assert!(accepted(&created));
    host.with(|world| world.mute = true);
    let unsure = device.send(created.thread(), "did it land?");
    unsure.durable().unwrap();
    device.delivery().until("it was handed over", |rows| {
        rows.iter().any(|row| row.state == DeliveryState::Sent)
    });
    while !host.lock().arrivals.contains_key(&unsure.command_id()) {
        std::thread::yield_now();
    }
    host.stop();
    device.offline();
    host.with(|world| {
        world.mute = false;
        world.outcomes.clear();
        world.epoch = pilothouse_domain::Epoch::from_bytes([1; 16]);
    });
    host.resume();
    match outcome(&unsure) {
        TicketOutcome::Parked { reason } => {
            assert!(reason.contains("restored from a backup"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(host.lock().arrivals[&unsure.command_id()], 1);

    assert!(
        device.core.send_parked(unsure.command_id()).unwrap(),
        "its person looked, and wants it sent"
    );
    assert!(accepted(&unsure));
    assert_eq!(host.lock().arrivals[&unsure.command_id()], 2);
}

#[test]
fn a_revoked_device_says_so_and_keeps_its_words_to_itself() {
    let host = FakeHost::start();
    let device = Device::paired(&host);
    let created = device.create("Revoked");
    assert!(accepted(&created));
    host.revoke();
    device
        .hosts()
        .until("the host is shown as having revoked this device", |rows| {
            rows[0].link == pilothouse_engine::LinkState::Revoked
        });
    match device.core.submit(message(created.thread(), "hello?")) {
        Err(SubmitError::Revoked { host }) => assert_eq!(host, HOST),
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_that_can_never_be_taken_are_refused_before_they_are_saved() {
    let host = FakeHost::start();
    let device = Device::paired(&host);
    let thread = device.create("Checks").thread();
    let error = |new| device.core.submit(new).unwrap_err();
    assert!(matches!(
        error(message(thread, "  \n")),
        SubmitError::Invalid { .. }
    ));
    assert!(matches!(
        error(message(thread, &"x".repeat(300 * 1024))),
        SubmitError::Invalid { .. }
    ));
    let mut unknown = message(thread, "hi");
    unknown.host = pilothouse_domain::HostId::from_bytes([1; 16]);
    assert!(matches!(error(unknown), SubmitError::UnknownHost { .. }));
    let mut no_thread = message(thread, "hi");
    no_thread.thread = None;
    assert!(matches!(
        error(no_thread),
        SubmitError::Thread {
            needs_thread: true,
            ..
        }
    ));
}

#[test]
fn fifty_messages_written_offline_all_arrive_once_and_in_order() {
    let mut host = FakeHost::start();
    let device = Device::paired(&host);
    let created = device.create("Many");
    assert!(accepted(&created));
    host.stop();
    device.offline();
    let texts: Vec<String> = (0..50).map(|n| format!("message {n}")).collect();
    let begun = std::time::Instant::now();
    let tickets: Vec<_> = texts
        .iter()
        .map(|text| device.send(created.thread(), text))
        .collect();
    println!(
        "submit: {:?} each, with up to 50 on their way",
        begun.elapsed() / 50
    );
    for ticket in &tickets {
        ticket.durable().unwrap();
    }
    host.resume();
    assert!(tickets.iter().all(accepted));
    assert_eq!(sent_texts(&host)[1..], texts);
    let numbers: Vec<u64> = host.lock().taken[1..]
        .iter()
        .map(|command| command.device_seq)
        .collect();
    assert!(
        numbers.is_sorted_by(|a, b| a < b),
        "each has the next number of its line"
    );
}
