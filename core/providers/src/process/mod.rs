//! An agent's process that is bound to the host: it has its own group, and dies with the host.
//!
//! Owns spawning, the pipes, the exit, the ladder of signals, and the file by which a restarted host finds what it left
//! behind. Knows nothing of protocols.
//!
//! - Processes are spawned from **one thread that lives as long as the program**: the death signal that `agent-exec` asks for
//!   follows the spawning *thread*, and a worker thread of a runtime may end at any time.
//! - The exit is waited for without reaping first, so the process id stays reserved until the whole group has been killed:
//!   no signal ever reaches a stranger that got the same number.
//! - What the process started in other groups and sessions is ended with it (`descendants`), however it ended.
//! - stderr is always drained, into a ring of [`STDERR_RING`] bytes, and given out redacted only.

pub(crate) mod agent;
mod cpu;
mod descendants;
pub mod detached;
mod exec;
mod held;
mod pid_file;
mod redact;
#[cfg(feature = "local")]
pub(crate) mod sandbox;
mod stderr;

pub use exec::{ExecError, exec_supervised};
pub use pid_file::{Recorded, kill_recorded};
pub use redact::Redactor;
pub use stderr::{STDERR_RING, StderrRing};

use crate::contract::{Escalation, Launch, StartError};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::{
    io,
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc},
    time::Duration,
};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::watch,
};

/// How long each step of the ladder may take before the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopTimers {
    /// After its input was closed.
    pub after_input_closed: Duration,
    /// After SIGTERM.
    pub after_terminate: Duration,
}

impl Default for StopTimers {
    fn default() -> Self {
        Self {
            after_input_closed: Duration::from_secs(2),
            after_terminate: Duration::from_secs(3),
        }
    }
}

/// How long an agent at work may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Without any sign of life, before it is asked.
    pub silent: Duration,
    /// For its answer.
    pub answer: Duration,
}

impl Default for Life {
    fn default() -> Self {
        Self {
            silent: Duration::from_secs(120),
            answer: Duration::from_secs(30),
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its status; `None` if the system would not tell.
    pub status: Option<ExitStatus>,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}"),
            None => f.write_str("status unknown"),
        }
    }
}

/// A running process and its group.
#[derive(Debug)]
pub struct BoundProcess {
    pid: Pid,
    /// Whether the id is still the process': taken for every signal, so that none is sent after the reap.
    alive: Arc<Mutex<bool>>,
    exit: watch::Receiver<Option<Exit>>,
    stderr: Arc<StderrRing>,
}

/// The pipes of a new process.
#[derive(Debug)]
pub struct Pipes {
    /// Its input; dropping it closes it.
    pub stdin: ChildStdin,
    /// Its output.
    pub stdout: ChildStdout,
}

struct SpawnJob {
    command: Command,
    answer: tokio::sync::oneshot::Sender<io::Result<std::process::Child>>,
}

/// The spawner thread, started at its first use; it ends with the program.
fn spawner() -> &'static mpsc::Sender<SpawnJob> {
    static SPAWNER: OnceLock<mpsc::Sender<SpawnJob>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (jobs, queue) = mpsc::channel::<SpawnJob>();
        // If no thread can be had, the queue is dropped and every spawn reports it.
        let _ = std::thread::Builder::new()
            .name("agent-spawner".to_owned())
            .spawn(move || {
                for mut job in queue {
                    let _ = job.answer.send(job.command.spawn());
                }
            });
        jobs
    })
}

/// Spawns as `launch` says, from the thread that lives as long as the program; `streams` says where its input and outputs go
/// and whether it is given a group here.
async fn spawn_with(
    launch: &Launch,
    arguments: &[&str],
    mark: &str,
    streams: impl FnOnce(&mut Command),
) -> io::Result<std::process::Child> {
    let mut words = launch.wrapper.iter().chain(&launch.command);
    let program = words
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command is given"))?;
    let mut command = Command::new(program);
    command
        .args(words)
        .args(arguments)
        .envs(&launch.env)
        .env(descendants::VARIABLE, mark)
        .current_dir(&launch.cwd);
    streams(&mut command);
    let (answer, spawned) = tokio::sync::oneshot::channel();
    let gone = || io::Error::other("the spawner thread is gone");
    spawner()
        .send(SpawnJob { command, answer })
        .map_err(|_| gone())?;
    spawned.await.map_err(|_| gone())?
}

/// Knows the secrets in an agent's environment.
fn launch_redactor(launch: &Launch) -> Redactor {
    Redactor::new(
        launch
            .env
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .chain(std::env::vars_os().map(|(name, value)| {
                (
                    name.to_string_lossy().into_owned(),
                    value.to_string_lossy().into_owned(),
                )
            })),
    )
    .and(launch.mcp.secrets())
}

/// See [`BoundProcess::id`]: clock ticks of processor time that it and all it has started have used.
pub(crate) fn ticks_of(pid: u32) -> u64 {
    cpu::ticks_of(pid)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BoundProcess {
    /// [`BoundProcess::spawn`], with its failure said for a person.
    ///
    /// # Errors
    /// [`StartError::Spawn`] if the working directory or the program is not there, or may not be used.
    pub async fn start(launch: &Launch, arguments: &[&str]) -> Result<(Self, Pipes), StartError> {
        let spawn_error = |problem: String| StartError::Spawn {
            agent: launch.agent.clone(),
            program: launch.command.first().cloned().unwrap_or_default(),
            problem,
        };
        if !launch.cwd.is_dir() {
            return Err(spawn_error(format!(
                "its working directory {} is not there",
                launch.cwd.display()
            )));
        }
        Self::spawn(launch, arguments)
            .await
            .map_err(|error| spawn_error(error.to_string()))
    }

    /// Starts a process as `launch` says, with `arguments` after its command.
    ///
    /// # Errors
    /// What the system says if the program is not there or may not be run.
    pub async fn spawn(launch: &Launch, arguments: &[&str]) -> io::Result<(Self, Pipes)> {
        let mark = descendants::new_mark();
        let mut child = spawn_with(launch, arguments, &mark, |command| {
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            std::os::unix::process::CommandExt::process_group(command, 0);
        })
        .await?;

        let pid = i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("the system gave a process id out of range"))?;
        let pid_file = launch.pid_file.clone();
        let recorded = match &pid_file {
            Some(path) => pid_file::write(path, child.id(), &mark),
            None => Ok(()),
        };
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let alive = Arc::new(Mutex::new(true));
        let (ended, exit) = watch::channel(None);
        watch_exit(child, pid, Arc::clone(&alive), ended, pid_file, mark)?;
        let process = Self {
            pid,
            alive,
            exit,
            stderr: Arc::new(StderrRing::new(launch_redactor(launch))),
        };
        // An agent that a restarted host could not find again is not started.
        if let Err(error) = recorded {
            let _ = process.signal(Signal::KILL);
            return Err(error);
        }
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            let _ = process.signal(Signal::KILL);
            return Err(io::Error::other("the system gave no pipes"));
        };
        let pipes = Pipes {
            stdin: ChildStdin::from_std(stdin)?,
            stdout: ChildStdout::from_std(stdout)?,
        };
        stderr::drain(ChildStderr::from_std(stderr)?, Arc::clone(&process.stderr));
        Ok((process, pipes))
    }

    /// Its process id, which is its group's id too.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// What it wrote to stderr last.
    pub fn stderr(&self) -> &Arc<StderrRing> {
        &self.stderr
    }

    /// Waits until it has ended and its group was killed.
    pub async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        let known = exit
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|exit| *exit);
        known.unwrap_or(Exit { status: None })
    }

    /// Whether it has ended.
    pub fn has_exited(&self) -> bool {
        self.exit.borrow().is_some()
    }

    /// Sends a signal to its group; SIGKILL also to everything else that it started.
    ///
    /// # Errors
    /// `NotFound` once it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        send(self.pid, &self.alive, signal)
    }

    /// A step of an interrupt beyond the protocol's own.
    ///
    /// # Errors
    /// `NotFound` once it has ended.
    pub fn escalate(&self, step: Escalation) -> io::Result<()> {
        self.signal(match step {
            Escalation::Interrupt => Signal::INT,
            Escalation::Terminate => Signal::TERM,
            Escalation::Kill => Signal::KILL,
        })
    }

    /// Ends it, its input being closed already: waits, then SIGTERM, then SIGKILL, each to the group.
    pub async fn stop(&self, timers: StopTimers) {
        for (patience, signal) in [
            (timers.after_input_closed, Signal::TERM),
            (timers.after_terminate, Signal::KILL),
        ] {
            if tokio::time::timeout(patience, self.exited()).await.is_ok() {
                return;
            }
            // It may have ended this instant.
            let (pid, alive) = (self.pid, Arc::clone(&self.alive));
            // Killing reads all of /proc.
            let _ = tokio::task::spawn_blocking(move || send(pid, &alive, signal)).await;
        }
        self.exited().await;
    }
}

/// Sends a signal to a process group while its leader lives; SIGKILL also to everything else that it started.
fn send(pid: Pid, alive: &Mutex<bool>, signal: Signal) -> io::Result<()> {
    // While it lives its children can be told from strangers, whatever they did to their environment. They are held before
    // the lock is, which whoever waits for its end needs: if it lives after that, its number was its own all the time.
    let below = match signal {
        Signal::KILL => descendants::of(pid.as_raw_nonzero().get().unsigned_abs()),
        _ => Vec::new(),
    };
    let alive = lock(alive);
    if !*alive {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the agent's process has ended",
        ));
    }
    kill_process_group(pid, signal)?;
    for held in below {
        held.kill();
    }
    Ok(())
}

impl Drop for BoundProcess {
    fn drop(&mut self) {
        let _ = self.signal(Signal::KILL);
    }
}

/// Waits in a thread of its own for the end of the process, kills what is left of its group, and reaps it.
fn watch_exit(
    mut child: std::process::Child,
    pid: Pid,
    alive: Arc<Mutex<bool>>,
    ended: watch::Sender<Option<Exit>>,
    pid_file: Option<PathBuf>,
    mark: String,
) -> io::Result<()> {
    std::thread::Builder::new()
        .name("agent-exit".to_owned())
        .spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
            let status = {
                let mut alive = lock(&alive);
                // The leader is not reaped yet, so the group's id cannot have been given away.
                let _ = kill_process_group(pid, Signal::KILL);
                *alive = false;
                child.wait().ok()
            };
            let left = descendants::kill_marked(&mark);
            if left > 0 {
                tracing::info!(
                    agent = child.id(),
                    left,
                    "ended what an agent had left behind"
                );
            }
            if let Some(path) = pid_file {
                pid_file::remove(&path, child.id());
            }
            ended.send_replace(Some(Exit { status }));
        })
        .map(|_| ())
}
