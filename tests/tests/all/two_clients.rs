//! Two devices that each drive the same agent's own server, with no daemon: what begins at one is shown by the other while it
//! goes on there.

use crate::{
    direct_opencode::ADVISED,
    stories::{conversation, import, listed, says},
};
use pilothouse_domain::{Mode, RequestStatus, Row, run::Origin};
use pilothouse_tests::{CodexElsewhere, Device, OpencodeElsewhere, World, elsewhere::Elsewhere};
use serde_json::{Value, json};

/// A turn that asks begins at the tablet; the phone shows it as somebody else's, and answers.
fn is_shown_and_answered_elsewhere(
    world: &World,
    server: &Elsewhere,
    agent: &str,
    run: Value,
    allow: &str,
) {
    let device = |name: &str| {
        Device::direct(
            &world.dir().join(name),
            name,
            server.agent(),
            server.secret(),
        )
    };
    let phone = device("phone");
    world.model.script("first", &says("Hello."));
    let thread = phone.new_thread_in("workspace", agent, Mode::Ask);
    phone.accepted(&phone.say(thread, "first [[script:first]]"));
    phone.completed(thread, 1);

    let tablet = device("tablet");
    let found = listed(&tablet, "workspace", agent);
    assert_eq!(found.len(), 1, "{found:?}");
    let ticket = import(&tablet, "workspace", agent, found[0].key);
    tablet.accepted(&ticket);
    let there = ticket.thread();
    tablet.watch(there);
    tablet.completed(there, 1);

    let steps = json!([{"text": "I will run it.", "tools": [run]}, {"text": "After it."}]);
    world.model.script("theirs", &steps);
    tablet.accepted(&tablet.say(there, "go [[script:theirs]] [[id:theirs]]"));
    let asked = tablet.asked(there);
    let shown = phone.asked(thread);
    assert_eq!(
        (&shown.subject.command, &shown.subject.options),
        (&asked.subject.command, &asked.subject.options)
    );
    assert_eq!(world.text_of("theirs.txt"), None);
    phone.accepted(&phone.choose(&shown, allow));
    phone.completed(thread, 2);
    tablet.completed(there, 2);
    assert_eq!(world.text_of("theirs.txt").as_deref(), Some("theirs\n"));
    let mark = world.model.mark("theirs");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));
    // The one that did not answer knows that somebody did.
    tablet.status(there, asked.request, |status| {
        (!matches!(
            status,
            RequestStatus::Pending | RequestStatus::Answering { .. }
        ))
        .then_some(())
    });
    assert!(tablet.seen().inbox.is_empty() && phone.seen().inbox.is_empty());

    let said = [
        "first [[script:first]]",
        "Hello.",
        "go [[script:theirs]] [[id:theirs]]",
        "I will run it.",
        "After it.",
    ];
    for (device, thread, origin) in [
        (&phone, thread, Origin::External),
        (&tablet, there, Origin::Person),
    ] {
        assert_eq!(conversation(device, thread), said);
        let ledger = device.own_ledger();
        let rows = ledger.rows(thread);
        let last = rows.iter().rev().find_map(|row| match row {
            Row::Run(run) if run.ordinal == Some(2) => Some(run.origin),
            _ => None,
        });
        assert_eq!(last, Some(origin), "{rows:#?}");
        device.same_as_in(&ledger, thread);
        ledger.verify();
    }

    // Each of them can go on.
    world.model.script("next", &says("Here I am."));
    phone.accepted(&phone.say(thread, "and now? [[script:next]]"));
    phone.completed(thread, 3);
    tablet.completed(there, 3);
    assert_eq!(conversation(&tablet, there), conversation(&phone, thread));
}

#[test]
fn a_turn_of_codex_that_begins_at_another_client_is_shown_and_what_it_asks_is_answered_here() {
    let mut world = World::start();
    world.host.kill_9();
    let server = CodexElsewhere::start(&world, &[]);
    let run = json!({"name": "exec_command", "args": {"cmd": "echo theirs >> theirs.txt"}});
    is_shown_and_answered_elsewhere(&world, &server, "codex", run, "accept");
}

#[test]
fn a_turn_of_opencode_that_begins_at_another_client_is_shown_and_what_it_asks_is_answered_here() {
    let mut world = World::start();
    world.host.kill_9();
    let server = OpencodeElsewhere::start(&world, &[ADVISED]);
    let run = json!({"name": "bash", "args": {"command": "echo theirs >> theirs.txt", "description": "try it"}});
    is_shown_and_answered_elsewhere(&world, &server, "opencode", run, "once");
}
