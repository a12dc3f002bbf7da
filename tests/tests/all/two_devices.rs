//! Two devices on one thread at once, and a third that comes afterwards.

use crate::stories::{conversation, runs, says};
use pilothouse_domain::{Mode, Refusal, ThreadId};
use pilothouse_engine::{Ticket, TicketOutcome};
use pilothouse_tests::{Device, Seed, World, seed};
use std::{sync::Barrier, thread};

/// Runs on one thread; then a new one, so that conversations stay short.
const PER_THREAD: u64 = 10;

#[test]
fn two_devices_on_one_thread_get_one_outcome_per_command_and_the_same_digest_as_a_third() {
    let world = World::start();
    let devices = [world.device("phone"), world.device("tablet")];
    let mut threads = Vec::new();
    for number in 0..seed::count("PILOTHOUSE_TWO_DEVICE_RUNS", 60) {
        if number % PER_THREAD == 0 {
            let thread = devices[0].new_thread("codex", Mode::Ask);
            devices[1].watch(thread);
            threads.push(thread);
        }
        let thread = *threads.last().unwrap();
        let mut seed = Seed::new(number);
        eprintln!("run {number}");
        match seed.below(3) {
            0 => both_send(&world, &devices, thread, number),
            1 => both_answer(&world, &devices, thread, number, &mut seed),
            _ => one_answers_while_the_other_sends(&world, &devices, thread, number, &mut seed),
        }
        for device in &devices {
            device.idle(thread);
            device.same_as(&world.host, thread);
        }
        assert_eq!(
            conversation(&devices[0], thread),
            conversation(&devices[1], thread)
        );
    }
    let third = world.device("third");
    for thread in threads {
        third.watch(thread);
        third.same_as(&world.host, thread);
        third.idle(thread);
        assert_eq!(
            conversation(&third, thread),
            conversation(&devices[0], thread)
        );
    }
    world.host.verify();
}

/// Does two things at the same moment.
fn at_once<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            barrier.wait();
            second()
        });
        barrier.wait();
        let first = first();
        (first, other.join().unwrap())
    })
}

fn marked(world: &World, device: &Device, thread: ThreadId, name: &str) -> Ticket {
    world.model.script(name, &says("Heard."));
    device.say(thread, &format!("[[script:{name}]] [[id:{name}]]"))
}

fn delivered_once(world: &World, name: &str) {
    let mark = world.model.mark(name);
    assert_eq!(
        (mark.first_steps, mark.most_in_one_request),
        (1, 1),
        "{name}: {mark:?}"
    );
}

fn both_send(world: &World, [phone, tablet]: &[Device; 2], thread: ThreadId, number: u64) {
    let names = ["p", "t"].map(|who| format!("send-{number}-{who}"));
    let (first, second) = at_once(
        || marked(world, phone, thread, &names[0]),
        || marked(world, tablet, thread, &names[1]),
    );
    phone.accepted(&first);
    tablet.accepted(&second);
    for (device, name) in [(phone, &names[0]), (tablet, &names[1])] {
        world.model.reached(name, 1);
        device.idle(thread);
    }
    for name in &names {
        delivered_once(world, name);
    }
}

fn asks(
    world: &World,
    [phone, tablet]: &[Device; 2],
    thread: ThreadId,
    name: &str,
) -> pilothouse_engine::InboxRow {
    world
        .model
        .script(name, &runs(&format!("echo {name} >> {name}.txt")));
    phone.accepted(&phone.say(thread, &format!("[[script:{name}]] [[id:{name}]]")));
    let row = phone.asked(thread);
    assert_eq!(tablet.asked(thread).request, row.request);
    row
}

fn both_answer(
    world: &World,
    devices: &[Device; 2],
    thread: ThreadId,
    number: u64,
    seed: &mut Seed,
) {
    let [phone, tablet] = devices;
    let name = format!("answer-{number}");
    let row = asks(world, devices, thread, &name);
    let options = if seed.coin() {
        ["accept", "decline"]
    } else {
        ["decline", "accept"]
    };
    let (first, second) = at_once(
        || phone.choose(&row, options[0]),
        || tablet.choose(&row, options[1]),
    );
    let outcomes = [phone.outcome(&first), tablet.outcome(&second)];
    let accepted: Vec<_> = outcomes
        .iter()
        .map(|outcome| matches!(outcome, TicketOutcome::Accepted { .. }))
        .collect();
    assert_eq!(
        accepted.iter().filter(|&&accepted| accepted).count(),
        1,
        "one of two: {outcomes:?}"
    );
    for outcome in &outcomes {
        if let TicketOutcome::Refused { refusal } = outcome {
            assert!(
                matches!(refusal, Refusal::AlreadyAnswered { .. }),
                "{refusal:?}"
            );
        } else {
            assert!(
                matches!(outcome, TicketOutcome::Accepted { .. }),
                "{outcome:?}"
            );
        }
    }
    world.model.reached(&name, 2);
    phone.idle(thread);
    let winner = if accepted[0] { options[0] } else { options[1] };
    let effect = (winner == "accept").then(|| format!("{name}\n"));
    assert_eq!(
        world.text_of(&format!("{name}.txt")),
        effect,
        "the answer that was accepted is the one that counted"
    );
    assert_eq!(world.model.steps(&name, 1), 1);
    delivered_once(world, &name);
}

fn one_answers_while_the_other_sends(
    world: &World,
    devices: &[Device; 2],
    thread: ThreadId,
    number: u64,
    seed: &mut Seed,
) {
    let name = format!("mixed-{number}");
    let row = asks(world, devices, thread, &name);
    let (answering, sending) = if seed.coin() { (0, 1) } else { (1, 0) };
    let queued = format!("behind-{number}");
    let (answered, sent) = at_once(
        || devices[answering].choose(&row, "accept"),
        || marked(world, &devices[sending], thread, &queued),
    );
    devices[answering].accepted(&answered);
    devices[sending].accepted(&sent);
    world.model.reached(&name, 2);
    world.model.reached(&queued, 1);
    devices[0].idle(thread);
    assert_eq!(
        world.text_of(&format!("{name}.txt")),
        Some(format!("{name}\n"))
    );
    delivered_once(world, &name);
    delivered_once(world, &queued);
}
