//! What each verb does.

mod answer;
mod attach;
mod direct;
mod import;
mod lists;
mod operate;
mod reply;
mod select;
mod sign_in;
mod steer;
mod watch;

#[cfg(test)]
pub(crate) use reply::{Choice, compose};

use super::{
    args::{ClientCommand, DirectCommand},
    failure::Failure,
    output::Output,
};
use std::io::Read as _;

/// Does what was typed.
pub(crate) fn run(command: ClientCommand, output: &mut Output) -> Result<(), Failure> {
    match command {
        ClientCommand::Join(args) => lists::join(&args, output),
        ClientCommand::Direct(DirectCommand::Add(args)) => direct::add(&args, output),
        ClientCommand::Direct(DirectCommand::Set(args)) => direct::set(&args, output),
        ClientCommand::Direct(DirectCommand::List(args)) => direct::list(&args, output),
        ClientCommand::Direct(DirectCommand::Remove(args)) => direct::remove(&args, output),
        ClientCommand::Hosts(args) => lists::hosts(&args, output),
        ClientCommand::Threads(args) => lists::threads(&args, output),
        ClientCommand::Inbox(args) => lists::inbox(&args, output),
        ClientCommand::New(args) => steer::new(&args, output),
        ClientCommand::Fork(args) => operate::fork(&args, output),
        ClientCommand::Sessions(args) => import::sessions(&args, output),
        ClientCommand::Import(args) => import::import(&args, output),
        ClientCommand::Rollback(args) => operate::rollback(&args, output),
        ClientCommand::Compact(args) => operate::compact(&args, output),
        ClientCommand::SignIn(args) => sign_in::sign_in(&args, output),
        ClientCommand::Select(args) => select::select(&args, output),
        ClientCommand::Commands(args) => select::commands(&args, output),
        ClientCommand::Files(args) => select::files(&args, output),
        ClientCommand::Send(args) => steer::send(&args, output),
        ClientCommand::Interrupt(args) => steer::interrupt(&args, output),
        ClientCommand::Queue(args) => steer::queue(&args, output),
        ClientCommand::Answer(args) => answer::answer(&args, output),
        ClientCommand::Watch(args) => match &args.thread {
            Some(thread) => watch::thread(&args, thread, output),
            None => watch::everything(&args, output),
        },
    }
}

/// What was typed, or standard input for `-`; the line's end that a shell adds is not part of it.
fn typed(text: &str, what: &str) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    std::io::stdin()
        .read_to_string(&mut read)
        .map_err(|error| {
            Failure::new(
                super::failure::Code::Error,
                format!("reading {what} from standard input: {error}"),
            )
        })?;
    while read.ends_with(['\n', '\r']) {
        read.pop();
    }
    Ok(read)
}
