//! What the model-based test has been through: a table of commands and statuses, which has to be full.

use pilothouse_domain::{CommandBody, DispatchMode, Refusal, RunStatus};
use std::collections::BTreeMap;

/// Commands, told apart by what they ask.
pub(crate) const COMMANDS: [&str; 13] = [
    "select",
    "create",
    "fork",
    "rollback",
    "compact",
    "start",
    "queue",
    "steer",
    "restart",
    "interrupt",
    "answer",
    "remove",
    "release",
];
/// Where a thread stands.
const THREADS: [&str; 5] = ["none", "Active", "Archived", "Deleted", "read_only"];
/// Commands that name a run.
const AIMED: [&str; 6] = [
    "steer",
    "restart",
    "interrupt",
    "remove",
    "fork",
    "rollback",
];
/// Where a request stands.
const REQUESTS: [&str; 7] = [
    "Pending",
    "Answering",
    "Answered",
    "Withdrawn",
    "Expired",
    "Lost",
    "unknown",
];

/// Statuses of a run that nothing leads to yet: no cell of theirs can be hit, and none may be.
const NOT_YET: [(RunStatus, &str); 1] = [(
    RunStatus::Preparing,
    "no handoff and no checkpoint is made before a turn is sent",
)];

const GOLDEN_REFUSALS: &str = include_str!("../../../../domain/golden/refusals.jsonl");

/// Refusals that `decide` never gives, with who does.
fn elsewhere(code: &str) -> Option<&'static str> {
    Some(match code {
        "unknown_conversation" | "already_here" => "an import, asked in importing.rs",
        "not_ready" => "the host, while it starts or stops",
        "rate_limited" => "the host, for a device that sends too fast",
        "disk_full" => "the ledger, when it cannot append",
        "expired" => "the device's outbox",
        "unknown_command" => "the wire, for a command that does not read",
        _ => return None,
    })
}

pub(crate) fn kind(body: &CommandBody) -> &'static str {
    match body {
        CommandBody::ThreadCreate { .. } => "create",
        CommandBody::ThreadFork { .. } => "fork",
        CommandBody::ThreadImport { .. } => "import",
        CommandBody::ThreadRollback { .. } => "rollback",
        CommandBody::ThreadCompact => "compact",
        CommandBody::ThreadSignIn => "sign_in",
        CommandBody::ThreadSelect { .. } => "select",
        CommandBody::MessageSend { dispatch, .. } => match dispatch {
            DispatchMode::StartImmediately => "start",
            DispatchMode::QueueAfterActive => "queue",
            DispatchMode::SteerActive { .. } => "steer",
            DispatchMode::RestartActive { .. } => "restart",
        },
        CommandBody::RunInterrupt { .. } => "interrupt",
        CommandBody::RequestAnswer { .. } => "answer",
        CommandBody::QueueRemove { .. } => "remove",
        CommandBody::QueueRelease { .. } => "release",
    }
}

#[derive(Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) cells: BTreeMap<String, u64>,
    outcomes: BTreeMap<String, u64>,
    /// Of those, the ones given to a thread in use, and those of them that were taken.
    in_use: (u64, u64),
    pub(crate) steps: u64,
    /// What happened in the thread at hand, for a failure.
    pub(crate) story: Vec<String>,
}

impl Coverage {
    pub(crate) fn cell(&mut self, command: &str, of: &str, status: &str) {
        let cell = format!("{command} · {of} {status}");
        *self.cells.entry(cell).or_default() += 1;
    }

    /// An outcome; `in_use` for a command to a thread in the middle of its life, not to one that is not there or put away.
    pub(crate) fn outcome(&mut self, outcome: &str, in_use: bool) {
        *self.outcomes.entry(outcome.to_owned()).or_default() += 1;
        if in_use {
            self.in_use.0 += 1;
            self.in_use.1 += u64::from(outcome.split(':').next() == Some("accepted"));
        }
    }

    fn share_accepted(&self) -> u64 {
        self.in_use.1 * 100 / self.in_use.0.max(1)
    }

    /// Every cell there is.
    fn expected() -> Vec<String> {
        let mut cells = Vec::new();
        for command in COMMANDS {
            for thread in THREADS {
                cells.push(format!("{command} · thread {thread}"));
            }
            for at_work in ["nothing", "Starting", "Running", "Waiting", "Finalizing"] {
                cells.push(format!("{command} · at work {at_work}"));
            }
        }
        for command in AIMED {
            for status in RunStatus::ALL {
                if NOT_YET.iter().all(|(not_yet, _)| *not_yet != status) {
                    cells.push(format!("{command} · run {status:?}"));
                }
            }
            cells.push(format!("{command} · run unknown"));
        }
        for status in REQUESTS {
            cells.push(format!("answer · request {status}"));
        }
        cells
    }

    /// Prints the table and fails on what is missing.
    pub(crate) fn assert_full(&self) {
        let mut report = format!("{} steps; outcomes of commands:\n", self.steps);
        for (outcome, count) in &self.outcomes {
            report += &format!("{count:>8}  {outcome}\n");
        }
        report += &format!("accepted: {} %\ncells:\n", self.share_accepted());
        for (cell, count) in &self.cells {
            report += &format!("{count:>8}  {cell}\n");
        }
        for (status, why) in NOT_YET {
            report += &format!("       –  run {status:?}: {why}\n");
        }
        eprintln!("{report}");

        let expected = Self::expected();
        let missing: Vec<_> = expected
            .iter()
            .filter(|cell| !self.cells.contains_key(*cell))
            .collect();
        assert!(missing.is_empty(), "cells never hit: {missing:#?}");
        let strange: Vec<_> = self
            .cells
            .keys()
            .filter(|cell| !expected.contains(cell))
            .collect();
        assert!(strange.is_empty(), "cells that cannot be: {strange:#?}");

        // Every refusal stands in its golden file: the domain's own tests see to that.
        let refusals: Vec<Refusal> = GOLDEN_REFUSALS
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(refusals.len() > 20);
        for code in refusals.iter().map(Refusal::code) {
            let hit = self
                .outcomes
                .keys()
                .any(|outcome| outcome.split(':').next() == Some(code));
            match elsewhere(code) {
                None => assert!(hit, "no command was refused as `{code}`"),
                Some(who) => assert!(!hit, "`{code}` is refused by {who}, not by decide"),
            }
        }
        for detail in [
            "stale:content",
            "stale:attempt",
            "stale:queue",
            "stale:last_run",
            "invalid:run",
            "invalid:model",
            "stale:running_item",
            "not_respondable:Withdrawn",
            "not_respondable:Expired",
            "not_respondable:Lost",
            "accepted:queued_instead",
            "accepted:follows_queued",
            "turn_ended::",
            "turn_ended:Completed:kept",
        ] {
            assert!(self.outcomes.contains_key(detail), "`{detail}` never came");
        }
        assert!(self.share_accepted() >= 40, "too few commands are accepted");
    }
}
