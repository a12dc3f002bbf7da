//! What the agent asks, and what comes of the answers.

use crate::{
    lane::{Lane, option},
    outcome::Ended,
};
use pilothouse_domain::{
    CommandBody, ItemStatus, Mode, RequestStatus, ThreadId,
    item::TodoStatus,
    request::{OptionEffect, QuestionReply, RequestKind},
};
use pilothouse_engine::{InboxRow, RowContent, TimelineRow};
use pilothouse_tests::until;
use serde_json::json;

/// The commands of a thread: how each ended.
fn commands(lane: &Lane, thread: ThreadId) -> Vec<ItemStatus> {
    lane.rows(thread, |row| {
        matches!(row.content, RowContent::Command { .. }).then_some(row.status)
    })
}

fn is_answered(lane: &Lane, row: &InboxRow) {
    lane.device.status(row.thread, row.request, |status| {
        matches!(status, RequestStatus::Answered { by: Some(_), .. }).then_some(())
    });
}

pub(super) fn command_allowed(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let row = lane.asked(thread, "allow", "echo allowed | tee -a allow.txt");
    assert_eq!(row.kind, RequestKind::Command);
    let command = row.subject.command.clone().unwrap_or_default();
    assert!(
        command.contains("echo allowed | tee -a allow.txt"),
        "exactly what would run is shown: {command}"
    );
    assert_eq!(
        lane.world.text_of("allow.txt"),
        None,
        "nothing ran before the answer"
    );
    lane.answer(&row, OptionEffect::AllowOnce);
    lane.device.completed(thread, 1);
    is_answered(lane, &row);
    assert_eq!(
        lane.world.text_of("allow.txt").as_deref(),
        Some("allowed\n"),
        "it ran once"
    );
    assert_eq!(commands(lane, thread), [ItemStatus::Completed]);
    let outputs = lane.rows(thread, |row| {
        matches!(row.content, RowContent::Command { .. }).then(|| row.text.text.clone())
    });
    assert!(
        outputs[0].contains("allowed"),
        "its output is shown: {outputs:?}"
    );
    let told = lane.world.model.results();
    assert!(
        told.iter().any(|text| text.contains("allowed")),
        "its output reached the model: {told:?}"
    );
    Ended::Native
}

pub(super) fn command_denied(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let row = lane.asked(thread, "deny", "echo denied >> deny.txt");
    lane.answer(&row, OptionEffect::Deny);
    lane.device.completed(thread, 1);
    is_answered(lane, &row);
    assert_eq!(lane.world.text_of("deny.txt"), None, "it did not run");
    let shown = commands(lane, thread);
    assert!(
        !shown.contains(&ItemStatus::Completed),
        "it is not shown as done: {shown:?}"
    );
    let went_on = lane.rows(thread, |row| (row.text.text == "After it.").then_some(()));
    assert_eq!(went_on.len(), 1, "the turn goes on without it");
    lane.talk(thread, 2);
    lane.device.nothing_waits();
    Ended::Native
}

pub(super) fn command_session(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    // A program of this step's own: what is allowed here may reach other conversations, and no other step calls it.
    let command = "./again.sh";
    lane.program("again.sh", "#!/bin/sh\necho session >> session.txt\n");
    let row = lane.asked(thread, "session", command);
    let (effect, mut how) = match option(&row, OptionEffect::AllowSession) {
        Some(_) => (OptionEffect::AllowSession, None),
        None => (
            OptionEffect::AllowRule,
            Some("by a rule that stays beyond the session: it offers none for the session alone"),
        ),
    };
    let mut options = row.subject.options.iter();
    let reach = options
        .find(|option| option.effect == effect)
        .map_or_else(String::new, |option| option.reach.clone());
    lane.answer(&row, effect);
    lane.device.completed(thread, 1);
    let again = lane.running("again", command);
    lane.say(thread, &again);
    let asks = lane.device.asked_or_ended(thread, 2);
    assert!(
        asks.is_none(),
        "it asks again: {:?}",
        asks.map(|row| row.subject)
    );
    assert_eq!(
        lane.world.text_of("session.txt").as_deref(),
        Some("session\nsession\n")
    );
    // Something else still asks.
    let other = lane.asked(thread, "other", "echo other >> other.txt");
    lane.answer(&other, OptionEffect::Deny);
    lane.device.ended(thread, 3);
    assert_eq!(lane.world.text_of("other.txt"), None);
    // So does another conversation, unless the option said otherwise.
    let beside = lane.thread(Mode::Ask);
    let once_more = lane.running("beside", command);
    lane.say(beside, &once_more);
    if let Some(row) = lane.device.asked_or_ended(beside, 1) {
        lane.answer(&row, OptionEffect::Deny);
        lane.device.ended(beside, 1);
    } else if effect == OptionEffect::AllowSession {
        assert!(
            reach.contains("every conversation"),
            "another conversation does not ask, and the option said: {reach}"
        );
        how = Some("it holds in every conversation of the workspace, as its option says");
    }
    how.map_or(Ended::Native, |how| Ended::Otherwise(how.to_owned()))
}

pub(super) fn file_change(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let write = lane.agent.write(
        &lane.world.workspace,
        "change.txt",
        "first line\nsecond line\n",
    );
    let steps = [
        json!({"text": "I will write it.", "tools": [write]}),
        json!({"text": "Written."}),
    ];
    let prompt = lane.script("change", &steps);
    lane.say(thread, &prompt);
    let row = lane.device.asked(thread);
    assert!(
        matches!(row.kind, RequestKind::FileChange | RequestKind::ApplyPatch),
        "{:?}",
        row.kind
    );
    let [change] = &row.subject.changes[..] else {
        panic!("one change is asked for: {:?}", row.subject)
    };
    assert!(change.path.ends_with("change.txt"), "{}", change.path);
    assert!(
        change.diff.text.contains("second line"),
        "its diff is shown: {:?}",
        change.diff
    );
    assert_eq!(
        lane.world.text_of("change.txt"),
        None,
        "nothing was written before the answer"
    );
    lane.answer(&row, OptionEffect::AllowOnce);
    lane.device.completed(thread, 1);
    assert_eq!(
        lane.world.text_of("change.txt").as_deref(),
        Some("first line\nsecond line\n")
    );
    let shown = lane.rows(thread, |row| match &row.content {
        RowContent::FileChange { changes } => Some((row.status, changes.clone())),
        _ => None,
    });
    let [(ItemStatus::Completed, changes)] = &shown[..] else {
        panic!("the change stands in the timeline: {shown:?}")
    };
    assert!(changes[0].diff.text.contains("second line"), "{changes:?}");
    Ended::Native
}

pub(super) fn parallel(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let tools = ["left", "right"].map(|name| lane.agent.run(&format!("echo {name} >> {name}.txt")));
    let steps = [
        json!({"text": "Both at once.", "tools": tools}),
        json!({"text": "Both done."}),
    ];
    let prompt = lane.script("both", &steps);
    lane.say(thread, &prompt);
    let command = |row: &InboxRow| row.subject.command.clone().unwrap_or_default();
    let first = lane.device.asked(thread);
    let mut seen = vec![command(&first)];
    let at_once = lane.agent.asks_at_once();
    if at_once {
        // The first waits unanswered while the second is waited for.
        let second = lane.device.asked(thread);
        seen.push(command(&second));
        // The newer is answered first: each answer finds its own request.
        lane.answer(&second, OptionEffect::AllowOnce);
        lane.answer(&first, OptionEffect::AllowOnce);
    } else {
        lane.answer(&first, OptionEffect::AllowOnce);
        let second = lane.device.asked(thread);
        seen.push(command(&second));
        lane.answer(&second, OptionEffect::AllowOnce);
    }
    lane.device.completed(thread, 1);
    seen.sort();
    assert!(
        seen[0].contains("left") && seen[1].contains("right"),
        "{seen:?}"
    );
    for name in ["left", "right"] {
        let wanted = format!("{name}\n");
        assert_eq!(
            lane.world.text_of(&format!("{name}.txt")),
            Some(wanted),
            "{name} ran once"
        );
    }
    lane.device.nothing_waits();
    let both = lane.device.wait("what was shown", |seen| {
        let of_thread = |rows: &[InboxRow]| rows.iter().filter(|row| row.thread == thread).count();
        let most = seen.inboxes.iter().map(|(_, rows)| of_thread(rows)).max();
        Some(most == Some(2))
    });
    assert_eq!(both, at_once, "whether both were shown to wait at once");
    if at_once {
        Ended::Native
    } else {
        Ended::Noted("one after the other".to_owned())
    }
}

pub(super) fn question(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let question = lane.agent.question();
    let steps = [
        json!({"text": "I need to know.", "tools": [question]}),
        json!({"text": "Thanks."}),
    ];
    let prompt = lane.script("colour", &steps);
    lane.say(thread, &prompt);
    let mut row = lane.device.asked(thread);
    let mut by_a_tool = false;
    if row.kind == RequestKind::Tool {
        // The question is an extension's tool, which the gate asks for first.
        by_a_tool = true;
        lane.answer(&row, OptionEffect::AllowOnce);
        row = lane.device.asked(thread);
    }
    assert_eq!(row.kind, RequestKind::UserInput);
    let [asked] = &row.subject.questions[..] else {
        panic!("one question is asked: {:?}", row.subject)
    };
    assert!(asked.text.contains("Which colour?"), "{asked:?}");
    let choices: Vec<_> = asked
        .choices
        .iter()
        .map(|choice| choice.label.as_str())
        .collect();
    assert_eq!(choices, ["Red", "Blue"]);
    let reply = QuestionReply {
        question: asked.id.clone(),
        chosen: vec!["Blue".to_owned()],
        text: None,
    };
    lane.device.accepted(&lane.device.reply(&row, vec![reply]));
    lane.device.completed(thread, 1);
    let told = lane.world.model.results();
    let last = told.last().cloned().unwrap_or_default();
    assert!(
        last.contains("Blue") && !last.contains("Red"),
        "the choice reached the model: {told:?}"
    );
    if by_a_tool {
        Ended::Noted("by a dialog of an extension; it has no question of its own".to_owned())
    } else {
        Ended::Native
    }
}

pub(super) fn plan(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::ReadOnly);
    let mut steps = lane.agent.plan();
    let run = lane.agent.run("echo planned >> planned.txt");
    steps.push(json!({"text": "I carry it out.", "tools": [run]}));
    steps.push(json!({"text": "Carried out."}));
    let prompt = lane.script("plan", &steps);
    lane.say(thread, &prompt);
    let asked = lane.device.asked_or_ended(thread, 1);
    let plan = |(content, text): &(RowContent, String)| {
        *content == RowContent::Plan && text.contains("paint it red")
    };
    // What waits for a person may be told before the rows of its thread.
    until("the plan to be shown", || {
        let rows = lane.rows(thread, |row| {
            Some((row.content.clone(), row.text.text.clone()))
        });
        match rows.iter().any(plan) {
            true => Ok(()),
            false => Err(format!("{rows:?}")),
        }
    });
    let Some(row) = asked else {
        lane.device.completed(thread, 1);
        let body = CommandBody::ThreadSelect {
            model: None,
            effort: None,
            mode: Mode::Ask,
        };
        if let Err(refusal) = lane.ask(thread, body) {
            return Ended::Refused(refusal);
        }
        let row = lane.asked(thread, "carry-out", "echo planned >> planned.txt");
        lane.answer(&row, OptionEffect::AllowOnce);
        lane.device.completed(thread, 2);
        carried_out(lane);
        let words = "it asks for no approval of what it proposes; the next message in another mode has it carried out";
        return Ended::Otherwise(words.to_owned());
    };
    assert_eq!(row.kind, RequestKind::Plan);
    assert!(
        row.shown.contains("paint it red"),
        "the plan is asked for whole: {}",
        row.shown
    );
    lane.answer(&row, OptionEffect::AllowOnce);
    let row = lane.device.asked(thread);
    assert_eq!(
        row.kind,
        RequestKind::Command,
        "a plan that is approved lifts no other question"
    );
    lane.answer(&row, OptionEffect::AllowOnce);
    lane.device.completed(thread, 1);
    carried_out(lane);
    Ended::Native
}

fn carried_out(lane: &Lane) {
    assert_eq!(
        lane.world.text_of("planned.txt").as_deref(),
        Some("planned\n")
    );
}

pub(super) fn todo(lane: &mut Lane) -> Ended {
    let thread = lane.thread_on(lane.agent.todo_model(), Mode::Ask);
    let mut steps = lane.agent.todo();
    let calls = steps.len();
    // Before the last, what is begun is looked at.
    let gate = lane.name("gate");
    steps[calls - 1]["hold"] = json!(gate);
    steps.push(json!({"text": "Worked off."}));
    let prompt = lane.script("todo", &steps);
    lane.say(thread, &prompt);
    lane.device.wait("what is in progress", |seen| {
        let rows = &seen.timelines.get(&thread)?.rows;
        let begun = |row: &TimelineRow| match &row.content {
            RowContent::Todo { entries } => {
                let [entry] = &entries[..] else { return false };
                (&*entry.text, entry.status) == ("Look", TodoStatus::InProgress)
            }
            _ => false,
        };
        rows.iter().any(begun).then_some(())
    });
    lane.world.model.release(&gate);
    lane.device.completed(thread, 1);
    let lists = lane.rows(thread, |row| match &row.content {
        RowContent::Todo { entries } => Some(entries.clone()),
        _ => None,
    });
    let told = lane.world.model.results_of(&prompt.name);
    let failed = |text: &String| text.to_lowercase().contains("error");
    assert!(
        told.len() == calls && !told.iter().any(failed),
        "each of its calls worked: {told:?}"
    );
    let last = lists.last().cloned().unwrap_or_default();
    let [entry] = &last[..] else {
        panic!("one thing to do is shown: {lists:?}; the model was told {told:?}")
    };
    assert_eq!(
        (&*entry.text, entry.status),
        ("Look", TodoStatus::Completed)
    );
    Ended::Native
}

pub(super) fn subagent(lane: &mut Lane) -> Ended {
    let thread = lane.thread(Mode::Ask);
    let child = lane.running("child", "echo child >> child.txt");
    let mut steps = lane.agent.delegate(&child.text);
    steps.push(json!({"text": "The parent is done."}));
    let prompt = lane.script("parent", &steps);
    lane.say(thread, &prompt);
    let row = lane.device.asked(thread);
    let command = row.subject.command.clone().unwrap_or_default();
    assert!(command.contains("echo child >> child.txt"), "{command}");
    let node = lane.device.request(thread, row.request).request.node;
    assert_eq!(
        lane.world.text_of("child.txt"),
        None,
        "nothing ran before the answer"
    );
    lane.answer(&row, OptionEffect::AllowOnce);
    lane.device.completed(thread, 1);
    assert_eq!(
        lane.world.text_of("child.txt").as_deref(),
        Some("child\n"),
        "it ran once"
    );
    let parents = lane.rows(thread, |row| {
        matches!(row.content, RowContent::Subagent { .. }).then_some(row.node)
    });
    assert!(!parents.is_empty(), "it is shown");
    assert!(
        !parents.contains(&Some(node)),
        "the request is the child's own, not its parent's"
    );
    assert!(
        lane.held_by_model(&[&child])[0] >= 2,
        "the child asked its model"
    );
    Ended::Native
}
