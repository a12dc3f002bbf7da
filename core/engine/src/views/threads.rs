//! The list of threads over all hosts, with those that are only predicted.

use crate::{
    rows::ThreadRow,
    shared::{LISTED_THREADS, Outstanding, Reading, Shared},
};
use pilothouse_domain::{CommandBody, HostId, ThreadId, ThreadSummary, row::WaitingCounts};
use pilothouse_store::StoreError;
use std::collections::BTreeMap;

/// All rows, the one that changed last first.
pub(crate) fn build(_: &Shared, reads: &Reading<'_>) -> Result<Vec<ThreadRow>, StoreError> {
    let hosts = reads.hosts()?;
    let summaries: BTreeMap<(HostId, ThreadId), ThreadSummary> = reads
        .summaries(LISTED_THREADS)?
        .into_iter()
        .map(|(host, summary)| ((host, summary.thread), summary))
        .collect();
    let mut outstanding: BTreeMap<(HostId, ThreadId), u32> = BTreeMap::new();
    let mut rows = Vec::with_capacity(summaries.len());
    let names: BTreeMap<HostId, &str> = hosts
        .iter()
        .map(|host| (host.host, host.name.as_str()))
        .collect();
    for waiting in reads.outstanding(None)? {
        let key = (waiting.host, waiting.command.thread);
        if waiting.is_on_its_way() {
            *outstanding.entry(key).or_default() += 1;
        }
        if let (Some(summary), Some(name)) = (predicted(&waiting), names.get(&waiting.host))
            && !summaries.contains_key(&key)
        {
            rows.push(ThreadRow {
                host: waiting.host,
                host_name: (*name).to_owned(),
                summary,
                pending: true,
                outstanding: 0,
            });
        }
    }
    for ((host, _), summary) in summaries {
        let Some(name) = names.get(&host) else {
            continue;
        };
        rows.push(ThreadRow {
            host,
            host_name: (*name).to_owned(),
            summary,
            pending: false,
            outstanding: 0,
        });
    }
    for row in &mut rows {
        let key = (row.host, row.summary.thread);
        row.outstanding = outstanding.get(&key).copied().unwrap_or(0);
    }
    rows.sort_by(|a, b| {
        let newest = |row: &ThreadRow| (row.summary.updated_at_ms, row.summary.thread);
        newest(b).cmp(&newest(a))
    });
    Ok(rows)
}

/// By what a row is known.
pub(crate) fn key(row: &ThreadRow) -> (HostId, ThreadId) {
    (row.host, row.summary.thread)
}

/// The line of a thread that is only on its way.
fn predicted(waiting: &Outstanding) -> Option<ThreadSummary> {
    let CommandBody::ThreadCreate {
        title,
        workspace,
        selection,
    } = &waiting.command.body
    else {
        return None;
    };
    waiting.is_on_its_way().then(|| ThreadSummary {
        thread: waiting.command.thread,
        title: title.clone(),
        workspace: workspace.clone(),
        agent: selection.agent.clone(),
        mode: selection.mode,
        active: None,
        last_run: None,
        waiting: WaitingCounts::default(),
        queued: 0,
        held: None,
        last_line: String::new(),
        archived: false,
        created_at_ms: waiting.saved_at_ms,
        updated_at_ms: waiting.saved_at_ms,
        seq: 0,
    })
}
