//! The list of threads over all hosts, with those that are only predicted: a window of it, whatever its length.

use crate::{
    api::{MOST_LISTED, ThreadPage},
    batch::{Batch, ListBatch, ThreadsBatch},
    delivery::Renderer,
    diff,
    rows::{ThreadCounts, ThreadRow},
    shared::{Outstanding, Reading, Shared},
};
use pilothouse_domain::{
    CommandBody, HostId, ThreadId, ThreadSummary,
    row::{Standing, WaitingCounts},
    thread::{Lineage, Relationship},
};
use pilothouse_store::{StoreError, ThreadFilter, ThreadPlace};
use std::{collections::BTreeMap, sync::Arc};

/// Renders the newest threads for one observer.
pub(crate) struct ThreadsView {
    shared: Arc<Shared>,
    filter: ThreadFilter,
    limit: u32,
    delivered: Option<ThreadPage>,
}

impl ThreadsView {
    pub(crate) fn new(shared: Arc<Shared>, filter: ThreadFilter, limit: u32) -> Self {
        Self {
            shared,
            filter,
            limit,
            delivered: None,
        }
    }
}

impl Renderer for ThreadsView {
    fn render(&mut self) -> Result<Option<Batch>, String> {
        let (filter, limit) = (self.filter, self.limit);
        let Some(page) = self
            .shared
            .view(|reads| page(reads, filter, None, limit))
            .map_err(|error| error.to_string())?
        else {
            return Ok(None);
        };
        let list = match &self.delivered {
            None => ListBatch {
                reset: true,
                ops: diff::inserts(&page.rows),
            },
            Some(before) if *before == page => return Ok(None),
            Some(before) => ListBatch {
                reset: false,
                ops: diff::diff(&before.rows, &page.rows, |row| {
                    (row.host, row.summary.thread)
                }),
            },
        };
        let (counts, more) = (page.counts, page.more);
        self.delivered = Some(page);
        Ok(Some(Batch::Threads(ThreadsBatch { list, counts, more })))
    }
}

/// What is on its way, as the list shows it.
struct OnItsWay {
    /// Commands by thread.
    counts: BTreeMap<(HostId, ThreadId), u32>,
    /// Lines of threads that no host has confirmed.
    lines: Vec<(HostId, ThreadSummary)>,
}

impl OnItsWay {
    fn read(reads: &Reading<'_>) -> Result<Self, StoreError> {
        let mut found = Self {
            counts: BTreeMap::new(),
            lines: Vec::new(),
        };
        for waiting in reads.outstanding(None)? {
            let thread = waiting.command.thread;
            if !waiting.is_on_its_way() {
                continue;
            }
            *found.counts.entry((waiting.host, thread)).or_default() += 1;
            if let Some(line) = predicted(reads, &waiting)?
                && reads.listed_seq(waiting.host, thread)?.is_none()
            {
                found.lines.push((waiting.host, line));
            }
        }
        Ok(found)
    }

    fn rows(
        &self,
        reads: &Reading<'_>,
        lines: impl IntoIterator<Item = (HostId, ThreadSummary)>,
    ) -> Result<Vec<ThreadRow>, StoreError> {
        let names: BTreeMap<HostId, String> = reads
            .hosts()?
            .into_iter()
            .map(|host| (host.host, host.name))
            .collect();
        let row = |(host, summary): (HostId, ThreadSummary)| ThreadRow {
            host,
            host_name: names.get(&host).cloned().unwrap_or_default(),
            pending: summary.seq == 0,
            outstanding: self
                .counts
                .get(&(host, summary.thread))
                .copied()
                .unwrap_or(0),
            summary,
        };
        Ok(lines.into_iter().map(row).collect())
    }
}

/// The threads behind a place, in the list's order, and how many there are.
pub(crate) fn page(
    reads: &Reading<'_>,
    filter: ThreadFilter,
    after: Option<ThreadPlace>,
    limit: u32,
) -> Result<ThreadPage, StoreError> {
    let limit = limit.clamp(1, MOST_LISTED) as usize;
    let after = after.unwrap_or(ThreadPlace::START);
    let mut lines = reads.threads_after(filter, after, limit + 1)?;
    let on_its_way = OnItsWay::read(reads)?;
    let fits = |host: HostId, line: &ThreadSummary| {
        filter.host.is_none_or(|wanted| wanted == host)
            && filter
                .standing
                .is_none_or(|wanted| wanted == Standing::Resting)
            && ThreadPlace::of(host, line) < after
    };
    lines.extend(
        on_its_way
            .lines
            .iter()
            .filter(|(host, line)| fits(*host, line))
            .cloned(),
    );
    lines.sort_by_key(|(host, line)| std::cmp::Reverse(ThreadPlace::of(*host, line)));
    let more = lines.len() > limit;
    lines.truncate(limit);
    let counts = reads.thread_counts(filter.host)?;
    let outstanding = on_its_way
        .counts
        .iter()
        .filter(|((host, _), _)| filter.host.is_none_or(|wanted| wanted == *host));
    Ok(ThreadPage {
        rows: on_its_way.rows(reads, lines)?,
        counts: ThreadCounts {
            all: counts.all(),
            waiting: counts.waiting,
            running: counts.running,
            failed: counts.failed,
            archived: counts.archived,
            outstanding: outstanding.map(|(_, commands)| commands).sum(),
        },
        more,
    })
}

/// Threads whose ids lie between two, those that are only predicted among them.
pub(crate) fn between(
    reads: &Reading<'_>,
    first: ThreadId,
    last: ThreadId,
    limit: u32,
) -> Result<ThreadPage, StoreError> {
    let limit = limit.clamp(1, MOST_LISTED) as usize;
    let mut lines = reads.threads_between(first, last, limit + 1)?;
    let on_its_way = OnItsWay::read(reads)?;
    let fits = |line: &ThreadSummary| (first..=last).contains(&line.thread);
    lines.extend(
        on_its_way
            .lines
            .iter()
            .filter(|(_, line)| fits(line))
            .cloned(),
    );
    let more = lines.len() > limit;
    lines.truncate(limit);
    Ok(ThreadPage {
        rows: on_its_way.rows(reads, lines)?,
        counts: ThreadCounts::default(),
        more,
    })
}

/// The line of a thread that is only on its way.
fn predicted(
    reads: &Reading<'_>,
    waiting: &Outstanding,
) -> Result<Option<ThreadSummary>, StoreError> {
    let (title, workspace, agent, mode, sandbox, lineage) = match &waiting.command.body {
        CommandBody::ThreadCreate {
            title,
            workspace,
            selection,
        }
        | CommandBody::ThreadImport {
            title,
            workspace,
            selection,
            ..
        } => {
            let agent = selection.agent.clone();
            let (mode, sandbox) = (selection.mode, selection.sandbox);
            (title, workspace.clone(), agent, mode, sandbox, None)
        }
        CommandBody::ThreadFork { title, source, .. } => {
            // A fork of a thread that is itself on its way shows when its source does.
            let Some(from) = reads.summary(waiting.host, *source)? else {
                return Ok(None);
            };
            let lineage = Lineage {
                parent: *source,
                relationship: Relationship::Fork,
                root: from.lineage.map_or(*source, |lineage| lineage.root),
            };
            let (agent, mode, sandbox) = (from.agent, from.mode, from.sandbox);
            (title, from.workspace, agent, mode, sandbox, Some(lineage))
        }
        _ => return Ok(None),
    };
    Ok(Some(ThreadSummary {
        thread: waiting.command.thread,
        title: title.clone(),
        workspace,
        agent,
        mode,
        sandbox,
        lineage,
        active: None,
        last_run: None,
        waiting: WaitingCounts::default(),
        queued: 0,
        held: None,
        sign_in_problem: None,
        last_line: String::new(),
        archived: false,
        created_at_ms: waiting.saved_at_ms,
        updated_at_ms: waiting.saved_at_ms,
        seq: 0,
    }))
}
