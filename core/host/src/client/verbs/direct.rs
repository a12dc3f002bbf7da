//! Agents that are driven from this device: added, listed, taken away.

use super::typed;
use crate::client::{
    args::{DirectAddArgs, DirectListArgs, DirectRemoveArgs},
    device::Device,
    failure::{Code, Failure},
    json,
    output::Output,
    pick::{pick, short},
    show,
    style::Tone,
};
use pilothouse_engine::{DIRECT_LIMITS, DirectAgent, DirectFamily, HostRow};

pub(super) fn add(args: &DirectAddArgs, output: &mut Output) -> Result<(), Failure> {
    let pin = args.pin.as_deref().map(str::parse).transpose();
    let pin = pin.map_err(|error| Failure::new(Code::Usage, format!("--pin: {error}")))?;
    let (family, url) = match (&args.server.codex, &args.server.opencode) {
        (Some(url), _) => (DirectFamily::Codex, url),
        (None, Some(url)) => (DirectFamily::Opencode, url),
        (None, None) => return Err(Failure::new(Code::Usage, "which server is it?")),
    };
    let token = typed("-", "the token or password")?;
    let device = Device::open(&args.device, None, None)?;
    let agent = DirectAgent {
        name: args.name.clone(),
        family,
        url: url.clone(),
        pin,
        private_network: args.private_network,
        directories: args.directories.clone(),
    };
    let host = device.add_direct(&agent, &token)?;
    let name = args.name.clone();
    output.object(
        "joined",
        json::Joined {
            host,
            name: name.clone(),
        },
    )?;
    output.say(
        Some(Tone::Good),
        &format!("{} ({host}) is driven from this device.", show::safe(&name)),
    )?;
    output.say(None, &format!("Know: {DIRECT_LIMITS}."))?;
    Ok(())
}

pub(super) fn list(args: &DirectListArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, None, None)?;
    let rows = driven(&mut device);
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

pub(super) fn remove(args: &DirectRemoveArgs, output: &mut Output) -> Result<(), Failure> {
    let mut device = Device::open(&args.device, None, None)?;
    let rows = driven(&mut device);
    let row = pick(
        "agent",
        &args.agent,
        &rows,
        |row| row.host.to_string(),
        |row| Some(row.name.clone()),
        |row| row.name.clone(),
        "`pilothouse direct list`",
    )?;
    device.remove_direct(row.host)?;
    let (host, name) = (row.host, row.name.clone());
    let said = format!(
        "{} ({host}) is not driven from this device any more, and its secret is forgotten.",
        show::safe(&name)
    );
    output.object("removed", json::Joined { host, name })?;
    output.say(Some(Tone::Good), &said)?;
    output.say(
        None,
        "Its threads can still be read; what goes on with the agent itself goes on.",
    )?;
    Ok(())
}

/// Those that were not taken away.
fn driven(device: &mut Device) -> Vec<HostRow> {
    let there = |row: &HostRow| row.direct.as_ref().is_some_and(|direct| !direct.removed);
    device.hosts().into_iter().filter(there).collect()
}
