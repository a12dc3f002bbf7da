//! `pilothouse demo`: the story that the binary tells by itself, here with the scripted model behind codex.

use crate::stories::runs;
use pilothouse_tests::{World, places};
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// Runs the demo in the world's codex home; what it printed, and whether it succeeded.
fn demo(world: &World, script: &str, answer: &str) -> (bool, String) {
    let home = world.dir().join("codex-home");
    let mut child = Command::new(places::pilothouse())
        .arg("demo")
        .args(["--prompt", &format!("go [[script:{script}]]"), "--agent"])
        .arg(places::codex())
        .arg("app-server")
        .env("CODEX_HOME", home)
        .env("LOCAL_KEY", "local")
        .env("TMPDIR", "/var/tmp")
        .env("HOME", world.dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("pilothouse starts");
    let mut stdin = child.stdin.take().expect("piped");
    writeln!(stdin, "{answer}").expect("it reads its person's answer");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

#[test]
fn the_binary_s_own_demo_shows_the_command_and_runs_nothing_that_was_not_allowed() {
    let world = World::start();
    world.model.script("demo", &runs("echo no > demo.txt"));
    let (passed, text) = demo(&world, "demo", "n");
    assert!(passed, "{text}");
    assert!(text.contains("echo no > demo.txt"), "{text}");
    assert!(text.contains("Nothing was written, as you said."), "{text}");
    assert!(text.trim_end().ends_with("demo: PASS"), "{text}");
}

#[test]
fn the_binary_s_own_demo_fails_if_what_was_allowed_is_not_what_it_asked_for() {
    let world = World::start();
    world.model.script("other", &runs("echo other > other.txt"));
    let (passed, text) = demo(&world, "other", "y");
    assert!(!passed && !text.contains("PASS"), "{text}");
}
