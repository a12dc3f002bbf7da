//! What the core needs of the platform, as foreign traits: the key that never leaves it, a place for log lines, and a place for
//! the secrets of agents that are driven from this device.

use pilothouse_engine::{LogLevel, Platform as EnginePlatform, SecretError, SystemPlatform};
use pilothouse_wire::identity::{DeviceKey, DeviceKeyError, P256PublicKey};
use std::sync::Arc;

/// How loud a log line is.
#[uniffi::remote(Enum)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is off.
    Warn,
    /// Worth knowing.
    Info,
    /// For developers.
    Debug,
}

/// Why the platform's key cannot be used.
#[derive(Debug, Clone, thiserror::Error, uniffi::Error)]
pub enum KeyError {
    /// It is gone for good: the device has to pair again with each host.
    #[error("this device's key is gone: {reason}")]
    Gone {
        /// Why.
        reason: String,
    },
    /// It cannot be used just now; later it may.
    #[error("this device's key cannot be used now: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
}

impl From<uniffi::UnexpectedUniFFICallbackError> for KeyError {
    fn from(error: uniffi::UnexpectedUniFFICallbackError) -> Self {
        Self::Unavailable {
            reason: error.reason,
        }
    }
}

impl From<KeyError> for DeviceKeyError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Gone { reason } => Self::Gone(reason),
            KeyError::Unavailable { reason } => Self::Unavailable(reason),
        }
    }
}

/// What the core needs of its platform. May be called from any thread of the core; each call may block for 100 ms.
#[uniffi::export(with_foreign)]
pub trait Platform: Send + Sync {
    /// The public half of this device's P-256 key: 65 bytes, uncompressed (SEC 1), the same at every call. On Android
    /// the private half stays in the Keystore.
    fn public_key(&self) -> Result<Vec<u8>, KeyError>;
    /// Signs with that key: ECDSA over SHA-256 of the message, DER form (Java: `SHA256withECDSA`).
    fn sign(&self, data: Vec<u8>) -> Result<Vec<u8>, KeyError>;
    /// Takes a log line; it never holds text of a conversation, nor a secret.
    fn log(&self, level: LogLevel, target: String, line: String);
}

/// Why the platform's store of secrets cannot be used.
#[derive(Debug, Clone, thiserror::Error, uniffi::Error)]
pub enum SecretStoreError {
    /// It cannot be used just now; later it may.
    #[error("the store of secrets cannot be used now: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
}

impl From<uniffi::UnexpectedUniFFICallbackError> for SecretStoreError {
    fn from(error: uniffi::UnexpectedUniFFICallbackError) -> Self {
        Self::Unavailable {
            reason: error.reason,
        }
    }
}

impl From<SecretStoreError> for SecretError {
    fn from(SecretStoreError::Unavailable { reason }: SecretStoreError) -> Self {
        Self::Unavailable(reason)
    }
}

/// Keeps secrets of agents' servers where only this program can read them: on Android under a key of the Keystore. Names are
/// at most 64 letters, digits and dashes, secrets at most a few hundred bytes. May be called from any thread of the core.
#[uniffi::export(with_foreign)]
pub trait SecretStore: Send + Sync {
    /// A secret that was kept under this name; `null` if there is none.
    fn secret(&self, name: String) -> Result<Option<String>, SecretStoreError>;
    /// Keeps a secret in place of one of the same name; when this returns, it outlives the program.
    fn keep(&self, name: String, secret: String) -> Result<(), SecretStoreError>;
    /// Forgets a secret; one that is not there is forgotten already.
    fn forget(&self, name: String) -> Result<(), SecretStoreError>;
}

/// A foreign platform as the engine sees it: clock and randomness are the system's everywhere.
pub(crate) struct Bridge {
    foreign: Arc<dyn Platform>,
    secrets: Option<Arc<dyn SecretStore>>,
    system: SystemPlatform,
}

impl Bridge {
    pub(crate) fn new(
        foreign: Arc<dyn Platform>,
        secrets: Option<Arc<dyn SecretStore>>,
        data_dir: &str,
    ) -> Self {
        Self {
            foreign,
            secrets,
            system: SystemPlatform::new(data_dir),
        }
    }
}

impl EnginePlatform for Bridge {
    fn device_key(&self) -> Result<Arc<dyn DeviceKey>, DeviceKeyError> {
        Ok(Arc::new(ForeignKey(Arc::clone(&self.foreign))))
    }

    fn now_ms(&self) -> u64 {
        self.system.now_ms()
    }

    fn random(&self, buffer: &mut [u8]) {
        self.system.random(buffer);
    }

    fn secret(&self, name: &str) -> Result<Option<String>, SecretError> {
        Ok(self.secrets()?.secret(name.to_owned())?)
    }

    fn keep_secret(&self, name: &str, secret: &str) -> Result<(), SecretError> {
        Ok(self.secrets()?.keep(name.to_owned(), secret.to_owned())?)
    }

    fn forget_secret(&self, name: &str) -> Result<(), SecretError> {
        Ok(self.secrets()?.forget(name.to_owned())?)
    }

    fn log(&self, level: LogLevel, target: &str, message: &str) {
        crate::about_to_call_out();
        self.foreign
            .log(level, target.to_owned(), message.to_owned());
    }
}

impl Bridge {
    /// The store of secrets, about to be called.
    fn secrets(&self) -> Result<&Arc<dyn SecretStore>, SecretError> {
        crate::about_to_call_out();
        self.secrets.as_ref().ok_or(SecretError::NoStore)
    }
}

struct ForeignKey(Arc<dyn Platform>);

impl DeviceKey for ForeignKey {
    fn public_key(&self) -> Result<P256PublicKey, DeviceKeyError> {
        crate::about_to_call_out();
        let bytes = self.0.public_key()?;
        P256PublicKey::from_sec1(&bytes)
            .map_err(|error| DeviceKeyError::Unavailable(error.to_string()))
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, DeviceKeyError> {
        crate::about_to_call_out();
        Ok(self.0.sign(message.to_vec())?)
    }
}
