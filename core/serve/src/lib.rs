//! A ledger, served to devices over the wire's messages.
//!
//! **Owns** the session of a device whose key was proven: from `hello` to `bye`, with its subscriptions, its commands in their
//! order, its queries and the files it brings. **Must not know** where connections come from, who may pair, or what a
//! command does: the ledger decides that. A daemon serves those that came over its port; a device that is a ledger itself serves
//! its own core over a connection in memory.
//!
//! Subscriptions and the feed run each in a task of their own, commands one after the other in one more, all writing into one
//! bounded queue. Nothing here delays an answer, a request or a terminal by a timer.
#![forbid(unsafe_code)]

mod earlier;
mod fit;
mod follow;
mod outgoing;
mod query;
mod rate;
mod session;
mod sessions;
mod uploads;

pub use outgoing::Patience;
pub use session::run;
pub use sessions::Sessions;

use pilothouse_domain::{DeviceId, HostId};
use pilothouse_ledger::{Clock, Ledger};
use pilothouse_wire::{
    duplex::BoxFuture,
    message::{AgentInfo, DoctorReport, WorkspaceInfo},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// What a device can ask of a host beside its ledger.
pub trait Facts: Send + Sync + 'static {
    /// Its agents, with how ready they are.
    fn agents(&self) -> BoxFuture<'_, Vec<AgentInfo>>;
    /// Its workspaces.
    fn workspaces(&self) -> Vec<WorkspaceInfo>;
    /// What a doctor finds; may be asked as often as a device likes.
    fn doctor(&self) -> BoxFuture<'_, DoctorReport>;
}

/// What all connections share.
pub struct Served {
    /// The host's id.
    pub id: HostId,
    /// What it calls itself.
    pub name: String,
    /// What it says it is: name and version of the program.
    pub software: String,
    /// Its ledger.
    pub ledger: Ledger,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Which devices are connected.
    pub sessions: Arc<Sessions>,
    /// How long a slow device is waited for.
    pub patience: Patience,
    /// What else can be asked.
    pub facts: Arc<dyn Facts>,
    rates: Mutex<BTreeMap<DeviceId, rate::Rate>>,
    uploads: uploads::Uploads,
    started: Instant,
}

impl Served {
    /// Serves a ledger.
    pub fn new(
        id: HostId,
        (name, software): (String, String),
        ledger: Ledger,
        clock: Arc<dyn Clock>,
        sessions: Arc<Sessions>,
        patience: Patience,
        facts: Arc<dyn Facts>,
    ) -> Self {
        Self {
            id,
            name,
            software,
            ledger,
            clock,
            sessions,
            patience,
            facts,
            rates: Mutex::default(),
            uploads: uploads::Uploads::default(),
            started: Instant::now(),
        }
    }

    /// How long a device's next command has to wait; `None` if it may go on, which it then has.
    fn wait_before_command(&self, device: DeviceId) -> Option<Duration> {
        let now = self.started.elapsed();
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates
            .entry(device)
            .or_insert_with(|| rate::Rate::new(now))
            .take(now)
            .err()
    }
}
