//! Peers that are not what they should be.

use crate::common::{DEADLINE, Listening, device, raw_tls, soon};
use pilothouse_wire::{
    connect::AttemptError,
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
