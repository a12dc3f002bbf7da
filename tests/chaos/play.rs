//! Plays a story, then lets everything come to rest.

use crate::{
    stage::{For, Stage, is_alive},
    story::{Action, Choice, How, Story, name},
};
use pilothouse_domain::{CommandBody, ThreadId};
use pilothouse_tests::proxy::Way;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    thread::sleep,
    time::{Duration, Instant},
};

/// How long an answer waits for a request that the agent has asked, before there is nothing to answer.
const ASKED_SOON: Duration = Duration::from_millis(400);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(15);
/// How long nothing may be pending before everything is at rest.
const REST: Duration = Duration::from_millis(250);
/// How long coming to rest may take in all, however much happens meanwhile.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long a person waits before pressing once more on what has not changed.
const AGAIN: Duration = Duration::from_secs(3);
/// How often.
const TRIES: u32 = 6;

fn way(up: bool) -> Way {
    if up { Way::Up } else { Way::Down }
}

fn pause(ms: u64) {
    sleep(Duration::from_millis(ms));
}

/// Does what a story says, to its last action.
pub(crate) fn play(stage: &mut Stage, story: &Story) {
    for (before, action) in &story.actions {
        pause(*before);
        stage.note(format!("{action:?}"));
        act(stage, *action);
    }
}

fn act(stage: &mut Stage, action: Action) {
    match action {
        Action::Create { device, thread } => stage.create(device, thread),
        Action::Send {
            device,
            thread,
            message,
            how,
        } => stage.send(device, thread, &name(message), how),
        Action::SendBeside {
            device,
            thread,
            message,
            kill,
        } => stage.send_beside(device, thread, &name(message), kill),
        Action::Answer {
            device,
            nth,
            choice,
            also,
        } => answer(stage, device, nth, choice, also),
        Action::Interrupt {
            device,
            thread,
            hold,
        } => stage.interrupt(device, thread, hold),
        Action::Unqueue { device, thread } => stage.queue_edit(device, thread, false),
        Action::Release { device, thread } => stage.queue_edit(device, thread, true),
        Action::KillHost { down_ms } => {
            stage.kill_host();
            pause(down_ms);
            stage.restart_host();
        }
        Action::KillAgent { nth } => stage.kill_agent(nth),
        Action::KillDevice { device, down_ms } => {
            stage.phones[device].kill_9();
            stage.count("device kills");
            pause(down_ms);
            // A device without room to open its data says so and ends; its person makes room.
            if device == 0 {
                stage.free(false);
            }
            stage.phones[device].restart();
        }
        Action::FreezeHost { ms } => {
            stage.freeze_host(ms);
        }
        Action::FreezeDevice { device, ms } => {
            stage.phones[device].freeze(true);
            pause(ms);
            stage.phones[device].freeze(false);
            stage.count("stalls");
        }
        Action::FreezeAgent { nth, ms } => {
            if let Some(pid) = stage.agent(nth) {
                stage.freeze(pid, ms);
            }
        }
        Action::Cut { device } => {
            stage.proxies[device].cut();
            stage.count("cuts");
        }
        Action::CutAfter { device, up, bytes } => {
            stage.proxies[device].cut_after(way(up), bytes);
            stage.count("cuts");
        }
        Action::Hold { device, up } => {
            stage.proxies[device].hold(way(up));
            stage.count("stalls");
        }
        Action::Strand { device } => {
            stage.proxies[device].hold(Way::Up);
            pause(30);
            stage.proxies[device].strand();
            stage.count("reorders");
        }
        Action::Resume { device } => stage.proxies[device].resume(),
        Action::Refuse { device, ms } => {
            stage.proxies[device].refuse(true);
            stage.proxies[device].cut();
            pause(ms);
            stage.proxies[device].refuse(false);
            stage.count("cuts");
        }
        Action::Replay { device } => {
            let answered = stage.proxies[device].replay();
            stage.note(format!("replayed; the host answered {answered:?} bytes"));
            stage.count("replays");
        }
        Action::FillHostDisk => stage.fill(true),
        Action::FreeHostDisk => stage.free(true),
        Action::FillDeviceDisk => stage.fill(false),
        Action::FreeDeviceDisk => stage.free(false),
    }
}

/// One device answers, and another at the same moment, as each shows it.
fn answer(
    stage: &mut Stage,
    device: usize,
    nth: usize,
    choice: Choice,
    also: Option<(usize, Choice)>,
) {
    let began = Instant::now();
    let row = loop {
        let rows = stage.inbox(device);
        if let Some(row) = rows.get(nth % rows.len().max(1)) {
            break row.clone();
        }
        let journal = stage.journal();
        let waits = journal
            .asked()
            .keys()
            .any(|request| journal.answers(request).is_empty());
        if !waits || began.elapsed() > ASKED_SOON {
            return stage.note("nothing to answer");
        }
        sleep(LOOK);
    };
    let other = also.and_then(|(other, choice)| {
        let shown = stage
            .inbox(other)
            .into_iter()
            .find(|theirs| theirs["request"] == row["request"])?;
        Some((other, shown, choice))
    });
    stage.answer(device, &row, choice);
    if let Some((other, shown, choice)) = other {
        stage.answer(other, &shown, choice);
    }
}

/// The end of all faults: everything runs, is connected and has room.
pub(crate) fn calm(stage: &mut Stage) {
    stage.note("the faults end");
    stage.free(true);
    stage.free(false);
    stage.restart_host();
    for device in 0..stage.phones.len() {
        stage.proxies[device].refuse(false);
        stage.proxies[device].resume();
        if !stage.phones[device].is_up() {
            stage.phones[device].restart();
        }
        let told = stage.phones[device].call(json!({"do": "network"}));
        if let Err(error) = told {
            panic!("d{device}: {error}");
        }
    }
}

/// What one person, at the first device, has done to bring things to an end.
#[derive(Default)]
struct Hand {
    pressed: BTreeMap<String, (u32, Instant)>,
}

impl Hand {
    /// Whether it is time to press on something: the first time at once, again after a while.
    fn may(&mut self, what: String) -> bool {
        let now = Instant::now();
        let held = self.pressed.entry(what).or_insert((0, now));
        let may = held.0 == 0 || (held.0 < TRIES && held.1.elapsed() > AGAIN);
        if may {
            *held = (held.0 + 1, now);
        }
        may
    }
}

/// Waits until nothing is pending anywhere, with a person at the first device who answers what waits, releases what is
/// held and stops what goes on for ever.
///
/// # Errors
/// Nothing changed for `stuck` while something was pending.
pub(crate) fn settle(stage: &mut Stage, stuck: Duration) -> Result<(), String> {
    let began = Instant::now();
    let mut hand = Hand::default();
    let mut last = (0, Instant::now());
    let mut rest: Option<Instant> = None;
    loop {
        let states: Vec<Value> = stage.phones.iter_mut().map(|phone| phone.state()).collect();
        let mut pending: Vec<String> = states
            .iter()
            .enumerate()
            .flat_map(|(device, state)| {
                pending(state)
                    .into_iter()
                    .map(move |what| format!("d{device}: {what}"))
            })
            .collect();
        if pending.is_empty() {
            pending = unseen(stage, &states);
        }
        if pending.is_empty() {
            if rest.get_or_insert_with(Instant::now).elapsed() > REST {
                return Ok(());
            }
        } else {
            rest = None;
            act_for(stage, &states[0], &mut hand);
        }
        let mut hasher = DefaultHasher::new();
        for state in &states {
            let mut state = state.clone();
            // It holds times of tries, which go on when nothing else does.
            state["link"] = Value::Null;
            state.to_string().hash(&mut hasher);
        }
        stage.journal().lines.len().hash(&mut hasher);
        let seen = hasher.finish();
        if seen != last.0 {
            last = (seen, Instant::now());
        }
        if last.1.elapsed() > stuck || began.elapsed() > PATIENCE {
            return Err(format!(
                "stuck: no change for {} s ({} s in all) while this was pending:\n    {}",
                last.1.elapsed().as_secs(),
                began.elapsed().as_secs(),
                pending.join("\n    ")
            ));
        }
        sleep(LOOK);
    }
}

/// What a device that seems to be at rest has not shown yet: what came of its commands, and where the host's logs stand.
fn unseen(stage: &mut Stage, states: &[Value]) -> Vec<String> {
    let mut unseen = Vec::new();
    for sent in stage.sent.clone() {
        let phone = &mut stage.phones[sent.device];
        let reply = phone.reply(sent.n).unwrap_or_default();
        let Some(command) = reply["ok"]["command"].as_str() else {
            continue;
        };
        if phone.told(command).is_some() {
            continue;
        }
        // One that is known no more is in the log.
        let known = phone.call(json!({"do": "outcome", "command": command}));
        if known.is_ok_and(|known| known["outcome"].is_null()) {
            unseen.push(format!(
                "d{}: nothing came of {:?} yet",
                sent.device, sent.what
            ));
        }
    }
    let threads = stage.host.ledger(|ledger| ledger.threads());
    // The host's own log has the zero id and is not for devices.
    for thread in threads.into_iter().filter(|id| *id != ThreadId::default()) {
        let digest = stage.host.digest(thread).to_string();
        for (device, state) in states.iter().enumerate() {
            if state["timelines"][thread.to_string()]["digest"] != json!(digest) {
                unseen.push(format!("d{device}: not where the host is in {thread}"));
            }
        }
    }
    unseen
}

/// What is not at rest in what a device shows.
fn pending(state: &Value) -> Vec<String> {
    let mut pending = Vec::new();
    if state["synchronised"] != json!(true) {
        pending.push(format!("not synchronised: {}", state["link"]));
    }
    for row in state["delivery"].as_array().into_iter().flatten() {
        let word = row["state"]["is"].as_str().unwrap_or_default();
        if matches!(word, "saved" | "sent" | "waiting" | "on_host") {
            pending.push(format!("outbox: {row}"));
        }
    }
    for row in state["inbox"].as_array().into_iter().flatten() {
        pending.push(format!("inbox: {row}"));
    }
    for (thread, row) in state["threads"].as_object().into_iter().flatten() {
        let header = &state["timelines"][thread];
        if header.is_null() {
            pending.push(format!("{thread}: not shown yet"));
            continue;
        }
        let quiet = header["synchronised"] == json!(true)
            && header["active"].is_null()
            && header["queue"].as_array().is_some_and(Vec::is_empty)
            && header["outstanding"] == json!(0)
            && row["pending"] == json!(false)
            // The list and the thread come by different ways.
            && row["summary"]["seq"] == header["cursor"]["seq"];
        if !quiet {
            pending.push(format!("{thread}: {header} {row}"));
        }
    }
    pending
}

fn act_for(stage: &mut Stage, state: &Value, hand: &mut Hand) {
    for row in state["inbox"].as_array().into_iter().flatten() {
        if row["pending"] == json!(true) && hand.may(format!("{}{}", row["request"], row["hash"])) {
            stage.answer(0, row, Choice::Yes);
        }
    }
    let hanging = stage.journal().hanging(is_alive);
    let hangs = |stage: &Stage, thread: &str| {
        stage.sent.iter().any(|sent| match &sent.what {
            For::Message { name } => {
                sent.thread.as_deref() == Some(thread) && hanging.contains(name)
            }
            _ => false,
        })
    };
    for (thread, header) in state["timelines"].as_object().into_iter().flatten() {
        let waits = header["queue"].as_array().is_some_and(|q| !q.is_empty());
        let revision = header["queue_revision"].as_u64().unwrap_or_default();
        if waits && !header["held"].is_null() && hand.may(format!("{thread}{revision}")) {
            let body = CommandBody::QueueRelease { revision };
            let what = For::Other { what: "release" };
            stage.submit(0, Some(thread), &body, what);
        }
        let active = &header["active"];
        let named = (active["run"].as_str(), active["attempt"].as_str());
        if let (Some(run), Some(attempt)) = named
            && hangs(stage, thread)
            && active["interrupting"] == json!(false)
            && hand.may(format!("{run}{attempt}"))
            && let (Ok(run), Ok(attempt)) = (run.parse(), attempt.parse())
        {
            let body = CommandBody::RunInterrupt {
                run,
                attempt,
                hold_queue: false,
            };
            let what = For::Other { what: "interrupt" };
            stage.submit(0, Some(thread), &body, what);
        }
    }
}

/// A last message on every thread: it has to be answered as if nothing had ever been wrong.
pub(crate) fn close(stage: &mut Stage) -> Vec<String> {
    let threads: Vec<usize> = stage.threads.keys().copied().collect();
    let mut names = Vec::new();
    for thread in threads {
        let name = format!("c{thread}");
        let id = stage.threads[&thread].clone();
        // One whose making was never told to its device, or was refused, is no thread.
        if stage.phones[0].state()["threads"][&id].is_null() {
            continue;
        }
        stage.send(0, thread, &name, How::Queue);
        names.push(name);
    }
    names
}
