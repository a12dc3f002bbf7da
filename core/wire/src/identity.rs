//! Who a host or a device is: a P-256 key, known to the other side by the SHA-256 of its public key (SPKI) alone.
//!
//! A host's key is a file. A device's key is behind [`DeviceKey`], because on Android it never leaves the Keystore and
//! only signs. Certificates are self-signed wrappers that TLS asks for; nobody looks at their names or dates.

use crate::keyfile::{self, KeyFileError};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{rand::SystemRandom, signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{cell::RefCell, fmt, path::Path, str::FromStr, sync::Arc};

/// What precedes the 65 bytes of an uncompressed point in the DER form of every P-256 public key (RFC 5480).
const P256_SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const SEC1_LEN: usize = 65;

/// SHA-256 of a peer's public key in its DER form (SubjectPublicKeyInfo): what is pinned. Text form: base64url, 43
/// characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpkiHash([u8; 32]);

impl SpkiHash {
    /// Wraps a hash.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hash of a DER SubjectPublicKeyInfo.
    pub fn of(spki_der: &[u8]) -> Self {
        Self(pilothouse_domain::hash::sha256(spki_der))
    }
}

impl fmt::Display for SpkiHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for SpkiHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpkiHash({self})")
    }
}

/// A text that is not a pin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a key fingerprint: 43 characters of base64url are expected")]
pub struct InvalidSpkiHash(String);

impl FromStr for SpkiHash {
    type Err = InvalidSpkiHash;

    fn from_str(text: &str) -> Result<Self, InvalidSpkiHash> {
        let invalid = || InvalidSpkiHash(text.chars().take(80).collect());
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        bytes.try_into().map(Self).map_err(|_| invalid())
    }
}

impl Serialize for SpkiHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SpkiHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A public key on P-256.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct P256PublicKey([u8; SEC1_LEN]);

impl P256PublicKey {
    /// Reads an uncompressed SEC1 point (65 bytes that begin with 4).
    ///
    /// # Errors
    /// [`IdentityError::NotP256`] for any other form. Whether the point is on the curve shows at the first signature.
    pub fn from_sec1(bytes: &[u8]) -> Result<Self, IdentityError> {
        match <[u8; SEC1_LEN]>::try_from(bytes) {
            Ok(point) if point[0] == 4 => Ok(Self(point)),
            _ => Err(IdentityError::NotP256),
        }
    }

    /// Reads the DER form (SubjectPublicKeyInfo, 91 bytes): what Java's `PublicKey.getEncoded()` gives.
    ///
    /// # Errors
    /// [`IdentityError::NotP256`] for another curve or algorithm.
    pub fn from_spki_der(der: &[u8]) -> Result<Self, IdentityError> {
        Self::from_sec1(
            der.strip_prefix(&P256_SPKI_PREFIX)
                .ok_or(IdentityError::NotP256)?,
        )
    }

    /// The uncompressed SEC1 point.
    pub fn sec1(&self) -> &[u8; 65] {
        &self.0
    }

    /// The DER form (SubjectPublicKeyInfo).
    pub fn spki_der(&self) -> Vec<u8> {
        [&P256_SPKI_PREFIX[..], &self.0[..]].concat()
    }

    /// What the other side pins.
    pub fn spki_sha256(&self) -> SpkiHash {
        SpkiHash::of(&self.spki_der())
    }
}

impl fmt::Debug for P256PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P256PublicKey({})", self.spki_sha256())
    }
}

/// A key store did not give its key or did not sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceKeyError {
    /// The key is gone or was made invalid (a factory reset, a removed screen lock): the device has to pair again.
    #[error("this device's key is gone ({0}); pair again with each host")]
    Gone(String),
    /// The store cannot sign just now (locked, busy); trying later can help.
    #[error("this device's key cannot be used now: {0}")]
    Unavailable(String),
}

/// A device's private key, wherever it lives. Both calls may block for some 100 ms in a hardware store; they are made
/// from a runtime thread during a handshake, at most three times per connection.
pub trait DeviceKey: Send + Sync {
    /// The public half.
    ///
    /// # Errors
    /// The store has no such key, or cannot be reached.
    fn public_key(&self) -> Result<P256PublicKey, DeviceKeyError>;

    /// Signs `message` with ECDSA over SHA-256 (the message is not hashed yet; Java: `SHA256withECDSA`), DER form.
    ///
    /// # Errors
    /// The store has no such key, or will not use it now.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, DeviceKeyError>;
}

/// Why an identity could not be read, made or used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file could not be read, written or trusted.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// A public key of another kind.
    #[error("the public key is not an uncompressed P-256 key; only P-256 keys can be paired")]
    NotP256,
    /// The key store refused.
    #[error(transparent)]
    Key(#[from] DeviceKeyError),
    /// A key or certificate could not be made.
    #[error("a key or certificate could not be made: {0}")]
    Generate(String),
    /// TLS does not take the key or certificate.
    #[error("TLS does not take this identity: {0}")]
    Tls(#[from] rustls::Error),
}

/// A host's key and self-signed certificate. Making another one breaks every pairing, so it is never replaced here.
pub struct HostIdentity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
    public_key: P256PublicKey,
}

impl HostIdentity {
    /// File name of a host's identity in its state directory.
    pub const FILE: &str = "host-identity.pem";

    /// Makes an identity that is not stored anywhere.
    ///
    /// # Errors
    /// [`IdentityError::Generate`] if the system gives no randomness.
    pub fn generate() -> Result<Self, IdentityError> {
        Self::from_pem(&Self::generate_pem()?, Path::new("(memory)"))
    }

    /// Reads `path`, or makes it (mode 0600, complete or not at all) if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read or written, others may read it, or it holds no key and certificate that belong together.
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        let pem = keyfile::load_or_create(path, Self::generate_pem)?;
        Self::from_pem(&pem, path)
    }

    fn generate_pem() -> Result<String, IdentityError> {
        let key =
            rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(generate_error)?;
        let certificate = certificate_params("pilothouse host")
            .self_signed(&key)
            .map_err(generate_error)?;
        Ok(key.serialize_pem() + &certificate.pem())
    }

    fn from_pem(pem: &str, path: &Path) -> Result<Self, IdentityError> {
        let malformed = |what: String| KeyFileError::Malformed {
            path: path.to_owned(),
            what,
        };
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|e| malformed(format!("private key: {e}")))?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|e| malformed(format!("certificate: {e}")))?;
        let public_key = certificate_key(&certificate).map_err(|e| malformed(e.to_string()))?;
        rustls::sign::CertifiedKey::from_der(
            vec![certificate.clone()],
            key.clone_key(),
            &rustls::crypto::ring::default_provider(),
        )
        .map_err(|e| malformed(e.to_string()))?;
        Ok(Self {
            certificate,
            key,
            public_key,
        })
    }

    /// The host's public key.
    pub fn public_key(&self) -> P256PublicKey {
        self.public_key
    }

    /// What devices pin.
    pub fn spki_sha256(&self) -> SpkiHash {
        self.public_key.spki_sha256()
    }
}

impl fmt::Debug for HostIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostIdentity({})", self.spki_sha256())
    }
}

/// A device's key with the self-signed certificate that TLS needs, made by the key itself.
#[derive(Clone)]
pub struct DeviceIdentity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: Arc<dyn DeviceKey>,
    public_key: P256PublicKey,
}

impl DeviceIdentity {
    /// Asks the key for its public half and for one signature over a certificate.
    ///
    /// # Errors
    /// [`IdentityError::Key`] with what the key store said.
    pub fn new(key: Arc<dyn DeviceKey>) -> Result<Self, IdentityError> {
        let public_key = key.public_key()?;
        let signer = CertificateSigner {
            key: &*key,
            public_key,
            refused: RefCell::new(None),
        };
        let certificate = match certificate_params("pilothouse device").self_signed(&signer) {
            Ok(certificate) => certificate.der().clone(),
            Err(error) => {
                return Err(signer
                    .refused
                    .take()
                    .map_or_else(|| generate_error(error), IdentityError::Key));
            }
        };
        Ok(Self {
            certificate,
            key,
            public_key,
        })
    }

    /// The device's public key.
    pub fn public_key(&self) -> P256PublicKey {
        self.public_key
    }

    /// What the host knows the device by.
    pub fn spki_sha256(&self) -> SpkiHash {
        self.public_key.spki_sha256()
    }
}

impl fmt::Debug for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceIdentity({})", self.spki_sha256())
    }
}

/// A device key in a file: for terminal clients, tests and phones without a key store.
pub struct FileKey {
    pair: signature::EcdsaKeyPair,
    public_key: P256PublicKey,
    random: SystemRandom,
}

impl FileKey {
    /// File name of a device's key in its data directory.
    pub const FILE: &str = "device-key.pem";

    /// Makes a key that is not stored anywhere.
    ///
    /// # Errors
    /// [`IdentityError::Generate`] if the system gives no randomness.
    pub fn generate() -> Result<Self, IdentityError> {
        Self::from_pem(&Self::generate_pem()?, Path::new("(memory)"))
    }

    /// Reads `path`, or makes it (mode 0600, complete or not at all) if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read or written, others may read it, or it holds no P-256 key.
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        let pem = keyfile::load_or_create(path, Self::generate_pem)?;
        Self::from_pem(&pem, path)
    }

    fn generate_pem() -> Result<String, IdentityError> {
        let key =
            rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(generate_error)?;
        Ok(key.serialize_pem())
    }

    fn from_pem(pem: &str, path: &Path) -> Result<Self, IdentityError> {
        let malformed = |what: String| KeyFileError::Malformed {
            path: path.to_owned(),
            what,
        };
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|e| malformed(format!("private key: {e}")))?;
        let random = SystemRandom::new();
        let pair = signature::EcdsaKeyPair::from_pkcs8(
            &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
            der.secret_pkcs8_der(),
            &random,
        )
        .map_err(|e| malformed(format!("not a P-256 key: {e}")))?;
        let public_key = P256PublicKey::from_sec1(signature::KeyPair::public_key(&pair).as_ref())?;
        Ok(Self {
            pair,
            public_key,
            random,
        })
    }
}

impl DeviceKey for FileKey {
    fn public_key(&self) -> Result<P256PublicKey, DeviceKeyError> {
        Ok(self.public_key)
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, DeviceKeyError> {
        self.pair
            .sign(&self.random, message)
            .map(|signature| signature.as_ref().to_vec())
            .map_err(|_| DeviceKeyError::Unavailable("the system gave no randomness".to_owned()))
    }
}

/// The public key inside a certificate.
pub(crate) fn certificate_key(
    certificate: &CertificateDer<'_>,
) -> Result<P256PublicKey, IdentityError> {
    let parsed = rustls::server::ParsedCertificate::try_from(certificate)?;
    P256PublicKey::from_spki_der(&parsed.subject_public_key_info())
}

fn certificate_params(name: &str) -> rcgen::CertificateParams {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params
}

fn generate_error(error: rcgen::Error) -> IdentityError {
    IdentityError::Generate(error.to_string())
}

/// Lets a key that only signs make its certificate, and keeps what the key said when it refused.
struct CertificateSigner<'a> {
    key: &'a dyn DeviceKey,
    public_key: P256PublicKey,
    refused: RefCell<Option<DeviceKeyError>>,
}

impl rcgen::PublicKeyData for CertificateSigner<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.public_key.sec1()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for CertificateSigner<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.key.sign(message).map_err(|error| {
            *self.refused.borrow_mut() = Some(error);
            rcgen::Error::RemoteKeyError
        })
    }
}
