//! The core, its tickets and observations.

use crate::{
    batch::Batch,
    error::CoreError,
    platform::{Bridge, Platform, SecretStore},
    query::{Page, Query},
};
use pilothouse_domain::{
    CommandId, ContentHash, HostId, Refusal, RequestId, ThreadId, command::Notice,
    thread::Attachment,
};
use pilothouse_engine::{
    Core as Engine, CoreConfig as EngineConfig, DirectAgent, DirectFamily, Environment, Network,
    NewCommand, Scope, Standing, SystemPlatform, ThreadFilter, TicketOutcome,
};
use std::{path::PathBuf, sync::Arc};

/// Where a core keeps its data and what it calls itself.
#[derive(Debug, Clone, uniffi::Record)]
pub struct CoreConfig {
    /// Directory of the database; made if it is not there. Several processes may share it.
    pub data_dir: String,
    /// What hosts show of this device, at most 80 characters.
    pub device_name: String,
    /// What it runs on: `android`, `jvm` …
    pub platform: String,
}

/// What is looked at.
#[uniffi::remote(Enum)]
pub enum Scope {
    /// Paired hosts and how their links stand.
    Hosts,
    /// The newest of the threads that fit a filter, the one that changed last first.
    Threads {
        /// Which threads.
        filter: ThreadFilter,
        /// How many are shown at most, from 1 to 1,000.
        limit: u32,
    },
    /// One thread.
    Timeline {
        /// Its host.
        host: HostId,
        /// The thread.
        thread: ThreadId,
        /// How many of the newest items are shown, at least 1.
        tail: u32,
    },
    /// What waits for a person, over all hosts, the one that waits longest first; at most 1,000.
    Inbox,
    /// What is in the outbox, in order.
    Delivery,
}

/// Which threads a list holds.
#[uniffi::remote(Record)]
pub struct ThreadFilter {
    /// Those of a host; `null` for those of all hosts.
    pub host: Option<HostId>,
    /// Those that stand so; `null` for all that are not archived.
    pub standing: Option<Standing>,
}

/// Where a thread stands, as lists sort it: the first that fits.
#[uniffi::remote(Enum)]
pub enum Standing {
    /// Something in it waits for a person.
    Waiting,
    /// A run is worked on, or one waits in a queue that goes on.
    Running,
    /// It is put away.
    Archived,
    /// Its last run failed.
    Failed,
    /// Nothing goes on in it.
    Resting,
}

/// What the core may count on.
#[uniffi::remote(Record)]
pub struct Environment {
    /// Whether the program is on a screen.
    pub foreground: bool,
    /// The network.
    pub network: Network,
    /// The request that is on the screen right now.
    pub visible_request: Option<RequestId>,
}

/// Which agent's own server it is.
#[uniffi::remote(Enum)]
pub enum DirectFamily {
    /// `codex app-server`, over WebSocket with a bearer token.
    Codex,
    /// `opencode serve`, over HTTP with a password for its user `opencode`.
    Opencode,
}

/// An agent that is driven from this device, with no daemon on its machine.
#[uniffi::remote(Record)]
pub struct DirectAgent {
    /// What it is called here, 1 to 80 characters.
    pub name: String,
    /// Which server it is.
    pub family: DirectFamily,
    /// Where it listens: `wss://…`, `https://…`; without TLS (`ws://…`, `http://…`) only on this machine's loopback, where a
    /// forward of SSH's ends, or where `privateNetwork` is said. No secret stands in it.
    pub url: String,
    /// SHA-256 of the public key that its server must have; `null` leaves that to the public authorities.
    pub pin: Option<ContentHash>,
    /// The person says that the address lies inside a private network.
    pub private_network: bool,
    /// Directories of the agent's machine that threads can work in: absolute paths there, 1 to 64.
    pub directories: Vec<String>,
}

/// One of them, as it was added.
#[derive(Debug, Clone, uniffi::Record)]
pub struct DrivenAgent {
    /// The host that it is shown as.
    pub host: HostId,
    /// What was said of it.
    pub agent: DirectAgent,
}

/// What came of a command.
#[derive(Debug, Clone, uniffi::Enum)]
pub enum CommandOutcome {
    /// The host took it.
    Accepted {
        /// What its person should know.
        notice: Option<Notice>,
    },
    /// The host did not take it.
    Refused {
        /// A stable word for the reason, e.g. `already_answered`, `stale`, `turn_ended`.
        code: String,
        /// Why, in words.
        reason: String,
        /// What a person can do.
        user_action: String,
    },
    /// It waited too long in the outbox and was never sent.
    Expired,
    /// It is not sent by itself any more.
    Parked {
        /// Why, with a next step.
        reason: String,
    },
}

impl From<TicketOutcome> for CommandOutcome {
    fn from(outcome: TicketOutcome) -> Self {
        match outcome {
            TicketOutcome::Accepted { notice, .. } => Self::Accepted { notice },
            TicketOutcome::Refused { refusal } => refused(&refusal),
            TicketOutcome::Expired => Self::Expired,
            TicketOutcome::Parked { reason } => Self::Parked { reason },
        }
    }
}

fn refused(refusal: &Refusal) -> CommandOutcome {
    CommandOutcome::Refused {
        code: refusal.code().to_owned(),
        reason: refusal.to_string(),
        user_action: refusal.next_step().to_owned(),
    }
}

/// Takes batches: the first is a reset, the others follow in order. Called from one thread of the core, one call at a
/// time; it must only enqueue, and nothing may be thrown out of it.
#[uniffi::export(with_foreign)]
pub trait Sink: Send + Sync {
    /// Takes one batch.
    fn on_batch(&self, batch: Batch);
}

/// The core of one device. Whoever opens it shuts it down; calls after that fail.
#[derive(uniffi::Object)]
pub struct Core {
    engine: Arc<Engine>,
}

#[uniffi::export]
impl Core {
    /// Opens the core of a data directory, offline and at once to the last state. Without a platform, the key is a file
    /// in that directory, and so are secrets. With one and without `secrets` no agent can be driven from this device.
    #[uniffi::constructor]
    pub fn open(
        config: CoreConfig,
        platform: Option<Arc<dyn Platform>>,
        secrets: Option<Arc<dyn SecretStore>>,
    ) -> Result<Arc<Self>, CoreError> {
        let engine_config = EngineConfig {
            data_dir: PathBuf::from(&config.data_dir),
            device_name: config.device_name,
            platform: config.platform,
        };
        let engine = match platform {
            Some(foreign) => Engine::open(
                engine_config,
                Arc::new(Bridge::new(foreign, secrets, &config.data_dir)),
            ),
            None => Engine::open(
                engine_config,
                Arc::new(SystemPlatform::new(&config.data_dir)),
            ),
        }?;
        Ok(Arc::new(Self { engine }))
    }

    /// Pairs with the host whose code this is. Waits for the network.
    pub async fn pair(&self, code: String) -> Result<HostId, CoreError> {
        Ok(self.engine.pair(&code).await?)
    }

    /// Drives an agent's own server from this device, with no daemon on its machine; it is shown like a host, and whether it is
    /// there shows. The secret, a token or a password, goes to the store of secrets and nowhere else. May wait for that, so not
    /// on a screen's thread.
    pub fn add_direct(&self, agent: DirectAgent, secret: String) -> Result<HostId, CoreError> {
        Ok(self.engine.add_direct(&agent, &secret)?)
    }

    /// The agents that are driven from this device.
    pub fn direct_agents(&self) -> Vec<DrivenAgent> {
        let agents = self.engine.direct_agents().into_iter();
        agents
            .map(|(host, agent)| DrivenAgent { host, agent })
            .collect()
    }

    /// Takes one away, and its secret with it. Its threads can still be read; what goes on with the agent itself goes on.
    pub fn remove_direct(&self, host: HostId) -> Result<(), CoreError> {
        Ok(self.engine.remove_direct(host)?)
    }

    /// Takes a command: checked, predicted and on its way to the outbox within a millisecond. Never waits for the network.
    pub fn submit(&self, command: NewCommand) -> Result<Arc<Ticket>, CoreError> {
        Ok(Arc::new(Ticket(self.engine.submit(command)?)))
    }

    /// Looks at something until the observation is stopped or collected as garbage. Fails only if an id is none.
    pub fn observe(
        &self,
        scope: Scope,
        sink: Arc<dyn Sink>,
    ) -> Result<Arc<Observation>, CoreError> {
        let deliver = move |given: pilothouse_engine::Batch| {
            crate::about_to_call_out();
            sink.on_batch(given.into());
        };
        Ok(Arc::new(Observation(
            self.engine.observe(scope, Arc::new(deliver)),
        )))
    }

    /// Sends a parked command after all, because its person said so. Says whether it was there.
    pub fn send_parked(&self, command: CommandId) -> Result<bool, CoreError> {
        Ok(self.engine.send_parked(command)?)
    }

    /// Takes a command out of the outbox that was never handed to a host. Says whether it was there and could be taken.
    pub fn discard(&self, command: CommandId) -> Result<bool, CoreError> {
        Ok(self.engine.discard(command)?)
    }

    /// Asks for something once; may wait for the host, so not on a screen's thread.
    pub fn query(&self, query: Query) -> Result<Page, CoreError> {
        Ok(self.engine.query(query.into())?.into())
    }

    /// Brings a file to a host, so that a message can have it attached; may wait for the host, so not on a screen's thread.
    pub fn upload(
        &self,
        host: HostId,
        name: String,
        media_type: String,
        bytes: Vec<u8>,
    ) -> Result<Attachment, CoreError> {
        let hash = self.engine.upload(host, &bytes)?;
        Ok(Attachment {
            name,
            media_type,
            hash,
            bytes: bytes.len() as u64,
        })
    }

    /// Says what the core may count on; coming to the foreground or onto a network makes it try at once.
    pub fn set_environment(&self, environment: Environment) {
        self.engine.set_environment(environment);
    }

    /// Ends links and threads and leaves the data directory to others. Idempotent; may take a second.
    pub fn shutdown(&self) {
        self.engine.close();
    }
}

/// A submitted command's receipt.
#[derive(uniffi::Object)]
pub struct Ticket(pilothouse_engine::Ticket);

#[uniffi::export]
impl Ticket {
    /// The command's id.
    pub fn command_id(&self) -> CommandId {
        self.0.command_id()
    }

    /// Its thread; for `ThreadCreate` and `ThreadFork` the one it makes.
    pub fn thread(&self) -> ThreadId {
        self.0.thread()
    }

    /// Blocks until it is on disk: one fsync.
    pub fn durable(&self) -> Result<(), CoreError> {
        Ok(self.0.durable()?)
    }

    /// Waits for the host's word; offline it waits for ever.
    pub async fn outcome(&self) -> CommandOutcome {
        self.0.outcome().await.into()
    }

    /// The host's word, if it is there.
    pub fn poll_outcome(&self) -> Option<CommandOutcome> {
        self.0.poll_outcome().map(Into::into)
    }
}

/// A look at something. Hold it for as long as it is to go on: it ends when it is stopped, and when nobody holds it.
#[derive(uniffi::Object)]
pub struct Observation(pilothouse_engine::Observation);

#[uniffi::export]
impl Observation {
    /// Ends it. A batch that is being delivered may still arrive; none follows.
    pub fn stop(&self) {
        self.0.close();
    }
}
