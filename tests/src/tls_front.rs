//! TLS 1.3 with a certificate of its own before a server that speaks in the clear, as a person puts before an agent.

use pilothouse_domain::{ContentHash, hash};
use rustls::{ServerConfig, pki_types::PrivateKeyDer, server::ParsedCertificate};
use std::sync::Arc;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};
use tokio_rustls::TlsAcceptor;

/// It ends when it is dropped.
pub struct TlsFront {
    _runtime: Runtime,
    port: u16,
    key: ContentHash,
}

impl TlsFront {
    /// Listens on a free port of 127.0.0.1 and passes on to another one.
    ///
    /// # Panics
    /// There is no free port, or no certificate can be made.
    pub fn start(server: u16) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["box.example".to_owned()])
            .expect("a certificate");
        let parsed = ParsedCertificate::try_from(made.cert.der()).expect("it can be read");
        let key = parsed.subject_public_key_info();
        let key = ContentHash::from_bytes(hash::sha256(key.as_ref()));
        let private = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("its key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], private)
            .expect("a usable key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a free port");
        let port = listener.local_addr().expect("a bound port").port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut outside) = acceptor.accept(stream).await else {
                        return;
                    };
                    if let Ok(mut inside) = TcpStream::connect(("127.0.0.1", server)).await {
                        let _ = copy_bidirectional(&mut outside, &mut inside).await;
                    }
                });
            }
        });
        Self {
            _runtime: runtime,
            port,
            key,
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// SHA-256 of its public key.
    pub fn key(&self) -> ContentHash {
        self.key
    }
}
