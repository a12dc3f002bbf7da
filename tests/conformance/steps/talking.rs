//! Words: of a person, of the agent, of its model.

use crate::{
    lane::{Lane, conversation},
    outcome::Ended,
};
use pilothouse_domain::{ItemStatus, Mode, RunStatus};
use pilothouse_engine::RowContent;
use serde_json::json;

pub(super) fn start(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let prompt = lane.script("start", &[json!({"text": "Here I am."})]);
    lane.say(thread, &prompt);
    lane.device.completed(thread, 1);
    assert_eq!(conversation(lane, thread), [&*prompt.text, "Here I am."]);
    assert!(lane.held_by_model(&[&prompt])[0] >= 1, "the model read it");
    assert!(!lane.processes().is_empty(), "the agent's process is there");
    let declared = lane.capabilities();
    assert!(declared.is_some(), "the host says what the agent can");
    Ended::Native
}

pub(super) fn text(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let (prompt, gate) = lane.held("text");
    lane.say(thread, &prompt);
    lane.hears(thread, "one two");
    lane.world.model.release(&gate);
    lane.device.completed(thread, 1);
    let said = lane.rows(thread, |row| {
        (row.content == RowContent::AssistantMessage).then(|| (row.status, row.text.text.clone()))
    });
    let whole = "one two three four five six".to_owned();
    assert_eq!(said, [(ItemStatus::Completed, whole)]);
    Ended::Native
}

pub(super) fn reasoning(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let prompt = lane.script(
        "think",
        &[json!({"think": "Let me weigh it.", "text": "Thought."})],
    );
    lane.say(thread, &prompt);
    lane.device.completed(thread, 1);
    let thoughts = lane.rows(thread, |row| {
        (row.content == RowContent::Reasoning).then(|| row.text.text.clone())
    });
    assert_eq!(thoughts, ["Let me weigh it."]);
    assert_eq!(conversation(lane, thread), [&*prompt.text, "Thought."]);
    Ended::Native
}

pub(super) fn usage(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let usage = json!({"input": 4321, "output": 65});
    let prompt = lane.script("usage", &[json!({"text": "Counted.", "usage": usage})]);
    lane.say(thread, &prompt);
    lane.device.completed(thread, 1);
    let used = lane.device.wait("what the run used", |seen| {
        seen.timelines.get(&thread)?.header.as_ref()?.usage
    });
    assert_eq!((used.input, used.output), (4321, 65), "{used:?}");
    Ended::Native
}

pub(super) fn model_error(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let prompt = lane.script("fail", &[json!({"error": {"status": 400}})]);
    lane.say(thread, &prompt);
    let run = lane.device.ended(thread, 1);
    assert_eq!(run.status, RunStatus::Failed, "the run says that it failed");
    let shown = lane.rows(thread, |row| {
        Some((row.content.clone(), row.text.text.clone()))
    });
    let told = |(content, text): &(RowContent, String)| match content {
        RowContent::Error { message, .. } => message.contains("scripted error"),
        RowContent::AssistantMessage => text.contains("scripted error"),
        _ => false,
    };
    assert!(
        shown.iter().any(told),
        "the model's words are shown: {shown:?}"
    );
    lane.talk(thread, 2);
    Ended::Native
}
