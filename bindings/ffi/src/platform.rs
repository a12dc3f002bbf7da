//! What the core needs of the platform, as a foreign trait: the key that never leaves it, and a place for log lines.

use pilothouse_engine::{LogLevel, Platform as EnginePlatform, SystemPlatform};
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

/// A foreign platform as the engine sees it: clock and randomness are the system's everywhere.
pub(crate) struct Bridge {
    foreign: Arc<dyn Platform>,
    system: SystemPlatform,
}

impl Bridge {
    pub(crate) fn new(foreign: Arc<dyn Platform>, data_dir: &str) -> Self {
        Self {
            foreign,
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

    fn log(&self, level: LogLevel, target: &str, message: &str) {
        crate::about_to_call_out();
        self.foreign
            .log(level, target.to_owned(), message.to_owned());
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
