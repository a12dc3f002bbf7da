//! Words into a turn, after it, and its end before its time.

use crate::{
    lane::{Lane, conversation},
    outcome::Ended,
};
use pilothouse_domain::{
    CommandBody, DispatchMode, ItemStatus, Mode, RequestStatus, RunStatus, ThreadId,
    request::OptionEffect,
};
use pilothouse_engine::RowContent;
use pilothouse_orchestrator::Offer;
use pilothouse_tests::until;
use serde_json::json;
use std::fs;

pub(super) fn steer(lane: &mut Lane) -> Ended {
    into_the_turn(lane, false)
}

pub(super) fn restart(lane: &mut Lane) -> Ended {
    into_the_turn(lane, true)
}

/// Words into a turn: as the agent takes them, or by stopping it and starting it again.
fn into_the_turn(lane: &mut Lane, restart: bool) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (prompt, gate) = lane.held("begin");
    lane.say(thread, &prompt);
    lane.hears(thread, "one two");
    let (run, offer) = lane.device.wait("words to be offered", |seen| {
        let header = seen.timelines.get(&thread)?.header.as_ref()?;
        let offers = header.affordances.as_ref()?;
        let offer = if restart {
            &offers.restart
        } else {
            &offers.steer
        };
        let possible = matches!(offer, Offer::Available | Offer::Destructive { .. });
        possible.then_some((header.active.as_ref()?.run, offer.clone()))
    });
    let accept_stop = match &offer {
        Offer::Destructive { items, .. } => items.clone(),
        _ => Vec::new(),
    };
    let aside = lane.script("aside", &[json!({"text": "Turned."})]);
    let body = CommandBody::MessageSend {
        text: aside.text.clone(),
        attachments: Vec::new(),
        dispatch: if restart {
            DispatchMode::RestartActive { run }
        } else {
            DispatchMode::SteerActive { run }
        },
        accept_stop,
    };
    if let Err(refusal) = lane.ask(thread, body) {
        return Ended::Refused(refusal);
    }
    if offer == Offer::Available && !restart {
        // An answer that ends first is no turn any more into which words can be said.
        lane.handed_over(thread, &aside.text);
        lane.world.model.release(&gate);
    }
    let last = lane.device.idle(thread).last_run();
    lane.world.model.release(&gate);
    let last = last.expect("a run that ended");
    assert_eq!(last.status, RunStatus::Completed);
    // Where the agent closes what it had said as an answer, that answer keeps a run of its own.
    let superseded = restart && last.id != run;
    assert_eq!(last.ordinal, if superseded { 2 } else { 1 });
    assert!(
        lane.held_by_model(&[&aside])[0] >= 1,
        "the words reached the model"
    );
    let said = conversation(lane, thread);
    assert_eq!(said.last().map(String::as_str), Some("Turned."), "{said:?}");
    assert!(said.contains(&aside.text), "{said:?}");
    if superseded {
        let words =
            "what it had said until then stays as a run by itself, and the words begin the next";
        Ended::Noted(words.to_owned())
    } else if restart || offer == Offer::Available {
        Ended::Native
    } else {
        Ended::Otherwise("the turn is stopped and started again with the words".to_owned())
    }
}

pub(super) fn queue(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (prompt, gate) = lane.held("first");
    lane.say(thread, &prompt);
    lane.hears(thread, "one two");
    let next = lane.script("next", &[json!({"text": "Next."})]);
    let body = CommandBody::MessageSend {
        text: next.text.clone(),
        attachments: Vec::new(),
        dispatch: DispatchMode::QueueAfterActive,
        accept_stop: Vec::new(),
    };
    lane.device
        .accepted(&lane.device.submit(Some(thread), body));
    lane.device.wait("the message in the queue", |seen| {
        let header = seen.timelines.get(&thread)?.header.as_ref()?;
        (header.queue.len() == 1 && !header.queue[0].pending).then_some(())
    });
    assert_eq!(lane.held_by_model(&[&next]), [0], "it waits");
    lane.world.model.release(&gate);
    lane.device.completed(thread, 2);
    assert!(lane.held_by_model(&[&next])[0] >= 1, "it reached the model");
    let whole = "one two three four five six";
    let said = [&*prompt.text, whole, &*next.text, "Next."];
    assert_eq!(conversation(lane, thread), said);
    Ended::Native
}

/// Stops the thread's first run, and goes on with another.
fn stop(lane: &mut Lane, thread: ThreadId) {
    lane.device.accepted(&lane.device.interrupt(thread));
    let run = lane.device.ended(thread, 1);
    assert_eq!(run.status, RunStatus::Interrupted, "the run was stopped");
}

pub(super) fn in_text(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (prompt, gate) = lane.held("speak");
    lane.say(thread, &prompt);
    lane.hears(thread, "one two");
    stop(lane, thread);
    lane.world.model.release(&gate);
    let kept = conversation(lane, thread);
    assert!(
        kept.iter().any(|text| text.starts_with("one two")),
        "its words stay: {kept:?}"
    );
    lane.talk(thread, 2);
    Ended::Native
}

/// The processes whose command line holds this.
fn running(mark: &str) -> Vec<String> {
    let dirs = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = dirs.filter_map(|dir| fs::read(dir.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(mark))
        .collect()
}

pub(super) fn in_tool(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let mark = format!(
        "waits-{}-{}-{}",
        lane.agent.name(),
        std::process::id(),
        lane.world.model.port()
    );
    // It writes, because a command that only waits is not asked for by every agent, or not run at all.
    let script = format!(
        "const fs = require('fs'); fs.writeFileSync('waits.txt', '{mark}'); setTimeout(() => fs.writeFileSync('slept.txt', ''), 3000000)"
    );
    let command = format!("node -e \"{script}\"");
    let row = lane.asked(thread, "sleep", &command);
    lane.answer(&row, OptionEffect::AllowOnce);
    until("the command to run", || {
        match lane.world.text_of("waits.txt") {
            Some(text) if text == mark && !running(&mark).is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    stop(lane, thread);
    let shown = lane.rows(thread, |row| {
        matches!(row.content, RowContent::Command { .. }).then_some(row.status)
    });
    until("the command to be gone", || match running(&mark) {
        found if found.is_empty() => Ok(()),
        found => Err(format!("{found:?}, shown as {shown:?}")),
    });
    let ended = |status: &ItemStatus| !status.is_live() && *status != ItemStatus::Completed;
    assert!(
        shown.len() == 1 && shown.iter().all(ended),
        "it is shown as stopped: {shown:?}"
    );
    lane.talk(thread, 2);
    assert_eq!(lane.world.text_of("slept.txt"), None);
    Ended::Native
}

pub(super) fn while_asking(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let row = lane.asked(thread, "stopped", "echo stopped >> stopped.txt");
    stop(lane, thread);
    lane.device.status(thread, row.request, |status| {
        (*status == RequestStatus::Withdrawn).then_some(())
    });
    lane.device.nothing_waits();
    lane.talk(thread, 2);
    assert_eq!(lane.world.text_of("stopped.txt"), None, "it never ran");
    Ended::Native
}
