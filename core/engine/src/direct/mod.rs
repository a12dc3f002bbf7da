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
pub use agent::{DirectAgent, DirectError, DirectFamily};
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
    /// May wait for the platform's store of secrets.
    ///
    /// # Errors
    /// [`DirectError`]: the address is refused, a directory is no absolute path, or something cannot be kept.
    pub fn add_direct(&self, agent: &DirectAgent, secret: &str) -> Result<HostId, DirectError> {
        agent.endpoint()?;
        agent.check()?;
        let shared = self.shared();
        let host = HostId::from_bytes(shared.random());
        let kept = |error: String| DirectError::NotKept { why: error };
        shared
            .platform
            .keep_secret(&secret_name(host), secret)
            .map_err(|error| kept(error.to_string()))?;
        let said = Said {
            agent: agent.clone(),
            removed: false,
        };
        let put = shared.direct.put(host, &said);
        put.map_err(|error| kept(error.to_string()))?;
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
            .map_err(kept)?;
        Ok(host)
    }

    /// The agents that are driven from here.
    pub fn direct_agents(&self) -> Vec<(HostId, DirectAgent)> {
        self.shared().direct.agents()
    }

    /// Takes an agent away, and its secret with it. Its threads can still be read; nothing is sent to the agent any more, and
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
        let kept = |why: String| DirectError::NotKept { why };
        let put = shared.direct.put(host, &said);
        put.map_err(|error| kept(error.to_string()))?;
        let forgotten = shared.platform.forget_secret(&secret_name(host));
        let (reply, answer) = mpsc::channel();
        shared
            .actor
            .send(Message::DirectChanged { host, reply })
            .map_err(|_| DirectError::Closed)?;
        answer
            .recv()
            .map_err(|_| DirectError::Closed)?
            .map_err(kept)?;
        forgotten.map_err(|error| DirectError::SecretKept {
            why: error.to_string(),
        })
    }
}

/// Under what the platform keeps the secret of an agent.
pub(crate) fn secret_name(host: HostId) -> String {
    format!("direct-{host}")
}
