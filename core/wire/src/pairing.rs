//! The one-time secret of a pairing, on both sides.
//!
//! A device proves that it saw the offer by an HMAC keyed with the offer's secret, over the connection's keying
//! material and its own public key: a proof seen elsewhere, or sent by another key, is worth nothing. The host keeps at
//! most one offer, for five minutes and for one device; three wrong proofs burn it. Time comes in as a parameter.

use crate::{identity::P256PublicKey, offer::PairingSecret, tls::ChannelBinding};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pilothouse_json::Tagged;
use ring::hmac;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// How long an offer is valid, ms.
pub const OFFER_LIFETIME_MS: u64 = 5 * 60 * 1000;
/// Wrong proofs that burn an offer.
pub const MAX_FAILURES: u8 = 3;

const CONTEXT: &[u8] = b"pair-v1";

/// A device's proof that it saw the offer; valid on one connection for one key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PairingProof([u8; 32]);

impl PairingProof {
    /// HMAC-SHA256 with the secret over keying material ‖ device SPKI (DER) ‖ `pair-v1`.
    pub fn make(secret: &PairingSecret, binding: &ChannelBinding, device: &P256PublicKey) -> Self {
        let tag = hmac::sign(&hmac_key(secret), &proven(binding, device));
        let mut proof = [0; 32];
        proof.copy_from_slice(tag.as_ref());
        Self(proof)
    }

    /// Compares in constant time.
    pub fn is_valid(
        &self,
        secret: &PairingSecret,
        binding: &ChannelBinding,
        device: &P256PublicKey,
    ) -> bool {
        hmac::verify(&hmac_key(secret), &proven(binding, device), &self.0).is_ok()
    }

    /// Wraps 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

fn hmac_key(secret: &PairingSecret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())
}

fn proven(binding: &ChannelBinding, device: &P256PublicKey) -> Vec<u8> {
    [&binding.as_bytes()[..], &device.spki_der(), CONTEXT].concat()
}

impl fmt::Debug for PairingProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairingProof(..)")
    }
}

impl Serialize for PairingProof {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for PairingProof {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        URL_SAFE_NO_PAD
            .decode(text.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| de::Error::custom("a pairing proof is 43 characters of base64url"))
    }
}

/// Why a host does not pair with a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Tagged)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PairingRefusal {
    /// Nobody ran `pair` on the host since it started.
    #[error("the host offers no pairing now; run `pilothouse pair` on it and use the new code")]
    NoOffer,
    /// The five minutes are over.
    #[error("the pairing code has expired; run `pilothouse pair` on the host for a new one")]
    Expired,
    /// Another device, or this one earlier, used the code.
    #[error("the pairing code was already used; run `pilothouse pair` on the host for a new one")]
    AlreadyUsed,
    /// The proof does not fit.
    #[error("the pairing code is not the one the host shows; {} left", match .attempts_left { 1 => "1 attempt is".to_owned(), n => format!("{n} attempts are") })]
    WrongProof {
        /// Attempts until the code is burnt.
        attempts_left: u8,
    },
    /// Three wrong proofs came in.
    #[error(
        "the pairing code was burnt by {MAX_FAILURES} wrong attempts; run `pilothouse pair` on the host for a new one"
    )]
    Burnt,
    /// A key that is not paired sent something else than one well-formed `pair` message.
    #[error("this device is not paired with the host; pair it first")]
    NotPaired,
    /// The person at the host said no.
    #[error("the person at the host declined this device")]
    Declined,
}

/// What became of the last offer.
#[derive(Debug, Default)]
enum Offer {
    #[default]
    None,
    Active {
        secret: PairingSecret,
        expires_at_ms: u64,
        failures: u8,
    },
    Used,
    Expired,
    Burnt,
}

/// A host's side: at most one active offer.
#[derive(Debug, Default)]
pub struct PairingSecrets {
    offer: Offer,
}

impl PairingSecrets {
    /// No offer yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins an offer with a fresh random secret, in place of any earlier one. Returns when it expires, in the same ms
    /// as `now_ms`.
    pub fn begin(&mut self, secret: PairingSecret, now_ms: u64) -> u64 {
        let expires_at_ms = now_ms.saturating_add(OFFER_LIFETIME_MS);
        self.offer = Offer::Active {
            secret,
            expires_at_ms,
            failures: 0,
        };
        expires_at_ms
    }

    /// Takes the offer back, e.g. because `pair` was ended at the terminal.
    pub fn withdraw(&mut self) {
        self.offer = Offer::None;
    }

    /// Whether a device could pair now.
    pub fn is_active(&self, now_ms: u64) -> bool {
        matches!(&self.offer, Offer::Active { expires_at_ms, .. } if now_ms < *expires_at_ms)
    }

    /// Judges a proof. A valid one uses the offer up, so the second of two racing devices is refused.
    ///
    /// # Errors
    /// [`PairingRefusal`]; a wrong proof counts, and the third burns the offer.
    pub fn redeem(
        &mut self,
        proof: &PairingProof,
        binding: &ChannelBinding,
        device: &P256PublicKey,
        now_ms: u64,
    ) -> Result<(), PairingRefusal> {
        let (next, result) = match &mut self.offer {
            Offer::None => return Err(PairingRefusal::NoOffer),
            Offer::Used => return Err(PairingRefusal::AlreadyUsed),
            Offer::Expired => return Err(PairingRefusal::Expired),
            Offer::Burnt => return Err(PairingRefusal::Burnt),
            Offer::Active { expires_at_ms, .. } if now_ms >= *expires_at_ms => {
                (Offer::Expired, Err(PairingRefusal::Expired))
            }
            Offer::Active { secret, .. } if proof.is_valid(secret, binding, device) => {
                (Offer::Used, Ok(()))
            }
            Offer::Active { failures, .. } => {
                *failures += 1;
                if *failures < MAX_FAILURES {
                    return Err(PairingRefusal::WrongProof {
                        attempts_left: MAX_FAILURES - *failures,
                    });
                }
                (Offer::Burnt, Err(PairingRefusal::Burnt))
            }
        };
        self.offer = next;
        result
    }
}
