//! Conformance: one story, played step by step by each real agent through the real host and a paired device, against the
//! scripted model.
//!
//! A step asserts what the device shows *and* what really happened: a file on disk, the model's log of what reached it, a
//! process. It ends as passed, recovered by replacement, refused as declared, not offered, or failed. Steps are independent: each
//! has threads of its own, and after one that failed or did not end the rest is played in a new world.
//!
//! `scripts/conformance` is the way in. What came out stands in docs/agents.json, and for reading in docs/agents.md.
#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program: what is not as it must be ends the step, and its report is what it prints"
)]

mod agent;
mod lane;
mod offered;
mod outcome;
mod page;
mod play;
mod steps;
mod table;
mod way;

use agent::Agent;
use play::Options;
use std::{path::PathBuf, process::ExitCode};
use table::Table;
use way::Way;

const USAGE: &str = "usage: pilothouse-conformance [--agent NAME[@VERSION]]… [--via host|remote|direct]… [--step NAME]… [--jobs N] --date YYYY-MM-DD --docs DIR --logs DIR [--check | --keep]";

/// What comes of the run's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It is written down.
    Write,
    /// It is compared, and a difference is a failure.
    Check,
    /// It is compared, and what stands there is kept.
    Keep,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[String]) -> Result<bool, String> {
    let (options, docs, mut then) = parse(words)?;
    let known = Table::read(&docs)?;
    let now = play::all(&options);
    let mut failed = 0;
    for played in &now.agents {
        let lines = played.lines.iter();
        failed += lines
            .filter(|line| line.outcome == outcome::Outcome::Fail)
            .count();
    }
    let changes = known.changes(&now, options.is_whole());
    for change in &changes {
        println!("{change}");
    }
    if changes.is_empty() {
        println!(
            "nothing has changed against {}",
            docs.join(table::FILE).display()
        );
    }
    if !options.is_whole() {
        then = Then::Keep;
    }
    if then == Then::Write {
        let table = known.with(now);
        table.write(&docs)?;
        page::write(&table, &docs)?;
    }
    if failed > 0 {
        println!("{failed} steps FAILED");
    }
    Ok(failed == 0 && (then != Then::Check || changes.is_empty()))
}

fn parse(words: &[String]) -> Result<(Options, PathBuf, Then), String> {
    let mut options = Options::default();
    let (mut docs, mut then) = (None, Then::Write);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check" => then = Then::Check,
            "--keep" => then = Then::Keep,
            "--agent" | "--via" | "--step" | "--jobs" | "--date" | "--docs" | "--logs" => {
                let value = words.next().ok_or(USAGE)?;
                match word.as_str() {
                    "--agent" => {
                        let name = value.split('@').next().unwrap_or_default();
                        let agent =
                            Agent::named(name).ok_or_else(|| format!("no agent `{name}`"))?;
                        options.agents.push(agent);
                    }
                    "--via" => options.ways.push(Way::named(value).ok_or(USAGE)?),
                    "--step" => options.steps.push(value.clone()),
                    "--jobs" => options.jobs = value.parse().map_err(|_| USAGE)?,
                    "--date" => options.date.clone_from(value),
                    "--docs" => docs = Some(PathBuf::from(value)),
                    _ => options.logs = PathBuf::from(value),
                }
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    if options.agents.is_empty() {
        options.agents = Agent::ALL.to_vec();
    }
    if options.ways.is_empty() {
        options.ways = Way::ALL.to_vec();
    }
    let docs = docs.ok_or(USAGE)?;
    Ok((options, docs, then))
}
