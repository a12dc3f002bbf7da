//! The terminal client: a device like any other, as verbs of the `pilothouse` binary.
//!
//! **Owns** what a person types and reads, and the JSON that scripts read. **Must not know** the host's side, the wire or
//! the store: it only calls the engine. A verb opens the core on its data directory, looks at views or submits a command,
//! and prints what the host confirmed; rows go through `show` for a person and through `json` for a script.
//!
//! Exit codes: 0 done; 1 failed; 2 wrong command line; 3 refused by the host; 4 not confirmed in time (a command is then in
//! the outbox and will be sent); 5 no such thing.

mod args;
mod device;
mod failure;
mod json;
mod output;
mod pick;
mod show;
mod style;
mod text;
mod verbs;

#[cfg(test)]
mod tests;

pub use args::{
    AnswerArgs, ChoiceArgs, ClientCommand, DeviceArgs, DispatchArgs, HostsArgs, InboxArgs,
    InterruptArgs, JoinArgs, ModeArg, NewArgs, PatienceArgs, QueueArgs, SendArgs, ThreadsArgs,
    WatchArgs,
};

use failure::{Code, Failure};
use output::Output;
use std::process::ExitCode;

/// Does what was typed, prints what came of it and gives the exit code. Blocks until it is done; may be called from
/// inside an async runtime, since it works on a thread of its own.
pub fn run(command: ClientCommand) -> ExitCode {
    let work = move || {
        let mut output = Output::stdout(command.device().json);
        let result = verbs::run(command, &mut output).and_then(|()| Ok(output.flush()?));
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => report(&failure, &mut output),
        }
    };
    match std::thread::Builder::new()
        .name("pilothouse-client".to_owned())
        .spawn(work)
        .map(std::thread::JoinHandle::join)
    {
        Ok(Ok(code)) => code,
        // A panic has printed its own message; a thread that cannot be had is as final.
        Ok(Err(_)) | Err(_) => Code::Error.into(),
    }
}

fn report(failure: &Failure, output: &mut Output) -> ExitCode {
    if failure.silent {
        return ExitCode::SUCCESS;
    }
    // If telling of a failure fails, too, the exit code still says it.
    let _ = output.failure(failure);
    failure.code.into()
}
