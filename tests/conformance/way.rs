//! How a device reaches an agent, and what stands between them.

use crate::agent::Agent;
use pilothouse_domain::{ThreadId, TurnItem, WorkspaceId};
use pilothouse_engine::LinkState;
use pilothouse_tests::{
    Cli, CodexElsewhere, Device, Elsewhere, Here, LedgerDir, OpencodeElsewhere, World,
    process::{self, Process},
};
use serde::{Deserialize, Serialize};

/// How a person starts an opencode whose subagents ask, as its threads advise.
const ADVISED: (&str, &str) = (
    "OPENCODE_PERMISSION",
    r#"{"*":"ask","read":"allow","glob":"allow","grep":"allow","list":"allow"}"#,
);

/// How a device reaches an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// By the host that runs it.
    #[default]
    Host,
    /// By a ledger that drives the host's agent as its own (decision 25).
    Remote,
    /// By nothing: the device drives the agent's server itself (decision 26).
    Direct,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Host, Self::Remote, Self::Direct];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Remote => "remote",
            Self::Direct => "direct",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    /// Whether the story is played with an agent so. What is far is a host's agent like any other, so that one is enough.
    pub(crate) fn is_of(self, agent: Agent) -> bool {
        match self {
            Self::Host => true,
            Self::Remote => agent == Agent::Codex,
            Self::Direct => matches!(agent, Agent::Codex | Agent::Opencode),
        }
    }

    /// An agent reached so, for reading.
    pub(crate) fn titled(self, agent: &str) -> String {
        match self {
            Self::Host => agent.to_owned(),
            Self::Remote => format!("{agent} via remote"),
            Self::Direct => format!("{agent} direct"),
        }
    }
}

/// What stands between a device and its agent.
pub(crate) enum Between {
    Host,
    Near(Box<Here>),
    Server(Box<Alone>),
}

/// An agent's server with no daemon: the ledger is in the process that has the lease of the device's data directory.
pub(crate) struct Alone {
    server: Elsewhere,
    /// The app, where it is a process that can be killed; otherwise the ledger is in this one.
    app: Option<Process>,
}

impl Between {
    /// Starts it in an agent's world, with a device.
    pub(crate) fn start(way: Way, agent: Agent, world: &mut World) -> (Self, Device) {
        let dir = world.dir().join("phone");
        match way {
            Way::Host => (Self::Host, world.device("phone")),
            Way::Remote => {
                let name = agent.name();
                let near = world.dir().join("near");
                let near = Here::driving(name, &near, &world.host, (name, "demo"));
                let device = near.device(&dir, "phone");
                (Self::Near(Box::new(near)), device)
            }
            Way::Direct => {
                // There is no daemon: of the world only directory, model and the agent's home are used.
                world.host.kill_9();
                let server = match agent {
                    Agent::Opencode => OpencodeElsewhere::start(world, &[ADVISED]),
                    _ => CodexElsewhere::start(world, agent.arguments()),
                };
                let device = Device::direct(&dir, "phone", server.agent(), server.secret());
                let alone = Alone { server, app: None };
                (Self::Server(Box::new(alone)), device)
            }
        }
    }

    /// The workspace as devices name it.
    pub(crate) fn workspace(&self) -> WorkspaceId {
        match self {
            Self::Host | Self::Near(_) => "demo".into(),
            Self::Server(_) => "workspace".into(),
        }
    }

    /// The ledger whose threads the device shows.
    pub(crate) fn ledger(&self, world: &World, device: &Device) -> LedgerDir {
        match self {
            Self::Host => world.host.ledger_dir(),
            Self::Near(near) => near.ledger_dir(),
            Self::Server(_) => device.own_ledger(),
        }
    }

    /// Every ledger of the way says of itself what its log says.
    pub(crate) fn verify(&self, world: &World, device: &Device) {
        self.ledger(world, device).verify();
        if matches!(self, Self::Near(_)) {
            world.host.verify();
        }
    }

    /// What an agent did without asking, though its thread's mode is to ask, as the ledgers of the way have it.
    pub(crate) fn unasked(&self, world: &World, device: &Device) -> Vec<(ThreadId, TurnItem)> {
        let mut found = self.ledger(world, device).unasked();
        if matches!(self, Self::Near(_)) {
            found.extend(world.host.unasked());
        }
        found
    }

    /// What ends and begins anew in [`Between::next_life`], for reading.
    pub(crate) fn life(&self) -> &'static str {
        match self {
            Self::Host => "the host was killed",
            Self::Near(_) => "the far host was killed",
            Self::Server(_) => "the app was killed",
        }
    }

    /// The agent's processes.
    pub(crate) fn processes(&self, world: &World) -> Vec<u32> {
        let mut pids = self.outliving(world);
        if !matches!(self, Self::Server(_)) {
            pids.extend(world.host.agents());
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Those that live on when what stands between is killed.
    pub(crate) fn outliving(&self, world: &World) -> Vec<u32> {
        match self {
            Self::Host | Self::Near(_) => world.host.outliving(),
            Self::Server(alone) => vec![alone.server.pid()],
        }
    }

    /// SIGKILL to the agent's processes and all that they started. A server that a person started is started again.
    pub(crate) fn kill_agent(&mut self, world: &World) -> Vec<u32> {
        let pids = self.processes(world);
        assert!(!pids.is_empty(), "the agent runs");
        if let Self::Server(alone) = self {
            alone.server.restart();
            return pids;
        }
        for pid in &pids {
            process::kill_group(*pid);
            process::gone(*pid);
        }
        pids
    }

    /// Puts what stands between into a process that can be killed, where it is in none: a terminal that watches has the ledger
    /// and the link from now on, and the device is a second window on the same data. Says whether the device was opened anew.
    pub(crate) fn becomes_mortal(&mut self, world: &World, device: &mut Device) -> bool {
        let Self::Server(alone) = self else {
            return false;
        };
        device.close();
        let data = device.dir();
        let name = data.file_name().unwrap_or_default().to_string_lossy();
        let app = Cli::new(world.dir(), &name).start(&world.host, &["watch"]);
        app.json("its link", |line| {
            line["type"] == "host" && line["link"] == "synchronised"
        });
        device.reopen_here();
        device.links(&LinkState::HeldElsewhere);
        alone.app = Some(app);
        true
    }

    /// SIGKILL to the host, and another life of it; where there is none, to the app, and another one on the same data. Says
    /// whether the device was opened anew.
    pub(crate) fn next_life(&mut self, world: &mut World, device: &mut Device) -> bool {
        if let Self::Server(alone) = self {
            // The second window would take over from the first at once; nobody is to be there for a moment.
            device.close();
            let mut app = alone.app.take().expect("the app is a process of its own");
            app.kill_9();
            device.reopen_here();
            device.synchronised();
            return true;
        }
        let outliving = self.outliving(world);
        let agents = world.host.agents().into_iter();
        let bound: Vec<u32> = agents.filter(|pid| !outliving.contains(pid)).collect();
        world.host.kill_9();
        for pid in bound {
            process::gone(pid);
        }
        if matches!(self, Self::Host) {
            device.offline();
        }
        world.host.restart();
        device.network_changes();
        device.synchronised();
        false
    }
}
