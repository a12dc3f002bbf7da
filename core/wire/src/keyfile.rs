//! Secret files: made complete or not at all, readable by their owner only, never replaced.

use crate::identity::IdentityError;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Tells drafts of one process apart.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// No key file is larger; more is somebody else's file.
const MAX_BYTES: u64 = 64 * 1024;

/// Why a secret file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The operating system refused.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was being done: `reading`, `creating` …
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read or write the file.
    #[error(
        "{path} may be read or changed by others (mode {mode:o}); run `chmod 600` on it if nobody has copied it"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not what it should be. It is left as it is: replacing it would break every pairing.
    #[error(
        "{path} does not hold a usable key ({what}); restore it from a backup, or remove it and pair again"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// The content of `path`, which is made from `content` if it does not exist yet.
pub(crate) fn load_or_create(
    path: &Path,
    content: impl FnOnce() -> Result<String, IdentityError>,
) -> Result<String, IdentityError> {
    match load(path) {
        Err(KeyFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        loaded => return Ok(loaded?),
    }
    create(path, &content()?)?;
    // What stands on disk counts: another process may have been faster.
    Ok(load(path)?)
}

fn load(path: &Path) -> Result<String, KeyFileError> {
    let io = |source| KeyFileError::Io {
        action: "reading",
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(io)?;
    check_mode(path, &file.metadata().map_err(io)?)?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(io)?;
    if text.trim().is_empty() {
        return Err(KeyFileError::Malformed {
            path: path.to_owned(),
            what: "it is empty".to_owned(),
        });
    }
    Ok(text)
}

#[cfg(unix)]
fn check_mode(path: &Path, metadata: &fs::Metadata) -> Result<(), KeyFileError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_mode(_path: &Path, _metadata: &fs::Metadata) -> Result<(), KeyFileError> {
    Ok(())
}

/// Writes a sibling file, syncs it, and gives it its name; a file that has meanwhile got that name stays.
fn create(path: &Path, content: &str) -> Result<(), KeyFileError> {
    let io = |source| KeyFileError::Io {
        action: "creating",
        path: path.to_owned(),
        source,
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(
        ".{}-{}.new",
        std::process::id(),
        DRAFTS.fetch_add(1, Ordering::Relaxed)
    ));
    let draft = path.with_file_name(name);
    let written = write_private(&draft, content).and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Some file systems and Android's policy have no hard links; there, one owner per directory is the guard.
        Err(_) => fs::rename(&draft, path),
        Ok(()) => Ok(()),
    });
    let _ = fs::remove_file(&draft);
    written.map_err(io)?;
    if let Some(parent) = path.parent() {
        // Best effort: not every platform syncs directories.
        let _ = File::open(parent).and_then(|directory| directory.sync_all());
    }
    Ok(())
}

fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}
