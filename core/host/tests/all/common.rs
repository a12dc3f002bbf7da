//! A daemon, devices that connect to it, and deadlines for everything that is waited for.

use pilothouse_domain::{
    Command, CommandBody, CommandId, Outcome, Scope, ThreadId, thread::Selection,
};
use pilothouse_host::{
    control::{Answer, Ask, Asked, ask},
    daemon::{Daemon, DaemonOptions},
    state::StatePath,
};
use pilothouse_ledger::{Clock, SystemClock};
use pilothouse_wire::{
    connect::Connector,
    identity::{DeviceIdentity, FileKey},
    message::{
        ByeReason, DeviceMessage, Hello, HostMessage, Incoming, Outgoing, ReceiveError, Welcome,
    },
    offer::PairingOffer,
    opening::{self, PairError},
    stream::Encoding,
};
use std::{
    future::Future,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;

/// Generous: only a bug lets it pass.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long: {what}"),
    }
}

/// A clock that a test sets forward.
pub(crate) struct TestClock(AtomicU64);

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(SystemClock.now_ms())))
    }

    pub(crate) fn forward(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A daemon in this process, with a directory of its own and an agent that is never started.
pub(crate) struct TestHost {
    pub(crate) daemon: Daemon,
    pub(crate) dir: TempDir,
}

/// A configuration with one agent that does nothing and one workspace.
pub(crate) fn write_config(dir: &Path) -> PathBuf {
    let workspace = dir.join("work");
    std::fs::create_dir_all(&workspace).unwrap();
    let file = dir.join("host.toml");
    let text = format!(
        "[agents.idle]\nprotocol = \"codex\"\ncommand = [\"/bin/false\"]\n[workspaces.work]\npath = {workspace:?}\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

impl TestHost {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut DaemonOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = DaemonOptions {
            state: Some(dir.path().join("state")),
            config: Some(write_config(dir.path())),
            listen: Some("127.0.0.1:0".parse().unwrap()),
            wrapper: Vec::new(),
            ..DaemonOptions::usual()
        };
        change(&mut options);
        let daemon = soon("starting", Daemon::start(options)).await.unwrap();
        Self { daemon, dir }
    }

    pub(crate) fn state(&self) -> StatePath {
        StatePath::choose(Some(&self.dir.path().join("state"))).unwrap()
    }

    pub(crate) async fn ask(&self, question: &Ask) -> Answer {
        soon("an answer", async {
            ask(&self.state(), question)
                .await
                .unwrap()
                .first()
                .await
                .unwrap()
        })
        .await
    }

    pub(crate) async fn offer(&self) -> (PairingOffer, Asked) {
        self.offer_scopes(vec![Scope::Read, Scope::Operate, Scope::Approve])
            .await
    }

    pub(crate) async fn offer_scopes(&self, scopes: Vec<Scope>) -> (PairingOffer, Asked) {
        let mut asked = ask(&self.state(), &Ask::Pair { scopes }).await.unwrap();
        let Answer::Offer(offer) = soon("an offer", asked.first()).await.unwrap() else {
            panic!("no offer")
        };
        (PairingOffer::parse(&offer.code).unwrap(), asked)
    }

    /// A device that is paired.
    pub(crate) async fn device(&self, name: &str) -> TestDevice {
        let device = TestDevice::new(name);
        let (offer, _asked) = self.offer().await;
        device.pair(&offer).await.unwrap();
        device.at(&offer)
    }
}

/// A device: its key, and where its host is.
pub(crate) struct TestDevice {
    pub(crate) identity: DeviceIdentity,
    pub(crate) name: String,
    offer: Option<PairingOffer>,
}

impl TestDevice {
    pub(crate) fn new(name: &str) -> Self {
        let identity = DeviceIdentity::new(Arc::new(FileKey::generate().unwrap())).unwrap();
        Self {
            identity,
            name: name.to_owned(),
            offer: None,
        }
    }

    pub(crate) fn at(mut self, offer: &PairingOffer) -> Self {
        self.offer = Some(offer.clone());
        self
    }

    pub(crate) fn connector(&self, offer: &PairingOffer) -> Connector {
        Connector::new(&self.identity, offer.spki_sha256).unwrap()
    }

    pub(crate) async fn pair(&self, offer: &PairingOffer) -> Result<(), PairError> {
        let connector = self.connector(offer);
        soon(
            "pairing",
            opening::pair(&connector, offer, &self.name, "test"),
        )
        .await
        .map(|_| ())
    }

    /// An open connection on which nothing was said yet.
    pub(crate) async fn dial(&self) -> Connection {
        let offer = self.offer.as_ref().unwrap();
        let established = soon("dialling", self.connector(offer).connect(&offer.addresses))
            .await
            .unwrap();
        let (outgoing, incoming) = established.device_ends();
        Connection { outgoing, incoming }
    }

    pub(crate) fn hello(&self) -> Hello {
        Hello::of_this_build(&self.name, "test 1")
    }

    /// A connection that was welcomed.
    pub(crate) async fn connect(&self) -> (Connection, Welcome) {
        self.connect_as(self.hello()).await
    }

    /// The same for a device of another version.
    pub(crate) async fn connect_as(&self, hello: Hello) -> (Connection, Welcome) {
        let mut connection = self.dial().await;
        connection.send(DeviceMessage::Hello(hello)).await;
        match connection.next().await {
            HostMessage::Welcome(welcome) => (connection.encoded(welcome.encoding), *welcome),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) struct Connection {
    pub(crate) outgoing: Outgoing<DeviceMessage>,
    pub(crate) incoming: Incoming<HostMessage>,
}

impl Connection {
    /// From the welcome on.
    pub(crate) fn encoded(self, encoding: Option<Encoding>) -> Self {
        Self {
            outgoing: self.outgoing.encoded(encoding),
            incoming: self.incoming.encoded(encoding),
        }
    }

    pub(crate) async fn send(&mut self, message: DeviceMessage) {
        soon("sending", self.outgoing.send(&message)).await.unwrap();
    }

    /// Sends a frame that is no message.
    pub(crate) async fn send_text(&mut self, text: &str) {
        let frame = pilothouse_wire::duplex::Frame::Text(text.to_owned());
        soon("sending", self.outgoing.frames().send(frame))
            .await
            .unwrap();
    }

    pub(crate) async fn next(&mut self) -> HostMessage {
        soon("a message", self.incoming.receive()).await.unwrap()
    }

    /// The reason with which the host ends the connection; whatever came before is passed over.
    pub(crate) async fn bye(&mut self) -> ByeReason {
        loop {
            if let HostMessage::Bye { reason } = self.next().await {
                return reason;
            }
        }
    }

    /// Whether the connection has ended, without another message.
    pub(crate) async fn is_closed(&mut self) -> bool {
        matches!(
            soon("the end", self.incoming.receive()).await,
            Err(ReceiveError::Duplex(_))
        )
    }

    pub(crate) async fn command(&mut self, command: &Command) -> Outcome {
        self.send(DeviceMessage::Command {
            command: Box::new(command.clone()),
        })
        .await;
        self.outcome(command.id).await
    }

    pub(crate) async fn outcome(&mut self, id: CommandId) -> Outcome {
        loop {
            match self.next().await {
                HostMessage::Outcome {
                    command_id,
                    outcome,
                } if command_id == id => return outcome.unwrap(),
                HostMessage::Bye { reason } => panic!("{reason}"),
                _ => {}
            }
        }
    }

    pub(crate) async fn is_alive(&mut self) -> bool {
        self.send(DeviceMessage::Ping { nonce: 77 }).await;
        loop {
            match self.next().await {
                HostMessage::Pong { nonce: 77, .. } => return true,
                HostMessage::Bye { .. } => return false,
                _ => {}
            }
        }
    }
}

/// A command of a number.
pub(crate) fn command(number: u64, thread: ThreadId, body: CommandBody) -> Command {
    let mut id = [0; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    Command {
        id: CommandId::from_bytes(id),
        thread,
        device_seq: number,
        based_on: None,
        issued_at_ms: SystemClock.now_ms(),
        body,
    }
}

/// Makes a thread in the test's workspace.
pub(crate) fn create(number: u64, title: &str) -> Command {
    let selection = Selection {
        agent: "idle".into(),
        model: None,
        effort: None,
        mode: pilothouse_domain::Mode::Ask,
        sandbox: None,
    };
    let body = CommandBody::ThreadCreate {
        title: title.to_owned(),
        workspace: "work".into(),
        selection,
    };
    let mut made = command(number, ThreadId::default(), body);
    made.thread = made.id.derive("thread");
    made
}
