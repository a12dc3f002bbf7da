//! The one-time secret: who gets in, when, and how often.

use crate::common::{Listening, device};
use pilothouse_wire::{
    identity::{DeviceKey, FileKey},
    offer::PairingSecret,
    pairing::{MAX_FAILURES, OFFER_LIFETIME_MS, PairingProof, PairingRefusal, PairingSecrets},
    tls::ChannelBinding,
};

const NOW: u64 = 1_000_000;

fn secret() -> PairingSecret {
    PairingSecret::from_bytes([7; 16])
}

fn binding(byte: u8) -> ChannelBinding {
    ChannelBinding::from_bytes([byte; 32])
}

#[test]
fn a_right_proof_pairs_once_and_the_second_time_is_refused() {
    let key = FileKey::generate().unwrap().public_key().unwrap();
    let proof = PairingProof::make(&secret(), &binding(1), &key);
    let mut secrets = PairingSecrets::new();
    assert_eq!(
        secrets.redeem(&proof, &binding(1), &key, NOW),
        Err(PairingRefusal::NoOffer)
    );
    assert_eq!(secrets.begin(secret(), NOW), NOW + OFFER_LIFETIME_MS);
    assert!(secrets.is_active(NOW));
    assert_eq!(secrets.redeem(&proof, &binding(1), &key, NOW), Ok(()));
    assert!(!secrets.is_active(NOW));
    assert_eq!(
        secrets.redeem(&proof, &binding(1), &key, NOW),
        Err(PairingRefusal::AlreadyUsed)
    );
}

#[test]
fn an_offer_ends_after_five_minutes_to_the_millisecond_and_by_a_new_one() {
    let key = FileKey::generate().unwrap().public_key().unwrap();
    let proof = PairingProof::make(&secret(), &binding(1), &key);
    let mut secrets = PairingSecrets::new();
    secrets.begin(secret(), NOW);
    assert!(secrets.is_active(NOW + OFFER_LIFETIME_MS - 1));
    assert_eq!(
        secrets.redeem(&proof, &binding(1), &key, NOW + OFFER_LIFETIME_MS),
        Err(PairingRefusal::Expired)
    );
    assert_eq!(
        secrets.redeem(&proof, &binding(1), &key, NOW),
        Err(PairingRefusal::Expired),
        "time does not run back"
    );

    secrets.begin(secret(), NOW);
    secrets.begin(PairingSecret::from_bytes([8; 16]), NOW);
    assert!(matches!(
        secrets.redeem(&proof, &binding(1), &key, NOW),
        Err(PairingRefusal::WrongProof { .. })
    ));
    secrets.withdraw();
    assert_eq!(
        secrets.redeem(&proof, &binding(1), &key, NOW),
        Err(PairingRefusal::NoOffer)
    );
}

#[test]
fn three_wrong_proofs_burn_the_offer_even_for_the_right_one() {
    let key = FileKey::generate().unwrap().public_key().unwrap();
    let wrong = PairingProof::from_bytes([0; 32]);
    let right = PairingProof::make(&secret(), &binding(1), &key);
    let mut secrets = PairingSecrets::new();
    secrets.begin(secret(), NOW);
    for left in (1..MAX_FAILURES).rev() {
        let refusal = secrets.redeem(&wrong, &binding(1), &key, NOW).unwrap_err();
        assert_eq!(
            refusal,
            PairingRefusal::WrongProof {
                attempts_left: left
            }
        );
    }
    assert_eq!(
        secrets.redeem(&wrong, &binding(1), &key, NOW),
        Err(PairingRefusal::Burnt)
    );
    assert_eq!(
        secrets.redeem(&right, &binding(1), &key, NOW),
        Err(PairingRefusal::Burnt)
    );
}

#[test]
fn a_proof_is_worth_nothing_for_another_key() {
    let (key, other) = (FileKey::generate().unwrap(), FileKey::generate().unwrap());
    let proof = PairingProof::make(&secret(), &binding(1), &key.public_key().unwrap());
    assert!(proof.is_valid(&secret(), &binding(1), &key.public_key().unwrap()));
    assert!(!proof.is_valid(&secret(), &binding(1), &other.public_key().unwrap()));
    assert!(!proof.is_valid(&secret(), &binding(2), &key.public_key().unwrap()));
}

#[tokio::test]
async fn a_proof_captured_on_one_connection_fails_on_another() {
    let device = device();
    let mut host = Listening::start().await;
    let (first_host, first_device) = host.connect(&device).await;
    let (second_host, _second_device) = host.connect(&device).await;
    let proof = PairingProof::make(&secret(), &first_device.binding, &device.public_key());
    let mut secrets = PairingSecrets::new();
    secrets.begin(secret(), NOW);
    let replayed = secrets.redeem(&proof, &second_host.binding, &second_host.peer, NOW);
    assert_eq!(
        replayed,
        Err(PairingRefusal::WrongProof { attempts_left: 2 })
    );
    assert_eq!(
        secrets.redeem(&proof, &first_host.binding, &first_host.peer, NOW),
        Ok(())
    );
}
