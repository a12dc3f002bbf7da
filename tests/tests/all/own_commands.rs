//! What a message can name, end to end: commands, skills and templates of agents' own, named by the real agent, listed on a
//! device, and carried out when a message begins with one; and files of the workspace.

use pilothouse_domain::{Mode, ThreadId, provider::OfferedCommand};
use pilothouse_engine::{Page, Query};
use pilothouse_tests::{Cli, Device, Setup, World};
use serde_json::json;
use std::{fs, path::Path};

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
    fs::write(file, text).expect("a file");
}

fn listed(world: &World, device: &Device, thread: ThreadId) -> Vec<OfferedCommand> {
    let host = world.host.id();
    match device.core().query(Query::Commands { host, thread }) {
        Ok(Page::Commands(commands)) => commands,
        other => panic!("{other:?}"),
    }
}

/// A thread of an agent that has run once, and the command of that name.
fn offered(world: &World, device: &Device, agent: &str, name: &str) -> (ThreadId, OfferedCommand) {
    world.model.script("say", &json!([{"text": "Said."}]));
    let thread = device.new_thread(agent, Mode::Ask);
    device.accepted(&device.say(thread, "hello [[script:say]]"));
    device.completed(thread, 1);
    let command = device.wait("the command in the list", |_| {
        let mut commands = listed(world, device, thread).into_iter();
        commands.find(|command| command.name == name)
    });
    (thread, command)
}

/// What the model is told when a message names the command, which says more than the message.
fn carried_out(world: &World, device: &Device, thread: ThreadId, message: &str, told: &str) {
    device.accepted(&device.say(thread, message));
    device.completed(thread, 2);
    let prompts = world.model.prompts();
    assert!(
        prompts.iter().any(|prompt| prompt.contains(told)),
        "{prompts:?}"
    );
    device.same_as(&world.host, thread);
    world.host.verify();
}

#[test]
fn a_command_of_claude_code_is_listed_and_carried_out() {
    let world = Setup::new().claude().start();
    let text = "---\ndescription: Greets \u{202e}someone.\nargument-hint: NAME\n---\nGreet $ARGUMENTS warmly. [[script:say]]\n";
    write(&world.file(".claude/commands/hail.md"), text);
    let device = world.device("phone");
    let (thread, command) = offered(&world, &device, "claude", "/hail");
    assert_eq!(command.argument_hint, "NAME");
    assert!(command.description.contains("someone"), "{command:?}");
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    let (code, words) = cli.read(&world.host, &["commands", &thread.to_string()[..8]]);
    assert_eq!(code, 0, "{words}");
    assert!(
        words.contains("/hail NAME") && !words.contains('\u{202e}'),
        "{words}"
    );
    carried_out(&world, &device, thread, "/hail Ann", "Greet Ann warmly.");
}

#[test]
fn a_skill_of_codex_is_listed_and_read_to_its_model() {
    let world = World::start();
    let text = "---\nname: wave\ndescription: Waves at someone.\n---\nWave with both hands.\n";
    write(&world.file(".agents/skills/wave/SKILL.md"), text);
    let device = world.device("phone");
    let (thread, command) = offered(&world, &device, "codex", "$wave");
    assert_eq!(command.description, "Waves at someone.");
    let message = "$wave at Ann [[script:say]]";
    carried_out(&world, &device, thread, message, "Wave with both hands.");
}

#[test]
fn a_template_of_pi_is_listed_and_filled_in() {
    let world = Setup::new().pi(&[]).start();
    let text = "---\ndescription: Greets someone.\nargument-hint: NAME\n---\nGreet $1 warmly. [[script:say]]\n";
    let home = world.dir().join("home-of-pi");
    write(&home.join(".pi/agent/prompts/hail.md"), text);
    let device = world.device("phone");
    let (thread, command) = offered(&world, &device, "pi", "/hail");
    assert_eq!(command.description, "Greets someone.");
    let ours = |command: &OfferedCommand| command.name.starts_with("/pilothouse");
    assert!(!listed(&world, &device, thread).iter().any(ours));
    carried_out(&world, &device, thread, "/hail Ann", "Greet Ann warmly.");
}

#[test]
fn a_command_of_opencode_is_listed_and_carried_out() {
    let world = Setup::new().opencode().start();
    let text =
        "---\ndescription: Greets \u{202e}someone.\n---\nGreet $ARGUMENTS warmly. [[script:say]]\n";
    write(&world.file(".opencode/command/hail.md"), text);
    let device = world.device("phone");
    let (thread, command) = offered(&world, &device, "opencode", "/hail");
    assert!(command.description.contains("someone"), "{command:?}");
    carried_out(&world, &device, thread, "/hail Ann", "Greet Ann warmly.");
}

#[test]
fn commands_of_an_agent_that_speaks_acp_are_listed() {
    let world = Setup::new().copilot().start();
    let device = world.device("phone");
    let (_, command) = offered(&world, &device, "copilot", "/add-dir");
    assert_eq!(command.argument_hint, "directory");
}

/// Files are found by the real agent, which nothing was said to yet, and told as paths within the workspace.
fn finds_files(world: &World, agent: &str) {
    write(
        &world.file("src/deep/parser_of_lines.rs"),
        "fn parse() {}\n",
    );
    write(&world.file("src/deep/parser\u{1b}[2J.rs"), "");
    let device = world.device("phone");
    let thread = device.new_thread(agent, Mode::Ask).to_string();
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    let asked = |text: &str| cli.read(&world.host, &["files", &thread[..8], text]);
    let (code, words) = asked("deeppars");
    assert_eq!((code, words.trim()), (0, "src/deep/parser_of_lines.rs"));
    let (code, words) = asked("zzqqzz");
    assert_eq!((code, words.trim()), (0, "No file of the workspace fits."));
}

#[test]
fn files_are_found_by_codex() {
    finds_files(&World::start(), "codex");
}

#[test]
fn files_are_found_by_opencode() {
    finds_files(&Setup::new().opencode().start(), "opencode");
}

#[test]
fn claude_code_finds_no_files_but_reads_one_that_a_message_names() {
    let world = Setup::new().claude().start();
    write(
        &world.file("notes/plan.txt"),
        "the heron lands at noon [[id:heron]]\n",
    );
    world.model.script("say", &json!([{"text": "Read."}]));
    let device = world.device("phone");
    let thread = device.new_thread("claude", Mode::Ask);
    let cli = Cli::paired(world.dir(), "terminal", &world.host);
    let (code, words) = cli.read(&world.host, &["files", &thread.to_string()[..8], "plan"]);
    assert_ne!(code, 0, "{words}");
    assert!(
        words.contains("`claude` does not tell which files it has")
            && words.contains("name the file by its path in the message"),
        "{words}"
    );
    device.accepted(&device.say(thread, "what lands? @notes/plan.txt [[script:say]]"));
    device.completed(thread, 1);
    assert_eq!(world.model.mark("heron").requests, 1);
}
