//! Where an agent listens that is reached over a network, and by what right something secret may be said to it.
//!
//! There are three ways: TLS (by the public authorities, or to one pinned key), this machine's own loopback (a forward of SSH's
//! ends there), and an address that a person marked as one inside a private network. An [`Endpoint`] exists only for one of
//! these; everything else is a typed refusal before anything is sent. What is marked as private is held to it again when its name
//! has been looked up: a name that leads out is not followed.

use futures_util::future::BoxFuture;
use pilothouse_domain::{ContentHash, hash};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// Time for looking up the name, TCP and TLS.
const CONNECT: Duration = Duration::from_secs(15);
/// How long the system tries to bring what was written to the other side, milliseconds.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED_MS: u32 = 60_000;

/// A connection.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// What an address is trusted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// TLS by the public authorities, or this machine's loopback without it.
    #[default]
    Usual,
    /// TLS to the server whose public key has this SHA-256 (of its SubjectPublicKeyInfo), whatever its certificate says.
    Pinned(ContentHash),
    /// Its person says that it lies inside a private network: without TLS, too.
    PrivateNetwork,
}

/// An address that something secret may be said to.
#[derive(Clone)]
pub struct Endpoint {
    host: String,
    port: u16,
    trust: Trust,
    tls: Option<TlsConnector>,
}

/// Why nothing is said to an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointRefusal {
    /// It is none.
    #[error("`{url}` is no address: {problem}")]
    Malformed {
        /// As it was given, without what may be secret.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A name, a password or a token stands in it.
    #[error("a secret must not stand in an address; give the password or token by itself")]
    SecretInAddress,
    /// What is said would travel in the clear.
    #[error(
        "`{host}` is neither encrypted nor on this machine; use TLS, forward its port by SSH, or mark the address as one of \
         your private network"
    )]
    InTheClear {
        /// The host.
        host: String,
    },
    /// It was marked as private, and is public.
    #[error(
        "`{host}` leads to {address}, which is no address of a private network; nothing was sent"
    )]
    NotPrivate {
        /// The host.
        host: String,
        /// Where it leads.
        address: IpAddr,
    },
}

impl Endpoint {
    /// Reads `https://HOST[:PORT]`, `wss://…`, or without TLS `http://…`, `ws://…`.
    ///
    /// # Errors
    /// [`EndpointRefusal`]: it is no such address, holds a secret, or what is said to it would travel in the clear.
    pub fn parse(url: &str, trust: Trust) -> Result<Self, EndpointRefusal> {
        let url = url.trim();
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // Before anything of it is repeated in a message.
        if url.contains(['@', '?', '#']) {
            return Err(EndpointRefusal::SecretInAddress);
        }
        let malformed = |problem: &str| EndpointRefusal::Malformed {
            url: url.chars().take(200).collect(),
            problem: problem.to_owned(),
        };
        let encrypted = match scheme {
            "https" | "wss" => true,
            "http" | "ws" => false,
            _ => {
                return Err(malformed(
                    "it begins with https://, wss://, http:// or ws://",
                ));
            }
        };
        if !path.is_empty() {
            return Err(malformed("a path is not used"));
        }
        let (host, port) = split_port(authority)
            .ok_or_else(|| malformed("a host and, behind a colon, a port are expected"))?;
        let port = port.unwrap_or(if encrypted { 443 } else { 80 });
        let tls = match (encrypted, trust) {
            (true, Trust::Pinned(pin)) => Some(pinned(pin)),
            (true, _) => Some(public()),
            (false, Trust::PrivateNetwork) => None,
            (false, Trust::Usual) if is_loopback_name(&host) => None,
            (false, _) => return Err(EndpointRefusal::InTheClear { host }),
        };
        let tls = tls
            .transpose()
            .map_err(|error| malformed(&error.to_string()))?;
        if let (None, Ok(address)) = (&tls, host.parse::<IpAddr>()) {
            check(&host, address, trust)?;
        }
        Ok(Self {
            host,
            port,
            trust,
            tls: tls.map(|config| TlsConnector::from(Arc::new(config))),
        })
    }

    /// What stands in `Host`.
    pub fn authority(&self) -> String {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("[{address}]:{}", self.port),
            _ => format!("{}:{}", self.host, self.port),
        }
    }

    /// A new connection.
    ///
    /// # Errors
    /// What the system or TLS says; an [`EndpointRefusal`] as its source if the name leads where nothing may be said.
    pub fn connect(&self) -> BoxFuture<'_, io::Result<Box<dyn Io>>> {
        Box::pin(async {
            timeout(CONNECT, self.open()).await.unwrap_or_else(|_| {
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no connection within {} s", CONNECT.as_secs()),
                ))
            })
        })
    }

    async fn open(&self) -> io::Result<Box<dyn Io>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((self.host.as_str(), self.port))
            .await?
            .collect();
        if self.tls.is_none() {
            for address in &found {
                check(&self.host, address.ip(), self.trust)
                    .map_err(|refusal| io::Error::new(io::ErrorKind::PermissionDenied, refusal))?;
            }
        }
        let stream = TcpStream::connect(&found[..]).await?;
        stream.set_nodelay(true)?;
        // What was said and is not acknowledged for so long is not said any more: later it would be said a second time.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        rustix::net::sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MS)?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(self.host.clone())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let stream = tls.connect(name, stream).await.map_err(plainly)?;
        Ok(Box::new(stream))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({}, {:?})", self.authority(), self.trust)
    }
}

/// Host and port of an authority.
fn split_port(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        (
            host,
            port.strip_prefix(':').or(port.is_empty().then_some(""))?,
        )
    } else {
        authority.split_once(':').unwrap_or((authority, ""))
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(plain) {
        return None;
    }
    let port = match port {
        "" => None,
        port => Some(port.parse().ok().filter(|port| *port != 0)?),
    };
    Some((host.to_ascii_lowercase(), port))
}

fn is_loopback_name(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Whether something may be said in the clear to an address.
fn check(host: &str, address: IpAddr, trust: Trust) -> Result<(), EndpointRefusal> {
    let may = address.is_loopback()
        || (trust == Trust::PrivateNetwork
            && match address.to_canonical() {
                IpAddr::V4(address) => {
                    let [a, b, ..] = address.octets();
                    // 100.64.0.0/10 is what overlay networks give their members.
                    address.is_private() || address.is_link_local() || (a == 100 && b & 0xc0 == 64)
                }
                IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
            });
    if may {
        return Ok(());
    }
    Err(EndpointRefusal::NotPrivate {
        host: host.to_owned(),
        address,
    })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn public() -> Result<ClientConfig, Error> {
    let roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    Ok(ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

fn pinned(pin: ContentHash) -> Result<ClientConfig, Error> {
    let provider = provider();
    let verifier = Arc::new(PinnedKey {
        pin,
        algorithms: provider.signature_verification_algorithms,
    });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// Another key than the pinned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server has another key than the pinned one: expected {expected}, found {found}; if it was set up anew, add it again, \
     otherwise somebody stands between"
)]
pub struct WrongKey {
    /// The pinned one.
    pub expected: ContentHash,
    /// The one that was shown.
    pub found: ContentHash,
}

/// Says of a wrong key what it is, instead of what TLS makes of it.
fn plainly(error: io::Error) -> io::Error {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let wrong = match tls {
        Some(Error::InvalidCertificate(CertificateError::Other(other))) => {
            other.0.downcast_ref::<WrongKey>().copied()
        }
        _ => None,
    };
    match wrong {
        Some(wrong) => io::Error::new(io::ErrorKind::PermissionDenied, wrong),
        None => error,
    }
}

#[derive(Debug)]
struct PinnedKey {
    pin: ContentHash,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let key = parsed.subject_public_key_info();
        let found = ContentHash::from_bytes(hash::sha256(key.as_ref()));
        if found == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        let wrong = WrongKey {
            expected: self.pin,
            found,
        };
        Err(Error::InvalidCertificate(CertificateError::Other(
            rustls::OtherError(Arc::new(wrong)),
        )))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not offered".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    fn refusal(url: &str, trust: Trust) -> EndpointRefusal {
        Endpoint::parse(url, trust).unwrap_err()
    }

    #[test]
    fn only_tls_loopback_and_what_was_marked_is_spoken_to() {
        for url in [
            "https://box.example",
            "wss://box.example:8443",
            "ws://127.0.0.1:4500",
            "http://localhost:4096/",
            "http://[::1]:4096",
        ] {
            assert!(Endpoint::parse(url, Trust::Usual).is_ok(), "{url}");
        }
        for url in [
            "ws://box.example:4500",
            "http://192.168.1.4:4096",
            "http://8.8.8.8",
        ] {
            assert!(
                matches!(
                    refusal(url, Trust::Usual),
                    EndpointRefusal::InTheClear { .. }
                ),
                "{url}"
            );
        }
        for url in [
            "http://192.168.1.4:4096",
            "ws://100.101.4.4:1",
            "http://box.tail.example",
        ] {
            assert!(Endpoint::parse(url, Trust::PrivateNetwork).is_ok(), "{url}");
        }
        assert!(matches!(
            refusal("http://8.8.8.8:4096", Trust::PrivateNetwork),
            EndpointRefusal::NotPrivate { .. }
        ));
        // A pin is of no use without TLS.
        let pin = Trust::Pinned(ContentHash::default());
        assert!(matches!(
            refusal("ws://127.0.0.1:4500", pin),
            EndpointRefusal::InTheClear { .. }
        ));
    }

    #[test]
    fn a_secret_in_an_address_is_refused_and_not_repeated() {
        for url in [
            "https://opencode:hunter2@box.example",
            "https://box.example/?auth_token=hunter2",
            "wss://box.example#hunter2",
        ] {
            let refusal = refusal(url, Trust::Usual);
            assert_eq!(refusal, EndpointRefusal::SecretInAddress);
            assert!(!refusal.to_string().contains("hunter2"));
        }
        for url in [
            "box.example",
            "ssh://box",
            "https://",
            "https://a b",
            "https://a:0",
            "https://a/b",
        ] {
            assert!(
                matches!(
                    refusal(url, Trust::Usual),
                    EndpointRefusal::Malformed { .. }
                ),
                "{url}"
            );
        }
    }

    #[test]
    fn authorities_are_written_as_http_wants_them() {
        let of = |url| Endpoint::parse(url, Trust::Usual).unwrap().authority();
        assert_eq!(of("https://Box.example"), "box.example:443");
        assert_eq!(of("http://[::1]:4096"), "[::1]:4096");
    }

    /// A server with a certificate of its own that says a line back; its port and its key's hash.
    async fn server() -> (u16, ContentHash) {
        let made = rcgen::generate_simple_self_signed(vec!["box.example".to_owned()]).unwrap();
        let parsed = ParsedCertificate::try_from(made.cert.der()).unwrap();
        let key = ContentHash::from_bytes(hash::sha256(parsed.subject_public_key_info().as_ref()));
        let private = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], private.unwrap())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut said = [0; 4];
                    if stream.read_exact(&mut said).await.is_ok() {
                        let _ = stream.write_all(&said).await;
                        let _ = stream.flush().await;
                    }
                });
            }
        });
        (port, key)
    }

    #[tokio::test]
    async fn a_pinned_key_is_spoken_to_and_no_other_and_no_authority_vouches_for_it() {
        let (port, key) = server().await;
        let url = format!("https://127.0.0.1:{port}");
        let pinned = Endpoint::parse(&url, Trust::Pinned(key)).unwrap();
        let mut stream = pinned.connect().await.unwrap();
        stream.write_all(b"ping").await.unwrap();
        stream.flush().await.unwrap();
        let mut said = [0; 4];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"ping");

        let other = ContentHash::from_bytes([1; 32]);
        let wrong = Endpoint::parse(&url, Trust::Pinned(other)).unwrap();
        let error = wrong.connect().await.err().unwrap();
        assert!(error.to_string().contains("another key"), "{error}");
        let usual = Endpoint::parse(&url, Trust::Usual).unwrap();
        assert!(usual.connect().await.is_err());
    }
}
