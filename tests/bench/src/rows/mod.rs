//! The rows of the table, a group a file.

mod append;
mod catchup;
mod decode;
mod decode_opencode;
mod deltas;
mod devices;
mod host;
mod latency;
mod list;
mod output;
mod rebuild;
mod rivals;
mod start;
mod streaming;
mod tail;
mod wire;

use crate::{
    Arguments,
    fixture::{self, Fixture, Name},
    report::Row,
};
use anyhow::{Context as _, Result, bail, ensure};
use serde::de::DeserializeOwned;
use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// Rows that are measured together.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    when: When,
    pub(crate) run: fn(&Context) -> Result<Vec<Row>>,
}

/// In which runs a group is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// Also by `--quick`.
    Quick,
    Full,
    Nightly,
}

/// All groups, in the order of the table.
pub(crate) const GROUPS: &[Group] = &[
    group("append", "append to the ledger", When::Quick, append::run),
    group("deltas", "3,000 deltas over 30 s", When::Quick, deltas::run),
    group(
        "tail",
        "open the tail of a long thread",
        When::Quick,
        tail::run,
    ),
    group(
        "list",
        "first list of 50,000 threads",
        When::Full,
        list::run,
    ),
    group("rebuild", "apply and rebuild", When::Quick, rebuild::run),
    group(
        "catchup",
        "a device that was away",
        When::Quick,
        catchup::run,
    ),
    group(
        "streaming",
        "1,500 deltas a second",
        When::Full,
        streaming::run,
    ),
    group(
        "output",
        "a tool that writes 64 MiB",
        When::Quick,
        output::run,
    ),
    group("decode", "decode and ingest", When::Quick, decode::run),
    group(
        "latency",
        "ask → notice, answer → told",
        When::Full,
        latency::run,
    ),
    group("start", "start an agent", When::Quick, start::run),
    group(
        "devices",
        "several devices on one thread",
        When::Quick,
        devices::run,
    ),
    group("host", "an idle host", When::Quick, host::run),
    group(
        "rivals",
        "the agents' own stores",
        When::Nightly,
        rivals::run,
    ),
];

const fn group(
    name: &'static str,
    what: &'static str,
    when: When,
    run: fn(&Context) -> Result<Vec<Row>>,
) -> Group {
    Group {
        name,
        what,
        when,
        run,
    }
}

/// The groups that the arguments ask for.
pub(crate) fn chosen(arguments: &Arguments) -> Result<Vec<&'static Group>> {
    for name in &arguments.only {
        ensure!(
            GROUPS.iter().any(|group| group.name == name),
            "there is no row {name}; `pilothouse-bench list` names them"
        );
    }
    let asked = |group: &&Group| {
        if !arguments.only.is_empty() {
            return arguments.only.iter().any(|name| name == group.name);
        }
        match group.when {
            When::Quick => true,
            When::Full => !arguments.quick,
            When::Nightly => arguments.nightly,
        }
    };
    Ok(GROUPS.iter().filter(asked).collect())
}

/// Runs a part that has to have a process of its own.
pub(crate) fn child(name: &str, arguments: &[String]) -> Result<serde_json::Value> {
    match name {
        "commands" => append::child(arguments),
        "list" => list::child(arguments),
        "output" => output::child(arguments),
        "rebuild" => rebuild::child(arguments),
        "tail" => tail::child(arguments),
        other => bail!("there is no part {other}"),
    }
}

/// What the groups are given.
pub(crate) struct Context {
    pub(crate) quick: bool,
    pub(crate) nightly: bool,
    fixtures: PathBuf,
}

impl Context {
    pub(crate) fn new(arguments: &Arguments) -> Result<Self> {
        std::fs::create_dir_all(&arguments.fixtures)
            .with_context(|| format!("making {}", arguments.fixtures.display()))?;
        Ok(Self {
            quick: arguments.quick,
            nightly: arguments.nightly,
            fixtures: arguments.fixtures.canonicalize()?,
        })
    }

    /// A fixture, made if it is not there.
    pub(crate) fn fixture(&self, name: Name) -> Result<Fixture> {
        fixture::get(&self.fixtures, name)
    }

    /// A directory on the disk of the fixtures, gone when dropped.
    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(&self.fixtures)
            .context("making a directory beside the fixtures")
    }

    /// Runs a part in a process of its own and reads what it prints.
    pub(crate) fn child<T: DeserializeOwned>(&self, name: &str, arguments: &[&str]) -> Result<T> {
        let mut command = Command::new(std::env::current_exe()?);
        self.run_child(
            command.arg("child").arg(name).arg("--").args(arguments),
            name,
        )
    }

    /// The same under another program, which is given the command line.
    pub(crate) fn run_child<T: DeserializeOwned>(
        &self,
        command: &mut Command,
        name: &str,
    ) -> Result<T> {
        let output = command.stderr(Stdio::inherit()).output()?;
        ensure!(
            output.status.success(),
            "measuring {name} failed: {}",
            output.status
        );
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{name} printed {}", String::from_utf8_lossy(&output.stdout)))
    }

    /// A rival in Node, which does its work once for every line that it is sent.
    pub(crate) fn rival(&self, script: &str, arguments: &[&Path]) -> Result<Rival> {
        let node = std::env::var_os("PILOTHOUSE_NODE").context(
            "PILOTHOUSE_NODE is not set; run scripts/bench, which installs the pinned Node",
        )?;
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("rivals")
            .join(script);
        let mut process = Command::new(node)
            .arg("--no-warnings")
            .arg(path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting the rival {script}"))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        Ok(Rival {
            input: input.context("the rival's input")?,
            output: BufReader::new(output.context("the rival's output")?),
            process,
        })
    }
}

/// A rival that runs.
pub(crate) struct Rival {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Rival {
    /// Lets it do its work once; milliseconds by the wall and of its thread's processor time.
    pub(crate) fn go(&mut self) -> Result<Spent> {
        writeln!(self.input, "go")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the rival said {line:?}"))
    }
}

/// What a piece of work took, ms.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub(crate) struct Spent {
    pub(crate) wall: f64,
    /// Processor time of the one thread that did it.
    pub(crate) cpu: f64,
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
