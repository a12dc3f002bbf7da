//! Frames that no timeline needs, each with the reason.

/// What a frame becomes that no timeline needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// A line in the host's log.
    Diagnostic,
    /// Nothing.
    Nothing,
}

/// Frames that are passed over, each with the reason: `type`, or `extension_ui_request` and its `method`, or
/// `message_update` and the type of its event.
pub const PASSED_OVER: &[(&str, Passed, &str)] = &[
    (
        "turn_start",
        Passed::Nothing,
        "one call of the model; a turn of ours is a whole run",
    ),
    (
        "turn_end",
        Passed::Nothing,
        "repeats the message and the results of tools",
    ),
    (
        "queue_update",
        Passed::Nothing,
        "messages that were put into the turn; the queue is ours",
    ),
    (
        "entry_appended",
        Passed::Nothing,
        "the session's own book-keeping",
    ),
    (
        "session_info_changed",
        Passed::Nothing,
        "the session's own name",
    ),
    (
        "thinking_level_changed",
        Passed::Nothing,
        "set by us, or by a command of a person",
    ),
    (
        "summarization_retry_scheduled",
        Passed::Diagnostic,
        "shortening the context is tried again",
    ),
    (
        "summarization_retry_attempt_start",
        Passed::Nothing,
        "shortening the context is tried again",
    ),
    (
        "summarization_retry_finished",
        Passed::Nothing,
        "its end is that of the compaction",
    ),
    (
        "bash_execution_update",
        Passed::Nothing,
        "output of a command of the client, which this one never runs",
    ),
    (
        "extension_error",
        Passed::Diagnostic,
        "an extension failed; a gate that fails blocks its tool",
    ),
    (
        "advisor_cost_changed",
        Passed::Nothing,
        "omp's own account of its advisor",
    ),
    (
        "available_commands_update",
        Passed::Nothing,
        "omp's commands of its own prompt",
    ),
    (
        "extension_ui_request notify",
        Passed::Diagnostic,
        "words of an extension that wait for nothing",
    ),
    (
        "extension_ui_request setStatus",
        Passed::Nothing,
        "a line of a terminal's foot",
    ),
    (
        "extension_ui_request setWidget",
        Passed::Nothing,
        "lines beside a terminal's editor",
    ),
    (
        "extension_ui_request setTitle",
        Passed::Nothing,
        "a terminal's title",
    ),
    (
        "extension_ui_request set_editor_text",
        Passed::Nothing,
        "a terminal's editor",
    ),
    (
        "message_update start",
        Passed::Nothing,
        "message_start says it",
    ),
    (
        "message_update done",
        Passed::Nothing,
        "message_end says it",
    ),
    (
        "message_update error",
        Passed::Nothing,
        "message_end says it",
    ),
    (
        "message_update text_start",
        Passed::Nothing,
        "the first piece opens the item",
    ),
    (
        "message_update thinking_start",
        Passed::Nothing,
        "the first piece opens the item",
    ),
    (
        "message_update toolcall_start",
        Passed::Nothing,
        "message_end has the whole call, tool_execution_start begins it",
    ),
    (
        "message_update toolcall_delta",
        Passed::Nothing,
        "message_end has the whole call, tool_execution_start begins it",
    ),
    (
        "message_update toolcall_end",
        Passed::Nothing,
        "message_end has the whole call, tool_execution_start begins it",
    ),
    (
        "message system",
        Passed::Nothing,
        "what pi tells its model of itself",
    ),
    (
        "message toolResult",
        Passed::Nothing,
        "tool_execution_end says it",
    ),
    (
        "message bashExecution",
        Passed::Nothing,
        "a command of the client, which this one never runs",
    ),
    (
        "message branchSummary",
        Passed::Nothing,
        "context for the model",
    ),
    (
        "message compactionSummary",
        Passed::Nothing,
        "compaction_end says it",
    ),
];

/// How a frame is passed over, if it is.
pub(super) fn passed_over(name: &str) -> Option<Passed> {
    PASSED_OVER
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, passed, _)| *passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_passed_over_has_a_reason_and_stands_once() {
        for (at, (name, _, reason)) in PASSED_OVER.iter().enumerate() {
            assert!(!reason.is_empty());
            assert!(PASSED_OVER[..at].iter().all(|(before, ..)| before != name));
        }
    }
}
