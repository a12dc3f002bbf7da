//! Programs that a test starts: in groups of their own, their output in files, ended when dropped.

use crate::until::until;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

/// Lines of a program's standard output, as they come.
#[derive(Default)]
struct Lines {
    state: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

/// A running program with its process group.
pub struct Process {
    name: String,
    child: Child,
    lines: Arc<Lines>,
    errors: PathBuf,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a program; what it writes to standard error goes to a file `NAME.err` in `logs`.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(name: &str, mut command: Command, logs: &Path) -> Self {
        let errors = logs.join(format!("{name}.err"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&errors)
            .unwrap_or_else(|error| panic!("{}: {error}", errors.display()));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!(
                "{name} ({:?}) does not start: {error}",
                command.get_program()
            )
        });
        let lines = Arc::new(Lines::default());
        let output = child.stdout.take().expect("stdout is piped");
        let reading = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let mut state = reading.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.0.push(line);
                reading.changed.notify_all();
            }
            reading
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .1 = true;
            reading.changed.notify_all();
        });
        Self {
            name: name.to_owned(),
            child,
            lines,
            errors,
            status: None,
        }
    }

    /// Waits for a line of output for which `found` finds something.
    ///
    /// # Panics
    /// The program ends, or it takes too long.
    pub fn line<T>(&self, what: &str, mut found: impl FnMut(&str) -> Option<T>) -> T {
        let began = std::time::Instant::now();
        let mut seen = 0;
        let mut state = self
            .lines
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            while let Some(line) = state.0.get(seen) {
                if let Some(value) = found(line) {
                    return value;
                }
                seen += 1;
            }
            let left = crate::patience().saturating_sub(began.elapsed());
            assert!(
                !state.1 && !left.is_zero(),
                "{} did not print {what}; it printed {:?} and wrote {}",
                self.name,
                state.0,
                self.errors()
            );
            state = self
                .lines
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits for a line of output that is a JSON object for which `found` says yes.
    pub fn json(&self, what: &str, found: impl Fn(&Value) -> bool) -> Value {
        self.line(what, |line| {
            serde_json::from_str::<Value>(line).ok().filter(&found)
        })
    }

    /// All lines so far.
    pub fn output(&self) -> Vec<String> {
        self.lines
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .clone()
    }

    /// What it has written to standard error so far.
    pub fn errors(&self) -> String {
        let mut text = Vec::new();
        let read = File::open(&self.errors).and_then(|mut file| file.read_to_end(&mut text));
        match read {
            Ok(_) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => format!("({}: {error})", self.errors.display()),
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// SIGKILL to the program itself, as a crash would end it: its children are left to whoever cares for them.
    pub fn kill_9(&mut self) {
        if self.status.is_none() {
            let _ = kill_process(self.pid(), Signal::KILL);
            self.status = self.child.wait().ok();
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// It does not.
    pub fn ended(&mut self) -> ExitStatus {
        if let Some(status) = self.status {
            return status;
        }
        let name = self.name.clone();
        let status = until(&format!("{name} to end"), || match self.child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(format!(
                "it runs; it printed {:?} and wrote {}",
                self.output(),
                self.errors()
            )),
            Err(error) => Err(error.to_string()),
        });
        self.status = Some(status);
        status
    }

    /// Asks it to end, and waits.
    pub fn stop(&mut self) -> ExitStatus {
        if self.status.is_none() {
            let _ = kill_process(self.pid(), Signal::TERM);
        }
        self.ended()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
        if thread::panicking() {
            let errors = self.errors();
            let tail: Vec<_> = errors.lines().rev().take(40).collect();
            eprintln!("--- {} wrote (its end):", self.name);
            for line in tail.iter().rev() {
                eprintln!("    {line}");
            }
        }
    }
}

/// Waits until a process that is not a child of this one is gone, e.g. an agent whose host was killed.
pub fn gone(pid: u32) {
    until(&format!("process {pid} to be gone"), || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie whose parent does not wait is as gone as it will get.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
        match state {
            None | Some(Some('Z' | 'X') | None) => Ok(()),
            Some(Some(_)) => Err(stat),
        }
    });
}

/// SIGKILL to a process that leads a group of its own, and to all of the group; whether there was one.
pub fn kill_group(leader: u32) -> bool {
    let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
    leader.is_some_and(|leader| kill_process_group(leader, Signal::KILL).is_ok())
}
