//! The first messages, between a real device and a host that only knows how to let in.

use crate::common::{Listening, device, soon};
use pilothouse_domain::{DeviceId, HostId, Scope};
use pilothouse_wire::{
    connect::Connector,
    duplex::{
        CloseCode, Duplex, DuplexError, Frame, FrameReceiver, FrameSender, MAX_FRAME, memory_pair,
    },
    identity::{DeviceIdentity, SpkiHash},
    message::{
        ByeReason, DeviceMessage, Hello, HostMessage, Incoming, Paired, ReceiveError, decode,
        encode,
    },
    offer::{OFFER_VERSION, PairingOffer, PairingSecret},
    opening::{
        Opening, OpeningError, PairError, answer_pair, pair, pair_message, read_opening, say_bye,
    },
    pairing::{OFFER_LIFETIME_MS, PairingRefusal, PairingSecrets},
    websocket::Established,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

const NOW: u64 = 5_000_000;

/// What a host keeps: who is paired, the offer, its clock.
#[derive(Default)]
struct Desk {
    paired: BTreeMap<SpkiHash, DeviceId>,
    secrets: PairingSecrets,
    now: u64,
    log: Vec<String>,
}

/// A host that lets devices in as a daemon would.
struct Host {
    desk: Arc<Mutex<Desk>>,
    listening: Listening,
}

const HOST_ID: HostId = HostId::from_bytes([9; 16]);

fn secret() -> PairingSecret {
    PairingSecret::from_bytes([7; 16])
}

impl Host {
    async fn start() -> Self {
        let mut listening = Listening::start().await;
        let desk = Arc::new(Mutex::new(Desk {
            now: NOW,
            ..Desk::default()
        }));
        let (sender, receiver) = tokio::sync::mpsc::channel(8);
        let mut connections = std::mem::replace(&mut listening.connections, receiver);
        drop(sender);
        let for_task = desk.clone();
        tokio::spawn(async move {
            while let Some(established) = connections.recv().await {
                tokio::spawn(serve(established, for_task.clone()));
            }
        });
        Self { desk, listening }
    }

    fn offer(&self) -> PairingOffer {
        let mut desk = self.desk.lock().unwrap();
        let now = desk.now;
        PairingOffer {
            version: OFFER_VERSION,
            host_id: HOST_ID,
            host_name: "studio".into(),
            addresses: self.listening.addresses(),
            spki_sha256: self.listening.identity.spki_sha256(),
            secret: secret(),
            expires_at_ms: desk.secrets.begin(secret(), now),
        }
    }

    fn later(&self, ms: u64) {
        self.desk.lock().unwrap().now += ms;
    }

    fn connector(&self, device: &DeviceIdentity) -> Connector {
        self.listening.connector(device)
    }

    fn is_paired(&self, device: &DeviceIdentity) -> bool {
        self.desk
            .lock()
            .unwrap()
            .paired
            .contains_key(&device.spki_sha256())
    }

    async fn dial(
        &self,
        device: &DeviceIdentity,
    ) -> (Box<dyn FrameSender>, Box<dyn FrameReceiver>) {
        let established = soon(
            "dialling",
            self.connector(device).connect(&self.listening.addresses()),
        )
        .await
        .unwrap();
        established.duplex.split()
    }
}

async fn serve(established: Established, desk: Arc<Mutex<Desk>>) {
    let (peer, binding) = (established.peer, established.binding.clone());
    let known = desk
        .lock()
        .unwrap()
        .paired
        .contains_key(&peer.spki_sha256());
    let (mut outgoing, mut incoming) = established.host_ends();
    match read_opening(&mut incoming, known).await {
        Err(error) => {
            if let Some(reason) = error.bye() {
                say_bye(&mut outgoing, reason).await;
            }
        }
        Ok(Opening::Hello(hello)) => {
            desk.lock()
                .unwrap()
                .log
                .push(format!("hello {}", hello.device_name));
            outgoing
                .send(&HostMessage::Pong {
                    nonce: 1,
                    host_time_ms: 2,
                })
                .await
                .unwrap();
            let _ = incoming.receive().await;
        }
        Ok(Opening::Pair(request)) => {
            let answer = {
                let mut desk = desk.lock().unwrap();
                let now = desk.now;
                desk.log.push(format!(
                    "pair {} on {}",
                    request.device_name, request.platform
                ));
                desk.secrets
                    .redeem(&request.proof, &binding, &peer, now)
                    .map(|()| {
                        let device_id = DeviceId::from_bytes([1; 16]);
                        desk.paired.insert(peer.spki_sha256(), device_id);
                        Paired {
                            device_id,
                            host_id: HOST_ID,
                            host_name: "studio".into(),
                            scopes: Scope::ALL.to_vec(),
                        }
                    })
            };
            answer_pair(&mut outgoing, answer).await;
        }
    }
}

fn hello() -> Frame {
    encode(&DeviceMessage::Hello(Hello::of_this_build(
        "phone", "test 1",
    )))
    .unwrap()
}

async fn next(incoming: &mut dyn FrameReceiver) -> HostMessage {
    decode(&soon("a message", incoming.receive()).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_device_pairs_with_the_offer_and_is_known_on_its_next_connection() {
    let host = Host::start().await;
    let device = device();
    let offer = PairingOffer::parse(&host.offer().to_text().unwrap()).unwrap();
    let connector = Connector::new(&device, offer.spki_sha256).unwrap();
    let (paired, address) = soon(
        "pairing",
        pair(&connector, &offer, " Phone\u{202e}\n ", "android 16"),
    )
    .await
    .unwrap();
    assert_eq!(
        (paired.host_id, paired.scopes),
        (HOST_ID, Scope::ALL.to_vec())
    );
    assert_eq!(address, host.listening.address.to_string());
    assert!(host.is_paired(&device));
    assert_eq!(host.desk.lock().unwrap().log, ["pair Phone on android 16"]);

    let (mut out, mut into) = host.dial(&device).await;
    out.send(hello()).await.unwrap();
    assert_eq!(
        next(&mut *into).await,
        HostMessage::Pong {
            nonce: 1,
            host_time_ms: 2
        }
    );
}

#[tokio::test]
async fn an_unknown_key_can_do_nothing_but_pair() {
    let host = Host::start().await;
    host.offer();
    let frames = [
        hello(),
        encode(&DeviceMessage::Ping { nonce: 1 }).unwrap(),
        Frame::Text("{}".into()),
        Frame::Text("{\"type\":\"pair\"}".into()),
        Frame::Text("{\"type\":\"no_such\"}".into()),
        Frame::Text("[".repeat(MAX_FRAME)),
        Frame::Binary(vec![1, 2, 3]),
    ];
    for frame in frames {
        let device = device();
        let (mut out, mut into) = host.dial(&device).await;
        out.send(frame.clone()).await.unwrap();
        assert_eq!(
            next(&mut *into).await,
            HostMessage::Bye {
                reason: ByeReason::Unauthorised
            },
            "{frame:?}"
        );
        let end = soon("close", into.receive()).await.unwrap_err();
        assert!(
            matches!(&end, DuplexError::Closed(Some(close)) if close.code == CloseCode::Policy),
            "{end}"
        );
        assert!(!host.is_paired(&device));
    }
    assert!(host.desk.lock().unwrap().log.is_empty());
}

#[tokio::test]
async fn after_its_one_frame_an_unknown_key_is_cut_off_even_when_paired() {
    let host = Host::start().await;
    let device = device();
    let offer = host.offer();
    let connector = host.connector(&device);
    let established = soon("dialling", connector.connect(&offer.addresses))
        .await
        .unwrap();
    let message = pair_message(&offer, &established.binding, &connector, "phone", "test");
    let (mut out, mut into) = established.duplex.split();
    out.send(encode(&message).unwrap()).await.unwrap();
    let _ = out.send(hello()).await;
    assert!(matches!(next(&mut *into).await, HostMessage::Paired(_)));
    let end = soon("close", into.receive()).await.unwrap_err();
    assert!(
        matches!(&end, DuplexError::Closed(Some(close)) if close.code == CloseCode::Normal),
        "{end}"
    );
    assert_eq!(host.desk.lock().unwrap().log, ["pair phone on test"]);
}

#[tokio::test]
async fn an_expired_a_reused_and_a_burnt_offer_are_refused_by_name() {
    let host = Host::start().await;
    let refusal = |offer: PairingOffer| {
        let connector = host.connector(&device());
        async move {
            match soon("pairing", pair(&connector, &offer, "phone", "test")).await {
                Err(PairError::Refused(refusal)) => Some(refusal),
                Ok(_) => None,
                Err(other) => panic!("{other}"),
            }
        }
    };
    let never = PairingOffer {
        secret: PairingSecret::from_bytes([1; 16]),
        ..host.offer()
    };
    host.desk.lock().unwrap().secrets.withdraw();
    assert_eq!(refusal(never.clone()).await, Some(PairingRefusal::NoOffer));

    let offer = host.offer();
    host.later(OFFER_LIFETIME_MS);
    assert_eq!(refusal(offer).await, Some(PairingRefusal::Expired));

    let offer = host.offer();
    assert_eq!(refusal(offer.clone()).await, None);
    assert_eq!(refusal(offer).await, Some(PairingRefusal::AlreadyUsed));

    let offer = host.offer();
    assert_eq!(
        refusal(never.clone()).await,
        Some(PairingRefusal::WrongProof { attempts_left: 2 })
    );
    assert_eq!(
        refusal(never.clone()).await,
        Some(PairingRefusal::WrongProof { attempts_left: 1 })
    );
    assert_eq!(refusal(never).await, Some(PairingRefusal::Burnt));
    assert_eq!(refusal(offer).await, Some(PairingRefusal::Burnt));
}

#[tokio::test]
async fn a_proof_captured_on_one_connection_does_not_pair_on_another() {
    let host = Host::start().await;
    let offer = host.offer();
    let victim = device();
    let connector = host.connector(&victim);
    let captured = soon("dialling", connector.connect(&offer.addresses))
        .await
        .unwrap();
    let message = encode(&pair_message(
        &offer,
        &captured.binding,
        &connector,
        "phone",
        "test",
    ))
    .unwrap();
    for device in [victim, device()] {
        let (mut out, mut into) = host.dial(&device).await;
        out.send(message.clone()).await.unwrap();
        let answer = next(&mut *into).await;
        assert!(
            matches!(
                answer,
                HostMessage::Bye {
                    reason: ByeReason::Pairing {
                        refusal: PairingRefusal::WrongProof { .. }
                    }
                }
            ),
            "{answer:?}"
        );
        assert!(!host.is_paired(&device));
    }
}

#[tokio::test]
async fn a_known_device_must_begin_with_hello() {
    let host = Host::start().await;
    let device = device();
    let offer = host.offer();
    soon(
        "pairing",
        pair(&host.connector(&device), &offer, "phone", "test"),
    )
    .await
    .unwrap();
    for frame in [
        encode(&DeviceMessage::Ping { nonce: 1 }).unwrap(),
        Frame::Text("nonsense".into()),
    ] {
        let (mut out, mut into) = host.dial(&device).await;
        out.send(frame).await.unwrap();
        let answer = next(&mut *into).await;
        assert!(
            matches!(
                answer,
                HostMessage::Bye {
                    reason: ByeReason::Protocol { .. }
                }
            ),
            "{answer:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_given_up_after_ten_seconds() {
    let (left, right) = memory_pair(1);
    let (_keep, receiver) = Box::new(left).split();
    let mut incoming = Incoming::new(receiver);
    let error = read_opening(&mut incoming, false).await.unwrap_err();
    assert_eq!(error, OpeningError::Timeout);
    drop(right);
    let error = read_opening(&mut incoming, false).await.unwrap_err();
    assert_eq!(
        (error.bye(), error),
        (None, OpeningError::Ended(DuplexError::Closed(None)))
    );
}

#[tokio::test]
async fn a_host_with_another_id_than_its_offer_is_not_taken() {
    let host = Host::start().await;
    let offer = PairingOffer {
        host_id: HostId::from_bytes([3; 16]),
        ..host.offer()
    };
    let error = soon(
        "pairing",
        pair(&host.connector(&device()), &offer, "phone", "test"),
    )
    .await
    .unwrap_err();
    assert_eq!(error, PairError::OtherHost);
}

#[tokio::test(start_paused = true)]
async fn a_host_gives_up_a_silent_device_even_while_it_is_busy_otherwise() {
    let (left, right) = memory_pair(8);
    let (mut device, _) = Box::new(left).split();
    let mut incoming = Incoming::<DeviceMessage>::new(Box::new(right).split().1);
    let begun = tokio::time::Instant::now();
    let mut busy = tokio::time::interval(Duration::from_secs(1));
    tokio::time::sleep(Duration::from_secs(40)).await;
    device.send(Frame::Text("{}".into())).await.unwrap();
    let mut reads = Vec::new();
    let end = loop {
        tokio::select! {
            _ = busy.tick() => {}
            received = incoming.receive_alive() => match received {
                Err(ReceiveError::Decode(error)) => reads.push(error),
                other => break other,
            }
        }
    };
    assert_eq!(end, Err(ReceiveError::Silent));
    assert_eq!(
        (reads.len(), begun.elapsed().as_secs()),
        (1, 85),
        "any frame is a sign of life"
    );
}
