//! Pairing on the host: the one offer, and who came in by it.

use super::Host;
use pilothouse_domain::{ContentHash, DeviceId, Scope};
use pilothouse_ledger::NewDevice;
use pilothouse_store::DeviceRow;
use pilothouse_wire::{
    identity::P256PublicKey,
    message::{ErrorAbout, ErrorCode, HostMessage, Outgoing, Pair, Paired, WireError},
    offer::PairingSecret,
    opening::answer_pair,
    pairing::{PairingRefusal, PairingSecrets},
    tls::ChannelBinding,
};
use std::sync::{Mutex, PoisonError};
use tokio::sync::broadcast;

/// What happened to the offer.
#[derive(Debug, Clone)]
pub(crate) enum PairingEvent {
    /// A device came in.
    Paired {
        /// Its id.
        device: DeviceId,
        /// What it calls itself.
        name: String,
        /// What it runs on.
        platform: String,
        /// What it may do.
        scopes: Vec<Scope>,
    },
    /// A device was refused.
    Refused(PairingRefusal),
}

/// At most one offer at a time, with what it grants.
pub(crate) struct PairingDesk {
    offer: Mutex<(PairingSecrets, Vec<Scope>)>,
    events: broadcast::Sender<PairingEvent>,
}

impl Default for PairingDesk {
    fn default() -> Self {
        Self {
            offer: Mutex::new((PairingSecrets::new(), Vec::new())),
            events: broadcast::channel(16).0,
        }
    }
}

impl PairingDesk {
    /// Begins an offer in place of any earlier one. Returns when it expires, and what becomes of it.
    pub(crate) fn begin(
        &self,
        secret: PairingSecret,
        scopes: Vec<Scope>,
        now_ms: u64,
    ) -> (u64, broadcast::Receiver<PairingEvent>) {
        let events = self.events.subscribe();
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        offer.1 = scopes;
        (offer.0.begin(secret, now_ms), events)
    }

    fn redeem(
        &self,
        pair: &Pair,
        binding: &ChannelBinding,
        peer: &P256PublicKey,
        now_ms: u64,
    ) -> Result<Vec<Scope>, PairingRefusal> {
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        offer.0.redeem(&pair.proof, binding, peer, now_ms)?;
        Ok(offer.1.clone())
    }
}

/// Answers the one `pair` of a connection.
pub(super) async fn answer(
    host: &Host,
    pair: Pair,
    binding: &ChannelBinding,
    peer: &P256PublicKey,
    key: ContentHash,
    known: Option<DeviceRow>,
    outgoing: &mut Outgoing<HostMessage>,
) {
    let scopes = match host
        .pairing
        .redeem(&pair, binding, peer, host.served.clock.now_ms())
    {
        Ok(scopes) => scopes,
        Err(refusal) => {
            tracing::warn!(device = pair.device_name, %refusal, "a device was not paired");
            let _ = host
                .pairing
                .events
                .send(PairingEvent::Refused(refusal.clone()));
            return answer_pair(outgoing, Err(refusal)).await;
        }
    };
    // The same key pairs again: it stays the same device.
    let device = match known {
        Some(row) => row.device,
        None => {
            let mut bytes = [0; 16];
            if getrandom::fill(&mut bytes).is_err() {
                return failed(outgoing, "the system gives no randomness".to_owned()).await;
            }
            DeviceId::from_bytes(bytes)
        }
    };
    let new = NewDevice {
        device,
        name: pair.device_name.clone(),
        spki_sha256: key,
        scopes: scopes.clone(),
    };
    if let Err(error) = host.served.ledger.pair_device(new).await {
        tracing::error!(%error, "a device could not be enrolled");
        return failed(outgoing, error.to_string()).await;
    }
    tracing::info!(%device, name = pair.device_name, platform = pair.platform, "paired");
    let event = PairingEvent::Paired {
        device,
        name: pair.device_name,
        platform: pair.platform,
        scopes: scopes.clone(),
    };
    let _ = host.pairing.events.send(event);
    let paired = Paired {
        device_id: device,
        host_id: host.served.id,
        host_name: host.served.name.clone(),
        scopes,
    };
    answer_pair(outgoing, Ok(paired)).await;
}

async fn failed(outgoing: &mut Outgoing<HostMessage>, message: String) {
    let error = WireError {
        about: ErrorAbout::Connection,
        code: ErrorCode::Failed,
        message,
        next_step: "look at the host (`pilothouse doctor`), then make a new pairing code"
            .to_owned(),
    };
    let _ = outgoing.send(&HostMessage::Error(error)).await;
}
