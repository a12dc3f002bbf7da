//! What a process wrote and when it synced, as strace saw it, and the files that a power cut could have left of it.
//!
//! The model is a disk's: a write may be lost, whole, or torn, in whatever order, until its file is synced; a file that was
//! made or removed may be so or not until its directory is synced. What was synced is there.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

#[path = "../../../../tests/support/splitmix.rs"]
mod splitmix;

use splitmix::SplitMix;

/// The smallest piece that a disk writes whole.
const SECTOR: usize = 512;

/// A step of the process, in the order of their beginning.
#[derive(Debug)]
pub(crate) enum Step {
    /// It said a word on standard output, the first after the step before was over.
    Said(String),
    Write {
        file: usize,
        offset: usize,
        bytes: Vec<u8>,
    },
    Cut {
        file: usize,
        length: usize,
    },
    /// All that was written to the file before is on disk.
    Synced(usize),
    Made {
        name: String,
        file: usize,
    },
    Removed {
        name: String,
    },
    /// All files that were made or removed before are so on disk.
    DirectorySynced,
}

/// A run of a process, seen from outside.
pub(crate) struct Trace {
    pub(crate) steps: Vec<Step>,
    /// How many files there were in all.
    files: usize,
}

/// Numbers that look random and follow from their seed.
pub(crate) struct Dice(SplitMix);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.0.number() % bound.max(1) as u64) as usize
    }
}

/// Whether processes can be traced here; the reason if not.
pub(crate) fn strace_works() -> Result<(), String> {
    let output = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("strace cannot be run: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Trace {
    /// Runs a command under strace and keeps what it did to `ledger.db` and its log beneath `dir`, and every line
    /// `say:…` that it printed.
    pub(crate) fn of(command: &Command, dir: &Path) -> Self {
        let log = dir.join("strace.log");
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-y", "-xx", "-s", "1000000", "--seccomp-bpf"])
            .args([
                "-e",
                "trace=openat,write,pwrite64,ftruncate,fsync,fdatasync,unlink,unlinkat",
            ])
            .arg("-o")
            .arg(&log)
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            strace.env(name, value.unwrap_or_default());
        }
        let output = strace.stdin(Stdio::null()).output().unwrap();
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let mut reader = Reader::default();
        for line in BufReader::new(fs::File::open(&log).unwrap()).lines() {
            reader.line(&line.unwrap());
        }
        Self {
            steps: reader.steps,
            files: reader.files,
        }
    }

    /// The same run on a disk that never heard of a sync after its first `from` steps.
    pub(crate) fn without_syncs(mut self, from: usize) -> Self {
        let steps = self.steps.drain(..).enumerate();
        self.steps = steps
            .filter(|(number, step)| *number < from || !matches!(step, Step::Synced(_)))
            .map(|(_, step)| step)
            .collect();
        self
    }

    /// The files as a power cut right after the first `until` steps could have left them.
    pub(crate) fn cut(&self, until: usize, dice: &mut Dice) -> BTreeMap<String, Vec<u8>> {
        let steps = &self.steps[..until];
        let mut contents = vec![Vec::new(); self.files];
        for (file, content) in contents.iter_mut().enumerate() {
            let last = |wanted: &dyn Fn(&Step) -> bool| steps.iter().rposition(wanted);
            let synced = last(&|step| matches!(step, Step::Synced(other) if *other == file));
            let (safe, open) = steps.split_at(synced.unwrap_or(0));
            for step in safe {
                apply(content, step, file, usize::MAX, 0);
            }
            let open: Vec<&Step> = open.iter().filter(|step| step.is_of(file)).collect();
            let policy = dice.below(4);
            let whole = dice.below(open.len() + 1);
            for (number, step) in open.iter().enumerate() {
                let length = step.length();
                match policy {
                    // Everything that was not synced is lost, or nothing.
                    0 => {}
                    1 => apply(content, step, file, usize::MAX, 0),
                    // Written in order up to any byte.
                    2 if number < whole => apply(content, step, file, usize::MAX, 0),
                    2 if number == whole => apply(content, step, file, dice.below(length + 1), 0),
                    2 => {}
                    // Written in any order, pages torn where sectors meet.
                    _ => {
                        let sectors = length / SECTOR + 1;
                        match dice.below(3) {
                            0 => {}
                            1 => apply(content, step, file, usize::MAX, 0),
                            _ => {
                                let (a, b) = (dice.below(sectors), dice.below(sectors + 1));
                                apply(content, step, file, b * SECTOR, a * SECTOR);
                            }
                        }
                    }
                }
            }
        }
        let safe = steps
            .iter()
            .rposition(|step| matches!(step, Step::DirectorySynced));
        let safe = safe.unwrap_or(0);
        let changes = steps
            .iter()
            .enumerate()
            .filter(|(_, step)| step.is_of_directory());
        let (before, after): (Vec<_>, Vec<_>) = changes.partition(|(number, _)| *number < safe);
        let kept = dice.below(after.len() + 1);
        let mut names = BTreeMap::new();
        for (_, step) in before.into_iter().chain(after.into_iter().take(kept)) {
            match step {
                Step::Made { name, file } => drop(names.insert(name.clone(), *file)),
                Step::Removed { name } => drop(names.remove(name)),
                _ => {}
            }
        }
        names
            .into_iter()
            .map(|(name, file)| (name, contents[file].clone()))
            .collect()
    }
}

impl Step {
    fn is_of(&self, wanted: usize) -> bool {
        matches!(self, Self::Write { file, .. } | Self::Cut { file, .. } if *file == wanted)
    }

    fn is_of_directory(&self) -> bool {
        matches!(self, Self::Made { .. } | Self::Removed { .. })
    }

    fn length(&self) -> usize {
        match self {
            Self::Write { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }
}

/// Does a step to a file's content: of a write the bytes from `from` up to `to`.
fn apply(content: &mut Vec<u8>, step: &Step, wanted: usize, to: usize, from: usize) {
    match step {
        Step::Write {
            file,
            offset,
            bytes,
        } if *file == wanted => {
            let to = to.min(bytes.len());
            if from >= to {
                return;
            }
            if content.len() < offset + to {
                content.resize(offset + to, 0);
            }
            content[offset + from..offset + to].copy_from_slice(&bytes[from..to]);
        }
        Step::Cut { file, length } if *file == wanted && to > 0 => content.resize(*length, 0),
        _ => {}
    }
}

/// Reads strace's lines.
#[derive(Default)]
struct Reader {
    steps: Vec<Step>,
    files: usize,
    /// Names that there are, and which file each is now.
    names: BTreeMap<String, usize>,
    /// The directory in which they are.
    dir: Option<String>,
    /// Calls that had not returned when another thread's began, by thread.
    begun: BTreeMap<String, String>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let Some((thread, rest)) = line.split_once(' ') else {
            return;
        };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            // A write may be on disk from its beginning on; a sync counts when it has returned.
            if begun.starts_with("pwrite64") || begun.starts_with("write") {
                self.call(&format!("{begun}) = 1"));
            } else {
                self.begun.insert(thread.to_owned(), begun.to_owned());
            }
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            if let Some(begun) = self.begun.remove(thread) {
                let end = resumed.split_once("resumed>").map_or("", |(_, end)| end);
                self.call(&format!("{begun}{end}"));
            }
        } else {
            self.call(rest);
        }
    }

    fn call(&mut self, call: &str) {
        let Some((name, rest)) = call.split_once('(') else {
            return;
        };
        // strace fills up short lines with spaces before the result, above all those of calls that were resumed.
        let Some((arguments, result)) = rest.rsplit_once(" = ") else {
            return;
        };
        let Some(arguments) = arguments.trim_end().strip_suffix(')') else {
            return;
        };
        if result.starts_with('-') {
            return;
        }
        let strings = strings(arguments);
        // strace writes paths of descriptors as <…>, in hexadecimal like strings.
        let path = arguments
            .split_once('<')
            .and_then(|(_, rest)| rest.split_once('>'));
        let path = path.map(|(path, _)| String::from_utf8_lossy(&unhex(path)).into_owned());
        let named = path.as_deref().and_then(kept_name);
        if named.is_some() {
            let parent = path.as_deref().and_then(|path| Path::new(path).parent());
            self.dir = parent.map(|parent| parent.to_string_lossy().into_owned());
        }
        let last_number = || {
            let last = arguments.rsplit(", ").next().unwrap_or_default();
            last.parse::<usize>().unwrap_or_default()
        };
        match (name, named) {
            ("write", _) if arguments.starts_with("1<") => {
                let text = String::from_utf8_lossy(strings.first().map_or(&[][..], Vec::as_slice))
                    .into_owned();
                let said = text.lines().filter_map(|line| line.strip_prefix("say:"));
                self.steps
                    .extend(said.map(|word| Step::Said(word.to_owned())));
            }
            ("pwrite64", Some(name)) => {
                let file = self.file(&name);
                let bytes = strings.into_iter().next().unwrap_or_default();
                let offset = last_number();
                self.steps.push(Step::Write {
                    file,
                    offset,
                    bytes,
                });
            }
            ("write", Some(name)) => panic!("{name} is written without a place: {call}"),
            ("ftruncate", Some(name)) => {
                let (file, length) = (self.file(&name), last_number());
                self.steps.push(Step::Cut { file, length });
            }
            ("fsync" | "fdatasync", Some(name)) => {
                let file = self.file(&name);
                self.steps.push(Step::Synced(file));
            }
            ("fsync" | "fdatasync", None) if path.is_some() && path == self.dir => {
                self.steps.push(Step::DirectorySynced);
            }
            ("openat", _) if arguments.contains("O_CREAT") => {
                if let Some(name) = strings
                    .first()
                    .and_then(|path| kept_name(&String::from_utf8_lossy(path)))
                {
                    self.file(&name);
                }
            }
            ("unlink" | "unlinkat", _) => {
                let name = strings
                    .first()
                    .and_then(|path| kept_name(&String::from_utf8_lossy(path)));
                if let Some(name) = name
                    && self.names.remove(&name).is_some()
                {
                    self.steps.push(Step::Removed { name });
                }
            }
            _ => {}
        }
    }

    /// The file of a name, made now if there is none.
    fn file(&mut self, name: &str) -> usize {
        if let Some(file) = self.names.get(name) {
            return *file;
        }
        let file = self.files;
        self.files += 1;
        self.names.insert(name.to_owned(), file);
        self.steps.push(Step::Made {
            name: name.to_owned(),
            file,
        });
        file
    }
}

/// The name of a file that a power cut matters for. The index of the write-ahead log is made anew at every start.
fn kept_name(path: &str) -> Option<String> {
    let name = PathBuf::from(path)
        .file_name()?
        .to_string_lossy()
        .into_owned();
    matches!(
        name.as_str(),
        "ledger.db" | "ledger.db-wal" | "ledger.db-journal"
    )
    .then_some(name)
}

/// The strings among a call's arguments.
fn strings(arguments: &str) -> Vec<Vec<u8>> {
    let parts = arguments.split('"').skip(1).step_by(2);
    parts.map(unhex).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    text.as_bytes()
        .chunks_exact(4)
        .map(|four| digit(four[2]) * 16 + digit(four[3]))
        .collect()
}

#[test]
fn a_sync_counts_when_it_returns_however_its_line_is_spaced() {
    let hex =
        |text: &str| -> String { text.bytes().map(|byte| format!("\\x{byte:02x}")).collect() };
    let (wal, dir) = (hex("/data/ledger.db-wal"), hex("/data"));
    let mut reader = Reader::default();
    for line in [
        format!("11 pwrite64(7<{wal}>, \"{}\", 4, 0) = 4", hex("abcd")),
        format!("11 fdatasync(7<{wal}> <unfinished ...>"),
        format!(
            "12 pwrite64(7<{wal}>, \"{}\", 1, 4 <unfinished ...>",
            hex("e")
        ),
        "11 <... fdatasync resumed>)             = 0".to_owned(),
        "12 <... pwrite64 resumed>)              = 1".to_owned(),
        format!("11 fsync(9<{dir}>) = 0"),
        format!("11 fsync(7<{wal}>) = -1 EIO (Input/output error)"),
    ] {
        reader.line(&line);
    }
    let seen: Vec<String> = reader
        .steps
        .iter()
        .map(|step| format!("{step:?}"))
        .collect();
    let expected = [
        r#"Made { name: "ledger.db-wal", file: 0 }"#,
        "Write { file: 0, offset: 0, bytes: [97, 98, 99, 100] }",
        "Write { file: 0, offset: 4, bytes: [101] }",
        "Synced(0)",
        "DirectorySynced",
    ];
    assert_eq!(seen, expected);
}
