//! Real TLS and WebSockets over loopback.

use crate::common::{DEADLINE, Listening, device, soon};
use pilothouse_wire::{
    connect::{AttemptError, Connector},
    duplex::{Close, CloseCode, Direction, Duplex, DuplexError, Frame, MAX_FRAME, memory_pair},
    hosts::HostAllowList,
    identity::{DeviceIdentity, DeviceKey, DeviceKeyError, FileKey, HostIdentity, P256PublicKey},
    tls,
    websocket::{AcceptError, Acceptor, Established, HANDSHAKE_TIMEOUT, UpgradeRefusal},
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsConnector;

#[tokio::test]
async fn two_sides_with_the_right_pins_exchange_frames_both_ways() {
    let device = device();
    let mut host = Listening::start().await;
    let (accepted, dialled) = host.connect(&device).await;
    assert_eq!(accepted.peer_hash(), device.spki_sha256());
    assert_eq!(dialled.peer_hash(), host.identity.spki_sha256());
    assert_eq!(accepted.binding, dialled.binding);
    assert_eq!(dialled.address, host.address.to_string());

    let (mut host_out, mut host_in) = accepted.duplex.split();
    let (mut device_out, mut device_in) = dialled.duplex.split();
    let largest = Frame::Text("x".repeat(MAX_FRAME));
    for frame in [
        Frame::Text("grüße".into()),
        Frame::Binary(vec![0, 255]),
        Frame::Text(String::new()),
        largest,
    ] {
        let (sent, received) = tokio::join!(
            device_out.send(frame.clone()),
            soon("frame", host_in.receive())
        );
        sent.unwrap();
        assert_eq!(received.unwrap(), frame);
        let (sent, received) = tokio::join!(
            host_out.send(frame.clone()),
            soon("frame", device_in.receive())
        );
        sent.unwrap();
        assert_eq!(received.unwrap(), frame);
    }

    host_out
        .close(Close::new(CloseCode::GoingAway, "good night"))
        .await
        .unwrap();
    let end = DuplexError::Closed(Some(Close::new(CloseCode::GoingAway, "good night")));
    assert_eq!(soon("close", device_in.receive()).await, Err(end.clone()));
    assert_eq!(soon("close again", device_in.receive()).await, Err(end));
}

#[tokio::test]
async fn another_hosts_key_is_refused_and_both_keys_are_named() {
    let mut host = Listening::start().await;
    let expected = HostIdentity::generate().unwrap().spki_sha256();
    let connector = Connector::new(&device(), expected).unwrap();
    let error = soon("refusal", connector.connect(&host.addresses()))
        .await
        .unwrap_err();
    let AttemptError::WrongHost(wrong) = &error.most_telling().unwrap().error else {
        panic!("{error}")
    };
    assert_eq!(
        (wrong.expected, wrong.found),
        (expected, host.identity.spki_sha256())
    );
    assert!(error.to_string().contains(&expected.to_string()), "{error}");
    assert!(host.connections.try_recv().is_err());
}

#[tokio::test]
async fn an_address_that_leads_elsewhere_does_not_hide_the_one_that_works() {
    let device = device();
    let host = Listening::start().await;
    let impostor = Listening::start().await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let addresses = vec![
        closed,
        impostor.address.to_string(),
        "not an address".into(),
        host.address.to_string(),
    ];
    let dialled = soon(
        "the good address",
        host.connector(&device).connect(&addresses),
    )
    .await
    .unwrap();
    assert_eq!(dialled.address, host.address.to_string());

    let error = soon(
        "no good address",
        host.connector(&device).connect(&addresses[..3]),
    )
    .await
    .unwrap_err();
    assert_eq!(error.failures.len(), 3);
    assert!(matches!(
        error.most_telling().unwrap().error,
        AttemptError::WrongHost(_)
    ));
    assert!(
        host.connector(&device)
            .connect(&[])
            .await
            .unwrap_err()
            .to_string()
            .contains("no address")
    );
}

#[tokio::test]
async fn a_silent_address_does_not_hold_up_the_next_one() {
    let device = device();
    let host = Listening::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = vec![
        silent.local_addr().unwrap().to_string(),
        host.address.to_string(),
    ];
    let started = std::time::Instant::now();
    let dialled = soon(
        "the second address",
        host.connector(&device).connect(&addresses),
    )
    .await
    .unwrap();
    assert_eq!(dialled.address, host.address.to_string());
    assert!(started.elapsed() < pilothouse_wire::connect::ADDRESS_TIMEOUT);
}

#[tokio::test]
async fn every_connection_has_its_own_binding() {
    let device = device();
    let mut host = Listening::start().await;
    let (first, _a) = host.connect(&device).await;
    let (second, _b) = host.connect(&device).await;
    assert_ne!(first.binding, second.binding);
}

#[tokio::test]
async fn a_frame_over_one_mebibyte_is_refused_by_its_sender_and_nothing_is_sent() {
    let mut host = Listening::start().await;
    let (accepted, dialled) = host.connect(&device()).await;
    for (out, into) in [(accepted.duplex.split(), dialled.duplex.split()), {
        let (left, right) = memory_pair(4);
        (Box::new(left).split(), Box::new(right).split())
    }] {
        let ((mut out, _keep), (_keep_too, mut into)) = (out, into);
        let error = out
            .send(Frame::Binary(vec![0; MAX_FRAME + 1]))
            .await
            .unwrap_err();
        assert_eq!(
            error,
            DuplexError::TooLarge {
                direction: Direction::Outgoing,
                limit: MAX_FRAME
            }
        );
        out.send(Frame::Text("still here".into())).await.unwrap();
        assert_eq!(
            soon("next frame", into.receive()).await.unwrap(),
            Frame::Text("still here".into())
        );
    }
}

#[tokio::test]
async fn a_frame_over_one_mebibyte_is_refused_by_its_receiver_whichever_side_that_is() {
    let mut host = Listening::start().await;

    // A client without our limits.
    let mut socket = raw_client(&host, &device()).await;
    let accepted = soon("accepting", host.connections.recv()).await.unwrap();
    let (_out, mut into) = accepted.duplex.split();
    let (_, received) = tokio::join!(
        send_raw(&mut socket, MAX_FRAME + 1),
        soon("refusal", into.receive())
    );
    assert_eq!(
        received,
        Err(DuplexError::TooLarge {
            direction: Direction::Incoming,
            limit: MAX_FRAME
        })
    );

    // A server without our limits.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = tls::server_config(&host.identity).unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = tokio_rustls::TlsAcceptor::from(config)
            .accept(stream)
            .await
            .unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        send_raw(&mut socket, MAX_FRAME + 1).await;
        socket
    });
    let dialled = soon("dialling", host.connector(&device()).connect(&[address]))
        .await
        .unwrap();
    let (_out, mut into) = dialled.duplex.split();
    let received = soon("refusal", into.receive()).await;
    assert_eq!(
        received,
        Err(DuplexError::TooLarge {
            direction: Direction::Incoming,
            limit: MAX_FRAME
        })
    );
    server.abort();
}

async fn send_raw<S>(socket: &mut tokio_tungstenite::WebSocketStream<S>, len: usize)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    use futures_util::SinkExt;
    // The other side may hang up in the middle: that is its answer.
    let _ = socket
        .send(tokio_tungstenite::tungstenite::Message::Binary(
            vec![0u8; len].into(),
        ))
        .await;
}

type ClientTls = tokio_rustls::client::TlsStream<TcpStream>;

async fn raw_tls(host: &Listening, device: &DeviceIdentity) -> ClientTls {
    let config = tls::client_config(device, host.identity.spki_sha256()).unwrap();
    let stream = TcpStream::connect(host.address).await.unwrap();
    TlsConnector::from(config)
        .connect(ServerName::try_from("x.invalid").unwrap(), stream)
        .await
        .unwrap()
}

async fn raw_client(
    host: &Listening,
    device: &DeviceIdentity,
) -> tokio_tungstenite::WebSocketStream<ClientTls> {
    let stream = raw_tls(host, device).await;
    let url = format!("wss://{}/v1", host.address);
    tokio_tungstenite::client_async(url, stream)
        .await
        .unwrap()
        .0
}

/// Sends an upgrade request and returns the status line of the answer.
async fn upgrade(host: &Listening, path: &str, host_header: &str, extra: &str) -> String {
    let mut stream = raw_tls(host, &device()).await;
    let request = format!(
        "GET {path} HTTP/1.1\r\n{host_header}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{extra}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = soon("answer", stream.read(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn origin_unknown_host_and_other_paths_are_refused() {
    let host = Listening::start().await;
    let port = host.address.port();
    let good = format!("Host: 127.0.0.1:{port}\r\n");
    assert_eq!(
        upgrade(&host, "/v1", &good, "").await,
        "HTTP/1.1 101 Switching Protocols"
    );
    for origin in [
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
        "origin: \r\n",
    ] {
        assert_eq!(
            upgrade(&host, "/v1", &good, origin).await,
            "HTTP/1.1 403 Forbidden"
        );
    }
    for bad in [
        String::new(),
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1:{}\r\n", port ^ 1),
        format!("{good}Host: evil.example:{port}\r\n"),
    ] {
        assert_eq!(
            upgrade(&host, "/v1", &bad, "").await,
            "HTTP/1.1 421 Misdirected Request",
            "{bad}"
        );
    }
    for path in ["/", "/v2", "/v1/", "/v1?token=x"] {
        assert_eq!(
            upgrade(&host, path, &good, "").await,
            "HTTP/1.1 404 Not Found",
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_device_learns_that_the_host_does_not_know_the_name_it_was_asked_by() {
    let host = Listening::start().await;
    let connector = host.connector(&device());
    let acceptor = Acceptor::new(&host.identity, HostAllowList::new(["studio.local"], [])).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        acceptor.accept(stream, "peer".into()).await
    });
    let error = soon("refusal", connector.connect(&[address]))
        .await
        .unwrap_err();
    assert_eq!(
        error.failures[0].error,
        AttemptError::Refused { status: 421 }
    );
    let refused = server.await.unwrap().unwrap_err();
    assert!(
        matches!(
            refused,
            AcceptError::Refused {
                refusal: UpgradeRefusal::Host,
                ..
            }
        ),
        "{refused}"
    );
}

#[tokio::test]
async fn plain_http_gets_no_http_answer() {
    let mut host = Listening::start().await;
    let mut stream = TcpStream::connect(host.address).await.unwrap();
    stream
        .write_all(b"GET /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = soon("end", stream.read_to_end(&mut answer)).await;
    assert!(
        !answer.starts_with(b"HTTP"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(host.connections.try_recv().is_err());
}

#[tokio::test]
async fn a_client_without_a_certificate_gets_no_answer() {
    let host = Listening::start().await;
    let config = tls::client_config(&device(), host.identity.spki_sha256()).unwrap();
    let mut config = (*config).clone();
    config.client_auth_cert_resolver = Arc::new(NoCertificate);
    let stream = TcpStream::connect(host.address).await.unwrap();
    let name = ServerName::try_from("x.invalid").unwrap();
    // TLS 1.3 lets the client believe it is through before the server has looked at it.
    let outcome = match TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
    {
        Err(error) => Err(error),
        Ok(mut stream) => {
            let request = format!("GET /v1 HTTP/1.1\r\nHost: {}\r\n\r\n", host.address);
            let _ = stream.write_all(request.as_bytes()).await;
            let mut answer = Vec::new();
            soon("end", stream.read_to_end(&mut answer))
                .await
                .map(|_| answer)
        }
    };
    let error = outcome.unwrap_err();
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
}

#[derive(Debug)]
struct NoCertificate;

impl rustls::client::ResolvesClientCert for NoCertificate {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }
    fn has_certs(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_certificate_whose_key_the_peer_does_not_have_is_refused() {
    let host = Listening::start().await;
    let victim = Arc::new(FileKey::generate().unwrap());
    let thief = DeviceIdentity::new(Arc::new(Thief {
        shown: victim,
        own: FileKey::generate().unwrap(),
    }))
    .unwrap();
    let error = soon("refusal", host.connector(&thief).connect(&host.addresses()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("DecryptError"), "{error}");
}

/// Shows another device's public key, signs with its own.
struct Thief {
    shown: Arc<FileKey>,
    own: FileKey,
}

impl DeviceKey for Thief {
    fn public_key(&self) -> Result<P256PublicKey, DeviceKeyError> {
        self.shown.public_key()
    }
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, DeviceKeyError> {
        self.own.sign(message)
    }
}

/// A key store that stops signing after a number of signatures.
struct Tired {
    key: FileKey,
    left: std::sync::atomic::AtomicU32,
}

impl DeviceKey for Tired {
    fn public_key(&self) -> Result<P256PublicKey, DeviceKeyError> {
        self.key.public_key()
    }
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, DeviceKeyError> {
        use std::sync::atomic::Ordering::Relaxed;
        if self
            .left
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
            .is_err()
        {
            return Err(DeviceKeyError::Unavailable("the phone is locked".into()));
        }
        self.key.sign(message)
    }
}

#[tokio::test]
async fn what_the_key_store_says_reaches_the_caller() {
    let host = Listening::start().await;
    let tired = |left: u32| {
        Arc::new(Tired {
            key: FileKey::generate().unwrap(),
            left: left.into(),
        })
    };
    let error = DeviceIdentity::new(tired(0)).unwrap_err();
    assert!(error.to_string().contains("the phone is locked"), "{error}");
    let device = DeviceIdentity::new(tired(1)).unwrap();
    let error = soon(
        "refusal",
        host.connector(&device).connect(&host.addresses()),
    )
    .await
    .unwrap_err();
    assert!(
        matches!(
            error.failures[0].error,
            AttemptError::DeviceKey(DeviceKeyError::Unavailable(_))
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_peer_with_a_p384_certificate_is_refused() {
    let host = Listening::start().await;
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let certificate = rcgen::CertificateParams::default()
        .self_signed(&key)
        .unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let certified = rustls::sign::CertifiedKey::from_der(
        vec![certificate.der().clone()],
        PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        &provider,
    )
    .unwrap();
    let mut config = (*tls::client_config(&device(), host.identity.spki_sha256()).unwrap()).clone();
    config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
    let stream = TcpStream::connect(host.address).await.unwrap();
    let name = ServerName::try_from("x.invalid").unwrap();
    let outcome = match TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
    {
        Err(error) => Err(error),
        Ok(mut stream) => soon("end", stream.read_to_end(&mut Vec::new())).await,
    };
    assert!(outcome.is_err(), "{outcome:?}");
}

#[tokio::test]
async fn a_client_that_speaks_only_tls_1_2_is_turned_away() {
    let host = Listening::start().await;
    let mut stream = TcpStream::connect(host.address).await.unwrap();
    stream.write_all(&tls12_client_hello()).await.unwrap();
    let mut answer = Vec::new();
    let _ = soon("end", stream.read_to_end(&mut answer)).await;
    // A TLS record of type alert (21), fatal (2), protocol_version (70).
    assert_eq!(
        (answer.first(), answer.get(5..7)),
        (Some(&21), Some(&[2, 70][..])),
        "{answer:?}"
    );
}

/// A well-formed ClientHello as clients without TLS 1.3 sent it (rustls built without TLS 1.2 cannot make one).
fn tls12_client_hello() -> Vec<u8> {
    let extensions: &[u8] = &[
        0x00, 0x0a, 0x00, 0x04, 0x00, 0x02, 0x00, 0x17, // supported_groups: secp256r1
        0x00, 0x0b, 0x00, 0x02, 0x01, 0x00, // ec_point_formats: uncompressed
        0x00, 0x0d, 0x00, 0x04, 0x00, 0x02, 0x04,
        0x03, // signature_algorithms: ecdsa_secp256r1_sha256
    ];
    let mut body = vec![0x03, 0x03];
    body.extend_from_slice(&[7; 32]); // random
    body.push(0); // no session id
    body.extend_from_slice(&[0x00, 0x02, 0xc0, 0x2b]); // TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    body.extend_from_slice(&[0x01, 0x00]); // no compression
    body.extend_from_slice(&u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend_from_slice(extensions);
    let mut record = vec![22, 0x03, 0x01];
    record.extend_from_slice(&u16::try_from(body.len() + 4).unwrap().to_be_bytes());
    record.push(1);
    record.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
    record.extend_from_slice(&body);
    record
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stalls_in_the_handshake_is_dropped() {
    let identity = HostIdentity::generate().unwrap();
    let acceptor = Acceptor::new(&identity, HostAllowList::default()).unwrap();
    let started = tokio::time::Instant::now();
    for first_bytes in [&b""[..], &[22, 3, 1]] {
        let (mut peer, ours) = tokio::io::duplex(4096);
        peer.write_all(first_bytes).await.unwrap();
        let error = acceptor.accept(ours, "peer".into()).await.unwrap_err();
        assert!(matches!(error, AcceptError::Timeout { .. }), "{error}");
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).await.unwrap();
    }
    assert_eq!(started.elapsed().as_secs(), 2 * HANDSHAKE_TIMEOUT.as_secs());
}

#[tokio::test]
async fn stalled_peers_do_not_keep_others_out() {
    let mut host = Listening::start().await;
    let mut stalled = Vec::new();
    for _ in 0..20 {
        stalled.push(TcpStream::connect(host.address).await.unwrap());
    }
    let (accepted, _dialled): (Established, Established) = host.connect(&device()).await;
    drop(accepted);
    assert!(DEADLINE > HANDSHAKE_TIMEOUT);
}

#[tokio::test]
async fn a_peer_that_vanishes_ends_the_connection() {
    let mut host = Listening::start().await;
    let (accepted, dialled) = host.connect(&device()).await;
    drop(dialled);
    let (_out, mut into) = accepted.duplex.split();
    let end = soon("end", into.receive()).await.unwrap_err();
    assert!(
        matches!(end, DuplexError::Broken(_) | DuplexError::Closed(None)),
        "{end}"
    );
}

#[tokio::test]
async fn a_memory_pair_carries_frames_and_the_reason_of_its_end() {
    let (left, right) = memory_pair(1);
    let (mut left_out, left_in) = Box::new(left).split();
    let (mut right_out, mut right_in) = Box::new(right).split();
    left_out.send(Frame::Text("a".into())).await.unwrap();
    assert_eq!(right_in.receive().await.unwrap(), Frame::Text("a".into()));
    left_out
        .close(Close::new(CloseCode::Normal, "done"))
        .await
        .unwrap();
    left_out
        .close(Close::new(CloseCode::Normal, "twice"))
        .await
        .unwrap();
    let end = DuplexError::Closed(Some(Close::new(CloseCode::Normal, "done")));
    assert_eq!(right_in.receive().await, Err(end.clone()));
    assert_eq!(right_in.receive().await, Err(end));
    assert_eq!(
        left_out.send(Frame::Text("b".into())).await,
        Err(DuplexError::Closed(None))
    );
    drop(left_in);
    assert_eq!(
        right_out.send(Frame::Text("c".into())).await,
        Err(DuplexError::Closed(None))
    );
}
