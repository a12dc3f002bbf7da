//! The world of one seed: the host, its devices, the networks between them, the disks, and what was done to them.

use crate::{
    asked::answer_of,
    journal::Journal,
    phone::Phone,
    plants::Plant,
    story::{Choice, Family, How, Story},
};
use pilothouse_domain::{
    AgentName, CommandBody, DispatchMode, Mode, WorkspaceId, thread::Selection,
};
use pilothouse_tests::{Host, Proxy, mount::Mount, places};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

/// KiB of a small disk of the host, with room for a story.
const HOST_DISK: u32 = 12 * 1024;
/// KiB of a small disk of a device.
const DEVICE_DISK: u32 = 8 * 1024;

/// What a command was for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum For {
    Message { name: String },
    Answer { request: String, choice: Choice },
    Unqueue { run: String },
    Other { what: &'static str },
}

/// A command that a device was asked to submit.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) device: usize,
    /// The number of the question; without an answer to it the device died before it had told anything.
    pub(crate) n: u64,
    /// `None` for the command that makes one.
    pub(crate) thread: Option<String>,
    pub(crate) what: For,
    /// Unix ms.
    pub(crate) at: u64,
}

/// A process that was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kill {
    /// Unix ms.
    pub(crate) at: u64,
    /// The agent's process id; `None` for the host, with whom all agents die.
    pub(crate) agent: Option<u32>,
}

/// A running world.
pub(crate) struct Stage {
    pub(crate) host: Host,
    pub(crate) phones: Vec<Phone>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) kills: Vec<Kill>,
    /// Spans in which the host or an agent stood still or the host's disk was full, Unix ms.
    pub(crate) stalls: Vec<(u64, u64)>,
    host_full_since: Option<u64>,
    /// Ids of the threads that were made, by their place in the story.
    pub(crate) threads: BTreeMap<usize, String>,
    /// Counts of what was done, for the report.
    pub(crate) done: BTreeMap<&'static str, u64>,
    pub(crate) host_up: bool,
    agent: &'static str,
    began: Instant,
    timeline: Vec<String>,
    journal: PathBuf,
    host_disk: PathBuf,
    device_disk: PathBuf,
    // Unmounted after everything that writes there has ended: fields are dropped in this order.
    _mounts: Vec<Mount>,
    dir: TempDir,
}

/// Unix ms.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn config(story: &Story, root: &Path, plant: &Plant) -> String {
    let text = |path: &Path| Value::from(path.to_string_lossy()).to_string();
    let (program, modes) = match story.family {
        Family::Codex => ("scripted-codex.mjs", ""),
        // Nobody measured it: its thread would say that it may not ask.
        Family::Acp => ("scripted-acp.mjs", "modes = { ask = \"default\" }\n"),
    };
    let mut command = vec![
        "\"node\"".to_owned(),
        text(&places::support(program)),
        "\"--script\"".to_owned(),
        text(&root.join("script.json")),
        "\"--log\"".to_owned(),
        text(&root.join("journal.jsonl")),
        "\"--store\"".to_owned(),
        text(&root.join("agent-store")),
    ];
    if let Some(name) = plant.of_agent() {
        command.extend(["\"--plant\"".to_owned(), Value::from(name).to_string()]);
    }
    format!(
        "[host]\nname = \"chaos\"\n\n[workspaces.demo]\npath = {}\n\n[agents.{}]\nprotocol = \"{}\"\ncommand = [{}]\n{modes}",
        text(&root.join("workspace")),
        story.family.agent(),
        story.family.protocol(),
        command.join(", ")
    )
}

impl Stage {
    /// Starts it all.
    pub(crate) fn start(story: &Story, plant: &Plant) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("pilothouse-chaos-")
            .tempdir()
            .expect("a temporary directory");
        let root = dir.path().to_owned();
        for name in ["workspace", "agent-store", "host-disk", "device-disk"] {
            fs::create_dir_all(root.join(name)).expect("a directory");
        }
        let (host_disk, device_disk) = (root.join("host-disk"), root.join("device-disk"));
        let mut mounts = Vec::new();
        if story.small_disks {
            mounts.push(Mount::tmpfs(&host_disk, HOST_DISK));
            mounts.push(Mount::tmpfs(&device_disk, DEVICE_DISK));
        }
        fs::write(root.join("script.json"), story.script().to_string()).expect("the script");
        fs::write(root.join("journal.jsonl"), "").expect("the journal");
        let toml = root.join("host.toml");
        fs::write(&toml, config(story, &root, plant)).expect("host.toml");
        let host = Host::start(places::pilothouse(), &root, host_disk.join("state"), toml);
        let mut stage = Self {
            proxies: (0..story.devices)
                .map(|_| Proxy::start(host.address()))
                .collect(),
            host,
            phones: Vec::new(),
            sent: Vec::new(),
            kills: Vec::new(),
            stalls: Vec::new(),
            host_full_since: None,
            threads: BTreeMap::new(),
            done: BTreeMap::new(),
            host_up: true,
            agent: story.family.agent(),
            began: Instant::now(),
            timeline: Vec::new(),
            journal: root.join("journal.jsonl"),
            host_disk,
            device_disk: device_disk.clone(),
            _mounts: mounts,
            dir,
        };
        for number in 0..story.devices {
            let name = format!("d{number}");
            let data = match number {
                0 => device_disk.join(&name),
                _ => root.join(&name),
            };
            let mut phone = Phone::start(&root, data, &name);
            let code = stage
                .host
                .pairing_code(Some(stage.proxies[number].address()));
            if let Err(error) = phone.call(json!({"do": "pair", "code": code})) {
                panic!("{name} does not pair: {error}");
            }
            stage.phones.push(phone);
        }
        stage
    }

    /// Notes what happens, for whoever has to understand a failure.
    pub(crate) fn note(&mut self, what: impl Into<String>) {
        let at = self.began.elapsed().as_millis();
        self.timeline
            .push(format!("{at:>6} ms ({})  {}", now(), what.into()));
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    pub(crate) fn timeline(&self) -> &[String] {
        &self.timeline
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves the directory where it is when this is dropped; what is on small disks goes all the same.
    pub(crate) fn keep(&mut self) {
        self.dir.disable_cleanup(true);
    }

    /// The agent's log as it is now.
    pub(crate) fn journal(&self) -> Journal {
        Journal::read(&self.journal)
    }

    /// Lets a device submit a command, without waiting for anything.
    pub(crate) fn submit(
        &mut self,
        device: usize,
        thread: Option<&str>,
        body: &CommandBody,
        what: For,
    ) -> u64 {
        let host = self.host.id().to_string();
        let body = serde_json::to_value(body).expect("commands are JSON");
        let at = now();
        let n = self.phones[device]
            .ask(json!({"do": "submit", "host": host, "thread": thread, "body": body}));
        self.note(format!(
            "d{device} submits #{n}: {what:?}{}",
            if self.phones[device].is_up() {
                ""
            } else {
                " (and is dead)"
            }
        ));
        self.sent.push(Sent {
            device,
            n,
            thread: thread.map(str::to_owned),
            what,
            at,
        });
        n
    }

    pub(crate) fn create(&mut self, device: usize, thread: usize) {
        let body = CommandBody::ThreadCreate {
            title: format!("t{thread}"),
            workspace: WorkspaceId::from("demo"),
            selection: Selection {
                agent: AgentName::from(self.agent),
                model: None,
                effort: None,
                mode: Mode::Ask,
                sandbox: None,
            },
        };
        let n = self.submit(device, None, &body, For::Other { what: "create" });
        // The id is needed for all that follows: this device is not killed before it has told it.
        let told = pilothouse_tests::until("a thread's id", || {
            self.phones[device]
                .reply(n)
                .ok_or_else(|| "nothing yet".to_owned())
        });
        match told["ok"]["thread"].as_str() {
            Some(id) => {
                // Nobody writes in a thread before it is shown.
                pilothouse_tests::until("the thread in its maker's list", || {
                    let state = self.phones[device].state();
                    let shown = !state["threads"][id].is_null();
                    shown.then_some(()).ok_or_else(|| state.to_string())
                });
                self.note(format!("t{thread} is {id}"));
                self.threads.insert(thread, id.to_owned());
            }
            None => self.note(format!("t{thread} could not be made: {told}")),
        }
    }

    pub(crate) fn send(&mut self, device: usize, thread: usize, name: &str, how: How) {
        let Some(id) = self.threads.get(&thread).cloned() else {
            return self.note(format!("no t{thread} for {name}"));
        };
        if !self.phones[device].is_up() {
            return self.note(format!("d{device} is down: {name} is not sent"));
        }
        if self.phones[device].state()["threads"][&id].is_null() {
            return self.note(format!(
                "d{device} does not know t{thread} yet: {name} is not sent"
            ));
        }
        let run = match how {
            How::Start | How::Queue => None,
            How::Steer | How::Restart => self.active(device, &id).map(|(run, _)| run),
        };
        let dispatch = match (how, run.and_then(|run| run.parse().ok())) {
            (How::Queue, _) => DispatchMode::QueueAfterActive,
            (How::Steer, Some(run)) => DispatchMode::SteerActive { run },
            (How::Restart, Some(run)) => DispatchMode::RestartActive { run },
            _ => DispatchMode::StartImmediately,
        };
        let body = CommandBody::MessageSend {
            text: format!("[[do:{name}]] please"),
            attachments: Vec::new(),
            dispatch,
            accept_stop: Vec::new(),
        };
        self.count("messages");
        let what = For::Message {
            name: name.to_owned(),
        };
        self.submit(device, Some(&id), &body, what);
    }

    /// Sends a message from another process on a device's data directory.
    pub(crate) fn send_beside(&mut self, device: usize, thread: usize, name: &str, kill: bool) {
        // Where there is no room, a second process cannot be opened.
        if device == 0 {
            self.free(false);
        }
        let Some(id) = self.threads.get(&thread).cloned() else {
            return self.note(format!("no t{thread} for {name}"));
        };
        let mut beside = self.phones[device].beside();
        let known = pilothouse_tests::until("the first batches", || {
            let state = beside.state();
            let shown = !state["link"].is_null();
            shown
                .then(|| !state["threads"][&id].is_null())
                .ok_or_else(|| state.to_string())
        });
        if known {
            let body = CommandBody::MessageSend {
                text: format!("[[do:{name}]] please"),
                attachments: Vec::new(),
                dispatch: DispatchMode::StartImmediately,
                accept_stop: Vec::new(),
            };
            let host = self.host.id().to_string();
            let at = now();
            let told =
                beside.call(json!({"do": "submit", "host": host, "thread": id, "body": body}));
            let n = self.phones[device].adopt(&told);
            self.note(format!("d{device} submits #{n} beside: {name}: {told:?}"));
            self.count("messages");
            self.sent.push(Sent {
                device,
                n,
                thread: Some(id),
                what: For::Message {
                    name: name.to_owned(),
                },
                at,
            });
        }
        if kill {
            beside.kill_9();
            self.count("device kills");
        } else {
            beside.stop();
        }
    }

    /// The active run and attempt of a thread as a device shows it.
    fn active(&mut self, device: usize, thread: &str) -> Option<(String, Option<String>)> {
        let state = self.phones[device].state();
        let active = &state["timelines"][thread]["active"];
        if active["pending"] != json!(false) {
            return None;
        }
        let text = |field: &str| active[field].as_str().map(str::to_owned);
        Some((text("run")?, text("attempt")))
    }

    pub(crate) fn interrupt(&mut self, device: usize, thread: usize, hold: bool) {
        let id = self.threads.get(&thread).cloned();
        let (Some(id), true) = (id, self.phones[device].is_up()) else {
            return;
        };
        let Some((run, Some(attempt))) = self.active(device, &id) else {
            return self.note(format!("d{device} finds nothing to stop in t{thread}"));
        };
        let (Ok(run), Ok(attempt)) = (run.parse(), attempt.parse()) else {
            return;
        };
        let body = CommandBody::RunInterrupt {
            run,
            attempt,
            hold_queue: hold,
        };
        self.count("interrupts");
        self.submit(device, Some(&id), &body, For::Other { what: "interrupt" });
    }

    pub(crate) fn queue_edit(&mut self, device: usize, thread: usize, release: bool) {
        let id = self.threads.get(&thread).cloned();
        let (Some(id), true) = (id, self.phones[device].is_up()) else {
            return;
        };
        let header = self.phones[device].state()["timelines"][&id].clone();
        let revision = header["queue_revision"].as_u64().unwrap_or_default();
        if release {
            let body = CommandBody::QueueRelease { revision };
            self.submit(device, Some(&id), &body, For::Other { what: "release" });
        } else if let Some(run) = header["queue"][0]["run"].as_str().map(str::to_owned) {
            let Ok(parsed) = run.parse() else { return };
            let body = CommandBody::QueueRemove {
                run: parsed,
                revision,
            };
            self.submit(device, Some(&id), &body, For::Unqueue { run });
        }
    }

    /// Answers a request as a device shows it. `false`: it does not show it as pending.
    pub(crate) fn answer(&mut self, device: usize, row: &Value, choice: Choice) -> bool {
        let Some((body, request, choice)) = answer_of(row, choice) else {
            self.note(format!("d{device} cannot answer {row}"));
            return false;
        };
        let thread = row["thread"].as_str().unwrap_or_default().to_owned();
        self.count("answers");
        let what = For::Answer { request, choice };
        self.submit(device, Some(&thread), &body, what);
        true
    }

    /// What waits for an answer, as a device shows it.
    pub(crate) fn inbox(&mut self, device: usize) -> Vec<Value> {
        if !self.phones[device].is_up() {
            return Vec::new();
        }
        let state = self.phones[device].state();
        let rows = state["inbox"].as_array().cloned().unwrap_or_default();
        rows.into_iter()
            .filter(|row| row["pending"] == json!(true))
            .collect()
    }

    pub(crate) fn kill_host(&mut self) {
        if self.host_up {
            self.host.kill_9();
            self.host_up = false;
            self.kills.push(Kill {
                at: now(),
                agent: None,
            });
            self.count("host kills");
            self.note("the host is killed");
        }
    }

    pub(crate) fn restart_host(&mut self) {
        if !self.host_up {
            // A host without room to start says so and ends, which tests/tests/all/disks.rs looks at; its person makes room.
            self.free(true);
            self.host.restart();
            self.host_up = true;
            self.note(format!(
                "the host runs again, pid {}",
                self.host.process().id()
            ));
        }
    }

    /// One of the agents that run.
    pub(crate) fn agent(&self, nth: usize) -> Option<u32> {
        let pids = self.journal().pids();
        let alive: Vec<_> = pids.into_iter().filter(|pid| is_alive(*pid)).collect();
        alive.get(nth % alive.len().max(1)).copied()
    }

    pub(crate) fn kill_agent(&mut self, nth: usize) {
        let Some(pid) = self.agent(nth) else {
            return self.note("no agent to kill");
        };
        if let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(target, Signal::KILL);
        }
        self.kills.push(Kill {
            at: now(),
            agent: Some(pid),
        });
        self.count("agent kills");
        self.note(format!("agent {pid} is killed"));
    }

    /// Stops the host's process for a while.
    pub(crate) fn freeze_host(&mut self, ms: u64) {
        if self.host_up {
            self.freeze(self.host.process().id(), ms);
        }
    }

    /// Stops a process on whose records or words the judge counts for a while.
    pub(crate) fn freeze(&mut self, pid: u32, ms: u64) {
        let from = now();
        freeze(pid, true);
        sleep(Duration::from_millis(ms));
        freeze(pid, false);
        self.stalls.push((from, now()));
        self.count("stalls");
    }

    /// Fills a disk to the last byte.
    pub(crate) fn fill(&mut self, host: bool) {
        if host {
            self.host_full_since.get_or_insert_with(now);
        }
        let dir = if host {
            &self.host_disk
        } else {
            &self.device_disk
        };
        if let Ok(mut file) = File::options()
            .create(true)
            .append(true)
            .open(dir.join("filler"))
        {
            let block = vec![0x5a; 4096];
            while file.write_all(&block).is_ok() {}
            while file.write_all(&[0x5a]).is_ok() {}
        }
        self.count("disks filled");
        self.note(format!(
            "the disk of {} is full",
            if host { "the host" } else { "d0" }
        ));
    }

    /// Makes room again.
    pub(crate) fn free(&mut self, host: bool) {
        let dir = if host {
            &self.host_disk
        } else {
            &self.device_disk
        };
        if fs::remove_file(dir.join("filler")).is_ok() {
            if host && let Some(since) = self.host_full_since.take() {
                self.stalls.push((since, now()));
            }
            self.note(format!(
                "there is room again on the disk of {}",
                if host { "the host" } else { "d0" }
            ));
        }
    }
}

/// Stops a process for a while, or lets it go on.
fn freeze(pid: u32, frozen: bool) {
    let signal = if frozen { Signal::STOP } else { Signal::CONT };
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Whether a process runs; one that has ended and is not waited for does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
