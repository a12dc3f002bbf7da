//! What is done with a thread as a whole: forking it, taking back runs, having its context shortened.

use crate::client::{
    args::{CompactArgs, ForkArgs, RollbackArgs},
    device::Device,
    failure::{Code, Failure},
    json,
    output::Output,
    pick::pick,
    show,
    style::Tone,
};
use pilothouse_domain::{
    RunId, RunStatus,
    command::{CommandBody, ForkWorkspace},
    run::BlockedOn,
};
use pilothouse_engine::{RowContent, TimelineRow};

pub(super) fn fork(args: &ForkArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let row = device.pick_thread(&args.thread)?;
    let source = row.summary.thread;
    let run = match &args.after {
        None => None,
        Some(given) => {
            device.look_at(row.host, source, until)?;
            Some(pick_run(&device, given, &args.thread)?)
        }
    };
    let title = args
        .title
        .clone()
        .unwrap_or_else(|| row.summary.title.clone());
    let body = CommandBody::ThreadFork {
        title,
        source,
        run,
        workspace: ForkWorkspace::SameTree,
    };
    let ticket = device.submit(row.host, None, body)?;
    device.confirm(&ticket, "forking the thread", until)?;
    let thread = ticket.thread();
    output.object(
        "forked",
        json::Forked {
            thread,
            host: row.host,
            command: ticket.command_id(),
            source,
            after: run,
        },
    )?;
    output.say(
        None,
        &format!(
            "Thread {thread} begins as {} stands; nothing runs yet, and both work on the same files.",
            show::words::thread(source)
        ),
    )?;
    output.say(
        Some(Tone::Dim),
        &format!(
            "Next: pilothouse send {} 'what to do differently'",
            show::words::thread(thread)
        ),
    )?;
    Ok(())
}

pub(super) fn rollback(args: &RollbackArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let row = device.pick_thread(&args.thread)?;
    let thread = row.summary.thread;
    let header = device.look_at(row.host, thread, until)?;
    let before = pick_run(&device, &args.before, &args.thread)?;
    let last = header.last_run.map(|run| run.id).ok_or_else(|| {
        Failure::new(Code::NothingThere, "no run has ended in this thread")
            .next("there is nothing to take back")
    })?;
    let errors = |device: &Device| -> Vec<String> {
        let rows = device.seen.rows.iter();
        let error = |row: &TimelineRow| match &row.content {
            RowContent::Error { message, .. } => Some(message.clone()),
            _ => None,
        };
        rows.filter_map(error).collect()
    };
    let known = errors(&device).len();
    let body = CommandBody::ThreadRollback { before, last };
    let ticket = device.submit(row.host, Some(thread), body)?;
    device.confirm(&ticket, "taking back runs", until)?;
    // The host has taken it; what comes of it stands in the timeline once the agent has answered.
    let (mut runs, mut refused) = (None, None);
    let over = device.wait(Some(until), |device| {
        runs = device.seen.rows.iter().find_map(|row| match &row.content {
            RowContent::Rollback { before: of, runs } if *of == before => Some(*runs),
            _ => None,
        });
        refused = errors(device).into_iter().nth(known);
        let header = device.seen.header.as_ref()?;
        let over = header.rolling_back.is_none() && (runs.is_some() || refused.is_some());
        over.then_some(())
    });
    match (over, runs) {
        (Some(()), Some(runs)) => {
            output.object(
                "rolled_back",
                json::RolledBack {
                    thread,
                    host: row.host,
                    command: ticket.command_id(),
                    before,
                    runs,
                },
            )?;
            let what = if runs == 1 {
                "1 run".to_owned()
            } else {
                format!("{runs} runs")
            };
            output.say(
                Some(Tone::Good),
                &format!("The agent has forgotten {what}. Files are as they were."),
            )?;
            Ok(())
        }
        (Some(()), None) => Err(Failure::new(
            Code::Error,
            format!(
                "taking back runs: {}",
                show::safe(&refused.unwrap_or_else(|| "the agent did not do it".to_owned()))
            ),
        )
        .about(ticket.command_id())),
        (None, _) => Err(Failure::new(
            Code::Unconfirmed,
            "the host has asked the agent to forget the runs, and the agent has not answered yet",
        )
        .next(format!(
            "`pilothouse watch {}` shows what comes of it",
            args.thread
        ))
        .about(ticket.command_id())),
    }
}

pub(super) fn compact(args: &CompactArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let row = device.pick_thread(&args.thread)?;
    let thread = row.summary.thread;
    device.look_at(row.host, thread, until)?;
    let ticket = device.submit(row.host, Some(thread), CommandBody::ThreadCompact)?;
    device.confirm(&ticket, "asking the agent to shorten its context", until)?;
    let run: RunId = ticket.command_id().derive("run");
    let ended: Option<RunStatus> = device.wait(Some(until), |device| {
        let last = device.seen.header.as_ref()?.last_run?;
        (last.id == run).then_some(last.status)
    });
    output.object(
        "compacted",
        json::Compacted {
            thread,
            host: row.host,
            command: ticket.command_id(),
            run,
            run_status: ended,
        },
    )?;
    match ended {
        Some(RunStatus::Completed) => {
            output.say(Some(Tone::Good), "The agent has shortened its context.")?;
            Ok(())
        }
        Some(status) => Err(Failure::new(
            Code::Error,
            format!(
                "shortening the context: the run is over: {}",
                show::words::run(status, BlockedOn::None)
            ),
        )
        .about(ticket.command_id())),
        None => Err(Failure::new(
            Code::Unconfirmed,
            "the agent is shortening its context and has not finished yet",
        )
        .next(format!(
            "`pilothouse watch {}` shows when it has",
            args.thread
        ))
        .about(ticket.command_id())),
    }
}

/// The run that a person means by its number or the beginning of its id, among those of the items that were seen.
fn pick_run(device: &Device, given: &str, thread: &str) -> Result<RunId, Failure> {
    let mut runs: Vec<(RunId, u32)> = Vec::new();
    for row in &device.seen.rows {
        if let (Some(run), Some(position)) = (row.run, row.position)
            && !runs.iter().any(|(known, _)| *known == run)
        {
            runs.push((run, position.run));
        }
    }
    let number = given.parse::<u32>().ok();
    if let Some((run, _)) = runs.iter().find(|(_, ordinal)| Some(*ordinal) == number) {
        return Ok(*run);
    }
    // One that is older than what is looked at can be named by its whole id.
    if let Ok(run) = given.parse::<RunId>() {
        return Ok(run);
    }
    if number.is_some() {
        return Err(Failure::new(
            Code::NothingThere,
            format!("no run {given} among the newest items of this thread"),
        )
        .next(format!(
            "`pilothouse watch {thread} --json` shows ids and numbers of runs"
        )));
    }
    pick(
        "run",
        given,
        &runs,
        |(run, _)| run.to_string(),
        |_| None,
        |(_, ordinal)| format!("run {ordinal}"),
        &format!("`pilothouse watch {thread} --json`"),
    )
    .map(|(run, _)| *run)
}
