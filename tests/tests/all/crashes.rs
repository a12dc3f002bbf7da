//! SIGKILL to the host or to a device while a request waits. Where the host is killed its codex is one that dies with it; one
//! that lives on is in `codex`.

use crate::stories::{asked_to_run, says};
use pilothouse_domain::{
    Mode, Refusal, RequestStatus, RunStatus, refusal::ClosedAs, request::LostReason,
};
use pilothouse_engine::LinkState;
use pilothouse_tests::{Cli, Device, Proxy, World, device::ids, process, until};

#[test]
fn after_a_kill_9_of_the_host_every_device_shows_the_request_as_lost_and_the_next_message_works() {
    let mut world = World::start_bound();
    let (phone, tablet) = (world.device("phone"), world.device("tablet"));
    let (thread, row) = asked_to_run(&world, &phone, "killed", "echo killed >> killed.txt");
    tablet.watch(thread);
    assert_eq!(tablet.asked(thread).request, row.request);

    let agents = world.host.agents();
    assert!(!agents.is_empty(), "codex runs as the host's child");
    world.host.kill_9();
    for agent in &agents {
        process::gone(*agent);
    }
    for device in [&phone, &tablet] {
        device.offline();
        assert_eq!(
            ids(&device.seen().inbox),
            [row.request],
            "nobody knows yet that it is lost"
        );
    }
    world.host.restart();
    for device in [&phone, &tablet] {
        device.network_changes();
        let reason = device.status(thread, row.request, |status| match status {
            RequestStatus::Lost {
                reason,
                answer: None,
            } => Some(*reason),
            _ => None,
        });
        assert_eq!(reason, LostReason::HostRestarted);
        device.synchronised();
        device.nothing_waits();
        let run = device.ended(thread, 1);
        assert_eq!(run.status, RunStatus::Interrupted);
    }
    assert_eq!(world.text_of("killed.txt"), None);
    let refusal = tablet.refused(&tablet.choose(&row, "accept"));
    assert_eq!(
        refusal,
        Refusal::NotRespondable {
            request: row.request,
            status: ClosedAs::Lost
        }
    );

    // A new codex goes on with the same conversation: the model is sent the old prompt with the new one.
    world.model.script("resumed", &says("I am back."));
    phone.accepted(&phone.say(thread, "and now? [[script:resumed]] [[id:resumed]]"));
    phone.completed(thread, 2);
    tablet.completed(thread, 2);
    assert_eq!(world.model.mark("resumed").first_steps, 1);
    assert!(
        world.model.mark("killed").requests >= 2,
        "the conversation was resumed: {}",
        world.model.counts()
    );
    assert_eq!(world.model.mark("killed").most_in_one_request, 1);
    phone.same_as(&world.host, thread);
    tablet.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn a_message_that_was_queued_when_the_host_was_killed_is_held_and_sent_once_when_it_is_released() {
    let mut world = World::start_bound();
    let device = world.device("phone");
    let (thread, _) = asked_to_run(&world, &device, "first", "echo first >> first.txt");
    world.model.script("queued", &says("Now the second."));
    device.accepted(&device.say(thread, "second [[script:queued]] [[id:queued]]"));
    world.host.kill_9();
    device.offline();
    world.host.restart();
    device.network_changes();
    let revision = device.wait("the queue to be held", |seen| {
        let header = seen.timelines.get(&thread)?.header.as_ref()?;
        let held = header.synchronised && header.active.is_none() && header.held.is_some();
        (held && header.queue.len() == 1).then_some(header.queue_revision)
    });
    assert_eq!(world.model.mark("queued").requests, 0);
    device.accepted(&device.submit(
        Some(thread),
        pilothouse_domain::CommandBody::QueueRelease { revision },
    ));
    device.completed(thread, 2);
    let mark = world.model.mark("queued");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));
    world.host.verify();
}

#[test]
fn a_device_killed_with_kill_9_shows_the_request_on_reopening_before_any_live_event_and_can_answer_it()
 {
    let world = World::start();
    let phone = world.device("phone");
    let proxy = Proxy::start(world.host.address());
    let cli = Cli::new(world.dir(), "terminal");
    let code = world.host.pairing_code(Some(proxy.address()));
    let said = cli.run(&world.host, &["join", &code, "--name", "terminal"]);
    assert_eq!(said.code, 0, "{said:#?}");
    let mut watching = cli.start(&world.host, &["watch"]);
    let (thread, row) = asked_to_run(&world, &phone, "watched", "echo watched >> watched.txt");
    let id = row.request.to_string();
    watching.json("the request", |line| line["request"] == id.as_str());
    watching.kill_9();

    // Nothing can come from the host now: what is shown is what was kept.
    proxy.refuse(true);
    let device = Device::open(&world.dir().join("terminal"), "terminal", world.host.id());
    let (link, first) = device.seen().inboxes.first().cloned().unwrap();
    assert_ne!(link, Some(LinkState::Synchronised));
    assert_eq!(ids(&first), [row.request]);
    assert_eq!(first[0].content_hash, row.content_hash);
    assert!(first[0].verified);

    // Answered while offline, delivered when the way is free.
    let answered = device.choose(&first[0], "accept");
    assert_eq!(answered.poll_outcome(), None);
    proxy.refuse(false);
    device.network_changes();
    device.accepted(&answered);
    device.watch(thread);
    device.completed(thread, 1);
    assert_eq!(world.text_of("watched.txt").as_deref(), Some("watched\n"));
    world.host.verify();
}

#[test]
fn a_command_saved_by_a_device_that_was_killed_is_sent_once_by_its_next_life() {
    let world = World::start();
    let phone = world.device("phone");
    let proxy = Proxy::start(world.host.address());
    let cli = Cli::new(world.dir(), "terminal");
    let code = world.host.pairing_code(Some(proxy.address()));
    assert_eq!(cli.run(&world.host, &["join", &code]).code, 0);
    world.model.script("saved", &says("Got it."));
    let thread = phone.new_thread("codex", Mode::Ask);
    assert_eq!(cli.run(&world.host, &["threads"]).code, 0);

    proxy.refuse(true);
    let id = thread.to_string();
    let text = "from a dead device [[script:saved]] [[id:saved]]";
    let said = cli.run(&world.host, &["send", &id, text, "--timeout", "0.2"]);
    assert_eq!(said.code, 4, "saved, not confirmed: {said:#?}");
    let mut sending = cli.start(&world.host, &["watch"]);
    proxy.refuse(false);
    phone.completed(thread, 1);
    sending.kill_9();
    let device = Device::open(&world.dir().join("terminal"), "terminal", world.host.id());
    device.synchronised();
    device.wait("an empty outbox", |seen| {
        seen.delivery.is_empty().then_some(())
    });
    device.watch(thread);
    device.completed(thread, 1);
    let mark = world.model.mark("saved");
    assert_eq!(
        (mark.first_steps, mark.most_in_one_request, mark.requests),
        (1, 1, 1)
    );
    world.host.verify();
}

#[test]
fn an_answer_recorded_right_before_the_host_was_killed_is_kept_with_its_doubt_and_never_given_twice()
 {
    let mut world = World::start_bound();
    let device = world.device("phone");
    for round in 0..4 {
        let name = format!("doubt-{round}");
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
        let agents = world.host.agents();
        world.host.kill_9();
        for agent in agents {
            process::gone(agent);
        }
        world.host.restart();
        device.network_changes();
        device.accepted(&answered);
        let run = device.ended(thread, 1);
        device.status(thread, row.request, |status| {
            let kept = matches!(
                status,
                RequestStatus::Answered {
                    answer: Some(_),
                    ..
                } | RequestStatus::Lost {
                    answer: Some(_),
                    ..
                }
            );
            kept.then_some(())
        });
        let effect = world.text_of(&format!("{name}.txt")).unwrap_or_default();
        assert!(
            effect.is_empty() || effect == format!("{name}\n"),
            "{effect}"
        );
        assert!(run.status.is_terminal());
        world.model.script("on", &says("Going on."));
        device.accepted(&device.say(thread, "[[script:on]]"));
        device.completed(thread, 2);
        assert!(world.model.mark(&name).most_in_one_request <= 1);
        device.same_as(&world.host, thread);
    }
    world.host.verify();
}

/// Processes whose command line holds a word.
fn running(word: &str) -> Vec<String> {
    let dirs = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = dirs.filter_map(|dir| std::fs::read(dir.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(word))
        .collect()
}

#[test]
fn commands_of_codex_end_with_it_when_it_or_its_host_is_killed() {
    let mut world = World::start_bound();
    let device = world.device("phone");
    for kills_host in [false, true] {
        let word = format!("9{:07}{}", std::process::id(), u8::from(kills_host));
        let name = format!("sleeps-{kills_host}");
        let command = format!("sleep {word}");
        let (thread, row) = asked_to_run(&world, &device, &name, &command);
        device.accepted(&device.choose(&row, "accept"));
        until("the command to run", || match running(&word) {
            lines if lines.is_empty() => Err("nothing".to_owned()),
            _ => Ok(()),
        });
        let agents = world.host.agents();
        if kills_host {
            world.host.kill_9();
            agents.iter().for_each(|agent| process::gone(*agent));
            world.host.restart();
            device.network_changes();
        } else {
            for agent in &agents {
                let pid = rustix::process::Pid::from_raw(*agent as i32).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
        }
        assert!(device.ended(thread, 1).status.is_terminal());
        until("its command to end", || match running(&word) {
            lines if lines.is_empty() => Ok(()),
            lines => Err(format!("{lines:#?}")),
        });
    }
    world.host.verify();
}
