//! What recordings come to, read by hand from their frames.
//!
//! Of a text longer than 24 characters a label says the first ones, how many it has, and the beginning of its SHA-256: taken from
//! the text that the recorded frames spell out, or from their deltas put together where the agent never spelled it out, by a script
//! that reads the frames and nothing of ours.

use crate::stage::Stage;
use pilothouse_domain::{
    ItemContent, NodeId, Row, hash,
    run::{ExecutionNode, NodeKind},
};
use std::collections::BTreeMap;

/// A recording and its outcome: one line per run, item and request, in the order of the timeline.
pub(crate) struct Label {
    pub(crate) recording: &'static str,
    pub(crate) lines: &'static [&'static str],
}

/// The outcome of a replay in the words of the labels.
pub(crate) fn outcome(stage: &Stage) -> Vec<String> {
    let mut lines = Vec::new();
    for memory in stage.threads.values() {
        let tree: BTreeMap<NodeId, &ExecutionNode> = memory
            .rows
            .0
            .values()
            .filter_map(|row| match row {
                Row::Node(node) => Some((node.id, node)),
                _ => None,
            })
            .collect();
        let is_child = |id: &NodeId| {
            let node = tree.get(id).copied();
            node.filter(|node| node.kind == NodeKind::Subagent)
        };
        let of = |id: NodeId| match is_child(&id) {
            Some(node) => format!(" of `{}`", node.title),
            None => String::new(),
        };
        let mut runs = Vec::new();
        let mut items = Vec::new();
        let mut nodes = Vec::new();
        let mut requests = Vec::new();
        for row in memory.rows.0.values() {
            match row {
                Row::Run(run) => runs.push((
                    run.ordinal,
                    match &run.error {
                        Some(error) => format!("run {:?} ({:?})", run.status, error.code),
                        None => format!("run {:?}", run.status),
                    },
                )),
                Row::Item(item) => items.push((
                    item.position,
                    format!(
                        "{} {:?}{}",
                        words(&item.content),
                        item.status,
                        of(item.node)
                    ),
                )),
                Row::Node(node) if node.kind == NodeKind::Subagent => {
                    let parent = node.parent.and_then(|parent| tree.get(&parent));
                    let under = match parent {
                        Some(parent) if parent.kind == NodeKind::RootTurn => "the turn".to_owned(),
                        Some(parent) => format!("`{}`", parent.title),
                        None => "nothing".to_owned(),
                    };
                    nodes.push(format!(
                        "subagent node `{}` {:?} under {under}",
                        node.title, node.status
                    ));
                }
                Row::Request(request) => {
                    let status = match &request.status {
                        pilothouse_domain::RequestStatus::Answered { answer, .. } => match answer {
                            Some(pilothouse_domain::Answer::Choose { option, .. }) => {
                                format!("answered {option}")
                            }
                            Some(pilothouse_domain::Answer::Reply { replies }) => {
                                let said = replies.iter().flat_map(|reply| {
                                    reply.chosen.iter().chain(&reply.text).cloned()
                                });
                                format!("answered {}", said.collect::<Vec<_>>().join(", "))
                            }
                            None => "answered elsewhere".to_owned(),
                        },
                        other => format!("{other:?}"),
                    };
                    requests.push((
                        request.opened_at_ms,
                        format!("request {:?} {status}{}", request.kind, of(request.node)),
                    ));
                }
                _ => {}
            }
        }
        runs.sort();
        items.sort();
        requests.sort();
        lines.extend(runs.into_iter().map(|(_, line)| line));
        lines.extend(items.into_iter().map(|(_, line)| line));
        lines.extend(requests.into_iter().map(|(_, line)| line));
        lines.extend(nodes);
    }
    lines
}

fn words(content: &ItemContent) -> String {
    match content {
        ItemContent::UserMessage { text, .. } => format!("user `{}`", short(text.preview())),
        ItemContent::AssistantMessage { text } => format!("assistant `{}`", short(text.preview())),
        ItemContent::Reasoning { text } => format!("reasoning `{}`", short(text.preview())),
        ItemContent::Command {
            command, exit_code, ..
        } => format!("command `{command}` exit {exit_code:?}"),
        ItemContent::FileChange { changes } => format!(
            "change {}",
            changes
                .iter()
                .map(|change| change.path.rsplit('/').next().unwrap().to_owned())
                .collect::<Vec<_>>()
                .join(", ")
        ),
        ItemContent::Tool { name, .. } => format!("tool {name}"),
        ItemContent::Subagent { title, .. } => format!("subagent `{}`", short(title)),
        ItemContent::Interrupt { .. } => "interrupt".to_owned(),
        ItemContent::Question { .. } => "question".to_owned(),
        ItemContent::Approval { .. } => "approval".to_owned(),
        ItemContent::Plan { text, .. } => format!("plan `{}`", short(text.preview())),
        ItemContent::Error {
            code, will_retry, ..
        } => format!(
            "error {code:?}{}",
            if *will_retry { " (tries again)" } else { "" }
        ),
        ItemContent::Todo { entries } => format!(
            "todo {}",
            entries
                .iter()
                .map(|entry| format!("{} {:?}", entry.text, entry.status))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        ItemContent::Compaction { text } => format!("compaction `{}`", short(text.preview())),
        other => format!("{other:?}"),
    }
}

/// A text that is short, or the first words of a longer one with what tells it from others that begin so.
fn short(text: &str) -> String {
    const WHOLE: usize = 24;
    let characters = text.chars().count();
    if characters <= WHOLE {
        return text.to_owned();
    }
    let head: String = text.chars().take(WHOLE).collect();
    let hash = hash::to_hex(&hash::sha256(text.as_bytes()));
    format!("{head}… {characters} {}", &hash[..8])
}

pub(crate) const LABELS: &[Label] = &[
    Label {
        recording: "02_command_approval_accept",
        lines: &[
            "run Completed",
            "user `go [[script:ap]]` Completed",
            "assistant `Running.` Completed",
            "command `/bin/bash -lc 'touch made_accept.txt && ls made_accept.txt'` exit Some(0) Completed",
            "assistant `After decision.` Completed",
            "request Command answered accept",
        ],
    },
    Label {
        recording: "02_command_approval_decline",
        lines: &[
            "run Completed",
            "user `go [[script:ap]]` Completed",
            "assistant `Running.` Completed",
            "command `/bin/bash -lc 'touch made_decline.txt && ls made_decline.txt'` exit None Declined",
            "assistant `After decision.` Completed",
            "request Command answered decline",
        ],
    },
    Label {
        recording: "02_command_approval_cancel",
        lines: &[
            "run Interrupted",
            "user `go [[script:ap]]` Completed",
            "assistant `Running.` Completed",
            "command `/bin/bash -lc 'touch made_cancel.txt && ls made_cancel.txt'` exit None Declined",
            "request Command answered cancel",
        ],
    },
    Label {
        recording: "03_filechange_approval_accept",
        lines: &[
            "run Completed",
            "user `go [[script:pt]]` Completed",
            "assistant `Patching.` Completed",
            "change pf_accept.txt Completed",
            "assistant `After patch.` Completed",
            "request FileChange answered accept",
        ],
    },
    Label {
        recording: "04_interrupt_text",
        lines: &[
            "run Interrupted",
            "run Completed",
            "user `go [[script:slow]]` Completed",
            "reasoning `Thinking slowly about al… 128 044f661e` Completed",
            "assistant `word word word word word… 50 ccf20613` Interrupted",
            "interrupt Completed",
            "user `again plain` Completed",
            "reasoning `Thinking slowly about al… 128 044f661e` Completed",
            "assistant `word word word word word… 300 fe8d8744` Completed",
        ],
    },
    Label {
        recording: "04_interrupt_pending_approval",
        lines: &[
            "run Interrupted",
            "user `go [[script:ap2]]` Completed",
            "command `/bin/bash -lc 'touch never.txt'` exit None Interrupted",
            "interrupt Completed",
            "request Command Withdrawn",
        ],
    },
    Label {
        recording: "04_steer",
        lines: &[
            "run Completed",
            "run Completed",
            "user `go [[script:steer]]` Completed",
            "assistant `word word ` Unfinished",
            "user `please also say hello` Completed",
            "assistant `word word word word word… 150 9e80c85b` Completed",
            "user `go [[script:slow2]]` Completed",
            "assistant `word word ` Unfinished",
            "user `second start while activ… 25 8d72122b` Completed",
            "assistant `word word word word word… 150 9e80c85b` Completed",
        ],
    },
    Label {
        recording: "05_update_plan",
        lines: &[
            "run Completed",
            "user `go [[script:pl]]` Completed",
            "todo Look Completed, Do Completed Completed",
            "assistant `Planned.` Completed",
        ],
    },
    Label {
        recording: "06_plan_mode_request_user_input",
        lines: &[
            "run Completed",
            "user `go [[script:q]]` Completed",
            "assistant `I need to ask.` Completed",
            "question Completed",
            "assistant `Here it is.\n` Completed",
            "plan `# Plan\n- paint it red\n` Completed",
            "request UserInput answered Blue",
        ],
    },
    Label {
        recording: "08_model_error_401",
        lines: &[
            "run Failed (SignIn)",
            "user `go [[script:e401]]` Completed",
            "error SignIn (tries again) Failed",
            "error SignIn Failed",
        ],
    },
    Label {
        recording: "09_subagent_v1",
        lines: &[
            "run Completed",
            "user `go [[script:v1]]` Completed",
            "assistant `Spawning` Completed",
            "subagent `child task [[script:chil… 27 0a4c8421` Completed",
            "assistant `Spawned; end.` Completed",
            "user `child task [[script:chil… 27 0a4c8421` Completed of `child task [[script:child]]`",
            "assistant `Child working` Completed of `child task [[script:child]]`",
            "command `/bin/bash -lc 'echo child'` exit Some(0) Completed of `child task [[script:child]]`",
            "assistant `Child result 42` Completed of `child task [[script:child]]`",
            "subagent node `child task [[script:child]]` Completed under the turn",
        ],
    },
    Label {
        recording: "13_parallel_approvals",
        lines: &[
            "run Completed",
            "user `go [[script:par2]]` Completed",
            "assistant `Two at once` Completed",
            "command `/bin/bash -lc 'touch B1'` exit Some(0) Completed",
            "command `/bin/bash -lc 'touch A1'` exit Some(0) Completed",
            "assistant `done` Completed",
            "request Command answered accept",
            "request Command answered accept",
        ],
    },
];
