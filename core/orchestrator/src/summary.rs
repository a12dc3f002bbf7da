//! `summarise`: the thread's line in lists. From the log or step by step, it is the same.

use crate::Rows;
use pilothouse_domain::{
    Body, Entry, Event, ItemContent, LoggedEvent, Row, ThreadState, ThreadSummary,
    row::{ActiveSummary, RowKind, WaitingCounts},
    thread::Lifecycle,
};

/// Characters of a summary's last line.
const LAST_LINE_CHARS: usize = 120;

/// The summary after an entry. `state` and `rows` are those after it.
pub fn summarise(
    previous: Option<&ThreadSummary>,
    state: &ThreadState,
    entry: &Entry,
    rows: &dyn Rows,
) -> ThreadSummary {
    let mut waiting = WaitingCounts::default();
    for slot in state.requests.iter().filter(|slot| !slot.answering) {
        if slot.kind.is_question() {
            waiting.questions += 1;
        } else {
            waiting.approvals += 1;
        }
    }
    let active = state.active.as_ref().map(|active| ActiveSummary {
        run: active.id,
        status: active.status,
        blocked_on: active.blocked_on,
        since_ms: match rows.get(RowKind::Run.key(active.id.as_bytes())) {
            Some(Row::Run(run)) => run.started_at_ms.unwrap_or(entry.host_time_ms),
            _ => entry.host_time_ms,
        },
    });
    let meta = state.meta.as_ref();
    ThreadSummary {
        thread: state.thread,
        title: meta.map(|m| m.title.clone()).unwrap_or_default(),
        workspace: meta
            .map(|m| m.workspace.clone())
            .unwrap_or_else(|| "".into()),
        agent: meta
            .map(|m| m.selection.agent.clone())
            .unwrap_or_else(|| "".into()),
        mode: meta.map(|m| m.selection.mode).unwrap_or_default(),
        sandbox: meta.and_then(|m| m.selection.sandbox),
        lineage: meta.and_then(|m| m.lineage),
        active,
        last_run: state.last_run,
        waiting,
        queued: u32::try_from(state.queue.len()).unwrap_or(u32::MAX),
        held: state.held,
        sign_in_problem: sign_in_problem(entry, previous),
        last_line: last_words(entry, rows)
            .or_else(|| previous.map(|p| p.last_line.clone()))
            .unwrap_or_default(),
        archived: meta.is_some_and(|m| m.lifecycle != Lifecycle::Active),
        created_at_ms: previous.map_or(entry.host_time_ms, |p| p.created_at_ms),
        updated_at_ms: entry.host_time_ms,
        seq: entry.seq,
    }
}

/// Why the last sign-in came to nothing, until another is asked for or the queue goes on.
fn sign_in_problem(entry: &Entry, previous: Option<&ThreadSummary>) -> Option<String> {
    let said = entry.events.iter().rev().find_map(|logged| match logged {
        LoggedEvent::Known(event) => match event.as_ref() {
            Event::SignInFailed { problem, .. } => Some(Some(problem.clone())),
            Event::SignInAsked { .. } | Event::QueueHeld { reason: None } => Some(None),
            _ => None,
        },
        LoggedEvent::Unknown(_) => None,
    });
    said.unwrap_or_else(|| previous?.sign_in_problem.clone())
}

/// The last line of what the agent said last in this entry, if it said something.
fn last_words(entry: &Entry, rows: &dyn Rows) -> Option<String> {
    entry.events.iter().rev().find_map(|logged| {
        let LoggedEvent::Known(event) = logged else {
            return None;
        };
        match &**event {
            Event::ItemOpened { item } => line_of(&item.content),
            Event::ItemClosed {
                content: Some(content),
                ..
            } => line_of(content),
            Event::ItemClosed {
                item,
                streamed: Some(_),
                ..
            } => match rows.get(RowKind::Item.key(item.as_bytes())) {
                Some(Row::Item(row)) => line_of(&row.content),
                _ => None,
            },
            _ => None,
        }
    })
}

fn line_of(content: &ItemContent) -> Option<String> {
    let ItemContent::AssistantMessage { text } = content else {
        return None;
    };
    let text = match text {
        Body::Inline(text) => text,
        Body::Stored(stored) => &stored.tail,
    };
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(LAST_LINE_CHARS).collect())
}
