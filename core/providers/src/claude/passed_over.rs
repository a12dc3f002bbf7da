//! Frames that no timeline needs, and requests that are never for a person, each with the reason.

/// What a frame becomes that no timeline needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// A line in the host's log.
    Diagnostic,
    /// Nothing.
    Nothing,
}

/// Frames that are passed over, each with the reason. The names are those of the 2.1.332 binary's own schema.
pub const PASSED_OVER: &[(&str, Passed, &str)] = &[
    ("keep_alive", Passed::Nothing, "says nothing"),
    (
        "tool_progress",
        Passed::Nothing,
        "how long a tool runs; it holds no output",
    ),
    (
        "tool_use_summary",
        Passed::Nothing,
        "a summary of tools that are shown themselves",
    ),
    (
        "prompt_suggestion",
        Passed::Nothing,
        "a proposal for a next message; not asked for",
    ),
    (
        "auth_status",
        Passed::Diagnostic,
        "the agent's sign-in at the host",
    ),
    (
        "conversation_reset",
        Passed::Diagnostic,
        "the conversation was cleared",
    ),
    (
        "active_goal",
        Passed::Nothing,
        "of the agent's own interface",
    ),
    (
        "autocompact_state",
        Passed::Nothing,
        "how full the context is; a compaction is told when it comes",
    ),
    (
        "compact_progress",
        Passed::Nothing,
        "how far a compaction is",
    ),
    (
        "transcript_mirror",
        Passed::Nothing,
        "a copy of the agent's own file",
    ),
    (
        "system thinking_tokens",
        Passed::Nothing,
        "an estimate that the end of the turn replaces",
    ),
    (
        "system task_progress",
        Passed::Nothing,
        "what a task is at; its items are shown themselves",
    ),
    (
        "system task_summary",
        Passed::Nothing,
        "a summary of a task that is shown itself",
    ),
    (
        "system background_tasks_changed",
        Passed::Nothing,
        "the list of background tasks; each one's own frames say the same",
    ),
    (
        "system permission_denied",
        Passed::Nothing,
        "a tool was refused by a rule or the mode; its result says so",
    ),
    (
        "system session_state_changed",
        Passed::Nothing,
        "idle, running or asking, which the frames themselves say",
    ),
    (
        "system session_title_changed",
        Passed::Nothing,
        "the agent's own title of the conversation",
    ),
    (
        "system session_metadata",
        Passed::Nothing,
        "of the agent's own lists",
    ),
    (
        "system commands_changed",
        Passed::Nothing,
        "the agent's slash commands",
    ),
    (
        "system turn_duration",
        Passed::Nothing,
        "how long a turn took",
    ),
    (
        "system notification",
        Passed::Diagnostic,
        "a remark of the agent's own interface",
    ),
    (
        "system informational",
        Passed::Diagnostic,
        "a remark of the agent's own interface",
    ),
    (
        "system post_turn_summary",
        Passed::Nothing,
        "a summary of what is shown itself",
    ),
    (
        "system away_summary",
        Passed::Nothing,
        "a summary of what is shown itself",
    ),
    (
        "system files_persisted",
        Passed::Nothing,
        "uploads of the agent's own service",
    ),
    (
        "system file_snapshot",
        Passed::Nothing,
        "the agent's own checkpoints of files",
    ),
    (
        "system hook_started",
        Passed::Nothing,
        "hooks of the person's own settings",
    ),
    (
        "system hook_progress",
        Passed::Nothing,
        "hooks of the person's own settings",
    ),
    (
        "system hook_response",
        Passed::Diagnostic,
        "hooks of the person's own settings",
    ),
    (
        "system stop_hook_summary",
        Passed::Diagnostic,
        "hooks of the person's own settings",
    ),
    (
        "system memory_recall",
        Passed::Nothing,
        "the agent's own notes",
    ),
    (
        "system memory_saved",
        Passed::Nothing,
        "the agent's own notes",
    ),
    (
        "system instruction_size_warning",
        Passed::Diagnostic,
        "about the project's instructions",
    ),
    (
        "system plugin_install",
        Passed::Diagnostic,
        "plugins of the agent",
    ),
    (
        "system elicitation_complete",
        Passed::Nothing,
        "a link was opened and used; its tool goes on",
    ),
    (
        "system control_request_progress",
        Passed::Nothing,
        "of a call that is not made here",
    ),
    (
        "system per_turn_effort_changed",
        Passed::Nothing,
        "the effort of one turn",
    ),
    (
        "system shell_cwd",
        Passed::Nothing,
        "where the agent's shell stands",
    ),
    (
        "system vcs_state_changed",
        Passed::Nothing,
        "the state of the repository",
    ),
    (
        "system task_list_statuses",
        Passed::Nothing,
        "of the agent's own interface",
    ),
    (
        "system scheduled_task_fire",
        Passed::Diagnostic,
        "something that the agent had planned begins",
    ),
    (
        "system session_writes_lost",
        Passed::Diagnostic,
        "the agent could not write its own file",
    ),
    (
        "system mirror_error",
        Passed::Diagnostic,
        "the agent could not write its own file",
    ),
    (
        "system worker_shutting_down",
        Passed::Diagnostic,
        "the process ends",
    ),
    (
        "system permission_check_status",
        Passed::Nothing,
        "that a rule is being looked up",
    ),
];

/// How a frame is passed over, if it is.
pub(super) fn passed_over(name: &str) -> Option<Passed> {
    PASSED_OVER
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, passed, _)| *passed)
}

/// Requests of the agent that are for a program and never for a person: refused, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("hook_callback", "no hooks were registered by this client"),
    ("mcp_message", "no MCP servers were offered by this client"),
    ("mcp_call", "no MCP servers were offered by this client"),
    ("oauth_token_refresh", "sign in at the host"),
    ("host_auth_token_refresh", "sign in at the host"),
    ("remote_tool_call", "no tools were offered by this client"),
    (
        "remote_plumbing_call",
        "no tools were offered by this client",
    ),
    (
        "register_device_hooks",
        "no hooks were registered by this client",
    ),
    (
        "upload_device_hook_template",
        "no hooks were registered by this client",
    ),
    (
        "remote_control_work_secret",
        "this client controls it by its pipe alone",
    ),
];

/// Why such a request is refused.
pub(super) fn refused(subtype: &str) -> Option<&'static str> {
    REFUSED
        .iter()
        .find(|(known, _)| *known == subtype)
        .map(|(_, reason)| *reason)
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
