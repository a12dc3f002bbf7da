//! What is done with a conversation as a whole.

use crate::{lane::Lane, outcome::Ended};
use pilothouse_domain::{
    CommandBody, Mode, Refusal, RunId, RunStatus, ThreadId, command::ForkWorkspace,
    request::OptionEffect,
};
use pilothouse_engine::RowContent;
use pilothouse_tests::WITHOUT_TOOLS;
use serde_json::json;

fn forked(lane: &mut Lane, source: ThreadId, run: Option<RunId>) -> Result<ThreadId, Refusal> {
    let body = CommandBody::ThreadFork {
        title: "another way".to_owned(),
        source,
        run,
        workspace: ForkWorkspace::SameTree,
    };
    let ticket = lane.device.submit(None, body);
    lane.taken(&ticket)?;
    lane.adopt(ticket.thread());
    Ok(ticket.thread())
}

pub(super) fn fork(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (one, _) = lane.talk(thread, 1);
    let (two, _) = lane.talk(thread, 2);
    let other = match forked(lane, thread, None) {
        Ok(other) => other,
        Err(refusal) => return Ended::Refused(refusal),
    };
    let before = lane.held_by_model(&[&one, &two]);
    let (three, _) = lane.talk(other, 1);
    let after = lane.held_by_model(&[&one, &two]);
    assert_eq!(
        after,
        [before[0] + 1, before[1] + 1],
        "the fork knows what was said"
    );
    // The source goes on for itself.
    lane.talk(thread, 3);
    assert_eq!(
        lane.held_by_model(&[&three]),
        [1],
        "the source knows nothing of the fork"
    );
    Ended::Native
}

pub(super) fn fork_earlier(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (one, first) = lane.talk(thread, 1);
    let (two, _) = lane.talk(thread, 2);
    let other = match forked(lane, thread, Some(first)) {
        Ok(other) => other,
        Err(refusal) => return Ended::Refused(refusal),
    };
    let before = lane.held_by_model(&[&one, &two]);
    lane.talk(other, 1);
    let after = lane.held_by_model(&[&one, &two]);
    assert_eq!(
        after,
        [before[0] + 1, before[1]],
        "it knows what was said before, and nothing after"
    );
    Ended::Native
}

pub(super) fn rollback(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (one, _) = lane.talk(thread, 1);
    let made = lane.running("made", "echo made >> made.txt");
    lane.say(thread, &made);
    let row = lane.device.asked(thread);
    lane.answer(&row, OptionEffect::AllowOnce);
    lane.device.completed(thread, 2);
    let last = lane.device.ended(thread, 2).id;
    let body = CommandBody::ThreadRollback { before: last, last };
    if let Err(refusal) = lane.ask(thread, body) {
        return Ended::Refused(refusal);
    }
    lane.device.wait("the rollback", |seen| {
        let rows = &seen.timelines.get(&thread)?.rows;
        let told = RowContent::Rollback {
            before: last,
            runs: 1,
        };
        rows.iter().any(|row| row.content == told).then_some(())
    });
    assert_eq!(
        lane.world.text_of("made.txt").as_deref(),
        Some("made\n"),
        "files stay"
    );
    let before = lane.held_by_model(&[&one, &made]);
    let steps = lane.world.model.total();
    let (three, _) = lane.talk(thread, 3);
    assert_eq!(
        lane.held_by_model(&[&one, &made]),
        [before[0] + 1, before[1]],
        "it knows what was said before, and nothing of what was taken back"
    );
    assert!(lane.world.model.total() > steps && lane.held_by_model(&[&three])[0] >= 1);
    let told = lane.world.model.prompts();
    assert!(
        told.last().is_some_and(|text| *text == three.text),
        "{told:?}"
    );
    Ended::Native
}

pub(super) fn compaction(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let answer = lane.name("answer");
    let said = lane.script("talk", &[json!({"text": format!("Said. [[id:{answer}]]")})]);
    lane.say(thread, &said);
    lane.device.completed(thread, 1);
    // What the model sums it up by, whether the agent asks for that with its tools or without.
    let summary = lane.name("summary");
    let summed_up = json!([{"text": format!("It talked. [[id:{summary}]]")}]);
    for name in [&said.name, WITHOUT_TOOLS] {
        lane.world.model.script(name, &summed_up);
    }
    let before = lane.world.model.total();
    if let Err(refusal) = lane.ask(thread, CommandBody::ThreadCompact) {
        return Ended::Refused(refusal);
    }
    let run = lane.device.ended(thread, 2);
    assert_eq!(run.status, RunStatus::Completed);
    let shown = lane.rows(thread, |row| {
        (row.content == RowContent::Compaction).then_some(())
    });
    assert_eq!(shown.len(), 1, "it is shown");
    assert!(
        lane.world.model.total() > before,
        "the model was asked for a summary"
    );
    let (next, _) = lane.talk(thread, 3);
    let held = lane.world.model.held(&next.name);
    assert!(
        held.contains(&summary),
        "the next request holds the summary: {held:?}"
    );
    // codex keeps what its person said, pi the newest answer.
    assert!(
        !(held.contains(&said.name) && held.contains(&answer)),
        "and no longer all that was summed up: {held:?}"
    );
    Ended::Native
}

/// Every side has the same history of all that was played: the log by itself, the rows that were made of it, the device.
pub(super) fn one_history(lane: &mut Lane) -> Ended {
    lane.device.nothing_waits();
    for &thread in lane.threads() {
        lane.device.same_as_in(&lane.ledger(), thread);
    }
    lane.verify();
    Ended::Native
}
