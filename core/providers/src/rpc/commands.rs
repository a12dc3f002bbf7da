//! Agents' own commands, as most protocols list them: names without their slash.

use super::frames::{cut, text_of, text_or_empty};
use pilothouse_domain::{limits, provider::OfferedCommand};
use serde_json::Value;

/// Reads a list of slash commands; what has no name is none.
pub(crate) fn slash_commands(listed: &[Value]) -> Vec<OfferedCommand> {
    let read = listed.iter().filter_map(slash_command);
    read.take(limits::OFFERED_COMMANDS).collect()
}

/// Reads one.
pub(crate) fn slash_command(command: &Value) -> Option<OfferedCommand> {
    let name = text_of(command, "name")?;
    let hint = ["argumentHint", "argument-hint"].map(|key| text_of(command, key));
    let hint = hint.into_iter().flatten().next();
    let input = command.get("input");
    let hint = hint.or_else(|| input.and_then(|input| text_of(input, "hint")));
    let words = |text: &str| cut(text, limits::COMMAND_WORDS);
    Some(OfferedCommand {
        name: words(&format!("/{}", name.trim_start_matches('/'))),
        description: words(&text_or_empty(command, "description")),
        argument_hint: words(&hint.unwrap_or_default()),
    })
}
