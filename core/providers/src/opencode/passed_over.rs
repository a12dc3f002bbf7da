//! Events that no timeline needs, each with the reason.

/// What an event becomes that no timeline needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// A line in the host's log.
    Diagnostic,
    /// Nothing.
    Nothing,
}

/// Events that are passed over, each with the reason. A name that ends with `*` stands for all that begin so.
pub const PASSED_OVER: &[(&str, Passed, &str)] = &[
    ("server.connected", Passed::Nothing, "the stream began"),
    ("server.heartbeat", Passed::Nothing, "the stream lives"),
    (
        "server.instance.disposed",
        Passed::Diagnostic,
        "opencode let go of a project",
    ),
    (
        "global.disposed",
        Passed::Diagnostic,
        "opencode let go of all projects",
    ),
    (
        "sync",
        Passed::Nothing,
        "says every durable event a second time",
    ),
    (
        "session.idle",
        Passed::Nothing,
        "session.status says it first",
    ),
    (
        "session.deleted",
        Passed::Diagnostic,
        "somebody deleted the conversation",
    ),
    ("session.diff", Passed::Nothing, "the tools' changes say it"),
    ("session.compacted", Passed::Nothing, "the summary says it"),
    (
        "message.removed",
        Passed::Nothing,
        "what was taken back by a revert",
    ),
    (
        "message.part.removed",
        Passed::Nothing,
        "what was taken back by a revert",
    ),
    (
        "session.next.*",
        Passed::Nothing,
        "the second interface, which is not used",
    ),
    (
        "permission.v2.*",
        Passed::Nothing,
        "the second interface, which is not used",
    ),
    (
        "question.v2.*",
        Passed::Nothing,
        "the second interface, which is not used",
    ),
    ("file.edited", Passed::Nothing, "the tool's change says it"),
    (
        "file.watcher.updated",
        Passed::Nothing,
        "the workspace, whoever changed it",
    ),
    (
        "vcs.branch.updated",
        Passed::Nothing,
        "the workspace, whoever changed it",
    ),
    ("project.*", Passed::Nothing, "opencode's own lists"),
    (
        "workspace.*",
        Passed::Nothing,
        "opencode's own workspaces, which are not used",
    ),
    (
        "worktree.*",
        Passed::Nothing,
        "opencode's own worktrees, which are not used",
    ),
    ("plugin.*", Passed::Nothing, "set-up"),
    ("catalog.updated", Passed::Nothing, "set-up"),
    ("models-dev.refreshed", Passed::Nothing, "set-up"),
    ("reference.updated", Passed::Nothing, "set-up"),
    ("integration.*", Passed::Nothing, "set-up"),
    ("mcp.tools.changed", Passed::Nothing, "set-up"),
    (
        "mcp.browser.open.failed",
        Passed::Diagnostic,
        "an MCP server's sign-in",
    ),
    ("lsp.*", Passed::Nothing, "language servers"),
    ("pty.*", Passed::Nothing, "terminals, which are not used"),
    ("tui.*", Passed::Nothing, "opencode's own screen"),
    ("command.executed", Passed::Nothing, "the turn says it"),
    ("installation.*", Passed::Diagnostic, "a newer opencode"),
    ("ide.*", Passed::Nothing, "editors, which are not used"),
];

/// What an event of that name becomes, if it is passed over.
pub(super) fn passed(name: &str) -> Option<(Passed, &'static str)> {
    PASSED_OVER
        .iter()
        .find(|(pattern, ..)| match pattern.strip_suffix('*') {
            Some(head) => name.starts_with(head),
            None => *pattern == name,
        })
        .map(|&(_, passed, reason)| (passed, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_nothing_twice_and_gives_a_reason_for_each() {
        for (name, _, reason) in PASSED_OVER {
            assert!(!reason.is_empty());
            let said: Vec<_> = PASSED_OVER
                .iter()
                .filter(|(other, ..)| match other.strip_suffix('*') {
                    Some(head) => name.starts_with(head),
                    None => other == name,
                })
                .collect();
            assert_eq!(said.len(), 1, "{name}");
        }
    }
}
