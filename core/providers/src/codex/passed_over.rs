//! Notifications that no timeline needs, each with the reason.

/// What a notification becomes that no timeline needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// A line in the host's log.
    Diagnostic,
    /// Nothing.
    Nothing,
}

/// Notifications that are passed over, each with the reason.
pub const PASSED_OVER: &[(&str, Passed, &str)] = &[
    (
        "configWarning",
        Passed::Diagnostic,
        "about codex' own configuration",
    ),
    (
        "deprecationNotice",
        Passed::Diagnostic,
        "for us, not for a person",
    ),
    ("warning", Passed::Diagnostic, "about codex' set-up"),
    (
        "guardianWarning",
        Passed::Diagnostic,
        "its reviewer's remark; we ask for review by the user",
    ),
    (
        "windows/worldWritableWarning",
        Passed::Diagnostic,
        "about the machine",
    ),
    (
        "windowsSandbox/setupCompleted",
        Passed::Nothing,
        "set-up of a sandbox",
    ),
    (
        "autoApprovalReview/strictReviewRequired",
        Passed::Diagnostic,
        "we ask for review by the user",
    ),
    (
        "item/autoApprovalReview/started",
        Passed::Diagnostic,
        "we ask for review by the user",
    ),
    (
        "item/autoApprovalReview/completed",
        Passed::Diagnostic,
        "we ask for review by the user",
    ),
    (
        "mcpServer/oauthLogin/completed",
        Passed::Diagnostic,
        "an MCP server's sign-in",
    ),
    (
        "mcpServer/startupStatus/updated",
        Passed::Diagnostic,
        "an MCP server's start",
    ),
    (
        "mcpServer/event/stream/notification",
        Passed::Nothing,
        "an MCP server's own events",
    ),
    (
        "account/gatewayOAuth/changed",
        Passed::Nothing,
        "the sign-in changed",
    ),
    (
        "modelProvider/authRecoveryStarted",
        Passed::Diagnostic,
        "the sign-in is being renewed",
    ),
    (
        "modelProvider/authRecoveryCompleted",
        Passed::Diagnostic,
        "the sign-in was renewed",
    ),
    ("model/verification", Passed::Nothing, "about the account"),
    (
        "model/safetyBuffering/updated",
        Passed::Nothing,
        "pacing of the stream",
    ),
    ("turn/moderationMetadata", Passed::Nothing, "internal"),
    (
        "thread/started",
        Passed::Nothing,
        "the answer to thread/start says it",
    ),
    (
        "thread/status/changed",
        Passed::Nothing,
        "turns and requests say it",
    ),
    (
        "thread/readState/changed",
        Passed::Nothing,
        "codex' own read marks",
    ),
    (
        "thread/archived",
        Passed::Diagnostic,
        "somebody put the conversation away",
    ),
    (
        "thread/unarchived",
        Passed::Diagnostic,
        "somebody took the conversation back",
    ),
    (
        "thread/deleted",
        Passed::Diagnostic,
        "somebody deleted the conversation",
    ),
    (
        "thread/closed",
        Passed::Diagnostic,
        "codex unloaded the conversation",
    ),
    (
        "thread/reverted",
        Passed::Diagnostic,
        "somebody shortened the conversation",
    ),
    (
        "thread/compacted",
        Passed::Nothing,
        "the contextCompaction item says it",
    ),
    ("thread/name/updated", Passed::Nothing, "titles are ours"),
    (
        "thread/section/changed",
        Passed::Nothing,
        "codex' own lists",
    ),
    (
        "thread/attachment/updated",
        Passed::Nothing,
        "codex' own lists",
    ),
    ("thread/goal/updated", Passed::Nothing, "goals are not used"),
    ("thread/goal/cleared", Passed::Nothing, "goals are not used"),
    (
        "thread/prediction/updated",
        Passed::Nothing,
        "suggestions are not used",
    ),
    (
        "thread/queue/changed",
        Passed::Nothing,
        "codex' queue is not used",
    ),
    (
        "thread/project/updated",
        Passed::Nothing,
        "codex' own lists",
    ),
    ("project/changed", Passed::Nothing, "codex' own lists"),
    (
        "thread/environment/connected",
        Passed::Nothing,
        "remote environments are not used",
    ),
    (
        "thread/environment/disconnected",
        Passed::Nothing,
        "remote environments are not used",
    ),
    (
        "thread/search/partial",
        Passed::Nothing,
        "answer to a call we do not make",
    ),
    (
        "thread/realtime/started",
        Passed::Nothing,
        "voice is not used",
    ),
    (
        "thread/realtime/itemAdded",
        Passed::Nothing,
        "voice is not used",
    ),
    (
        "thread/realtime/item/started",
        Passed::Nothing,
        "voice is not used",
    ),
    (
        "thread/realtime/item/transcript/delta",
        Passed::Nothing,
        "voice is not used",
    ),
    (
        "thread/realtime/item/completed",
        Passed::Nothing,
        "voice is not used",
    ),
    (
        "thread/realtime/transcript/delta",
        Passed::Nothing,
        "voice is not used",
    ),
    (
        "thread/realtime/transcript/done",
        Passed::Nothing,
        "voice is not used",
    ),
    (
        "thread/realtime/outputAudio/delta",
        Passed::Nothing,
        "voice is not used",
    ),
    ("thread/realtime/sdp", Passed::Nothing, "voice is not used"),
    (
        "thread/realtime/error",
        Passed::Diagnostic,
        "voice is not used",
    ),
    (
        "thread/realtime/closed",
        Passed::Nothing,
        "voice is not used",
    ),
    (
        "turn/diff/updated",
        Passed::Nothing,
        "the items' changes say it; sent twice each time",
    ),
    (
        "item/fileChange/outputDelta",
        Passed::Nothing,
        "the tool's words about a patch; the item says it",
    ),
    (
        "item/commandExecution/terminalInteraction",
        Passed::Diagnostic,
        "what codex typed into a running command",
    ),
    (
        "item/mcpToolCall/progress",
        Passed::Nothing,
        "the item's end says it",
    ),
    (
        "rawResponseItem/completed",
        Passed::Nothing,
        "not asked for",
    ),
    ("rawResponse/completed", Passed::Nothing, "not asked for"),
    (
        "hook/started",
        Passed::Diagnostic,
        "a hook of the user's configuration",
    ),
    (
        "hook/completed",
        Passed::Diagnostic,
        "a hook of the user's configuration",
    ),
    (
        "command/exec/outputDelta",
        Passed::Nothing,
        "answer to a call we do not make",
    ),
    (
        "process/outputDelta",
        Passed::Nothing,
        "answer to a call we do not make",
    ),
    (
        "process/exited",
        Passed::Nothing,
        "answer to a call we do not make",
    ),
    (
        "fs/changed",
        Passed::Nothing,
        "answer to a call we do not make",
    ),
    (
        "fuzzyFileSearch/sessionUpdated",
        Passed::Nothing,
        "answer to a call we do not make",
    ),
    (
        "fuzzyFileSearch/sessionCompleted",
        Passed::Nothing,
        "answer to a call we do not make",
    ),
    (
        "externalAgentConfig/import/progress",
        Passed::Nothing,
        "answer to a call we do not make",
    ),
    (
        "externalAgentConfig/import/completed",
        Passed::Nothing,
        "answer to a call we do not make",
    ),
    ("skills/changed", Passed::Nothing, "codex' own lists"),
    ("app/list/updated", Passed::Nothing, "codex' own lists"),
    (
        "remoteControl/status/changed",
        Passed::Nothing,
        "codex' own remote control",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_nothing_twice_and_gives_a_reason_for_each() {
        let names: std::collections::BTreeSet<_> =
            PASSED_OVER.iter().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), PASSED_OVER.len());
        assert!(PASSED_OVER.iter().all(|(.., reason)| !reason.is_empty()));
    }
}
