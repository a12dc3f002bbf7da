//! Who gets in.

use crate::common::{TestClock, TestDevice, TestHost, soon};
use pilothouse_domain::{DeviceId, Scope};
use pilothouse_host::control::{Answer, Ask};
use pilothouse_wire::{
    connect::AttemptError,
    identity::HostIdentity,
    message::{ByeReason, DeviceMessage, Pair},
    offer::{PairingOffer, PairingSecret},
    opening::PairError,
    pairing::{OFFER_LIFETIME_MS, PairingProof, PairingRefusal},
};

fn refusal(result: Result<(), PairError>) -> PairingRefusal {
    match result {
        Err(PairError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_code_lets_one_device_in_and_whoever_waits_is_told_which() {
    let host = TestHost::start().await;
    let (offer, mut asked) = host.offer_scopes(vec![Scope::Read]).await;
    assert_eq!(offer.host_id, host.daemon.host_id());
    assert_eq!(offer.spki_sha256, host.daemon.fingerprint());
    assert_eq!(offer.addresses, [host.daemon.address().to_string()]);
    let device = TestDevice::new("ph\u{202e}one\n");
    device.pair(&offer).await.unwrap();
    let Some(Answer::Paired(paired)) = soon("the news", asked.next()).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        (paired.name.as_str(), paired.platform.as_str()),
        ("phone", "test"),
        "names are made plain"
    );

    let (mut connection, welcome) = device.at(&offer).connect().await;
    assert_eq!(welcome.device_id, paired.device);
    assert_eq!(
        welcome.scopes,
        [Scope::Read],
        "scopes are what the person granted"
    );
    assert!(connection.is_alive().await);
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_used_code_and_an_expired_one_and_a_wrong_one_are_refused_each_in_its_words() {
    let clock = TestClock::new();
    let host = TestHost::start_with(|options| options.clock = clock.clone()).await;
    let (offer, _asked) = host.offer().await;
    TestDevice::new("first").pair(&offer).await.unwrap();
    assert_eq!(
        refusal(TestDevice::new("second").pair(&offer).await),
        PairingRefusal::AlreadyUsed
    );

    let (offer, _asked) = host.offer().await;
    clock.forward(OFFER_LIFETIME_MS);
    assert_eq!(
        refusal(TestDevice::new("late").pair(&offer).await),
        PairingRefusal::Expired
    );

    let (offer, _asked) = host.offer().await;
    let wrong = PairingOffer {
        secret: PairingSecret::from_bytes([0; 16]),
        ..offer.clone()
    };
    for left in [2, 1] {
        let refused = refusal(TestDevice::new("guessing").pair(&wrong).await);
        assert_eq!(
            refused,
            PairingRefusal::WrongProof {
                attempts_left: left
            }
        );
    }
    assert_eq!(
        refusal(TestDevice::new("guessing").pair(&wrong).await),
        PairingRefusal::Burnt
    );
    assert_eq!(
        refusal(TestDevice::new("honest").pair(&offer).await),
        PairingRefusal::Burnt
    );
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_device_with_another_hosts_pin_finds_out_before_it_says_anything() {
    let host = TestHost::start().await;
    let (offer, _asked) = host.offer().await;
    let elsewhere = HostIdentity::generate().unwrap().spki_sha256();
    let wrong = PairingOffer {
        spki_sha256: elsewhere,
        ..offer.clone()
    };
    let Err(PairError::Connect(error)) = TestDevice::new("phone").pair(&wrong).await else {
        panic!()
    };
    assert!(
        matches!(
            error.most_telling().unwrap().error,
            AttemptError::WrongHost(_)
        ),
        "{error}"
    );
    TestDevice::new("phone").pair(&offer).await.unwrap();
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_key_that_is_not_paired_can_send_one_pair_and_nothing_else() {
    let host = TestHost::start().await;
    let (offer, _asked) = host.offer().await;
    let stranger = TestDevice::new("stranger").at(&offer);
    for message in [
        DeviceMessage::Hello(stranger.hello()),
        DeviceMessage::Ping { nonce: 1 },
    ] {
        let mut connection = stranger.dial().await;
        connection.send(message).await;
        assert_eq!(connection.bye().await, ByeReason::Unauthorised);
        assert!(connection.is_closed().await);
    }
    let mut connection = stranger.dial().await;
    connection
        .send_text("{\"type\":\"subscribe_feed\",\"sub\":")
        .await;
    assert_eq!(connection.bye().await, ByeReason::Unauthorised);

    let mut connection = stranger.dial().await;
    let proof = PairingProof::from_bytes([0; 32]);
    let pair = Pair {
        proof,
        device_name: "s".into(),
        platform: "p".into(),
    };
    connection.send(DeviceMessage::Pair(pair)).await;
    let reason = connection.bye().await;
    assert!(
        matches!(
            reason,
            ByeReason::Pairing {
                refusal: PairingRefusal::WrongProof { .. }
            }
        ),
        "{reason:?}"
    );
    assert!(connection.is_closed().await, "a second frame is not read");
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_device_that_pairs_again_stays_the_same_device() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    let (_connection, before) = device.connect().await;
    let (offer, _asked) = host.offer_scopes(vec![Scope::Read]).await;
    device.pair(&offer).await.unwrap();
    let (_connection, after) = device.connect().await;
    assert_eq!(before.device_id, after.device_id);
    assert_eq!(after.scopes, [Scope::Read]);
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_revoked_device_is_disconnected_within_a_second_and_told_so_when_it_comes_back() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    let other = host.device("tablet").await;
    let (mut connection, welcome) = device.connect().await;
    let (mut bystander, _) = other.connect().await;
    let asked_at = std::time::Instant::now();
    let answer = host
        .ask(&Ask::Revoke {
            device: "phone".into(),
        })
        .await;
    assert_eq!(
        answer,
        Answer::Revoked {
            device: welcome.device_id,
            name: "phone".into()
        }
    );
    assert_eq!(connection.bye().await, ByeReason::Revoked);
    assert!(connection.is_closed().await);
    assert!(
        asked_at.elapsed() < std::time::Duration::from_secs(1),
        "{:?}",
        asked_at.elapsed()
    );
    assert!(bystander.is_alive().await);

    let mut again = device.dial().await;
    again.send(DeviceMessage::Hello(device.hello())).await;
    assert_eq!(again.bye().await, ByeReason::Revoked);

    let (offer, _asked) = host.offer().await;
    device.pair(&offer).await.unwrap();
    let (_connection, anew) = device.connect().await;
    assert_ne!(
        anew.device_id, welcome.device_id,
        "a new pairing is a new device: its old outbox stays parked"
    );
    host.daemon.stop().await;
}

#[tokio::test]
async fn revoking_names_what_there_is_when_the_name_is_wrong_or_has_two_owners() {
    let host = TestHost::start().await;
    let first = host.device("phone").await;
    let _second = host.device("phone").await;
    for named in ["tablet", "phone"] {
        let Answer::Error { next_step, .. } = host
            .ask(&Ask::Revoke {
                device: named.into(),
            })
            .await
        else {
            panic!()
        };
        assert!(next_step.contains("pilothouse devices"), "{next_step}");
    }
    let (_connection, welcome) = first.connect().await;
    let by_id = Ask::Revoke {
        device: DeviceId::to_string(&welcome.device_id),
    };
    assert!(matches!(host.ask(&by_id).await, Answer::Revoked { .. }));
    let Answer::Devices { devices } = host.ask(&Ask::Devices).await else {
        panic!()
    };
    assert_eq!(devices.iter().filter(|device| device.revoked).count(), 1);
    host.daemon.stop().await;
}

#[tokio::test]
async fn a_paired_device_that_begins_with_something_else_is_told_what_was_expected() {
    let host = TestHost::start().await;
    let device = host.device("phone").await;
    let mut connection = device.dial().await;
    connection.send(DeviceMessage::Ping { nonce: 1 }).await;
    let ByeReason::Protocol { problem } = connection.bye().await else {
        panic!()
    };
    assert!(problem.contains("hello"), "{problem}");
    host.daemon.stop().await;
}
