//! Signing an agent in whose sign-in was refused.

use crate::client::{
    args::SignInArgs,
    device::Device,
    failure::{Candidate, Code, Failure},
    json,
    output::Output,
    show,
    style::Tone,
};
use pilothouse_domain::{HostId, RequestId, ThreadId, command::CommandBody, request::RequestKind};
use pilothouse_engine::{InboxRow, InboxState, Scope};

/// What came of asking for it.
enum Came {
    Asks(Box<InboxRow>),
    Failed(String),
    /// It was signed in before anything was shown.
    Over,
}

pub(super) fn sign_in(args: &SignInArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let meant = waiting(&mut device, &args.of)?;
    let (host, thread) = (meant.host, meant.thread);
    device.look_at(host, thread, until)?;
    device.observe(Scope::Inbox);
    let mut told = None;
    if meant.request.is_none() {
        let ticket = device.submit(host, Some(thread), CommandBody::ThreadSignIn)?;
        let (place, _) = device.confirm_at(&ticket, "having the agent sign in", until)?;
        told = Some((ticket.command_id(), place.seq));
    }
    let came = device.wait(Some(until), |device| {
        let asks = |row: &&InboxRow| {
            let is_meant = match meant.request {
                Some(request) => row.request == request,
                None => row.thread == thread && row.kind == RequestKind::Auth,
            };
            row.host == host && is_meant && row.state == InboxState::Pending
        };
        if let Some(row) = device.seen.inbox.iter().flatten().find(asks) {
            return Some(Came::Asks(Box::new(row.clone())));
        }
        // What is held here may still say how the one before ended.
        let summary = device.line(thread)?.summary;
        if told.is_some_and(|(_, seq)| summary.seq < seq) {
            return None;
        }
        match summary.sign_in_problem {
            Some(problem) => Some(Came::Failed(problem)),
            None => summary.held.is_none().then_some(Came::Over),
        }
    });
    let about = |failure: Failure| match told {
        Some((command, _)) => failure.about(command),
        None => failure,
    };
    match came {
        Some(Came::Asks(row)) => {
            let row = device.shown(&row);
            output.object("request", json::Request::from(&row))?;
            let id = row.request.to_string();
            output.words(&show::request::render(
                &row,
                &id,
                device.now_ms(),
                output.style,
            ))?;
            output.say(
                Some(Tone::Good),
                "Its threads go on by themselves once that is done.",
            )?;
            Ok(())
        }
        Some(Came::Over) => {
            output.say(Some(Tone::Good), "It does not wait any more.")?;
            Ok(())
        }
        Some(Came::Failed(problem)) => Err(about(
            Failure::new(Code::Error, format!("signing in: {}", show::safe(&problem)))
                .next("try again, or sign in on the host: `pilothouse hosts` says how"),
        )),
        None => Err(about(
            Failure::new(
                Code::Unconfirmed,
                "the agent has not said yet how it is signed in",
            )
            .next("`pilothouse inbox` shows it when it has"),
        )),
    }
}

/// What is meant.
struct Meant {
    host: HostId,
    thread: ThreadId,
    /// What asks already for what is left to do, in whichever of the agent's threads it was begun.
    request: Option<RequestId>,
}

/// The thread to try with of an agent, and what was begun for it; or a thread by the beginning of its id.
fn waiting(device: &mut Device, of: &str) -> Result<Meant, Failure> {
    let hosts = device.settle().to_vec();
    let mut found: Vec<(Meant, String)> = Vec::new();
    for host in hosts {
        for row in host.signed_out {
            if row.agent.as_str() == of {
                let meant = Meant {
                    host: host.host,
                    thread: row.thread,
                    request: row.request,
                };
                found.push((meant, host.name.clone()));
            }
        }
    }
    if found.len() > 1 {
        let problem = format!("{} hosts have such an agent", found.len());
        let mut failure = Failure::new(Code::Usage, problem).next("name one of these threads");
        failure.candidates = found
            .into_iter()
            .map(|(meant, host)| Candidate {
                id: meant.thread.to_string(),
                label: host,
            })
            .collect();
        return Err(failure);
    }
    if let Some((meant, _)) = found.pop() {
        return Ok(meant);
    }
    let row = device.pick_thread(of)?;
    Ok(Meant {
        host: row.host,
        thread: row.summary.thread,
        request: None,
    })
}
