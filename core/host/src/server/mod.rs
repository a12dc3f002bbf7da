//! The wire's side of the daemon: one task per connection of a device, over one ledger.
//!
//! A connection proves a key (in `wire`). A key that is not paired may send one `pair`; a paired one says `hello` and is then
//! served (in `serve`).

mod pairing;

pub(crate) use pairing::{PairingDesk, PairingEvent};

use crate::doctor::{DaemonFacts, DeviceFacts, Examiner};
use pilothouse_domain::{ContentHash, HostId};
use pilothouse_ledger::{Clock, Ledger};
use pilothouse_serve::{Facts, Patience, Served, Sessions};
use pilothouse_wire::{
    duplex::BoxFuture,
    message::{AgentInfo, ByeReason, DoctorReport, WorkspaceInfo},
    opening::{Opening, OpeningError, read_opening, say_bye},
    websocket::Established,
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};

/// Connections of unknown keys that may be open at once.
const STRANGERS: usize = 16;

/// How long the doctor's report is good for devices: it reads the whole ledger.
const REPORT_KEPT: Duration = Duration::from_secs(5);

/// What all connections share.
pub(crate) struct Host {
    pub(crate) served: Arc<Served>,
    pub(crate) pairing: PairingDesk,
    pub(crate) strangers: Semaphore,
    known: Arc<Known>,
}

/// What the doctor examines, and what it needs of the daemon.
struct Known {
    ledger: Ledger,
    sessions: Arc<Sessions>,
    examiner: Examiner,
    /// The last report for a device, and when it was made.
    examined: tokio::sync::Mutex<Option<(Instant, DoctorReport)>>,
    /// Where devices connect, and whether that opens to other machines at the first pairing.
    listening: Mutex<(SocketAddr, bool)>,
}

impl Host {
    pub(crate) fn new(
        id: HostId,
        name: String,
        ledger: Ledger,
        clock: Arc<dyn Clock>,
        examiner: Examiner,
        patience: Patience,
        listening: (SocketAddr, bool),
    ) -> Self {
        let sessions = Arc::<Sessions>::default();
        let known = Arc::new(Known {
            ledger: ledger.clone(),
            sessions: Arc::clone(&sessions),
            examiner,
            examined: tokio::sync::Mutex::default(),
            listening: Mutex::new(listening),
        });
        let named = (name, crate::SOFTWARE.to_owned());
        let facts = Arc::clone(&known) as Arc<dyn Facts>;
        let served = Arc::new(Served::new(
            id, named, ledger, clock, sessions, patience, facts,
        ));
        Self {
            served,
            pairing: PairingDesk::default(),
            strangers: Semaphore::new(STRANGERS),
            known,
        }
    }

    /// Where devices connect, and whether that opens to other machines at the first pairing.
    pub(crate) fn listening(&self) -> (SocketAddr, bool) {
        *lock(&self.known.listening)
    }

    /// Devices connect elsewhere from now on.
    pub(crate) fn listens_at(&self, listening: (SocketAddr, bool)) {
        *lock(&self.known.listening) = listening;
    }

    /// Every check of the doctor, with what the daemon knows of itself; `deep` as the doctor has it.
    pub(crate) async fn examine(&self, deep: bool) -> DoctorReport {
        self.known.examine(deep).await
    }
}

fn lock(listening: &Mutex<(SocketAddr, bool)>) -> MutexGuard<'_, (SocketAddr, bool)> {
    listening.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    async fn examine(&self, deep: bool) -> DoctorReport {
        let rows = self.ledger.read(|reader| reader.devices()).await;
        let connected = self.sessions.connected();
        let devices = rows.unwrap_or_default().into_iter();
        let devices = devices.filter(|row| !row.revoked).map(|row| DeviceFacts {
            connected: connected.contains(&row.device),
            left: self.sessions.left(row.device),
            name: row.name,
        });
        let (listening, opens_when_paired) = *lock(&self.listening);
        let facts = DaemonFacts {
            listening,
            opens_when_paired,
            devices: devices.collect(),
        };
        self.examiner.examine(Some(&facts), deep).await
    }

    /// For a device, which may ask as often as it likes: one examination at a time, and its report is kept.
    async fn examined(&self) -> DoctorReport {
        let mut kept = self.examined.lock().await;
        if let Some((at, report)) = &*kept
            && at.elapsed() < REPORT_KEPT
        {
            return report.clone();
        }
        let report = self.examine(false).await;
        *kept = Some((Instant::now(), report.clone()));
        report
    }
}

impl Facts for Known {
    fn agents(&self) -> BoxFuture<'_, Vec<AgentInfo>> {
        Box::pin(self.examiner.agents())
    }

    fn workspaces(&self) -> Vec<WorkspaceInfo> {
        self.examiner.workspaces()
    }

    fn doctor(&self) -> BoxFuture<'_, DoctorReport> {
        Box::pin(self.examined())
    }
}

/// Serves connections until no more can come; then waits for those that are open.
pub(crate) async fn serve(host: Arc<Host>, mut connections: mpsc::Receiver<Established>) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            next = connections.recv() => match next {
                Some(established) => drop(open.spawn(connection(host.clone(), established))),
                None => break,
            },
            Some(_) = open.join_next() => {}
        }
    }
    while open.join_next().await.is_some() {}
}

/// Everything between a proven key and the end of its connection.
async fn connection(host: Arc<Host>, established: Established) {
    let key = ContentHash::from_bytes(*established.peer_hash().as_bytes());
    let (peer, binding, address) = (
        established.peer,
        established.binding.clone(),
        established.address.clone(),
    );
    let row = match host.served.ledger.device_by_spki(key).await {
        Ok(row) => row,
        Err(error) => {
            tracing::error!(%error, "the list of devices cannot be read");
            let (mut outgoing, _incoming) = established.host_ends();
            return say_bye(&mut outgoing, ByeReason::Shutdown).await;
        }
    };
    let revoked = row.as_ref().is_some_and(|row| row.revoked);
    let known = row.filter(|_| !revoked);
    let _stranger = match &known {
        Some(_) => None,
        None => match host.strangers.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                return tracing::warn!(%address, "too many unknown devices at once; a connection was dropped");
            }
        },
    };
    let (mut outgoing, mut incoming) = established.host_ends();
    match (read_opening(&mut incoming, known.is_some()).await, known) {
        (Ok(Opening::Pair(pair)), known) => {
            pairing::answer(&host, pair, &binding, &peer, key, known, &mut outgoing).await;
        }
        (Ok(Opening::Hello(hello)), Some(device)) => {
            let served = Arc::clone(&host.served);
            pilothouse_serve::run(served, device, hello, address, outgoing, incoming).await;
        }
        (Ok(Opening::Hello(_)), None) => say_bye(&mut outgoing, ByeReason::Unauthorised).await,
        (Err(OpeningError::NotPaired(_)), _) if revoked => {
            say_bye(&mut outgoing, ByeReason::Revoked).await
        }
        (Err(error), _) => {
            tracing::info!(%address, %error, "a connection came to nothing");
            if let Some(reason) = error.bye() {
                say_bye(&mut outgoing, reason).await;
            }
        }
    }
}
