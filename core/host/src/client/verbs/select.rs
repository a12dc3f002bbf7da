//! What a thread runs on: shown, and chosen anew; what a message to it can name.

use super::attach::reach;
use crate::client::{
    args::{CommandsArgs, FilesArgs, SelectArgs},
    device::Device,
    failure::{Code, Failure},
    json,
    output::Output,
    show,
    style::Tone,
};
use pilothouse_domain::{command::CommandBody, provider::OfferedModel, thread::Selection};

pub(super) fn select(args: &SelectArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let row = device.pick_thread(&args.thread)?;
    let (host, thread) = (row.host, row.summary.thread);
    let header = device.look_at(host, thread, until)?;
    let was = header.selection.ok_or_else(|| {
        Failure::new(Code::Unconfirmed, "nothing is known of this thread yet")
            .next("try again with a longer --timeout")
    })?;
    let selection = Selection {
        agent: was.agent.clone(),
        model: chosen(args.model.as_deref(), was.model.as_ref()),
        effort: chosen(args.effort.as_deref(), was.effort.as_ref()),
        mode: args.mode.map_or(was.mode, Into::into),
        sandbox: was.sandbox,
    };
    let asks = args.mode.is_some() || args.model.is_some() || args.effort.is_some();
    let mut command = None;
    if asks {
        let body = CommandBody::ThreadSelect {
            model: selection.model.clone(),
            effort: selection.effort.clone(),
            mode: selection.mode,
        };
        let ticket = device.submit(host, Some(thread), body)?;
        device.confirm(&ticket, "choosing what the thread runs on", until)?;
        command = Some(ticket.command_id());
    }
    let models = device.models(host, thread);
    output.say(None, &words(&selection))?;
    if asks {
        output.say(Some(Tone::Dim), "It holds from the next turn on.")?;
    } else {
        for model in &models {
            output.say(None, &offered(model))?;
        }
    }
    output.object(
        "selection",
        json::Chosen {
            thread,
            host,
            command,
            selection,
            models,
        },
    )?;
    Ok(())
}

pub(super) fn commands(args: &CommandsArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let row = device.pick_thread(&args.thread)?;
    let (host, thread) = (row.host, row.summary.thread);
    device.look_at(host, thread, until)?;
    let commands = device.commands(host, thread);
    if commands.is_empty() {
        let words = "The agent has named none in this thread; it does so when it runs.";
        output.say(Some(Tone::Dim), words)?;
    }
    for command in &commands {
        let head = format!("{} {}", command.name, command.argument_hint);
        output.say(None, &show::safe(head.trim_end()))?;
        if !command.description.is_empty() {
            let words = format!("    {}", show::safe(&command.description));
            output.say(Some(Tone::Dim), &words)?;
        }
    }
    output.object(
        "commands",
        json::Commands {
            thread,
            host,
            commands,
        },
    )?;
    Ok(())
}

pub(super) fn files(args: &FilesArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, Some(args.patience), None)?;
    let until = device.confirm_by();
    let row = device.pick_thread(&args.thread)?;
    reach(&mut device, row.host, until);
    let files = device.files(&row, &args.text)?;
    if files.is_empty() {
        output.say(Some(Tone::Dim), "No file of the workspace fits.")?;
    }
    for file in &files {
        output.say(None, &show::safe(&file.path))?;
    }
    output.object(
        "files",
        json::Files {
            thread: row.summary.thread,
            host: row.host,
            files,
        },
    )?;
    Ok(())
}

/// What was typed, `default` for none, or what was there.
fn chosen(given: Option<&str>, was: Option<&String>) -> Option<String> {
    match given {
        Some("default") => None,
        Some(given) => Some(given.to_owned()),
        None => was.cloned(),
    }
}

fn words(selection: &Selection) -> String {
    let or_default = |word: &Option<String>| match word {
        Some(word) => show::safe(word),
        None => "default".to_owned(),
    };
    format!(
        "{}: mode {}, model {}, effort {}",
        show::safe(selection.agent.as_str()),
        selection.mode.name(),
        or_default(&selection.model),
        or_default(&selection.effort)
    )
}

fn offered(model: &OfferedModel) -> String {
    let mark = if model.is_default { " (default)" } else { "" };
    let efforts = if model.efforts.is_empty() {
        String::new()
    } else {
        format!(": {}", show::safe(&model.efforts.join(", ")))
    };
    format!("  {}{mark}{efforts}", show::safe(&model.id))
}
