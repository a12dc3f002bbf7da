//! The platform of programs without an app around them: a key file in the data directory, the system's clock.

use crate::api::{LogLevel, Platform, SecretError};
use pilothouse_wire::identity::{DeviceKey, DeviceKeyError, FileKey};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

/// For terminal clients and the JVM: [`FileKey::FILE`] and secrets in the data directory, system clock and randomness, `tracing`.
pub struct SystemPlatform {
    data_dir: PathBuf,
    key: Mutex<Option<Arc<dyn DeviceKey>>>,
}

impl SystemPlatform {
    /// Keeps its key in this directory, which a core makes when it is opened.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            key: Mutex::new(None),
        }
    }

    /// Readable for its user only, like the key beside it.
    fn secret_file(&self, name: &str) -> PathBuf {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let name: String = name.chars().filter(|&c| plain(c)).collect();
        self.data_dir.join(format!("{name}.secret"))
    }
}

impl Platform for SystemPlatform {
    fn device_key(&self) -> Result<Arc<dyn DeviceKey>, DeviceKeyError> {
        let mut held = crate::delivery::lock(&self.key);
        if let Some(key) = &*held {
            return Ok(key.clone());
        }
        let key: Arc<dyn DeviceKey> = Arc::new(
            FileKey::load_or_create(&self.data_dir.join(FileKey::FILE))
                .map_err(|error| DeviceKeyError::Unavailable(error.to_string()))?,
        );
        *held = Some(key.clone());
        Ok(key)
    }

    fn now_ms(&self) -> u64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn random(&self, buffer: &mut [u8]) {
        #[expect(
            clippy::expect_used,
            reason = "without randomness no command may get an id; every system this runs on has it"
        )]
        getrandom::fill(buffer).expect("the system gives randomness");
    }

    fn secret(&self, name: &str) -> Result<Option<String>, SecretError> {
        match std::fs::read_to_string(self.secret_file(name)) {
            Ok(secret) => Ok(Some(secret)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SecretError::Unavailable(error.to_string())),
        }
    }

    fn keep_secret(&self, name: &str, secret: &str) -> Result<(), SecretError> {
        let file = self.secret_file(name);
        let kept = || {
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&file)?;
            std::io::Write::write_all(&mut file, secret.as_bytes())?;
            file.sync_all()
        };
        kept().map_err(|error| SecretError::Unavailable(error.to_string()))
    }

    fn forget_secret(&self, name: &str) -> Result<(), SecretError> {
        match std::fs::remove_file(self.secret_file(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(SecretError::Unavailable(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn log(&self, level: LogLevel, target: &str, message: &str) {
        match level {
            LogLevel::Error => tracing::error!(part = target, "{message}"),
            LogLevel::Warn => tracing::warn!(part = target, "{message}"),
            LogLevel::Info => tracing::info!(part = target, "{message}"),
            LogLevel::Debug => tracing::debug!(part = target, "{message}"),
        }
    }
}
