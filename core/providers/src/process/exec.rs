//! What the host's hidden `agent-exec` does between the host and an agent.

use rustix::process::{
    Signal, getpgid, getpid, getppid, set_parent_process_death_signal, setpgid, setsid,
};
use std::{
    convert::Infallible,
    ffi::OsString,
    io::{self, Read as _},
    os::unix::process::CommandExt as _,
    process::Stdio,
};

/// Why the agent was not executed.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// No command.
    #[error("no command is given after `--`")]
    NoCommand,
    /// The host ended while its agent was being started.
    #[error("the host (process {expected}) is gone; the agent is not started")]
    ParentGone {
        /// The host's process id.
        expected: u32,
    },
    /// A call of the system failed.
    #[error("cannot {what}: {problem}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system says.
        problem: io::Error,
    },
    /// The program is not there or may not be run.
    #[error("cannot run `{program}`: {problem}")]
    Exec {
        /// The program.
        program: String,
        /// What the system says.
        problem: io::Error,
    },
}

/// Becomes the program in `argv`, in a process group of its own that gets SIGKILL when the thread that spawned it ends.
/// `parent` is the host's process id, which the host puts on the command line. Where [`DETACHED`](super::detached::DETACHED)
/// is set it becomes one that outlives the host, as soon as a byte comes on the input: the host's word that it is recorded.
///
/// # Errors
/// Returns only if the program could not be executed.
pub fn exec_supervised(parent: u32, argv: &[OsString]) -> Result<Infallible, ExecError> {
    let (program, arguments) = argv.split_first().ok_or(ExecError::NoCommand)?;
    let system = |what: &'static str| {
        move |errno: rustix::io::Errno| ExecError::System {
            what,
            problem: errno.into(),
        }
    };
    if std::env::var_os(super::detached::DETACHED).is_some() {
        return exec_detached(parent, program, arguments);
    }
    if getpgid(None).map_err(system("read the process group"))? != getpid() {
        setpgid(None, None).map_err(system("make a process group"))?;
    }
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(system("ask for the death signal"))?;
    // After the call above: a host that ended before it would never be noticed.
    let is_parent =
        getppid().is_some_and(|actual| actual.as_raw_nonzero().get().unsigned_abs() == parent);
    if !is_parent {
        return Err(ExecError::ParentGone { expected: parent });
    }
    let problem = std::process::Command::new(program).args(arguments).exec();
    Err(ExecError::Exec {
        program: program.to_string_lossy().into_owned(),
        problem,
    })
}

/// Becomes an agent that outlives the host, in a session of its own, once the host has said on the input that it is recorded.
/// A host that ends before it has closes the input, and nothing is left that no other host could find.
fn exec_detached(
    parent: u32,
    program: &OsString,
    arguments: &[OsString],
) -> Result<Infallible, ExecError> {
    setsid().map_err(|errno| ExecError::System {
        what: "make a session",
        problem: errno.into(),
    })?;
    io::stdin()
        .read_exact(&mut [0])
        .map_err(|_| ExecError::ParentGone { expected: parent })?;
    let problem = std::process::Command::new(program)
        .args(arguments)
        .env_remove(super::detached::DETACHED)
        .stdin(Stdio::null())
        .exec();
    Err(ExecError::Exec {
        program: program.to_string_lossy().into_owned(),
        problem,
    })
}
