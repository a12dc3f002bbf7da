//! What the model is told to do, and what a person sees of it.

use pilothouse_domain::{
    AgentName, CommandBody, ConversationKey, Mode, RequestId, RequestStatus, ThreadId, WorkspaceId,
    provider::NativeConversation,
    request::{AnswerDelivery, OptionEffect},
    thread::Selection,
};
use pilothouse_engine::{InboxRow, Page, Query, RowContent, Ticket};
use pilothouse_tests::{Device, World};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A script that runs one shell command and then says a word.
pub(crate) fn runs(command: &str) -> Value {
    json!([
        {"text": "I will run it.", "tools": [{"name": "exec_command", "args": {"cmd": command}}]},
        {"text": "After it."},
    ])
}

/// The same with the tool as opencode and several others call it.
pub(crate) fn runs_bash(command: &str) -> Value {
    json!([
        {"text": "I will run it.", "tools": [{"name": "bash", "args": {"command": command, "description": "try it"}}]},
        {"text": "After it."},
    ])
}

/// A script that patches a new file for each of these names, one after the other.
pub(crate) fn patches(files: &[&str]) -> Value {
    let mut steps: Vec<Value> = files
        .iter()
        .map(|file| {
            let patch = format!("*** Begin Patch\n*** Add File: {file}\n+patched\n*** End Patch\n");
            json!({"tools": [{"custom": true, "name": "apply_patch", "input": patch}]})
        })
        .collect();
    steps.push(json!({"text": "After the patches."}));
    steps.into()
}

/// A script that only speaks.
pub(crate) fn says(text: &str) -> Value {
    json!([{"text": text}])
}

/// A thread in which codex asks to run a command; its prompt is marked with the script's name.
pub(crate) fn asked_to_run(
    world: &World,
    device: &Device,
    script: &str,
    command: &str,
) -> (ThreadId, InboxRow) {
    world.model.script(script, &runs(command));
    let thread = device.new_thread("codex", Mode::Ask);
    let sent = device.say(thread, &format!("go [[script:{script}]] [[id:{script}]]"));
    device.accepted(&sent);
    let row = device.asked(thread);
    (thread, row)
}

/// An answer of 8,000 numbered words in parts, of which the first 850 words are said at once and about 1,000 with each other.
pub(crate) fn says_in_parts() -> Value {
    let words: Vec<String> = (1..=8000).map(|number| format!("w{number:04}")).collect();
    json!([{
        "text": words.join(" "), "chunk": 300,
        "hold_every": {"events": 20, "name": "part"}, "hold_after_text": "end",
    }])
}

/// Has such an answer go on, part by part, until a device shows one as it streams: what is said before the agent is taken up
/// again is not seen until the answer ends.
pub(crate) fn shows_a_part(world: &World, device: &Device, thread: ThreadId) {
    let shown = || {
        let seen = device.seen();
        let mut rows = seen.timelines[&thread].rows.iter();
        rows.any(|row| row.text.bytes > 10_000)
    };
    for part in 1..=5 {
        world.model.release(&format!("part-{part}"));
        let until = Instant::now() + Duration::from_secs(3);
        while !shown() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        if shown() {
            return;
        }
    }
    panic!("no part is shown: {:#?}", device.seen());
}

/// Has such an answer come to its end, which a device then holds in full.
pub(crate) fn said_in_full(world: &World, device: &Device, thread: ThreadId) {
    for part in 1..=8 {
        world.model.release(&format!("part-{part}"));
    }
    world.model.release("end");
    device.completed(thread, 1);
    let rows = device.whole(thread);
    let whole = 8000 * "w0001 ".len() as u64 - 1;
    assert!(rows.iter().any(|row| row.text.bytes == whole), "{rows:#?}");
}

/// Waits until a device shows a text of a thread, also of what is not over yet.
pub(crate) fn shows(device: &Device, thread: ThreadId, text: &str) {
    device.wait(text, |seen| {
        let timeline = seen.timelines.get(&thread)?;
        format!("{timeline:?}").contains(text).then_some(())
    });
}

/// The texts of a thread that the agent or a person wrote, in order.
pub(crate) fn conversation(device: &Device, thread: ThreadId) -> Vec<String> {
    let said = |content: &RowContent| {
        matches!(
            content,
            RowContent::UserMessage { .. } | RowContent::AssistantMessage
        )
    };
    let rows = device.whole(thread);
    rows.into_iter()
        .filter(|row| said(&row.content))
        .map(|row| row.text.text)
        .collect()
}

/// The conversations that an agent has in a workspace, all pages.
pub(crate) fn listed(device: &Device, workspace: &str, agent: &str) -> Vec<NativeConversation> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = device.core().query(Query::Conversations {
            host: device.host(),
            agent: AgentName::from(agent),
            workspace: WorkspaceId::from(workspace),
            after: after.take(),
        });
        let Ok(Page::Conversations {
            conversations,
            next,
        }) = page
        else {
            panic!("{page:?}")
        };
        all.extend(conversations);
        after = next;
        if after.is_none() {
            return all;
        }
    }
}

/// Makes a thread of a conversation that an agent has in a workspace.
pub(crate) fn import(
    device: &Device,
    workspace: &str,
    agent: &str,
    conversation: ConversationKey,
) -> Ticket {
    let selection = Selection {
        agent: agent.into(),
        model: None,
        effort: None,
        mode: Mode::Ask,
        sandbox: None,
    };
    let body = CommandBody::ThreadImport {
        title: "taken over".to_owned(),
        workspace: workspace.into(),
        selection,
        conversation,
    };
    device.submit(None, body)
}

/// Waits until the agent has confirmed an answer.
pub(crate) fn confirmed(device: &Device, thread: ThreadId, request: RequestId) {
    device.status(thread, request, |status| match status {
        RequestStatus::Answered {
            delivery: AnswerDelivery::Confirmed,
            ..
        } => Some(()),
        _ => None,
    });
}

/// The id of the first option that has this effect.
pub(crate) fn option(row: &InboxRow, effect: OptionEffect) -> String {
    let mut options = row.subject.options.iter();
    let found = options.find(|option| option.effect == effect);
    let found = found.unwrap_or_else(|| panic!("{effect:?} is offered: {row:#?}"));
    found.id.as_str().to_owned()
}
