//! Timelines: text, order, gaps, slow and broken observers.

use crate::{
    device::{Device, accepted, timeline_with},
    host::{FakeHost, item, words},
};
use pilothouse_domain::{Event, ItemContent, ItemStatus, ThreadId, feed::NEWER, item::Body};
use pilothouse_engine::Batch;
use std::sync::{Arc, Mutex, mpsc};

fn close(number: u64, text: &str) -> Event {
    Event::ItemClosed {
        item: item(number, ItemStatus::Completed, words("")).id,
        status: ItemStatus::Completed,
        content: Some(words(text)),
        streamed: None,
    }
}

fn open(number: u64) -> Event {
    Event::ItemOpened {
        item: item(number, ItemStatus::Open, words("")),
    }
}

fn closed(number: u64, text: &str) -> Event {
    Event::ItemOpened {
        item: item(number, ItemStatus::Completed, words(text)),
    }
}

fn tool(number: u64) -> Event {
    let content = ItemContent::Command {
        command: "ls".to_owned(),
        cwd: "/w".to_owned(),
        output: Body::default(),
        agent_output: None,
        exit_code: None,
        duration_ms: None,
    };
    Event::ItemOpened {
        item: item(number, ItemStatus::Open, content),
    }
}

fn start() -> (FakeHost, Device, ThreadId) {
    let host = FakeHost::start();
    let thread = host.thread(40, "Talk");
    let device = Device::paired(&host);
    device.synchronised();
    (host, device, thread)
}

#[test]
fn text_streams_by_offset_and_is_replaced_by_the_final_one_at_its_close() {
    let (host, device, thread) = start();
    let timeline = device.timeline(thread);
    timeline.until("it is current", |shown| shown.header().synchronised);
    host.append(thread, vec![open(1)]);
    let id = item(1, ItemStatus::Open, words("")).id;
    for piece in ["Grüße", ", ", "Welt"] {
        host.live(thread, id, piece);
    }
    timeline.until("all text has streamed", |shown| {
        shown.texts() == ["Grüße, Welt"]
    });
    let late = device.timeline(thread);
    let shown = late.until("a second observer gets it in its first batch", |shown| {
        !shown.rows.is_empty()
    });
    assert_eq!(shown.texts(), ["Grüße, Welt"]);
    host.append(thread, vec![close(1, "Grüße, Welt!")]);
    let shown = timeline.until("the final text stands", |shown| {
        shown.texts() == ["Grüße, Welt!"]
    });
    assert_eq!(shown.rows[0].status, ItemStatus::Completed);
    assert_eq!(shown.resets, 1);
    let digest = host.lock().threads[&thread].digest();
    assert_eq!(
        shown.header().digest,
        Some(digest),
        "device and host are equal"
    );
}

#[test]
fn no_batch_shows_a_tool_without_the_text_that_came_before_it() {
    let (host, device, thread) = start();
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let seen = wrong.clone();
    let rows = Mutex::new(Vec::new());
    let timeline = timeline_with(&device.core, thread, move |batch| {
        let Batch::Timeline(batch) = batch else {
            return;
        };
        let mut rows = rows.lock().unwrap();
        batch.apply(&mut rows);
        // Every second item is a tool, behind the ten pieces of the words before it.
        for pair in rows.chunks(2) {
            if let [words, _tool] = pair
                && words.text.text.len() != 10
            {
                seen.lock().unwrap().push(words.text.text.clone());
            }
        }
    });
    timeline.until("it is current", |shown| shown.header().synchronised);
    for turn in 0..30u64 {
        let (speaks, acts) = (turn * 2 + 1, turn * 2 + 2);
        host.append(thread, vec![open(speaks)]);
        for _ in 0..10 {
            host.live(thread, item(speaks, ItemStatus::Open, words("")).id, "x");
        }
        host.append(thread, vec![tool(acts)]);
    }
    timeline.until("all is there", |shown| {
        shown.rows.len() == 60
            && shown
                .rows
                .iter()
                .step_by(2)
                .all(|row| row.text.text.len() == 10)
    });
    assert_eq!(*wrong.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn case_27_a_thread_that_stayed_open_over_a_sleep_is_complete_and_in_order() {
    let (mut host, device, thread) = start();
    let timeline = device.timeline(thread);
    timeline.until("it is current", |shown| shown.header().synchronised);
    host.stop();
    timeline.until("it says that it is not current", |shown| {
        !shown.header().synchronised
    });
    for number in 1..=50 {
        host.append(thread, vec![closed(number, &format!("item {number}"))]);
    }
    host.resume();
    let shown = timeline.until("everything missed is there", |shown| {
        shown.rows.len() == 50 && shown.header().synchronised
    });
    let expected: Vec<String> = (1..=50).map(|number| format!("item {number}")).collect();
    assert_eq!(shown.texts(), expected);
    assert_eq!(shown.resets, 1, "the cursor was good: nothing began anew");
}

#[test]
fn a_log_that_went_another_way_resets_what_is_shown() {
    let (mut host, device, thread) = start();
    let timeline = device.timeline(thread);
    host.append(thread, vec![closed(1, "old one")]);
    host.append(thread, vec![closed(2, "old two")]);
    timeline.until("the old log is shown", |shown| {
        shown.texts() == ["old one", "old two"]
    });
    host.stop();
    timeline.until("the host is gone", |shown| !shown.header().synchronised);
    host.with(|world| {
        let create = world.threads[&thread].entries[0].clone();
        let mut other =
            pilothouse_orchestrator::memory::MemoryThread::new(thread, crate::host::policy());
        other.fold(create);
        world.threads.insert(thread, other);
    });
    host.append(thread, vec![closed(1, "new one")]);
    host.append(thread, vec![closed(2, "new two")]);
    host.append(thread, vec![closed(3, "new three")]);
    host.resume();
    let shown = timeline.until("the new log is shown", |shown| {
        shown.texts() == ["new one", "new two", "new three"] && shown.header().synchronised
    });
    assert_eq!(shown.resets, 2, "a gap is a reset");
    assert_eq!(
        shown.header().digest,
        Some(host.lock().threads[&thread].digest())
    );
}

#[test]
fn a_slow_observer_gets_few_batches_and_loses_nothing() {
    let (host, device, thread) = start();
    let (entered, blocked) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new((0, gate));
    let entered = Mutex::new(entered);
    let timeline = timeline_with(&device.core, thread, move |batch| {
        let Batch::Timeline(batch) = batch else {
            return;
        };
        let mut gate = gate.lock().unwrap();
        if gate.0 == 0 && !batch.texts.is_empty() {
            gate.0 = 1;
            entered.lock().unwrap().send(()).unwrap();
            gate.1.recv().unwrap();
        }
    });
    host.append(thread, vec![open(1)]);
    timeline.until("the item is shown", |shown| shown.rows.len() == 1);
    let id = item(1, ItemStatus::Open, words("")).id;
    host.live(thread, id, "0,");
    blocked.recv_timeout(crate::device::DEADLINE).unwrap();
    // The observer hangs in its second batch while all of this comes in; another device sees it through.
    let mut text = "0,".to_owned();
    for number in 1..500 {
        let piece = format!("{number},");
        host.live(thread, id, &piece);
        text.push_str(&piece);
    }
    host.append(thread, vec![tool(2)]);
    let other = Device::paired(&host);
    other
        .timeline(thread)
        .until("the other device is through", |shown| shown.rows.len() == 2);
    release.send(()).unwrap();
    let shown = timeline.until("it has caught up", |shown| {
        shown.rows.len() == 2 && shown.texts()[0] == text
    });
    assert!(shown.updates < 60, "{} batches", shown.updates);
}

#[test]
fn a_sink_that_panics_is_closed_and_logged_and_others_live_on() {
    let (host, device, thread) = start();
    let healthy = device.timeline(thread);
    let broken = device.core.observe(
        pilothouse_engine::Scope::Inbox,
        Arc::new(|_: Batch| panic!("the screen is gone")),
    );
    host.append(thread, vec![closed(1, "still here")]);
    healthy.until("the other observer goes on", |shown| {
        shown.texts() == ["still here"]
    });
    device
        .platform
        .until_logged("its sink panicked: the screen is gone");
    broken.close();
    device.inbox().first();
}

#[test]
fn a_prediction_keeps_its_row_when_the_ledger_confirms_it() {
    let (host, device, _) = start();
    let created = device.create("Mine");
    assert!(accepted(&created));
    let timeline = device.timeline(created.thread());
    timeline.until("it is current", |shown| shown.header().synchronised);
    host.with(|world| world.mute = true);
    let sent = device.send(created.thread(), "hello");
    let confirmed = timeline.until(
        "the ledger's row is there, though the outcome was never told",
        |shown| shown.rows.len() == 1 && !shown.rows[0].pending,
    );
    let message = sent.command_id().derive("message");
    assert_eq!(
        confirmed.rows[0].id,
        pilothouse_orchestrator::user_item(message)
    );
    assert!(confirmed.rows[0].position.is_some());
    assert_eq!(confirmed.texts(), ["hello"]);
}

#[test]
fn what_went_wrong_with_a_message_that_stands_in_the_log_is_shown_at_it() {
    use pilothouse_domain::thread::Delivery;
    let (host, device, _) = start();
    let created = device.create("Mine");
    assert!(accepted(&created));
    let thread = created.thread();
    let sent = device.send(thread, "hello");
    assert!(accepted(&sent));
    let timeline = device.timeline(thread);
    let shown = timeline.until("the log holds it", |shown| {
        shown.header().synchronised && shown.rows.len() == 1 && !shown.rows[0].pending
    });
    assert_eq!(shown.rows[0].delivery, None);
    let failed = Delivery::Failed {
        reason: "it had not reached the agent".to_owned(),
    };
    for delivery in [Delivery::Unknown, failed] {
        let event = Event::MessageDelivery {
            message: sent.command_id().derive("message"),
            delivery: delivery.clone(),
        };
        host.append(thread, vec![event]);
        timeline.until("it says so", |shown| {
            shown.rows[0].delivery.as_ref() == Some(&delivery)
        });
    }
    let event = Event::MessageDelivery {
        message: sent.command_id().derive("message"),
        delivery: Delivery::Started,
    };
    host.append(thread, vec![event]);
    timeline.until("it has reached the agent after all", |shown| {
        shown.rows[0].delivery.is_none()
    });
}

#[test]
fn an_observation_that_was_closed_gets_nothing_more() {
    let (host, device, thread) = start();
    let timeline = device.timeline(thread);
    timeline.until("it is current", |shown| shown.header().synchronised);
    timeline.observation.close();
    timeline.observation.close();
    let other = device.timeline(thread);
    host.append(thread, vec![closed(1, "unseen")]);
    other.until("another observer sees it", |shown| shown.rows.len() == 1);
    timeline.until("the closed one does not", |shown| shown.rows.is_empty());
}

#[test]
fn a_request_about_an_item_stands_behind_it_with_what_became_of_it_also_for_a_device_that_comes_later()
 {
    use crate::host::{command_subject, request};
    use pilothouse_domain::{RequestStatus, request::RequestKind};
    use pilothouse_engine::RowContent;
    let (host, device, thread) = start();
    let timeline = device.timeline(thread);
    let mut asked = request(1, RequestKind::Command, &command_subject("ls"));
    asked.item = Some(item(1, ItemStatus::Open, words("")).id);
    let id = asked.id;
    host.append(
        thread,
        vec![
            tool(1),
            Event::RequestOpened {
                request: Box::new(asked),
            },
        ],
    );
    let status = |shown: &crate::device::Shown| match &shown.rows.get(1)?.content {
        RowContent::Approval { request, asked } if *request == id => {
            Some(asked.as_ref()?.status.clone())
        }
        _ => None,
    };
    timeline.until("it waits behind its command", |shown| {
        shown.rows.len() == 2 && status(shown) == Some(RequestStatus::Pending)
    });
    let row = device.inbox().until("it waits", |rows| rows.len() == 1)[0].clone();
    assert!(accepted(&device.answer(&row, "accept")));
    host.confirm(thread, id);
    let answered = |shown: &crate::device::Shown| {
        matches!(status(shown), Some(RequestStatus::Answered { .. }))
    };
    timeline.until("it is answered there", answered);
    let later = Device::paired(&host);
    later
        .timeline(thread)
        .until("a later device sees it as well", answered);
}

#[test]
fn what_the_host_could_not_give_is_asked_for_again_over_the_same_connection() {
    let host = FakeHost::start();
    let thread = host.thread(41, "Talk");
    host.append(thread, vec![closed(1, "before")]);
    // The feed at the first connection, twice.
    host.lock().failures = 2;
    let device = Device::paired(&host);
    device.synchronised();
    host.lock().failures = 2;
    let timeline = device.timeline(thread);
    timeline.until("it is current", |shown| {
        shown.header().synchronised && shown.texts() == ["before"]
    });
    // No answer may bring them back before it is seen that they are gone.
    host.with(|world| {
        world.failures = 1;
        world.breaks += 1;
    });
    timeline.until("it is not current", |shown| !shown.header().synchronised);
    host.append(thread, vec![closed(2, "after")]);
    timeline.until("it is current again", |shown| {
        shown.header().synchronised && shown.texts() == ["before", "after"]
    });
    let created = device.create("The feed is there as well");
    assert!(accepted(&created));
    device
        .threads()
        .until("it brings the new line", |rows| rows.len() == 2);
    assert_eq!(host.connections(), 1);
}

#[test]
fn a_host_that_leaves_gaps_is_asked_again_after_longer_and_longer_waits() {
    let (host, device, thread) = start();
    host.append(thread, vec![closed(1, "one")]);
    const GAPS: usize = 4;
    host.with(|world| world.gaps = GAPS as u32);
    let timeline = device.timeline(thread);
    let shown = timeline.until("it is current", |shown| {
        shown.header().synchronised && host.lock().followed.len() > GAPS
    });
    assert_eq!(shown.texts(), ["one"]);
    let followed = host.lock().followed.clone();
    assert_eq!(followed.len(), GAPS + 1);
    for (times, pair) in followed.windows(2).enumerate() {
        let least = std::time::Duration::from_millis(100 << times);
        assert!(
            pair[1] - pair[0] >= least,
            "{times}: {:?}",
            pair[1] - pair[0]
        );
    }
    // What comes without a gap ends it.
    host.append(thread, vec![closed(2, "two")]);
    timeline.until("it goes on", |shown| shown.texts() == ["one", "two"]);
    assert_eq!(host.lock().followed.len(), GAPS + 1);
}

#[test]
fn an_entry_that_never_came_is_asked_for_and_what_follows_it_is_not_shown_without_it() {
    let (host, device, thread) = start();
    let timeline = device.timeline(thread);
    host.append(thread, vec![closed(1, "one")]);
    timeline.until("the first", |shown| shown.texts() == ["one"]);
    host.with(|world| world.skips = 1);
    host.append(thread, vec![closed(2, "two")]);
    host.append(thread, vec![closed(3, "three")]);
    let shown = timeline.until("everything", |shown| {
        assert_ne!(shown.texts(), ["one", "three"]);
        shown.texts() == ["one", "two", "three"] && shown.header().synchronised
    });
    assert_eq!(
        shown.header().digest,
        Some(host.lock().threads[&thread].digest())
    );
}

#[test]
fn a_thread_of_which_a_newer_host_says_more_asks_for_an_update_and_all_else_goes_on() {
    let host = FakeHost::start();
    let new = host.thread(40, "Of tomorrow");
    let old = host.thread(41, "Of today");
    host.with(|world| world.newer = Some(new));
    let device = Device::paired(&host);
    device.synchronised();
    let rows = device.threads().until("both lines", |rows| rows.len() == 2);
    for row in &rows {
        let summary = &row.summary;
        assert_eq!(
            summary.last_line == NEWER,
            summary.thread == new,
            "{summary:?}"
        );
    }
    // Opened, it says why nothing is there.
    let timeline = device.timeline(new);
    timeline.until("what to do", |shown| {
        shown.header().read_only.as_deref() == Some(NEWER)
    });
    // On the same connection the other thread is followed, and takes commands.
    let other = device.timeline(old);
    host.append(old, vec![closed(1, "one")]);
    other.until("what is said", |shown| {
        shown.header().synchronised && shown.texts() == ["one"]
    });
    assert_eq!(host.connections(), 1);
    // The version that knows the word is told all of it, without anything that happens in the thread.
    host.with(|world| world.newer = None);
    timeline.until("the thread", |shown| {
        shown.header().synchronised && shown.header().read_only.is_none()
    });
    assert_eq!(host.connections(), 1);
}
