//! The inbox and answers to it.

use crate::{
    device::{Device, accepted, answer, outcome},
    host::{FakeHost, choose, command_subject},
};
use pilothouse_domain::{
    Refusal, Subject,
    request::{Question, RequestKind, RiskHint},
};
use pilothouse_engine::{DeliveryState, InboxState, Page, Query, SubmitError, TicketOutcome};

fn question() -> Subject {
    Subject {
        questions: vec![Question {
            id: "q".to_owned(),
            header: "Colour".to_owned(),
            text: "Which colour?".to_owned(),
            choices: Vec::new(),
            multi_select: false,
            optional: false,
            free_text: true,
            secret: false,
        }],
        ..Subject::default()
    }
}

#[test]
fn case_23_what_waited_before_the_device_came_is_shown_before_any_live_event() {
    let mut host = FakeHost::start();
    let thread = host.thread(40, "Waits");
    let approval = host.ask(thread, 1, RequestKind::Command, &command_subject("ls"));
    let asked = host.ask(thread, 2, RequestKind::UserInput, &question());

    let mut device = Device::paired(&host);
    let rows = device.inbox().until("both wait", |rows| rows.len() == 2);
    let ids: Vec<_> = rows.iter().map(|row| row.request).collect();
    assert_eq!(
        ids,
        [approval, asked],
        "the one that waits longest is first"
    );
    assert_eq!(
        (rows[0].thread_title.as_str(), rows[0].host_name.as_str()),
        ("Waits", "studio")
    );
    assert_eq!(rows[0].shown, "ls");
    assert!(rows[0].one_tap_allowed && rows[0].verified);
    assert!(!rows[1].one_tap_allowed);

    host.stop();
    device.offline();
    device.reopen();
    let rows = device.inbox().first();
    assert_eq!(
        rows.len(),
        2,
        "after a restart the very first batch has both, without a host"
    );
    assert!(!rows[0].online);
}

#[test]
fn case_10_an_answer_is_sending_until_the_host_says_that_it_is_answered() {
    let host = FakeHost::start();
    let thread = host.thread(40, "Waits");
    let request = host.ask(thread, 1, RequestKind::Command, &command_subject("ls"));
    let device = Device::paired(&host);
    let inbox = device.inbox();
    let row = inbox.until("it waits", |rows| rows.len() == 1)[0].clone();
    host.with(|world| {
        world.mute = true;
        world.feed_held = true;
    });
    let ticket = device.answer(&row, "accept");
    let sending = inbox.until("it is sending", |rows| rows[0].state != InboxState::Pending);
    assert_eq!(
        sending[0].state,
        InboxState::Sending {
            answer: choose("accept"),
            on_host: false
        }
    );
    while host
        .lock()
        .taken
        .last()
        .is_none_or(|command| command.body.name() != "request.answer")
    {
        std::thread::yield_now();
    }
    assert_eq!(
        ticket.poll_outcome(),
        None,
        "the decision was taken, but nobody has told the device"
    );
    // The connection is lost before the acknowledgement; the next one brings it.
    host.with(|world| {
        world.mute = false;
        world.feed_held = false;
    });
    host.kick();
    assert!(accepted(&ticket));
    inbox.until("the host has recorded it", |rows| {
        matches!(rows[0].state, InboxState::Sending { on_host: true, .. })
    });
    host.confirm(thread, request);
    inbox.until("its own receipt closes the card", <[_]>::is_empty);
    assert_eq!(host.lock().arrivals[&ticket.command_id()], 1);
}

#[test]
fn case_20_receipt_and_withdrawal_of_the_same_card_in_any_order_close_it_once() {
    let host = FakeHost::start();
    let thread = host.thread(40, "Waits");
    let request = host.ask(thread, 1, RequestKind::Command, &command_subject("ls"));
    let device = Device::paired(&host);
    let inbox = device.inbox();
    let row = inbox.until("it waits", |rows| rows.len() == 1)[0].clone();
    let ticket = device.answer(&row, "accept");
    assert!(accepted(&ticket));
    host.confirm(thread, request);
    host.confirm(thread, request);
    inbox.until("it is closed", <[_]>::is_empty);
    let again = device.answer(&row, "decline");
    match outcome(&again) {
        TicketOutcome::Refused {
            refusal: Refusal::AlreadyAnswered { .. },
        } => {}
        other => panic!("a second answer changes nothing and says so: {other:?}"),
    }
    device.delivery().until("the person is told", |rows| {
        rows.iter().any(|row| matches!(&row.state, DeliveryState::Refused { reason } if reason.contains("already answered")))
    });
}

#[test]
fn a_text_that_does_not_fit_its_hash_is_shown_as_such_and_cannot_be_approved() {
    let host = FakeHost::start();
    let thread = host.thread(40, "Tampered");
    host.ask(thread, 1, RequestKind::Command, &command_subject("ls"));
    host.with(|world| world.tampers = true);
    let device = Device::paired(&host);
    let row = device.inbox().until("it waits", |rows| rows.len() == 1)[0].clone();
    assert_eq!(row.shown, "rm -rf /");
    assert!(!row.verified && !row.one_tap_allowed && row.default_to_no);
    assert!(row.hints.contains(&RiskHint::NoExactText));
    let approve = answer(row.thread, row.request, row.content_hash, "accept");
    assert_eq!(
        device.core.submit(approve).unwrap_err(),
        SubmitError::Unverified
    );
    assert!(
        accepted(&device.answer(&row, "decline")),
        "it can be refused all the same"
    );
    match device.core.query(Query::Request {
        host: row.host,
        thread: None,
        request: row.request,
    }) {
        Ok(Page::Request(page)) => {
            assert!(!page.verified && page.computed_hash != row.content_hash)
        }
        // It may have left the inbox by then.
        Err(error) => assert!(!error.retryable()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_dies_with_its_quarter_of_an_hour_and_never_reaches_the_host() {
    let mut host = FakeHost::start();
    let thread = host.thread(40, "Late");
    host.ask(thread, 1, RequestKind::Command, &command_subject("ls"));
    let device = Device::paired(&host);
    let inbox = device.inbox();
    let row = inbox.until("it waits", |rows| rows.len() == 1)[0].clone();
    host.stop();
    device.offline();
    let late = device.answer(&row, "accept");
    late.durable().unwrap();
    inbox.until("it is sending", |rows| rows[0].state != InboxState::Pending);
    device
        .platform
        .pass(pilothouse_domain::limits::ANSWER_EXPIRES_MS + 1);
    assert_eq!(outcome(&late), TicketOutcome::Expired);
    let rows = inbox.until("it waits for its person again", |rows| {
        rows[0].state == InboxState::Pending
    });
    assert_eq!(
        rows[0].refused.as_deref(),
        Some("it waited too long and was never sent; answer again")
    );
    host.resume();
    device.synchronised();
    let fresh = device.answer(&row, "decline");
    assert!(accepted(&fresh));
    assert!(!host.lock().arrivals.contains_key(&late.command_id()));
}

#[test]
fn case_17_an_answer_to_what_was_shown_before_is_stale_and_its_row_says_so() {
    let host = FakeHost::start();
    let thread = host.thread(40, "Changed");
    let request = host.ask(thread, 1, RequestKind::Command, &command_subject("ls"));
    let device = Device::paired(&host);
    let inbox = device.inbox();
    let row = inbox.until("it waits", |rows| rows.len() == 1)[0].clone();
    let subject = serde_json::to_string(&command_subject("ls -la")).unwrap();
    host.append(
        thread,
        vec![pilothouse_domain::Event::RequestChanged {
            request,
            content_hash: pilothouse_domain::ContentHash::of(&subject),
            subject,
            one_tap_allowed: true,
            default_to_no: false,
            hints: Vec::new(),
        }],
    );
    let now = inbox.until("the new text is shown", |rows| rows[0].shown == "ls -la");
    assert_ne!(now[0].content_hash, row.content_hash);
    match outcome(&device.answer(&row, "accept")) {
        TicketOutcome::Refused {
            refusal: Refusal::Stale { .. },
        } => {}
        other => panic!("{other:?}"),
    }
    let told = inbox.until("the row says why", |rows| rows[0].refused.is_some());
    assert!(told[0].refused.as_ref().unwrap().contains("look again"));
    assert_eq!(told[0].state, InboxState::Pending);
    assert!(
        host.lock()
            .taken
            .iter()
            .all(|command| command.body.name() != "message.send"),
        "never chat text"
    );
}

#[test]
fn a_device_that_was_just_opened_hears_what_became_of_its_answer() {
    let host = FakeHost::start();
    let thread = host.thread(40, "One shot");
    let request = host.ask(thread, 1, RequestKind::Command, &command_subject("ls"));
    let mut device = Device::paired(&host);
    device.inbox().until("it waits", |rows| rows.len() == 1);
    device.reopen();
    let row = device.inbox().first()[0].clone();
    let timeline = device.timeline(thread);
    assert!(accepted(&device.answer(&row, "accept")));
    host.confirm(thread, request);
    let page = || match device.core.query(Query::Request {
        host: row.host,
        thread: Some(thread),
        request,
    }) {
        Ok(Page::Request(page)) => page,
        other => panic!("{other:?}"),
    };
    let deadline = std::time::Instant::now() + crate::device::DEADLINE;
    while page().status().is_open() {
        assert!(std::time::Instant::now() < deadline, "{:?}", page());
        std::thread::yield_now();
    }
    assert!(page().verified && page().sending.is_none());
    drop(timeline);
}
