//! Caps, and the size of state.

use crate::world::{World, approval, command, question, questions};
use pilothouse_domain::{
    Body, DispatchMode, Event, ItemContent, ItemStatus, LoggedEvent, ProviderEventKind, Refusal,
    RequestStatus, Row,
    entry::UnknownEvent,
    hash,
    item::{FileAction, FileChange},
    limits,
    provider_event::NativePlace,
    request::{RequestKind, Subject},
    state::Cap,
};
use pilothouse_orchestrator::{Offer, Unavailable, affordances, apply_entry};

#[test]
fn state_stays_within_its_bound_with_every_cap_filled() {
    let mut world = World::new();
    let run = world.running("first");
    for n in 0..limits::LIVE_TREE {
        world.agent(ProviderEventKind::ChildOpened {
            child: format!("child-{n}").as_str().into(),
            item: None,
            title: "x".repeat(4000),
        });
    }
    for n in 0..limits::LIVE_NODES {
        world.open(&format!("c{n}"), command(&"x".repeat(2000), ""));
    }
    for n in 0..limits::OPEN_REQUESTS {
        let item = format!("c{n}");
        world.ask(
            &n.to_string(),
            Some(&item),
            RequestKind::FileChange,
            approval(&"x".repeat(2000)),
        );
    }
    for n in 0..limits::QUEUED_RUNS - 1 {
        let text = "x".repeat(1000 + n);
        world.say(&text, DispatchMode::QueueAfterActive).2.unwrap();
    }
    for _ in 0..40 {
        world
            .say("steered", DispatchMode::SteerActive { run })
            .2
            .unwrap();
    }
    for n in 0..40 {
        let place = NativePlace {
            thread: Some(format!("other-{n}").as_str().into()),
            root: None,
            turn: None,
        };
        world.agent_at(place, ProviderEventKind::ThreadBound);
    }
    world
        .say(
            "steers a queued one",
            DispatchMode::SteerActive {
                run: world.queue()[0],
            },
        )
        .2
        .unwrap();
    let state = &world.thread.state;
    assert_eq!(state.requests.len(), limits::OPEN_REQUESTS);
    assert_eq!(state.queue.len(), limits::QUEUED_RUNS);
    assert_eq!(state.nodes.len() + state.items.len(), limits::LIVE_NODES);
    let part = |value: &dyn erased::Json| value.bytes();
    let bytes = hash::canonical_json(state).len();
    assert!(
        bytes <= limits::STATE_BYTES,
        "{bytes}: requests {}, queue {}, nodes {}, items {}, conversations {}",
        part(&state.requests),
        part(&state.queue),
        part(&state.nodes),
        part(&state.items),
        part(&state.provider_threads),
    );
}

/// The size of a part, for the message above.
mod erased {
    pub(super) trait Json {
        fn bytes(&self) -> usize;
    }
    impl<T: serde::Serialize> Json for T {
        fn bytes(&self) -> usize {
            pilothouse_domain::hash::canonical_json(self).len()
        }
    }
}

#[test]
fn requests_over_the_cap_are_shown_and_none_is_evicted() {
    let mut world = World::new();
    world.running("first");
    for n in 0..limits::OPEN_REQUESTS + 2 {
        world.ask(
            &n.to_string(),
            None,
            RequestKind::Permission,
            approval("ls"),
        );
    }
    assert_eq!(world.thread.state.requests.len(), limits::OPEN_REQUESTS);
    assert!(
        world
            .requests()
            .iter()
            .all(|request| request.status == RequestStatus::Pending)
    );
    let kept = world
        .items()
        .into_iter()
        .filter(|item| matches!(&item.content, ItemContent::Unknown { label, .. } if label.starts_with("request")))
        .count();
    assert_eq!(kept, 2);
}

#[test]
fn an_item_over_the_cap_is_filled_by_its_own_end() {
    let mut world = World::new();
    world.running("first");
    for n in 0..limits::LIVE_NODES {
        world.open(&format!("c{n}"), command("make", ""));
    }
    let over = format!("c{}", limits::LIVE_NODES - 1);
    world.close(&over, ItemStatus::Completed, command("make", "done"));
    let item = world
        .items()
        .into_iter()
        .find(|item| matches!(&item.content, ItemContent::Command { output, .. } if output.preview() == "done"))
        .unwrap();
    assert_eq!(item.status, ItemStatus::Completed);
}

#[test]
fn events_of_newer_versions_are_skipped_or_make_the_thread_read_only() {
    let mut world = World::new();
    world.start("first");
    let mut entry = world.thread.entries.last().unwrap().clone();
    for (skippable, read_only) in [(true, false), (false, true)] {
        entry.events = vec![LoggedEvent::Unknown(UnknownEvent {
            kind: "goal.set".to_owned(),
            skippable,
            rest: serde_json::Map::new(),
        })];
        let mut state = world.thread.state.clone();
        apply_entry(&mut state, &entry);
        assert_eq!(state.read_only.is_some(), read_only);
    }
}

#[test]
fn a_message_stands_in_the_log_once() {
    let mut world = World::new();
    world.running("only once, please");
    let log = serde_json::to_string(&world.thread.entries).unwrap();
    assert_eq!(log.matches("only once, please").count(), 1);
    let rows = world
        .thread
        .rows
        .0
        .values()
        .filter(|row| matches!(row, Row::Item(_)))
        .count();
    assert_eq!(rows, 1);
    assert!(
        world
            .events()
            .iter()
            .any(|event| matches!(event, Event::ItemOpened { .. }))
    );
}

#[test]
fn a_restart_needs_a_place_in_the_queue_because_its_message_may_go_back_there() {
    let mut world = World::new();
    let run = world.running("first");
    let anew = DispatchMode::RestartActive { run };
    for n in 0..limits::QUEUED_RUNS - 1 {
        let text = n.to_string();
        world.say(&text, DispatchMode::QueueAfterActive).2.unwrap();
    }
    world.say("anew", anew).2.unwrap();
    let full = |result| {
        matches!(
            result,
            Err(Refusal::Full {
                what: Cap::Queue,
                ..
            })
        )
    };
    assert!(full(
        world.say("one more", DispatchMode::QueueAfterActive).2
    ));
    // The stop sends the message back; asking for a restart again and again makes the queue no longer.
    for _ in 0..3 {
        world.interrupt(true).unwrap();
        assert_eq!(world.queue().len(), limits::QUEUED_RUNS);
        assert!(full(world.say("anew", anew).2));
    }
    let offered = affordances(&world.thread.state, &crate::world::full_policy());
    let reason = Unavailable::QueueFull;
    assert_eq!(offered.restart, Offer::Unavailable { reason });
    assert_eq!(offered.steer, Offer::Available);
}

#[test]
fn what_is_asked_fits_into_a_frame_whatever_its_size_and_says_that_it_is_not_whole() {
    let huge = |text: &str| text.repeat(1_200_000 / text.len());
    let change = FileChange {
        path: "big.lock".to_owned(),
        moved_to: None,
        action: FileAction::Update,
        diff: Body::inline(huge("+ line\n")),
    };
    let mut long_options = approval("ls");
    long_options.options[1].reach = huge("rule ");
    let subjects = [
        // Each of its characters is six in JSON and seven in JSON in JSON.
        approval(&"\u{1}".repeat(128 * 1024)),
        Subject {
            changes: vec![change],
            ..approval("")
        },
        questions(vec![question("one", &[&huge("é"), "no"], false, false)]),
        Subject {
            reach: vec!["host".to_owned(); 300_000],
            ..approval("ls")
        },
        long_options,
    ];
    for subject in subjects {
        let mut world = World::new();
        world.running("go");
        world.ask("1", None, RequestKind::Command, subject.clone());
        let asked = world.request();
        let event = serde_json::to_string(&asked).unwrap();
        assert!(
            event.len() <= limits::WIRE_FRAME - 128 * 1024,
            "{} bytes",
            event.len()
        );
        let shown: Subject = serde_json::from_str(&asked.subject).unwrap();
        assert!(
            shown.incomplete && !asked.one_tap_allowed,
            "{:?}",
            asked.hints
        );
        let ids = |subject: &Subject| -> Vec<_> {
            subject.options.iter().map(|one| one.id.clone()).collect()
        };
        assert_eq!(ids(&shown), ids(&subject), "it can still be answered");
        // Asked again it is the same request.
        world.ask("1", None, RequestKind::Command, subject);
        assert_eq!(world.requests().len(), 1);
        assert_eq!(world.request().content_hash, asked.content_hash);
    }
}
