//! Making a thread, sending, interrupting, and the queue.

use super::{attach, typed};
use crate::client::{
    args::{InterruptArgs, NewArgs, QueueArgs, SendArgs},
    device::Device,
    failure::{Code, Failure},
    json,
    output::Output,
    pick::{pick, short},
    show,
    style::Tone,
};
use pilothouse_domain::{
    AgentName, CommandBody, DispatchMode, RunId, WorkspaceId,
    command::{Notice, NoticeKind},
    thread::Selection,
};
use pilothouse_engine::{RowContent, ThreadHeader, ThreadRow};
use std::time::Instant;

pub(super) fn new(args: &NewArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let host = device.pick_host(args.host.as_deref())?;
    let body = CommandBody::ThreadCreate {
        title: args.title.clone(),
        workspace: WorkspaceId(args.workspace.clone()),
        selection: Selection {
            agent: AgentName(args.agent.clone()),
            model: args.model.clone(),
            effort: args.effort.clone(),
            mode: args.mode.into(),
            sandbox: args.sandbox.map(Into::into),
        },
    };
    let sandbox = host
        .agents
        .iter()
        .find(|agent| agent.name.as_str() == args.agent)
        .and_then(|agent| {
            args.sandbox
                .map(Into::into)
                .or(agent.sandboxes.first().copied())
        });
    let ticket = device.submit(host.host, None, body)?;
    device.confirm(&ticket, "making the thread", until)?;
    let thread = ticket.thread();
    output.object(
        "created",
        json::Created {
            thread,
            host: host.host,
            command: ticket.command_id(),
        },
    )?;
    output.say(
        None,
        &format!(
            "Thread {thread} on {}; nothing runs yet.",
            show::safe(&host.name)
        ),
    )?;
    if let Some(sandbox) = sandbox {
        let risk = show::words::unasked(sandbox);
        output.say(
            Some(Tone::Bad),
            &format!("Its agent {risk}: {}.", sandbox.risk()),
        )?;
    }
    output.say(
        Some(Tone::Dim),
        &format!(
            "Next: pilothouse send {} 'what to do'",
            &thread.to_string()[..8]
        ),
    )?;
    Ok(())
}

pub(super) fn send(args: &SendArgs, output: &mut Output) -> Result<(), Failure> {
    let text = typed(&args.text, "the message")?;
    let files = attach::read(&args.attach)?;
    if text.trim().is_empty() && files.is_empty() {
        return Err(
            Failure::new(Code::Usage, "the message is empty").next("say what the agent is to do")
        );
    }
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let row = device.pick_thread(&args.thread)?;
    let mut accept_stop = Vec::new();
    let mut into = None;
    let dispatch = if args.dispatch.queue {
        DispatchMode::QueueAfterActive
    } else if args.dispatch.steer || args.dispatch.restart {
        let header = device.look_at(row.host, row.summary.thread, until)?;
        let run = header
            .active
            .as_ref()
            .map(|active| active.run)
            .ok_or_else(|| nothing_runs("send it without --steer or --restart"))?;
        into = Some(run);
        if args.dispatch.restart {
            for item in device
                .seen
                .rows
                .iter()
                .filter(|item| item.status.is_live() && acts(&item.content))
            {
                if let Some(what) = show::item::acting(item) {
                    output.say(Some(Tone::Waits), &format!("Stops what runs now: {what}"))?;
                }
                accept_stop.push(item.id);
            }
            DispatchMode::RestartActive { run }
        } else {
            DispatchMode::SteerActive { run }
        }
    } else {
        DispatchMode::StartImmediately
    };
    let attachments = attach::upload(&mut device, row.host, files, until)?;
    let body = CommandBody::MessageSend {
        text,
        attachments,
        dispatch,
        accept_stop,
    };
    let ticket = device.submit(row.host, Some(row.summary.thread), body)?;
    let notice = device.confirm(&ticket, "sending the message", until)?;
    let run: RunId = into.unwrap_or_else(|| ticket.command_id().derive("run"));
    output.object(
        "sent",
        json::Sent {
            thread: row.summary.thread,
            host: row.host,
            command: ticket.command_id(),
            message: ticket.command_id().derive("message"),
            run,
            notice: notice.as_ref().map(|notice| notice.what.clone()),
        },
    )?;
    output.say(
        None,
        &format!(
            "The host has the message{}.",
            told(notice.as_ref(), dispatch)
        ),
    )?;
    Ok(())
}

fn acts(content: &RowContent) -> bool {
    matches!(
        content,
        RowContent::Command { .. }
            | RowContent::Tool { .. }
            | RowContent::FileChange { .. }
            | RowContent::Subagent { .. }
    )
}

fn told(notice: Option<&Notice>, dispatch: DispatchMode) -> String {
    match notice.map(|notice| &notice.what) {
        Some(NoticeKind::QueuedInstead { .. }) => "; a run is active, so it is queued".to_owned(),
        Some(NoticeKind::SteerMissed { .. }) => "; the turn had ended, so it waits at the head of the queue for your word (queue --release)".to_owned(),
        Some(NoticeKind::FollowsQueued { .. }) => "; that run is still queued, so it follows right behind it".to_owned(),
        Some(NoticeKind::DeliveryUnknown { .. }) => "; the agent's process was lost meanwhile, and it is not known whether it got it".to_owned(),
        Some(NoticeKind::Agent { message }) => format!(" ({})", show::safe(message)),
        None => match dispatch {
            DispatchMode::StartImmediately => "; it starts a run",
            DispatchMode::QueueAfterActive => "; it is in the queue",
            DispatchMode::SteerActive { .. } => "; it goes into the run",
            DispatchMode::RestartActive { .. } => "; the run is restarted with it",
        }
        .to_owned(),
    }
}

fn nothing_runs(next: &str) -> Failure {
    Failure::new(Code::NothingThere, "nothing is running in this thread").next(next)
}

pub(super) fn interrupt(args: &InterruptArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let row = device.pick_thread(&args.thread)?;
    let header = device.look_at(row.host, row.summary.thread, until)?;
    let active = header
        .active
        .ok_or_else(|| nothing_runs("nothing is to be stopped"))?;
    let run = active.run;
    let attempt = active.attempt.ok_or_else(|| {
        Failure::new(Code::Error, "the run is between two attempts, or not on the host yet: there is nothing to stop just now").next("try again in a moment")
    })?;
    let ticket = device.submit(
        row.host,
        Some(row.summary.thread),
        CommandBody::RunInterrupt {
            run,
            attempt,
            hold_queue: !args.keep_queue,
        },
    )?;
    device.confirm(&ticket, "asking the agent to stop", until)?;
    output.say(Some(Tone::Waits), "The host has asked the agent to stop …")?;
    let ended = stopped(&mut device, run, until, output)?;
    output.object(
        "interrupted",
        json::Interrupted {
            thread: row.summary.thread,
            host: row.host,
            command: ticket.command_id(),
            run,
            attempt,
            run_status: ended,
        },
    )?;
    match ended {
        Some(status) => {
            let words = show::words::run(status, pilothouse_domain::run::BlockedOn::None);
            output.say(None, &format!("The run is over: {words}."))?;
            Ok(())
        }
        None => Err(Failure::new(
            Code::Unconfirmed,
            "the host has asked the agent to stop, and the agent has not said that it did",
        )
        .next(format!(
            "`pilothouse watch {}` shows each step",
            args.thread
        ))
        .about(ticket.command_id())),
    }
}

/// Waits for the run's end, telling each step of the interrupt.
fn stopped(
    device: &mut Device,
    run: RunId,
    until: Instant,
    output: &mut Output,
) -> Result<Option<pilothouse_domain::RunStatus>, Failure> {
    let mut told = 0;
    loop {
        let steps: Vec<String> = device
            .seen
            .rows
            .iter()
            .filter(|row| row.run == Some(run))
            .filter_map(|row| match &row.content {
                RowContent::Interrupt { note } => Some(show::safe(note)),
                _ => None,
            })
            .collect();
        for step in steps.iter().skip(told) {
            output.say(Some(Tone::Dim), &format!("  {step}"))?;
        }
        told = told.max(steps.len());
        if let Some(last) = device
            .seen
            .header
            .as_ref()
            .and_then(|header| header.last_run)
            && last.id == run
        {
            return Ok(Some(last.status));
        }
        if device.next(Some(until)).is_none() {
            return Ok(None);
        }
    }
}

pub(super) fn queue(args: &QueueArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let row = device.pick_thread(&args.thread)?;
    let header = device.look_at(row.host, row.summary.thread, until)?;
    if args.release {
        return change(&mut device, &row, &header, None, until, output);
    }
    if let Some(given) = &args.remove {
        let entry = pick(
            "queued run",
            given,
            &header.queue,
            |entry| entry.run.to_string(),
            |_| None,
            |entry| entry.preview.clone(),
            &format!("`pilothouse queue {}`", args.thread),
        )?;
        return change(&mut device, &row, &header, Some(entry.run), until, output);
    }
    output.object("queue", json::QueueLine::from(&header))?;
    let ids: Vec<String> = header
        .queue
        .iter()
        .map(|entry| entry.run.to_string())
        .collect();
    output.words(&show::lists::queue(
        &header,
        |id| short(id, ids.iter().cloned()),
        output.style,
    ))?;
    Ok(())
}

fn change(
    device: &mut Device,
    row: &ThreadRow,
    header: &ThreadHeader,
    remove: Option<RunId>,
    until: Instant,
    output: &mut Output,
) -> Result<(), Failure> {
    let revision = header.queue_revision;
    let (body, doing, done) = match remove {
        Some(run) => (
            CommandBody::QueueRemove { run, revision },
            "taking it out of the queue",
            "It is out of the queue.",
        ),
        None => (
            CommandBody::QueueRelease { revision },
            "letting the queue go on",
            "The queue goes on.",
        ),
    };
    let ticket = device.submit(row.host, Some(row.summary.thread), body)?;
    device.confirm(&ticket, doing, until)?;
    output.object(
        "queue_changed",
        json::QueueChanged {
            thread: row.summary.thread,
            host: row.host,
            command: ticket.command_id(),
            removed: remove,
        },
    )?;
    output.say(Some(Tone::Good), done)?;
    Ok(())
}
