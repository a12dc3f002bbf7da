//! Cases from the field, each named by its number: what other tools got wrong, shown to be right here.

use crate::stories::{asked_to_run, conversation};
use pilothouse_domain::{
    ContentHash, Mode, Refusal, RequestId, RequestStatus, RunStatus, ThreadId,
    refusal::{ClosedAs, StaleWhat},
    request::{QuestionReply, RequestKind},
};
use pilothouse_engine::{InboxRow, InboxState, LinkState};
use pilothouse_tests::{Device, Setup, World, device::ids, proxy::Way};
use serde_json::json;
use std::{collections::BTreeSet, fs};

#[test]
fn case_09_three_parallel_requests_are_three_cards_answered_in_any_order() {
    let world = World::start();
    let device = world.device("phone");
    let tool = |name: &str| json!({"name": "exec_command", "args": {"cmd": format!("echo {name} >> {name}.txt")}});
    for (round, order) in [[2, 0, 1], [1, 2, 0]].into_iter().enumerate() {
        let script = format!("three-{round}");
        let name = |index: usize| format!("card-{round}-{index}");
        let tools: Vec<_> = (0..3).map(|index| tool(&name(index))).collect();
        world.model.script(
            &script,
            &json!([{"text": "Three at once.", "tools": tools}, {"text": "All done."}]),
        );
        let thread = device.new_thread("codex", Mode::Ask);
        device.accepted(&device.say(thread, &format!("go [[script:{script}]]")));
        let cards: Vec<InboxRow> = device.wait("three cards", |seen| {
            let rows: Vec<_> = seen
                .inbox
                .iter()
                .filter(|row| row.thread == thread)
                .cloned()
                .collect();
            (rows.len() == 3).then_some(rows)
        });
        let waiting = device.wait("a count of three", |seen| {
            let row = seen
                .threads
                .iter()
                .find(|row| row.summary.thread == thread)?;
            (row.summary.waiting.approvals == 3).then_some(row.summary.waiting.approvals)
        });
        assert_eq!(waiting, 3);
        let card = |index: usize| {
            let wanted = name(index);
            cards
                .iter()
                .find(|row| row.shown.contains(&wanted))
                .unwrap_or_else(|| panic!("{wanted}: {cards:#?}"))
        };
        assert_eq!(
            cards
                .iter()
                .map(|row| row.request)
                .collect::<BTreeSet<_>>()
                .len(),
            3
        );
        // The second answer is another one: what is said to one card must not reach its neighbour.
        for (turn, index) in order.into_iter().enumerate() {
            let option = if turn == 1 { "decline" } else { "accept" };
            device.accepted(&device.choose(card(index), option));
        }
        device.completed(thread, 1);
        for (turn, index) in order.into_iter().enumerate() {
            let wanted = (turn != 1).then(|| format!("{}\n", name(index)));
            assert_eq!(
                world.text_of(&format!("{}.txt", name(index))),
                wanted,
                "card {index}, answered as number {turn}"
            );
        }
        device.nothing_waits();
    }
    world.host.verify();
}

#[test]
fn case_10_an_answer_whose_frame_was_dropped_shows_sending_is_retried_and_is_approved_only_by_the_host()
 {
    let world = World::start();
    let (device, proxy) = world.device_behind_proxy("phone");
    let (thread, row) = asked_to_run(&world, &device, "dropped", "echo once >> dropped.txt");
    let own = |seen: &pilothouse_tests::Seen| {
        seen.inbox
            .iter()
            .find(|shown| shown.request == row.request)
            .cloned()
    };

    proxy.hold(Way::Up);
    let before = proxy.arrived(Way::Up);
    let answered = device.choose(&row, "accept");
    proxy.more_than(Way::Up, before);
    // The frame has left the phone and is lost on its way; nothing comes through for a while.
    proxy.refuse(true);
    device.offline();
    let sending = device.wait("the answer to be on its way", |seen| {
        own(seen).filter(|row| {
            !row.online && matches!(row.state, InboxState::Sending { on_host: false, .. })
        })
    });
    assert!(sending.refused.is_none());
    assert_eq!(
        device.request(thread, row.request).request.status,
        RequestStatus::Pending
    );
    assert_eq!(
        world.host.outcome(answered.command_id()),
        None,
        "the host never heard"
    );
    assert_eq!(answered.poll_outcome(), None);
    assert_eq!(world.text_of("dropped.txt"), None);

    proxy.refuse(false);
    device.network_changes();
    device.accepted(&answered);
    device.completed(thread, 1);
    assert_eq!(world.text_of("dropped.txt").as_deref(), Some("once\n"));
    device.status(thread, row.request, |status| {
        matches!(status, RequestStatus::Answered { .. }).then_some(())
    });
    // Every inbox that was ever shown has it as pending, sending, on the host, or not at all: never as done.
    let shown: Vec<_> = device
        .seen()
        .inboxes
        .iter()
        .flat_map(|(_, rows)| rows.clone())
        .collect();
    assert!(
        shown
            .iter()
            .any(|row| matches!(row.state, InboxState::Sending { on_host: false, .. }))
    );
    world.host.verify();
}

#[test]
fn case_15_an_answer_to_a_request_that_the_agent_took_back_is_refused_as_withdrawn() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("withdraw-now");
    let world = Setup::new()
        .fake("fickle", &["withdraws", file.to_str().unwrap()])
        .start();
    let device = world.device("phone");
    let thread = device.new_thread("fickle", Mode::Ask);
    device.accepted(&device.say(thread, "ask me"));
    let row = device.asked(thread);
    fs::write(&file, "").unwrap();
    device.wait("the card to go", |seen| seen.inbox.is_empty().then_some(()));
    device.status(thread, row.request, |status| {
        (*status == RequestStatus::Withdrawn).then_some(())
    });

    let late = device.choose(&row, "accept");
    let refusal = device.refused(&late);
    assert_eq!(
        refusal,
        Refusal::NotRespondable {
            request: row.request,
            status: ClosedAs::Withdrawn
        }
    );
    fs::write(dir.path().join("withdraw-now.end"), "").unwrap();
    device.completed(thread, 1);
    world.host.verify();
}

#[test]
fn case_17_a_stale_answer_is_refused_and_never_becomes_chat_text() {
    let world = World::start();
    let device = world.device("phone");
    let (thread, row) = asked_to_run(&world, &device, "stale", "echo stale >> stale.txt");

    let other = ContentHash::of("what was shown on another day");
    let refusal = device.refused(&device.answer_with(thread, row.request, other, "accept"));
    assert_eq!(
        refusal,
        Refusal::Stale {
            what: StaleWhat::Content {
                now: row.content_hash
            }
        }
    );
    let unknown = RequestId::from_bytes([7; 16]);
    let refusal = device.refused(&device.answer_with(thread, unknown, row.content_hash, "accept"));
    assert_eq!(refusal, Refusal::UnknownRequest { request: unknown });
    device.wait("the request to wait as before", |seen| {
        let row = seen
            .inbox
            .iter()
            .find(|shown| shown.request == row.request)?;
        (row.state == InboxState::Pending && seen.inbox.len() == 1).then_some(())
    });
    assert_eq!(world.text_of("stale.txt"), None);

    device.accepted(&device.choose(&row, "decline"));
    device.completed(thread, 1);
    // The old button again, now that another request waits and then none at all.
    let (newer, waiting) = asked_to_run(&world, &device, "newer", "echo newer >> newer.txt");
    let refusal =
        device.refused(&device.answer_with(newer, row.request, row.content_hash, "accept"));
    assert_eq!(
        refusal,
        Refusal::UnknownRequest {
            request: row.request
        },
        "a request of another thread"
    );
    let refusal =
        device.refused(&device.answer_with(newer, waiting.request, row.content_hash, "accept"));
    assert!(matches!(refusal, Refusal::Stale { .. }), "{refusal:?}");
    device.accepted(&device.choose(&waiting, "decline"));
    device.completed(newer, 1);
    let refusal = device.refused(&device.choose(&row, "accept"));
    assert!(
        matches!(refusal, Refusal::AlreadyAnswered { .. }),
        "{refusal:?}"
    );

    assert_eq!(world.text_of("stale.txt"), None);
    assert_eq!(world.text_of("newer.txt"), None);
    let prompts: BTreeSet<_> = world.model.prompts().into_iter().collect();
    let sent = ["stale", "newer"].map(|name| format!("go [[script:{name}]] [[id:{name}]]"));
    assert_eq!(
        prompts,
        BTreeSet::from(sent),
        "nothing else ever reached the model as a message"
    );
    for thread in [thread, newer] {
        assert_eq!(conversation(&device, thread).len(), 3);
    }
    world.host.verify();
}

#[test]
fn case_20_receipt_and_cancel_close_the_card_once_and_a_second_answer_is_refused_as_answered() {
    let world = World::start();
    let (phone, tablet) = (world.device("phone"), world.device("tablet"));
    let (thread, row) = asked_to_run(&world, &phone, "twice", "echo twice >> twice.txt");
    tablet.watch(thread);
    let same = tablet.asked(thread);
    assert_eq!(
        (same.request, same.content_hash),
        (row.request, row.content_hash)
    );

    phone.accepted(&phone.choose(&row, "accept"));
    for device in [&phone, &tablet] {
        device.wait("the card to go", |seen| seen.inbox.is_empty().then_some(()));
        device.status(thread, row.request, |status| {
            matches!(status, RequestStatus::Answered { by: Some(_), .. }).then_some(())
        });
    }
    phone.completed(thread, 1);
    for device in [&phone, &tablet] {
        let refusal = device.refused(&device.choose(&row, "decline"));
        let Refusal::AlreadyAnswered {
            request,
            by,
            answer,
            at_ms,
        } = refusal
        else {
            panic!("{refusal:?}");
        };
        assert_eq!(request, row.request);
        assert!(
            by.is_some() && answer.is_some() && at_ms > 0,
            "says who, what and when"
        );
    }
    assert_eq!(world.text_of("twice.txt").as_deref(), Some("twice\n"));
    tablet.same_as(&world.host, thread);
    phone.same_as(&world.host, thread);
    world.host.verify();
}

/// A permission that waits in one thread, and a question that waits in another.
fn permission_and_question(world: &World, device: &Device) -> (ThreadId, InboxRow, InboxRow) {
    let (_, permission) = asked_to_run(world, device, "permission", "echo cold >> cold.txt");
    let question = json!({"questions": [{
        "id": "colour", "header": "Colour", "question": "Which colour?",
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    }]});
    let asks = json!([{"tools": [{"name": "request_user_input", "args": question}]}, {"text": "Thank you."}]);
    world.model.script("question", &asks);
    let thread = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(thread, "go [[script:question]]"));
    let question = device.asked(thread);
    (thread, permission, question)
}

#[test]
fn case_23_a_cold_start_shows_the_permission_and_the_question_before_any_live_event() {
    let world = Setup::new()
        .codex_arguments(&["--enable", "default_mode_request_user_input"])
        .start();
    let (device, proxy) = world.device_behind_proxy("phone");
    let (thread, permission, question) = permission_and_question(&world, &device);
    assert_eq!(question.kind, RequestKind::UserInput, "{question:#?}");
    assert_eq!(question.subject.questions[0].text, "Which colour?");
    let waiting = [permission.request, question.request];

    // Without any connection at all: what the device holds is shown at once.
    proxy.refuse(true);
    let device = device.reopen();
    let seen = device.seen();
    let (link, first) = seen.inboxes.first().unwrap();
    assert_eq!(ids(first), waiting, "the very first list has both");
    assert!(!matches!(link, Some(LinkState::Synchronised)), "{link:?}");

    // A device that never saw any event of them.
    let entries = |thread| world.host.ledger(|ledger| ledger.cursor(thread)).seq;
    let before = (entries(permission.thread), entries(thread));
    let tablet = world.device("tablet");
    let shown = tablet.wait("both", |seen| {
        (seen.inbox.len() == 2).then(|| seen.inbox.clone())
    });
    assert_eq!(ids(&shown), waiting);
    assert_eq!(
        before,
        (entries(permission.thread), entries(thread)),
        "nothing had to happen on the host for it"
    );

    // And both can be answered from there.
    tablet.watch(thread);
    tablet.watch(permission.thread);
    let reply = QuestionReply {
        question: "colour".into(),
        chosen: vec!["Blue".into()],
        text: None,
    };
    tablet.accepted(&tablet.reply(&question, vec![reply]));
    tablet.accepted(&tablet.choose(&permission, "accept"));
    tablet.completed(thread, 1);
    tablet.completed(permission.thread, 1);
    assert_eq!(world.text_of("cold.txt").as_deref(), Some("cold\n"));
    proxy.refuse(false);
    device.network_changes();
    device.synchronised();
    device.wait("nothing to wait any more", |seen| {
        seen.inbox.is_empty().then_some(())
    });
    world.host.verify();
}

#[test]
fn a_request_whose_turn_is_over_is_closed_and_its_run_says_how_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("exit-now");
    let world = Setup::new()
        .fake("leaver", &["asks-and-exits", file.to_str().unwrap()])
        .start();
    let device = world.device("phone");
    let thread = device.new_thread("leaver", Mode::Ask);
    device.accepted(&device.say(thread, "ask me"));
    let row = device.asked(thread);
    fs::write(&file, "").unwrap();
    let lost = device.status(thread, row.request, |status| match status {
        RequestStatus::Lost { reason, .. } => Some(*reason),
        _ => None,
    });
    assert_eq!(lost, pilothouse_domain::request::LostReason::AgentExited);
    let run = device.ended(thread, 1);
    assert!(
        matches!(run.status, RunStatus::Failed | RunStatus::Interrupted),
        "{run:?}"
    );
    let refusal = device.refused(&device.choose(&row, "accept"));
    assert_eq!(
        refusal,
        Refusal::NotRespondable {
            request: row.request,
            status: ClosedAs::Lost
        }
    );

    device.accepted(&device.say(thread, "[[do:ok]]"));
    device.completed(thread, 2);
    world.host.verify();
}
