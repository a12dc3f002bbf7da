//! Real pi, end to end: host, device, TLS, permissions by the host's own extension, and a pi that does not ask.

use crate::stories::{conversation, says};
use pilothouse_domain::{
    CommandBody, Mode, Refusal, RequestStatus, RunStatus, ThreadId, policy::Sandbox,
    refusal::ClosedAs, request::RequestKind, thread::Selection,
};
use pilothouse_engine::{RowContent, TicketOutcome};
use pilothouse_tests::{Device, Setup, World};
use serde_json::{Value, json};

/// A script that runs one command and then says a word.
fn runs(command: &str) -> Value {
    json!([
        {"text": "I will run it.", "tools": [{"name": "bash", "args": {"command": command}}]},
        {"text": "After it."},
    ])
}

fn say(world: &World, device: &Device, thread: ThreadId, script: &str, steps: &Value) {
    world.model.script(script, steps);
    device.accepted(&device.say(thread, &format!("go [[script:{script}]] [[id:{script}]]")));
}

/// Makes a thread with a sandbox of its own choice.
fn create(device: &Device, mode: Mode, sandbox: Option<Sandbox>) -> (ThreadId, TicketOutcome) {
    let ticket = device.submit(
        None,
        CommandBody::ThreadCreate {
            title: "without asking".to_owned(),
            workspace: "demo".into(),
            selection: Selection {
                agent: "pi".into(),
                model: None,
                effort: None,
                mode,
                sandbox,
            },
        },
    );
    let outcome = device.outcome(&ticket);
    (ticket.thread(), outcome)
}

#[test]
fn a_command_is_asked_for_allowed_and_refused_with_words_and_the_conversation_survives_the_host() {
    let mut world = Setup::new().pi(&[]).start();
    let device = world.device("phone");
    let thread = device.new_thread("pi", Mode::Ask);
    say(
        &world,
        &device,
        thread,
        "allow",
        &runs("echo allowed >> allow.txt"),
    );
    let row = device.asked(thread);
    assert_eq!(row.kind, RequestKind::Command);
    assert_eq!(
        row.subject.command.as_deref(),
        Some("echo allowed >> allow.txt"),
        "exactly what would run"
    );
    assert_eq!(
        world.text_of("allow.txt"),
        None,
        "nothing ran before the answer"
    );
    device.accepted(&device.choose(&row, "allow"));
    device.completed(thread, 1);
    assert_eq!(world.text_of("allow.txt").as_deref(), Some("allowed\n"));
    let said = [
        "go [[script:allow]] [[id:allow]]",
        "I will run it.",
        "After it.",
    ];
    assert_eq!(conversation(&device, thread), said);
    let exit = device
        .whole(thread)
        .into_iter()
        .find_map(|row| match row.content {
            RowContent::Command { exit_code, .. } => Some(exit_code),
            _ => None,
        });
    assert_eq!(
        exit,
        Some(Some(0)),
        "the command is an item of the timeline"
    );

    // Refused, in the same conversation.
    say(
        &world,
        &device,
        thread,
        "deny",
        &runs("echo denied >> deny.txt"),
    );
    let row = device.asked(thread);
    device.accepted(&device.choose(&row, "deny"));
    assert_eq!(device.ended(thread, 2).status, RunStatus::Completed);
    assert_eq!(world.text_of("deny.txt"), None);

    // Asked while the host dies: lost, and the conversation goes on with another process.
    say(
        &world,
        &device,
        thread,
        "lost",
        &runs("echo lost >> lost.txt"),
    );
    let row = device.asked(thread);
    world.host.kill_9();
    world.host.restart();
    device.status(thread, row.request, |status| {
        matches!(status, RequestStatus::Lost { .. }).then_some(())
    });
    device.synchronised();
    let late = device.refused(&device.choose(&row, "allow"));
    let lost = |status| status == ClosedAs::Lost;
    assert!(
        matches!(late, Refusal::NotRespondable { status, .. } if lost(status)),
        "{late}"
    );
    device.ended(thread, 3);
    let heard = world.model.mark("allow").requests;
    say(&world, &device, thread, "on", &says("I go on."));
    device.completed(thread, 4);
    assert_eq!(
        conversation(&device, thread).last().map(String::as_str),
        Some("I go on.")
    );
    assert_eq!(world.text_of("lost.txt"), None);
    let mark = world.model.mark("allow");
    assert!(
        mark.requests > heard && mark.most_in_one_request == 1,
        "one conversation, in which it was said once; {heard} had it before: {mark:?}"
    );
    device.nothing_waits();
    device.same_as(&world.host, thread);
    world.host.verify();
}

/// Case 28: messages of two devices to one thread reach one process, one after the other, each once.
#[test]
fn case_28_two_devices_that_resume_a_thread_at_once_have_one_agent() {
    let mut world = Setup::new().pi(&[]).start();
    let (one, two) = (world.device("one"), world.device("two"));
    let thread = one.new_thread("pi", Mode::Ask);
    two.watch(thread);
    say(&world, &one, thread, "first", &says("first"));
    one.completed(thread, 1);
    world.host.kill_9();
    world.host.restart();
    world.model.script("a", &says("a"));
    world.model.script("b", &says("b"));
    let a = one.say(thread, "[[script:a]] [[id:a]]");
    let b = two.say(thread, "[[script:b]] [[id:b]]");
    one.accepted(&a);
    two.accepted(&b);
    one.completed(thread, 3);
    assert_eq!(
        world.host.agents().len(),
        1,
        "one process serves the thread"
    );
    for mark in ["a", "b"] {
        assert_eq!(world.model.mark(mark).most_in_one_request, 1, "{mark}");
    }
    world.host.verify();
}

#[test]
fn a_pi_that_does_not_ask_runs_in_the_sandbox_that_its_thread_chose_and_says_so() {
    let world = Setup::new().pi(&["bwrap"]).start();
    let device = world.device("phone");
    // No mode but the one that is true of it, and no sandbox that the host did not allow.
    let (_, outcome) = create(&device, Mode::Ask, None);
    assert!(
        matches!(
            outcome,
            TicketOutcome::Refused {
                refusal: Refusal::UnsupportedMode { .. }
            }
        ),
        "{outcome:?}"
    );
    let (_, outcome) = create(&device, Mode::FullAccess, Some(Sandbox::None));
    assert!(
        matches!(&outcome, TicketOutcome::Refused { refusal: Refusal::Invalid { field, .. } } if field == "sandbox"),
        "{outcome:?}"
    );
    let thread = device.new_thread("pi", Mode::FullAccess);
    let outside = world.dir().join("outside.txt");
    let command = format!(
        "echo inside > inside.txt; echo outside > {}",
        outside.display()
    );
    say(&world, &device, thread, "s", &runs(&command));
    device.completed(thread, 1);
    assert_eq!(world.text_of("inside.txt").as_deref(), Some("inside\n"));
    assert!(
        !outside.exists(),
        "nothing is written outside the workspace"
    );
    device.wait("the thread says that its agent does not ask", |seen| {
        let row = seen
            .threads
            .iter()
            .find(|row| row.summary.thread == thread)?;
        (row.summary.sandbox == Some(Sandbox::Bwrap)).then_some(())
    });
    device.nothing_waits();
    world.host.verify();
}

/// The owner takes back that it may run without a sandbox: nothing of the old thread does, neither what waited in its queue nor
/// what is said to it, until its person chooses anew.
#[test]
fn a_sandbox_that_the_host_no_longer_allows_is_used_by_no_thread() {
    let mut world = Setup::new().pi(&["none"]).start();
    let device = world.device("phone");
    let thread = device.new_thread("pi", Mode::FullAccess);
    let outside = world.dir().join("outside.txt");
    let writes = runs(&format!("echo outside > {}", outside.display()));
    say(
        &world,
        &device,
        thread,
        "long",
        &runs("echo begun > begun.txt; sleep 600"),
    );
    device.wait("it has begun", |_| world.text_of("begun.txt"));
    say(&world, &device, thread, "queued", &writes);
    world.host.kill_9();
    let config = std::fs::read_to_string(world.host.config()).unwrap();
    let allowed = config.replace("sandbox = [\"none\"]", "sandbox = [\"bwrap\"]");
    assert_ne!(config, allowed);
    std::fs::write(world.host.config(), allowed).unwrap();
    device.offline();
    world.host.restart();
    device.network_changes();
    let revision = device.wait("the queue to be held", |seen| {
        let header = seen.timelines.get(&thread)?.header.as_ref()?;
        let held = header.synchronised && header.active.is_none() && header.held.is_some();
        (held && header.queue.len() == 1).then_some(header.queue_revision)
    });
    device.accepted(&device.submit(Some(thread), CommandBody::QueueRelease { revision }));
    assert_eq!(device.ended(thread, 2).status, RunStatus::Failed);
    world.model.script("said", &writes);
    let refused = device.refused(&device.say(thread, "go [[script:said]]"));
    assert!(
        matches!(&refused, Refusal::Invalid { field, .. } if field == "sandbox"),
        "{refused:?}"
    );
    assert!(!outside.exists(), "nothing ran without a sandbox");
    let anew = CommandBody::ThreadSelect {
        model: None,
        effort: None,
        mode: Mode::FullAccess,
    };
    device.accepted(&device.submit(Some(thread), anew));
    say(&world, &device, thread, "anew", &writes);
    device.completed(thread, 3);
    assert!(!outside.exists(), "it runs in the sandbox now");
    device.wait("the thread says in which", |seen| {
        let row = seen
            .threads
            .iter()
            .find(|row| row.summary.thread == thread)?;
        (row.summary.sandbox == Some(Sandbox::Bwrap)).then_some(())
    });
    world.host.verify();
}
