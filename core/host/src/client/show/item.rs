//! One entry of a timeline: its heading, what it consists of beside its streamed text, and how it ended.

use super::words;
use crate::client::{
    style::{Style, Tone},
    text::{neutral, one_line, span},
};
use pilothouse_domain::{
    ItemStatus,
    item::{FileAction, TodoStatus},
    request::RequestStatus,
    thread::Delivery,
};
use pilothouse_engine::{ChangeRow, RequestOutline, RowContent, RowText, TimelineRow};
use std::fmt::Write as _;

/// The heading: who or what, in one line of ours.
pub(crate) fn heading(row: &TimelineRow, style: Style) -> String {
    let strong = |text: &str| style.paint(Tone::Strong, text);
    let dim = |text: &str| style.paint(Tone::Dim, text);
    match &row.content {
        RowContent::UserMessage { attachments, .. } => {
            let attached = if attachments.is_empty() {
                String::new()
            } else {
                format!(" ({} attached)", attachments.len())
            };
            let how_far = match &row.delivery {
                Some(Delivery::Saved) => dim(" (saved here, not on the host yet)"),
                Some(Delivery::OnHost) => dim(" (on the host, waits for its turn)"),
                Some(Delivery::Failed { reason }) => style.paint(
                    Tone::Bad,
                    &format!(" (not delivered: {})", one_line(reason, 120)),
                ),
                Some(Delivery::Unknown) => {
                    style.paint(Tone::Bad, " (it is not known whether the agent got it)")
                }
                Some(Delivery::Started) | None => String::new(),
            };
            format!("{}{attached}{how_far}", strong("you"))
        }
        RowContent::AssistantMessage => strong("agent"),
        RowContent::Reasoning => dim("reasoning"),
        RowContent::Command { command, cwd, .. } => {
            format!(
                "{} {}{}",
                strong("$"),
                one_line(command, 500),
                dim(&format!("   in {}", one_line(cwd, 200)))
            )
        }
        RowContent::FileChange { changes } => {
            format!("{} {}", strong("files"), one_line(&paths(changes), 500))
        }
        RowContent::FileSearch { query } => {
            format!("{} {}", strong("search in files"), one_line(query, 200))
        }
        RowContent::WebSearch { query } => {
            format!("{} {}", strong("search on the web"), one_line(query, 200))
        }
        RowContent::Tool { server, name, .. } => {
            let server = server
                .as_deref()
                .map(|server| format!("{}/", one_line(server, 60)))
                .unwrap_or_default();
            format!("{} {server}{}", strong("tool"), one_line(name, 100))
        }
        RowContent::Plan => strong("plan"),
        RowContent::Todo { .. } => strong("to do"),
        RowContent::Question { asked, .. } => format!(
            "{} {}",
            strong("question"),
            outline(asked.as_deref(), style)
        ),
        RowContent::Approval { asked, .. } => format!(
            "{} {}",
            strong("approval"),
            outline(asked.as_deref(), style)
        ),
        RowContent::Error {
            message,
            will_retry,
            ..
        } => {
            let retry = if *will_retry {
                "; the agent tries again by itself"
            } else {
                ""
            };
            style.paint(
                Tone::Bad,
                &format!("error: {}{retry}", one_line(message, 1000)),
            )
        }
        RowContent::Compaction => dim("the agent shortened its context"),
        RowContent::Interrupt { note } => {
            style.paint(Tone::Bad, &format!("stop: {}", one_line(note, 200)))
        }
        RowContent::Fork { source, .. } => dim(&format!(
            "begins as thread {} stood; files are as they are now",
            words::thread(*source)
        )),
        RowContent::Rollback { runs, .. } => dim(&format!(
            "the agent has forgotten the {} before this; files are as they were",
            if *runs == 1 {
                "run".to_owned()
            } else {
                format!("{runs} runs")
            }
        )),
        RowContent::Subagent { title, .. } => {
            format!("{} {}", strong("subagent"), one_line(title, 200))
        }
        RowContent::ModelRerouted { from, to } => dim(&format!(
            "another model answered: {} instead of {}",
            one_line(to, 80),
            one_line(from, 80)
        )),
        RowContent::Unknown { label } => dim(&format!(
            "something this version cannot show ({})",
            one_line(label, 80)
        )),
    }
}

/// A request's line: what was asked, and what became of it.
fn outline(asked: Option<&RequestOutline>, style: Style) -> String {
    let Some(asked) = asked else {
        return "asked".to_owned();
    };
    format!(
        "{}: {}",
        one_line(&asked.title, 200),
        became(&asked.status, style)
    )
}

/// What became of a request.
pub(crate) fn became(status: &RequestStatus, style: Style) -> String {
    match status {
        RequestStatus::Pending => style.paint(Tone::Waits, "waits"),
        RequestStatus::Answering { answer, .. } => style.paint(
            Tone::Waits,
            &format!(
                "the host has the answer ({}); the agent has not confirmed it yet",
                words::answer(answer)
            ),
        ),
        RequestStatus::Answered {
            answer,
            by,
            delivery,
            ..
        } => {
            let answer = answer
                .as_ref()
                .map(|answer| format!(": {}", words::answer(answer)))
                .unwrap_or_default();
            let by = by.map_or_else(
                || " outside Pilothouse".to_owned(),
                |device| format!(" by device {}", &device.to_string()[..6]),
            );
            style.paint(
                Tone::Good,
                &format!("answered{by}{answer} ({})", words::delivery(*delivery)),
            )
        }
        RequestStatus::Withdrawn => style.paint(Tone::Dim, "withdrawn by the agent"),
        RequestStatus::Expired => style.paint(Tone::Dim, "expired, nobody answered in time"),
        RequestStatus::Lost { reason, answer } => {
            let sent = answer
                .as_ref()
                .map(|answer| format!("; the answer {} may have reached it", words::answer(answer)))
                .unwrap_or_default();
            style.paint(Tone::Bad, &format!("lost ({}){sent}", words::lost(*reason)))
        }
    }
}

fn paths(changes: &[ChangeRow]) -> String {
    let one = |change: &ChangeRow| {
        let sign = match change.action {
            FileAction::Add => "+",
            FileAction::Delete => "-",
            FileAction::Update => "~",
        };
        let to = change
            .moved_to
            .as_deref()
            .map(|to| format!(" → {to}"))
            .unwrap_or_default();
        format!("{sign}{}{to}", change.path)
    };
    changes.iter().map(one).collect::<Vec<_>>().join("  ")
}

/// What stands below the heading beside the streamed text: diffs, to-do entries, arguments. Safe to print.
pub(crate) fn details(row: &TimelineRow) -> String {
    let mut out = String::new();
    match &row.content {
        RowContent::FileChange { changes } => {
            for change in changes {
                if changes.len() > 1 {
                    let _ = writeln!(out, "{}", one_line(&change.path, 300));
                }
                let _ = writeln!(
                    out,
                    "{}",
                    neutral(part(&change.diff).trim_end_matches('\n'))
                );
            }
        }
        RowContent::Todo { entries } => {
            for entry in entries {
                let sign = match entry.status {
                    TodoStatus::Pending => "[ ]",
                    TodoStatus::InProgress => "[>]",
                    TodoStatus::Completed => "[x]",
                };
                let _ = writeln!(out, "{sign} {}", one_line(&entry.text, 300));
            }
        }
        RowContent::Tool { arguments, .. } if arguments.bytes > 0 => {
            let _ = writeln!(out, "{}", one_line(&part(arguments), 1000));
        }
        _ => {}
    }
    out
}

/// What is held of a text, with what is missing said in words.
pub(crate) fn part(text: &RowText) -> String {
    if text.is_whole() {
        return text.text.clone();
    }
    let mut out = String::new();
    if text.from > 0 {
        let _ = writeln!(out, "[{} bytes before this are not shown]", text.from);
    }
    out.push_str(&text.text);
    if let Some(tail) = &text.tail {
        let shown = text.text.len() as u64 + tail.len() as u64;
        let _ = write!(
            out,
            "\n[{} bytes are not shown]\n{tail}",
            text.bytes.saturating_sub(shown)
        );
    }
    if text.dropped > 0 {
        let _ = write!(
            out,
            "\n[{} bytes of the middle were dropped for good]",
            text.dropped
        );
    }
    out
}

/// How it ended, where that says something, and what is wrong with it.
pub(crate) fn ending(row: &TimelineRow, style: Style) -> Option<String> {
    let ended = end(row, style);
    let Some(anomaly) = row.anomaly else {
        return ended;
    };
    let wrong = style.paint(Tone::Bad, words::anomaly(anomaly));
    Some(ended.map_or(wrong.clone(), |ended| format!("{ended}, {wrong}")))
}

fn end(row: &TimelineRow, style: Style) -> Option<String> {
    let words = words::item_end(row.status)?;
    let tone = match row.status {
        ItemStatus::Completed => Tone::Good,
        ItemStatus::Open | ItemStatus::Background => Tone::Dim,
        ItemStatus::Failed
        | ItemStatus::Declined
        | ItemStatus::Interrupted
        | ItemStatus::Unfinished => Tone::Bad,
    };
    match &row.content {
        RowContent::Command {
            exit_code,
            duration_ms,
            ..
        } => {
            let code = exit_code
                .map(|code| format!(", exit code {code}"))
                .unwrap_or_default();
            let took = duration_ms
                .or_else(|| {
                    row.closed_at_ms
                        .filter(|_| row.opened_at_ms > 0)
                        .map(|closed| closed.saturating_sub(row.opened_at_ms))
                })
                .map(|ms| format!(", {}", exact_span(ms)))
                .unwrap_or_default();
            Some(style.paint(tone, &format!("{words}{code}{took}")))
        }
        RowContent::FileChange { .. } | RowContent::Tool { .. } | RowContent::Subagent { .. } => {
            Some(style.paint(tone, words))
        }
        _ if row.status == ItemStatus::Completed => None,
        RowContent::Approval { .. }
        | RowContent::Question { .. }
        | RowContent::Error { .. }
        | RowContent::Interrupt { .. } => None,
        _ => Some(style.paint(tone, words)),
    }
}

/// Short spans with tenths: a command of 0 s says nothing.
fn exact_span(ms: u64) -> String {
    if ms < 10_000 {
        format!("{}.{} s", ms / 1000, ms % 1000 / 100)
    } else {
        span(ms)
    }
}

/// What is going on, for the line that tells what runs: a command with its directory, a tool.
pub(crate) fn acting(row: &TimelineRow) -> Option<String> {
    if !row.status.is_live() {
        return None;
    }
    match &row.content {
        RowContent::Command { command, cwd, .. } => Some(format!(
            "$ {} in {}",
            one_line(command, 60),
            one_line(cwd, 40)
        )),
        RowContent::Tool { name, .. } => Some(format!("tool {}", one_line(name, 60))),
        RowContent::FileChange { changes } => {
            Some(format!("files {}", one_line(&paths(changes), 60)))
        }
        RowContent::Subagent { title, .. } => Some(format!("subagent {}", one_line(title, 60))),
        RowContent::FileSearch { query } | RowContent::WebSearch { query } => {
            Some(format!("search {}", one_line(query, 60)))
        }
        _ => None,
    }
}
