//! TLS 1.3 between two keys that know each other by fingerprint.
//!
//! Both sides present a self-signed certificate; only the SHA-256 of its public key is compared, never a name, a date
//! or an issuer. What proves possession of the key is the handshake's signature, and that *is* verified, over P-256
//! only. Sessions are never resumed: every connection proves the key anew, so a revoked key cannot ride on a ticket.

use crate::identity::{
    DeviceIdentity, DeviceKey, HostIdentity, IdentityError, P256PublicKey, SpkiHash,
    certificate_key,
};
use rustls::{
    CertificateError, ClientConfig, ConnectionCommon, DigitallySignedStruct, DistinguishedName,
    Error, OtherError, ServerConfig, SignatureAlgorithm, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
    sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey},
};
use std::{fmt, sync::Arc};

/// Label of the keying material that binds a pairing proof to one connection (RFC 5705).
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-pilothouse-pair-v1";

/// Keying material of one connection, equal on both sides and on no other connection. Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelBinding([u8; 32]);

impl ChannelBinding {
    /// Wraps material that another transport exported.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ChannelBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelBinding(secret)")
    }
}

/// The host that answered is not the one that was paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "another host answered: expected the key {expected}, found {found}; pair again if this host was set up anew, \
     otherwise somebody stands between"
)]
pub struct WrongHostKey {
    /// The key that was pinned at pairing.
    pub expected: SpkiHash,
    /// The key that was presented.
    pub found: SpkiHash,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// TLS for a host: asks every client for a certificate with a P-256 key, and accepts any such key. Whether the key is
/// known is decided per connection by the caller, from [`PeerFacts`].
///
/// # Errors
/// [`IdentityError::Tls`] if rustls does not take the key.
pub fn server_config(identity: &HostIdentity) -> Result<Arc<ServerConfig>, IdentityError> {
    let provider = provider();
    let verifier = Arc::new(AnyP256Client {
        algorithms: provider.signature_verification_algorithms,
    });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())?;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// TLS for a device that accepts the host with this key and no other.
///
/// # Errors
/// [`IdentityError::Tls`] if rustls does not take the key.
pub fn client_config(
    identity: &DeviceIdentity,
    host: SpkiHash,
) -> Result<Arc<ClientConfig>, IdentityError> {
    let provider = provider();
    let verifier = Arc::new(PinnedHost {
        pin: host,
        algorithms: provider.signature_verification_algorithms,
    });
    let key = Arc::new(RemoteSigningKey {
        key: identity.key.clone(),
        spki: identity.public_key().spki_der(),
    });
    let certified = CertifiedKey::new(vec![identity.certificate.clone()], key);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.resumption = Resumption::disabled();
    // The name in the address is not part of trust and is nobody's business on the way.
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// What a finished handshake says about the peer.
#[derive(Debug, Clone)]
pub struct PeerFacts {
    /// The peer's public key; possession of its private half was proven.
    pub key: P256PublicKey,
    /// Material that binds a proof to this connection.
    pub binding: ChannelBinding,
}

/// Reads the peer's key and the channel binding off a finished handshake.
///
/// # Errors
/// [`IdentityError`] if the handshake is not finished or the peer has no P-256 certificate.
pub fn peer_facts<D>(connection: &ConnectionCommon<D>) -> Result<PeerFacts, IdentityError> {
    let certificate = connection
        .peer_certificates()
        .and_then(<[_]>::first)
        .ok_or(Error::NoCertificatesPresented)?;
    let key = certificate_key(certificate)?;
    let binding = connection.export_keying_material([0; 32], EXPORTER_LABEL, None)?;
    Ok(PeerFacts {
        key,
        binding: ChannelBinding(binding),
    })
}

fn bad_certificate(_: IdentityError) -> Error {
    Error::InvalidCertificate(CertificateError::BadEncoding)
}

const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ECDSA_NISTP256_SHA256];

fn tls12_is_off() -> Error {
    Error::General("TLS 1.2 is not offered".to_owned())
}

#[derive(Debug)]
struct PinnedHost {
    pin: SpkiHash,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = certificate_key(end_entity)
            .map_err(bad_certificate)?
            .spki_sha256();
        if found != self.pin {
            let error = WrongHostKey {
                expected: self.pin,
                found,
            };
            return Err(Error::InvalidCertificate(CertificateError::Other(
                OtherError(Arc::new(error)),
            )));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(tls12_is_off())
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
        SCHEMES.to_vec()
    }
}

#[derive(Debug)]
struct AnyP256Client {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyP256Client {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        certificate_key(end_entity).map_err(bad_certificate)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(tls12_is_off())
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
        SCHEMES.to_vec()
    }
}

/// Lets rustls sign with a key that it never sees.
struct RemoteSigningKey {
    key: Arc<dyn DeviceKey>,
    spki: Vec<u8>,
}

impl fmt::Debug for RemoteSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteSigningKey")
    }
}

impl SigningKey for RemoteSigningKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered
            .contains(&SignatureScheme::ECDSA_NISTP256_SHA256)
            .then(|| Box::new(RemoteSigner(self.key.clone())) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(self.spki.as_slice()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

struct RemoteSigner(Arc<dyn DeviceKey>);

impl fmt::Debug for RemoteSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteSigner")
    }
}

impl Signer for RemoteSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.0
            .sign(message)
            .map_err(|error| Error::Other(OtherError(Arc::new(error))))
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP256_SHA256
    }
}
