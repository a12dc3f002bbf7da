//! Real codex as its own server, end to end: a process that outlives its host, with what it asks and what it does.

use crate::stories::{
    asked_to_run, confirmed, patches, said_in_full, says, says_in_parts, shows, shows_a_part,
};
use pilothouse_domain::{
    CommandBody, Mode, RequestStatus, RunStatus, ThreadId, event::HoldReason, request::RequestKind,
};
use pilothouse_engine::Ticket;
use pilothouse_tests::{Device, Setup, World, cli::Cli, device::ids, until};
use serde_json::json;
use std::{os::unix::fs::PermissionsExt as _, path::PathBuf};

/// The host dies and comes back; its codex lives on.
fn next_life(world: &mut World, device: &Device) {
    let before = world.host.outliving();
    assert_eq!(before.len(), 1, "one codex for all threads");
    world.host.kill_9();
    device.offline();
    assert_eq!(world.host.outliving(), before, "it lives on");
    world.host.restart();
    device.network_changes();
    device.synchronised();
}

#[test]
fn an_approval_asked_by_codex_is_answered_after_the_host_was_killed_and_the_command_runs_once() {
    let mut world = World::start();
    let (phone, tablet) = (world.device("phone"), world.device("tablet"));
    let (thread, row) = asked_to_run(&world, &phone, "outlives", "echo outlives >> outlives.txt");
    tablet.watch(thread);
    let before = world.host.outliving();
    let socket = PathBuf::from(&world.host.outliving_endpoint());
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert!(socket.as_os_str().len() < 100, "{}", socket.display());
    assert_eq!(mode(&socket) & 0o077, 0, "only its user may connect");
    assert_eq!(mode(socket.parent().unwrap()), 0o700);

    next_life(&mut world, &phone);
    // The same request, of the same run, still waits.
    for device in [&phone, &tablet] {
        device.network_changes();
        device.synchronised();
        assert_eq!(ids(&device.seen().inbox), [row.request]);
    }
    assert_eq!(world.text_of("outlives.txt"), None);
    tablet.accepted(&tablet.choose(&row, "accept"));
    confirmed(&phone, thread, row.request);
    phone.completed(thread, 1);
    assert_eq!(world.text_of("outlives.txt").as_deref(), Some("outlives\n"));
    assert_eq!(world.host.outliving(), before, "nothing else was started");
    let mark = world.model.mark("outlives");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));

    // And the conversation goes on.
    world.model.script("next", &says("Here I am."));
    phone.accepted(&phone.say(thread, "and now? [[script:next]]"));
    phone.completed(thread, 2);
    phone.same_as(&world.host, thread);
    tablet.same_as(&world.host, thread);
    world.host.verify();
    assert!(world.host.stop().success());
    assert!(!socket.exists(), "a host that is stopped stops its codex");
    assert!(!socket.parent().unwrap().exists());
}

#[test]
fn an_answer_recorded_right_before_the_host_was_killed_is_given_to_codex_exactly_once() {
    let mut world = World::start();
    let device = world.device("phone");
    for round in 0..4 {
        let name = format!("kept-{round}");
        let (thread, row) = asked_to_run(
            &world,
            &device,
            &name,
            &format!("echo {name} >> {name}.txt"),
        );
        let answered = device.choose(&row, "accept");
        until("the host to record the answer", || {
            let outcome = world.host.outcome(answered.command_id());
            outcome.ok_or_else(|| "no outcome".to_owned())
        });
        next_life(&mut world, &device);
        device.accepted(&answered);
        device.completed(thread, 1);
        device.status(thread, row.request, |status| {
            let kept = matches!(
                status,
                RequestStatus::Answered {
                    answer: Some(_),
                    ..
                }
            );
            kept.then_some(())
        });
        assert_eq!(
            world.text_of(&format!("{name}.txt")),
            Some(format!("{name}\n"))
        );
        assert_eq!(world.model.mark(&name).most_in_one_request, 1);
        device.same_as(&world.host, thread);
    }
    world.host.verify();
}

#[test]
fn a_patch_that_waits_shows_the_same_changes_after_the_host_was_killed() {
    let mut world = World::start();
    let device = world.device("phone");
    world.model.script("patch", &patches(&["one.txt"]));
    let thread = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(thread, "go [[script:patch]]"));
    let row = device.asked(thread);
    assert_eq!(row.kind, RequestKind::FileChange);
    next_life(&mut world, &device);
    let again = device.seen().inbox.pop().unwrap();
    assert_eq!(
        (again.request, again.content_hash, again.one_tap_allowed),
        (row.request, row.content_hash, row.one_tap_allowed)
    );
    device.accepted(&device.choose(&row, "accept"));
    device.completed(thread, 1);
    assert_eq!(world.text_of("one.txt").as_deref(), Some("patched\n"));
    device.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn case_38_what_a_subagent_asks_is_answered_after_the_host_was_killed() {
    let mut world = Setup::new()
        .codex_arguments(&["-c", "features.multi_agent_v2=true"])
        .start();
    let device = world.device("phone");
    world.model.script(
        "parent",
        &json!([
            {"text": "Spawning.", "tools": [{"name": "spawn_agent", "namespace": "collaboration",
                "args": {"task_name": "kid", "message": "child task [[script:kid]]", "fork_turns": "none"}}]},
            {"text": "Waiting.", "tools": [{"name": "wait_agent", "namespace": "collaboration", "args": {"timeout_ms": 60000}}]},
            {"text": "Parent done."},
        ]),
    );
    world.model.script(
        "kid",
        &json!([
            {"text": "Kid.", "tools": [{"name": "exec_command", "args": {"cmd": "echo kid >> kid.txt"}}]},
            {"text": "Kid done."},
        ]),
    );
    let thread = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(thread, "go [[script:parent]]"));
    let row = device.asked(thread);
    next_life(&mut world, &device);
    assert_eq!(ids(&device.seen().inbox), [row.request]);
    // At once: what it is given before its agent was taken up waits for that.
    device.accepted(&device.choose(&row, "accept"));
    confirmed(&device, thread, row.request);
    device.completed(thread, 1);
    assert_eq!(world.text_of("kid.txt").as_deref(), Some("kid\n"));
    let words = format!("{:?}", device.whole(thread));
    assert!(
        words.contains("Kid done.") && words.contains("Parent done."),
        "{words}"
    );
    device.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn a_turn_of_codex_that_ended_while_the_host_was_dead_is_completed_with_its_words() {
    let mut world = World::start();
    let device = world.device("phone");
    let thread = device.new_thread("codex", Mode::Ask);
    world.model.script(
        "long",
        &json!([{"text": "one two three", "hold_after_text": "go-on"}, {"text": "never"}]),
    );
    device.accepted(&device.say(thread, "go [[script:long]]"));
    world.model.reached("long", 1);
    shows(&device, thread, "one two");
    world.host.kill_9();
    device.offline();
    world.model.release("go-on");
    until("codex to have written the end down", || {
        match world.rollouts().contains("task_complete") {
            true => Ok(()),
            false => Err("it goes on".to_owned()),
        }
    });
    world.host.restart();
    device.network_changes();
    device.completed(thread, 1);
    let words = format!("{:?}", device.whole(thread));
    assert!(words.contains("one two three"), "{words}");
    device.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn a_text_goes_on_after_its_host_was_killed_and_holds_nothing_else_up() {
    let mut world = World::start();
    let (device, tablet) = (world.device("phone"), world.device("tablet"));
    let thread = device.new_thread("codex", Mode::Ask);
    world.model.script("long", &says_in_parts());
    device.accepted(&device.say(thread, "go [[script:long]]"));
    shows(&device, thread, "w0800");
    // With another write of the host what it streamed is saved; what comes later has to follow that.
    let other = device.new_thread("codex", Mode::Ask);
    next_life(&mut world, &device);
    tablet.network_changes();
    tablet.watch(thread);
    shows(&tablet, thread, "w0800");

    shows_a_part(&world, &device, thread);
    world.model.script("beside", &says("Here, too."));
    device.accepted(&device.say(other, "and you? [[script:beside]]"));
    device.completed(other, 1);
    for device in [&device, &tablet] {
        said_in_full(&world, device, thread);
        device.same_as(&world.host, thread);
    }
    world.host.verify();
}

#[test]
fn a_stop_reaches_codex_after_its_host_was_killed() {
    let mut world = World::start();
    let device = world.device("phone");
    let (thread, row) = asked_to_run(&world, &device, "stopped", "echo stopped >> stopped.txt");
    next_life(&mut world, &device);
    device.accepted(&device.interrupt(thread));
    assert_eq!(device.ended(thread, 1).status, RunStatus::Interrupted);
    device.status(thread, row.request, |status| {
        matches!(status, RequestStatus::Withdrawn).then_some(())
    });
    assert_eq!(world.text_of("stopped.txt"), None);
    world.host.verify();
}

/// Lets a held queue go on.
fn release(device: &Device, thread: ThreadId) -> Ticket {
    let header = device.timeline(thread).header.unwrap();
    let revision = header.queue_revision;
    device.submit(Some(thread), CommandBody::QueueRelease { revision })
}

#[test]
fn case_32_case_41_one_refused_sign_in_holds_every_thread_of_the_agent_until_it_is_back() {
    let mut world = World::start();
    let device = world.device("phone");
    let refused = json!([{"error": {"status": 401}}]);
    world.model.script("refused", &refused);
    world.model.script("back", &says("I am back."));
    let before: Vec<_> = (0..5)
        .map(|number| {
            let thread = device.new_thread("codex", Mode::Ask);
            let text = format!("[[script:refused]] [[id:refused-{number}]]");
            device.accepted(&device.say(thread, &text));
            thread
        })
        .collect();
    for thread in &before {
        assert_eq!(device.ended(*thread, 1).status, RunStatus::Failed);
    }
    let process = world.host.outliving();
    assert_eq!(process.len(), 1);
    let asked = |world: &World| -> Vec<_> {
        (0..5)
            .map(|number| world.model.mark(&format!("refused-{number}")).requests)
            .collect()
    };
    let burnt = asked(&world);

    // What is said now waits, in the threads that were refused and in one that was not; nothing reaches the model.
    for thread in &before {
        device.accepted(&device.say(*thread, "[[script:back]]"));
    }
    let fresh = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(fresh, "[[script:back]] [[id:fresh]]"));
    let all: Vec<_> = before.iter().copied().chain([fresh]).collect();
    let waits = |device: &Device| {
        for thread in &all {
            device.wait("the thread to wait for the sign-in", |seen| {
                let header = seen.timelines.get(thread)?.header.as_ref()?;
                let waits = header.held == Some(HoldReason::SignIn) && header.queue.len() == 1;
                waits.then_some(())
            });
        }
    };
    waits(&device);
    assert_eq!(world.model.mark("fresh").requests, 0);

    // One notice for the agent, on every device and in the terminal; and it survives the host.
    let tablet = world.device("tablet");
    let told = |threads: u64| {
        for seen_by in [&device, &tablet] {
            let notice = seen_by.wait("the one notice", |seen| {
                let host = seen.hosts.iter().find(|row| row.host == seen_by.host())?;
                let [notice] = &host.signed_out[..] else {
                    return None;
                };
                (notice.threads == threads).then(|| notice.clone())
            });
            assert_eq!(
                (notice.agent.as_str(), &notice.sign_in[..]),
                ("codex", &["codex login".to_owned()][..])
            );
        }
    };
    told(6);
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    world.host.kill_9();
    world.host.restart();
    device.network_changes();
    waits(&device);
    told(6);
    let later = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(later, "[[script:back]] [[id:later]]"));
    told(7);
    let (code, text) = cli.read(&world.host, &["threads"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(text.matches("sign-in was refused").count(), 1, "{text}");
    assert!(text.contains("7 threads wait"), "{text}");
    assert_eq!(asked(&world), burnt);
    assert_eq!(world.model.mark("later").requests, 0);

    // It is still refused: one thread tries, the others wait on.
    world.model.script("back", &refused);
    device.accepted(&release(&device, before[0]));
    assert_eq!(device.ended(before[0], 2).status, RunStatus::Failed);
    assert_eq!(world.model.mark("fresh").requests, 0);

    // Signed in again: one thread tries, and all go on with the same conversations.
    world.model.script("back", &says("I am back."));
    device.accepted(&release(&device, fresh));
    device.completed(fresh, 1);
    device.completed(later, 1);
    for (number, thread) in before.iter().enumerate().skip(1) {
        device.completed(*thread, 2);
        let mark = world.model.mark(&format!("refused-{number}"));
        assert_eq!(
            (mark.requests, mark.most_in_one_request),
            (burnt[number] + 1, 1),
            "what was said before is part of it"
        );
        device.same_as(&world.host, *thread);
    }
    device.accepted(&device.say(before[0], "[[script:back]]"));
    device.completed(before[0], 3);
    for seen_by in [&device, &tablet] {
        seen_by.wait("the notice to go", |seen| {
            let host = seen.hosts.iter().find(|row| row.host == seen_by.host())?;
            host.signed_out.is_empty().then_some(())
        });
    }
    let (_, text) = cli.read(&world.host, &["threads"]);
    assert!(!text.contains("sign-in was refused"), "{text}");
    assert_eq!(world.host.outliving(), process);
    world.host.verify();
}
