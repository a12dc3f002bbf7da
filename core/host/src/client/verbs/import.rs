//! Conversations that agents have by themselves: listed, and made threads of.

use super::attach::reach;
use crate::client::{
    args::{ImportArgs, SessionsArgs},
    device::Device,
    failure::{Code, Failure},
    json,
    output::Output,
    show,
    style::Tone,
};
use pilothouse_domain::{
    AgentName, CommandBody, HostId, WorkspaceId, limits, provider::NativeConversation,
    thread::Selection,
};

/// Pages that are looked through for a conversation that is to be imported.
const PAGES: usize = 40;

pub(super) fn sessions(args: &SessionsArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let host = device.pick_host(args.host.as_deref())?.host;
    let until = device.confirm_by();
    reach(&mut device, host, until);
    let agent = AgentName(args.agent.clone());
    let workspace = WorkspaceId(args.workspace.clone());
    let (conversations, next) =
        device.conversations(host, &agent, &workspace, args.after.clone())?;
    if conversations.is_empty() {
        output.say(
            Some(Tone::Dim),
            &format!(
                "{} has no conversation in this workspace.",
                show::safe(agent.as_str())
            ),
        )?;
    }
    for conversation in &conversations {
        output.say(None, &words(conversation))?;
        output.object(
            "session",
            json::NativeSession {
                host,
                agent: agent.clone(),
                workspace: workspace.clone(),
                conversation: conversation.clone(),
            },
        )?;
    }
    output.object(
        "sessions",
        json::NativeSessions {
            host,
            next: next.clone(),
        },
    )?;
    if let Some(next) = next {
        output.say(
            Some(Tone::Dim),
            &format!("More: --after {}", show::safe(&next)),
        )?;
    }
    Ok(())
}

pub(super) fn import(args: &ImportArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let host = device.pick_host(args.host.as_deref())?.host;
    reach(&mut device, host, until);
    let agent = AgentName(args.agent.clone());
    let workspace = WorkspaceId(args.workspace.clone());
    let found = find(&device, host, &agent, &workspace, &args.key)?;
    let title: String = args.title.clone().unwrap_or_else(|| {
        let title = show::safe(&found.title);
        title.chars().take(limits::TITLE_CHARS).collect()
    });
    let body = CommandBody::ThreadImport {
        title,
        workspace,
        selection: Selection {
            agent,
            model: None,
            effort: None,
            mode: args.mode.into(),
            sandbox: None,
        },
        conversation: found.key,
    };
    let ticket = device.submit(host, None, body)?;
    device.confirm(&ticket, "importing the conversation", until)?;
    let thread = ticket.thread();
    output.object(
        "imported",
        json::Imported {
            thread,
            host,
            command: ticket.command_id(),
            key: found.key,
        },
    )?;
    output.say(
        None,
        &format!(
            "Thread {thread} goes on with that conversation; what was said last is being read."
        ),
    )?;
    output.say(
        Some(Tone::Dim),
        &format!("Next: pilothouse watch {}", show::words::thread(thread)),
    )?;
    Ok(())
}

/// The one conversation whose key begins so.
fn find(
    device: &Device,
    host: HostId,
    agent: &AgentName,
    workspace: &WorkspaceId,
    beginning: &str,
) -> Result<NativeConversation, Failure> {
    let mut found: Vec<NativeConversation> = Vec::new();
    let mut after = None;
    for _ in 0..PAGES {
        let (page, next) = device.conversations(host, agent, workspace, after.take())?;
        let fits = |one: &NativeConversation| one.key.to_string().starts_with(beginning);
        found.extend(page.into_iter().filter(fits));
        after = next;
        if after.is_none() {
            break;
        }
    }
    found.dedup_by_key(|one| one.key);
    match (found.pop(), found.len()) {
        (Some(one), 0) if !beginning.is_empty() => Ok(one),
        (Some(_), _) => Err(Failure::new(
            Code::Usage,
            format!(
                "several conversations begin with `{}`",
                show::safe(beginning)
            ),
        )
        .next("say more of the key")),
        (None, _) => Err(Failure::new(
            Code::Usage,
            format!("no conversation begins with `{}`", show::safe(beginning)),
        )
        .next("`pilothouse sessions` lists them")),
    }
}

fn words(conversation: &NativeConversation) -> String {
    let key = conversation.key.to_string();
    let title = show::safe(&conversation.title);
    match conversation.thread {
        Some(thread) => format!(
            "{}  {title}  (thread {})",
            &key[..8],
            show::words::thread(thread)
        ),
        None => format!("{}  {title}", &key[..8]),
    }
}
