//! What the model is told to do, and what a person sees of it.

use pilothouse_domain::{Mode, ThreadId};
use pilothouse_engine::{InboxRow, RowContent};
use pilothouse_tests::{Device, World};
use serde_json::{Value, json};

/// A script that runs one shell command and then says a word.
pub(crate) fn runs(command: &str) -> Value {
    json!([
        {"text": "I will run it.", "tools": [{"name": "exec_command", "args": {"cmd": command}}]},
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
