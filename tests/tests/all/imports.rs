//! Conversations that agents have by themselves, end to end: begun by one host, listed by another that knows nothing of them,
//! and made threads of, once.

use crate::stories::{conversation, import, listed, says};
use pilothouse_domain::{ConversationKey, Mode, Refusal, RunStatus, event::HoldReason};
use pilothouse_tests::{Cli, Setup, World, picture::dot, places, process::kill_group};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

/// A terminal that watches has the link: what has to be asked of the host beside it says who it is, and works once it has ended.
#[test]
fn a_verb_that_has_to_ask_the_host_beside_a_terminal_that_watches_says_which_process_has_the_link()
{
    let world = World::start();
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    let mut watch = cli.start(&world.host, &["watch"]);
    watch.json("the host", |line| {
        line["type"] == "host" && line["link"] == "synchronised"
    });
    let new = ["new", "--agent", "codex", "--workspace", "demo", "T"];
    let made = cli.run(&world.host, &new);
    let thread = made.only("created")["thread"].as_str().unwrap().to_owned();
    let file = world.dir().join("cat.png");
    std::fs::write(&file, dot(1, 2, 3)).unwrap();
    let path = file.display().to_string();
    let sessions = ["sessions", "--agent", "codex", "--workspace", "demo"];
    let attach = ["send", &thread, "look", "--attach", &path];
    for verb in [&sessions[..], &attach[..]] {
        let said = cli.run(&world.host, verb);
        assert_eq!(said.code, 4, "{said:#?}");
        let words = said.only("error").to_string();
        let holder = format!("(process {})", watch.id());
        assert!(words.contains(&holder), "{words}");
        assert!(!words.contains("not connected"), "{words}");
    }
    watch.kill_9();
    for verb in [&sessions[..], &attach[..]] {
        let said = cli.run(&world.host, verb);
        assert_eq!(said.code, 0, "{said:#?}");
    }
}

fn listed_and_imported(mut world: World, agent: &str, desk: Desk) {
    world.model.script("say", &json!([{"text": "Said."}]));
    let device = world.device("phone");
    let mine = device.new_thread(agent, Mode::Ask);
    // Hidden characters in what becomes a title.
    let first = "\u{202e}first [[id:one]] [[script:say]]";
    for (ordinal, text) in [(1, first), (2, "then [[id:two]] [[script:say]]")] {
        device.accepted(&device.say(mine, text));
        device.completed(mine, ordinal);
    }
    let known = device.wait("the conversation in the list", |_| {
        let found = listed(&device, "demo", agent);
        found.into_iter().find(|one| one.thread == Some(mine))
    });
    let again = device.refused(&import(&device, "demo", agent, known.key));
    assert_eq!(again, Refusal::AlreadyHere { thread: mine });
    let unknown = ConversationKey::from_bytes([7; 16]);
    let refused = device.refused(&import(&device, "demo", agent, unknown));
    assert_eq!(
        refused,
        Refusal::UnknownConversation {
            conversation: unknown
        }
    );

    // A host without a past, over the same agents: to it the conversation is one that somebody began at the desk.
    drop(device);
    world.host.begin_anew();
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    let (code, words) = cli.read(
        &world.host,
        &["sessions", "--agent", agent, "--workspace", "demo"],
    );
    assert_eq!(code, 0, "{words}");
    let key = &known.key.to_string()[..8];
    assert!(
        words.contains(key) && !words.contains('\u{202e}'),
        "{words}"
    );
    let device = world.device("tablet");
    let found = listed(&device, "demo", agent);
    let found = found.into_iter().find(|one| one.key == known.key).unwrap();
    assert_eq!(found.thread, None);
    let ticket = import(&device, "demo", agent, found.key);
    device.accepted(&ticket);
    let thread = ticket.thread();
    device.watch(thread);
    // What is said at once waits until all that was said before is here.
    device.accepted(&device.say(thread, "next [[id:three]] [[script:say]]"));
    device.completed(thread, 3);
    assert_eq!(
        conversation(&device, thread),
        [
            first,
            "Said.",
            "then [[id:two]] [[script:say]]",
            "Said.",
            "next [[id:three]] [[script:say]]",
            "Said."
        ]
    );
    for mark in ["one", "two", "three"] {
        assert_eq!(world.model.mark(mark).first_steps, 1, "{mark}");
    }
    assert_eq!(world.model.mark("one").requests, 3);
    let second = device.refused(&import(&device, "demo", agent, found.key));
    assert_eq!(second, Refusal::AlreadyHere { thread });
    device.same_as(&world.host, thread);
    // Somebody goes on with it at the desk, while no agent of the host has it loaded.
    world.host.stop();
    for pid in world.host.outliving() {
        kill_group(pid);
    }
    for text in [
        "desk [[id:four]] [[script:say]]",
        "more [[id:five]] [[script:say]]",
    ] {
        let output = desk(&world, text)
            .output()
            .expect("the agent's own program");
        assert!(output.status.success(), "{output:?}");
    }
    world.host.restart();
    device.accepted(&device.say(thread, "last [[id:six]] [[script:say]]"));
    device.completed(thread, 6);
    assert_eq!(
        conversation(&device, thread)[6..],
        [
            "desk [[id:four]] [[script:say]]",
            "Said.",
            "more [[id:five]] [[script:say]]",
            "Said.",
            "last [[id:six]] [[script:say]]",
            "Said."
        ]
    );
    for mark in ["four", "five", "six"] {
        assert_eq!(world.model.mark(mark).first_steps, 1, "{mark}");
    }
    // Once more: what is known is not told again.
    world.host.stop();
    world.host.restart();
    device.accepted(&device.say(thread, "again [[script:say]]"));
    device.completed(thread, 7);
    assert_eq!(conversation(&device, thread).len(), 14);
    device.same_as(&world.host, thread);
    world.host.verify();
}

/// The newest file below a directory whose name ends so.
fn newest(dir: &Path, ending: &str) -> PathBuf {
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                let written = entry.metadata().and_then(|data| data.modified());
                found.push((written.expect("a time"), path));
            }
        }
    }
    found.into_iter().max().expect("a file").1
}

/// The agent's own program with a message in the newest conversation.
type Desk = fn(&World, &str) -> Command;

fn claude_at_the_desk(world: &World, text: &str) -> Command {
    let home = world.dir().join("home-of-claude");
    let file = newest(&home.join("claude/projects"), ".jsonl");
    let mut command = Command::new(places::claude());
    command
        .args(["--print", "--resume"])
        .arg(file.file_stem().expect("a name"))
        .arg(text)
        .current_dir(&world.workspace)
        .env("HOME", &home)
        .env("CLAUDE_CONFIG_DIR", home.join("claude"))
        .env(
            "ANTHROPIC_BASE_URL",
            format!("http://127.0.0.1:{}", world.model.port()),
        )
        .env("ANTHROPIC_API_KEY", "local")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    command
}

fn codex_at_the_desk(world: &World, text: &str) -> Command {
    let mut command = Command::new(places::codex());
    command
        .args(["exec", "resume", "--last", text])
        .current_dir(&world.workspace)
        .env("CODEX_HOME", world.dir().join("codex-home"))
        .env("HOME", world.dir().join("agent-home"))
        .env("TMPDIR", "/var/tmp")
        .env("LOCAL_KEY", "local")
        .stdin(Stdio::null());
    command
}

fn opencode_at_the_desk(world: &World, text: &str) -> Command {
    let mut command = Command::new(places::opencode());
    command
        .args(["run", "--continue"])
        // Word by word: one that has spaces in it is put into quotation marks.
        .args(text.split(' '))
        .current_dir(&world.workspace)
        // It believes this more than where it is.
        .env("PWD", &world.workspace)
        .envs(world.opencode_env(&world.dir().join("home-of-opencode")))
        .stdin(Stdio::null());
    command
}

fn pi_at_the_desk(world: &World, text: &str) -> Command {
    let home = world.dir().join("home-of-pi");
    let mut command = Command::new(places::node());
    command
        .arg(places::pi())
        .args(["--provider", "local", "--model", "scripted", "--print"])
        .arg("--session")
        .arg(newest(&home.join(".pi/agent/sessions"), ".jsonl"))
        .arg(text)
        .current_dir(&world.workspace)
        .env("HOME", &home)
        .env("PI_OFFLINE", "1")
        .env("PI_TELEMETRY", "0")
        .stdin(Stdio::null());
    command
}

#[test]
fn conversations_of_claude_code_are_listed_and_become_threads() {
    listed_and_imported(Setup::new().claude().start(), "claude", claude_at_the_desk);
}

#[test]
fn conversations_of_codex_are_listed_and_become_threads() {
    listed_and_imported(Setup::new().start(), "codex", codex_at_the_desk);
}

#[test]
fn conversations_of_pi_are_listed_and_become_threads() {
    listed_and_imported(Setup::new().pi(&[]).start(), "pi", pi_at_the_desk);
}

#[test]
fn conversations_of_opencode_are_listed_and_become_threads() {
    listed_and_imported(
        Setup::new().opencode().start(),
        "opencode",
        opencode_at_the_desk,
    );
}

#[test]
fn old_turns_that_are_read_back_say_nothing_of_a_sign_in_that_is_refused_now() {
    let mut world = Setup::new().start();
    world.model.script("say", &says("Said."));
    let device = world.device("phone");
    let old = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(old, "first [[script:say]]"));
    device.completed(old, 1);
    drop(device);
    world.host.begin_anew();
    let device = world.device("tablet");
    world
        .model
        .script("refused", &json!([{"error": {"status": 401}}]));
    let refused = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(refused, "go [[script:refused]]"));
    assert_eq!(device.ended(refused, 1).status, RunStatus::Failed);
    device.accepted(&device.say(refused, "precious [[script:say]] [[id:precious]]"));

    let found = device.wait("the conversation in the list", |_| {
        let found = listed(&device, "demo", "codex");
        found.into_iter().find(|one| one.thread.is_none())
    });
    let ticket = import(&device, "demo", "codex", found.key);
    device.accepted(&ticket);
    device.watch(ticket.thread());
    device.completed(ticket.thread(), 1);
    assert_eq!(
        conversation(&device, ticket.thread()),
        ["first [[script:say]]", "Said."]
    );
    // What is said in the imported one is held like everything else that is said to this agent.
    device.accepted(&device.say(ticket.thread(), "next [[script:say]] [[id:next]]"));
    device.wait("both to be held", |seen| {
        let held = |thread| seen.timelines.get(&thread)?.header.as_ref()?.held;
        let both = [refused, ticket.thread()].map(held);
        (both == [Some(HoldReason::SignIn); 2]).then_some(())
    });
    for mark in ["precious", "next"] {
        assert_eq!(world.model.mark(mark).requests, 0, "{mark}");
    }
    world.host.verify();
}
