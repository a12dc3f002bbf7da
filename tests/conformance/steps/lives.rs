//! The end of a process, and what goes on after it.

use crate::{
    lane::{Lane, Prompt, conversation},
    outcome::Ended,
};
use pilothouse_domain::{Mode, RequestStatus, RunStatus, ThreadId, request::OptionEffect};
use pilothouse_tests::{device::ids, until};

/// Whether the conversation goes on knowing what was said in it.
fn goes_on(lane: &mut Lane, thread: ThreadId, ordinal: u32, first: &Prompt) -> bool {
    let before = lane.held_by_model(&[first])[0];
    lane.talk(thread, ordinal);
    lane.held_by_model(&[first])[0] > before
}

const REPLACED: &str = "a new conversation, which does not know what was said before";

pub(super) fn agent_killed(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (first, _) = lane.talk(thread, 1);
    let (prompt, gate) = lane.held("cut");
    lane.say(thread, &prompt);
    lane.hears(thread, "one two");
    let killed = lane.kill_agent();
    let run = lane.device.ended(thread, 2);
    lane.world.model.release(&gate);
    assert!(
        matches!(run.status, RunStatus::Interrupted | RunStatus::Failed),
        "a run whose agent is gone is not said to be {:?}",
        run.status
    );
    let knows = goes_on(lane, thread, 3, &first);
    let now = lane.processes();
    assert!(
        !now.is_empty() && now.iter().all(|pid| !killed.contains(pid)),
        "another process: {now:?} after {killed:?}"
    );
    if knows {
        Ended::Native
    } else {
        Ended::Replaced(REPLACED.to_owned())
    }
}

pub(super) fn host_killed_in_text(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (first, _) = lane.talk(thread, 1);
    lane.becomes_mortal();
    let (prompt, gate) = lane.held("cut");
    lane.say(thread, &prompt);
    lane.hears(thread, "one two");
    let lives_on = lane.outliving();
    lane.next_life();
    let ended = if lives_on.is_empty() {
        let run = lane.device.ended(thread, 2);
        lane.world.model.release(&gate);
        assert_eq!(run.status, RunStatus::Interrupted, "it ended with its host");
        Ended::Otherwise("the agent ends with its host: its turn is said to be cut off, and the conversation goes on".to_owned())
    } else {
        assert_eq!(lane.outliving(), lives_on, "the agent lives on");
        lane.world.model.release(&gate);
        lane.device.completed(thread, 2);
        // Its end may be heard while what it did meanwhile is still being read.
        let words = [&*prompt.text, "one two three four five six"];
        until("its words, whole and once", || {
            let said = conversation(lane, thread);
            match said[2..] == words {
                true => Ok(()),
                false => Err(format!("{said:?}")),
            }
        });
        Ended::Noted(format!("its turn goes on while {}", lane.life()))
    };
    if goes_on(lane, thread, 3, &first) {
        ended
    } else {
        Ended::Replaced(REPLACED.to_owned())
    }
}

pub(super) fn host_killed(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (first, _) = lane.talk(thread, 1);
    lane.becomes_mortal();
    let row = lane.asked(thread, "survive", "echo survived >> survive.txt");
    let lives_on = lane.outliving();
    lane.next_life();
    let ended = if lives_on.is_empty() {
        lane.device.status(thread, row.request, |status| {
            matches!(status, RequestStatus::Lost { .. }).then_some(())
        });
        lane.device.ended(thread, 2);
        assert_eq!(lane.world.text_of("survive.txt"), None, "nobody allowed it");
        Ended::Otherwise("the agent ends with its host: what it asked is lost and said to be, and the conversation goes on".to_owned())
    } else {
        assert_eq!(lane.outliving(), lives_on, "the agent lives on");
        let waits = ids(&lane.device.seen().inbox);
        assert!(
            waits.contains(&row.request),
            "the same request still waits: {waits:?}"
        );
        lane.answer(&row, OptionEffect::AllowOnce);
        lane.device.completed(thread, 2);
        let text = lane.world.text_of("survive.txt");
        assert_eq!(text.as_deref(), Some("survived\n"), "it ran once");
        let said = conversation(lane, thread);
        assert_eq!(
            said[3..],
            ["I will run it.", "After it."],
            "its words are there whole, and once: {said:?}"
        );
        Ended::Noted(format!(
            "what it asked before {} is answered after",
            lane.life()
        ))
    };
    if goes_on(lane, thread, 3, &first) {
        ended
    } else {
        Ended::Replaced(REPLACED.to_owned())
    }
}
