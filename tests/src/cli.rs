//! A device that is a process: the terminal client on a data directory of its own.

use crate::{host::Host, process::Process};
use serde_json::Value;
use std::{
    io::{Seek as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A terminal's data directory.
pub struct Cli {
    program: Option<PathBuf>,
    data: PathBuf,
    logs: PathBuf,
}

/// What a verb said.
#[derive(Debug)]
pub struct Said {
    /// The exit code.
    pub code: i32,
    /// Its lines, each a JSON object.
    pub lines: Vec<Value>,
    /// What it wrote to standard error.
    pub errors: String,
}

impl Said {
    /// The lines of a type.
    pub fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line["type"] == kind)
    }

    /// The only line of a type.
    ///
    /// # Panics
    /// There is none, or another.
    pub fn only<'a>(&'a self, kind: &'a str) -> &'a Value {
        let mut found = self.of_type(kind);
        match (found.next(), found.next()) {
            (Some(line), None) => line,
            _ => panic!("not exactly one `{kind}`: {self:#?}"),
        }
    }
}

impl Cli {
    /// A device without any host yet.
    pub fn new(dir: &Path, name: &str) -> Self {
        Self {
            program: None,
            data: dir.join(name),
            logs: dir.to_owned(),
        }
    }

    /// The same device as another program, e.g. of another version; otherwise it is the host's.
    pub fn with_program(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    /// A device, paired with a host.
    pub fn paired(dir: &Path, name: &str, host: &Host) -> Self {
        let cli = Self::new(dir, name);
        cli.join(host, name);
        cli
    }

    /// Pairs it with a host.
    ///
    /// # Panics
    /// It is not taken.
    pub fn join(&self, host: &Host, name: &str) {
        let said = self.run(host, &["join", &host.pairing_code(None), "--name", name]);
        assert_eq!(said.code, 0, "{said:#?}");
    }

    fn command(&self, host: &Host) -> Command {
        match &self.program {
            Some(program) => host.command_of(program),
            None => host.command(),
        }
    }

    /// Runs a verb to its end.
    pub fn run(&self, host: &Host, verb: &[&str]) -> Said {
        self.run_with(host, verb, "")
    }

    /// Runs a verb to its end that reads this from standard input.
    pub fn run_with(&self, host: &Host, verb: &[&str], input: &str) -> Said {
        let output = self.output(host, verb, &["--json"], input);
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().map(|line| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{verb:?} printed {line}: {error}"))
        });
        Said {
            code: output.status.code().unwrap_or(-1),
            lines: lines.collect(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a verb to its end as a person does: its exit code, and what it printed for reading.
    pub fn read(&self, host: &Host, verb: &[&str]) -> (i32, String) {
        let output = self.output(host, verb, &[], "");
        let code = output.status.code().unwrap_or(-1);
        let text = [output.stdout, output.stderr].concat();
        (code, String::from_utf8_lossy(&text).into_owned())
    }

    fn output(&self, host: &Host, verb: &[&str], more: &[&str], input: &str) -> Output {
        let mut command = self.command(host);
        let mut typed = tempfile::tempfile().expect("a temporary file");
        let put = typed.write_all(input.as_bytes());
        put.and_then(|()| typed.rewind()).expect("what is typed");
        command.stdin(typed);
        command.args(verb).args(more).arg("--data").arg(&self.data);
        command
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Starts a verb that goes on, such as `watch`.
    pub fn start(&self, host: &Host, verb: &[&str]) -> Process {
        let mut command = self.command(host);
        command
            .args(verb)
            .arg("--json")
            .arg("--data")
            .arg(&self.data);
        Process::start(&format!("client-{}", verb[0]), command, &self.logs)
    }
}
