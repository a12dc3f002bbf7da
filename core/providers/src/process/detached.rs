//! An agent's process that outlives the host: in a session of its own, its output in a file and never in a pipe of the
//! host's (DETAILS section 3). A file that only its user can read records which process it is, where it listens and the
//! secret that it takes, so that a host that starts again finds it ([`DetachedProcess::attach`]).

use super::{
    Exit, StderrRing, StopTimers, descendants, held::Held, launch_redactor, lock, pid_file, send,
    spawn_with, watch_exit,
};
use crate::contract::{Escalation, Launch, StartError};
use pilothouse_domain::{AgentName, Incarnation};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::watch;

/// Set in the environment of `agent-exec` where the agent is to outlive the host.
pub const DETACHED: &str = "PILOTHOUSE_DETACHED";
/// Extension of the records' names.
pub const EXTENSION: &str = "detached";
/// Bytes of its output that may stand in its file.
const OUTPUT_LIMIT: u64 = 4 * 1024 * 1024;
/// How often the file is looked at.
const OUTPUT_LOOK: Duration = Duration::from_secs(2);

/// What a host needs to find a detached agent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetachedRecord {
    #[serde(flatten)]
    process: pid_file::Record,
    /// The agent instance.
    pub agent: AgentName,
    /// Its protocol family.
    pub family: String,
    /// Which life of its process.
    pub incarnation: Incarnation,
    /// Program and arguments, as configured when it was started.
    pub command: Vec<String>,
    /// Environment that was added to the host's own, as configured then.
    pub env: BTreeMap<String, String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Where its output is.
    pub output: PathBuf,
    /// Where it listens, in its family's words; empty until it has said so.
    pub endpoint: String,
    /// What it takes as proof.
    pub secret: String,
    /// A directory of its own, which goes when it has ended.
    #[serde(default)]
    pub dir: Option<PathBuf>,
}

impl DetachedRecord {
    /// Reads a record; `None` if there is none that can be read.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Whether the process that it names is still that process.
    pub fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Removes what an ended process leaves behind, but for the record.
    pub fn clean(&self) {
        let _ = fs::remove_file(&self.output);
        if let Some(dir) = &self.dir {
            let _ = fs::remove_dir_all(dir);
        }
    }

    /// Written aside and renamed, so that it is whole or not there, and readable for its user only.
    fn write(&self, path: &Path) -> io::Result<()> {
        let aside = path.with_extension("part");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&aside)?;
        io::Write::write_all(&mut file, &serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    }
}

/// A running process that outlives the host.
#[derive(Debug)]
pub struct DetachedProcess {
    pid: Pid,
    alive: Arc<Mutex<bool>>,
    exit: watch::Receiver<Option<Exit>>,
    output: Arc<StderrRing>,
    record: Arc<Mutex<DetachedRecord>>,
    path: PathBuf,
}

impl DetachedProcess {
    /// Starts a process as `launch` says, with `arguments` after its command and `secrets` in its environment beside what is
    /// configured. `secret` is kept in the record, and so is the `socket` that it is to listen on, if that is known before, in a
    /// directory of its own. Behind `agent-exec` it runs only once all that is recorded.
    ///
    /// # Errors
    /// [`StartError::Spawn`] if the working directory or the program is not there, or may not be used, or if it could not be
    /// recorded: an agent that a restarted host could not find again is not started.
    pub async fn start(
        launch: &Launch,
        family: &str,
        arguments: &[&str],
        secrets: &[(&str, &str)],
        secret: &str,
        socket: Option<&Path>,
    ) -> Result<Self, StartError> {
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
        Self::spawn(launch, family, arguments, secrets, secret, socket)
            .await
            .map_err(|error| spawn_error(error.to_string()))
    }

    async fn spawn(
        launch: &Launch,
        family: &str,
        arguments: &[&str],
        secrets: &[(&str, &str)],
        secret: &str,
        socket: Option<&Path>,
    ) -> io::Result<Self> {
        let path = match &launch.pid_file {
            Some(path) => path.with_extension(EXTENSION),
            None => {
                std::env::temp_dir().join(format!("pilothouse-{}.{EXTENSION}", launch.incarnation))
            }
        };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let output = path.with_extension("out");
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&output)?;
        let mark = descendants::new_mark();
        let mut launch = launch.clone();
        let configured = launch.env.clone();
        for (name, value) in secrets {
            launch
                .env
                .entry((*name).to_owned())
                .or_insert_with(|| (*value).to_owned());
        }
        launch.env.insert(DETACHED.to_owned(), "1".to_owned());
        let errors = file.try_clone()?;
        // `agent-exec` makes it a session of its own, which the leader of a group could not, and waits on its input.
        let has_helper = !launch.wrapper.is_empty();
        let mut child = spawn_with(&launch, arguments, &mark, |command| {
            command
                .stdout(Stdio::from(file))
                .stderr(Stdio::from(errors));
            if has_helper {
                command.stdin(Stdio::piped());
            } else {
                command.stdin(Stdio::null());
                std::os::unix::process::CommandExt::process_group(command, 0);
            }
        })
        .await?;
        let id = child.id();
        let record = pid_file::Record::of(id, &mark).map(|process| DetachedRecord {
            process,
            agent: launch.agent.clone(),
            family: family.to_owned(),
            incarnation: launch.incarnation,
            command: launch.command.clone(),
            env: configured,
            cwd: launch.cwd.clone(),
            output: output.clone(),
            endpoint: socket.map_or_else(String::new, |path| path.to_string_lossy().into_owned()),
            secret: secret.to_owned(),
            dir: socket.and_then(Path::parent).map(Path::to_owned),
        });
        let waits = child.stdin.take();
        let alive = Arc::new(Mutex::new(true));
        let (ended, exit) = watch::channel(None);
        let pid = pid_of(id)?;
        watch_exit(
            child,
            pid,
            Arc::clone(&alive),
            ended,
            Some(path.clone()),
            mark,
        )?;
        let kill = |error: io::Error| {
            let _ = kill_process_group(pid, Signal::KILL);
            error
        };
        let record = record.map_err(kill)?;
        record.write(&path).map_err(kill)?;
        if let Some(mut input) = waits {
            // If it has ended already, whoever waits for it to listen tells why.
            let _ = io::Write::write_all(&mut input, b"\n");
        }
        Ok(Self::new(pid, alive, exit, record, path, &launch))
    }

    /// Takes a process up that an earlier host left running.
    ///
    /// # Errors
    /// `NotFound` if it has ended, or what the system says.
    pub fn attach(path: &Path, record: DetachedRecord, launch: &Launch) -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the agent's process has ended");
        let pid = pid_of(record.process.pid)?;
        // Held first: what is then compared is of the process that is watched.
        let held = Held::open(pid).map_err(|_| gone())?;
        if !record.is_alive() {
            return Err(gone());
        }
        let alive = Arc::new(Mutex::new(true));
        let (ended, exit) = watch::channel(None);
        let (still, mark) = (Arc::clone(&alive), record.process.mark.clone());
        let (file, id) = (path.to_owned(), record.process.pid);
        std::thread::Builder::new()
            .name("agent-exit".to_owned())
            .spawn(move || {
                held.wait();
                // It is another's child: once it is gone its number may be anybody's, so its group is left to the mark.
                *lock(&still) = false;
                descendants::kill_marked(&mark);
                pid_file::remove(&file, id);
                ended.send_replace(Some(Exit { status: None }));
            })?;
        Ok(Self::new(pid, alive, exit, record, path.to_owned(), launch))
    }

    fn new(
        pid: Pid,
        alive: Arc<Mutex<bool>>,
        exit: watch::Receiver<Option<Exit>>,
        record: DetachedRecord,
        path: PathBuf,
        launch: &Launch,
    ) -> Self {
        let mut launch = launch.clone();
        launch
            .env
            .insert("AGENT_PASSWORD".to_owned(), record.secret.clone());
        let output = Arc::new(StderrRing::new(launch_redactor(&launch)));
        let record = Arc::new(Mutex::new(record));
        tokio::spawn(follow(
            Arc::clone(&record),
            Arc::clone(&output),
            exit.clone(),
        ));
        Self {
            pid,
            alive,
            exit,
            output,
            record,
            path,
        }
    }

    /// Notes where it listens, on disk.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn set_endpoint(&self, endpoint: &str) -> io::Result<()> {
        let mut record = lock(&self.record);
        record.endpoint = endpoint.to_owned();
        record.write(&self.path)
    }

    /// What it wrote to its file, at most `limit` bytes of the beginning.
    pub fn written(&self, limit: u64) -> String {
        let path = lock(&self.record).output.clone();
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(path) {
            let _ = file.take(limit).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Its process id, which is its group's id too.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// What it wrote last, to both outputs.
    pub fn output(&self) -> &Arc<StderrRing> {
        &self.output
    }

    /// Waits until it has ended.
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

    /// A step of an interrupt, to its group; SIGKILL also to everything else that it started.
    ///
    /// # Errors
    /// `NotFound` once it has ended.
    pub fn escalate(&self, step: Escalation) -> io::Result<()> {
        let signal = match step {
            Escalation::Interrupt => Signal::INT,
            Escalation::Terminate => Signal::TERM,
            Escalation::Kill => Signal::KILL,
        };
        send(self.pid, &self.alive, signal)
    }

    /// Ends it: SIGTERM, then SIGKILL, each to its group.
    pub async fn stop(&self, timers: StopTimers) {
        for step in [Escalation::Terminate, Escalation::Kill] {
            let signal = match step {
                Escalation::Kill => Signal::KILL,
                Escalation::Interrupt | Escalation::Terminate => Signal::TERM,
            };
            // It may have ended this instant. Killing reads all of /proc.
            let (pid, alive) = (self.pid, Arc::clone(&self.alive));
            let _ = tokio::task::spawn_blocking(move || send(pid, &alive, signal)).await;
            let patience = tokio::time::timeout(timers.after_terminate, self.exited());
            if patience.await.is_ok() {
                return;
            }
        }
    }
}

/// Only the death of its host leaves it running: whoever lets go of it ends it.
impl Drop for DetachedProcess {
    fn drop(&mut self) {
        let _ = self.escalate(Escalation::Kill);
    }
}

/// Removes what a host that was killed left of processes that it had not recorded: they have ended without having run. Called
/// before anything is started.
pub fn remove_left(dir: &Path) {
    for file in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = file.path();
        let left = match path.extension().and_then(|extension| extension.to_str()) {
            Some("part") => true,
            Some("out") => !path.with_extension(EXTENSION).exists(),
            _ => false,
        };
        if left {
            let _ = fs::remove_file(path);
        }
    }
}

fn pid_of(id: u32) -> io::Result<Pid> {
    i32::try_from(id)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the system gave a process id out of range"))
}

/// Reads what is added to its file, keeps the last of it, and keeps the file small.
async fn follow(
    record: Arc<Mutex<DetachedRecord>>,
    ring: Arc<StderrRing>,
    mut exit: watch::Receiver<Option<Exit>>,
) {
    let path = lock(&record).output.clone();
    let mut read = 0;
    loop {
        let over = exit.borrow().is_some();
        let (file, from) = (path.clone(), read);
        let added = tokio::task::spawn_blocking(move || added(&file, from)).await;
        if let Ok(Ok((bytes, at))) = added {
            ring.push(&bytes);
            read = at;
        }
        if over {
            ring.end();
            lock(&record).clean();
            return;
        }
        tokio::select! {
            ended = exit.wait_for(Option::is_some) => if ended.is_err() {
                // Nobody listens any more, and it may live on.
                return;
            },
            () = tokio::time::sleep(OUTPUT_LOOK) => {}
        }
    }
}

/// What was added to a file since, and where it ends now. Nothing is lost but what was written just as it was emptied.
fn added(path: &Path, from: u64) -> io::Result<(Vec<u8>, u64)> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let from = if from > length { 0 } else { from };
    let start = from.max(length.saturating_sub(super::STDERR_RING as u64));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.by_ref().take(length - start).read_to_end(&mut bytes)?;
    if length > OUTPUT_LIMIT {
        file.set_len(0)?;
        return Ok((bytes, 0));
    }
    Ok((bytes, length))
}
