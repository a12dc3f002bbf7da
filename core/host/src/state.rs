//! The state directory: the host's key, its ledger, its lock, its control socket.
//!
//! Readable by its owner only. One daemon holds it at a time; the second is told which process has it.

use pilothouse_domain::{HostId, MintedId, hash};
use pilothouse_wire::identity::{HostIdentity, IdentityError};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

const LOCK: &str = "daemon.lock";

/// A held lock is tried again for a quarter of a second.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const NOTES: &str = "host.json";

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// No place for it.
    #[error("neither XDG_STATE_HOME nor HOME is set; name a directory with --state")]
    NoHome,
    /// The system refused.
    #[error("{action} {path}: {source}; {}", next_step(source))]
    Io {
        /// What was being done.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another daemon has it.
    #[error(
        "{} is in use by another `pilothouse host`{}; stop that one, or use another --state",
        path.display(),
        match pid { Some(pid) => format!(" (process {pid})"), None => String::new() }
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other daemon, if it has said so.
        pid: Option<u32>,
    },
    /// The host's key cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

fn next_step(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only: use another --state, or mount it writable"
        }
        io::ErrorKind::PermissionDenied => {
            "its owner has to give this user access, or use another --state"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space on its disk",
        io::ErrorKind::NotADirectory => {
            "a file stands where a directory is needed; use another --state"
        }
        _ => "check the directory, or use another --state",
    }
}

/// Where the state directory is, opened or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePath(PathBuf);

impl StatePath {
    /// The one named, else `$XDG_STATE_HOME/pilothouse`, else `~/.local/state/pilothouse`.
    ///
    /// # Errors
    /// [`StateError::NoHome`].
    pub fn choose(named: Option<&Path>) -> Result<Self, StateError> {
        if let Some(path) = named {
            return Ok(Self(
                std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            ));
        }
        let base =
            absolute_variable("XDG_STATE_HOME").or_else(|| Some(home()?.join(".local/state")));
        base.map(|base| Self(base.join("pilothouse")))
            .ok_or(StateError::NoHome)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// The socket on which a running daemon is asked.
    pub fn control_socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// Where agents' pid files are.
    pub fn pids(&self) -> PathBuf {
        self.0.join("pids")
    }

    /// The process of the daemon that holds the directory; 0 if it has not said so. `None` if nobody does.
    ///
    /// # Errors
    /// What the system says if the lock cannot be looked at.
    pub fn holder(&self) -> io::Result<Option<u32>> {
        let mut file = match File::open(self.0.join(LOCK)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                Ok(Some(text.trim().parse().unwrap_or_default()))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// What the host remembers outside its ledger. Nothing, if there is no file or it does not read.
    pub fn notes(&self) -> Notes {
        let text = fs::read(self.0.join(NOTES)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

/// This user's home, if it is set and absolute.
pub fn home() -> Option<PathBuf> {
    absolute_variable("HOME")
}

/// The configuration used unless one is named: `$XDG_CONFIG_HOME/pilothouse/host.toml`, else under `~/.config`.
pub fn default_config_file() -> Option<PathBuf> {
    let base = absolute_variable("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")));
    base.map(|base| base.join("pilothouse/host.toml"))
}

fn absolute_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

/// What the host remembers outside its ledger: all of it can be found again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// Whether `pair` was ever run: from then on the host listens on all interfaces.
    pub paired_once: bool,
    /// Where agents were found, by family: a daemon started by the system has a shorter `PATH` than its person's shell.
    pub agents: BTreeMap<String, PathBuf>,
}

/// A state directory that this process holds.
#[derive(Debug)]
pub struct StateDir {
    path: StatePath,
    /// Keeps the lock.
    _lock: File,
}

impl StateDir {
    /// Makes the directory if need be, checks that it can be written, and locks it.
    ///
    /// # Errors
    /// [`StateError`] naming the directory, the reason and what to do.
    pub fn open(path: StatePath) -> Result<Self, StateError> {
        let dir = path.dir();
        let failed = |action, at: &Path| {
            let path = at.to_owned();
            move |source| StateError::Io {
                action,
                path,
                source,
            }
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(failed("cannot create the state directory", dir))?;
        let mode = fs::metadata(dir)
            .map_err(failed("cannot read", dir))?
            .permissions()
            .mode()
            & 0o777;
        if mode != 0o700 {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
                .map_err(failed("cannot make private (0700)", dir))?;
        }
        let lock = Self::lock(dir)?;
        let pids = path.pids();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&pids)
            .map_err(failed("cannot create", &pids))?;
        Ok(Self { path, _lock: lock })
    }

    fn lock(dir: &Path) -> Result<File, StateError> {
        let path = dir.join(LOCK);
        let failed = |source| StateError::Io {
            action: "cannot write the lock",
            path: path.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        // Whoever only asks who holds it (`holder`) has it for a moment.
        let mut locked = file.try_lock();
        for _ in 0..LOCK_TRIES {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            std::thread::sleep(LOCK_PAUSE);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Err(StateError::InUse {
                    path: dir.to_owned(),
                    pid: text.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &StatePath {
        &self.path
    }

    /// The host's key, made at the first start.
    ///
    /// # Errors
    /// [`StateError::Identity`].
    pub fn identity(&self) -> Result<HostIdentity, StateError> {
        Ok(HostIdentity::load_or_create(
            &self.path.dir().join(HostIdentity::FILE),
        )?)
    }

    /// Changes what is remembered; complete or not at all.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn change_notes(&self, change: impl FnOnce(&mut Notes)) -> Result<(), StateError> {
        let before = self.path.notes();
        let mut notes = before.clone();
        change(&mut notes);
        if notes == before {
            return Ok(());
        }
        let path = self.path.dir().join(NOTES);
        let draft = self.path.dir().join("host.json.new");
        let failed = |source| StateError::Io {
            action: "cannot write",
            path: path.clone(),
            source,
        };
        let text = serde_json::to_vec_pretty(&notes).map_err(|error| failed(error.into()))?;
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)
            .map_err(failed)?;
        file.write_all(&text)
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        fs::rename(&draft, &path).map_err(failed)
    }
}

/// The host's id: made from its key, because a host is its key.
pub fn host_id(identity: &HostIdentity) -> HostId {
    HostId::from_minted(hash::id_bytes(&[
        b"host",
        identity.spki_sha256().as_bytes(),
    ]))
}
