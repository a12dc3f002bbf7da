//! The `pilothouse` program: a host's daemon with its verbs, and a terminal client that is a device like any other.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use pilothouse_host::{client, logging, verbs};
use std::process::ExitCode;

/// Watch and steer coding agents from your phone or another terminal.
#[derive(Debug, Parser)]
#[command(name = "pilothouse", version, after_help = STEPS, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Host(verbs::HostCommand),
    #[command(flatten)]
    Client(client::ClientCommand),
}

const STEPS: &str = "Three steps to the first approval:
  1. on the machine with the agent, in a project's directory:
       pilothouse host
  2. there, in a second terminal, and then on the phone or any other machine:
       pilothouse pair
       pilothouse join 'pilothouse:pair?…'
  3. give the agent something to do, and answer what it asks:
       pilothouse new --agent codex --workspace app 'First steps'
       pilothouse send THREAD 'create hello.txt'
       pilothouse inbox --wait
       pilothouse answer REQUEST --allow

If something does not work: pilothouse doctor. Each verb explains itself: pilothouse VERB --help.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::start(matches!(cli.verb, Verb::Host(verbs::HostCommand::Host(_))));
    match cli.verb {
        Verb::Host(command) => verbs::run(command),
        Verb::Client(command) => client::run(command),
    }
}
