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
use pilothouse_domain::{HostId, ThreadId, command::CommandBody, request::RequestKind};
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
    let (host, thread) = waiting_thread(&mut device, &args.of)?;
    device.look_at(host, thread, until)?;
    device.observe(Scope::Inbox);
    let ticket = device.submit(host, Some(thread), CommandBody::ThreadSignIn)?;
    device.confirm(&ticket, "having the agent sign in", until)?;
    let came = device.wait(Some(until), |device| {
        let asks = |row: &&InboxRow| {
            row.thread == thread
                && row.kind == RequestKind::Auth
                && row.state == InboxState::Pending
        };
        if let Some(row) = device.seen.inbox.iter().flatten().find(asks) {
            return Some(Came::Asks(Box::new(row.clone())));
        }
        let summary = device.line(thread)?.summary;
        match summary.sign_in_problem {
            Some(problem) => Some(Came::Failed(problem)),
            None => summary.held.is_none().then_some(Came::Over),
        }
    });
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
        Some(Came::Failed(problem)) => Err(Failure::new(
            Code::Error,
            format!("signing in: {}", show::safe(&problem)),
        )
        .about(ticket.command_id())),
        None => Err(Failure::new(
            Code::Unconfirmed,
            "the agent has not said yet how it is signed in",
        )
        .next("`pilothouse inbox` shows it when it has")
        .about(ticket.command_id())),
    }
}

/// The thread that is meant: the one to try with of an agent's, or one by the beginning of its id.
fn waiting_thread(device: &mut Device, of: &str) -> Result<(HostId, ThreadId), Failure> {
    let hosts = device.settle().to_vec();
    let mut found: Vec<(HostId, ThreadId, String)> = Vec::new();
    for host in hosts {
        for row in host.signed_out {
            if row.agent.as_str() == of {
                found.push((host.host, row.thread, host.name.clone()));
            }
        }
    }
    match found.as_slice() {
        [] => {
            let row = device.pick_thread(of)?;
            Ok((row.host, row.summary.thread))
        }
        [(host, thread, _)] => Ok((*host, *thread)),
        several => {
            let problem = format!("{} hosts have such an agent", several.len());
            let mut failure = Failure::new(Code::Usage, problem).next("name one of these threads");
            failure.candidates = several
                .iter()
                .map(|(_, thread, host)| Candidate {
                    id: thread.to_string(),
                    label: host.clone(),
                })
                .collect();
            Err(failure)
        }
    }
}
