//! Direct mode: a ledger in this process that drives an agent's own server over a network, with no daemon beside it.
//!
//! To everything else of the core it is a host like any other: its link leads over a connection in memory to a session of
//! `pilothouse-serve`, so that list, inbox, outbox and predictions need to know nothing of it. What it cannot do follows from
//! where it is: it takes no checkpoints of files, wakes nobody, belongs to this device alone, and goes on only while the program
//! runs. What the agent does meanwhile is taken in when the program runs again.
//!
//! Each such agent has a directory `direct/HOST` beside the replica, with what a person said of it and its ledger. The secret that
//! it takes is not in there: the platform keeps that.

mod agent;
mod host;

pub(crate) use agent::Said;
pub use agent::{DirectAgent, DirectChange, DirectError, DirectFamily};
pub(crate) use host::{DirectDialer, DirectHosts};

use crate::{actor::Message, core::Core};
use pilothouse_domain::{ContentHash, DeviceId, HostId, Scope, hash};
use pilothouse_store::HostRow;
use std::sync::mpsc;

/// What is true of every agent that is driven so, for a person.
pub const DIRECT_LIMITS: &str = "no daemon: no checkpoints of files, no wake-up; on this device only, and only while this program runs";

/// The device that this core is to its own ledgers.
pub(crate) fn own_device(host: HostId) -> DeviceId {
    DeviceId::from_bytes(hash::id_bytes(&[host.as_bytes(), b"direct"]))
}

impl Core {
    /// Drives an agent's server from this device, with no daemon: see [`DIRECT_LIMITS`]. It is shown like a host; its id is
    /// given. Nothing is sent before its address was found safe, and nothing is waited for: whether the agent is there shows.
    /// Blanks around what was typed, and line breaks behind the secret, are no part of it. May wait for the platform's store of
    /// secrets.
    ///
    /// # Errors
    /// [`DirectError`]: the address is refused, a directory is no absolute path, an agent of that name or at that address is driven
    /// from here already, or something cannot be kept.
    pub fn add_direct(&self, agent: &DirectAgent, secret: &str) -> Result<HostId, DirectError> {
        let agent = &agent.trimmed();
        agent.endpoint()?;
        agent.check()?;
        let shared = self.shared();
        let known = shared.direct.agents();
        agent.is_apart_from(known.iter().map(|(_, other)| other))?;
        let host = HostId::from_bytes(shared.random());
        shared
            .platform
            .keep_secret(&secret_name(host, 0), line(secret))
            .map_err(DirectError::not_kept)?;
        let said = Said {
            agent: agent.clone(),
            secrets: 0,
            removed: false,
        };
        let put = shared.direct.put(host, &said);
        put.map_err(DirectError::not_kept)?;
        let row = HostRow {
            host,
            name: agent.name.clone(),
            addresses: vec![agent.url.clone()],
            spki: ContentHash::default(),
            device: own_device(host),
            scopes: Scope::ALL.to_vec(),
            paired_at_ms: shared.platform.now_ms(),
            revoked: false,
            last_seen_ms: None,
        };
        let (reply, answer) = mpsc::channel();
        shared
            .actor
            .send(Message::Paired { row, reply })
            .map_err(|_| DirectError::Closed)?;
        answer
            .recv()
            .map_err(|_| DirectError::Closed)?
            .map_err(DirectError::not_kept)?;
        Ok(host)
    }

    /// The agents that are driven from here.
    pub fn direct_agents(&self) -> Vec<(HostId, DirectAgent)> {
        self.shared().direct.agents()
    }

    /// Says something of an agent anew, its secret too where one is given: its threads stay, and it is connected with again so.
    /// May wait for the platform's store of secrets.
    ///
    /// # Errors
    /// [`DirectError`]: no such agent, or the address is refused or another agent's, and nothing is changed; or something cannot
    /// be kept.
    pub fn change_direct(
        &self,
        host: HostId,
        change: &DirectChange,
        secret: Option<&str>,
    ) -> Result<(), DirectError> {
        let shared = self.shared();
        let known = shared.direct.said(host).filter(|said| !said.removed);
        let said = known.ok_or(DirectError::Unknown { host })?;
        let agent = said.agent.changed(change);
        agent.endpoint()?;
        let known = shared.direct.agents();
        let others = known.iter().filter(|(other, _)| *other != host);
        agent.is_apart_from(others.map(|(_, other)| other))?;
        let before = said.secrets;
        let said = Said {
            agent,
            secrets: before.wrapping_add(secret.is_some().into()),
            removed: false,
        };
        // Beside the one before it, so that no secret is ever said to an address that it was not given for.
        if let Some(secret) = secret {
            let name = secret_name(host, said.secrets);
            let kept = shared.platform.keep_secret(&name, line(secret));
            kept.map_err(DirectError::not_kept)?;
        }
        self.put_direct(host, &said)?;
        if secret.is_some() {
            // What cannot be forgotten now goes with the agent.
            let _ = self.forget_secret(host, before);
        }
        Ok(())
    }

    fn forget_secret(&self, host: HostId, number: u32) -> Result<(), DirectError> {
        let name = secret_name(host, number);
        let forgotten = self.shared().platform.forget_secret(&name);
        forgotten.map_err(|error| DirectError::SecretKept {
            why: error.to_string(),
        })
    }

    /// Keeps what is said of an agent, and has whoever drives it take it in.
    fn put_direct(&self, host: HostId, said: &Said) -> Result<(), DirectError> {
        let shared = self.shared();
        let put = shared.direct.put(host, said);
        put.map_err(DirectError::not_kept)?;
        let (reply, answer) = mpsc::channel();
        shared
            .actor
            .send(Message::DirectChanged { host, reply })
            .map_err(|_| DirectError::Closed)?;
        answer
            .recv()
            .map_err(|_| DirectError::Closed)?
            .map_err(DirectError::not_kept)
    }

    /// Takes an agent away, and its secrets with it. Its threads can still be read; nothing is sent to the agent any more, and
    /// what goes on there goes on. May wait for the platform's store of secrets.
    ///
    /// # Errors
    /// [`DirectError`]: no such agent, or something cannot be kept or forgotten.
    pub fn remove_direct(&self, host: HostId) -> Result<(), DirectError> {
        let shared = self.shared();
        let known = shared.direct.said(host);
        let said = Said {
            removed: true,
            ..known.ok_or(DirectError::Unknown { host })?
        };
        self.put_direct(host, &said)?;
        (0..=said.secrets).try_for_each(|number| self.forget_secret(host, number))
    }
}

/// A secret without the line break that it was read or copied with.
fn line(secret: &str) -> &str {
    secret.trim_end_matches(['\r', '\n'])
}

/// Under what the platform keeps the secret of an agent that was given so many before it.
pub(crate) fn secret_name(host: HostId, before: u32) -> String {
    match before {
        0 => format!("direct-{host}"),
        _ => format!("direct-{host}-{before}"),
    }
}
