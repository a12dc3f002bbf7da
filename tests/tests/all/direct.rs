//! Real codex as its own server, driven by a device with no daemon anywhere.

use crate::stories::{conversation, runs, said_in_full, says, says_in_parts, shows, shows_a_part};
use pilothouse_domain::{Mode, RequestStatus, RunStatus, request::AnswerDelivery};
use pilothouse_engine::{DirectAgent, DirectError, DirectFamily, EndpointRefusal};
use pilothouse_tests::{
    Cli, CodexElsewhere, Device, Elsewhere, Proxy, World, device::ids, proxy::Way, until,
};
use serde_json::json;
use std::{
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

const TOKEN: &str = CodexElsewhere::TOKEN;

fn files_under(dir: &Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_under(&path, out);
        } else {
            out.push(path);
        }
    }
}

#[test]
fn a_codex_with_no_daemon_asks_is_answered_and_goes_on_after_the_app_was_reopened_mid_turn() {
    let mut world = World::start();
    // There is no daemon: only the world's directory, model and codex home are used.
    world.host.kill_9();
    let server = CodexElsewhere::start(&world, &[]);
    let phone = Device::direct(&world.dir().join("phone"), "phone", server.agent(), TOKEN);
    let row = phone
        .seen()
        .hosts
        .into_iter()
        .find(|row| row.host == phone.host());
    let row = row.expect("it is shown like a host");
    assert_eq!(
        row.direct.map(|direct| direct.family).as_deref(),
        Some("codex")
    );
    assert_eq!(row.workspaces, ["workspace".into()]);

    world
        .model
        .script("direct", &runs("echo direct >> direct.txt"));
    let thread = phone.new_thread_in("workspace", "codex", Mode::Ask);
    phone.accepted(&phone.say(thread, "go [[script:direct]] [[id:direct]]"));
    let asked = phone.asked(thread);
    assert_eq!(world.text_of("direct.txt"), None);

    // The app goes away in the middle of the turn and comes back.
    let phone = phone.reopen();
    phone.synchronised();
    phone.watch(thread);
    assert_eq!(ids(&phone.seen().inbox), [asked.request]);
    phone.accepted(&phone.choose(&asked, "accept"));
    phone.status(thread, asked.request, |status| match status {
        RequestStatus::Answered {
            delivery: AnswerDelivery::Confirmed,
            ..
        } => Some(()),
        _ => None,
    });
    phone.completed(thread, 1);
    assert_eq!(world.text_of("direct.txt").as_deref(), Some("direct\n"));
    let mark = world.model.mark("direct");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));

    world.model.script("next", &says("Here I am."));
    phone.accepted(&phone.say(thread, "and now? [[script:next]]"));
    phone.completed(thread, 2);
    let said = conversation(&phone, thread);
    assert_eq!(
        said.iter()
            .filter(|text| text.contains("After it."))
            .count(),
        1,
        "{said:?}"
    );
    assert_eq!(said.last().map(String::as_str), Some("Here I am."));

    // The secret is where the platform keeps it, and nowhere else.
    let mut files = Vec::new();
    files_under(phone.dir(), &mut files);
    let holds = |path: &&std::path::PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes
            .windows(TOKEN.len())
            .any(|part| part == TOKEN.as_bytes())
    };
    let holding: Vec<_> = files.iter().filter(holds).collect();
    assert!(
        holding.len() == 1 && holding[0].extension().is_some_and(|ext| ext == "secret"),
        "{holding:?}"
    );
}

#[test]
fn a_text_of_a_codex_elsewhere_goes_on_after_the_app_was_reopened() {
    let mut world = World::start();
    world.host.kill_9();
    let server = CodexElsewhere::start(&world, &[]);
    let phone = Device::direct(&world.dir().join("phone"), "phone", server.agent(), TOKEN);
    world.model.script("long", &says_in_parts());
    let thread = phone.new_thread_in("workspace", "codex", Mode::Ask);
    phone.accepted(&phone.say(thread, "go [[script:long]]"));
    shows(&phone, thread, "w0800");
    // Closed in good order, it saves what was streamed.
    let phone = phone.reopen();
    phone.synchronised();
    phone.watch(thread);
    shows_a_part(&world, &phone, thread);
    said_in_full(&world, &phone, thread);
}

#[test]
fn an_address_in_the_clear_or_with_a_secret_in_it_is_refused_before_anything_is_sent() {
    let world = World::start();
    let phone = Device::open(&world.dir().join("phone"), "phone", world.host.id());
    let add = |family, url: &str| {
        let agent = DirectAgent {
            name: "box".to_owned(),
            family,
            url: url.to_owned(),
            pin: None,
            private_network: false,
            directories: vec!["/home/me/app".to_owned()],
        };
        phone.core().add_direct(&agent, TOKEN).unwrap_err()
    };
    for (family, scheme) in [
        (DirectFamily::Codex, "ws"),
        (DirectFamily::Opencode, "http"),
    ] {
        // An address that is not this machine's loopback and yet leads to it.
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let refused = add(family, &url);
        assert!(
            matches!(
                refused,
                DirectError::Refused(EndpointRefusal::InTheClear { .. })
            ),
            "{refused:?}"
        );
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err());
    }
    assert!(matches!(
        add(DirectFamily::Codex, "ws://198.51.100.7:4500"),
        DirectError::Refused(EndpointRefusal::InTheClear { .. })
    ));
    assert_eq!(
        add(DirectFamily::Codex, "wss://box.example/?token=hunter2"),
        DirectError::Refused(EndpointRefusal::SecretInAddress)
    );
    assert!(phone.seen().hosts.is_empty());
}

#[test]
fn a_terminal_that_drives_a_codex_is_killed_while_it_asks_and_the_next_one_answers_once() {
    let mut world = World::start();
    world.host.kill_9();
    let server = CodexElsewhere::start(&world, &[]);
    let cli = Cli::new(world.dir(), "terminal");
    let url = server.url();
    let dir = world.workspace.display().to_string();
    let add = ["direct", "add", "box", "--codex", &url, "--dir", &dir];
    let said = cli.run_with(&world.host, &add, TOKEN);
    assert_eq!(said.code, 0, "{said:#?}");
    let done = |verb: &[&str]| {
        let said = cli.run(&world.host, verb);
        assert_eq!(said.code, 0, "{said:#?}");
        said
    };
    let hosts = done(&["hosts"]);
    let direct = hosts.only("host");
    assert_eq!(direct["direct"]["family"], "codex", "{direct}");
    assert_eq!(direct["link"], "synchronised", "{direct}");

    // The one that holds the ledger, and what others ask of it.
    let mut watch = cli.start(&world.host, &["watch"]);
    watch.json("the host", |line| {
        line["type"] == "host" && line["link"] == "synchronised"
    });
    world
        .model
        .script("killed", &runs("echo killed >> killed.txt"));
    let made = done(&[
        "new",
        "--agent",
        "codex",
        "--workspace",
        "workspace",
        "From a terminal",
    ]);
    let thread = made.only("created")["thread"].as_str().unwrap().to_owned();
    done(&["send", &thread, "go [[script:killed]] [[id:killed]]"]);
    let asked = watch.json("the request", |line| {
        line["type"] == "request" && line["state"] == "pending"
    });
    watch.kill_9();
    assert_eq!(world.text_of("killed.txt"), None);

    let request = asked["request"].as_str().unwrap();
    done(&["answer", request, "--allow", "--timeout", "60"]);
    done(&["watch", &thread, "--until-idle", "--timeout", "60"]);
    assert_eq!(world.text_of("killed.txt").as_deref(), Some("killed\n"));
    let mark = world.model.mark("killed");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));
    assert_eq!(done(&["inbox"]).of_type("request").count(), 0);
}

#[test]
fn a_codex_that_moved_is_reached_again_once_its_token_and_its_address_are_said_anew() {
    let mut world = World::start();
    world.host.kill_9();
    let first = CodexElsewhere::start(&world, &[]);
    let cli = Cli::new(world.dir(), "terminal");
    let dir = world.workspace.display().to_string();
    let add = |name: &str, url: &str| {
        let verb = ["direct", "add", name, "--codex", url, "--dir", &dir];
        cli.run_with(&world.host, &verb, "a token that it does not take\n")
    };
    let said = add("  box ", &format!(" {} ", first.url()));
    assert_eq!(said.only("joined")["name"], "box", "{said:#?}");
    for (name, url) in [
        ("box", "ws://127.0.0.1:1"),
        ("box ", "ws://127.0.0.1:1"),
        ("other", &*first.url()),
    ] {
        let again = add(name, url);
        assert_eq!(again.code, 1, "{again:#?}");
        let words = again.only("error").to_string();
        assert!(words.contains("already"), "{words}");
    }
    let done = |verb: &[&str], typed: &str| {
        let said = cli.run_with(&world.host, verb, typed);
        assert_eq!(said.code, 0, "{said:#?}");
        said
    };
    let listed = done(&["direct", "list"], "");
    assert_eq!(listed.only("host")["addresses"][0], first.url());

    // Another process drives it, and hears of what is changed.
    let mut watch = cli.start(&world.host, &["watch"]);
    watch.json("the host", |line| {
        line["type"] == "host" && line["link"] == "synchronised"
    });
    done(&["direct", "set", "box", "--token"], TOKEN);
    let files = std::fs::read_dir(world.dir().join("terminal")).unwrap();
    let secrets = files.filter(|file| {
        let name = file.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".secret")
    });
    assert_eq!(secrets.count(), 1, "the one before it is gone");
    let new = ["new", "--agent", "codex", "--workspace", "workspace", "T"];
    let made = done(&new, "");
    let thread = made.only("created")["thread"].as_str().unwrap().to_owned();
    let until_idle = ["watch", &thread, "--until-idle", "--timeout", "60"];
    for name in ["one", "two"] {
        world.model.script(name, &says("Hello."));
    }
    done(&["send", &thread, "one [[script:one]] [[id:one]]"], "");
    done(&until_idle, "");
    assert_eq!(world.model.mark("one").requests, 1);

    drop(first);
    let second = CodexElsewhere::start(&world, &[]);
    let set = ["direct", "set", "box", "--url", &second.url()];
    done(&set, "");
    let unsafe_one = ["direct", "set", "box", "--url", "ws://198.51.100.7:4500"];
    let refused = cli.run(&world.host, &unsafe_one);
    assert_eq!(refused.code, 1, "{refused:#?}");
    done(&["send", &thread, "two [[script:two]] [[id:two]]"], "");
    done(&until_idle, "");
    let one = world.model.mark("one");
    assert_eq!(
        (
            world.model.mark("two").requests,
            one.requests,
            one.most_in_one_request
        ),
        (1, 2, 1),
        "the same conversation goes on"
    );
    let hosts = done(&["hosts"], "");
    assert_eq!(hosts.only("host")["addresses"][0], second.url());
    watch.kill_9();
}

/// A phone that drives a codex through a network of ours; the codex and the network end with what is given back.
fn behind_a_network(world: &mut World) -> (Elsewhere, Proxy, Device) {
    world.host.kill_9();
    let server = CodexElsewhere::start(world, &[]);
    let network = Proxy::start(([127, 0, 0, 1], server.port()).into());
    let agent = DirectAgent {
        url: format!("ws://{}", network.address()),
        ..server.agent().clone()
    };
    let phone = Device::direct(&world.dir().join("phone"), "phone", &agent, TOKEN);
    (server, network, phone)
}

#[test]
fn words_given_while_a_codex_is_connected_with_again_reach_it_when_it_is() {
    let mut world = World::start();
    let (_server, network, phone) = behind_a_network(&mut world);
    world.model.script("first", &says("Hello."));
    let thread = phone.new_thread_in("workspace", "codex", Mode::Ask);
    phone.accepted(&phone.say(thread, "first [[script:first]] [[id:first]]"));
    phone.completed(thread, 1);

    // The app is opened again, and what codex says to it is on its way for a while.
    network.hold(Way::Down);
    let connections = network.connections();
    let phone = phone.reopen();
    phone.synchronised();
    phone.watch(thread);
    until("the app to connect", || {
        let now = network.connections();
        (now > connections).then_some(()).ok_or(now.to_string())
    });
    world.model.script("second", &says("Here I am."));
    phone.accepted(&phone.say(thread, "second [[script:second]] [[id:second]]"));
    network.resume();
    phone.completed(thread, 2);
    for name in ["first", "second"] {
        let mark = world.model.mark(name);
        assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));
    }
    let said = conversation(&phone, thread);
    assert_eq!(said.last().map(String::as_str), Some("Here I am."));
    assert_eq!(said.len(), 4, "{said:?}");
}

/// The network changes under the connection: what the phone writes is taken by its own system and goes nowhere.
#[test]
fn an_answer_that_never_left_the_phone_is_not_shown_as_given_and_is_given_over_the_next_connection()
{
    let mut world = World::start();
    let (_server, network, phone) = behind_a_network(&mut world);
    world.model.script("dead", &runs("echo dead >> dead.txt"));
    let thread = phone.new_thread_in("workspace", "codex", Mode::Ask);
    phone.accepted(&phone.say(thread, "go [[script:dead]] [[id:dead]]"));
    let asked = phone.asked(thread);
    network.hold(Way::Up);
    phone.accepted(&phone.choose(&asked, "accept"));
    // For as long as an answer is waited for to be confirmed, and longer: it is on its way.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(12) {
        let held = phone.held_request(thread, asked.request);
        let answered =
            held.is_ok_and(|held| matches!(held.request.status, RequestStatus::Answered { .. }));
        assert!(!answered, "nothing of it has left the phone");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(world.text_of("dead.txt"), None);
    network.cut();
    phone.status(thread, asked.request, |status| match status {
        RequestStatus::Answered {
            delivery: AnswerDelivery::Confirmed,
            ..
        } => Some(()),
        _ => None,
    });
    phone.completed(thread, 1);
    assert_eq!(world.text_of("dead.txt").as_deref(), Some("dead\n"));
}

/// As above, with a stop: the turn would go on for ever.
#[test]
fn a_stop_that_never_left_the_phone_reaches_codex_over_the_next_connection() {
    let mut world = World::start();
    let (_server, network, phone) = behind_a_network(&mut world);
    let thread = phone.new_thread_in("workspace", "codex", Mode::Ask);
    let steps = json!([{"text": "one two three", "hold_after_text": "held"}]);
    world.model.script("held", &steps);
    phone.accepted(&phone.say(thread, "go [[script:held]] [[id:held]]"));
    phone.wait("its first words", |seen| {
        let rows = &seen.timelines.get(&thread)?.rows;
        let begun = |text: &str| text.contains("one two three");
        rows.iter().any(|row| begun(&row.text.text)).then_some(())
    });
    network.hold(Way::Up);
    let before = network.arrived(Way::Up);
    phone.accepted(&phone.interrupt(thread));
    network.more_than(Way::Up, before);
    network.cut();
    assert_eq!(phone.ended(thread, 1).status, RunStatus::Interrupted);
    assert_eq!(world.model.mark("held").first_steps, 1);
    world.model.script("next", &says("Here I am."));
    phone.accepted(&phone.say(thread, "and now? [[script:next]]"));
    phone.completed(thread, 2);
}
