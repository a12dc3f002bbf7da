//! Chaos: stories from seeds over real processes and sockets, judged by the scripted agent's own log.
//!
//! Each seed is a process of its own with a world of its own: a real `pilothouse host`, two or three devices (the engine,
//! each in a process that can be killed), a TCP proxy before each, a scripted agent that syncs a log of all that reached
//! it, and for some seeds small disks that fill. A story follows from its seed; at its end the faults stop, everything has
//! to come to rest, and the oracle compares the agent's log with what every device shows.
//!
//! `scripts/chaos` is the way in; `docs/reliability.md` says what is counted, and keeps the count.
#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test program: a broken world ends the seed, and its report is what it prints"
)]

mod asked;
mod driver;
mod journal;
mod oracle;
mod phone;
mod plants;
mod play;
mod run;
mod stage;
mod story;

use std::{path::Path, process::ExitCode};

const USAGE: &str = "usage: pilothouse-chaos run --seeds N --first S [--jobs J] [--seconds T] [--family codex|acp]… | self-test [--family F] | device DIR NAME";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["device", dir, name] => driver::run(Path::new(dir), name).map(|()| true),
        ["seed", rest @ ..] => run::Options::parse(rest).map(|options| run::one(&options)),
        ["run", rest @ ..] => run::Options::parse(rest).and_then(|options| run::many(&options)),
        ["self-test", rest @ ..] => {
            run::Options::parse(rest).and_then(|options| run::self_test(&options))
        }
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
