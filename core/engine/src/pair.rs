//! Pairing with a host: from the code to a row in the replica.

use crate::{actor::Message, core::Core, error::PairError, hosts::connector, shared::Shared};
use pilothouse_domain::{ContentHash, HostId};
use pilothouse_store::HostRow;
use pilothouse_wire::{
    connect::AttemptError,
    identity::IdentityError,
    message::ByeReason,
    offer::{OfferParseError, PairingOffer},
    opening,
};
use std::sync::{Arc, mpsc};

impl Core {
    /// Pairs with the host whose code this is, as scanned or typed. The link to it is started before this returns.
    /// Runs on the core's own threads; may be awaited on any runtime.
    ///
    /// # Errors
    /// [`PairError`], each with what to do next. A code can be used once.
    pub async fn pair(&self, code: &str) -> Result<HostId, PairError> {
        let offer = PairingOffer::parse(code).map_err(|error| match error {
            OfferParseError::Version { .. } => PairError::Version {
                why: error.to_string(),
            },
            other => PairError::Code {
                why: other.to_string(),
            },
        })?;
        let shared = self.shared().clone();
        let task = self
            .runtime()
            .ok_or(PairError::Closed)?
            .spawn(pair(shared, offer));
        task.await.map_err(|_| PairError::Closed)?
    }
}

async fn pair(shared: Arc<Shared>, offer: PairingOffer) -> Result<HostId, PairError> {
    let connector = connector(&shared, offer.spki_sha256)
        .await
        .map_err(|error| key_error(&error))?;
    let (paired, address) = opening::pair(
        &connector,
        &offer,
        &shared.config.device_name,
        &shared.config.platform,
    )
    .await
    .map_err(from_wire)?;
    let mut addresses = vec![address];
    for other in &offer.addresses {
        if !addresses.contains(other) {
            addresses.push(other.clone());
        }
    }
    let now = shared.platform.now_ms();
    let row = HostRow {
        host: paired.host_id,
        name: paired.host_name,
        addresses,
        spki: ContentHash::from_bytes(*offer.spki_sha256.as_bytes()),
        device: paired.device_id,
        scopes: paired.scopes,
        paired_at_ms: now,
        revoked: false,
        last_seen_ms: Some(now),
    };
    let host = row.host;
    let (reply, answer) = mpsc::channel();
    shared
        .actor
        .send(Message::Paired { row, reply })
        .map_err(|_| PairError::Closed)?;
    let saved = tokio::task::spawn_blocking(move || answer.recv())
        .await
        .map_err(|_| PairError::Closed)?
        .map_err(|_| PairError::Closed)?;
    saved.map_err(|why| PairError::NotSaved { why })?;
    Ok(host)
}

fn key_error(error: &IdentityError) -> PairError {
    PairError::Key {
        why: error.to_string(),
    }
}

fn from_wire(error: opening::PairError) -> PairError {
    use opening::PairError as Wire;
    let why = error.to_string();
    match error {
        Wire::Connect(failed) => match failed.most_telling().map(|failure| &failure.error) {
            Some(AttemptError::WrongHost(_)) => PairError::WrongHost { why },
            Some(AttemptError::DeviceKey(_)) => PairError::Key { why },
            _ => PairError::Unreachable { why },
        },
        Wire::OtherHost => PairError::WrongHost { why },
        Wire::Refused(_) => PairError::Refused { why },
        Wire::Bye(ByeReason::Version { .. }) => PairError::Version { why },
        Wire::Bye(_) | Wire::Send(_) | Wire::NoAnswer(_) => PairError::Cut { why },
    }
}
