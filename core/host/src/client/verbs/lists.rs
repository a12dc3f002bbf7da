//! Pairing, and what can be looked at: hosts, threads, what waits.

use super::typed;
use crate::client::{
    args::{HostsArgs, InboxArgs, JoinArgs, Only, ThreadsArgs},
    device::{Device, no_host},
    failure::{Code, Failure},
    json,
    output::Output,
    pick::short,
    show,
    style::Tone,
};
use pilothouse_engine::{
    HostRow, InboxRow, InboxState, LinkState, Scope, Standing, ThreadFilter, ThreadPage,
};

pub(super) fn join(args: &JoinArgs, output: &mut Output) -> Result<(), Failure> {
    let code = typed(&args.code, "the pairing code")?;
    let mut device = Device::open(&args.device, Some(args.patience), args.name.as_deref())?;
    let until = device.confirm_by();
    let host = device.pair(code.trim(), until)?;
    let name = device.wait(Some(until), |device| {
        let hosts = device.seen.hosts.clone().unwrap_or_else(|| device.hosts());
        hosts
            .iter()
            .find(|row| row.host == host)
            .map(|row| row.name.clone())
    });
    let name = name.unwrap_or_default();
    output.object(
        "joined",
        json::Joined {
            host,
            name: name.clone(),
        },
    )?;
    output.say(
        Some(Tone::Good),
        &format!("Paired with {} ({host}).", show::safe(&name)),
    )?;
    output.say(
        None,
        "Next: `pilothouse threads` shows what is there, `pilothouse new` makes a thread.",
    )?;
    Ok(())
}

pub(super) fn hosts(args: &HostsArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let rows = device.settle().to_vec();
    for row in &rows {
        output.object("host", json::Host::from(row))?;
    }
    let ids: Vec<String> = rows.iter().map(|row| row.host.to_string()).collect();
    output.words(&show::lists::hosts(
        &rows,
        |id| short(id, ids.iter().cloned()),
        device.now_ms(),
        output.style,
    ))?;
    Ok(())
}

pub(super) fn threads(args: &ThreadsArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let hosts = device.settle().to_vec();
    if hosts.is_empty() {
        return Err(no_host());
    }
    let only = args
        .host
        .as_deref()
        .map(|given| device.pick_host(Some(given)))
        .transpose()?;
    let filter = ThreadFilter {
        host: only.as_ref().map(|host| host.host),
        standing: args.only.map(|only| match only {
            Only::Waiting => Standing::Waiting,
            Only::Running => Standing::Running,
            Only::Failed => Standing::Failed,
            Only::Archived => Standing::Archived,
        }),
    };
    let after = args.after.as_deref();
    let after = after.map(|given| device.pick_thread(given)).transpose()?;
    let after = after.map(|row| row.place());
    let mut page = device.threads(filter, after, args.limit)?;
    if args.all && !page.more {
        let room = args
            .limit
            .saturating_sub(u32::try_from(page.rows.len()).unwrap_or(u32::MAX));
        let standing = Some(Standing::Archived);
        let archived = device.threads(ThreadFilter { standing, ..filter }, None, room.max(1))?;
        page.more = archived.more || archived.rows.len() > room as usize;
        page.rows
            .extend(archived.rows.into_iter().take(room as usize));
    }
    let next = page.rows.last().filter(|_| page.more && !args.all);
    let next = next.map(|row| row.summary.thread);
    output.object("threads", json::Threads::of(&page.counts, page.more, next))?;
    for row in &page.rows {
        output.object("thread", json::Thread::from(row))?;
    }
    output.words(&away(&hosts, &device, output))?;
    if page.rows.is_empty() && after.is_none() && args.only.is_none() {
        output.say(
            None,
            "No threads. `pilothouse new --agent AGENT --workspace WORKSPACE TITLE` makes one.",
        )?;
    } else if page.rows.is_empty() {
        output.say(None, "No such threads.")?;
    }
    let shown = device.seen.hosts.iter().flatten();
    let shown = shown.filter(|host| filter.host.is_none_or(|only| only == host.host));
    output.words(&show::lists::signed_out(shown, output.style))?;
    let ids: Vec<String> = page
        .rows
        .iter()
        .map(|row| row.summary.thread.to_string())
        .collect();
    let letters = letters_for(&page);
    output.words(&show::lists::threads(
        &page.rows,
        |id| {
            let short = short(id, ids.iter().cloned());
            id[..short.len().max(letters).min(id.len())].to_owned()
        },
        device.now_ms(),
        output.style,
    ))?;
    if page.more {
        let how = next.map_or_else(
            || "--limit shows more".to_owned(),
            |thread| format!("`pilothouse threads --after {thread}` shows the next"),
        );
        let all = page.counts.all;
        output.say(
            Some(Tone::Dim),
            &format!("There are older ones ({all} threads in all); {how}."),
        )?;
    }
    Ok(())
}

/// Letters of an id that tell it from the others with good odds, where not all of them are on the page: as many as make
/// chance meetings of two rare. One that fits two after all is refused with both named.
fn letters_for(page: &ThreadPage) -> usize {
    if !page.more {
        return 0;
    }
    // 32 letters; the chance that two of n random ids meet is about n² / 2 · 32^-letters.
    let bits = (page.counts.all + page.counts.archived).max(2).ilog2() + 1;
    (2 * bits).div_ceil(5) as usize
}

pub(super) fn inbox(args: &InboxArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let deadline = device.given_deadline();
    let stored = if args.wait {
        device.hosts()
    } else {
        device.settle().to_vec()
    };
    if stored.is_empty() {
        return Err(no_host());
    }
    let mut rows = device.inbox();
    if args.wait && !rows.iter().any(is_pending) {
        output.bottom(Some("nothing waits; waiting for a request …"))?;
        let found = device.wait(deadline, |device| {
            let rows = device.seen.inbox.as_ref()?;
            rows.iter().any(is_pending).then(|| rows.clone())
        });
        output.bottom(None)?;
        rows = found.ok_or_else(|| nothing_asked(&device))?;
    }
    for row in &rows {
        output.object("request", json::Request::from(row))?;
    }
    output.words(&away(&stored, &device, output))?;
    let hosts = device.seen.hosts.iter().flatten();
    output.words(&show::lists::signed_out(hosts, output.style))?;
    if rows.is_empty() {
        output.say(None, "Nothing waits for you.")?;
    }
    let ids: Vec<String> = rows.iter().map(|row| row.request.to_string()).collect();
    for row in &rows {
        let id = short(&row.request.to_string(), ids.iter().cloned());
        output.words(&show::request::render(
            &device.shown(row),
            &id,
            device.now_ms(),
            output.style,
        ))?;
    }
    Ok(())
}

fn nothing_asked(device: &Device) -> Failure {
    let away: Vec<&str> = device
        .seen
        .hosts
        .iter()
        .flatten()
        .filter(|row| matches!(row.link, LinkState::Unreachable { .. }))
        .map(|row| row.name.as_str())
        .collect();
    let failure = Failure::new(
        Code::Unconfirmed,
        "nothing was asked within the time given by --timeout",
    );
    if away.is_empty() {
        failure
    } else {
        failure.next(format!(
            "not reachable: {}; `pilothouse hosts` says why",
            away.join(", ")
        ))
    }
}

fn is_pending(row: &InboxRow) -> bool {
    row.state == InboxState::Pending
}

/// A line for every host whose rows may be old.
fn away(hosts: &[HostRow], device: &Device, output: &Output) -> String {
    let now = device.now_ms();
    let mut out = String::new();
    for host in device.seen.hosts.as_deref().unwrap_or(hosts) {
        if matches!(
            host.link,
            LinkState::Unreachable { .. } | LinkState::Revoked
        ) {
            let (state, tone) = show::lists::link(&host.link, now);
            out.push_str(&output.style.paint(
                tone,
                &format!("{}: {state}; shown as last seen", show::safe(&host.name)),
            ));
            out.push('\n');
        }
    }
    out
}

/// Looks at everything that `watch` without a thread shows.
pub(super) fn everything(device: &mut Device) {
    device.observe(Scope::Hosts);
    device.observe_threads();
    device.observe(Scope::Inbox);
}
