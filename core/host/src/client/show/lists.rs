//! Lists for a person: hosts, threads, a queue.

use super::{live, words};
use crate::client::{
    style::{Style, Tone},
    text::{one_line, since},
};
use pilothouse_domain::{row::WaitingCounts, run::BlockedOn};
use pilothouse_engine::{DIRECT_LIMITS, HostRow, LinkState, SignedOutRow, ThreadHeader, ThreadRow};
use std::fmt::Write as _;

/// How a link stands, in words.
pub(crate) fn link(state: &LinkState, now_ms: u64) -> (String, Tone) {
    match state {
        LinkState::Unreachable {
            since_ms, reason, ..
        } if reason.is_empty() => (
            format!("connecting for {}", since(now_ms, *since_ms)),
            Tone::Dim,
        ),
        LinkState::Unreachable {
            since_ms, reason, ..
        } => {
            // A program that has just begun to try says nothing by how long it has tried.
            let tried = now_ms.saturating_sub(*since_ms);
            let long = if tried < 2_000 {
                String::new()
            } else {
                format!(" for {}", since(now_ms, *since_ms))
            };
            (
                format!("not reachable{long}: {}", one_line(reason, 300)),
                Tone::Bad,
            )
        }
        LinkState::Reachable => ("answers; proving who is who".to_owned(), Tone::Dim),
        LinkState::Authenticated => ("connected; catching up".to_owned(), Tone::Dim),
        LinkState::Synchronised => ("connected, up to date".to_owned(), Tone::Good),
        LinkState::Revoked => (
            "this device was revoked there; pair again to use it".to_owned(),
            Tone::Bad,
        ),
        LinkState::HeldElsewhere => (
            "served by another pilothouse process of this device".to_owned(),
            Tone::Dim,
        ),
    }
}

fn waiting(counts: &WaitingCounts) -> String {
    let mut parts = Vec::new();
    for (count, one, many) in [
        (counts.approvals, "approval", "approvals"),
        (counts.questions, "question", "questions"),
    ] {
        match count {
            0 => {}
            1 => parts.push(format!("1 {one}")),
            n => parts.push(format!("{n} {many}")),
        }
    }
    parts.join(", ")
}

/// The paired hosts.
pub(crate) fn hosts(
    rows: &[HostRow],
    short: impl Fn(&str) -> String,
    now_ms: u64,
    style: Style,
) -> String {
    if rows.is_empty() {
        return "No host is paired. Run `pilothouse pair` on the machine where the agents run, then `pilothouse join CODE` here.\n".to_owned();
    }
    let mut out = String::new();
    for row in rows {
        let (state, tone) = link(&row.link, now_ms);
        let _ = writeln!(
            out,
            "{}  {}  {}",
            style.paint(Tone::Strong, &one_line(&row.name, 40)),
            short(&row.host.to_string()),
            style.paint(tone, &state)
        );
        let mut facts = vec![one_line(&row.addresses.join(", "), 200)];
        if let Some(seen) = row.last_seen_ms
            && row.link != LinkState::Synchronised
        {
            facts.push(format!("last seen {} ago", since(now_ms, seen)));
        }
        let _ = writeln!(out, "  {}", style.paint(Tone::Dim, &facts.join(" · ")));
        if let Some(direct) = &row.direct {
            let what = match direct.removed {
                true => format!(
                    "{} that was driven from here and was taken away",
                    direct.family
                ),
                false => format!("driven from here ({}): {DIRECT_LIMITS}", direct.family),
            };
            let _ = writeln!(out, "  {}", style.paint(Tone::Dim, &what));
            if let Some(problem) = &direct.unreached {
                let problem = format!("its agent is not reached: {}", one_line(problem, 300));
                let _ = writeln!(out, "  {}", style.paint(Tone::Bad, &problem));
            }
        }
        let agents: Vec<&str> = row.agents.iter().map(|agent| agent.name.as_str()).collect();
        let workspaces: Vec<&str> = row
            .workspaces
            .iter()
            .map(|workspace| workspace.as_str())
            .collect();
        if !agents.is_empty() || !workspaces.is_empty() {
            let line = format!(
                "agents: {} · workspaces: {}",
                one_line(&agents.join(", "), 200),
                one_line(&workspaces.join(", "), 200)
            );
            let _ = writeln!(out, "  {}", style.paint(Tone::Dim, &line));
        }
        let waits = waiting(&row.waiting);
        if !waits.is_empty() {
            let _ = writeln!(
                out,
                "  {}",
                style.paint(Tone::Waits, &format!("waits for you: {waits}"))
            );
        }
        for refused in &row.signed_out {
            let line = signed_out_line(refused, &row.name);
            let _ = writeln!(out, "  {}", style.paint(Tone::Bad, &line));
        }
    }
    out
}

/// What a thread is doing, in words.
pub(crate) fn doing(row: &ThreadRow, now_ms: u64) -> (String, Tone) {
    let summary = &row.summary;
    let (mut text, tone) = match (&summary.active, &summary.last_run) {
        (Some(active), _) => (
            format!(
                "{} for {}",
                words::run(active.status, active.blocked_on),
                since(now_ms, active.since_ms)
            ),
            words::run_tone(active.status, active.blocked_on),
        ),
        (None, Some(last)) => (
            words::run(last.status, BlockedOn::None).to_owned(),
            words::run_tone(last.status, BlockedOn::None),
        ),
        (None, None) if row.pending => ("not on the host yet".to_owned(), Tone::Waits),
        (None, None) => ("nothing has run yet".to_owned(), Tone::Dim),
    };
    if summary.queued > 0 {
        let _ = write!(text, ", {} queued", summary.queued);
        if let Some(reason) = summary.held {
            let _ = write!(text, " (held: {})", words::held(reason));
        }
    }
    if row.outstanding > 0 {
        let _ = write!(text, ", {} not confirmed by the host", row.outstanding);
    }
    (text, tone)
}

/// The agents whose sign-in was refused, each once, with how many threads wait for it.
pub(crate) fn signed_out<'a>(hosts: impl IntoIterator<Item = &'a HostRow>, style: Style) -> String {
    let mut out = String::new();
    for host in hosts {
        for row in &host.signed_out {
            let line = signed_out_line(row, &host.name);
            let _ = writeln!(out, "{}", style.paint(Tone::Bad, &line));
        }
    }
    out
}

/// One agent whose sign-in was refused, with what to do.
pub(crate) fn signed_out_line(row: &SignedOutRow, host_name: &str) -> String {
    let typed: Vec<String> = row
        .sign_in
        .iter()
        .map(|typed| format!("`{typed}`"))
        .collect();
    let mut here = String::new();
    if let Some(problem) = &row.problem {
        let _ = write!(
            here,
            " The last sign-in came to nothing: {}.",
            one_line(problem, 200)
        );
    }
    if row.can_sign_in {
        let _ = write!(here, " `sign-in {}` signs it in from here.", row.thread);
    }
    format!(
        "{} on {}: its sign-in was refused; {} for it.{here} On the host it is signed in by {}; then `queue {} --release` lets one of them try, and the others follow. A message that was refused is not said again by itself.",
        one_line(row.agent.as_str(), 40),
        one_line(host_name, 40),
        if row.threads == 1 {
            "1 thread waits".to_owned()
        } else {
            format!("{} threads wait", row.threads)
        },
        if typed.is_empty() {
            "the agent's own way".to_owned()
        } else {
            typed.join(", then ")
        },
        row.thread,
    )
}

/// The threads, the one that changed last first.
pub(crate) fn threads(
    rows: &[ThreadRow],
    short: impl Fn(&str) -> String,
    now_ms: u64,
    style: Style,
) -> String {
    let mut out = String::new();
    for row in rows {
        let summary = &row.summary;
        let (state, tone) = doing(row, now_ms);
        let _ = writeln!(
            out,
            "{}  {}  {}",
            short(&summary.thread.to_string()),
            style.paint(Tone::Strong, &one_line(&summary.title, 60)),
            style.paint(tone, &state)
        );
        let mut facts = vec![
            format!(
                "{} › {}",
                one_line(&row.host_name, 40),
                one_line(summary.workspace.as_str(), 40)
            ),
            format!(
                "{} ({})",
                one_line(summary.agent.as_str(), 40),
                summary.mode.name()
            ),
            format!("{} ago", since(now_ms, summary.updated_at_ms)),
        ];
        facts.extend(summary.sandbox.map(words::unasked));
        if summary.archived {
            facts.push("archived".to_owned());
        }
        let _ = writeln!(out, "  {}", style.paint(Tone::Dim, &facts.join(" · ")));
        let waits = waiting(&summary.waiting);
        if !waits.is_empty() {
            let _ = writeln!(
                out,
                "  {}",
                style.paint(Tone::Waits, &format!("waits for you: {waits}"))
            );
        }
        if !summary.last_line.is_empty() {
            let _ = writeln!(
                out,
                "  {}",
                style.paint(
                    Tone::Dim,
                    &format!("“{}”", one_line(&summary.last_line, 100))
                )
            );
        }
    }
    out
}

/// A thread's queue.
pub(crate) fn queue(header: &ThreadHeader, short: impl Fn(&str) -> String, style: Style) -> String {
    let mut out = String::new();
    let standing = live::standing(header);
    if !standing.is_empty() {
        let _ = writeln!(out, "{standing}");
    }
    for (index, row) in header.queue.iter().enumerate() {
        let preview = if row.preview.is_empty() {
            "(its text is not held here)".to_owned()
        } else {
            one_line(&row.preview, 80)
        };
        let pending = if row.pending {
            style.paint(Tone::Waits, "  not on the host yet")
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "{}. {}  {preview}{pending}",
            index + 1,
            style.paint(Tone::Strong, &short(&row.run.to_string()))
        );
    }
    if header.queue.is_empty() {
        let _ = writeln!(out, "The queue is empty.");
    }
    out
}
