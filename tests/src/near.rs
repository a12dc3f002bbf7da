//! A ledger of this process, served over TLS as a host serves its own: one device can pair with it.

use pilothouse_domain::{ContentHash, DeviceId, HostId, Scope, WorkspaceId, hash};
use pilothouse_ledger::{Clock as _, Ledger, NewDevice, SystemClock};
use pilothouse_serve::{Facts, Patience, Served, Sessions};
use pilothouse_wire::{
    duplex::BoxFuture,
    hosts::HostAllowList,
    identity::HostIdentity,
    message::{AgentInfo, DoctorReport, Paired, WorkspaceInfo},
    offer::{OFFER_VERSION, PairingOffer, PairingSecret},
    opening::{Opening, answer_pair, read_opening},
    pairing::PairingSecrets,
    websocket::{Acceptor, Established},
};
use std::{
    future::ready,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{net::TcpListener, sync::mpsc};

/// What it calls itself.
const NAME: &str = "near";

/// What can be asked of it: its one agent and its one workspace.
pub(crate) struct NearFacts(pub(crate) AgentInfo, pub(crate) WorkspaceId);

impl Facts for NearFacts {
    fn agents(&self) -> BoxFuture<'_, Vec<AgentInfo>> {
        Box::pin(ready(vec![self.0.clone()]))
    }

    fn workspaces(&self) -> Vec<WorkspaceInfo> {
        vec![WorkspaceInfo {
            id: self.1.clone(),
            path: String::new(),
            available: true,
        }]
    }

    fn doctor(&self) -> BoxFuture<'_, DoctorReport> {
        Box::pin(ready(DoctorReport { checks: Vec::new() }))
    }
}

/// Serves it on a free port of loopback as long as the runtime lives; gives its id, and the code by which a device pairs.
pub(crate) async fn serve(ledger: Ledger, facts: NearFacts, dir: &Path) -> (HostId, String) {
    let identity = HostIdentity::load_or_create(&dir.join(HostIdentity::FILE)).expect("a key");
    let spki_sha256 = identity.spki_sha256();
    let host_id = HostId::from_bytes(hash::id_bytes(&[b"near", spki_sha256.as_bytes()]));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let allowed = HostAllowList::new(["127.0.0.1"], []);
    let acceptor = Acceptor::new(&identity, allowed).expect("TLS");
    let (sender, mut connections) = mpsc::channel(4);
    tokio::spawn(acceptor.serve(listener, sender));
    let served = Arc::new(Served::new(
        host_id,
        (NAME.to_owned(), NAME.to_owned()),
        ledger,
        Arc::new(SystemClock),
        Arc::<Sessions>::default(),
        Patience {
            stall: Duration::from_secs(30),
        },
        Arc::new(facts),
    ));
    let secret = PairingSecret::random().expect("randomness");
    let mut secrets = PairingSecrets::new();
    let expires_at_ms = secrets.begin(secret.clone(), SystemClock.now_ms());
    let secrets = Arc::new(Mutex::new(secrets));
    tokio::spawn(async move {
        while let Some(established) = connections.recv().await {
            tokio::spawn(connection(
                Arc::clone(&served),
                Arc::clone(&secrets),
                established,
            ));
        }
    });
    let offer = PairingOffer {
        version: OFFER_VERSION,
        host_id,
        host_name: NAME.to_owned(),
        addresses: vec![address],
        spki_sha256,
        secret,
        expires_at_ms,
    };
    (host_id, offer.to_text().expect("a pairing code"))
}

async fn connection(
    served: Arc<Served>,
    secrets: Arc<Mutex<PairingSecrets>>,
    established: Established,
) {
    let key = ContentHash::from_bytes(*established.peer_hash().as_bytes());
    let (peer, binding) = (established.peer, established.binding.clone());
    let address = established.address.clone();
    let known = served.ledger.device_by_spki(key).await.ok().flatten();
    let (mut outgoing, mut incoming) = established.host_ends();
    match (read_opening(&mut incoming, known.is_some()).await, known) {
        (Ok(Opening::Hello(hello)), Some(device)) => {
            pilothouse_serve::run(served, device, hello, address, outgoing, incoming).await;
        }
        (Ok(Opening::Pair(pair)), None) => {
            let redeemed = secrets
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .redeem(&pair.proof, &binding, &peer, SystemClock.now_ms());
            if let Err(refusal) = redeemed {
                return answer_pair(&mut outgoing, Err(refusal)).await;
            }
            let device = DeviceId::from_bytes(hash::id_bytes(&[b"device", key.as_bytes()]));
            let enrolled = served.ledger.pair_device(NewDevice {
                device,
                name: pair.device_name,
                spki_sha256: key,
                scopes: Scope::ALL.to_vec(),
            });
            enrolled.await.expect("the device is enrolled");
            let paired = Paired {
                device_id: device,
                host_id: served.id,
                host_name: served.name.clone(),
                scopes: Scope::ALL.to_vec(),
            };
            answer_pair(&mut outgoing, Ok(paired)).await;
        }
        // Nobody else is expected: the connection is dropped.
        _ => {}
    }
}
