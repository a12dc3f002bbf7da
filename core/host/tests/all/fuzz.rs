//! What a person may write: host.toml and command lines, valid ones damaged in every way. Nothing panics, and every
//! complaint says where.

use crate::mutate::{Dice, rounds};
use clap::{CommandFactory, Parser, Subcommand};
use pilothouse_host::{
    client::ClientCommand,
    config::{Config, ConfigError},
    verbs::HostCommand,
};
use std::path::Path;

const WHOLE: &str = r#"# What a person would write.
[host]
name = "studio"
listen = "127.0.0.1:7433"
allow_hosts = ["studio.local", "10.0.0.7"]

[defaults]
mode = "ask"

[agents.codex]
protocol = "codex"
command = ["codex", "app-server"]
env = { RUST_LOG = "info" }
cwd = "~"

[agents.other]
protocol = "acp"
command = ["some-agent", "--acp"]

[workspaces.app]
path = "/tmp"

[workspaces."with space"]
path = "~/b"
"#;

/// Reads it; each complaint names a line that is there.
fn read(text: &str) -> bool {
    match Config::parse(text, "host.toml", Some(Path::new("/tmp"))) {
        Ok(_) => true,
        Err(ConfigError::Wrong(problems)) => {
            assert!(!problems.is_empty());
            for problem in problems {
                let lines = text.matches('\n').count() + 1;
                assert!((1..=lines).contains(&problem.line), "{problem}\n{text}");
                assert!(
                    !problem.what.trim().is_empty(),
                    "line {}\n{text}",
                    problem.line
                );
                let words = problem.to_string();
                assert!(words.starts_with("host.toml line "), "{words}");
            }
            false
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_damaged_host_toml_is_answered_with_lines_that_are_there() {
    let lines: Vec<&str> = WHOLE.lines().collect();
    let (mut taken, mut refused) = (0, 0);
    rounds(4000, |dice: &mut Dice| {
        let text = match dice.below(4) {
            // Whole lines: taken out, doubled, in another order.
            0 => {
                let count = dice.below(lines.len() * 2);
                let some: Vec<&str> = (0..count).map(|_| *dice.one(&lines)).collect();
                some.join("\n")
            }
            // A value of another kind.
            1 => {
                let at = dice.below(lines.len());
                let mut some: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
                if let Some((key, _)) = some[at].clone().split_once('=') {
                    let value = dice.one(&[
                        "1",
                        "true",
                        "[]",
                        "{}",
                        "[1, 2]",
                        "\"\"",
                        "1.5",
                        "nan",
                        "2026-01-01",
                        "'x'",
                        "[[[]]]",
                        "\"\\u0000\"",
                    ]);
                    some[at] = format!("{key}= {value}");
                }
                some.join("\n")
            }
            // A word that is not known.
            2 => {
                let from = dice.one(&[
                    "host", "name", "listen", "agents", "protocol", "command", "ask", "path",
                    "codex",
                ]);
                let to: &&str = dice.one(&["hosst", "", "naem", "\"a b\"", "é", "x.y.z"]);
                WHOLE.replacen(from, to, 1 + dice.below(3))
            }
            _ => String::from_utf8_lossy(&dice.damaged(WHOLE.as_bytes())).into_owned(),
        };
        match read(&text) {
            true => taken += 1,
            false => refused += 1,
        }
        read(&String::from_utf8_lossy(&dice.bytes(200)));
    });
    assert!(
        taken > 50 && refused > 500,
        "{taken} taken, {refused} refused"
    );
}

#[derive(Debug, Parser)]
#[command(name = "pilothouse", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Host(HostCommand),
    #[command(flatten)]
    Client(ClientCommand),
}

/// Every word that the command line knows.
fn vocabulary(command: &clap::Command, words: &mut Vec<String>) {
    for arg in command.get_arguments() {
        words.extend(arg.get_long().map(|long| format!("--{long}")));
        words.extend(arg.get_short().map(|short| format!("-{short}")));
        for value in arg.get_possible_values() {
            words.push(value.get_name().to_owned());
        }
    }
    for verb in command.get_subcommands() {
        words.push(verb.get_name().to_owned());
        vocabulary(verb, words);
    }
}

#[test]
fn any_command_line_is_taken_or_refused_with_its_usage() {
    Cli::command().debug_assert();
    let mut words = Vec::new();
    vocabulary(&Cli::command(), &mut words);
    let verbs: Vec<String> = Cli::command()
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect();
    assert!(verbs.len() > 10 && words.len() > 40, "{words:?}");
    let odd = [
        "",
        "-",
        "--",
        "0",
        "-1",
        "1e999",
        "NaN",
        "inf",
        "3kf",
        "pilothouse:pair?x",
        "\u{202e}",
        "1=a",
        "=",
        "é",
        "--json=x",
    ];
    let (mut taken, mut refused) = (0, 0);
    rounds(6000, |dice: &mut Dice| {
        let mut line = vec!["pilothouse".to_owned()];
        if !dice.once_in(20) {
            line.push(dice.one(&verbs).clone());
        }
        for _ in 0..dice.below(6) {
            let word = match dice.below(3) {
                0 => (*dice.one(&odd)).to_owned(),
                1 => dice.one(&words).clone(),
                _ => String::from_utf8_lossy(&dice.bytes(12)).into_owned(),
            };
            line.push(word);
        }
        match Cli::try_parse_from(&line) {
            Ok(_) => taken += 1,
            Err(problem) => {
                // 0 for help and version, 2 for what a person got wrong.
                let told = problem.to_string();
                assert!([0, 2].contains(&problem.exit_code()), "{line:?}");
                let helps = told.contains("Usage:")
                    || told.contains("--help")
                    || told.starts_with("pilothouse ");
                assert!(helps, "{line:?}: {told}");
                refused += 1;
            }
        }
    });
    assert!(
        taken > 100 && refused > 1000,
        "{taken} taken, {refused} refused"
    );
}
