//! Agents that are driven from this device: added, listed, taken away.

use super::typed;
use crate::client::{
    args::{DirectAddArgs, DirectListArgs, DirectRemoveArgs, DirectSetArgs},
    device::Device,
    failure::{Code, Failure},
    json,
    output::Output,
    pick::{pick, short},
    show,
    style::Tone,
};
use pilothouse_domain::ContentHash;
use pilothouse_engine::{DIRECT_LIMITS, DirectAgent, DirectChange, DirectFamily, HostRow, Trust};

pub(super) fn add(args: &DirectAddArgs, output: &mut Output) -> Result<(), Failure> {
    let pin = pinned(args.pin.as_deref())?;
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
    let name = agent.name.trim().to_owned();
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

pub(super) fn set(args: &DirectSetArgs, output: &mut Output) -> Result<(), Failure> {
    let said = &args.change;
    let trust = match pinned(said.pin.as_deref())? {
        Some(pin) => Some(Trust::Pinned(pin)),
        None if said.private_network => Some(Trust::PrivateNetwork),
        None => said.public_authorities.then_some(Trust::Usual),
    };
    let change = DirectChange {
        url: said.url.clone(),
        trust,
    };
    let token = said.token.then(|| typed("-", "the token or password"));
    let token = token.transpose()?;
    let mut device = Device::open(&args.device, None, None)?;
    let row = named(&mut device, &args.agent)?;
    device.change_direct(row.host, &change, token.as_deref())?;
    let (host, name) = (row.host, row.name);
    let said = format!("{} ({host}) is driven so from now on.", show::safe(&name));
    output.object("changed", json::Joined { host, name })?;
    output.say(Some(Tone::Good), &said)?;
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
    let row = named(&mut device, &args.agent)?;
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

fn pinned(text: Option<&str>) -> Result<Option<ContentHash>, Failure> {
    let pin = text.map(|text| text.trim().parse()).transpose();
    pin.map_err(|error| Failure::new(Code::Usage, format!("--pin: {error}")))
}

/// The one that a person means.
fn named(device: &mut Device, agent: &str) -> Result<HostRow, Failure> {
    let rows = driven(device);
    let row = pick(
        "agent",
        agent,
        &rows,
        |row| row.host.to_string(),
        |row| Some(row.name.clone()),
        |row| row.name.clone(),
        "`pilothouse direct list`",
    );
    row.cloned()
}

/// Those that were not taken away.
fn driven(device: &mut Device) -> Vec<HostRow> {
    let there = |row: &HostRow| row.direct.as_ref().is_some_and(|direct| !direct.removed);
    device.hosts().into_iter().filter(there).collect()
}
