//! Watching: one thread, or everything.

use super::lists;
use crate::client::{
    args::WatchArgs,
    device::{Device, no_host},
    failure::{Code, Failure},
    json::{self, Op},
    output::Output,
    pick::short,
    show::{self, live::Live, words},
    style::Tone,
};
use pilothouse_domain::{ContentHash, HostId, RequestId, RunStatus, ThreadId, row::WaitingCounts};
use pilothouse_engine::{
    Batch, HostRow, InboxRow, LinkState, ListOp, Scope, SignedOutRow, ThreadRow, ThreadsBatch,
    TimelineBatch,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How often the line at the bottom counts on.
const TICK: Duration = Duration::from_secs(1);

pub(super) fn thread(args: &WatchArgs, given: &str, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let deadline = device.given_deadline();
    let row = device.pick_thread(given)?;
    let mut watch = Watched::new(&row, output);
    watch.begin(output)?;
    device.observe(Scope::Hosts);
    device.observe_threads();
    device.observe(Scope::Inbox);
    device.observe(Scope::Timeline {
        host: row.host,
        thread: row.summary.thread,
        tail: args.tail.max(1),
    });
    loop {
        let batch = next(&mut device, deadline, output, &watch.live)?;
        let Some(batch) = batch else {
            if !args.until_idle {
                return Ok(());
            }
            let standing = device.seen.header.as_ref().map(show::live::standing);
            let standing = standing.filter(|standing| !standing.is_empty());
            let standing =
                standing.unwrap_or_else(|| "nothing is known of the thread yet".to_owned());
            let what = format!("the time given by --timeout is up: {standing}");
            return Err(Failure::new(Code::Unconfirmed, what).next("the work on the host goes on"));
        };
        let now = device.now_ms();
        match &batch {
            Batch::Timeline(timeline) => watch.timeline(timeline, output)?,
            Batch::Inbox(_) => watch.inbox(
                device.seen.inbox.as_deref().unwrap_or_default(),
                now,
                output,
            )?,
            Batch::Hosts(_) => watch.link(
                device.seen.hosts.as_deref().unwrap_or_default(),
                now,
                output,
            )?,
            Batch::Threads(_) | Batch::Delivery(_) => {}
        }
        let line = rests_elsewhere(&device, &row);
        if args.until_idle && (watch.live.is_idle() || line.is_some()) {
            output.bottom(None)?;
            let status = if watch.live.is_idle() {
                watch.live.last_status()
            } else {
                line.and_then(|line| line.summary.last_run)
                    .map(|run| run.status)
            };
            output.object(
                "idle",
                json::Idle {
                    thread: Some(row.summary.thread),
                    last_run: status,
                },
            )?;
            return ended(status);
        }
    }
}

/// The thread's line, if it rests by what another process, which holds the link, has stored. This process cannot know that
/// its timeline is up to date; the list of threads is kept so by whoever holds the link.
fn rests_elsewhere(device: &Device, row: &ThreadRow) -> Option<ThreadRow> {
    let elsewhere = device
        .seen
        .hosts
        .iter()
        .flatten()
        .any(|host| host.host == row.host && host.link == LinkState::HeldElsewhere);
    if !elsewhere {
        return None;
    }
    device
        .line(row.summary.thread)
        .filter(|line| rests(line) && line.summary.waiting == WaitingCounts::default())
}

/// The next batch; meanwhile the line at the bottom counts on. `None` when the time is up.
fn next(
    device: &mut Device,
    deadline: Option<Instant>,
    output: &mut Output,
    live: &Live,
) -> Result<Option<Batch>, Failure> {
    if output.json || !output.style.live {
        return Ok(device.next(deadline));
    }
    loop {
        let tick = Instant::now() + TICK;
        if live.at_line_start() {
            output.bottom(live.bottom(device.now_ms()).as_deref())?;
        }
        if let Some(batch) = device.next(Some(deadline.map_or(tick, |deadline| deadline.min(tick))))
        {
            return Ok(Some(batch));
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
    }
}

fn ended(status: Option<RunStatus>) -> Result<(), Failure> {
    match status {
        Some(RunStatus::Failed) => {
            Err(Failure::new(Code::Error, "the last run failed").next("the thread shows why"))
        }
        _ => Ok(()),
    }
}

/// One watched thread.
struct Watched {
    host: HostId,
    thread: ThreadId,
    heading: String,
    live: Live,
    link: Option<&'static str>,
    standing: Option<json::Standing>,
    open: BTreeMap<RequestId, ContentHash>,
}

impl Watched {
    fn new(row: &ThreadRow, output: &Output) -> Self {
        let summary = &row.summary;
        let heading = format!(
            "{}  {} › {} · {} ({}){}",
            output
                .style
                .paint(Tone::Strong, &show::safe(&summary.title)),
            show::safe(&row.host_name),
            show::safe(summary.workspace.as_str()),
            show::safe(summary.agent.as_str()),
            summary.mode.name(),
            summary
                .sandbox
                .map(|sandbox| format!(" · {}", show::words::unasked(sandbox)))
                .unwrap_or_default(),
        );
        Self {
            host: row.host,
            thread: summary.thread,
            heading,
            live: Live::new(output.style),
            link: None,
            standing: None,
            open: BTreeMap::new(),
        }
    }

    fn begin(&self, output: &mut Output) -> Result<(), Failure> {
        Ok(output.say(None, &self.heading)?)
    }

    fn timeline(&mut self, batch: &TimelineBatch, output: &mut Output) -> Result<(), Failure> {
        let text = self.live.timeline(batch);
        output.words(&text)?;
        if !output.json {
            return Ok(());
        }
        if batch.reset {
            output.object(
                "reset",
                json::Reset {
                    thread: self.thread,
                },
            )?;
        }
        for op in &batch.ops {
            match op {
                ListOp::Insert { index, row } => {
                    output.object("item", json::Item::new(Op::Insert, *index, row))?
                }
                ListOp::Update { index, row } => {
                    output.object("item", json::Item::new(Op::Update, *index, row))?
                }
                ListOp::Remove { index } => output.object("item", json::Gone::at(*index))?,
            }
        }
        for append in &batch.texts {
            output.object(
                "text",
                json::Text {
                    item: append.id,
                    at: append.at,
                    text: &append.text,
                },
            )?;
        }
        let standing = json::Standing::from(&batch.header);
        if self.standing.as_ref() != Some(&standing) {
            output.object("standing", &standing)?;
            self.standing = Some(standing);
        }
        Ok(())
    }

    fn inbox(
        &mut self,
        rows: &[InboxRow],
        now_ms: u64,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let here: Vec<InboxRow> = rows
            .iter()
            .filter(|row| row.host == self.host && row.thread == self.thread)
            .cloned()
            .collect();
        if output.json {
            return requests(&here, &mut self.open, output);
        }
        let ids: Vec<String> = rows.iter().map(|row| row.request.to_string()).collect();
        let text = self.live.inbox(
            &here,
            |request| short(&request.to_string(), ids.iter().cloned()),
            now_ms,
        );
        Ok(output.words(&text)?)
    }

    /// A line when the link breaks or is back; silent while it is as it should be.
    fn link(&mut self, rows: &[HostRow], now_ms: u64, output: &mut Output) -> Result<(), Failure> {
        let Some(row) = rows.iter().find(|row| row.host == self.host) else {
            return Ok(());
        };
        let kind = link_kind(&row.link);
        let known = self.link.replace(kind);
        if known == Some(kind) {
            return Ok(());
        }
        output.object("host", json::Host::from(row))?;
        let broken = matches!(&row.link, LinkState::Unreachable { reason, .. } if !reason.is_empty())
            || row.link == LinkState::Revoked;
        let back = row.link == LinkState::Synchronised
            && known.is_some_and(|known| known == "unreachable");
        if broken || back {
            let (state, tone) = show::lists::link(&row.link, now_ms);
            if !self.live.at_line_start() {
                output.words("\n")?;
            }
            output.say(Some(tone), &format!("— {}: {state}", show::safe(&row.name)))?;
        }
        Ok(())
    }
}

fn link_kind(link: &LinkState) -> &'static str {
    match link {
        LinkState::Unreachable { reason, .. } if reason.is_empty() => "connecting",
        LinkState::Unreachable { .. } => "unreachable",
        LinkState::Reachable | LinkState::Authenticated => "connecting",
        LinkState::Synchronised => "synchronised",
        LinkState::Revoked => "revoked",
        LinkState::HeldElsewhere => "held_elsewhere",
    }
}

/// Every new or changed request as an object, and every one that is gone.
fn requests(
    rows: &[InboxRow],
    open: &mut BTreeMap<RequestId, ContentHash>,
    output: &mut Output,
) -> Result<(), Failure> {
    let gone: Vec<RequestId> = open
        .keys()
        .filter(|request| !rows.iter().any(|row| row.request == **request))
        .copied()
        .collect();
    for request in gone {
        open.remove(&request);
        output.object("request_gone", json::RequestGone { request })?;
    }
    for row in rows {
        // The state is part of what is told: an answer on its way is news, too.
        let mark = ContentHash::of(&json::line("request", json::Request::from(row)));
        if open.insert(row.request, mark) != Some(mark) {
            output.object("request", json::Request::from(row))?;
        }
    }
    Ok(())
}

pub(super) fn everything(args: &WatchArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let deadline = device.given_deadline();
    lists::everything(&mut device);
    let mut all = Everything::default();
    let mut followed = BTreeSet::new();
    loop {
        let Some(batch) = device.next(deadline) else {
            return if args.until_idle {
                Err(Failure::new(
                    Code::Unconfirmed,
                    "the time given by --timeout is up; something is still at work",
                )
                .next("the work on the hosts goes on"))
            } else {
                Ok(())
            };
        };
        let now = device.now_ms();
        let seen = &device.seen;
        if seen.hosts.as_ref().is_some_and(Vec::is_empty) {
            return Err(no_host());
        }
        match &batch {
            Batch::Hosts(_) => all.hosts(seen.hosts.as_deref().unwrap_or_default(), now, output)?,
            Batch::Threads(list) => all.threads(list, &device, now, output)?,
            Batch::Inbox(_) => all.inbox(seen.inbox.as_deref().unwrap_or_default(), now, output)?,
            Batch::Timeline(_) | Batch::Delivery(_) => {}
        }
        // While this process holds the links, others of the same device see of a thread only what is followed here.
        let at_work: Vec<(HostId, ThreadId)> = seen
            .threads
            .iter()
            .flatten()
            .filter(|row| !rests(row))
            .map(|row| (row.host, row.summary.thread))
            .collect();
        for (host, thread) in at_work {
            if followed.insert(thread) {
                device.observe(Scope::Timeline {
                    host,
                    thread,
                    tail: 1,
                });
            }
        }
        let seen = &device.seen;
        if args.until_idle
            && let (Some(hosts), Some(_), Some(inbox)) = (&seen.hosts, &seen.threads, &seen.inbox)
            && hosts
                .iter()
                .all(|host| matches!(host.link, LinkState::Synchronised | LinkState::Revoked))
            && (seen.counts.waiting, seen.counts.running) == (0, 0)
            && seen.counts.outstanding == 0
            && inbox.is_empty()
        {
            output.object(
                "idle",
                json::Idle {
                    thread: None,
                    last_run: None,
                },
            )?;
            output.say(None, "Nothing runs and nothing waits.")?;
            return Ok(());
        }
    }
}

fn rests(row: &ThreadRow) -> bool {
    row.outstanding == 0
        && row.summary.active.is_none()
        && (row.summary.queued == 0 || row.summary.held.is_some())
}

/// Everything that is paired, as it was told so far.
#[derive(Default)]
struct Everything {
    links: BTreeMap<HostId, &'static str>,
    signed_out: BTreeMap<HostId, Vec<SignedOutRow>>,
    threads: BTreeMap<ThreadId, String>,
    requests: BTreeMap<RequestId, ContentHash>,
}

impl Everything {
    fn hosts(&mut self, rows: &[HostRow], now_ms: u64, output: &mut Output) -> Result<(), Failure> {
        for row in rows {
            let kind = link_kind(&row.link);
            let link_changed = self.links.insert(row.host, kind) != Some(kind);
            let known = self.signed_out.insert(row.host, row.signed_out.clone());
            let known = known.unwrap_or_default();
            if !link_changed && known == row.signed_out {
                continue;
            }
            output.object("host", json::Host::from(row))?;
            if link_changed {
                let (state, tone) = show::lists::link(&row.link, now_ms);
                output.say(Some(tone), &format!("{}: {state}", show::safe(&row.name)))?;
            }
            Self::signed_out(row, &known, output)?;
        }
        Ok(())
    }

    /// A line for each agent whose sign-in was refused since, and for each that is back; not for each thread that waits.
    fn signed_out(
        row: &HostRow,
        known: &[SignedOutRow],
        output: &mut Output,
    ) -> Result<(), Failure> {
        let among = |rows: &[SignedOutRow], wanted: &SignedOutRow| {
            rows.iter().any(|row| row.agent == wanted.agent)
        };
        for new in row.signed_out.iter().filter(|new| !among(known, new)) {
            let line = show::lists::signed_out_line(new, &row.name);
            output.say(Some(Tone::Bad), &line)?;
        }
        for back in known.iter().filter(|old| !among(&row.signed_out, old)) {
            let agent = show::safe(back.agent.as_str());
            let line = format!(
                "{agent} on {}: nothing waits for its sign-in any more",
                show::safe(&row.name)
            );
            output.say(Some(Tone::Good), &line)?;
        }
        Ok(())
    }

    fn threads(
        &mut self,
        batch: &ThreadsBatch,
        device: &Device,
        now_ms: u64,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let rows = device.seen.threads.as_deref().unwrap_or_default();
        let gone: Vec<ThreadId> = self
            .threads
            .keys()
            .filter(|thread| !rows.iter().any(|row| row.summary.thread == **thread))
            .copied()
            .collect();
        for thread in gone {
            self.threads.remove(&thread);
            // What is only older than those in view is still there.
            if device.line(thread).is_none() {
                output.object("thread_gone", json::ThreadGone { thread })?;
            }
        }
        // Of the threads that are there at the beginning a person is told of those that do something.
        for row in rows {
            let active = row.summary.active;
            let state = active.map_or_else(
                || show::lists::doing(row, now_ms).0,
                |active| words::run(active.status, active.blocked_on).to_owned(),
            );
            let told = if output.json {
                json::line("thread", json::Thread::from(row))
            } else {
                state.clone()
            };
            let known = self.threads.insert(row.summary.thread, told.clone());
            if known.as_deref() == Some(told.as_str()) {
                continue;
            }
            output.object("thread", json::Thread::from(row))?;
            if batch.list.reset && active.is_none() && row.summary.queued == 0 {
                continue;
            }
            let tone = show::lists::doing(row, now_ms).1;
            let name = format!(
                "{} › {}",
                show::safe(&row.host_name),
                show::safe(&row.summary.title)
            );
            output.say(
                None,
                &format!(
                    "{}  {name}: {}",
                    &row.summary.thread.to_string()[..6],
                    output.style.paint(tone, &state)
                ),
            )?;
        }
        Ok(())
    }

    fn inbox(
        &mut self,
        rows: &[InboxRow],
        now_ms: u64,
        output: &mut Output,
    ) -> Result<(), Failure> {
        if output.json {
            return requests(rows, &mut self.requests, output);
        }
        let ids: Vec<String> = rows.iter().map(|row| row.request.to_string()).collect();
        self.requests
            .retain(|request, _| rows.iter().any(|row| row.request == *request));
        for row in rows {
            if self.requests.insert(row.request, row.content_hash) != Some(row.content_hash) {
                let id = short(&row.request.to_string(), ids.iter().cloned());
                let row = show::live::watched(row);
                output.words(&show::request::render(&row, &id, now_ms, output.style))?;
            }
        }
        Ok(())
    }
}
